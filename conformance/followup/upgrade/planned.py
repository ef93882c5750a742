"""Plan two runs of the same trials from the options: the old version alone, and the upgrade."""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
from collections.abc import Iterable, Sequence

from conformance import adapters, campaign, scenario
from conformance.adapters import BrokerRequest
from conformance.adapters.credentials import OPEN, Access
from conformance.campaign import Campaign, Options
from conformance.errors import UsageError
from conformance.followup.upgrade.broker import UpgradeAdapter, check, for_trial
from conformance.report import expectations
from conformance.report.model import Report
from conformance.run.planning.plan import Planned
from conformance.run.planning.quick import quick
from conformance.scenario import Scenario
from conformance.scenario.script import Kill, Pause, PowerLoss, Restart, Step, Stop

BEFORE = "before"
"""The folder, in that of the run, where the old version alone was recorded and judged."""


@dataclasses.dataclass(frozen=True)
class UpgradeRequest:
    """The options of an upgrade. `settings` are those of both versions, `to_settings` of the new one only.

    `scenarios` are ids; empty means all that fit. With `baseline`, an earlier report about the old version, the old
    version is not played alone. `access` are the credentials for both, above those of their files.
    """

    old: str
    new: str
    protocol: str = "amqp"
    settings: Sequence[str] = ()
    to_settings: Sequence[str] = ()
    claims: Sequence[str] = ("*",)
    scenarios: Sequence[str] = ()
    baseline: pathlib.Path | None = None
    quick: bool = False
    trials: int = scenario.TRIALS
    seed: int | None = None
    out: pathlib.Path | None = None
    offline: bool = False
    access: Access = OPEN


@dataclasses.dataclass(frozen=True)
class Upgrade:
    """Two checked runs; with `baseline` the first one is not needed. `notes` are for the user."""

    wanted: UpgradeRequest
    pair: UpgradeAdapter
    before: Campaign
    after: Campaign
    baseline: Report | None
    notes: tuple[str, ...]


def with_own_pair(trials: Iterable[Planned]) -> list[Planned]:
    """Give each trial its own pair of brokers; liars are not part of the upgrade."""
    return [dataclasses.replace(trial, adapter=for_trial(trial.adapter, trial.id)) for trial in trials]


def prepare(wanted: UpgradeRequest) -> Upgrade:
    """Check every option; nothing is downloaded or started.

    Raises `UsageError`: an unknown word, two different brokers, or twice the same version and settings.
    """
    options = Options(
        adapter=wanted.old,
        protocol=wanted.protocol,
        settings=wanted.settings,
        claims=wanted.claims,
        trials=wanted.trials,
        seed=wanted.seed,
        out=wanted.out,
        offline=wanted.offline,
        access=wanted.access,
    )
    whole = campaign.prepare(options)
    pair = _pair(wanted, whole)
    playable = _playable(wanted, whole.scenarios.values())
    chosen = dataclasses.replace(whole.selection, only=frozenset(playable))
    if wanted.quick:
        chosen = quick(chosen, {name: whole.scenarios[name] for name in playable}, whole.catalogue)
    before = dataclasses.replace(whole, selection=chosen, folder=whole.folder / BEFORE)
    upgraded = dataclasses.replace(chosen, adapter=pair)
    after = dataclasses.replace(
        whole,
        adapter=pair,
        selection=upgraded,
        adapt=with_own_pair,
        again=_command(wanted, whole, pair),
    )
    if not after.trials:
        raise UsageError(
            "none of these scenarios starts the broker again after a fault ended it: an upgrade tests nothing",
            code="nothing-to-upgrade",
        )
    return Upgrade(wanted, pair, before, after, _baseline(wanted, whole), tuple(_notes(pair, wanted.protocol)))


def _pair(wanted: UpgradeRequest, whole: Campaign) -> UpgradeAdapter:
    opened = adapters.open_broker(
        BrokerRequest(
            wanted.new,
            wanted.protocol,
            settings=wanted.to_settings,
            overrides=whole.selection.overrides,
            access=wanted.access,
        )
    )
    new, to_set = opened.adapter, adapters.parse_assignments(wanted.to_settings, opened.adapter.file)
    check(whole.adapter, new, wanted.protocol)
    pair = UpgradeAdapter(whole.adapter, new, to_set)
    now = pair.of_new(whole.selection.settings)
    if new.spec == whole.adapter.spec and now == whole.selection.settings:
        raise UsageError(
            f"--from and --to are both {new.name} {new.version} with the same settings: name another version, or a "
            "setting of the new one by --to-set",
            code="same-version",
        )
    return pair


def _playable(wanted: UpgradeRequest, scenarios: Iterable[Scenario]) -> list[str]:
    names = [item.id for item in scenarios if hands_over(item.steps)]
    for name in wanted.scenarios:
        if name not in names:
            raise UsageError.unknown("scenario", name, names, of="an upgrade")
    return [name for name in names if name in wanted.scenarios or not wanted.scenarios]


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
        ended = ended or isinstance(fault, Kill | Stop | PowerLoss) or (isinstance(fault, Pause) and fault.then_kill)
    return False


def _baseline(wanted: UpgradeRequest, whole: Campaign) -> Report | None:
    """Read the user's report about the old version; `UsageError` if it is about another."""
    if wanted.baseline is None:
        return None
    report = expectations.read_baseline(wanted.baseline)
    expectations.check_baseline(report, adapter=whole.adapter.name, protocol=wanted.protocol)
    if report.run.version != whole.adapter.version:
        raise UsageError(
            f"--baseline {wanted.baseline}: it is about {whole.adapter.name} {report.run.version}, and --from is "
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
    if lost := sorted(pair.old.capabilities(protocol) - pair.new.capabilities(protocol)):
        yield f"{pair.new.version} lacks capabilities of {pair.old.version}, which are not tested: {', '.join(lost)}"


def _command(wanted: UpgradeRequest, whole: Campaign, pair: UpgradeAdapter) -> str:
    """Return the command line that repeats the upgrade, without paths of one machine."""
    words = ["conformance", "upgrade", "--from", pair.old.spec, "--to", pair.new.spec, "--protocol", wanted.protocol]
    words += [word for setting in wanted.settings for word in ("--set", setting)]
    words += [word for setting in wanted.to_settings for word in ("--to-set", setting)]
    words += ["--claims", ",".join(wanted.claims)] if tuple(wanted.claims) != ("*",) else []
    words += [word for name in wanted.scenarios for word in ("--scenario", name)]
    words += [*campaign.credential_words(wanted.access), *(["--quick"] if wanted.quick else [])]
    return shlex.join([*words, "--trials", str(wanted.trials), "--seed", str(whole.selection.seed)])
