"""Adapters: what a broker is, in data (`fixtures/brokers/NAME/broker.toml`), and the launcher that runs it.

Reading order: `model` (what the file may say), `settings` (what is in force), `fetch` and `download` (where the
distribution comes from), `configure` (from data to a folder), `native` (from a folder to a running broker), with
`tree`, `ports` and `java` as its tools. In a container: `engine`, `images` (what it is made from), `docker` (the same
broker inside) with `docker_tree` and `docker_ready` as its tools, `docker_able` and `dockerd`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

from conformance import paths
from conformance.adapters import archive, fetch, native, settings
from conformance.adapters.configure import Source
from conformance.adapters.fetch import Artifact, Progress
from conformance.adapters.images import HOME, Recipe
from conformance.adapters.model import LIAR, VARIANT, BrokerFile, load, order
from conformance.adapters.native import Broker, DepthProbe, Options
from conformance.adapters.settings import EffectiveSettings, parse_assignments
from conformance.claims import Value
from conformance.errors import UsageError
from conformance.ledger import Ledger

__all__ = [
    "LIAR",
    "VARIANT",
    "Adapter",
    "Broker",
    "BrokerFile",
    "DepthProbe",
    "EffectiveSettings",
    "Options",
    "Progress",
    "fetch_to",
    "find",
    "names",
    "parse_assignments",
]

_SPEC = re.compile(r"(?P<name>[^:@]+)(?:@(?P<version>[^:@]+))?(?::(?P<launcher>[^:@]+))?")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9.]+)?")
_LAUNCHERS = ("native", "docker")


@dataclasses.dataclass(frozen=True)
class Adapter:
    """A broker of one version under one launcher; `file` is its data, `path` the TOML it was read from."""

    name: str
    version: str
    launcher: str
    file: BrokerFile
    path: pathlib.Path

    @property
    def spec(self) -> str:
        """The words that find it again."""
        return f"{self.name}@{self.version}:{self.launcher}"

    def capabilities(self, protocol: str) -> frozenset[str]:
        """What the broker can do over `protocol`; `UsageError` where it does not speak it."""
        if protocol not in self.file.protocols:
            raise UsageError.unknown(f"protocol of {self.name}", protocol, self.file.protocols)
        return self.file.capabilities | self.file.protocols[protocol].capabilities

    def chosen(self, overrides: Mapping[str, Value]) -> Adapter:
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


def names() -> list[str]:
    """The brokers that this package knows, sorted."""
    return sorted(file.parent.name for file in (paths.fixtures() / "brokers").glob("*/broker.toml"))


def find(spec: str) -> Adapter:
    """The adapter that `NAME[@VERSION][:LAUNCHER]` means; NAME may also be the path of a TOML file.

    Raises `UsageError`: unknown name (with the closest), a version that is none, a launcher that is not there yet, a
    faulty file.
    """
    match = _SPEC.fullmatch(spec)
    if match is None or spec.startswith("external="):
        raise UsageError(f"adapter {spec!r}: expected NAME[@VERSION][:LAUNCHER]; external brokers are not there yet")
    path = _path(match["name"])
    file = _load(path)
    return Adapter(file.name, _version(file, match["version"]), _launcher(file, match["launcher"]), file, path)


def fetch_to(spec: str, folder: pathlib.Path, progress: Progress | None = None) -> list[pathlib.Path]:
    """Put the distribution of `spec` and its `.sha512` into `folder`, for a machine without network."""
    adapter = find(spec)
    if adapter.artifact is None:
        raise UsageError(f"{adapter.name} has nothing to fetch: it is part of this package")
    return fetch.fetch_to(adapter.artifact, folder, progress)


_load = functools.cache(load)


def _path(name: str) -> pathlib.Path:
    if name.endswith(".toml") or "/" in name:
        return pathlib.Path(name).absolute()
    if name not in names():
        raise UsageError.unknown("adapter", name, names())
    return paths.fixtures() / "brokers" / name / "broker.toml"


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
