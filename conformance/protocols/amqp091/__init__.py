"""AMQP 0-9-1, by a vendor's own client."""

from conformance.protocols.model import ClientProtocol

PROTOCOL = ClientProtocol(name="amqp091", title="AMQP 0-9-1")
