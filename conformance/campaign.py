"""One run from what the user asked for to a judged folder: the engine that every front shares.

Plan, record everything, judge once; where a violation was seen in fewer trials than it takes to print it, record the
repeats and judge again. The only decider is the judge, and it sees nothing but the folder.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import platform
import random
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version as version_of

import msgspec

from conformance import adapters, claims, judge, records, scenario
from conformance.adapters import Adapter, EffectiveSettings
from conformance.claims import Catalogue
from conformance.errors import Interrupted, UsageError
from conformance.history import Header
from conformance.judge.rows import Judgement
from conformance.ledger import Ledger, release_leftovers
from conformance.records import RunRecord
from conformance.run.plan import Planned, Selection, plan, subject_trials
from conformance.run.record import Progress, Recording
from conformance.scenario import Scenario

PROTOCOLS = ("amqp",)
REPEATS = 2
CLIENT = "python-qpid-proton"


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user can ask of a run; words are checked by `prepare`."""

    adapter: str
    protocol: str = "amqp"
    settings: Sequence[str] = ()
    claims: Sequence[str] = ("*",)
    required: Sequence[str] = ()
    judge_as: Sequence[str] = ()
    quick: bool = False
    trials: int = scenario.TRIALS
    seed: int | None = None
    out: pathlib.Path | None = None
    offline: bool = False


@dataclasses.dataclass(frozen=True)
class Watcher:
    """How a front hears of a long run; every call may come from another thread."""

    note: Callable[[str], None] = lambda _: None
    download: Callable[[int, int | None], None] | None = None
    progress: Callable[[Progress], None] = lambda _: None


@dataclasses.dataclass(frozen=True)
class Campaign:
    """A run that is about to happen: every word was known, nothing has been started."""

    options: Options
    adapter: Adapter
    catalogue: Catalogue
    scenarios: Mapping[str, Scenario]
    selection: Selection
    folder: pathlib.Path

    @property
    def trials(self) -> list[Planned]:
        """The plan."""
        return plan(self.selection, self.scenarios, self.catalogue)


def prepare(options: Options) -> Campaign:
    """Check every word the user typed.

    Raises `UsageError` that names the closest known one, before anything is downloaded or started.
    """
    catalogue = claims.load()
    scenarios = scenario.load(catalogue)
    adapter = adapters.find(options.adapter)
    if options.protocol not in PROTOCOLS:
        raise UsageError.unknown("protocol", options.protocol, PROTOCOLS)
    adapter.capabilities(options.protocol)
    overrides = adapters.parse_assignments(options.settings, adapter.file)
    selected = claims.select(options.claims, catalogue)
    required = claims.select(options.required, catalogue)
    if options.trials < 1:
        raise UsageError(f"--trials {options.trials}: at least 1")
    selection = Selection(
        adapter=adapter,
        protocol=options.protocol,
        settings=adapter.effective(overrides),
        overrides=overrides,
        claims=list({claim.id: claim for claim in [*selected, *required]}.values()),
        required=frozenset(claim.id for claim in required),
        seed=options.seed if options.seed is not None else secrets.randbelow(1 << 31),
        trials=options.trials,
    )
    return Campaign(options, adapter, catalogue, scenarios, selection, _folder(options, adapter))


def _folder(options: Options, adapter: Adapter) -> pathlib.Path:
    if options.out is None:
        stamp = datetime.datetime.now().astimezone().strftime("%Y-%m-%dT%H-%M-%S")
        return pathlib.Path("runs") / f"{stamp}-{adapter.name}"
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise UsageError(f"--out {options.out}: it exists and is not an empty folder; name another")
    return options.out


def execute(campaign: Campaign, watcher: Watcher) -> Judgement:
    """Record and judge; the folder then holds everything that a report needs.

    Raises:
        Interrupted: The user stopped it; what was recorded is kept and marked.
        ConformanceError: A part of ours failed before there was anything to judge.
    """
    started = time.monotonic()
    for line in release_leftovers():
        watcher.note(f"released what an earlier run left: {line}")
    campaign.adapter.install(watcher.download, offline=campaign.options.offline)
    campaign.folder.mkdir(parents=True, exist_ok=True)
    run = _run_record(campaign)
    records.save(run, campaign.folder / "run.json")
    with Ledger(campaign.folder, run.run) as ledger:
        starting = judge.start_in_background()
        try:
            recording = Recording(
                campaign.folder, _header(run), ledger, watcher.progress, offline=campaign.options.offline
            )
            try:
                return _record_and_judge(campaign, run, recording, starting, watcher, started)
            finally:
                recording.close()
        except (KeyboardInterrupt, Interrupted) as error:
            records.save(msgspec.structs.replace(run, interrupted=True), campaign.folder / "run.json")
            raise Interrupted(f"stopped by the user; what was recorded is in {campaign.folder}") from error
        finally:
            starting.stop()


