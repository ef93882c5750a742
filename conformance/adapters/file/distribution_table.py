"""Where the distribution of a broker comes from: `[fetch]`, a Maven repository, or `[installed]`, a package manager."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated

import pydantic

from conformance.adapters.file.table import Pattern, Table
from conformance.errors import UsageError

Progress = Callable[[int, int | None], None]
"""Called during a download with the bytes so far and the size of the whole, which is None if it is unknown."""

Sha512 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{128}$")]
Coordinates = Annotated[str, pydantic.StringConstraints(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$")]


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One file of a Maven repository: its path there, its pinned SHA-512 (hex) and the adapter it belongs to."""

    path: str
    sha512: str | None
    adapter: str

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`, by which people look it up."""
        *group, artifact, version, _ = self.path.split("/")
        return ":".join([".".join(group), artifact, version])


def order(version: str) -> tuple[int, ...]:
    """Versions compare by their numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _path(group: str, artifact: str, version: str, file: str) -> str:
    """The path of a file in a Maven repository."""
    return "/".join([*group.split("."), artifact, version, file])


class MavenGroup(Table):
    """The Maven group that holds the versions from `since` on."""

    since: str
    group: str


class Jar(Table):
    """One jar of a distribution: `group:artifact:version`, and its SHA-512, without which it is not used."""

    maven: Coordinates
    sha512: Sha512

    def of(self, adapter: str) -> Artifact:
        """The file in a Maven repository, for the adapter of that name."""
        group, artifact, version = self.maven.split(":")
        return Artifact(_path(group, artifact, version, f"{artifact}-{version}.jar"), self.sha512, adapter)


class Fetch(Table):
    """Maven coordinates of the distribution: of one archive, or of the jars that make it up.

    `folder` is the folder that the archive unpacks to, or that the jars are put together in. `sha512` pins versions of
    the archive that were tried; it is preferred to the `.sha512` file beside the download. `jars` are those of each
    version. A version without `jars` cannot be fetched, since its jars have other versions.
    """

    artifact: str = ""
    groups: tuple[MavenGroup, ...] = ()
    classifier: str = "bin"
    extension: str = "tar.gz"
    folder: str
    sha512: Mapping[str, Sha512] = {}
    jars: Mapping[str, tuple[Jar, ...]] = {}

    @pydantic.model_validator(mode="after")
    def _one_way(self) -> Fetch:
        if bool(self.artifact) == bool(self.jars) or bool(self.artifact) != bool(self.groups):
            raise ValueError("expected artifact and groups for an archive, or jars without them")
        if self.sha512 and self.jars:
            raise ValueError("sha512 pins an archive; each of the jars has a sum of its own")
        if self.jars and "{version}" not in self.folder:
            raise ValueError("the jars of two versions need two folders: say {version} in folder")
        for version, jars in self.jars.items():
            files = Counter(jar.of("").file for jar in jars)
            if twice := [file for file, count in files.items() if count > 1]:
                raise ValueError(f"jars.{version}: twice in one folder: {', '.join(twice)}")
        return self

    def artifacts(self, version: str, adapter: str) -> tuple[Artifact, ...]:
        """The files of a version, for the adapter of that name; `UsageError` if it has no such version."""
        asked = f"{adapter}@{version}"
        if self.artifact:
            group = next(entry.group for entry in reversed(self.groups) if order(entry.since) <= order(version))
            file = f"{self.artifact}-{version}-{self.classifier}.{self.extension}"
            return (Artifact(_path(group, self.artifact, version, file), self.sha512.get(version), asked),)
        if version not in self.jars:
            raise UsageError.unknown("version", version, self.jars, of=adapter)
        return tuple(jar.of(asked) for jar in self.jars[version])


class Installed(Table):
    """A distribution that a package manager installed.

    `pattern` has one group, the version. It is searched in what `command` prints, and `logged`, with one group as well,
    in what the broker prints when it starts. `needs` says how to install it.
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
