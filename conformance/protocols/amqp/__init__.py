"""AMQP 1.0, by python-qpid-proton."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance.protocols.model import ClientProtocol, Greeting, Library, Reproducer, Scheme, Traits

if TYPE_CHECKING:
    from conformance.protocols.amqp.options import AmqpOptions
    from conformance.protocols.ties import LinkReading


def _link() -> LinkReading:
    from conformance.protocols.amqp.ties import LINK

    return LINK


def _options() -> type[AmqpOptions]:
    from conformance.protocols.amqp.options import AmqpOptions

    return AmqpOptions


PROTOCOL = ClientProtocol(
    name="amqp",
    title="AMQP 1.0",
    link=_link,
    options=_options,
    sessions=("library",),
    library=Library("python-qpid-proton", "proton", "gcc libc6-dev python3-dev pkg-config libssl-dev"),
    schemes=(Scheme("amqp", 5672), Scheme("amqps", 5671, secure=True)),
    # Section 5.3.1. A broker of AMQP 0-9-1 answers `AMQP 0 0 9 1`: the first four bytes prove nothing.
    greeting=Greeting(b"AMQP\x03\x01\x00\x00", re.compile(rb"AMQP[\x00\x02\x03]\x01\x00\x00"), 8),
    traits=Traits(confirm="accepted outcome", confirm_stores=True, sasl=True, annotations=True, priority=True),
    depth_method="amqp-management",
    reproducer=Reproducer(
        template="amqp.py.j2",
        imports="""
from proton import Delivery, Described, Message, ProtonException, {tls}Terminus, Timeout, symbol
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, LinkOption
from proton.utils import BlockingConnection

LOST = (ProtonException, ConnectionError)
""",
        tls_name="SSLDomain, ",
        packages=("python-qpid-proton",),
        sasl_packages=("python-qpid-proton with Cyrus SASL",),
        capture="`PN_TRACE_FRM=1 python reproduce.py ...` prints every AMQP frame",
    ),
)
