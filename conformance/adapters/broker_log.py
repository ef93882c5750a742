"""The log of a broker, or of a program that failed: its end, and the few lines that name an error."""

from __future__ import annotations

import pathlib
import re

from conformance import limits
from conformance.errors import LaunchError, StartFailure

_LEVEL = re.compile(
    r"\b(TRACE|DEBUG|FINE|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|SEVERE)\b"
    r"|\[(?i:(debug|info|notice|warn|warning|error|crit|critical|alert|emerg|emergency))\]"
)
"""The level of a line: the first such word in it."""

_ERROR = re.compile(
    r"\b(ERROR|FATAL|SEVERE)\b|^E: |Exception\b|Error\b|BOOT FAILED|\{error,|"
    r"(?i:^error\b|\[(error|crit|critical|alert|emerg|emergency)\]|in use|denied|no space|read-only file system"
    r"|\b(eaddrinuse|eacces|enospc|erofs)\b)"
)
_NO_ERROR = frozenset("trace debug fine info notice".split())
"""Levels of lines that name no error in any words: `INFO 3 connections in use`."""

_REASONS, _WIDEST, _TAIL = 5, 300, 40


def reasons_in(log: str) -> tuple[str, ...]:
    """Return the lines of a log that name an error: at most two of the first and three of the last, each once.

    The first say what failed, and the last `Caused by` of a stack trace why; the lines between repeat both.

    >>> reasons_in("INFO 2 files in use\\nstarting\\nFATAL: no port\\n  at Main.run")
    ('FATAL: no port',)
    """
    lines = [line.strip() for line in log.splitlines()]
    found = list(dict.fromkeys(line[:_WIDEST] for line in lines if _names_an_error(line)))
    return tuple(found if len(found) <= _REASONS else [*found[:2], *found[-3:]])


def has_level(line: str) -> bool:
    """Whether a line says its level, as those of a logger do; what is printed beside it does not."""
    return _LEVEL.search(line) is not None


def _names_an_error(line: str) -> bool:
    if line.startswith("at ") or not _ERROR.search(line):
        return False
    level = _LEVEL.search(line)
    return level is None or (level[1] or level[2]).lower() not in _NO_ERROR


def end_of(log: pathlib.Path, start: int = 0) -> bytes:
    """Read a log from `start` on, at most its last `limits.LOG` bytes; nothing without a log."""
    if not log.is_file():
        return b""
    with log.open("rb") as stream:
        stream.seek(max(start, stream.seek(0, 2) - limits.LOG))
        return stream.read(limits.LOG)


def text_of(log: pathlib.Path) -> str:
    """Return what `end_of` reads, as text: a byte that is none is shown as such."""
    return end_of(log).decode(errors="replace")


def launch_error(
    what: str,
    said: str,
    log: pathlib.Path | None = None,
    failure: StartFailure | None = None,
    *,
    of_broker: bool = False,
) -> LaunchError:
    """Return the error of a program that `said` this, with the lines that name an error and its end."""
    return LaunchError(
        what,
        log_tail=said.splitlines()[-_TAIL:],
        log_reasons=reasons_in(said),
        log=str(log) if log else None,
        failure=failure,
        of_broker=of_broker,
    )
