"""What can go wrong with a call of a vendor's client: it returns when it should wait, or waits when it should return.

A paused broker answers nothing. A call that begins after all its threads have stopped, and returns before they resume,
did not wait for the broker (design, "Faults": pause). Answers that were already in flight belong to earlier calls.

Some scripts compare two halves: one mode with another, or three styles of sending. Each half has a producer of its own,
numbered in the order of the steps.
"""

from __future__ import annotations

from conformance.clients.job import LIVENESS_S
from conformance.judge.anomalies.model import REPEATS, Anomaly, LinkAnomaly, UndrainedAnomaly


def _of(half: int, column: str) -> str:
    """Select a column that is the same for every message of a half."""
    return f"max(CASE WHEN is_message AND producer = {half} THEN {column} END)"


def _figures(name: str, sentence: str, figures: tuple[tuple[str, str], ...], *, on_link: bool = False) -> Anomaly:
    return UndrainedAnomaly(
        name,
        sentence,
        applies="attempted",
        offends="false",
        words="messages compared",
        on_link=on_link,
        figures=figures,
    )


COMPARED = (
    Anomaly(
        "processed_again_unlike_other",
        """A message came again in the second half although its successor had been processed, and none of the first.

        Each half ends with the death of its client during the same processing.
        """,
        applies="producer = 2 AND processed_at < last_processed_at AND settled",
        offends="processed_again AND NOT processed_again_1",
        words="messages processed before their successor came again, and none of the other mode",
        trials=REPEATS,
    ),
    Anomaly(
        "came_otherwise_than_other",
        """In one half only, a message came again although receive() had been called again, or never came.

        Each half ends with the death of its client after the same call of receive().
        """,
        applies="attempted AND durable AND last_handed_at IS NOT NULL AND settled",
        offends="came_otherwise AND NOT CASE WHEN producer = 1 THEN came_otherwise_2 ELSE came_otherwise_1 END",
        words="messages of one mode came again or were lost, and none of the other",
        trials=REPEATS,
    ),
    UndrainedAnomaly(
        "answered_within_window",
        """An asynchronous send was answered although at most one other was sent after it.

        The confirmation window takes a hundred of them, and the script sends no more before an answer has come.
        """,
        applies="attempted AND send_txn IS NULL",
        offends="confirmed_at IS NOT NULL",
        words="sends were answered before their confirmation window was full",
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
        "How many sends a second were answered, of persistent and of non-persistent messages.",
        (
            ("{:,.0f} persistent messages a second", _of(1, "rate")),
            ("{:,.0f} that are not persistent", _of(2, "rate")),
        ),
    ),
    _figures(
        "frames_of_acknowledgements",
        "How many frames and bytes the acknowledgements of equally many messages took in two modes.",
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


def began_while_halted(called_at: str) -> str:
    """Select the calls that began while the broker was halted."""
    return f"{called_at} > halted_at AND {called_at} < resumed_at"


def _decided(called_at: str, returned_at: str) -> str:
    """Select the calls that returned, or had the liveness bound to do so."""
    return (
        f"{began_while_halted(called_at)} AND (coalesce({returned_at} < resumed_at, false)"
        f" OR resumed_at - {called_at} >= {_BOUND_NS}L)"
    )


def _returned(name: str, what: str, called_at: str, returned_at: str, more: str = "true") -> Anomaly:
    return UndrainedAnomaly(
        name,
        f"{what} was called while the broker was halted, and returned before the broker resumed.",
        applies=f"{more} AND {began_while_halted(called_at)}",
        offends=f"{returned_at} < resumed_at",
        words=f"calls of {what} in the pause returned before the broker resumed",
    )


def _waited(name: str, what: str, called_at: str, returned_at: str, more: str = "true") -> Anomaly:
    return UndrainedAnomaly(
        name,
        f"{what} was called while the broker was halted, and did not return within the liveness bound.",
        applies=f"{more} AND {_decided(called_at, returned_at)}",
        # If a call had not returned when the broker resumed, only its wait in the pause is known.
        offends=f"coalesce({returned_at}, resumed_at) - {called_at} >= {_BOUND_NS}L",
        words=f"calls of {what} in the pause did not return within {LIVENESS_S:g} s",
    )


_PLAIN = "attempted AND send_txn IS NULL"
_BY_CALL = "ack_txn IS NULL"
"""In a transaction no client calls acknowledge()."""

_SEEN = "attempted AND (flagged OR unflagged)"


def _flag(name: str, sentence: str, applies: str, offends: str, sent: str) -> Anomaly:
    return LinkAnomaly(
        name,
        sentence,
        applies=f"{_SEEN} AND {applies}",
        offends=offends,
        words=f"sends seen on the link left {sent}",
    )


CALLS = (
    _flag(
        "flag_missing",
        "A persistent message left its client without the persistence flag.",
        "durable",
        "unflagged",
        "without the persistence flag",
    ),
    _flag(
        "flag_set",
        "A non-persistent message left its client with the persistence flag.",
        "NOT durable",
        "flagged",
        "with the persistence flag",
    ),
    _flag(
        "flag_differs",
        "The persistence flag of a message differs from the delivery mode of its send, or else of its producer.",
        "true",
        "CASE WHEN durable THEN unflagged ELSE flagged END",
        "with the flag of another mode",
    ),
    _returned("send_returned", "send()", "sent_at", "confirmed_at", _PLAIN),
    UndrainedAnomaly(
        "sooner_than_round_trip",
        "send() over a slow link returned sooner than the delay that the link adds to a round trip.",
        applies=f"{_PLAIN} AND added_us IS NOT NULL AND confirmed_at IS NOT NULL",
        offends="confirmed_at - sent_at < added_us * 1000L",
        words="calls of send() over a slow link returned sooner than a round trip takes",
    ),
    _waited("send_waited", "send()", "sent_at", "confirmed_at", _PLAIN),
    _waited("transacted_send_waited", "send() in a transaction", "sent_at", "returned_at", "in_transaction"),
    # Its answer comes to a listener: only the return of the call shows whether it waited.
    _waited("asynchronous_send_waited", "send() with a listener", "sent_at", "returned_at", _PLAIN),
    UndrainedAnomaly(
        "answered_afterwards",
        """The listener of a send in the pause was called when the broker resumed, and none was called before.

        If the window does not work, the client calls the listener itself, immediately or never.
        """,
        applies=f"{_PLAIN} AND {began_while_halted('sent_at')}",
        offends="confirmed_at >= resumed_at AND NOT answered_in_pause",
        words="sends in the pause were answered when the broker resumed",
    ),
    UndrainedAnomaly(
        "answered_unreached",
        """The listener of a send was called while the broker was halted, and the send began after the halt.

        No thread of the broker can have read the message.
        """,
        applies=f"{_PLAIN} AND {began_while_halted('sent_at')}",
        offends="coalesce(confirmed_at < resumed_at, false)",
        words="sends in the pause were answered before the broker resumed",
    ),
    UndrainedAnomaly(
        "sent_ahead",
        "The witness of a permission: send() returned while the broker was halted, and its transaction was committed.",
        applies=f"in_transaction AND {began_while_halted('sent_at')}",
        offends="returned_at < resumed_at AND committed_at IS NOT NULL",
        words="calls of send() in a transaction in the pause returned before the broker resumed, and committed",
    ),
    _returned("acknowledge_returned", "acknowledge()", "ack_sent_at", "acked_at", _BY_CALL),
    _waited("acknowledge_waited", "acknowledge()", "ack_sent_at", "acked_at", _BY_CALL),
    _returned("commit_returned", "commit()", "commit_asked_at", "committed_at"),
    _returned("rollback_returned", "rollback()", "rollback_asked_at", "rolled_back_at"),
    UndrainedAnomaly(
        "denied",
        "The client, or the broker, answered a question otherwise than the claim says.",
        applies="granted OR denied",
        offends="denied",
        words="questions were answered otherwise",
    ),
    Anomaly(
        "retained_otherwise",
        "A new subscription did not get the last retained message of a topic, or got one that was not to be there.",
        applies="granted OR denied",
        offends="denied",
        words="requests to retain, and topics, were answered otherwise",
    ),
    Anomaly(
        "acknowledged_again",
        """A message came again although its listener, or acknowledge(), had returned and its session was closed.

        Without a fault: the client had to send its acknowledgement when it was closed, at the latest.
        """,
        applies="ack_sent_at IS NOT NULL AND ack_txn IS NULL AND fired_at IS NULL AND settled",
        offends="redelivered > 0",
        words="acknowledged messages of closed sessions were delivered again",
    ),
    Anomaly(
        "covered_wrongly",
        """A message came again although acknowledge() had covered it, or is gone although it had not.

        A call covers everything that the session had received until then. The session was closed cleanly.
        """,
        applies="handed > 0 AND ack_txn IS NULL AND fired_at IS NULL AND durable AND settled",
        offends="CASE WHEN ack_sent_at IS NULL THEN redelivered = 0 ELSE redelivered > 0 END",
        words="messages received by closed sessions came again, or are gone unacknowledged",
    ),
)
