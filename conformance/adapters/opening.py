"""Open a broker: from the words of a user to an adapter with its settings, vendor's client and credentials."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from conformance.adapters import vendor_clients
from conformance.adapters.config import own_configuration
from conformance.adapters.credentials import OPEN, Access, library_lacks
from conformance.adapters.external.addresses import places
from conformance.adapters.file.settings import parse_assignments
from conformance.adapters.file_adapter import FileAdapter
from conformance.adapters.interface import Adapter
from conformance.adapters.registry import find
from conformance.adapters.vendor_clients import ClientFile
from conformance.claims import VENDOR_SURFACES, Value
from conformance.errors import UsageError

WIRES = ("amqp", "stomp")
"""The protocols of the suite's own sessions."""

PROTOCOLS = (*WIRES, *VENDOR_SURFACES)
_LIBRARIES: Mapping[str, str] = {"amqp": "python-qpid-proton", "stomp": "stomp.py"}
"""The distribution of the library for each protocol."""


@dataclasses.dataclass(frozen=True)
class BrokerRequest:
    """Which broker to open, and how clients connect to it.

    `adapter` is `NAME[@VERSION][:LAUNCHER]`; NAME may be a file. `protocol` is one word, or empty for the first that
    a client of the suite speaks; None means that no client is chosen, and that no credentials are checked. `settings`
    are NAME=VALUE as a user types them, `overrides` values that are known already. `config` is the user's own
    configuration, a file or folder.
    """

    adapter: str
    protocol: str | None = None
    client: str = ""
    settings: Sequence[str] = ()
    overrides: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    config: pathlib.Path | None = None
    access: Access = OPEN


@dataclasses.dataclass(frozen=True)
class OpenedBroker:
    """An adapter that is ready to prepare brokers, and what was chosen for it.

    `overrides` are the values of every setting that the request changes. `client` is None if the suite's own sessions
    are used.
    """

    adapter: Adapter
    protocol: str
    client: ClientFile | None
    overrides: Mapping[str, Value]


def open_broker(request: BrokerRequest) -> OpenedBroker:
    """Find the adapter and apply everything that the request asks for. Nothing is downloaded or started.

    Raises `UsageError`: a word is unknown, two words do not go together, a file is faulty, a secret is missing, or a
    client library of this machine lacks the SASL mechanism.
    """
    adapter = own_configuration.applied(find(request.adapter), request.config)
    protocol, client = "", None
    if request.protocol is not None:
        protocol = choose_protocol(request.protocol, adapter)
        client = vendor_clients.choose(request.client, protocol, adapter)
    settings = vendor_clients.with_client(adapter, client).file
    overrides = {**request.overrides, **parse_assignments(request.settings, settings)}
    # The variant comes first: a client may hide what it adds.
    adapter = vendor_clients.with_client(adapter.chosen(overrides), client)
    adapter = with_credentials(adapter, request.access)
    if request.protocol is not None:
        check_credentials(adapter, protocol, client)
    return OpenedBroker(adapter, protocol, client, overrides)


def choose_protocol(asked: str, adapter: Adapter) -> str:
    """Return the protocol that was asked for, or the first of `WIRES` that the broker speaks, or its own first one.

    Raises `UsageError` if the word is unknown, or no client of the suite speaks it with this broker. A protocol that
    no client speaks is accepted only from a broker that has no other: its run reports NOT_TRIED.
    """
    own = adapter.file.protocols
    protocol = asked or next((word for word in (*WIRES, *own) if word in own), WIRES[0])
    if protocol in VENDOR_SURFACES and (vendor := next(vendor_clients.speaking(protocol, adapter.file), None)):
        client_versions(protocol, vendor)  # the bridge to Java is installed
        return protocol
    if protocol not in PROTOCOLS and (protocol not in own or set(WIRES) & set(own)):
        raise UsageError.unknown("protocol", protocol, PROTOCOLS)
    if protocol in VENDOR_SURFACES and protocol not in own:
        raise UsageError(
            f"--protocol {protocol}: no client of this suite speaks {protocol} with {adapter.file.title}",
            code="no-client",
            protocol=protocol,
            adapter=adapter.name,
        )
    adapter.capabilities(protocol)
    return protocol


def no_client_reason(protocol: str, adapter: Adapter) -> str:
    """Say why no client of the suite can connect to the broker; empty if one can."""
    if protocol in WIRES or next(vendor_clients.speaking(protocol, adapter.file), None):
        return ""
    return f"No client that this suite has speaks {protocol} as {adapter.file.title} does, and it speaks nothing else."


def client_versions(protocol: str, vendor: ClientFile | None = None) -> tuple[str, dict[str, str]]:
    """Return the client library, or the vendor's client, with its version: in words and as a table.

    It is `none` for a protocol without a client. Raises `UsageError` if a vendor's client needs JPype and it is not
    installed.
    """
    if vendor is not None:
        try:
            jpype = version("JPype1")
        except PackageNotFoundError as error:
            raise UsageError(
                f"{vendor.title} needs JPype: pip install 'ack-conformance[jms]'", code="missing-library", name="JPype1"
            ) from error
        return f"{vendor.title} {vendor.version}", {vendor.name: vendor.version, "JPype1": jpype}
    name = _LIBRARIES.get(protocol)
    if name is None:
        return "none", {}
    return f"{name} {version(name)}", {name: version(name)}


def with_credentials(adapter: Adapter, typed: Access) -> Adapter:
    """Return the adapter with the typed credentials above those of its file. No secret is read."""
    if typed == OPEN:
        return adapter
    if not dataclasses.is_dataclass(adapter):
        raise UsageError(
            f"{adapter.name} is a Python class and takes no credentials from the command line; put them into [access] "
            "of its table",
            code="credentials-of-class",
            adapter=adapter.name,
        )
    return dataclasses.replace(adapter, file=adapter.file.with_credentials(typed))


def check_credentials(adapter: Adapter, protocol: str, client: ClientFile | None = None) -> None:
    """Check, before anything is started, that clients can use these credentials over the protocol.

    Raises `UsageError`: two words do not go together, a secret is missing, or a client library has no such mechanism.
    """
    if client is not None and credentials_of(adapter, protocol) != OPEN:
        raise UsageError(
            f"--client {client.name}: vendors' clients support neither TLS nor a login here; use --protocol amqp or "
            "stomp",
            code="client-without-credentials",
            client=client.name,
        )
    access = adapter.file.credentials(protocol, adapter.path.parent, _of_address(adapter, protocol))
    if access.password is not None:
        access.password.read()
    if missing := library_lacks(access):
        raise UsageError(missing, code="mechanism-not-supported", mechanism=access.mechanism)


def credentials_of(adapter: Adapter, protocol: str) -> Access:
    """Return what clients of the protocol use: what the user typed, then the address, then the file. Unchecked."""
    return adapter.file.access.of(protocol, adapter.path.parent, _of_address(adapter, protocol))


def _of_address(adapter: Adapter, protocol: str) -> Access:
    """Return the credentials in the address of an external broker."""
    rules = adapter.place.rules if isinstance(adapter, FileAdapter) else None
    found = places(rules.urls, adapter.file).get(protocol) if rules is not None else None
    return found.access if found is not None else OPEN
