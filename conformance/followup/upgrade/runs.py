"""Plan, play and compare the two runs of an upgrade: the old version alone, and the new one on its data."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import pathlib
import secrets
import shlex
import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from conformance import adapters, campaign, records
from conformance.adapters import Adapter, BrokerRequest
from conformance.campaign import Campaign, Options, Watcher
from conformance.claims import Value
from conformance.errors import ClientError, ExitCode, FaultError, LaunchError, UsageError, matching
from conformance.followup.contract import with_log
from conformance.followup.upgrade.broker import (
    FROM,
    TO,
    FailedUpgradeStart,
    UpgradeAdapter,
    UpgradeRecord,
    check,
    for_trial,
)
from conformance.judge.rows import Judgement, Verdict
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.report import expectations, model
from conformance.report.expectations import ExpectationOutcome, Expected
from conformance.report.model import Item, Report, Standing
from conformance.report.questions import QUESTIONS
from conformance.run.planning import Planned
from conformance.run.quick import quick
from conformance.run.readiness_probe import ProbeClient
from conformance.scenario import Scenario
from conformance.scenario.reading import unroll
from conformance.scenario.script import Restart, Step

BEFORE = "before"
"""The folder, in that of the run, where the old version alone was recorded and judged."""
FILE = "upgrade.json"
_QUEUE = "conformance-alone"

Watching = Callable[[Campaign], contextlib.AbstractContextManager[Watcher]]
"""Shows a run while it lasts; yields the callbacks of the run."""
Reporting = Callable[[Judgement, Campaign], None]
"""Writes the report of the old version alone into its folder."""


@dataclasses.dataclass(frozen=True)
class UpgradeRequest:
    """The options of an upgrade: `options` are those of the old version, and of the new one if it has no other.

    `to_settings` are settings of the new version only. `scenarios` are ids; empty means all that fit. With `baseline`,
    an earlier report about the old version, the old version is not played alone.
    """

    options: Options
    new: str
    to_settings: Sequence[str] = ()
    scenarios: Sequence[str] = ()
    baseline: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Upgrade:
    """Two checked runs; with `baseline` the first one is not needed. `notes` are for the user."""

    pair: UpgradeAdapter
    before: Campaign
    after: Campaign
    baseline: Report | None
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class UpgradeResult:
    """The judged upgrade; `expected` compares it with the old version, `lines` are about starts of the new version."""

    judgement: Judgement
    expected: Expected
    lines: tuple[str, ...]


def with_own_pair(trials: Iterable[Planned]) -> list[Planned]:
    """Give each trial its own pair of brokers; liars are not part of the upgrade."""
    return [dataclasses.replace(trial, adapter=for_trial(trial.adapter, trial.id)) for trial in trials]


def prepare(request: UpgradeRequest) -> Upgrade:
    """Check every option; nothing is downloaded or started.

    Raises `UsageError`: an unknown word, two different brokers, or twice the same version and settings.
    """
    whole = campaign.prepare(dataclasses.replace(request.options, quick=False))
    pair = _pair(request, whole)
    playable = _playable(request, whole.scenarios.values())
    chosen = dataclasses.replace(whole.selection, only=frozenset(playable))
    if request.options.quick:
        scripts = {name: whole.scenarios[name] for name in playable}
        chosen = quick(chosen, scripts, whole.catalogue, QUESTIONS.values())
    before = dataclasses.replace(whole, selection=chosen, folder=whole.folder / BEFORE)
    after = dataclasses.replace(
        whole,
        adapter=pair,
        selection=dataclasses.replace(chosen, adapter=pair),
        adapt=with_own_pair,
        again=_command(request, whole, pair),
    )
    if not after.trials:
        raise UsageError(
            "none of these scenarios starts the broker again after a fault ended it: an upgrade tests nothing",
            code="nothing-to-upgrade",
        )
    return Upgrade(pair, before, after, _baseline(request, whole), tuple(_notes(pair, whole.selection.protocol)))


def _pair(request: UpgradeRequest, whole: Campaign) -> UpgradeAdapter:
    protocol, settings = whole.selection.protocol, whole.selection.settings
    opened = adapters.open_broker(
        BrokerRequest(
            request.new,
            protocol,
            settings=request.to_settings,
            overrides=whole.selection.overrides,
            access=request.options.access,
        )
    )
    new, to_set = opened.adapter, adapters.parse_assignments(request.to_settings, opened.adapter.file)
    check(whole.adapter, new, protocol)
    pair = UpgradeAdapter(whole.adapter, new, to_set)
    if new.spec == whole.adapter.spec and pair.of_new(settings) == settings:
        raise UsageError(
            f"--from and --to are both {new.name} {new.version} with the same settings: name another version, or a "
            "setting of the new one by --to-set",
            code="same-version",
        )
    return pair


def _playable(request: UpgradeRequest, scenarios: Iterable[Scenario]) -> list[str]:
    known = {item.id: item for item in scenarios if hands_over(unroll(item.steps, 1, control=False))}
    every = [name for name, item in known.items() if request.options.thorough or not item.thorough]
    return matching("scenario", request.scenarios, known, of="an upgrade") or every


def hands_over(steps: Sequence[Step]) -> bool:
    """Whether a fault ends the broker, and it starts again on a disk without faults.

    A disk fault belongs to one start of one version, so such a restart cannot be an upgrade.
    """
    ended = False
    for step in steps:
        if isinstance(step, Restart) and step.under is not None:
            return False
        if isinstance(step, Restart) and ended and not step.clean:
            return True
        fault = getattr(step, "until", None)
        ended = ended or (fault is not None and fault.ends_broker)
    return False


def _baseline(request: UpgradeRequest, whole: Campaign) -> Report | None:
    """Read the user's report about the old version; `UsageError` if it is about another."""
    if request.baseline is None:
        return None
    report = expectations.read_report(request.baseline, option="--baseline")
    expectations.check_baseline(report, adapter=whole.adapter.name, protocol=whole.selection.protocol)
    if report.run.version != whole.adapter.version:
        raise UsageError(
            f"--baseline {request.baseline}: it is about {whole.adapter.name} {report.run.version}, and --from is "
            f"{whole.adapter.version}",
            code="other-baseline",
        )
    return report


