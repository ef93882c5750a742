"""Calls of a vendor's client while the broker is halted, and what its acknowledgements cover."""

from judge_histories import (
    ack_sent,
    acked_in,
    answered,
    came,
    case,
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
    processed,
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


def question(number, phase):
    """A question to the client, and whether the answer is what a claim says."""
    return [e for each in (Phase.INVOKE, phase) for e in of("asker-1", Op.ASK, each, f"p9:{number}")]


LONG, SHORT = 29_999, 29_998

"""Between a call and the end of the pause lies one event more: with it they are the liveness bound, and less."""


def half(producer, process=processed, *, again=()):
    """Three messages come; the client dies with the third one, and what is `again` comes to the next."""
    first, second, third = (f"p{producer}:{n}" for n in (1, 2, 3))
    events = kept(first, second, third) + handed(first) + process(first) + handed(second) + process(second)
    events += handed(third) + crashed()
    return events + [event for n in again for event in (*handed(f"p{producer}:{n}"), *process(f"p{producer}:{n}"))]


def received(_message):
    """receive() has returned it, and no event records a processing."""
    return []


def ends(*again, first=(3,), process=processed):
    """Both halves, of which the messages `first` came again in the one and `again` in the other."""
    return half(1, process, again=first) + half(2, process) + settled(*(f"p2:{n}" for n in again))


CALLS = {
    "send_returned": {
        "a send that returns while the broker is halted": case(1, 1, halted(), sent(1), confirmed(1), resumed()),
        "a send that returns when the broker goes on": case(1, 0, halted(), sent(1), resumed(), confirmed(1)),
        "a send that never returns": case(1, 0, halted(), sent(1), resumed(), no_answer(1)),
        "a send that fails while the broker is halted": case(1, 0, halted(), sent(1), refused(1), resumed()),
        "a send before the halt, whose answer was on its way": case(0, 0, sent(1), halted(), confirmed(1), resumed()),
        "a send between the signal and the halt": case(
            0,
            0,
            of("publisher-1", Op.FAULT, Phase.FIRED, fault="pause"),
            sent(1),
            of("publisher-1", Op.FAULT, Phase.EFFECTIVE, fault="pause"),
            confirmed(1),
            resumed(),
        ),
        "a send after the broker went on": case(0, 0, halted(), resumed(), kept(1)),
        "sends of a broker that was not halted": case(0, 0, kept(1)),
        "a send while something else is halted": case(
            0, 0, fired("held_sync", "disk-1"), kept(1), of("disk-1", Op.FAULT, Phase.HEALED, fault="held_sync")
        ),
        "a send to a broker that never goes on": case(0, 0, halted(), kept(1), killed()),
        "a send in a transaction may return": case(0, 0, halted(), put("t1", 1), resumed()),
    },
    "send_waited": {
        "a send that waits for the liveness bound": case(1, 1, halted(), sent(1), pause(LONG), resumed(), confirmed(1)),
        "a send that has not returned when the pause is over too soon": case(
            0, 0, halted(), sent(1), pause(SHORT), resumed(), confirmed(1)
        ),
        "a send that has returned when the pause is over soon": case(1, 0, halted(), sent(1), confirmed(1), resumed()),
        "a send that has returned in a long pause": case(1, 0, halted(), sent(1), confirmed(1), pause(LONG), resumed()),
        "a send that returns in the pause, after the liveness bound": case(
            1, 1, halted(), sent(1), pause(LONG), confirmed(1), resumed()
        ),
        "a send that returns in the pause, just within the liveness bound": case(
            1, 0, halted(), sent(1), pause(SHORT), confirmed(1), pause(9), resumed()
        ),
        "a send that waits and never returns": case(
            1, 1, halted(), sent(1), pause(LONG), resumed(), no_answer(1, "unanswered")
        ),
        "a send that was called before the halt may wait": case(
            0, 0, sent(1), halted(), pause(LONG), resumed(), confirmed(1)
        ),
        "a send in a transaction is another's": case(
            0, 0, halted(), sent(1, tx="t1"), pause(LONG), resumed(), confirmed(1, tx="t1")
        ),
    },
    "transacted_send_waited": {
        "a send in a transaction that waits for the liveness bound": case(
            1, 1, halted(), sent(1, tx="t1"), pause(LONG), resumed(), confirmed(1, tx="t1")
        ),
        "a send in a transaction, and a pause that is over too soon": case(
            0, 0, halted(), sent(1, tx="t1"), pause(SHORT), resumed(), confirmed(1, tx="t1")
        ),
        "a send in a transaction that has returned": case(
            1, 0, halted(), put("t1", 1), pause(LONG), committed("t1", None), resumed()
        ),
        "a send in a transaction that returns in the pause, after the liveness bound": case(
            1, 1, halted(), sent(1, tx="t1"), pause(LONG), confirmed(1, tx="t1"), resumed()
        ),
        "a send outside of a transaction is another's": case(
            0, 0, halted(), sent(1), pause(LONG), resumed(), confirmed(1)
        ),
    },
    "asynchronous_send_waited": {
        "a send with a listener that waits for the liveness bound": case(
            1, 1, halted(), sent(1), pause(LONG), resumed(), back(1), confirmed(1)
        ),
        "a send with a listener that returns, and is answered when the broker goes on": case(
            1, 0, halted(), sent(1), back(1), pause(LONG), resumed(), confirmed(1)
        ),
        "a send with a listener that returns in the pause, after the liveness bound": case(
            1, 1, halted(), sent(1), pause(LONG), back(1), resumed(), confirmed(1)
        ),
        "a send with a listener, and a pause that is over too soon": case(
            0, 0, halted(), sent(1), pause(SHORT), resumed(), back(1), confirmed(1)
        ),
        "a send with a listener before the halt": case(
            0, 0, sent(1), halted(), pause(LONG), resumed(), back(1), confirmed(1)
        ),
    },
    "answered_afterwards": {
        "a listener that hears when the broker goes on": case(
            1, 1, halted(), sent(1), back(1), resumed(), confirmed(1)
        ),
        "a listener that hears while the broker is halted": case(
            1, 0, halted(), sent(1), back(1), confirmed(1), resumed()
        ),
        "a listener that hears of one of two while the broker is halted": case(
            2, 0, halted(), sent(1, 2), back(1, 2), confirmed(1), resumed(), confirmed(2)
        ),
        "a listener that never hears": case(1, 0, halted(), sent(1), resumed(), no_answer(1)),
        "a listener that hears of what was sent before the halt": case(
            0, 0, sent(1), halted(), resumed(), confirmed(1)
        ),
    },
    "sent_ahead": {
        "a send in a transaction that returns while the broker is halted, and is committed": case(
            1, 1, halted(), put("t1", 1), committed("t1", None), resumed(), answered(Op.COMMIT, "t1")
        ),
        "a send in a transaction that returns, and is never committed": case(1, 0, halted(), put("t1", 1), resumed()),
        "a send in a transaction that returns when the broker goes on": case(
            1, 0, halted(), sent(1, tx="t1"), resumed(), confirmed(1, tx="t1"), committed("t1")
        ),
        "a send in a transaction before the halt": case(
            0, 0, put("t1", 1), halted(), committed("t1", None), resumed(), answered(Op.COMMIT, "t1")
        ),
    },
    "sooner_than_round_trip": {
        "a send that takes a round trip": case(1, 0, slow(50), sent(1), pause(49), confirmed(1)),
        "a send that takes less": case(1, 1, slow(50), sent(1), pause(48), confirmed(1)),
        "a send over a link like any other": case(0, 0, kept(1)),
        "a send that is never answered": case(0, 0, slow(50), sent(1), no_answer(1)),
        "a send in a transaction waits for nothing": case(0, 0, slow(50), put("t1", 1)),
    },
    "denied": {
        "questions that are answered as the claim says": case(2, 0, question(1, Phase.OK), question(2, Phase.OK)),
        "one of two that is answered otherwise": case(2, 1, question(1, Phase.OK), question(2, Phase.FAIL)),
        "a question without an answer": case(0, 0, question(1, Phase.INFO)),
    },
    "acknowledge_returned": {
        "an acknowledge that returns while the broker is halted": case(
            1, 1, handed(1), halted(C), ack_sent(1), returned(1), resumed(C)
        ),
        "an acknowledge that returns when the broker goes on": case(
            1, 0, handed(1), halted(C), ack_sent(1), resumed(C), returned(1)
        ),
        "an acknowledge before the halt, whose answer was on its way": case(
            0, 0, handed(1), ack_sent(1), halted(C), returned(1), resumed(C)
        ),
        "an acknowledge after the broker went on": case(0, 0, halted(C), resumed(C), took(1)),
        "no call of acknowledge() in a transaction": case(0, 0, halted(C), acked_in("t1", 1), resumed(C)),
    },
    "acknowledge_waited": {
        "an acknowledge that waits for the liveness bound": case(
            1, 1, handed(1), halted(C), ack_sent(1), pause(LONG), resumed(C), returned(1)
        ),
        "an acknowledge, and a pause that is over too soon": case(
            0, 0, handed(1), halted(C), ack_sent(1), pause(SHORT), resumed(C), returned(1)
        ),
        "an acknowledge that has returned": case(
            1, 0, handed(1), halted(C), ack_sent(1), returned(1), pause(LONG), resumed(C)
        ),
        "an acknowledge that returns in the pause, after the liveness bound": case(
            1, 1, handed(1), halted(C), ack_sent(1), pause(LONG), returned(1), resumed(C)
        ),
        "no wait for acknowledge() in a transaction": case(0, 0, halted(C), acked_in("t1", 1), pause(LONG), resumed(C)),
    },
    "acknowledged_again": {
        "acknowledged, closed, and there again": case(2, 1, kept(1, 2), took(1), took(2), settled(2)),
        "acknowledged, closed, and gone": case(1, 0, kept(1), took(1), settled()),
        "a listener that returned, without an answer of the broker": case(
            1, 1, kept(1), handed(1), ack_sent(1), settled(1)
        ),
        "delivered, never acknowledged, and there again": case(0, 0, kept(1), handed(1), settled(1)),
        "acknowledged in a transaction without a commit": case(0, 0, kept(1), acked_in("t1", 1), settled(1)),
        "acknowledged, and the queue is not silent yet": case(0, 0, kept(1), took(1), silent(1)),
        "acknowledged, and the second drain is stuck": case(0, 0, kept(1), took(1), came(1), silent(1), stuck(2)),
        "acknowledged by a process that was killed before its session was closed": case(
            0, 0, kept(1), handed(1), ack_sent(1), crashed(), settled(1, epoch=1)
        ),
    },
    "commit_returned": {
        "a commit that returns while the broker is halted": case(
            1, 1, put("t1", 1), halted(), committed("t1"), resumed()
        ),
        "a commit that returns when the broker goes on": case(
            1, 0, put("t1", 1), halted(), committed("t1", None), resumed(), answered(Op.COMMIT, "t1")
        ),
        "a commit that fails while the broker is halted": case(
            1, 0, put("t1", 1), halted(), committed("t1", Phase.FAIL), resumed()
        ),
        "a commit before the halt, whose answer was on its way": case(
            0, 0, put("t1", 1), committed("t1", None), halted(), answered(Op.COMMIT, "t1"), resumed()
        ),
        "a commit after the broker went on": case(0, 0, put("t1", 1), halted(), resumed(), committed("t1")),
        "a rollback is no commit that returns": case(0, 0, put("t1", 1), halted(), rolled_back("t1"), resumed()),
    },
    "rollback_returned": {
        "a rollback that returns while the broker is halted": case(
            1, 1, put("t1", 1), halted(), rolled_back("t1"), resumed()
        ),
        "a rollback that returns when the broker goes on": case(
            1, 0, put("t1", 1), halted(), rolled_back("t1", None), resumed(), answered(Op.ROLLBACK, "t1")
        ),
        "a rollback before the halt, whose answer was on its way": case(
            0, 0, put("t1", 1), rolled_back("t1", None), halted(), answered(Op.ROLLBACK, "t1"), resumed()
        ),
        "a rollback after the broker went on": case(0, 0, put("t1", 1), halted(), resumed(), rolled_back("t1")),
        "a commit is no rollback that returns": case(0, 0, put("t1", 1), halted(), committed("t1"), resumed()),
    },
    "processed_again_unlike_other": {
        # a listener: p:1 has a processed successor, p:2 is the last that was processed, p:3 was being processed
        "processed, and again in the second half": case(1, 1, ends(1, 3)),
        "processed, and again in both halves": case(1, 0, ends(1, 3, first=(1, 3))),
        "processed, and again in the first half": case(1, 0, ends(3, first=(1, 3))),
        "the last that was processed came again": case(1, 0, ends(2, 3)),
    },
    "came_otherwise_than_other": {
        # receive(): p:1 and p:2 are done with
        "received, and again in the second half": case(6, 1, ends(2, 3, process=received)),
        "received, and again in the first half": case(6, 2, ends(3, first=(1, 2, 3), process=received)),
        "received, and again in both halves": case(6, 0, ends(1, 3, first=(2, 3), process=received)),
        "the last that was received, again in one half": case(6, 0, ends(process=received)),
        "never received, and lost in one half": case(7, 1, kept("p2:4"), ends(3, process=received)),
    },
    "answered_within_window": {
        "answered alone, within a window of many": case(1, 1, kept(1)),
        "unanswered within a window of many": case(2, 0, sent(1, 2)),
    },
    "covered_wrongly": {
        "covered, and there again": case(2, 1, kept(1, 2), took(1), took(2), settled(2)),
        "covered, and gone": case(1, 0, kept(1), took(1), settled()),
        "received after the last call, and there again": case(2, 0, kept(1, 2), took(1), handed(2), settled(2)),
        "received after the last call, and gone": case(2, 1, kept(1, 2), took(1), handed(2), settled()),
        "covered, and the queue is not silent yet": case(0, 0, kept(1), took(1), silent(1)),
        "covered by a client that was killed": case(
            0, 0, kept(1), handed(1), ack_sent(1), crashed(), settled(1, epoch=1)
        ),
    },
}
