"""The bundled broker beside others that speak the same protocol: the same client, disk and moment.

Persistent messages of 1 KiB. Rounds are interleaved, the first one (a cold JVM) is not counted, figures are medians.
Over AMQP two clients send: proton's `Container`, which is what its users have, and a lean one on proton's engine, which
leaves more of the machine to the broker and shows more of it. Over AMQP 0-9-1 and MQTT the suite's own client sends.
`CONFORMANCE_BENCH_FULL=1` passes a million messages through a queue and takes more rounds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import httpx

from benchmarks import broker_proton, sessions
from benchmarks import broker_sites as sites
from benchmarks import broker_wire as wire
from benchmarks.broker_sites import OVER_MQTT, QUEUE, Peer, Site
from conformance.clients.job import Connection, Dialect, Job, Work
from conformance.clients.roles.modes import AckHeader
from conformance.history import bare_header
from conformance.ledger import Ledger
from conformance.protocols.amqp.sessions.session import AmqpSession
from conformance.scenario.script import Drain

_HOST = "127.0.0.1"
_GROUP = 100
"""Acknowledgements of one commit: a way to have them confirmed that every broker here has."""

_RECEIVE = f"AMQP receive, {_GROUP} acks a commit"
_DEPTH = 1000
_CONTAINER = "proton's Container"
_LEAN = "the lean client"
_SUITE = "the suite's client"
_PIPELINED_TARGET = 0.5
_TARGETS = {"amqp091": {"rabbitmq": 1.0}, "mqtt": {"mosquitto": 1.0}}

_QUEUED = "amqp091"
"""The protocol by which a broker without AMQP 1.0 is emptied between two rounds."""

_CALLS = ("pwrite64", "fdatasync", "recvfrom", "sendto", "epoll_wait", "futex")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Messages of each part: `blocking` of a round at window 1, `pipelined` at others, `stored` before a SIGKILL.

    proton's `Container` sends a third of the pipelined, and so does the suite's client over MQTT. `passed`
    go through a queue of depth 1,000; `starts` on empty data; `others`: brokers besides the bundled one.
    """

    rounds: int = 3
    blocking: int = 400
    pipelined: int = 6_000
    stored: int = 100_000
    passed: int = 30_000
    starts: int = 5
    others: bool = True


FULL = Sizes(rounds=5, blocking=1_000, pipelined=20_000, passed=1_000_000)


