"""Roles against a session that is a list: what is recorded, in which order, and how each ends."""

from collections import deque

import pytest

from conformance import history
from conformance.clients import roles
from conformance.clients.job import Job, Trigger
from conformance.clients.session import Outcome, Received
from conformance.clients.wire import Disconnected
from conformance.history import Ended, Op, Phase, Recorder, bare_header, make_body


class Broker:
    """A session that answers in the next pump, or as its script says."""

    def __init__(self, *, messages=(), depth=0, answers=True, dies_after=None):
        self.outcomes, self.incoming, self.confirmed = deque(), deque(), deque()
        self.waiting, self.messages, self.depths, self.answers = [], list(messages), depth, answers
        self.acknowledged, self.credit, self.most, self.pumps, self.dies_after = [], 0, 0, 0, dies_after

    def attach_sender(self, queue):
        pass

    def attach_receiver(self, queue, credit):
        self.credit = credit

    def sendable(self):
        return 1_000

    def send(self, message, body, *, durable):
        self.waiting.append(message)
        self.most = max(self.most, len(self.waiting))

    def acknowledge(self, received):
        self.acknowledged.append(received.message)

    def acknowledge_confirmed(self, received):
        self.acknowledged.append(received.message)
        self.confirmed.append(received.message)

    def replenish(self, credit):
        self.credit += credit

    def pump(self, timeout_s):
        self.pumps += 1
        if self.dies_after is not None and self.pumps > self.dies_after:
            raise Disconnected("gone")
        if self.answers:
            self.outcomes.extend(Outcome(message, Phase.OK, None) for message in self.waiting)
            self.waiting.clear()
        while self.credit and self.messages:
            self.credit -= 1
            name = self.messages.pop(0)
            self.incoming.append(Received(name, make_body(name, 64), 0, None, False, name, None))

    def depth(self, queue):
        return self.depths

    def close(self):
        pass


@pytest.fixture
def play(tmp_path):
    def run(role, broker, **fields):
        path = tmp_path / "h.jsonl"
        job = Job(
            role=role,
            header=bare_header("p"),
            history=str(path),
            host="",
            port=0,
            protocol="amqp",
            queue="q",
            epoch=1,
            **{"silence_s": 0.0, "liveness_s": 0.05, **fields},
        )
        recorder = Recorder(path, job.header)
        result = roles.play(job, broker, recorder, [])
        recorder.close()
        history.close_history(path, Ended.FINISHED)
        return result, history.read(path).events

    return run


def kinds(events, op):
    return [(event.phase, event.message) for event in events if event.op is op]


def test_publisher_keeps_its_window(play):
    """Never more unanswered than the window."""
    broker = Broker()
    result, events = play("publish", broker, count=50, window=7)

    assert (50, 7) == (result.count, broker.most)
    assert 100 == len(kinds(events, Op.SEND))


def test_invoke_comes_before_the_answer(play):
    """For every message."""
    _, events = play("publish", Broker(), count=3, window=1)

    assert [(phase, f"p1:{number}") for number in (1, 2, 3) for phase in (Phase.INVOKE, Phase.OK)] == kinds(
        events, Op.SEND
    )


def test_lost_connection_leaves_the_outcome_unknown(play):
    """Neither ok nor fail."""
    result, events = play("publish", Broker(answers=False, dies_after=3), count=5, window=2)
    ends = [(event.phase, event.detail) for event in events if event.op is Op.SEND and event.phase is not Phase.INVOKE]

    assert ("disconnected", [(Phase.INFO, "disconnected")] * 2) == (result.ended, ends)


def test_no_answer_on_an_open_connection_is_said(play):
    """After the liveness bound, apart from a lost connection."""
    _, events = play("publish", Broker(answers=False), count=1, window=1)

    assert (Phase.INFO, "unanswered") == (events[-1].phase, events[-1].detail)


@pytest.mark.parametrize(
    ("mode", "every", "expected"),
    [
        ("auto", 1, ["p1:1", "p1:2", "p1:3", "p1:4", "p1:5"]),
        ("client", 2, ["p1:1", "p1:2", "p1:3", "p1:4"]),
        ("individual", 2, ["p1:2", "p1:4"]),
    ],
)
def test_modes_acknowledge(play, mode, every, expected):
    """Each after processing, all so far, or one by one."""
    broker = Broker(messages=[f"p1:{n}" for n in range(1, 6)])
    play("consume", broker, mode=mode, acknowledge=every, stop=5)

    assert expected == broker.acknowledged


@pytest.mark.parametrize(
    ("liar", "expected"), [("", [Op.PROCESS, Op.ACK]), ("acknowledges-on-receipt", [Op.ACK, Op.PROCESS])]
)
def test_auto_acknowledges_after_processing(play, liar, expected):
    """And the liar of the session before it."""
    _, events = play("consume", Broker(messages=["p1:1"]), mode="auto", stop=1, liar=liar)
    moments = ((Op.PROCESS, Phase.OK), (Op.ACK, Phase.INVOKE))

    assert expected == [event.op for event in events if (event.op, event.phase) in moments]


def test_client_liar_acknowledges_what_it_did_not_hand_over(play):
    """Prefetched messages as well."""
    broker = Broker(messages=[f"p1:{n}" for n in range(1, 6)])
    play("consume", broker, mode="client", acknowledge=2, stop=2, liar="acknowledges-prefetched")

    assert ["p1:1", "p1:2", "p1:3", "p1:4", "p1:5"] == broker.acknowledged


def test_drain_ends_in_silence_with_depth_zero(play):
    """And says how many."""
    result, events = play("drain", Broker(messages=["p1:1", "p1:2"]))

    assert ("finished", 2, 0) == (result.ended, result.count, result.depth)
    assert (Phase.OK, None, 2, "silent") == (
        events[-1].phase,
        events[-1].message,
        events[-1].count,
        events[-1].detail,
    )


def test_drain_is_stuck_while_the_broker_has_more(play):
    """Silence is not enough: the broker says that one is left."""
    result, events = play("drain", Broker(messages=["p1:1"], depth=1))

    assert ("stuck", Phase.INFO, "stuck") == (result.ended, events[-1].phase, events[-1].detail)


def test_trigger_fires_once_with_sends_in_flight(play, tmp_path):
    """A kill at the k-th confirm, after the window was filled again."""
    broker = Broker(dies_after=20)
    result, events = play("publish", broker, count=1_000, window=10, trigger=Trigger("confirm", 25, "kill"))
    fired = [at for at, event in enumerate(events) if event.phase is Phase.FIRED]
    confirmed = sum(event.phase is Phase.OK for event in events[: fired[0]] if event.op is Op.SEND)

    assert (True, 1, True) == (result.fired, len(fired), confirmed >= 25)
    assert (Op.SEND, Phase.INVOKE) == (events[fired[0] - 1].op, events[fired[0] - 1].phase)


def test_unknown_role_is_refused(play):
    """With an error of ours."""
    with pytest.raises(roles.ClientError, match="unknown role 'dance'"):
        play("dance", Broker())
