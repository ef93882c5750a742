"""What can go wrong with a delivery: its marks, its acknowledgement, and its refusal by the consumer."""

from __future__ import annotations

from conformance.history import RECEIVER_ENDED
from conformance.judge.anomalies.fates import is_fate
from conformance.judge.anomalies.model import Anomaly, UndrainedAnomaly

OWED = "(confirmed OR committed) AND durable"

# Of two consumers at once, one may wait because the other has prefetched everything.
_WITHHELD = (
    "coalesce(confirmed_at, committed_at) < starved_at AND received_at > starved_at AND delay_ms IS NULL"
    " AND (coalesce(one_consumer, true) OR shared_from >= shared_until)"
)

REFUSALS = (
    Anomaly(
        "released_gone",
        "A released message did not come again.",
        applies=f"released AND {OWED} AND settled",
        offends=is_fate("released_gone"),
        words="released messages are gone",
    ),
    Anomaly(
        "failed_gone",
        "A message that its consumer gave back as failed did not come again.",
        applies=f"failed AND {OWED} AND settled",
        offends=is_fate("failed_gone"),
        words="messages given back as failed are gone",
    ),
    Anomaly(
        "given_back_nowhere",
        """A message that its consumer gave back, and never acknowledged, is in no queue, and in no dead-letter queue.

        A broker may move it there after its last attempt. It may discard a rejected message (RabbitMQ does).
        """,
        applies="refused_at IS NOT NULL AND ack_sent_at IS NULL AND durable AND settled_anywhere"
        " AND gave_back_as IS DISTINCT FROM 'rejected'",
        offends="redelivered = 0 AND NOT set_aside",
        words="messages given back are in no queue",
    ),
    Anomaly(
        "unselected",
        "A consumer was handed a message that its selector does not match, although the broker took the selector.",
        applies="handed > 0",
        offends="unselected",
        words="messages delivered to a consumer whose selector does not match them",
    ),
    UndrainedAnomaly(
        "overlooked",
        "A consumer whose selector matches a message waited for the liveness bound, and a later one was given it.",
        applies="selective AND (confirmed OR committed)",
        offends=f"selected_before AND {_WITHHELD}",
        words="confirmed messages came only to a later consumer than the one whose selector matches them",
    ),
    Anomaly(
        "release_counted",
        "The next delivery of a released message to the same consumer carries a higher delivery count.",
        applies="refused_as = 'released' AND handed = 2 AND handed_on_one_link",
        offends="next_count > first_handed_count",
        words="released messages that came again with a higher delivery count",
    ),
    Anomaly(
        "failure_uncounted",
        "The next delivery of a failed message to the same consumer carries no higher delivery count.",
        applies="refused_as = 'failed' AND handed = 2 AND handed_on_one_link",
        offends="next_count <= first_handed_count",
        words="failed messages that came again with the same delivery count",
    ),
    Anomaly(
        "failure_unmarked",
        "The next delivery of a failed message to the same consumer is not marked as redelivered.",
        applies="refused_as = 'failed' AND handed = 2 AND handed_on_one_link",
        offends="NOT coalesce(next_marked, true)",
        words="failed messages that came again without the redelivered mark",
    ),
    Anomaly(
        "set_aside_early",
        """A confirmed message is in a dead-letter or expiry queue, and neither its consumers nor its age explain it.

        Its time to live was not over, no consumer gave it back, and none acknowledged it. An attempt limit that its
        deliveries may have reached excuses it.
        """,
        applies=f"{OWED} AND NOT expired AND settled_anywhere",
        offends=is_fate("set_aside_early"),
        words="messages set aside were neither expired nor given back",
    ),
    UndrainedAnomaly(
        "delivered_expired",
        """A consumer that attached when the time to live of a message was over received it.

        The time counts from the confirm, and a consumer that was attached before may have prefetched the message.
        """,
        applies="expires_at < last_attached_at",
        offends="handed_attached_at > expires_at",
        words="expired messages were given to a consumer that attached later",
    ),
    UndrainedAnomaly(
        "delivered_early",
        """A message was received before the delay that its producer gave it was over.

        The delay counts from before the send. What is early by less than a tenth of a second does not count: brokers
        look at a clock of milliseconds, which others may set.
        """,
        applies="delay_ms > 0 AND sendings = 1 AND coalesce(received_at, redelivered_at) IS NOT NULL",
        offends="came_early",
        words="messages with a delivery delay were received before it was over",
    ),
    Anomaly(
        "undeliverable_again",
        "A message given back as undeliverable here came again on the same link.",
        applies="refused_as = 'undeliverable'",
        offends="handed >= 2 AND handed_on_one_link",
        words="messages undeliverable on a link were delivered there again",
    ),
    Anomaly(
        "rejected_again",
        "A rejected message was delivered again.",
        applies="refused_as = 'rejected'",
        offends=is_fate("rejected_again"),
        words="rejected messages delivered again from their queue",
    ),
    Anomaly(
        "refused_again",
        "A refused message was delivered again.",
        applies="refused_at IS NOT NULL",
        offends="received_last_at > refused_at",
        words="refused messages delivered again from their queue",
    ),
)


