"""STOMP 1.2, by stomp.py and by a session that writes frames itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformance.protocols.model import ClientProtocol, Greeting, Library, Reproducer, Scheme, Traits

if TYPE_CHECKING:
    from conformance.protocols.stomp.options import StompOptions
    from conformance.protocols.ties import LinkReading


def _link() -> LinkReading:
    from conformance.protocols.stomp.ties import LINK

    return LINK


def _options() -> type[StompOptions]:
    from conformance.protocols.stomp.options import StompOptions

    return StompOptions


PROTOCOL = ClientProtocol(
    name="stomp",
    title="STOMP",
    link=_link,
    options=_options,
    sessions=("library", "raw"),
    library=Library("stomp.py", "stomp"),
    schemes=(Scheme("stomp", 61613), Scheme("stomp+ssl", 61614, secure=True)),
    # The answer to CONNECT, where a refused login is one too.
    greeting=Greeting(
        b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:localhost\n\n\0",
        re.compile(rb"[\r\n]*(CONNECTED|ERROR)\r?\n"),
        12,
    ),
    # A refusal is an ERROR, which need not name the SEND that it refuses (STOMP 1.2, ERROR).
    traits=Traits(confirm="STOMP RECEIPT", time_to_live=False, acks_one=False, refusal_names_send=False, typed=False),
    reproducer=Reproducer(
        template="stomp.py.j2",
        modules={"": "socket", "tls": "ssl"},
        capture="`tcpdump -i lo -w wire.pcap port PORT` beside `reproduce.py` keeps every byte",
        plain_only=True,
    ),
)
