"""Nodes of a broker of several die or are stopped while clients use it, and come back."""

from conformance.scenario import Check, Liar, scenario, sent_before
from conformance.scenario.script import (
    SETTLE,
    Between,
    Consume,
    KillNodes,
    Nth,
    OneOf,
    Publish,
    Restart,
    Rounds,
    StopNodes,
)

ROUNDS = 5
AT_A_CONFIRM = Nth("confirm", Between(50, 300))
IN_COMMIT = OneOf((Nth("commit_written", Between(3, 20)), Nth("committed", Between(3, 20))))
TAKES_OVER, RETURNS = Restart(), Restart()
"""Another node serves; the one that died is started, and in step again."""

LOST = Check("lost", exposure="confirmed_in_window", control=Liar("confirms-before-its-replica"))
FORGOTTEN = Check(
    "delivered_after_restart",
    exposure="acknowledgements_confirmed",
    control=Liar("forgets-acknowledgements-at-failover"),
)


@scenario
class ServingNodeKilledWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; the node that serves it is killed, again and again.

    Another node takes over, and the one that died returns before the next is killed. What was confirmed must be there
    at the node that serves then, and after all were stopped and started again.
    """

    mode = "async_ack"
    steps = (
        sent_before(100),
        Rounds((Publish(50_000, window=100, until=KillNodes(AT_A_CONFIRM, "serving")), TAKES_OVER, RETURNS), ROUNDS),
        *SETTLE,
    )
    checks = (
        LOST,
        Check("stuck", exposure="confirmed", control=Liar("stuck-after-recovery", trials=3, waits_for_liveness=True)),
    )


@scenario
class ServingNodeKilledAfterAnother:
    """A node dies beside the one that serves, which goes on; then that one dies too, and both are started again.

    What was confirmed while one node was away is only at those that were left. The one that was away must not serve
    without it.
    """

    mode = "async_ack"
    steps = (
        sent_before(100),
        Rounds(
            (
                Publish(400, window=100, until=KillNodes(AT_A_CONFIRM, "another")),
                Publish(50_000, window=100, until=KillNodes(AT_A_CONFIRM, "serving")),
                TAKES_OVER,
                RETURNS,
            ),
            ROUNDS,
        ),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed_in_window", control=Liar("stale-replica-takes-over")),)


@scenario
class AllNodesKilledWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; all nodes are killed at once, and started again."""

    mode = "async_ack"
    steps = (
        sent_before(100),
        Rounds((Publish(50_000, window=100, until=KillNodes(AT_A_CONFIRM, "all")), TAKES_OVER), ROUNDS),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed_in_window", control=Liar("loses-the-oldest")),)


@scenario
class MajorityKilledWhilePublishing:
    """A publisher keeps 100 persistent messages in flight; the node that serves dies with a majority.

    Those that died are started again, beside those that are left.
    """

    mode = "async_ack"
    steps = (
        sent_before(100),
        Rounds((Publish(50_000, window=100, until=KillNodes(AT_A_CONFIRM, "majority")), TAKES_OVER), ROUNDS),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed_in_window", control=Liar("loses-the-oldest")),)


@scenario
class ServingNodeKilledWhileAcknowledging:
    """A consumer acknowledges each message and reads the confirmation; the node that serves it is killed at one.

    What was acknowledged and confirmed must not come from the node that takes over.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Publish(60, window=60),
                Consume(
                    "individual",
                    prefetch=50,
                    acknowledge=2,
                    confirm=True,
                    until=KillNodes(Nth("ack", Between(10, 24)), "serving"),
                ),
                TAKES_OVER,
                RETURNS,
            ),
            ROUNDS,
        ),
        *SETTLE,
    )
    checks = (FORGOTTEN,)


@scenario
class ServingNodeKilledDuringCommit:
    """A publisher sends in transactions of ten; the node that serves it is killed in a commit, or at its answer.

    All of a transaction is there at the node that takes over, or nothing.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (
                Publish(2_000, window=50, batch=10, until=KillNodes(IN_COMMIT, "serving")),
                TAKES_OVER,
                RETURNS,
            ),
            ROUNDS,
        ),
        *SETTLE,
    )
    checks = (Check("half_applied", exposure="commits_at_risk", control=Liar("replicates-half-a-transaction")),)


@scenario
class NodesRestartedInTurn:
    """A publisher keeps 100 persistent messages in flight while the nodes are restarted one after the other.

    So a broker of several nodes gets a new version: a node beside the one that serves is stopped in order and started
    again, and once it is in step the one that serves is stopped, and another one takes over.
    """

    mode = "async_ack"
    steps = (
        sent_before(100),
        Rounds(
            (
                Publish(400, window=100, until=StopNodes(AT_A_CONFIRM, "another")),
                RETURNS,
                Publish(50_000, window=100, until=StopNodes(AT_A_CONFIRM, "serving")),
                TAKES_OVER,
                RETURNS,
            ),
            ROUNDS,
        ),
        *SETTLE,
    )
    checks = (
        Check("lost", exposure="confirmed_in_window", control=Liar("in-step-without-what-it-missed")),
        Check("stuck", exposure="confirmed", control=Liar("stuck-after-recovery", trials=3, waits_for_liveness=True)),
    )


@scenario
class ServingNodeStoppedWhileAcknowledging:
    """A consumer acknowledges each message and reads the confirmation; the node that serves it is stopped in order.

    What was acknowledged and confirmed must not come from the node that takes over.
    """

    mode = "individual"
    steps = (
        Rounds(
            (
                Publish(60, window=60),
                Consume(
                    "individual",
                    prefetch=50,
                    acknowledge=2,
                    confirm=True,
                    until=StopNodes(Nth("ack", Between(10, 24)), "serving"),
                ),
                TAKES_OVER,
                RETURNS,
            ),
            ROUNDS,
        ),
        *SETTLE,
    )
    checks = (FORGOTTEN,)
