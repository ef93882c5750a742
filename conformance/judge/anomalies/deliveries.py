"""What can go wrong with a delivery: its marks, its acknowledgement, and what follows if its consumer gives it back."""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

REFUSALS = (
    Anomaly(
        "released_gone",
        "A released message that did not come again.",
        applies="refused_as = 'released' AND durable AND settled",
        offends="received_last_at <= refused_at",
        of="released messages",
        happened="gone",
        happens="takes a released message away",
    ),
    Anomaly(
        "failed_gone",
        "A message that was given back as failed, and did not come again.",
        applies="refused_as = 'failed' AND durable AND settled",
        offends="received_last_at <= refused_at",
        of="messages given back as failed",
        happened="gone",
        happens="takes a failed message away",
    ),
    Anomaly(
        "release_counted",
        "A released message whose next delivery, to the same consumer, carries a higher delivery count.",
        applies="refused_as = 'released' AND handed = 2 AND handed_on_one_link",
        offends="next_count > first_handed_count",
        of="released messages that came again",
        happened="with a higher delivery count",
        happens="counts a release",
    ),
    Anomaly(
        "failure_uncounted",
        "A message given back as failed whose next delivery, to the same consumer, carries no higher delivery count.",
        applies="refused_as = 'failed' AND handed = 2 AND handed_on_one_link",
        offends="next_count <= first_handed_count",
        of="failed messages that came again",
        happened="with the same delivery count",
        happens="does not count a failure",
    ),
    Anomaly(
        "failure_unmarked",
        "A message given back as failed whose next delivery, to the same consumer, is not marked as redelivered.",
        applies="refused_as = 'failed' AND handed = 2 AND handed_on_one_link",
        offends="NOT coalesce(next_marked, true)",
        of="failed messages that came again",
        happened="without the redelivered mark",
        happens="delivers one again without its mark",
    ),
    Anomaly(
        "undeliverable_again",
        "A message given back as undeliverable here that came again on the same link.",
        applies="refused_as = 'undeliverable'",
        offends="handed >= 2 AND handed_on_one_link",
        of="messages undeliverable on a link",
        happened="delivered there again",
        happens="delivers one there again",
    ),
    Anomaly(
        "rejected_again",
        "What became of a rejected message: it was delivered again.",
        applies="refused_as = 'rejected'",
        offends="received_last_at > refused_at",
        of="rejected messages",
        happened="delivered again from their queue",
    ),
    Anomaly(
        "refused_again",
        "What became of a refused message: it was delivered again.",
        applies="refused_at IS NOT NULL",
        offends="received_last_at > refused_at",
        of="refused messages",
        happened="delivered again from their queue",
    ),
)


