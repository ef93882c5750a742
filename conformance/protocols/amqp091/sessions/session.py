"""AMQP 0-9-1: one connection, a channel for all senders, and one for each receiver.

A channel of its own makes three things the same with every broker. `basic.qos` limits one consumer with RabbitMQ, and
all consumers of a channel as the specification has it. A cumulative acknowledgement covers a channel. What a consumer
holds goes back to its queue when its channel is closed, and stays where it is after basic.cancel.

The senders of a consumer share the channel of its first receiver, because a transaction is one of a channel.

A basic.ack of the client has no answer. Where the broker's file says `ack_confirm = "transaction"`, a transaction with
this acknowledgement alone gives it one.
"""

from __future__ import annotations

import dataclasses
import decimal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pika import spec
from typing_extensions import override

from conformance import limits
from conformance.clients.job import Job, address, in_turn
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import (
    OperationAnswer,
    QuestionResult,
    Received,
    Refused,
    SendOutcome,
    Session,
    note_range,
)
from conformance.errors import BrokenProtocolError, ClientError
from conformance.history import Op, Phase
from conformance.protocols.amqp091.options import Amqp091Options
from conformance.protocols.amqp091.sessions.connection import Amqp091Connection, Amqp091Login, Content
from conformance.protocols.amqp091.sessions.questions import QUESTIONS

_MOST_PREFETCH = 65_535  # basic.qos has 16 bits for it
_SELECTOR = "x-filter-jms-selector"
"""The argument of basic.consume by which Broker-J takes a selector."""

_COUNT = "x-delivery-count"
"""The header in which a quorum queue of RabbitMQ says how often it delivered a message before."""


