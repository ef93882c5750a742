"""How often a trial drains its queue, and how long a drain waits for what the broker counts."""

import pytest
from trial_histories import drained, events_of

from conformance.history import Op, Phase
from conformance.run.clients import ClientRunner
from conformance.run.trial import TrialPlayer
from conformance.scenario.script import MOST_DRAINS, SETTLE, Drain, Kill, Nth, Publish, Restart

KILLED = (Publish(5_000, window=10, until=Kill(Nth("confirm", 20))), Restart())


def drains(folder):
    numbers = range(1, len(list(folder.glob("drain-*.jsonl"))) + 1)
    return [len(drained(folder, number)) for number in numbers]


def test_two_drains_where_the_second_brings_nothing(play):
    record, folder = play(*KILLED, *SETTLE)
    brought = drains(folder)

    assert ("", 2, 0) == (record.void, len(brought), brought[1])
    assert brought[0] >= 20


def test_drains_until_one_brings_nothing(play):
    """The messages come only after one more restart: the second drain brings them, and a third nothing."""
    record, folder = play(*KILLED, *SETTLE, liar="late-after-recovery")
    first, second, third = drains(folder)
    restarts = [e for e in events_of(folder, "orchestrator") if (e.op, e.phase) == (Op.BROKER, Phase.OK)]

    assert ("", 0, 0) == (record.void, first, third)
    assert second >= 20
    assert ["restart", "restart"] == [event.detail for event in restarts if event.detail == "restart"]


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
            player.brought = left.pop(0)

    monkeypatch.setattr(TrialPlayer, "_step", step)
    record, folder = play(Publish(20, window=10), *SETTLE)

    assert ("", expected) == (record.void, len(drains(folder)))


@pytest.mark.parametrize(("slowest_s", "expected"), [(0.0, 30.0), (2.0, 30.0), (4.5, 45.0)])
def test_a_drain_waits_ten_times_the_slowest_answer(play, monkeypatch, slowest_s, expected):
    real, seen = ClientRunner.play, []

    def played(client_runner, job, descriptors=()):
        if isinstance(job.step, Drain):
            seen.append(job.liveness_s)
        result = real(client_runner, job, descriptors)
        client_runner.slowest_s = slowest_s
        return result

    monkeypatch.setattr(ClientRunner, "play", played)
    record, _ = play(Publish(20, window=10), *SETTLE)

    assert ("", [expected, expected]) == (record.void, seen)


@pytest.mark.parametrize(
    ("slowest_s", "asked", "expected"), [(0.0, {}, 30.0), (5.0, {}, 50.0), (0.0, {"liveness_s": 80.0}, 80.0)]
)
def test_how_long_a_drain_waits_before_it_calls_a_message_stuck(play, monkeypatch, slowest_s, asked, expected):
    """Ten times the slowest answer of the trial, and at least what its redelivery delay asks for."""
    real, waits = ClientRunner.job, []

    def job(runner, step, **fields):
        runner.slowest_s = slowest_s
        made = real(runner, step, **fields, **(asked if step == Drain() else {}))
        waits.extend([made.liveness_s] if step == Drain() else [])
        return made

    monkeypatch.setattr(TrialPlayer, "_drain", lambda player: player.client_runner.job(Drain()))
    monkeypatch.setattr(ClientRunner, "job", job)
    play(Publish(1, window=1), Drain())

    assert [expected] == waits
