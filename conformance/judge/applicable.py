"""Whether a claim speaks about this broker, over this protocol, under these settings at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from conformance.claims import VENDOR_SURFACES, Claim, Kind, Subject, Value, assumed, spoken, unmet
from conformance.records import RunRecord

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
    missing = [name for name in claim.capabilities if name not in run.capabilities]
    return f"The broker does not have it over {run.protocol}: {missing[0]}." if missing else ""


def not_promised(claim: Claim, run: RunRecord, session: Mapping[str, Value] = MappingProxyType({})) -> str:
    """That the effective settings give up what the claim says; a session of ours has its settings from its script."""
    if claim.subject is Subject.SESSION:
        return ""
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