@dataclasses.dataclass
class Figures:
    """Of one broker in one phase: messages a second in each round, and CPU seconds a message on either side."""

    rates: list[float] = dataclasses.field(default_factory=list)
    broker_us: list[float] = dataclasses.field(default_factory=list)
    client_us: list[float] = dataclasses.field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median; 0 where nothing was measured."""
        return statistics.median(self.rates) if self.rates else 0.0


def broker(sizes: Sizes | None = None) -> Iterator[str]:
    sizes = sizes or (FULL if os.environ.get("CONFORMANCE_BENCH_FULL") else Sizes())
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        ledger = stack.enter_context(Ledger(folder, f"bench-broker-{os.getpid()}"))
        yield f"broker: load average {_load()} before, {os.cpu_count()} cores; data in {folder}"
        yield from _starts(folder, ledger, sizes)
        found = stack.enter_context(sites.sites(folder, ledger, others=sizes.others))
        for site in found:
            yield f"broker: {site.about}: empty data to ready {site.start():.2f} s"
            if "mqtt" in site.speaks:
                sessions.drain("mqtt", site.port("mqtt"), OVER_MQTT)  # the session that is to get the messages
        yield from _rates(found, ledger, sizes)
        yield from _recovery(found, sizes)
        stack.pop_all().close()
        yield f"broker: load average {_load()} after them"
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as name:
        folder = pathlib.Path(name)
        with Ledger(folder, f"bench-broker-{os.getpid()}-alone") as ledger:
            yield from _memory(folder, ledger, sizes)
            yield from _calls(folder, ledger, sizes)


def _load() -> str:
    return " ".join(f"{figure:.2f}" for figure in os.getloadavg())


def _starts(folder: pathlib.Path, ledger: Ledger, sizes: Sizes) -> Iterator[str]:
    """Measure starts of the bundled broker, each on empty data."""
    taken = []
    for number in range(sizes.starts):
        with sites.reference(folder / f"start-{number}", ledger) as site:
            taken.append(site.start())
    seconds = f"{statistics.median(taken):.2f} s (worst {max(taken):.2f} of {len(taken)}; target 0.5)"
    yield f"broker: reference: empty data to ready, median {seconds}"


# rates


def _rates(found: Sequence[Site], ledger: Ledger, sizes: Sizes) -> Iterator[str]:
    phases = _phases(sizes)
    figures: dict[str, dict[str, Figures]] = {}
    with _no_broker(ledger) as no_broker:
        peers: list[Peer] = [*found, no_broker]
        for turn in range(sizes.rounds + 1):
            sent: Counter[str] = Counter()
            for name, phase in phases.items():
                for site in peers:
                    if phase.protocol not in site.speaks:
                        continue
                    sent[site.name] += 0 if phase.protocol == "mqtt" else phase.count  # its session is another queue
                    _take(figures, name, site, phase.count, functools.partial(phase.run, site), turn)
            for site in found:
                count = sent[site.name]
                if "amqp" in site.speaks:
                    _take(figures, _RECEIVE, site, count, functools.partial(consume, site, count), turn)
                elif count:
                    sessions.drain(_QUEUED, site.port(_QUEUED), QUEUE)
                if "mqtt" in site.speaks:
                    sessions.drain("mqtt", site.port("mqtt"), OVER_MQTT)
    for name, by_site in figures.items():
        yield from _row(name, by_site, phases[name].targets if name in phases else {})


@dataclasses.dataclass(frozen=True)
class Phase:
    """So many messages sent to one broker over one protocol, by one of three clients."""

    protocol: str
    window: int
    count: int
    client: str = _LEAN

    @property
    def targets(self) -> dict[str, float]:
        """The least that the bundled broker's rate should be of another's."""
        if self.client == _SUITE:
            return _TARGETS[self.protocol]
        return {"artemis": 1.0, "broker-j": 1.0} if self.window == 1 else {"artemis": _PIPELINED_TARGET}

    def run(self, site: Peer) -> None:
        """Until each is confirmed."""
        if self.client == _SUITE:
            queue = OVER_MQTT if self.protocol == "mqtt" else QUEUE
            sessions.publish(self.protocol, site.port(self.protocol), queue, self.count, self.window, wire.SIZE)
        elif self.protocol == "amqp":
            publish = broker_proton.publish if self.client == _CONTAINER else wire.publish
            publish(site.port("amqp"), QUEUE, self.count, self.window)
        else:
            assert site.stomp is not None  # the caller has looked
            wire.publish_stomp(site.port("stomp"), site.stomp, self.count, self.window)


def _phases(sizes: Sizes) -> dict[str, Phase]:
    counts = {1: sizes.blocking, 100: sizes.pipelined, 1000: sizes.pipelined}
    amqp = [Phase("amqp", window, count) for window, count in counts.items()]
    amqp += [
        Phase("amqp", window, count if window == 1 else count // 3, _CONTAINER) for window, count in counts.items()
    ]
    phases = {f"AMQP send, window {each.window}, {each.client}": each for each in amqp}
    phases["STOMP send, window 1000"] = Phase("stomp", 1000, sizes.pipelined)
    phases["AMQP 0-9-1 send, window 1000"] = Phase("amqp091", 1000, sizes.pipelined, _SUITE)
    phases["MQTT, QoS 1, send, window 1000"] = Phase("mqtt", 1000, sizes.pipelined // 3, _SUITE)
    return phases


def _take(
    figures: dict[str, dict[str, Figures]], name: str, site: Peer, count: int, phase: Callable[[], None], turn: int
) -> None:
    """Measure once; the first round is discarded."""
    pids = site.pids()
    broker_s, client_s, began = sites.cpu_s(pids), time.process_time(), time.perf_counter()
    phase()
    taken = time.perf_counter() - began
    kept = figures.setdefault(name, {}).setdefault(site.name, Figures())
    if turn:
        kept.rates.append(count / taken)
        kept.broker_us.append((sites.cpu_s(pids) - broker_s) / count * 1e6)
        kept.client_us.append((time.process_time() - client_s) / count * 1e6)


def _row(name: str, by_site: dict[str, Figures], targets: dict[str, float]) -> Iterator[str]:
    ours = by_site["reference"]
    rates = ", ".join(f"{site} {figures.rate:,.0f}" for site, figures in by_site.items())
    ratios = ", ".join(
        f"reference/{site} {ours.rate / figures.rate:.2f}" + (f" (target {targets[site]})" if site in targets else "")
        for site, figures in by_site.items()
        if site != "reference"
    )
    yield f"broker: {name}: msg/s {rates}" + (f"; {ratios}" if ratios else "")
    broker_us, client_us = statistics.median(ours.broker_us), statistics.median(ours.client_us)
    wall = 1e6 / ours.rate
    yield (
        f"broker: {name}: reference spends {broker_us:.0f} us CPU a message of {wall:.0f} us "
        f"({broker_us / wall:.0%} of a core), its client {client_us:.0f} us ({client_us / wall:.0%})"
    )


class _SilentPeer:
    """The other end of the engine, which keeps nothing."""

    name = "no broker"
    speaks: Collection[str] = ("amqp",)
    stomp: dict[str, str] | None = None

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self._port = process, port

    def port(self, protocol: str) -> int:
        """Where it listens."""
        return self._port

    def pids(self) -> list[int]:
        """Its one process."""
        return [self._process.pid]


@contextlib.contextmanager
def _no_broker(ledger: Ledger) -> Iterator[_SilentPeer]:
    process, ticket = ledger.spawn("engine", [sys.executable, "-m", wire.__name__], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield _SilentPeer(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        ledger.released(ticket)


def consume(site: Peer, count: int) -> None:
    """Receive `count` messages with the suite's session, and acknowledge each group in a transaction."""
    job = Job(
        connection=Connection(addresses=((_HOST, site.port("amqp")),), protocol="amqp"),
        dialect=Dialect(ack_confirm="transaction"),
        work=Work(step=Drain(), queue=QUEUE),
        header=bare_header("bench-consumer"),
        history="",
        epoch=1,
    )
    session = AmqpSession(job, lambda: None)
    session.attach_receiver(QUEUE, 1000, AckHeader.INDIVIDUAL)
    asked = 0
    while len(session.answers) < count:
        session.pump(wire.PATIENCE_S)
        while len(session.incoming) >= _GROUP or (session.incoming and asked + len(session.incoming) == count):
            group = [session.incoming.popleft() for _ in range(min(_GROUP, len(session.incoming)))]
            session.acknowledge(group, confirmed=True)
            session.replenish(len(group))
            asked += len(group)
    session.close()
    refused = [answer for answer in session.answers if answer.phase != "ok"]
    if refused:
        raise RuntimeError(f"{site.name} refused {len(refused)} acknowledgements: {refused[0].detail}")


