"""The table of fates: what may become of a message, by what its clients know of it.

A message has one row of `SENT`, one of `TAKEN` and one observation, and `fate` gives the cell for the three. The plan
finds the three numbers of a message and looks its cell up in one text (`CELLS`), in every trial of every scenario.
Columns are those of `plan/columns`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

REQUIRED, ALLOWED, UNDECIDED = "required", "allowed", "undecided"
"""The cells that are no anomaly. Required: what the broker owes was seen. Undecided: it proves nothing."""


class Seen(enum.IntEnum):
    """What was observed of a message in the end; the first that is true.

    Since its first answered acknowledgement, or since the last thing that a consumer did with it.
    """

    EARLY = 0
    """A client received it before the request to commit the transaction in which it was sent."""
    AGAIN = 1
    """It came, or came again, in the same run of the broker."""
    RESTARTED = 2
    """It came, or came again, after a restart."""
    ASIDE = 3
    """It is in the dead-letter or expiry queue."""
    COUNTED = 4
    """The last depth counts it."""
    NOWHERE = 5
    """The queue was drained to the end, and did not bring it."""
    UNKNOWN = 6
    """Its queue was not drained to the end."""


class Owed(enum.Enum):
    """What the broker owes for a send."""

    KEPT = "kept"
    ABSENT = "absent"
    EITHER = "either"


@dataclasses.dataclass(frozen=True)
class SentRow:
    """What the publisher knows of a message: the first row whose `when` is true.

    `anomaly` is that of a message that is gone (`KEPT`) or was seen (`ABSENT`). `example` is the smallest history that
    offends, or that shows why nothing is owed.
    """

    name: str
    when: str
    owed: Owed
    example: str
    anomaly: str = ""


@dataclasses.dataclass(frozen=True)
class TakenRow:
    """What the consumers of a message did with it last: the first row whose `when` is true.

    `cells` are those of messages that the broker owes to keep. An absence is held against it only for those; a return
    for all. Without a cell nothing is known. `example` is the smallest history that offends, or that shows why none
    does.
    """

    name: str
    when: str
    cells: Mapping[Seen, str]
    example: str


def _must_come(anomaly: str, aside: str) -> Mapping[Seen, str]:
    back = dict.fromkeys((Seen.AGAIN, Seen.RESTARTED, Seen.COUNTED), REQUIRED)
    return MappingProxyType({**back, Seen.NOWHERE: anomaly, Seen.ASIDE: aside})


def _must_go(again: str, restarted: str) -> Mapping[Seen, str]:
    return MappingProxyType({Seen.AGAIN: again, Seen.RESTARTED: restarted, Seen.NOWHERE: REQUIRED})


_OPEN: Mapping[Seen, str] = MappingProxyType({})
"""The cells of a row of which nothing is known."""

LOSS, EARLY_ASIDE = "loss", "set_aside_early"
"""`LOSS` stands for the anomaly of the row in `SENT`."""

SENT: Sequence[SentRow] = (
    SentRow("never sent", "NOT attempted", Owed.ABSENT, "came 1", "phantom"),
    SentRow(
        "in a transaction that was sent again",
        "send_txn IS NOT NULL AND sendings > 1",
        Owed.EITHER,
        "put t1 1, committed t1 FAIL, again t2 1, committed t2, killed, settled",
    ),
    SentRow(
        "in a transaction that was rolled back",
        "send_txn IS NOT NULL AND commit_asked_at IS NULL AND rollback_asked_at IS NOT NULL",
        Owed.ABSENT,
        "put t1 1, rolled_back t1, came 1",
        "available_early",
    ),
    SentRow(
        "in a transaction that is open, or was left open",
        "send_txn IS NOT NULL AND commit_asked_at IS NULL",
        Owed.ABSENT,
        "put t1 1, killed, came 1",
        "available_undischarged",
    ),
    SentRow(
        "refused outside of its transaction",
        "send_txn IS NOT NULL AND refused_outside",
        Owed.EITHER,
        'put t1 1, refused 1 "rejected outside its transaction", committed t1, killed, settled 1',
    ),
    SentRow(
        "in a transaction whose commit was refused",
        "send_txn IS NOT NULL AND committed_at IS NULL AND commit_refused AND ack_txn IS NULL",
        Owed.ABSENT,
        "put t1 1, committed t1 FAIL, killed, settled 1",
        "outcome_not_in_effect",
    ),
    SentRow(
        "in a transaction whose commit has no answer",
        "send_txn IS NOT NULL AND committed_at IS NULL",
        Owed.EITHER,
        "put t1 1, committed t1 None, killed, settled",
    ),
    SentRow(
        "refused in a transaction that was committed",
        "send_txn IS NOT NULL AND refused",
        Owed.ABSENT,
        "put t1 1, refused 1 tx=t1, committed t1, killed, settled 1",
        "refused_delivered",
    ),
    SentRow(
        "unanswered",
        "NOT (accepted OR committed OR (refused AND sendings = 1))",
        Owed.EITHER,
        "sent 1, killed, no_answer 1, settled",
    ),
    SentRow("refused", "refused AND NOT accepted", Owed.ABSENT, "sent 1, refused 1, came 1", "refused_delivered"),
    SentRow("not persistent", "NOT durable", Owed.EITHER, "kept 1 durable=False, killed, settled"),
    SentRow("older than its time to live", "expired", Owed.EITHER, "kept 1 lives=5, pause 9, killed, settled"),
    SentRow("committed", "committed", Owed.KEPT, "put t1 1, committed t1, killed, settled", "lost_committed"),
    SentRow("confirmed", "confirmed", Owed.KEPT, "kept 1, killed, settled", "lost"),
    SentRow(
        "refused first, and accepted later", "true", Owed.EITHER, "sent 1, refused 1, confirmed 1, killed, settled"
    ),
)

_GAVE_BACK = "gave_back_at >= coalesce(ack_last_at, 0) AND gave_back_at >= handed_last_at"
_ACKNOWLEDGED = "ack_last_at >= handed_last_at"
_TAKEN_IN_TX = f"{_ACKNOWLEDGED} AND ack_last_txn IS NOT NULL"

TAKEN: Sequence[TakenRow] = (
    TakenRow("by no consumer", "handed = 0", _must_come(LOSS, EARLY_ASIDE), "kept 1, killed, settled"),
    TakenRow(
        "sent more than once",
        "sendings > 1",
        _OPEN,
        "sent 1, sent 1, confirmed 1, took 1, settled 1 epoch=1",
    ),
    TakenRow(
        "sent in one transaction and acknowledged in another",
        "of_two_transactions",
        _OPEN,
        "put t1 1, committed t1, acked_in t2 1, committed t2 by=consumer-1, settled",
    ),
    TakenRow(
        "whose acknowledgement was refused",
        "ack_failed_at > greatest(acked_at, handed_last_at, gave_back_at, 0)",
        _OPEN,
        "kept 1, handed 1, ack_sent 1, ack_refused 1, settled",
    ),
    TakenRow(
        "acknowledged, with an answer",
        "acked_at IS NOT NULL",
        _must_go("delivered_after_acknowledgement", "delivered_after_restart"),
        "kept 1, took 1, crashed, settled 1 epoch=1",
    ),
    TakenRow(
        "acknowledged in a transaction that was committed",
        "ack_txn IS NOT NULL AND committed_at IS NOT NULL",
        _must_go("transacted_acknowledgement", "returned_after_commit"),
        "kept 1, acked_in t1 1, committed t1 by=consumer-1, settled 1 epoch=1",
    ),
    TakenRow(
        "acknowledged in a transaction whose commit has no answer, or was refused",
        "ack_txn IS NOT NULL AND commit_asked_at IS NOT NULL",
        _OPEN,
        "kept 1, acked_in t1 1, committed t1 None by=consumer-1, killed, settled",
    ),
    TakenRow(
        "acknowledged in a transaction that was rolled back",
        f"{_TAKEN_IN_TX} AND rolled_back_at IS NOT NULL",
        _must_come("transacted_acknowledgement", EARLY_ASIDE),
        "kept 1, acked_in t1 1, rolled_back t1 by=consumer-1, settled epoch=1",
    ),
    TakenRow(
        "acknowledged in a transaction that is open, or was left open",
        _TAKEN_IN_TX,
        _must_come("undischarged_gone", EARLY_ASIDE),
        "kept 1, acked_in t1 1, crashed, settled epoch=1",
    ),
    TakenRow(
        "released",
        f"{_GAVE_BACK} AND gave_back_as = 'released'",
        _must_come("released_gone", UNDECIDED),
        "kept 1, handed 1, given_back 1, crashed, settled epoch=1",
    ),
    TakenRow(
        "given back as failed",
        f"{_GAVE_BACK} AND gave_back_as = 'failed'",
        _must_come("failed_gone", UNDECIDED),
        "kept 1, handed 1, given_back 1 failed, crashed, settled epoch=1",
    ),
    TakenRow(
        "undeliverable there",
        f"{_GAVE_BACK} AND gave_back_as = 'undeliverable'",
        _must_come("given_back_nowhere", UNDECIDED),
        "kept 1, handed 1, given_back 1 undeliverable, crashed, settled epoch=1",
    ),
    TakenRow(
        "rejected",
        f"{_GAVE_BACK} AND gave_back_as = 'rejected'",
        _must_go("rejected_again", "rejected_again"),
        "kept 1, handed 1, given_back 1 rejected, came 1 epoch=1",
    ),
    TakenRow(
        "given back, as its receiver ended",
        _GAVE_BACK,
        _must_come("gone", EARLY_ASIDE),
        'kept 1, handed 1, given_back 1 "its receiver ended", settled epoch=1',
    ),
    TakenRow(
        "acknowledged without an answer, by a client that closed in order",
        f"{_ACKNOWLEDGED} AND ack_closed AND NOT ack_lost",
        _must_go("returned_after_close", UNDECIDED),
        "kept 1, handed 1, ack_sent 1, settled 1 epoch=1",
    ),
    TakenRow(
        "acknowledged without an answer",
        _ACKNOWLEDGED,
        MappingProxyType(dict.fromkeys((Seen.AGAIN, Seen.RESTARTED, Seen.NOWHERE), ALLOWED)),
        "kept 1, handed 1, ack_sent 1, crashed, settled 1 epoch=1",
    ),
    TakenRow(
        "and not acknowledged",
        "true",
        _must_come("gone", EARLY_ASIDE),
        "kept 1, handed 1, crashed, settled epoch=1",
    ),
)


def fate(sent: SentRow, taken: TakenRow, seen: Seen) -> str:
    """Return the cell: `REQUIRED`, `ALLOWED`, `UNDECIDED`, or the name of an anomaly."""
    untaken = taken is TAKEN[0]
    if sent.owed is Owed.ABSENT:
        if seen in (Seen.EARLY, Seen.AGAIN, Seen.RESTARTED) or not untaken:
            return sent.anomaly
        return REQUIRED if seen is Seen.NOWHERE else UNDECIDED
    if seen is Seen.EARLY:
        return "available_early"
    cell = taken.cells.get(seen, UNDECIDED)
    if sent.owed is Owed.KEPT:
        return sent.anomaly if cell == LOSS else cell
    if seen in (Seen.NOWHERE, Seen.ASIDE, Seen.COUNTED):
        return ALLOWED if untaken or cell == REQUIRED else UNDECIDED
    return ALLOWED if cell == REQUIRED else cell


FATES: Mapping[tuple[str, str, Seen], str] = MappingProxyType(
    {(sent.name, taken.name, seen): fate(sent, taken, seen) for sent in SENT for taken in TAKEN for seen in Seen}
)
"""Every cell, by the names of its rows."""

_ABSENT = frozenset(row.name for row in SENT if row.owed is Owed.ABSENT)

EVIDENCE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        name: frozenset(
            {Seen.NOWHERE: "absence", Seen.ASIDE: "aside"}.get(seen, "return")
            for (sent, taken, seen), cell in FATES.items()
            if cell == name and not (sent in _ABSENT or seen is Seen.EARLY)
            if not (taken == TAKEN[0].name and seen < Seen.ASIDE)
        )
        for name in dict.fromkeys(FATES.values())
    }
)
"""By anomaly, the evidence that it rests on, which a policy may explain.

