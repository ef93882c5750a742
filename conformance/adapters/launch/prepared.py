"""A broker that can be started: the values of its placeholders, its command line, its environment."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from conformance.adapters.credentials import OPEN, Access
from conformance.adapters.file.model import BrokerFile
from conformance.adapters.file.placeholders import fill, python_words
from conformance.adapters.file.settings import EffectiveSettings, explicit
from conformance.adapters.file.start_table import Depth
from conformance.adapters.launch import ports
from conformance.adapters.launch.java import JavaFound
from conformance.errors import UsageError

Options = tuple[tuple[str, bool | int], ...]
"""Names and values of a queue's own rules."""

READY_QUEUE = "conformance-ready"
"""The queue for the message that proves that a broker is ready (`start.ready_message`)."""


class OwnCopy(Protocol):
    """A user's own configuration, which each broker gets a copy of; `base` is the broker without it."""

    @property
    def base(self) -> BrokerFile:
        """The broker's file."""

    @property
    def outside(self) -> Sequence[pathlib.Path]:
        """The files of this machine that the configuration names and the copy does not hold."""

    def install(
        self, file: BrokerFile, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str]
    ) -> dict[str, str]:
        """Write the copy into `{instance}`; return the rewritten elements, each with its reason."""


@dataclasses.dataclass(frozen=True)
class BrokerSource:
    """What a broker is made from: its file, the folder of that file, its version, its unpacked distribution.

    `own` replaces the stock configuration.
    """

    file: BrokerFile
    here: pathlib.Path
    version: str
    home: pathlib.Path
    own: OwnCopy | None = None


class DepthProbe(msgspec.Struct, frozen=True):
    """How a client asks for the depth of one queue.

    `http`: GET `url`, the answer is JSON, its `field` the depth. `amqp-management`: a request to `address` with
    `properties` as application properties, and `body`. The answer's body is a map with the depth as its `field`
    (ActiveMQ Classic), or a JSON array whose first item is the depth (Artemis). `needs` names what the broker must have
    to answer at all. With `relayed` no link is made to `address` itself. `host` and `port` are those of its AMQP
    endpoint, for a client of any protocol, and `access` is its login; they are set when the broker runs.
    """

    method: Literal["http", "amqp-management"]
    url: str = ""
    field: str = ""
    address: str = ""
    properties: dict[str, str] = {}
    body: str = ""
    needs: str = ""
    relayed: bool = False
    host: str = ""
    port: int = 0
    access: Access = OPEN


def probe_of(file: BrokerFile, words: Mapping[str, str], moved: Callable[[str], str] = str) -> DepthProbe:
    """The question of `[depth]`, filled with these words; `moved` changes its address.

    Raises `UsageError` if the file has none.
    """
    if file.depth is None:
        raise UsageError(f"{file.name} has no [depth], the table that says how the depth of a queue is asked for")
    return filled_probe(file.depth, words, moved)


def filled_probe(table: Depth, words: Mapping[str, str], moved: Callable[[str], str] = str) -> DepthProbe:
    """The question of such a table, filled with these words."""
    return DepthProbe(
        table.method,
        moved(fill(table.url, words)),
        table.field,
        fill(table.address, words),
        {name: fill(text, words) for name, text in table.properties.items()},
        needs=table.needs,
        relayed=table.relayed,
    )


@dataclasses.dataclass(frozen=True)
class Plan:
    """A broker that can be started: its source, the values of its placeholders, its command line, its folder.

    `inside` has the placeholders with another value in a container: its ports there, its Java. `options` are rules of
    single queues.
    """

    source: BrokerSource
    settings: EffectiveSettings
    queues: tuple[str, ...]
    folder: pathlib.Path
    words: dict[str, str]
    command: tuple[str, ...]
    java: JavaFound | None
    deviations: dict[str, str]
    inside: Mapping[str, str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Options] = dataclasses.field(default_factory=dict)

    @property
    def http_access(self) -> Access:
        """How to reach its own HTTP interface: what the file and the command line say."""
        return self.source.file.access.of("http", self.source.here)

    @property
    def own_words(self) -> dict[str, str]:
        """The placeholders for the broker and its commands; `words` are those for clients on this machine."""
        return {**self.words, **self.inside}

    @property
    def environment(self) -> dict[str, str]:
        """The variables of `start.environment`, for its process beside those of the suite."""
        wanted = self.source.file.start.environment
        return {name: fill(text, self.own_words, f"start.environment.{name}") for name, text in wanted.items()}

    @property
    def working_folder(self) -> pathlib.Path:
        """The working folder of the command: `start.folder`, relative to the broker's own, which is the default."""
        return self.folder / fill(self.source.file.start.folder, self.words, "start.folder")

    @property
    def pid_file(self) -> pathlib.Path | None:
        """The file of `start.pid_file`; `UsageError` if it is not in the broker's own folder."""
        wanted = self.source.file.start.pid_file
        if not wanted:
            return None
        path = pathlib.Path(os.path.normpath(self.folder / fill(wanted, self.words, "start.pid_file")))
        if not path.is_relative_to(self.folder):
            raise UsageError(f"start.pid_file: {path} is not in the broker's own folder: use {{instance}}")
        return path


def words_of(
    source: BrokerSource,
    folder: pathlib.Path,
    settings: EffectiveSettings,
    numbers: Mapping[str, int],
    java: JavaFound | None,
    archive: str,
) -> dict[str, str]:
    """What each placeholder of the file stands for, in a broker in `folder` with these port numbers."""
    words = {
        "home": str(source.home),
        "here": str(source.here),
        "instance": str(folder / "instance"),
        "log_file": str(folder / "broker.log"),
        "archive": archive,
        "listen": ports.HOST,
        **python_words(),
        **{f"{name}_port": str(port) for name, port in numbers.items()},
        **{f"setting.{name}": entry.text(settings.values[name]) for name, entry in source.file.settings.items()},
    }
    if java:
        words |= {"java": str(java.path), "java_home": str(java.home)}
    return {**words, "data_dir": fill(source.file.data.path, words, "data.path")}


def declared(source: BrokerSource, queues: Sequence[str], options: Mapping[str, Options]) -> list[str]:
    """What `{queue}` of the command is filled with, for each queue; `UsageError` for an option that there is not."""
    found, known = [], source.file.queue_options
    for queue in queues:
        chosen = options.get(queue, ())
        for name, _ in chosen:
            if name not in known:
                raise UsageError.unknown("queue option", name, known, of=source.file.name)
        here = [each for each in chosen if each[0] in source.file.start.queue_options]
        said = ",".join(f"{name}={str(value).lower()}" for name, value in here)
        found.append(f"{queue}:{said}" if said else queue)
    return found


def start_command(
    source: BrokerSource, settings: EffectiveSettings, queues: Sequence[str], words: Mapping[str, str], liar: str | None
) -> tuple[str, ...]:
    """The broker's command line; `UsageError` if it is to be a liar and has none."""
    start = source.file.start
    command = [fill(part, words, "start.command") for part in start.command]
    for queue in queues:
        command += [fill(part, {**words, "queue": queue}, "start.each_queue") for part in start.each_queue]
    for name, setting in explicit(source.file, settings).items():
        value = {"name": name, "value": setting.text(settings.values[name])}
        command += [fill(part, {**words, **value}, f"settings.{name}.argument") for part in setting.argument]
    if liar is not None and not start.liar:
        raise UsageError(f"{source.file.name} has no liars: {liar!r} is one of the reference broker")
    if liar is not None:
        command += [fill(part, {**words, "liar": liar}, "start.liar") for part in start.liar]
    return tuple(command)
