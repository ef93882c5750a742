"""The broker dies with a hundred thousand messages in one queue."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Publish, Restart, Together


@scenario
class BrokerKilledWithADeepQueue:
    """Two publishers bring 100,000 messages to a queue without a consumer; the broker is killed at one of the last.

    It has to find all of them again when it starts. What was confirmed must be there after the restart.
    """

    mode = "async_ack"
    thorough = True
    steps = (
        Together(
            (
                Publish(50_000, window=500, size=100),
                Publish(60_000, window=500, size=100, until=Kill(Nth("confirm", Between(49_000, 51_000)))),
            )
        ),
        Restart(),
        *SETTLE,
    )
    checks = (Check("lost", exposure="confirmed", control=Liar("loses-one-in-a-thousand")),)
