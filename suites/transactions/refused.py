"""The broker refuses some of the sends of a transaction, which is committed all the same."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Publish, Restart

STEPS = (
    Publish(80, window=1, batch=10, size=4_096),
    Publish(20, window=1, batch=10, size=4_096),
    *SETTLE,
)
IN_EFFECT = Check("outcome_not_in_effect", exposure="commits_asked", control=Liar("hides-refusals-in-transactions"))


@scenario
class SendsRefusedInTransactions:
    """A publisher sends in transactions of ten to a queue that takes 25, reads each answer, and commits each.

    So the third transaction is refused in part. The broker may refuse its commit, or commit what it has accepted. If it
    ends the connection, nothing of that transaction may be there, and a second publisher goes on.
    """

    mode = "transacted"
    queue = {"max_length": 25}
    steps = STEPS
    checks = (IN_EFFECT,)


@scenario
class SendsRefusedInTransactionsForMemory:
    """A publisher sends in transactions of ten to a queue whose messages may have 100,000 bytes, and commits each.

    For a broker whose full queues refuse by a setting. If the broker's file has none, everything has to be kept.
    """

    mode = "transacted"
    settings = {"full_queue_policy": "refuse", "max_queue_bytes": 100_000, "queue_memory_bytes": "100000"}
    steps = STEPS
    checks = (IN_EFFECT,)


@scenario
class SendsTooLargeInTransactions:
    """A publisher commits transactions of ten messages of 1 KiB, another two of five of 300 KiB, and a third goes on.

    The broker is asked to take at most 100,000 bytes a message. It may refuse a large one, its commit, or end the
    connection; if its file has no setting for that, everything has to be kept. After a restart each commit must be in
    effect as it was answered.
    """

    mode = "transacted"
    thorough = True
    settings = {"max_message_bytes": 100_000}
    steps = (
        Publish(20, window=1, batch=10, size=1_024),
        Publish(10, window=1, batch=5, size=300 * 1_024),
        Publish(20, window=1, batch=10, size=1_024),
        Restart(clean=True),
        *SETTLE,
    )
    checks = (Check("outcome_not_in_effect", exposure="commits_asked", control=Liar("recovers-half-a-transaction")),)
