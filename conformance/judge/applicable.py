"""Decide whether a claim applies to this broker, protocol and settings, and to which trials a standing check applies.

A standing check (`Scenario.standing`) is about something that no broker may do in any trial. It judges the subject's
trials of every scenario, except for faults that the claim does not name, settings that do not promise the claim, and
scripts in which the client itself allows the anomaly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from conformance.claims import STORED, Catalogue, Claim, Kind, Subject, Value, assumed_settings, is_about, unmet
from conformance.judge.anomalies import EVERYWHERE
from conformance.records import RunRecord, TrialRecord
from conformance.scenario import Scenario
from conformance.scenario.faults import DECIDE_DISK
from conformance.scenario.needs import RESENDS
from conformance.scenario.reading import shares_a_queue, singles
from conformance.scenario.script import Consume, LinkFault, Publish


def _takes_in(item: Scenario, *modes: str) -> bool:
    return any(isinstance(step, Consume) and step.mode in modes for step in singles(item.steps))


def _gives_back(item: Scenario) -> bool:
    return any(isinstance(step, Consume) and (step.refuse or step.rollback_every) for step in singles(item.steps))


def may_lose(item: Scenario) -> bool:
    """Whether the queue may not be there or not last, or the client settles messages before it has them.

    Or it treats sends as confirmed without an answer, or what was stored is changed.
    """
    options = {"durable": True, **dict(item.queue)}
    lasting = options["durable"] and "undeclared" not in options
    return bool(item.settings) or not lasting or item.damages or _takes_in(item, "no_ack", "pre")


def _sends_again(item: Scenario) -> bool:
    """Whether a client may send a message twice, or may let acknowledgements come late."""
    return RESENDS in item.of_client or _takes_in(item, "dups_ok", "individual_dups_ok")


def _may_reorder(item: Scenario) -> bool:
    """Whether messages are rolled back or given back and come again later, or non-persistent ones may overtake.

    Or they come from another protocol; or a publisher sends to several queues, or again what the broker may take for
    new. Or two consumers are attached at once: what one had prefetched at its end goes to the other.
    """
    sends = [step for step in singles(item.steps) if isinstance(step, Publish)]
    unordered = any(not step.durable or step.queues > 1 or step.resends for step in sends)
    return unordered or item.crosses or _gives_back(item) or shares_a_queue(item.steps)


_LOSSES = frozenset(
    """lost lost_committed gone released_gone failed_gone given_back_nowhere undischarged_gone
    transacted_acknowledgement set_aside_early""".split()
)
_EXCUSED: Mapping[str, Callable[[Scenario], bool]] = {
    **dict.fromkeys(EVERYWHERE, _sends_again),
    **dict.fromkeys(_LOSSES, may_lose),
    # By no fault of the broker. EXPECT-ONCE-01, -PRIORITY-01 and -CROSSED-.. are about some of these.
    "delivered_twice": lambda item: _sends_again(item) or _gives_back(item),
    "overtaken": _may_reorder,
    **dict.fromkeys(("corrupt", "phantom", "stuck"), lambda item: item.crosses or "message_priority" in item.ways),
}
"""By anomaly, whether it proves nothing in a scenario."""


def judges(claim: Claim, anomaly: str, item: Scenario, trial: TrialRecord, run: RunRecord) -> bool:
    """Return whether the standing check of a claim judges this trial of a scenario."""
    met = {name for fault in item.faults for name in fault.names}
    if trial.arm != "subject" or not met <= set(claim.faults):
        return False
    # What is lost without a fault says nothing about the disk; other claims speak of it.
    if claim.of_disk and not met:
        return False
    if unmet(claim.when, {**run.settings, **trial.settings, **item.session}, run.absent):
        return False
    # A vendor's client may return from a send although a broken link lost its bytes.
    cut = run.by_vendor and any(isinstance(fault, LinkFault) for fault in item.faults)
    if cut and anomaly in _LOSSES:
        return False
    return anomaly not in _EXCUSED or not _EXCUSED[anomaly](item)


_NAMES = {
    "activemq": "Apache ActiveMQ Classic",
    "artemis": "Apache Artemis",
    "ems": "TIBCO EMS",
    "qpid": "Apache Qpid",
    "rabbitmq": "RabbitMQ",
    "rabbitmq3": "RabbitMQ before 4.0",
    "rabbitmq4": "RabbitMQ 4",
    "solace": "Solace",
}
_REFERENCE = "reference"
NOT_PROMISED = "Not promised by this configuration: "


def why_not(claim: Claim, run: RunRecord, session: Mapping[str, Value] = MappingProxyType({})) -> str:
    """Return the first reason why the claim does not apply to this run; empty if it applies.

    In this order: another vendor's claim that the user did not ask for, the client and the protocol, the capabilities
    of the broker, and the settings under which it promises the claim. `session` are settings from the script.
    """
    return others(claim, run) or _surface(claim, run) or _capability(claim, run) or not_promised(claim, run, session)


def others(claim: Claim, run: RunRecord) -> str:
    """Say that the claim binds only other products and the user did not ask for it; else empty."""
    if not _foreign(claim, run) or set(claim.binds) & set(run.judged_as):
        return ""
    return f"The sentence binds {_vendors(claim.binds)}, not {run.title or run.adapter}."


def judged_as(claim: Claim, run: RunRecord) -> str:
    """Say that the claim applies to this product only because the user asked (`--judge-as`); else empty."""
    asked = [name for name in claim.binds if name in run.judged_as]
    if not asked or not _foreign(claim, run):
        return ""
    return f"Judged as {_vendors(asked)} at your request; this product never promised it."


def _foreign(claim: Claim, run: RunRecord) -> bool:
    """Whether the claim binds only other products; a check of the suite itself binds the suite."""
    return claim.subject is not Subject.SESSION and bool(claim.binds) and not set(claim.binds) & set(run.profiles)


def _vendors(names: Iterable[str]) -> str:
    return " and ".join(_NAMES.get(name, name) for name in names)


def _surface(claim: Claim, run: RunRecord) -> str:
    used = run.client if run.protocol in claim.surfaces else run.protocol
    if claim.subject is Subject.VENDOR_CLIENT and not (run.by_vendor and run.protocol in claim.surfaces):
        return f"It is about the vendor's own client ({_either(claim.surfaces)}); this run used {used}."
    if claim.subject is Subject.SESSION and run.by_vendor:
        return f"It is about the suite's own sessions; this run used {run.client}."
    if is_about(claim, run.protocol, bundled=run.adapter == _REFERENCE):
        return ""
    return f"It is about {_either(tuple(s for s in claim.surfaces if s != _REFERENCE))}; this run used {run.protocol}."


def _capability(claim: Claim, run: RunRecord) -> str:
    missing = [name for name in claim.capabilities if name not in run.capabilities and name != STORED]
    return f"The broker lacks a capability over {run.protocol}: {missing[0]}." if missing else ""


def not_promised(claim: Claim, run: RunRecord, session: Mapping[str, Value] = MappingProxyType({})) -> str:
    """Say which effective setting does not promise the claim; a session of the suite has settings from its script.

    A broker whose file does not declare that confirmed messages are stored may still lose them, and a loss is reported.
    """
    if claim.subject is Subject.SESSION:
        return ""
    missing = unmet(claim.when, {**run.settings, **session}, run.absent) or undeclared(claim, run)
    return f"{NOT_PROMISED}{missing}." if missing else ""


def undeclared(claim: Claim, run: RunRecord) -> str:
    """Say that the claim rests on `STORED`, and that the broker's file is silent about it; else empty."""
    silent = STORED in claim.capabilities and STORED not in run.capabilities
    return f"the broker's file does not declare {STORED} over {run.protocol}" if silent else ""


