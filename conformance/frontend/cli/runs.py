"""Commands that record and judge: run, upgrade, judge, replay, bundle."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from conformance.frontend.cli.group import FILE, GroupedCommand, cli, end_on_sigterm, options, say, write_report
from conformance.frontend.options import (
    BROKER,
    JUDGE,
    REPLAY,
    RUN,
    UPGRADE,
    WIRE_WORDS,
    each_run,
    expectations,
    pairs,
    prepare,
    run_options,
)
from conformance.protocols import WIRES

if TYPE_CHECKING:
    from conformance.campaign import Campaign, Watcher
    from conformance.judge import StartingSession
    from conformance.judge.rows import Judgement

_TRUST = click.option("--trust", is_flag=True, help="Use the broker files of the run: they can run any program as you.")


@cli.command("run", cls=GroupedCommand)
@options(RUN)
def run_command(quiet: bool, verbose: bool, **values: Any) -> int:
    """Test a broker: record every trial, judge, write the report.

    \b
    conformance run --adapter reference
    conformance run --adapter reference --protocol stomp
    conformance run --adapter artemis --adapter rabbitmq --protocol amqp,stomp --out runs/both
    conformance run --adapter artemis --quick
    conformance run --adapter artemis --scenario 'broker-killed-*' --plan
    conformance run --adapter artemis --protocol jms
    conformance run --adapter qpid --protocol jms --client qpid-jms
    conformance run --adapter artemis --out runs/artemis
    conformance run --adapter artemis@2.44.0 --claims 'SOLCD-*' --trials 5
    conformance run --adapter artemis --scenario 'broker-killed-*' --budget 30m
    conformance run --adapter artemis --seed 7 --resume runs/artemis
    conformance run --adapter artemis --set sync_non_transactional=false --require SOLCD-ACK-01
    conformance run --adapter artemis --judge-as ems --judge-as qpid
    conformance run --adapter artemis --known-failures known.toml --require-tried 'SOLCD-ACK-*'
    conformance run --adapter artemis --baseline last/report.json --out report
    conformance run --adapter artemis --config /etc/mybroker/broker.xml
    conformance run --adapter ./mybroker.toml --user alice --password-env BROKER_PASSWORD --tls-ca ca.pem

    With --judge-as, a promise of VENDOR that this product does not make never counts against it. A known failure is a
    table [[known]] with claim, adapter, reason, link, expires (a date), and expect (always or sometimes); versions
    (">=2.31,<2.60"), scenario, protocol and mode narrow it. With a baseline, exit 1 means a new violation, and 2 an
    answer that the earlier report had. Several brokers or protocols are runs of their own, one after another, in one
    folder with an index; the exit code is that of the worst.
    """
    runs = each_run(values)
    if values["plan"]:
        return _print_plans(runs)
    if len(runs) == 1:
        return _run(*prepare(runs[0]), quiet, verbose)
    return _run_each(runs, values["out"], quiet, verbose)


def _print_plans(runs: Sequence[Mapping[str, Any]]) -> int:
    from conformance.frontend import plan

    for run in runs:
        say("\n".join(plan.lines(prepare(run)[0])))
    return 0


def _run_each(runs: Sequence[Mapping[str, Any]], out: pathlib.Path | None, quiet: bool, verbose: bool) -> int:
    """Check every run before the first one starts; one that fails does not keep the others from running."""
    from conformance import campaign
    from conformance.errors import PRECEDENCE, ConformanceError, ExitCode, UsageError
    from conformance.report import html, site

    if runs[0]["resume"]:
        raise UsageError("--resume: give one adapter and one protocol", code="one-of")
    folder = out or campaign.dated_folder()
    each = []
    for run in runs:
        name = html.anchor(f"{run['adapter']}-{run['protocol']}".strip("-"))
        each.append(prepare({**run, "out": folder / name}))
    codes: set[int] = set()
    for prepared, expected in each:
        try:
            codes.add(_run(prepared, expected, quiet, verbose))
        except ConformanceError as error:
            say(error, err=True)
            codes.add(int(ExitCode.HARNESS))
        if ExitCode.INTERRUPTED in codes:
            break
    if any((prepared.folder / "report.json").is_file() for prepared, _ in each):
        say(f"all of them: {site.write([folder], folder)}")
    return int(next(code for code in PRECEDENCE if code in codes))


def _run(prepared: Campaign, expected: Any, quiet: bool, verbose: bool) -> int:
    from conformance import campaign, records, report
    from conformance.adapters.opening import configuration_of
    from conformance.errors import Interrupted
    from conformance.frontend.progress import Show
    from conformance.judge.rows import Verdict

    def judged(found: Judgement) -> None:
        """Replace the report by one about what is judged so far, and show what is violated in it."""
        reported = expected.in_report(expected.of(found))
        report.write_pages(found, prepared.catalogue, prepared.scenarios, prepared.folder, reported)
        bad = [row for row in found.rows if row.verdict is Verdict.VIOLATED]
        show.violations(row for row in bad if not (reported and reported.excuses(row)))

    signal.signal(signal.SIGTERM, end_on_sigterm)
    own = None if quiet else configuration_of(prepared.adapter)
    for line in own.summary(prepared.adapter.file, prepared.selection.settings) if own else ():
        say(line)
    with Show(prepared, quiet=quiet, verbose=verbose) as show:
        try:
            judgement = campaign.execute(prepared, dataclasses.replace(show.watcher, judged=judged))
        except Interrupted as error:
            again = f"{campaign.command(prepared)} --resume {shlex.quote(str(prepared.folder))}"
            raise Interrupted(f"{error}; to go on: {again}") from error
        show.verdicts([row.verdict for row in judgement.rows if row.trials])
    code = write_report(judgement, prepared.folder, expected)
    records.keep_judged(prepared.folder)
    return code


@cli.command("upgrade", cls=GroupedCommand)
@click.option(
    "--from",
    "adapter",
    required=True,
    metavar="NAME[@VERSION][:LAUNCHER]",
    help="The old version: it writes the data and is killed.",
)
@click.option(
    "--to", "new", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="The new version: it starts on that data."
)
@click.option(
    "--protocol", default=WIRES[0], show_default=True, metavar="WORD", help=f"Protocol of the clients: {WIRE_WORDS}."
)
@click.option(
    "--to-set",
    "to_settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the new version only; repeatable.",
)
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Play only this scenario; repeatable.")
@click.option(
    "--baseline", type=FILE, metavar="REPORT", help="A report about the old version; it is then not tested alone."
)
@options(UPGRADE)
def upgrade_command(quiet: bool, verbose: bool, **values: Any) -> int:
    """Test an upgrade: the old version writes data and is killed, and the new one starts on that data.

    \b
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0 --protocol stomp --quick
    conformance upgrade --from artemis@2.44.0 --to artemis@2.56.0 --scenario broker-killed-after-commit --trials 5
    conformance upgrade --from artemis --to artemis --to-set journal_type=ASYNCIO
    conformance upgrade --from ./mybroker-1.toml --to ./mybroker-2.toml --baseline last/before
    conformance upgrade --from ./mybroker-1.toml --to ./mybroker-2.toml --user alice --password-env BROKER_PASSWORD

    Every scenario in which a fault ends the broker and it starts again is played twice: by the old version alone, and
    as an upgrade. Exit 1 if only the upgrade violates a claim, or if the new version does not start on data on which
    the old one starts; exit 2 if the upgrade left undecided what the old version decided. The report is about the
    upgrade; the folder `before` has the report about the old version.
    """
    from conformance.claims import words as patterns
    from conformance.followup.upgrade import runs

    prepared = runs.prepare(
        runs.UpgradeRequest(
            run_options(values), values["new"], values["to_settings"], patterns(values["scenarios"]), values["baseline"]
        )
    )
    for note in prepared.notes:
        say(f"note: {note}")
    signal.signal(signal.SIGTERM, end_on_sigterm)

    @contextlib.contextmanager
    def watching(campaign: Campaign) -> Iterator[Watcher]:
        from conformance.frontend.progress import Show

        with Show(campaign, quiet=quiet, verbose=verbose) as show:
            yield show.watcher

    result = runs.execute(prepared, watching, _report_before)
    code = write_report(result.judgement, prepared.after.folder, result.expected)
    for line in result.lines:
        say(line)
    return code


def _report_before(judgement: Judgement, campaign: Campaign) -> None:
    from conformance import report

    report.write_all(judgement, campaign.catalogue, campaign.scenarios, campaign.folder, None)


@cli.command("judge", cls=GroupedCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--spark-master", default="", metavar="URL", help="Judge on this cluster.  [default: this machine]")
@click.option("--spark-remote", default="", metavar="URL", help="Judge by this Spark Connect server.")
@click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable.")
@click.option("--again", is_flag=True, help="Judge also the runs that have not changed since they were judged.")
@options(JUDGE)
def judge_command(runs: tuple[str, ...], again: bool, **values: Any) -> int:
    """Judge the folders of earlier runs, and write the report of each; the exit code is that of the worst.

    \b
    conformance judge runs/2026-11-21T10-00-00-artemis
    conformance judge runs/2026-11-21T10-00-00-artemis runs/2026-11-22T09-00-00-rabbitmq
    conformance judge report --known-failures known.toml --baseline last/report.json
    conformance judge runs/* --again
    conformance judge runs/artemis --spark-master spark://spark.example:7077 --spark-conf spark.executor.memory=4g
    conformance judge 'hdfs://name.example:9000/runs/2026-11-*'
    conformance judge s3a://bucket/runs/artemis --spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0

    RUN is a folder, a URI of a file system that Spark knows, or a pattern of either: it takes what has a run.json. From
    a URI the evidence is copied to runs/NAME, and the report is written there. A cluster, and a Spark Connect server,
    must see these folders under the same paths. If a run has not changed since this version judged it, the verdicts of
    its report stay. Give --again for a folder from another person: a report can be forged.
    """
    from conformance import campaign, judge, records
    from conformance.errors import PRECEDENCE, UsageError
    from conformance.judge.input.remote import is_uri
    from conformance.judge.spark import COMPILED
    from conformance.report import model

    master, connect = values["spark_master"], values["spark_remote"]
    if master and connect:
        raise UsageError("--spark-master and --spark-remote: give one of them", code="one-of")
    conf = pairs("--spark-conf", values["spark_conf"], "KEY=VALUE")
    expected = expectations(values)
    start = functools.partial(judge.start_in_background, master=master, remote=connect, conf=conf)
    with contextlib.ExitStack() as stack:
        # One Spark copies and judges; how large the runs are is not known before.
        opened = start(events=COMPILED + 1) if any(map(is_uri, runs)) else None
        if opened:
            stack.callback(opened.stop)
        folders = [folder for run in runs for folder in _folders(run, opened)]
        known = {} if again else {folder: stored for folder in folders if (stored := model.read_stored(folder))}
        new = [folder for folder in folders if folder not in known]
        found = campaign.judge_folders(new, start=(lambda **_: opened) if opened else start) if new else []
    judged = known | dict(zip(new, found, strict=True))
    codes = set()
    for folder in folders:
        if folder in known:
            say(f"{folder}: not changed since it was judged; --again judges it")
        codes.add(write_report(judged[folder], folder, expected))
        (records.keep_report if folder in known else records.keep_judged)(folder)
    return int(next(code for code in PRECEDENCE if code in codes))


def _folders(run: str, session: StartingSession | None) -> list[pathlib.Path]:
    """Return the folder that the word names, those of the runs that match it, or the copies of those at a URI."""
    from conformance.judge.input import remote

    if session and remote.is_uri(run):
        folders = remote.copy_runs(session.spark, run)
        for folder in folders:
            say(f"{run}: copied to {folder}")
        return folders
    path = pathlib.Path(run)
    pattern = str(path.relative_to(path.anchor) / "run.json")
    found = [] if path.exists() else sorted(pathlib.Path(path.anchor).glob(pattern))
    return [each.parent for each in found] or [path]


@cli.command("report")
@click.argument("folders", type=FILE, nargs=-1, required=True)
@click.option("--out", type=FILE, required=True, metavar="FOLDER", help="Where the site is written; made if missing.")
def report_command(folders: tuple[pathlib.Path, ...], out: pathlib.Path) -> int:
    """Write a static site over earlier runs: brokers side by side, and the page, data and badge of each.

    \b
    conformance report runs --out site
    conformance report runs/2026-11-21T10-00-00-artemis runs/2026-11-22T09-00-00-rabbitmq --out site
    """
    from conformance.report import site

    say(f"open {site.write(folders, out)}, or publish the folder {out}")
    return 0


@cli.command("selftest")
@click.option("--quick", is_flag=True, help="Three liars and no whole run: under a minute.")
@click.option(
    "--liar", "patterns", multiple=True, metavar="PATTERN", help="Only these liars, such as 'loses-*', or none."
)
@click.option(
    "--adapter",
    BROKER,
    "adapters",
    multiple=True,
    metavar="NAME[@VERSION]",
    help="An honest broker to play whole; repeatable.  [default: reference]",
)
@click.option("--rounds", type=click.IntRange(min=0), metavar="N", help="Whole runs of each.  [default: 1]")
@click.option(
    "--out",
    type=FILE,
    metavar="FOLDER",
    help="For selftest.json and selftest.html; what it has stays  [default: runs/DATE-selftest]",
)
def selftest_command(
    quick: bool, patterns: tuple[str, ...], adapters: tuple[str, ...], rounds: int | None, out: pathlib.Path | None
) -> int:
    """Put the suite itself on trial: are liars convicted, and is an honest broker ever accused?

    \b
    conformance selftest --quick
    conformance selftest
    conformance selftest --liar 'loses-*' --rounds 0
    conformance selftest --liar none --adapter artemis --adapter qpid --rounds 3

    Each liar is the bundled broker with one defect. It is played in a scenario of a claim that it breaks, and the
    honest broker beside it. Then honest brokers are played whole, with stock settings, while every core and the disk
    are kept busy and the network is slow. All liars take about half an hour, a whole run as long or longer. The exit
    code is 3 if a liar was missed or an honest broker accused; the run that accuses it stays in the folder. What is
    known so far is written after each liar, and another call with the same --out goes on. With nothing to play it
    writes the page again.
    """
    from conformance.campaign import dated_folder
    from conformance.errors import ExitCode, UsageError
    from conformance.frontend import selftest

    liars = selftest.chosen_liars(patterns, reduced=quick)
    folder = out or dated_folder("selftest")
    times = rounds if rounds is not None else int(not quick)
    signal.signal(signal.SIGTERM, end_on_sigterm)
    found = None
    for found in selftest.play(liars, adapters or ("reference",), times, folder, say):
        page = selftest.save(found, folder)
    if found is None:
        raise UsageError("there is nothing to play: choose liars, or a round at least")
    missed, accused = ", ".join(one.liar for one in found.missed), ", ".join(found.accusations)
    if found.asked:
        say(f"{len(found.convicted)} of {found.asked} liars convicted{f', missed: {missed}' if missed else ''}")
    say(f"an honest broker was accused of {accused}" if accused else "no honest broker was accused")
    say(f"page: {page}")
    return ExitCode.HARNESS if missed or accused else ExitCode.CONFORMANT


@cli.command("diff")
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--html", "page", type=FILE, metavar="FILE", help="Write the comparison as a page, too.")
def diff_command(runs: tuple[pathlib.Path, ...], page: pathlib.Path | None) -> int:
    """Compare runs of one broker over one protocol: folders, or files report.json.

    \b
    conformance diff runs/2026-11-21T10-00-00-artemis runs/2026-11-22T09-00-00-artemis
    conformance diff site/artemis/2.44.0/amqp/report.json site/artemis/2.56.0/amqp/report.json
    conformance diff runs/*-artemis --html trend.html

    Two runs are compared as you name them, more in the order of their start: each claim with its answers in a row, and
    what is new in the last run. The exit code is 1 if the last run violates a claim that the first does not violate,
    and 2 if it leaves a claim undecided or untried that the first has decided. Where a run has counterexamples, the
    rates are compared by Fisher's exact test: with the first run, and with all earlier runs of the last run's version.
    """
    from conformance.errors import UsageError
    from conformance.report import trends
    from conformance.report.expectations import read_report

    if len(runs) < 2:
        raise UsageError(f"diff {runs[0]}: name at least two runs", code="too-few")
    found = trends.compare([read_report(path) for path in runs])
    for line in found.lines:
        say(line)
    if page:
        trends.write(found, page)
        say(f"page: {page}")
    return found.expectations.exit_code


@cli.command("replay", cls=GroupedCommand)
@click.argument("run", type=FILE)
@click.option("--scenario", required=True, metavar="NAME", help="The scenario, as the report names it.")
@click.option("--trial", required=True, metavar="N", help="The number of the trial, or the name of its folder.")
@click.option("--arm", default="", metavar="WORD", help="A control, by its label or as `weakened`.  [default: subject]")
@click.option("--times", default=1, show_default=True, help="How often.")
@click.option(
    "--adapter", BROKER, default="", metavar="NAME[@VERSION]", help="Another version of the broker, or a TOML file."
)
@options(REPLAY)
@_TRUST
def replay_command(quiet: bool, run: pathlib.Path, **words: Any) -> int:
    """Record one trial of an earlier run again: the same broker, settings, script and drawn numbers.

    \b
    conformance replay runs/artemis --scenario broker-killed-while-publishing --trial 2
    conformance replay . --scenario broker-killed-after-commit --trial 1 --times 5 --out again
    conformance replay runs/artemis --scenario power-lost-after-commit --trial 1 --arm weakened
    conformance replay runs/artemis --scenario broker-killed-while-publishing --trial 1 --adapter artemis@2.44.0

    RUN is the folder of a run or of an upgrade. Everything comes from that folder; a script that has changed since
    is refused. A stored broker file, configuration or login can run any program: if you did not record the run on
    this machine, or its files have changed, it is used with --trust only. The replay is judged as a run without a
    control: if the violation is not seen again, the exit code is 2.
    """
    from conformance.followup import replay
    from conformance.frontend.progress import Show
    from conformance.report.expectations import Expected

    prepared = replay.prepare(replay.ReplayRequest(folder=run, **words))
    say(prepared.title)
    for note in prepared.notes:
        say(f"note: {note}")
    expected = Expected()
    signal.signal(signal.SIGTERM, end_on_sigterm)
    with Show(prepared.campaign, quiet=quiet, verbose=False) as show:
        outcome = replay.execute(prepared, show.watcher)
    if prepared.record.arm == "subject":
        code = write_report(outcome.judgement, prepared.campaign.folder, expected)
    else:
        code = int(outcome.control_code)
    for line in outcome.lines:
        say(line)
    return code


@cli.command("bundle")
@click.argument("trial", metavar="RUN#TRIAL")
@click.option("--out", type=FILE, metavar="FILE.zip", help="The file to write  [default: <trial>.zip]")
@_TRUST
def bundle_command(trial: str, out: pathlib.Path | None, trust: bool) -> int:
    """Write one trial for the maintainer of the broker, as a self-contained zip.

    \b
    conformance bundle runs/artemis#broker-killed-while-publishing.subject.2
    conformance bundle runs/artemis#broker-killed-after-commit.subject.1 --out bug.zip

    It holds a minimal script that does not need this suite, the version and configuration of the broker and how it
    differs from stock, its log, its journal after the fault, the histories, timelines, and the draft of a bug report.
    It holds no secret. A stored broker file can run any program: if you did not record the run on this machine, or the
    file has changed, it is loaded with --trust only.
    """
    from conformance.followup import bundle

    made = bundle.make(trial, out, trust=trust, note=functools.partial(say, err=True))
    for line in made.lines:
        say(line)
    say(made.path)
    return 0
