"""Compare the folder of a run with its plan and checksums before anything in it is used.

A run is incomplete if a trial is missing, unplanned, exchanged for another one or changed. Such a trial is void or left
out, the reason names it, and no claim of that run holds. Counterexamples in the other trials count.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping

import msgspec

from conformance import records
from conformance.errors import HistoryError
from conformance.records import Checksum, RunFile, RunRecord, TrialRecord

EDITED = "run.json was edited after the run"

NO_PLAN = (
    "run.json has no plan, because an earlier version of the suite wrote it, so a missing or exchanged trial would not "
    "be noticed; record the run again"
)
"""No claim of such a run holds: if a trial were lost, the rest would look complete."""


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A run and its trials, each with its folder. `runs` are the run ids that its histories may have."""

    run: RunRecord
    runs: frozenset[str]
    trials: tuple[tuple[pathlib.Path, TrialRecord], ...]


def read(folder: pathlib.Path, checksum: Callable[[pathlib.Path], Checksum] = records.checksum) -> RunFolder:
    """Read the folder of a run. `RunRecord.incomplete` says what is wrong with it.

    A planned trial that is missing or was changed is void. A folder that is not in the plan is left out.

    Raises:
        HistoryError: `run.json`, or the record of a trial of a finished run, cannot be read.
    """
    run = records.read(folder / "run.json", RunFile)
    parts = [records.read(path, RunRecord).run for path in sorted(folder.glob("workers/*/run.json"))]
    trials: list[tuple[pathlib.Path, TrialRecord]] = []
    wrong: list[str] = []
    if run.plan is None:
        for place, trial in _recorded(folder, run):
            if trial.trial == place.name:
                trials.append((place, trial))
            else:
                wrong.append(f"the folder {place.name} holds the trial {trial.trial}")
        wrong.append(NO_PLAN)
    else:
        trials, wrong = _compared(folder, run, {trial.trial: trial for trial in run.plan}, checksum)
    if run.seal and run.seal != records.seal((folder / "run.json").read_bytes()):
        wrong.insert(0, EDITED)
    record = run.run_record
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        record = msgspec.structs.replace(record, finished=False, incomplete=f"{wrong[0]}{more}")
    return RunFolder(record, frozenset({run.run, *parts}), tuple(trials))


def _recorded(folder: pathlib.Path, run: RunRecord) -> Iterator[tuple[pathlib.Path, TrialRecord]]:
    """Yield the folder and record of every trial; an interrupted run may leave its last one without a record."""
    for place in sorted(path for path in (folder / "trials").glob("*") if path.is_dir()):
        try:
            yield place, records.read(place / "trial.json", TrialRecord)
        except HistoryError:
            if run.finished:
                raise


def _compared(
    folder: pathlib.Path, run: RunFile, plan: Mapping[str, TrialRecord], checksum: Callable[[pathlib.Path], Checksum]
) -> tuple[list[tuple[pathlib.Path, TrialRecord]], list[str]]:
    """Return the trials of the plan, and a sentence for each difference."""
    trials: list[tuple[pathlib.Path, TrialRecord]] = []
    wrong: list[str] = []
    found: set[str] = set()
    for place, record in _recorded(folder, run):
        planned = plan.get(place.name)
        if planned is None:
            wrong.append(f"the trial {place.name} is not in the plan of run.json")
            continue
        found.add(place.name)
        known = run.checksums.get(place.name, {} if run.finished else None)
        why = _differs(record, planned) or _changed(place, known, checksum)
        if why:
            wrong.append(f"the trial {place.name} was changed or exchanged: {why}")
        void = f"{place.name} was changed or exchanged: {why}"
        trials.append((place, msgspec.structs.replace(planned, void=void) if why else record))
    for name in plan if run.finished else ():
        if name not in found:
            wrong.append(f"the trial {name} is in the plan of run.json and has no folder")
            missing = msgspec.structs.replace(plan[name], void=f"the folder of {name} is missing")
            trials.append((folder / "trials" / name, missing))
    return trials, wrong


def _differs(record: TrialRecord, planned: TrialRecord) -> str:
    """Return the first field in which the record of a trial differs from the plan."""
    for name in TrialRecord.__struct_fields__:
        was, is_ = getattr(planned, name), getattr(record.planned, name)
        if was != is_:
            return f"{name} is {is_} in trial.json and {was} in the plan"
    return ""


def _changed(
    place: pathlib.Path, recorded: Mapping[str, Checksum] | None, checksum: Callable[[pathlib.Path], Checksum]
) -> str:
    """Return the first file of a trial that differs from its recorded checksum; empty if there is no record yet."""
    if recorded is None:
        return ""
    found = {path.name: path for path in records.evidence(place)}
    for name in sorted({*recorded, *found}):
        if name not in found:
            return f"{name} is missing"
        if name not in recorded:
            return f"{name} was added after the run"
        if checksum(found[name]) != recorded[name]:
            return f"{name} is not the file that the run recorded"
    return ""
