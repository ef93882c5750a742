"""Run from a user's options to a judged folder: the engine that all front ends share.

`session` opens a run. `OpenRun.record` records scenarios, all at once or one by one, and `OpenRun.judge` judges what
is recorded. If a violation was seen in too few trials, its scenario is repeated and judged again. Only the judge
decides, and it reads only the folder.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import functools
import os
import pathlib
import platform
import secrets
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version as version_of

import msgspec

from conformance import adapters, claims, judge, limits, processes, records, scenario
from conformance.adapters import READY_QUEUE, Adapter, BrokerRequest, opening
from conformance.adapters.credentials import OPEN, Access, ClientTls
from conformance.adapters.distribution.versions import greeted_version_differs
from conformance.adapters.interface import EXTERNAL
from conformance.claims import Catalogue
from conformance.errors import Interrupted, LaunchError, UsageError, matching
from conformance.faults import possible
from conformance.judge.rows import Judgement
from conformance.judge.rules import names_used, too_few
from conformance.judge.spark import JudgeSession
from conformance.judge.verdict import Remembered
from conformance.judge.warm_up import warm_up
from conformance.ledger import Ledger, release_leftovers
from conformance.protocols import describe
from conformance.records import Checksum, RunFile, RunRecord, TrialRecord
from conformance.run import artifacts, policies
from conformance.run.clients import singly
from conformance.run.planning import (
    Planned,
    Selection,
    clients_of,
    left_to_thorough,
    more_faults,
    plan,
    quick,
    subject_trials,
    wanted,
)
from conformance.run.readiness_probe import probe_client
from conformance.run.record import Progress, Recording, RunWriter, check_same_run, not_recorded, read_interrupted
from conformance.scenario import ANSWERED, FRAMES, Scenario, need_of
from conformance.scenario.script import DiskFull, FailedSync


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a run, as typed; `prepare` checks them. Without `jobs` there are as many as cores.

    The run adds trials until `budget_s` seconds have passed. `resume` is the folder of a run that was interrupted.
    """

    adapter: str
    protocol: str = ""
    client: str = ""
    settings: Sequence[str] = ()
    claims: Sequence[str] = ("*",)
    scenarios: Sequence[str] = ()
    required: Sequence[str] = ()
    judge_as: Sequence[str] = ()
    quick: bool = False
    thorough: bool = False
    budget_s: int = 0
    trials: int = scenario.TRIALS
    jobs: int | None = None
    seed: int | None = None
    out: pathlib.Path | None = None
    resume: pathlib.Path | None = None
    offline: bool = False
    access: Access = OPEN
    config: pathlib.Path | None = None

    @property
    def broker(self) -> BrokerRequest:
        return BrokerRequest(
            adapter=self.adapter,
            protocol=self.protocol,
            client=self.client,
            settings=self.settings,
            config=self.config,
            access=self.access,
        )


@dataclasses.dataclass(frozen=True)
class Watcher:
    """The callbacks of a front during a run; every call may come from another thread."""

    note: Callable[[str], None] = lambda _: None
    download: Callable[[int, int | None], None] | None = None
    progress: Callable[[Progress], None] = lambda _: None


@dataclasses.dataclass(frozen=True)
class Campaign:
    """A run that was checked and not started.

    A replay has exactly the trials in `chosen`, and `again` is the command line that repeats it. `adapt` changes
    planned trials before they are recorded: an upgrade gives each its own pair of brokers. `earlier` is the run that
    this one goes on with.
    """

    options: Options
    adapter: Adapter
    catalogue: Catalogue
    scenarios: Mapping[str, Scenario]
    selection: Selection
    folder: pathlib.Path
    chosen: tuple[Planned, ...] = ()
    again: str = ""
    adapt: Callable[[Iterable[Planned]], list[Planned]] = list
    earlier: RunFile | None = None

    @property
    def trials(self) -> list[Planned]:
        if self.chosen:
            return list(self.chosen)
        return self.adapt(plan(self.selection, self.scenarios, self.catalogue))

    @property
    def jobs(self) -> int:
        """The number of brokers on trial at once; an external broker is one."""
        return 1 if self.adapter.launcher == EXTERNAL else self.options.jobs or processes.cores()


