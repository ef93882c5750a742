"""What can go wrong with a send and its answer."""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

KEPT = "confirmed AND durable AND settled"

SENDS = (
    Anomaly(
        "lost",
        """A message the broker confirmed and nobody ever received.

        Decidable only after two drains since the last fault, the last of which brought nothing: before that, a message
        may merely still be waiting. Where the broker still counts messages then, so many of the missing are in the
        queue, and only the others are lost.
        """,
        applies="confirmed AND durable AND accounted",
        offends="received = 0 AND NOT left_in_queue",
        of="confirmed messages",
        happened="lost",
        happens="loses a confirmed message",
        control="lost messages",
        order="confirmed_at",
    ),
    Anomaly(
        "confirmed_missing",
        "The witness of a permission to lose what was confirmed: such a message that nobody ever received.",
        applies=KEPT,
        offends="received = 0",
        of="confirmed messages",
        happened="missing after the fault",
        order="confirmed_at",
    ),
    Anomaly(
        "non_persistent_missing",
        "The witness of a permission to lose what is not persistent: such a message that nobody ever received.",
        applies="confirmed AND NOT durable AND settled",
        offends="received = 0",
        of="confirmed non-persistent messages",
        happened="missing after the restart",
    ),
    Anomaly(
        "unanswered_either_way",
        "A message whose send has no answer, and which is there after recovery; another one must be absent.",
        applies="unanswered AND settled",
        offends="received > 0",
        of="sends without an answer",
        happened="found after recovery",
        beside="unanswered_absent",
    ),
    Anomaly(
        "unanswered_absent",
        "A message whose send has no answer, and which is not there after recovery.",
        applies="unanswered AND settled",
        offends="received = 0",
        of="sends without an answer",
        happened="absent after recovery",
    ),
    Anomaly(
        "unanswered_send",
        """A persistent send without an answer within the liveness bound, on an open connection.

        A send that lost its connection is unknown, and neither applies nor offends.
        """,
        applies="attempted AND durable AND (answered OR overdue)",
        offends="overdue AND NOT answered",
        of="persistent sends",
        happened="left without an answer",
        happens="leaves a send without an answer",
        drained=False,
    ),
    Anomaly(
        "unasked_missing",
        """The witness of a permission: a send that asked for no answer, and that is missing after the fault.

        A later send of the same connection was answered, so that it had been received.
        """,
        applies="unasked AND durable AND n < last_confirmed AND settled",
        offends="received = 0",
        of="sends without a receipt before an answered one",
        happened="missing after the fault",
    ),
    Anomaly(
        "outcome_changed",
        "A send that was given two different outcomes (accepted, rejected, released, modified) on one link.",
        applies="answered",
        offends="outcomes > 1",
        of="answered sends",
        happened="given a second, different outcome",
        happens="changes an outcome",
        drained=False,
    ),
    Anomaly(
        "refused_delivered",
        """A message that was received although its only send had been answered rejected, released or modified.

        One that was accepted as well is another sentence's matter, and so is one sent in a transaction.
        """,
        applies="refused AND NOT accepted AND send_txn IS NULL",
        offends="received > 0",
        of="refused sends",
        happened="received all the same",
        happens="has a refused message delivered",
    ),
    Anomaly(
        "receipt_untrue",
        "A send whose receipt came twice, or beside which a receipt came that answers nothing.",
        applies="accepted OR receipt_untrue",
        offends="receipt_untrue",
        of="answered sends",
        happened="answered twice or wrongly",
        happens="does so",
        drained=False,
    ),
)
