"""The broker dies after a time in which no client did anything."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart


@scenario
class BrokerKilledAfterQuiet:
    """A consumer holds open deliveries and is idle for 1 to 3 seconds; then every process of the broker is killed.

    All sends were confirmed before. The consumer has acknowledged ten deliveries at a time, and read the answers; it
    holds up to nine that are delivered, and more that are prefetched. What was confirmed must be there after the
    restart, and what was delivered and not acknowledged too.
    """

    mode = "client"
    steps = (
        Publish(200, window=50),
        Consume(
            "client",
            prefetch=50,
            acknowledge=10,
            confirm=True,
            until=Kill(Nth("process", Between(52, 59)), delay_us=Between(1_000_000, 3_000_000)),
        ),
        Restart(),
        *SETTLE,
    )
    checks = (
        Check("lost_unacknowledged", exposure="confirmed", control=Liar("loses-the-oldest")),
        Check("lost_though_old", exposure="confirmed", control=Liar("loses-the-oldest")),
    )
