"""A run that several processes recorded, each a part of its scenarios: one run again."""

from __future__ import annotations

import pathlib

import msgspec

from conformance import records
from conformance.records import Checksum, RunFile, TrialRecord

PARTS = "workers"
"""Below the folder of a run that several processes recorded: a run of its own for each."""


def merge(folder: pathlib.Path) -> bool:
    """Make one run of those below `folder/workers`, whose scenarios are disjoint; False where there is none.

    Its plan is that of all parts together.

    Their trials are moved, their brokers' logs stay where messages name them. A part that is not finished leaves a
    whole that is not; of a scenario that was begun twice, because a worker died of it, the finished part counts.
    """
    found = {path.parent: records.read(path, RunFile) for path in sorted(folder.glob(f"{PARTS}/*/run.json"))}
    if not found:
        return False
    parts = sorted(found, key=lambda part: not found[part].finished)
    (folder / "trials").mkdir(exist_ok=True)
    for trial in [path for part in parts for path in sorted(part.glob("trials/*"))]:
        if not (folder / "trials" / trial.name).exists():
            trial.rename(folder / "trials" / trial.name)
    runs = [found[part] for part in parts]
    plan: dict[str, TrialRecord] = {}
    checksums: dict[str, dict[str, Checksum]] = {}
    for run in reversed(runs):  # of a trial that two parts began, the one whose folder was moved
        plan |= {trial.trial: trial for trial in run.plan or ()}
        checksums |= run.checksums
    whole = msgspec.structs.replace(
        runs[0],
        started=min(run.started for run in runs),
        deviations={name: text for run in runs for name, text in run.deviations.items()},
        finished=all(run.finished for run in runs),
        interrupted=any(run.interrupted for run in runs),
        floor_seconds=max(run.floor_seconds for run in runs),
        seconds=max(run.seconds for run in runs),
        plan=tuple(plan.values()),
        checksums=checksums,
    )
    records.save(whole.sealed, folder / "run.json")
    return True
