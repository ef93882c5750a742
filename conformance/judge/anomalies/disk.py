"""What can go wrong between an answer and the disk: the order of confirms, writes and syncs.

The tracer says of a record when its write, and the first sync that covers this write, had returned; the client says
when it read the answer. A broker that answers first can lose what it confirmed, and no crash is needed to see it.
"""

from __future__ import annotations

from conformance.judge.anomalies.model import Anomaly

# What was acknowledged in one transaction, rolled back, and acknowledged in another has the records of both in its row.
_ONE_DISCHARGE = "discharges = 1 AND durable AND NOT refused"
_COMMITTED = f"committed_at IS NOT NULL AND {_ONE_DISCHARGE}"


def _in_vain(answered: str, failed: str, written: str, synced: str) -> str:
    """An answer to what could not be stored, unless it was stored before, or written once more and synced by then.

    A later sync alone mends nothing: what a failed one leaves behind may count as clean and never be written (fsync(2),
    "Errors"). A broker that turns to another file after a full one has written its record again.
    """
    mended = f"{synced} <= {answered} AND ({synced} < {failed} OR {written} > {failed})"
    return f"{answered} IS NOT NULL AND NOT coalesce({mended}, false)"


DISK = (
    Anomaly(
        "confirmed_before_sync",
        """A persistent message that was confirmed although no sync that covers its record had returned by then.

        Decidable where the write of its record was seen. A write that comes only after the confirm offends as well:
        its sync is later still.
        """,
        applies="confirmed AND durable AND written_at IS NOT NULL AND seen",
        offends="synced_at IS NULL OR synced_at > confirmed_at",
        of="confirmed persistent messages",
        happened="answered before a sync of their record had returned",
        happens="lets a confirm leave before its sync",
        control="confirmed before the sync",
        drained=False,
        at_disk=True,
        missed="confirmed AND durable AND written_at IS NULL AND sync_failed_at IS NULL AND confirm_traced",
    ),
    Anomaly(
        "committed_before_sync",
        """An operation of a commit that was answered although no sync that covers the record of it had returned.

        Like `confirmed_before_sync`, of the record of the commit and the answer to it.
        """,
        applies=f"{_COMMITTED} AND discharge_written_at IS NOT NULL AND seen",
        offends="discharge_synced_at IS NULL OR discharge_synced_at > committed_at",
        of="persistent messages of commits",
        happened="answered before a sync of their commit had returned",
        happens="lets the answer to a commit leave before its sync",
        control="answered before the sync",
        drained=False,
        at_disk=True,
        missed=f"{_COMMITTED} AND discharge_written_at IS NULL AND discharge_failed_at IS NULL AND commit_traced",
    ),
    Anomaly(
        "rolled_back_before_sync",
        """An operation of a rollback that was answered although no sync that covers the record of it had returned.

        Where nothing is written for a rollback there is nothing to persist: it does not apply.
        """,
        applies=f"rolled_back_at IS NOT NULL AND {_ONE_DISCHARGE} AND discharge_written_at IS NOT NULL AND seen",
        offends="discharge_synced_at IS NULL OR discharge_synced_at > rolled_back_at",
        of="persistent messages of rollbacks",
        happened="answered before a sync of their rollback had returned",
        happens="lets the answer to a rollback leave before its sync",
        control="answered before the sync",
        drained=False,
        at_disk=True,
    ),
    Anomaly(
        "confirmed_though_sync_failed",
        """A persistent message that was confirmed although the sync, or the write, of its record had failed.

        Not where it had been synced before that, or was written again and synced before the confirm.
        """,
        applies="attempted AND send_txn IS NULL AND durable AND NOT refused AND sync_failed_at IS NOT NULL AND seen",
        offends=_in_vain("confirmed_at", "sync_failed_at", "written_last_at", "synced_at"),
        of="persistent messages whose record could not be stored",
        happened="confirmed all the same",
        happens="leads to such a confirm",
        control="confirmed them all the same",
        drained=False,
        at_disk=True,
    ),
    Anomaly(
        "committed_though_sync_failed",
        """An operation of a commit that was answered although the sync, or the write, of its record had failed.

        Not where it had been synced before that, or was written again and synced before the answer.
        """,
        applies=f"commit_asked_at IS NOT NULL AND {_ONE_DISCHARGE} AND discharge_failed_at IS NOT NULL AND seen",
        offends=_in_vain("committed_at", "discharge_failed_at", "discharge_written_last_at", "discharge_synced_at"),
        of="persistent messages of commits that could not be stored",
        happened="answered all the same",
        happens="leads to such an answer",
        control="answered them all the same",
        drained=False,
        at_disk=True,
    ),
    Anomaly(
        "unasked_before_sync",
        """The witness of a permission: a send that asked for no answer, not synced when a later one was answered.

        Of the later answers of its producer the last one counts, so that fewer are seen than there are.
        """,
        applies="unasked AND durable AND n < last_confirmed AND written_at IS NOT NULL AND seen",
        offends="synced_at IS NULL OR synced_at > last_confirmed_at",
        of="sends without a receipt before an answered one",
        happened="not yet synced when that answer was read",
        at_disk=True,
    ),
)
