"""How the broker of a run is found again: written down with the run, and read for a replay or a bundle."""

from __future__ import annotations

import pathlib

from conformance import paths, records
from conformance.adapters import Adapter
from conformance.errors import UsageError
from conformance.records import FileRecord, RunRecord


def keep(folder: pathlib.Path, adapter: Adapter) -> None:
    """Write down what its name and version do not find: a file of the user's, or the place that a launcher was given.

    Of an upgrade there are two, each in a part of the folder.
    """
    for part, each in getattr(adapter, "parts", {"": adapter}).items():
        place = str(getattr(each, "place", ""))
        packaged = each.path == paths.fixtures() / "brokers" / each.name / "broker.toml"
        if not packaged or "=" in place:
            (folder / part).mkdir(exist_ok=True)
            asked = each.spec.partition(f"@{each.version}:")[0]
            records.keep_broker(folder / part, asked, pathlib.Path() if packaged else each.path, place)


def spec(folder: pathlib.Path, run: RunRecord, version: str, told: list[str]) -> str:
    """What names the broker of the run today; `told` gets what a user should know of its files.

    Raises `UsageError` where one of them is gone, or says another thing today.
    """
    kept = records.kept_broker(folder)
    if kept is None:
        return f"{run.adapter}@{version}:{run.launcher}"
    record, part = kept
    found = record.spec(version, run.launcher)
    for file in record.files:
        changed = records.file_changed(file, part)
        if changed:
            today = found if record.launcher else record.words
            raise UsageError(
                f"{file.path} has changed since the run: {changed}. The run kept a copy, {part / file.copy}: put it "
                f"back, or try the broker as it is today by --adapter {today}"
            )
        if changed is not None:
            told.append(f"{file.path} has changed since, in words that mean the same")
    return found


def spec_of_then(folder: pathlib.Path, run: RunRecord, version: str) -> str:
    """The same as it was then: where a file is gone or another today, the copy of the run takes its place."""
    kept = records.kept_broker(folder)
    if kept is None:
        return f"{run.adapter}@{version}:{run.launcher}"
    record, part = kept
    found = record.spec(version, run.launcher)
    for file in record.files:
        if not _same(file, part):
            found = found.replace(file.path, str((part / file.copy).absolute()))
    return found


def _same(file: FileRecord, part: pathlib.Path) -> bool:
    try:
        return not records.file_changed(file, part)
    except UsageError:
        return False
