"""One broker on its ports: timers, signals, turns of the loop. `disk` and `sockets` know asyncio too, no others do."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import LaunchError
from conformance.reference.core.broker import Broker
from conformance.reference.disk import Disk
from conformance.reference.honest import Honest
from conformance.reference.settings import Settings
from conformance.reference.sockets import AmqpProtocol, HttpProtocol, PeerProtocol, StompProtocol
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.journal import CorruptJournal, Journal, recover

HOST = "127.0.0.1"


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
        self._disk = Disk(commit, files, buffer_seconds, self.schedule)
        self._scheduled = False

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
        await self._disk.settle()
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
        self._disk.start()
        dirty, self.dirty = self.dirty, set()
        for protocol in dirty:
            protocol.flush()

    async def _stop(self) -> None:
        """Answers what is under way, says good-bye, and leaves a closed journal."""
        await self._disk.settle()
        for protocol in list(self.connections):
            protocol.stop()
        await self._disk.settle()
        await self._disk.close()
