"""Calls of a vendor's client while the broker is halted, and what came again of those that had acknowledged."""

from judge_histories import (
    ack_sent,
    acked_in,
    answered,
    came,
    committed,
    confirmed,
    crashed,
    fired,
    halted,
    handed,
    kept,
    killed,
    no_answer,
    of,
    pause,
    put,
    refused,
    resumed,
    rolled_back,
    sent,
    settled,
    silent,
    stuck,
    took,
)

from conformance.history import Op, Phase

C = "consumer-1"


def returned(*numbers):
    """acknowledge() has returned, a while after it was called."""
    return [e for n in numbers for e in of(C, Op.ACK, Phase.OK, f"p1:{n}")]


def back(*numbers):
    """send() has returned; a listener hears of the answer."""
    return [e for n in numbers for e in of("publisher-1", Op.CALL, Phase.OK, f"p1:{n}")]


def slow(ms):
    """The link adds so much to a round trip."""
    return of("link-1", Op.FAULT, Phase.ARMED, fault="delay", count=ms * 1000)


def told(number, phase):
    """A question to the client, and whether the answer is what a claim says."""
    return [e for each in (Phase.INVOKE, phase) for e in of("asker-1", Op.ASK, each, f"p9:{number}")]


LONG, SHORT = 29_999, 29_998
"""Between a call and the end of the pause lies one event more: with it they are the liveness bound, and less."""

SENDS = {
    # send() that must not return
    "a send that returns while the broker is halted": (
        "send_returned",
        halted() + sent(1) + confirmed(1) + resumed(),
        1,
        1,
    ),
    "a send that returns when the broker goes on": (
        "send_returned",
        halted() + sent(1) + resumed() + confirmed(1),
        1,
        0,
    ),
    "a send that never returns": ("send_returned", halted() + sent(1) + resumed() + no_answer(1), 1, 0),
    "a send that fails while the broker is halted": (
        "send_returned",
        halted() + sent(1) + refused(1) + resumed(),
        1,
        0,
    ),
    "a send before the halt, whose answer was on its way": (
        "send_returned",
        sent(1) + halted() + confirmed(1) + resumed(),
        0,
        0,
    ),
    "a send between the signal and the halt": (
        "send_returned",
        of("publisher-1", Op.FAULT, Phase.FIRED, fault="pause")
        + sent(1)
        + of("publisher-1", Op.FAULT, Phase.EFFECTIVE, fault="pause")
        + confirmed(1)
        + resumed(),
        0,
        0,
    ),
    "a send after the broker went on": ("send_returned", halted() + resumed() + kept(1), 0, 0),
    "sends of a broker that nobody halted": ("send_returned", kept(1), 0, 0),
    "a send while something else is halted": (
        "send_returned",
        fired("held_sync", "disk-1") + kept(1) + of("disk-1", Op.FAULT, Phase.HEALED, fault="held_sync"),
        0,
        0,
    ),
    "a send to a broker that never goes on": ("send_returned", halted() + kept(1) + killed(), 0, 0),
    "a send in a transaction may return": ("send_returned", halted() + put("t1", 1) + resumed(), 0, 0),
    # send() that must return
    "a send that waits for the liveness bound": (
        "send_waited",
        halted() + sent(1) + pause(LONG) + resumed() + confirmed(1),
        1,
        1,
    ),
    "a send that has not returned when the pause is over too soon": (
        "send_waited",
        halted() + sent(1) + pause(SHORT) + resumed() + confirmed(1),
        0,
        0,
    ),
    "a send that has returned when the pause is over soon": (
        "send_waited",
        halted() + sent(1) + confirmed(1) + resumed(),
        1,
        0,
    ),
    "a send that has returned in a long pause": (
        "send_waited",
        halted() + sent(1) + confirmed(1) + pause(LONG) + resumed(),
        1,
        0,
    ),
    "a send that returns in the pause, after the liveness bound": (
        "send_waited",
        halted() + sent(1) + pause(LONG) + confirmed(1) + resumed(),
        1,
        1,
    ),
    "a send that returns in the pause, just within the liveness bound": (
        "send_waited",
        halted() + sent(1) + pause(SHORT) + confirmed(1) + pause(9) + resumed(),
        1,
        0,
    ),
    "a send that waits and never returns": (
        "send_waited",
        halted() + sent(1) + pause(LONG) + resumed() + no_answer(1, "unanswered"),
        1,
        1,
    ),
    "a send that was called before the halt may wait": (
        "send_waited",
        sent(1) + halted() + pause(LONG) + resumed() + confirmed(1),
        0,
        0,
    ),
    "a send in a transaction is another's": (
        "send_waited",
        halted() + sent(1, tx="t1") + pause(LONG) + resumed() + confirmed(1, tx="t1"),
        0,
        0,
    ),
    # send() in a transaction
    "a send in a transaction that waits for the liveness bound": (
        "transacted_send_waited",
        halted() + sent(1, tx="t1") + pause(LONG) + resumed() + confirmed(1, tx="t1"),
        1,
        1,
    ),
    "a send in a transaction, and a pause that is over too soon": (
        "transacted_send_waited",
        halted() + sent(1, tx="t1") + pause(SHORT) + resumed() + confirmed(1, tx="t1"),
        0,
        0,
    ),
    "a send in a transaction that has returned": (
        "transacted_send_waited",
        halted() + put("t1", 1) + pause(LONG) + committed("t1", None) + resumed(),
        1,
        0,
    ),
    "a send in a transaction that returns in the pause, after the liveness bound": (
        "transacted_send_waited",
        halted() + sent(1, tx="t1") + pause(LONG) + confirmed(1, tx="t1") + resumed(),
        1,
        1,
    ),
    "a send outside of a transaction is another's": (
        "transacted_send_waited",
        halted() + sent(1) + pause(LONG) + resumed() + confirmed(1),
        0,
        0,
    ),
}

