"""The broker is halted for a second with an acknowledgement outstanding."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Nth, Pause, Publish


@scenario
class BrokerPausedWhileAcknowledging:
    """A consumer reads the answer to each acknowledgement; the broker is halted at one, is asked for the next, goes on.

    What was acknowledged and confirmed must not come again.
    """

    mode = "individual"
    steps = (
        Publish(280, window=100),
        Consume("individual", prefetch=50, stop=240, until=Pause(Nth("ack", Between(60, 150)))),
        *SETTLE,
    )
    checks = (
        Check(
            "delivered_after_acknowledgement",
            exposure="acknowledgements_confirmed",
            control=Liar("forgets-every-hundredth-acknowledgement"),
        ),
    )
