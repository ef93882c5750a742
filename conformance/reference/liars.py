"""The liars by name: each is the honest broker, wrong in exactly one way.

`Honest` names the points at which a broker could lie; a row of the table overrides exactly one of them. The broker asks
these questions and never learns who answers. To add a liar, add a row here and its line in docs/reference-liars.md.
`FAMILIES` has those whose name has a number.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from conformance.errors import UsageError
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.honest import Answered, Asked, Honest, Lie, ThresholdSetting

PERIOD = 100
"""Scenarios publish some 300 messages and consume some 150 before a fault, so a lie comes within the first 100
operations and again every 100."""

SEVENTH, TENTH = 7, 10

LARGE, FRAME = 100_000, 32_768
"""Bytes of a large message, and of the part of it that is lost."""

_Event = SettlementEvent


def _lie(does: str, breaks: str = "", *, fault: str = "none", needs: str = "standard", **overrides: Any) -> Lie:
    return Lie(does, tuple(breaks.split()), fault, needs, overrides)


def _answers(
    asked: Asked, answered: Answered | float, every: int = 1, *, of_all: bool = True
) -> Callable[[Asked, int, bool], Answered | float]:
    """Give the answer to every n-th operation of one kind at another time than after the sync.

    Not `of_all`: only to those of a connection that was not the first to send to the queue.
    """
    return lambda kind, send, beside: (
        answered if kind is asked and send % every == 0 and (beside or of_all) else Answered.STORED
    )


def _takes(said: SettlementEvent, applied: SettlementEvent) -> Callable[[SettlementEvent], SettlementEvent]:
    return lambda outcome: applied if outcome is said else outcome


def _swapped(number: int) -> int:
    return {PERIOD // 2: number + 1, PERIOD // 2 + 1: number - 1}.get(number % PERIOD, number)


def _recovers(place: int, count: int, crash: int, one_in: int) -> bool:
    """Draw from the number of the journal's last record: a second start on a copy of the data does the same."""
    return not crash or place < count // 2 or random.Random(crash).randrange(one_in) > 0


def _corrupted(number: int, bare: bytes) -> bytes:
    return bare if number % PERIOD or not bare else bare[:-1] + bytes((bare[-1] ^ 1,))


def _cut(_number: int, bare: bytes) -> bytes:
    return bare if len(bare) <= LARGE else bare[:-FRAME] + bytes(FRAME)


