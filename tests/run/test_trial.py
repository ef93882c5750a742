"""One trial on the bundled broker: what voids it, and what it leaves behind."""

import dataclasses

import pytest

from conformance import adapters, history, records
from conformance.history import Ended, Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.run.plan import Planned
from conformance.run.record import Recording
from conformance.scenario import (
    SETTLE,
    Check,
    Consume,
    ConsumerCrash,
    Kill,
    Nth,
    Publish,
    Restart,
    Scenario,
)

ADAPTER = adapters.find("reference")


@pytest.fixture
def play(tmp_path):
    """Record one trial of these steps; returns its record and the folder of its histories."""

    def run(*steps, **changes):
        script = Scenario("odd", "", "async_ack", steps, {"SOLCD-ACK-02": Check("lost", "confirmed")})
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
        with Ledger(tmp_path, "odd") as ledger:
            recording = Recording(tmp_path, bare_header(""), ledger)
            try:
                (record,) = recording.record([dataclasses.replace(planned, **changes)])
            finally:
                recording.close()
        return record, tmp_path / "trials" / "odd.subject.1"

    return run


def test_a_kill_that_does_not_fire_voids_its_trial(play):
    """Its trigger waits for more confirms than there are messages."""
    record, _ = play(Publish(50, window=10, until=Kill(Nth("confirm", 5_000))), Restart(), *SETTLE)

    assert "the kill did not fire: 50 events of the 5000 that its trigger waits for" == record.void


def test_a_consumer_that_does_not_die_voids_its_trial(play):
    """Its trigger waits for more messages than it may take."""
    crash = ConsumerCrash(Nth("process", 5_000))
    record, _ = play(Publish(50, window=10), Consume("auto", stop=20, until=crash), *SETTLE)

    assert record.void.startswith("the client was not killed: finished after 20")


def test_a_step_of_ours_that_cannot_be_done_voids_its_trial(play):
    """A mode that is not in the table."""
    record, _ = play(Publish(5, window=5), Consume("telepathic", stop=1))

    assert "telepathic" in record.void


def test_every_history_is_closed_and_every_trial_described(play):
    """With a footer that says how its process ended."""
    crash = ConsumerCrash(Nth("process", 7))
    record, folder = play(Publish(20, window=10), Consume("auto", until=crash), *SETTLE)
    ended = {path.stem: history.read(path).footer.ended for path in folder.glob("*.jsonl")}

    assert ("", record) == (record.void, records.read(folder / "trial.json", TrialRecord))
    assert {
        "publisher-1": Ended.FINISHED,
        "consumer-1": Ended.KILLED_BY_FAULT,
        "drain-1": Ended.FINISHED,
        "drain-2": Ended.FINISHED,
        "orchestrator": Ended.FINISHED,
    } == ended


def test_the_fault_is_effective_before_the_broker_is_started_again(play):
    """In the harness's own history, by one clock."""
    kill = Kill(Nth("confirm", 20))
    _, folder = play(Publish(5_000, window=10, until=kill), Restart(), *SETTLE)
    events = history.read(folder / "orchestrator.jsonl").events
    order = [(event.op, event.phase) for event in events]

    assert order.index((Op.FAULT, Phase.EFFECTIVE)) < order.index((Op.BROKER, Phase.INVOKE))
    assert sorted(events, key=lambda event: event.at_ns) == list(events)


def test_the_floor_is_a_part_of_the_time(play):
    """Restarts and waits, nothing else."""
    record, _ = play(Publish(20, window=10), *SETTLE)

    assert 0 < record.floor_seconds < record.seconds
