"""Roles against a session that is a list: what is recorded, in which order, and how each ends."""

import itertools
import time

import pytest
from listed_session import Listed
from stomp_peer import job

from conformance import history
from conformance.adapters.interface import DepthProbe
from conformance.clients.job import NEVER, NO_CREDIT, UNANSWERED, SentTransaction
from conformance.clients.roles import play as roles
from conformance.clients.roles.modes import MODES, AckHeader
from conformance.clients.session import Disconnected, Refused, SendOutcome
from conformance.errors import ClientError, UnansweredError
from conformance.history import PASSED_OVER, SELECTED, UNSELECTED, Op, Phase
from conformance.scenario.script import Consume, Drain, Kill, Nth, Publish


def kinds(events, op):
    return [(event.phase, event.message) for event in events if event.op is op]


@pytest.mark.parametrize(("liar", "most"), [("", 7), ("ignores-its-window", 17)])
def test_a_publisher_keeps_its_window(play, liar, most):
    """Never more unanswered than the window; a session liar has ten too many."""
    broker = Listed()
    result, events = play(Publish(50, window=7), broker, liar=liar)

    assert (50, most) == (result.count, broker.most)
    assert 100 == len(kinds(events, Op.SEND))


def test_invoke_comes_before_the_answer(play):
    """For every message."""
    _, events = play(Publish(3, window=1), Listed())

    assert [(phase, f"p1:{number}") for number in (1, 2, 3) for phase in (Phase.INVOKE, Phase.OK)] == kinds(
        events, Op.SEND
    )


def test_lost_connection_leaves_the_outcome_unknown(play):
    """Neither ok nor fail."""
    result, events = play(Publish(5, window=2), Listed(answers=False, dies_after=3))
    ends = [(event.phase, event.detail) for event in events if event.op is Op.SEND and event.phase is not Phase.INVOKE]

    assert ("disconnected", [(Phase.INFO, "disconnected")] * 2) == (result.ended, ends)


def test_no_answer_on_an_open_connection_is_said(play):
    """After the liveness bound, apart from a lost connection."""
    result, events = play(Publish(1, window=1), Listed(answers=False))

    assert (Phase.INFO, "unanswered") == (events[-1].phase, events[-1].detail)
    assert UNANSWERED == result.ended


def test_a_publisher_without_credit_ends_after_the_liveness_bound(play):
    """Smallest counter-example to waiting on: RabbitMQ gives no credit over AMQP while a memory alarm is on."""

    class Spent(Listed):
        def sendable(self):
            return 3 - sum(op is Op.SEND for op, _, _ in self.log)

    result, events = play(Publish(5, window=5), Spent(), liveness_s=0.2)

    assert (NO_CREDIT, 3) == (result.ended, result.count)
    assert 0.2 <= result.waited_s < 5
    assert {f"p1:{n}" for n in (1, 2, 3)} == {e.message for e in events if e.op is Op.SEND}


@pytest.mark.parametrize(
    ("mode", "every", "liar", "stop", "acknowledged"),
    [
        ("auto", 1, "", 5, [1, 2, 3, 4, 5]),
        ("client", 2, "", 5, [1, 2, 3, 4]),
        ("individual", 2, "", 5, [2, 4]),
        ("client", 2, "acknowledges-prefetched", 2, [1, 2, 3, 4, 5]),
    ],
)
def test_modes_acknowledge(play, mode, every, liar, stop, acknowledged):
    """Each after processing, all so far, or one by one; a liar also those that it has only prefetched."""
    broker = Listed(messages=[f"p1:{n}" for n in range(1, 6)])
    play(Consume(mode, acknowledge=every, stop=stop), broker, liar=liar)

    assert [f"p1:{n}" for n in acknowledged] == broker.acknowledged


