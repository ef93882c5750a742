"""What can go wrong with a message: one anomaly, one sentence, two expressions.

`applies` and `offends` are SQL over the row of a message (`plan/columns`). A check that applies to no message has
decided nothing. The tables are text, so that they load without a JVM.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.judge.anomalies.calls import CALLS, COMPARED
from conformance.judge.anomalies.deliveries import DELIVERIES, REFUSALS
from conformance.judge.anomalies.disk import DISK
from conformance.judge.anomalies.fates import FATES
from conformance.judge.anomalies.model import Anomaly
from conformance.judge.anomalies.sends import SENDS, TRANSACTIONS
from conformance.judge.anomalies.sessions import SESSIONS, WINDOWS
from conformance.judge.anomalies.strange import STRANGE

__all__ = ["ANOMALIES", "EVERYWHERE", "Anomaly"]

ANOMALIES: Mapping[str, Anomaly] = {
    anomaly.name: anomaly
    for table in (SENDS, WINDOWS, DELIVERIES, TRANSACTIONS, REFUSALS, DISK, SESSIONS, CALLS, COMPARED, STRANGE)
    for anomaly in table
}
"""Every anomaly by its name; `Check.anomaly` of a scenario is one of these."""

EVERYWHERE = tuple(name for name in ANOMALIES if name in FATES.values())
"""The anomalies of the table of fates: each is counted in every trial."""
