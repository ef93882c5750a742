"""The data folders, in a checkout and in an installed wheel.

In a checkout `suites/`, `fixtures/` and `reports/` lie beside the package; in a wheel they lie in
`conformance/_data/`. Nothing else in the project may guess.
"""

from __future__ import annotations

import functools
import os
import pathlib
import tomllib

PROJECT = "ack-conformance"


@functools.cache
def root() -> pathlib.Path:
    """The folder that holds `suites`, `fixtures` and `reports`.

    A parent folder counts as the checkout only if its `pyproject.toml` names this project: a wheel that was unpacked
    inside somebody's repository must not take that repository's `suites/` for ours.
    """
    package = pathlib.Path(__file__).resolve().parent
    manifest = package.parent / "pyproject.toml"
    if manifest.is_file():
        with manifest.open("rb") as stream:
            if tomllib.load(stream).get("project", {}).get("name") == PROJECT:
                return package.parent
    return package / "_data"


def suites() -> pathlib.Path:
    """The scenarios, and the claims in `claims/`."""
    return root() / "suites"


def fixtures() -> pathlib.Path:
    """Brokers as data, histories with known verdicts, minimal reproductions."""
    return root() / "fixtures"


def reports() -> pathlib.Path:
    """Templates and style of the report."""
    return root() / "reports"


def cache() -> pathlib.Path:
    """The user's cache folder of this project: `XDG_CACHE_HOME`, else `~/.cache`. Not created here."""
    base = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    return pathlib.Path(base) / PROJECT


def state() -> pathlib.Path:
    """Where runs in progress are noted, so that the next one can clean up: `XDG_STATE_HOME`, else `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME") or str(pathlib.Path.home() / ".local" / "state")
    return pathlib.Path(base) / PROJECT
