"""Answers, and when the disk had their records."""

from judge_histories import (
    acked_in,
    answered,
    case,
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
    wrote,
)

from conformance.history import Op, Phase

C = "consumer-1"

DISK = {
    "confirmed_before_sync": {
        "confirmed after its sync": case(1, 0, sent(1), wrote(1), synced(1), confirmed(1)),
        "confirmed before its sync": case(2, 1, sent(1, 2), wrote(1, 2), confirmed(1), synced(1, 2), confirmed(2)),
        "confirmed and never synced": case(1, 1, sent(1), wrote(1), confirmed(1)),
        "confirmed before it was even written": case(1, 1, sent(1), confirmed(1), wrote(1), synced(1)),
        "confirmed between two syncs": case(1, 0, sent(1), wrote(1), synced(1), confirmed(1), wrote(1), synced(1)),
        "the sync of another message covers nothing of this one": case(
            2, 1, sent(1, 2), wrote(1, 2), synced(2), confirmed(1, 2)
        ),
        "the sync of a commit that took it away covers nothing of its send": case(
            1, 1, sent(1), wrote(1), acked_in("t1", 1), committed("t1", by=C), synced("t1"), confirmed(1)
        ),
        "a write that was not seen decides nothing": case(1, 0, sent(1, 2), wrote(2), synced(2), confirmed(1, 2)),
        "before its sync, and not persistent": case(0, 0, sent(1, durable=False), wrote(1), confirmed(1)),
        "before its sync, and without an answer": case(0, 0, sent(1), wrote(1), no_answer(1)),
        "before its sync, and answered with a refusal": case(0, 0, sent(1), wrote(1), refused(1)),
        "before its sync, and provisional": case(0, 0, sent(1, tx="t1"), wrote(1), confirmed(1, tx="t1")),
        "before its sync, where not everything can be seen": case(0, 0, sent(1), wrote(1), confirmed(1), hidden()),
    },
    "committed_before_sync": {
        "a commit answered after its sync": case(
            2,
            0,
            put("t1", 1, 2),
            committed("t1", None),
            wrote("t1"),
            synced("t1"),
            answered(Op.COMMIT, "t1"),
        ),
        "a commit answered before its sync": case(
            2,
            2,
            put("t1", 1, 2),
            committed("t1", None),
            wrote("t1"),
            answered(Op.COMMIT, "t1"),
            synced("t1"),
        ),
        "a commit answered and never synced": case(1, 1, put("t1", 1), committed("t1"), wrote("t1")),
        "the sync of another commit covers nothing of this one": case(
            3,
            1,
            put("t1", 1),
            put("t2", 2, 3),
            committed("t1", None),
            wrote("t1"),
            wrote("t2"),
            synced("t2"),
            answered(Op.COMMIT, "t1"),
            committed("t2"),
        ),
        "the syncs of its messages say nothing of a commit": case(
            0, 0, put("t1", 1), wrote(1), synced(1), committed("t1")
        ),
        "a commit without an answer promises nothing at the disk": case(
            0, 0, put("t1", 1), committed("t1", Phase.INFO), wrote("t1")
        ),
        "a commit answered before its sync, and a member refused": case(
            1, 1, put("t1", 1), sent(2, tx="t1"), refused(2, tx="t1"), committed("t1"), wrote("t1")
        ),
        "a commit of acknowledgements answered before its sync": case(
            2, 2, kept(1, 2), acked_in("t1", 1, 2), committed("t1", by=C), wrote("t1"), synced("t1")
        ),
        "a commit where not everything can be seen": case(0, 0, put("t1", 1), committed("t1"), wrote("t1"), hidden()),
        "committed after a rollback, which has a record of its own": case(
            0,
            0,
            kept(1),
            acked_in("t1", 1),
            rolled_back("t1", by=C),
            wrote("t1"),
            acked_in("t2", 1),
            committed("t2", None, by=C),
            wrote("t2"),
            synced("t2"),
            answered(Op.COMMIT, "t2", by=C),
        ),
    },
    "rolled_back_before_sync": {
        "a rollback answered before its sync": case(
            2, 2, put("t1", 1, 2), rolled_back("t1"), wrote("t1"), synced("t1")
        ),
        "a rollback answered after its sync": case(
            1,
            0,
            put("t1", 1),
            rolled_back("t1", None),
            wrote("t1"),
            synced("t1"),
            answered(Op.ROLLBACK, "t1"),
        ),
        "a rollback for which nothing is written": case(0, 0, put("t1", 1), rolled_back("t1")),
        "a commit is no rollback": case(0, 0, put("t1", 1), committed("t1"), wrote("t1")),
    },
    "confirmed_though_sync_failed": {
        "confirmed although its sync had failed": case(
            1, 1, sent(1, 2), wrote(1, 2), sync_failed(1), synced(2), confirmed(1, 2)
        ),
        "confirmed although its write had failed": case(1, 1, sent(1), sync_failed(1, "disk_full"), confirmed(1)),
        "confirmed before its sync failed": case(1, 1, sent(1), wrote(1), confirmed(1), sync_failed(1)),
        "its sync failed, and it was not confirmed": case(1, 0, sent(1), wrote(1), sync_failed(1), no_answer(1)),
        "its sync failed, and it was refused": case(0, 0, sent(1), wrote(1), sync_failed(1), refused(1)),
        "written again, synced, and then confirmed": case(
            1, 0, sent(1), sync_failed(1, "disk_full"), wrote(1), synced(1), confirmed(1)
        ),
        "written again, and confirmed before that was synced": case(
            1, 1, sent(1), sync_failed(1, "disk_full"), wrote(1), confirmed(1), synced(1)
        ),
        "stored and confirmed before a copy of it failed": case(
            1, 0, sent(1), wrote(1), synced(1), confirmed(1), wrote(1), sync_failed(1)
        ),
        "written again, synced, confirmed, and copied later on": case(
            1, 0, sent(1), wrote(1), sync_failed(1), wrote(1), synced(1), confirmed(1), wrote(1), synced(1)
        ),
        "a later sync alone mends nothing": case(1, 1, sent(1), wrote(1), sync_failed(1), synced(1), confirmed(1)),
        "a failed sync where not everything can be seen": case(
            0, 0, sent(1), wrote(1), sync_failed(1), confirmed(1), hidden()
        ),
    },
    "committed_though_sync_failed": {
        "a commit answered although its sync had failed": case(
            2,
            2,
            put("t1", 1, 2),
            committed("t1", None),
            wrote("t1"),
            sync_failed("t1"),
            answered(Op.COMMIT, "t1"),
        ),
        "a commit whose sync failed, without an answer": case(
            1, 0, put("t1", 1), committed("t1", Phase.INFO), wrote("t1"), sync_failed("t1")
        ),
        "a commit written again, synced, and then answered": case(
            1,
            0,
            put("t1", 1),
            committed("t1", None),
            sync_failed("t1"),
            wrote("t1"),
            synced("t1"),
            answered(Op.COMMIT, "t1"),
        ),
    },
    "refused_delivered": {
        "refused, and received": case(2, 1, sent(1, 2), refused(1), refused(2), handed(1)),
        "refused when the disk was full, and there after a restart": case(
            1,
            1,
            sent(1),
            sync_failed(1, "disk_full"),
            refused(1),
            of("drain-1", Op.DRAIN, Phase.OK, "p1:1", intact=True),
        ),
        "refused, and not received": case(1, 0, sent(1), refused(1), kept(2), handed(2)),
        "accepted as well": case(0, 0, kept(1), refused(1), handed(1)),
        "refused in a transaction": case(0, 0, sent(1, tx="t1"), refused(1, tx="t1"), handed(1)),
        "without an answer, and received": case(0, 0, sent(1), killed(), no_answer(1), handed(1)),
    },
}
