"""Measure how fast the judge is: on small trials, and on synthetic histories beside DuckDB and Polars."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psutil

from benchmarks import aligned, histories
from benchmarks.histories import CHECKS, EVENTS_OF_A_MESSAGE, Counts, Synthetic
from conformance.errors import JudgeError, UsageError
from conformance.judge.input.buckets import fits_cores
from conformance.judge.input.packing import Compacted, compact_all
from conformance.judge.plan.relations import EVERY, Check
from conformance.judge.spark import JudgeSession, size_plans
from conformance.judge.verdict import collect_facts
from conformance.judge.warm_up import write
from conformance.records import TrialRecord

WARM = 10
TRIALS = 30
SCENARIO: Sequence[Check] = (
    ("lost", "confirmed_in_window"),
    ("confirmed_missing", "confirmed_in_window"),
    ("unanswered_either_way", "unanswered"),
)
MESSAGES = 285  # seven events each: 2,000 events a trial


def bench(checks: Sequence[Check] = EVERY) -> dict[str, float]:
    """Seconds for trials of 2,000 events, with every check.

    Keys: what was measured, in words. The start of the session is given apart, without and with its warm-up: a run
    does both while its first broker starts.
    """
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as name:
        started = time.perf_counter()
        with JudgeSession.start() as session:
            found["session start"] = time.perf_counter() - started
            records = [_written(pathlib.Path(name) / str(number), number) for number in range(TRIALS)]
            started = time.perf_counter()
            trials = compact_all(records)
            found[f"compaction of {TRIALS} trials"] = time.perf_counter() - started
            found["one trial, cold"] = _judged(session, trials[:1], checks)
            found[f"one trial, warm (median of {WARM})"] = _median(session, trials[:1], checks)
            found[f"one trial, the checks of one scenario, warm (median of {WARM})"] = _median(
                session, trials[:1], SCENARIO
            )
            found[f"{TRIALS} trials in one job, warm (median of {WARM})"] = _median(session, trials, checks)
    return found


def _written(folder: pathlib.Path, number: int) -> tuple[pathlib.Path, TrialRecord]:
    arm = "control" if number % 2 else "subject"
    return folder, write(folder, MESSAGES, trial=f"t{number}", scenario=f"s{number % 5}", arm=arm)


def _median(session: JudgeSession, trials: Sequence[Compacted], used: Sequence[Check]) -> float:
    for _ in range(3):
        _judged(session, trials, used)
    return statistics.median(_judged(session, trials, used) for _ in range(WARM))


def _judged(session: JudgeSession, trials: Sequence[Compacted], used: Sequence[Check]) -> float:
    started = time.perf_counter()
    size_plans(session.spark, sum(trial.events for trial in trials))
    collect_facts(session.spark, trials, used)
    return time.perf_counter() - started


OPTIONS = {"--events": 0, "--trials": 0, "--rounds": 3}
"""The numbers that the benchmark takes, with their defaults: 0 trials are one for each `EVENTS_OF_A_TRIAL`."""

AT_ONCE = 50_000_000
"""DuckDB and Polars count about so many events at a time: they keep every message in memory, 5 GB for 50 million."""

EVENTS_OF_A_TRIAL = 100_000
PACKED = 500_000
"""At most so many events are written as JSON Lines and packed; whole trials, one at least."""

Engine = Callable[[Sequence[Compacted]], Counts]


def judge(words: Sequence[str]) -> Iterator[str]:
    """The lines of the benchmark: of small trials, or of `compare` if the words give a number of events.

    Raises:
        JudgeError: An engine does not count the truth.
        UsageError: There is no such option, or it has no whole number from 1 on.
    """
    options, target = _options(words)
    if not options["--events"]:
        yield from (f"judge: {name} {value:.2f} s" for name, value in bench().items())
        return
    found = compare(options["--events"], options["--trials"], options["--rounds"])
    if target:
        pathlib.Path(target).write_text(json.dumps(found, indent=2) + "\n")
    yield from _lines(found)


def _options(words: Sequence[str]) -> tuple[dict[str, int], str]:
    """Return the numbers of `OPTIONS`, and the file of `--json`."""
    options, target = dict(OPTIONS), ""
    rest = [*words]
    while rest:
        match rest:
            case ["--json", target, *rest]:
                pass
            case [name, text, *rest] if name in OPTIONS and text.isascii() and text.isdecimal() and int(text):
                options[name] = int(text)
            case _:
                known = ", ".join(f"{name} N" for name in OPTIONS)
                given = " ".join(words)
                raise UsageError(f"judge takes {known} (whole numbers from 1 on) and --json FILE, not {given!r}")
    if target and not options["--events"]:
        raise UsageError("judge writes --json FILE only with --events N")
    return options, target


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"judge: {found['events']:,} events of {found['messages']:,} messages in {found['trials']:,} trials,"
        f" {found['parquet_mb']} MB of Parquet, {found['cores']} cores, medians of {found['rounds']}"
    )
    rows = [["", "seconds", "to DuckDB", "CPU seconds", "to DuckDB", *CHECKS]]
    for name, counts in found["counts"].items():
        times = []
        for kind in _KINDS if f"{name}_s" in found else ():
            seconds, least = found[f"{name}_{kind}"], found[f"duckdb_{kind}"]
            times += [f"{seconds:.2f}", f"{seconds / least:.1f}" if least else ""]
        figures = (f"{each['offends']:,} of {each['applies']:,}" for each in counts.values())
        rows.append([name, *(times or [""] * 4), *figures])
    yield from aligned(rows)
    yield from (f"judge: {name} is left out: {why}" for name, why in found["left_out"].items())
    yield f"judge: the JVM of Spark had {found['spark_jvm_peak_mb']:,} MB at most"
    yield (
        f"judge: packing {found['pack_events']:,} events, {found['pack_mb']} MB of JSON Lines: {found['pack_s']:.2f} s,"
        f" {found['pack_events'] / found['pack_s']:,.0f} events a second"
    )


def compare(events: int, trials: int = 0, rounds: int = 1) -> dict[str, Any]:
    """Measure the judge's plan, DuckDB and Polars in turn on the same Parquet files of about so many events.

    Each engine counts the first trial once before that, so that none pays for its start. Seconds are medians. Raises
    `JudgeError` if an engine does not count the truth.
    """
    from benchmarks.engines import duckdb_counts, polars_counts, spark_counts

    about = Synthetic(max(round(events / EVENTS_OF_A_MESSAGE), 1), trials or max(events // EVENTS_OF_A_TRIAL, 1))
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as name:
        folder = pathlib.Path(name)
        with JudgeSession.start(events=events) as session:  # its JVM has ended before another one is measured
            written = histories.write(session.spark, about, folder)
            truth = histories.truth(session.spark, about)
        found: dict[str, Any] = {
            "events": sum(trial.events for trial in written),
            "messages": about.messages,
            "trials": about.trials,
            "parquet_mb": round(sum(path.stat().st_size for path in _paths(written)) / 1e6, 1),
            "cores": os.cpu_count(),
            "rounds": rounds,
        }
        with JudgeSession.start(events=events) as session:
            spark = session.spark
            engines: dict[str, Engine] = {
                "duckdb": lambda trials: _in_parts(duckdb_counts, trials),
                "polars": lambda trials: _in_parts(polars_counts, trials),
                "spark_plain": lambda trials: spark_counts(spark, trials),
                "spark_bucketed": lambda trials: spark_counts(spark, trials, in_buckets=True),
            }
            found["left_out"] = _left_out(written)
            for engine in found["left_out"]:
                del engines[engine]
            found |= _raced(engines, written, truth, rounds)
            found["spark_jvm_peak_mb"] = _jvm_peak_mb()
        return found | _packed(written, folder / "lines")


def _left_out(trials: Sequence[Compacted]) -> dict[str, str]:
    """Return the engines that cannot count these trials, each with the reason."""
    if fits_cores(trials, os.cpu_count() or 1):
        return {}
    return {"spark_bucketed": "one trial has more than half of a core's share, and is in one bucket"}


def _in_parts(count: Callable[[Sequence[pathlib.Path]], Counts], trials: Sequence[Compacted]) -> Counts:
    """Count whole trials of about `AT_ONCE` events at a time."""
    ends = itertools.accumulate(trial.events for trial in trials)
    parts = itertools.groupby(zip(ends, trials, strict=True), key=lambda pair: (pair[0] - 1) // AT_ONCE)
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for _, part in parts:
        found.update(count(_paths([trial for _, trial in part])))
    return found


def _raced(engines: Mapping[str, Engine], trials: Sequence[Compacted], truth: Counts, rounds: int) -> dict[str, Any]:
    """Return the seconds and the counts of each engine."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
    for engine in engines.values():
        engine(trials[:1])
    counts = {"truth": truth}
    for _ in range(rounds):
        for name, engine in engines.items():
            started, cpu = time.perf_counter(), _cpu_s()
            counts[name] = engine(trials)
            taken[name].append((time.perf_counter() - started, _cpu_s() - cpu))
            if wrong := [key for key in truth if counts[name].get(key) != truth[key]]:
                raise JudgeError(f"{name} counts {counts[name].get(wrong[0])} of {wrong[0]}, not {truth[wrong[0]]}")
    seconds = {name: [round(statistics.median(each), 3) for each in zip(*taken[name], strict=True)] for name in taken}
    return {
        **{f"{name}_{kind}": each for name, pair in seconds.items() for kind, each in zip(_KINDS, pair, strict=True)},
        "counts": {name: _totals(each) for name, each in counts.items()},
    }


