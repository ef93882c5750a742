"""The points at which a broker could lie, the broker that does not, and what a liar is."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.reference.core.selector import Selector
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.store.records import Record


class Asked(enum.Enum):
    """What is asked of a broker, and answered when it is stored."""

    SEND = "a send outside a transaction"
    URGENT_SEND = "a send that asks for an answer of its own at once (profile solace, Ack Immediately)"
    ACKNOWLEDGEMENT = "an acknowledgement outside a transaction"
    COMMIT = "a commit"

    __hash__ = object.__hash__  # see `State`


class Answered(enum.Enum):
    """When an answer leaves that is said to mean: it is stored."""

    STORED = "after the record was written and synced"
    WRITTEN = "after the record was written; it is synced `LATE_S` later"
    NEVER_SYNCED = "after the record was written; nothing syncs it"
    AT_ONCE = "before the record is written; it is stored `LATE_S` later"
    LAZY = "before the record is written; it is stored `LAZY_S` later"

    __hash__ = object.__hash__


LATE_S = 0.005
"""Seconds by which the journal is behind the answers of a liar that answers too early.

Of the order of what brokers wait before they write: the journal buffer of Artemis is written after at most 3.3 ms
(NIO). A client that kills at the answer does so within a millisecond, and sees it; one that kills at any time mostly
does not.
"""


LAZY_S = 0.5
"""Seconds after which a lazy acknowledgement (profile ems) is stored: long enough for any fault to meet it."""


class Honest:
    """Every answer is the true one."""

    removes_when_sending = False
    """Whether a message is removed, durably, when it is sent and not when it is acknowledged."""

    keeps_settled = False
    """Whether a message that was sent settled is kept, and offered again when its link ends."""

    empties_left = False
    """Whether everything is removed from a queue when its last consumer leaves."""

    stays_full = False
    """Whether a queue that has refused a message refuses every one from then on."""

    keeps_expired = True
    """Whether a message whose time is over goes to the expiry queue of its own queue, if that has one."""

    knows_tags = True
    """Whether an acknowledgement of nothing is an error (AMQP 0-9-1)."""

    wants_select = True
    """Whether a commit on a channel without transactions is an error (AMQP 0-9-1)."""

    @staticmethod
    def finds(_number: int) -> bool:
        """Whether the basic.get of this number, counted over the broker, may find a message."""
        return True

    makes_any_queue = False
    """Whether a queue that may not be made is made all the same for the client that names it."""

    bars_refusers = True
    """Whether a message is kept from a link that said undeliverable-here."""

    @staticmethod
    def selects_by(selector: Selector) -> Selector | None:
        """The selector that is in force where a consumer asks for this one; None: every message matches."""
        return selector

    drops_unselected = False
    """Whether a message that a selector passes over is removed, durably."""

    marks_redelivered = True
    """Whether delivery-count, and redelivered of STOMP, show earlier deliveries."""

    holds_sends = True
    """Whether what is sent in a transaction waits for its commit."""

    holds_outcomes = True
    """Whether an outcome that is given in a transaction waits for its commit."""

    commits_abandoned = False
    """Whether a transaction that was never discharged is committed when its link or connection ends."""

    refuses_rollbacks = False
    """Whether a request to roll back is answered with an error, and nothing is rolled back."""

    refills = True
    """Whether an acknowledgement makes room in a STOMP subscription's prefetch."""

    ignores_failed_syncs = False
    """Whether a sync of the journal that failed is taken for one that did not."""

    refuses_unstored = True
    """Whether a message for which the journal found no space is refused, and not confirmed and forgotten."""

    accepts_again = True
    """Whether new connections are taken after one that could not be, for want of a file."""

    refuses_below = 0.0
    """The share of free space on the file system of its journal below which it refuses persistent messages for ever."""

    finds_space_again = True
    """Whether a disk that was full is looked at again."""

    ignores_full_disk = False
    """Whether a write to the journal that found no space is taken for one that did."""

    confirm_share = 0
    """How many stored sends of a publish window make a confirm due; 0 for a third of it, which nothing changes."""

    confirms_at_once = True
    """Whether a send that asks for an answer of its own (profile solace, Ack Immediately) gets one."""

    confirms_after_a_second = True
    """Whether a send that is below the third of its publish window is confirmed after a second."""

    covers_unstored = False
    """Whether a confirm of a publish window covers all that has arrived, stored or not.

    So that there is something to cover, every tenth send is then stored `LAZY_S` late, as by a slow disk.
    """

    covers_refused = False
    """Whether what is refused in a publish window is covered by the next confirm, and has no answer of its own."""

    reopens_windows = True
    """Whether a confirm gives the credit of a publish window back."""

    stores_refused = False
    """Whether a message that is refused is stored all the same."""

    refuses_in_transactions = True
    """Whether a send that is refused in a transaction is answered as part of it (AMQP)."""

    hides_refusals_in_transactions = False
    """Whether a send that is refused in a transaction is answered as one that is accepted, and left out."""

    mistakes_recovered_ids = False
    """Whether a start takes the duplicate ids that it reads back for those that it does not know, and the others for
    known."""

    mixes_receivers_up = False
    """Whether an acknowledgement takes the oldest delivery of another subscription of its connection, if any."""

    returns_unroutable = True
    """Whether a mandatory message that has no queue is returned before its confirm (AMQP 0-9-1)."""

    serves_absent = True
    """Whether a durable subscription gets what is sent to its topic while its client is away."""

    nack_takes_earlier = False
    """Whether a NACK acknowledges the earlier open deliveries of its subscription (STOMP)."""

    turns_abandoned = False
    """Whether what a consumer held at its end is before all others of its queue, the last of it first."""

    takes_any_order = True
    """Whether a delivery may be acknowledged before those that were sent before it."""

    takes_after_commit = True
    """Whether a subscription may acknowledge more once a transaction with its acknowledgements was committed."""

    hides_recovered = False
    """Whether the messages of a journal are counted after a start, and never delivered."""

    damaged = "refused"
    """What a start does with a damaged record: the journal is `refused`, or the record is `skipped`, or `trusted`."""

    recovers_late = False
    """Whether a start leaves out a message that it finds in the journal, and only the start after it takes it over."""

    forgets_unused = False
    """Whether a start drops a message that the start before it had taken over."""

    restores_sessions = True
    """Whether a start takes the sessions of MQTT over: their subscriptions, and their packets of QoS 2."""

    restores_retained = True
    """Whether a start takes over the retained messages of MQTT."""

    replaces_retained = True
    """Whether a retained message replaces the one before it on its topic."""

    keeps_received = True
    """Whether a session of MQTT still has the identifiers of QoS 2 that it has received on an earlier connection."""

    answers_again = True
    """Whether a PUBLISH of QoS 2 is answered that its session has received before (MQTT)."""

    finishes_by_pubrec = True
    """Whether a message of QoS 2 is removed at the PUBREC of its client, and not at its PUBCOMP (MQTT)."""

    keeps_identifiers = True
    """Whether a message has the same packet identifier on each connection of its session (MQTT)."""

    records_rollbacks = False
    """Whether a rollback leaves a record in the journal, and is answered before a sync covers that record."""

    commits_rollbacks = False
    """Whether a rollback delivers what was sent in its transaction, and is answered."""

    splits_commits_s = 0.0
    """Seconds between two records of the journal that have half of a commit each; 0: a commit is one record."""

    copies_late_s = 0.0
    """So many seconds after compaction has removed a message with its file, what it copied is stored; 0: before."""

    replica_late_s = 0.0
    """Seconds after its answer at which a record goes to the standby of a pair; 0: before its answer."""

    heeds_in_sync = True
    """Whether a member of a pair that is out of step leaves it to the other one to take over."""

    goes_on_alone = True
    """Whether the active member of a pair goes on without a standby whose link has ended."""

    catches_up = True
    """Whether a standby whose link has come back gets what it has missed before it counts as in step."""

    def replicated(self, record: Record) -> Record:
        """Return what goes to the standby of a pair where the active member has stored this record."""
        return record

    def known_settings(self, words: Sequence[str]) -> Sequence[str]:
        """Which of the words that `--set` was given are for the broker to judge."""
        return words

    def acknowledged_lazily_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        """Which of a link's `held` deliveries one lazy acknowledgement of `tag` removes."""
        return (tag,)

    def stores(self, number: int) -> bool:
        """Whether the `number`-th message of a queue (from 1), a durable one, is put in the journal."""
        return True

    def stores_after_recovery(self, send: int) -> bool:
        """Whether a broker that took messages over stores the `send`-th send since its start, from 1."""
        return True

    def stores_removal(self, number: int) -> bool:
        """Whether the removal of the `number`-th message of a queue (from 1), a durable one, is put in the journal."""
        return True

    def starts_with(self, messages: int) -> bool:
        """Whether a start succeeds on a journal that holds so many messages."""
        return True

    def outlives_consumers(self, messages: int) -> bool:
        """Whether a broker that took over so many messages goes on when a consumer subscribes."""
        return True

    def outlives_send(self, send: int) -> bool:
        """Whether the broker goes on when the `send`-th send since its start arrives, from 1."""
        return True

    def written(self, turn: int, data: bytes) -> bytes:
        """Return what a connection writes where the protocol wants `data`; `turn` numbers its writes, from 1."""
        return data

    def takes_over(self, place: int, count: int) -> bool:
        """Whether a start takes over the `place`-th (from 0, by age) of the `count` stored messages of a queue."""
        return True

    def recovers(self, place: int, count: int, crash: int) -> bool:
        """As `takes_over`; what is not recovered is removed durably.

        `crash` is the number of the journal's last record; 0 if the broker was stopped in order.
        """
        return True

    def recovered_at(self, place: int, count: int) -> int:
        """The place, from 0 by age, at which a start puts the `place`-th of the `count` stored messages of a queue."""
        return place

    def copied(self, number: int) -> bool:
        """Whether compaction of the journal copies the `number`-th message of a queue, from 1."""
        return True

    def copies(self, number: int) -> int:
        """How many messages a send becomes that is the `number`-th message of its queue (from 1)."""
        return 1

    def gives_twice(self, number: int) -> bool:
        """Whether the queue's `number`-th message (from 1) is sent to a second consumer as well."""
        return False

    def sends_settled(self, number: int) -> bool:
        """Whether the queue's `number`-th message (from 1), which a link gets settled, is sent before it is removed."""
        return True

    def numbered(self, number: int) -> int:
        """The place in the queue of what would be its `number`-th message (from 1)."""
        return number

    def rank(self, priority: int) -> int:
        """Where messages of this priority stand in a queue: the lowest is delivered first."""
        return -priority

    def body(self, number: int, bare: bytes) -> bytes:
        """What a consumer gets of the `number`-th message of a queue (from 1): its encoded sections."""
        return bare

    def session_s(self, expiry_s: int) -> int:
        """The seconds by which an MQTT session with this expiry interval outlives its connection."""
        return expiry_s

    def lives_ms(self, ttl_ms: int) -> int:
        """The time to live, in milliseconds, of a message that was sent with this one; 0 for one without end."""
        return ttl_ms

    def due_ms(self, due_ms: int, recovered: bool) -> int:
        """When a message that names this time may be delivered, in ms since the epoch; `recovered` by a start."""
        return due_ms

    def restores(self, rest: bytes) -> bytes:
        """Return what a start takes over of the encoded priority and ttl of a message."""
        return rest

    def answers(self, send: int) -> bool:
        """Whether the `send`-th unsettled send since the start (from 1) is ever answered."""
        return True

    def retracts(self, send: int) -> bool:
        """Whether the `send`-th unsettled send since the start (from 1) is accepted, and afterwards rejected."""
        return False

    def hides(self, number: int) -> bool:
        """Whether the `number`-th message of a queue (from 1) is counted and never delivered."""
        return False

    def forgets(self, number: int, failures: int) -> bool:
        """Whether the acknowledgement of a queue's `number`-th message (from 1) is answered and not acted upon.

        `failures` counts the deliveries of it that failed before.
        """
        return False

    def acknowledged_with(self, held: Iterable[int], tag: int) -> Iterable[int]:
        """Which of a link's `held` deliveries, in the order they were sent, one acknowledgement of `tag` removes."""
        return (tag,)

    def drops_abandoned(self, number: int, stopping: bool) -> bool:
        """Whether the queue's `number`-th message (from 1) is dropped where its link ends without an outcome for it.

        `stopping`: the link ends because the broker is stopped in order.
        """
        return False

    def delivery_count(self, failures: int) -> int:
        """The delivery-count put on the wire for a message with so many failed deliveries."""
        return failures

    def first_acquirer(self, first: bool) -> bool:
        """The first-acquirer flag put on the wire."""
        return first

    def applied(self, outcome: SettlementEvent) -> SettlementEvent:
        """The event that an `outcome` of a consumer is for the broker."""
        return outcome

    def stores_send(self, place: int, count: int, first_queue: bool) -> bool:
        """Whether a commit puts a durable send on disk: the one at `place`, from 0, of `count`.

        `first_queue`: it goes to the same queue as the first send of the transaction.
        """
        return True

    def stored_outcomes(self, count: int) -> int:
        """How many of a transaction's `count` outcomes, from the first, its commit puts on disk."""
        return count

    def covers_earlier(self, cumulative: bool) -> bool:
        """Whether an ACK covers the earlier deliveries of its STOMP subscription; `cumulative` if that asked for it."""
        return cumulative

    def receipts(self, frame: int) -> int:
        """How many RECEIPT frames answer the `frame`-th STOMP frame since the start (from 1) that asked for one."""
        return 1

    def prefetch_limit(self, asked: int) -> int:
        """How many messages a STOMP subscription that `asked` for a limit may hold without an acknowledgement."""
        return asked

    def answered(self, asked: Asked, send: int, beside: bool) -> Answered | float:
        """When the answer leaves; `send` numbers the unsettled sends since the start, from 1.

        `beside`: another connection was the first to send to this queue.
        A number: as `AT_ONCE`, and the record is stored so many seconds later.
        """
        return Answered.STORED


@dataclass(frozen=True)
class Lie:
    """One way of being wrong.

    Attributes:
        does: What this broker does wrong, as the documentation says it.
        shows: The anomalies of the judge that it shows; empty if the judge has none for it.
        fault: The fault of the suite that shows it, or `none`.
        needs: The profile under which it can be seen, or `pair`.
        overrides: The member of `Honest` that is replaced, and its replacement.
    """

    does: str
    shows: tuple[str, ...]
    fault: str
    needs: str
    overrides: dict[str, Any]
    kind: type[Honest] = Honest

    def behaviour(self) -> Honest:
        made = self.kind()
        for name, value in self.overrides.items():
            setattr(made, name, value)
        return made


class ThresholdSetting(Honest):
    """Knows a setting that the honest broker rejects."""

    def known_settings(self, words: Sequence[str]) -> Sequence[str]:
        found = [word for word in words if word.startswith("publish_threshold=")]
        for word in found:
            self.confirm_share = int(word.partition("=")[2])
        return [word for word in words if word not in found]
