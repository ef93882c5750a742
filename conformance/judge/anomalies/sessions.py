"""What can be wrong with the suite's own sessions."""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

SESSIONS = (
    Anomaly(
        "acknowledged_early",
        """An acknowledgement that left before the processing of its message had ended.

        A message whose processing the crash cut short and which was acknowledged all the same is such a one.
        """,
        applies="ack_sent_at IS NOT NULL",
        offends="processed_at IS NULL OR ack_sent_at < processed_at",
        of="acknowledged messages",
        happened="acknowledged before their processing ended",
        happens="leads to such an acknowledgement",
        drained=False,
    ),
    Anomaly(
        "acknowledged_undelivered",
        """An acknowledge that covered a message not yet handed over, or left out one handed over before.

        For sessions whose acknowledge covers everything so far (CLIENT).
        """,
        applies="ack_sent_at IS NOT NULL OR handed_before_acknowledge",
        offends="ack_sent_at IS NULL OR handed_at IS NULL OR ack_sent_at < handed_at",
        of="messages that an acknowledge was due for",
        happened="wrongly covered or left out",
        happens="leads to such an acknowledge",
        drained=False,
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
        "A delivery of a NO_ACK session for which an acknowledgement left.",
        applies="handed > 0",
        offends="ack_sent_at IS NOT NULL",
        of="deliveries",
        happened="acknowledged",
        happens="leads to an acknowledgement",
        drained=False,
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
