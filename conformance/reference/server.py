"""One broker on its ports: timers, signals, turns of the loop. `disk`, `sockets` and `pair` know asyncio too."""

from __future__ import annotations

import asyncio
import collections
import gc
import itertools
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.errors import LaunchError
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.disk import JournalThread
from conformance.reference.honest import Honest
from conformance.reference.mqtt.sessions import MqttSessions
from conformance.reference.pair.active import Replication
from conformance.reference.pair.members import PairOptions, SharedFolder
from conformance.reference.pair.standby import Standby
from conformance.reference.profiles import STANDARD, Profile
from conformance.reference.security import OPEN, Guard, ServerTls, context
from conformance.reference.settings import QueueOptions, Settings
from conformance.reference.sockets import (
    REFUSED_AT_ONCE,
    Amqp091Protocol,
    AmqpProtocol,
    HttpProtocol,
    MqttProtocol,
    PeerProtocol,
    StompProtocol,
)
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import CorruptJournal, Recovered, loading, recover

if TYPE_CHECKING:
    import ssl

HOST = "127.0.0.1"

SPARE_FILES = 64
"""Descriptors that no connection takes: the journal's, the listening ports', and those that are on their way out."""

BACKLOG = 1024
"""Connections that wait to be accepted, so that a storm of them leaves room for others."""

HTTP_BACKLOG = 64
"""Connections to the HTTP port that wait to be accepted: each takes a file before it can be dropped."""

RESERVE = "reserve"
"""The file that a used data directory has beside its journal: see `SegmentFiles`."""

