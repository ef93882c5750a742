"""The broker dies with more messages in a queue than it keeps in memory."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart, Together


@scenario
class BrokerKilledWhilePaging:
    """Two publishers send messages of 4 KiB to a queue that holds far more than it may keep in memory.

    If the broker's file has a setting for the memory of a queue, 1 MB is asked for, and 8 MB are sent before a consumer
    begins: the rest waits on disk only, and is read back while the consumer takes the oldest and the publishers go on.
    Then the broker is killed. Everything that was confirmed and not acknowledged must be there after the restart.
    """

    mode = "individual"
    thorough = True
    settings = {"full_queue_policy": "page", "queue_memory_bytes": "1000000"}
    steps = (
        Publish(2_000, window=100, size=4_096),
        Together(
            (
                Consume("auto", prefetch=50, stop=1_000),
                Publish(50_000, window=20, size=4_096),
                Publish(50_000, window=20, size=4_096, until=Kill(Nth("confirm", Between(200, 500)))),
            )
        ),
        Restart(),
        *SETTLE,
    )
    checks = (Check("lost_unacknowledged", exposure="confirmed", control=Liar("loses-one-in-a-thousand")),)


@scenario
class BrokerKilledWhenPagingBegins:
    """A publisher fills what a queue may keep in memory; the broker is killed when little more was confirmed.

    If the broker's file has a setting for the memory of a queue, 1 MB is asked for: at the kill 1.1 to 1.6 MB were
    confirmed, in messages of 4 KiB, and no consumer was there. All of it must be there after the restart, what was
    stored last and for the first time in another way included.
    """

    mode = "async_ack"
    settings = {"full_queue_policy": "page", "queue_memory_bytes": "1000000"}
    steps = (
        Publish(50_000, window=20, size=4_096, until=Kill(Nth("confirm", Between(260, 400)))),
        Restart(),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=Liar("loses-the-oldest")),)
