"""The entry point: what click or a part of ours raises becomes one line and an exit code."""

from __future__ import annotations

import sys
import traceback
from typing import NoReturn

import click

from conformance.cli.group import cli
from conformance.errors import ConformanceError, ExitCode, Interrupted, LaunchError, UsageError

_LOG_LINES = 40


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
    except Exception as error:  # Python's own exit code for it is 1, which says that a claim was violated
        traceback.print_exc()
        click.echo(f"conformance: an error of the suite itself, from which nothing is concluded: {error!r}", err=True)
        code = int(ExitCode.HARNESS)
    sys.exit(code)
