"""Launchers: how the brokers of an adapter come to run. The native one is here, with what it shares with containers.

A launcher is the last word of an adapter's name; `adapters.launchers` has the table of all.
"""

from __future__ import annotations

import abc
import dataclasses
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Self

from conformance.adapters.distribution import debian, fetch, versions
from conformance.adapters.file import settings
from conformance.adapters.file.launch_tables import Artifact, External, Progress
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.nodes_table import nodes_in
from conformance.adapters.file.placeholders import placeholders
from conformance.adapters.interface import Broker
from conformance.adapters.launch import cluster, native
from conformance.adapters.launch.java import find_java
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource
from conformance.claims import Value
from conformance.errors import LaunchError, UsageError
from conformance.scenario.needs import COPIED, CREATED, EXPIRY_QUEUE, FRESH, SETTINGS, SUBSCRIBED, Need, Wanted


@dataclasses.dataclass(frozen=True)
class FileLauncher(abc.ABC):
    """A launcher as the user named it; see `interface.Launcher`. `at` is the text after its `=`.

    `home` is the folder of a distribution that is not fetched: its user or its owner has it.
    """

    word: ClassVar[str]
    owned: ClassVar[bool] = False
    contained: ClassVar[bool] = False

    at: str = ""
    home: pathlib.Path | None = None
    rules: External = dataclasses.field(default_factory=External)

    def __str__(self) -> str:
        return f"{self.word}={self.at}" if self.at else self.word

    @classmethod
    @abc.abstractmethod
    def of(cls, file: BrokerFile, at: str, here: pathlib.Path, /) -> Self:
        """Make the launcher for a file in the folder `here`; `UsageError` if it cannot run so, or `at` is wrong."""

    @classmethod
    def lacks_here(cls, file: BrokerFile, /) -> str:
        """Say what the file or this machine lacks to start its broker; the engine of containers is not asked."""
        return "no [start] in its broker.toml: it is reached at its address only" if file.is_external else ""

    @abc.abstractmethod
    def prepare(self, source: BrokerSource, setup: BrokerSetup, *, offline: bool) -> Broker:
        """As `Adapter.prepare`."""

    def described(self, file: BrokerFile) -> BrokerFile:
        """The file with what is known better under this launcher."""
        return file

    def settings(self, wanted: Mapping[str, Value]) -> Mapping[str, Value]:
        """The settings to start with if these are wanted; `UsageError` if it cannot set one."""
        return wanted

    def able(self, source: BrokerSource) -> Callable[[Wanted], str] | None:
        """As `Adapter.able`."""
        return None

    def version(self, file: BrokerFile, asked: str | None) -> str:
        """The version that runs if the user asks for this one; `UsageError` if there is no such one."""
        return versions.checked_version(file, asked, native=not self.contained)

    def lacks(self, source: BrokerSource, need: Need) -> str:
        file, name = source.file, source.file.name
        if need == COPIED and source.own is not None:
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

    def artifacts(self, source: BrokerSource) -> tuple[Artifact, ...]:
        rules = source.file.fetch
        return () if rules is None or self.home else rules.artifacts(source.version, source.file.name)

    def install(
        self,
        source: BrokerSource,
        progress: Progress | None = None,
        *,
        offline: bool = False,
        into: pathlib.Path | None = None,
    ) -> pathlib.Path:
        """As `Adapter.install`, in the cache or in `into`."""
        rules = source.file.fetch
        if suite := self._suite(source):
            return debian.root(source.file.packages, suite, offline=offline)
        if rules is None or self.home is not None:
            return self.home or source.here
        folder = rules.folder.format(version=source.version)
        home = (into or fetch.dist()).absolute() / folder
        of_jars, artifacts = source.version in rules.jars, self.artifacts(source)
        jars = [artifact.file for artifact in artifacts] if of_jars else []
        # An archive was renamed into place: if its folder is there, it is whole.
        if fetch.is_assembled(home, jars) if jars else home.is_dir():
            return home
        with fetch.known_version(source.file, source.version):
            files = fetch.fetch_all(artifacts, progress, offline=offline)
        into = (into or fetch.dist()).absolute()
        return fetch.assemble(files, into, folder) if of_jars else fetch.unpack(files, into, folder, rules.inside)

    def _suite(self, source: BrokerSource) -> str:
        """The suite of Debian in which the broker runs natively; empty: on this machine as it is."""
        return "" if self.home or self.contained else fetch.suite_of(source.file, source.version)


class NativeLauncher(FileLauncher):
    """Starts processes of this machine."""

    word = "native"

    @classmethod
    def of(cls, file: BrokerFile, at: str, _: pathlib.Path, /) -> Self:
        check_starts(file)
        return cls(at, _home(file, pathlib.Path(at)) if at else None)

    @classmethod
    def lacks_here(cls, file: BrokerFile, /) -> str:
        """A distribution that is fetched on first use is not missing."""
        if why := super().lacks_here(file):
            return why
        if file.java is not None:
            try:
                find_java(file.java.minimum)
            except LaunchError as error:
                return str(error)
        first = file.start.command[0]
        return "" if "{" in first or shutil.which(first) else f"{first} is not on PATH"

    def version(self, file: BrokerFile, asked: str | None) -> str:
        if self.home is None:
            return super().version(file, asked)
        if file.version.file:
            return versions.version_of_folder(file, self.home, asked)
        return asked or versions.default_version(file)

    def prepare(self, source: BrokerSource, setup: BrokerSetup, *, offline: bool) -> Broker:
        """The first broker of a version and Java also leaves a class archive in the cache: later starts take half."""
        home = self.install(source, offline=offline)
        source = dataclasses.replace(source, home=home, debian=bool(self._suite(source)))
        stock = dataclasses.replace(source, file=source.own.base, own=None) if source.own else source
        several = nodes_in(setup.settings.values) > 1
        stock_settings = settings.effective(stock.file, {})
        archive = native.class_archive_option(stock, stock_settings, setup.ledger, makes=not several)
        return cluster.prepare(source, setup, archive) if several else native.prepare(source, setup, archive)


def check_starts(file: BrokerFile) -> None:
    """Raise `UsageError` if the file does not say how the broker is started."""
    if file.is_external:
        raise UsageError(f"{file.name} has no [start]: use it as an external broker, by its [external]")


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
