"""One trial on the bundled broker, for every module that plays some."""

import dataclasses
import os
import pathlib
import sys

import pytest

from conformance import adapters
from conformance.history import bare_header
from conformance.judge.spark import JudgeSession
from conformance.ledger import Ledger
from conformance.run.planning import Planned
from conformance.run.record import Recording
from conformance.scenario import Check, Scenario

sys.path.insert(0, str(pathlib.Path(__file__).parent))
ADAPTER = adapters.find("reference")


@pytest.fixture(scope="module")
def spark_for_all():
    """The Spark of a file: what judges in this process takes a session of it, and starts no JVM of its own."""
    with JudgeSession.start() as session:
        yield session


@pytest.fixture
def play(tmp_path):
    """Record one trial of these steps; returns its record and the folder of its histories.

    With `before`, the steps of another trial are played first, on the same broker.
    """

    def run(*steps, client="library", before=(), **changes):
        script = Scenario("odd", "", "async_ack", steps, {"SOLCD-ACK-02": Check("lost", "confirmed")}, client)
        planned = Planned(
            id="odd.subject.1",
            script=script,
            arm="subject",
            control="",
            index=1,
            seed=1,
            adapter=ADAPTER,
            settings=ADAPTER.effective(),
            protocol="amqp",
        )
        planned = dataclasses.replace(planned, **changes)
        first = dataclasses.replace(planned, id="odd.first", script=dataclasses.replace(script, steps=before))
        with Ledger(tmp_path, f"odd-{os.getpid()}") as ledger:
            recording = Recording(tmp_path, bare_header(""), ledger)
            try:
                *_, record = recording.record([first, planned] if before else [planned])
            finally:
                recording.close()
        return record, tmp_path / "trials" / "odd.subject.1"

    return run
