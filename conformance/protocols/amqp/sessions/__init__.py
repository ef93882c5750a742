"""The session of the suite over AMQP 1.0. Only client processes import it."""

from conformance.protocols.amqp.sessions.session import AmqpSession

SESSIONS = {"library": AmqpSession}
