"""Decide the row of each claim and scenario from counted trials, without Spark (design, "Verdicts")."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from conformance import claims, counting
from conformance.adapters.launchers import is_owned
from conformance.claims import DESTINATIONS, Catalogue, Claim, Exclusion, Kind, Subject, Value, in_force
from conformance.judge import applicable, reasons, tally
from conformance.judge.anomalies import ANOMALIES, EVERYWHERE
from conformance.judge.anomalies.model import REPEATS
from conformance.judge.plan import relations
from conformance.judge.rows import HERE, Verdict, VerdictRow
from conformance.judge.tally import NONE, ClaimEvidence, Tally
from conformance.records import NOT_FIRED, RunRecord
from conformance.scenario import Check, Scenario
from conformance.scenario.faults import DECIDE_DISK, FAULTS
from conformance.scenario.needs import JOURNAL_WATCHED
from conformance.scenario.script import LONGEST_DELAY_MS

FEWEST_FAULTS = 3
"""Effective faults without an offence that HOLDS needs, with a strong control or a liar."""

FEWEST_FAILURES = 2
"""A control of several trials must fail in so many: one failure may have another cause than the weakened setting."""

_REPEATED = (Kind.LIVENESS, Kind.TIMING)

_FAILING_DISK = "A failing disk only: a held sync or a power loss shows whether answers wait for a disk that works."
_PROCESS_DEATH = "Process death only: the claim is about the disk, and the page cache survives the death of a process."
_APPLIED_TO_NOTHING = "The check applied to nothing in"
_NOTHING_AT_RISK = "Nothing was at risk in"
_DEFAULT_UNTRIED = "No scenario of this version tries it."
_OF_PROFILE = "Decided on a profile of the bundled broker only: no product of its vendor can be tried by it."
_LEFT_OUT = "Left out by the selection."
_NO_TRIAL = "The run has no trial of its scenario."
UNPLAYED = (_LEFT_OUT, _NO_TRIAL)
"""The reasons of rows that another selection of the same broker would have tried."""


@dataclasses.dataclass(frozen=True)
class Ruling:
    """A verdict with its reason; `required` if only the user asked for it.

    `short`: the only obstacle to HOLDS is that the fault does not reach the disk, or that a failing disk met nothing in
    some trials. `decided_by`: the scenario with a stronger fault for which the claim holds.
    """

    verdict: Verdict
    reason: str
    required: bool = False
    short: bool = False
    decided_by: str = ""


def rows(
    catalogue: Catalogue, scenarios: Mapping[str, Scenario], evidence: ClaimEvidence, untried: Mapping[str, str]
) -> list[VerdictRow]:
    """Return a row for each claim and scenario that decides it, and one for each other claim, in catalogue order."""
    found: list[VerdictRow] = []
    shown = _shown_everywhere(evidence)
    for claim in catalogue.claims.values():
        counted = [
            tally.count(evidence, claim, scenario, scenario.decides[claim.id], scenarios)
            for scenario in scenarios.values()
            if claim.id in scenario.decides and scenario.id not in evidence.run.left_to_thorough
        ]
        counted += _seen_elsewhere(claim, scenarios, evidence, shown)
        ruled = _decided([(one, rule(one, evidence, untried)) for one in counted])
        found += [_row(claim, evidence, ruling, one) for one, ruling in ruled]
        if not counted:
            found.append(_row(claim, evidence, _unscripted(claim, evidence, untried), None))
    return found


def _shown_everywhere(evidence: ClaimEvidence) -> Mapping[str, frozenset[str]]:
    """Return the anomalies that every trial is checked for, and that trials of a scenario show, by its id."""
    found: dict[str, frozenset[str]] = {}
    for trial in evidence.trials:
        if trial.arm == "subject" and (facts := evidence.facts.get(trial.trial)):
            shown = {name for name in (*EVERYWHERE, *relations.ALWAYS) if facts.offences(name)}
            found[trial.scenario] = found.get(trial.scenario, frozenset()) | shown
    return found


def _seen_elsewhere(
    claim: Claim, scenarios: Mapping[str, Scenario], evidence: ClaimEvidence, shown: Mapping[str, frozenset[str]]
) -> Iterator[Tally]:
    """Count the claim in each scenario that does not decide it by an anomaly of the claim, and in which that was seen.

    For a counterexample a trial needs no control.
    """
    for anomaly in counted_everywhere(claim):
        deciding = {
            item.id: item.standing
            for item in scenarios.values()
            if claim.id in item.decides and item.decides[claim.id].anomaly == anomaly
        }
        if any(deciding.values()):
            continue
        for item in (item for item in scenarios.values() if anomaly in shown.get(item.id, ())):
            counted = item.checks or tuple(item.decides.values())
            if counted and item.id not in deciding and judges_elsewhere(claim, anomaly, item, evidence):
                exposure, alone = counted[0].exposure, dataclasses.replace(item, standing=False)  # its own trials only
                one = tally.count(evidence, claim, alone, Check(anomaly, exposure, control=None), scenarios)
                if one.offended:
                    yield one


def counted_everywhere(claim: Claim) -> list[str]:
    """Return the anomalies of the claim that every trial is checked for."""
    return [name for name in claim.checks if name in EVERYWHERE or name in relations.ALWAYS]


def judges_elsewhere(claim: Claim, anomaly: str, item: Scenario, evidence: ClaimEvidence) -> bool:
    """Whether the trials of a scenario can falsify the claim, although its check is not one of the scenario's."""
    if anomaly not in EVERYWHERE:  # a broker that refuses damaged data has answered well
        return claim.always_judged and not item.damages
    run, trials = evidence.run, evidence.of(item.id, "subject")
    if not (
        (_selects(run, claim) or claim.always_judged) and claim.kind is Kind.SAFETY and claim.subject is Subject.BROKER
    ):
        return False
    suits = (
        claim.gets_verdict(run.required)
        and not item.other_than(claim, offended=True)
        and not applicable.why_not(claim, run, item.session)
    )
    return suits and any(applicable.judges(claim, anomaly, item, trial, run) for trial in trials)