def _record_and_judge(
    campaign: Campaign,
    run: RunRecord,
    recording: Recording,
    starting: judge.Starting,
    watcher: Watcher,
    started: float,
) -> Judgement:
    recording.record(campaign.trials)
    run = _finished(campaign, run, recording, started)
    watcher.note("judging")
    judged = _judge(campaign.folder, campaign.catalogue, campaign.scenarios, starting)
    added = range(campaign.selection.trials + 1, campaign.selection.trials + 1 + REPEATS)
    repeats = [
        trial
        for name in judge.needs_repeats(judged)
        for trial in subject_trials(campaign.selection, campaign.scenarios[name], added)
    ]
    if repeats:
        watcher.note(f"a violation was not seen in every trial: repeating {len(repeats)} trials")
        recording.record(repeats)
        _finished(campaign, run, recording, started)
        judged = _judge(campaign.folder, campaign.catalogue, campaign.scenarios, starting)
    return msgspec.structs.replace(judged, run=_finished(campaign, run, recording, started))


def _judge(
    folder: pathlib.Path, catalogue: Catalogue, scenarios: Mapping[str, Scenario], starting: judge.Starting
) -> Judgement:
    return judge.judge(folder, catalogue, scenarios, starting.result(), untried=scenario.untried(catalogue))


def judge_folder(folder: pathlib.Path) -> Judgement:
    """Judge a folder that an earlier run wrote; the same rows as that run printed."""
    if not (folder / "run.json").is_file():
        raise UsageError(f"{folder} is not the folder of a run: it has no run.json")
    catalogue = claims.load()
    starting = judge.start_in_background()
    try:
        return _judge(folder, catalogue, scenario.load(catalogue), starting)
    finally:
        starting.stop()


def command(campaign: Campaign) -> str:
    """The command line that repeats the run: every choice that matters, and none that belongs to one machine."""
    options, selection = campaign.options, campaign.selection
    words = ["conformance", "run", "--adapter", campaign.adapter.spec, "--protocol", selection.protocol]
    words += [word for setting in options.settings for word in ("--set", setting)]
    words += ["--claims", ",".join(options.claims)] if tuple(options.claims) != ("*",) else []
    words += [word for claim in options.required for word in ("--require", claim)]
    return shlex.join([*words, "--trials", str(selection.trials), "--seed", str(selection.seed)])


def _finished(campaign: Campaign, run: RunRecord, recording: Recording, started: float) -> RunRecord:
    run = msgspec.structs.replace(
        run,
        finished=True,
        deviations=recording.deviations,
        floor_seconds=round(recording.floor_seconds, 1),
        seconds=round(time.monotonic() - started, 1),
    )
    records.save(run, campaign.folder / "run.json")
    return run


def _run_record(campaign: Campaign) -> RunRecord:
    adapter, selection = campaign.adapter, campaign.selection
    settings: EffectiveSettings = selection.settings
    now = datetime.datetime.now(datetime.UTC)
    return RunRecord(
        run=f"{now:%Y%m%dT%H%M%S}-{adapter.name}-{random.getrandbits(24):06x}",
        started=now.isoformat(timespec="seconds"),
        command=command(campaign),
        seed=selection.seed,
        adapter=adapter.name,
        version=adapter.version,
        launcher=adapter.launcher,
        protocol=selection.protocol,
        client=f"{CLIENT} {version_of(CLIENT)}",
        title=adapter.file.title,
        profiles=tuple(adapter.file.profiles),
        capabilities=tuple(sorted(adapter.capabilities(selection.protocol))),
        settings=dict(settings.values),
        absent=tuple(sorted(settings.absent)),
        changed=dict(settings.changed),
        deviations={},
        versions={
            "conformance": version_of("ack-conformance"),
            CLIENT: version_of(CLIENT),
            "pyspark": version_of("pyspark"),
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        selected=tuple(claim.id for claim in selection.claims),
        required=tuple(sorted(selection.required)),
    )


def _header(run: RunRecord) -> Header:
    return Header(
        run=run.run,
        scenario="",
        trial="",
        arm="",
        process="",
        seed=run.seed,
        adapter=run.adapter,
        version=run.version,
        protocol=run.protocol,
        client=run.client,
        mode="",
        settings=dict(run.settings),
        changed=dict(run.changed),
        versions=run.versions,
        command=run.command,
    )