@pytest.mark.parametrize(
    ("mode", "liar", "expected"),
    [
        ("auto", "", [Op.PROCESS, Op.ACK]),
        ("auto", "acknowledges-on-receipt", [Op.ACK, Op.PROCESS]),
        ("pre", "", [Op.ACK, Op.PROCESS]),
        ("pre", "acknowledges-after-processing", [Op.PROCESS, Op.ACK]),
        ("no_ack", "", [Op.PROCESS]),
        ("no_ack", "acknowledges-in-every-mode", [Op.PROCESS, Op.ACK]),
    ],
)
def test_when_a_session_acknowledges(play, mode, liar, expected):
    """AUTO after processing, PRE before it, NO_ACK never, and their liars."""
    _, events = play(Consume(mode, stop=1), Listed(messages=["p1:1"]), liar=liar)
    moments = ((Op.PROCESS, Phase.OK), (Op.ACK, Phase.INVOKE))

    assert expected == [event.op for event in events if (event.op, event.phase) in moments]


@pytest.mark.parametrize(
    ("depth", "delayed", "ended", "last"),
    [
        (0, False, "finished", (Phase.OK, None, 2, "silent")),
        (1, False, "stuck", (Phase.INFO, None, 2, "stuck")),
        (1, True, history.DELAYED, (Phase.INFO, None, 2, history.DELAYED)),
    ],
)
def test_a_drain_ends_in_silence_with_depth_zero(play, depth, delayed, ended, last):
    """Silence is not enough while the broker counts a message, unless that waits for its redelivery."""
    result, events = play(Drain(), Listed(messages=["p1:1", "p1:2"]), depth, delayed=delayed)

    assert (ended, 2, depth) == (result.ended, result.count, result.depth)
    assert last == (events[-1].phase, events[-1].message, events[-1].count, events[-1].detail)


class Absent(Listed):
    """No client can attach to its queue."""

    def attach_sender(self, queue):
        raise Refused("not found")

    def attach_receiver(self, queue, credit, subscription):
        raise Refused("not found")


def test_a_publisher_sends_to_its_queues_in_turn(play):
    """Each send, and its answer, is recorded in the queue that it went to."""
    _, events = play(Publish(3, window=3, queues=2), Listed(), more_queues={"r": DepthProbe("http")})
    sends = [(event.message, event.phase, event.queue) for event in events if event.op is Op.SEND]

    assert [("p1:1", "q"), ("p1:2", "r"), ("p1:3", "q")] == [(m, q) for m, phase, q in sends if phase is Phase.INVOKE]
    assert [("p1:1", "q"), ("p1:2", "r"), ("p1:3", "q")] == [(m, q) for m, phase, q in sends if phase is Phase.OK]


def test_a_send_that_is_copied_is_recorded_in_every_queue(play):
    """It goes to the first one only."""
    broker, attached = Listed(), []
    broker.attach_sender = attached.append
    _, events = play(Publish(2, window=1, queues=2), broker, more_queues={"r": DepthProbe("http")}, copied="{queue}")
    sends = [(event.message, event.phase, event.queue) for event in events if event.op is Op.SEND]

    assert (["q"], 2) == (attached, len(broker.log))
    assert [(f"p1:{n}", phase, q) for n in (1, 2) for phase in (Phase.INVOKE, Phase.OK) for q in ("q", "r")] == sends


@pytest.mark.parametrize(("depth", "last"), [(0, (Phase.OK, 2, "silent")), (1, (Phase.INFO, 2, "stuck"))])
def test_a_drain_empties_every_queue_and_ends_once(play, monkeypatch, depth, last):
    """What is left in any of them leaves it stuck. The last depth is the sum."""

    class Depths:
        def __init__(self, *_):
            pass

        def ask(self, queue):
            return 0

        close = __init__

    other = Listed(messages=["p1:2"])
    other.close = lambda: None
    monkeypatch.setattr(roles, "connect", lambda job, flush: other)
    monkeypatch.setattr(roles, "DepthClient", Depths)
    result, events = play(Drain(), Listed(messages=["p1:1"]), depth, more_queues={"r": DepthProbe("http")})

    drained = [(event.message, event.queue) for event in events if event.op is Op.DRAIN and event.message]
    ends = [(event.phase, event.count, event.detail) for event in events if event.op is Op.DRAIN and not event.message]
    depths = [event.count for event in events if event.op is Op.DEPTH]
    assert ([("p1:1", "q"), ("p1:2", "r")], [last]) == (drained, ends[1:])
    assert (depth, depth) == (depths[-1], result.depth)


