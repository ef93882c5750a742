"""Measure how fast the judge is."""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import time
from collections.abc import Sequence

from conformance.judge.input.packing import Compacted, compact_all
from conformance.judge.plan.relations import EVERY, Check
from conformance.judge.spark import JudgeSession
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
    collect_facts(session.spark, trials, used)
    return time.perf_counter() - started
