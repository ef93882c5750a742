"""What leaves a vendor's client when it consumes: which acknowledgements, and when, seen on the link."""

from conformance.scenario import SETTLE, Check, Consume, Publish, SessionLiar, scenario


@scenario
class ListenerUnderAutoOnLink:
    """A listener of an AUTO session takes every message of a queue; the link sees its acknowledgements leave.

    None may leave before its listener was entered.
    """

    mode = "auto"
    steps = (Publish(200, window=100), Consume("auto", prefetch=50, until_silent=True, linked=True), *SETTLE)
    decides = {
        "QPID-AUTO-01": Check(
            "acknowledged_unhanded",
            exposure="acknowledged_on_link",
            control=SessionLiar("acknowledges-on-arrival"),
        ),
    }


@scenario
class ReceiverUnderNoAckOnLink:
    """A NO_ACKNOWLEDGE session takes every message of a queue; the link must see no acknowledgement leave."""

    mode = "no_ack"
    steps = (Publish(200, window=100), Consume("no_ack", prefetch=50, until_silent=True, linked=True), *SETTLE)
    decides = {
        "QPID-NOACK-01": Check(
            "acknowledged_at_all", exposure="carried", control=SessionLiar("acknowledges-in-every-mode")
        ),
    }
