"""The broker dies around a commit: before its request, between request and answer, after the answer."""

from conformance.scenario import KILLS, SYNC_OFF, Check, Liar, scenario, sent_before
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Publish, Restart, Rounds

HALF = Check("half_applied", exposure="commits_at_risk", control=Liar("recovers-half-a-transaction"))
IN_COMMIT = Kill(Nth("commit_written", Between(4, 20)), delay_percent=Between(0, 200))
ROLLED_BACK = Check("available_early", exposure="rolled_back", control=Liar("commits-rollbacks"))
UNCOMMITTED = Kill(Nth("before_commit", Between(4, 12)), delay_us=Between(10_000, 40_000))


@scenario
class BrokerKilledBeforeCommit:
    """A publisher sends in transactions of ten; the broker is killed when one is complete but for its commit.

    Every send of that transaction was provisionally answered, or another request behind them was, and no request to
    commit it ever left: after recovery none of it may be there. The kill comes 10 to 40 ms later, so that a broker that
    stores what it should not has the time for it.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (Publish(2_000, window=50, batch=10, until=UNCOMMITTED), Restart()),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (Check("available_undischarged", exposure="undischarged", control=Liar("delivers-before-commit")),)


@scenario
class BrokerKilledDuringCommit:
    """A publisher sends in transactions of ten; the broker is killed some time after a request to commit has left.

    That time is drawn, up to twice the median time that an answer has taken: a kill at the request itself would
    come before the broker has read it. With or without an answer, all of that transaction is there after
    recovery, or nothing.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (
                Publish(2_000, window=50, batch=10, until=IN_COMMIT),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (HALF,)


@scenario
class BrokerKilledDuringCommitToQueues:
    """A publisher sends in transactions of ten, to four queues in turn; the broker is killed during a commit.

    That is some time after the request has left, up to twice the median time that an answer has taken. All of the
    transaction is there after recovery, in every queue, or nothing. The next publisher goes on with the same queues.
    """

    mode = "transacted"
    steps = (Rounds((Publish(2_000, window=50, batch=10, queues=4, until=IN_COMMIT), Restart()), KILLS), *SETTLE)
    checks = (Check("half_applied", exposure="commits_at_risk", control=Liar("commits-one-queue")),)


@scenario
class BrokerKilledAfterRollback:
    """A publisher rolls back every second transaction of ten; the broker is killed with the next one not committed.

    What was rolled back must not be there after the restart.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (
                Publish(2_000, window=50, batch=10, rollback_every=2, until=Kill(Nth("before_commit", Between(5, 12)))),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (ROLLED_BACK,)


@scenario
class BrokerKilledAfterCommit:
    """A publisher sends in transactions of five; the broker is killed when the answer to a commit was read.

    What was committed in the moments before is at risk: all of it must be there after recovery.
    """

    mode = "transacted"
    steps = (
        sent_before(50, batch=5),
        Rounds((Publish(20_000, window=50, batch=5, until=Kill(Nth("committed", Between(30, 90)))), Restart()), KILLS),
        *SETTLE,
    )
    checks = (
        Check("lost_committed", exposure="committed_in_window", control=SYNC_OFF),
        Check("committed_missing", exposure="committed_in_window"),
    )
