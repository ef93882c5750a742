"""What can go wrong between a publisher and a broker that knows its publish window: when it confirms, and how much.

Only arithmetic accuses: a confirm that the broker's one-second timer sent is read a second or more after the first send
that it was for. One that is read sooner was not sent by it, however slow the machine. That a later one was is concluded
only where an answer at once would have been there in half a second: the slowest round trip of the same trial, through
the disk, and the time that the sends themselves took.
"""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

TIMER_NS = "1000000000L"
"""After so long the broker confirms whatever it has (shared seed 001)."""

LATE_NS = "1500000000L"
"""The timer, and the half second that the claim allows beside the round trip."""

SOONER_NS = "900000000L"
"""Well before the timer: an answer of a third, or of a threshold that was moved."""

_AT_ONCE = "round_trip_ns + burst_ended_at - burst_began_at < 500000000L"
THIRD_SENT = "in_window AND 3 * burst >= window_size"
LESS_SENT = "in_window AND 3 * burst < window_size - 2"
OFFERED = "n = 1 AND in_window AND accepted AND confirm_epoch > first_epoch AND offered > 0"

WINDOWS = (
    Anomaly(
        "waited_for_timer",
        """A third of a window that was answered no sooner than the one-second timer answers.

        By either rounding of the third: the first answer to any of its sends counts. It applies where the machine was
        fast enough to tell an answer at once from one by the timer.
        """,
        applies=f"{THIRD_SENT} AND burst_answered_at IS NOT NULL AND {_AT_ONCE}",
        offends=f"burst_answered_at - burst_began_at >= {TIMER_NS}",
        of="sends of a third of their window",
        happened="answered by the timer only",
        happens="leaves a third to the timer",
        drained=False,
    ),
    Anomaly(
        "answered_late",
        """A send below a third of its window without an answer after 1.5 s and the slowest round trip of its trial.

        Where a round trip itself takes half a second the machine is too slow to tell.
        """,
        applies=f"{LESS_SENT} AND answer_at IS NOT NULL AND round_trip_ns < 500000000L",
        offends=f"answer_at - sent_at > {LATE_NS} + round_trip_ns",
        of="sends below a third of their window",
        happened="answered later than the timer, half a second and a round trip",
        happens="answers one too late",
        drained=False,
    ),
    Anomaly(
        "threshold_moved",
        """A lone send that was answered well before the timer by a broker that had been offered settings for it.

        Before the offer the same broker let such a send wait for its timer.
        """,
        applies=f"{OFFERED} AND default_wait_ns >= {SOONER_NS}",
        offends=f"answer_at - sent_at < {SOONER_NS}",
        of="sends after settings for the thresholds were offered",
        happened="answered sooner than before",
        happens="moves a threshold",
        drained=False,
    ),
    Anomaly(
        "immediate_waited",
        """A send with Ack Immediately that waited for the timer, or whose answer was that of another such send as well.

        Too few were sent for a third of the window.
        """,
        applies=f"immediate AND {LESS_SENT} AND answer_at IS NOT NULL AND {_AT_ONCE}",
        offends=f"answer_at - burst_began_at >= {TIMER_NS} OR (range_last IS NOT NULL AND immediates > 1)",
        of="sends with Ack Immediately",
        happened="answered by the timer, or together with another",
        happens="lets such a send wait",
        drained=False,
    ),
    Anomaly(
        "lost_immediate",
        "A message with Ack Immediately that was confirmed and that nobody ever received.",
        applies="immediate AND confirmed AND durable AND settled",
        offends="received = 0",
        of="confirmed messages with Ack Immediately",
        happened="lost",
        happens="loses such a message",
        control="lost messages",
        order="confirmed_at",
    ),
    Anomaly(
        "lost_in_range",
        "A message that was confirmed by an answer to several, and that nobody ever received.",
        applies="ranged AND confirmed AND durable AND settled",
        offends="received = 0",
        of="messages confirmed by a range",
        happened="lost",
        happens="loses a message of a range",
        control="lost messages",
        order="confirmed_at",
    ),
    Anomaly(
        "refusal_hidden",
        """A refused message without a refusal of its own: confirmed and not there, or refused together with others.

        Of a broker that refuses because its queue is full, and that nothing has happened to.
        """,
        applies="(confirmed OR refused) AND durable AND settled",
        offends="(confirmed AND received = 0) OR (refused AND coalesce(ranged, false))",
        of="answered sends",
        happened="refused without an answer of their own",
        happens="hides a refusal",
    ),
)
