"""How often a trial drains its queue, and how long a drain waits for what the broker counts."""

import msgspec
import pytest
from trial_histories import drained, events_of

from conformance.clients.job import LIVENESS_S, SILENCE_S, Tolerances
from conformance.history import Op, Phase
from conformance.run.trial.clients import ClientRunner
from conformance.run.trial.drains import Drains
from conformance.run.trial.jobs import JobMaker, depth_probe
from conformance.run.trial.player import TrialPlayer
from conformance.scenario.script import MOST_DRAINS, SETTLE, Consume, ConsumerCrash, Drain, Kill, Nth, Publish, Restart

KILLED = (Publish(5_000, window=10, until=Kill(Nth("confirm", 20))), Restart())


def drains(folder):
    numbers = range(1, len(list(folder.glob("drain-*.jsonl"))) + 1)
    return [len(drained(folder, number)) for number in numbers]


@pytest.fixture
def silences(monkeypatch):
    """How long each drain waits for silence, seconds; in the tests at most one."""
    real, found = ClientRunner.play, []

    def played(client_runner, job, descriptors=()):
        if isinstance(job.work.step, Drain):
            found.append(job.tolerances.silence_s)
            hasty = msgspec.structs.replace(job.tolerances, silence_s=min(found[-1], 1.0))
            job = msgspec.structs.replace(job, tolerances=hasty)
        return real(client_runner, job, descriptors)

    monkeypatch.setattr(ClientRunner, "play", played)
    return found


def test_two_drains_where_the_second_brings_nothing(play):
    record, folder = play(*KILLED, *SETTLE)
    brought = drains(folder)

    assert ("", 2, 0) == (record.void, len(brought), brought[1])
    assert brought[0] >= 20


def test_drains_until_one_brings_nothing(play, silences):
    """The messages come only after one more restart: the drain after it brings them, and the next one nothing."""
    record, folder = play(*KILLED, *SETTLE, liar="late-after-recovery")
    first, waited, second, third = drains(folder)
    restarts = [e for e in events_of(folder, "orchestrator") if (e.op, e.phase) == (Op.BROKER, Phase.OK)]

    assert ("", 0, 0, 0) == (record.void, first, waited, third)
    assert second >= 20
    assert ["restart", "restart"] == [event.detail for event in restarts if event.detail == "restart"]


@pytest.fixture
def empty_at_first(monkeypatch, silences):
    """For its first drain the broker serves an empty queue, as one that loads its queues some time after its start."""
    real = ClientRunner.play

    def played(client_runner, job, descriptors=()):
        if isinstance(job.work.step, Drain) and not silences:
            probe = depth_probe(client_runner.broker, "empty")
            job = msgspec.structs.replace(job, work=msgspec.structs.replace(job.work, queue="empty", depth=probe))
            client_runner.broker.declare("empty")
        return real(client_runner, job, descriptors)

    monkeypatch.setattr(ClientRunner, "play", played)


def test_a_queue_that_is_served_late_is_looked_at_again(play, silences, empty_at_first):
    """The second drain belongs to the same run of the broker as the first: what it brings is neither lost nor late."""
    record, folder = play(*KILLED, *SETTLE)
    first, second, third = drains(folder)
    epochs = [events_of(folder, f"drain-{number}")[0].epoch for number in (1, 2, 3)]

    assert ("", 0, 0) == (record.void, first, third)
    assert second >= 20
    assert [2, 2, 3] == epochs
    assert [SILENCE_S, LIVENESS_S, SILENCE_S] == silences


def test_a_missing_message_is_waited_for_once(play, silences):
    """Nothing came within the bound, so another wait would show nothing new."""
    record, _ = play(*KILLED, *SETTLE, liar="loses-the-oldest")

    assert "" == record.void
    assert [SILENCE_S, LIVENESS_S, SILENCE_S] == silences


def test_a_control_is_not_waited_for(play, silences):
    """It is there to fail."""
    play(*KILLED, *SETTLE, arm="control", liar="loses-the-oldest")

    assert [SILENCE_S, SILENCE_S] == silences


def test_what_is_sent_settled_is_not_waited_for(play, silences):
    """What was on its way when the consumer died is gone, and no broker owes it."""
    crash = Consume("no_ack", prefetch=50, until=ConsumerCrash(Nth("process", 5)))
    record, _ = play(Publish(60, window=10), crash, *SETTLE)

    assert ("", [SILENCE_S, SILENCE_S]) == (record.void, silences)


def test_a_queue_that_does_not_outlast_the_broker_is_not_waited_for(play, silences):
    record, folder = play(*KILLED, *SETTLE, queue=(("durable", False),))

    assert ("", [0, 0]) == (record.void, drains(folder))
    assert [SILENCE_S, SILENCE_S] == silences


def test_a_script_with_one_drain_is_left_alone(play):
    """It concludes nothing from an absence."""
    record, folder = play(Publish(20, window=10), Drain())

    assert ("", [20]) == (record.void, drains(folder))


@pytest.mark.parametrize(("brought", "expected"), [([3, 2, 0], 3), ([1] * 9, MOST_DRAINS), ([0, 0], 2)])
def test_at_most_five_drains(play, monkeypatch, brought, expected):
    real, left = TrialPlayer._step, list(brought)

    def step(player, one):
        real(player, one)
        if one == Drain():
            player.drains.brought = left.pop(0)

    monkeypatch.setattr(TrialPlayer, "_step", step)
    record, folder = play(Publish(20, window=10), *SETTLE)

    assert ("", expected) == (record.void, len(drains(folder)))


@pytest.mark.parametrize(("slowest_s", "expected"), [(0.0, 30.0), (2.0, 30.0), (4.5, 45.0)])
def test_a_drain_waits_ten_times_the_slowest_answer(play, monkeypatch, slowest_s, expected):
    real, seen = JobMaker.make, []

    def make(jobs, *about, **more):
        job = real(jobs, *about, **more)
        seen.extend([job.tolerances.liveness_s] if isinstance(job.work.step, Drain) else [])
        return job

    monkeypatch.setattr(JobMaker, "make", make)
    monkeypatch.setattr(JobMaker, "learn", lambda jobs, _step, _result: setattr(jobs, "slowest_s", slowest_s))
    record, _ = play(Publish(20, window=10), *SETTLE)

    assert ("", [expected, expected]) == (record.void, seen)


@pytest.mark.parametrize(
    ("slowest_s", "asked", "expected"), [(0.0, {}, 30.0), (5.0, {}, 50.0), (0.0, {"liveness_s": 80.0}, 80.0)]
)
def test_how_long_a_drain_waits_before_it_calls_a_message_stuck(play, monkeypatch, slowest_s, asked, expected):
    """Ten times the slowest answer of the trial, and at least what its redelivery delay asks for."""
    waits = []

    def drain(drains):
        drains.jobs.slowest_s = slowest_s
        waits.append(drains.jobs.make(Drain(), Tolerances(**asked)).tolerances.liveness_s)

    monkeypatch.setattr(Drains, "drain", drain)
    play(Publish(1, window=1), Drain())

    assert [expected] == waits
