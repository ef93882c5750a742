"""What the disk of one of several nodes gives back is not what was written, and that node serves later."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, CorruptReplica, Drain, KillNodes, Nth, Publish, Restart

AT_A_CONFIRM = Nth("confirm", Between(50, 300))


@scenario
class ReplicaDamaged:
    """A publisher sends 300 messages, and all nodes are stopped. One bit of a body is flipped at one of them.

    That is not the node that served. All nodes are started, a publisher sends more, and the node that serves is killed.
    Another one takes over, and may be the one whose data were changed. It has the others to compare with: what it
    delivers must be what was sent.
    """

    mode = "async_ack"
    varies = False
    steps = (
        Publish(50, window=50, size=1_000),
        Drain(),
        Restart(clean=True),
        Publish(300, window=50, size=1_000),
        Restart(clean=True, under=CorruptReplica("body_bit")),
        Publish(50_000, window=50, size=1_000, until=KillNodes(AT_A_CONFIRM, "serving")),
        Restart(),
        Restart(),
        *SETTLE,
    )
    checks = (Check("corrupt", exposure="confirmed", control=Liar("corrupts-a-body")),)
