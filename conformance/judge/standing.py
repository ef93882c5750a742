"""Which trials of a run a standing check judges.

A standing check (`Scenario.standing`) is about something that no broker may do in any trial. It judges the subject's
trials of every scenario, with these exceptions: faults that the claim does not name, settings that give the claim up,
and scripts in which the client itself allows what the check is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.claims import VENDOR_SURFACES, Claim, unmet
from conformance.records import RunRecord, TrialRecord
from conformance.scenario import Consume, Scenario, Together, names_of, singles
from conformance.scenario.script import LINK_FAULTS, Publish


def _takes_in(item: Scenario, *modes: str) -> bool:
    return any(isinstance(step, Consume) and step.mode in modes for step in singles(item.steps))


def _gives_back(item: Scenario) -> bool:
    return any(isinstance(step, Consume) and (step.refuse or step.rollback_every) for step in singles(item.steps))


def _shares_a_queue(item: Scenario) -> bool:
    """Whether two consumers are attached at once: what the first of them to end had prefetched goes to the other."""
    together = [step.steps for step in item.steps if isinstance(step, Together)]
    return any(sum(isinstance(step, Consume) for step in steps) > 1 for steps in together)


def _may_lose(item: Scenario) -> bool:
    """The client gives its messages up before it has them, or calls a send confirmed that no broker has answered."""
    return bool(item.settings) or not dict(item.queue).get("durable", True) or _takes_in(item, "no_ack", "pre")


def _may_repeat(item: Scenario) -> bool:
    return _gives_back(item) or _takes_in(item, "dups_ok", "individual_dups_ok")


def _may_reorder(item: Scenario) -> bool:
    """What is rolled back or given back comes again later; what is not persistent may overtake what is."""
    unordered = any(isinstance(step, Publish) and not step.durable for step in singles(item.steps))
    return unordered or _gives_back(item) or _shares_a_queue(item)


_EXCUSED: Mapping[str, Callable[[Scenario], bool]] = {
    "lost": _may_lose,
    "delivered_twice": _may_repeat,
    "overtaken": _may_reorder,
}
"""By anomaly, the scenarios in which it proves nothing."""


def judges(claim: Claim, anomaly: str, item: Scenario, trial: TrialRecord, run: RunRecord) -> bool:
    """Return whether the standing check of a claim judges this trial of a scenario."""
    if trial.arm != "subject" or not {name for fault in item.faults for name in names_of(fault)} <= set(claim.faults):
        return False
    if unmet(claim.when, {**run.settings, **trial.settings, **item.session}, run.absent):
        return False
    # A vendor's client may say that a send has returned whose bytes a broken link has swallowed.
    cut = run.protocol in VENDOR_SURFACES and any(isinstance(fault, LINK_FAULTS) for fault in item.faults)
    if cut and anomaly == "lost":
        return False
    return anomaly not in _EXCUSED or not _EXCUSED[anomaly](item)
