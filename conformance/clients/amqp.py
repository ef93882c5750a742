"""AMQP 1.0 through python-qpid-proton's engine: one connection, one session, at most one link each way.

Confirmed acknowledgements go one of two ways. `disposition`: accepted with settled=false, and the broker's settlement
is the answer (AMQP 1.0 section 2.6.12). `transaction`: a transaction of one acknowledgement, whose discharge is
answered (section 4.4.3); brokers that never settle first, Artemis among them, need it.
"""

from __future__ import annotations

import json
import urllib.request
from collections import deque
from typing import Any

from proton import Delivery, Described, Endpoint, Event, Message, Terminus, symbol, ulong

from conformance.clients.job import DepthProbe
from conformance.clients.session import Outcome, Received
from conformance.clients.wire import Disconnected, Wire
from conformance.errors import ClientError
from conformance.history import Phase

_OUTCOMES = {
    Delivery.ACCEPTED: (Phase.OK, None),
    Delivery.REJECTED: (Phase.FAIL, "rejected"),
    Delivery.RELEASED: (Phase.FAIL, "released"),
    Delivery.MODIFIED: (Phase.FAIL, "modified"),
}
_TRANSACTIONAL = 0x34
_ANSWER_S = 30.0


class AmqpSession:
    """See `Session`; every method is called from one thread.

    Raises:
        ClientError: The broker refused a link, or closed the connection with an error of its own.
        Disconnected: From `pump`, when the connection is lost.
    """

    def __init__(self, wire: Wire, ack_confirm: str, probe: DepthProbe | None) -> None:
        self.outcomes: deque[Outcome] = deque()
        self.incoming: deque[Received] = deque()
        self.confirmed: deque[str] = deque()
        self._wire, self._ack_confirm, self._probe = wire, ack_confirm, probe
        self._session = wire.connection.session()
        self._session.open()
        self._sender: Any = None
        self._receiver: Any = None
        self._coordinator: Any = None
        self._unconfirmed: dict[Any, str] = {}  # by proton's delivery: tags may be any bytes
        self._answers: deque[Any] = deque()
        self._replies: deque[Any] = deque()
        self._management: tuple[Any, Any] | None = None
        self._tags = 0
        self._deliveries = 0
        self.link_name = ""

    # what roles call

    def attach_sender(self, queue: str) -> None:
        """Open a sender to `queue` with the `queue` capability, unsettled."""
        self._sender = self._open(self._session.sender(f"sender-{queue}"), target=queue)

    def attach_receiver(self, queue: str, credit: int) -> None:
        """Open a receiver from `queue`, unsettled, with that much credit."""
        self.link_name = f"{self._wire.connection.container}:{queue}"
        self._receiver = self._open(self._session.receiver(self.link_name), source=queue)
        self.replenish(credit)

    def sendable(self) -> int:
        """Link credit that is left."""
        return int(self._sender.credit)

    def send(self, message: str, body: bytes, *, durable: bool) -> None:
        """Encode and put on the link; nothing leaves before `pump`."""
        self._sender.delivery(message)
        self._sender.stream(Message(body=body, id=message, durable=durable).encode())
        self._sender.advance()

    def acknowledge(self, received: Received) -> None:
        """Disposition accepted, settled."""
        received.handle.update(Delivery.ACCEPTED)
        received.handle.settle()

    def acknowledge_confirmed(self, received: Received) -> None:
        """Disposition accepted that the broker must answer."""
        if self._ack_confirm == "transaction":
            self._acknowledge_in_transaction(received)
        else:
            self._unconfirmed[received.handle] = received.message
            received.handle.update(Delivery.ACCEPTED)

    def replenish(self, credit: int) -> None:
        """Flow; sent at once, or a broker would wait for credit that only exists here."""
        self._receiver.flow(credit)

    def pump(self, timeout_s: float | None) -> None:
        """One round of I/O."""
        self._wire.pump(timeout_s)

    def close(self) -> None:
        """Close the connection in order."""
        self._wire.close()

    def depth(self, queue: str) -> int:
        """Ask the broker, in the way that its adapter declares."""
        probe = self._probe
        if probe is None:
            raise ClientError(f"the adapter declares no way to ask for the depth of {queue}")
        if probe.method == "http":
            with urllib.request.urlopen(probe.url, timeout=_ANSWER_S) as answer:  # noqa: S310 - 127.0.0.1, ours
                return int(json.load(answer)[probe.field])
        return self._managed_depth(probe)

    # the other side

    def dispatch(self, event: Any) -> None:
        """Take one event of the engine."""
        kind = event.type
        if kind == Event.DELIVERY:
            self._on_delivery(event.link, event.delivery)
        elif kind in (Event.LINK_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE, Event.CONNECTION_REMOTE_CLOSE):
            endpoint = event.context
            if endpoint.remote_condition is not None and endpoint.state & Endpoint.LOCAL_ACTIVE:
                condition = endpoint.remote_condition
                raise ClientError(f"the broker closed a {type(endpoint).__name__.lower()}: {condition}")
            if kind == Event.CONNECTION_REMOTE_CLOSE and endpoint.state & Endpoint.LOCAL_ACTIVE:
                raise Disconnected("closed by the broker")

    def _on_delivery(self, link: Any, delivery: Any) -> None:
        if link == self._sender:
            self._on_outcome(delivery)
        elif link == self._receiver:
            if delivery.readable and not delivery.partial:
                self._on_message(link, delivery)
            elif delivery.settled:
                self._on_ack_answer(delivery)
        elif link.is_sender:
            if link == self._coordinator and delivery.remote_state:
                self._answers.append((delivery.remote_state, list(delivery.remote.data or [])))
            if delivery.remote_state or delivery.settled:
                delivery.settle()
        elif delivery.readable and not delivery.partial:
            self._replies.append(self._decode(link, delivery))
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()

    def _on_outcome(self, delivery: Any) -> None:
        state = delivery.remote_state
        if state in _OUTCOMES:
            phase, detail = _OUTCOMES[state]
            self.outcomes.append(Outcome(delivery.tag, phase, detail))
        if delivery.settled:
            if state not in _OUTCOMES:
                self.outcomes.append(Outcome(delivery.tag, Phase.FAIL, "settled without an outcome"))
            delivery.settle()

    def _on_message(self, link: Any, delivery: Any) -> None:
        message = self._decode(link, delivery)
        body = message.body
        self._deliveries += 1
        self.incoming.append(
            Received(
                message=str(message.id),
                body=bytes(body) if isinstance(body, bytes | memoryview) else str(body).encode(),
                count=int(message.delivery_count),
                first_acquirer=bool(message.first_acquirer),
                redelivered=int(message.delivery_count) > 0,
                delivery=str(self._deliveries),
                handle=delivery,
            )
        )

    def _on_ack_answer(self, delivery: Any) -> None:
        message = self._unconfirmed.pop(delivery, None)
        if message is not None and delivery.remote_state in (Delivery.ACCEPTED, 0):
            self.confirmed.append(message)
        delivery.settle()

    @staticmethod
    def _decode(link: Any, delivery: Any) -> Any:
        encoded = link.recv(delivery.pending)
        link.advance()
        message = Message()
        message.decode(encoded)
        return message

    def _open(self, link: Any, *, source: str | None = None, target: str | None = None) -> Any:
        for terminus, address in ((link.source, source), (link.target, target)):
            if address is not None:
                terminus.address = address
                terminus.capabilities.put_object(symbol("queue"))
        return self._opened(link)

    def _opened(self, link: Any) -> Any:
        link.open()
        if not self._wire.pump_until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE), _ANSWER_S):
            raise ClientError(f"the broker did not answer the attach of {link.name} within {_ANSWER_S:.0f} s")
        return link

    # transactions of one acknowledgement

    def _acknowledge_in_transaction(self, received: Received) -> None:
        if self._coordinator is None:
            link = self._session.sender(f"{self.link_name}-coordinator")
            link.target.type = Terminus.COORDINATOR
            link.target.capabilities.put_object(symbol("amqp:local-transactions"))
            self._coordinator = self._opened(link)
        declared = self._control(Described(symbol("amqp:declare:list"), [None]))
        if not declared[1]:
            raise ClientError(f"the broker declared no transaction: state {declared[0]}")
        identity = declared[1][0]
        received.handle.local.data = [identity, Described(ulong(Delivery.ACCEPTED), [])]
        received.handle.update(_TRANSACTIONAL)
        state, _ = self._control(Described(symbol("amqp:discharge:list"), [identity, False]))
        if state == Delivery.ACCEPTED:
            received.handle.settle()
            self.confirmed.append(received.message)

    def _control(self, body: Any) -> Any:
        self._tags += 1
        self._coordinator.delivery(f"txn-{self._tags}")
        self._coordinator.stream(Message(body=body).encode())
        self._coordinator.advance()
        if not self._wire.pump_until(lambda: bool(self._answers), _ANSWER_S):
            return (0, [])
        return self._answers.popleft()

    # depth over management messages (Artemis)

    def _managed_depth(self, probe: DepthProbe) -> int:
        if self._management is None:
            receiver = self._session.receiver("management-replies")
            receiver.source.dynamic = True
            self._opened(receiver)
            receiver.flow(10)
            sender = self._open(self._session.sender("management"), target=probe.address)
            self._management = (sender, receiver)
        sender, receiver = self._management
        request = Message(reply_to=receiver.remote_source.address, properties=dict(probe.properties))
        self._tags += 1
        sender.delivery(f"management-{self._tags}")
        sender.stream(request.encode())
        sender.advance()
        if not self._wire.pump_until(lambda: bool(self._replies), _ANSWER_S):
            raise ClientError("the broker did not answer a management request for a depth")
        receiver.flow(1)
        body = json.loads(self._replies.popleft().body)
        return int(body[0] if isinstance(body, list) else body)
