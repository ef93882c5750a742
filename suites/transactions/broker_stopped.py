"""The broker is stopped in order with a transaction open, or with a commit under way."""

import functools

from conformance.scenario import LOSSES, OF_BOTH, REST, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Nth, Publish, Restart, Rounds, Stop

COMMITS = Liar("commits-when-link-closes")
FORWARDING = functools.partial(Consume, "transacted", prefetch=100, acknowledge=10, forwards=True)
NOT_ASKED = Check("available_undischarged", exposure="undischarged", control=COMMITS)


@scenario
class BrokerStoppedInTransaction:
    """A publisher sends in transactions of ten; the broker is asked to stop when one is complete but for its commit.

    No request to commit that transaction ever left: after the restart none of it may be there. Four times.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (Publish(2_000, window=50, batch=10, until=Stop(Nth("before_commit", Between(4, 12)))), Restart()), LOSSES
        ),
        *SETTLE,
    )
    checks = (NOT_ASKED,)


@scenario
class BrokerStoppedInTransactionOfBoth:
    """A consumer takes ten messages and sends ten new ones in each transaction; the broker is asked to stop in one.

    No request to commit that transaction ever left: after the restart the ten old ones are there, and no new one.
    Four times.
    """

    mode = "transacted"
    subjects = OF_BOTH
    steps = (
        Rounds(
            (Publish(200, window=100), FORWARDING(until=Stop(Nth("before_commit", Between(4, 9)))), Restart(), REST),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (NOT_ASKED, Check("undischarged_gone", exposure="acknowledged_undischarged", control=COMMITS))


@scenario
class BrokerStoppedDuringCommitOfBoth:
    """A consumer takes ten messages and sends ten others in each transaction; the broker is asked to stop at a commit.

    After the restart the ten old ones are there, or the ten new ones. If the commit was answered, it is in effect. Four
    times.
    """

    mode = "transacted"
    subjects = OF_BOTH
    steps = (
        Rounds(
            (Publish(200, window=100), FORWARDING(until=Stop(Nth("commit_written", Between(3, 9)))), Restart(), REST),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "transaction_torn",
            exposure="transactions_at_risk",
            control=Liar("commits-half-of-its-acknowledgements"),
        ),
    )
