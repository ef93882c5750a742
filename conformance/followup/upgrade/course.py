"""Record and judge both runs of an upgrade, and compare them."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
import secrets
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence

from conformance import campaign, records
from conformance.adapters import Adapter
from conformance.campaign import Campaign, Watcher
from conformance.claims import Value
from conformance.errors import ClientError, FaultError, LaunchError
from conformance.followup.contract import with_log
from conformance.followup.upgrade.broker import FROM, TO, UpgradeAdapter, UpgradeRecord
from conformance.followup.upgrade.outcome import UpgradeExpected
from conformance.followup.upgrade.planned import Upgrade
from conformance.judge.rows import Judgement
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.report import model
from conformance.report.expectations import Expected
from conformance.report.model import Report
from conformance.run.readiness_probe import ProbeClient

FILE = "upgrade.json"
_QUEUE = "conformance-alone"

Watching = Callable[[Campaign], contextlib.AbstractContextManager[Watcher]]
"""Shows a run while it lasts; yields the callbacks of the run."""
Reporting = Callable[[Judgement, Campaign], None]
"""Writes the report of the old version alone into its folder."""


@dataclasses.dataclass(frozen=True)
class UpgradeResult:
    """The judged upgrade; `expected` compares it with the old version, `lines` are about starts of the new version."""

    judgement: Judgement
    expected: Expected
    lines: tuple[str, ...]


def execute(upgrade: Upgrade, watching: Watching, reporting: Reporting) -> UpgradeResult:
    """Check that the new version starts without data; record and judge the old one alone, then the upgrade.

    Raises:
        LaunchError: The new version does not start without the old one's data either, or does not serve.
        FaultError: The new version was never started in a trial.
        Interrupted: The user stopped it; the recorded trials are kept and marked.
    """
    begin(upgrade.pair, upgrade.after.folder)
    alone(upgrade)
    baseline = upgrade.baseline or _before(upgrade, watching, reporting)
    with watching(upgrade.after) as watcher:
        judgement = campaign.execute(upgrade.after, watcher)
    record = finish(upgrade.pair, upgrade.after.folder, judgement.trials)
    today = datetime.datetime.now().astimezone().date()
    expected = UpgradeExpected(baseline=baseline, today=today, record=record)
    return UpgradeResult(judgement, expected, tuple(_lines(record)))


def alone(upgrade: Upgrade) -> None:
    """Check that the new version starts and serves in an empty folder, with the settings of the upgrade.

    Otherwise a version that cannot start on this machine would be accused of refusing the data of the old one.
    """
    pair, campaign_ = upgrade.pair, upgrade.after
    new: Adapter = pair.new
    settings = pair.of_new(campaign_.selection.settings)
    folder = campaign_.folder / "alone"
    with (
        Ledger(folder, f"alone-{new.name}-{secrets.token_hex(4)}") as ledger,
        new.prepare(folder / "broker", settings, [_QUEUE], ledger, offline=campaign_.options.offline) as broker,
    ):
        try:
            broker.start()
            ProbeClient(new, upgrade.wanted.protocol).exchange(broker, _QUEUE)
            broker.stop()
        except LaunchError as error:
            raise error.within(f"without any data of {pair.old.version}") from error
        except ClientError as error:
            raise with_log(new, broker, f"the new version does not serve: {error}") from error
    shutil.rmtree(folder)


def _before(upgrade: Upgrade, watching: Watching, reporting: Reporting) -> Report:
    with watching(upgrade.before) as watcher:
        judgement = campaign.execute(upgrade.before, watcher)
    reporting(judgement, upgrade.before)
    return model.report(judgement, upgrade.before.catalogue)


def begin(pair: UpgradeAdapter, folder: pathlib.Path) -> None:
    """Store both versions in the folder before anything is recorded: a replay needs them."""
    folder.mkdir(parents=True, exist_ok=True)
    records.save(_record(pair), folder / FILE)


def finish(pair: UpgradeAdapter, folder: pathlib.Path, trials: Sequence[TrialRecord]) -> UpgradeRecord:
    """Store the starts of the new version; `FaultError` if it was never started in a trial."""
    record = _record(pair)
    records.save(record, folder / FILE)
    _handed_over(trials, record)
    return record


def read(folder: pathlib.Path) -> UpgradeRecord | None:
    """Read the record of an upgrade; None if the run was not one."""
    return records.read(folder / FILE, UpgradeRecord) if (folder / FILE).is_file() else None


def found_again(
    folder: pathlib.Path,
    record: UpgradeRecord,
    changed: Mapping[str, Value],
    opened: Callable[[pathlib.Path, str, Mapping[str, Value]], Adapter],
) -> UpgradeAdapter:
    """Open both versions of a run; `opened` gets the part of its folder, the version and the changed settings."""
    old = opened(folder / FROM, record.old, changed)
    new = opened(folder / TO, record.new, {**changed, **record.to_set})
    return UpgradeAdapter(old, new, record.to_set)


def _record(pair: UpgradeAdapter) -> UpgradeRecord:
    return UpgradeRecord(
        adapter=pair.name,
        old=pair.old.version,
        new=pair.new.version,
        launcher=pair.launcher,
        downgrade=pair.downgrade,
        to_set=dict(pair.to_set),
        starts=tuple(pair.log.starts[trial] for trial in sorted(pair.log.starts)),
        refusals=tuple(sorted(pair.log.refusals, key=lambda each: each.trial)),
    )


def _handed_over(trials: Sequence[TrialRecord], record: UpgradeRecord) -> None:
    """Raise `FaultError` if the new version was never started in a trial of the subject."""
    seen = {start.trial for start in record.starts}
    for trial in trials:
        if trial.arm == "subject" and not trial.void and trial.trial not in seen:
            raise FaultError(f"{trial.trial} was played without the new version: {record.new} was never started in it")


def _lines(record: UpgradeRecord) -> Sequence[str]:
    title = f"{record.new} on the data of {record.old}"
    lines = []
    if record.starts:
        new = statistics.median(start.seconds for start in record.starts)
        old = statistics.median(start.old_seconds for start in record.starts)
        lines.append(
            f"{title}: started in {len(record.starts)} trials, {new:.1f} s in the median ({old:.1f} s for {record.old} "
            "without data)"
        )
    if record.refusals:
        first = record.refusals[0]
        lines.append(f"{title}: DID NOT START in {len(record.refusals)} trials. First, in {first.trial}: {first.says}")
        lines += [f"    | {line}" for line in first.log_tail]
        lines.append(f"the data that it refused is kept: {first.data}")
    return lines
