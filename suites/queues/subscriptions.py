"""Durable subscriptions of a topic: what is sent while their client is away must be there when it comes back."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart, Together

MIXED_UP = Liar("acknowledges-for-another-receiver")
AGAIN = Check("delivered_after_restart", exposure="acknowledgements_confirmed", control=MIXED_UP)


@scenario
class BrokerKilledWhileSubscriberAway:
    """A client makes two durable subscriptions of a topic on one connection, and leaves; the broker is killed.

    Of ten deliveries the client acknowledges every third one, the last one first, before it leaves. A publisher goes
    on, and the broker is killed at one of its confirms. The client comes back under the same identity, acknowledges
    every second delivery, and leaves again: each of its subscriptions must bring every confirmed message, until it is
    acknowledged there, and then no more.
    """

    mode = "individual"
    queue = {"subscribed": True}
    steps = (
        Together(
            (
                Consume("individual", 200, acknowledge=3, backwards=10, receivers=2, queues=2, stop=150),
                Publish(100, window=20, every_ms=4, queues=2),
            )
        ),
        Publish(20_000, window=20, queues=2, until=Kill(Nth("confirm", Between(100, 300)))),
        Restart(),
        Consume("individual", 200, acknowledge=2, receivers=2, queues=2, until_silent=True),
        *SETTLE,
    )
    checks = (
        Check("lost_unacknowledged", exposure="confirmed", control=Liar("forgets-absent-subscribers")),
        AGAIN,
    )
