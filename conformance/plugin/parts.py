"""A run that several processes recorded, each a part of its scenarios: one run again."""

from __future__ import annotations

import pathlib

import msgspec

from conformance import records
from conformance.records import RunRecord

PARTS = "workers"
"""Below the folder of a run that several processes recorded: a run of its own for each."""


def merge(folder: pathlib.Path) -> bool:
    """Make one run of those below `folder/workers`, whose scenarios are disjoint; False where there is none.

    Their trials are moved, their brokers' logs stay where messages name them. A part that is not finished leaves a
    whole that is not; of a scenario that was begun twice, because a worker died of it, the finished part counts.
    """
    found = {path.parent: records.read(path, RunRecord) for path in sorted(folder.glob(f"{PARTS}/*/run.json"))}
    if not found:
        return False
    parts = sorted(found, key=lambda part: not found[part].finished)
    (folder / "trials").mkdir(exist_ok=True)
    for trial in [path for part in parts for path in sorted(part.glob("trials/*"))]:
        if not (folder / "trials" / trial.name).exists():
            trial.rename(folder / "trials" / trial.name)
    runs = [found[part] for part in parts]
    whole = msgspec.structs.replace(
        runs[0],
        started=min(run.started for run in runs),
        deviations={name: text for run in runs for name, text in run.deviations.items()},
        finished=all(run.finished for run in runs),
        interrupted=any(run.interrupted for run in runs),
        floor_seconds=max(run.floor_seconds for run in runs),
        seconds=max(run.seconds for run in runs),
    )
    records.save(whole, folder / "run.json")
    return True
