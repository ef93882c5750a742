"""The record of a protocol: all that the suite knows about it before a client is imported."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from conformance.protocols.options import ProtocolOptions
    from conformance.protocols.ties import LinkReading


class Scheme(NamedTuple):
    """A scheme of URLs. `port` is the brokers' default; with `secure` the connection is in TLS."""

    name: str
    port: int
    secure: bool = False


class Library(NamedTuple):
    """The library of the suite's own session: the `distribution` that has it and the `module` that it imports.

    `build` names the Debian packages that a build of it needs, if it has no wheel.
    """

    distribution: str
    module: str
    build: str = ""


class Greeting(NamedTuple):
    """The question by which a port is known: the `request`, the right `answer`, and how many bytes are `enough`."""

    request: bytes
    answer: re.Pattern[bytes]
    enough: int


class Traits(NamedTuple):
    """What a client can rely on over this protocol.

    `confirm` names the answer to a send. `confirm_stores`: that answer promises that a durable message is stored; else
    the capability `confirm_means_stored` of a broker says so. `time_to_live`: a message has a field for it; else
    broker.toml names the headers. `priority`: it has one for that. `acks_one`: an acknowledgement can cover one
    delivery only; else the capability `individual_ack` says so. `refusal_names_send`: a refusal says which message was
    refused. `typed`: a property may be a number or a truth, and not only a text. `queues_by_client`: a client makes its
    queue by its first connection, and no broker says how many messages are in it. `questions`: what a client can ask a
    broker (the step `Ask`). `session_expiry`: a client says how long its session outlives it. `ack_confirm`: the way in
    which a broker may answer an acknowledgement (a word of `ack_confirm` in broker.toml), unless the protocol is
    `without` such answers.
    """

    confirm: str = "confirm"
    confirm_stores: bool = False
    sasl: bool = False
    annotations: bool = False
    time_to_live: bool = True
    priority: bool = False
    acks_one: bool = True
    refusal_names_send: bool = True
    typed: bool = True
    queues_by_client: bool = False
    questions: frozenset[str] = frozenset()
    session_expiry: bool = False
    ack_confirm: str = "disposition"


class Reproducer(NamedTuple):
    """How a trial becomes a script outside the suite, and how a maintainer sees its frames.

    `template` is a file of `fixtures/reproduce`. `imports` is the text of its imports, in which `{tls}` is `tls_name`
    over TLS and else empty. `modules` are those of Python, by the part of the script that needs them. `packages` must
    be installed, and `sasl_packages` instead if the login is SCRAM. `capture` says how to keep the frames, and
    `plain_only` that this fails over TLS. `relays`: its relay can count the frames of this protocol, so that a script
    cuts a connection.
    """

    template: str
    capture: str
    imports: str = ""
    tls_name: str = ""
    modules: Mapping[str, str] = types.MappingProxyType({})
    packages: tuple[str, ...] = ()
    sasl_packages: tuple[str, ...] = ()
    plain_only: bool = False
    relays: bool = True


class ClientProtocol(NamedTuple):
    """A protocol of clients.

    `link` imports what reads its frames and ties them to messages, and `options` the class of its own keys in a
    broker's file. `sessions` are the kinds of clients that the suite has of its own (`Scenario.client`), which its
    folder `sessions` holds. `vendors`: it is spoken through vendors' own clients; `opaque` are wire protocols of these
    whose frames the suite cannot read. `depth_method` is the word of `[depth]` in broker.toml that asks over this
    protocol. `lacks` says why no client meets a need of a scenario over it, by the words of the need, and `without` are
    the capabilities that no broker has over it.
    """

    name: str
    title: str
    link: Callable[[], LinkReading] | None = None
    options: Callable[[], type[ProtocolOptions]] | None = None
    sessions: tuple[str, ...] = ()
    vendors: bool = False
    library: Library | None = None
    schemes: tuple[Scheme, ...] = ()
    greeting: Greeting | None = None
    traits: Traits = Traits()
    opaque: tuple[str, ...] = ()
    depth_method: str = ""
    lacks: Mapping[str, str] = types.MappingProxyType({})
    without: frozenset[str] = frozenset()
    reproducer: Reproducer | None = None