def _decided(ruled: Sequence[tuple[Tally, Ruling]]) -> Iterator[tuple[Tally, Ruling]]:
    """Return the rulings on one claim; short ones name the durability test that holds, if no other row is open."""
    by = next((t.scenario.id for t, r in ruled if r.verdict is Verdict.HOLDS and t.fault in DECIDE_DISK), None)
    undecided = any(ruling.verdict is Verdict.INCONCLUSIVE and not ruling.short for _, ruling in ruled)
    for one, ruling in ruled:
        if by and ruling.short and not undecided:
            reason = f"{ruling.reason} Covered by a stronger test: {by}."
            yield one, dataclasses.replace(ruling, reason=reason, decided_by=by)
        else:
            yield one, ruling


def _unscripted(claim: Claim, evidence: ClaimEvidence, untried: Mapping[str, str]) -> Ruling:
    if evidence.run.no_client_reason:
        return _without_client(claim, evidence.run)
    why = applicable.why_not(claim, evidence.run)
    if why:
        return Ruling(Verdict.NOT_APPLICABLE, why)
    return Ruling(Verdict.NOT_TRIED, untried.get(claim.id, _DEFAULT_UNTRIED))


def rule(one: Tally, evidence: ClaimEvidence, untried: Mapping[str, str]) -> Ruling:
    """Decide one claim in one scenario; the row of another vendor's sentence says that the user asked for it."""
    ruling = _rule(one, evidence, untried)
    asked = applicable.judged_as(one.claim, evidence.run)
    if not asked or ruling.verdict in (Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE):
        return ruling
    return dataclasses.replace(ruling, reason=f"{asked} {ruling.reason}", required=True)


