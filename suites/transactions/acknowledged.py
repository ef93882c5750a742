"""The broker dies around the commit or rollback of a consumer: acknowledgements alone, or together with sends."""

from conformance.scenario import KILLS, OF_BOTH, REST, SYNC_OFF, Check, Liar, acknowledged_before, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart, Rounds, Together

TORN = Check("transaction_torn", exposure="transactions_at_risk", control=Liar("commits-half-of-its-acknowledgements"))
GONE = Check(
    "transacted_acknowledgement",
    exposure="acknowledged_in_transactions",
    control=Liar("acknowledges-before-commit"),
)
IN_COMMIT = Kill(Nth("commit_written", Between(3, 12)), delay_percent=Between(0, 200))
IN_AN_EARLY_COMMIT = Kill(Nth("commit_written", Between(2, 7)), delay_percent=Between(0, 200))
"""So that the consumer that is killed gets to it although another one shares its messages."""


@scenario
class BrokerKilledDuringCommitOfAcknowledgements:
    """A consumer acknowledges in transactions of ten; the broker is killed some time after a request to commit.

    After the restart all ten come again, or none; and none of a transaction whose commit was answered.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (
                Publish(150, window=100),
                Consume("transacted", prefetch=100, acknowledge=10, until=IN_COMMIT),
                Restart(),
                REST,
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (TORN,)


@scenario
class BrokerKilledDuringCommitOfBoth:
    """A consumer takes ten messages and sends ten new ones in each transaction; the broker is killed during a commit.

    After the restart the ten old ones are there, or the ten new ones.
    """

    mode = "transacted"
    subjects = OF_BOTH
    steps = (
        Rounds(
            (
                Publish(150, window=100),
                Consume("transacted", prefetch=100, acknowledge=10, forwards=True, until=IN_COMMIT),
                Restart(),
                REST,
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (TORN,)


@scenario
class BrokerKilledDuringCommitsOfTwoConsumers:
    """Two consumers of one queue take ten messages and send ten new ones in each transaction, beside each other.

    The broker is killed during a commit of one. After the restart the ten old ones of each transaction are there, or
    its ten new ones.
    """

    mode = "transacted"
    subjects = OF_BOTH
    steps = (
        Rounds(
            (
                Publish(240, window=100),
                Together(
                    (
                        Consume("transacted", prefetch=50, acknowledge=10, forwards=True),
                        Consume("transacted", prefetch=50, acknowledge=10, forwards=True, until=IN_AN_EARLY_COMMIT),
                    )
                ),
                Restart(),
                REST,
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (TORN,)


@scenario
class BrokerKilledAfterCommitOfAcknowledgements:
    """A consumer acknowledges in transactions of five; the broker is killed when the answer to a commit was read.

    The messages, and some acknowledgements, were stored before. What was acknowledged in a transaction whose commit was
    answered must not come again.
    """

    mode = "transacted"
    steps = (
        *acknowledged_before("transacted", acknowledge=5),
        Rounds(
            (
                Publish(150, window=100),
                Consume("transacted", prefetch=100, acknowledge=5, until=Kill(Nth("committed", Between(10, 24)))),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (Check("returned_after_commit", exposure="acknowledged_in_transactions", control=SYNC_OFF),)


@scenario
class BrokerKilledAfterRollbackOfAcknowledgements:
    """A consumer rolls back every second transaction of ten; the broker is killed with the next one not committed.

    What was acknowledged in a transaction that was rolled back must come again after the restart.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (
                Publish(150, window=100),
                Consume(
                    "transacted",
                    prefetch=120,
                    acknowledge=10,
                    rollback_every=2,
                    until=Kill(Nth("before_commit", Between(5, 11))),
                ),
                Restart(),
                REST,
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (GONE,)
