"""The adapter that a `broker.toml` makes, and the base class of adapters in Python.

The launcher in an adapter's name is `native[=FOLDER]`, `docker`, `external[=URL,...]` or `external=FILE.toml`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from conformance import paths
from conformance.adapters.config.own_configuration import OwnConfig
from conformance.adapters.container import docker, images
from conformance.adapters.container.images import HOME, Recipe
from conformance.adapters.distribution import debian, fetch, versions
from conformance.adapters.external import broker as external
from conformance.adapters.external.addresses import examples, urls_by_protocol
from conformance.adapters.external.rules import asked_by, complete_rules
from conformance.adapters.file import settings
from conformance.adapters.file.launch_tables import Artifact, External, Progress, read_external
from conformance.adapters.file.model import LIAR, VARIANT, BrokerFile
from conformance.adapters.file.placeholders import placeholders
from conformance.adapters.file.reading import read_table
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.interface import DOCKER, EXTERNAL, LAUNCHERS, NATIVE, Adapter, Broker, Options, QueueClient
from conformance.adapters.launch import native
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource
from conformance.claims import STORED, Value
from conformance.errors import UsageError
from conformance.ledger import Ledger
from conformance.protocols import describe
from conformance.scenario.needs import (
    COPIED,
    CREATED,
    EXPIRY_QUEUE,
    FOR_TOPIC,
    FRESH,
    MODIFIED,
    SELECTS,
    SETTINGS,
    SUBSCRIBED,
    TIME_TO_LIVE,
    Need,
    Wanted,
)

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+([.-][A-Za-z0-9.]+)?")
DURABLE = frozenset({"durable_queues", "send_confirmed"})
"""With these capabilities a protocol whose confirm stores promises `STORED`, also if the file does not declare it.

