"""The data folders, in a checkout and in an installed wheel.

In a checkout `suites/`, `fixtures/`, `reports/` and `docs/` are beside the package; in a wheel they are in
`conformance/_data/`. No other module may assume where they are.
"""

from __future__ import annotations

import functools
import os
import pathlib
import tomllib

PROJECT = "ack-conformance"


@functools.cache
def root() -> pathlib.Path:
    """Return the folder that holds `suites`, `fixtures`, `reports` and `docs`.

    A parent folder counts as the checkout only if its `pyproject.toml` names this project: a wheel that was unpacked
    inside another repository must not use the `suites/` of that repository.
    """
    package = pathlib.Path(__file__).resolve().parent
    manifest = package.parent / "pyproject.toml"
    if manifest.is_file():
        with manifest.open("rb") as stream:
            if tomllib.load(stream).get("project", {}).get("name") == PROJECT:
                return package.parent
    return package / "_data"


def suites() -> pathlib.Path:
    """Return the folder of the scenarios, which has the claims in `claims/`."""
    return root() / "suites"


def fixtures() -> pathlib.Path:
    """Return the folder of brokers as data, histories with known verdicts and minimal reproductions."""
    return root() / "fixtures"


def reports() -> pathlib.Path:
    """Return the folder of the templates, the style and the schema of the report."""
    return root() / "reports" / "templates"


def docs() -> pathlib.Path:
    """Return the folder of the documentation, whose pages messages name."""
    return root() / "docs"


def cache() -> pathlib.Path:
    """Return the cache folder of this project, below `XDG_CACHE_HOME` or `~/.cache`; it may not exist yet."""
    return _home("XDG_CACHE_HOME", ".cache")


def state() -> pathlib.Path:
    """Return the folder that knows the runs of this user, below `XDG_STATE_HOME` or `~/.local/state`."""
    return _home("XDG_STATE_HOME", ".local/state")


def _home(variable: str, default: str) -> pathlib.Path:
    return pathlib.Path(os.environ.get(variable) or pathlib.Path.home() / default) / PROJECT
