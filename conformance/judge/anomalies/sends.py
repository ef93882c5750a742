"""What can go wrong with a send and its answer, and with a transaction."""

from __future__ import annotations

from conformance.judge.anomalies.fates import is_fate
from conformance.judge.anomalies.model import Anomaly, UndrainedAnomaly

KEPT = "confirmed AND durable AND settled"

SENDS = (
    Anomaly(
        "lost",
        """The broker confirmed a message, and no client ever received it.

        Decided only after two drains since the last fault, the last of which brought nothing: before that, the message
        may still be waiting. If the broker then still reports a depth, that many of the missing are in the queue, and
        only the others are lost.
        """,
        applies="confirmed AND durable AND accounted",
        offends=is_fate("lost"),
        words="confirmed messages lost",
        order="confirmed_at",
    ),
    Anomaly(
        "lost_unacknowledged",
        """The broker confirmed a message, and it is gone although no client has acknowledged it.

        Whether a client was given it or not: `lost` is about the messages that no client ever received. Decided as
        `lost` is, for clients that acknowledge what they take: a drain had to bring it.
        """,
        applies="confirmed AND durable AND accounted AND ack_sent_at IS NULL AND refused_at IS NULL",
        offends="redelivered = 0 AND NOT left_in_queue",
        words="confirmed and unacknowledged messages are gone",
        order="confirmed_at",
    ),
    Anomaly(
        "lost_silently",
        "A confirmed message is lost to damage at rest, and the broker started without a line in its log about it.",
        applies="confirmed AND durable AND accounted",
        offends=f"{is_fate('lost')} AND reported IS NULL",
        words="confirmed messages lost without a report",
    ),
    Anomaly(
        "confirmed_nowhere",
        """The broker confirmed a message that it did not keep: it is in no queue of its own, dead-letter or expiry.

        Decided as `lost` is, but for everything that was sent: a send that was refused, or had no answer, applies and
        does not offend. So a broker that refuses all that it cannot keep has passed.
        """,
        applies="attempted AND durable AND send_txn IS NULL AND accounted",
        offends="confirmed AND received = 0 AND NOT left_in_queue",
        words="sends confirmed although the broker kept nothing",
    ),
    Anomaly(
        "refused_with_room",
        "A queue refuses one of its publisher's first ten sends, although it was emptied and takes more than ten.",
        applies="answered AND n <= 10",
        offends="refused AND NOT accepted",
        words="of the first ten sends of each publisher to an empty queue were refused",
    ),
    Anomaly(
        "confirmed_without_queue",
        "The broker confirmed a message to a queue that was never declared, and that it does not make.",
        applies="answered AND send_txn IS NULL",
        offends="confirmed",
        words="sends to a queue that does not exist were confirmed",
    ),
    Anomaly(
        "expired_nowhere",
        """A confirmed message whose time to live is over is neither in its queue nor in the expiry queue.

        Only for brokers with an expiry queue: others discard what expires.
        """,
        applies="confirmed AND durable AND expired AND settled_anywhere",
        offends="received = 0 AND NOT set_aside",
        words="confirmed and expired messages are in no queue",
    ),
    Anomaly(
        "lost_though_old",
        """The broker lost a message that it had confirmed more than two flush intervals before the fault.

        Twice, because the broker may begin to write only when the interval is over. A busy machine wakes the writer
        late, as it answers late: so an age below twice the longest answer of the trial proves nothing.
        """,
        applies=f"{KEPT} AND age_ns > 2 * greatest(flush_ns, longest_answer_ns)",
        offends="received = 0",
        words="confirmed messages older than twice the flush interval and the longest answer lost",
        order="confirmed_at",
        figures=(
            ("lost {:.0f} % of those up to 10 ms old", "max(lost_share_10)"),
            ("{:.0f} % of those up to 100 ms", "max(lost_share_100)"),
            ("{:.0f} % of those up to 1 s", "max(lost_share_1000)"),
            ("the oldest lost was {:,.0f} ms old", f"max(age_ns) FILTER (WHERE {KEPT} AND received = 0) / 1e6"),
        ),
    ),
    Anomaly(
        "confirmed_missing",
        "The witness of a permission to lose confirmed messages: no client ever received one.",
        applies=KEPT,
        offends="received = 0",
        words="confirmed messages missing after the fault",
        order="confirmed_at",
    ),
    Anomaly(
        "non_persistent_missing",
        "The witness of a permission to lose non-persistent messages: no client ever received one.",
        applies="confirmed AND NOT durable AND settled",
        offends="received = 0",
        words="confirmed non-persistent messages missing after the restart",
    ),
    Anomaly(
        "unanswered_either_way",
        "A message whose send has no answer is there after recovery; another one must be absent.",
        applies="unanswered AND settled",
        offends="received > 0",
        words="sends without an answer were found after recovery",
        beside="unanswered_absent",
    ),
    Anomaly(
        "unanswered_absent",
        "A message whose send has no answer is not there after recovery.",
        applies="unanswered AND settled",
        offends="received = 0",
        words="sends without an answer were absent after recovery",
    ),
    UndrainedAnomaly(
        "unanswered_send",
        """A persistent send had no answer within the liveness bound, on an open connection.

        The outcome of a send that lost its connection is unknown: it neither applies nor offends.
        """,
        applies="attempted AND durable AND (answered OR overdue)",
        offends="overdue AND NOT answered",
        words="persistent sends left without an answer",
    ),
    Anomaly(
        "unasked_missing",
        """The witness of a permission: a send that asked for no answer is missing after the fault.

        A later send of the same connection was answered, so the broker had received this one.
        """,
        applies="unasked AND durable AND n < last_confirmed AND settled",
        offends="received = 0",
        words="sends without a receipt before an answered one were missing after the fault",
    ),
    UndrainedAnomaly(
        "outcome_changed",
        "The broker gave a send two different outcomes (accepted, rejected, released, modified) on one link.",
        applies="answered",
        offends="outcomes > 1",
        words="answered sends given a second, different outcome",
    ),
    Anomaly(
        "refused_delivered",
        """A client received a message whose only send was answered rejected, released or modified.

        Outside of a transaction, or in one that was committed.
        """,
        applies="refused AND NOT accepted AND (send_txn IS NULL OR committed_at IS NOT NULL)",
        offends=is_fate("refused_delivered"),
        words="refused sends were received",
    ),
    UndrainedAnomaly(
        "receipt_untrue",
        "A receipt for a send came twice, or a receipt came that answers no send.",
        applies="accepted OR receipt_untrue",
        offends="receipt_untrue",
        words="sends were answered twice or wrongly",
    ),
)