AMQP 1.0 is one (3.2.1, durable).
"""
BUNDLED = "bundled"
"""The version of a broker that is part of this package."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """A launcher as the user named it: `word` is one of `LAUNCHERS`, `at` the text after its `=`.

    `home` is the folder of the distribution, if the user named one. `rules` are those of an external broker, and `here`
    is the folder of their file.
    """

    word: str = NATIVE
    at: str = ""
    home: pathlib.Path | None = None
    rules: External | None = None
    here: pathlib.Path = pathlib.Path()

    def __str__(self) -> str:
        return f"{self.word}={self.at}" if self.at else self.word


HERE = Launcher()
"""Natively, from the distribution that is fetched."""


@dataclasses.dataclass(frozen=True)
class FileAdapter:
    """See `Adapter`. `file` is its data, `path` the file it was read from, `asked` the text that named it.

    `own` is the configuration of a user (`opening.with_configuration`).
    """

    name: str
    version: str
    launcher: str
    file: BrokerFile
    path: pathlib.Path
    asked: str = dataclasses.field(default="", compare=False)
    place: Launcher = HERE
    own: OwnConfig | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def make(cls, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str) -> Self:
        """Make the adapter of a version and launcher; `UsageError` if there is no such one. A plugin's entry point."""
        return cls.of(read_table(cls.table(), path.parent), version, launcher, path=path, asked=asked)

    @classmethod
    def table(cls) -> Mapping[str, Any]:
        """The data of a `broker.toml`; a class that derives from this one has its own."""
        raise UsageError(f"{cls.__name__} has no table(): what a broker.toml would say")

    @classmethod
    def of(
        cls, file: BrokerFile, version: str | None, launcher: str | None, *, path: pathlib.Path, asked: str = ""
    ) -> Self:
        """The adapter of a file; None is its default version, and the native launcher, or that of its `[external]`."""
        place = _launcher(file, launcher, path)
        if place.home is not None and file.version.file:
            found = versions.version_of_folder(file, place.home, version)
        elif place.home is not None or place.rules is not None:
            found = version or _default_version(file)
        else:
            found = _version(file, version, place.word)
        owned = asked_by(file.at(found), place.rules)
        return cls(file.name, found, place.word, owned, path, asked or file.name, place)

    @property
    def spec(self) -> str:
        return f"{self.asked or self.name}@{self.version}:{self.place}"

    def capabilities(self, protocol: str) -> frozenset[str]:
        if protocol not in self.file.protocols:
            raise UsageError.unknown("protocol", protocol, self.file.protocols, of=self.name)
        found = self.file.capabilities | self.file.protocols[protocol].capabilities
        return found | {STORED} if describe(protocol).traits.confirm_stores and found >= DURABLE else found

    def chosen(self, overrides: Mapping[str, Value]) -> Self:
        """As `Adapter.chosen`. Only `profile` and `liar` change what a broker is; others change what it does."""
        file = self.file.varied({**self._stated, **overrides}.get(VARIANT))
        if overrides.get(LIAR):
            file = file.model_copy(update={"title": f"{file.title}, liar {overrides[LIAR]}"})
        return dataclasses.replace(self, file=file)

    def effective(self, overrides: Mapping[str, Value] | None = None) -> EffectiveSettings:
        """As `Adapter.effective`; an external broker has the settings that its owner states, and no others."""
        wanted = dict(overrides or {})
        for name, value in wanted.items() if self.place.rules else ():
            if self._stated.get(name) != value:
                raise UsageError(
                    f"{name}={str(value).lower()}: the suite does not reconfigure an external broker; state its "
                    "settings in external.settings"
                )
        return settings.effective(self.file, {**self._stated, **wanted})

    def lacks(self, need: Need) -> str:
        if self.place.rules is not None:
            return external.why_not(self.place.rules, need)
        file, name = self.file, self.name
        if need == COPIED and self.own is not None:
            return "a configuration of your own declares its queues"
        if need.option:
            return (
                "" if need.option in file.queue_options else f"the adapter of {name} has no queue option {need.option}"
            )
        keeps = file.settings.get("expiry_destination")
        met: Mapping[Need, tuple[object, str]] = {
            CREATED: (
                file.external is not None and file.external.creates_queues,
                f"the file of {name} does not say external.creates_queues",
            ),
            FRESH: (file.queues, f"the file of {name} has no [queues]: they are in its configuration"),
            EXPIRY_QUEUE: (
                keeps is not None and (keeps.settable or keeps.default),
                f"the file of {name} names no queue for expired messages",
            ),
            SETTINGS: (file.start.offer, f"the adapter of {name} has no start.offer"),
            SUBSCRIBED: (file.subscription_depth, f"the file of {name} has no [subscription_depth]"),
        }
        is_met, why = met.get(need, (True, ""))
        return "" if is_met else why

    def lacks_over(self, need: Need, protocol: str) -> str:
        """As `Adapter.lacks_over`."""
        over, name, traits = self.file.protocols[protocol], self.name, describe(protocol).traits
        outcomes = over.options.outcomes
        met: Mapping[Need, tuple[object, str]] = {
            COPIED: (over.copied, f"the adapter of {name} does not say `copied` over {protocol}"),
            FOR_TOPIC: (traits.annotations, f"messages have no annotations over {protocol}"),
            MODIFIED: ("modified" in outcomes, f"{name} has only {', '.join(outcomes)} over {protocol}"),
            SELECTS: (
                "selectors" in self.capabilities(protocol),
                f"the adapter of {name} does not declare selectors over {protocol}",
            ),
            SUBSCRIBED: (over.topic is not None, f"the adapter of {name} does not say `topic` over {protocol}"),
            TIME_TO_LIVE: (
                traits.time_to_live or over.options.expires,
                f"the file of {name} does not say `time_to_live` over {protocol}",
            ),
        }
        is_met, why = met.get(need, (True, ""))
        return "" if is_met else why

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        if self.file.fetch is None or self.place.rules or self.place.home:
            return ()
        return self.file.fetch.artifacts(self.version, self.name)

    def install(
        self, progress: Progress | None = None, *, offline: bool = False, into: pathlib.Path | None = None
    ) -> pathlib.Path:
        """As `Adapter.install`, in the cache or in `into`."""
        if self.place.home is not None:
            return self.place.home
        if self._suite:
            return debian.root(self.file.packages, self._suite, offline=offline)
        if self.file.fetch is None or self.place.rules is not None:
            return self.path.parent
        rules = self.file.fetch
        folder = rules.folder.format(version=self.version)
        home = (into or fetch.dist()).absolute() / folder
        of_jars = self.version in rules.jars
        jars = [artifact.file for artifact in self.artifacts] if of_jars else []
        # An archive was renamed into place: if its folder is there, it is whole.
        if fetch.is_assembled(home, jars) if jars else home.is_dir():
            return home
        with fetch.known_version(self.file, self.version):
            files = fetch.fetch_all(self.artifacts, progress, offline=offline)
        into = (into or fetch.dist()).absolute()
        return fetch.assemble(files, into, folder) if of_jars else fetch.unpack(files, into, folder, rules.inside)

    @property
    def _suite(self) -> str:
        """The suite of Debian in which the broker runs natively; empty: on this machine as it is."""
        return fetch.suite_of(self.file, self.version) if self.place == HERE else ""

    @property
    def _stated(self) -> Mapping[str, Value]:
        return self.place.rules.settings if self.place.rules else {}

    def recipe(self, *, offline: bool = False) -> Recipe:
        source = BrokerSource(self.file, self.path.parent, self.version, HOME, self.own)
        if self.file.default_version == BUNDLED:
            return Recipe(source, images.distribution, offline, images.content())
        return Recipe(source, lambda: self.install(offline=offline), offline)

    @property
    def parts(self) -> Mapping[str, Adapter]:
        return {"": self}

    @property
    def able(self) -> Callable[[Wanted], str] | None:
        if self.place.rules is not None:
            return functools.partial(external.why_not, self.place.rules)
        if self.launcher != DOCKER:
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
        """As `Adapter.prepare`. Installs the broker first if it is missing.

        The first broker of a version and Java also leaves a class archive in the cache, which halves every later start.
        """
        setup = BrokerSetup(folder.absolute(), settings, queues, ledger, liar, options or {}, client)
        if self.place.rules is not None:
            source = BrokerSource(self.file, self.path.parent, self.version, self.path.parent)
            return external.prepare(source, self.place.rules, self.place.here, setup)
        if self.launcher == DOCKER:
            return docker.prepare(self.recipe(offline=offline), setup)
        home = self.install(offline=offline)
        source = BrokerSource(self.file, self.path.parent, self.version, home, self.own, debian=bool(self._suite))
        stock = dataclasses.replace(self, file=self.own.base, own=None) if self.own else self
        learns = dataclasses.replace(source, file=stock.file, own=None)
        return native.prepare(source, setup, native.class_archive_option(learns, stock.effective(), ledger))


