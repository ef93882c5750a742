"""What can go wrong with a call of a vendor's client: it returns when it should wait, or waits when it should return.

A broker that is halted answers nothing. A call that was made after every thread of it had stopped, and returns before
one of them went on, did not wait for the broker (design, "Faults": pause). Answers that were already on their way come
to calls that were made before.

Some scripts compare two halves: one mode with another, one style of sending with two others. Each half has a producer
of its own, numbered in the order of the steps, and its messages.
"""

from __future__ import annotations

from conformance.clients.workers.job import LIVENESS_S
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


_BOUND_NS = int(LIVENESS_S * 1e9)


def halted(called_at: str) -> str:
    """That something was called while the broker was halted."""
    return f"{called_at} > halted_at AND {called_at} < resumed_at"


def _decided(called_at: str, returned_at: str) -> str:
    """A call that has returned, or was given the liveness bound to do so."""
    return (
        f"{halted(called_at)} AND (coalesce({returned_at} < resumed_at, false)"
        f" OR resumed_at - {called_at} >= {_BOUND_NS}L)"
    )


def _returned(name: str, what: str, called_at: str, returned_at: str, more: str = "true") -> Anomaly:
    return Anomaly(
        name,
        f"A {what} that was called while the broker was halted, and returned before it went on.",
        applies=f"{more} AND {halted(called_at)}",
        offends=f"{returned_at} < resumed_at",
        of=f"calls of {what} while the broker was halted",
        happened="returned before it went on",
        happens="has a call return without an answer",
        control="returned",
        drained=False,
    )


def _waited(name: str, what: str, called_at: str, returned_at: str, more: str = "true") -> Anomaly:
    return Anomaly(
        name,
        f"A {what} that was called while the broker was halted, and did not return within the liveness bound.",
        applies=f"{more} AND {_decided(called_at, returned_at)}",
        # Of a call that was not back when the broker went on, its wait in the pause is known.
        offends=f"coalesce({returned_at}, resumed_at) - {called_at} >= {_BOUND_NS}L",
        of=f"calls of {what} while the broker was halted",
        happened=f"not back within {LIVENESS_S:g} s",
        happens="has a call wait",
        control="waited",
        drained=False,
    )


_PLAIN = "attempted AND send_txn IS NULL"
_BY_CALL = "ack_txn IS NULL"
"""In a transaction nobody calls acknowledge()."""

_SEEN = "attempted AND (flagged OR unflagged)"


def _flag(name: str, sentence: str, applies: str, offends: str, happened: str) -> Anomaly:
    return Anomaly(
        name,
        sentence,
        applies=f"{_SEEN} AND {applies}",
        offends=offends,
        of="sends whose flag was seen on the link",
        happened=happened,
        happens=f"has a message {happened}",
        control="sent messages so",
        drained=False,
        on_link=True,
    )


CALLS = (
    _flag(
        "flag_missing",
        "A persistent message that left its client without the persistence flag.",
        "durable",
        "unflagged",
        "sent without the persistence flag",
    ),
    _flag(
        "flag_set",
        "A message that is not persistent and left its client with the persistence flag.",
        "NOT durable",
        "flagged",
        "sent with the persistence flag",
    ),
    _flag(
        "flag_differs",
        "A message whose persistence flag is not the delivery mode that its send, or else its producer, was given.",
        "true",
        "CASE WHEN durable THEN unflagged ELSE flagged END",
        "sent with the flag of another mode",
    ),
    _returned("send_returned", "send()", "sent_at", "confirmed_at", _PLAIN),
    Anomaly(
        "sooner_than_round_trip",
        "A send() over a slow link that returned sooner than what was added to a round trip on it.",
        applies=f"{_PLAIN} AND added_us IS NOT NULL AND confirmed_at IS NOT NULL",
        offends="confirmed_at - sent_at < added_us * 1000L",
        of="calls of send() over a slow link",
        happened="returned sooner than a round trip takes",
        happens="has a call return sooner than a round trip takes",
        control="returned sooner",
        drained=False,
    ),
    _waited("send_waited", "send()", "sent_at", "confirmed_at", _PLAIN),
    _waited("transacted_send_waited", "send() in a transaction", "sent_at", "returned_at", "in_transaction"),
    # Its answer comes to a listener: only the return of the call says whether it has waited.
    _waited("asynchronous_send_waited", "send() with a listener", "sent_at", "returned_at", _PLAIN),
    Anomaly(
        "answered_afterwards",
        """A send while the broker was halted whose listener was called when the broker went on, and none was before.

        Of a window that does not work the listener is called by the client itself, at once, or never.
        """,
        applies=f"{_PLAIN} AND {halted('sent_at')}",
        offends="confirmed_at >= resumed_at AND NOT answered_in_pause",
        of="sends while the broker was halted",
        happened="answered when it went on",
        happens="has a send answered when the broker goes on",
        control="was answered then",
        drained=False,
    ),
    Anomaly(
        "sent_ahead",
        """The witness of a permission: a send() in a transaction that returned while the broker was halted.

        Its transaction was committed afterwards.
        """,
        applies=f"in_transaction AND {halted('sent_at')}",
        offends="returned_at < resumed_at AND committed_at IS NOT NULL",
        of="calls of send() in a transaction while the broker was halted",
        happened="returned before it went on, and was committed",
        drained=False,
    ),
    _returned("acknowledge_returned", "acknowledge()", "ack_sent_at", "acked_at", _BY_CALL),
    _waited("acknowledge_waited", "acknowledge()", "ack_sent_at", "acked_at", _BY_CALL),
    _returned("commit_returned", "commit()", "commit_asked_at", "committed_at"),
    _returned("rollback_returned", "rollback()", "rollback_asked_at", "rolled_back_at"),
    Anomaly(
        "denied",
        "A question to the client that was answered otherwise than the claim says.",
        applies="granted OR denied",
        offends="denied",
        of="questions to the client",
        happened="answered otherwise",
        happens="has the client answer otherwise",
        control="answered otherwise",
        drained=False,
    ),
    Anomaly(
        "acknowledged_again",
        """A message that came again although its listener, or acknowledge(), had returned and its session was closed.

        Without a fault: whatever the client had not sent of it before, it had to send when it was closed.
        """,
        applies="ack_sent_at IS NOT NULL AND ack_txn IS NULL AND fired_at IS NULL AND settled",
        offends="redelivered > 0",
        of="acknowledged messages of sessions that were closed",
        happened="delivered again",
        happens="has such a message come again",
    ),
    Anomaly(
        "covered_wrongly",
        """A message that came again although acknowledge() had covered it, or is gone although it had not.

        Covered is what the session had received up to the last call; it was closed in order.
        """,
        applies="handed > 0 AND ack_txn IS NULL AND fired_at IS NULL AND durable AND settled",
        offends="CASE WHEN ack_sent_at IS NULL THEN redelivered = 0 ELSE redelivered > 0 END",
        of="messages received by sessions that were closed",
        happened="delivered again, or gone unacknowledged",
        happens="covers other messages",
    ),
)
