"""Over which protocol clients of this suite speak to a broker, and by which library; or why over none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from conformance.adapters import Adapter
from conformance.errors import UsageError

PROTOCOLS = ("amqp", "stomp")
_LIBRARIES: Mapping[str, str] = {"amqp": "python-qpid-proton", "stomp": "stomp.py"}
"""The distribution whose library speaks the protocol."""


def chosen(asked: str, adapter: Adapter) -> str:
    """The protocol that was asked for, or else the first of ours that the broker speaks, or else its own.

    Raises `UsageError` for a word that is none, or that this broker does not speak, and for one that only the broker
    speaks where it speaks one of ours as well.
    """
    own = adapter.file.protocols
    protocol = asked or next((word for word in (*PROTOCOLS, *own) if word in own), PROTOCOLS[0])
    if protocol not in PROTOCOLS and (protocol not in own or set(PROTOCOLS) & set(own)):
        raise UsageError.unknown("protocol", protocol, PROTOCOLS)
    adapter.capabilities(protocol)
    return protocol


def mute(protocol: str, adapter: Adapter) -> str:
    """Why nobody here can speak to the broker at all; empty where somebody can."""
    if protocol in PROTOCOLS:
        return ""
    return (
        f"No client of this suite speaks {protocol} (--protocol {protocol} is not there yet), and "
        f"{adapter.file.title} speaks nothing else."
    )


def client(protocol: str) -> tuple[str, dict[str, str]]:
    """The library with its version, in words and as a table; `none` where nobody speaks it."""
    name = _LIBRARIES.get(protocol)
    if name is None:
        return "none", {}
    return f"{name} {version(name)}", {name: version(name)}