LISTENED = {
    # send() that hands its answer to a listener must return
    "a send with a listener that waits for the liveness bound": (
        "asynchronous_send_waited",
        halted() + sent(1) + pause(LONG) + resumed() + back(1) + confirmed(1),
        1,
        1,
    ),
    "a send with a listener that returns, and is answered when the broker goes on": (
        "asynchronous_send_waited",
        halted() + sent(1) + back(1) + pause(LONG) + resumed() + confirmed(1),
        1,
        0,
    ),
    "a send with a listener that returns in the pause, after the liveness bound": (
        "asynchronous_send_waited",
        halted() + sent(1) + pause(LONG) + back(1) + resumed() + confirmed(1),
        1,
        1,
    ),
    "a send with a listener, and a pause that is over too soon": (
        "asynchronous_send_waited",
        halted() + sent(1) + pause(SHORT) + resumed() + back(1) + confirmed(1),
        0,
        0,
    ),
    "a send with a listener before the halt": (
        "asynchronous_send_waited",
        sent(1) + halted() + pause(LONG) + resumed() + back(1) + confirmed(1),
        0,
        0,
    ),
    # a listener that is told when the broker goes on
    "a listener that hears when the broker goes on": (
        "answered_afterwards",
        halted() + sent(1) + back(1) + resumed() + confirmed(1),
        1,
        1,
    ),
    "a listener that hears while the broker is halted": (
        "answered_afterwards",
        halted() + sent(1) + back(1) + confirmed(1) + resumed(),
        1,
        0,
    ),
    "a listener that hears of one of two while the broker is halted": (
        "answered_afterwards",
        halted() + sent(1, 2) + back(1, 2) + confirmed(1) + resumed() + confirmed(2),
        2,
        0,
    ),
    "a listener that never hears": ("answered_afterwards", halted() + sent(1) + resumed() + no_answer(1), 1, 0),
    "a listener that hears of what was sent before the halt": (
        "answered_afterwards",
        sent(1) + halted() + resumed() + confirmed(1),
        0,
        0,
    ),
    # several sends, one commit
    "a send in a transaction that returns while the broker is halted, and is committed": (
        "sent_ahead",
        halted() + put("t1", 1) + committed("t1", None) + resumed() + answered(Op.COMMIT, "t1"),
        1,
        1,
    ),
    "a send in a transaction that returns, and is never committed": (
        "sent_ahead",
        halted() + put("t1", 1) + resumed(),
        1,
        0,
    ),
    "a send in a transaction that returns when the broker goes on": (
        "sent_ahead",
        halted() + sent(1, tx="t1") + resumed() + confirmed(1, tx="t1") + committed("t1"),
        1,
        0,
    ),
    "a send in a transaction before the halt": (
        "sent_ahead",
        put("t1", 1) + halted() + committed("t1", None) + resumed() + answered(Op.COMMIT, "t1"),
        0,
        0,
    ),
}


