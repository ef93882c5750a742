"""The command line under a row: for a violation, the command that records its first trial again."""

from __future__ import annotations

import shlex

from conformance.judge.rows import Verdict
from conformance.judge.tally import Tally
from conformance.records import RunRecord

HERE = "."
"""Stands for the folder of the run, which is that of its report: a row must be the same wherever the folder lies."""


def line(run: RunRecord, verdict: Verdict, one: Tally | None) -> str:
    """`conformance replay . --scenario S --trial N` of the first trial that offended; else the run's own command."""
    if verdict is Verdict.VIOLATED and one is not None:
        first = next(record for record, facts in one.subject.valid if facts.offences(one.anomaly.name))
        return shlex.join(
            ["conformance", "replay", HERE, "--scenario", first.scenario, "--trial", str(first.index)],
        )
    return run.command if "--seed" in run.command or " replay " in run.command else f"{run.command} --seed {run.seed}"


def seen_from_outside(replay: str, folder: object) -> str:
    """The line as it is typed where people are, with the folder as they named it.

    >>> seen_from_outside("conformance replay . --scenario s --trial 2", "runs/a b")
    "conformance replay 'runs/a b' --scenario s --trial 2"
    """
    inside = f"conformance replay {HERE} "
    if not replay.startswith(inside):
        return replay
    return f"conformance replay {shlex.quote(str(folder))} {replay.removeprefix(inside)}"