def what_to_declare(silent: str, run: RunRecord) -> str:
    """Say how the owner of a file that is `silent` about `STORED` (`undeclared`) lets the judge decide a loss."""
    return (
        f"{silent[:1].upper()}{silent[1:]}. If its documentation says that a confirmed message is stored, add {STORED} "
        f"to the capabilities of [protocols.{run.protocol}]. If the broker stores nothing, "
        "describe the setting persistence: fixed, with the default false."
    )


def assumption(claim: Claim, run: RunRecord) -> str:
    """Say which settings of the claim the broker's file does not describe; empty if it describes all."""
    names = assumed_settings(claim.when, run.settings)
    if not names:
        return ""
    return f"The broker's file does not describe {' and '.join(names)}, so the promise is assumed."


def gives_up(item: Scenario, catalogue: Catalogue, run: RunRecord) -> bool:
    """Whether a trial of a scenario may lose what was confirmed: by its script, or since no claim says it is synced.

    Counter-example: a broker whose settings sync nothing loses what a power loss finds, and has promised no more.
    """
    if may_lose(item):
        return True
    if not any(DECIDE_DISK.intersection(fault.names) for fault in item.faults):
        return False
    of_disk = [claim for claim in map(catalogue.claims.get, item.decides) if claim and claim.of_disk]
    return all(why_not(claim, run, item.session) and claim.id not in run.required for claim in of_disk)


def can_fail(claim: Claim) -> bool:
    """Whether a failed check speaks against a broker that does not promise the claim.

    A permission or an observation cannot fail. A default is about a key that is absent, and here the key is set. No
    document promises an expectation of this suite.
    """
    return claim.judged and claim.kind is not Kind.DEFAULT and not claim.is_expectation


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(words) or "the bundled broker"
