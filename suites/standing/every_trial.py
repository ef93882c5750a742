"""Checks that judge every trial of a run, of each scenario."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Nth, Publish

ALTERED = Check("corrupt", exposure="received", control=Liar("corrupts-a-body"))
TWICE = Check("delivered_twice", exposure="received", control=Liar("stores-every-hundredth-twice"))
REORDERED = Check("overtaken", exposure="received", control=Liar("swaps-two-of-a-hundred"))


@scenario
class EveryTrial:
    """These checks judge the trials of every scenario of the run; a trial of this one only shows their controls.

    A consumer acknowledges each message, reads each confirmation, and is killed in a processing, with messages
    prefetched. What was confirmed must come once, unaltered and in order, and nothing else may come.
    """

    mode = "individual"
    standing = True
    steps = (
        Publish(300, window=100),
        Consume("individual", prefetch=50, until=ConsumerCrash(Nth("process", Between(120, 180)))),
        *SETTLE,
    )
    decides = {
        "EMS-STEP-04": Check("lost", exposure="confirmed", control=Liar("loses-half-a-prefetch")),
        "AMQP-ACC-02": TWICE,
        "STOMP-ACK-05": TWICE,
        "JMS-ACK-01": Check("drained_twice", exposure="received", control=Liar("stores-every-hundredth-twice")),
        "AMQP-BARE-01": ALTERED,
        "EXPECT-BODY-01": ALTERED,
        "EXPECT-TWICE-01": TWICE,
        "JMS-ORDER-01": REORDERED,
        "CLASSIC-ORDER-01": REORDERED,
        "EXPECT-ORDER-01": REORDERED,
        "RMQ-ORDER-01": REORDERED,
        "EXPECT-SENT-01": Check("phantom", exposure="received", control=Liar("renames-a-message")),
    }
