"""Send a durable message through a broker with the client of the trials: the only proof that it is ready.

An open port, a log line and an answer in the right protocol may all come before a virtual host has recovered.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator

from conformance.adapters import READY_QUEUE, Adapter, Broker
from conformance.clients.depth import DepthGauge
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, Session, pump_until
from conformance.clients.session_factory import connect
from conformance.clients.workers import job as jobs
from conformance.clients.workers.job import Job
from conformance.errors import ClientError
from conformance.history import bare_header
from conformance.run.clients import depth_probe

ANSWER_S = 10.0
"""For each answer of a broker that is up: a confirm, a delivery, the end of an acknowledgement."""

_CONNECT_S = 5.0
_SILENCE_S = 0.5
_numbers = itertools.count(1)


def prove_ready(adapter: Adapter, broker: Broker, protocol: str) -> Callable[[], None]:
    """What `Broker.prove_ready` is set to: a message of its own each time, sent, received and acknowledged."""
    return functools.partial(exchange, adapter, broker, protocol, broker.queue_of(READY_QUEUE))


def ask_depth(broker: Broker) -> Callable[[str], int]:
    """What `Broker.ask_depth` is set to: the depth of a queue, as clients ask for it."""
    return functools.partial(depth_of, broker)


def drain_queue(adapter: Adapter, broker: Broker, protocol: str) -> Callable[[str], None]:
    """What `Broker.drain_queue` is set to: a client of `protocol` that takes whatever a queue holds."""
    return functools.partial(empty, adapter, broker, protocol)


def empty(adapter: Adapter, broker: Broker, protocol: str, queue: str) -> None:
    """Receive and acknowledge until nothing comes and the broker says that nothing is there.

    A depth may be told late, so silence is waited for as well. Raises `ClientError` where it does not come to that.
    """
    deadline = time.monotonic() + ANSWER_S
    with _session(adapter, broker, protocol, queue) as session:
        session.attach_receiver(queue, 100, AckHeader.INDIVIDUAL)
        while True:
            while pump_until(session.pump, lambda: bool(session.incoming), _SILENCE_S):
                taken = len(session.incoming)
                session.acknowledge([session.incoming.popleft() for _ in range(taken)])
                session.replenish(taken)
                deadline = time.monotonic() + ANSWER_S
            if not (left := depth_of(broker, queue)):
                return
            if time.monotonic() > deadline:
                raise ClientError(f"{queue} still holds {left} messages, and none comes: it cannot be emptied")


def depth_of(broker: Broker, queue: str) -> int:
    """How many messages the broker says that a queue of that name holds. Raises `ClientError`."""
    asked = DepthGauge(depth_probe(broker, queue), "proof-depth")
    try:
        return asked.ask(queue)
    except Disconnected as error:
        raise ClientError(f"[depth] was not answered: {error}") from error
    finally:
        asked.close()


def exchange(adapter: Adapter, broker: Broker, protocol: str, queue: str) -> None:
    """One durable message in and out again. Raises `ClientError` that says how far it came."""
    receive(adapter, broker, protocol, queue, send(adapter, broker, protocol, queue))


def send(adapter: Adapter, broker: Broker, protocol: str, queue: str) -> str:
    """Send one durable message; returns its id once the broker has confirmed it. Raises `ClientError`."""
    message = f"proof-{broker.epoch}-{next(_numbers)}-{time.monotonic_ns()}"
    with _session(adapter, broker, protocol, queue) as session:
        session.attach_sender(queue)
        if not pump_until(session.pump, lambda: session.sendable() > 0, ANSWER_S):
            raise ClientError(f"the broker gave no credit for {queue} within {ANSWER_S:g} s")
        session.send(message, message.encode(), durable=True)
        if not pump_until(session.pump, lambda: bool(session.outcomes), ANSWER_S):
            raise ClientError(f"the broker did not confirm a durable message to {queue} within {ANSWER_S:g} s")
        outcome = session.outcomes.popleft()
    if outcome.phase != "ok":
        raise ClientError(f"the broker refused a durable message to {queue}: {outcome.detail or outcome.phase}")
    return message


def receive(adapter: Adapter, broker: Broker, protocol: str, queue: str, message: str) -> None:
    """Receive until that message comes, and acknowledge all that comes. Raises `ClientError` where it does not."""
    came: list[str] = []
    confirmed = "ack_confirmed" in adapter.capabilities(protocol)
    with _session(adapter, broker, protocol, queue) as session:
        session.attach_receiver(queue, 10, AckHeader.INDIVIDUAL)
        deadline = time.monotonic() + ANSWER_S
        while message not in came:
            if not pump_until(session.pump, lambda: bool(session.incoming), deadline - time.monotonic()):
                others = f"; {len(came)} others came" if came else ""
                raise ClientError(f"a durable message to {queue} did not come within {ANSWER_S:g} s{others}")
            delivery = session.incoming.popleft()
            came.append(delivery.message)
            session.acknowledge([delivery], confirmed=confirmed)
            if confirmed and not pump_until(session.pump, lambda: bool(session.answers), ANSWER_S):
                raise ClientError(f"the broker did not answer an acknowledgement within {ANSWER_S:g} s")
            session.answers.clear()
            session.replenish(1)


def depth_reaches(broker: Broker, queue: str, wanted: int) -> None:
    """Ask for the depth of a queue, as clients do, until it is that; a broker may count late. Raises `ClientError`."""
    ask_depth = DepthGauge(depth_probe(broker, queue), "proof-depth")
    deadline = time.monotonic() + ANSWER_S
    try:
        while (found := ask_depth.ask(queue)) != wanted:
            if time.monotonic() > deadline:
                raise ClientError(f"[depth] says that {queue} holds {found}, and it should be {wanted}")
    except Disconnected as error:
        raise ClientError(f"[depth] was not answered: {error}") from error
    finally:
        ask_depth.close()


@contextlib.contextmanager
def _session(adapter: Adapter, broker: Broker, protocol: str, queue: str) -> Iterator[Session]:
    """Whatever ends the connection becomes one `ClientError`."""
    host, port = broker.endpoint(protocol)
    spoken = adapter.file.protocols[protocol]
    job = Job(
        role="publish",
        header=bare_header("proof"),
        history="",
        host=host,
        port=port,
        protocol=protocol,
        queue=queue,
        epoch=broker.epoch,
        ack_confirm=spoken.ack_confirm or "",
        destination=spoken.destination,
        outcomes=spoken.outcomes,
        stomp=jobs.StompWords(spoken.destination, dict(spoken.send), dict(spoken.subscribe), spoken.virtual_host),
        connect_s=_CONNECT_S,
        access=broker.access(protocol),
    )
    try:
        session = connect(job, lambda: None)
        try:
            yield session
        finally:
            session.close()
    except Disconnected as error:
        raise ClientError(f"the broker ended the connection: {error}") from error
