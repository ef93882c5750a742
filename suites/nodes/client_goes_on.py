"""The node of a client dies, and the client, which knows all nodes, goes on by itself at the one that takes over.

A vendor's client says at each send and commit what became of it. What it says must be true at the node that took over.
"""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, LoseNode, Nth, OneOf, Publish, Restart

WITHIN_S = 10
"""Longer than any of the brokers here takes to let another node take over."""
AT_A_CONFIRM = Nth("confirm", Between(50, 200))
IN_COMMIT = OneOf((Nth("commit_written", Between(10, 30)), Nth("committed", Between(10, 30))))
TAKES_OVER, RETURNS = Restart(), Restart()


@scenario
class ClientGoesOnAtAnotherNode:
    """A publisher keeps 20 messages in flight through a vendor's client, and its node dies.

    What the client says was sent must be there. It may send again what had no answer: such a message may come twice.
    """

    mode = "async_ack"
    varies = False
    steps = (
        Publish(3_000, window=20, goes_on=True, until=LoseNode(AT_A_CONFIRM, WITHIN_S)),
        TAKES_OVER,
        RETURNS,
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=Liar("confirms-before-its-replica")),)


@scenario
class ClientGoesOnInATransaction:
    """The same in transactions of ten: the node dies in a commit, or at its answer.

    The client may say that it was rolled back. A commit that returns means that all of its ten are there, and one that
    was rolled back that none is.
    """

    mode = "transacted"
    varies = False
    steps = (
        Publish(1_000, window=10, batch=10, every_ms=50, goes_on=True, until=LoseNode(IN_COMMIT, WITHIN_S)),
        TAKES_OVER,
        RETURNS,
        *SETTLE,
    )
    checks = (Check("half_applied", exposure="commits_asked", control=Liar("replicates-half-a-transaction")),)
