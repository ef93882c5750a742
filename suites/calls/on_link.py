"""What leaves a vendor's client when it consumes: which acknowledgements, and when, seen on the link."""

from conformance.scenario import OF_CLIENT, Check, SessionLiar, scenario
from conformance.scenario.script import Consume, Drain, Publish

ON_ARRIVAL = SessionLiar("acknowledges-on-arrival")
UNRECEIVED = Check("acknowledged_unreceived", exposure="left_prefetched", control=ON_ARRIVAL)


@scenario
class ListenerUnderAutoOnLink:
    """A listener of an AUTO session takes every message of a queue; the link sees its acknowledgements leave.

    None may leave before its listener was entered.
    """

    mode = "auto"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("auto", prefetch=50, until_silent=True, linked=True), Drain())
    checks = (
        Check(
            "acknowledged_unhanded",
            exposure="acknowledged_on_link",
            control=ON_ARRIVAL,
        ),
        Check("acknowledged_in_bulk", exposure="acknowledged_on_link", control=SessionLiar("sets-the-multiple-flag")),
    )


@scenario
class ReceiverUnderAutoOnLink:
    """An AUTO session takes 150 of 200 messages with receive(), and is closed; the link sees its acknowledgements.

    None may leave for a message that lies prefetched, and that no receive() takes.
    """

    mode = "auto"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("auto", prefetch=50, receives=True, stop=150, linked=True), Drain())
    checks = (UNRECEIVED,)


@scenario
class ListenerUnderDupsOkOnLink:
    """A listener of a DUPS_OK session takes every message of a queue; the link sees its acknowledgements leave.

    They may leave when the next message was processed, or later.
    """

    mode = "dups_ok"
    subjects = OF_CLIENT
    steps = (
        Publish(100, window=100),
        Consume("dups_ok", prefetch=50, work_ms=20, until_silent=True, linked=True),
        Drain(),
    )
    checks = (Check("acknowledged_lazily", exposure="acknowledged_on_link"),)


@scenario
class ReceiverUnderNoAckOnLink:
    """A NO_ACKNOWLEDGE session takes every message of a queue; the link must see no acknowledgement leave."""

    mode = "no_ack"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("no_ack", prefetch=50, until_silent=True, linked=True), Drain())
    checks = (Check("acknowledged_at_all", exposure="carried", control=SessionLiar("acknowledges-in-every-mode")),)