def _notes(pair: UpgradeAdapter, protocol: str) -> Iterable[str]:
    if pair.downgrade:
        yield (
            f"{pair.new.version} is older than {pair.old.version}: this is a downgrade, which few products promise to "
            "support"
        )
    if missing := sorted(pair.old.capabilities(protocol) - pair.new.capabilities(protocol)):
        yield f"{pair.new.version} lacks capabilities of {pair.old.version}, which are not tested: {', '.join(missing)}"


def _command(request: UpgradeRequest, whole: Campaign, pair: UpgradeAdapter) -> str:
    """Return the command line that repeats the upgrade, without paths of one machine."""
    words = ["conformance", "upgrade", "--from", pair.old.spec, "--to", pair.new.spec]
    words += ["--protocol", whole.selection.protocol]
    words += [word for setting in request.to_settings for word in ("--to-set", setting)]
    words += [word for name in request.scenarios for word in ("--scenario", name)]
    return shlex.join([*words, *campaign.option_words(request.options, whole.selection)])


def execute(upgrade: Upgrade, watching: Watching, reporting: Reporting) -> UpgradeResult:
    """Check that the new version starts without data; record and judge the old one alone, then the upgrade.

    Raises:
        LaunchError: The new version does not start without the old one's data either, or does not serve.
        FaultError: The new version was never started in a trial.
        Interrupted: The user stopped it; the recorded trials are kept and marked.
    """
    begin(upgrade.pair, upgrade.after.folder)
    _start_alone(upgrade)
    baseline = upgrade.baseline or _play_before(upgrade.before, watching, reporting)
    with watching(upgrade.after) as watcher:
        judgement = campaign.execute(upgrade.after, watcher)
    record = finish(upgrade.pair, upgrade.after.folder, judgement.trials)
    today = datetime.datetime.now().astimezone().date()
    expected = UpgradeExpected(baseline=baseline, today=today, record=record)
    return UpgradeResult(judgement, expected, tuple(_lines(record)))


def _start_alone(upgrade: Upgrade) -> None:
    """Check that the new version starts and serves in an empty folder, with the settings of the upgrade.

    Otherwise a version that cannot start on this machine would be accused of refusing the data of the old one.
    """
    new, after = upgrade.pair.new, upgrade.after
    settings = upgrade.pair.of_new(after.selection.settings)
    folder = after.folder / "alone"
    with (
        Ledger(folder, f"alone-{new.name}-{secrets.token_hex(4)}") as ledger,
        new.prepare(folder / "broker", settings, [_QUEUE], ledger, offline=after.options.offline) as broker,
    ):
        try:
            broker.start()
            ProbeClient(new, after.selection.protocol).exchange(broker, _QUEUE)
            broker.stop()
        except LaunchError as error:
            raise error.within(f"without any data of {upgrade.pair.old.version}") from error
        except ClientError as error:
            raise with_log(new, broker, f"the new version does not serve: {error}") from error
    shutil.rmtree(folder)


def _play_before(before: Campaign, watching: Watching, reporting: Reporting) -> Report:
    with watching(before) as watcher:
        judgement = campaign.execute(before, watcher)
    reporting(judgement, before)
    return model.report(judgement, before.catalogue)


def begin(pair: UpgradeAdapter, folder: pathlib.Path) -> None:
    """Store both versions in the folder before anything is recorded: a replay needs them."""
    folder.mkdir(parents=True, exist_ok=True)
    records.save(_record(pair), folder / FILE)


def finish(pair: UpgradeAdapter, folder: pathlib.Path, trials: Sequence[TrialRecord]) -> UpgradeRecord:
    """Store the starts of the new version; `FaultError` if it was never started in a trial of the subject."""
    record = _record(pair)
    records.save(record, folder / FILE)
    check_starts(trials, record)
    return record


