"""Liars that only a pair shows: `--liar` takes them with `--pair`. Give both members the same one."""

from __future__ import annotations

from conformance.reference.honest import LAZY_S, Lie
from conformance.reference.liars.lie import lie
from conformance.reference.store.records import Removed

PAIR_LIARS: dict[str, Lie] = {
    "confirms-before-its-replica": lie(
        "The active member confirms what is on its own disk; the standby gets it half a second later.",
        "lost lost_committed delivered_after_restart",
        fault="kill",
        replica_late_s=LAZY_S,
    ),
    "forgets-acknowledgements-at-failover": lie(
        "The removal of a message is stored by the active member, and not sent to the standby.",
        "delivered_after_restart returned_after_commit",
        fault="kill",
        replicated=lambda stored: [each for each in stored if not isinstance(each, Removed)],
    ),
    "stale-replica-takes-over": lie(
        "A member that is out of step takes over all the same, with what it had when it was last in step.",
        "lost lost_committed delivered_after_restart",
        fault="kill",
        heeds_in_sync=False,
    ),
    "unmarked-after-failover": lie(
        "A member that takes over delivers again, as if for the first time, what a consumer had not acknowledged.",
        "unmarked",
        fault="kill",
        marks_recovered=False,
    ),
    "replicates-half-a-transaction": lie(
        "Of what is stored as one, such as a transaction, only the first record is sent to the standby.",
        "half_applied lost_committed",
        fault="kill",
        replicated=lambda stored: stored[:1],
    ),
}
"""Each is wrong in one way, as the liars of the other tables are."""
