"""Choose protocol and client library for a broker, or say why there is none.

Also the settings of a vendor's client, and what an application of it cannot do.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from conformance.adapters import Adapter, vendor_clients
from conformance.adapters.file.settings import EffectiveSettings
from conformance.adapters.vendor_clients import ClientFile
from conformance.claims import VENDOR_SURFACES
from conformance.clients.workers.job import Vendor
from conformance.errors import UsageError
from conformance.scenario import CALLS, FRAMES, MODIFIED


def lacks(client: ClientFile, need: str) -> str:
    """Why a script that needs this of its client (`Scenario.of_client`) cannot be played; empty where it can."""
    kind, _, mode = need.partition(" ")
    if need in CALLS:
        return f"an application of {client.title} has nothing of the kind"
    return f"{client.title} has no such mode" if kind == "mode" and mode not in client.modes else ""


def unseen(client: ClientFile) -> dict[str, str]:
    """What a script may need (`Scenario.needs`) and a trial through this client has not, and why."""
    found = {MODIFIED: f"an application of {client.title} has no word for it"}
    if client.wire == "core":
        found[FRAMES] = f"no link tells what {client.title} says"
    return found


def told(
    adapter: Adapter,
    protocol: str,
    settings: EffectiveSettings,
    client: str,
    prefetch: int,
    *,
    asynchronous: bool = False,
) -> Vendor:
    """What a process needs to use the client of that name; its jars are here already.

    It has no transactions where the broker has none: RabbitMQ 3.10.8 leaves who asks for one without an answer.
    """
    file = vendor_clients.find(client)
    without = set() if "transactions" in adapter.capabilities(protocol) else {"transacted"}
    asynchronous = asynchronous and file.asynchronous is not False
    return Vendor(
        name=file.name,
        api=file.api,
        factory=file.factory,
        url=file.url(prefetch, vendor_clients.said(adapter.file, settings), asynchronous=asynchronous),
        jars=tuple(map(str, file.install(offline=True))),
        modes={mode: number for mode, number in file.modes.items() if mode not in without},
        lost=file.lost,
        asynchronous=asynchronous,
        properties=dict(file.properties),
        java=file.java,
    )


WIRES = ("amqp", "stomp")
"""What the suite's own sessions speak."""

PROTOCOLS = (*WIRES, *VENDOR_SURFACES)
_LIBRARIES: Mapping[str, str] = {"amqp": "python-qpid-proton", "stomp": "stomp.py"}
"""The distribution whose library speaks the protocol."""


def chosen(asked: str, adapter: Adapter) -> str:
    """The protocol that was asked for, or else the first of ours that the broker speaks, or else its own.

    Raises `UsageError` for a word that is none, or that this broker does not speak, and for one that only the broker
    speaks where it speaks one of ours as well.
    """
    own = adapter.file.protocols
    protocol = asked or next((word for word in (*WIRES, *own) if word in own), WIRES[0])
    if protocol in VENDOR_SURFACES and (vendor := next(vendor_clients.speaking(protocol, adapter.file), None)):
        client(protocol, vendor)  # what loads it is installed
        return protocol
    if protocol not in PROTOCOLS and (protocol not in own or set(WIRES) & set(own)):
        raise UsageError.unknown("protocol", protocol, PROTOCOLS)
    if protocol in VENDOR_SURFACES and protocol not in own:
        raise UsageError(f"--protocol {protocol}: no client that this suite knows speaks with {adapter.file.title} so")
    adapter.capabilities(protocol)
    return protocol


def no_client_reason(protocol: str, adapter: Adapter) -> str:
    """Why nobody here can speak to the broker at all; empty where somebody can."""
    if protocol in WIRES or next(vendor_clients.speaking(protocol, adapter.file), None):
        return ""
    return f"No client that this suite has speaks {protocol} as {adapter.file.title} does, and it speaks nothing else."


def client(protocol: str, vendor: ClientFile | None = None) -> tuple[str, dict[str, str]]:
    """The library or the vendor's client with its version, in words and as a table; `none` where nobody speaks it.

    Raises `UsageError` where a vendor's client was asked for, and what loads it is not installed.
    """
    if vendor is not None:
        try:
            jpype = version("JPype1")
        except PackageNotFoundError as error:
            raise UsageError(f"{vendor.title} needs JPype: pip install 'ack-conformance[jms]'") from error
        return f"{vendor.title} {vendor.version}", {vendor.name: vendor.version, "JPype1": jpype}
    name = _LIBRARIES.get(protocol)
    if name is None:
        return "none", {}
    return f"{name} {version(name)}", {name: version(name)}