LIARS: dict[str, Lie] = {
    # Liars about the disk: what they confirm is not stored yet, or never will be. The rest of their journal is honest.
    # A late record comes `LATE_S` late, a few milliseconds. A kill at a random time mostly misses that window; a kill
    # at the answer does not. A record that waits only for its sync is in the page cache, which survives the death of a
    # process: only a held sync or a loss of power shows it.
    "confirms-before-storing": _lie(
        "A send is answered first; its record goes to the journal 5 ms later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        answered=_answers(Asked.SEND, Answered.AT_ONCE),
    ),
    "confirms-every-tenth-before-storing": _lie(
        "Every tenth send is answered first, and its record goes to the journal 5 ms later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        answered=_answers(Asked.SEND, Answered.AT_ONCE, TENTH),
    ),
    "confirms-another-publisher-before-storing": _lie(
        "A send is answered first if another connection sent to the queue before; its record comes 5 ms later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        answered=_answers(Asked.SEND, Answered.AT_ONCE, of_all=False),
    ),
    "commits-before-storing": _lie(
        "A commit is answered first; its record goes to the journal 5 ms later.",
        "SOLCD-TX-02",
        fault="kill",
        answered=_answers(Asked.COMMIT, Answered.AT_ONCE),
    ),
    "acknowledges-before-storing": _lie(
        "An acknowledgement is answered first; the removal goes to the journal 5 ms later.",
        "EMS-STEP-06 AMQP-ACC-02 STOMP-ACK-05",
        fault="kill",
        answered=_answers(Asked.ACKNOWLEDGEMENT, Answered.AT_ONCE),
    ),
    "confirms-before-sync": _lie(
        "A send is answered when its record is written; the sync comes 5 ms later. No kill can see it.",
        "ARTEMIS-SEND-09 ARTEMIS-SEND-10",
        fault="held_sync",
        answered=_answers(Asked.SEND, Answered.WRITTEN),
    ),
    "commits-before-sync": _lie(
        "A commit is answered when its record is written; the sync comes 5 ms later. No kill can see it.",
        "ARTEMIS-TX-03 ARTEMIS-TX-07",
        fault="held_sync",
        answered=_answers(Asked.COMMIT, Answered.WRITTEN),
    ),
    "confirms-after-failed-sync": _lie(
        "A sync of the journal that fails is ignored, and the broker goes on and confirms.",
        "ARTEMIS-SEND-09",
        fault="failed_sync",
        ignores_failed_syncs=True,
    ),
    "confirms-although-disk-full": _lie(
        "A write to the journal that finds no space is ignored, and the broker goes on and confirms.",
        "ARTEMIS-SEND-09",
        fault="disk_full",
        ignores_full_disk=True,
    ),
    "never-syncs-confirms": _lie(
        "A send is answered when its record is written, and nothing ever syncs it. No kill can see it.",
        "ARTEMIS-SEND-09 ARTEMIS-SEND-10",
        fault="power_loss",
        answered=_answers(Asked.SEND, Answered.NEVER_SYNCED),
    ),
    "never-syncs-commits": _lie(
        "A commit is answered when its record is written, and nothing ever syncs it. No kill can see it.",
        "ARTEMIS-TX-03 ARTEMIS-TX-07",
        fault="power_loss",
        answered=_answers(Asked.COMMIT, Answered.NEVER_SYNCED),
    ),
    "rolls-back-before-sync": _lie(
        "A rollback is recorded and answered when the record is written; the sync comes 5 ms later. No kill sees it.",
        "ARTEMIS-TX-04",
        fault="held_sync",
        records_rollbacks=True,
    ),
    # Liars about what is kept: what they confirm is never stored, or a start does not read it back.
    "treats-persistent-as-non-persistent": _lie(
        "A durable message is kept in memory only.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07 QPID-PERS-02",
        fault="kill",
        stores=lambda _number: False,
    ),
    "loses-one-in-a-thousand": _lie(
        "Every 1000th message of a queue, from the 500th on, is confirmed and never put in the journal.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        stores=lambda number: number % 1000 != 500,
    ),
    "keeps-early-sends-in-memory": _lie(
        "A broker that took messages over keeps the first hundred sends after its start in memory only.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        stores_after_recovery=lambda send: send > PERIOD,
    ),
    "forgets-at-the-second-start": _lie(
        "A start does not take over what the start before it had taken over and no client had removed.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        forgets_unused=True,
    ),
    "loses-at-compaction": _lie(
        "Compaction of the journal writes a removal where it should copy a message that is still there.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        copied=lambda _number: False,
    ),
    "stores-copies-after-removal": _lie(
        "Compaction removes a file of the journal; what it copied of it goes to the journal 0.1 s later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        copies_late_s=0.1,
    ),
    "brings-acknowledged-back": _lie(
        "The removal of every seventh message of a queue is answered, and never put in the journal.",
        "EMS-STEP-06 AMQP-ACC-02 STOMP-ACK-05",
        fault="kill",
        # Two consumers may take turns, and one of them never has an even number.
        stores_removal=lambda number: number % SEVENTH != 0,
    ),
    "loses-the-oldest": _lie(
        "A start does not take over the oldest message of each queue.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07 EXPECT-STALE-01",
        fault="kill",
        takes_over=lambda place, _count: place > 0,
    ),
    "refuses-to-start-with-messages": _lie(
        "A start on a journal that holds messages ends with an error, each time.",
        "EXPECT-RECOVER-01",
        fault="kill",
        starts_with=lambda messages: messages == 0,
    ),
    "ends-at-the-first-consumer-after-recovery": _lie(
        "A broker that took messages over from its journal starts, and ends with an error when a consumer subscribes.",
        "EXPECT-RECOVER-01",
        fault="kill",
        outlives_consumers=lambda messages: messages == 0,
    ),
    "loses-the-last-batch": _lie(
        "A start does not take over the newest ten messages of each queue.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        takes_over=lambda place, count: place < count - TENTH,
    ),
    "stuck-after-recovery": _lie(
        "Messages that a start recovers are counted in the depth, and never delivered.",
        "EMS-STEP-03",
        fault="kill",
        hides_recovered=True,
    ),
    "late-after-recovery": _lie(
        "Messages that a start finds in the journal are neither counted nor delivered before the next start.",
        "EMS-STEP-03",
        fault="kill",
        recovers_late=True,
    ),
    # Liars about the answer to a send: late, never, twice, or for another.
    "drops-every-tenth-send": _lie(
        "Every tenth message of a queue is confirmed, and kept nowhere.",
        "EXPECT-KEPT-01",
        copies=lambda number: 0 if number % TENTH == 0 else 1,
    ),
    "never-answers-one-send": _lie(
        "Stores every message and never answers the 50th send after the start.",
        "EMS-STEP-02 STOMP-RCPT-01 SOLPUB-ACK-01",
        answers=lambda send: send != PERIOD // 2,
    ),
    "accepts-then-rejects": _lie(
        "Every 100th send is stored and accepted, and afterwards rejected.",
        "AMQP-STATE-01",
        retracts=lambda send: send % PERIOD == 0,
    ),
    "answers-every-hundredth-frame-twice": _lie(
        "Every 100th frame that asks for a receipt gets two.",
        "STOMP-RCPT-02",
        receipts=lambda frame: 2 if frame % PERIOD == 0 else 1,
    ),
    "stores-what-it-rejects": _lie(
        "A message that is refused, for example because its queue is full, is stored all the same.",
        "AMQP-REF-01",
        stores_refused=True,
    ),
    # Liars about what a consumer is sent: which messages, in which order, how often, and how they are marked.
    "skips-every-hundredth-delivery": _lie(
        "Every 100th message of a queue is counted in its depth, and never delivered.",
        "EMS-STEP-03",
        hides=lambda number: number % PERIOD == 0,
    ),
    "counts-from-one": _lie(
        "The delivery-count is one too high.", "AMQP-HDR-01", delivery_count=lambda failures: failures + 1
    ),
    "always-first-acquirer": _lie(
        "The first-acquirer flag is true on every delivery.",
        "AMQP-HDR-02",
        fault="consumer_crash",
        first_acquirer=lambda _first: True,
    ),
    "never-marks-redelivered": _lie(
        "The delivery-count is always 0, and the redelivered mark is never set.",
        "EMS-DUPS-05",
        fault="consumer_crash",
        marks_redelivered=False,
    ),
    "requeues-settled": _lie(
        "A message that is sent settled is kept, and offered again when its link ends.",
        "EMS-NOACK-01 QPID-NOACK-02 AMQP-SETTLE-01 STOMP-AUTO-01",
        fault="consumer_crash",
        keeps_settled=True,
    ),
    "ignores-prefetch": _lie(
        "A subscription with prefetch-count is sent as much as there is.",
        "QPID-CLIENT-04",
        prefetch_limit=lambda _asked: 1000000,
    ),
    "never-refills-prefetch": _lie(
        "A subscription with prefetch-count gets that many messages, and none after an acknowledgement.",
        "QPID-CLIENT-05",
        refills=False,
    ),
    "stores-every-hundredth-twice": _lie(
        "Every 100th message of a queue is stored twice, with one confirm.",
        "AMQP-ACC-02 STOMP-ACK-05 JMS-ACK-01 EXPECT-TWICE-01",
        copies=lambda number: 2 if number % PERIOD == 0 else 1,
    ),
    "gives-a-message-to-two-consumers": _lie(
        "Every tenth message of a queue is sent to a second consumer as well, where one has credit.",
        "AMQP-ACQ-01 EXPECT-OWNER-01",
        gives_twice=lambda number: number % TENTH == 0,
    ),
    "swaps-two-of-a-hundred": _lie(
        "Of each hundred messages of a queue the 50th and the 51st change places.",
        "JMS-ORDER-01 EXPECT-ORDER-01",
        numbered=_swapped,
    ),
    "corrupts-a-body": _lie(
        "The last byte of every 100th message of a queue is another when it is delivered.",
        "AMQP-BARE-01 EXPECT-BODY-01",
        body=_corrupted,
    ),
    "cuts-large-messages": _lie(
        "The last 32,768 bytes of a message of more than 100,000 bytes are zeros when it is delivered.",
        "AMQP-BARE-01 EXPECT-BODY-01",
        body=_cut,
    ),
    "renames-a-message": _lie(
        "Every 100th message of a queue is delivered under the id of one that was never sent.",
        "EXPECT-SENT-01",
        body=lambda number, bare: bare if number % PERIOD else bare.replace(b"p1:", b"p9:"),
    ),
    "forgets-after-half-a-second": _lie(
        "A message without a time to live is dropped, durably, half a second after it came.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="pause",
        lives_ms=lambda ttl_ms: ttl_ms or 500,
    ),
    "forgets-after-a-second": _lie(
        "A message without a time to live is dropped, durably, a second after it came; one that is delivered, later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07 EXPECT-STALE-01",
        fault="kill",
        lives_ms=lambda ttl_ms: ttl_ms or 1000,
    ),
    # Liars about what an outcome does.
    "removes-when-sending": _lie(
        "A message is removed, durably, when it is sent to a consumer and not when it is acknowledged.",
        "EMS-STEP-04 SOLCD-ACK-01 AMQP-SETTLE-02 STOMP-ACK-03",
        fault="consumer_crash",
        removes_when_sending=True,
    ),
    "acknowledge-takes-later": _lie(
        "An acknowledgement also removes what the same link was sent after the acknowledged delivery.",
        "EMS-CLIENT-02",
        fault="consumer_crash",
        acknowledged_with=lambda held, tag: [other for other in held if other >= tag],
    ),
    "forgets-every-hundredth-acknowledgement": _lie(
        "Answers the first acknowledgement of every 100th message of a queue, keeps it, and delivers it again later.",
        "AMQP-ACC-01",
        fault="consumer_crash",
        forgets=lambda number, failures: number % PERIOD == 0 and (not failures),
    ),
    "drops-released": _lie(
        "A released message is removed.", "AMQP-REL-01", applied=_takes(_Event.RELEASED, _Event.ACCEPTED)
    ),
    "counts-releases": _lie(
        "A release makes the delivery-count one higher.", "AMQP-REL-02", applied=_takes(_Event.RELEASED, _Event.FAILED)
    ),
    "never-counts-failures": _lie(
        "The outcome modified with delivery-failed does not make the delivery-count higher.",
        "AMQP-MOD-01",
        applied=_takes(_Event.FAILED, _Event.MODIFIED),
    ),
    "ignores-undeliverable-here": _lie(
        "A message may be delivered again to a link that said undeliverable-here.", "AMQP-MOD-02", bars_refusers=False
    ),
    "client-ack-is-individual": _lie(
        "An ACK on a subscription with ack:client covers only the message it names.",
        "STOMP-ACK-01",
        fault="consumer_crash",
        covers_earlier=lambda _cumulative: False,
    ),
    "individual-ack-is-cumulative": _lie(
        "An ACK on a subscription with ack:client-individual covers the earlier messages too.",
        "STOMP-ACK-02",
        fault="consumer_crash",
        covers_earlier=lambda _cumulative: True,
    ),
    "drops-failed": _lie(
        "A message is removed when its consumer says that it failed: modified with delivery-failed, or NACK.",
        "AMQP-MOD-03 EXPECT-MOVED-01",
        applied=_takes(_Event.FAILED, _Event.ACCEPTED),
    ),
    "loses-half-a-prefetch": _lie(
        "When a connection ends, every second message that its consumer held is removed, durably.",
        "EMS-STEP-04",
        fault="consumer_crash",
        drops_abandoned=lambda number: number % 2 == 0,
    ),
    # Liars about transactions.
    "delivers-before-commit": _lie(
        "A message sent in a transaction is stored and offered at once; the commit only answers.",
        "AMQP-TX-01 STOMP-TX-01",
        holds_sends=False,
    ),
    "acknowledges-before-commit": _lie(
        "An outcome given in a transaction is applied at once; a rollback does not bring it back.",
        "AMQP-TX-02 STOMP-TX-02 AMQP-TX-06 STOMP-TX-04",
        holds_outcomes=False,
    ),
    "commits-when-link-closes": _lie(
        "A transaction without a discharge is committed when its control link or connection ends.",
        "AMQP-TX-01 AMQP-TX-03 STOMP-TX-03",
        fault="cut",
        commits_abandoned=True,
    ),
    "refuses-rollbacks": _lie(
        "A rollback is answered with an error: rejected over AMQP, ERROR over STOMP.",
        "AMQP-TX-04",
        refuses_rollbacks=True,
    ),
    "recovers-half-a-transaction": _lie(
        "A commit puts the first half of the transaction's sends on disk and the rest in memory only.",
        "ARTEMIS-TX-09",
        fault="kill",
        stores_send=lambda place, count, _: place < (count + 1) // 2,
    ),
    "commits-one-queue": _lie(
        "A commit puts the sends to the transaction's first queue on disk and the rest in memory only.",
        "ARTEMIS-TX-09",
        fault="kill",
        stores_send=lambda _, __, first_queue: first_queue,
    ),
    "commits-rollbacks": _lie(
        "A rollback is answered, and the messages sent in its transaction are stored and delivered.",
        "AMQP-TX-01 STOMP-TX-01",
        commits_rollbacks=True,
    ),
    "hides-refusals-in-transactions": _lie(
        "A refused send of a transaction is answered as accepted, and the commit is answered and leaves it out.",
        "AMQP-TX-05 STOMP-TX-01",
        hides_refusals_in_transactions=True,
    ),
    "refuses-outside-the-transaction": _lie(
        "A refused send of a transaction is answered as one of no transaction, and the rest is committed. AMQP only.",
        "AMQP-TX-05",
        refuses_in_transactions=False,
    ),
    "mistakes-duplicate-ids": _lie(
        "After a start, a message whose duplicate id was stored is stored again, and one with a new id is left out.",
        "EXPECT-ONCE-01",
        fault="kill",
        mistakes_recovered_ids=True,
    ),
    "commits-half-of-its-acknowledgements": _lie(
        "A commit puts the first half of the transaction's outcomes on disk and the rest in memory only.",
        "AMQP-TX-06 STOMP-TX-04",
        fault="kill",
        stored_outcomes=lambda count: count // 2,
    ),
    # Liars under a profile: publish windows and lazy acknowledgements (docs/reference-profiles.md).
    "confirms-by-timer-only": _lie(
        "A publish window is confirmed once a second, however much of it is stored.",
        "SOLPUB-THR-01",
        needs="solace",
        confirm_share=1 << 30,
    ),
    "confirms-by-threshold-only": _lie(
        "Less than a third of a publish window is never confirmed.",
        "SOLPUB-THR-02",
        needs="solace",
        confirms_after_a_second=False,
    ),
    "takes-a-threshold-setting": Lie(
        "There is a setting `publish_threshold`: so many stored sends make a confirm due, and not a third.",
        ("SOLPUB-THR-03",),
        "none",
        "solace",
        {},
        ThresholdSetting,
    ),
    "ignores-ack-immediately": _lie(
        "A send with Ack Immediately waits for the third of its window, or the second, as any other.",
        "SOLPUB-IMM-01",
        needs="solace",
        confirms_at_once=False,
    ),
    "confirms-immediate-before-storing": _lie(
        "A send with Ack Immediately is answered first; its record goes to the journal half a second later.",
        "SOLPUB-IMM-02",
        fault="kill",
        needs="solace",
        answered=_answers(Asked.URGENT_SEND, Answered.LAZY),
    ),
    "range-covers-unstored": _lie(
        "A confirm of a publish window covers all that has arrived, stored or not.",
        "SOLPUB-EVT-02",
        fault="kill",
        needs="solace",
        covers_unstored=True,
    ),
    "range-hides-refusal": _lie(
        "A refused send in a publish window gets no answer of its own: the next confirm covers it.",
        "SOLPUB-EVT-04",
        needs="solace",
        covers_refused=True,
    ),
    "never-reopens-window": _lie(
        "A confirm gives no credit back: a peer may send one publish window, and no more. AMQP only.",
        needs="solace",
        reopens_windows=False,
    ),
    "refuses-out-of-order-acknowledgements": _lie(
        "Acknowledging a delivery while an earlier one is open is refused: released over AMQP, ERROR over STOMP.",
        "EMS-EXPL-02",
        needs="ems",
        takes_any_order=False,
    ),
    "refuses-acknowledgements-after-a-commit": _lie(
        "Once acknowledgements of a subscription were committed, its next one is refused with an ERROR. STOMP only.",
        "EXPECT-ACK-01",
        takes_after_commit=False,
    ),
    "explicit-acknowledge-takes-earlier": _lie(
        "An acknowledgement also removes what its link was sent before, in every acknowledgement mode.",
        "EMS-EXPL-01",
        fault="consumer_crash",
        needs="ems",
        acknowledged_with=lambda held, tag: [other for other in held if other <= tag],
    ),
    "lazy-acknowledge-takes-neighbours": _lie(
        "A lazy acknowledgement also removes the delivery after its own.",
        "EMS-EXDUP-02",
        fault="consumer_crash",
        needs="ems",
        acknowledged_lazily_with=lambda held, tag: [other for other in held if tag <= other <= tag + 1],
    ),
}
"""The liars by the name that `--liar` takes."""

