"""Liars that only a pair shows: `--liar` takes them with `--pair` (`--set nodes=2`). Both members have the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from conformance.reference.honest import LAZY_S, Lie
from conformance.reference.liars.lie import lie
from conformance.reference.store.records import Change, Committed, Record, Removed, changes

IN_PAIR = "pair"
"""`Lie.needs` of a liar that is a member of a pair."""

_lie = partial(lie, fault="kill_nodes", needs=IN_PAIR)
_parted = partial(lie, fault="part_nodes", needs=IN_PAIR)


def _only(kept: Callable[[Sequence[Change]], Sequence[Change]]) -> Callable[[Record], Record]:
    return lambda record: Committed(tuple(kept(changes(record)))) if changes(record) else record


PAIRED: dict[str, Lie] = {
    "confirms-before-its-replica": _lie(
        "The active member confirms what is on its own disk; the standby gets it half a second later.",
        "lost lost_committed delivered_after_restart",
        replica_late_s=LAZY_S,
    ),
    "forgets-acknowledgements-at-failover": _lie(
        "The removal of a message is stored by the active member, and not sent to the standby.",
        "delivered_after_restart returned_after_commit",
        replicated=_only(lambda stored: [each for each in stored if not isinstance(each, Removed)]),
    ),
    "stale-replica-takes-over": _lie(
        "A member that is out of step takes over all the same.", "lost delivered_after_restart", heeds_in_sync=False
    ),
    "confirms-nothing-alone": _parted(
        "An active member whose standby has left it confirms nothing more, also when the standby is back.",
        "not_served",
        goes_on_alone=False,
    ),
    "in-step-without-what-it-missed": _parted(
        "A standby that comes back counts as in step without what was stored in between.",
        "lost lost_committed delivered_after_restart",
        catches_up=False,
    ),
    "replicates-half-a-transaction": _lie(
        "Of what is stored as one, such as a transaction, only the first record is sent to the standby.",
        "half_applied lost_committed",
        replicated=_only(lambda stored: stored[:1]),
    ),
}
