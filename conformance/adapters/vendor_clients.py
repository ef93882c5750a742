"""A vendor's own client as data: `fixtures/clients/NAME/client.toml`.

A client speaks one protocol of a broker (its `wire`) and offers the API of JMS, so it can test every broker that speaks
that protocol. An application sees less than what crosses the wire, and sometimes more: `hides` and `capabilities` say
which. Its settings join those of the broker, so that `--set` and a control reach both; the broker never gets them.
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
from conformance.adapters.file.launch_tables import Jar, Progress
from conformance.adapters.file.model import BrokerFile, Protocol, Setting
from conformance.adapters.file.settings import EffectiveSettings, explicit
from conformance.adapters.file.table import Table, Word, read_file
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import Adapter
from conformance.errors import UsageError
from conformance.protocols import OPAQUE, VENDOR_SURFACES, WIRES
from conformance.scenario.needs import FRAMES, GOES_ON, MODIFIED, Need


class ClientSetting(Setting):
    """A setting of the client: the name of the `parameter` of its address (`blockOnDurableSend`)."""

    parameter: str


class ClientFile(Table):
    """A whole `client.toml`.

    `api` is the package of its JMS classes, `factory` the class of its connections, which takes `address`, with
    `{host}`, `{port}` and `{parameters}`; `properties` are those of its JVM. If there is a `setter`, the factory takes
    no address: that method of it gets the name and the value of each parameter in `address`. `modes` has its number of
    each of our acknowledgement modes, by name; a mode that is missing is not supported. `individual` is the method by
    which a message acknowledges only itself. `prefetch` is a parameter in units of `prefetch_scale`; `quote` encloses
    the value of a parameter. `several` is the address with which it goes on by itself at another of several nodes: a
    part in brackets is there once for each. `lost` are the exceptions of a lost connection; any other exception is an
    answer of the broker. `virtual_host` is the only one that its address opens, if the protocol has them.
    `asynchronous` are the parameters for sending with a completion listener (JMS 2.0, section 7.3), or false if the
    client has none.
    """

    name: Word
    title: str
    vendor: str
    version: str
    surface: Word
    wire: Word
    api: Literal["jakarta.jms", "javax.jms"]
    factory: str
    address: str
    several: str = ""
    virtual_host: str = ""
    setter: str = ""
    individual: str = "acknowledge"
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

    @pydantic.field_validator("surface")
    @classmethod
    def _surface(cls, word: str) -> str:
        if word not in VENDOR_SURFACES:
            raise ValueError(f"expected {' or '.join(VENDOR_SURFACES)}")
        return word

    def install(self, progress: Progress | None = None, *, offline: bool = False) -> list[pathlib.Path]:
        """Fetch its jars and check their checksums; `FetchError` names a jar that is not available."""
        artifacts = [jar.of(self.name) for jar in self.jars]
        return fetch.fetch_all(artifacts, progress, offline=offline)

    def reaches(self, broker: BrokerFile) -> bool:
        """Whether clients of the broker open the virtual host that it opens."""
        options = broker.protocols[self.wire].options
        return self.virtual_host in ("", getattr(options, "virtual_host", ""))

    def through(self, broker: BrokerFile) -> Protocol:
        """Describe the protocol of the broker as an application of this client sees it."""
        over = broker.protocols[self.wire]
        seen = (over.capabilities - self.hides) | self.capabilities
        return Protocol(
            port=over.port,
            ack_confirm=self.ack_confirm,
            capabilities=seen,
            destination=over.destination,
            topic=over.topic,
        )

    def lacks(self, need: Need) -> str:
        """Say why a script that needs this cannot run with this client; empty if it can."""
        if need == MODIFIED:
            return f"an application of {self.title} has no call for it"
        if need == FRAMES and self.wire in OPAQUE:
            return f"no link can read the frames of {self.title}"
        if need == GOES_ON:
            return "" if self.several else f"the file of {self.name} has no address of several nodes (`several`)"
        if need.mode:
            return "" if need.mode in self.modes else f"{self.title} has no such mode"
        return f"an application of {self.title} has nothing of the kind" if need.of_client else ""

    def url(self, prefetch: int, said: Mapping[str, str], *, asynchronous: bool = False, several: bool = False) -> str:
        """Return its address with every parameter; the session fills in `{host}` and `{port}`."""
        more = (self.asynchronous or {}) if asynchronous else {}
        parameters = {**self.parameters, **more, self.prefetch: str(prefetch * self.prefetch_scale), **said}
        words = "&".join(f"{name}={self.quote}{value}{self.quote}" for name, value in parameters.items())
        return (self.several if several else self.address).replace("{parameters}", words)


def names() -> list[str]:
    return sorted(file.parent.name for file in (paths.fixtures() / "clients").glob("*/client.toml"))


@functools.cache
def find(name: str) -> ClientFile:
    """Read the client of that name; `UsageError` for an unknown name, with the closest, or a faulty file."""
    if name not in names():
        raise UsageError.unknown("client", name, names())
    path = paths.fixtures() / "clients" / name / "client.toml"
    return read_file(path, ClientFile)


def over(wire: str) -> list[str]:
    return [client.name for client in map(find, names()) if client.wire == wire]


def speaking(protocol: str, broker: BrokerFile) -> Iterator[ClientFile]:
    """Yield the clients that can test that broker over one of `VENDOR_SURFACES`."""
    for client in map(find, names()):
        if client.surface == protocol and client.wire in broker.protocols and client.reaches(broker):
            yield client


def choose(asked: str, protocol: str, adapter: Adapter) -> ClientFile | None:
    """Return the client that was asked for, or the first that fits; None if none fits, or the suite has its own.

    Raises `UsageError`: an unknown name, or a client that does not fit the protocol or the broker.
    """
    if asked and protocol not in VENDOR_SURFACES:
        raise UsageError(
            f"--client {asked}: over {protocol} the suite uses its own client; add --protocol jms",
            code="client-not-needed",
            client=asked,
            protocol=protocol,
        )
    fitting = (
        {client.name: client for client in speaking(protocol, adapter.file)} if protocol in VENDOR_SURFACES else {}
    )
    if not asked:
        return None if protocol in WIRES else next(iter(fitting.values()), None)
    client = find(asked)
    if asked in fitting:
        return client
    if client.wire in adapter.file.protocols and not client.reaches(adapter.file):
        why = (
            f"opens the virtual host {client.virtual_host!r}, and the file of {adapter.file.name} "
            f"says another one in [protocols.{client.wire}]: leave --client out to use the suite's own client"
        )
    else:
        why = (
            f"speaks {client.wire} (--protocol {client.surface}), which {adapter.file.title} does not "
            f"over {protocol}: {', '.join(fitting) or 'no client does'}"
        )
    raise UsageError(
        f"--client {asked} {why}",
        code="client-does-not-fit",
        client=asked,
        protocol=protocol,
        fitting=tuple(fitting),
    )


def with_client(adapter: Adapter, client: ClientFile | None) -> Adapter:
    """Return the adapter with the capabilities and settings that the client leaves and adds; itself for None.

    Choose the variant first: the client may hide what the variant adds.
    """
    if client is None:
        return adapter
    if not isinstance(adapter, FileAdapter):
        raise UsageError(
            f"{adapter.name} is a Python class: --protocol {client.surface} needs an adapter of a file",
            code="client-needs-file",
        )
    if adapter.launcher.owned:
        raise UsageError(
            f"--protocol {client.surface}: vendors' clients are not used with an external broker; use "
            f"{' or '.join(WIRES)}",
            code="client-with-external",
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
    """Return the settings that the broker itself starts with: trials with equal ones can share a broker."""
    own = {name for name, setting in file.settings.items() if isinstance(setting, ClientSetting)}
    if not own:
        return settings
    return EffectiveSettings(
        {name: value for name, value in settings.values.items() if name not in own},
        settings.absent - own,
        {name: value for name, value in settings.changed.items() if name not in own},
    )


def address_parameters(file: BrokerFile, settings: EffectiveSettings) -> dict[str, str]:
    """Return the parameters of the client's address for these settings; an absent setting has none."""
    given = explicit(file, settings).items()
    return {
        setting.parameter: setting.text(settings.values[name])
        for name, setting in given
        if isinstance(setting, ClientSetting)
    }
