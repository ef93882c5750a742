"""`[fetch]` of a `broker.toml`: where a distribution lies in a Maven repository, as one archive or as jars."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import pydantic

from conformance.adapters.distribution.fetch import Artifact
from conformance.adapters.file.table import Table
from conformance.errors import UsageError

Sha512 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{128}$")]
Coordinates = Annotated[str, pydantic.StringConstraints(pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$")]


def order(version: str) -> tuple[int, ...]:
    """Versions compare by their numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


class MavenGroup(Table):
    """The Maven group that holds the versions from `since` on."""

    since: str
    group: str


class Jar(Table):
    """One jar of a distribution: `group:artifact:version`, and its sum, without which it is not used."""

    maven: Coordinates
    sha512: Sha512

    @property
    def path(self) -> str:
        """Its path in a Maven repository."""
        group, artifact, version = self.maven.split(":")
        return "/".join([*group.split("."), artifact, version, f"{artifact}-{version}.jar"])


class Fetch(Table):
    """Maven coordinates of the distribution: of one archive, or of the jars that make it up.

    `folder` is the one that the archive unpacks to, or that the jars are put together in. `sha512` pins versions of the
    archive that were tried; it is preferred to the `.sha512` file beside the download. `jars` are those of each
    version; a version without is not to be had, since its jars belong to others of versions of their own.
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
            raise ValueError("an archive has artifact and groups; without them there are jars")
        if self.sha512 and self.jars:
            raise ValueError("sha512 pins an archive; each of the jars has a sum of its own")
        if self.jars and "{version}" not in self.folder:
            raise ValueError("the jars of two versions need two folders: say {version} in folder")
        for version, jars in self.jars.items():
            files = Counter(jar.path.rsplit("/", 1)[-1] for jar in jars)
            if twice := [file for file, count in files.items() if count > 1]:
                raise ValueError(f"jars.{version}: twice in one folder: {', '.join(twice)}")
        return self

    @property
    def any_version(self) -> bool:
        """Whether a version that the file does not name can be had."""
        return not self.jars

    def artifacts(self, version: str, adapter: str) -> tuple[Artifact, ...]:
        """The files of a version, for the adapter of that name; `UsageError` where there are none."""
        asked = f"{adapter}@{version}"
        if self.artifact:
            group = next(entry.group for entry in reversed(self.groups) if order(entry.since) <= order(version))
            file = f"{self.artifact}-{version}-{self.classifier}.{self.extension}"
            path = "/".join([*group.split("."), self.artifact, version, file])
            return (Artifact(path, self.sha512.get(version), asked),)
        if version not in self.jars:
            raise UsageError.unknown("version", version, self.jars, of=adapter)
        return tuple(Artifact(jar.path, jar.sha512, asked) for jar in self.jars[version])
