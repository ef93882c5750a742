"""One trial on the bundled broker, for every module that plays some."""

import dataclasses
import os
import pathlib
import sys

import pytest
from starts import starts_process

from conformance.history import bare_header
from conformance.ledger import Ledger
from conformance.run.record import Recording
from conformance.scenario import Check, Scenario

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from planned_trials import planned


@pytest.fixture
@starts_process
def play(tmp_path):
    """Record one trial of these steps; returns its record and the folder of its histories.

    With `before`, the steps of another trial are played first, on the same broker.
    """

    def run(*steps, client="library", queue=(), before=(), **changes):
        script = Scenario("odd", "", "async_ack", steps, {"SOLCD-ACK-02": Check("lost", "confirmed")}, client, queue)
        trial = planned(**{"script": script, **changes})
        first = dataclasses.replace(trial, id="odd.first", script=dataclasses.replace(script, steps=before))
        with Ledger(tmp_path, f"odd-{os.getpid()}") as ledger:
            earlier = [first] if before else []
            recording = Recording(tmp_path, bare_header(""), ledger, expected=[*earlier, trial])
            try:
                recording.record(earlier)
                (record,) = recording.record([trial])
            finally:
                recording.close()
        return record, tmp_path / "trials" / "odd.subject.1"

    return run
