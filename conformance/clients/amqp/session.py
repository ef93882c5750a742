"""AMQP 1.0 through python-qpid-proton's engine: one connection, one session, at most one link each way.

A confirmed acknowledgement is answered in one of two ways. `disposition`: accepted with settled=false, and the broker's
settlement is the answer (AMQP 1.0 section 2.6.12). `transaction`: a transaction with this acknowledgement alone, whose
discharge is answered (section 4.4.3). Brokers that never settle first, Artemis among them, need the second way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proton import Data, Delivery, Link, Message, symbol
from typing_extensions import override

from conformance import limits
from conformance.clients.amqp.connection import AmqpClientConnection, decoded
from conformance.clients.amqp.transactions import TRANSACTIONAL, TransactionController, coordinator_link
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import OperationAnswer, Received, SendOutcome, Session, note_range
from conformance.clients.workers.job import Job, address
from conformance.errors import ClientError
from conformance.history import Op, Phase

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
NO_ID = "(no id)"
"""The id of a message that has none. No producer sends it, so the judge counts such a message as never sent."""


class AmqpSession(Session):
    """See `Session`. Every method is called from one thread."""

    answers_refusals = False  # a refused delivery is settled at once, and has no answer (section 2.6.12)
    releases_after_rollback = True  # deliveries stay acquired after a rollback until they are released (section 4.4.4)

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._connection = AmqpClientConnection(
            job.host,
            job.port,
            f"{job.header.trial}-{job.header.process}",
            on_delivery=self.on_delivery,
            after_frame=self.after_frame,
            before_write=before_write,
            connect_s=job.connect_s,
            access=job.access,
        )
        self._session = self._connection.session()
        self._answered: list[SendOutcome] = []
        self._order: dict[str, int] = {}
        self._sender: Any = None
        self._receiver: Any = None
        self._unconfirmed: dict[Any, str] = {}  # by proton's delivery: tags may be any bytes
        self._coordinator = TransactionController(self._attach_coordinator)
        self._enlisted: dict[str, list[Received]] = {}
        self._own: dict[str, list[Received]] = {}  # deliveries of a transaction that we began to acknowledge them
        self._deliveries = 0

    # what roles call

    @override
    def attach_sender(self, queue: str) -> None:
        sender = self._session.sender(f"sender-{queue}")
        _ask(sender, self._job.asks.publisher)
        _name_outcomes(sender, self._job.outcomes)
        self._sender = self._attach(sender, sender.target, queue)

    @override
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        receiver = self._session.receiver(f"{self._connection.name}:{queue}")
        if subscription is AckHeader.SETTLED:
            receiver.snd_settle_mode = Link.SND_SETTLED
        _ask(receiver, self._job.asks.consumer)
        self._receiver = self._attach(receiver, receiver.source, queue)
        self.replenish(credit)

    @override
    def sendable(self) -> int:
        return int(self._sender.credit)

    @override
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        delivery = self._sender.delivery(message)
        self._order[message] = len(self._order)
        if transaction is not None:
            self._coordinator.enlist(delivery, transaction)
        annotations = {symbol("x-opt-ack-immediately"): True} if immediate else None
        self._sender.stream(Message(body=body, id=message, durable=durable, annotations=annotations).encode())
        self._sender.advance()

    @override
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        if transaction is not None:
            self._enlisted.setdefault(transaction, []).extend(covered)
            for received in covered:
                self._coordinator.enlist(received.handle, transaction, Delivery.ACCEPTED)
        elif confirmed and self._job.ack_confirm == "transaction":
            self._acknowledge_in_transaction(covered)
        else:
            for received in covered:
                received.handle.update(Delivery.ACCEPTED)
                if confirmed:
                    self._unconfirmed[received.handle] = received.message
                else:
                    received.handle.settle()

    @override
    def refuse(self, received: Received, outcome: str) -> None:
        received.handle.local.failed = outcome == "failed"
        received.handle.local.undeliverable = outcome == "undeliverable"
        received.handle.update(_REFUSALS[outcome])  # section 3.4
        received.handle.settle()

    @override
    def begin(self, transaction: str) -> None:
        self._coordinator.declare(transaction)

    @override
    def commit(self, transaction: str) -> None:
        self._coordinator.discharge(Op.COMMIT, transaction)

    @override
    def rollback(self, transaction: str) -> None:
        self._enlisted.pop(transaction, None)
        self._coordinator.discharge(Op.ROLLBACK, transaction)

    @override
    def replenish(self, credit: int) -> None:
        self._receiver.flow(credit)  # sent at once: a broker cannot wait for credit that only exists here

    @override
    def pump(self, timeout_s: float | None) -> None:
        self._connection.pump(timeout_s)

    @override
    def watch(self, descriptor: int) -> None:
        self._connection.watch(descriptor)

    @override
    def close(self) -> None:
        self._connection.close()

    # what the connection calls

    def after_frame(self) -> None:
        """Sort the answers of one frame by their sends: the engine reports them in any order.

        One frame is one disposition, so its answers are one range (section 2.7.6).
        """
        self._answered.sort(key=lambda outcome: self._order.get(outcome.message, 0))
        if self._job.asks.window:
            note_range(self._answered)
        self.outcomes.extend(self._answered)
        self._answered.clear()

    def on_delivery(self, link: Any, delivery: Any) -> None:
        """Handle a new or changed delivery of any of our links."""
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
            self.answers.append(OperationAnswer(Op.ACK, message, Phase.FAIL, self._connection.clean(said)))
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
        """Acknowledge in a transaction with nothing else: the answer to its discharge is theirs.

        This does not wait: a paused broker answers the declaration when it resumes.
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

    def _attach(self, link: Any, terminus: Any, queue: str) -> Any:
        terminus.address = address(self._job.destination, queue)
        terminus.capabilities.put_object(symbol("queue"))
        return self._connection.attach(link)

    def _attach_coordinator(self) -> Any:
        return self._connection.attach(coordinator_link(self._session, f"{self._connection.name}-coordinator"))


def _name_outcomes(sender: Any, outcomes: Sequence[str]) -> None:
    """Name the outcomes that this sender understands (section 3.5.3).

    Broker-J sends no `rejected` to a sender that names none: it detaches the link (10.1.0, a full queue).
    """
    if outcomes:
        named = sender.source.outcomes
        named.put_array(False, Data.SYMBOL)
        named.enter()
        for name in outcomes:
            named.put_symbol(symbol(f"amqp:{name}:list"))
        named.exit()


def _ask(link: Any, words: Mapping[str, int | str]) -> None:
    """Set link properties of the attach; a peer that does not know them ignores them (section 2.7.3)."""
    if words:
        link.properties = {
            symbol(name): symbol(value) if isinstance(value, str) else value for name, value in words.items()
        }
