"""Join the runs of several worker processes, each with a part of the scenarios, into one run."""

from __future__ import annotations

import pathlib

import msgspec

from conformance import records
from conformance.records import Checksum, RunFile, TrialRecord

PARTS = "workers"
"""The folder, below that of the run, with one run for each worker process."""


def merge(folder: pathlib.Path) -> bool:
    """Make one run of those below `folder/workers`, whose scenarios are disjoint; False if there is none.

    Its plan has the trials of all parts. Trials are moved; logs of brokers stay, since messages name their paths. If a
    part is not finished, neither is the whole. If a worker died in a scenario and another repeated it, the finished
    part counts.
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