def _rule(one: Tally, evidence: ClaimEvidence, untried: Mapping[str, str]) -> Ruling:
    run, claim = evidence.run, one.claim
    if run.no_client_reason:
        return _without_client(claim, run)
    why = applicable.why_not(claim, run, one.scenario.session) or _excluded(one, run)
    required = bool(why) and claim.id in run.required
    silent = applicable.undeclared(claim, run)
    may_fail = one.offended and claim.gets_verdict(run.required)
    if silent and may_fail and not required and why == f"{applicable.NOT_PROMISED}{silent}.":
        return Ruling(Verdict.INCONCLUSIVE, f"{reasons.why_violated(one)} {applicable.what_to_declare(silent, run)}")
    if why and not required:
        return Ruling(Verdict.NOT_APPLICABLE, f"{why} {reasons.why_observed(one)}" if one.trials else why)
    seen_always = claim.always_judged and one.offended
    if not _selects(run, claim) and not seen_always:
        return Ruling(Verdict.NOT_TRIED, _LEFT_OUT)
    if not one.subject.recorded:
        if unable := _unable(one, run):
            return Ruling(Verdict.NOT_TRIED, reasons.sentence(unable))
        if not run.finished:
            return Ruling(Verdict.INCONCLUSIVE, reasons.incomplete(run), required)
        return Ruling(Verdict.NOT_TRIED, untried.get(claim.id, _NO_TRIAL))
    if not one.trials:
        return dataclasses.replace(
            _all_void(f"Every trial was void: {one.subject.void[0][1]}", one, run), required=required
        )
    if claim.judged and not claim.gets_verdict(run.required):
        return Ruling(Verdict.OBSERVED, reasons.why_expected(one))
    ruling = _excused(_judged(one, evidence), one, run) if claim.judged else _permission(one)
    if claim.is_expectation:
        return _expected(ruling, claim, run)
    if required:
        return _required(ruling, why)
    if ruling.verdict is Verdict.VIOLATED and (rests_on := applicable.assumption(claim, run)):
        return dataclasses.replace(ruling, reason=f"{ruling.reason} {rests_on}")
    return ruling


def _in_force(run: RunRecord, asked: Mapping[str, Value] = MappingProxyType({})) -> Iterator[tuple[Exclusion, str]]:
    """Return the queue policies of this configuration, each with its text for the reason; `asked` are a script's own.

    The suite never drains the dead-letter and expiry queues of an external broker: they belong to its owner.
    """
    values = {**run.settings, **asked, **(dict.fromkeys(DESTINATIONS, "") if is_owned(run.launcher) else {})}
    return in_force(claims.load().exclusions, values)


def _policies(one: Tally, run: RunRecord) -> Iterator[tuple[Exclusion, str]]:
    """Return the policies that may explain what the check rests on, in one of the trials at least."""
    asked = next((trial.settings for trial, _ in one.subject.valid if one.scenario.settings), {})
    values = {**run.settings, **asked}
    for exclusion, words in _in_force(run, asked):
        if one.anomaly.rests_on(exclusion.excuses) and _may_explain(exclusion, one, values):
            yield exclusion, words


def _may_explain(exclusion: Exclusion, one: Tally, values: Mapping[str, Value]) -> bool:
    """Whether a message of a trial may have reached the measure of a policy: its age, or its deliveries.

    Counter-example: a time to live of an hour explains nothing that was lost in a trial of ten seconds.
    """
    facts = one.subject.facts
    return not facts or any(all(each.may_reach(name, values[name]) for name in exclusion.where) for each in facts)


def _all_void(reason: str, one: Tally, run: RunRecord) -> Ruling:
    """Return an error of the suite, unless the broker voided the trials, or may have kept the trigger from coming.

    Counter-examples: messages that expire after 500 ms never reach the consumer whose 120th delivery is the trigger;
    and Classic, as it is delivered, may remove no file of its journal as long as a trial lasts.
    """
    if why := next((words for exclusion, words in _in_force(run) if exclusion.excuses != ("aside",)), None):
        return Ruling(Verdict.INCONCLUSIVE, f"{reasons.sentence(reason)} A policy may explain it: {why}.")
    if one.subject.void and all(record.is_void_by_broker for record, _ in one.subject.void) and not one.trials:
        return Ruling(Verdict.INCONCLUSIVE, reasons.sentence(reason))
    if JOURNAL_WATCHED in one.scenario.needs and NOT_FIRED in reason:
        return Ruling(Verdict.INCONCLUSIVE, f"{reasons.sentence(reason)} The broker removed too few journal files.")
    return Ruling(Verdict.HARNESS_ERROR, reason)


