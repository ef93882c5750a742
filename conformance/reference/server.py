"""The only module that knows asyncio: sockets, the disk's thread, timers and signals."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conformance.errors import LaunchError
from conformance.reference import amqp, stomp
from conformance.reference.broker import Broker
from conformance.reference.commit import Batch, Done, GroupCommit
from conformance.reference.depth import Asked
from conformance.reference.files import SegmentFiles
from conformance.reference.honest import LATE_S, Honest
from conformance.reference.journal import CorruptJournal, Journal, recover
from conformance.reference.settings import Settings

HOST = "127.0.0.1"
DISK_ERROR = 74
"""Exit code after a failed write or sync (EX_IOERR): what was not confirmed never will be."""

LINGER = 2.0
"""Seconds in which a peer can read why it was dismissed (STOMP 1.2, Connection Lingering)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a broker is started with; a port of 0 is chosen by the system, without a STOMP port nobody listens there."""

    amqp_port: int
    http_port: int
    stomp_port: int | None
    data: Path
    queues: Sequence[str]
    settings: Settings
    behaviour: Honest


async def serve(wanted: Wanted) -> None:
    """Serves until SIGTERM or SIGINT. Raises `LaunchError` before the ready line, never after it."""
    files = SegmentFiles(wanted.data, wanted.behaviour)
    try:
        recovered = recover(files.read())
        files.repair(recovered)
    except (CorruptJournal, OSError) as error:
        raise LaunchError(str(error)) from error
    commit = GroupCommit(Journal(recovered))
    broker = Broker(wanted.settings, wanted.behaviour, commit, recovered)
    for name in wanted.queues:
        broker.queue(name)
    server = Server(broker, commit, files, wanted.settings.journal_buffer_ms / 1000)
    await server.run(wanted)


class Server:
    """One broker on its ports.

    All that happens in one turn of the loop is answered together: `schedule` asks for one `_turn`, which dispatches,
    starts the disk if it is idle, and flushes every connection that has something to say.
    """

    def __init__(self, broker: Broker, commit: GroupCommit, files: SegmentFiles, buffer_seconds: float) -> None:
        self.broker = broker
        self.loop = asyncio.get_running_loop()
        self.connections: set[PeerProtocol] = set()
        self.dirty: set[PeerProtocol] = set()
        self.receipts = itertools.count(1)
        self._commit = commit
        self._files = files
        self._buffer_seconds = buffer_seconds
        self._disk = ThreadPoolExecutor(1, "journal")
        self._scheduled = False
        self._early_due = False
        self._early_timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()

    async def run(self, wanted: Wanted) -> None:
        """Listens, says so, and serves until it is told to stop."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, stop.set)
        ports: dict[str, tuple[Callable[[], asyncio.Protocol], int]] = {
            "amqp": (lambda: AmqpProtocol(self), wanted.amqp_port)
        }
        if wanted.stomp_port is not None:
            ports["stomp"] = (lambda: StompProtocol(self), wanted.stomp_port)
        ports["http"] = (lambda: HttpProtocol(self.broker), wanted.http_port)
        try:
            servers = {name: await self.loop.create_server(make, HOST, port) for name, (make, port) in ports.items()}
        except OSError as error:
            raise LaunchError(f"cannot listen on {HOST}: {error.strerror}") from error
        await self._settle()
        places = [f"{name}={HOST}:{each.sockets[0].getsockname()[1]}" for name, each in servers.items()]
        print("ready", *places, flush=True)
        await stop.wait()
        for each in servers.values():
            each.close()
        await self._stop()

    def schedule(self) -> None:
        """One `_turn` soon, however often it is asked for."""
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self.broker.dispatch()
        self._start_disk()
        dirty, self.dirty = self.dirty, set()
        for protocol in dirty:
            protocol.flush()

    def _start_disk(self) -> None:
        for call in self._commit.postponed():
            self.loop.call_later(LATE_S, self._is_due, call)
        if self._commit.has_early and self._early_timer is None and not self._early_due:
            self._early_timer = self.loop.call_later(self._buffer_seconds, self._early_is_due)
        if self._commit.busy or not (self._commit.has_waiting or self._early_due):
            return
        self._idle.clear()
        early, self._early_due = self._early_due, False
        self._submit(self._commit.take(early=early))

    def _submit(self, batch: Batch) -> None:
        if not (batch.writes or batch.unneeded or batch.sync):
            self._stored()
            return
        future = self._disk.submit(self._files.store, batch)
        future.add_done_callback(lambda done: self.loop.call_soon_threadsafe(self._stored, done.exception()))

    def _stored(self, error: BaseException | None = None) -> None:
        if error is not None:
            # After a failed sync the kernel may have dropped the pages: no later sync can be believed.
            print(f"stopped: the journal could not be written: {error}", file=sys.stderr, flush=True)
            os._exit(DISK_ERROR)
        self._commit.finished()
        self._idle.set()
        self.schedule()

    def _is_due(self, postponed: Done) -> None:
        postponed()
        self.schedule()

    def _early_is_due(self) -> None:
        self._early_timer = None
        self._early_due = True
        self.schedule()

    async def _settle(self) -> None:
        """Until nothing waits for the disk."""
        self._start_disk()
        while self._commit.busy or self._commit.has_waiting:
            self._idle.clear()
            await self._idle.wait()
            self._start_disk()

    async def _stop(self) -> None:
        """Answers what is under way, says good-bye, and leaves a closed journal."""
        await self._settle()
        for protocol in list(self.connections):
            protocol.stop()
        await self._settle()
        if self._early_timer is not None:
            self._early_timer.cancel()
        self._submit(self._commit.take_last())
        await self._settle()
        self._disk.shutdown()
        self._files.close()


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

    def __init__(self, server: Server) -> None:
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

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._connection: amqp.Connection = amqp.Connection(server.broker, self._wake, self._later)

    def _dismiss(self, reason: str) -> None:
        self._connection.close(amqp.FORCED, reason)


class StompProtocol(PeerProtocol):
    """A socket that speaks STOMP, which has no credit: the socket itself is what holds either side back."""

    def __init__(self, server: Server) -> None:
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
