"""What takes the place of a weakened control that this broker cannot be given, or that shows nothing there.

A broker that runs already keeps its settings: a liar of the bundled broker then proves that the check sees what it is
about. It proves nothing about this broker, so there is no miss probability, and the report says so: a check-only
control.

A broker that holds nothing back before it writes cannot be seen to lose by the death of a process, whatever is not
synced: the page cache outlives it (Classic 6.1.7, 0 losses in 8 kills with syncs off). What it stores nothing of it
does lose, so that takes the place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from conformance.adapters.launchers import EXTERNAL
from conformance.claims import Kind
from conformance.scenario import Check, Liar, Weakened

_STORES = "persistence"
_LOSSES = ("lost", "lost_committed")
_LIARS: Mapping[tuple[str, str], str] = {
    ("lost", "sync_non_transactional"): "loses-the-last-batch",
    ("lost", "persistence"): "treats-persistent-as-non-persistent",
    ("lost_committed", "sync_transactional"): "loses-the-last-batch",
    ("delivered_after_restart", "sync_non_transactional"): "brings-acknowledged-back",
}
"""By the anomaly, and a setting that its weakened control switches off: a liar that fails at every kill or stop.

Not one that answers before it stores: its record is 5 ms late, and a kill on a busy machine misses that.
"""


def against(check: Check, kind: Kind, launcher: str, settings: Collection[str]) -> Check:
    """The check with the control that can be run against a broker that has these settings, under that launcher.

    What a claim says about a default is shown by the opposite setting of the very product, and by nothing else.
    """
    control = check.control
    if not isinstance(control, Weakened) or kind is Kind.DEFAULT:
        return check
    if launcher == EXTERNAL:
        return _lying(check, control)
    if not control.widened_by or control.widened_by in settings:
        return check
    if check.anomaly in _LOSSES and _STORES in settings and not control.journal:
        return dataclasses.replace(check, control=Weakened(((_STORES, False),), control.trials))
    return _lying(check, control)


def _lying(check: Check, control: Weakened) -> Check:
    liars = [_LIARS[check.anomaly, name] for name, _ in control.settings if (check.anomaly, name) in _LIARS]
    return dataclasses.replace(check, control=Liar(liars[0])) if liars else check
