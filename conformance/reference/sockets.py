"""Sockets: an asyncio protocol for each of AMQP, STOMP and HTTP, around a connection that knows no sockets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Protocol

from conformance.reference.amqp import connection as amqp
from conformance.reference.core.broker import Broker
from conformance.reference.depth import Asked
from conformance.reference.stomp import connection as stomp

LINGER = 2.0
"""Seconds in which a peer can read why it was dismissed (STOMP 1.2, Connection Lingering)."""


class Host(Protocol):
    """What a socket needs of the server; `dirty` are those with something to say at the next turn of the loop."""

    broker: Broker
    loop: asyncio.AbstractEventLoop
    connections: set[PeerProtocol]
    dirty: set[PeerProtocol]
    receipts: itertools.count[int]

    def schedule(self) -> None:
        """One turn soon, however often it is asked for."""


class Speaker(Protocol):
    """A connection of either protocol: bytes in, bytes out."""

    def receive(self, data: bytes) -> None:
        """Bytes from the peer."""

    def output(self) -> bytes:
        """The bytes that are now to be sent to the peer, in order."""

    def tick(self, now: float) -> float | None:
        """Keeps time: `now` in seconds; when to be called again, None for never."""

    @property
    def closed(self) -> bool:
        """Whether nothing more will be sent, so that the socket may be closed."""

    def lost(self) -> None:
        """The socket is gone."""


class PeerProtocol(asyncio.Protocol):
    """A socket and its connection, whatever that speaks."""

    _connection: Speaker

    def __init__(self, server: Host) -> None:
        self._server = server
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: the peer has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes have come."""
        self._connection.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the socket is gone, for whatever reason."""
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._connection.lost()
        self._server.schedule()

    def flush(self) -> None:
        """Sends what the connection has to say."""
        self._tick()
        data = self._connection.output()
        if data:
            self._transport.write(data)
        if self._connection.closed:
            self._finish()

    def stop(self) -> None:
        """Says that the broker is being stopped, and gives back what the peer holds while it can still be stored."""
        self._dismiss("the broker is being stopped")
        self.flush()
        self._connection.lost()
        self._transport.close()

    def _dismiss(self, reason: str) -> None:
        """Closes the connection from our side."""
        raise NotImplementedError

    def _finish(self) -> None:
        """All is said."""
        self._transport.close()

    def _tick(self) -> None:
        deadline = self._connection.tick(self._server.loop.time())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = self._server.loop.call_at(deadline, self._wake)

    def _wake(self) -> None:
        self._server.dirty.add(self)
        self._server.schedule()

    def _later(self, seconds: float, call: Callable[[], None]) -> object:
        return self._server.loop.call_later(seconds, call)


class AmqpProtocol(PeerProtocol):
    """A socket that speaks AMQP."""

    def __init__(self, server: Host) -> None:
        super().__init__(server)
        self._connection: amqp.Connection = amqp.Connection(server.broker, self._wake, self._later)

    def _dismiss(self, reason: str) -> None:
        self._connection.close(amqp.FORCED, reason)


class StompProtocol(PeerProtocol):
    """A socket that speaks STOMP, which has no credit: the socket itself is what holds either side back."""

    def __init__(self, server: Host) -> None:
        super().__init__(server)
        self._connection: stomp.Connection = stomp.Connection(server.broker, self._wake, server.receipts)
        self._lingers = False

    def flush(self) -> None:
        """Sends what the connection has to say, and reads the peer only while the disk keeps up with it."""
        super().flush()
        if self._connection.choked:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """asyncio's: the peer does not read."""
        self._connection.pause()

    def resume_writing(self) -> None:
        """asyncio's: the peer reads again."""
        self._connection.resume()

    def _dismiss(self, reason: str) -> None:
        self._connection.close(reason)

    def _finish(self) -> None:
        """Waits for the peer to close: a socket that is closed with unread bytes takes the ERROR back from the wire."""
        if not self._lingers and not self._transport.is_closing():
            self._lingers = True
            self._transport.write_eof()
            self._later(LINGER, self._transport.abort)


class HttpProtocol(asyncio.Protocol):
    """A socket that asks for depths."""

    def __init__(self, broker: Broker) -> None:
        self._asked = Asked(broker)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: the peer has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio's: bytes have come."""
        self._transport.write(self._asked.receive(data))
        if self._asked.closed:
            self._transport.close()