def test_a_queue_that_is_not_there_refuses_its_publisher(play):
    result, events = play(Publish(3, window=2), Absent(), absent=True)

    assert "refused" == result.ended
    assert [("p1:1", Phase.INVOKE, None), ("p1:1", Phase.FAIL, "not found")] == [
        (e.message, e.phase, e.detail) for e in events
    ]


def test_a_queue_that_is_not_there_is_empty(play):
    result, events = play(Drain(), Absent(), 0, absent=True)

    assert ("finished", 0) == (result.ended, result.depth)
    assert (Phase.OK, 0, "no such queue") == (events[-1].phase, events[-1].count, events[-1].detail)


@pytest.mark.parametrize(("depth", "options"), [(1, {"absent": True}), (0, {})])
def test_a_drain_that_cannot_attach_proves_nothing(play, depth, options):
    """The broker counts messages in the queue, or the queue was declared."""
    with pytest.raises(Refused):
        play(Drain(), Absent(), depth, **options)


class Silent(Listed):
    """A broker that does not answer a consumer."""

    def attach_receiver(self, queue, credit, subscription):
        raise UnansweredError("the broker did not answer Basic.Consume within 30 s")


def test_a_queue_whose_consumer_gets_no_answer_is_stuck(play):
    """RabbitMQ: a quorum queue without a leader."""
    result, events = play(Drain(), Silent(messages=["p1:1"]), 1)

    assert ("stuck", 1) == (result.ended, result.depth)
    assert [(Op.DRAIN, Phase.INVOKE, None), (Op.DEPTH, Phase.OK, 1), (Op.DRAIN, Phase.INFO, 0)] == [
        (event.op, event.phase, event.count) for event in events
    ]


@pytest.mark.parametrize(("depth", "options"), [(0, {}), (1, {"liveness_s": 31.0})])
def test_a_consumer_that_gets_no_answer_proves_nothing_of_an_empty_queue_or_a_slow_broker(play, depth, options):
    with pytest.raises(UnansweredError) as raised:
        play(Drain(), Silent(), depth, **options)

    assert raised.value.of_broker


def test_a_publisher_cut_off(play):
    """What had no answer is unknown."""
    result, events = play(Publish(3, window=3), Listed(answers=False, dies_after=2), cut_off=True)

    assert "refused" == result.ended
    assert {Phase.INVOKE, Phase.INFO} == {e.phase for e in events if e.op is Op.SEND}


def test_a_drain_waits_ten_times_the_longest_wait_of_its_own(play):
    """A broker that took 50 ms to the first message is given half a second for the next, not the 10 ms of the job."""

    class Slow(Listed):
        def pump(self, timeout_s):
            time.sleep(0.05)
            super().pump(timeout_s)

    result, _ = play(Drain(), Slow(messages=["p1:1"]), depth=1, liveness_s=0.01)

    assert "stuck" == result.ended
    assert result.waited_s >= 0.5


def test_trigger_fires_once_with_sends_in_flight(play, tmp_path):
    """A kill at the k-th confirm, after the window was filled again."""
    broker = Listed(dies_after=20)
    result, events = play(Publish(1_000, window=10, until=Kill(Nth("confirm", 25))), broker)
    fired = [at for at, event in enumerate(events) if event.phase is Phase.FIRED]
    confirmed = sum(event.phase is Phase.OK for event in events[: fired[0]] if event.op is Op.SEND)

    assert (True, 1, True) == (result.fired, len(fired), confirmed >= 25)
    assert (Op.SEND, Phase.INVOKE) == (events[fired[0] - 1].op, events[fired[0] - 1].phase)


def test_a_client_in_a_hurry_asks_to_commit_before_it_reads_an_answer(play):
    """The answers to its sends are read after that, and each is recorded."""
    broker = Listed()
    _, events = play(Publish(4, window=1, batch=2, hurries=True), broker)
    recorded = [(event.op, event.phase, event.message) for event in events if event.op in (Op.SEND, Op.COMMIT)]

    assert [
        (Op.SEND, Phase.INVOKE, "p1:1"),
        (Op.SEND, Phase.INVOKE, "p1:2"),
        (Op.COMMIT, Phase.INVOKE, None),
        (Op.SEND, Phase.OK, "p1:1"),
        (Op.SEND, Phase.OK, "p1:2"),
        (Op.COMMIT, Phase.OK, None),
    ] == recorded[:6]
    assert 12 == len(recorded)


