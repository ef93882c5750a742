"""What two halves of one script have shown: a mode beside another, a style of sending beside two others.

Each half has a producer of its own, numbered in the order of the steps, and its messages.
"""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly


def _of(half: int, column: str) -> str:
    """A column that is the same for every message of a half."""
    return f"max(CASE WHEN is_message AND producer = {half} THEN {column} END)"


def _figures(name: str, sentence: str, figures: tuple[tuple[str, str], ...], *, on_link: bool = False) -> Anomaly:
    return Anomaly(
        name,
        sentence,
        applies="attempted",
        offends="false",
        of="messages",
        happened="compared",
        drained=False,
        on_link=on_link,
        figures=figures,
    )


COMPARED = (
    Anomaly(
        "processed_again_unlike_other",
        """A message that came again in the second half although its successor had been processed; none of the first.

        Each half ends with the death of its client in the same processing.
        """,
        applies="producer = 2 AND processed_at < last_processed_at AND settled",
        offends="processed_again AND NOT processed_again_1",
        of="messages that were processed before their successor",
        happened="delivered again, and none of the other mode",
        happens="has such a message come again",
        repeated=True,
    ),
    Anomaly(
        "came_otherwise_than_other",
        """A message that came again although receive() had been called again, or that never came; in one half only.

        Each half ends with the death of its client after the same call of receive().
        """,
        applies="attempted AND durable AND last_handed_at IS NOT NULL AND settled",
        offends="came_otherwise AND NOT CASE WHEN producer = 1 THEN came_otherwise_2 ELSE came_otherwise_1 END",
        of="messages of both modes",
        happened="delivered again or lost, and none of the other mode",
        happens="has such a message come again or get lost",
        repeated=True,
    ),
    Anomaly(
        "answered_within_window",
        """An asynchronous send that was answered although no more than one other was sent after it.

        With a confirmation window that takes a hundred of them: its script sends no more before an answer has come.
        """,
        applies="attempted AND send_txn IS NULL",
        offends="confirmed_at IS NOT NULL",
        of="sends that a confirmation window takes a hundred of",
        happened="answered before it was full",
        drained=False,
    ),
    _figures(
        "rates_of_sending",
        "How many sends a second were answered, or committed, in three styles of sending.",
        (
            ("{:,.0f} messages a second one at a time", _of(1, "rate")),
            ("{:,.0f} in transactions of twenty", _of(2, "rate")),
            ("{:,.0f} with a listener for the answers", _of(3, "rate")),
        ),
    ),
    _figures(
        "rates_of_delivery_modes",
        "How many sends a second were answered, of messages that are stored and of such that are not.",
        (
            ("{:,.0f} persistent messages a second", _of(1, "rate")),
            ("{:,.0f} that are not persistent", _of(2, "rate")),
        ),
    ),
    _figures(
        "frames_of_acknowledgements",
        "How many frames, and bytes of them, the acknowledgements of as many messages took in two modes.",
        (
            ("{:,.0f} frames of acknowledgements", _of(1, "half_frames")),
            ("{:,.0f} bytes of them in the first mode", _of(1, "half_bytes")),
            ("{:,.0f} frames", _of(2, "half_frames")),
            ("{:,.0f} bytes in the second", _of(2, "half_bytes")),
        ),
        on_link=True,
    ),
)