def _excluded(one: Tally, run: RunRecord) -> str:
    """Say that the claim is not promised because a policy excuses the evidence of its check; else empty."""
    why = next((words for exclusion, words in _policies(one, run) if not exclusion.undecided), None)
    return f"{applicable.NOT_PROMISED}{why}." if why else ""


def _excused(ruling: Ruling, one: Tally, run: RunRecord) -> Ruling:
    """Return a violation that a policy may have caused as INCONCLUSIVE, unless the user requires the claim."""
    if ruling.verdict is not Verdict.VIOLATED:
        return ruling
    why = next((words for exclusion, words in _policies(one, run) if exclusion.undecided), None)
    if why and one.claim.id in run.required:
        return _required(ruling, f"{why}.")
    if not why and run.policies_unread and one.anomaly.rests_on(("absence",)) and not _younger_are_gone(one):
        why = f"the policies of the queues could not be read ({run.policies_unread.rstrip('.')})"
    if not why:
        return ruling
    return dataclasses.replace(
        ruling, verdict=Verdict.INCONCLUSIVE, reason=f"{ruling.reason} A policy may explain it: {why}."
    )


def _younger_are_gone(one: Tally) -> bool:
    """Whether each loss left older messages of its trial: no age and no length of a queue explains that."""
    name = one.anomaly.name
    return all(each.part(name) in ("middle", "tail") for each in one.subject.facts if each.offences(name))


def _selects(run: RunRecord, claim: Claim) -> bool:
    return not run.selected or claim.id in run.selected


def _without_client(claim: Claim, run: RunRecord) -> Ruling:
    """Rule on a run without a client: only the products that the claim binds matter, not their protocols."""
    if why := applicable.others(claim, run):
        return Ruling(Verdict.NOT_APPLICABLE, why)
    return Ruling(Verdict.NOT_TRIED, run.no_client_reason if _selects(run, claim) else _LEFT_OUT)


def _unable(one: Tally, run: RunRecord) -> str | None:
    """Say which fault or other need of the scenario this run cannot provide; else None."""
    for name in (name for fault in one.scenario.faults for name in fault.names if name in run.unable):
        if is_owned(run.launcher):  # the owner's file decides, not this machine
            return f"No {name} of an external broker: {run.unable[name]}"
        return f"This machine cannot do {name}: {run.unable[name]}"
    needs = (need.name for need in (*one.scenario.needs, *one.scenario.of_client))
    return next((f"It needs {name}: {run.unable[name]}" for name in needs if name in run.unable), None)


def _required(ruling: Ruling, why: str) -> Ruling:
    reason = ruling.reason
    if ruling.verdict is Verdict.VIOLATED:
        missing = why.removeprefix(applicable.NOT_PROMISED)
        reason = f"{reason} Your requirement, not promised by this configuration: {missing}"
    return dataclasses.replace(ruling, reason=reason, required=True)


def _expected(ruling: Ruling, claim: Claim, run: RunRecord) -> Ruling:
    """Return the ruling on an expectation; a violation says that no document makes the claim, and who asked."""
    required = claim.id in run.required
    if ruling.verdict is Verdict.VIOLATED:
        whose = "Your requirement" if required else "An expectation of this suite"
        ruling = dataclasses.replace(ruling, reason=f"{ruling.reason} {whose}; no document makes it.")
    return dataclasses.replace(ruling, required=required)


def _permission(one: Tally) -> Ruling:
    other = one.anomaly.beside
    beside = sum(facts.offences(other) for facts in one.subject.facts) if other else None
    if one.claim.kind is Kind.OBSERVATION:
        return Ruling(Verdict.OBSERVED, reasons.why_observed(one))
    witnessed = one.offences > 0 and beside != 0
    return Ruling(Verdict.WITNESSED if witnessed else Verdict.NOT_WITNESSED, reasons.permission(one, beside))


