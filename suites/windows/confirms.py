"""When a broker confirms what a publisher with a window sent: at a third of it, after a second, or at once.

What a round trip through the disk takes is measured in the same trial, before and after, by commits: no window and no
timer holds up the answer to a commit.
"""

from conformance.scenario import Check, Liar, scenario
from conformance.scenario.script import Drain, Offer, Publish

ROUND_TRIPS = Publish(10, window=1, batch=1)
WORDS = (
    "publish_threshold=1",
    "publish_window_share=50",
    "confirm_threshold=1",
    "confirm_share=50",
    "ack_threshold=1",
    "publish_timer_ms=100",
    "confirm_wait_ms=100",
    "confirm_timer_ms=100",
    "ack_timer_ms=100",
)
"""What such a setting would be called; a threshold of 1, the fiftieth part of the window, or a tenth of a second."""


@scenario
class ThirdOfAWindowSent:
    """A publisher with a window of 50 sends 17 messages, the third of it, and falls silent; another sends 5.

    The third must be confirmed at once, and not when a second is over; the five must be when it is. The second has a
    connection of its own, so that nothing of the first is left to be confirmed.
    """

    mode = "publish_window"
    steps = (
        ROUND_TRIPS,
        Publish(17, window=50, ack_event_mode="windowed"),
        Publish(5, window=50, ack_event_mode="windowed"),
        ROUND_TRIPS,
        Drain(),
    )
    checks = (
        Check(
            "waited_for_timer",
            exposure="third_sent",
            control=Liar("confirms-by-timer-only", trials=3, profile="solace"),
        ),
        Check(
            "answered_late",
            exposure="less_sent",
            control=Liar("confirms-by-threshold-only", trials=3, waits_for_liveness=True, profile="solace"),
        ),
    )


@scenario
class ThresholdsOfferedAsSettings:
    """A publisher with a window of 50 sends 5 messages; then the broker is offered nine settings for its thresholds.

    Each at a start of its own. What it took is in force for a second publisher, which must wait no less than the first.
    """

    mode = "publish_window"
    steps = (
        Publish(5, window=50, ack_event_mode="windowed"),
        Offer(WORDS),
        Publish(5, window=50, ack_event_mode="windowed"),
        Drain(),
    )
    checks = (
        Check(
            "threshold_moved",
            exposure="thresholds_offered",
            control=Liar("takes-a-threshold-setting", profile="solace"),
        ),
    )


@scenario
class AcknowledgedImmediately:
    """A publisher with a window of 50 sends 9 messages, every third with Ack Immediately, and falls silent.

    Each of the three must be confirmed at once, and by an answer of its own.
    """

    mode = "ack_immediately"
    steps = (
        ROUND_TRIPS,
        Publish(9, window=50, ack_event_mode="windowed", immediate_every=3),
        ROUND_TRIPS,
        Drain(),
    )
    checks = (
        Check(
            "immediate_waited",
            exposure="asked_immediately",
            control=Liar("ignores-ack-immediately", trials=3, profile="solace"),
        ),
    )


@scenario
class EverySendOfAWindowAnswered:
    """A publisher with a window of 50 sends 300 messages, one after the other as its window allows.

    Each must be confirmed, the last few by the timer.
    """

    mode = "publish_window"
    steps = (Publish(300, window=50, ack_event_mode="per_message"), Drain())
    checks = (
        Check(
            "unanswered_send",
            exposure="sends",
            control=Liar("never-answers-one-send", trials=3, waits_for_liveness=True, profile="solace"),
        ),
    )
