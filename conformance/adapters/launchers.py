"""The table of launchers, and the choice of one for a broker."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.external.broker import ExternalLauncher
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.launch.launcher import FileLauncher, NativeLauncher
from conformance.errors import UsageError

LAUNCHERS: Mapping[str, type[FileLauncher]] = {
    each.word: each for each in (NativeLauncher, DockerLauncher, ExternalLauncher)
}
"""The launchers by their words."""


def is_owned(word: str) -> bool:
    """Whether the owner of a broker under this launcher runs it; see `interface.FileLauncher.owned`."""
    return word in LAUNCHERS and LAUNCHERS[word].owned


def choose(file: BrokerFile, asked: str | None, here: pathlib.Path) -> FileLauncher:
    """Return the launcher of `native[=FOLDER]`, `docker`, `external[=URL,...]` or `external=FILE.toml`.

    None is `external` if the file has the broker's address, else `native`. `here` is the folder of the file. Raises
    `UsageError` that names the word, key or address, and the next step.
    """
    usual = ExternalLauncher if file.external is not None and file.external.urls else NativeLauncher
    word, equals, at = (asked or usual.word).partition("=")
    if word not in LAUNCHERS:
        raise UsageError.unknown("launcher", word, LAUNCHERS)
    if equals and not at:
        raise UsageError(f"{word}=: expected a value after it")
    return LAUNCHERS[word].of(file, at, here)
