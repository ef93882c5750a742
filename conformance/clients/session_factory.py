"""Choose the session class of a job, by one table of protocols and clients."""

from __future__ import annotations

from collections.abc import Callable

from conformance.clients.amqp.session import AmqpSession
from conformance.clients.session import Session
from conformance.clients.stomp.raw_session import RawStompSession
from conformance.clients.stomp.session import StompSession
from conformance.clients.workers.job import Job
from conformance.errors import ClientError

_SESSIONS: dict[tuple[str, str], Callable[[Job, Callable[[], None]], Session]] = {
    ("amqp", "library"): AmqpSession,
    ("stomp", "library"): StompSession,
    ("stomp", "raw"): RawStompSession,
}


def connect(job: Job, before_write: Callable[[], None]) -> Session:
    """Return an open session for the job; raise `ClientError` if there is no connection."""
    if job.vendor is not None:
        from conformance.clients.jms.session import JmsSession

        return JmsSession(job, before_write)
    make = _SESSIONS.get((job.protocol, job.client))
    if make is None:
        raise ClientError(f"there is no {job.client} client for {job.protocol}")
    return make(job, before_write)