def _default_version(file: BrokerFile) -> str:
    return _own_version() if file.default_version == BUNDLED else file.default_version


def _version(file: BrokerFile, asked: str | None, launcher: str) -> str:
    if file.installed is not None and (asked is None or _VERSION.fullmatch(asked)):
        return fetch.installed_version(file, asked, native=launcher == NATIVE)
    if file.fetch is None:
        own = _default_version(file)
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


def _launcher(file: BrokerFile, asked: str | None, path: pathlib.Path) -> Launcher:
    """The launcher that a user asked for; None is `external` if the file has the broker's address, else `native`.

    `path` is the file of the broker. Raises `UsageError` that names the word, key or address, and the next step.
    """
    outside = file.external is not None and bool(file.external.urls)
    word, equals, at = (asked or (EXTERNAL if outside else NATIVE)).partition("=")
    if word not in LAUNCHERS:
        raise UsageError.unknown("launcher", word, LAUNCHERS)
    if equals and not at:
        raise UsageError(f"{word}=: expected a value after it")
    if word == EXTERNAL:
        return _external(file, at, path)
    if file.is_external:
        raise UsageError(f"{file.name} has no [start]: use it as an external broker, by its [external]")
    if word == DOCKER:
        if at or file.container is None:
            raise UsageError(f"{file.name} has no [container]: it runs natively only" if not at else f"{asked}: docker")
        return Launcher(DOCKER)
    return Launcher(NATIVE, at, _home(file, pathlib.Path(at))) if at else HERE


def _external(file: BrokerFile, at: str, path: pathlib.Path) -> Launcher:
    base = file.external or External()
    if at.endswith(".toml"):
        said, here, where = read_external(pathlib.Path(at)), pathlib.Path(at).absolute().parent, at
    elif at or base.urls:
        said, here, where = External(urls={**base.urls, **urls_by_protocol(at)}), path.parent, file.name
    else:
        raise UsageError(
            f"{file.name}:external: the address is missing: give {file.name}:external={examples(file)[0]}, or "
            "external=FILE.toml with its addresses and the commands for its faults"
        )
    try:
        return Launcher(EXTERNAL, at, rules=complete_rules(file, said), here=here)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _home(file: BrokerFile, folder: pathlib.Path) -> pathlib.Path:
    """The folder of the distribution: the one that the user named, or the one in it that the archive unpacked to."""
    if not folder.is_dir():
        raise UsageError(f"native={folder}: no such folder; name the one that the distribution was unpacked to")
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir()]
    programs = list(_programs(file))
    for home in (folder, *inside):
        if all((home / program).exists() for program in programs) and (
            programs or not file.version.file or versions.read_versions(file.version, home)
        ):
            return home.absolute()
    raise UsageError(
        f"native={folder}: it holds no {[*programs, file.version.file][0]}, nor does a folder in it; name the one that "
        f"the distribution of {file.name} was unpacked to"
    )


def _programs(file: BrokerFile) -> Iterator[str]:
    """The programs that the file calls in `{home}`, by their paths there."""
    commands = [file.start.command, file.template.command if file.template else ()]
    for command in commands:
        if command and command[0].startswith("{home}/") and list(placeholders(command[0])) == ["home"]:
            yield command[0].removeprefix("{home}/")
