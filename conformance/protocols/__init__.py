"""The protocols of clients, each in one folder. `PROTOCOLS` is the only list of them.

A folder's `__init__` has the record of its protocol (`model`). A further protocol is one more folder, and one entry of
`PROTOCOLS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from conformance.protocols import amqp, amqp091, jms, mqtt, mqtt311, stomp
from conformance.protocols.model import ClientProtocol, Reproducer, Scheme

if TYPE_CHECKING:
    from conformance.protocols.ties import LinkReading

PROTOCOLS: Mapping[str, ClientProtocol] = {
    each.PROTOCOL.name: each.PROTOCOL for each in (amqp, stomp, jms, amqp091, mqtt, mqtt311)
}
"""By name, in the order of preference."""

WIRES = tuple(name for name, each in PROTOCOLS.items() if each.sessions)
"""The protocols that a session of this suite speaks. The first one is the default."""

VENDOR_SURFACES = tuple(name for name, each in PROTOCOLS.items() if each.vendors)
"""The protocols for a vendor's own client instead of a session of this suite."""

OPAQUE = tuple(wire for each in PROTOCOLS.values() for wire in each.opaque)
"""Protocols of a vendor's own client (Artemis, OpenMQ), whose frames this suite cannot read."""

SCHEMES: Mapping[str, tuple[str, Scheme]] = {
    scheme.name: (name, scheme) for name, each in PROTOCOLS.items() for scheme in each.schemes
}
"""By the scheme of a URL: the protocol, and what else the scheme says."""

REPRODUCERS: Mapping[str, Reproducer] = {name: each.reproducer for name, each in PROTOCOLS.items() if each.reproducer}
"""The protocols of which a trial can become a script outside the suite."""


def describe(name: str) -> ClientProtocol:
    """Return the record of a protocol; one without facts for a word that no client of the suite speaks (`openwire`)."""
    return PROTOCOLS.get(name) or ClientProtocol(name=name, title=name.upper())


def others(protocol: str, spoken: Collection[str], with_topics: Collection[str] = ()) -> tuple[str, ...]:
    """Return those of the protocols that a broker has `spoken` that serve the queues of another one.

    A queue that its client makes is a subscription, which clients that send to a topic fill: those `with_topics`.

    >>> others("amqp", ["amqp", "stomp", "mqtt"]), others("mqtt", ["amqp", "mqtt"]), others("mqtt", ["amqp"], ["amqp"])
    (('stomp',), (), ('amqp',))
    """
    able = with_topics if describe(protocol).traits.queues_by_client else spoken
    return tuple(
        name for name in WIRES if name != protocol and name in able and not describe(name).traits.queues_by_client
    )


def only_with(session: str) -> str:
    """Return the protocol that alone has this kind of session; empty if several have it, or none.

    >>> only_with("raw"), only_with("library")
    ('stomp', '')
    """
    found = [name for name, each in PROTOCOLS.items() if session in each.sessions]
    return found[0] if len(found) == 1 else ""


def protocol_of_depth(depth_method: str) -> str:
    """Return the protocol over which `[depth]` of this method asks; empty if it uses none."""
    return next((name for name, each in PROTOCOLS.items() if each.depth_method == depth_method), "")


def link_reading(wire: str) -> LinkReading:
    """Return how the frames of this protocol are read and tied to messages; `KeyError` if the suite cannot do it."""
    if wire in OPAQUE:
        from conformance.protocols.ties import UNREAD

        return UNREAD
    if (found := PROTOCOLS[wire].link) is None:
        raise KeyError(wire)
    return found()