def test_a_consumer_sends_in_its_transaction(play):
    """As many new messages as it acknowledges, under a number of its own, answered before the commit."""
    broker = Listed(messages=["p1:1", "p1:2"])
    _, events = play(Consume("transacted", acknowledge=2, forwards=True, stop=2), broker, producer=1_001)

    assert [
        *[(Op.BEGIN, "t1"), (Op.ACK, "p1:1"), (Op.ACK, "p1:2"), (Op.SEND, "p1001:1"), (Op.SEND, "p1001:2")],
        (Op.COMMIT, "t1"),
    ] == [(op, name) for op, name, _ in broker.log]
    assert {"t1"} == {transaction for _, _, transaction in broker.log}
    assert [(phase, f"p1001:{n}") for phase in (Phase.INVOKE, Phase.OK) for n in (1, 2)] == kinds(events, Op.SEND)


def test_a_consumer_records_answers_to_its_sends_that_come_with_the_commit(play):
    """Counter-example: without them each of its messages counted as one that was committed and never accepted."""
    broker = AtCommit(messages=["p1:1", "p1:2"])
    step = Consume("transacted", acknowledge=2, forwards=True, stop=2)
    _, events = play(step, broker, producer=1_001, answers_at_commit=True)

    assert [(phase, f"p1001:{n}") for phase in (Phase.INVOKE, Phase.OK) for n in (1, 2)] == kinds(events, Op.SEND)
    assert {"t1"} == {event.transaction for event in events if event.op is Op.SEND}


def test_answers_that_come_with_the_end_of_the_connection_are_recorded(play):
    """The answer to the commit, and those to the sends: not the one without the others."""

    class Ends(AtCommit):
        def pump(self, timeout_s):
            if self.due:
                self.outcomes.extend(self.due)
                raise Disconnected("gone")
            super().pump(timeout_s)

    broker = Ends(messages=["p1:1", "p1:2"])
    step = Consume("transacted", acknowledge=2, forwards=True, stop=2)
    _, events = play(step, broker, producer=1_001, answers_at_commit=True, broker_may_end=True)

    assert [(Phase.OK, "p1001:1"), (Phase.OK, "p1001:2")] == kinds(events, Op.SEND)[2:]


def phases(events, *ops):
    return [(event.op, event.phase, event.transaction) for event in events if event.op in ops]


def test_transactions_are_begun_filled_and_discharged(play):
    """Each before the next, every third rolled back."""
    broker = Listed()
    _, events = play(Publish(6, window=5, batch=2, rollback_every=3), broker)

    assert [
        *[(Op.BEGIN, "t1"), (Op.SEND, "p1:1"), (Op.SEND, "p1:2"), (Op.COMMIT, "t1")],
        *[(Op.BEGIN, "t2"), (Op.SEND, "p1:3"), (Op.SEND, "p1:4"), (Op.COMMIT, "t2")],
        *[(Op.BEGIN, "t3"), (Op.SEND, "p1:5"), (Op.SEND, "p1:6"), (Op.ROLLBACK, "t3")],
    ] == [(op, name) for op, name, _ in broker.log]
    assert [
        (op, phase, name)
        for name, op in (("t1", Op.COMMIT), ("t2", Op.COMMIT), ("t3", Op.ROLLBACK))
        for phase in (Phase.INVOKE, Phase.OK)
    ] == phases(events, Op.COMMIT, Op.ROLLBACK)


