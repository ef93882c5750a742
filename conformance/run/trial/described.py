"""The record of a trial, from its plan."""

from __future__ import annotations

import pathlib

import msgspec

from conformance import records
from conformance.errors import LaunchError
from conformance.records import TrialRecord
from conformance.run.planning import Planned

INTERRUPTED = "the run was interrupted"
"""The reason why a trial is void that was under way when the user stopped the run."""


def describe(planned: Planned) -> TrialRecord:
    """Return the record of a planned trial that has not been played."""
    return TrialRecord(
        trial=planned.id,
        scenario=planned.script.id,
        arm=planned.arm,
        control=planned.control,
        index=planned.index,
        seed=planned.seed,
        k=planned.k,
        adapter=planned.adapter.name,
        settings=dict(planned.settings.values),
        steps=planned.script.steps,
        client=planned.script.client,
        queue=dict(planned.script.queue),
        flush_ms=planned.flush_ms,
        rounds=planned.rounds,
    )


def record_unstarted(planned: Planned, folder: pathlib.Path, error: LaunchError) -> TrialRecord:
    """Write and return the record of a trial whose broker did not start: it is void, and has no history."""
    folder.mkdir(parents=True)
    record = msgspec.structs.replace(
        describe(planned), void=str(error), void_log=error.log_lines, void_by_broker=error.of_broker
    )
    records.save(record, folder / "trial.json")
    return record
