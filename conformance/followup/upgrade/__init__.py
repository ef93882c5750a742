"""Test an upgrade: `conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0`.

Every scenario in which a fault ends the broker and it starts again is played twice: by the old version alone, and as an
upgrade, in which the new version starts on the data that the old one left. Claims, controls and judge are those of any
run. A violation that the old version alone also has is not a regression.

Reading order: `broker` (two brokers that share their data and look like one, and their adapter), `planned` (from the
options to the two runs), `course` (recording and judging both), `outcome` (regressions and failed starts).
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