def prepare(options: Options) -> Campaign:
    """Check every option, before anything is downloaded or started.

    Raises `UsageError`, with the closest known word for an unknown one.
    """
    catalogue = claims.load()
    scenarios = scenario.load(catalogue)
    opened = adapters.open_broker(options.broker)
    adapter, protocol = opened.adapter, opened.protocol
    selected = claims.select(options.claims, catalogue)
    required = claims.select(options.required, catalogue)
    vendors = {vendor for claim in catalogue.claims.values() for vendor in claim.binds}
    for vendor in options.judge_as:
        if vendor not in vendors:
            raise UsageError.unknown("vendor", vendor, vendors)
    if options.quick and options.thorough:
        raise UsageError("--quick and --thorough: give one of them", code="one-of")
    if options.resume and options.out:
        raise UsageError("--resume and --out: give one of them", code="one-of")
    for option, number in (("--trials", options.trials), ("--jobs", options.jobs)):
        if number is not None and number < 1:
            raise UsageError(f"{option} {number}: at least 1", code="too-small", option=option)
    earlier = read_interrupted(options.resume) if options.resume else None
    seed = earlier.seed if earlier and options.seed is None else options.seed
    selection = Selection(
        adapter=adapter,
        protocol=protocol,
        settings=adapter.effective(opened.overrides),
        overrides=opened.overrides,
        claims=list({claim.id: claim for claim in [*selected, *required]}.values()),
        required=frozenset(claim.id for claim in required),
        seed=seed if seed is not None else secrets.randbelow(1 << 31),
        trials=options.trials,
        only=frozenset(matching("scenario", options.scenarios, scenarios)),
        thorough=options.thorough,
        judged_as=frozenset(options.judge_as),
        no_client_reason=opening.no_client_reason(protocol, adapter),
        client=opened.client.name if opened.client else "",
    )
    selection = _able(selection, scenarios)
    if options.quick:
        selection = quick(selection, scenarios, catalogue)
    folder = options.resume or folder_for(options, adapter)
    campaign = Campaign(options, adapter, catalogue, scenarios, selection, folder, earlier=earlier)
    if earlier:
        check_same_run(folder, earlier, command(campaign), campaign.trials)
    return campaign


def _able(selection: Selection, scenarios: Mapping[str, Scenario]) -> Selection:
    """Return the selection with the faults of its scenarios, or of a user's own, that this machine cannot inject."""
    played = [item for item in scenarios.values() if wanted(item, selection)]
    return dataclasses.replace(selection, unable={**selection.unable, **unable(selection, played)})


def unable(selection: Selection, played: Sequence[Scenario]) -> dict[str, str]:
    """Return the faults and other needs of these scenarios that the broker cannot have here, and why.

    The launcher answers first for a fault (`Adapter.able`), then this machine.
    """
    adapter, protocol, vendor = selection.adapter, selection.protocol, selection.vendor
    here = possible.unable(needs := [need for item in played for need in item.needs])
    lacking = {need: adapter.lacks(need) or here.get(need, "") for need in needs}
    if opening.credentials_of(adapter, protocol).tls is not None:
        lacking[FRAMES] = "over TLS a link cannot read the frames; run it over the plain port as well"
    if vendor is not None:
        lacking |= vendor.hidden_needs
        lacking |= {need: vendor.lacks(need) for item in played for need in item.of_client}
    over = adapter.file.protocols[protocol]
    lacking |= {need: why for need, why in adapter.lacks_over(protocol).items() if need in lacking}
    for option, entry in adapter.file.queue_settings.items():
        need = need_of(option)
        if lacking.get(need) == "" and (why := entry.lacks(selection.settings.values)):
            lacking[need] = why
    if ANSWERED in lacking and (vendor or over).ack_confirm is None:
        lacking[ANSWERED] = f"the file of {(vendor or adapter).name} has no ack_confirm over {protocol}"
    if not describe(protocol).traits.acks_one and not singly(adapter, protocol):
        why = f"the adapter of {adapter.name} does not declare individual_ack over {protocol}"
        lacking |= {"mode individual": why, "mode individual_dups_ok": why}
    found = possible.unable((fault.name for item in played for fault in item.faults), adapter.able) | lacking
    if hidden := adapters.untraced(adapter.file, selection.settings):
        found |= dict.fromkeys((FailedSync.name, DiskFull.name), hidden)
    return {name: why for name, why in found.items() if why}


