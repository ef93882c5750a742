"""An upgrade on trial: `conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0`.

Every scenario in which a broker is ended by a fault and started again is played twice: by the old version alone, and
by the old version until the fault, after which the new version is started on the very data that was left. The claims,
the controls and the judge are those of any run; a violation that the old version alone has is no regression.

Reading order: `broker` (two brokers on one folder of data, which look like one, and the adapter that makes them),
`planned` (from the words of a user to the two runs), `course` (recording and judging both), `outcome` (what follows).
"""

from __future__ import annotations

from conformance.followup.upgrade.broker import (
    FailedUpgradeStart,
    UpgradeAdapter,
    UpgradedBroker,
    UpgradeRecord,
    for_trial,
    pair_of,
)
from conformance.followup.upgrade.course import UpgradeResult, begin, execute, finish, found_again, read
from conformance.followup.upgrade.outcome import UpgradeExpected
from conformance.followup.upgrade.planned import Upgrade, UpgradeRequest, prepare

__all__ = [
    "FailedUpgradeStart",
    "Upgrade",
    "UpgradeAdapter",
    "UpgradeExpected",
    "UpgradeRecord",
    "UpgradeRequest",
    "UpgradeResult",
    "UpgradedBroker",
    "begin",
    "execute",
    "finish",
    "for_trial",
    "found_again",
    "pair_of",
    "prepare",
    "read",
]
