"""The sessions of the suite over STOMP: by stomp.py, and by frames that it writes itself. Only clients import them."""

from conformance.protocols.stomp.sessions.raw_session import RawStompSession
from conformance.protocols.stomp.sessions.session import StompSession

SESSIONS = {"library": StompSession, "raw": RawStompSession}