None explains a first delivery, or that a message is there which may not be: never sent, refused, or not committed."""

_CODES = {cell: chr(ord("A") + place) for place, cell in enumerate(dict.fromkeys(FATES.values()))}
CELLS = "".join(_CODES[cell] for cell in FATES.values())
"""The whole table as one text: a letter a cell, in the order of `FATES`."""


def _at_place(letters: str) -> str:
    """Return SQL: the letter at the place of a message.

    Of bytes: a text is read from its beginning to the place, which was two thirds of the time of a large run.
    """
    return f"CAST(substr(X'{letters.encode('ascii').hex().upper()}', fate_at, 1) AS STRING)"


_CELL = _at_place(CELLS)

ACCOUNT: Mapping[str, str] = MappingProxyType(
    {
        "delivered": "delivered and acknowledged",
        "in_queue": "still in their queue",
        "aside": "set aside in a dead-letter or expiry queue",
        "volatile": "gone, and not persistent",
        "expired": "gone, and older than their time to live",
        "in_doubt": "gone after an acknowledgement without an answer, or a rejection",
        "given_up": "gone where the script or the configuration gives them up",
        "undecided": "undecided",
        "unexplained": "unexplained",
    }
)
"""The accounts in which each confirmed or committed message ends, one of them, with the words for it.

