"""Choose the session class of a job, by one table of protocols and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.clients.amqp.connection import Wire
from conformance.clients.amqp.session import AmqpSession
from conformance.clients.session import Session
from conformance.clients.stomp.raw_session import RawStompSession
from conformance.clients.stomp.session import StompSession
from conformance.clients.workers.job import Job
from conformance.errors import ClientError


def connect(job: Job, before_write: Callable[[], None]) -> Session:
    """An open session for the job; raises `ClientError` where nobody answers."""
    if job.vendor is not None:
        from conformance.clients.jms.session import JmsSession

        return JmsSession(job, job.vendor, before_write)
    make = _SESSIONS.get((job.protocol, job.client))
    if make is None:
        raise ClientError(f"there is no {job.client} client for {job.protocol}")
    return make(job, before_write)


def _amqp(job: Job, before_write: Callable[[], None]) -> Session:
    held: list[AmqpSession] = []
    wire = Wire(
        job.host,
        job.port,
        f"{job.header.trial}-{job.header.process}",
        dispatch=lambda event: held[0].dispatch(event) if held else None,
        before_write=before_write,
        after_frame=lambda: held[0].frame_ended() if held else None,
        connect_s=job.connect_s,
        access=job.access,
    )
    held.append(AmqpSession(wire, job.ack_confirm, job.asks, job.destination, job.outcomes))
    return held[0]


def _stomp(job: Job, before_write: Callable[[], None]) -> Session:
    return StompSession(job.host, job.port, **_spoken(job, before_write))


def _raw_stomp(job: Job, before_write: Callable[[], None]) -> Session:
    return RawStompSession(job.host, job.port, **_spoken(job, before_write))


def _spoken(job: Job, before_write: Callable[[], None]) -> dict[str, Any]:
    return {
        "words": job.stomp,
        "before_write": before_write,
        "connect_s": job.connect_s,
        "asks": job.asks,
        "access": job.access,
    }


_SESSIONS: dict[tuple[str, str], Callable[[Job, Callable[[], None]], Session]] = {
    ("amqp", "library"): _amqp,
    ("stomp", "library"): _stomp,
    ("stomp", "raw"): _raw_stomp,
}