def _judged(one: Tally, evidence: ClaimEvidence) -> Ruling:
    ruling = _against_control(one, evidence)
    base = "the configuration that was given" if evidence.run.configuration else "stock"
    rests_on = reasons.of_default(one, evidence.run.absent, evidence.run.changed, base)
    of_profile = _OF_PROFILE if one.claim.of_profile else ""
    return dataclasses.replace(ruling, reason=" ".join(filter(None, (ruling.reason, rests_on, of_profile))))


def _against_control(one: Tally, evidence: ClaimEvidence) -> Ruling:
    due = REPEATS if one.claim.kind in _REPEATED else one.anomaly.trials
    if one.offended >= due:
        return Ruling(Verdict.VIOLATED, reasons.why_violated(one))
    if one.offended:
        return Ruling(Verdict.INCONCLUSIVE, f"{reasons.why_violated(one)} A violation needs {due} trials that show it.")
    if one.control.recorded and not one.control.valid:
        return _all_void(f"Every trial of its control was void: {one.control.void[0][1]}", one, evidence.run)
    against = list(obstacles(one, evidence))
    if against:
        short = [doubt for doubt in against if not doubt.startswith(_unmet(one))] == [short_of_disk(one)]
        return Ruling(Verdict.INCONCLUSIVE, f"{against[0]} Seen: {reasons.figure(one)}.", short=short)
    return Ruling(Verdict.HOLDS, reasons.holds(one))


def _unmet(one: Tally) -> tuple[str, ...]:
    """Return how the doubts begin that count for nothing: of trials whose failing disk met no operation of this claim.

    Counter-example: a broker that syncs each send of a transaction ends at the first sync that fails, and mostly before
    it reads the commit. That says nothing for or against its commits, which a held sync and a power loss have tried.
    """
    met = [facts for facts in one.subject.facts if facts.applies(one.anomaly.name)]
    at_risk = all(facts.exposed(one.check.exposure) for facts in met)
    return (_APPLIED_TO_NOTHING, _NOTHING_AT_RISK) if at_risk and short_of_disk(one) == _FAILING_DISK else ()


def obstacles(one: Tally, evidence: ClaimEvidence) -> Iterator[str]:
    """Yield the reasons against HOLDS although no counterexample was found, the most important first."""
    facts, trials = one.subject.facts, reasons.units(one, one.trials)
    if not evidence.run.finished:
        yield reasons.incomplete(evidence.run)
    if strange := sum(each.strange for each in facts):
        yield f"{strange:,} messages arrived that no client sent, or altered: the counts cannot be trusted."
    if by_broker := [why for record, why in one.subject.void if record.is_void_by_broker]:
        were = "trial was void" if len(by_broker) == 1 else "trials were void"
        yield f"{len(by_broker)} {were} because of the broker: {reasons.sentence(by_broker[0])}"
    if unready := [each.unready for each in facts if each.unready and not each.refused_damage]:
        yield f"The broker did not start again in {len(unready)} of {trials}: {reasons.sentence(unready[0])}"
    if refused := [each.unready for each in facts if each.refused_damage and not each.effective(one.fault)]:
        never = f"so no {FAULTS[one.fault].counted[0]} came"
        yield f"A node refused its damaged data in {len(refused)} of {trials}, {never}: {reasons.sentence(refused[0])}"
    if hidden := reasons.hidden_from_tracer(one):
        yield hidden
    answered = [each for each in facts if not each.refused_damage]
    if open_ := sum(not each.settled for each in answered) if one.anomaly.drained else 0:
        yield f"The queue was not drained to silence in {open_} of {trials}{_why_open(one, evidence)}."
    if empty := sum(not each.applies(one.anomaly.name) for each in answered):
        yield f"{_APPLIED_TO_NOTHING} {empty} of {trials}.{_moved(one)}"
    if missed := sum(each.missed(one.anomaly.name) for each in facts):
        yield f"The write of the record was not seen for {missed:,} more that were answered."
    bare = sum(not each.exposed(one.check.exposure) for each in facts)
    if bare and not (one.counts_faults and one.faults >= FEWEST_FAULTS):
        yield f"{_NOTHING_AT_RISK} {bare} of {trials} ({one.check.exposure.replace('_', ' ')})."
    if one.fault != NONE:
        yield from _doubts_of_faults(one)
    if short := short_of_disk(one):
        yield short
    yield from _doubts_of_control(one)


