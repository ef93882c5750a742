"""Checks that judge every trial of a run, of each scenario."""

from conformance.scenario import OF_BOTH, STUCK, Check, Liar, scenario
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
    subjects = OF_BOTH
    standing = True
    steps = (
        Publish(300, window=100),
        Consume("individual", prefetch=50, until=ConsumerCrash(Nth("process", Between(120, 180)))),
        *SETTLE,
    )
    checks = (
        STUCK,
        Check("lost", exposure="confirmed", control=Liar("loses-half-a-prefetch")),
        TWICE,
        Check("drained_twice", exposure="received", control=Liar("stores-every-hundredth-twice")),
        ALTERED,
        REORDERED,
        Check("not_alive", exposure="sends", control=Liar("ends-at-a-send")),
        Check("phantom", exposure="received", control=Liar("renames-a-message")),
    )
