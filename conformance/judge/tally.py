"""Count the trials of one claim in one scenario: those of the subject and of its control."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

import msgspec

from conformance.adapters.launchers import is_owned
from conformance.claims import Claim
from conformance.history import message_id
from conformance.judge import applicable
from conformance.judge.anomalies import ANOMALIES, Anomaly
from conformance.judge.plan.exposures import EXPOSURES
from conformance.judge.plan.facts import TrialFacts, median
from conformance.judge.rows import ControlResult, Exposure, Witness
from conformance.records import RunRecord, TrialRecord
from conformance.scenario import Check, Scenario, Weakened
from conformance.scenario.controls import substitute
from conformance.scenario.script import SETTLE

NONE = "none"
NOT_EFFECTIVE = "the fault did not take effect"
_FIELD = re.compile(r"\{[^}]*\}")
WITNESSES = 10
"""At most so many witnesses of one row; offences are counted in full."""


@dataclasses.dataclass(frozen=True)
class ClaimEvidence:
    """Everything that was recorded: the trials, and the facts of those that are not void."""

    run: RunRecord
    trials: Sequence[TrialRecord]
    facts: Mapping[str, TrialFacts]

    def of(self, scenario: str, arm: str, control: str = "") -> list[TrialRecord]:
        """Return the trials of one arm of one scenario; `control` is the label of a control."""
        found = [t for t in self.trials if (t.scenario, t.arm, t.control) == (scenario, arm, control)]
        return sorted(found, key=lambda trial: trial.index)


@dataclasses.dataclass(frozen=True)
class Arm:
    """The trials of one arm: the valid ones with their facts, and why each of the others is void."""

    recorded: int
    valid: tuple[tuple[TrialRecord, TrialFacts], ...]
    void: tuple[tuple[TrialRecord, str], ...]

    @property
    def facts(self) -> list[TrialFacts]:
        return [facts for _, facts in self.valid]

    def offended(self, anomaly: str) -> int:
        return sum(facts.offences(anomaly) > 0 for facts in self.facts)


@dataclasses.dataclass(frozen=True)
class Tally:
    """The counted trials of one claim in one scenario: the evidence of a verdict."""

    claim: Claim
    scenario: Scenario
    check: Check
    fault: str
    subject: Arm
    control: Arm

    @property
    def anomaly(self) -> Anomaly:
        return ANOMALIES[self.check.anomaly]

    @property
    def trials(self) -> int:
        """The number of valid trials of the subject."""
        return len(self.subject.valid)

    @property
    def offended(self) -> int:
        """The number of valid trials with at least one counterexample or witness."""
        return self.subject.offended(self.anomaly.name)

    @property
    def faults(self) -> int:
        """The independent units of the subject: its faults, or its trials if the claim is tried without a fault."""
        return self._units(self.subject, self.fault != NONE)

    @property
    def faults_at_trigger(self) -> int:
        """Of the faults, those that came at the trigger of this scenario; the others met it at some moment."""
        if self.fault == NONE:
            return self.faults
        return sum(facts.faults_at_trigger(self.anomaly.name, self.check.exposure) for facts in self.subject.facts)

    @property
    def offended_faults(self) -> int:
        return self._offended_units(self.subject.facts, self.fault != NONE)

    @property
    def failed_as_its_defect(self) -> list[TrialFacts]:
        """The trials of the control that offended; of one that stands for a missing sync, those that lost the end."""
        name, tail = self.anomaly.name, self.check.control is not None and self.check.control.tail
        return [each for each in self.control.facts if (each.lost_the_end(name) if tail else each.offences(name))]

    def faults_within(self, window_ms: int) -> int:
        """Count the faults that would surely have shown a broker which stores so long after its answer."""
        return sum(facts.faults_within(self.check.exposure, window_ms) for facts in self.subject.facts)

    @property
    def counts_faults(self) -> bool:
        """Whether only those faults count that met something at risk; else every valid trial does."""
        return self.fault != NONE and bool(EXPOSURES[self.check.exposure].since)

    def _units(self, arm: Arm, by_fault: bool) -> int:
        each = [facts.faults(self.anomaly.name, self.check.exposure) for facts in arm.facts]
        return sum(each) if by_fault else len(each)

    def _offended_units(self, trials: Sequence[TrialFacts], by_fault: bool) -> int:
        each = [facts.offended_faults(self.anomaly.name, self.check.exposure) for facts in trials]
        return sum(each if by_fault else map(bool, each))

    @property
    def offences(self) -> int:
        return sum(facts.offences(self.anomaly.name) for facts in self.subject.facts)

    @property
    def applies(self) -> int:
        return sum(facts.applies(self.anomaly.name) for facts in self.subject.facts)

    @property
    def strong(self) -> bool:
        """Whether the control is the same product and shows the cost of a missing sync: only then there is a q."""
        return isinstance(self.check.control, Weakened) and not self.check.control.stores_nothing

    @property
    def exposure(self) -> Exposure | None:
        """What was at risk in the valid trials; zero if the check applied to nothing, None without a trial."""
        if not self.trials:
            return None
        name, check = self.anomaly.name, self.check.exposure
        each = [facts.exposed(check) if facts.applies(name) else 0 for facts in self.subject.facts]
        met = [  # a trial whose faults met nothing at risk does not count
            count
            for count, facts in zip(each, self.subject.facts, strict=True)
            if self.counts_faults and (count or not facts.applies(name))
        ]
        windows = [facts.window_ns(self.check.exposure) for facts in self.subject.facts]
        return Exposure(
            name=self.check.exposure,
            total=sum(each),
            minimum=min(met or each),
            median=median(each),
            trials=self.trials,
            confirmed=sum(int(facts.counts["all_confirmed"]) for facts in self.subject.facts),
            window_ms=round(max((window or 0 for window in windows), default=0) / 1e6, 3),
        )

    @property
    def figures(self) -> list[str]:
        """The figures of an observation as texts, medians of the valid trials."""
        found = []
        for place, (words, _) in enumerate(self.anomaly.figures):
            each = [
                figure for facts in self.subject.facts if (figure := facts.figure(self.anomaly.name, place)) is not None
            ]
            found.append(words.format(median(each)) if each else f"no figure for '{_FIELD.sub('…', words)}'")
        return found

    @property
    def control_result(self) -> ControlResult | None:
        """How often the control failed; None for a check without a recorded control.

        Its faults count where each must put something at risk. Of two stops, one may show nothing of a liar.
        """
        if self.check.control is None or not self.control.recorded:
            return None
        return ControlResult(
            label=self.check.control.label,
            strong=self.strong,
            failed=self._offended_units(self.failed_as_its_defect, self.counts_faults),
            trials=self._units(self.control, self.counts_faults),
        )

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        """Some of the counterexamples: the first of each trial, then the second, and so on."""
        found = [
            (place, number, Witness(trial=record.trial, queue=queue, message=message_id(producer, n)))
            for number, (record, facts) in enumerate(self.subject.valid)
            if self.anomaly.name in facts.failing
            for place, (queue, producer, n) in enumerate(facts.failing[self.anomaly.name].witnesses)
        ]
        return tuple(witness for _, _, witness in sorted(found, key=lambda item: item[:2]))[:WITNESSES]


def count(
    evidence: ClaimEvidence, claim: Claim, scenario: Scenario, check: Check, scenarios: Mapping[str, Scenario]
) -> Tally:
    """Count the trials of the claim in this scenario; for a standing one, those of all `scenarios`."""
    fault = NONE if scenario.standing else scenario.fault_for(claim)
    run = evidence.run
    weakens = run.settings if run.weakens is None else run.weakens
    check = substitute(check, claim.kind, fault, is_owned(run.launcher), run.by_vendor, weakens)
    control = evidence.of(scenario.id, "control", check.control.label) if check.control else []
    subject = _arm(evidence.of(scenario.id, "subject"), evidence, fault, ANOMALIES[check.anomaly])
    if scenario.standing:
        subject = _everywhere(evidence, claim, check, scenarios, subject)
    return Tally(
        claim=claim,
        scenario=scenario,
        check=check,
        fault=fault,
        subject=subject,
        control=_arm(control, evidence, fault, ANOMALIES[check.anomaly]),
    )


def _everywhere(
    evidence: ClaimEvidence, claim: Claim, check: Check, scenarios: Mapping[str, Scenario], own: Arm
) -> Arm:
    """Return the trials of every scenario in which a standing check could have failed, or did.

    Without an offence and without a trial of its own scenario, in which its control fails, it has not been tried.
    """
    anomaly = ANOMALIES[check.anomaly]
    chosen = [
        trial
        for trial in evidence.trials
        if (item := scenarios.get(trial.scenario)) and applicable.judges(claim, anomaly.name, item, trial, evidence.run)
    ]
    every = _arm(chosen, evidence, NONE, anomaly)
    offended = any(facts.offences(anomaly.name) for facts in every.facts)
    if not (own.recorded or offended):
        return own
    able = tuple(
        (trial, facts)
        for trial, facts in every.valid
        if facts.offences(anomaly.name) or _could_show(scenarios[trial.scenario], facts, check)
    )
    return Arm(len(chosen), able, tuple(each for each in every.void if each[0].is_void_by_broker)) if able else own


def _could_show(scenario: Scenario, facts: TrialFacts, check: Check) -> bool:
    """Whether the check could have failed: not beside messages that two protocols altered, for which there are claims.

    What a trial lacks that should have emptied its queue is unknown.
    """
    if not facts.exposed(check.exposure) or (scenario.crosses and facts.strange):
        return False
    if facts.settled or not ANOMALIES[check.anomaly].drained:
        return facts.applies(check.anomaly) > 0
    return scenario.steps[-2:] == SETTLE[-2:]


def _arm(records: Sequence[TrialRecord], evidence: ClaimEvidence, fault: str, anomaly: Anomaly) -> Arm:
    """Return the valid and void trials: without an effective fault a trial is void for claims about the fault.

    Some offences count without it: a broker that confirms and never syncs has no sync that could be held, and a broker
    that does not start may have been broken in the trial before. A trial in which the broker ended by itself is void
    for every claim that it does not offend.
    """
    valid, void = [], []
    for record in records:
        facts = evidence.facts.get(record.trial)
        if record.void or facts is None:
            void.append((record, record.void or "nothing was recorded"))
        elif facts.ended and not facts.offences(anomaly.name):
            void.append((msgspec.structs.replace(record, void_by_broker=True), facts.ended))
        elif not (
            fault == NONE
            or facts.effective(fault)
            or facts.refused_damage
            or (anomaly.true_without_fault and facts.offences(anomaly.name))
        ):
            void.append((record, NOT_EFFECTIVE))
        else:
            valid.append((record, facts))
    return Arm(len(records), tuple(valid), tuple(void))
