"""Sockets: an asyncio protocol for each protocol, around a connection that knows no sockets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import Protocol

from conformance.reference import security
from conformance.reference.amqp import connection as amqp
from conformance.reference.amqp091 import connection as amqp091
from conformance.reference.core.admission import LIMIT, Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.depth import DepthConnection
from conformance.reference.mqtt import connection as mqtt
from conformance.reference.mqtt.sessions import MqttSessions
from conformance.reference.peers import MAX_UNSENT
from conformance.reference.security import OPEN, Guard
from conformance.reference.stomp import connection as stomp

LINGER = 2.0
"""Seconds in which a peer can read why it was dismissed (STOMP 1.2, Connection Lingering)."""

REFUSED_AT_ONCE = 100
"""Connections over the limit that get an answer. More than these are dropped at once, because each takes a file."""


HTTP_IDLE_S = 30.0
"""Seconds after its last answer in which a peer of the HTTP port asks again; it takes one of few places."""


class Host(Protocol):
    """What a socket needs of the server; `dirty` are those with something to say at the next turn of the loop."""

    broker: ReferenceBroker
    loop: asyncio.AbstractEventLoop
    connections: set[PeerProtocol]
    dirty: set[PeerProtocol]
    asking: set[HttpProtocol]
    receipts: itertools.count[int]
    sessions: MqttSessions
    guard: Guard
    max_connections: int

    def schedule(self) -> None:
        """One turn soon, however often it is asked for."""

    def question(self, asked: HttpProtocol) -> None:
        """Its `answer` is called once, in a turn of its own."""


Speaker = amqp.AmqpConnection | amqp091.Amqp091ServerConnection | stomp.StompConnection | mqtt.MqttServerConnection
"""The connection of a protocol."""


class PeerProtocol(asyncio.Protocol):
    """A socket and the connection that speaks for it. Flow control works through the socket, in both directions."""

    _connection: Speaker

    def __init__(self, server: Host) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._lingers = False
        self._turns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected. One over the limit gets an error; of many such the rest are dropped."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=MAX_UNSENT)
        connections, most = self._server.connections, self._server.max_connections
        connections.add(self)
        self._connection = self._speaker(len(connections) > most)
        self._wake()
        if len(connections) > most + REFUSED_AT_ONCE:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._connection.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed.

        The two forget each other here, so that their memory is freed: as a cycle they would wait for the collector,
        which looks after 50,000 objects (measured: 8 MB of what 4,000 peers had left).
        """
        self._server.connections.discard(self)
        self._connection.lost()
        self._server.dirty.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._lingers = True  # what is still owed to it is not said any more
        del self._connection, self._transport
        self._server.schedule()

    def pause_writing(self) -> None:
        self._connection.pause()
        self._wake()

    def resume_writing(self) -> None:
        self._connection.resume()

    def flush(self) -> None:
        """Sends what the connection has to say, and reads the peer only while disk and peer keep up with it."""
        if self._lingers:
            return
        self._tick()
        data = self._connection.output()
        if data:
            self._turns += 1
            self._transport.write(self._server.broker.behaviour.written(self._turns, data))
        if self._connection.closed:
            self._finish()
        elif self._connection.choked:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def stop(self) -> None:
        """Says that the broker is being stopped, and gives back what the peer holds while it can still be stored."""
        self._dismiss("the broker is being stopped")
        self.flush()
        self._connection.lost()
        self._transport.close()

    def _speaker(self, refused: bool) -> Speaker:
        """Make the connection; if `refused`, one that only sends the error that there are too many."""
        raise NotImplementedError

    def _dismiss(self, reason: str) -> None:
        raise NotImplementedError

    @property
    def _subject(self) -> str | None:
        """The subject of the peer's certificate; None without one."""
        return security.subject(self._transport.get_extra_info("peercert"))

    @property
    def _too_many(self) -> str:
        return f"the broker has {self._server.max_connections} connections"

    def _finish(self) -> None:
        """Waits for the peer to close: a socket that is closed with unread bytes takes the last word from the wire."""
        self._lingers = True
        self._transport.resume_reading()
        if self._transport.is_closing() or not self._transport.can_write_eof():
            self._transport.close()
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._server.loop.call_later(LINGER, self._transport.abort)
        with contextlib.suppress(OSError):  # The peer has closed it already.
            self._transport.write_eof()

    def _tick(self) -> None:
        deadline = self._connection.tick(self._server.loop.time())
        if deadline is None or (self._timer is not None and self._timer.when() <= deadline):
            return  # A timer that is early asks again.
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._server.loop.call_at(deadline, self._due)

    def _due(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        self._server.dirty.add(self)
        self._server.schedule()

    def _later(self, seconds: float, call: Callable[[], None]) -> object:
        return self._server.loop.call_later(seconds, call)


class AmqpProtocol(PeerProtocol):
    """A socket that speaks AMQP."""

    _connection: amqp.AmqpConnection

    def _speaker(self, refused: bool) -> amqp.AmqpConnection:
        refusal = Refusal(LIMIT, self._too_many) if refused else None
        host = self._server
        return amqp.AmqpConnection(host.broker, self._wake, self._later, host.guard, self._subject, refusal)

    def _dismiss(self, reason: str) -> None:
        self._connection.close(amqp.FORCED, reason)


class Amqp091Protocol(PeerProtocol):
    """A socket that speaks AMQP 0-9-1."""

    _connection: amqp091.Amqp091ServerConnection

    def _speaker(self, refused: bool) -> amqp091.Amqp091ServerConnection:
        host = self._server
        made = amqp091.Amqp091ServerConnection(
            host.broker, self._wake, host.receipts, self._later, host.guard, self._subject
        )
        if refused:
            made.dismissal = self._too_many
        return made

    def _dismiss(self, reason: str) -> None:
        self._connection.close(reason)


class StompProtocol(PeerProtocol):
    """A socket that speaks STOMP."""

    _connection: stomp.StompConnection

    def _speaker(self, refused: bool) -> stomp.StompConnection:
        host = self._server
        guard = OPEN if self._subject else host.guard
        made = stomp.StompConnection(host.broker, self._wake, host.receipts, self._later, guard)
        if refused:
            made.close(self._too_many)
        return made

    def _dismiss(self, reason: str) -> None:
        self._connection.close(reason)


class MqttProtocol(PeerProtocol):
    """A socket that speaks MQTT."""

    _connection: mqtt.MqttServerConnection

    def _speaker(self, refused: bool) -> mqtt.MqttServerConnection:
        host = self._server
        guard = OPEN if self._subject else host.guard
        made = mqtt.MqttServerConnection(host.broker, self._wake, host.sessions, host.receipts, self._later, guard)
        if refused:
            made.dismissal = self._too_many
        return made

    def _dismiss(self, reason: str) -> None:
        self._connection.close(reason)


class HttpProtocol(asyncio.Protocol):
    """A socket that asks for depths. It is read, and answered, one request at a time."""

    def __init__(self, server: Host) -> None:
        self._server = server
        self._asked = DepthConnection(server.broker, may_delete=server.guard == OPEN)
        self._due = self._paused = self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected. One too many is dropped."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._idle = self._server.loop.call_later(HTTP_IDLE_S, transport.abort)
        self._server.asking.add(self)
        if len(self._server.asking) > self._server.broker.settings.max_http_connections:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._asked.receive(data)
        self._go_on()

    def eof_received(self) -> bool:
        """The peer asks for no more, and may wait for its answers."""
        self._over = True
        return self._due

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.asking.discard(self)
        self._idle.cancel()
        self._asked.closed = True

    def answer(self) -> None:
        self._due = False
        if not self._transport.is_closing():
            self._transport.write(self._asked.answer())
            self._server.schedule()  # a queue that was removed is removed on the disk as well
            self._idle.cancel()
            self._idle = self._server.loop.call_later(HTTP_IDLE_S, self._transport.abort)
        self._go_on()

    def _go_on(self) -> None:
        if self._due or self._paused:
            return
        self._due = self._asked.complete
        if self._due:
            self._transport.pause_reading()
            self._server.question(self)
        elif self._asked.closed or self._over:
            self._transport.close()
        else:
            self._transport.resume_reading()
