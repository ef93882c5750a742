"""Measure the suite itself: `python -m benchmarks [WHAT]`, or `just bench WHAT`.

Each benchmark prints ratios. Both sides are measured in turn in one run, so that a noisy machine hurts both. Nothing
here is a test with a time limit.
"""

from __future__ import annotations

import functools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from conformance import adapters
from conformance.clients.job import Connection, Job, Tolerances, Work
from conformance.clients.roles.play import run_job
from conformance.errors import UsageError
from conformance.history import Op, Phase, Recorder, bare_header, make_body, message_id
from conformance.ledger import Ledger
from conformance.scenario.script import Publish

EVENTS = 200_000
MESSAGES = 20_000
WINDOW = 1_000
ROUNDS = 5


LONG = ("power",)
"""Benchmarks that take minutes; they are left out where all are asked for."""

WITH_OPTIONS = ("judge", "power")


def run(what: str, words: Sequence[str] = ()) -> Iterator[str]:
    """The lines of one benchmark, or of all of them but the `LONG` ones; `words` are options of this one.

    Raises `UsageError`: there is no benchmark of this name, or it has no such option.
    """
    from benchmarks import disk, link
    from benchmarks.broker import broker
    from benchmarks.judging import judge
    from benchmarks.power import power
    from benchmarks.triggers import triggers

    found: dict[str, Callable[[], Iterator[str]]] = {
        "recorder": recorder,
        "session": session,
        "judge": functools.partial(judge, words),
        "link": functools.partial(_listed, "link", link.bench),
        "disk": functools.partial(_listed, "disk", disk.bench),
        "triggers": triggers,
        "broker": broker,
        "power": functools.partial(power, words),
    }
    if what != "all" and what not in found:
        raise UsageError.unknown("benchmark", what, [*found, "all"])
    if words and what not in WITH_OPTIONS:
        raise UsageError(f"the benchmark {what} has no options, and {' '.join(words)!r} was given")
    for name, measure in found.items():
        if what == name or (what == "all" and name not in LONG):
            yield from measure()


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return the lines of a table, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _listed(name: str, measure: Callable[[], Mapping[str, float]]) -> Iterator[str]:
    for what, figure in measure().items():
        yield f"{name}: {what}: {figure:,.4g}"


def recorder() -> Iterator[str]:
    """Microseconds an event, buffered and flushed once for each 100 events, as a publisher does."""
    with tempfile.TemporaryDirectory() as folder:
        taken = []
        for turn in range(ROUNDS):
            writer = Recorder(pathlib.Path(folder) / f"{turn}.jsonl", bare_header("recorder"))
            started = time.perf_counter()
            for number in range(EVENTS):
                writer.record(Op.SEND, Phase.INVOKE, queue="q", message=message_id(1, number), durable=True, epoch=1)
                if number % 100 == 0:
                    writer.flush()
            taken.append((time.perf_counter() - started) / EVENTS * 1e6)
            writer.close()
    yield f"recorder: {statistics.median(taken):.2f} us an event (median of {ROUNDS} x {EVENTS:,}; target 2)"


def session() -> Iterator[str]:
    """Messages a second with a window of 1,000: our session and recorder, beside a bare proton sender."""
    reference = adapters.find("reference")
    settings = reference.effective({"sync_non_transactional": False})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with (
            Ledger(folder, "bench-session") as ledger,
            reference.prepare(folder / "broker", settings, ["bench"], ledger) as broker,
        ):
            broker.start()
            host, port = broker.service.endpoint("amqp")
            bare, ours = [], []
            for turn in range(ROUNDS):
                bare.append(_bare(host, port))
                ours.append(_ours(host, port, folder, turn))
    ratio = statistics.median(ours) / statistics.median(bare)
    yield (
        f"session: {statistics.median(ours):,.0f} msg/s with recorder, {statistics.median(bare):,.0f} bare proton, "
        f"ratio {ratio:.2f} (medians of {ROUNDS} x {MESSAGES:,}, window {WINDOW:,}; target 0.85)"
    )


def _ours(host: str, port: int, folder: pathlib.Path, turn: int) -> float:
    job = Job(
        connection=Connection(addresses=((host, port),), protocol="amqp"),
        work=Work(step=Publish(MESSAGES, window=WINDOW), queue="bench", producer=turn + 1),
        tolerances=Tolerances(silence_s=0.0),
        header=bare_header("publisher"),
        history=str(folder / f"{turn}.jsonl"),
        epoch=1,
    )
    started = time.perf_counter()
    result = run_job(job, ())
    taken = time.perf_counter() - started
    if result.count != MESSAGES:
        raise RuntimeError(f"the bench publisher got {result.count} answers of {MESSAGES}: {result.error}")
    return MESSAGES / taken


def _bare(host: str, port: int) -> float:
    sender = _BareSender(f"amqp://{host}:{port}")
    container = Container(sender)
    started = time.perf_counter()
    container.run()
    return MESSAGES / (time.perf_counter() - started)


class _BareSender(MessagingHandler):
    """What a user of proton would write: as many as credit and window allow, and a count of answers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.sent = self.answered = 0

    def on_start(self, event: Any) -> None:
        connection = event.container.connect(self.url, reconnect=False, allowed_mechs="ANONYMOUS")
        self.sender = event.container.create_sender(connection, "bench")

    def on_sendable(self, event: Any) -> None:
        self._send()

    def on_accepted(self, event: Any) -> None:
        self.answered += 1
        if self.answered == MESSAGES:
            event.connection.close()
        else:
            self._send()

    def _send(self) -> None:
        while self.sent < MESSAGES and self.sent - self.answered < WINDOW and self.sender.credit:
            self.sent += 1
            name = message_id(99, self.sent)
            self.sender.send(Message(body=make_body(name, 256), id=name, durable=True))