DELIVERIES = (
    Anomaly(
        "stuck",
        """A confirmed message that a waiting consumer with credit was not given in time.

        It is stuck where the queue said a depth above zero for the liveness bound, and the message came later, or is
        still counted at the end. It is late where only a drain after one more clean restart brought it, whatever the
        depth said. A missing message that the depth does not count is lost, and not stuck.
        """,
        applies="(confirmed OR committed) AND (stuck_at IS NOT NULL OR silent_drains > 0)",
        offends="(ack_sent_at IS NULL AND (redelivered_at > stuck_at OR (stuck_at IS NOT NULL AND left_in_queue)))"
        " OR late_after_restart",
        of="confirmed messages",
        happened="stuck in the queue, or delivered only after another restart",
        happens="leaves a message stuck",
        drained=False,
    ),
    Anomaly(
        "gone",
        """A delivered message that did not come back although neither acknowledgement nor refusal left the client.

        Decidable only where the queue was settled after the death of its consumer.
        """,
        applies="handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL AND durable AND settled",
        offends="redelivered = 0",
        of="delivered and unacknowledged messages",
        happened="gone",
        happens="takes such a message away",
        order="handed_at",
    ),
    Anomaly(
        "gone_after_acknowledge",
        "A message delivered after the last acknowledge of its session, which took it away as well.",
        applies="handed_after_acknowledge AND ack_sent_at IS NULL AND refused_at IS NULL AND durable AND settled",
        offends="redelivered = 0",
        of="messages delivered after the last acknowledge",
        happened="gone",
        happens="takes such a message away",
        order="handed_at",
    ),
    Anomaly(
        "came_back",
        "The witness of a permission to deliver again: a message without acknowledgement that came back.",
        applies="handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL",
        offends="redelivered > 0",
        of="delivered and unacknowledged messages",
        happened="delivered again",
    ),
    Anomaly(
        "processed_again",
        """The witness of a permission to send duplicates: a message processed before the fault, and again after it.

        A confirmed acknowledgement ends the permission: `delivered_after_acknowledgement`.
        """,
        applies="processed_at <= fired_at AND acked_at IS NULL",
        offends="received_last_at > fired_at AND received > 1",
        of="messages processed before the fault without a confirmed acknowledgement",
        happened="delivered again after it",
    ),
    Anomaly(
        "delivered_after_acknowledgement",
        """A message that the same run of the broker delivered again after it had settled the acknowledgement.

        After a restart it is another sentence's matter: `delivered_after_restart`.
        """,
        applies="acked_at IS NOT NULL AND ack_epoch = first_epoch",
        offends="early_received_at > acked_at",
        of="messages with a confirmed acknowledgement",
        happened="delivered again",
        happens="brings such a message back",
    ),
    Anomaly(
        "not_exactly_one",
        """A message whose individual acknowledgement did not cover it alone.

        Either it was acknowledged, that was confirmed, and the same run of the broker delivered it again; or it was not
        acknowledged, and is gone with its neighbours.
        """,
        applies="(acked_at IS NOT NULL AND ack_epoch = first_epoch) OR (unacknowledged AND durable AND settled)",
        offends="early_received_at > acked_at OR (unacknowledged AND redelivered = 0)",
        of="delivered messages",
        happened="delivered again after their acknowledgement, or gone without one",
        happens="covers another message, or none",
    ),
    Anomaly(
        "out_of_order_refused",
        """An acknowledgement that was refused while an earlier delivery was open, or that took that one with it.

        An earlier delivery is open where its own acknowledgement came later, or never.
        """,
        applies="out_of_order OR (unacknowledged AND durable AND settled)",
        offends="(out_of_order AND ack_failed) OR (unacknowledged AND redelivered = 0)",
        of="deliveries acknowledged out of order, or left open",
        happened="refused, or gone",
        happens="does so",
    ),
    Anomaly(
        "delivered_after_restart",
        "A message that came again after a restart, although its acknowledgement had been confirmed before.",
        applies="acked_at IS NOT NULL",
        offends="last_epoch > ack_epoch",
        of="messages with a confirmed acknowledgement",
        happened="delivered again after the restart",
        happens="brings such a message back",
        control="brought messages back",
    ),
    Anomaly(
        "answered_acknowledgement",
        "The witness of a permission to confirm acknowledgements: one that was answered.",
        applies="ack_sent_at IS NOT NULL",
        offends="acked_at IS NOT NULL",
        of="acknowledgements",
        happened="answered",
    ),
    Anomaly(
        "settled_again",
        """A message that reached its client whole and settled, and that the same run of the broker delivered again.

        On the link: whether it was handed over does not matter, nor what the client says. After a restart it is no
        matter of this sentence.
        """,
        # By the link's clock, and only of two deliveries. Smallest counter-example to asking the client instead: it is
        # killed with fifty messages in its socket, all of which the broker brings back; it has said a word of none. To
        # counting what was passed on: see `link.connection`; of that, an honest broker's peer may have got nothing.
        applies="reached_at IS NOT NULL",
        offends="carried_last_at > reached_at OR drained_early_at > reached_at",
        of="messages that reached their client settled",
        happened="delivered again",
        happens="brings such a message back",
        on_link=True,
    ),
    Anomaly(
        "unprocessed_gone",
        "The witness of a permission to lose what was on its way: such a message, not processed and gone.",
        applies="confirmed AND durable AND settled AND processed_at IS NULL",
        offends="redelivered = 0",
        of="unprocessed messages",
        happened="gone after the fault",
    ),
    Anomaly(
        "unmarked",
        """A message that was handed over, not acknowledged, and delivered again without the redelivered mark.

        Within the same run of the broker; a message that was only prefetched does not apply.
        """,
        applies="handed > 0 AND ack_sent_at IS NULL AND refused_at IS NULL AND drained_early_at IS NOT NULL",
        offends="unmarked",
        of="messages delivered again",
        happened="without the redelivered mark",
        happens="delivers one again without its mark",
    ),
    Anomaly(
        "counted_at_first",
        """A fresh message whose first delivery, before any fault, already carried a delivery count above zero.

        What came only after the fault may have been transferred to the dead consumer unseen: it does not apply.
        """,
        applies="fresh_at IS NOT NULL AND attempted",
        offends="first_count > 0",
        of="first deliveries",
        happened="counted above zero",
        happens="counts a first delivery",
        drained=False,
    ),
    Anomaly(
        "first_acquirer_twice",
        """A delivery that claims to be the first acquirer although another link had been given the message before.

        Within the first run of the broker only. Smallest counter-example to counting claims: two claims on one
        link are honest, one claim on the second of two links is not.
        """,
        applies="claims > 0 AND links_differ",
        offends="claim_links_differ OR claim_link <> first_link",
        of="messages given to a second link",
        happened="claimed as first acquired again",
        happens="makes such a claim",
    ),
    Anomaly(
        "many_unacknowledged",
        "The witness of a large backlog: a delivery with which its session held more than 1,000 unacknowledged.",
        applies="handed > 0",
        offends="held > 1000",
        of="deliveries",
        happened="held beside 1,000 other unacknowledged ones",
    ),
    Anomaly(
        "over_prefetch",
        "A delivery with which its consumer held more unacknowledged messages than it had asked for.",
        applies="handed > 0",
        offends="over_limit",
        of="deliveries",
        happened="sent beyond the prefetch limit",
        happens="goes beyond the limit",
        drained=False,
    ),
    Anomaly(
        "starved",
        """A message that a consumer with nothing open waited for in vain, and that a later consumer got.

        It waited for the liveness bound, after everything up to its prefetch limit had been acknowledged.
        """,
        applies="confirmed",
        offends="confirmed_at < starved_at AND handed = 0 AND redelivered > 0",
        of="confirmed messages",
        happened="withheld from a consumer that had acknowledged everything",
        happens="withholds one",
        drained=False,
    ),
)