def check_starts(trials: Sequence[TrialRecord], record: UpgradeRecord) -> None:
    started = {start.trial for start in record.starts}
    for trial in trials:
        if trial.arm == "subject" and not trial.void and trial.trial not in started:
            raise FaultError(f"{trial.trial} was played without the new version: {record.new} was never started in it")


def read(folder: pathlib.Path) -> UpgradeRecord | None:
    """Read the record of an upgrade; None if the run was not one."""
    return records.read(folder / FILE, UpgradeRecord) if (folder / FILE).is_file() else None


def reopen(
    folder: pathlib.Path,
    version: str,
    changed: Mapping[str, Value],
    opened: Callable[[pathlib.Path, str, Mapping[str, Value]], Adapter],
) -> Adapter:
    """Open the broker of a stored run, or both versions of an upgrade.

    `opened` gets the folder that describes a broker, its version and its changed settings.
    """
    record = read(folder)
    if record is None:
        return opened(folder, version, changed)
    old = opened(folder / FROM, record.old, changed)
    new = opened(folder / TO, record.new, {**changed, **record.to_set})
    return UpgradeAdapter(old, new, record.to_set)


def _record(pair: UpgradeAdapter) -> UpgradeRecord:
    return UpgradeRecord(
        adapter=pair.name,
        old=pair.old.version,
        new=pair.new.version,
        launcher=pair.launcher.word,
        downgrade=pair.downgrade,
        to_set=dict(pair.to_set),
        starts=tuple(pair.log.starts[trial] for trial in sorted(pair.log.starts)),
        refusals=tuple(sorted(pair.log.refusals, key=lambda each: each.trial)),
    )


def _lines(record: UpgradeRecord) -> Iterator[str]:
    title = f"{record.new} on the data of {record.old}"
    if record.starts:
        new = statistics.median(start.seconds for start in record.starts)
        old = statistics.median(start.old_seconds for start in record.starts)
        yield (
            f"{title}: started in {len(record.starts)} trials, {new:.1f} s in the median ({old:.1f} s for {record.old} "
            "without data)"
        )
    if record.refusals:
        first = record.refusals[0]
        yield f"{title}: DID NOT START in {len(record.refusals)} trials. First, in {first.trial}: {first.says}"
        yield from (f"    | {line}" for line in first.log_lines)
        yield f"the data that it refused is kept: {first.data}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpgradeExpected(Expected):
    """The expectations of a run with a baseline; also, a new version that does not start on old data is a regression.

    Its trials are void and decide no claim, but the failed start itself counts. It does not count if the old version
    also did not start again in the same trial.
    """

    record: UpgradeRecord

    def of(self, judgement: Judgement) -> ExpectationOutcome:
        plain = super().of(judgement)
        before = self.baseline.trials if self.baseline else ()
        void = {trial.trial for trial in before if trial.void}
        refusals = [refusal for refusal in self.record.refusals if refusal.trial not in void]
        if not refusals:
            return plain
        changes: dict[str, Any] = {"items": (*self._items(refusals, judgement), *plain.expectations.items)}
        refused = {refusal.trial for refusal in refusals}
        if plain.exit_code is not ExitCode.INTERRUPTED and not _other_errors(judgement, refused):
            means = "the new version did not start on data on which the old one does"
            changes |= {"exit_code": int(ExitCode.VIOLATED), "means": means}
        return dataclasses.replace(plain, expectations=msgspec.structs.replace(plain.expectations, **changes))

    def _items(self, refusals: Iterable[FailedUpgradeStart], judgement: Judgement) -> Iterator[Item]:
        """Yield one item for each scenario and arm."""
        arms = {trial.trial: (trial.scenario, trial.control) for trial in judgement.trials}
        trials = collections.Counter(arms.values())
        groups: dict[tuple[str, str], list[FailedUpgradeStart]] = collections.defaultdict(list)
        for refusal in refusals:
            groups[arms[refusal.trial]].append(refusal)
        for (scenario, control), group in groups.items():
            under = f" under {control}" if control else ""
            count = f"{len(group)} of {trials[scenario, control]} trials{under}"
            yield Item(
                standing=Standing.REGRESSION,
                claim=f"The start of {self.record.new} on the data of {self.record.old}",
                scenario=scenario,
                text=f"it did not start in {count}: {group[0].says}",
            )


def _other_errors(judgement: Judgement, refused: set[str]) -> bool:
    """Whether the suite failed in another way than by the trials that the new version made void."""
    if not judgement.run.finished or any(trial.void and trial.trial not in refused for trial in judgement.trials):
        return True
    scenarios = {trial.scenario for trial in judgement.trials if trial.trial in refused}
    rows = judgement.rows + judgement.self_checks
    return any(row.verdict is Verdict.HARNESS_ERROR and row.scenario not in scenarios for row in rows)