def dated_folder(name: str = "") -> pathlib.Path:
    """Return the folder of a run without --out: `runs/<date>`, or `runs/<date>-NAME`."""
    stamp = datetime.datetime.now().astimezone().strftime("%Y-%m-%dT%H-%M-%S")
    return pathlib.Path("runs") / "-".join(filter(None, (stamp, name)))


def folder_for(options: Options, adapter: Adapter) -> pathlib.Path:
    """Return the folder of `--out`, or one named by date and broker; `UsageError` if it exists and is not empty."""
    if options.out is None:
        return dated_folder(adapter.name)
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise UsageError(
            f"--out {options.out}: it exists and is not an empty folder; name another",
            code="folder-not-empty",
            folder=options.out,
        )
    return options.out


@contextlib.contextmanager
def session(campaign: Campaign, watcher: Watcher) -> Iterator[OpenRun]:
    """Open a run: install the broker, make the folder, start Spark in the background. Nothing is recorded yet.

    Raises:
        Interrupted: The user stopped it; what was recorded is kept and marked.
        ConformanceError: A part of the suite failed before there was anything to judge.
    """
    for line in release_leftovers():
        watcher.note(f"released what an earlier run left: {line}")
    if campaign.adapter.launcher == "native":
        campaign.adapter.install(watcher.download, offline=campaign.options.offline)
    if campaign.jobs < (campaign.options.jobs or 1):
        watcher.note(f"--jobs {campaign.options.jobs}: an external broker plays one trial at a time")
    if not campaign.chosen and (why := too_few(campaign.options.trials)):
        watcher.note(why)
    for client in clients_of(campaign.trials):
        client.install(watcher.download, offline=campaign.options.offline)
    campaign.folder.mkdir(parents=True, exist_ok=True)
    run = run_record(campaign)
    written = RunWriter(campaign.folder, run, campaign.earlier)
    with Ledger(campaign.folder, run.run) as ledger:
        planned = campaign.trials
        if planned and campaign.adapter.launcher == EXTERNAL:
            campaign = _reach(campaign, ledger, written, watcher)
            planned = campaign.trials
        starting = _spark(campaign, planned)
        try:
            recording = Recording(
                campaign.folder,
                records.header(run),
                ledger,
                watcher.progress,
                offline=campaign.options.offline,
                expected=planned,
                jobs=campaign.jobs,
            )
            running = OpenRun(campaign, written, recording, starting, watcher)
            try:
                yield running
                running.finish()
            finally:
                recording.close()
                for line in adapters.left(campaign.folder):
                    watcher.note(line)
        except (KeyboardInterrupt, Interrupted) as error:
            written.save(interrupted=True, finished=False)
            raise Interrupted(f"stopped by the user; what was recorded is in {campaign.folder}") from error
        finally:
            starting.stop(watcher.note)


def _reach(campaign: Campaign, ledger: Ledger, written: RunWriter, watcher: Watcher) -> Campaign:
    """Start the external broker, or send it a message; return the run with the policies of its queues.

    Raises `LaunchError` once; otherwise every trial would be void for the same reason.
    """
    folder = campaign.folder / "brokers" / "reached"
    client = probe_client(campaign.adapter, campaign.selection.protocol, campaign.selection.client)
    with campaign.adapter.prepare(folder, campaign.selection.settings, [], ledger, client=client) as broker:
        broker.start()
        greeting = client.greeting(broker, broker.service.queue_of(READY_QUEUE))
        if why := greeted_version_differs(campaign.adapter.file, campaign.adapter.version, greeting):
            raise LaunchError(f"{campaign.adapter.spec} {why}")  # the report would name a version that did not run
        settings, unread = policies.read(broker, campaign.adapter.file, campaign.selection.settings)
    if unread:
        watcher.note(f"the policies of the queues could not be read: {unread}")
    written.save(settings=dict(settings.values), absent=tuple(sorted(settings.absent)), policies_unread=unread)
    return dataclasses.replace(campaign, selection=dataclasses.replace(campaign.selection, settings=settings))


