"""A vendor's client that acknowledges before the application gets a message: when, and of which."""

from conformance.scenario import LOSSES, OF_CLIENT, Check, SessionLiar, scenario
from conformance.scenario.script import SETTLE, Between, Consume, ConsumerCrash, Drain, Nth, Publish, Rounds

FORGETS = SessionLiar("forgets-acknowledgements")


def each(control: SessionLiar) -> Check:
    """What was passed is acknowledged, and nothing else."""
    return Check("not_each_passed", exposure="carried", control=control)


@scenario
class ListenerUnderPreOnLink:
    """A listener of a PRE session takes every message of a queue, 200 ms for each; the link sees its acknowledgements.

    Each must leave before its listener is entered. What leaves later than the listener returned certainly did not.
    """

    mode = "pre"
    subjects = OF_CLIENT
    steps = (Publish(30, window=30), Consume("pre", prefetch=10, work_ms=200, until_silent=True, linked=True), Drain())
    checks = (
        Check(
            "acknowledged_after_processing",
            exposure="acknowledged_on_link",
            control=SessionLiar("acknowledges-after-processing"),
        ),
        each(FORGETS),
    )


@scenario
class ReceiverUnderPreOnLink:
    """A PRE session takes 150 of 200 messages with receive(), and is closed; the link sees its acknowledgements.

    There must be one for each message that receive() has returned, and none for what lies prefetched.
    """

    mode = "pre"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("pre", prefetch=50, receives=True, stop=150, linked=True), Drain())
    checks = (each(SessionLiar("acknowledges-on-arrival")),)


@scenario
class ListenerThrowsUnderPre:
    """The last of 150 calls of a listener of a PRE session throws, and the connection is closed in order.

    What was acknowledged stays so: none of the 150 may come again.
    """

    mode = "pre"
    subjects = OF_CLIENT
    steps = (Publish(200, window=100), Consume("pre", prefetch=200, stop=150), *SETTLE)
    checks = (Check("acknowledged_again", exposure="acknowledged", control=FORGETS),)


@scenario
class ListenerKilledUnderPre:
    """The process of a listener of a PRE session is killed while it processes a message, which may be gone.

    Four times.
    """

    mode = "pre"
    subjects = OF_CLIENT
    steps = (
        Rounds(
            (
                Publish(300, window=100),
                Consume("pre", prefetch=50, work_ms=1, until=ConsumerCrash(Nth("process", Between(120, 180)))),
            ),
            LOSSES,
        ),
        *SETTLE,
    )
    checks = (Check("unprocessed_gone", exposure="unprocessed"),)
