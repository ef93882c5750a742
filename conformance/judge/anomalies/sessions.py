"""What can be wrong with a session: the suite's own, or that of a vendor's client.

Where a sentence is about the link, frames decide. All processes of a machine have one clock, and the link stamps an
acknowledgement when it has read it, which is after the client wrote it. So an acknowledgement whose stamp is the
earlier one had left before; of one whose stamp is the later one nothing is known. Smallest counter-example to more:
written at 1, handed over at 2, stamped at 3 by a link that had to wait for a processor. It is missed, and nobody is
accused of what the scheduler did.

Publish windows: when the broker confirms, and how much. Only arithmetic accuses: a confirm that the broker's one-second
timer sent is read a second or more after the first send that it was for. One that is read sooner was not sent by it,
however slow the machine. That a later one was is concluded only where an answer at once would have been there in half a
second: the slowest round trip of the same trial, through the disk, and the time that the sends themselves took.
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


_UNHANDED = "received_at IS NULL OR ack_framed_at < received_at"

SESSIONS = (
    Anomaly(
        "acknowledged_early",
        """An acknowledgement that left on the link before the processing of its message had ended.

        A message whose processing the crash cut short and which was acknowledged all the same is such a one.
        """,
        applies="ack_framed_at IS NOT NULL",
        offends="processed_at IS NULL OR ack_framed_at < processed_at",
        of="acknowledged messages",
        happened="acknowledged before their processing ended",
        happens="leads to such an acknowledgement",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_unhanded",
        """An acknowledgement that left on the link for a message that the application had not been handed.

        One in the middle of a range is one: what it names it acknowledges.
        """,
        # With receive() a message is the application's from the call on: a client that has it must record that instant.
        # What leaves within the call leaves before it returns, and the order in there is nobody's business.
        applies="ack_framed_at IS NOT NULL",
        offends=_UNHANDED,
        of="acknowledged messages",
        happened="acknowledged before they were handed over",
        happens="leads to such an acknowledgement",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_undelivered",
        """An acknowledge that covered a message not yet handed over, or left out one handed over before.

        On the link, and for sessions whose acknowledge covers everything so far (CLIENT). Left out is what was handed
        over before an acknowledge that was answered, and of which no acknowledgement had left by the end.
        """,
        applies="ack_framed_at IS NOT NULL OR (handed_before_answer AND carried > 0)",
        offends=f"ack_framed_at IS NULL OR {_UNHANDED}",
        of="messages that an acknowledge was due for",
        happened="wrongly covered or left out",
        happens="leads to such an acknowledge",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_unreceived",
        """An acknowledgement that left on the link for a message that the application never got.

        It lay prefetched until its session was closed in order. What receive() took is no such message, and when the
        acknowledgement left within that call is nobody's business.
        """,
        applies="carried > 0 AND handed = 0 AND fired_at IS NULL",
        offends="ack_framed_at IS NOT NULL",
        of="messages that lay prefetched until the end",
        happened="acknowledged",
        happens="leads to such an acknowledgement",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "not_each_passed",
        """A message that was passed to the application without an acknowledgement, or acknowledged and never passed.

        On the link, by the time at which its session was closed in order.
        """,
        applies="carried > 0 AND fired_at IS NULL",
        offends="(handed > 0) <> (ack_framed_at IS NOT NULL)",
        of="messages that reached their client",
        happened="passed without an acknowledgement, or acknowledged and not passed",
        happens="leads to one",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_after_processing",
        """An acknowledgement that came to the link when the processing of its message had ended.

        The link stamps it later than its client wrote it, so a processing has to take longer than a scheduler may.
        """,
        applies="ack_framed_at IS NOT NULL AND processed_at IS NOT NULL",
        offends="ack_framed_at > processed_at",
        of="acknowledged messages",
        happened="acknowledged after their processing",
        happens="leads to such an acknowledgement",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_in_bulk",
        """An acknowledgement with the flag `multiple`, or of a message that the application had not been handed.

        AMQP 0-9-1, the XML's class 60 method 80. A range of AMQP 1.0 names each delivery, and has none.
        """,
        applies="ack_framed_at IS NOT NULL",
        offends=f"ack_up_to OR {_UNHANDED}",
        of="acknowledged messages",
        happened="acknowledged together with others",
        happens="leads to such an acknowledgement",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_lazily",
        """The witness of a permission to delay: an acknowledgement that left after the next message was processed.

        By the link's stamp, which is late: of a processing that takes longer than a scheduler may.
        """,
        applies="ack_framed_at IS NOT NULL AND next_processed_at IS NOT NULL",
        offends="ack_framed_at > next_processed_at",
        of="acknowledged messages with a successor",
        happened="acknowledged after its processing",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "acknowledged_late",
        "A delivery of a PRE session whose acknowledgement did not leave before its processing began.",
        applies="handed > 0 OR ack_sent_at IS NOT NULL",
        offends="handed = 0 OR began_at < coalesce(ack_sent_at, began_at + 1)",
        of="deliveries",
        happened="not acknowledged before their processing",
        happens="leads to one",
        drained=False,
    ),
    Anomaly(
        "acknowledged_at_all",
        "A delivery of a NO_ACK session for which an acknowledgement was seen on the link.",
        applies="carried > 0 OR ack_framed_at IS NOT NULL",
        offends="ack_framed_at IS NOT NULL",
        of="deliveries",
        happened="acknowledged",
        happens="leads to an acknowledgement",
        drained=False,
        on_link=True,
    ),
    Anomaly(
        "over_window",
        "A send with which its publisher had more sends unanswered than its window allows.",
        applies="attempted",
        offends="over_window",
        of="sends",
        happened="beyond the publish window",
        happens="leads to one beyond the window",
        drained=False,
    ),
    Anomaly(
        "window_stayed_shut",
        """A publish that had to wait for its window and never proceeded, although an answer had made room for it.

        For the liveness bound, with credit, and with fewer sends unanswered than the window allows.
        """,
        applies="waited_with IS NOT NULL",
        offends="shut_with < window_size AND NOT attempted",
        of="publishes that had to wait for their window",
        happened="left waiting",
        happens="leaves one waiting",
        drained=False,
    ),
    Anomaly(
        "blocked_early",
        "A publish that had to wait for its window although fewer sends were unanswered than the window allows.",
        applies="attempted OR waited_with IS NOT NULL",
        offends="waited_with < window_size",
        of="publishes",
        happened="held up by a window that was not full",
        happens="holds one up",
        drained=False,
    ),
)
