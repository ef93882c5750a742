"""Repeat one trial of a stored run: the same broker, settings and script, with the same drawn numbers.

`prepare` finds the trial and checks that it would be the same today. `execute` records it again into a new folder,
judges it, and compares the offences of the first recording and of the new ones.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import pathlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version as version_of

import msgspec

from conformance import adapters, campaign, claims, paths, records, scenario
from conformance.adapters import Adapter, BrokerRequest, EffectiveSettings
from conformance.adapters.config import own_configuration
from conformance.campaign import Campaign, Options, Watcher
from conformance.claims import Catalogue, Value
from conformance.errors import ExitCode, FaultError, HistoryError, UsageError
from conformance.followup.trial_anomalies import compare, offences
from conformance.followup.upgrade import runs
from conformance.followup.upgrade.broker import for_trial, pair_of
from conformance.judge import rules
from conformance.judge.plan.facts import OF_BROKER
from conformance.judge.rows import Judgement, Verdict
from conformance.judge.tally import ClaimEvidence
from conformance.records import RunRecord, TrialRecord
from conformance.run import artifacts
from conformance.run.planning import Planned, Selection, arm_label, drawn_for, plan, subject_trials
from conformance.run.trial.described import describe
from conformance.scenario import Scenario
from conformance.scenario.controls import substitute

_AGAIN = re.compile(r"\.again-\d+$")
_SILENT = (Verdict.NOT_APPLICABLE, Verdict.NOT_TRIED)


@dataclasses.dataclass(frozen=True)
class ReplayRequest:
    """The options of a replay: `trial` is a number, or the name of the trial's folder; `arm` is `subject` or a control.

    `adapter` replaces the one of the run: another version of the broker, or the TOML file of the run. With `trust`, the
    broker file, configuration and login in the folder are used; they can run any program.
    """

    folder: pathlib.Path
    scenario: str
    trial: str
    arm: str = ""
    times: int = 1
    out: pathlib.Path | None = None
    adapter: str = ""
    offline: bool = False
    trust: bool = False


@dataclasses.dataclass(frozen=True)
class Replay:
    """A checked replay: the trial that it repeats, and notes for the user."""

    campaign: Campaign
    folder: pathlib.Path
    record: TrialRecord
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        record = self.record
        drawn = f", k = {record.k}" if record.k is not None else ""
        arm = "the subject" if record.arm == "subject" else f"the control {record.control}"
        return f"{record.scenario}, trial {record.index} of {arm}: seed {record.seed}{drawn}"


@dataclasses.dataclass(frozen=True)
class ReplayOutcome:
    """The result of a replay: `lines` compare the recordings, `void` says why a recording does not count.

    `again`: every offence of the first recording was seen in each new one.
    """

    judgement: Judgement
    lines: tuple[str, ...]
    void: tuple[str, ...]
    again: bool

    @property
    def control_code(self) -> ExitCode:
        """The exit code of a control, which has no row: it must be seen to fail."""
        if self.void:
            return ExitCode.HARNESS
        return ExitCode.CONFORMANT if self.again else ExitCode.INCONCLUSIVE


def read_run(folder: pathlib.Path) -> tuple[RunRecord, list[TrialRecord]]:
    """Return the records of a run and of its trials, by name.

    Raises:
        UsageError: The folder is not that of a run.
        HistoryError: It holds a link, or the record of a trial that is not the one of its folder.
    """
    records.check_run(folder)
    run = records.read(folder / "run.json", RunRecord)
    found = []
    for path in sorted(folder.glob("trials/*/trial.json")):
        found.append(records.read(path, TrialRecord))
        if found[-1].trial != path.parent.name:
            raise HistoryError(f"{path}: it is the record of {found[-1].trial!r}, in the folder of another trial")
    return run, found


def prepare(wanted: ReplayRequest) -> Replay:
    """Find the trial, and check that the same one can be played now.

    Raises:
        UsageError: No such run, scenario, trial or arm (with what there is), or the folder brings code and is not
            trusted, or the script, settings or broker of the trial are different today.
        HistoryError: The folder holds what no run writes: a link, or a record of another trial.
        FaultError: This machine or the launcher cannot inject its fault.
    """
    if wanted.times < 1:
        raise UsageError(f"--times {wanted.times}: at least 1", code="too-small", option="--times")
    run, found = read_run(wanted.folder)
    record = find_trial(found, wanted)
    if not wanted.trust:
        artifacts.check_trust(wanted.folder, replayed=True, named=bool(wanted.adapter))
    catalogue = claims.load()
    scenarios = scenario.load(catalogue)
    script = scenarios.get(record.scenario)
    if script is None:
        close = difflib.get_close_matches(record.scenario, scenarios, n=1)
        hint = f"; the closest is {close[0]}" if close else ""
        raise UsageError(
            f"this version of the suite has no scenario {record.scenario}, which the run recorded{hint}",
            code="scenario-gone",
            scenario=record.scenario,
        )
    adapter, notes = _adapter(wanted, run)
    selection = _selection(run, adapter, script, catalogue, same=not wanted.adapter)
    first = _planned(record, script, selection, catalogue, scenarios)
    _check_script(record, first, run)
    _check_faults(first, selection, script)
    if first.settings.values != record.settings and not wanted.adapter:
        raise _setting_changed(record.trial, record.settings, first.settings.values)
    options = Options(
        adapter=adapter.spec,
        protocol=run.protocol,
        client=run.vendor,
        claims=run.selected,
        required=run.required,
        judge_as=run.judged_as,
        trials=wanted.times,
        jobs=1,
        seed=run.seed,
        out=wanted.out,
        offline=wanted.offline,
        access=artifacts.kept_access(wanted.folder),
    )
    made = Campaign(
        options=options,
        adapter=adapter,
        catalogue=catalogue,
        scenarios=scenarios,
        selection=selection,
        folder=campaign.folder_for(options, adapter),
        chosen=tuple(_numbered(first, number) for number in range(1, wanted.times + 1)),
        again=_command(wanted, record),
    )
    return Replay(made, wanted.folder, record, (*notes, *_notes(run, record)))


def find_trial(found: Sequence[TrialRecord], wanted: ReplayRequest) -> TrialRecord:
    """Return the trial that the options name; `UsageError` lists what exists, and the closest."""
    names = sorted({record.scenario for record in found})
    if not names:
        raise UsageError(f"{wanted.folder} has no trial: nothing was recorded, or it was moved", code="no-trial")
    if wanted.scenario not in names:
        raise UsageError.unknown("scenario", wanted.scenario, names, of=str(wanted.folder))
    mine = [record for record in found if record.scenario == wanted.scenario]
    arms = {_arm(record) for record in mine}
    if not wanted.trial.isdigit():
        named = [record for record in mine if record.trial == wanted.trial]
        if not named:
            raise UsageError.unknown("trial", wanted.trial, [record.trial for record in mine], of=wanted.scenario)
        return named[0]
    arm = wanted.arm or "subject"
    fitting = [record for record in mine if arm in (_arm(record), _word(record))]
    if not fitting and wanted.arm:
        raise UsageError.unknown("arm", wanted.arm, arms | {_word(record) for record in mine}, of=wanted.scenario)
    chosen = [record for record in fitting if record.index == int(wanted.trial)]
    if len(chosen) > 1:
        labels = " or ".join(repr(_arm(record)) for record in chosen)
        raise UsageError(
            f"trial {wanted.trial} of {arm} is in {len(chosen)} arms: say --arm {labels}",
            code="ambiguous-arm",
            arms=tuple(_arm(record) for record in chosen),
        )
    if not chosen:
        there = "; ".join(
            f"{name}: {_numbers(mine, name)}" for name in sorted(arms, key=lambda name: name != "subject")
        )
        raise UsageError(
            f"{wanted.scenario} has no trial {wanted.trial} of {arm} in {wanted.folder}; it has {there}",
            code="no-trial",
        )
    return chosen[0]


def _arm(record: TrialRecord) -> str:
    return record.control or "subject"


def _word(record: TrialRecord) -> str:
    return arm_label(record.arm, record.control)


def _numbers(found: Iterable[TrialRecord], arm: str) -> str:
    return ", ".join(str(record.index) for record in sorted(found, key=lambda each: each.index) if _arm(record) == arm)


def _adapter(wanted: ReplayRequest, run: RunRecord) -> tuple[Adapter, list[str]]:
    """Open the broker of the run; return it with notes about its files."""
    notes: list[str] = []
    upgraded = runs.read(wanted.folder) is not None
    if upgraded and wanted.adapter:
        raise UsageError(
            f"--adapter {wanted.adapter}: the run was an upgrade, {run.version}, and is replayed with both of its "
            "versions. Leave it out, or try others by conformance upgrade --from ... --to ...",
            code="replay-of-upgrade",
        )
    config = None if upgraded else own_configuration.kept_configuration(wanted.folder)
    access = artifacts.kept_access(wanted.folder)

    def opened(part: pathlib.Path, version: str, changed: Mapping[str, Value]) -> Adapter:
        spec = wanted.adapter or _stored_spec(part, run, version, notes)
        request = BrokerRequest(spec, run.protocol, run.vendor, overrides=changed, config=config, access=access)
        return adapters.open_broker(request).adapter

    found = runs.reopen(wanted.folder, run.version, run.changed, opened)
    found.capabilities(run.protocol)
    if config is not None:
        notes.append(f"with the configuration that the run kept, {config}")
    return found, notes


def _stored_spec(part: pathlib.Path, run: RunRecord, version: str, notes: list[str]) -> str:
    try:
        spec = artifacts.spec(part, run, version, notes)
        adapters.find(spec)
    except UsageError as error:
        raise UsageError(
            f"the run tried {run.adapter} {run.version} ({run.launcher}): {error}; name it by --adapter NAME@VERSION, "
            "or by the TOML file that the run was given",
            code=error.code,
            **error.fields,
        ) from error
    return spec


def _selection(run: RunRecord, adapter: Adapter, script: Scenario, catalogue: Catalogue, *, same: bool) -> Selection:
    overrides = dict(run.changed)
    settings = adapter.effective(overrides)
    if same and (settings.values != run.settings or set(settings.absent) != set(run.absent)):
        raise _setting_changed(run.adapter, run.settings, settings.values, run.absent, settings)
    return Selection(
        adapter=adapter,
        protocol=run.protocol,
        settings=settings,
        overrides=overrides,
        claims=[catalogue.claims[name] for name in run.selected if name in catalogue.claims],
        required=frozenset(run.required) & catalogue.claims.keys(),
        seed=run.seed,
        judged_as=frozenset(run.judged_as),
        only=frozenset({script.id}),
        client=run.vendor,
    )


def _setting_changed(
    what: str,
    then: Mapping[str, object],
    now: Mapping[str, object],
    absent: Iterable[str] = (),
    settings: EffectiveSettings | None = None,
) -> UsageError:
    """Return the error that names the first setting that differs from the recorded one."""
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    changed += sorted(set(absent) ^ (settings.absent if settings else set()))
    name = changed[0]
    was, is_ = (str(values.get(name, "unknown")).lower() for values in (then, now))
    words = f"was {was} in the run and would be {is_}" if was != is_ else "is absent in either the run or this version"
    return UsageError(
        f"{what}: setting {name} {words}: the broker's file has changed since; replay it with the version of the suite "
        "that recorded it",
        code="setting-changed",
        setting=name,
    )


def _planned(
    record: TrialRecord,
    script: Scenario,
    selection: Selection,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
) -> Planned:
    """Return the trial as this version plans it, with the numbers drawn from the recorded seed."""
    if record.arm == "subject":
        found = subject_trials(selection, script, [record.index])
    else:
        found = [
            trial
            for trial in plan(selection, scenarios, catalogue)
            if (trial.arm, trial.control) == (record.arm, record.control)
        ]
    if not found:
        raise UsageError(
            f"{record.trial}: this version of the suite has no control {record.control!r} for the claims of the run; "
            "replay it with the version that recorded it",
            code="control-gone",
            control=record.control,
        )
    return dataclasses.replace(
        found[0],
        id=record.trial,
        index=record.index,
        seed=record.seed,
        script=drawn_for(
            script, record.seed, found[0].adapter, found[0].protocol, record.rounds, control=record.arm == "control"
        ),
        rounds=record.rounds,
    )


def _check_script(record: TrialRecord, planned: Planned, run: RunRecord) -> None:
    """Raise `UsageError` if the script has changed: other steps would prove nothing about the recorded trial.

    The records of earlier versions have the steps as text, or not at all.
    """
    if record.steps is None:
        raise UsageError(
            f"{record.trial} cannot be repeated: version {run.versions.get('conformance', 'unknown')} of the suite "
            "recorded it before trial.json had the steps as data. Replay it with that version, or run the scenario "
            "again with this one",
            code="script-not-recorded",
            trial=record.trial,
        )
    if changed := _changed(record, describe(planned)):
        raise UsageError(
            f"{record.trial} cannot be repeated: its scenario has changed since: {changed}. "
            "Replay it with the version of the suite that recorded it, or run the scenario again with this one",
            code="script-changed",
            difference=changed,
        )


def _changed(then: TrialRecord, now: TrialRecord) -> str:
    """Describe the first difference between two scripts; return nothing if they are equal."""
    for number, (was, is_) in enumerate(itertools.zip_longest(then.steps or (), now.steps or ()), 1):
        if type(was) is not type(is_):
            names = [type(step).__name__ if step else "nothing" for step in (was, is_)]
            return f"step {number} was {names[0]}, and is {names[1]}"
        if found := records.difference(msgspec.to_builtins(was), msgspec.to_builtins(is_), f"step {number}: "):
            return found
    return records.difference({"client": then.client, **then.queue}, {"client": now.client, **now.queue})


def _check_faults(planned: Planned, selection: Selection, script: Scenario) -> None:
    """Raise `FaultError` if the faults of this trial cannot be injected into its broker on this machine."""
    of_trial = dataclasses.replace(selection, adapter=planned.adapter, settings=planned.settings)
    for name, why in campaign.unable(of_trial, [script]).items():
        raise FaultError(f"{script.id} cannot be repeated here: {planned.adapter.name} cannot take {name}: {why}")


def _numbered(first: Planned, number: int) -> Planned:
    name = f"{_AGAIN.sub('', first.id)}.again-{number}"
    return dataclasses.replace(first, id=name, index=number, adapter=for_trial(first.adapter, name))


def _command(wanted: ReplayRequest, record: TrialRecord) -> str:
    folder = wanted.folder.name if wanted.folder.is_absolute() else str(wanted.folder)
    words = ["conformance", "replay", folder, "--scenario", record.scenario, "--trial", str(record.index)]
    words += ["--arm", record.control] if record.control else []
    words += ["--times", str(wanted.times)] if wanted.times > 1 else []
    words += ["--adapter", wanted.adapter] if wanted.adapter else []
    words += ["--trust"] if wanted.trust else []
    return shlex.join(words)


def _notes(run: RunRecord, record: TrialRecord) -> Iterable[str]:
    recorded, here = run.versions.get("conformance", "unknown"), version_of(paths.PROJECT)
    if recorded != here:
        yield f"the run was recorded by version {recorded} of the suite, this is {here}; the script is the same"
    if record.void:
        yield f"the first recording is void: {record.void}"


def execute(replay: Replay, watcher: Watcher) -> ReplayOutcome:
    """Record the trial again, judge it, and compare its offences with the first recording."""
    made = replay.campaign
    upgraded = pair_of(made.adapter)
    if upgraded is not None:
        runs.begin(upgraded, made.folder)
    with campaign.session(made, watcher) as running:
        running.record()
        judgement = running.judge()
        new = [record for record in judgement.trials if not record.void]
        seen = offences(made.folder, judgement.trials, made.scenarios[replay.record.scenario], running.spark)
        before = offences(replay.folder, [replay.record], made.scenarios[replay.record.scenario], running.spark)
    if upgraded is not None:
        runs.finish(upgraded, made.folder, judgement.trials)
    then = before.get(replay.record.trial, {})
    now = [seen[record.trial] for record in new if record.trial in seen]
    lines, again = compare(_checks(replay, judgement), then, now)
    void = tuple(f"{record.trial} is void: {record.void}" for record in judgement.trials if record.void)
    return ReplayOutcome(judgement, (*lines, *void), void, again)


def _checks(replay: Replay, judgement: Judgement) -> dict[str, list[str]]:
    """Return by anomaly the claims that this trial decides, or whose control it is.

    A trial of the subject is compared as well for the claims that it judges by an anomaly of every trial. A control
    must start again and stay alive too.
    """
    script, selection = replay.campaign.scenarios[replay.record.scenario], replay.campaign.selection
    rows = (*judgement.rows, *judgement.self_checks)
    answered = {row.claim for row in rows if row.scenario == script.id and row.trials and row.verdict not in _SILENT}
    found: dict[str, list[str]] = {}
    for claim, check in script.decides.items():
        stated = replay.campaign.catalogue.claims[claim]
        if not stated.judged:
            continue
        run = (selection.adapter.launcher.owned, bool(selection.client), selection.weakens)
        control = substitute(check, stated.kind, script.fault_for(stated), *run).control
        label = control.label if control else ""
        if claim in answered if replay.record.arm == "subject" else label == replay.record.control:
            found.setdefault(check.anomaly, []).append(claim)
    evidence, subject = ClaimEvidence(judgement.run, judgement.trials, {}), replay.record.arm == "subject"
    for each in replay.campaign.catalogue.claims.values():
        for anomaly in rules.counted_everywhere(each):
            apart = subject and each.id not in script.decides
            judged = apart and rules.judges_elsewhere(each, anomaly, script, evidence)
            if (judged or anomaly in OF_BROKER) and each.id not in found.setdefault(anomaly, []):
                found[anomaly].append(each.id)
    return found
