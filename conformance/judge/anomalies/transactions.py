"""What can go wrong with a transaction: a script has transactions of sends or of acknowledgements, never both."""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

COMMITTED = "committed AND durable AND settled"

TRANSACTIONS = (
    Anomaly(
        "lost_committed",
        """A persistent message of a transaction whose commit was answered, and which nobody ever received.

        Decidable, like `lost`, only where the queue was settled after the last fault.
        """,
        applies=COMMITTED,
        offends="received = 0",
        of="committed messages",
        happened="lost",
        happens="loses a committed message",
        control="lost messages",
        order="committed_at",
    ),
    Anomaly(
        "committed_missing",
        "The witness of a permission to lose what was committed: such a message that nobody ever received.",
        applies=COMMITTED,
        offends="received = 0",
        of="committed messages",
        happened="missing after the fault",
        order="committed_at",
    ),
    Anomaly(
        "half_applied",
        """A message of a transaction that is missing, although another one of the same transaction is there.

        Whether the commit was answered does not matter: all or nothing is due either way.
        """,
        applies="in_transaction AND durable AND NOT refused AND commit_asked_at IS NOT NULL AND settled",
        offends="received = 0 AND txn_received",
        of="messages of transactions",
        happened="missing beside others of the same transaction",
        happens="takes a transaction apart",
        control="took a transaction apart",
    ),
    Anomaly(
        "available_early",
        "A message of a transaction that was received before its commit was asked for, or after its rollback.",
        applies="in_transaction",
        offends="received_at < commit_asked_at OR (received > 0 AND commit_asked_at IS NULL AND discharged)",
        of="messages of transactions",
        happened="received before the commit or after the rollback",
        happens="makes such a message available",
    ),
    Anomaly(
        "available_undischarged",
        "A message of a transaction that was never asked to commit, and which somebody received.",
        applies="in_transaction AND NOT discharged",
        offends="received > 0",
        of="messages of undischarged transactions",
        happened="received",
        happens="makes such a message available",
    ),
    Anomaly(
        "undischarged_gone",
        "A message that was acknowledged in a transaction that was never discharged, and which did not come back.",
        applies="ack_txn IS NOT NULL AND NOT discharged AND durable AND settled",
        offends="received_last_at <= ack_sent_at",
        of="messages acknowledged in an undischarged transaction",
        happened="gone",
        happens="takes such a message away",
    ),
    Anomaly(
        "transacted_acknowledgement",
        """A message that came again after its acknowledgement was committed, or did not after it was rolled back.

        The first within the same run of the broker; the second only where no later transaction acknowledged it.
        """,
        applies="ack_txn IS NOT NULL AND durable AND settled"
        " AND (committed_at IS NOT NULL OR (rolled_back_at IS NOT NULL AND commit_asked_at IS NULL))",
        offends="coalesce(commit_epoch = first_epoch AND early_received_at > committed_at, false)"
        " OR (commit_asked_at IS NULL AND received_last_at <= rolled_back_at)",
        of="messages acknowledged in transactions",
        happened="delivered again after a commit, or gone after a rollback",
        happens="does not do what the discharge says",
    ),
    Anomaly(
        "rollback_refused",
        "An operation whose transaction the broker would not roll back.",
        applies="rolled_back_at IS NOT NULL OR rollback_refused",
        offends="rollback_refused",
        of="operations to be rolled back",
        happened="in a transaction whose rollback was refused",
        happens="refuses a rollback",
        drained=False,
    ),
)
