"""What can be wrong with a session, of the suite or of a vendor's client, and with a publish window.

A sentence about the link is decided by frames. All processes of a machine have one clock, and the link stamps an
acknowledgement when it has read it, after the client wrote it. So an acknowledgement with an earlier stamp certainly
left before; a later stamp proves nothing. Smallest counter-example: written at 1, handed over at 2, stamped at 3 by a
link that had to wait for a processor. It is missed, and no client is accused of a delay of the scheduler.

Publish windows are about when the broker confirms, and how much. Only arithmetic accuses: a confirm by the broker's
one-second timer is read a second or more after the first send that it covers, so a confirm that is read sooner was not
sent by the timer. A later one is attributed to the timer only if an immediate answer would have taken half a second at
most: the slowest round trip of the same trial, through the disk, plus the time that the sends took.
"""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly, LinkAnomaly, UndrainedAnomaly

TIMER_NS = "1000000000L"
"""After this time the broker confirms everything that it has (shared seed 001)."""

LATE_NS = "1500000000L"
"""The timer, and the half second that the claim allows in addition to the round trip."""

SOONER_NS = "900000000L"
"""Well before the timer: the answer to a third of a window, or to a threshold that was moved."""

_AT_ONCE = "round_trip_ns + burst_ended_at - burst_began_at < 500000000L"
THIRD_SENT = "in_window AND 3 * burst >= window_size"
LESS_SENT = "in_window AND 3 * burst < window_size - 2"
OFFERED = "n = 1 AND in_window AND confirm_epoch > first_epoch AND offered > 0"

WINDOWS = (
    UndrainedAnomaly(
        "waited_for_timer",
        """The broker answered a third of a window no sooner than its one-second timer does.

        With either rounding of the third: the first answer to any of its sends counts. It applies if the machine was
        fast enough to tell an immediate answer from one by the timer.
        """,
        applies=f"{THIRD_SENT} AND burst_answered_at IS NOT NULL AND {_AT_ONCE}",
        offends=f"burst_answered_at - burst_began_at >= {TIMER_NS}",
        words="sends of a third of their window were answered only by the timer",
    ),
    UndrainedAnomaly(
        "answered_late",
        """A send below a third of its window had no answer after 1.5 s and the slowest round trip of its trial.

        If a round trip takes half a second, the machine is too slow to tell.
        """,
        applies=f"{LESS_SENT} AND answer_at IS NOT NULL AND round_trip_ns < 500000000L",
        offends=f"answer_at - sent_at > {LATE_NS} + round_trip_ns",
        words="sends below a third of their window were answered later than the timer, half a second and a round trip",
    ),
    UndrainedAnomaly(
        "threshold_moved",
        """The broker answered a single send well before the timer after it had been offered settings for thresholds.

        Before the offer the same broker let such a send wait for its timer.
        """,
        applies=f"{OFFERED} AND default_wait_ns >= {SOONER_NS}",
        offends=f"answer_at - sent_at < {SOONER_NS}",
        words="sends after the offer of threshold settings were answered sooner than before",
    ),
    UndrainedAnomaly(
        "immediate_waited",
        """A send with Ack Immediately waited for the timer, or shared its answer with another such send.

        Fewer than a third of the window were sent.
        """,
        applies=f"immediate AND {LESS_SENT} AND answer_at IS NOT NULL AND {_AT_ONCE}",
        offends=f"answer_at - burst_began_at >= {TIMER_NS} OR (range_last IS NOT NULL AND immediates > 1)",
        words="sends with Ack Immediately were answered by the timer, or together with another",
    ),
    Anomaly(
        "lost_immediate",
        "The broker confirmed a message with Ack Immediately, and no client ever received it.",
        applies="immediate AND confirmed AND durable AND settled",
        offends="received = 0",
        words="confirmed messages with Ack Immediately were lost",
        order="confirmed_at",
    ),
    Anomaly(
        "lost_in_range",
        "The broker confirmed a message by an answer to several, and no client ever received it.",
        applies="ranged AND confirmed AND durable AND settled",
        offends="received = 0",
        words="messages confirmed by a range were lost",
        order="confirmed_at",
    ),
    Anomaly(
        "refusal_hidden",
        """A refused message has no refusal of its own: it is confirmed and missing, or refused together with others.

        The broker refuses because its queue is full; no fault occurred.
        """,
        applies="(confirmed OR refused) AND durable AND settled",
        offends="(confirmed AND received = 0) OR (refused AND coalesce(ranged, false))",
        words="answered sends were refused without an answer of their own",
    ),
)


_UNHANDED = "received_at IS NULL OR ack_framed_at < received_at"

