"""AMQP 1.0 through python-qpid-proton's engine: one connection, one session, one link for each sender and receiver.

A confirmed acknowledgement is answered in one of two ways. `disposition`: accepted with settled=false, and the broker's
settlement is the answer (AMQP 1.0 section 2.6.12). `transaction`: a transaction with this acknowledgement alone, whose
discharge is answered (section 4.4.3). Brokers that never settle first, Artemis among them, need the second way.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cproton import pn_data_clear, pn_disposition_data
from proton import Data, Delivery, Described, Link, Message, Terminus, byte, symbol, ulong
from typing_extensions import override

from conformance.clients.job import Job, address, in_turn
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import OperationAnswer, Received, SendOutcome, Session, note_range
from conformance.errors import BrokenProtocolError, ClientError
from conformance.history import OUTSIDE, Op, Phase, parse_message
from conformance.protocols.amqp.options import AmqpOptions
from conformance.protocols.amqp.sessions.connection import AmqpClientConnection, decode
from conformance.scenario.script import Publish

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

_SELECTOR = "selector"
_SELECTOR_FILTER = ulong(0x0000468C00000004)
"""The name of our filter, and the descriptor of `apache.org:selector-filter:string`."""

_DECLARED, _TRANSACTIONAL = 0x33, 0x34
"""Codes of the delivery states `declared` and `transactional-state` (sections 4.5.7 and 4.5.8)."""


class AmqpSession(Session):
    """See `Session`. Every method is called from one thread."""

    answers_refusals = False  # a refused delivery is settled at once, and has no answer (section 2.6.12)
    releases_after_rollback = True  # deliveries stay acquired after a rollback until they are released (section 4.4.4)

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._connection = AmqpClientConnection(
            job.connection.host,
            job.connection.port,
            job.container,
            on_delivery=self.on_delivery,
            after_frame=self.after_frame,
            before_write=before_write,
            connect_s=job.connection.connect_s,
            access=job.connection.access,
        )
        self._session = self._connection.session()
        self._answered: list[SendOutcome] = []
        self._order: dict[str, int] = {}
        self._senders: dict[str, Any] = {}
        self._receivers: list[Any] = []
        for_topic = isinstance(job.work.step, Publish) and job.work.step.for_topic
        self._annotations = {symbol("x-opt-jms-dest"): byte(1)} if for_topic else {}  # as the AMQP JMS Mapping says it
        self._lives_s = job.work.lives_ms / 1000
        self._options = job.dialect.options(AmqpOptions)
        self._unconfirmed: dict[Any, Received] = {}  # by proton's delivery: tags may be any bytes
        self._coordinator = TransactionController(self._attach_coordinator)
        self._enlisted: dict[str, list[Received]] = {}
        self._own: dict[str, list[Received]] = {}  # deliveries of a transaction that we began to acknowledge them
        self._deliveries = 0

    # what roles call

    @override
    def attach_sender(self, queue: str) -> None:
        sender = self._session.sender(f"sender-{queue}")
        _ask(sender, self._job.work.asks.publisher)
        _name_outcomes(sender, self._options.outcomes)
        self._senders[queue] = sender  # before the broker may use it
        self._attach(sender, sender.target, address(self._job.dialect.destination, queue))
        self.greeting = self._connection.greeting

    @override
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        work = self._job.work
        number = f":{len(self._receivers) + 1}" if self._receivers else ""  # two links of one name would be the same
        name = queue if work.subscriber else f"{self._connection.name}:{queue}{number}"
        receiver = self._session.receiver(name)
        if work.subscriber:
            receiver.source.durability = Terminus.DELIVERIES
            receiver.source.expiry_policy = Terminus.EXPIRE_NEVER
        if subscription is AckHeader.SETTLED:
            receiver.snd_settle_mode = Link.SND_SETTLED
        _ask(receiver, work.asks.consumer)
        self._receivers.append(receiver)  # before the broker may use it
        if work.selector:
            filters = {symbol(_SELECTOR): Described(_SELECTOR_FILTER, work.selector)}
            receiver.source.filter.put_dict(filters)
        self._attach(receiver, receiver.source, address(self._job.dialect.source, queue))
        if work.selector and not _has_filter(receiver.remote_source):
            raise ClientError(f"the broker left the selector {work.selector!r} out of its attach (section 3.5.3)")
        self.replenish(credit, len(self._receivers) - 1)

    @override
    def end_receiver(self, receiver: int) -> None:
        self.incoming.end(receiver)
        self._connection.detach(self._receivers[receiver])

    @override
    def sendable(self) -> int:
        return min(int(sender.credit) for sender in self._senders.values())

    @override
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        sender = self._senders[in_turn(tuple(self._senders), message)]
        delivery = sender.delivery(message)
        self._order[message] = len(self._order)
        if transaction is not None:
            self._coordinator.enlist(delivery, transaction)
        annotations = self._annotations | ({symbol("x-opt-ack-immediately"): True} if immediate else {})
        if self._job.work.delay_ms:
            annotations |= self._delay()
        known = {name: self._job.named(message)} if (name := self._job.dialect.duplicate_id) else {}
        properties = known | self._job.work.properties(message) or None
        encoded = Message(
            body=body, id=message, durable=durable, annotations=annotations or None, properties=properties
        )
        encoded.inferred = self._job.work.crosses  # a data section: the bytes of an amqp-value are of AMQP's types
        encoded.correlation_id = self._correlation(message)
        encoded.ttl = self._lives_s
        if (urgency := self._job.work.priority(message)) is not None:
            encoded.priority = urgency
        sender.stream(encoded.encode())
        sender.advance()

    @override
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        if transaction is not None:
            self._enlisted.setdefault(transaction, []).extend(covered)
            for received in covered:
                self._coordinator.enlist(received.handle, transaction, Delivery.ACCEPTED)
        elif confirmed and self._job.dialect.ack_confirm == "transaction":
            self._acknowledge_in_transaction(covered)
        else:
            for received in covered:
                received.handle.update(Delivery.ACCEPTED)
                if confirmed:
                    self._unconfirmed[received.handle] = received
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
    def replenish(self, credit: int, receiver: int = 0) -> None:
        self._receivers[receiver].flow(credit)  # sent at once: a broker cannot wait for credit that only exists here

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
        if self._job.work.asks.window:
            note_range(self._answered)
        self.outcomes.extend(self._answered)
        self._answered.clear()

    def on_delivery(self, link: Any, delivery: Any) -> None:
        if link in self._senders.values():
            self._on_outcome(delivery)
        elif link in self._receivers:
            place = self._receivers.index(link)
            if delivery.readable:
                if not delivery.partial and place not in self.incoming.ended:  # its first frame may say settled already
                    self._on_message(link, delivery, place)
            elif delivery.settled:
                self._on_ack_answer(delivery)
        elif self._coordinator.owns(link):
            answer = self._coordinator.answered(delivery)
            if answer is not None:
                self._on_coordinator(answer)

    def _on_outcome(self, delivery: Any) -> None:
        if delivery.tag not in self._order:  # proton takes a transfer on the link of a sender for a delivery of ours
            raise BrokenProtocolError("a transfer on a link on which only this client may send")
        state = delivery.remote_state
        outside = delivery.local_state == _TRANSACTIONAL != state
        if state == _TRANSACTIONAL:
            state = self._coordinator.outcome(delivery) or Delivery.ACCEPTED
        if state in _OUTCOMES:
            phase, detail = _OUTCOMES[state]
            if detail and outside:
                detail = f"{detail} {OUTSIDE}"
            self._answered.append(SendOutcome(delivery.tag, phase, detail))
        if delivery.settled:
            if state not in _OUTCOMES:
                self._answered.append(SendOutcome(delivery.tag, Phase.FAIL, "settled without an outcome"))
            delivery.settle()

    def _on_message(self, link: Any, delivery: Any, place: int) -> None:
        message = decode(link, delivery)
        encoded = message.body
        body = bytes(encoded) if isinstance(encoded, bytes | memoryview) else str(encoded).encode()
        self._deliveries += 1
        properties: dict[str, object] = message.properties or {}
        name = self._job.work.known_by(properties, body, NO_ID if message.id is None else message.id)
        self.incoming.append(
            Received(
                message=name,
                body=body,
                count=int(message.delivery_count),
                first_acquirer=bool(message.first_acquirer),
                redelivered=int(message.delivery_count) > 0,
                delivery=str(self._deliveries),
                handle=delivery,
                receiver=place,
                altered=self._altered(name, message),
            )
        )
        if delivery.settled:
            delivery.settle()

    def _altered(self, name: str, message: Message) -> bool:
        """Whether what stands beside the body is not what the publisher of this trial has sent."""
        correlation = self._correlation(name)
        if correlation is not None and message.correlation_id != correlation:
            return True
        if self._job.work.has_other_priority(name, int(message.priority)):
            return True
        return self._job.work.are_altered(name, message.properties or {})

    def _delay(self) -> dict[Any, int]:
        """Return the annotation of a message that is sent now with a delay."""
        name = self._options.delivery_time
        since = int(time.time() * 1000) if name == "x-opt-delivery-time" else 0
        return {symbol(name): since + self._job.work.delay_ms}

    def _correlation(self, message: str) -> str | int | uuid.UUID | bytes | None:
        """The correlation-id of a message of this trial: a string, a number, a UUID or bytes (section 3.2.4)."""
        step = self._job.work.sent_by(message)
        if step is None or not step.correlates or (parsed := parse_message(message)) is None:
            return None
        every = (message, ulong(parsed[1]), uuid.uuid5(uuid.NAMESPACE_URL, message), message.encode())
        return every[parsed[1] % len(every)]

    def _on_ack_answer(self, delivery: Any) -> None:
        received = self._unconfirmed.pop(delivery, None)
        if received is not None and delivery.remote_state in (Delivery.ACCEPTED, 0):
            self._answer_ack(received, Phase.OK)
        elif received is not None:
            said = delivery.remote.condition or _OUTCOMES.get(delivery.remote_state, (None, "another state"))[1]
            self._answer_ack(received, Phase.FAIL, self._connection.clean(said))
        delivery.settle()

    def _answer_ack(self, received: Received, phase: Phase, detail: str | None = None) -> None:
        self.answers.append(OperationAnswer(Op.ACK, received.message, phase, detail, received.delivery))

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
        for received in covered:
            self._answer_ack(received, answer.phase, answer.detail)
        if answer.phase is Phase.OK:
            self._settle(answer.subject)

    def _attach(self, link: Any, terminus: Any, at: str) -> Any:
        terminus.address = at
        terminus.capabilities.put_object(symbol("topic" if self._job.work.subscriber else "queue"))
        return self._connection.attach(link)

    def _attach_coordinator(self) -> Any:
        """Attach a sender to the coordinator, for local transactions (section 4.5.1)."""
        link = self._session.sender(f"{self._connection.name}-coordinator")
        link.target.type = Terminus.COORDINATOR
        link.target.capabilities.put_object(symbol("amqp:local-transactions"))
        return self._connection.attach(link)


class TransactionController:
    """The control link of AMQP 1.0 transactions (section 4). Callers use our names; the broker's ids stay in here.

    Args:
        attach: Attaches the control link. Called once, when the first transaction is declared.
    """

    def __init__(self, attach: Callable[[], Any]) -> None:
        self._attach = attach
        self._link: Any = None
        self._ids: dict[str, Any] = {}
        self._asked: dict[Any, tuple[Op, str]] = {}  # by proton's delivery
        self._tags = 0

    def owns(self, link: Any) -> bool:
        return self._link is not None and bool(link == self._link)

    def declare(self, name: str) -> None:
        self._ask(Op.BEGIN, name, Described(symbol("amqp:declare:list"), [None]))

    def discharge(self, op: Op, name: str) -> None:
        """Ask to commit, or to roll back (`fail` set)."""
        body = [self.identity(name), op is Op.ROLLBACK]
        self._ask(op, name, Described(symbol("amqp:discharge:list"), body))

    def identity(self, name: str) -> Any:
        if name not in self._ids:
            raise ClientError(f"transaction {name} was not declared")
        return self._ids[name]

    def answered(self, delivery: Any) -> OperationAnswer | None:
        """Return what a disposition on the control link answers; None if it answers no request of ours."""
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
        """Return the provisional outcome in a transactional state (section 4.5.8); 0 if it has none."""
        data = list(delivery.remote.data or [])
        inner = data[1] if len(data) > 1 else None
        return int(inner.descriptor) if isinstance(inner, Described) and isinstance(inner.descriptor, int) else 0

    def enlist(self, delivery: Any, name: str, outcome: int | None = None) -> None:
        """Make a transfer, or an outcome, part of a transaction (sections 4.4.1 and 4.4.2)."""
        pn_data_clear(pn_disposition_data(delivery.local._impl))  # proton appends to the data of an earlier update
        state = [] if outcome is None else [Described(ulong(outcome), [])]
        delivery.local.data = [self.identity(name), *state]
        delivery.update(_TRANSACTIONAL)

    def _ask(self, op: Op, name: str, body: Described) -> None:
        if self._link is None:
            self._link = self._attach()
        self._tags += 1
        delivery = self._link.delivery(f"txn-{self._tags}")
        self._link.stream(Message(body=body).encode())
        self._link.advance()
        self._asked[delivery] = (op, name)


def _name_outcomes(sender: Any, outcomes: Sequence[str]) -> None:
    """Name the outcomes that this sender understands (section 3.5.3).

    Broker-J sends no `rejected` to a sender that names none: it detaches the link (10.1.0, a full queue).
    """
    named = sender.source.outcomes
    named.put_array(False, Data.SYMBOL)
    named.enter()
    for name in outcomes:
        named.put_symbol(symbol(f"amqp:{name}:list"))
    named.exit()


def _has_filter(source: Any) -> bool:
    """Whether the source of an attach that answers has our filter: it names the filters that are in force."""
    filters = source.filter
    filters.rewind()
    return filters.next() == Data.MAP and filters.get_dict().get(symbol(_SELECTOR)) is not None


def _ask(link: Any, words: Mapping[str, int | str]) -> None:
    """Set link properties of the attach; a peer that does not know them ignores them (section 2.7.3)."""
    if words:
        link.properties = {
            symbol(name): symbol(value) if isinstance(value, str) else value for name, value in words.items()
        }
