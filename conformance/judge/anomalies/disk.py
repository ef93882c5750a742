"""What can go wrong between an answer and the disk: the order of confirms, writes and syncs.

The tracer records when the write of a record returned, and the first sync that covers it; the client records when it
read the answer. A broker that answers first can lose what it confirmed, and no crash is needed to see it.
"""

from __future__ import annotations

from conformance.judge.anomalies.model import DiskAnomaly

# A message that was acknowledged in one transaction, rolled back, and acknowledged in another has the records of both.
_ONE_DISCHARGE = "discharges = 1 AND durable AND NOT refused"
_COMMITTED = f"committed_at IS NOT NULL AND {_ONE_DISCHARGE}"


def _in_vain(answered: str, failed: str, written: str, synced: str) -> str:
    """The broker answered although the record could not be stored.

    Not if the record had been synced before the failure, or was written again and synced before the answer. A later
    sync alone is not enough: pages that a failed sync leaves behind may count as clean and never be written (fsync(2),
    "Errors"). A broker that goes on in another file after a full one has written its record again.
    """
    mended = f"{synced} <= {answered} AND ({synced} < {failed} OR {written} > {failed})"
    return f"{answered} IS NOT NULL AND NOT coalesce({mended}, false)"


DISK = (
    DiskAnomaly(
        "confirmed_before_sync",
        """The broker confirmed a persistent message before a sync that covers its record had returned.

        Decided if the write of its record was seen. A write after the confirm offends too: its sync is later still.
        """,
        applies="confirmed AND durable AND written_at IS NOT NULL AND seen",
        offends="synced_at IS NULL OR synced_at > confirmed_at",
        words="persistent messages were confirmed before a sync of their record had returned",
        missed="confirmed AND durable AND written_at IS NULL AND sync_failed_at IS NULL AND confirm_traced",
    ),
    DiskAnomaly(
        "committed_before_sync",
        "The broker answered a commit before a sync that covers the record of the commit had returned.",
        applies=f"{_COMMITTED} AND discharge_written_at IS NOT NULL AND seen",
        offends="discharge_synced_at IS NULL OR discharge_synced_at > committed_at",
        words="persistent messages of commits were answered before a sync of their commit had returned",
        missed=f"{_COMMITTED} AND discharge_written_at IS NULL AND discharge_failed_at IS NULL AND commit_traced",
    ),
    DiskAnomaly(
        "acknowledged_before_sync",
        """The broker answered an acknowledgement before a sync that covers its record had returned.

        Its record is what was written between this acknowledgement and the next request of the same consumer.
        """,
        applies="acked_at IS NOT NULL AND durable AND ack_written_at IS NOT NULL AND seen",
        offends="ack_synced_at IS NULL OR ack_synced_at > acked_at",
        words="acknowledgements were answered before a sync of their record had returned",
        missed="acked_at IS NOT NULL AND durable AND ack_written_at IS NULL AND ack_traced",
    ),
    DiskAnomaly(
        "rolled_back_before_sync",
        """The broker answered a rollback before a sync that covers the record of the rollback had returned.

        If the broker writes nothing for a rollback there is nothing to persist, and it does not apply.
        """,
        applies=f"rolled_back_at IS NOT NULL AND {_ONE_DISCHARGE} AND discharge_written_at IS NOT NULL AND seen",
        offends="discharge_synced_at IS NULL OR discharge_synced_at > rolled_back_at",
        words="persistent messages of rollbacks were answered before a sync of their rollback had returned",
    ),
    DiskAnomaly(
        "confirmed_though_sync_failed",
        "The broker confirmed a persistent message although the write or the sync of its record had failed.",
        applies="attempted AND send_txn IS NULL AND durable AND (confirmed OR NOT refused)"
        " AND sync_failed_at IS NOT NULL AND seen",
        offends=_in_vain("confirmed_at", "sync_failed_at", "written_last_at", "synced_at"),
        words="persistent messages whose record could not be stored were confirmed",
    ),
    DiskAnomaly(
        "committed_though_sync_failed",
        "The broker answered a commit although the write or the sync of its record had failed.",
        applies=f"commit_asked_at IS NOT NULL AND {_ONE_DISCHARGE} AND discharge_failed_at IS NOT NULL AND seen",
        offends=_in_vain("committed_at", "discharge_failed_at", "discharge_written_last_at", "discharge_synced_at"),
        words="persistent messages of commits that could not be stored were answered",
    ),
)
