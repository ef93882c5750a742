"""The broker dies after acknowledgements of a consumer were confirmed."""

from conformance.scenario import KILLS, SYNC_OFF, Check, Liar, acknowledged_before, scenario
from conformance.scenario.script import SETTLE, Between, Consume, Kill, Nth, Publish, Restart, Rounds

AGAIN = Check("delivered_after_restart", exposure="acknowledged_in_window", control=SYNC_OFF)


@scenario
class BrokerKilledAfterAcknowledgements:
    """A consumer acknowledges each message and reads the broker's confirmation; the broker is killed at one of them.

    The broker is restarted in order before the first consumer begins, so that in every arm the messages themselves are
    stored and only acknowledgements are at risk; more are sent before each kill. What was acknowledged and confirmed
    must not come back, and what was not must come.
    """

    mode = "individual"
    steps = (
        *acknowledged_before(),
        Rounds(
            (
                Publish(150, window=100),
                Consume("individual", prefetch=50, until=Kill(Nth("ack", Between(60, 120)))),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (
        AGAIN,
        Check("reordered_by_restart", exposure="received", control=Liar("recovers-in-reverse")),
        Check("lost", exposure="confirmed", control=Liar("loses-the-oldest")),
    )
