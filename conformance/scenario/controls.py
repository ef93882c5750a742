"""Choose the fallback of a control that this broker does not offer, or that shows nothing there.

The settings of a broker may be fixed: it runs already, its file says so, or one cannot be given up beside another (a
quorum queue of RabbitMQ stores everything). A liar of the bundled broker then proves that the check sees what it is
about. It proves nothing about this broker, so there is no miss probability: a check-only control.

A broker that writes at once loses nothing by the death of a process, even without syncs: the page cache outlives the
process (Classic 6.1.7, 0 losses in 8 kills with syncs off). With `persistence=false` it stores nothing, so a kill loses
messages. That setting is the fallback. It proves the check only, and shows nothing about a missing sync.

Through a vendor's client two liars of the bundled broker show nothing. A send that is never answered silences the
client, whose listeners are called in order (JMS 2.0, 7.3.8). And the client of AMQP 0-9-1 opens a virtual host that the
bundled broker does not have. The suite then uses that client wrongly, on the broker on trial, so that the check has
something to see.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from conformance.claims import Claim, Kind
from conformance.scenario import Check, Liar, Scenario, SessionLiar, Weakened

STORES = "persistence"
_LOSSES = ("lost", "lost_committed")
_SETTINGS: Mapping[str, str] = {
    "lost": "sync_non_transactional",
    "lost_committed": "sync_transactional",
    "delivered_after_restart": "sync_non_transactional",
    "returned_after_commit": "sync_transactional",
}
"""By anomaly, which of the settings of a control that switches several off makes the control fail."""

_OF_BROKER = {STORES, "sync_non_transactional", "sync_transactional"}
"""What a control gives up at the broker. Every other setting is of the client, which the suite starts itself."""

LIARS: Mapping[tuple[str, str], Liar] = {
    ("lost", "kill"): Liar("loses-the-oldest"),
    ("lost", "stop"): Liar("treats-persistent-as-non-persistent"),
    ("lost", "power_loss"): Liar("never-syncs-confirms", tail=True),
    ("lost_committed", "kill"): Liar("loses-the-oldest"),
    ("lost_committed", "power_loss"): Liar("never-syncs-commits", tail=True),
    ("delivered_after_restart", "kill"): Liar("brings-acknowledged-back"),
    ("returned_after_commit", "kill"): Liar("brings-acknowledged-back"),
    ("confirmed_before_sync", "held_sync"): Liar("confirms-before-sync"),
    ("committed_before_sync", "held_sync"): Liar("commits-before-sync"),
    ("rolled_back_before_sync", "held_sync"): Liar("rolls-back-before-sync"),
}
"""By anomaly and fault: a liar that fails in every trial, however few messages or many restarts there are.

After a kill it is not one that answers before it stores: its record is 5 ms late, and a kill on a busy machine misses
that. Nor one that loses the newest: of a hundred in flight the newest ten may all be unanswered yet. The oldest of each
queue was confirmed before any trigger. Not the oldest of the journal: that one stays there, and hides the next trial's.
"""


_THROUGH_A_CLIENT: Mapping[str, SessionLiar] = {
    "never-answers-one-send": SessionLiar("leaves-out-a-listener", trials=3, waits_for_liveness=True),
    "requeues-settled": SessionLiar("sends-its-first-message-again"),
}
"""By the liar of the bundled broker: what a vendor's client does instead."""


def substitute(check: Check, kind: Kind, fault: str, owned: bool, by_vendor: bool, weakens: Collection[str]) -> Check:
    """The check with the control that can be run against a broker under that launcher.

    `fault` is the one under which the claim is tried, and `by_vendor` is set if a vendor's client speaks.
    `weakens` are the names of the settings by which its guarantees can be given up, or seen to be.

    What a claim says about a default is shown by the opposite setting of the very product, and by nothing else.
    """
    control = check.control
    if isinstance(control, Liar) and by_vendor:
        return dataclasses.replace(check, control=_THROUGH_A_CLIENT.get(control.name, control))
    if not isinstance(control, Weakened) or kind is Kind.DEFAULT or not changes_broker(control):
        return check
    given_up = {name for name, _ in control.settings} & _OF_BROKER
    given_up = given_up & {_SETTINGS.get(check.anomaly, "")} or given_up
    if owned:
        return _lying(check, fault)
    if not given_up.isdisjoint(weakens) and control.widened_by in ("", *weakens):
        return check
    if control.widened_by and check.anomaly in _LOSSES and STORES in weakens and not control.journal:
        return dataclasses.replace(check, control=Weakened(((STORES, False),)))
    return _lying(check, fault)


def _lying(check: Check, fault: str) -> Check:
    """The check with its liar; without one, as in a user's own scenario, with its control, which cannot run."""
    liar = LIARS.get((check.anomaly, fault))
    return dataclasses.replace(check, control=liar) if liar else check


def needed_by(item: Scenario, selected: Iterable[Claim]) -> set[str]:
    """Return the capabilities of the selected claims that the scenario decides."""
    return {name for claim in selected if claim.id in item.decides for name in claim.capabilities}


def changes_broker(control: Weakened) -> bool:
    """Whether the control needs another setting of the broker; else only the suite's own client is set."""
    return any(name in _OF_BROKER for name, _ in control.settings)