@pytest.mark.parametrize(
    ("step", "broker", "asked"),
    [
        (Publish(6, window=5, batch=2, rollback_every=3), Listed(), (SentTransaction(1, 3, 4),)),
        (Publish(2, window=5, batch=2), Listed(unanswered=[Op.COMMIT], dies_after=9), (SentTransaction(1, 1, 2),)),
        (Publish(2, window=5, batch=2, rollback_every=1), Listed(), ()),
        (Publish(2, window=5), Listed(), ()),
    ],
    ids=["answered", "unanswered", "rolled back", "none"],
)
def test_the_report_names_the_last_transaction_that_was_asked_to_commit(play, step, broker, asked):
    """With or without an answer; not one that was rolled back."""
    assert asked == play(step, broker)[0].unfinished


@pytest.mark.parametrize("again", [(SentTransaction(1, 3, 4), SentTransaction(2, 7, 8)), ()], ids=["two", "none"])
def test_transactions_are_sent_again(play, again):
    """With their own ids, one after the other; the step has no messages of its own."""
    broker = Listed()
    result, _ = play(Publish(9, window=5, batch=2, resends=True), broker, resumes=again)
    both = [
        *[(Op.BEGIN, "t1"), (Op.SEND, "p1:3"), (Op.SEND, "p1:4"), (Op.COMMIT, "t1")],
        *[(Op.BEGIN, "t2"), (Op.SEND, "p2:7"), (Op.SEND, "p2:8"), (Op.COMMIT, "t2")],
    ]

    assert (both if again else []) == [(op, name) for op, name, _ in broker.log]
    assert (2 * len(again), ()) == (result.count, result.unfinished)


@pytest.mark.parametrize(
    ("broker", "detail"),
    [(Listed(unanswered=[Op.COMMIT]), "unanswered"), (Listed(unanswered=[Op.COMMIT], dies_after=9), "disconnected")],
    ids=["unanswered", "disconnected"],
)
def test_an_unanswered_commit_is_unknown(play, broker, detail):
    """Neither committed nor not."""
    _, events = play(Publish(2, window=2, batch=2), broker)
    commits = [(event.phase, event.detail) for event in events if event.op is Op.COMMIT]

    assert [(Phase.INVOKE, None), (Phase.INFO, detail)] == commits


class AtCommit(Listed):
    """Answers the sends of a transaction after its commit, but for those that it `keeps`, and after a rollback none."""

    def __init__(self, *, keeps=(), **more):
        super().__init__(answers=False, **more)
        self.keeps, self.due, self.ready = keeps, [], []

    def commit(self, transaction):
        super().commit(transaction)
        self.due = [SendOutcome(message, Phase.OK, None) for message in self.waiting if message not in self.keeps]
        self.waiting.clear()

    def rollback(self, transaction):
        super().rollback(transaction)
        self.waiting.clear()

    def pump(self, timeout_s):
        self.outcomes.extend(self.ready)
        self.ready, self.due = self.due, []
        super().pump(timeout_s)


def answered(events):
    return [
        (event.op, event.phase, event.message or event.transaction, event.detail)
        for event in events
        if event.op in (Op.SEND, Op.COMMIT, Op.ROLLBACK) and (event.op, event.phase) != (Op.SEND, Phase.INVOKE)
    ]


def test_sends_that_are_answered_at_the_commit_are_not_waited_for(play):
    """The commit is answered when they are, and what is rolled back has no answers."""
    result, events = play(Publish(4, window=5, batch=2, rollback_every=2), AtCommit(), answers_at_commit=True)

    assert ("finished", 2) == (result.ended, result.count)
    assert [
        (Op.COMMIT, Phase.INVOKE, "t1", None),
        (Op.SEND, Phase.OK, "p1:1", None),
        (Op.SEND, Phase.OK, "p1:2", None),
        (Op.COMMIT, Phase.OK, "t1", None),
        (Op.ROLLBACK, Phase.INVOKE, "t2", None),
        (Op.ROLLBACK, Phase.OK, "t2", None),
        (Op.SEND, Phase.INFO, "p1:3", "rolled back"),
        (Op.SEND, Phase.INFO, "p1:4", "rolled back"),
    ] == answered(events)


