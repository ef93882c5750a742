"""The link between clients and the broker is narrow or slow: what is sent waits in buffers, or is long on its way."""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import SETTLE, Consume, Delay, Publish, Throttle

NARROW = Throttle(2_000_000)
"""Of 120 kB a message: seventeen of them a second, and a window or a prefetch waits for more than half a second."""
SLOW = Delay(20)


@scenario
class ClientsOnANarrowLink:
    """A publisher keeps ten messages of 120 kB in flight over a link of 2 MB/s, and a consumer takes 45 of 60 over it.

    Each send must be answered. The consumer acknowledges everything so far at each tenth message, and closes with five
    unacknowledged and others on their way: these must come again, and all that comes must be as it was sent.
    """

    mode = "client"
    steps = (
        Publish(60, window=10, size=120_000, until=NARROW),
        Consume("client", prefetch=30, acknowledge=10, stop=45, until=NARROW),
        *SETTLE,
    )
    checks = (
        Check(
            "unanswered_send",
            exposure="sends",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True),
        ),
        Check("gone", exposure="delivered_unacknowledged", control=Liar("removes-when-sending")),
        Check("corrupt", exposure="received", control=Liar("cuts-large-messages")),
    )


@scenario
class ClientsOnASlowLink:
    """A publisher sends over a link that adds 20 ms to a round trip, and a consumer takes 130 of 200 messages over it.

    It acknowledges each message, and reads the answer before it goes on: more deliveries are on their way meanwhile.
    What was acknowledged must not come again, and what was prefetched must be there when it has closed.
    """

    mode = "individual"
    steps = (
        Publish(200, window=20, until=SLOW),
        Consume("individual", prefetch=50, stop=130, until=SLOW),
        *SETTLE,
    )
    checks = (
        Check(
            "delivered_after_acknowledgement",
            exposure="acknowledgements_confirmed",
            control=Liar("forgets-every-hundredth-acknowledgement", waits_for_liveness=True),
        ),
        Check("lost", exposure="confirmed", control=Liar("loses-half-a-prefetch")),
    )
