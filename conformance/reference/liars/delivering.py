"""Liars about the answer to a send, about what a consumer is sent, and about what its outcome does."""

from __future__ import annotations

from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.honest import Lie
from conformance.reference.liars.lie import PERIOD, TENTH, lie, takes

LARGE, FRAME = 100_000, 32_768
"""Bytes of a large message, and of the part of it that is lost."""


def _swapped(number: int) -> int:
    return {PERIOD // 2: number + 1, PERIOD // 2 + 1: number - 1}.get(number % PERIOD, number)


def _corrupted(number: int, bare: bytes) -> bytes:
    return bare if number % PERIOD or not bare else bare[:-1] + bytes((bare[-1] ^ 1,))


def _cut(_number: int, bare: bytes) -> bytes:
    return bare if len(bare) <= LARGE else bare[:-FRAME] + bytes(FRAME)


DELIVERING: dict[str, Lie] = {
    # Liars about the answer to a send: late, never, twice, or for another.
    "drops-every-tenth-send": lie(
        "Every tenth message of a queue is confirmed, and kept nowhere.",
        "EXPECT-KEPT-01 RMQ-AMQP-02 RMQ-STOMP-02",
        copies=lambda number: 0 if number % TENTH == 0 else 1,
    ),
    "never-answers-one-send": lie(
        "Stores every message and never answers the 50th send after the start.",
        "EMS-STEP-02 STOMP-RCPT-01 SOLPUB-ACK-01",
        answers=lambda send: send != PERIOD // 2,
    ),
    "accepts-then-rejects": lie(
        "Every 100th send is stored and accepted, and afterwards rejected.",
        "AMQP-STATE-01",
        retracts=lambda send: send % PERIOD == 0,
    ),
    "answers-every-hundredth-frame-twice": lie(
        "Every 100th frame that asks for a receipt gets two.",
        "STOMP-RCPT-02",
        receipts=lambda frame: 2 if frame % PERIOD == 0 else 1,
    ),
    "stores-what-it-rejects": lie(
        "A message that is refused, for example because its queue is full, is stored all the same.",
        "AMQP-REF-01",
        stores_refused=True,
    ),
    # Liars about what a consumer is sent: which messages, in which order, how often, and how they are marked.
    "skips-every-hundredth-delivery": lie(
        "Every 100th message of a queue is counted in its depth, and never delivered.",
        "EMS-STEP-03",
        hides=lambda number: number % PERIOD == 0,
    ),
    "ignores-selectors": lie(
        "A selector is taken, and its consumer is sent every message.",
        "EXPECT-SELECTED-01",
        ignores_selectors=True,
    ),
    "drops-what-selectors-pass-over": lie(
        "A message that the selector of a consumer passes over is removed, durably.",
        "EXPECT-KEPT-01 EXPECT-MOVED-01",
        drops_unselected=True,
    ),
    "counts-from-one": lie(
        "The delivery-count is one too high.", "AMQP-HDR-01", delivery_count=lambda failures: failures + 1
    ),
    "always-first-acquirer": lie(
        "The first-acquirer flag is true on every delivery.",
        "AMQP-HDR-02",
        fault="consumer_crash",
        first_acquirer=lambda _first: True,
    ),
    "never-marks-redelivered": lie(
        "The delivery-count is always 0, and the redelivered mark is never set.",
        "EMS-DUPS-05 RMQ-REDEL-01",
        fault="consumer_crash",
        marks_redelivered=False,
    ),
    "requeues-settled": lie(
        "A message that is sent settled is kept, and offered again when its link ends.",
        "EMS-NOACK-01 QPID-NOACK-02 AMQP-SETTLE-01 STOMP-AUTO-01 RMQ-AUTO-01",
        fault="consumer_crash",
        keeps_settled=True,
    ),
    "drops-some-of-what-it-sends-settled": lie(
        "Every tenth message that a link is to get settled is removed, durably, and never sent.",
        "EXPECT-KEPT-01",
        sends_settled=lambda number: number % TENTH != 0,
    ),
    "empties-a-queue-without-consumers": lie(
        "When the last consumer of a queue leaves, its messages are removed, durably.",
        "SOLCD-ACK-01",
        empties_left=True,
    ),
    "ignores-prefetch": lie(
        "A subscription with prefetch-count is sent as much as there is.",
        "QPID-CLIENT-04 CLASSIC-PRE-01 RMQ-PRE-01",
        prefetch_limit=lambda _asked: 1000000,
    ),
    "never-refills-prefetch": lie(
        "A subscription with prefetch-count gets that many messages, and none after an acknowledgement.",
        "QPID-CLIENT-05",
        refills=False,
    ),
    "stores-every-hundredth-twice": lie(
        "Every 100th message of a queue is stored twice, with one confirm.",
        "AMQP-ACC-02 STOMP-ACK-05 JMS-ACK-01 EXPECT-TWICE-01",
        copies=lambda number: 2 if number % PERIOD == 0 else 1,
    ),
    "gives-a-message-to-two-consumers": lie(
        "Every tenth message of a queue is sent to a second consumer as well, where one has credit.",
        "AMQP-ACQ-01 EXPECT-OWNER-01 CLASSIC-QUEUE-02",
        gives_twice=lambda number: number % TENTH == 0,
    ),
    "swaps-two-of-a-hundred": lie(
        "Of each hundred messages of a queue the 50th and the 51st change places.",
        "JMS-ORDER-01 EXPECT-ORDER-01 CLASSIC-ORDER-01 RMQ-ORDER-01",
        numbered=_swapped,
    ),
    "corrupts-a-body": lie(
        "The last byte of every 100th message of a queue is another when it is delivered.",
        "AMQP-BARE-01 EXPECT-BODY-01",
        body=_corrupted,
    ),
    "cuts-large-messages": lie(
        "The last 32,768 bytes of a message of more than 100,000 bytes are zeros when it is delivered.",
        "AMQP-BARE-01 EXPECT-BODY-01",
        body=_cut,
    ),
    "changes-correlation-ids": lie(
        "A correlation-id of bytes is a string when it is delivered.",
        "AMQP-BARE-01",
        body=lambda _number, bare: bare.replace(b"@@@\xa0", b"@@@\xa1", 1),  # after three fields without a value
    ),
    "renames-a-message": lie(
        "Every 100th message of a queue is delivered under the id of one that was never sent.",
        "EXPECT-SENT-01",
        body=lambda number, bare: bare if number % PERIOD else bare.replace(b"p1:", b"p9:"),
    ),
    "forgets-after-half-a-second": lie(
        "A message without a time to live is dropped, durably, half a second after it came.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07",
        fault="pause",
        lives_ms=lambda ttl_ms: ttl_ms or 500,
    ),
    "forgets-after-a-second": lie(
        "A message without a time to live is dropped, durably, a second after it came; one that is delivered, later.",
        "SOLCD-ACK-01 AMQP-DUR-01 ARTEMIS-SEND-07 EXPECT-STALE-01",
        fault="kill",
        lives_ms=lambda ttl_ms: ttl_ms or 1000,
    ),
    "counts-milliseconds-as-nanoseconds": lie(
        "A time to live is over after a millionth of it: that of an hour after 4 milliseconds.",
        "EXPECT-EXPIRED-01",
        lives_ms=lambda ttl_ms: ttl_ms and max(1, ttl_ms // 1000000),
    ),
    "never-expires": lie(
        "A message is delivered also after its time to live.",
        "EXPECT-EXPIRED-02",
        lives_ms=lambda _ttl_ms: 0,
    ),
    "drops-expired": lie(
        "A message is removed when its time to live is over, also if its queue has another for such messages.",
        "EXPECT-EXPIRED-03",
        keeps_expired=False,
    ),
    # Liars about what an outcome does.
    "removes-when-sending": lie(
        "A message is removed, durably, when it is sent to a consumer and not when it is acknowledged.",
        "EMS-STEP-04 SOLCD-ACK-01 AMQP-SETTLE-02 STOMP-ACK-03 CLASSIC-QUEUE-01 RMQ-REQ-01 RMQ-REQ-02",
        fault="consumer_crash",
        removes_when_sending=True,
    ),
    "acknowledge-takes-later": lie(
        "An acknowledgement also removes what the same link was sent after the acknowledged delivery.",
        "EMS-CLIENT-02",
        fault="consumer_crash",
        acknowledged_with=lambda held, tag: [other for other in held if other >= tag],
    ),
    "forgets-every-hundredth-acknowledgement": lie(
        "Answers the first acknowledgement of every 100th message of a queue, keeps it, and delivers it again later.",
        "AMQP-ACC-01",
        fault="consumer_crash",
        forgets=lambda number, failures: number % PERIOD == 0 and (not failures),
    ),
    "drops-released": lie(
        "A released message is removed.",
        "AMQP-REL-01 RMQ-AMQP-03",
        applied=takes(SettlementEvent.RELEASED, SettlementEvent.ACCEPTED),
    ),
    "counts-releases": lie(
        "A release makes the delivery-count one higher.",
        "AMQP-REL-02",
        applied=takes(SettlementEvent.RELEASED, SettlementEvent.FAILED),
    ),
    "never-counts-failures": lie(
        "The outcome modified with delivery-failed does not make the delivery-count higher.",
        "AMQP-MOD-01",
        applied=takes(SettlementEvent.FAILED, SettlementEvent.MODIFIED),
    ),
    "ignores-undeliverable-here": lie(
        "A message may be delivered again to a link that said undeliverable-here.", "AMQP-MOD-02", bars_refusers=False
    ),
    "client-ack-is-individual": lie(
        "An ACK on a subscription with ack:client covers only the message it names.",
        "STOMP-ACK-01",
        fault="consumer_crash",
        covers_earlier=lambda _cumulative: False,
    ),
    "individual-ack-is-cumulative": lie(
        "An ACK on a subscription with ack:client-individual covers the earlier messages too.",
        "STOMP-ACK-02",
        fault="consumer_crash",
        covers_earlier=lambda _cumulative: True,
    ),
    "acknowledges-for-another-receiver": lie(
        "An acknowledgement removes not its own delivery, but the oldest of another receiver of the connection.",
        "AMQP-ACC-01 AMQP-ACC-02 STOMP-ACK-05 EMS-STEP-04",
        mixes_receivers_up=True,
    ),
    "forgets-absent-subscribers": lie(
        "A durable subscription gets nothing of what is sent to its topic while its client is away.",
        "SOLCD-ACK-01",
        fault="kill",
        serves_absent=False,
    ),
    "drops-failed": lie(
        "A message is removed when its consumer says that it failed: modified with delivery-failed, or NACK.",
        "AMQP-MOD-03 EXPECT-MOVED-01 EXPECT-SYNC-01 RMQ-STOMP-03 CLASSIC-DLQ-01",
        applied=takes(SettlementEvent.FAILED, SettlementEvent.ACCEPTED),
    ),
    "loses-half-a-prefetch": lie(
        "When a connection ends, every second message that its consumer held is removed, durably.",
        "EMS-STEP-04 EXPECT-MOVED-01",
        fault="consumer_crash",
        drops_abandoned=lambda number: number % 2 == 0,
    ),
}
