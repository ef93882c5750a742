"""AMQP 1.0 through python-qpid-proton's engine: one connection, one session, at most one link each way.

Confirmed acknowledgements go one of two ways. `disposition`: accepted with settled=false, and the broker's settlement
is the answer (AMQP 1.0 section 2.6.12). `transaction`: a transaction that holds nothing else, whose discharge is
answered (section 4.4.3); brokers that never settle first, Artemis among them, need it.

`TransactionController` is the controlling end of AMQP 1.0 transactions (section 4): declare, discharge, answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cproton import pn_data_clear, pn_disposition_data
from proton import Data, Delivery, Described, Endpoint, Event, Link, Message, MessageException, Terminus, symbol, ulong

from conformance import limits
from conformance.clients.amqp.connection import Wire
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import (
    DeliveryBuffer,
    Disconnected,
    OperationAnswer,
    Received,
    Refused,
    SendOutcome,
    ranged,
)
from conformance.clients.workers.job import Asks, address
from conformance.errors import ClientError
from conformance.history import Op, Phase

TRANSACTIONAL = 0x34
"""Code of the delivery state `transactional-state` (section 4.5.8)."""

_DECLARED = 0x33


class TransactionController:
    """One control link, attached when it is first needed. Transactions have our names; their ids are the broker's."""

    def __init__(self, attach: Callable[[], Any]) -> None:
        self._attach = attach
        self._link: Any = None
        self._ids: dict[str, Any] = {}
        self._asked: dict[Any, tuple[Op, str]] = {}  # by proton's delivery
        self._tags = 0

    def owns(self, link: Any) -> bool:
        """Whether an event of this link is for us."""
        return self._link is not None and bool(link == self._link)

    def declare(self, name: str) -> None:
        """Ask for a transaction."""
        self._ask(Op.BEGIN, name, Described(symbol("amqp:declare:list"), [None]))

    def discharge(self, op: Op, name: str) -> None:
        """Ask to commit, or to roll back (`fail` set)."""
        body = [self._ids[name], op is Op.ROLLBACK]
        self._ask(op, name, Described(symbol("amqp:discharge:list"), body))

    def identity(self, name: str) -> Any:
        """The broker's id of a declared transaction."""
        if name not in self._ids:
            raise ClientError(f"transaction {name} was not declared")
        return self._ids[name]

    def answered(self, delivery: Any) -> OperationAnswer | None:
        """What a disposition on the control link answers; None where it answers nothing of ours."""
        asked = self._asked.get(delivery)
        if asked is None or not (delivery.remote_state or delivery.settled):
            return None
        del self._asked[delivery]
        op, name = asked
        state = delivery.remote_state
        data = list(delivery.remote.data or [])
        if state == _DECLARED and op is Op.BEGIN and data:
            self._ids[name] = data[0]
        delivered = state == (_DECLARED if op is Op.BEGIN else Delivery.ACCEPTED)
        condition = delivery.remote.condition
        delivery.settle()
        if delivered:
            return OperationAnswer(op, name, Phase.OK)
        return OperationAnswer(op, name, Phase.FAIL, str(condition or f"state {int(state)}"))

    def outcome(self, delivery: Any) -> int:
        """The provisional outcome inside a transactional state (section 4.5.8); 0 where there is none."""
        data = list(delivery.remote.data or [])
        inner = data[1] if len(data) > 1 else None
        return int(inner.descriptor) if isinstance(inner, Described) and isinstance(inner.descriptor, int) else 0

    def enlist(self, delivery: Any, name: str, outcome: int | None = None) -> None:
        """Make a transfer, or an outcome, part of a transaction (sections 4.4.1 and 4.4.2)."""
        pn_data_clear(pn_disposition_data(delivery.local._impl))  # proton appends to what an earlier one has put there
        state = [] if outcome is None else [Described(ulong(outcome), [])]
        delivery.local.data = [self.identity(name), *state]
        delivery.update(TRANSACTIONAL)

    def _ask(self, op: Op, name: str, body: Described) -> None:
        if self._link is None:
            self._link = self._attach()
        self._tags += 1
        delivery = self._link.delivery(f"txn-{self._tags}")
        self._link.stream(Message(body=body).encode())
        self._link.advance()
        self._asked[delivery] = (op, name)