DELIVERIES = (
    UndrainedAnomaly(
        "stuck",
        """A waiting consumer with credit was not given a confirmed message in time.

        It is stuck if the depth stayed above zero for the liveness bound, and the message came later or is counted at
        the end. Or if a consumer alone at its queue, with nothing open, waited for that bound in vain, and it came
        later. It is late if only a drain after another clean restart brought it. What no depth counts is lost, and
        not stuck.
        """,
        applies="(confirmed OR committed) AND (stuck_at IS NOT NULL OR silent_drains > 0)",
        offends="(ack_sent_at IS NULL AND (redelivered_at > stuck_at OR (stuck_at IS NOT NULL AND left_in_queue)))"
        f" OR late_after_restart OR (NOT selective AND {_WITHHELD})",
        words="confirmed messages stuck in the queue, or delivered only after another restart",
        true_without_fault=True,
    ),
    Anomaly(
        "gone",
        """A delivered message that its client neither acknowledged nor refused did not come again.

        Decided only if the queue was settled after the death of its consumer. A receiver that ends has refused nothing.
        """,
        applies=f"handed > 0 AND ack_sent_at IS NULL AND coalesce(refused_as = '{RECEIVER_ENDED}', true) AND {OWED}"
        " AND settled",
        offends=is_fate("gone"),
        words="delivered and unacknowledged messages are gone",
        order="handed_at",
    ),
    Anomaly(
        "gone_after_acknowledge",
        "A message that was delivered after the last acknowledge of its session did not come again.",
        applies="handed_after_acknowledge AND ack_sent_at IS NULL AND refused_at IS NULL AND durable AND settled",
        offends="redelivered = 0",
        words="messages delivered after the last acknowledge are gone",
        order="handed_at",
    ),
    Anomaly(
        "came_back",
        "The witness of a permission to deliver again: a message without acknowledgement came again.",
        applies="handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL",
        offends="redelivered > 0",
        words="delivered and unacknowledged messages were delivered again",
    ),
    Anomaly(
        "processed_again",
        """The witness of a permission to send duplicates: a message was processed before the fault, and came again.

        A confirmed acknowledgement ends the permission (`delivered_after_acknowledgement`).
        """,
        applies="processed_at <= fired_at AND acked_at IS NULL",
        offends="received_last_at > fired_at AND received > 1",
        words="messages processed before the fault without a confirmed acknowledgement came again after it",
    ),
    Anomaly(
        "delivered_after_acknowledgement",
        """The same run of the broker delivered a message again after it had settled the acknowledgement.

        `delivered_after_restart` is about the time after a restart.
        """,
        applies="acked_at IS NOT NULL",
        offends=is_fate("delivered_after_acknowledgement"),
        words="messages with a confirmed acknowledgement were delivered again",
    ),
    Anomaly(
        "not_exactly_one",
        """An individual acknowledgement did not cover exactly its own message.

        Either the acknowledgement was confirmed and the same run of the broker delivered the message again; or a
        message without an acknowledgement is gone with its neighbours.
        """,
        applies="(acked_at IS NOT NULL AND ack_epoch = first_epoch) OR (unacknowledged AND durable AND settled)",
        offends="early_received_at > acked_at OR (unacknowledged AND redelivered = 0)",
        words="delivered messages came again after their acknowledgement, or are gone without one",
    ),
    Anomaly(
        "out_of_order_refused",
        """The broker refused an acknowledgement while an earlier delivery was open, or removed the earlier one too.

        An earlier delivery is open if its own acknowledgement came later, or never.
        """,
        applies="out_of_order OR (unacknowledged AND durable AND settled)",
        offends="ack_failed OR (unacknowledged AND redelivered = 0)",
        words="deliveries acknowledged out of order were refused, or open ones are gone",
    ),
    Anomaly(
        "acknowledgement_refused",
        "The broker refused to take the acknowledgement of a message that it had delivered on the same connection.",
        applies="handed > 0 AND ack_sent_at IS NOT NULL",
        offends="ack_failed",
        words="acknowledgements of delivered messages were refused",
    ),
    Anomaly(
        "returned_after_close",
        """The same run of the broker delivered a message again although its client had acknowledged it and closed.

        The acknowledgement has no answer, but the broker had read it: it answered the close that followed. There was no
        fault in that run of the broker.
        """,
        applies="ack_closed AND NOT ack_lost AND acked_at IS NULL AND ack_txn IS NULL",
        offends=is_fate("returned_after_close"),
        words="messages acknowledged before an orderly close were delivered again",
    ),
    Anomaly(
        "delivered_after_restart",
        "A message came again after a restart although its acknowledgement had been confirmed before.",
        applies="acked_at IS NOT NULL",
        offends=is_fate("delivered_after_restart"),
        words="messages with a confirmed acknowledgement were delivered again after the restart",
        order="acked_at",
    ),
    Anomaly(
        "answered_acknowledgement",
        "The witness of a permission to confirm acknowledgements: one was answered.",
        applies="ack_sent_at IS NOT NULL",
        offends="acked_at IS NOT NULL",
        words="acknowledgements were answered",
    ),
    Anomaly(
        "settled_again",
        """The broker delivered a message again that had reached its client whole and settled.

        Decided by the link, and by the drains. A broker that was stopped in order is no excuse: it had the time to
        remove the message. A claim that is judged by this names no kill among its faults.
        """,
        # Smallest counter-example to asking the client instead: it is killed with fifty messages in its socket, has
        # recorded none of them, and the broker delivers all of them again. Counter-example to counting the bytes that
        # were passed on: the client of an honest broker may have received none of them (`link.connection`).
        applies="reached_at IS NOT NULL",
        offends="carried_last_at > reached_at OR drained_last_at > reached_at",
        words="messages that reached their client settled were delivered again",
        on_link=True,
    ),
    Anomaly(
        "unprocessed_gone",
        "The witness of a permission to lose messages on their way: an unprocessed message is gone.",
        applies="confirmed AND durable AND settled AND processed_at IS NULL",
        offends="redelivered = 0",
        words="unprocessed messages are gone after the fault",
    ),
    Anomaly(
        "unsent_gone",
        """A confirmed message is gone, and no part of a delivery of it has crossed the link.

        A consumer that receives settled messages may lose what was on its way, and nothing else: a message that was
        never sent is the queue's.
        """,
        # Smallest counter-example to leaving out the end: the client goes before its close is answered, and no link
        # sees what the broker sends after that.
        applies="confirmed AND durable AND accounted AND crossed = 0 AND carried_to_the_end",
        offends="received = 0 AND NOT left_in_queue",
        words="confirmed messages that were never sent to the consumer are gone",
        on_link=True,
    ),
    Anomaly(
        "unmarked",
        """A message that was handed over and not acknowledged came again without the redelivered mark.

        In the same run of the broker. A message that was only prefetched does not apply.
        """,
        applies="handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL AND drained_early_at IS NOT NULL",
        offends="unmarked",
        words="messages delivered again without the redelivered mark",
    ),
    UndrainedAnomaly(
        "counted_at_first",
        """The first delivery of a message, before any fault, carried a delivery count above zero.

        A message that came only after the fault does not apply: the broker may have sent it to the dead consumer.
        """,
        applies="fresh_at IS NOT NULL AND attempted",
        offends="first_count > 0",
        words="first deliveries counted above zero",
    ),
    Anomaly(
        "first_acquirer_twice",
        """A delivery claims to be the first acquirer although the message was delivered on another link before.

        In the first run of the broker only. Smallest counter-example to counting claims: two claims on one link are
        honest, one claim on the second of two links is not.
        """,
        applies="claims > 0 AND links_differ",
        offends="claim_links_differ OR claim_link <> first_link",
        words="messages given to a second link were claimed as first acquired again",
    ),
    Anomaly(
        "many_unacknowledged",
        "The witness of a large backlog: with this delivery its session held more than 1,000 unacknowledged.",
        applies="handed > 0",
        offends="held > 1000",
        words="deliveries held beside 1,000 other unacknowledged ones",
    ),
    UndrainedAnomaly(
        "over_prefetch",
        "With this delivery its consumer held more unacknowledged messages than its prefetch limit.",
        applies="handed > 0",
        offends="over_limit",
        words="deliveries sent beyond the prefetch limit",
    ),
    UndrainedAnomaly(
        "starved",
        """The broker withheld a message from a consumer without open deliveries, and gave it to a later one.

        The consumer waited for the liveness bound after it had acknowledged everything up to its prefetch limit.
        """,
        applies="confirmed AND delay_ms IS NULL",
        offends="confirmed_at < starved_at AND NOT selective AND handed = 0 AND redelivered > 0",
        words="confirmed messages withheld from a consumer that had acknowledged everything",
    ),
)
