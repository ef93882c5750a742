"""A client dies with a transaction open: it did not ask to commit, so no operation of it may take effect."""

from conformance.scenario import LOSSES, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Nth, Publish, Rounds

COMMITS = Liar("commits-when-link-closes")


@scenario
class PublisherKilledInTransaction:
    """A publisher commits three transactions of ten and is killed with the fourth complete but for its commit.

    Four publishers follow each other.
    """

    mode = "transacted"
    thorough = True
    steps = (
        Rounds((Publish(200, window=50, batch=10, until=ConsumerCrash(Nth("before_commit", 4))),), LOSSES),
        *SETTLE,
    )
    checks = (Check("available_undischarged", exposure="undischarged", control=COMMITS),)


@scenario
class ConsumerKilledInTransaction:
    """A consumer commits four transactions of ten acknowledgements and is killed with the fifth not committed.

    What it acknowledged in the fifth must come back.
    """

    mode = "transacted"
    steps = (
        Publish(150, window=100),
        Consume("transacted", prefetch=50, acknowledge=10, until=ConsumerCrash(Nth("before_commit", 5))),
        *SETTLE,
    )
    checks = (Check("undischarged_gone", exposure="acknowledged_undischarged", control=COMMITS),)