def test_the_next_transaction_is_begun_when_all_of_one_was_sent(play):
    """Its answer says that what was sent before it was received; and each is begun once."""
    broker = AtCommit()
    play(Publish(4, window=5, batch=2), broker, answers_at_commit=True)

    assert [
        *[(Op.BEGIN, "t1"), (Op.SEND, "p1:1"), (Op.SEND, "p1:2"), (Op.BEGIN, "t2"), (Op.COMMIT, "t1")],
        *[(Op.SEND, "p1:3"), (Op.SEND, "p1:4"), (Op.BEGIN, "t3"), (Op.COMMIT, "t2")],
    ] == [(op, name) for op, name, _ in broker.log]


def test_who_waits_for_them_before_the_commit_waits_in_vain(play):
    """What the word of the adapter is for."""
    _, events = play(Publish(2, window=5, batch=2), AtCommit())

    assert [(Op.SEND, Phase.INFO, f"p1:{n}", "unanswered") for n in (1, 2)] == answered(events)


@pytest.mark.parametrize(
    ("broker", "detail"),
    [(AtCommit(keeps=["p1:2"]), "unanswered"), (AtCommit(keeps=["p1:2"], dies_after=9), "disconnected")],
    ids=["unanswered", "disconnected"],
)
def test_a_commit_without_the_answer_to_each_of_its_sends_is_unknown(play, broker, detail):
    """Its own alone says nothing of them."""
    _, events = play(Publish(2, window=5, batch=2), broker, answers_at_commit=True)

    assert [
        (Op.COMMIT, Phase.INVOKE, "t1", None),
        (Op.SEND, Phase.OK, "p1:1", None),
        (Op.COMMIT, Phase.INFO, "t1", detail),
        (Op.SEND, Phase.INFO, "p1:2", detail),
    ] == answered(events)


def test_a_peek_sees_what_comes_before_the_commit(play):
    """And records it before the commit is asked for."""
    _, events = play(Publish(1, window=1, batch=1, peek=True), Listed(messages=["p1:1"]), silence_s=0.01)
    order = [event.op for event in events if event.op in (Op.DELIVER, Op.COMMIT)]

    assert [Op.DELIVER, Op.COMMIT, Op.COMMIT] == order


def test_a_consumer_acknowledges_in_transactions(play):
    """What was rolled back is released, and comes again."""
    broker = Listed(messages=["p1:1", "p1:2", "p1:3"])
    _, events = play(Consume("transacted", acknowledge=1, rollback_every=2, stop=4), broker)

    assert ["t1", "t2", "t3", "t4"] == [event.transaction for event in events if event.op is Op.ACK]
    assert [("p1:2", "released"), ("p1:2", "released")] == broker.refused
    assert [(Op.COMMIT, "t1"), (Op.ROLLBACK, "t2"), (Op.COMMIT, "t3"), (Op.ROLLBACK, "t4")] == [
        (op, name) for op, phase, name in phases(events, Op.COMMIT, Op.ROLLBACK) if phase is Phase.INVOKE
    ]


def test_a_message_is_refused_once(play):
    """Every second one, with the outcomes in turn; what comes again is taken."""
    broker = Listed(messages=["p1:1", "p1:2", "p1:3", "p1:4"])
    _, events = play(
        Consume("auto", refuse=("released", "failed"), refuse_every=2, until_silent=True), broker, silence_s=0.01
    )

    assert [("p1:2", "failed"), ("p1:4", "released")] == broker.refused
    assert {"p1:1", "p1:2", "p1:3", "p1:4"} == set(broker.acknowledged)
    assert ["failed", "released"] == [event.detail for event in events if event.op is Op.NACK]


@pytest.mark.parametrize(
    ("selects", "in_vain", "recorded"),
    [
        ("", None, [None, None, None]),
        ("odd", None, [None, UNSELECTED, UNSELECTED]),
        ("even", (), [UNSELECTED, PASSED_OVER, UNSELECTED]),
        ("", ("odd",), [SELECTED, PASSED_OVER, PASSED_OVER]),
        ("", ("odd", "even"), [SELECTED, SELECTED, PASSED_OVER]),
    ],
)
def test_each_delivery_says_what_the_selectors_have_to_do_with_it(play, selects, in_vain, recorded):
    """Its own, and those of the consumers before it."""
    broker = Listed(messages=["p1:1", "p1:2", "foreign"])
    _, events = play(Consume("auto", selects=selects, stop=3), broker, in_vain=in_vain)

    assert recorded == [event.detail for event in events if event.op is Op.DELIVER]


