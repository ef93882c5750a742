"""The entry point: an error of click or of the suite becomes one line and an exit code."""

from __future__ import annotations

import errno
import os
import select
import sys
import traceback
from typing import NoReturn

import click

from conformance.errors import ConformanceError, ExitCode, Interrupted, LaunchError, UsageError
from conformance.frontend.cli.group import ClosedPipeError, cli, say

_LOG_LINES = 40
_READER_GONE = 141
"""The exit code of a process that SIGPIPE ended: no verdict, and no error of the suite."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def _fail(error: ConformanceError) -> int:
    say(f"conformance: {error}", err=True)
    if isinstance(error, LaunchError) and error.log_lines:
        lines = error.log_lines[-_LOG_LINES:]
        which = "what names an error in" if error.log_reasons else f"the last {len(lines)} lines of"
        say(f"--- {which} {error.log or 'its log'}", err=True)
        for line in lines:
            say(f"    {line}", err=True)
    return int(error.exit_code)


def _without_room(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return (
        f"{where}{error.strerror}: nothing more can be written, and nothing is concluded from this run. Free some "
        "space, or name a folder on another disk with --out"
    )


def _usage(error: click.UsageError) -> ConformanceError:
    """Turn an error of click into one line that names the closest known word."""
    if isinstance(error, click.NoSuchOption):
        known = [name for param in _params(error.ctx) for name in param.opts]
        listed = f"`{error.ctx.command_path} --help` lists them" if error.ctx else ""
        return UsageError.unknown("option", error.option_name, known, listed=listed)
    words = str(error.message).partition("'")[2].partition("'")[0]
    if error.ctx is not None and "No such command" in error.message:
        group = error.ctx.command if isinstance(error.ctx.command, click.Group) else cli
        listed = "`conformance --help` lists them" if group is cli else ""
        return UsageError.unknown("command", words, group.commands, listed=listed)
    return UsageError(error.format_message().replace("\n", " "))


def _params(context: click.Context | None) -> list[click.Parameter]:
    return list(context.command.get_params(context)) if context is not None else []


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe that is no longer read, as in `conformance claims | head -1`."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # closed, or replaced by something without a descriptor
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _leave(code: int) -> NoReturn:
    """Exit with that code, or with 141 if the rest of the output cannot be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _READER_GONE
    if code == _READER_GONE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
    sys.exit(code)


def main() -> NoReturn:
    try:
        code = cli.main(prog_name="conformance", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message(), err=True)
        code = int(ExitCode.USAGE)  # 0 would say to a script whose command is empty that nothing was violated
    except click.UsageError as error:
        code = _fail(_usage(error))
    except click.exceptions.Exit as error:
        code = error.exit_code
    except ConformanceError as error:
        code = _fail(error)
    except (KeyboardInterrupt, click.Abort):
        code = _fail(Interrupted("stopped by the user"))
    except Exception as error:  # Python's own exit code for it is 1, which says that a claim was violated
        if isinstance(error, ClosedPipeError) and _reader_is_gone():
            _leave(_READER_GONE)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            code = _fail(ConformanceError(_without_room(error)))
        else:
            say(traceback.format_exc(), err=True, nl=False)
            say(f"conformance: an error of the suite itself; nothing is concluded: {error!r}", err=True)
            code = int(ExitCode.HARNESS)
    _leave(code)
