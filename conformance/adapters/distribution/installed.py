"""Ask for the version of a broker that a package manager installed (`[installed]`), and compare it with the run."""

from __future__ import annotations

import functools
import re
import subprocess
from typing import TYPE_CHECKING

import pydantic

from conformance.adapters.file.table import Pattern, Table
from conformance.errors import UsageError

if TYPE_CHECKING:
    from conformance.adapters.file.model import BrokerFile

_SECONDS = 20.0


class Installed(Table):
    """A distribution that is installed and not fetched.

    `pattern` has one group, the version: it is looked for in what `command` prints, and `logged`, likewise, in what
    the broker prints when it starts. `needs` says how to install it.
    """

    command: tuple[str, ...] = pydantic.Field(min_length=1)
    pattern: Pattern
    logged: Pattern = ""
    needs: str

    @pydantic.field_validator("pattern", "logged")
    @classmethod
    def _one_group(cls, value: str) -> str:
        if value and re.compile(value).groups != 1:
            raise ValueError(f"{value!r} needs one group, the version: (...)")
        return value


def version(file: BrokerFile, asked: str | None, *, native: bool) -> str:
    """The version that a user gets by asking for this one; None asks for whatever is installed.

    A container has any version. Where nothing is installed it is the one asked for, or the default: a start tells
    what is missing. Raises `UsageError` where another one is installed.
    """
    assert file.installed is not None  # the caller has looked
    found = _found(file.installed) if native else ""
    if not found:
        return asked or file.default_version
    if asked not in (None, found):
        other = f", or take {file.name}@{asked}:docker" if file.container else ""
        raise UsageError(f"{file.name}@{asked}: version {found} is installed here; install {asked}{other}")
    return found


def missing(file: BrokerFile) -> str:
    """What to do where the distribution is not there; empty where it is, or where it need not be."""
    if file.installed is None or _found(file.installed):
        return ""
    return f"{file.title} is not installed here: {file.installed.needs}"


def another(file: BrokerFile, planned: str, said: str) -> str:
    """What is wrong where a start says that another version runs than the one that the report would name."""
    logged = re.search(file.installed.logged, said) if file.installed and file.installed.logged else None
    if logged is None or logged[1] == planned:
        return ""
    return f"is version {logged[1]}, not {planned} (installed.logged)"


@functools.cache
def _found(table: Installed) -> str:
    try:
        told = subprocess.run(
            table.command, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(table.pattern, told.stdout) if told.returncode == 0 else None
    return found[1] if found else ""
