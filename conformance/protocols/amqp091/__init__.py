"""AMQP 0-9-1, by a vendor's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.protocols.model import ClientProtocol

if TYPE_CHECKING:
    from conformance.protocols.ties import LinkReading


def _link() -> LinkReading:
    from conformance.protocols.amqp091.ties import LINK

    return LINK


PROTOCOL = ClientProtocol(name="amqp091", title="AMQP 0-9-1", link=_link, vendors=True)