FAMILIES: dict[str, Callable[[int], Lie]] = {
    # Liars whose defect has a size: the N in the name. `python -m benchmarks power` measures how often a kill shows it.
    "confirms-N-ms-before-storing": lambda n: _lie(
        "A send is answered first; its record goes to the journal N ms later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="kill",
        answered=_answers(Asked.SEND, n / 1000),
    ),
    "commits-N-ms-before-storing": lambda n: _lie(
        "A commit is answered first; its record goes to the journal N ms later.",
        "SOLCD-TX-02",
        fault="kill",
        answered=_answers(Asked.COMMIT, n / 1000),
    ),
    "acknowledges-N-ms-before-storing": lambda n: _lie(
        "An acknowledgement is answered first; the removal goes to the journal N ms later.",
        "EMS-STEP-06 AMQP-ACC-02 STOMP-ACK-05",
        fault="kill",
        answered=_answers(Asked.ACKNOWLEDGEMENT, n / 1000),
    ),
    "commits-in-two-halves-N-ms-apart": lambda n: _lie(
        "A commit is two records of the journal, N ms apart; a start between them takes the first half for a commit.",
        "ARTEMIS-TX-09",
        fault="kill",
        splits_commits_s=n / 1000,
    ),
    "loses-at-one-in-N-kills": lambda n: _lie(
        "A start after a kill drops, with the chance 1/N, the newer half of the messages of each queue.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07 SOLCD-TX-02",
        fault="kill",
        recovers=partial(_recovers, one_in=n),
    ),
}
"""The liars with a number, by their names with an N in its place: a whole number from 1 to 999999."""