COLLECTED_AFTER = 50_000
"""New objects after which the collector looks for cycles: a message is in none, and has ten; a connection is in some.

With Python's own 700 it takes a sixth of the processor at full load, with 5,000 a tenth of what is left.
"""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a broker is started. The system chooses a port of 0; a protocol with port None is off.

    The ports of `amqps`, `amqps091`, `stomps` and `mqtts` need `tls`.
    """

    amqp_port: int
    http_port: int
    stomp_port: int | None
    data: Path
    queues: Mapping[str, QueueOptions]
    settings: Settings
    behaviour: Honest
    amqp091_port: int | None = None
    mqtt_port: int | None = None
    amqps_port: int | None = None
    amqps091_port: int | None = None
    stomps_port: int | None = None
    mqtts_port: int | None = None
    tls: ServerTls | None = None
    guard: Guard = OPEN
    profile: Profile = STANDARD
    listen: str = HOST


async def serve(wanted: ServerOptions, pair: PairOptions | None = None) -> None:
    """Serves until SIGTERM or SIGINT, a member of a `pair` once it may. Raises `LaunchError` before the ready line."""
    gc.set_threshold(COLLECTED_AFTER, 10, 10)
    remembered = max(each.duplicate_ids for each in (wanted.settings, *wanted.queues.values()))
    standby = None
    if pair is not None:
        standby = Standby(pair, SharedFolder(pair.folder), wanted.data, wanted.behaviour, remembered)
        if not await standby.wait():
            return
    files = SegmentFiles(wanted.data, wanted.behaviour)
    with loading():
        try:
            segments = files.read()
            recovered = recover(segments, wanted.behaviour.damaged)
            notice = _notice(recovered, begun=bool(segments) or (wanted.data / RESERVE).exists())
            if notice and wanted.behaviour.damaged != "skipped":
                print(f"data directory {wanted.data}: {notice}", file=sys.stderr, flush=True)
            files.repair(recovered)
        except (CorruptJournal, OSError) as error:
            raise LaunchError(f"data directory {wanted.data}: {error}") from error
        if not wanted.behaviour.starts_with(held := len(recovered.messages)):
            raise LaunchError(f"data directory {wanted.data}: a journal with {held:,} messages is not taken over")
        journal = Journal(recovered, identities=remembered)
        behaviour = wanted.behaviour
        commit = GroupCommit(
            journal, behaviour.copied, behaviour.copies_late_s, refuses_unstored=behaviour.refuses_unstored
        )
        broker = ReferenceBroker(
            wanted.settings, wanted.behaviour, commit, recovered, wanted.queues, time.time, wanted.profile
        )
        recovered.messages.clear()  # the broker has them: kept here as well, they would outlive their removal
    server = Server(broker, commit, files, wanted.settings.journal_buffer_ms / 1000)
    broker.surroundings = lambda: {"connections": len(server.connections), "journal_segments": len(journal.segments)}
    await server.run(wanted, standby)


class Server:
    """One broker on its ports.

    All that happens in one turn of the loop is answered together: `schedule` asks for one `_turn`, which dispatches,
    starts the disk if it is idle, and flushes every connection that has something to say.
    """

    def __init__(
        self, broker: ReferenceBroker, commit: GroupCommit, files: SegmentFiles, buffer_seconds: float
    ) -> None:
        self.broker = broker
        self.loop = asyncio.get_running_loop()
        self.connections: set[PeerProtocol] = set()
        self.dirty: set[PeerProtocol] = set()
        self.receipts = itertools.count(1)
        self.sessions = MqttSessions(broker, self._later)
        self.guard = OPEN
        spare = SPARE_FILES + REFUSED_AT_ONCE + broker.settings.max_http_connections + HTTP_BACKLOG
        self.max_connections = min(broker.settings.max_connections, _descriptors() - spare)
        self.asking: set[HttpProtocol] = set()
        self._questions: collections.deque[HttpProtocol] = collections.deque()
        self._disk = JournalThread(commit, files, buffer_seconds, self.schedule)
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None

    async def run(self, wanted: ServerOptions, standby: Standby | None = None) -> None:
        """Listen, print the ready line, and serve until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.loop.add_signal_handler(number, stop.set)
        self.guard = wanted.guard
        replication = None
        if standby is not None:
            replication = Replication(standby.options, standby.folder, standby.behaviour, self._disk)
        secure = context(wanted.tls) if wanted.tls is not None else None
        ports: dict[str, tuple[Callable[[], asyncio.Protocol], int | None, ssl.SSLContext | None]] = {
            "amqp": (lambda: AmqpProtocol(self), wanted.amqp_port, None),
            "amqps": (lambda: AmqpProtocol(self), wanted.amqps_port, secure),
            "amqp091": (lambda: Amqp091Protocol(self), wanted.amqp091_port, None),
            "amqps091": (lambda: Amqp091Protocol(self), wanted.amqps091_port, secure),
            "stomp": (lambda: StompProtocol(self), wanted.stomp_port, None),
            "stomps": (lambda: StompProtocol(self), wanted.stomps_port, secure),
            "mqtt": (lambda: MqttProtocol(self), wanted.mqtt_port, None),
            "mqtts": (lambda: MqttProtocol(self), wanted.mqtts_port, secure),
            "http": (lambda: HttpProtocol(self), wanted.http_port, None),
        }
        try:
            servers = {
                name: await self.loop.create_server(
                    make, wanted.listen, port, ssl=protected, backlog=HTTP_BACKLOG if name == "http" else BACKLOG
                )
                for name, (make, port, protected) in ports.items()
                if port is not None
            }
        except OSError as error:
            raise LaunchError(f"cannot listen on {wanted.listen}: {error.strerror}") from error
        self._listens(servers.values())
        if replication is not None:
            await replication.start()
        await self._disk.settle()
        places = [f"{name}={wanted.listen}:{each.sockets[0].getsockname()[1]}" for name, each in servers.items()]
        print("ready", *places, flush=True)
        await stop.wait()
        for each in servers.values():
            each.close()
        await self._stop()

    def _listens(self, servers: Iterable[asyncio.Server]) -> None:
        """Say what becomes of the sockets that listen, when one cannot accept: asyncio tries again a second later."""

        def unable(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if isinstance(context.get("exception"), OSError) and not self.broker.behaviour.accepts_again:
                for server in servers:
                    server.close()
            loop.default_exception_handler(context)

        self.loop.set_exception_handler(unable)

    def schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._turn)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        def called() -> None:
            call()
            self.schedule()

        self.loop.call_later(seconds, called)

    def question(self, asked: HttpProtocol) -> None:
        """A connection has a request to be answered: one at a time, and between two of them all others have a turn."""
        self._questions.append(asked)
        if len(self._questions) == 1:
            self.loop.call_soon(self._answer)

    def _answer(self) -> None:
        asked = self._questions[0]
        try:
            asked.answer()
        finally:
            self._questions.popleft()
            if self._questions:
                self.loop.call_soon(self._answer)

    def _turn(self) -> None:
        self._scheduled = False
        self.broker.dispatch()
        self._set_timer()
        self._disk.start()
        dirty, self.dirty = self.dirty, set()
        try:
            while dirty:
                dirty.pop().flush()
        finally:
            if dirty:  # What went wrong with one connection is not to silence the others.
                self.dirty |= dirty
                self.schedule()

    def _set_timer(self) -> None:
        """Ask for one `_turn` when the next message expires or may be delivered; that is measured by the wall clock."""
        due = self.broker.next_time()
        if due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = None if due is None else self.loop.call_later(max(0.0, due - time.time()), self._came_due)

    def _came_due(self) -> None:
        self._timer = self._timer_at = None
        self.schedule()

    async def _stop(self) -> None:
        """Answer the operations under way, close every connection, and close the journal."""
        await self._disk.settle()
        self.broker.stopping = True
        for protocol in list(self.connections):
            protocol.stop()
        await self._disk.settle()
        await self._disk.close()


def _notice(recovered: Recovered, *, begun: bool) -> str:
    """The warning about the journal; empty for a new directory, and after a clean stop."""
    if not recovered.segment and not recovered.stale:
        return "the directory was used before, and has no journal" if begun else ""
    return recovered.notice()


def _descriptors() -> int:
    """Raise the limit of open files as far as the system allows, and return it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