def too_few(trials: int) -> str:
    """Say that a scenario with one fault in each of so many trials is never decided; empty if it may be.

    >>> too_few(FEWEST_FAULTS)
    ''
    """
    if trials >= FEWEST_FAULTS:
        return ""
    return (
        f"--trials {trials}: HOLDS needs {FEWEST_FAULTS} faults, so a scenario with one fault in a trial can only be "
        f"VIOLATED or INCONCLUSIVE; give --trials {FEWEST_FAULTS} or more"
    )


def _doubts_of_faults(one: Tally) -> Iterator[str]:
    """Yield trials that were void after their fault, and a lack of effective faults.

    A claim that is tried without a fault needs neither: its unit is the trial.
    """
    if after := [why for record, why in one.subject.void if record.void_after_fault]:
        were = "trial was void after its" if len(after) == 1 else "trials were void after their"
        yield f"{len(after)} {were} fault took effect: {reasons.sentence(after[0])}"
    own = one.faults_at_trigger
    if missing := max(0, FEWEST_FAULTS - own):
        where = " at its trigger" if own < one.faults else ""
        yield (
            f"HOLDS needs {reasons.units(one, FEWEST_FAULTS)}{where}, and {own} took effect: {missing} more needed "
            f"(--trials {one.subject.recorded + missing})."
        )


def short_of_disk(one: Tally) -> str:
    """Say that the claim is about the disk and the fault does not reach it; else empty."""
    if not one.claim.of_disk or one.fault in DECIDE_DISK:
        return ""
    fault = FAULTS.get(one.fault)
    return _FAILING_DISK if fault and fault.fails_disk else _PROCESS_DEATH


def _moved(one: Tally) -> str:
    moved = sum(int(facts.counts["all_set_aside"]) for facts in one.subject.facts)
    return f" {moved:,} messages were found in the dead-letter or expiry queue." if moved else ""


def _why_open(one: Tally, evidence: ClaimEvidence) -> str:
    delay = int(evidence.run.settings.get("redelivery_delay_ms", 0))
    if delay > LONGEST_DELAY_MS:
        return f" (redelivery_delay_ms is {delay:,}, and the suite waits for {LONGEST_DELAY_MS:,} at most)"
    if any(facts.stuck for facts in one.subject.facts):
        return " (its depth stayed above zero)"
    drains = [int(facts.counts["drains"]) for facts in one.subject.facts if facts.counts["was_bringing"]]
    return f" (drain {max(drains)} still brought messages)" if drains else ""


def _doubts_of_control(one: Tally) -> Iterator[str]:
    result, chosen = one.control_result, one.check.control
    if chosen is None:
        return
    played, failed = len(one.control.valid), len(one.failed_as_its_defect)
    other = one.control.offended(one.anomaly.name) - failed
    missing_sync = "a missing sync loses the end of what was answered, and neither the oldest nor all of it"
    more = f" It failed otherwise in {other}: {missing_sync}." if other else ""
    if result is None:
        yield f"Its control ({chosen.label}) was not run."
    elif not result.failed:
        yield f"Its control ({chosen.label}) was not seen to fail in {reasons.units(one, result.trials)}.{more}"
    elif played < chosen.trials:
        yield f"Its control ({chosen.label}) has {played} valid trials, and needs {chosen.trials}."
    elif failed < min(FEWEST_FAILURES, chosen.trials):
        yield f"Its control ({chosen.label}) failed only in {failed} of {played} trials, and must fail in two.{more}"
    elif result.strong:
        q = counting.miss_probability(result.failed, result.trials, one.faults)
        if q > counting.ENOUGH:
            yield (
                f"Too few trials for this control, which failed in {result.failed} of {result.trials}: a broker that "
                f"is as bad would pass {reasons.units(one, one.faults)} with the chance {counting.q_words(q)}, and "
                f"{counting.ENOUGH} is allowed."
            )
    elif result.failed < result.trials:
        yield f"Its control ({chosen.label}) failed only in {result.failed} of {result.trials}, and must fail in all."


