"""Send a durable message through a broker with the client of the trials: only this proves that the broker is ready.

An open port, a log line and an answer in the right protocol may all come before a virtual host has recovered.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Iterator

from conformance.adapters import Adapter, Broker
from conformance.adapters.credentials import Access
from conformance.adapters.file.launch_tables import Remove
from conformance.clients import management
from conformance.clients.job import Job, Work
from conformance.clients.management import DepthClient
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.play import connect
from conformance.clients.session import Disconnected, Session, pump_until
from conformance.errors import ClientError
from conformance.history import bare_header
from conformance.protocols import WIRES, describe
from conformance.run.trial.clients import blocked_error
from conformance.run.trial.jobs import connection_to, depth_probe, dialect_of
from conformance.scenario.script import Drain

ANSWER_S = 10.0
"""For each answer of a broker that runs: a confirm, a delivery, the outcome of an acknowledgement."""

_CONNECT_S = 5.0
_SILENCE_S = 0.5
_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class ProbeClient:
    """A client of one protocol for brokers of one adapter; see `adapters.QueueClient`.

    Each method takes the name of the queue at the broker, and raises `ClientError` that says how far it came.
    """

    adapter: Adapter
    protocol: str

    def make(self, broker: Broker, queue: str) -> None:
        if describe(self.protocol).traits.queues_by_client:
            with self._session(broker, queue) as session:
                session.attach_receiver(queue, 1, AckHeader.INDIVIDUAL)

    def exchange(self, broker: Broker, queue: str) -> None:
        self.make(broker, queue)
        self.receive(broker, queue, self.send(broker, queue))

    def send(self, broker: Broker, queue: str) -> str:
        """Send a durable message; return its id once the broker has confirmed it."""
        message = f"proof-{broker.epoch}-{next(_numbers)}-{time.monotonic_ns()}"
        with self._session(broker, queue) as session:
            session.attach_sender(queue)
            if not pump_until(session.pump, lambda: session.sendable() > 0, ANSWER_S):
                raise _unserved(broker, f"the broker gave no credit for {queue} within {ANSWER_S:g} s")
            session.send(message, message.encode(), durable=True)
            if not pump_until(session.pump, lambda: bool(session.outcomes), ANSWER_S):
                raise _unserved(
                    broker, f"the broker did not confirm a durable message to {queue} within {ANSWER_S:g} s"
                )
            outcome = session.outcomes.popleft()
        if outcome.phase != "ok":
            raise ClientError(f"the broker refused a durable message to {queue}: {outcome.detail or outcome.phase}")
        return message

    def receive(self, broker: Broker, queue: str, message: str) -> None:
        """Receive until that message comes, and acknowledge every message."""
        came: list[str] = []
        confirmed = "ack_confirmed" in self.adapter.capabilities(self.protocol)
        with self._session(broker, queue) as session:
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

    def drain(self, broker: Broker, queue: str) -> None:
        """Receive and acknowledge until no message comes and the broker says that the queue is empty.

        A broker may count late, so the client also waits for silence.
        """
        deadline = time.monotonic() + ANSWER_S
        with self._session(broker, queue) as session:
            session.attach_receiver(queue, 100, AckHeader.INDIVIDUAL)
            while True:
                while pump_until(session.pump, lambda: bool(session.incoming), _SILENCE_S):
                    taken = len(session.incoming)
                    session.acknowledge([session.incoming.popleft() for _ in range(taken)])
                    session.replenish(taken)
                    deadline = time.monotonic() + ANSWER_S
                if not (left := self.depth(broker, queue)):
                    return
                if time.monotonic() > deadline:
                    raise ClientError(f"{queue} still holds {left} messages, and none comes: it cannot be emptied")

    def remove(self, request: Remove, host: str, port: int, access: Access) -> str:
        return management.remove(request, host, port, access)

    def depth(self, broker: Broker, queue: str, wanted: int | None = None) -> int:
        if not describe(self.protocol).traits.queues_by_client:
            return depth_of(broker, queue, wanted)
        with self._session(broker, queue) as session:
            session.attach_receiver(queue, 100, AckHeader.INDIVIDUAL)
            found = session.depth(queue) or 0
        if wanted is not None and found < wanted:  # what was acknowledged may come again, as MQTT lets it with QoS 1
            raise ClientError(f"a client found {found} messages in {queue}, and there should be at least {wanted}")
        return found

    def greeting(self, broker: Broker, queue: str) -> str:
        """Return what the broker calls itself; see `Session.greeting`."""
        with self._session(broker, queue) as session:
            session.attach_sender(queue)
            return session.greeting

    @contextlib.contextmanager
    def _session(self, broker: Broker, queue: str) -> Iterator[Session]:
        """Yield a session; a lost connection becomes a `ClientError`."""
        job = Job(
            connection=connection_to(broker.service, self.protocol, connect_s=_CONNECT_S),
            dialect=dialect_of(self.adapter, self.protocol),
            work=Work(step=Drain(), queue=queue),
            header=bare_header("proof"),
            history="",
            epoch=broker.epoch,
        )
        try:
            session = connect(job, lambda: None)
            try:
                yield session
            finally:
                session.close()
        except Disconnected as error:
            raise ClientError(f"the broker ended the connection: {error}") from error


def _unserved(broker: Broker, seen: str) -> ClientError:
    return blocked_error(broker, seen) or ClientError(seen)


def probe_client(adapter: Adapter, protocol: str, vendor: str) -> ProbeClient:
    """Return the client of the suite for brokers that are tried over `protocol`, or by a `vendor`'s client."""
    spoken = [word for word in WIRES if word in adapter.file.protocols]
    return ProbeClient(adapter, [*spoken, *WIRES][0] if vendor else protocol)


def depth_of(broker: Broker, queue: str, wanted: int | None = None) -> int:
    """Ask the broker for the number of messages in the queue, as clients do. Raises `ClientError`.

    With `wanted`, ask until that is the answer: a broker may count late.
    """
    gauge = DepthClient(depth_probe(broker, queue), "proof-depth")
    deadline = time.monotonic() + ANSWER_S
    try:
        while (found := gauge.ask(queue)) != wanted and wanted is not None:
            if time.monotonic() > deadline:
                raise ClientError(f"[depth] says that {queue} holds {found}, and it should be {wanted}")
    except Disconnected as error:
        raise ClientError(f"[depth] was not answered: {error}") from error
    finally:
        gauge.close()
    return found