def coordinator_link(session: Any, name: str) -> Any:
    """A sender whose target is the coordinator, asking for local transactions (section 4.5.1)."""
    link = session.sender(name)
    link.target.type = Terminus.COORDINATOR
    link.target.capabilities.put_object(symbol("amqp:local-transactions"))
    assert not link.state & Endpoint.REMOTE_ACTIVE
    return link


_OUTCOMES = {
    Delivery.ACCEPTED: (Phase.OK, None),
    Delivery.REJECTED: (Phase.FAIL, "rejected"),
    Delivery.RELEASED: (Phase.FAIL, "released"),
    Delivery.MODIFIED: (Phase.FAIL, "modified"),
}
_REFUSALS = {
    "released": Delivery.RELEASED,
    "failed": Delivery.MODIFIED,
    "undeliverable": Delivery.MODIFIED,
    "rejected": Delivery.REJECTED,
}
_ANSWER_S = 30.0


NO_ID = "(no id)"
"""The id of a message that has none. No producer sends it, so the judge counts such a message as never sent."""


class AmqpSession:
    """See `Session`; every method is called from one thread.

    Raises:
        Refused: The broker closed a link, a session or the connection with an error of its own.
        Disconnected: From `pump`, when the connection is lost.
    """

    answers_refusals = False
    """A refused delivery is settled at once: nothing comes back (section 2.6.12)."""
    releases_after_rollback = True
    """Deliveries stay acquired after a rollback until they are released (section 4.4.4)."""

    def __init__(
        self,
        wire: Wire,
        ack_confirm: str,
        asks: Asks = Asks(),  # noqa: B008 - it is frozen
        destination: str = "{queue}",
        outcomes: Sequence[str] = (),
    ) -> None:
        self.outcomes: deque[SendOutcome] = deque()
        self.incoming: deque[Received] = DeliveryBuffer()
        self.answers: deque[OperationAnswer] = deque()
        self._wire, self._ack_confirm, self._asks, self._destination = wire, ack_confirm, asks, destination
        self._known = outcomes
        self._session = wire.connection.session()
        self._session.open()
        self._answered: list[SendOutcome] = []
        self._order: dict[str, int] = {}
        self._sender: Any = None
        self._receiver: Any = None
        self._unconfirmed: dict[Any, str] = {}  # by proton's delivery: tags may be any bytes
        self._coordinator = TransactionController(
            lambda: self._opened(coordinator_link(self._session, f"{wire.connection.container}-coordinator"))
        )
        self._enlisted: dict[str, list[Received]] = {}
        self._own: dict[str, list[Received]] = {}
        self._deliveries = 0

    # what roles call

    def attach_sender(self, queue: str) -> None:
        """Open a sender to `queue` with the `queue` capability, unsettled; it says what it wants, and what it knows."""
        sender = self._session.sender(f"sender-{queue}")
        _ask(sender, self._asks.publisher)
        _know(sender, self._known)
        self._sender = self._open(sender, target=queue)

    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        """Open a receiver from `queue` with that much credit; settled where the subscription asks for it."""
        receiver = self._session.receiver(f"{self._wire.connection.container}:{queue}")
        if subscription is AckHeader.SETTLED:
            receiver.snd_settle_mode = Link.SND_SETTLED
        _ask(receiver, self._asks.consumer)
        self._receiver = self._open(receiver, source=queue)
        self.replenish(credit)

    def sendable(self) -> int:
        """Link credit that is left."""
        return int(self._sender.credit)

    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        """Encode and put on the link; nothing leaves before `pump`."""
        delivery = self._sender.delivery(message)
        self._order[message] = len(self._order)
        if transaction is not None:
            self._coordinator.enlist(delivery, transaction)
        annotations = {symbol("x-opt-ack-immediately"): True} if immediate else None
        self._sender.stream(Message(body=body, id=message, durable=durable, annotations=annotations).encode())
        self._sender.advance()

    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        """Disposition accepted: settled, or one that the broker must answer, or part of a transaction."""
        if transaction is not None:
            self._enlisted.setdefault(transaction, []).extend(covered)
            for received in covered:
                self._coordinator.enlist(received.handle, transaction, Delivery.ACCEPTED)
        elif confirmed and self._ack_confirm == "transaction":
            self._acknowledge_in_transaction(covered)
        else:
            for received in covered:
                received.handle.update(Delivery.ACCEPTED)
                if confirmed:
                    self._unconfirmed[received.handle] = received.message
                else:
                    received.handle.settle()

    def refuse(self, received: Received, outcome: str) -> None:
        """Disposition released, modified or rejected, settled (section 3.4)."""
        received.handle.local.failed = outcome == "failed"
        received.handle.local.undeliverable = outcome == "undeliverable"
        received.handle.update(_REFUSALS[outcome])
        received.handle.settle()

    def begin(self, transaction: str) -> None:
        """Declare (section 4.3)."""
        self._coordinator.declare(transaction)

    def commit(self, transaction: str) -> None:
        """Discharge (section 4.3)."""
        self._coordinator.discharge(Op.COMMIT, transaction)

    def rollback(self, transaction: str) -> None:
        """Discharge with `fail` set; the deliveries stay ours until they are released."""
        self._enlisted.pop(transaction, None)
        self._coordinator.discharge(Op.ROLLBACK, transaction)

    def replenish(self, credit: int) -> None:
        """Flow; sent at once, or a broker would wait for credit that only exists here."""
        self._receiver.flow(credit)

    def fetch(self) -> None:
        """Deliveries come by themselves."""

    def pump(self, timeout_s: float | None) -> None:
        """One round of I/O."""
        self._wire.pump(timeout_s)

    def watch(self, descriptor: int) -> None:
        """End with the harness."""
        self._wire.watch(descriptor)

    def close(self) -> None:
        """Close the connection in order."""
        self._wire.close()

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
                said = f"{self._wire.clean(condition)}{self._wire.advice(condition)}"
                raise Refused(f"the broker closed a {type(endpoint).__name__.lower()}: {said}")
            if kind == Event.CONNECTION_REMOTE_CLOSE and endpoint.state & Endpoint.LOCAL_ACTIVE:
                raise Disconnected("closed by the broker")

    def frame_ended(self) -> None:
        """Answers of one frame, in the order of their sends: a range has no other, and the engine gives it any.

        One frame is one disposition, so what it answers is one range (section 2.7.6).
        """
        self._answered.sort(key=lambda outcome: self._order.get(outcome.message, 0))
        if self._asks.window:
            ranged(self._answered)
        self.outcomes.extend(self._answered)
        self._answered.clear()

    def _on_delivery(self, link: Any, delivery: Any) -> None:
        if link == self._sender:
            self._on_outcome(delivery)
        elif link == self._receiver:
            if delivery.readable:
                if not delivery.partial:  # its first frame may say settled already
                    self._on_message(link, delivery)
            elif delivery.settled:
                self._on_ack_answer(delivery)
        elif self._coordinator.owns(link):
            answer = self._coordinator.answered(delivery)
            if answer is not None:
                self._on_coordinator(answer)

    def _on_outcome(self, delivery: Any) -> None:
        state = delivery.remote_state
        if state == TRANSACTIONAL:
            state = self._coordinator.outcome(delivery) or Delivery.ACCEPTED
        if state in _OUTCOMES:
            phase, detail = _OUTCOMES[state]
            self._answered.append(SendOutcome(delivery.tag, phase, detail))
        if delivery.settled:
            if state not in _OUTCOMES:
                self._answered.append(SendOutcome(delivery.tag, Phase.FAIL, "settled without an outcome"))
            delivery.settle()

    def _on_message(self, link: Any, delivery: Any) -> None:
        message = decoded(link, delivery)
        body = message.body
        self._deliveries += 1
        self.incoming.append(
            Received(
                message=NO_ID if message.id is None else limits.quoted(message.id),
                body=bytes(body) if isinstance(body, bytes | memoryview) else str(body).encode(),
                count=int(message.delivery_count),
                first_acquirer=bool(message.first_acquirer),
                redelivered=int(message.delivery_count) > 0,
                delivery=str(self._deliveries),
                handle=delivery,
            )
        )
        if delivery.settled:
            delivery.settle()

    def _on_ack_answer(self, delivery: Any) -> None:
        message = self._unconfirmed.pop(delivery, None)
        if message is not None and delivery.remote_state in (Delivery.ACCEPTED, 0):
            self.answers.append(OperationAnswer(Op.ACK, message, Phase.OK))
        elif message is not None:
            said = delivery.remote.condition or _OUTCOMES.get(delivery.remote_state, (None, "another state"))[1]
            self.answers.append(OperationAnswer(Op.ACK, message, Phase.FAIL, self._wire.clean(said)))
        delivery.settle()

    def _on_coordinator(self, answer: OperationAnswer) -> None:
        own = self._own.get(answer.subject)
        if own is not None:
            self._on_own(answer, own)
            return
        self.answers.append(answer)
        if answer.op is Op.COMMIT and answer.phase is Phase.OK:
            self._settle(answer.subject)

    def _settle(self, transaction: str) -> None:
        for received in self._enlisted.pop(transaction, []):
            received.handle.settle()

    def _acknowledge_in_transaction(self, covered: Sequence[Received]) -> None:
        """A transaction of these acknowledgements only: the answer to its discharge is theirs.

        Nothing here waits: a broker that is halted answers the declaration when it goes on.
        """
        name = f"acknowledgement-{covered[0].delivery}"
        self._own[name] = list(covered)
        self.begin(name)

    def _on_own(self, answer: OperationAnswer, covered: Sequence[Received]) -> None:
        if answer.op is Op.BEGIN:
            if answer.phase is not Phase.OK:
                raise ClientError(f"the broker declared no transaction: {answer.detail}")
            self.acknowledge(covered, transaction=answer.subject)
            self.commit(answer.subject)
            return
        del self._own[answer.subject]
        self.answers += [OperationAnswer(Op.ACK, received.message, answer.phase, answer.detail) for received in covered]
        if answer.phase is Phase.OK:
            self._settle(answer.subject)

    def _open(self, link: Any, *, source: str | None = None, target: str | None = None) -> Any:
        for terminus, queue in ((link.source, source), (link.target, target)):
            if queue is not None:
                terminus.address = address(self._destination, queue)
                terminus.capabilities.put_object(symbol("queue"))
        return self._opened(link)

    def _opened(self, link: Any) -> Any:
        link.open()
        if not self._wire.pump_until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE), _ANSWER_S):
            raise ClientError(f"the broker did not answer the attach of {link.name} within {_ANSWER_S:.0f} s")
        return link


def decoded(link: Any, delivery: Any) -> Message:
    """The message of a delivery that is whole; raises `ClientError` where it is none of AMQP 1.0 section 3.2."""
    message = Message()
    try:
        message.decode(link.recv(delivery.pending) or b"")
    except (MessageException, ValueError) as error:
        raise ClientError(f"the broker broke the protocol: a message that cannot be decoded: {error}") from error
    link.advance()
    return message


def _know(sender: Any, outcomes: Sequence[str]) -> None:
    """Name the outcomes that a send may have (section 3.5.3).

    To a sender that names none Broker-J gives no rejected: it detaches the link (10.1.0, a full queue).
    """
    if outcomes:
        named = sender.source.outcomes
        named.put_array(False, Data.SYMBOL)
        named.enter()
        for name in outcomes:
            named.put_symbol(symbol(f"amqp:{name}:list"))
        named.exit()


def _ask(link: Any, words: Mapping[str, int | str]) -> None:
    """Properties of the attach; a peer that does not know them ignores them (section 2.7.3)."""
    if words:
        link.properties = {
            symbol(name): symbol(value) if isinstance(value, str) else value for name, value in words.items()
        }
