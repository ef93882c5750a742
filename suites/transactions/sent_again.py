"""A client whose commit had no answer sends the transaction again, with ids by which the broker knows its messages."""

from conformance.scenario import KILLS, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Publish, Restart, Rounds, Together

ONCE = Check("not_once", exposure="sent_again", control=Liar("mistakes-duplicate-ids"))
IN_COMMIT = Kill(Nth("commit_written", Between(4, 20)), delay_percent=Between(0, 200))


@scenario
class TransactionSentAgain:
    """A publisher sends in transactions of ten; the broker is killed some time after a request to commit has left.

    After the restart another publisher sends that transaction again, with the same duplicate ids. Each of its messages
    is there once, whether the broker had stored it before or not.
    """

    mode = "transacted"
    steps = (
        Rounds(
            (
                Publish(2_000, window=50, batch=10, until=IN_COMMIT),
                Restart(),
                Publish(10, window=50, batch=10, resends=True),
            ),
            KILLS,
            control=3,
        ),
        *SETTLE,
    )
    checks = (ONCE,)


@scenario
class TransactionsSentAgainWhilePaging:
    """Three publishers send in transactions of five to a queue that pages, and the broker is killed during a commit.

    If the broker's file has a setting for the memory of a queue, 100 kB are asked for, and more is sent before. After
    the restart another publisher sends the last transaction of each again, with the same duplicate ids.
    """

    mode = "transacted"
    settings = {"full_queue_policy": "page", "queue_memory_bytes": "100000"}
    steps = (
        Publish(100, window=50, size=4_096),
        Rounds(
            (
                Together(
                    (
                        Publish(2_000, window=10, batch=5, size=20_000, hurries=True),
                        Publish(2_000, window=10, batch=5, size=20_000, hurries=True),
                        Publish(2_000, window=10, batch=5, size=20_000, hurries=True, until=IN_COMMIT),
                    )
                ),
                Restart(),
                Publish(15, window=10, batch=5, size=20_000, resends=True),
            ),
            5,
            control=3,
        ),
        *SETTLE,
    )
    checks = (ONCE,)
