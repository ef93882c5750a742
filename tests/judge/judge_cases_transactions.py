"""Sends and acknowledgements in transactions."""

from judge_histories import (
    ack_sent,
    acked_in,
    came,
    committed,
    crashed,
    given_back,
    handed,
    kept,
    killed,
    of,
    put,
    refused,
    rolled_back,
    sent,
    settled,
    silent,
    took,
)

from conformance.history import Op, Phase

C = "consumer-1"

TRANSACTIONS = {
    # lost_committed
    "a committed message that never came is lost": (
        "lost_committed",
        put("t1", 1, 2) + committed("t1") + killed() + settled(2),
        2,
        1,
    ),
    "a committed message that came is not lost": (
        "lost_committed",
        put("t1", 1) + committed("t1") + killed() + settled(1),
        1,
        0,
    ),
    "an answer to the commit read after the kill counts": (
        "lost_committed",
        put("t1", 1)
        + committed("t1", None)
        + killed()
        + of("publisher-1", Op.COMMIT, Phase.OK, transaction="t1")
        + settled(),
        1,
        1,
    ),
    "a commit without an answer promises nothing": (
        "lost_committed",
        put("t1", 1) + committed("t1", Phase.INFO) + killed() + settled(),
        0,
        0,
    ),
    "a commit that was refused promises nothing": (
        "lost_committed",
        put("t1", 1) + committed("t1", Phase.FAIL) + killed() + settled(),
        0,
        0,
    ),
    "a rollback promises nothing": ("lost_committed", put("t1", 1) + rolled_back("t1") + killed() + settled(), 0, 0),
    "the commit of another transaction promises nothing": (
        "lost_committed",
        put("t1", 1) + put("t2", 2) + committed("t2") + killed() + settled(2),
        1,
        0,
    ),
    "the commit of another process promises nothing": (
        "lost_committed",
        put("t1", 1) + committed("t1", by="publisher-2") + killed() + settled(),
        0,
        0,
    ),
    "a send refused in its transaction is not lost": (
        "lost_committed",
        put("t1", 1) + sent(2, tx="t1") + refused(2, tx="t1") + committed("t1") + killed() + settled(1),
        1,
        0,
    ),
    "a committed message that was not durable is not lost": (
        "lost_committed",
        sent(1, durable=False, tx="t1") + committed("t1") + killed() + settled(),
        0,
        0,
    ),
    "a committed message that comes late leaves the others undecided": (
        "lost_committed",
        put("t1", 1, 2) + committed("t1") + killed() + silent(1) + came(1, drain=2) + silent(2),
        0,
        0,
    ),
    "a permission to lose what was committed is witnessed": (
        "committed_missing",
        put("t1", 1, 2) + committed("t1") + killed() + settled(2),
        2,
        1,
    ),
    "a permission to lose what was committed is not witnessed": (
        "committed_missing",
        put("t1", 1) + committed("t1") + killed() + settled(1),
        1,
        0,
    ),
    # half_applied
    "a commit without an answer, and half of it there": (
        "half_applied",
        put("t1", 1, 2) + committed("t1", Phase.INFO) + killed() + settled(1),
        2,
        1,
    ),
    "a commit without an answer, and nothing of it there": (
        "half_applied",
        put("t1", 1, 2) + committed("t1", Phase.INFO) + killed() + settled(),
        2,
        0,
    ),
    "a commit without an answer, and all of it there": (
        "half_applied",
        put("t1", 1, 2) + committed("t1", Phase.INFO) + killed() + settled(1, 2),
        2,
        0,
    ),
    "an answered commit, and half of it taken by a consumer": (
        "half_applied",
        put("t1", 1, 2) + committed("t1") + took(1) + killed("consumer-1") + settled(),
        2,
        1,
    ),
    "one transaction there, and another not": (
        "half_applied",
        put("t1", 1) + committed("t1") + put("t2", 2) + committed("t2", Phase.INFO) + killed() + settled(1),
        2,
        0,
    ),
    "a transaction nobody asked to commit is another sentence's matter": (
        "half_applied",
        put("t1", 1, 2) + killed() + settled(1),
        0,
        0,
    ),
    "a send refused in its transaction is no half of it": (
        "half_applied",
        put("t1", 1) + sent(2, tx="t1") + refused(2, tx="t1") + committed("t1") + killed() + settled(1),
        1,
        0,
    ),
    # available
    "received before its commit": ("available_early", put("t1", 1, 2) + handed(1) + committed("t1") + handed(2), 2, 1),
    "received when its commit had no answer yet": (
        "available_early",
        put("t1", 1) + committed("t1", None) + handed(1),
        1,
        0,
    ),
    "received after its rollback": ("available_early", put("t1", 1) + rolled_back("t1") + handed(1), 1, 1),
    "received after a rollback without an answer": (
        "available_early",
        put("t1", 1) + rolled_back("t1", Phase.INFO) + killed() + came(1),
        1,
        1,
    ),
    "rolled back and not there": ("available_early", put("t1", 1) + rolled_back("t1") + settled(), 1, 0),
    "received though nobody discharged it is another sentence's matter": (
        "available_early",
        put("t1", 1) + killed() + settled(1),
        1,
        0,
    ),
    "received though nobody asked to commit": ("available_undischarged", put("t1", 1, 2) + killed() + settled(1), 2, 1),
    "not there, and nobody asked to commit": ("available_undischarged", put("t1", 1) + killed() + settled(), 1, 0),
    "received only late though nobody asked to commit": (
        "available_undischarged",
        put("t1", 1) + killed() + silent(1) + came(1, drain=2) + silent(2),
        1,
        1,
    ),
    "a commit without an answer is a discharge": (
        "available_undischarged",
        put("t1", 1) + committed("t1", Phase.INFO) + killed() + settled(1),
        0,
        0,
    ),
    # undischarged_gone
    "acknowledged in a transaction nobody discharged, and gone": (
        "undischarged_gone",
        kept(1, 2) + acked_in("t1", 1, 2) + crashed() + settled(2, epoch=1),
        2,
        1,
    ),
    "acknowledged in a transaction nobody discharged, and back": (
        "undischarged_gone",
        kept(1) + acked_in("t1", 1) + crashed() + settled(1, epoch=1),
        1,
        0,
    ),
    "back at a second consumer, which acknowledged it": (
        "undischarged_gone",
        kept(1) + acked_in("t1", 1) + crashed() + handed(1, consumer=2) + ack_sent(1, consumer=2) + settled(epoch=1),
        1,
        0,
    ),
    "acknowledged in a transaction that was asked to commit, and gone": (
        "undischarged_gone",
        kept(1) + acked_in("t1", 1) + committed("t1", Phase.INFO, by=C) + crashed() + settled(epoch=1),
        0,
        0,
    ),
    "acknowledged outside of transactions, and gone": (
        "undischarged_gone",
        kept(1) + handed(1) + ack_sent(1) + crashed() + settled(epoch=1),
        0,
        0,
    ),
    "what comes back late leaves the others undecided": (
        "undischarged_gone",
        kept(1, 2) + acked_in("t1", 1, 2) + crashed() + silent(1, epoch=1) + came(1, drain=2) + silent(2),
        0,
        0,
    ),
    # transacted_acknowledgement
    "its acknowledgement committed, and again": (
        "transacted_acknowledgement",
        kept(1, 2) + acked_in("t1", 1, 2) + committed("t1", by=C) + settled(1, epoch=1),
        2,
        1,
    ),
    "its acknowledgement committed, and away": (
        "transacted_acknowledgement",
        kept(1) + acked_in("t1", 1) + committed("t1", by=C) + settled(epoch=1),
        1,
        0,
    ),
    "its acknowledgement committed, and again after a restart": (
        "transacted_acknowledgement",
        kept(1) + acked_in("t1", 1) + committed("t1", by=C) + killed(C) + settled(1, epoch=2),
        1,
        0,
    ),
    "its acknowledgement rolled back, and gone": (
        "transacted_acknowledgement",
        kept(1, 2) + acked_in("t1", 1, 2) + rolled_back("t1", by=C) + settled(2, epoch=1),
        2,
        1,
    ),
    "rolled back, released, and back": (
        "transacted_acknowledgement",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", by=C) + given_back(1) + settled(1, epoch=1),
        1,
        0,
    ),
    "rolled back, delivered again, and committed in a later transaction": (
        "transacted_acknowledgement",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", by=C) + acked_in("t2", 1) + committed("t2", by=C) + settled(),
        1,
        0,
    ),
    "rolled back, committed in a later transaction, and again": (
        "transacted_acknowledgement",
        kept(1)
        + acked_in("t1", 1)
        + rolled_back("t1", by=C)
        + acked_in("t2", 1)
        + committed("t2", by=C)
        + settled(1, epoch=1),
        1,
        1,
    ),
    "rolled back, and a later commit without an answer": (
        "transacted_acknowledgement",
        kept(1)
        + acked_in("t1", 1)
        + rolled_back("t1", by=C)
        + acked_in("t2", 1)
        + committed("t2", Phase.INFO, by=C)
        + settled(),
        0,
        0,
    ),
    "rolled back twice, and gone after the second": (
        "transacted_acknowledgement",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", by=C) + acked_in("t2", 1) + rolled_back("t2", by=C) + settled(),
        1,
        1,
    ),
    "a rollback without an answer decides nothing": (
        "transacted_acknowledgement",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", Phase.INFO, by=C) + settled(),
        0,
        0,
    ),
    # rollback_refused
    "a rollback that was refused": (
        "rollback_refused",
        put("t1", 1) + rolled_back("t1") + put("t2", 2) + rolled_back("t2", Phase.FAIL),
        2,
        1,
    ),
    "a rollback of acknowledgements that was done": (
        "rollback_refused",
        kept(1) + acked_in("t1", 1) + rolled_back("t1", by=C),
        1,
        0,
    ),
    "a rollback without an answer was not refused": (
        "rollback_refused",
        put("t1", 1) + rolled_back("t1", Phase.INFO),
        0,
        0,
    ),
}
