"""The broker is halted for a second with a commit outstanding."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Nth, Pause, Publish


@scenario
class BrokerPausedDuringCommit:
    """A consumer acknowledges in transactions, some rolled back; the broker is halted, is asked to commit, and goes on.

    A pause changes nothing: the answer comes after it, what was committed does not come again, the rest does.
    """

    mode = "transacted"
    thorough = True
    steps = (
        Publish(150, window=100),
        Consume(
            "transacted",
            prefetch=100,
            acknowledge=10,
            rollback_every=4,
            stop=90,
            until=Pause(Nth("before_commit", 5)),
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "transacted_acknowledgement",
            exposure="acknowledged_in_transactions",
            control=Liar("acknowledges-before-commit"),
        ),
    )