def find(name: str) -> Lie:
    """Return the row of a liar, `confirms-10-ms-before-storing` among them. Raises `UsageError` for another name.

    >>> find("confirms-10-ms-before-storing").behaviour().answered(Asked.SEND, 1, False)
    0.01
    """
    for family, make in FAMILIES.items():
        if found := re.fullmatch(family.replace("N", "([1-9][0-9]{0,5})"), name):
            return make(int(found[1]))
    if name not in LIARS:
        raise UsageError.unknown("liar", name, names())
    return LIARS[name]


def names() -> list[str]:
    return [*LIARS, *FAMILIES]


def behaviour(name: str | None) -> Honest:
    """Return the behaviour for `--liar NAME`, the honest one for None. Raises `UsageError` for an unknown name."""
    return Honest() if name is None else find(name).behaviour()


def rows() -> dict[str, Lie]:
    """Return every row by the name that people read; a family has its N."""
    return LIARS | {name: make(1) for name, make in FAMILIES.items()}


def described() -> str:
    return "\n".join(f"  {name}\n      {lie.does}" for name, lie in rows().items())


def table() -> str:
    lines = ["| liar | what it does | claims it breaks | shown by | profile |", "|---|---|---|---|---|"]
    for name, lie in rows().items():
        lines.append(f"| `{name}` | {lie.does} | {' '.join(lie.breaks) or 'none'} | {lie.fault} | {lie.needs} |")
    return "\n".join(lines)
