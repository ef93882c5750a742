"""The command group, and what its commands share: options of the table, and the end of every judged run."""

from __future__ import annotations

import pathlib
import sys
import tomllib
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn

import click

import conformance
from conformance.errors import UsageError, visible
from conformance.frontend.options import GROUPS, Option, options_of

OPTIONS_FILE = "conformance.toml"
FILE = click.Path(path_type=pathlib.Path)


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print for a person, without characters that control a terminal; the only function of the commands that prints."""
    click.echo(visible(str(text)), err=err, nl=nl)


class ClosedPipeError(Exception):
    """A write failed because the other end of a pipe or socket is closed."""


ALIASES = {"check": ("adapters", "check"), "site": ("report",)}
"""Other names of commands: what is read in place of each."""


class CommandGroup(click.Group):
    """The group of all commands, which have `ALIASES`.

    It keeps click from turning a closed pipe into exit 1, which says that a claim was violated.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, [*ALIASES.get(args[0], args[:1]), *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_commands(ctx, formatter)
        with formatter.section("Other names"):
            formatter.write_dl([(name, f"conformance {' '.join(words)}") for name, words in ALIASES.items()])

    def make_context(self, *args: Any, **words: Any) -> click.Context:
        try:
            return super().make_context(*args, **words)
        except BrokenPipeError as error:
            raise ClosedPipeError(str(error)) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ClosedPipeError(str(error)) from error


class GroupedCommand(click.Command):
    """A command whose help shows the options of the table under the titles of `GROUPS`, and its own ones last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(option.opts, option.get_help_record(ctx)) for option in self.get_params(ctx)]
        titles = {f"--{word}": title for title, words in GROUPS.items() for word in words.split()}
        for title in [*GROUPS, "Other options"]:
            shown = [record for names, record in found if record and titles.get(names[0], "Other options") == title]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def _tables(path: pathlib.Path) -> dict[str, Any]:
    """Return the options by command that `conformance.toml`, or `[tool.conformance]` of pyproject.toml, gives."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}", code="bad-file", file=path) from error
    tables: dict[str, Any] = found if path.name == OPTIONS_FILE else found.get("tool", {}).get("conformance", {})
    for command, values in tables.items():
        if command not in cli.commands or not isinstance(values, dict):
            raise UsageError.unknown("table", command, cli.commands, of=str(path))
    return tables


def _by_name(command: click.Command, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values by the names of click; a repeatable option takes a list, or one value."""
    options = {word.removeprefix("--"): option for option in command.params for word in option.opts}
    found = {}
    for word, value in values.items():
        option = options.get(word)
        if not isinstance(option, click.Option) or option.name is None:
            raise UsageError.unknown("option", word, options, of=where)
        found[option.name] = [value] if option.multiple and not isinstance(value, list) else value
    return found


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(conformance.__version__, prog_name="conformance")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Test the acknowledgement guarantees of a message broker.

    \b
    conformance run --adapter reference     the bundled broker: nothing to download, no root
    conformance run --adapter artemis       Apache Artemis, fetched from Maven Central
    conformance doctor                      what this machine can do, and what is missing
    conformance claims show SOLCD-ACK-01    one claim, its source and what falsifies it

    A file conformance.toml in this folder gives options of a command in a table of its name, and so does
    [tool.conformance.run] of pyproject.toml. What is typed wins.
    """
    path = next((path for path in map(pathlib.Path, (OPTIONS_FILE, "pyproject.toml")) if path.is_file()), None)
    tables = _tables(path) if path else {}
    ctx.default_map = {
        name: _by_name(cli.commands[name], values, f"[{name}] in {path}") for name, values in tables.items()
    }
    if given := tables.get(ctx.invoked_subcommand or ""):
        say(f"{path}: {', '.join(given)}", err=True)


def options(front: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the options that the table has for this front, each as an argument by its `name`."""

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(options_of(front)):
            command = _click_option(option)(command)
        return command

    return decorated


def _click_option(option: Option) -> Callable[[Any], Any]:
    flags = [option.flag, *filter(None, (option.alias, option.short))]
    if not option.metavar:
        return click.option(*flags, is_flag=True, help=option.help)
    words: dict[str, Any] = {"metavar": option.metavar, "help": option.help}
    words["type"] = FILE if option.type is pathlib.Path else option.type
    if option.required or option.repeatable:
        words |= {"required": option.required, "multiple": option.repeatable}
    else:
        words["default"] = option.unset
    return click.option(*flags, **words)


def write_report(judgement: Any, folder: pathlib.Path, expected: Any) -> int:
    """Write the report into the folder of the run, print the summary, and return the exit code."""
    from rich.console import Console

    from conformance import claims, report, scenario

    catalogue = claims.load()
    found = expected.of(judgement)
    reported = expected.in_report(found)
    scenarios = scenario.load(catalogue)
    written: Mapping[str, pathlib.Path] = report.write_all(judgement, catalogue, scenarios, folder, reported)
    if sys.stdout.isatty():
        Console().print(report.summary(judgement, catalogue, written, reported))
    else:
        say(report.plain(judgement, catalogue, written, expected=reported), nl=False)
    for line in report.ci.announce(judgement, written["summary"], reported):
        say(line)
    return int(found.exit_code)


def end_on_sigterm(number: int, frame: FrameType | None) -> NoReturn:
    """End the run on SIGTERM as on Ctrl-C, brokers and clients first."""
    raise KeyboardInterrupt