@dataclasses.dataclass
class _Transactions:
    """The transactions of one channel.

    `asked` has the answers to each request that the broker has not answered, in order. `sends` are those of open
    transactions, by our name of each. `refuses`: a refusal waits for a commit.
    """

    selected: bool = False
    refuses: bool = False
    asked: deque[tuple[Sequence[SendOutcome], Sequence[OperationAnswer]]] = dataclasses.field(default_factory=deque)
    sends: dict[str, list[SendOutcome]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Consumer:
    channel: int
    subscription: AckHeader


class Amqp091Session(Session):
    """See `Session`. Every method is called from one thread."""

    answers_refusals = False  # basic.reject has no answer
    releases_after_rollback = True  # "unacked messages will not be automatically redelivered" (tx.rollback)

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._options = job.dialect.options(Amqp091Options)
        self._queues: list[str] = []
        self._consumers: list[_Consumer] = []
        self._transactions: dict[int, _Transactions] = {}
        self._sending = 0
        self._published = 0  # publishes on the channel of the senders since it has confirms
        self._unconfirmed: dict[int, SendOutcome] = {}
        self._returned: dict[str, str] = {}
        self._confirms = self._held = False
        self._untruths = self._deliveries = 0
        self._connection = Amqp091Connection(
            Amqp091Login(job.connection.host, job.connection.port, job.connection.access),
            self._options.virtual_host,
            job.container,
            on_method=self._on_method,
            before_write=before_write,
            connect_s=job.connection.connect_s,
        )
        self.greeting = self._connection.greeting

    # what roles call

    @override
    def attach_sender(self, queue: str) -> None:
        self._queues.append(queue)
        if not self._sending:
            self._sending = self._consumers[0].channel if self._consumers else self._open()

    @override
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        if subscription is AckHeader.INDIVIDUAL and not self._job.dialect.singly:
            subscription = AckHeader.CUMULATIVE
        channel = self._open()
        self._consumers.append(_Consumer(channel, subscription))  # before the broker may use it
        settled = subscription is AckHeader.SETTLED
        if not settled:  # a consumer without acknowledgements gets everything at once
            prefetch = min(credit, _MOST_PREFETCH)
            self._connection.ask(channel, spec.Basic.Qos(prefetch_count=prefetch), spec.Basic.QosOk)
        arguments = {_SELECTOR: self._job.work.selector} if self._job.work.selector else {}
        source = address(self._job.dialect.source, queue)
        self._connection.ask(
            channel, spec.Basic.Consume(queue=source, no_ack=settled, arguments=arguments), spec.Basic.ConsumeOk
        )

    @override
    def end_receiver(self, receiver: int) -> None:
        self.incoming.end(receiver)
        self._connection.close_channel(self._consumers[receiver].channel)

    @override
    def sendable(self) -> int:
        return 0 if self._connection.blocked or self._held else super().sendable()

    @override
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        outcome = SendOutcome(message, Phase.OK, None)
        if transaction is not None:
            self._transactions[self._sending].sends.setdefault(transaction, []).append(outcome)
        else:
            if not self._confirms:
                self._confirms = True
                self._connection.put(self._sending, spec.Confirm.Select())
            self._published += 1
            self._unconfirmed[self._published] = outcome
        place = address(self._job.dialect.destination, in_turn(self._queues, message))
        publish = spec.Basic.Publish(routing_key=place, mandatory=True)  # else a broker confirms what it cannot route
        self._connection.put(self._sending, publish, Content(self._properties(message, durable=durable), body))

    @override
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        answers: dict[int, list[OperationAnswer]] = {}
        for group in self._together(covered):
            consumer = self._consumers[group[-1].receiver]
            if confirmed and transaction is None:
                self._select(consumer.channel)
            multiple = consumer.subscription is AckHeader.CUMULATIVE
            self._connection.put(consumer.channel, spec.Basic.Ack(_tag(group[-1]), multiple))
            answers.setdefault(consumer.channel, []).extend(
                OperationAnswer(Op.ACK, received.message, Phase.OK, delivery=received.delivery) for received in group
            )
        if confirmed and transaction is None:
            for channel, found in answers.items():
                self._ask(channel, spec.Tx.Commit(), answers=found)
        elif confirmed:
            self.answers.extend(answer for found in answers.values() for answer in found)

    @override
    def refuse(self, received: Received, outcome: str) -> None:
        channel = self._consumers[received.receiver].channel
        if outcome == "recovered":
            self._connection.put(channel, spec.Basic.Recover(requeue=True))  # it is part of no transaction
            return
        self._connection.put(channel, spec.Basic.Reject(_tag(received), outcome != "rejected"))
        self._transactions[channel].refuses = self._transactions[channel].selected

    @override
    def begin(self, transaction: str) -> None:
        """Ask for transactions, once for each. A transaction begins by itself when the one before it has ended.

        With sends in an open one, ask for something else that is answered after them. Counter-example: Broker-J 10.1.0
        forgets them at a second tx.select.
        """
        self._commit_refusals()
        channel, here = self._transacted, self._transactions[self._transacted]
        method = spec.Channel.Flow(active=True) if any(here.sends.values()) else spec.Tx.Select()
        here.selected = True
        self._ask(channel, method, answers=[OperationAnswer(Op.BEGIN, transaction, Phase.OK)])

    @override
    def commit(self, transaction: str) -> None:
        channel = self._transacted
        sends = self._transactions[channel].sends.pop(transaction, [])
        self._ask(channel, spec.Tx.Commit(), sends, [OperationAnswer(Op.COMMIT, transaction, Phase.OK)])

    @override
    def rollback(self, transaction: str) -> None:
        channel = self._transacted
        self._transactions[channel].sends.pop(transaction, None)
        self._ask(channel, spec.Tx.Rollback(), answers=[OperationAnswer(Op.ROLLBACK, transaction, Phase.OK)])

    @override
    def pump(self, timeout_s: float | None) -> None:
        self._commit_refusals()
        try:
            self._connection.pump(timeout_s)
        except Refused as error:
            if self._connection.refused == spec.Basic.Ack.INDEX:
                error.answers = self._refused(str(error))
            raise

    @override
    def asked(self, question: str) -> list[QuestionResult]:
        """Return the answers to one of `QUESTIONS`; see `Session`."""
        return list(QUESTIONS[question](self._connection))

    @override
    def watch(self, descriptor: int) -> None:
        self._connection.watch(descriptor)

    @override
    def close(self) -> None:
        self._connection.close()

    # what leaves

    def _open(self) -> int:
        channel = self._connection.open_channel()
        self._transactions[channel] = _Transactions()
        return channel

    @property
    def _transacted(self) -> int:
        """The channel of this client's transactions."""
        return self._sending or self._consumers[0].channel

    def _select(self, channel: int) -> None:
        if not self._transactions[channel].selected:
            self._transactions[channel].selected = True
            self._ask(channel, spec.Tx.Select())

    def _ask(
        self,
        channel: int,
        method: Any,
        sends: Sequence[SendOutcome] = (),
        answers: Sequence[OperationAnswer] = (),
    ) -> None:
        self._transactions[channel].asked.append((sends, answers))
        self._connection.put(channel, method)

    def _commit_refusals(self) -> None:
        """Commit refusals by a transaction of their own: RabbitMQ makes them a part of one. No other is open then."""
        for channel, here in self._transactions.items():
            if here.refuses:
                here.refuses = False
                self._ask(channel, spec.Tx.Commit())

    def _refused(self, why: str) -> list[OperationAnswer]:
        """The answers to acknowledgements that wait for a commit: the channel was closed for one of them."""
        waiting = [answer for here in self._transactions.values() for _, answers in here.asked for answer in answers]
        return [dataclasses.replace(each, phase=Phase.FAIL, detail=why) for each in waiting if each.op is Op.ACK]

    def _together(self, covered: Sequence[Received]) -> list[list[Received]]:
        """Return the deliveries of each basic.ack: all of a receiver with a cumulative subscription."""
        groups: dict[int | str, list[Received]] = {}
        for received in covered:
            cumulative = self._consumers[received.receiver].subscription is AckHeader.CUMULATIVE
            groups.setdefault(received.receiver if cumulative else received.delivery, []).append(received)
        return list(groups.values())

    def _properties(self, message: str, *, durable: bool) -> Any:
        headers = dict(self._job.work.properties(message))
        if self._job.dialect.duplicate_id:
            headers[self._job.dialect.duplicate_id] = self._job.named(message)
        lives_ms = self._job.work.lives_ms
        end = str(int(time.time() * 1000) + lives_ms)
        expiration = self._options.expiration.replace("{lives_ms}", str(lives_ms)).replace("{expires_ms}", end)
        return spec.BasicProperties(
            headers={name: _field(value) for name, value in headers.items()} or None,
            delivery_mode=2 if durable else 1,
            correlation_id=message,  # by which a link knows a message without a body
            message_id=message,
            expiration=expiration if lives_ms else None,
            priority=self._job.work.priority(message),
        )

    # what arrives

    def _on_method(self, channel: int, method: Any, content: Content | None) -> None:
        match method:
            case spec.Basic.Deliver() if content is not None:
                self._on_delivery(channel, method, content)
            case spec.Basic.Return() if content is not None:
                name = str(content.properties.message_id)
                self._returned[name] = limits.quote(f"returned: {method.reply_code} {method.reply_text}")
            case spec.Basic.Ack() | spec.Basic.Nack() if channel == self._sending:
                self._on_confirm(method)
            case spec.Tx.SelectOk() | spec.Tx.CommitOk() | spec.Tx.RollbackOk() | spec.Channel.FlowOk():
                if channel in self._transactions:  # it is not the channel of a question
                    self._on_transaction(channel, method)
            case spec.Channel.Flow():  # Broker-J closes a channel that goes on sending
                self._connection.put(channel, spec.Channel.FlowOk(method.active))
                self._held = not method.active
            case spec.Basic.Cancel():
                raise Refused("the broker cancelled a consumer: its queue is gone")
            case _:
                return

    def _on_confirm(self, method: Any) -> None:
        """Read a confirm. A message that was returned before is refused, although the broker confirms it."""
        tag, refused = method.delivery_tag, isinstance(method, spec.Basic.Nack)
        if tag > self._published or not self._confirms:
            raise BrokenProtocolError(f"a {method.NAME} for {tag}, which no publish has")
        if method.multiple:
            numbers = [number for number in self._unconfirmed if number <= tag or not tag]
        else:
            numbers = [tag] if tag in self._unconfirmed else []
        if not numbers:
            self._untrue(f"a {method.NAME} for publish {tag}, a second time")
        found = [self._unconfirmed.pop(number) for number in numbers]
        for outcome in found:
            self._settle(outcome, "basic.nack" if refused else "")
        if self._job.work.asks.window:
            note_range(found)
        self.outcomes.extend(found)

    def _settle(self, outcome: SendOutcome, refusal: str = "") -> None:
        if why := refusal or self._returned.pop(outcome.message, ""):
            outcome.phase, outcome.detail = Phase.FAIL, why

    def _untrue(self, sentence: str) -> None:
        self._untruths += 1
        if self._untruths > limits.UNTRUE_RECEIPTS:
            raise ClientError(limits.limit_sentence("confirms that answer nothing", limits.UNTRUE_RECEIPTS, "pieces"))
        self.anomalies.append(sentence)

    def _on_transaction(self, channel: int, method: Any) -> None:
        here = self._transactions[channel]
        if not here.asked:
            raise BrokenProtocolError(f"a {method.NAME} that answers nothing")
        sends, answers = here.asked.popleft()
        for outcome in sends:
            self._settle(outcome)
        self.outcomes.extend(sends)
        self.answers.extend(answers)

    def _on_delivery(self, channel: int, method: Any, content: Content) -> None:
        receiver = next((n for n, each in enumerate(self._consumers) if each.channel == channel), None)
        if receiver is None:
            raise BrokenProtocolError("a basic.deliver on a channel without a consumer")
        if receiver in self.incoming.ended:
            return
        self._deliveries += 1
        properties = content.properties
        headers: Mapping[str, object] = properties.headers or {}
        count = headers.get(_COUNT)
        work = self._job.work
        name = work.known_by(headers, content.body, properties.message_id or f"foreign:{method.delivery_tag}")
        correlated = work.sent_by(name) is not None and not work.is_crossed(name)
        self.incoming.append(
            Received(
                message=name,
                body=content.body,
                count=int(count) if isinstance(count, int) else None,
                first_acquirer=None,
                redelivered=bool(method.redelivered),
                delivery=str(self._deliveries),
                handle=method.delivery_tag,
                receiver=receiver,
                altered=work.are_altered(name, headers, _field)
                or work.has_other_priority(name, properties.priority)
                or (correlated and properties.correlation_id != name),
            )
        )


def _tag(received: Received) -> int:
    return int(received.handle)


def _field(value: object) -> object:
    """Return how a table says a property: the specification has decimals and no floating-point numbers, as pika has.

    >>> _field(0.5)
    Decimal('0.5')
    """
    return decimal.Decimal(repr(value)) if isinstance(value, float) else value
