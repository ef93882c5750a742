"""A connection falls silent and is not closed; the broker goes on."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Cut, Frame, Publish


@scenario
class ConnectionSilencedWhileConsuming:
    """A CLIENT consumer acknowledges all so far at each tenth message; its connection falls silent at a delivery.

    No byte passes any more, and neither side learns of it. The consumer waits until nothing comes, and closes; only
    then the connection ends for the broker. What it had delivered and was not acknowledged must come again.
    """

    mode = "client"
    steps = (
        Publish(200, window=100),
        Consume(
            "client",
            prefetch=50,
            acknowledge=10,
            until_silent=True,
            until=Cut(Frame("deliver", Between(73, 78)), how="half_open"),
        ),
        *SETTLE,
    )
    checks = (
        Check("gone", exposure="delivered_unacknowledged", control=Liar("removes-when-sending")),
        Check("came_back", exposure="delivered_unacknowledged"),
    )
