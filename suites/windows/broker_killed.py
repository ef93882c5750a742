"""The broker dies when it has just confirmed at once, or several sends by one answer."""

from conformance.scenario import KILLS, Check, Liar, scenario
from conformance.scenario.script import SETTLE, Between, Kill, Nth, Publish, Restart, Rounds


@scenario
class BrokerKilledAtImmediateConfirm:
    """A publisher keeps 60 messages in flight, every fourth with Ack Immediately; the broker dies at such a confirm.

    An answer at once is worth the same as any other: what it confirmed must be there.
    """

    mode = "ack_immediately"
    steps = (
        Rounds(
            (
                Publish(
                    50_000,
                    window=60,
                    ack_event_mode="per_message",
                    immediate_every=4,
                    until=Kill(Nth("confirm_immediate", Between(40, 150))),
                ),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (
        Check(
            "lost_immediate",
            exposure="immediate_in_window",
            control=Liar("confirms-immediate-before-storing", profile="solace"),
        ),
    )


@scenario
class BrokerKilledAtRangedConfirm:
    """A WINDOWED publisher keeps 60 messages in flight; the broker dies when one answer has confirmed several.

    The answer names the last of them, and everything before it must be there as well.
    """

    mode = "windowed"
    steps = (
        Rounds(
            (
                Publish(50_000, window=60, ack_event_mode="windowed", until=Kill(Nth("confirm_range", Between(8, 30)))),
                Restart(),
            ),
            KILLS,
        ),
        *SETTLE,
    )
    checks = (
        Check("lost_in_range", exposure="ranged_in_window", control=Liar("range-covers-unstored", profile="solace")),
    )
