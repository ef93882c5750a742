"""The broker dies in the commit of a transaction that is large: in messages, or in bytes."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Publish, Restart

HALF = Check("half_applied", exposure="commits_at_risk", control=Liar("recovers-half-a-transaction"))


@scenario
class BrokerKilledDuringCommitOfManyMessages:
    """A publisher sends in transactions of 10,000; the broker is killed some time after its second request to commit.

    That time is drawn, up to twice the time that the first answer has taken. If the broker's file has a setting for the
    memory of a queue, 1 MB is asked for: most of the transaction waits on disk. All of it is there after recovery, or
    nothing.
    """

    mode = "transacted"
    thorough = True
    settings = {"full_queue_policy": "page", "queue_memory_bytes": "1000000"}
    steps = (
        Publish(20_000, window=500, batch=10_000, until=Kill(Nth("commit_written", 2), delay_percent=Between(0, 200))),
        Restart(),
        *SETTLE,
    )
    checks = (HALF,)


@scenario
class BrokerKilledDuringCommitOfLargeMessages:
    """A publisher sends in transactions of five messages of 200 kB; the broker is killed during a commit.

    That is some time after the request has left, up to twice the median time that an answer has taken. All of the
    transaction is there after recovery, or nothing.
    """

    mode = "transacted"
    thorough = True
    steps = (
        Publish(
            200,
            window=5,
            batch=5,
            size=200_000,
            until=Kill(Nth("commit_written", Between(4, 20)), delay_percent=Between(0, 200)),
        ),
        Restart(),
        *SETTLE,
    )
    checks = (HALF,)