# A script has transactions of sends or of acknowledgements, never both.
COMMITTED = "committed AND durable AND settled"

TRANSACTIONS = (
    Anomaly(
        "lost_committed",
        """The broker answered a commit, and no client ever received a persistent message of that transaction.

        Decided only if the queue was settled after the last fault.
        """,
        applies=COMMITTED,
        offends=is_fate("lost_committed"),
        words="committed messages lost",
        order="committed_at",
    ),
    Anomaly(
        "committed_missing",
        "The witness of a permission to lose committed messages: no client ever received one.",
        applies=COMMITTED,
        offends="received = 0",
        words="committed messages missing after the fault",
        order="committed_at",
    ),
    Anomaly(
        "half_applied",
        """A message of a transaction is missing, and another one of the same transaction is there.

        With or without an answer to the commit, the broker must keep all or nothing.
        """,
        applies="in_transaction AND durable AND NOT refused AND commit_asked_at IS NOT NULL AND settled",
        offends="received = 0 AND txn_applied",
        words="messages of transactions are missing, and others of the same transaction are there",
    ),
    Anomaly(
        "outcome_not_in_effect",
        """The answer to a commit does not agree with the broker's answer to a send, or with what it kept.

        A commit was answered as done although the send had no answer, or one outside of its transaction; or an
        accepted message is missing, or a refused one is there. Or the commit was refused, and the message is there
        all the same. A message that was acknowledged in a transaction too does not apply.
        """,
        applies="in_transaction AND NOT of_two_transactions AND durable AND settled"
        " AND (committed_at IS NOT NULL OR commit_refused)",
        offends="committed_at IS NOT NULL"
        " AND CASE WHEN refused THEN refused_outside OR received > 0 ELSE returned_at IS NULL OR received = 0 END",
        words="messages of transactions are not as the answers to their send and commit say",
    ),
    Anomaly(
        "transaction_torn",
        """A part of a transaction has no effect after a restart, and another part has, or its commit was answered.

        A message that was sent has to be there. One that was acknowledged must not come again. One that was sent in a
        transaction and acknowledged in another does not apply, nor one that was acknowledged in two.
        """,
        applies="(in_transaction OR ack_txn IS NOT NULL) AND NOT (of_two_transactions OR ack_txns_differ) AND durable"
        " AND NOT refused AND commit_asked_at IS NOT NULL AND settled",
        offends="undone AND (txn_applied OR committed_at IS NOT NULL)",
        words="operations of transactions are undone, and others of the same transaction are not",
    ),
    Anomaly(
        "returned_after_commit",
        """A message came again after a restart although the commit of its acknowledgement had been answered before.

        `transacted_acknowledgement` is about the same run of the broker. A message that was sent in a transaction too
        does not apply.
        """,
        applies="ack_txn IS NOT NULL AND NOT of_two_transactions AND committed_at IS NOT NULL",
        offends=is_fate("returned_after_commit"),
        words="messages whose acknowledgement was committed came again after the restart",
        order="committed_at",
    ),
    Anomaly(
        "not_once",
        """A message of a transaction that was sent again, or one of QoS 2, is not there exactly once.

        Its second commit was answered: as done, or refused as known. Without a last answer, QoS 2 may bring it or not.
        """,
        applies="(exactly_once OR (in_transaction AND sendings > 1 AND (committed_at IS NOT NULL OR commit_refused)))"
        " AND durable AND settled",
        offends="received > 1 OR (received = 0 AND (confirmed OR NOT exactly_once))",
        words="messages that were to be there exactly once are there twice, or not at all",
    ),
    Anomaly(
        "available_early",
        "A client received a message of a transaction before the request to commit, or after the rollback.",
        applies="in_transaction",
        offends=is_fate("available_early"),
        words="messages of transactions were received before the commit or after the rollback",
    ),
    Anomaly(
        "available_undischarged",
        "A client received a message of a transaction without a request to commit.",
        applies="in_transaction AND NOT discharged",
        offends=is_fate("available_undischarged"),
        words="messages of undischarged transactions were received",
    ),
    Anomaly(
        "undischarged_gone",
        "A message that was acknowledged in a transaction without a commit or rollback did not come again.",
        applies="ack_txn IS NOT NULL AND NOT of_two_transactions AND NOT discharged AND durable AND settled",
        offends=is_fate("undischarged_gone"),
        words="messages acknowledged in an undischarged transaction are gone",
    ),
    Anomaly(
        "transacted_acknowledgement",
        """A message came again after its acknowledgement was committed, or did not after it was rolled back.

        The first counts in the same run of the broker; the second only if no later transaction acknowledged it. A
        message that was sent in a transaction too does not apply.
        """,
        applies="ack_txn IS NOT NULL AND NOT of_two_transactions AND durable AND settled"
        " AND (committed_at IS NOT NULL OR (rolled_back_at IS NOT NULL AND commit_asked_at IS NULL))",
        offends=is_fate("transacted_acknowledgement"),
        words="messages acknowledged in transactions came again after a commit, or are gone after a rollback",
    ),
    UndrainedAnomaly(
        "rollback_refused",
        "The broker refused to roll back the transaction of an operation.",
        applies="rolled_back_at IS NOT NULL OR rollback_refused",
        offends="rollback_refused",
        words="operations are in a transaction whose rollback was refused",
    ),
)
