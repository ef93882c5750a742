"""The command itself, and what its parts share: options about expectations, and the end of every judged run."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

import click

import conformance
from conformance.quoting import visible

FILE = click.Path(path_type=pathlib.Path)


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print for a person; the only place of the command line that does. No text can make a terminal obey."""
    click.echo(visible(str(text)), err=err, nl=nl)


class ClosedPipeError(Exception):
    """A write failed because the other end of a pipe or socket is closed."""


class CommandGroup(click.Group):
    """A group that keeps click from turning a closed pipe into exit 1, which says that a claim was violated."""

    def make_context(self, *args: Any, **words: Any) -> click.Context:
        """Parse the words; `--help` is printed here."""
        try:
            return super().make_context(*args, **words)
        except BrokenPipeError as error:
            raise ClosedPipeError(str(error)) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ClosedPipeError(str(error)) from error


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(conformance.__version__, prog_name="conformance")
def cli() -> None:
    """Does a message broker keep its word? Puts acknowledgement guarantees on trial.

    \b
    conformance run --adapter reference     the bundled broker: nothing to download, no root
    conformance run --adapter artemis       Apache Artemis, fetched from Maven Central
    conformance doctor                      what this machine can do, and what it lacks
    conformance claims show SOLCD-ACK-01    one claim, its source and what would falsify it
    """


def expecting(command: Callable[..., int]) -> Callable[..., int]:
    """The options about what is expected of the verdicts: they change the exit code, never a verdict."""
    for option in (
        click.option("--require-tried", multiple=True, metavar="PATTERNS", help="Fail where a claim was not tried."),
        click.option("--baseline", type=FILE, metavar="REPORT", help="Fail only on what an earlier report has not."),
        click.option("--known-failures", type=FILE, metavar="FILE", help="Violations that do not fail it (TOML)."),
    ):
        command = option(command)
    return command


def expected_of(
    known_failures: pathlib.Path | None, baseline: pathlib.Path | None, require_tried: tuple[str, ...]
) -> Any:
    """What the user expects of the verdicts, read and checked before anything starts."""
    from conformance import claims
    from conformance.report import expectations

    return expectations.Expected.read(claims.load(), known_failures, baseline, claims.words(require_tried))


def write_report(judgement: Any, folder: pathlib.Path, expected: Any) -> int:
    """Write the report into the folder of the run, print the summary, and return the exit code."""
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
        say(report.plain(judgement, catalogue, written, expected=told), nl=False)
    return int(found.exit_code)


def terminated(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM ends a run as Ctrl-C does: brokers and clients first."""
    raise KeyboardInterrupt
