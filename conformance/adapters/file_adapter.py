"""The adapter that a `broker.toml` makes, and the base class of adapters in Python."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from conformance import paths
from conformance.adapters import launchers
from conformance.adapters.container import docker, images
from conformance.adapters.container.images import HOME, Recipe
from conformance.adapters.distribution import fetch, installed
from conformance.adapters.external import broker as external
from conformance.adapters.file import settings
from conformance.adapters.file.distribution_table import Artifact, Progress
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile
from conformance.adapters.file.reading import read_table
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.interface import Adapter, Broker, QueueClient
from conformance.adapters.launch import class_archive, native
from conformance.adapters.launch.prepared import BrokerSource, Options, OwnCopy
from conformance.adapters.launchers import Launcher
from conformance.claims import STORED, Value
from conformance.errors import UsageError
from conformance.ledger import Ledger
from conformance.scenario import FRAMES, MODIFIED
from conformance.scenario.script import LAUNCHER_NEEDS

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9.]+)?")
DURABLE = frozenset({"durable_queues", "send_confirmed"})
"""With these capabilities AMQP 1.0 promises `STORED` (3.2.1, durable), also if the file does not declare it."""
BUNDLED = "bundled"
"""The version of a broker that is part of this package."""


@dataclasses.dataclass(frozen=True)
class FileAdapter:
    """See `Adapter`. `file` is its data, `path` the file it was read from, `asked` the text that named it.

    `own` is the configuration of a user (`own_configuration.applied`).
    """

    name: str
    version: str
    launcher: str
    file: BrokerFile
    path: pathlib.Path
    asked: str = dataclasses.field(default="", compare=False)
    place: Launcher = launchers.HERE
    own: OwnCopy | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def make(cls, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str) -> Self:
        """The adapter that a user asked for by these words; `UsageError` if it has no such version or launcher."""
        return cls.of(read_table(cls.table(), path.parent), version, launcher, path=path, asked=asked)

    @classmethod
    def table(cls) -> Mapping[str, Any]:
        """What a `broker.toml` would say; a class that derives from this one has its own."""
        raise UsageError(f"{cls.__name__} has no table(): what a broker.toml would say")

    @classmethod
    def of(
        cls, file: BrokerFile, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str = ""
    ) -> Self:
        """The adapter of a file; None is its default version, and the native launcher, or that of its `[external]`."""
        place = launchers.read(file, launcher, path)
        found = _said_version(file, version) if place.rules or place.home else _version(file, version, place.word)
        return cls(file.name, found, place.word, file, path, asked or file.name, place)

    @property
    def spec(self) -> str:
        """The text that finds it again."""
        return f"{self.asked or self.name}@{self.version}:{self.place}"

    def capabilities(self, protocol: str) -> frozenset[str]:
        """What the broker can do over `protocol`; `UsageError` if it does not speak it."""
        if protocol not in self.file.protocols:
            raise UsageError.unknown("protocol", protocol, self.file.protocols, of=self.name)
        found = self.file.capabilities | self.file.protocols[protocol].capabilities
        return found | {STORED} if protocol == "amqp" and found >= DURABLE else found

    def chosen(self, overrides: Mapping[str, Value]) -> Self:
        """The broker that these settings make of it: with its variant, and with a title that says so, and which liar.

        Only `profile` and `liar` change what a broker is; any other setting changes what it does.
        """
        file = self.file.varied({**self._said, **overrides}.get(VARIANT))
        if overrides.get(LIAR):
            file = file.model_copy(update={"title": f"{file.title}, liar {overrides[LIAR]}"})
        return dataclasses.replace(self, file=file)

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """Stock with these overrides; `UsageError` for an unknown or fixed setting, or a value of another type.

        An external broker has what its owner says, and cannot be given anything else.
        """
        wanted = dict(overrides or {})
        for name, value in wanted.items() if self.place.rules else ():
            if self._said.get(name) != value:
                raise UsageError(
                    f"{name}={str(value).lower()}: an external broker is not reconfigured; what it runs with is said "
                    "in external.settings"
                )
        return settings.effective(self.file, {**self._said, **wanted})

    def lacks(self, need: str) -> str:
        """Why a scenario that needs this (`Scenario.needs`) cannot be played here; empty if it can."""
        if self.place.rules is not None:
            return external.why_not(self.place.rules, need)
        if need in (*LAUNCHER_NEEDS, FRAMES, MODIFIED):  # the protocol decides the last two
            return ""
        kind, _, option = need.rpartition(" with ")
        if kind and option not in self.file.queue_options:
            return f"the adapter of {self.name} has no words for one"
        return "" if kind or self.file.start.offer else f"the adapter of {self.name} does not say how one is offered"

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The distribution in a Maven repository: an archive, or its jars; empty if there is nothing to fetch."""
        if self.file.fetch is None or self.place.rules or self.place.home:
            return ()
        return self.file.fetch.artifacts(self.version, self.name)

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Have the distribution unpacked, in the cache or in `into`; returns its folder. `FetchError` if not."""
        if self.place.home is not None:
            return self.place.home
        if self.file.fetch is None or self.place.rules is not None:
            return self.path.parent
        folder = self.file.fetch.folder.format(version=self.version)
        home = (into or fetch.dist()).absolute() / folder
        jars = [artifact.file for artifact in self.artifacts] if self.file.fetch.jars else []
        # An archive was renamed into place: if its folder is there, it is whole.
        if fetch.assembled(home, jars) if jars else home.is_dir():
            return home
        with fetch.known_version(self.file, self.version):
            files = fetch.fetch_all(self.artifacts, progress, offline=offline)
        return (fetch.assemble if self.file.fetch.jars else fetch.unpack)(
            files, (into or fetch.dist()).absolute(), folder
        )

    @property
    def _said(self) -> Mapping[str, Value]:
        """The settings that the owner of an external broker says that it runs with."""
        return self.place.rules.settings if self.place.rules else {}

    def recipe(self, *, offline: bool = False) -> Recipe:
        """What its image is made from, where it runs in a container."""
        source = BrokerSource(self.file, self.path.parent, self.version, HOME, self.own)
        if self.file.default_version == BUNDLED:
            return Recipe(source, images.distribution, offline, images.content())
        return Recipe(source, lambda: self.install(offline=offline), offline)

    @property
    def parts(self) -> Mapping[str, Adapter]:
        """The adapter alone."""
        return {"": self}

    @property
    def able(self) -> Callable[[str], str] | None:
        """Tells by the name of a fault why its launcher cannot inject it; None if only this machine decides."""
        if self.place.rules is not None:
            return functools.partial(external.why_not, self.place.rules)
        if self.launcher != "docker":
            return None
        return docker.Able(self.recipe())

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
        client: QueueClient | None = None,
    ) -> Broker:
        """A broker in `folder` (new or empty) with these queues, durable but for their `options`; not yet started.

        Installs it first if it is missing; the first broker of a version and Java also leaves a class archive in the
        cache, which halves every later start. Raises `FetchError`, `LaunchError`, `UsageError`.
        """
        if self.place.rules is not None:
            rules, here = self.place.rules, self.place.here
            source = BrokerSource(self.file, self.path.parent, self.version, self.path.parent)
            return external.prepare(
                source, rules, here, folder, settings, queues, ledger, liar=liar, options=options, client=client
            )
        if self.launcher == "docker":
            recipe = self.recipe(offline=offline)
            return docker.prepare(recipe, folder, settings, queues, ledger, liar=liar, options=options, client=client)
        source = BrokerSource(self.file, self.path.parent, self.version, self.install(offline=offline), self.own)
        stock = dataclasses.replace(self, file=self.own.base, own=None) if self.own else self
        learns = dataclasses.replace(source, file=stock.file, own=None)
        option = class_archive.option(learns, stock.effective(), ledger)
        return native.prepare(
            source, folder, settings, queues, ledger, liar=liar, archive=option, options=options, client=client
        )


def _said_version(file: BrokerFile, asked: str | None) -> str:
    """The version that its owner states: nothing is installed for it."""
    return asked or (_own_version() if file.default_version == BUNDLED else file.default_version)


def _version(file: BrokerFile, asked: str | None, launcher: str) -> str:
    if file.installed is not None and (asked is None or _VERSION.fullmatch(asked)):
        return installed.version(file, asked, native=launcher == "native")
    if file.fetch is None:
        own = _own_version() if file.default_version == BUNDLED else file.default_version
        if asked not in (None, own):
            raise UsageError(f"{file.name} has one version: {own}")
        return own
    if asked is not None and not _VERSION.fullmatch(asked):
        raise UsageError.unknown("version", asked, file.versions, of=file.name)
    version = asked or file.default_version
    file.fetch.artifacts(version, file.name)  # refuses a version without pinned jars
    return version


def _own_version() -> str:
    try:
        return importlib.metadata.version(paths.PROJECT)
    except importlib.metadata.PackageNotFoundError:  # a checkout that was never installed
        return "0.1.0"
