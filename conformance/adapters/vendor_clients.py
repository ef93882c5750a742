"""A vendor's own client as data: `fixtures/clients/NAME/client.toml`.

A client speaks one protocol of a broker (its `wire`) and is reached through the API of JMS, so every broker that speaks
that protocol can be tried with it. What it shows its application is less than what crosses the wire, and sometimes
more: `hides` and `capabilities` say so. Its settings join those of the broker, so that `--set` and a control reach
both; the broker is never told of them.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping
from typing import Literal

import pydantic

from conformance import paths
from conformance.adapters.distribution import fetch
from conformance.adapters.file.distribution_table import Jar, Progress
from conformance.adapters.file.model import BrokerFile, Protocol, Setting
from conformance.adapters.file.settings import EffectiveSettings, explicit
from conformance.adapters.file.table import Table, Word, problems, read_toml, together
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import Adapter
from conformance.claims import VENDOR_SURFACES
from conformance.errors import UsageError
from conformance.scenario import CALLS, FRAMES, MODIFIED


class ClientSetting(Setting):
    """A setting of the client: the name of the `parameter` of its address (`blockOnDurableSend`)."""

    parameter: str


class ClientFile(Table):
    """A whole `client.toml`.

    `api` is the package of its JMS classes, `factory` the class of its connections, which takes `address`, with
    `{host}`, `{port}` and `{parameters}`; `properties` are those of its JVM. `modes` are its numbers of our
    acknowledgement modes, by name; one without has no such mode. `prefetch` is the parameter for deliveries that are
    sent ahead, times `prefetch_scale`; `quote` stands around what a parameter is set to. `lost` are the exceptions that
    say that the connection is gone; any other is an answer of the broker. `asynchronous` are the parameters of who
    sends with a listener that hears when a send was answered (JMS 2.0, section 7.3); false where there is no such
    thing.
    """

    name: Word
    title: str
    vendor: str
    version: str
    surface: Literal["jms", "amqp091"]
    wire: Word
    api: Literal["jakarta.jms", "javax.jms"]
    factory: str
    address: str
    parameters: Mapping[str, str] = {}
    properties: Mapping[str, str] = {}
    prefetch: str
    prefetch_scale: int = 1
    quote: str = ""
    asynchronous: Mapping[str, str] | Literal[False] = {}
    java: int = 11
    ack_confirm: Literal["disposition"] | None = None
    capabilities: frozenset[str] = frozenset()
    hides: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    modes: Mapping[str, int]
    settings: Mapping[str, ClientSetting] = {}
    jars: tuple[Jar, ...]

    def install(self, progress: Progress | None = None, *, offline: bool = False) -> list[pathlib.Path]:
        """Its jars, each checked against its sum; `FetchError` with the coordinates of one that is not to be had."""
        artifacts = [jar.of(self.name) for jar in self.jars]
        return fetch.fetch_all(artifacts, progress, offline=offline)

    def through(self, broker: BrokerFile) -> Protocol:
        """The broker as this client shows it."""
        over = broker.protocols[self.wire]
        seen = (over.capabilities - self.hides) | self.capabilities
        return Protocol(port=over.port, ack_confirm=self.ack_confirm, capabilities=seen, destination=over.destination)

    def lacks(self, need: str) -> str:
        """Say why a script that needs this of its client (`Scenario.of_client`) cannot run; empty if it can."""
        kind, _, mode = need.partition(" ")
        if need in CALLS:
            return f"an application of {self.title} has nothing of the kind"
        return f"{self.title} has no such mode" if kind == "mode" and mode not in self.modes else ""

    @property
    def hidden_needs(self) -> dict[str, str]:
        """The needs of scripts (`Scenario.needs`) that a trial through this client cannot meet, and why."""
        found = {MODIFIED: f"an application of {self.title} has no call for it"}
        if self.wire == "core":
            found[FRAMES] = f"no link can read the frames of {self.title}"
        return found

    def url(self, prefetch: int, said: Mapping[str, str], *, asynchronous: bool = False) -> str:
        """Its address with every parameter; `{host}` and `{port}` are left for who connects."""
        more = (self.asynchronous or {}) if asynchronous else {}
        parameters = {**self.parameters, **more, self.prefetch: str(prefetch * self.prefetch_scale), **said}
        words = "&".join(f"{name}={self.quote}{value}{self.quote}" for name, value in parameters.items())
        return self.address.replace("{parameters}", words)


def names() -> list[str]:
    """The clients that there are, sorted."""
    return sorted(file.parent.name for file in (paths.fixtures() / "clients").glob("*/client.toml"))


@functools.cache
def find(name: str) -> ClientFile:
    """The client of that name; `UsageError` with the closest where there is none, or where its file is faulty."""
    if name not in names():
        raise UsageError.unknown("client", name, names())
    path = paths.fixtures() / "clients" / name / "client.toml"
    try:
        return ClientFile.model_validate(read_toml(path))
    except pydantic.ValidationError as error:
        raise together(problems(error, ClientFile)).within(str(path)) from error


def over(wire: str) -> list[str]:
    """The names of the clients that speak a protocol of a broker."""
    return [client.name for client in map(find, names()) if client.wire == wire]


def speaking(protocol: str, broker: BrokerFile) -> Iterator[ClientFile]:
    """The clients with which that broker can be tried over `jms` or `amqp091`."""
    for client in map(find, names()):
        if client.surface == protocol and client.wire in broker.protocols:
            yield client


def choose(asked: str, protocol: str, adapter: Adapter) -> ClientFile | None:
    """The client that was asked for, or the first that fits; None where the suite's own sessions speak, or nobody can.

    Raises `UsageError`: an unknown name, or one that does not go with the protocol or the broker.
    """
    if asked and protocol not in VENDOR_SURFACES:
        raise UsageError(f"--client {asked}: over {protocol} the suite's own sessions speak; add --protocol jms")
    fitting = (
        {client.name: client for client in speaking(protocol, adapter.file)} if protocol in VENDOR_SURFACES else {}
    )
    if not asked:
        return next(iter(fitting.values()), None)
    client = find(asked)
    if asked not in fitting:
        raise UsageError(
            f"--client {asked} speaks {client.wire} (--protocol {client.surface}), which {adapter.file.title} does not "
            f"over {protocol}: {', '.join(fitting) or 'no client does'}"
        )
    return client


def with_client(adapter: Adapter, client: ClientFile | None) -> Adapter:
    """The adapter whose broker is seen through that client, with its settings; itself for None.

    After its variant was chosen: what that adds may be hidden too.
    """
    if client is None:
        return adapter
    if not isinstance(adapter, FileAdapter):
        raise UsageError(f"{adapter.name} is a class of its own: --protocol {client.surface} needs one of a file")
    if adapter.place.rules is not None:
        raise UsageError(
            f"--protocol {client.surface}: no vendor's client is tried on a broker that runs already; amqp, stomp are"
        )
    file = adapter.file
    spoken = {**file.protocols, client.surface: client.through(file)}
    both = file.model_copy(
        update={
            "protocols": spoken,
            "settings": {**file.settings, **client.settings},
            "capabilities": file.capabilities - client.hides,
        }
    )
    return dataclasses.replace(adapter, file=both)


def of_broker(file: BrokerFile, settings: EffectiveSettings) -> EffectiveSettings:
    """The settings that the broker itself is started with: brokers of equal ones are the same."""
    own = {name for name, setting in file.settings.items() if isinstance(setting, ClientSetting)}
    if not own:
        return settings
    return EffectiveSettings(
        {name: value for name, value in settings.values.items() if name not in own},
        settings.absent - own,
        {name: value for name, value in settings.changed.items() if name not in own},
    )


def said(file: BrokerFile, settings: EffectiveSettings) -> dict[str, str]:
    """The parameters of the client's address that these settings ask for; a setting that is absent has none."""
    given = explicit(file, settings).items()
    return {
        setting.parameter: setting.text(settings.values[name])
        for name, setting in given
        if isinstance(setting, ClientSetting)
    }
