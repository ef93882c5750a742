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

from conformance.errors import UsageError
from conformance.history import Op, Phase, Recorder, bare_header, message_id

EVENTS = 200_000
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
    from benchmarks.sessions import session
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
