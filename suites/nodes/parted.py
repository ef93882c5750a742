"""A node of several and the others cannot reach each other, or it is halted, for a time, while clients work."""

from typing import Literal

from conformance.scenario import Check, Liar, scenario, sent_before
from conformance.scenario.script import SETTLE, Between, Consume, Nth, PartNodes, PauseNodes, Publish, Restart, Step

AT_A_CONFIRM = Nth("confirm", Between(50, 200))
APART_S = 8
"""Longer than most brokers take to miss a node, and shorter than they take to forget it."""
LONG_S = 90
Which = Literal["serving", "another"]
TAKES_OVER, RETURNS = Restart(), Restart()
"""Another node serves; the one that died is started, and in step again."""

JOINED = (Publish(50, window=10, every_ms=20), TAKES_OVER, RETURNS, *SETTLE)
"""Another publisher comes once the nodes are joined, and then the node that serves is killed."""


def _lost(liar: str) -> Check:
    return Check("lost", exposure="confirmed", control=Liar(liar))


KEEPS = _lost("in-step-without-what-it-missed")
SERVES_AND_KEEPS = (Check("not_served", exposure="sends", control=Liar("confirms-nothing-alone")), KEEPS)


def _sending(
    apart_s: float, cut_off: Which = "serving", node: Literal["", "another"] = "", *, one_way: bool = False
) -> Publish:
    return _through(PartNodes(AT_A_CONFIRM, apart_s, cut_off, one_way=one_way), node)


def _through(fault: PartNodes | PauseNodes, node: Literal["", "another"] = "") -> Publish:
    """A publisher that goes on for a while after the fault."""
    return Publish(int((3 + fault.hold_s + 3) * 100), window=100, every_ms=10, node=node, until=fault)


def _until_death(cut_off: Which) -> tuple[Step, ...]:
    """A publisher goes on while a node is cut off, until the one that serves dies."""
    fault = PartNodes(AT_A_CONFIRM, APART_S, cut_off, then_kill=True)
    return (sent_before(100), Publish(5_000, window=100, every_ms=10, until=fault), TAKES_OVER, RETURNS, *SETTLE)


@scenario
class ServingNodeCutOff:
    """A publisher sends 100 messages a second. For 8 seconds the node that serves it and the others are parted.

    Another publisher comes when they are joined again, and then the node that serves is killed.
    """

    mode = "async_ack"
    varies = False
    steps = (_sending(APART_S), *JOINED)
    checks = SERVES_AND_KEEPS


@scenario
class LeaderCutOffFromTheNodeOfItsClient:
    """A publisher is connected to one node, and another one leads the queue, which is cut off for 8 seconds.

    The publisher stays connected. The nodes on its side can choose a leader, and what it sends must go there.
    """

    mode = "async_ack"
    varies = False
    steps = (_sending(APART_S, node="another"), *JOINED)
    checks = SERVES_AND_KEEPS


@scenario
class NodeOfAClientCutOff:
    """A publisher is connected to one node, which is cut off for 8 seconds, and another one leads the queue.

    What it sends meanwhile can go nowhere. When the nodes are joined, it must arrive, or be known to be refused.
    """

    mode = "async_ack"
    varies = False
    steps = (
        _sending(APART_S, cut_off="another", node="another"),
        *JOINED,
    )
    checks = SERVES_AND_KEEPS


@scenario
class NodeOfAClientCutOffForLong:
    """As with 8 seconds, for 90: the nodes give up the connection between them, and what was on its way is gone."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = (
        _sending(LONG_S, cut_off="another", node="another"),
        Publish(50, window=10, every_ms=20, node="another"),
        TAKES_OVER,
        RETURNS,
        *SETTLE,
    )
    checks = SERVES_AND_KEEPS


@scenario
class ServingNodeNotHeard:
    """A publisher sends 100 messages a second. For 8 seconds nothing that its node sends comes to the others.

    What the others send does come to it: a broken route often works in one direction.
    """

    mode = "async_ack"
    varies = False
    steps = (_sending(APART_S, one_way=True), *JOINED)
    checks = SERVES_AND_KEEPS


@scenario
class ServingNodeCutOffForLong:
    """The same for 90 seconds: longer than brokers of several nodes wait for a node before they go on without it."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = (_sending(LONG_S), *JOINED)
    checks = (KEEPS,)


@scenario
class ServingNodeCutOffAndKilled:
    """A publisher sends 100 messages a second, and goes on while its node is cut off; then that node dies.

    What was confirmed meanwhile may be at that node alone. Then no other node may serve without it.
    """

    mode = "async_ack"
    steps = _until_death("serving")
    checks = (_lost("stale-replica-takes-over"),)


@scenario
class AnotherNodeCutOffAndServingKilled:
    """The same, but a node beside the one that serves is cut off, and the one that serves dies at the end.

    Of three nodes one is left that has everything, and the other one must not serve without it.
    """

    mode = "async_ack"
    steps = _until_death("another")
    checks = (_lost("stale-replica-takes-over"),)


@scenario
class ServingNodeCutOffWhileAcknowledging:
    """A consumer reads each confirmation of an acknowledgement, also while its node is cut off; then that node dies.

    What was acknowledged and confirmed must not come again.
    """

    mode = "individual"
    steps = (
        Publish(600, window=100),
        Consume(
            "individual",
            prefetch=50,
            work_ms=20,
            confirm=True,
            until=PartNodes(Nth("ack", Between(20, 60)), APART_S, "serving", then_kill=True),
        ),
        TAKES_OVER,
        RETURNS,
        *SETTLE,
    )
    checks = (
        Check(
            "delivered_after_restart", exposure="acknowledgements_confirmed", control=Liar("stale-replica-takes-over")
        ),
    )


@scenario
class ServingNodeHalted:
    """A publisher sends 100 messages a second. The node that serves it is halted for 8 seconds, and goes on.

    The publisher stays connected: what it has sent is read later, by a node that may not know that another one took
    over. Another publisher comes, and then the node that serves is killed.
    """

    mode = "async_ack"
    varies = False
    steps = (_through(PauseNodes(AT_A_CONFIRM, APART_S, "serving")), *JOINED)
    checks = SERVES_AND_KEEPS


@scenario
class ServingNodeHaltedForLong:
    """The same for 90 seconds: longer than brokers of several nodes wait for a node before they go on without it."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = (_through(PauseNodes(AT_A_CONFIRM, LONG_S, "serving")), *JOINED)
    checks = (KEEPS,)


@scenario
class AnotherNodeHalted:
    """A publisher sends 100 messages a second. A node beside the one that serves is halted for 8 seconds, and goes on.

    The broker may wait for it, or go on without it. In the second case it is behind, and must not serve before it has
    what it missed: the node that serves is killed soon after.
    """

    mode = "async_ack"
    varies = False
    steps = (_through(PauseNodes(AT_A_CONFIRM, APART_S, "another")), *JOINED)
    checks = SERVES_AND_KEEPS


@scenario
class AnotherNodeHaltedForLong:
    """The same for 90 seconds."""

    mode = "async_ack"
    varies = False
    thorough = True
    steps = (_through(PauseNodes(AT_A_CONFIRM, LONG_S, "another")), *JOINED)
    checks = (KEEPS,)
