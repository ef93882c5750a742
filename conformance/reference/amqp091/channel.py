"""What the methods of one channel do: queues, publishes and their confirms, consumers, acknowledgements, transactions.

What AMQP 0-9-1 leaves open is as RabbitMQ documents it:

- basic.qos with `global` false limits each consumer that comes after it, and with true all of the channel together.
- A delivery-tag that is not open is an error, also with `multiple`. basic.reject and basic.nack without `requeue` take
  the message to the dead-letter queue. A requeued one is marked redelivered, and counts no failure.
- After tx.rollback a delivery is unacknowledged again, and is not redelivered. An acknowledgement in a transaction
  makes room for others at once.
- A publish to the default exchange goes to the queue of that name. There is no other exchange, and none can be made.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from conformance.reference.amqp091 import codec, message
from conformance.reference.amqp091.codec import Amqp091Error
from conformance.reference.core.admission import DELETED, LIMIT, NOT_FOUND, Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Message, Queue, Subscription, Transaction
from conformance.reference.core.sections import Parsed
from conformance.reference.core.selector import KNOWN, Selector, parse
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.store.commit import Done


class Amqp091Peer(Protocol):
    """The connection as its channels need it."""

    frame_max: int
    cancel_notify: bool
    numbers: Iterator[int]
    owned: list[Queue]

    def has_room(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def confirms(self, channel: ServerChannel) -> None:
        """The channel has something to confirm: its `confirm` is called before the next bytes leave."""

    def takes_consumer(self) -> bool:
        """Whether it may have one more consumer (max_links)."""

    def owed(self) -> Done:
        """What is to be called when a publish or an acknowledgement has had its effect."""

    def stall(self) -> Done:
        """Nothing more is read before the result is called: answers leave in the order of their requests."""


class Amqp091Consumer:
    """One basic.consume; one without a tag serves the basic.get of one queue, and is `cancelled` from the start.

    `open` are its deliveries without an acknowledgement. It holds what was delivered after basic.cancel too.
    """

    def __init__(
        self, channel: ServerChannel, queue: Queue, tag: str | None, settled: bool, selector: Selector | None = None
    ) -> None:
        self.tag = tag
        self.wanted = 0
        self.open = 0
        self.cancelled = tag is None
        self._channel = channel
        self._limit = channel.prefetch
        self.subscription = Subscription(
            queue, settled, self._credit, self._deliver, self._gone, owner=channel.peer, selector=selector
        )
        channel.broker.subscribe(self.subscription)

    def retire(self) -> None:
        """Unsubscribe if it gets no more and holds nothing: else what it holds would be delivered again."""
        if self.cancelled and not self.subscription.held:
            self.end()

    def end(self) -> None:
        """What it holds goes back to its queue."""
        self.cancelled = True
        self._channel.broker.unsubscribe(self.subscription)
        queue = self.subscription.queue
        if self.tag is not None and queue.auto_delete and not queue.consumers:
            self._channel.broker.delete(queue)

    def _credit(self) -> int:
        channel, behaviour = self._channel, self._channel.broker.behaviour
        if self.cancelled:
            return self.wanted
        if not channel.flows or not channel.peer.has_room():
            return 0
        if self.subscription.settled:
            return 1
        own = self._limit - (self.open if behaviour.refills else self.subscription.sent) if self._limit else 1
        return min(own, channel.limit - len(channel.unacknowledged)) if channel.limit else own

    def _deliver(self, tag: int, found: Message) -> None:
        channel = self._channel
        name = channel.delivered(self, tag)
        behaviour = channel.broker.behaviour
        again = behaviour.marks_redelivered and found.acquired
        count = behaviour.delivery_count(found.failures) if behaviour.marks_redelivered else 0
        body = channel.broker.body(found)
        content = message.show(body, durable=found.durable, rest=found.rest, count=count)
        key = self.subscription.queue.name
        if self.tag is not None:
            channel.say("basic.deliver", self.tag, name, again, "", key, content=content)
        else:
            self.wanted = 0
            left = self.subscription.queue.depth - self.subscription.queue.unacknowledged - 1
            channel.say("basic.get-ok", name, again, "", key, max(0, left), content=content)

    def _gone(self) -> None:
        """Its queue was deleted."""
        if not self.cancelled and self.tag is not None:
            self.cancelled = True
            self._channel.consumers.pop(self.tag, None)
            if self._channel.peer.cancel_notify:
                self._channel.say("basic.cancel", self.tag, True)


class ServerChannel:
    """One channel; `number` is its own on the wire. `closing`: it was closed with an error, and reads nothing."""

    def __init__(self, number: int, broker: ReferenceBroker, peer: Amqp091Peer) -> None:
        self.number = number
        self.broker = broker
        self.peer = peer
        self.limit = 0
        self.flows = True
        self.closing = False
        self.consumers: dict[str, Amqp091Consumer] = {}
        self.unacknowledged: dict[int, tuple[Amqp091Consumer, int]] = {}
        self._getters: dict[Queue, Amqp091Consumer] = {}
        self.prefetch = 0
        self._delivered = 0
        self._named = itertools.count(1)
        self._confirms = False
        self._published = 0
        self._pending: dict[int, None] = {}
        self._answered: list[int] = []
        self._transaction: Transaction | None = None
        self._refused: Refusal | None = None
        self._taken: dict[int, tuple[Amqp091Consumer, int]] = {}

    def take(self, name: str, arguments: list[Any]) -> None:
        handler = _HANDLERS.get(name)
        if handler is None:
            raise Amqp091Error(codec.COMMAND_INVALID, f"{name} is no request to a broker on a channel")
        handler(self, *arguments)

    def publish(self, key: str, mandatory: bool, properties: bytes, body: bytes | None) -> None:
        """A content has come whole; a body of None was too large to be kept."""
        number = self._number()
        queue = self.broker.named(key)
        if queue is None and self.broker.behaviour.makes_any_queue:
            queue = self.broker.queue(key)
        parsed = message.store(properties, body or b"")
        if body is None:
            self._refuse(number, Refusal(LIMIT, "the message is larger than max_message_bytes"))
        elif queue is None:
            if mandatory and self.broker.behaviour.returns_unroutable:
                self.say("basic.return", codec.NO_ROUTE, "NO_ROUTE", "", key, content=(properties, body))
            self._answer(number)
        else:
            self._store(queue, parsed, number)

    def confirm(self) -> None:
        """Confirm what is stored: one basic.ack with `multiple` for all up to the first that is not."""
        answered, self._answered = sorted(self._answered), []
        behaviour = self.broker.behaviour
        if behaviour.covers_unstored:
            answered = sorted({*answered, *self._pending})
        for number in answered:
            self._pending.pop(number, None)
        first = next(iter(self._pending), self._published + 1)
        together = [number for number in answered if number < first]
        if len(together) > 1:
            self.say("basic.ack", together[-1], True)
        for number in answered[len(together) if len(together) > 1 else 0 :]:
            self.say("basic.ack", number, False)
        for number in answered:
            for _ in range(1, behaviour.receipts(next(self.peer.numbers))):
                self.say("basic.ack", number, False)

    def more_credit(self) -> None:
        for consumer in self.consumers.values():
            self.broker.more_credit(consumer.subscription)

    def end(self) -> None:
        """Roll back what is open; what its consumers hold goes back to the queues."""
        self.closing = True
        if self._transaction is not None:
            self.broker.abandon(self._transaction)
            self._transaction = None
        holding = {consumer: None for consumer, _ in (*self.unacknowledged.values(), *self._taken.values())}
        for consumer in {**dict.fromkeys(self.consumers.values()), **holding}:
            consumer.end()
        for each in (self.consumers, self.unacknowledged, self._taken, self._getters, self._pending, self._answered):
            each.clear()

    def say(self, name: str, *values: Any, content: tuple[bytes, bytes] | None = None) -> None:
        if self.closing:
            return
        data = codec.method(self.number, name, *values)
        if content is not None:
            data += codec.content(self.number, *content, self.peer.frame_max)
        self.peer.write(data)

    def delivered(self, consumer: Amqp091Consumer, tag: int) -> int:
        """Return the delivery-tag of a delivery, and keep it until it is acknowledged."""
        self._delivered += 1
        if not consumer.subscription.settled:
            self.unacknowledged[self._delivered] = (consumer, tag)
            consumer.open += 1
        return self._delivered

    def _answering(self, name: str, *values: Any, no_wait: bool = False) -> Done:
        """Nothing more is read until the result is called, which answers unless `no_wait`."""
        done = self.peer.stall()

        def answer() -> None:
            if not no_wait:
                self.say(name, *values)
            done()

        return answer

    def _number(self) -> int:
        """The number of a publish that is owed a confirm; 0 for one that is not."""
        if not self._confirms:
            return 0
        self._published += 1
        self._pending[self._published] = None
        return self._published

    def _store(self, queue: Queue, parsed: Parsed, number: int) -> None:
        answers = not number or self.broker.behaviour.answers(self.broker.next_send())
        finished = self.peer.owed()

        def done() -> None:
            finished()
            if answers:
                self._answer(number)

        def refused(reason: Refusal) -> None:
            finished()
            self._refuse(number, reason)

        self.broker.publish(queue, parsed, done, transaction=self._transaction, refused=refused, sender=self.peer)

    def _answer(self, number: int) -> None:
        if number in self._pending:
            self._answered.append(number)
            self.peer.confirms(self)

    def _refuse(self, number: int, reason: Refusal) -> None:
        """basic.nack; the commit of a transaction fails, and any other publish costs the channel."""
        if number:
            if number in self._pending:
                del self._pending[number]
                self.say("basic.nack", number, False, False)
        elif self._transaction is not None:
            self._refused = self._refused or reason
        else:
            self._fail(reason)

    def _fail(self, reason: Refusal) -> None:
        gone = reason.condition in (NOT_FOUND, DELETED)
        code = codec.NOT_FOUND if gone else codec.CONTENT_TOO_LARGE
        self.close(Amqp091Error(code, reason.description), "basic.publish")

    def close(self, error: Amqp091Error, name: str) -> None:
        """Close it with an error; nothing is read before channel.close-ok."""
        self.say("channel.close", error.code, str(error)[:255], *codec.identity(name))
        self.end()

    def _on_flow(self, active: bool) -> None:
        self.flows = active
        self.say("channel.flow-ok", active)
        self.more_credit()

    def _on_declare(
        self, _: int, name: str, passive: bool, durable: bool, exclusive: bool, auto: bool, no_wait: bool, more: bytes
    ) -> None:
        queue = self.broker.named(name) if name else None
        fresh = queue is None and not passive
        if fresh:
            queue = self._declared(name, durable=durable and not exclusive)
            if exclusive:
                queue.owner = self.peer
                self.peer.owned.append(queue)
            queue.auto_delete = auto
        elif queue is None:
            raise Amqp091Error(codec.NOT_FOUND, f"there is no queue {name[:40]!r}")
        self._locked(queue)
        if more and not passive:
            raise Amqp091Error(codec.PRECONDITION_FAILED, "a queue has no arguments: its rules are --queue options")
        if not passive and queue.durable != (durable and not exclusive):
            raise Amqp091Error(codec.PRECONDITION_FAILED, f"the queue {name[:40]!r} has another value of durable")
        waiting = queue.depth - queue.unacknowledged
        answer = self._answering("queue.declare-ok", queue.name, waiting, queue.consumers, no_wait=no_wait)
        if fresh:
            self.broker.when_stored(answer)
        else:
            answer()

    def _declared(self, name: str, *, durable: bool) -> Queue:
        if name.startswith("amq."):
            raise Amqp091Error(codec.ACCESS_REFUSED, f"the name {name[:40]!r} is reserved")
        name = name or f"amq.gen-{os.urandom(12).hex()}"
        if (refusal := self.broker.refused(name)) is not None:
            code = codec.RESOURCE_ERROR if refusal.condition == LIMIT else codec.ACCESS_REFUSED
            raise Amqp091Error(code, refusal.description)
        return self.broker.queue(name, durable=durable)

    def _on_delete(self, _: int, name: str, unused: bool, empty: bool, no_wait: bool) -> None:
        queue = self._known(name)
        if (unused and queue.consumers) or (empty and queue.depth):
            raise Amqp091Error(codec.PRECONDITION_FAILED, f"the queue {name!r} is in use or not empty")
        answer = self._answering("queue.delete-ok", queue.depth, no_wait=no_wait)
        self.broker.delete(queue)
        self.broker.when_stored(answer)

    def _on_qos(self, size: int, count: int, shared: bool) -> None:
        if size:
            raise Amqp091Error(codec.NOT_IMPLEMENTED, "prefetch-size is counted in messages only")
        count = count and self.broker.behaviour.prefetch_limit(count)
        self.limit, self.prefetch = (count, self.prefetch) if shared else (self.limit, count)
        self.more_credit()
        self.say("basic.qos-ok")

    def _on_consume(
        self, _: int, name: str, tag: str, local: bool, settled: bool, exclusive: bool, no_wait: bool, more: bytes
    ) -> None:
        if exclusive or local:
            raise Amqp091Error(codec.NOT_IMPLEMENTED, "no-local and exclusive of basic.consume")
        queue = self._known(name)
        tag = tag or f"ctag-{self.number}-{next(self._named)}"
        if tag in self.consumers:
            raise Amqp091Error(codec.NOT_ALLOWED, f"the consumer-tag {tag[:40]!r} is in use")
        if not self.peer.takes_consumer():
            raise Amqp091Error(codec.ACCESS_REFUSED, "a connection has no more consumers (max_links)")
        chosen = _selector(message.texts(more))
        if not no_wait:
            self.say("basic.consume-ok", tag)  # before its first delivery
        self.consumers[tag] = Amqp091Consumer(self, queue, tag, settled, chosen)

    def _on_cancel(self, tag: str, no_wait: bool) -> None:
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            consumer.cancelled = True
            consumer.retire()
        if not no_wait:
            self.say("basic.cancel-ok", tag)

    def _on_get(self, _: int, name: str, settled: bool) -> None:
        queue = self._known(name)
        getter = None if settled else self._getters.get(queue)
        if getter is None or not getter.subscription.open:
            getter = Amqp091Consumer(self, queue, None, settled)
        finds = self.broker.behaviour.finds(next(self.peer.numbers))
        getter.wanted = int(finds)
        self.broker.more_credit(getter.subscription)
        self.broker.dispatch()
        if getter.wanted or not finds:
            getter.wanted = 0
            self.say("basic.get-empty", "")
        if settled or not getter.subscription.held:
            self._getters.pop(queue, None)
            getter.end()
        else:
            self._getters[queue] = getter

    def _on_publish(self, _: int, exchange: str, key: str, mandatory: bool, immediate: bool) -> None:
        """Its content comes in other frames: see `publish`."""
        if immediate:
            raise Amqp091Error(codec.NOT_IMPLEMENTED, "immediate")
        if exchange:
            raise Amqp091Error(codec.NOT_FOUND, f"there is no exchange {exchange[:40]!r}")

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._settle(tag, multiple, SettlementEvent.ACCEPTED)

    def _on_nack(self, tag: int, multiple: bool, requeue: bool) -> None:
        self._settle(tag, multiple, SettlementEvent.RELEASED if requeue else SettlementEvent.REJECTED)

    def _on_recover(self, requeue: bool, *, answers: bool = True) -> None:
        if not requeue:
            raise Amqp091Error(codec.NOT_IMPLEMENTED, "basic.recover without requeue")
        if self.unacknowledged:
            self._settle(0, True, SettlementEvent.RELEASED, transacted=False)
        if answers:
            self.say("basic.recover-ok")

    def _on_confirm(self, no_wait: bool) -> None:
        if self._transaction is not None:
            raise Amqp091Error(codec.PRECONDITION_FAILED, "a channel with transactions has no confirms")
        self._confirms = True
        if not no_wait:
            self.say("confirm.select-ok")

    def _on_select(self) -> None:
        if self._confirms:
            raise Amqp091Error(codec.PRECONDITION_FAILED, "a channel with confirms has no transactions")
        self._transaction = self._transaction or self.broker.begin()
        self.say("tx.select-ok")

    def _on_commit(self) -> None:
        if self._transaction is None and not self.broker.behaviour.wants_select:
            self.say("tx.commit-ok")
            return
        transaction, taken = self._ended()
        answer = self._answering("tx.commit-ok")
        reason, self._refused = self._refused, None

        def refused(reason: Refusal) -> None:
            self._taken = taken
            self._fail(reason)
            answer()

        if reason is not None:
            self.broker.abandon(transaction)
            refused(reason)
            return
        alone = not transaction.sends
        self.broker.commit(transaction, answer, refused, answers_acknowledgements=alone)
        for consumer, _ in taken.values():
            consumer.retire()

    def _on_rollback(self) -> None:
        """What was acknowledged in it is unacknowledged again, under its own tag."""
        if self.broker.behaviour.refuses_rollbacks:
            raise Amqp091Error(codec.PRECONDITION_FAILED, "the rollback is refused")
        transaction, taken = self._ended()
        self._refused = None
        self.unacknowledged = dict(sorted([*self.unacknowledged.items(), *taken.items()]))
        for consumer, _ in taken.values():
            consumer.open += 1
        self.broker.rollback(transaction, self._answering("tx.rollback-ok"))

    def _ended(self) -> tuple[Transaction, dict[int, tuple[Amqp091Consumer, int]]]:
        """The transaction that ends; the next one begins."""
        if self._transaction is None:
            raise Amqp091Error(codec.PRECONDITION_FAILED, "the channel has no transactions: tx.select comes first")
        ended, taken = self._transaction, self._taken
        self._transaction, self._taken = self.broker.begin(), {}
        return ended, taken

    def _settle(self, tag: int, multiple: bool, outcome: SettlementEvent, *, transacted: bool = True) -> None:
        if tag not in self.unacknowledged and not (multiple and not tag):
            if not self.broker.behaviour.knows_tags:
                return
            raise Amqp091Error(codec.PRECONDITION_FAILED, f"unknown delivery-tag {tag}")
        if outcome is SettlementEvent.ACCEPTED:
            multiple = self.broker.behaviour.covers_earlier(multiple)
        tags = [tag]
        if multiple or not tag:
            tags = list(itertools.takewhile(lambda each: each <= tag or not tag, self.unacknowledged))
        transaction = self._transaction if transacted else None
        for each in tags:
            consumer, own = self.unacknowledged[each]
            if not self.broker.takes(consumer.subscription, own):
                raise Amqp091Error(codec.PRECONDITION_FAILED, "this delivery cannot be acknowledged now")
            del self.unacknowledged[each]
            consumer.open -= 1
            if transaction is not None:
                self._taken[each] = (consumer, own)
            self.broker.settle(consumer.subscription, own, outcome, self.peer.owed(), transaction=transaction)
            self.broker.more_credit(consumer.subscription)
            consumer.retire()
        if self.limit:
            self.more_credit()

    def _known(self, name: str) -> Queue:
        queue = self.broker.named(name)
        if queue is None:
            raise Amqp091Error(codec.NOT_FOUND, f"there is no queue {name[:40]!r}")
        self._locked(queue)
        return queue

    def _locked(self, queue: Queue) -> None:
        if queue.owner not in (None, self.peer):
            raise Amqp091Error(
                codec.RESOURCE_LOCKED, f"the queue {queue.name[:40]!r} is exclusive to another connection"
            )


_SELECTOR = "x-filter-jms-selector"
"""The argument of basic.consume by which Broker-J takes a selector."""


def _selector(arguments: Mapping[str, str]) -> Selector | None:
    if arguments.keys() - {_SELECTOR}:
        raise Amqp091Error(codec.NOT_IMPLEMENTED, f"basic.consume has one argument, {_SELECTOR}")
    if not arguments:
        return None
    found = parse(arguments[_SELECTOR])
    if found is None:
        raise Amqp091Error(codec.PRECONDITION_FAILED, f"the selector {arguments[_SELECTOR][:40]!r}: {KNOWN}")
    return found


_HANDLERS: dict[str, Callable[..., None]] = {
    "channel.flow": ServerChannel._on_flow,
    "channel.flow-ok": lambda _channel, _active: None,
    "queue.declare": ServerChannel._on_declare,
    "queue.delete": ServerChannel._on_delete,
    "basic.qos": ServerChannel._on_qos,
    "basic.consume": ServerChannel._on_consume,
    "basic.cancel": ServerChannel._on_cancel,
    "basic.get": ServerChannel._on_get,
    "basic.publish": ServerChannel._on_publish,
    "basic.ack": ServerChannel._on_ack,
    "basic.reject": lambda channel, tag, requeue: channel._on_nack(tag, False, requeue),
    "basic.nack": ServerChannel._on_nack,
    "basic.recover": ServerChannel._on_recover,
    "basic.recover-async": lambda channel, requeue: channel._on_recover(requeue, answers=False),
    "confirm.select": ServerChannel._on_confirm,
    "tx.select": ServerChannel._on_select,
    "tx.commit": ServerChannel._on_commit,
    "tx.rollback": ServerChannel._on_rollback,
}
