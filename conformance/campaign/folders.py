"""The folders of runs: judge those that earlier runs wrote, and join those of worker processes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from conformance import claims, judge, limits, records, scenario
from conformance.claims import Catalogue
from conformance.judge.rows import Judgement
from conformance.judge.verdict import Remembered
from conformance.records import Checksum, RunFile, TrialRecord
from conformance.scenario import Scenario


def judge_folder(
    folder: pathlib.Path,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    starting: judge.StartingSession,
    remembered: Remembered | None = None,
) -> Judgement:
    return judge.judge(folder, catalogue, scenarios, starting, untried=catalogue.untried, remembered=remembered)


def judge_folders(
    folders: Sequence[pathlib.Path], start: Callable[..., judge.StartingSession] = judge.start_in_background
) -> list[Judgement]:
    """Judge folders that earlier runs wrote, by one Spark: here, on a cluster, or by Connect. The rows are the same."""
    for folder in folders:
        records.check_run(folder)
    catalogue = claims.load()
    size = sum(path.stat().st_size for folder in folders for path in folder.glob("trials/*/*.jsonl"))
    starting = start(events=size // limits.EVENT_BYTES)
    try:
        return [judge_folder(folder, catalogue, scenario.load(catalogue), starting) for folder in folders]
    finally:
        starting.stop()


def join_parts(folder: pathlib.Path) -> bool:
    """Make one run of those of the worker processes, whose scenarios are disjoint; False if there is none.

    Its plan has the trials of all parts. Trials are moved; logs of brokers stay, since messages name their paths. If a
    part is not finished, neither is the whole. If a worker died in a scenario and another repeated it, the finished
    part counts.
    """
    found = {path.parent: records.read(path, RunFile) for path in sorted(folder.glob(f"{records.PARTS}/*/run.json"))}
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
