"""The adapter that a `broker.toml` makes, and the base of those that a Python class makes."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from conformance import paths
from conformance.adapters import archive, fetch, native, settings
from conformance.adapters.configure import Source
from conformance.adapters.fetch import Artifact, Progress
from conformance.adapters.images import HOME, Recipe
from conformance.adapters.interface import Broker
from conformance.adapters.model import LIAR, VARIANT, BrokerFile, order, read_table
from conformance.adapters.planned import Options
from conformance.adapters.settings import EffectiveSettings
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.ledger import Ledger

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9.]+)?")
_LAUNCHERS = ("native", "docker")


@dataclasses.dataclass(frozen=True)
class FileAdapter:
    """See `Adapter`. `file` is its data, `path` the file it was read from, `asked` the words that named it."""

    name: str
    version: str
    launcher: str
    file: BrokerFile
    path: pathlib.Path
    asked: str = dataclasses.field(default="", compare=False)

    @classmethod
    def make(cls, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str) -> Self:
        """The adapter that a user asked for by these words; `UsageError` where it has no such version or launcher."""
        return cls.of(read_table(cls.table(), path.parent), version, launcher, path=path, asked=asked)

    @classmethod
    def table(cls) -> Mapping[str, Any]:
        """What a `broker.toml` would say; a class that derives from this one has its own."""
        raise UsageError(f"{cls.__name__} has no table(): what a broker.toml would say")

    @classmethod
    def of(
        cls, file: BrokerFile, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str = ""
    ) -> Self:
        """The adapter of a file; None is its default version, and the native launcher."""
        return cls(file.name, _version(file, version), _launcher(file, launcher), file, path, asked or file.name)

    @property
    def spec(self) -> str:
        """The words that find it again."""
        return f"{self.asked or self.name}@{self.version}:{self.launcher}"

    def capabilities(self, protocol: str) -> frozenset[str]:
        """What the broker can do over `protocol`; `UsageError` where it does not speak it."""
        if protocol not in self.file.protocols:
            raise UsageError.unknown(f"protocol of {self.name}", protocol, self.file.protocols)
        return self.file.capabilities | self.file.protocols[protocol].capabilities

    def chosen(self, overrides: Mapping[str, Value]) -> Self:
        """The broker that these settings make of it: with its variant, and with a title that says so, and which liar.

        Only `profile` and `liar` change what a broker is; any other setting changes what it does.
        """
        file = self.file.varied(overrides.get(VARIANT))
        if overrides.get(LIAR):
            file = file.model_copy(update={"title": f"{file.title}, liar {overrides[LIAR]}"})
        return dataclasses.replace(self, file=file)

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """Stock with these overrides; `UsageError` for an unknown or fixed setting, or a value of another type."""
        return settings.effective(self.file, overrides or {})

    def lacks(self, need: str) -> str:
        """Why a scenario that needs this (`Scenario.needs`) cannot be played here; empty where it can."""
        kind, _, option = need.rpartition(" with ")
        if kind and option not in self.file.start.queue_options:
            return f"the adapter of {self.name} has no words for one"
        return "" if kind or self.file.start.offer else f"the adapter of {self.name} does not say how one is offered"

    @property
    def artifact(self) -> Artifact | None:
        """The distribution in a Maven repository; None where there is nothing to fetch."""
        wanted = self.file.fetch
        if wanted is None:
            return None
        group = next(entry.group for entry in reversed(wanted.groups) if order(entry.since) <= order(self.version))
        file = f"{wanted.artifact}-{self.version}-{wanted.classifier}.{wanted.extension}"
        path = "/".join([*group.split("."), wanted.artifact, self.version, file])
        return Artifact(path, wanted.sha512.get(self.version), f"{self.name}@{self.version}")

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Have the distribution unpacked, in the cache or in `into`; returns its folder. `FetchError` where not."""
        if self.file.fetch is None or self.artifact is None:
            return self.path.parent
        folder = self.file.fetch.folder.format(version=self.version)
        home = (into or fetch.dist()).absolute() / folder
        if home.is_dir():  # it was renamed into place: if it is there, it is whole
            return home
        return fetch.unpack(fetch.fetch(self.artifact, progress, offline=offline), home.parent, folder)

    def recipe(self, *, offline: bool = False) -> Recipe:
        """What its image is made from, where it runs in a container."""
        source = Source(self.file, self.path.parent, self.version, HOME)
        return Recipe(source, lambda: self.install(offline=offline), offline)

    @property
    def able(self) -> Callable[[str], str] | None:
        """Asked by the name of a fault, why a container cannot take it; None where the broker is in none."""
        if self.launcher != "docker":
            return None
        from conformance.adapters.docker_able import Able

        return Able(self.recipe())

    def prepare(
        self,
        folder: pathlib.Path,
        settings: EffectiveSettings,
        queues: Sequence[str],
        ledger: Ledger,
        liar: str | None = None,
        *,
        offline: bool = False,
        options: Mapping[str, Options] | None = None,
    ) -> Broker:
        """A broker in `folder` (new or empty) with these queues, durable but for their `options`; not yet started.

        Installs it first where it is not; the first broker of a version and Java also leaves a class archive in the
        cache, which halves every later start. Raises `FetchError`, `LaunchError`, `UsageError`.
        """
        if self.launcher == "docker":
            from conformance.adapters import docker

            recipe = self.recipe(offline=offline)
            return docker.prepare(recipe, folder, settings, queues, ledger, liar=liar, options=options)
        source = Source(self.file, self.path.parent, self.version, self.install(offline=offline))
        option = archive.option(source, self.effective(), ledger)
        return native.prepare(source, folder, settings, queues, ledger, liar=liar, archive=option, options=options)


def _version(file: BrokerFile, asked: str | None) -> str:
    if file.fetch is None:
        own = _own_version() if file.default_version == "bundled" else file.default_version
        if asked not in (None, own):
            raise UsageError(f"{file.name} has one version: {own}")
        return own
    if asked is not None and not _VERSION.fullmatch(asked):
        raise UsageError.unknown(f"version of {file.name}", asked, file.versions)
    return asked or file.default_version


def _own_version() -> str:
    try:
        return importlib.metadata.version(paths.PROJECT)
    except importlib.metadata.PackageNotFoundError:  # a checkout that was never installed
        return "0.1.0"


def _launcher(file: BrokerFile, asked: str | None) -> str:
    if asked in (None, "native"):
        return "native"
    if asked not in _LAUNCHERS:
        raise UsageError.unknown("launcher", str(asked), _LAUNCHERS)
    if file.container is None:
        raise UsageError(f"{file.name} has no [container]: it runs natively only")
    return str(asked)
