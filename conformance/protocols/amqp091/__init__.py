"""AMQP 0-9-1, by pika's codec or by a vendor's own client."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance.protocols.model import ClientProtocol, Greeting, Library, Reproducer, Scheme, Traits

if TYPE_CHECKING:
    from conformance.protocols.amqp091.options import Amqp091Options
    from conformance.protocols.ties import LinkReading


def _link() -> LinkReading:
    from conformance.protocols.amqp091.ties import LINK

    return LINK


def _options() -> type[Amqp091Options]:
    from conformance.protocols.amqp091.options import Amqp091Options

    return Amqp091Options


_QUESTIONS = frozenset(
    {
        "is an acknowledgement of nothing an error",
        "is a commit without transactions an error",
        "does basic.get find what a queue holds",
    }
)

PROTOCOL = ClientProtocol(
    name="amqp091",
    title="AMQP 0-9-1",
    link=_link,
    options=_options,
    sessions=("library",),
    vendors=True,
    library=Library("pika", "pika"),
    # Its own scheme is that of AMQP 1.0, which has the same port.
    schemes=(Scheme("amqp091", 5672), Scheme("amqps091", 5671, secure=True)),
    # connection.start, on channel 0: the first answer of a broker that speaks it.
    greeting=Greeting(b"AMQP\x00\x00\x09\x01", re.compile(rb"\x01\x00\x00.{4}\x00\x0a\x00\x0a", re.DOTALL), 11),
    # A basic.ack of a client has no answer. A basic.ack of the broker need not mean that the message is stored.
    traits=Traits(confirm="basic.ack", ack_confirm="transaction", priority=True, questions=_QUESTIONS),
    reproducer=Reproducer(
        template="amqp091.py.j2",
        imports="from decimal import Decimal\n\nfrom pika import frame, spec\n",
        modules={"": "socket", "tls": "ssl"},
        packages=("pika",),
        capture="`tcpdump -i lo -w wire.pcap port PORT` beside `reproduce.py` keeps every byte",
        plain_only=True,
        relays=False,
    ),
)
