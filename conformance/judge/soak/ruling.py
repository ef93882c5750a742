"""Decide the verdict of a soak from its counts, by the rules of every verdict (design, "Verdicts" 2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.claims import Catalogue, Value, in_force, unmet
from conformance.judge import confidence
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.rows import Verdict
from conformance.judge.rules import FEWEST_FAULTS
from conformance.judge.soak.plan import OFFENCES, SoakCounts

WORDS = {
    "lost": "confirmed and unacknowledged messages are gone",
    "duplicated": "messages were delivered again without a reason",
    "altered": "messages arrived altered",
    "phantom": "messages arrived that no client sent",
}

_PROMISES = {"lost": ("SOLCD-ACK-01",), "duplicated": ("AMQP-ACC-02", "STOMP-ACK-05")}
"""By the word of an offence, claims whose settings promise that it does not happen."""


class ControlSoak(msgspec.Struct, frozen=True, kw_only=True):
    """A short soak of a liar: how many messages offended as its lie makes them; `void` says why it is no control."""

    liar: str
    word: str
    offences: int
    void: str = ""


@dataclasses.dataclass(frozen=True)
class SoakEvidence:
    """What a verdict rests on.

    `faults` are the effective ones that met something at risk, by name. `void` are the segments that the suite could
    not play to their end, with the reason.
    """

    counts: SoakCounts
    whole: SoakCounts
    confirmed: int
    faults: Mapping[str, int]
    void: Sequence[str]
    controls: Sequence[ControlSoak]
    settings: Mapping[str, Value]
    absent: Sequence[str]

    @property
    def differences(self) -> list[str]:
        """How the sum of the segments and the judgement of the whole differ."""
        names = ("messages", *OFFENCES, "settled")
        pairs = [(name, getattr(self.counts, name), getattr(self.whole, name)) for name in names]
        pairs.append(("confirmed", self.confirmed, self.whole.confirmed))
        return [f"{name}: {sum_} by segments, {at_once} at once" for name, sum_, at_once in pairs if sum_ != at_once]


def strength(faults: Mapping[str, int]) -> str:
    """Return the faults as the words of a verdict.

    >>> strength({"kill": 12}), strength({"kill": 2, "stop": 1})
    ('12 kills', '2 kills, 1 stop')
    """
    return ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in faults.items())


def rule(one: SoakEvidence, catalogue: Catalogue) -> tuple[Verdict, str]:
    """Return the verdict of a soak and the reason for it."""
    if one.differences:
        return Verdict.HARNESS_ERROR, f"The segments and the whole disagree: {'; '.join(one.differences)}."
    if offended := [word for word in OFFENCES if getattr(one.counts, word)]:
        return _offended(one, offended, catalogue)
    if one.counts.not_recovered:
        return Verdict.VIOLATED, f"The broker did not start again: {one.counts.not_recovered}."
    doubts = list(_doubts(one))
    if doubts:
        return Verdict.INCONCLUSIVE, doubts[0]
    bound = confidence.percent(confidence.bound(sum(one.faults.values())))
    return Verdict.HOLDS, (
        f"None of {one.confirmed:,} confirmed messages was lost, duplicated or altered. A fault offends with a chance "
        f"of at most {bound} (95 % confidence). A kill cannot show a missing sync: this is about the death of "
        "processes."
    )


def _offended(one: SoakEvidence, offended: Sequence[str], catalogue: Catalogue) -> tuple[Verdict, str]:
    """Return the verdict on offences: those that the configuration does not promise to avoid do not count."""
    said = {
        word: f"{getattr(one.counts, word):,} {WORDS[word]}, such as {one.counts.witnesses[word]}" for word in offended
    }
    missed = {word: _given_up(word, one, catalogue) for word in offended}
    if counted := [said[word] for word in offended if not missed[word]]:
        return Verdict.VIOLATED, f"{'; '.join(counted)}."
    why = next(iter(missed.values()))
    return Verdict.NOT_APPLICABLE, f"This configuration does not promise it: {why}. Seen: {'; '.join(said.values())}."


def _given_up(word: str, one: SoakEvidence, catalogue: Catalogue) -> str:
    """Return a policy of the queue that may explain it, or a condition that no promise meets; empty if one is made."""
    for policy, says in in_force(catalogue.exclusions, one.settings):
        if ANOMALIES[OFFENCES[word]].rests_on(policy.excuses):
            return says
    conditions = [unmet(catalogue.claims[claim].when, one.settings, one.absent) for claim in _PROMISES.get(word, ())]
    return conditions[0] if conditions and all(conditions) else ""


def _doubts(one: SoakEvidence) -> Iterator[str]:
    if one.counts.not_ready:
        yield f"The broker did not start again: {one.counts.not_ready}."
    if one.whole.not_alive:
        yield f"The broker ended, or dropped a connection, by itself: {one.whole.not_alive}."
    if not one.counts.settled:
        yield "The queue was not drained to silence at the end, so nothing is known of the messages that are missing."
    if one.void:
        yield f"{len(one.void)} segment{'s were' if len(one.void) > 1 else ' was'} void: {one.void[0]}."
    if (found := sum(one.faults.values())) < FEWEST_FAULTS:
        yield f"HOLDS needs {FEWEST_FAULTS} faults with a message at risk, and {found} took effect."
    if not one.controls:
        yield "No control was seen to fail: none was run."
    for control in one.controls:
        if not control.offences:
            yield f"No control was seen to fail: liar {control.liar} lost and repeated nothing. {control.void}".strip()
