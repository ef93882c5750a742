"""What takes the place of a control that this broker cannot be given, or that shows nothing there.

A broker that runs already keeps its settings, and some cannot be given up beside another (a quorum queue of RabbitMQ
stores everything): a liar of the bundled broker then proves that the check sees what it is about. It proves nothing
about this broker, so there is no miss probability, and the report says so: a check-only control.

A broker that holds nothing back before it writes cannot be seen to lose by the death of a process, whatever is not
synced: the page cache outlives it (Classic 6.1.7, 0 losses in 8 kills with syncs off). What it stores nothing of it
does lose, so that takes the place.

Through a vendor's client two liars of the bundled broker show nothing: a send that is never answered silences the
client, whose listeners hear in their order (JMS 2.0, 7.3.3), and AMQP 0-9-1 the bundled broker does not speak. What the
check must see is then made by that client, used wrongly, on the broker on trial.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from conformance.adapters.launchers import EXTERNAL
from conformance.claims import VENDOR_SURFACES, Kind
from conformance.scenario import Check, Liar, SessionLiar, Weakened

_STORES = "persistence"
_LOSSES = ("lost", "lost_committed")
_LIARS: Mapping[tuple[str, str], str] = {
    ("lost", "sync_non_transactional"): "loses-the-oldest",
    ("lost", "persistence"): "treats-persistent-as-non-persistent",
    ("lost_committed", "sync_transactional"): "loses-the-oldest",
    ("delivered_after_restart", "sync_non_transactional"): "brings-acknowledged-back",
}
"""By the anomaly, and a setting that its weakened control switches off: a liar that fails at every kill or stop.

Not one that answers before it stores: its record is 5 ms late, and a kill on a busy machine misses that. Nor one that
loses the newest: of a hundred in flight the newest ten may all be unanswered yet.
"""


_THROUGH_A_CLIENT: Mapping[str, SessionLiar] = {
    "never-answers-one-send": SessionLiar("leaves-out-a-listener", trials=3, patient=True),
    "requeues-settled": SessionLiar("sends-its-first-message-again"),
}
"""By the liar of the bundled broker: what a vendor's client does instead."""


def against(check: Check, kind: Kind, launcher: str, protocol: str, weakens: Collection[str]) -> Check:
    """The check with the control that can be run against a broker under that launcher.

    `weakens` are the names of the settings by which its guarantees can be given up, or seen to be.

    What a claim says about a default is shown by the opposite setting of the very product, and by nothing else.
    """
    control = check.control
    if isinstance(control, Liar) and protocol in VENDOR_SURFACES:
        return dataclasses.replace(check, control=_THROUGH_A_CLIENT.get(control.name, control))
    if not isinstance(control, Weakened) or kind is Kind.DEFAULT:
        return check
    if launcher == EXTERNAL or not any(name in weakens for name, _ in control.settings):
        return _lying(check, control)
    if not control.widened_by or control.widened_by in weakens:
        return check
    if check.anomaly in _LOSSES and _STORES in weakens and not control.journal:
        return dataclasses.replace(check, control=Weakened(((_STORES, False),), control.trials))
    return _lying(check, control)


def _lying(check: Check, control: Weakened) -> Check:
    liars = [_LIARS[check.anomaly, name] for name, _ in control.settings if (check.anomaly, name) in _LIARS]
    return dataclasses.replace(check, control=Liar(liars[0])) if liars else check
