"""Read the version of a broker: from the folder of its distribution, the log of its start, or its greeting.

The report names the version that ran, and the tables of `[since]` are chosen by it.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import zipfile
from collections.abc import Iterator

from conformance import paths
from conformance.adapters.distribution.fetch import installed_version
from conformance.adapters.file.launch_tables import VersionTable
from conformance.adapters.file.model import BrokerFile
from conformance.errors import UsageError

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9.]+)?")
BUNDLED = "bundled"
"""The version of a broker that is part of this package."""


def default_version(file: BrokerFile) -> str:
    return _own_version() if file.default_version == BUNDLED else file.default_version


def _own_version() -> str:
    try:
        return importlib.metadata.version(paths.PROJECT)
    except importlib.metadata.PackageNotFoundError:  # a checkout that was never installed
        return "0.1.0"


def checked_version(file: BrokerFile, asked: str | None, *, native: bool) -> str:
    """Return the version that a user asked for; None is the default, or the installed one.

    Raises `UsageError` if the broker has no such version.
    """
    if file.installed is not None and (asked is None or _VERSION.fullmatch(asked)):
        return installed_version(file, asked, native=native)
    if file.fetch is None:
        own = default_version(file)
        if asked not in (None, own):
            raise UsageError(f"{file.name} has one version: {own}")
        return own
    if asked is not None and not _VERSION.fullmatch(asked):
        raise UsageError.unknown("version", asked, file.versions, of=file.name)
    version = asked or file.default_version
    file.fetch.artifacts(version, file.name)  # refuses a version without pinned jars
    return version


def version_of_folder(file: BrokerFile, home: pathlib.Path, asked: str | None) -> str:
    """Return the version of the distribution in a folder of the user; what was asked for if it has none to read.

    Raises `UsageError` if the folder holds another version, or if it has none to read and none was asked for.
    """
    found = read_versions(file.version, home)
    if len(found) == 1 and asked in (None, *found):
        return found.pop()
    if asked is None:
        what = f"it holds the versions {', '.join(sorted(found))}" if found else "its version cannot be read"
        raise UsageError(
            f"native={home}: {what}: expected one file {file.version.file!r} (version.file in the broker.toml of "
            f"{file.name}); say which version it is, {file.name}@VERSION:native={home}"
        )
    if found and asked not in found:
        raise UsageError(
            f"{file.name}@{asked}:native={home}: the distribution in this folder is version "
            f"{', '.join(sorted(found))}; leave @{asked} out, or name the folder of {asked}"
        )
    return asked


def read_versions(table: VersionTable, home: pathlib.Path) -> set[str]:
    """Return the versions that the files of a distribution name; several if its folder was unpacked over another."""
    return set(_each_version(table, home))


def _each_version(table: VersionTable, home: pathlib.Path) -> Iterator[str]:
    folder, _, name = table.file.rpartition("/")
    for path in sorted((home / folder).glob("*")):
        match = re.fullmatch(name, path.name)
        if match and not table.member:
            yield match[1]
        elif match and (inside := re.search(table.pattern, _member(path, table.member), re.MULTILINE)):
            yield inside[1]


def _member(jar: pathlib.Path, name: str) -> str:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(name).decode(errors="replace")
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""


def logged_version(file: BrokerFile, log: str) -> str:
    """Return the version that a broker has printed; empty if it has printed none, or if the file has no pattern."""
    return _found(file.version.logged, log)


def version_differs(file: BrokerFile, asked: str, log: str) -> str:
    """Describe how the version in the log differs from the one asked for; empty if it does not."""
    found = logged_version(file, log)
    return _differs(file, asked, found, f"version.logged finds {found} in the log of its start")


def greeted_version_differs(file: BrokerFile, asked: str, greeting: str) -> str:
    """Describe how the version in the greeting of an external broker differs from the one asked for, or the default."""
    found = _found(file.version.greeted, greeting)
    return _differs(file, asked, found, f"version.greeted finds {found} in its greeting, {greeting!r}")


def _differs(file: BrokerFile, asked: str, found: str, where: str) -> str:
    """The tag of an image may have more at its end: `2.40.0-alpine` is 2.40.0."""
    if not found or asked == found or asked.startswith(f"{found}-"):
        return ""
    return (
        f"answered as version {found}, and version {asked} was asked for: {where}. Ask for the version "
        f"that runs ({file.name}@{found}), or let {asked} run"
    )


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE) if pattern else None
    return found[1] if found else ""
