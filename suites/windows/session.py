"""The suite's own publish window: it reopens with every answer, and holds nothing up before it is full."""

from conformance.scenario import Check, SessionLiar, scenario
from conformance.scenario.script import Drain, Frame, HoldLink, Publish

RANGES = Check("event_for_several", exposure="answered", control=SessionLiar("reports-ranges"))


@scenario
class EventsWithoutAMode:
    """A publisher with a window of 50 sends 300 messages, and names no mode for its acknowledgement events.

    Its session must report an event of its own for each message.
    """

    mode = "async_ack"
    steps = (Publish(300, window=50), Drain())
    checks = (RANGES,)


@scenario
class EventsPerMessage:
    """A publisher with a window of 50 asks for an acknowledgement event for each message, and sends 300.

    Its session must report an event of its own for each message, to the last one.
    """

    mode = "per_message"
    steps = (Publish(300, window=50, ack_event_mode="per_message"), Drain())
    checks = (RANGES,)


@scenario
class AnswersHeldFromPublisher:
    """A publisher with a window of 30 sends 300 messages; for half a second no answer reaches it, from the first on.

    Its window fills, and must reopen with the answers; before it was full nothing may have waited for it.
    """

    mode = "publish_window"
    steps = (
        Publish(300, window=30, tells_waits=True, until=HoldLink(Frame("answer", 1, at="before"), hold_s=0.5)),
        Drain(),
    )
    checks = (
        Check(
            "window_stayed_shut",
            exposure="window_waits",
            control=SessionLiar("never-reopens-its-window", trials=3, waits_for_liveness=True),
        ),
        Check("blocked_early", exposure="sends", control=SessionLiar("blocks-at-half-its-window", trials=3)),
    )