def _row(claim: Claim, evidence: ClaimEvidence, ruling: Ruling, one: Tally | None) -> VerdictRow:
    run = evidence.run
    tried = one if one is not None and ruling.verdict is not Verdict.NOT_TRIED else None
    clean = tried is not None and ruling.verdict is Verdict.HOLDS
    control = tried.control_result if tried else None
    return VerdictRow(
        claim=claim.id,
        kind=claim.kind,
        scope=claim.scope,
        subject=claim.subject,
        says=claim.says,
        document=claim.source.document,
        section=claim.source.section,
        adapter=run.adapter,
        version=run.version,
        launcher=run.launcher,
        settings=dict(run.settings),
        protocol=run.protocol,
        client=run.client,
        scenario=one.scenario.id if one else "",
        mode=one.scenario.mode if one else "",
        fault=one.fault if one else "",
        failure_model=reasons.failure_model(one) if one else "",
        verdict=ruling.verdict,
        exposure=tried.exposure if tried else None,
        trials=tried.trials if tried else 0,
        offended=tried.offended if tried else 0,
        faults=tried.faults if tried else 0,
        offended_faults=tried.offended_faults if tried else 0,
        needs_exposure=_needs_exposure(tried, ruling),
        strength=reasons.strength(tried) if clean and tried else "",
        void=len(tried.subject.void) if tried else 0,
        control=control,
        bound=counting.upper_bound(tried.faults) if clean and tried else None,
        q=counting.miss_probability(control.failed, control.trials, tried.faults)
        if tried and tried.faults and control and control.strong and control.failed and not tried.offended
        else None,
        reason=ruling.reason,
        replay=_replay(run, ruling.verdict, one),
        required=ruling.required,
        offences=tried.offences if tried else 0,
        decided_by=ruling.decided_by,
        failed_unpromised=_failed_unpromised(ruling, tried),
        anomaly=one.anomaly.name if one else "",
        standing=one.scenario.standing if one else False,
        repeated_by=_repeated_by(tried),
        witnesses=tried.witnesses if tried else (),
    )


def _needs_exposure(tried: Tally | None, ruling: Ruling) -> bool:
    if tried is None or ruling.verdict is not Verdict.INCONCLUSIVE or tried.offended or not tried.counts_faults:
        return False
    return tried.faults < min(FEWEST_FAULTS, tried.trials)


def _replay(run: RunRecord, verdict: Verdict, one: Tally | None) -> str:
    """Return the command that records the first trial that offended again; without a violation, the run's own."""
    if verdict is Verdict.VIOLATED and one is not None:
        first = next(record for record, facts in one.subject.valid if facts.offences(one.anomaly.name))
        return shlex.join(
            ["conformance", "replay", HERE, "--scenario", first.scenario, "--trial", str(first.index)],
        )
    return run.command if "--seed" in run.command or " replay " in run.command else f"{run.command} --seed {run.seed}"


def _repeated_by(tried: Tally | None) -> tuple[str, ...]:
    """Return the scenarios whose trials offended a standing check: its own may not show it again."""
    if tried is None or not tried.scenario.standing:
        return ()
    name = tried.anomaly.name
    return tuple(dict.fromkeys(trial.scenario for trial, facts in tried.subject.valid if facts.offences(name)))


def _failed_unpromised(ruling: Ruling, tried: Tally | None) -> str:
    """Return the figure of a check that failed although the configuration does not promise the claim; else empty."""
    if tried is None or not tried.offences or not applicable.can_fail(tried.claim):
        return ""
    unpromised = ruling.verdict is Verdict.NOT_APPLICABLE and ruling.reason.startswith(applicable.NOT_PROMISED)
    return reasons.figure(tried) if unpromised else ""


def is_self_check(row: VerdictRow) -> bool:
    """Whether a row is about the suite's own session. Such rows are reported in a table of their own."""
    return row.subject == Subject.SESSION


def names_used(scenarios: Iterable[Scenario]) -> Iterator[tuple[str, str]]:
    for scenario in scenarios:
        for check in scenario.decides.values():
            yield check.anomaly, check.exposure


assert all(anomaly.beside in ("", *ANOMALIES) for anomaly in ANOMALIES.values())