_KINDS = ("s", "cpu_s")
"""Seconds that an engine took, and those of a processor: on a busy machine the latter vary less."""


def _totals(counts: Counts) -> dict[str, dict[str, int]]:
    """Return the sums over all trials, by check."""
    return {
        check: dict(zip(("applies", "offends"), map(sum, zip(*each, strict=True)), strict=True))
        for check in CHECKS
        if (each := [pair for (_, name), pair in counts.items() if name == check])
    }


def _packed(trials: Sequence[Compacted], folder: pathlib.Path) -> dict[str, float]:
    """Write the first trials as JSON Lines, and measure how long packing takes."""
    size = events = 0
    places: list[tuple[pathlib.Path, TrialRecord]] = []
    for trial in trials:
        if places and events + trial.events > PACKED:
            break
        places.append((folder / trial.record.trial, trial.record))
        size += histories.write_lines(trial, places[-1][0])
        events += trial.events
    started = time.perf_counter()
    packed = compact_all(places)
    seconds = time.perf_counter() - started
    if void := [trial.record.void for trial in packed if trial.record.void]:
        raise JudgeError(f"packing refuses a synthetic history: {void[0]}")
    return {"pack_s": round(seconds, 3), "pack_events": events, "pack_mb": round(size / 1e6, 1)}


def _paths(trials: Sequence[Compacted]) -> list[pathlib.Path]:
    return [trial.parquet for trial in trials if trial.parquet is not None]


def _jvms() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name() == "java"]


def _cpu_s() -> float:
    """Return the processor seconds of this process and its JVM so far."""
    times = [process.cpu_times() for process in (psutil.Process(), *_jvms())]
    return sum(each.user + each.system for each in times)


def _jvm_peak_mb() -> int:
    """Return the most memory that the JVM of this process had resident."""
    status = [pathlib.Path(f"/proc/{process.pid}/status").read_text() for process in _jvms()]
    return max(int(re.findall(r"VmHWM:\s+(\d+)", each)[0]) for each in status) // 1024
