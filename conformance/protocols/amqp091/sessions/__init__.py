"""The session of the suite over AMQP 0-9-1. Only client processes import it."""

from conformance.protocols.amqp091.sessions.session import Amqp091Session

SESSIONS = {"library": Amqp091Session}