SESSIONS = (
    LinkAnomaly(
        "acknowledged_early",
        """An acknowledgement left on the link before the processing of its message had ended.

        It also counts if the crash ended the processing.
        """,
        applies="ack_framed_at IS NOT NULL",
        offends="processed_at IS NULL OR ack_framed_at < processed_at",
        words="messages were acknowledged before their processing ended",
    ),
    LinkAnomaly(
        "acknowledged_unhanded",
        """An acknowledgement left on the link for a message that the application had not been handed.

        A range acknowledges every message in it.
        """,
        # With receive() the application has a message from the call on, so the client must record that instant: the
        # order of events within the call is free.
        applies="ack_framed_at IS NOT NULL",
        offends=_UNHANDED,
        words="messages were acknowledged before they were handed over",
    ),
    LinkAnomaly(
        "acknowledged_undelivered",
        """An acknowledge covered a message that was not yet handed over, or left out one that was.

        For sessions whose acknowledge covers everything so far (CLIENT). A message is left out if it was handed over
        before an acknowledge that was answered, and the link saw no acknowledgement of it.
        """,
        applies="ack_framed_at IS NOT NULL OR (handed_before_answer AND carried > 0)",
        offends=f"ack_framed_at IS NULL OR {_UNHANDED}",
        words="messages were wrongly covered or left out by an acknowledge",
    ),
    LinkAnomaly(
        "acknowledged_unreceived",
        """An acknowledgement left on the link for a message that the application never received.

        The message was prefetched until its session was closed cleanly. A message that receive() took does not apply:
        its acknowledgement may leave within that call.
        """,
        applies="carried > 0 AND handed = 0 AND fired_at IS NULL",
        offends="ack_framed_at IS NOT NULL",
        words="messages that were only prefetched were acknowledged",
    ),
    LinkAnomaly(
        "not_each_passed",
        """A message was passed to the application without an acknowledgement, or acknowledged and never passed.

        On the link, until its session was closed cleanly.
        """,
        applies="carried > 0 AND fired_at IS NULL",
        offends="(handed > 0) <> (ack_framed_at IS NOT NULL)",
        words="messages were passed without an acknowledgement, or acknowledged and not passed",
    ),
    LinkAnomaly(
        "acknowledged_after_processing",
        """An acknowledgement reached the link after the processing of its message had ended.

        The link stamps it later than its client wrote it, so processing must take longer than a delay of the scheduler.
        """,
        applies="ack_framed_at IS NOT NULL AND processed_at IS NOT NULL",
        offends="ack_framed_at > processed_at",
        words="messages were acknowledged after their processing",
    ),
    LinkAnomaly(
        "acknowledged_in_bulk",
        """An acknowledgement has the flag `multiple`, or is for a message that the application had not been handed.

        AMQP 0-9-1, class 60 method 80 of its XML. A range of AMQP 1.0 names each delivery and has no such flag.
        """,
        applies="ack_framed_at IS NOT NULL",
        offends=f"ack_up_to OR {_UNHANDED}",
        words="messages were acknowledged together with others",
    ),
    LinkAnomaly(
        "acknowledged_lazily",
        """The witness of a permission to delay: an acknowledgement left after the next message was processed.

        The link's stamp is late, so processing must take longer than a delay of the scheduler.
        """,
        applies="ack_framed_at IS NOT NULL AND next_processed_at IS NOT NULL",
        offends="ack_framed_at > next_processed_at",
        words="messages were acknowledged after the processing of their successor",
    ),
    UndrainedAnomaly(
        "acknowledged_late",
        "The acknowledgement of a PRE session did not leave before the processing of its delivery began.",
        applies="handed > 0 OR ack_sent_at IS NOT NULL",
        offends="handed = 0 OR began_at < coalesce(ack_sent_at, began_at + 1)",
        words="deliveries were not acknowledged before their processing",
    ),
    LinkAnomaly(
        "acknowledged_at_all",
        "The link saw an acknowledgement of a NO_ACK session.",
        applies="carried > 0 OR ack_framed_at IS NOT NULL",
        offends="ack_framed_at IS NOT NULL",
        words="deliveries were acknowledged",
    ),
    UndrainedAnomaly(
        "event_for_several",
        "A session reported the acknowledgement of a send together with those of others.",
        applies="accepted",
        offends="ranged",
        words="sends were acknowledged by an event for several",
    ),
    UndrainedAnomaly(
        "over_window",
        "With this send its publisher had more sends unanswered than its window allows.",
        applies="attempted",
        offends="over_window",
        words="sends beyond the publish window",
    ),
    UndrainedAnomaly(
        "window_stayed_shut",
        """A publish had to wait for its window and never continued, although an answer had made room for it.

        It waited for the liveness bound, with credit, and with fewer sends unanswered than the window allows.
        """,
        applies="waited_with IS NOT NULL",
        offends="shut_with < window_size AND NOT attempted",
        words="publishes that had to wait for their window never continued",
    ),
    UndrainedAnomaly(
        "blocked_early",
        "A publish had to wait for its window although fewer sends were unanswered than the window allows.",
        applies="attempted OR waited_with IS NOT NULL",
        offends="waited_with < window_size",
        words="publishes had to wait for a window that was not full",
    ),
)
