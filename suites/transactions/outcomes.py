"""What a commit and a rollback do, without any fault."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Publish

EARLY = Liar("delivers-before-commit")
AT_ONCE = Liar("acknowledges-before-commit")
REFUSING = Liar("refuses-acknowledgements-after-a-commit")


@scenario
class MessagesSentInTransactions:
    """A publisher sends in transactions of ten and rolls back every third, while a receiver waits on the queue.

    Before each commit it looks whether anything of that transaction is already available. What was committed must be
    there.
    """

    mode = "transacted"
    steps = (Publish(60, window=50, batch=10, rollback_every=3, peek=True), *SETTLE)
    checks = (
        Check("available_early", exposure="in_transactions", control=EARLY),
        Check("lost_committed", exposure="commits_asked", control=Liar("drops-every-tenth-send")),
        Check("rollback_refused", exposure="rolled_back", control=Liar("refuses-rollbacks")),
    )


@scenario
class MessagesAcknowledgedInTransactions:
    """A consumer acknowledges in transactions of ten, and rolls back every third; then its connection ends.

    What was committed must not come again, and what was rolled back must, in its order.
    """

    mode = "transacted"
    steps = (
        Publish(150, window=100),
        Consume("transacted", prefetch=120, acknowledge=10, rollback_every=3, stop=90),
        *SETTLE,
    )
    checks = (
        Check("transacted_acknowledgement", exposure="acknowledged_in_transactions", control=AT_ONCE),
        Check("reordered_by_rollback", exposure="acknowledged_in_transactions", control=Liar("gives-back-in-reverse")),
    )


@scenario
class AcknowledgementsAnsweredInTransactions:
    """A consumer acknowledges in transactions of ten, and reads the answer to each acknowledgement before the commit.

    More deliveries are open all the time. The broker must not refuse the acknowledgement of one that it has delivered.
    """

    mode = "transacted"
    steps = (
        Publish(150, window=100),
        Consume("transacted", prefetch=120, acknowledge=10, confirm=True, stop=90),
        *SETTLE,
    )
    checks = (Check("acknowledgement_refused", exposure="delivered", control=REFUSING),)
