"""Liars about the answer to a send, about what a consumer is sent, and about what its outcome does."""

from __future__ import annotations

from conformance.reference.core.queues import USUAL_RANK
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.honest import Lie
from conformance.reference.liars.lie import PERIOD, TENTH, lie, takes

LARGE, FRAME = 100_000, 32_768
"""Bytes of a large message, and of the part of it that is lost."""

BREAKS_AT, NO_FRAME = 10, b"\xff" * 63 + b"\0"


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
        "confirmed_nowhere lost_committed",
        copies=lambda number: 0 if number % TENTH == 0 else 1,
    ),
    "never-answers-one-send": lie(
        "Never answers the 50th send after the start, which is stored; over AMQP it may also be one that is refused.",
        "unanswered_send",
        answers=lambda send: send != PERIOD // 2,
    ),
    "ends-at-a-send": lie(
        "The 150th send after a start ends the broker with an error.",
        "not_alive",
        outlives_send=lambda send: send != PERIOD + PERIOD // 2,
    ),
    "breaks-the-protocol": lie(
        "The tenth time that a connection writes, bytes come first that are no frame of any protocol.",
        "not_alive",
        fault="consumer_crash",  # before it
        written=lambda turn, data: data if turn != BREAKS_AT else NO_FRAME + data,
    ),
    "accepts-then-rejects": lie(
        "Every 100th send is stored and accepted, and afterwards rejected.",
        "outcome_changed",
        retracts=lambda send: send % PERIOD == 0,
    ),
    "answers-every-hundredth-frame-twice": lie(
        "Every 100th frame that asks for a receipt gets two; over AMQP 0-9-1 every 100th confirm comes twice.",
        "receipt_untrue",
        receipts=lambda frame: 2 if frame % PERIOD == 0 else 1,
    ),
    "stores-what-it-rejects": lie(
        "A message that is refused, for example because its queue is full, is stored all the same.",
        "refused_delivered",
        stores_refused=True,
    ),
    "stays-full-once-full": lie(
        "A queue that has refused a message refuses every one from then on.",
        "refused_with_room",
        stays_full=True,
    ),
    # Liars about what a consumer is sent: which messages, in which order, how often, and how they are marked.
    "skips-every-hundredth-delivery": lie(
        "Every 100th message of a queue is counted, and never delivered; an MQTT session waits for it.",
        "stuck",
        hides=lambda number: number % PERIOD == 0,
    ),
    "ignores-selectors": lie(
        "A selector is taken, and its consumer is sent every message.",
        "unselected",
        selects_by=lambda _selector: None,
    ),
    "matches-nothing-after-not": lie(
        "A selector that begins with NOT, without parentheses before its AND, matches no message.",
        "overlooked",
        selects_by=lambda selector: selector._replace(value=lambda _: False) if selector.negates else selector,
    ),
    "drops-what-selectors-pass-over": lie(
        "A message that the selector of a consumer passes over is removed, durably.",
        "confirmed_nowhere given_back_nowhere lost_unacknowledged",
        drops_unselected=True,
    ),
    "counts-from-one": lie(
        "The delivery-count is one too high.", "counted_at_first", delivery_count=lambda failures: failures + 1
    ),
    "always-first-acquirer": lie(
        "The first-acquirer flag is true on every delivery.",
        "first_acquirer_twice",
        fault="consumer_crash",
        first_acquirer=lambda _first: True,
    ),
    "never-marks-redelivered": lie(
        "The delivery-count is always 0, and the redelivered mark is never set.",
        "unmarked failure_unmarked",
        fault="consumer_crash",
        marks_redelivered=False,
    ),
    "requeues-settled": lie(
        "A message that is sent settled is kept, and offered again when its link ends.",
        "settled_again",
        fault="consumer_crash",
        keeps_settled=True,
    ),
    "drops-some-of-what-it-sends-settled": lie(
        "Every tenth message that a link is to get settled is removed, durably, and never sent.",
        "unsent_gone",
        sends_settled=lambda number: number % TENTH != 0,
    ),
    "empties-a-queue-without-consumers": lie(
        "When the last consumer of a queue leaves, its messages are removed, durably.",
        "lost",
        empties_left=True,
    ),
    "ignores-prefetch": lie(
        "A subscription with prefetch-count, or a consumer under basic.qos, is sent as much as there is.",
        "over_prefetch",
        prefetch_limit=lambda _asked: 1000000,
    ),
    "never-refills-prefetch": lie(
        "A subscription with prefetch-count, or a consumer under basic.qos, gets that many messages, and no more.",
        "starved",
        refills=False,
    ),
    "stores-every-hundredth-twice": lie(
        "Every 100th message of a queue is stored twice, with one confirm.",
        "delivered_twice drained_twice not_once",
        copies=lambda number: 2 if number % PERIOD == 0 else 1,
    ),
    "gives-a-message-to-two-consumers": lie(
        "Every tenth message of a queue is sent to a second consumer as well, where one has credit.",
        "two_owners",
        gives_twice=lambda number: number % TENTH == 0,
    ),
    "swaps-two-of-a-hundred": lie(
        "Of each hundred messages of a queue the 50th and the 51st change places.",
        "overtaken",
        numbered=_swapped,
    ),
    "corrupts-a-body": lie(
        "The last byte of every 100th message of a queue is another when it is delivered.",
        "corrupt",
        body=_corrupted,
    ),
    "cuts-large-messages": lie(
        "The last 32,768 bytes of a message of more than 100,000 bytes are zeros when it is delivered.",
        "corrupt",
        body=_cut,
    ),
    "changes-correlation-ids": lie(
        "A correlation-id of bytes is a string when it is delivered.",
        "corrupt",
        body=lambda _number, bare: bare.replace(b"@@@\xa0", b"@@@\xa1", 1),  # after three fields without a value
    ),
    "turns-true-to-false": lie(
        "A property that is true is false when it is delivered; the text `true` of STOMP is in capital letters.",
        "corrupt",
        body=lambda _, bare: bare.replace(b"truth\x41", b"truth\x42", 1).replace(b"\xa1\x04true", b"\xa1\x04TRUE", 1),
    ),
    "delivers-in-the-order-of-sends": lie(
        "A message of a high priority is delivered after all that came before it.",
        "outranked",
        rank=lambda _priority: USUAL_RANK,
    ),
    "gives-back-in-reverse": lie(
        "What a consumer held at its end comes again in reverse order.",
        "reordered_by_rollback",
        turns_abandoned=True,
    ),
    "forgets-priorities-at-a-start": lie(
        "A message that a start takes over has no priority any more.",
        "corrupt",
        fault="stop",
        restores=lambda rest: b"\x40" + rest[2:] if rest[:1] == b"\x50" else rest,
    ),
    "renames-a-message": lie(
        "Every 100th message of a queue is delivered under the id of one that was never sent.",
        "phantom",
        body=lambda number, bare: bare if number % PERIOD else bare.replace(b"p1:", b"p9:"),
    ),
    "forgets-after-half-a-second": lie(
        "A message without a time to live is dropped, durably, half a second after it came.",
        "lost",
        fault="pause",
        lives_ms=lambda ttl_ms: ttl_ms or 500,
    ),
    "counts-milliseconds-as-nanoseconds": lie(
        "A time to live is over after a millionth of it: that of an hour after 4 milliseconds.",
        "confirmed_nowhere",
        lives_ms=lambda ttl_ms: ttl_ms and max(1, ttl_ms // 1000000),
    ),
    "ends-long-lives-at-once": lie(
        "A time to live of 2^31 milliseconds or more, some 25 days, is over at once.",
        "confirmed_nowhere",
        lives_ms=lambda ttl_ms: ttl_ms if ttl_ms < 1 << 31 else 1,
    ),
    "never-expires": lie(
        "A message is delivered also after its time to live.",
        "delivered_expired",
        lives_ms=lambda _ttl_ms: 0,
    ),
    "delivers-before-the-time": lie(
        "A message that names its delivery time is delivered at once.",
        "delivered_early",
        due_ms=lambda _due_ms, _recovered: 0,
    ),
    "forgets-delivery-times-at-a-start": lie(
        "A message that names its delivery time, and that a start takes over, is delivered at once.",
        "delivered_early",
        fault="stop",
        due_ms=lambda due_ms, recovered: 0 if recovered else due_ms,
    ),
    "takes-an-acknowledgement-of-nothing": lie(
        "A basic.ack of what was not delivered, or a second time, has no effect. AMQP 0-9-1 only.",
        "denied",
        knows_tags=False,
    ),
    "commits-without-transactions": lie(
        "A tx.commit on a channel without tx.select is answered. AMQP 0-9-1 only.",
        "denied",
        wants_select=False,
    ),
    "hides-from-every-hundredth-get": lie(
        "Every 100th basic.get finds the queue empty. AMQP 0-9-1 only.",
        "denied",
        finds=lambda number: number % PERIOD != 0,
    ),
    "makes-any-queue": lie(
        "A queue is made for the client that names it, although none may be made.",
        "confirmed_without_queue",
        makes_any_queue=True,
    ),
    "confirms-without-returning": lie(
        "A mandatory message that has no queue is confirmed and not returned. AMQP 0-9-1 only.",
        "confirmed_without_queue",
        returns_unroutable=False,
    ),
    "drops-expired": lie(
        "A message is removed when its time to live is over, also if its queue has another for such messages.",
        "expired_nowhere",
        keeps_expired=False,
    ),
    # Liars about what an outcome does.
    "removes-when-sending": lie(
        "A message is removed, durably, when it is sent to a consumer and not when it is acknowledged.",
        "lost_unacknowledged gone",
        fault="consumer_crash",
        removes_when_sending=True,
    ),
    "acknowledge-takes-later": lie(
        "An acknowledgement also removes what the same link was sent after the acknowledged delivery.",
        "gone_after_acknowledge",
        fault="consumer_crash",
        acknowledged_with=lambda held, tag: [other for other in held if other >= tag],
    ),
    "forgets-every-hundredth-acknowledgement": lie(
        "Answers the first acknowledgement of every 100th message of a queue, keeps it, and delivers it again later.",
        "delivered_after_acknowledgement",
        fault="consumer_crash",
        forgets=lambda number, failures: number % PERIOD == 0 and (not failures),
    ),
    "drops-released": lie(
        "A released message is removed; over AMQP 0-9-1 also one that is given back by basic.recover.",
        "released_gone failed_gone",
        applied=takes(SettlementEvent.RELEASED, SettlementEvent.ACCEPTED),
    ),
    "requeues-rejected": lie(
        "A rejected message is in its queue again.",
        "rejected_again",
        applied=takes(SettlementEvent.REJECTED, SettlementEvent.RELEASED),
    ),
    "counts-releases": lie(
        "A release makes the delivery-count one higher.",
        "release_counted",
        applied=takes(SettlementEvent.RELEASED, SettlementEvent.FAILED),
    ),
    "never-counts-failures": lie(
        "The outcome modified with delivery-failed does not make the delivery-count higher.",
        "failure_uncounted",
        applied=takes(SettlementEvent.FAILED, SettlementEvent.MODIFIED),
    ),
    "ignores-undeliverable-here": lie(
        "A message may be delivered again to a link that said undeliverable-here.",
        "undeliverable_again",
        bars_refusers=False,
    ),
    "client-ack-is-individual": lie(
        "An ACK on a subscription with ack:client, or a basic.ack with multiple, covers only the message it names.",
        "delivered_after_acknowledgement",
        fault="consumer_crash",
        covers_earlier=lambda _cumulative: False,
    ),
    "individual-ack-is-cumulative": lie(
        "An ACK on a subscription with ack:client-individual, or a basic.ack, covers the earlier messages too.",
        "gone",
        fault="consumer_crash",
        covers_earlier=lambda _cumulative: True,
    ),
    "nack-acknowledges-earlier": lie(
        "A NACK on any subscription acknowledges the earlier messages that are open. STOMP only.",
        "gone",
        fault="consumer_crash",
        nack_takes_earlier=True,
    ),
    "acknowledges-for-another-receiver": lie(
        "An acknowledgement removes not its own delivery, but the oldest of another receiver of the connection.",
        "delivered_after_acknowledgement gone delivered_after_restart",
        mixes_receivers_up=True,
    ),
    "forgets-absent-subscribers": lie(
        "A durable subscription gets nothing of what is sent to its topic while its client is away.",
        "lost_unacknowledged",
        fault="kill",
        serves_absent=False,
    ),
    "drops-failed": lie(
        "A message is removed when its consumer says that it failed: modified with delivery-failed, or NACK.",
        "failed_gone given_back_nowhere",
        applied=takes(SettlementEvent.FAILED, SettlementEvent.ACCEPTED),
    ),
    "dead-letters-at-once": lie(
        "When a connection ends, what its consumer held goes to the dead-letter queue, with any limit.",
        "set_aside_early",
        fault="consumer_crash",
        applied=takes(SettlementEvent.ABANDONED, SettlementEvent.REJECTED),
    ),
    "loses-half-a-prefetch": lie(
        "When a connection ends, every second message that its consumer held is removed, durably.",
        "given_back_nowhere lost",
        fault="consumer_crash",
        drops_abandoned=lambda number, _stopping: number % 2 == 0,
    ),
    "drops-held-deliveries-when-stopped": lie(
        "An orderly stop removes, durably, what consumers hold unacknowledged.",
        "lost_unacknowledged",
        fault="stop",
        drops_abandoned=lambda _number, stopping: stopping,
    ),
}