# the rest


def _recovery(found: Sequence[Site], sizes: Sizes) -> Iterator[str]:
    """Measure the time from SIGKILL to ready, with stored messages."""
    for site in found:
        if "amqp" not in site.speaks:
            continue
        wire.publish(site.port("amqp"), QUEUE, sizes.stored, 1000)
        began = time.perf_counter()
        site.kill()
        site.start()
        taken = time.perf_counter() - began
        target = "; target 2" if site.name == "reference" else ""
        yield f"broker: {site.name}: SIGKILL to ready with {sizes.stored:,} stored {taken:.2f} s{target}"
        if isinstance(site, sites.Adapted) and site.name == "reference":
            left = _look(site)
            if left != sizes.stored:
                raise RuntimeError(f"{left} of {sizes.stored} messages are there after the SIGKILL")
        site.kill()


def _look(site: sites.Adapted) -> int:
    probe: Any = httpx.get(f"http://{_HOST}:{site.port('http')}/queues/{QUEUE}", trust_env=False).json()
    return int(probe["depth"])


def _memory(folder: pathlib.Path, ledger: Ledger, sizes: Sizes) -> Iterator[str]:
    """Resident memory with 1,000 messages in a queue, before and after many have passed it."""
    with sites.reference(folder / "memory", ledger) as site:
        site.start()
        port = site.port("amqp")
        wire.publish(port, QUEUE, _DEPTH, _DEPTH)
        before = sites.rss(site.pids())
        for _ in range(sizes.passed // _DEPTH):
            wire.publish(port, QUEUE, _DEPTH, _DEPTH)
            wire.consume(port, QUEUE, _DEPTH)
        after = sites.rss(site.pids())
    passed = sizes.passed // _DEPTH * _DEPTH
    yield (
        f"broker: reference: memory {before / 1e6:.0f} MB with {_DEPTH:,} messages, {after / 1e6:.0f} MB after "
        f"{passed:,} more have passed (target under 200)"
    )


def _calls(folder: pathlib.Path, ledger: Ledger, sizes: Sizes) -> Iterator[str]:
    """Count system calls a message with strace; rates under it are meaningless and left out."""
    program = sites.tracer()
    if program is None:
        yield "broker: reference: system calls are not counted: strace is not installed"
        return
    for window in (1, 1000):
        count = sizes.blocking if window == 1 else sizes.pipelined
        summary = folder / f"calls-{window}"
        with sites.reference(folder / f"traced-{window}", ledger) as site:
            site.start((program, "-f", "-c", "-o", str(summary)))
            wire.publish(site.port("amqp"), QUEUE, count, window)
            site.stop()
        lines = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*?(\w+)$", summary.read_text(), re.MULTILINE)
        calls = {name: int(number) / count for number, name in lines}
        figures = ", ".join(f"{name} {calls[name]:.3g}" for name in _CALLS if name in calls)
        yield f"broker: reference: system calls a message, AMQP window {window} (with start and end): {figures}"
