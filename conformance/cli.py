"""What people type. Every word is checked before anything starts; every error is one line and an exit code.

Exit codes: 0 nothing violated and nothing tried left undecided, 1 violated, 2 inconclusive, 3 harness error, 4 usage,
5 nothing ran, 130 interrupted.
"""

from __future__ import annotations

import pathlib
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

import click

import conformance
from conformance.errors import ConformanceError, ExitCode, Interrupted, LaunchError, UsageError

_LOG_LINES = 40
_FILE = click.Path(path_type=pathlib.Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(conformance.__version__, prog_name="conformance")
def cli() -> None:
    """Does a message broker keep its word? Puts acknowledgement guarantees on trial.

    \b
    conformance run --adapter reference     the bundled broker: nothing to download, no root
    conformance run --adapter artemis       Apache Artemis, fetched from Maven Central
    conformance claims show SOLCD-ACK-01    one claim, its source and what would falsify it
    """


def _expecting(command: Callable[..., int]) -> Callable[..., int]:
    """The options about what is expected of the verdicts: they change the exit code, never a verdict."""
    for option in (
        click.option("--require-tried", multiple=True, metavar="PATTERNS", help="Fail where a claim was not tried."),
        click.option("--baseline", type=_FILE, metavar="REPORT", help="Fail only on what an earlier report has not."),
        click.option("--known-failures", type=_FILE, metavar="FILE", help="Violations that do not fail it (TOML)."),
    ):
        command = option(command)
    return command


@cli.command("run")
@click.option("--adapter", required=True, metavar="NAME[@VERSION][:LAUNCHER]", help="The broker to try.")
@click.option("--protocol", default="amqp", show_default=True, metavar="WORD", help="What clients speak: amqp, stomp.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the broker; repeatable.")
@click.option("--claims", default="*", show_default=True, metavar="PATTERNS", help="Claims to try, such as 'AMQP-*'.")
@click.option("--require", multiple=True, metavar="CLAIM", help="Judge it although this configuration gives it up.")
@click.option("--judge-as", multiple=True, metavar="VENDOR", help="Judge by this vendor's sentences too; see above.")
@_expecting
@click.option("--trials", default=3, show_default=True, help="Trials of each scenario.")
@click.option("--seed", type=int, help="Repeats a run: the same trigger points.  [default: random, printed]")
@click.option("--out", type=click.Path(path_type=pathlib.Path), help="Folder  [default: runs/<date>-<adapter>]")
@click.option("--offline", is_flag=True, help="Download nothing; see `conformance fetch --to`.")
@click.option("--quick", is_flag=True, help="The ten strongest claims, within a minute.")
@click.option("-q", "--quiet", is_flag=True, help="Only the summary.")
@click.option("-v", "--verbose", is_flag=True, help="What each trial does: its drawn numbers, restarts, controls.")
def run_command(
    adapter: str,
    protocol: str,
    settings: tuple[str, ...],
    claims: str,
    require: tuple[str, ...],
    judge_as: tuple[str, ...],
    trials: int,
    seed: int | None,
    out: pathlib.Path | None,
    offline: bool,
    quick: bool,
    quiet: bool,
    verbose: bool,
    **expecting: Any,
) -> int:
    """Try a broker: record every trial, judge once, write the report.

    \b
    conformance run --adapter reference
    conformance run --adapter reference --protocol stomp
    conformance run --adapter artemis --quick
    conformance run --adapter artemis --out runs/artemis
    conformance run --adapter artemis@2.44.0 --claims 'SOLCD-*' --trials 5
    conformance run --adapter artemis --set sync_non_transactional=false --require SOLCD-ACK-01
    conformance run --adapter artemis --judge-as ems --judge-as qpid
    conformance run --adapter artemis --known-failures known.toml --require-tried 'SOLCD-ACK-*'
    conformance run --adapter artemis --baseline last/report.json --out report

    VENDOR is artemis, ems, qpid or solace; what it promises and this product does not is never counted against this
    product. A known failure is a table [[known]] with claim, adapter, reason, link, expires (a date), and expect
    (always or sometimes); versions (">=2.31,<2.60"), scenario, protocol and mode narrow it. With a baseline the run
    exits with 1 for a new violation and with 2 for an answer that was lost.
    """
    from conformance import campaign, expectations
    from conformance.claims import words
    from conformance.progress import Show

    options = campaign.Options(
        adapter=adapter,
        protocol=protocol,
        settings=settings,
        claims=words([claims]),
        required=words(require),
        judge_as=words(judge_as),
        quick=quick,
        trials=trials,
        seed=seed,
        out=out,
        offline=offline,
    )
    prepared = campaign.prepare(options)
    expected = _expected(**expecting)
    expectations.check_baseline(expected.baseline, adapter=prepared.adapter.name, protocol=protocol)
    signal.signal(signal.SIGTERM, _terminated)
    with Show(prepared, quiet=quiet, verbose=verbose) as show:
        judgement = campaign.execute(prepared, show.watcher)
        show.verdicts([row.verdict for row in judgement.rows if row.trials])
    return _report(judgement, prepared.folder, expected)


@cli.command("judge")
@click.argument("folder", type=_FILE)
@_expecting
def judge_command(folder: pathlib.Path, **expecting: Any) -> int:
    """Judge the folder of an earlier run again, and write its report.

    \b
    conformance judge runs/2026-11-21T10-00-00-artemis
    conformance judge report --known-failures known.toml --baseline last/report.json
    """
    from conformance import campaign

    expected = _expected(**expecting)
    return _report(campaign.judge_folder(folder), folder, expected)


@cli.command("fetch")
@click.argument("adapter")
@click.option("--to", "folder", type=click.Path(path_type=pathlib.Path), help="Folder  [default: the cache]")
def fetch_command(adapter: str, folder: pathlib.Path | None) -> int:
    """Download a broker's distribution, checked; with --to for a machine without network.

    \b
    conformance fetch artemis@2.56.0 --to dist/
    CONFORMANCE_DIST=dist/ conformance run --adapter artemis --offline
    """
    from conformance import adapters
    from conformance.progress import downloading

    with downloading(adapter) as progress:
        found = adapters.find(adapter)
        made = adapters.fetch_to(adapter, folder, progress) if folder else [found.install(progress)]
    for path in made:
        click.echo(path)
    return 0


@cli.command("claims")
@click.argument("words", nargs=-1, metavar="[list | show CLAIM...]")
def claims_command(words: tuple[str, ...]) -> int:
    """List the claims, or show some whole.

    \b
    conformance claims
    conformance claims show SOLCD-ACK-01 'ARTEMIS-SEND-*'
    """
    from conformance import claims

    catalogue = claims.load()
    if words and words[0] == "show":
        for claim in claims.select(words[1:], catalogue):
            click.echo(_claim_text(claim, catalogue))
        return 0
    if words and words[0] != "list":
        raise UsageError.unknown("word", words[0], ["list", "show"])
    for claim in catalogue.claims.values():
        click.echo(f"{claim.id:16} {claim.kind:11} {claim.says}")
    return 0


def _claim_text(claim: Any, catalogue: Any) -> str:
    conditions = ", ".join(f"{name}={str(value).lower()}" for name, value in claim.when.items()) or "none"
    lines = {
        "source": f"{catalogue.document_title(claim)}, {claim.source.section!r}: {claim.source.sentence}",
        "says": claim.says,
        "kind": f"{claim.kind}, {claim.scope}{' of ' + ', '.join(claim.binds) if claim.binds else ''}, {claim.subject}",
        "conditions": conditions,
        "faults": ", ".join(claim.faults),
        "falsified by": claim.falsified_by,
        "note": claim.note,
    }
    return "\n".join([claim.id, *(f"  {name:13} {text}" for name, text in lines.items() if text), ""])


@cli.command("adapters")
def adapters_command() -> int:
    """The brokers that can be tried, with their versions, protocols and settings.

    \b
    conformance adapters
    """
    from conformance import adapters

    for name in adapters.names():
        file = adapters.find(name).file
        click.echo(
            f"{name:10} {adapters.find(name).version:8} {file.title}; speaks {', '.join(sorted(file.protocols))}"
        )
        for setting, entry in file.settings.items():
            click.echo(f"    {setting:24} {entry.description}")
    return 0


@cli.command("suites")
def suites_command() -> int:
    """Print the folder of the scenarios, for pytest.

    \b
    conformance suites
    pytest $(conformance suites) --adapter=reference -k SOLCD
    """
    from conformance import paths

    click.echo(paths.suites())
    return 0


@cli.command("broker", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def broker_command(arguments: tuple[str, ...]) -> int:
    """Run the bundled reference broker by itself.

    \b
    conformance broker --amqp-port 5672 --http-port 8161 --data data/ --queue orders
    """
    from conformance.reference.command import main as broker

    return broker(list(arguments)) or 0


@cli.command("bench")
@click.argument("what", type=click.Choice(["recorder", "session", "judge", "all"]), default="all")
def bench_command(what: str) -> int:
    """Measure the suite itself: ratios, side by side in one run.

    \b
    conformance bench recorder
    """
    from conformance import bench

    for line in bench.run(what):
        click.echo(line)
    return 0


def _expected(
    known_failures: pathlib.Path | None, baseline: pathlib.Path | None, require_tried: tuple[str, ...]
) -> Any:
    """What the user expects of the verdicts, read and checked before anything starts."""
    from conformance import claims, expectations

    return expectations.Expected.read(claims.load(), known_failures, baseline, claims.words(require_tried))


def _report(judgement: Any, folder: pathlib.Path, expected: Any) -> int:
    from rich.console import Console

    from conformance import claims, report, scenario

    catalogue = claims.load()
    found = expected.of(judgement)
    told = expected.told(found)
    scenarios = scenario.load(catalogue)
    written: Mapping[str, pathlib.Path] = report.write_all(judgement, catalogue, scenarios, folder, told)
    if sys.stdout.isatty():
        Console().print(report.summary(judgement, catalogue, written, told))
    else:
        click.echo(report.plain(judgement, catalogue, written, expected=told), nl=False)
    return int(found.exit_code)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM ends a run as Ctrl-C does: brokers and clients first."""
    raise KeyboardInterrupt


def _fail(error: ConformanceError) -> int:
    click.echo(f"conformance: {error}", err=True)
    if isinstance(error, LaunchError) and error.log_tail:
        click.echo(f"--- the last {len(error.log_tail)} lines of {error.log or 'its log'}", err=True)
        for line in error.log_tail[-_LOG_LINES:]:
            click.echo(f"    {line}", err=True)
    return int(error.exit_code)


def _usage(error: click.UsageError) -> ConformanceError:
    """One line that names the closest known word, for what click itself refuses."""
    if isinstance(error, click.NoSuchOption):
        known = [name for param in _params(error.ctx) for name in param.opts]
        return UsageError.unknown("option", error.option_name, known)
    words = str(error.message).partition("'")[2].partition("'")[0]
    if error.ctx is not None and "No such command" in error.message:
        return UsageError.unknown("command", words, cli.commands)
    return UsageError(error.format_message().replace("\n", " "))


def _params(context: click.Context | None) -> list[click.Parameter]:
    return list(context.command.get_params(context)) if context is not None else []


def main() -> NoReturn:
    """The `conformance` command."""
    try:
        code = cli.main(standalone_mode=False) or 0
    except click.UsageError as error:
        code = _fail(_usage(error))
    except click.exceptions.Exit as error:
        code = error.exit_code
    except ConformanceError as error:
        code = _fail(error)
    except (KeyboardInterrupt, click.Abort):
        code = _fail(Interrupted("stopped by the user"))
    except BrokenPipeError:
        code = int(ExitCode.HARNESS)
    sys.exit(code)


if __name__ == "__main__":
    main()
