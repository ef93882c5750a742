"""Answers, and when the disk had what they speak of."""

from judge_histories import (
    acked_in,
    answered,
    commit_sync_failed,
    committed,
    confirmed,
    handed,
    hidden,
    kept,
    killed,
    no_answer,
    of,
    put,
    refused,
    rolled_back,
    sent,
    sync_failed,
    synced,
    synced_commit,
    unasked,
    wrote,
    wrote_commit,
)

from conformance.history import Op, Phase

C = "consumer-1"

DISK = {
    # confirmed_before_sync
    "confirmed after its sync": ("confirmed_before_sync", sent(1) + wrote(1) + synced(1) + confirmed(1), 1, 0),
    "confirmed before its sync": (
        "confirmed_before_sync",
        sent(1, 2) + wrote(1, 2) + confirmed(1) + synced(1, 2) + confirmed(2),
        2,
        1,
    ),
    "confirmed and never synced": ("confirmed_before_sync", sent(1) + wrote(1) + confirmed(1), 1, 1),
    "confirmed before it was even written": (
        "confirmed_before_sync",
        sent(1) + confirmed(1) + wrote(1) + synced(1),
        1,
        1,
    ),
    "confirmed between two syncs": (
        "confirmed_before_sync",
        sent(1) + wrote(1) + synced(1) + confirmed(1) + wrote(1) + synced(1),
        1,
        0,
    ),
    "the sync of another message covers nothing of this one": (
        "confirmed_before_sync",
        sent(1, 2) + wrote(1, 2) + synced(2) + confirmed(1, 2),
        2,
        1,
    ),
    "the sync of a commit that took it away covers nothing of its send": (
        "confirmed_before_sync",
        sent(1) + wrote(1) + acked_in("t1", 1) + committed("t1", by=C) + synced_commit("t1") + confirmed(1),
        1,
        1,
    ),
    "a write that nobody saw decides nothing": (
        "confirmed_before_sync",
        sent(1, 2) + wrote(2) + synced(2) + confirmed(1, 2),
        1,
        0,
    ),
    "before its sync, and not persistent": (
        "confirmed_before_sync",
        sent(1, durable=False) + wrote(1) + confirmed(1),
        0,
        0,
    ),
    "before its sync, and without an answer": ("confirmed_before_sync", sent(1) + wrote(1) + no_answer(1), 0, 0),
    "before its sync, and answered with a refusal": ("confirmed_before_sync", sent(1) + wrote(1) + refused(1), 0, 0),
    "before its sync, and provisional": (
        "confirmed_before_sync",
        sent(1, tx="t1") + wrote(1) + confirmed(1, tx="t1"),
        0,
        0,
    ),
    "before its sync, where not everything can be seen": (
        "confirmed_before_sync",
        sent(1) + wrote(1) + confirmed(1) + hidden(),
        0,
        0,
    ),
    # committed_before_sync
    "a commit answered after its sync": (
        "committed_before_sync",
        put("t1", 1, 2) + committed("t1", None) + wrote_commit("t1") + synced_commit("t1") + answered(Op.COMMIT, "t1"),
        2,
        0,
    ),
    "a commit answered before its sync": (
        "committed_before_sync",
        put("t1", 1, 2) + committed("t1", None) + wrote_commit("t1") + answered(Op.COMMIT, "t1") + synced_commit("t1"),
        2,
        2,
    ),
    "a commit answered and never synced": (
        "committed_before_sync",
        put("t1", 1) + committed("t1") + wrote_commit("t1"),
        1,
        1,
    ),
    "the sync of another commit covers nothing of this one": (
        "committed_before_sync",
        put("t1", 1)
        + put("t2", 2, 3)
        + committed("t1", None)
        + wrote_commit("t1")
        + wrote_commit("t2")
        + synced_commit("t2")
        + answered(Op.COMMIT, "t1")
        + committed("t2"),
        3,
        1,
    ),
    "the syncs of its messages say nothing of a commit": (
        "committed_before_sync",
        put("t1", 1) + wrote(1) + synced(1) + committed("t1"),
        0,
        0,
    ),
    "a commit without an answer promises nothing at the disk": (
        "committed_before_sync",
        put("t1", 1) + committed("t1", Phase.INFO) + wrote_commit("t1"),
        0,
        0,
    ),
    "a commit answered before its sync, and a member refused": (
        "committed_before_sync",
        put("t1", 1) + sent(2, tx="t1") + refused(2, tx="t1") + committed("t1") + wrote_commit("t1"),
        1,
        1,
    ),
    "a commit of acknowledgements answered before its sync": (
        "committed_before_sync",
        kept(1, 2) + acked_in("t1", 1, 2) + committed("t1", by=C) + wrote_commit("t1") + synced_commit("t1"),
        2,
        2,
    ),
    "a commit where not everything can be seen": (
        "committed_before_sync",
        put("t1", 1) + committed("t1") + wrote_commit("t1") + hidden(),
        0,
        0,
    ),
    "committed after a rollback, which has a record of its own": (
        "committed_before_sync",
        kept(1)
        + acked_in("t1", 1)
        + rolled_back("t1", by=C)
        + wrote_commit("t1")
        + acked_in("t2", 1)
        + committed("t2", None, by=C)
        + wrote_commit("t2")
        + synced_commit("t2")
        + answered(Op.COMMIT, "t2", by=C),
        0,
        0,
    ),
    # rolled_back_before_sync
    "a rollback answered before its sync": (
        "rolled_back_before_sync",
        put("t1", 1, 2) + rolled_back("t1") + wrote_commit("t1") + synced_commit("t1"),
        2,
        2,
    ),
    "a rollback answered after its sync": (
        "rolled_back_before_sync",
        put("t1", 1) + rolled_back("t1", None) + wrote_commit("t1") + synced_commit("t1") + answered(Op.ROLLBACK, "t1"),
        1,
        0,
    ),
    "a rollback for which nothing is written": ("rolled_back_before_sync", put("t1", 1) + rolled_back("t1"), 0, 0),
    "a commit is no rollback": ("rolled_back_before_sync", put("t1", 1) + committed("t1") + wrote_commit("t1"), 0, 0),
    # confirmed_though_sync_failed
    "confirmed although its sync had failed": (
        "confirmed_though_sync_failed",
        sent(1, 2) + wrote(1, 2) + sync_failed(1) + synced(2) + confirmed(1, 2),
        1,
        1,
    ),
    "confirmed although its write had failed": (
        "confirmed_though_sync_failed",
        sent(1) + sync_failed(1, "disk_full") + confirmed(1),
        1,
        1,
    ),
    "confirmed before its sync failed": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + confirmed(1) + sync_failed(1),
        1,
        1,
    ),
    "its sync failed, and nobody confirmed it": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + sync_failed(1) + no_answer(1),
        1,
        0,
    ),
    "its sync failed, and it was refused": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + sync_failed(1) + refused(1),
        0,
        0,
    ),
    "written again, synced, and then confirmed": (
        "confirmed_though_sync_failed",
        sent(1) + sync_failed(1, "disk_full") + wrote(1) + synced(1) + confirmed(1),
        1,
        0,
    ),
    "written again, and confirmed before that was synced": (
        "confirmed_though_sync_failed",
        sent(1) + sync_failed(1, "disk_full") + wrote(1) + confirmed(1) + synced(1),
        1,
        1,
    ),
    "stored and confirmed before a copy of it failed": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + synced(1) + confirmed(1) + wrote(1) + sync_failed(1),
        1,
        0,
    ),
    "written again, synced, confirmed, and copied later on": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + sync_failed(1) + wrote(1) + synced(1) + confirmed(1) + wrote(1) + synced(1),
        1,
        0,
    ),
    "a later sync alone mends nothing": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + sync_failed(1) + synced(1) + confirmed(1),
        1,
        1,
    ),
    "a failed sync where not everything can be seen": (
        "confirmed_though_sync_failed",
        sent(1) + wrote(1) + sync_failed(1) + confirmed(1) + hidden(),
        0,
        0,
    ),
    # committed_though_sync_failed
    "a commit answered although its sync had failed": (
        "committed_though_sync_failed",
        put("t1", 1, 2)
        + committed("t1", None)
        + wrote_commit("t1")
        + commit_sync_failed("t1")
        + answered(Op.COMMIT, "t1"),
        2,
        2,
    ),
    "a commit whose sync failed, without an answer": (
        "committed_though_sync_failed",
        put("t1", 1) + committed("t1", Phase.INFO) + wrote_commit("t1") + commit_sync_failed("t1"),
        1,
        0,
    ),
    "a commit written again, synced, and then answered": (
        "committed_though_sync_failed",
        put("t1", 1)
        + committed("t1", None)
        + commit_sync_failed("t1")
        + wrote_commit("t1")
        + synced_commit("t1")
        + answered(Op.COMMIT, "t1"),
        1,
        0,
    ),
    # unasked_before_sync
    "a send without receipt, not synced when a later one was answered": (
        "unasked_before_sync",
        unasked(1, 2) + sent(3) + wrote(1, 2, 3) + synced(1) + confirmed(3) + synced(2, 3),
        2,
        1,
    ),
    "a send without receipt, synced by then": (
        "unasked_before_sync",
        unasked(1) + sent(2) + wrote(1, 2) + synced(1) + confirmed(2),
        1,
        0,
    ),
    "a send without receipt, not synced, and none answered after it": (
        "unasked_before_sync",
        sent(1) + unasked(2) + wrote(1, 2) + confirmed(1),
        0,
        0,
    ),
    # refused_delivered
    "refused, and received": ("refused_delivered", sent(1, 2) + refused(1) + refused(2) + handed(1), 2, 1),
    "refused when the disk was full, and there after a restart": (
        "refused_delivered",
        sent(1) + sync_failed(1, "disk_full") + refused(1) + of("drain-1", Op.DRAIN, Phase.OK, "p1:1", intact=True),
        1,
        1,
    ),
    "refused, and not received": ("refused_delivered", sent(1) + refused(1) + kept(2) + handed(2), 1, 0),
    "accepted as well": ("refused_delivered", kept(1) + refused(1) + handed(1), 0, 0),
    "refused in a transaction": ("refused_delivered", sent(1, tx="t1") + refused(1, tx="t1") + handed(1), 0, 0),
    "without an answer, and received": ("refused_delivered", sent(1) + killed() + no_answer(1) + handed(1), 0, 0),
}
