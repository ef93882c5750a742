"""Ask for the version of a broker that a package manager installed (`[installed]`), and compare it with the run."""

from __future__ import annotations

import functools
import re
import subprocess

from conformance.adapters.file.distribution_table import Installed
from conformance.adapters.file.model import BrokerFile
from conformance.errors import UsageError

_SECONDS = 20.0


def version(file: BrokerFile, asked: str | None, *, native: bool) -> str:
    """The version that a user gets who asks for this one; None asks for the installed one.

    A container has any version. If nothing is installed it is the version asked for, or the default: the start reports
    what is missing. Raises `UsageError` if another version is installed.
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
    """How to install the distribution; empty if it is installed, or need not be."""
    if file.installed is None or _found(file.installed):
        return ""
    return f"{file.title} is not installed here: {file.installed.needs}"


def another(file: BrokerFile, planned: str, log: str) -> str:
    """Why the version in the log is not the planned one, which the report would name; empty if it is."""
    logged = re.search(file.installed.logged, log) if file.installed and file.installed.logged else None
    if logged is None or logged[1] == planned:
        return ""
    return f"is version {logged[1]}, not {planned} (installed.logged)"


@functools.cache
def _found(table: Installed) -> str:
    try:
        done = subprocess.run(
            table.command, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(table.pattern, done.stdout) if done.returncode == 0 else None
    return found[1] if found else ""