def test_a_message_is_refused_whenever_it_comes(play):
    broker = Listed(messages=["p1:1", "p1:2"])
    play(Consume("auto", refuse=("failed",), refuse_every=1, refuse_again=True, stop=5), broker)

    assert ["p1:1", "p1:2", "p1:1", "p1:2", "p1:1"] == [name for name, _ in broker.refused]


@pytest.mark.parametrize(
    ("mode", "subscription"),
    [("no_ack", AckHeader.SETTLED), ("client", AckHeader.CUMULATIVE), ("individual", AckHeader.INDIVIDUAL)],
)
def test_a_mode_says_how_to_subscribe(play, mode, subscription):
    """NO_ACK asks for settled deliveries."""
    broker = Listed(messages=["p1:1"])
    play(Consume(mode, stop=1), broker)

    assert (subscription, subscription) == (broker.subscription, MODES[mode].subscription)


def test_a_consumer_that_gives_no_more_credit(play):
    """Two credits, and one each for the first three messages: the sixth of ten stays with the broker."""
    broker = Listed(messages=[f"p1:{n}" for n in range(1, 11)])
    _, events = play(Consume("no_ack", prefetch=2, renews=3, until_silent=True), broker, silence_s=0.01)

    assert [f"p1:{n}" for n in range(1, 6)] == [event.message for event in events if event.op is Op.DELIVER]
    assert [f"p1:{n}" for n in range(6, 11)] == broker.messages


def test_a_full_prefetch_shows_what_comes_beyond_it(play):
    """A broker that sends three although two were asked for."""
    broker = Listed(messages=["p1:1", "p1:2"])
    broker.replenish = lambda credit, receiver: broker.messages.append("p1:9")
    broker.pump = beyond(broker)
    _, events = play(Consume("client", prefetch=2, acknowledge=2, hold=True, stop=3), broker, silence_s=0.01)
    first_ack = next(at for at, event in enumerate(events) if event.op is Op.ACK)

    assert 3 == sum(event.op is Op.DELIVER for event in events[:first_ack])


def beyond(broker):
    """One delivery more than there is credit for."""
    pump = broker.pump

    def more(timeout_s):
        if broker.credit == 0 and not broker.messages and broker.pumps < 50:
            broker.messages, broker.credit = ["p1:3"], 1
            broker.pumps += 50
        pump(timeout_s)

    return more


def test_a_consumer_that_waits_in_vain_says_so(play):
    """Stuck, and a delivery that is unknown."""
    result, events = play(Consume("auto", stop=1), Listed())

    assert ("stuck", [(Phase.INFO, None)]) == (result.ended, kinds(events, Op.DELIVER))


def test_a_client_can_ask_for_answers(play):
    """One answer for each message of a cumulative acknowledgement."""
    broker = Listed(messages=["p1:1", "p1:2"])
    _, events = play(Consume("client", acknowledge=2, stop=2, confirm=True), broker)

    assert [(Phase.INVOKE, "p1:1"), (Phase.INVOKE, "p1:2"), (Phase.OK, "p1:1"), (Phase.OK, "p1:2")] == kinds(
        events, Op.ACK
    )


def test_a_broker_that_never_answers_is_not_asked(play):
    """RabbitMQ 3.10 over AMQP: its session ends over the question. Whether it took effect is unknown."""
    broker = Listed(messages=["p1:1"])
    result, events = play(Consume("client", stop=1, confirm=True), broker, ack_confirm=NEVER)

    assert ("finished", [(Phase.INVOKE, "p1:1")]) == (result.ended, kinds(events, Op.ACK))


def test_sends_without_an_answer(play):
    """Are unknown, and only the raw client has them."""
    _, events = play(Publish(4, window=4, unasked_every=2), Listed())

    assert [(Phase.INFO, "p1:2"), (Phase.INFO, "p1:4")] == [k for k in kinds(events, Op.SEND) if k[0] is Phase.INFO]