`given_up` are unexplained ones of a script that uses no durable queue, or settles before it has the message.
"""


def account(sent: SentRow, taken: TakenRow, seen: Seen) -> str:
    """Return the account of a confirmed or committed message; empty for any other."""
    confirmed = sent.owed is Owed.KEPT or sent.name in _EXCUSED
    cell = FATES[sent.name, taken.name, seen]
    if not confirmed:
        return ""
    if cell not in (REQUIRED, ALLOWED, UNDECIDED):
        return "unexplained"
    if seen is Seen.COUNTED:
        return "in_queue"
    if seen is Seen.ASIDE:
        return "aside"
    if taken.cells.get(Seen.NOWHERE) == REQUIRED or seen in (Seen.AGAIN, Seen.RESTARTED):
        return "delivered"
    if seen is Seen.NOWHERE and taken.cells.get(Seen.NOWHERE) == ALLOWED:
        return "in_doubt"
    return _EXCUSED.get(sent.name, "undecided") if seen is Seen.NOWHERE and taken is TAKEN[0] else "undecided"


_EXCUSED = {"not persistent": "volatile", "older than its time to live": "expired"}
COUNTED = tuple(name for name in ACCOUNT if name != "given_up")
"""The accounts that the cell of a message says."""

_LETTERS = dict(zip(COUNTED, "abcdefgh", strict=True))
ACCOUNTS = "".join(_LETTERS.get(account(sent, taken, seen), "-") for sent in SENT for taken in TAKEN for seen in Seen)
"""The account of each cell as one text, as `CELLS`."""


def is_fate(*cells: str) -> str:
    """Return SQL: whether the message has one of these cells."""
    return f"{_CELL} IN ({', '.join(repr(_CODES[cell]) for cell in cells)})"


def _case(conditions: Iterable[str]) -> str:
    return f"CASE {' '.join(f'WHEN {when} THEN {place}' for place, when in enumerate(conditions))} END"


_DONE_AT = "coalesce(acked_at, CASE WHEN ack_txn IS NOT NULL THEN committed_at END)"
_LAST_AT = "greatest(gave_back_at, ack_last_at, handed_last_at, 0)"
_DONE_EPOCH = "coalesce(ack_epoch, CASE WHEN ack_txn IS NOT NULL THEN commit_epoch END, ack_last_epoch)"

ROWS: Mapping[str, str] = MappingProxyType(
    {
        "sent_as": _case(row.when for row in SENT),
        "taken_as": _case(row.when for row in TAKEN),
        "since": f"coalesce({_DONE_AT}, {_LAST_AT})",
        "since_epoch": _DONE_EPOCH,
    }
)
"""The rows of a message, and when its last acknowledgement, refusal or delivery was, in which run of the broker."""

_CAME = "received_last_at > since"
_SEEN_AS = (
    "CASE"
    f" WHEN coalesce(in_transaction AND sendings = 1 AND received_at < commit_asked_at, false) THEN {Seen.EARLY:d}"
    f" WHEN {_CAME} AND (since_epoch IS NULL OR last_epoch = since_epoch"
    f" OR (since_epoch = first_epoch AND early_received_at > since)) THEN {Seen.AGAIN:d}"
    f" WHEN {_CAME} THEN {Seen.RESTARTED:d}"
    f" WHEN set_aside THEN {Seen.ASIDE:d}"
    f" WHEN left_in_queue THEN {Seen.COUNTED:d}"
    f" WHEN settled_anywhere OR (read_out AND received = 0) THEN {Seen.NOWHERE:d}"
    f" ELSE {Seen.UNKNOWN:d} END"
)
PLACE: Mapping[str, str] = MappingProxyType(
    {"fate_at": f"CAST(1 + (sent_as * {len(TAKEN)} + taken_as) * {len(Seen)} + {_SEEN_AS} AS INT)"}
)
"""The place of the cell of a message, from 1."""

EXPLODED: Mapping[str, str] = MappingProxyType({"ends_in": _at_place(ACCOUNTS)})
SUMS: Mapping[str, str] = MappingProxyType(
    {f"all_{name}": f"count_if(is_message AND ends_in = '{letter}')" for name, letter in _LETTERS.items()}
)
"""Aggregates of a trial: the messages in each account."""


def anomaly_of(names: Iterable[str]) -> str:
    """Return SQL: the anomaly that the cell of a message is, if it is one of these; else null."""
    branches = " ".join(f"WHEN '{_CODES[name]}' THEN '{name}'" for name in names)
    return f"CASE {_CELL} {branches} END"