def _spark(campaign: Campaign, planned: Sequence[Planned]) -> judge.StartingSession:
    """Start Spark and warm it up with the checks of the first of these trials, or only on demand if there are none."""
    first = next((campaign.scenarios[trial.script.id] for trial in planned), None)
    if first is None:
        return judge.start_when_asked()
    return judge.start_in_background(functools.partial(warm_up, used=list(names_used([first]))))


_BATCH_S = 30.0
"""The work that a budget adds at once: after it, the time that is left is looked at again."""


class OpenRun:
    """An open run: a front records scenarios and judges what is recorded, in any order.

    `run.json` says `finished` only while no recording is under way: if the harness is killed, the run is incomplete.
    """

    def __init__(
        self,
        campaign: Campaign,
        written: RunWriter,
        recording: Recording,
        starting: judge.StartingSession,
        watcher: Watcher,
    ) -> None:
        self.campaign, self.watcher = campaign, watcher
        self._written = written
        self._recording, self._starting = recording, starting
        self._started = time.monotonic()
        self._judged: Judgement | None = None
        self._remembered = Remembered()
        self._added: collections.Counter[str] = collections.Counter()
        self._repeated: collections.Counter[str] = collections.Counter()

    def record(self, scenarios: Collection[str] | None = None) -> None:
        """Record every planned trial of these scenarios, by id; None means all that are selected.

        Raises:
            Interrupted: The user stopped it. Brokers and clients are gone, histories are closed as interrupted.
        """
        if scenarios is None:
            self._record(self.campaign.trials)
            self._spend_budget()
            return
        wanted = {name: self.campaign.scenarios[name] for name in scenarios}
        self._record(self.campaign.adapt(plan(self.campaign.selection, wanted, self.campaign.catalogue)))

    def _spend_budget(self) -> None:
        """Record more trials until the time of `--budget` has passed."""
        campaign = self.campaign
        while (left := self._started + campaign.options.budget_s - time.monotonic()) > 0:
            seconds = min(left, _BATCH_S) * campaign.jobs
            more = more_faults(campaign.selection, campaign.scenarios, self._added, seconds)
            if not more:
                return
            self._added.update(trial.script.id for trial in more)
            self._record(campaign.adapt(more))

    def judge(self) -> Judgement:
        """Judge everything recorded so far, after the repeats that the judge asks for (`judge.needs_repeats`)."""
        if self._judged is not None:
            return self._judged
        self.watcher.note("judging")
        judged = self._judge()
        while repeats := self._repeats(judged):
            why = "an offence was not seen in every trial, or a fault met nothing at risk"
            self.watcher.note(f"{why}: {len(repeats)} more trials")
            self._record(repeats)
            judged = self._judge()
        found = judged.run
        run = msgspec.structs.replace(self.finish(), finished=found.finished, incomplete=found.incomplete)
        self._judged = msgspec.structs.replace(judged, run=run)
        return self._judged

    def _repeats(self, judged: Judgement) -> list[Planned]:
        """Return the trials to add; a replay adds none."""
        selection, repeats = self.campaign.selection, []
        for name in [] if self.campaign.chosen else judge.needs_repeats(judged, self._repeated):
            first = selection.trials + 1 + self._added[name]
            self._repeated[name] += judge.REPEATS
            self._added[name] += judge.REPEATS
            repeats += subject_trials(selection, self.campaign.scenarios[name], range(first, first + judge.REPEATS))
        return self.campaign.adapt(repeats)

    @property
    def run(self) -> RunRecord:
        return self._written.run

    @property
    def spark(self) -> JudgeSession:
        return self._starting.result()

    def finish(self) -> RunRecord:
        """Write that the recording is complete so far."""
        return self._written.close(
            deviations=self._recording.deviations,
            floor_seconds=round(self._recording.floor_seconds, 1),
            seconds=round(time.monotonic() - self._started, 1),
        )

    def _record(self, trials: Sequence[Planned]) -> None:
        self._judged = None
        self._written.plan(trials)
        if self.campaign.earlier:
            trials = not_recorded(self.campaign.folder, trials)
        self._recording.record(trials)

    def _judge(self) -> Judgement:
        self.finish()
        campaign = self.campaign
        return _judge(campaign.folder, campaign.catalogue, campaign.scenarios, self._starting, self._remembered)


