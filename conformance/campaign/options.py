"""The options of a run, their check before anything starts, and its record: with the command that repeats it."""

from __future__ import annotations

import dataclasses
import datetime
import os
import pathlib
import platform
import secrets
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.metadata import version as version_of

from conformance import adapters, claims, processes, scenario
from conformance.adapters import Adapter, BrokerRequest, opening
from conformance.adapters.credentials import OPEN, Access, ClientTls
from conformance.adapters.system import BrokerUnderTest
from conformance.claims import Catalogue
from conformance.errors import UsageError, matching
from conformance.faults import possible
from conformance.records import RunFile, RunRecord
from conformance.report.questions import QUESTIONS
from conformance.run import artifacts
from conformance.run.planning import Planned, Selection, left_to_thorough, plan, wanted_checks
from conformance.run.quick import quick
from conformance.run.record import check_same_run, read_interrupted
from conformance.scenario import Scenario


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
        return 1 if self.adapter.launcher.owned else self.options.jobs or processes.cores()


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
        selection = quick(selection, scenarios, catalogue, QUESTIONS.values())
    folder = options.resume or folder_for(options, adapter)
    campaign = Campaign(options, adapter, catalogue, scenarios, selection, folder, earlier=earlier)
    if earlier:
        check_same_run(folder, earlier, command(campaign), campaign.trials)
    return campaign


def _able(selection: Selection, scenarios: Mapping[str, Scenario]) -> Selection:
    """Return the selection with the faults of its scenarios, or of a user's own, that this machine cannot inject."""
    played = [item for item in scenarios.values() if wanted_checks(item, selection)]
    return dataclasses.replace(selection, unable={**selection.unable, **unable(selection, played)})


def unable(selection: Selection, played: Sequence[Scenario]) -> dict[str, str]:
    """Return the faults and other needs of these scenarios that the broker cannot have here, and why."""
    system = BrokerUnderTest(selection.adapter, selection.protocol, selection.settings, selection.vendor)
    return possible.unable((wanted for item in played for wanted in item.wanted), system)


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
        launcher=adapter.launcher.word,
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
