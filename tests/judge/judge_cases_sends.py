"""Sends and their answers, transactions, and publish windows."""

from judge_histories import (
    ack_refused,
    ack_sent,
    acked,
    acked_in,
    came,
    case,
    committed,
    confirmed,
    crashed,
    delayed,
    given_back,
    handed,
    immediate,
    kept,
    killed,
    limited,
    no_answer,
    not_back,
    of,
    offered,
    pause,
    put,
    ranged,
    refused,
    rolled_back,
    round_trip,
    sent,
    set_aside,
    settled,
    shut,
    silent,
    stuck,
    took,
    unasked,
    unready,
    untrue,
    waited,
)

from conformance.history import Op, Phase

C = "consumer-1"


def window(size):
    """A publisher with that window, on a machine where a commit takes a millisecond."""
    return round_trip() + limited("publisher-1", size)


def waiting(ms, n="p2:1"):
    """A send of a broker that was started for the second time, answered so long after it."""
    return sent(n, epoch=2) + pause(ms - 1) + confirmed(n, epoch=2)


DEFAULT = limited("publisher-1", 9) + sent(1) + pause(999) + confirmed(1)

SENDS = {
    "not_recovered": {
        "all that was sent is out of reach of a broker that does not start": case(
            3, 3, kept(1, 2), sent(3), killed(), not_back()
        ),
        "a broker that starts from a copy of its data is not accused": case(2, 0, kept(1, 2), killed(), unready()),
        "a broker that starts again has recovered": case(1, 0, kept(1), killed(), settled(1)),
        "a broker that starts once after a fault and not a second time has not recovered": case(
            1, 1, kept(1), killed(), settled(1), not_back()
        ),
        "a broker that the trial before ended does not start for this one": case(1, 1, not_back()),
        "a broker that may or may not be to blame, before any message": case(0, 0, unready()),
    },
    "lost": {
        "what a broker that does not start holds is not called lost": case(0, 0, kept(1), killed(), not_back()),
        "a confirmed message that never came is lost": case(2, 1, kept(1, 2), killed(), settled(1)),
        "a confirmed message that came is not lost": case(1, 0, kept(1), killed(), settled(1)),
        "a message that only a consumer got is not lost": case(1, 0, kept(1), took(1), killed("consumer-1"), settled()),
        "an expired message is not lost, and its neighbour is": case(
            2, 1, kept(1, 2, 3), killed(), settled(1), set_aside(2, queue="ExpiryQueue")
        ),
        "an answer read after the kill counts as confirmed": case(1, 1, sent(1), killed(), confirmed(1), settled()),
        "a send without an answer is never lost": case(0, 0, sent(1), killed(), no_answer(1), settled()),
        "a refused send is never lost": case(0, 0, sent(1), refused(1), killed(), settled()),
        "a send accepted and then refused is not called lost": case(0, 0, kept(1), refused(1), killed(), settled()),
        "a message that was not durable is not lost": case(
            0, 0, sent(1, durable=False), confirmed(1), killed(), settled()
        ),
        "one drain decides nothing": case(0, 0, kept(1), killed(), silent(1)),
        "a message that one depth counted, and that neither a drain nor the next depth knows, is lost": case(
            1, 1, kept(1), killed(), stuck(1), silent(2)
        ),
        "a message that the last depth counts is not lost": case(1, 0, kept(1), killed(), silent(1), stuck(2)),
        "of two missing messages one is lost where the last depth counts one": case(
            2, 1, kept(1, 2), killed(), stuck(1), stuck(2)
        ),
        "a missing message beside one that came after a restart is lost": case(
            2, 1, kept(1, 2), killed(), stuck(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "drains before the fault decide nothing": case(0, 0, kept(1), settled(), killed()),
        "a last drain that brings a message leaves the others undecided": case(
            0, 0, kept(1, 2), killed(), silent(1), came(1, drain=2), silent(2)
        ),
        "a late message hides no loss once a drain brings nothing": case(
            3, 2, kept(1, 2, 3), killed(), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "a fifth drain that brings a message leaves the others undecided": case(
            0,
            0,
            kept(1, 2),
            killed(),
            [e for n in range(1, 5) for e in silent(n)],
            came(1, drain=5, epoch=6),
            silent(5),
        ),
        "a provisional answer confirms nothing": case(0, 0, put("t1", 1), killed(), settled()),
        "a provisional answer read when the connection had gone confirms nothing": case(
            0, 0, sent(1, tx="t1"), killed(), confirmed(1), settled()
        ),
    },
    "stuck": {
        "of two missing messages one is stuck where the last depth counts one": case(
            2, 1, kept(1, 2), killed(), stuck(1), stuck(2)
        ),
        "a missing message beside one that came after a restart is not stuck": case(
            2, 1, kept(1, 2), killed(), stuck(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "a confirmed message that no drain got before it gave up is stuck": case(
            2, 1, kept(1, 2), came(1), stuck(1), stuck(2)
        ),
        "a message that waits for a long redelivery delay is not stuck": case(
            1, 0, kept(1), handed(1), crashed(), delayed(1), silent(2)
        ),
        "a stuck message that comes after a restart was stuck": case(1, 1, kept(1), stuck(1), came(1, 2), silent(2)),
        "an unacknowledged delivery that never comes back is stuck": case(
            1, 1, kept(1), handed(1), crashed(), stuck(1), stuck(2)
        ),
        "a message that comes only after another restart is late with any depth": case(
            2, 1, kept(1, 2), killed(), came(2), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "a committed message that comes only after another restart is late": case(
            1, 1, put("t1", 1), committed("t1"), killed(), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "a message that a second drain of the same run of the broker brings is not late": case(
            1, 0, kept(1), killed(), silent(1), came(1, drain=2), silent(2), silent(3)
        ),
        "an acknowledged message that comes back after a restart is not late": case(
            1, 0, kept(1), took(1), killed(), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "a refused delivery that comes back after a restart is not late": case(
            1, 0, kept(1), handed(1), given_back(1), silent(1), came(1, drain=2, epoch=3), silent(2), silent(3)
        ),
        "a send without an answer that comes after a restart is not late": case(
            1, 0, kept(2), sent(1), killed(), no_answer(1), came(2), silent(1), came(1, drain=2, epoch=3), silent(2)
        ),
        "a message that was not durable and that a depth no longer counts is not stuck": case(
            1, 0, sent(1, durable=False), confirmed(1), stuck(1), silent(2)
        ),
        "an acknowledged message is not stuck": case(1, 0, kept(1), took(1), stuck(1), stuck(2)),
        "a silent queue has nothing stuck": case(1, 0, kept(1), killed(), settled()),
    },
    "confirmed_missing": {
        "a permission to lose is witnessed by a missing message": case(2, 1, kept(1, 2), killed(), settled(2)),
        "a permission to lose is not witnessed by what came": case(1, 0, kept(1), killed(), settled(1)),
    },
    "non_persistent_missing": {
        "a message that was not persistent is missing": case(2, 1, kept(1, 2, durable=False), killed(), settled(2)),
        "a message that was not persistent came": case(1, 0, kept(1, durable=False), killed(), settled(1)),
        "a persistent message that is missing witnesses no permission": case(0, 0, kept(1), killed(), settled()),
    },
    "unanswered_either_way": {
        "an unanswered send that is found": case(2, 1, sent(1, 2), killed(), no_answer(1), no_answer(2), settled(1)),
        "one that is absent does not witness the other way": case(1, 0, sent(1), killed(), settled()),
    },
    "unanswered_absent": {
        "an unanswered send that is absent": case(2, 1, sent(1, 2), killed(), no_answer(1), no_answer(2), settled(1)),
        "a send that nothing is known of at all is unanswered too": case(1, 1, sent(1), killed(), settled()),
        "one that is found does not witness the other way": case(1, 0, sent(1), killed(), settled(1)),
        "a send in a transaction has no answer of its own": case(0, 0, put("t1", 1), killed(), settled()),
    },
    "unasked_missing": {
        "a send without receipt before an answered one is missing": case(
            1, 1, unasked(1), kept(2), killed(), settled(2)
        ),
        "a send without receipt before an answered one is there": case(
            1, 0, unasked(1), kept(2), killed(), settled(1, 2)
        ),
        "a send without receipt after the last answered one may never have been received": case(
            0, 0, kept(1), unasked(2), killed(), settled(1)
        ),
        "an answer to another producer says nothing of this one's sends": case(
            0, 0, unasked(1), kept("p2:2"), killed(), settled("p2:2")
        ),
        "a send without receipt that was not persistent witnesses nothing": case(
            0, 0, unasked(1, durable=False), kept(2), killed(), settled(2)
        ),
    },
    "unanswered_send": {
        "a send overdue on an open connection is unanswered": case(2, 1, kept(1), sent(2), no_answer(2, "unanswered")),
        "a send that lost its connection is not judged": case(1, 0, kept(1), sent(2), no_answer(2, "disconnected")),
        "an answer after the bound is an answer": case(1, 0, sent(1), no_answer(1, "unanswered"), confirmed(1)),
    },
    "outcome_changed": {
        "accepted and then rejected": case(2, 1, kept(1, 2), refused(1)),
        "rejected and then released": case(1, 1, sent(1), refused(1), refused(1, "released")),
        "the same outcome, sent twice, has not changed": case(1, 0, kept(1), confirmed(1)),
        "an answer after none was expected has not changed": case(1, 0, sent(1), no_answer(1), confirmed(1)),
        "a provisional outcome is none of its own": case(1, 0, put("t1", 1), refused(1, tx="t1")),
    },
    "receipt_untrue": {
        "a receipt beside which another came": case(2, 1, kept(1, 2), untrue(2)),
        "each receipt once": case(2, 0, kept(1, 2)),
        "a receipt that answers nothing, and no other": case(1, 1, sent(1), untrue(1)),
    },
    "lost_committed": {
        "a committed message that never came is lost": case(
            2, 1, put("t1", 1, 2), committed("t1"), killed(), settled(2)
        ),
        "a committed message that came is not lost": case(1, 0, put("t1", 1), committed("t1"), killed(), settled(1)),
        "an answer to the commit read after the kill counts": case(
            1,
            1,
            put("t1", 1),
            committed("t1", None),
            killed(),
            of("publisher-1", Op.COMMIT, Phase.OK, transaction="t1"),
            settled(),
        ),
        "a commit without an answer promises nothing": case(
            0, 0, put("t1", 1), committed("t1", Phase.INFO), killed(), settled()
        ),
        "a commit that was refused promises nothing": case(
            0, 0, put("t1", 1), committed("t1", Phase.FAIL), killed(), settled()
        ),
        "a rollback promises nothing": case(0, 0, put("t1", 1), rolled_back("t1"), killed(), settled()),
        "the commit of another transaction promises nothing": case(
            1, 0, put("t1", 1), put("t2", 2), committed("t2"), killed(), settled(2)
        ),
        "the commit of another process promises nothing": case(
            0, 0, put("t1", 1), committed("t1", by="publisher-2"), killed(), settled()
        ),
        "a send refused in its transaction is not lost": case(
            1, 0, put("t1", 1), sent(2, tx="t1"), refused(2, tx="t1"), committed("t1"), killed(), settled(1)
        ),
        "a committed message that was not durable is not lost": case(
            0, 0, sent(1, durable=False, tx="t1"), committed("t1"), killed(), settled()
        ),
        "a committed message that comes late leaves the others undecided": case(
            0, 0, put("t1", 1, 2), committed("t1"), killed(), silent(1), came(1, drain=2), silent(2)
        ),
    },
    "committed_missing": {
        "a permission to lose what was committed is witnessed": case(
            2, 1, put("t1", 1, 2), committed("t1"), killed(), settled(2)
        ),
        "a permission to lose what was committed is not witnessed": case(
            1, 0, put("t1", 1), committed("t1"), killed(), settled(1)
        ),
    },
    "half_applied": {
        "a commit without an answer, and half of it there": case(
            2, 1, put("t1", 1, 2), committed("t1", Phase.INFO), killed(), settled(1)
        ),
        "a commit without an answer, and nothing of it there": case(
            2, 0, put("t1", 1, 2), committed("t1", Phase.INFO), killed(), settled()
        ),
        "a commit without an answer, and all of it there": case(
            2, 0, put("t1", 1, 2), committed("t1", Phase.INFO), killed(), settled(1, 2)
        ),
        "an answered commit, and half of it taken by a consumer": case(
            2, 1, put("t1", 1, 2), committed("t1"), took(1), killed("consumer-1"), settled()
        ),
        "one transaction there, and another not": case(
            2, 0, put("t1", 1), committed("t1"), put("t2", 2), committed("t2", Phase.INFO), killed(), settled(1)
        ),
        "a transaction without a request to commit does not apply": case(0, 0, put("t1", 1, 2), killed(), settled(1)),
        "a send refused in its transaction is no half of it": case(
            1, 0, put("t1", 1), sent(2, tx="t1"), refused(2, tx="t1"), committed("t1"), killed(), settled(1)
        ),
    },
    "available_early": {
        "received before its commit": case(2, 1, put("t1", 1, 2), handed(1), committed("t1"), handed(2)),
        "received when its commit had no answer yet": case(1, 0, put("t1", 1), committed("t1", None), handed(1)),
        "received after its rollback": case(1, 1, put("t1", 1), rolled_back("t1"), handed(1)),
        "received after a rollback without an answer": case(
            1, 1, put("t1", 1), rolled_back("t1", Phase.INFO), killed(), came(1)
        ),
        "rolled back and not there": case(1, 0, put("t1", 1), rolled_back("t1"), settled()),
        "received although it was not discharged: does not apply": case(1, 0, put("t1", 1), killed(), settled(1)),
    },
    "available_undischarged": {
        "received without a request to commit": case(2, 1, put("t1", 1, 2), killed(), settled(1)),
        "not there, without a request to commit": case(1, 0, put("t1", 1), killed(), settled()),
        "received only late, without a request to commit": case(
            1, 1, put("t1", 1), killed(), silent(1), came(1, drain=2), silent(2)
        ),
        "a commit without an answer is a discharge": case(
            0, 0, put("t1", 1), committed("t1", Phase.INFO), killed(), settled(1)
        ),
    },
    "undischarged_gone": {
        "acknowledged in an undischarged transaction, and gone": case(
            2, 1, kept(1, 2), acked_in("t1", 1, 2), crashed(), settled(2, epoch=1)
        ),
        "acknowledged in an undischarged transaction, and back": case(
            1, 0, kept(1), acked_in("t1", 1), crashed(), settled(1, epoch=1)
        ),
        "back at a second consumer, which acknowledged it": case(
            1,
            0,
            kept(1),
            acked_in("t1", 1),
            crashed(),
            handed(1, consumer=2),
            ack_sent(1, consumer=2),
            settled(epoch=1),
        ),
        "acknowledged in a transaction that was asked to commit, and gone": case(
            0, 0, kept(1), acked_in("t1", 1), committed("t1", Phase.INFO, by=C), crashed(), settled(epoch=1)
        ),
        "acknowledged outside of transactions, and gone": case(
            0, 0, kept(1), handed(1), ack_sent(1), crashed(), settled(epoch=1)
        ),
        "what comes back late leaves the others undecided": case(
            0, 0, kept(1, 2), acked_in("t1", 1, 2), crashed(), silent(1, epoch=1), came(1, drain=2), silent(2)
        ),
    },
    "transacted_acknowledgement": {
        "its acknowledgement committed, and again": case(
            2, 1, kept(1, 2), acked_in("t1", 1, 2), committed("t1", by=C), settled(1, epoch=1)
        ),
        "its acknowledgement committed, and away": case(
            1, 0, kept(1), acked_in("t1", 1), committed("t1", by=C), settled(epoch=1)
        ),
        "its acknowledgement committed, and again after a restart": case(
            1, 0, kept(1), acked_in("t1", 1), committed("t1", by=C), killed(C), settled(1, epoch=2)
        ),
        "its acknowledgement rolled back, and gone": case(
            2, 1, kept(1, 2), acked_in("t1", 1, 2), rolled_back("t1", by=C), settled(2, epoch=1)
        ),
        "rolled back, released, and back": case(
            1, 0, kept(1), acked_in("t1", 1), rolled_back("t1", by=C), given_back(1), settled(1, epoch=1)
        ),
        "rolled back, delivered again, and committed in a later transaction": case(
            1,
            0,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            acked_in("t2", 1),
            committed("t2", by=C),
            settled(),
        ),
        "rolled back, committed in a later transaction, and again": case(
            1,
            1,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            acked_in("t2", 1),
            committed("t2", by=C),
            settled(1, epoch=1),
        ),
        "rolled back, and a later commit without an answer": case(
            0,
            0,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            acked_in("t2", 1),
            committed("t2", Phase.INFO, by=C),
            settled(),
        ),
        "rolled back twice, and gone after the second": case(
            1,
            1,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            acked_in("t2", 1),
            rolled_back("t2", by=C),
            settled(),
        ),
        "a rollback without an answer decides nothing": case(
            0, 0, kept(1), acked_in("t1", 1), rolled_back("t1", Phase.INFO, by=C), settled()
        ),
    },
    "rollback_refused": {
        "a rollback that was refused": case(
            2, 1, put("t1", 1), rolled_back("t1"), put("t2", 2), rolled_back("t2", Phase.FAIL)
        ),
        "a rollback of acknowledgements that was done": case(1, 0, kept(1), acked_in("t1", 1), rolled_back("t1", by=C)),
        "a rollback without an answer was not refused": case(0, 0, put("t1", 1), rolled_back("t1", Phase.INFO)),
    },
    "waited_for_timer": {
        "a third that the timer answers": case(1, 1, window(3), sent(1), pause(999), confirmed(1)),
        "a third that is answered sooner": case(1, 0, window(3), sent(1), pause(998), confirmed(1)),
        "a third rounded down, and the rest by the timer": case(
            2, 0, window(4), sent(1, 2), confirmed(1), pause(1000), confirmed(2)
        ),
        "a third rounded up, all by the timer": case(2, 2, window(4), sent(1, 2), pause(1000), confirmed(1, 2)),
        "a third that is never answered": case(1, 1, window(3), sent(1), pause(30_000), no_answer(1, "unanswered")),
        "a third whose connection is lost": case(0, 0, window(3), sent(1), pause(1000), no_answer(1)),
        "less than a third may wait": case(0, 0, window(9), sent(1), pause(1000), confirmed(1)),
        "a machine too slow to tell the timer": case(
            0, 0, round_trip(500), limited("publisher-1", 3), sent(1), pause(1000), confirmed(1)
        ),
        "sends too slow to tell the timer": case(
            0, 0, window(6), sent(1), pause(500), sent(2), pause(600), confirmed(1, 2)
        ),
        "no round trip to compare with": case(0, 0, limited("publisher-1", 3), sent(1), pause(1000), confirmed(1)),
    },
    "answered_late": {
        "answered after the timer, half a second and a round trip": case(
            1, 1, round_trip(100), limited("publisher-1", 9), sent(1), pause(1600), confirmed(1)
        ),
        "answered just in time": case(
            1, 0, round_trip(100), limited("publisher-1", 9), sent(1), pause(1599), confirmed(1)
        ),
        "below a third and never answered": case(1, 1, window(9), sent(1), pause(30_000), no_answer(1, "unanswered")),
        "a slow machine leaves the bound undecided": case(
            0, 0, round_trip(500), limited("publisher-1", 9), sent(1), pause(2500), confirmed(1)
        ),
        "a third is another sentence's matter": case(0, 0, window(9), sent(1, 2, 3), pause(2000), confirmed(1, 2, 3)),
    },
    "threshold_moved": {
        "answered sooner once a setting was offered": case(1, 1, DEFAULT, offered(), waiting(100)),
        "as slow as before": case(1, 0, DEFAULT, offered(), waiting(900)),
        "no setting was offered": case(0, 0, DEFAULT, waiting(100)),
        "a broker that never let one wait": case(0, 0, limited("publisher-1", 9), kept(1), offered(), waiting(100)),
    },
    "immediate_waited": {
        "answered at once": case(1, 0, window(9), sent(1), immediate(2), ranged(1, 2)),
        "answered by the timer": case(1, 1, window(9), sent(1), immediate(2), pause(1000), ranged(1, 2)),
        "two of them in one answer": case(2, 2, window(9), immediate(1, 2), ranged(1, 2)),
        "two of them, each with its own": case(2, 0, window(9), immediate(1, 2), ranged(1), ranged(2)),
        "answers that name no range": case(2, 0, window(9), immediate(1, 2), confirmed(1, 2)),
        "a third of the window would be answered anyway": case(
            0, 0, window(3), immediate(1), pause(1000), confirmed(1)
        ),
    },
    "lost_immediate": {
        "confirmed at once and lost": case(2, 1, immediate(1, 2), confirmed(1, 2), kept(3), killed(), settled(2)),
        "confirmed at once and there": case(1, 0, immediate(1), confirmed(1), killed(), settled(1)),
    },
    "lost_in_range": {
        "one of a range is lost": case(2, 1, sent(1, 2, 3), ranged(1, 2), ranged(3), killed(), settled(2)),
        "all of a range are there": case(2, 0, sent(1, 2), ranged(1, 2), killed(), settled(1, 2)),
        "a range inside of which one was refused": case(
            2, 0, sent(1, 2, 3), refused(2), ranged(1, 3), killed(), settled(1, 3)
        ),
    },
    "refusal_hidden": {
        "a refusal that a range hides": case(2, 1, sent(1, 2), ranged(1, 2), settled(1, epoch=1)),
        "a refusal of its own": case(2, 0, sent(1, 2), ranged(1), refused(2), settled(1, epoch=1)),
        "one refusal for two": case(
            3, 2, sent(1, 2, 3), ranged(1), ranged(2, 3, phase=Phase.FAIL), settled(1, epoch=1)
        ),
        "refused and not answered when the link broke": case(
            1, 0, sent(1, 2), ranged(1), no_answer(2), settled(1, epoch=1)
        ),
    },
    "not_exactly_one": {
        "each for itself": case(2, 0, kept(1, 2), handed(1), handed(2), acked(2), crashed(), settled(1, epoch=1)),
        "its neighbour is gone with it": case(
            2, 1, kept(1, 2), handed(1), handed(2), acked(2), crashed(), settled(epoch=1)
        ),
        "not even itself": case(1, 1, kept(1), took(1), crashed(), came(1, epoch=1)),
        "unanswered, so either is right": case(0, 0, kept(1), handed(1), ack_sent(1), settled(1, epoch=1)),
    },
    "out_of_order_refused": {
        "the later first": case(1, 0, kept(1, 2), handed(1), handed(2), acked(2), acked(1), settled(epoch=1)),
        "the later refused": case(1, 1, handed(1), handed(2), ack_sent(2), ack_refused(2)),
        "the later takes the earlier": case(2, 1, kept(1, 2), handed(1), handed(2), acked(2), settled(epoch=1)),
        "refused in order": case(0, 0, handed(1), ack_sent(1), ack_refused(1), handed(2)),
    },
    "window_stayed_shut": {
        "room, and nothing is sent": case(
            1, 1, limited("publisher-1", 2), sent(1, 2), waited(3, 2), confirmed(1), shut(3, 1)
        ),
        "no room was made": case(1, 0, limited("publisher-1", 2), sent(1, 2), waited(3, 2), shut(3, 2)),
        "room, and it is sent": case(1, 0, limited("publisher-1", 2), sent(1, 2), waited(3, 2), confirmed(1), sent(3)),
    },
    "blocked_early": {
        "held up at half the window": case(3, 1, limited("publisher-1", 4), sent(1, 2), waited(3, 2)),
        "held up by a full window": case(3, 0, limited("publisher-1", 2), sent(1, 2), waited(3, 2)),
    },
}
