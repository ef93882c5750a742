"""Decide whether a claim applies to this broker, protocol and settings, and to which trials a standing check applies.

A standing check (`Scenario.standing`) is about something that no broker may do in any trial. It judges the subject's
trials of every scenario, with these exceptions: faults that the claim does not name, settings that give the claim up,
and scripts in which the client itself allows what the check is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from conformance.claims import STORED, VENDOR_SURFACES, Claim, Kind, Subject, Value, assumed, spoken, unmet
from conformance.records import RunRecord, TrialRecord
from conformance.scenario import Scenario, names_of
from conformance.scenario.script import LINK_FAULTS, Consume, Publish, Together, singles


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


_NAMES = {"artemis": "Apache Artemis", "qpid": "Apache Qpid", "ems": "TIBCO EMS", "solace": "Solace"}
_REFERENCE = "reference"
NOT_PROMISED = "Not promised by this configuration: "


def why_not(claim: Claim, run: RunRecord, session: Mapping[str, Value] = MappingProxyType({})) -> str:
    """The first reason why the claim does not apply to the broker of this run, in words; empty where it does.

    A claim of another vendor judges nobody here unless the user asked; then come the client and the protocol it is
    about, what the broker must be able to do, and the settings under which it promises anything. `session` are those
    that a client has of its own, from its script.
    """
    return others(claim, run) or _surface(claim, run) or _capability(claim, run) or not_promised(claim, run, session)


def others(claim: Claim, run: RunRecord) -> str:
    """That the claim binds other products only, and nobody asked to be judged by it."""
    if not _foreign(claim, run) or set(claim.binds) & set(run.judged_as):
        return ""
    return f"The sentence binds {_vendors(claim.binds)}, not {run.title or run.adapter}."


def judged_as(claim: Claim, run: RunRecord) -> str:
    """That the claim applies to this product only because the user asked (`--judge-as`); empty where it does not."""
    asked = [name for name in claim.binds if name in run.judged_as]
    if not asked or not _foreign(claim, run):
        return ""
    return f"Judged as {_vendors(asked)} at your request; this product never promised it."


def _foreign(claim: Claim, run: RunRecord) -> bool:
    """Whether it binds other products only; a check of the suite itself binds the suite."""
    return claim.subject is not Subject.SESSION and bool(claim.binds) and not set(claim.binds) & set(run.profiles)


def _vendors(names: Iterable[str]) -> str:
    return " and ".join(_NAMES.get(name, name) for name in names)


def _surface(claim: Claim, run: RunRecord) -> str:
    if claim.subject is Subject.VENDOR_CLIENT and run.protocol not in claim.surfaces:
        return f"It is about the vendor's own client ({_either(claim.surfaces)}); this run spoke {run.protocol}."
    if claim.subject is Subject.SESSION and run.protocol in VENDOR_SURFACES:
        return f"It is about the suite's own sessions; this run used {run.client}."
    if spoken(claim, run.protocol, bundled=run.adapter == _REFERENCE):
        return ""
    return f"It is about {_either(tuple(s for s in claim.surfaces if s != _REFERENCE))}; this run spoke {run.protocol}."


def _capability(claim: Claim, run: RunRecord) -> str:
    missing = [name for name in claim.capabilities if name not in run.capabilities and name != STORED]
    return f"The broker does not have it over {run.protocol}: {missing[0]}." if missing else ""


def not_promised(claim: Claim, run: RunRecord, session: Mapping[str, Value] = MappingProxyType({})) -> str:
    """That the effective settings give up what the claim says; a session of ours has its settings from its script.

    A broker whose file does not declare that what it confirms is stored may still lose it, and a loss must be told.
    """
    if claim.subject is Subject.SESSION:
        return ""
    if STORED in claim.capabilities and STORED not in run.capabilities:
        return f"{NOT_PROMISED}the broker's file does not declare {STORED} over {run.protocol}."
    missed = unmet(claim.when, {**run.settings, **session}, run.absent)
    return f"{NOT_PROMISED}{missed}." if missed else ""


def assumption(claim: Claim, run: RunRecord) -> str:
    """Say which promises the claim rests on that the broker's file does not describe; empty where it describes all."""
    names = assumed(claim.when, run.settings)
    if not names:
        return ""
    return f"The broker's file does not describe {' and '.join(names)}, so the promise is assumed."


def can_fail(claim: Claim) -> bool:
    """Whether a failed check speaks against a broker that does not promise the claim.

    A permission or an observation cannot fail. A default is about a key that is absent, and here the key is set. What
    this suite expects nobody has promised.
    """
    return claim.judged and claim.kind is not Kind.DEFAULT and not claim.is_expectation


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(words) or "the bundled broker"