def test_a_drain_needs_a_way_to_ask_for_depths():
    """Silence alone would never end it."""
    with pytest.raises(ClientError, match="no way to ask for the depth of q"):
        roles.play(job(0), Listed(), None, [])


def test_a_trigger_at_a_send_fires_before_its_answer(play):
    """The k-th send was written, and nothing after it was; its answer had not been read."""
    result, events = play(Publish(50, window=10, until=Kill(Nth("sent", 3))), Listed(dies_after=3))
    kinds = [(event.op, event.phase) for event in events if event.op in (Op.SEND, Op.FAULT)]
    fired = kinds.index((Op.FAULT, Phase.FIRED))

    assert (True, 3) == (result.fired, result.seen)
    assert 3 == kinds[:fired].count((Op.SEND, Phase.INVOKE)) == kinds.count((Op.SEND, Phase.INVOKE))
    assert (Op.SEND, Phase.OK) not in kinds[:fired]


def test_a_trigger_at_a_written_acknowledgement_fires_before_its_confirmation(play):
    """It has left, and is not answered."""
    broker = Listed(messages=["p1:1", "p1:2", "p1:3"], dies_after=20)
    kill = Kill(Nth("ack_written", 2))
    result, events = play(Consume("individual", confirm=True, stop=3, until=kill), broker)
    kinds = [(event.op, event.phase) for event in events if event.op in (Op.ACK, Op.FAULT)]
    fired = kinds.index((Op.FAULT, Phase.FIRED))

    assert (True, ["p1:1", "p1:2"]) == (result.fired, broker.acknowledged)
    assert (2, 1) == (kinds[:fired].count((Op.ACK, Phase.INVOKE)), kinds[:fired].count((Op.ACK, Phase.OK)))


@pytest.mark.parametrize("every_ms", [20, 2.5])
def test_sends_on_a_schedule_know_when_they_were_due(play, every_ms):
    """Each is so much later than the one before, and none leaves early: latency without coordinated omission."""
    _, events = play(Publish(4, window=10, every_ms=every_ms), Listed())
    sends = [event for event in events if (event.op, event.phase) == (Op.SEND, Phase.INVOKE)]

    assert [every_ms * 1_000_000] * 3 == [b.due_ns - a.due_ns for a, b in itertools.pairwise(sends)]
    assert all(event.at_ns >= event.due_ns for event in sends)


def test_transactions_on_a_schedule(play):
    """Each begins when it is due."""
    _, events = play(Publish(6, window=10, batch=2, every_ms=200), Listed())
    begun = [event.at_ns for event in events if (event.op, event.phase) == (Op.BEGIN, Phase.INVOKE)]

    assert 3 == len(begun)
    assert begun[2] - begun[0] >= 300_000_000  # of 400: the first may be late


def test_a_processing_takes_its_time(play):
    """And the connection is served meanwhile."""
    broker = Listed(messages=["p1:1", "p1:2"])
    _, events = play(Consume("auto", stop=2, work_ms=20), broker)
    begins, ends = (
        [event.at_ns for event in events if (event.op, event.phase) == (Op.PROCESS, phase)]
        for phase in (Phase.INVOKE, Phase.OK)
    )

    assert all(end - begin >= 19_000_000 for begin, end in zip(begins, ends, strict=True))
    assert broker.pumps >= 4


def test_a_dead_letter_queue_is_emptied_into_the_history_of_the_trial(play):
    """Its messages are neither delivered nor the end of a drain: their events name the trial's queue."""
    result, events = play(Drain(), Listed(messages=["p1:1", "p1:2"]), collects="DLQ")

    assert 2 == result.count
    assert [(Op.DRAIN, Phase.INFO, "q", f"p1:{n}", "in DLQ") for n in (1, 2)] == [
        (event.op, event.phase, event.queue, event.message, event.detail) for event in events
    ]


def test_a_dead_letter_queue_that_keeps_something_voids_the_trial(play):
    """Its messages cannot be distinguished from lost ones."""
    with pytest.raises(ClientError, match="DLQ holds 3 messages that a consumer was not given"):
        play(Drain(), Listed(), depth=3, collects="DLQ")