def execute(campaign: Campaign, watcher: Watcher) -> Judgement:
    """Record everything and judge; the folder then holds all that a report needs. Raises what `session` raises."""
    with session(campaign, watcher) as running:
        running.record()
        return running.judge()


def narrowed(campaign: Campaign, chosen: Collection[str]) -> Campaign:
    """Narrow the run to these claims, by id, with every scenario that was registered since it was prepared."""
    kept = [claim for claim in campaign.selection.claims if claim.id in chosen]
    options = campaign.options
    if len(kept) < len(campaign.selection.claims):
        required = tuple(claim.id for claim in kept if claim.id in campaign.selection.required)
        options = dataclasses.replace(options, claims=tuple(claim.id for claim in kept), required=required)
    scenarios = scenario.load(campaign.catalogue)
    selection = _able(dataclasses.replace(campaign.selection, claims=kept), scenarios)
    return dataclasses.replace(campaign, options=options, selection=selection, scenarios=scenarios)


def _judge(
    folder: pathlib.Path,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    starting: judge.StartingSession,
    remembered: Remembered | None = None,
) -> Judgement:
    return judge.judge(folder, catalogue, scenarios, starting, untried=catalogue.untried, remembered=remembered)


def judge_folders(
    folders: Sequence[pathlib.Path], start: Callable[..., judge.StartingSession] = judge.start_in_background
) -> list[Judgement]:
    """Judge folders that earlier runs wrote, by one Spark: here, on a cluster, or by Connect. The rows are the same."""
    for folder in folders:
        records.check_run(folder)
    catalogue = claims.load()
    size = sum(path.stat().st_size for folder in folders for path in folder.glob("trials/*/*.jsonl"))
    starting = start(events=size // limits.EVENT_BYTES)
    try:
        return [_judge(folder, catalogue, scenario.load(catalogue), starting) for folder in folders]
    finally:
        starting.stop()


def join_parts(folder: pathlib.Path) -> bool:
    """Make one run of those of the worker processes, whose scenarios are disjoint; False if there is none.

    Its plan has the trials of all parts. Trials are moved; logs of brokers stay, since messages name their paths. If a
    part is not finished, neither is the whole. If a worker died in a scenario and another repeated it, the finished
    part counts.
    """
    found = {path.parent: records.read(path, RunFile) for path in sorted(folder.glob(f"{records.PARTS}/*/run.json"))}
    if not found:
        return False
    parts = sorted(found, key=lambda part: not found[part].finished)
    (folder / "trials").mkdir(exist_ok=True)
    for trial in [path for part in parts for path in sorted(part.glob("trials/*"))]:
        if not (folder / "trials" / trial.name).exists():
            trial.rename(folder / "trials" / trial.name)
    runs = [found[part] for part in parts]
    plan: dict[str, TrialRecord] = {}
    checksums: dict[str, dict[str, Checksum]] = {}
    for run in reversed(runs):  # of a trial that two parts began, the one whose folder was moved
        plan |= {trial.trial: trial for trial in run.plan or ()}
        checksums |= run.checksums
    whole = msgspec.structs.replace(
        runs[0],
        started=min(run.started for run in runs),
        deviations={name: text for run in runs for name, text in run.deviations.items()},
        finished=all(run.finished for run in runs),
        interrupted=any(run.interrupted for run in runs),
        floor_seconds=max(run.floor_seconds for run in runs),
        seconds=max(run.seconds for run in runs),
        plan=tuple(plan.values()),
        checksums=checksums,
    )
    records.save(whole.sealed, folder / "run.json")
    return True


def command(campaign: Campaign) -> str:
    """Return the command line that repeats the run: every choice that matters, and no path of one machine."""
    if campaign.again:
        return campaign.again
    options, selection = campaign.options, campaign.selection
    words = ["conformance", "run", "--adapter", campaign.adapter.spec, "--protocol", selection.protocol]
    words += ["--client", selection.client] if options.client else []
    words += ["--config", near(str(options.config))] if options.config else []
    return shlex.join([*words, *option_words(options, selection)])


def option_words(options: Options, selection: Selection) -> list[str]:
    """Return the words of a command line for what is tested and judged, with the drawn seed."""
    words = [word for setting in options.settings for word in ("--set", setting)]
    words += ["--claims", ",".join(options.claims)] if tuple(options.claims) != ("*",) else []
    words += ["--scenario", ",".join(options.scenarios)] if options.scenarios else []
    words += [word for claim in options.required for word in ("--require", claim)]
    words += [word for vendor in options.judge_as for word in ("--judge-as", vendor)]
    words += [*credential_words(options.access), *(["--quick"] if options.quick else [])]
    words += ["--thorough"] if options.thorough else []
    words += ["--budget", f"{options.budget_s}s"] if options.budget_s else []
    words += ["--jobs", str(options.jobs)] if options.jobs else []
    return [*words, "--trials", str(selection.trials), "--seed", str(selection.seed)]


def credential_words(typed: Access) -> list[str]:
    """Return the words of a command line that give these credentials. There is no secret among them."""
    tls, secret = typed.tls or ClientTls(), typed.password
    given = [
        ("--user", typed.user),
        ("--password-env", secret.env if secret else ""),
        ("--password-file", near(secret.file) if secret else ""),
        ("--sasl", typed.mechanism),
        ("--tls-ca", near(tls.ca)),
        ("--tls-cert", near(tls.certificate)),
        ("--tls-key", near(tls.key)),
        ("--tls-server-name", tls.server_name),
    ]
    words = [word for option, value in given if value for word in (option, value)]
    return ["--tls", *words] if typed.tls == ClientTls() else words


def near(path: str) -> str:
    """Return the path relative to the current folder if it is below it; otherwise the whole path."""
    return os.path.relpath(path) if path and pathlib.Path(path).is_relative_to(pathlib.Path.cwd()) else path


def run_record(campaign: Campaign) -> RunRecord:
    """Return the record of a run that begins, and keep in its folder what opens its broker again."""
    adapter, selection = campaign.adapter, campaign.selection
    now = datetime.datetime.now(datetime.UTC)
    client, clients = opening.client_versions(selection.protocol, selection.vendor)
    difference = artifacts.keep_all(campaign.folder, adapter, campaign.options.access, selection.settings)
    return RunRecord(
        run=campaign.earlier.run if campaign.earlier else f"{now:%Y%m%dT%H%M%S}-{adapter.name}-{secrets.token_hex(3)}",
        started=campaign.earlier.started if campaign.earlier else now.isoformat(timespec="seconds"),
        command=command(campaign),
        seed=selection.seed,
        adapter=adapter.name,
        version=adapter.version,
        launcher=adapter.launcher,
        protocol=selection.protocol,
        client=client,
        title=adapter.file.full_title,
        profiles=tuple(adapter.file.profiles),
        capabilities=tuple(sorted(adapter.capabilities(selection.protocol))),
        settings=dict(selection.settings.values),
        absent=tuple(sorted(selection.settings.absent)),
        changed=dict(selection.settings.changed),
        deviations={},
        configuration=difference,
        versions={
            "conformance": version_of("ack-conformance"),
            **clients,
            "pyspark": version_of("pyspark"),
            "python": platform.python_version(),
            "kernel": platform.release(),
        },
        selected=tuple(claim.id for claim in selection.claims),
        required=tuple(sorted(selection.required)),
        judged_as=tuple(sorted(selection.judged_as)),
        unable=dict(selection.unable),
        weakens=tuple(sorted(selection.weakens)),
        no_client_reason=selection.no_client_reason,
        vendor=selection.client,
        jobs=campaign.jobs,
        left_to_thorough=left_to_thorough(selection, campaign.scenarios),
    )