SLOWLY = {
    "a send that takes a round trip": ("sooner_than_round_trip", slow(50) + sent(1) + pause(49) + confirmed(1), 1, 0),
    "a send that takes less": ("sooner_than_round_trip", slow(50) + sent(1) + pause(48) + confirmed(1), 1, 1),
    "a send over a link like any other": ("sooner_than_round_trip", kept(1), 0, 0),
    "a send that is never answered": ("sooner_than_round_trip", slow(50) + sent(1) + no_answer(1), 0, 0),
    "a send in a transaction waits for nothing": ("sooner_than_round_trip", slow(50) + put("t1", 1), 0, 0),
}

QUESTIONS = {
    "questions that are answered as the claim says": ("denied", told(1, Phase.OK) + told(2, Phase.OK), 2, 0),
    "one of two that is answered otherwise": ("denied", told(1, Phase.OK) + told(2, Phase.FAIL), 2, 1),
    "a question without an answer": ("denied", told(1, Phase.INFO), 0, 0),
}

ACKNOWLEDGES = {
    # acknowledge() that must not return
    "an acknowledge that returns while the broker is halted": (
        "acknowledge_returned",
        handed(1) + halted(C) + ack_sent(1) + returned(1) + resumed(C),
        1,
        1,
    ),
    "an acknowledge that returns when the broker goes on": (
        "acknowledge_returned",
        handed(1) + halted(C) + ack_sent(1) + resumed(C) + returned(1),
        1,
        0,
    ),
    "an acknowledge before the halt, whose answer was on its way": (
        "acknowledge_returned",
        handed(1) + ack_sent(1) + halted(C) + returned(1) + resumed(C),
        0,
        0,
    ),
    "an acknowledge after the broker went on": ("acknowledge_returned", halted(C) + resumed(C) + took(1), 0, 0),
    "in a transaction nobody calls acknowledge()": (
        "acknowledge_returned",
        halted(C) + acked_in("t1", 1) + resumed(C),
        0,
        0,
    ),
    # acknowledge() that must return
    "an acknowledge that waits for the liveness bound": (
        "acknowledge_waited",
        handed(1) + halted(C) + ack_sent(1) + pause(LONG) + resumed(C) + returned(1),
        1,
        1,
    ),
    "an acknowledge, and a pause that is over too soon": (
        "acknowledge_waited",
        handed(1) + halted(C) + ack_sent(1) + pause(SHORT) + resumed(C) + returned(1),
        0,
        0,
    ),
    "an acknowledge that has returned": (
        "acknowledge_waited",
        handed(1) + halted(C) + ack_sent(1) + returned(1) + pause(LONG) + resumed(C),
        1,
        0,
    ),
    "an acknowledge that returns in the pause, after the liveness bound": (
        "acknowledge_waited",
        handed(1) + halted(C) + ack_sent(1) + pause(LONG) + returned(1) + resumed(C),
        1,
        1,
    ),
    "in a transaction nobody waits for acknowledge()": (
        "acknowledge_waited",
        halted(C) + acked_in("t1", 1) + pause(LONG) + resumed(C),
        0,
        0,
    ),
    # what was acknowledged when its session was closed
    "acknowledged, closed, and there again": ("acknowledged_again", kept(1, 2) + took(1) + took(2) + settled(2), 2, 1),
    "acknowledged, closed, and gone": ("acknowledged_again", kept(1) + took(1) + settled(), 1, 0),
    "a listener that returned, and nobody told it that it was heard": (
        "acknowledged_again",
        kept(1) + handed(1) + ack_sent(1) + settled(1),
        1,
        1,
    ),
    "delivered, never acknowledged, and there again": ("acknowledged_again", kept(1) + handed(1) + settled(1), 0, 0),
    "acknowledged in a transaction that nobody commits": (
        "acknowledged_again",
        kept(1) + acked_in("t1", 1) + settled(1),
        0,
        0,
    ),
    "acknowledged, and the queue is not silent yet": ("acknowledged_again", kept(1) + took(1) + silent(1), 0, 0),
    "acknowledged, and the second drain is stuck": (
        "acknowledged_again",
        kept(1) + took(1) + came(1) + silent(1) + stuck(2),
        0,
        0,
    ),
    "acknowledged by a process that was killed before its session was closed": (
        "acknowledged_again",
        kept(1) + handed(1) + ack_sent(1) + crashed() + settled(1, epoch=1),
        0,
        0,
    ),
}

