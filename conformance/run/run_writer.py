"""`run.json` while a run goes on: what was asked, what is planned, and the checksums of what was recorded."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import msgspec

from conformance import records
from conformance.records import Checksum, RunFile, RunRecord, TrialRecord
from conformance.run.planning.plan import Planned
from conformance.run.trial import describe


class RunWriter:
    """Writes `run.json` into the folder of a run, first when it is made.

    It says `finished` only while no recording is under way: if the harness is killed, the run is incomplete.
    """

    def __init__(self, folder: pathlib.Path, run: RunRecord) -> None:
        self.run = run
        self._folder = folder
        self._plan: dict[str, TrialRecord] = {}
        self._checksums: dict[str, dict[str, Checksum]] = {}
        self.save()

    def plan(self, trials: Iterable[Planned]) -> None:
        """Add trials to the plan, before they are recorded."""
        self._plan |= {trial.id: describe(trial) for trial in trials}
        self.save(finished=False)

    def close(self, **changes: Any) -> RunRecord:
        """Add the checksums of every recorded trial that has none yet, and say that the run is finished."""
        for name in self._plan.keys() - self._checksums.keys():
            found = {path.name: records.checksum(path) for path in records.evidence(self._folder / "trials" / name)}
            if found:
                self._checksums[name] = found
        return self.save(finished=True, **changes)

    def save(self, **changes: Any) -> RunRecord:
        """Write the file with these fields of the run changed; returns the run."""
        self.run = msgspec.structs.replace(self.run, **changes)
        whole = RunFile(
            **msgspec.structs.asdict(self.run), plan=tuple(self._plan.values()), checksums=dict(self._checksums)
        )
        records.save(whole, self._folder / "run.json")
        return self.run
