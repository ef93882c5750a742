"""A broker that is short of something for a time: what a trial does with one that goes on, ends, or serves no more."""

import re
import types

import pytest
from trial_histories import events_of

from conformance.adapters.interface import DepthProbe
from conformance.clients.job import UNANSWERED, JobResult, Tolerances
from conformance.faults import process
from conformance.history import ENDED_SHORT, NOT_SERVED, Op, Phase
from conformance.run.trial.clients import unserved
from conformance.run.trial.jobs import JobMaker
from conformance.run.trial.player import TrialPlayer
from conformance.scenario.script import SETTLE, FilesUsedUp, Nth, Publish, Restart

SHORT = (Publish(40, window=10, until=FilesUsedUp(Nth("confirm", 10), hold_s=0.3)), Publish(20, window=10))
STEPS = (*SHORT, Restart(), *SETTLE)


def of_broker(folder, *phases):
    events = events_of(folder, "orchestrator")
    return [event.detail for event in events if event.op is Op.BROKER and event.phase in phases]


def confirmed(folder, publisher):
    return sum((event.op, event.phase) == (Op.SEND, Phase.OK) for event in events_of(folder, publisher))


def test_a_broker_that_goes_on_is_killed_at_the_next_restart(play):
    record, folder = play(*STEPS)
    phases = [event.phase for event in events_of(folder, "publisher-1") if event.op is Op.FAULT]

    assert ("", 40, 20) == (record.void, confirmed(folder, "publisher-1"), confirmed(folder, "publisher-2"))
    assert [Phase.ARMED, Phase.FIRED, Phase.EFFECTIVE, Phase.HEALED] == phases
    assert ["start", "restart"] == of_broker(folder, Phase.OK)
    assert record.floor_seconds >= 0.3


def test_a_broker_that_ended_is_started_again_and_the_step_repeated(play, monkeypatch):
    """It ends a moment after the shortage, so that the next client finds no broker."""
    real = TrialPlayer._be_short

    def then_ends(player, job, fault):
        real(player, job, fault)
        process.end_now(player.node.target)

    monkeypatch.setattr(TrialPlayer, "_be_short", then_ends)
    record, folder = play(*STEPS)

    assert ("", [ENDED_SHORT]) == (record.void, of_broker(folder, Phase.INFO))
    assert ["start", "start", "restart"] == of_broker(folder, Phase.OK)
    assert confirmed(folder, "publisher-3") == 20


@pytest.fixture
def one_second(monkeypatch):
    """The liveness bound of every client is one second."""
    real = JobMaker.make

    def make(jobs, step, tolerances=Tolerances(), **more):  # noqa: B008 - it is frozen
        return real(jobs, step, Tolerances(**{**dict_of(tolerances), "liveness_s": 1.0}), **more)

    monkeypatch.setattr(JobMaker, "make", make)


def dict_of(tolerances):
    return {name: getattr(tolerances, name) for name in tolerances.__struct_fields__}


def test_a_broker_that_serves_no_more_is_not_restarted(play, one_second):
    """Its trial ends there: after a restart it would serve."""
    record, folder = play(*STEPS, liar="never-accepts-again")
    (said,) = of_broker(folder, Phase.FAIL)

    assert "" == record.void
    assert said.startswith(f"{NOT_SERVED}: ")
    assert said.endswith("Connection refused")
    assert not list(folder.glob("drain-*.jsonl"))


PACED = (Publish(400, window=10, every_ms=5, until=FilesUsedUp(Nth("confirm", 10), hold_s=0.3)), *STEPS[1:])


def test_a_send_without_an_answer_is_no_broker_that_serves_no_more(play, one_second):
    """It answers all others, also after the shortage."""
    record, folder = play(*PACED, liar="never-answers-one-send")

    assert ("", []) == (record.void, of_broker(folder, Phase.FAIL))
    assert confirmed(folder, "publisher-1") > 100


def one_node(*, takes_over=False, alarms=()):
    node = types.SimpleNamespace()
    probe = DepthProbe("command", command=("echo", "on"), pattern="on")
    node.alarm_probes = lambda: dict.fromkeys(alarms, probe)
    return types.SimpleNamespace(find_serving=lambda: None if takes_over else node, service=node, node=node)


@pytest.mark.parametrize(
    ("broker", "said", "held"),
    [
        (one_node(), "let no publisher go on for 30 s: unanswered$", True),
        (one_node(alarms=["disk"]), "let no publisher go on for 30 s: unanswered$", True),
        (one_node(alarms=["memory"]), r"announces an alarm \(memory\)", False),
        (one_node(takes_over=True), None, True),
    ],
    ids=["no alarm", "of the disk that it has again", "of another resource", "another node serves"],
)
def test_who_is_accused_of_serving_no_publisher(broker, said, held):
    """A broker that says why it does not go on is not, and none whose publisher stayed at a node of before."""
    error, against = unserved(broker, broker.node, JobResult(ended=UNANSWERED, waited_s=30), given_back="disk")

    assert held == against
    assert said is error if error is None else re.search(said, str(error))