DISCHARGES = {
    "a commit that returns while the broker is halted": (
        "commit_returned",
        put("t1", 1) + halted() + committed("t1") + resumed(),
        1,
        1,
    ),
    "a commit that returns when the broker goes on": (
        "commit_returned",
        put("t1", 1) + halted() + committed("t1", None) + resumed() + answered(Op.COMMIT, "t1"),
        1,
        0,
    ),
    "a commit that fails while the broker is halted": (
        "commit_returned",
        put("t1", 1) + halted() + committed("t1", Phase.FAIL) + resumed(),
        1,
        0,
    ),
    "a commit before the halt, whose answer was on its way": (
        "commit_returned",
        put("t1", 1) + committed("t1", None) + halted() + answered(Op.COMMIT, "t1") + resumed(),
        0,
        0,
    ),
    "a commit after the broker went on": (
        "commit_returned",
        put("t1", 1) + halted() + resumed() + committed("t1"),
        0,
        0,
    ),
    "a rollback is no commit that returns": (
        "commit_returned",
        put("t1", 1) + halted() + rolled_back("t1") + resumed(),
        0,
        0,
    ),
    "a rollback that returns while the broker is halted": (
        "rollback_returned",
        put("t1", 1) + halted() + rolled_back("t1") + resumed(),
        1,
        1,
    ),
    "a rollback that returns when the broker goes on": (
        "rollback_returned",
        put("t1", 1) + halted() + rolled_back("t1", None) + resumed() + answered(Op.ROLLBACK, "t1"),
        1,
        0,
    ),
    "a rollback before the halt, whose answer was on its way": (
        "rollback_returned",
        put("t1", 1) + rolled_back("t1", None) + halted() + answered(Op.ROLLBACK, "t1") + resumed(),
        0,
        0,
    ),
    "a rollback after the broker went on": (
        "rollback_returned",
        put("t1", 1) + halted() + resumed() + rolled_back("t1"),
        0,
        0,
    ),
    "a commit is no rollback that returns": (
        "rollback_returned",
        put("t1", 1) + halted() + committed("t1") + resumed(),
        0,
        0,
    ),
}

CALLS = {**SENDS, **LISTENED, **SLOWLY, **QUESTIONS, **ACKNOWLEDGES, **DISCHARGES}

EXPOSED = {
    "sends_halted": (kept(1) + sent(2) + halted() + sent(3) + kept(4) + put("t1", 5) + resumed() + kept(6), 3),
    "questions": (told(1, Phase.OK) + told(2, Phase.FAIL) + told(3, Phase.INFO) + kept(1), 2),
    "sends_over_slow_link": (slow(50) + kept(1, 2) + sent(3), 2),
    "transacted_sends_halted": (
        put("t1", 1)
        + halted()
        + put("t1", 2)
        + sent(3, tx="t1")
        + sent(4)
        + resumed()
        + put("t1", 5)
        + committed("t1"),
        2,
    ),
    "acknowledges_halted": (
        took(1) + handed(2) + handed(3) + ack_sent(2) + halted(C) + ack_sent(3) + took(4) + resumed(C) + took(5),
        2,
    ),
    "commits_halted": (
        put("t1", 1)
        + committed("t1")
        + put("t2", 2, 3)
        + put("t3", 4)
        + put("t4", 5)
        + halted()
        + committed("t2", None)
        + rolled_back("t3")
        + resumed()
        + committed("t4"),
        2,
    ),
    "rollbacks_halted": (
        put("t1", 1)
        + rolled_back("t1")
        + put("t2", 2, 3)
        + put("t3", 4)
        + put("t4", 5)
        + halted()
        + rolled_back("t2", None)
        + committed("t3")
        + resumed()
        + rolled_back("t4"),
        2,
    ),
}
"""As in `judge_cases_exposures`."""
