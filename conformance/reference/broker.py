"""The broker: queues, settlement and the journal's records joined. No protocol, no I/O, no clock.

A protocol publishes, subscribes and settles here, and is told by a callback when the answer may be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.reference.commit import Done, GroupCommit, nobody
from conformance.reference.journal import Recovered
from conformance.reference.liars import Honest
from conformance.reference.message import Parsed, encode
from conformance.reference.queues import Message, Queue, Subscription
from conformance.reference.records import Counted, Moved, QueueDeclared, Record, Removed, Stored
from conformance.reference.settings import Settings
from conformance.reference.settlement import Event, State

DEAD_LETTERS = "DLQ"
"""Where rejected messages go; one that is rejected there is removed, for it has nowhere left to go."""


class Broker:
    """All queues of one broker."""

    def __init__(self, settings: Settings, behaviour: Honest, commit: GroupCommit, recovered: Recovered) -> None:
        self.behaviour = behaviour
        self._settings = settings
        self._commit = commit
        self._queues: dict[str, Queue] = {}
        self._undispatched: dict[Queue, None] = {}
        self._next_id = recovered.next_id
        self._sends = 0
        for name, next_number in recovered.queues.items():
            self._queues[name] = Queue(name, next_number)
        for stored in recovered.messages.values():
            self._restore(stored)

    def queue(self, name: str) -> Queue:
        """The durable queue of this name, declared now if it is unknown."""
        if name not in self._queues:
            self._queues[name] = Queue(name)
            self._commit.add(QueueDeclared(name, 1), nobody)
        return self._queues[name]

    def known(self, name: str) -> Queue | None:
        """The queue of this name, None if there is none."""
        return self._queues.get(name)

    def names(self) -> Iterator[str]:
        """All queues, in the order of their declaration."""
        return iter(self._queues)

    def next_send(self) -> int:
        """Counts a send that is owed an answer: its number since the start, from 1."""
        self._sends += 1
        return self._sends

    def publish(self, queue: Queue, parsed: Parsed, done: Done) -> None:
        """Stores a message and calls `done` when the settings allow the answer accepted; it is offered only then.

        Raises nothing: a message that cannot be stored stops the broker.
        """
        message = Message(self._next_id, queue, queue.number(), parsed.durable, parsed.rest, parsed.bare)
        self._next_id += 1

        def stored() -> None:
            message.advance(Event.STORED)
            queue.add(message, hidden=self.behaviour.hides(message.number))
            self._undispatched[queue] = None
            done()

        record = Stored(message.id, message.number, queue.name, 0, parsed.rest, parsed.bare)
        self._store(message, record, stored, sync=self._settings.sync_non_transactional)

    def subscribe(self, subscription: Subscription) -> None:
        """The subscription is served from the next `dispatch` on."""
        subscription.queue.subscribe(subscription)
        self._undispatched[subscription.queue] = None

    def unsubscribe(self, subscription: Subscription) -> None:
        """The link has ended: what it held goes back to its place, counted as a delivery that may have failed."""
        subscription.queue.unsubscribe(subscription)
        for tag in list(subscription.held):
            self._requeue(subscription.held.pop(tag), Event.ABANDONED, nobody)

    def more_credit(self, subscription: Subscription) -> None:
        """The subscription may have credit that it had not before."""
        self._undispatched[subscription.queue] = None

    def dispatch(self) -> None:
        """Sends all that can be sent."""
        while self._undispatched:
            self._undispatched.popitem()[0].dispatch(self._send)

    def encoded(self, message: Message) -> bytes:
        """The message as it goes to a consumer: its bytes, with the header telling of its deliveries so far.

        first-acquirer is false for every message that was found in the journal at the start: acquisitions are not
        stored, and false only says that it may have been acquired before (AMQP 1.0 section 3.2.1).
        """
        first = self.behaviour.first_acquirer(not message.acquired)
        count = self.behaviour.delivery_count(message.failures)
        return encode(message.durable, message.rest, first, count, message.bare)

    def settle(self, subscription: Subscription, tag: int, outcome: Event, done: Done, *, here: bool = True) -> None:
        """Applies a consumer's outcome; `done` is called when it may be confirmed.

        `here` is false for undeliverable-here. A second outcome for the same delivery changes nothing, and is
        confirmed: a receiver may say accepted, and afterwards say it again and settle (AMQP 1.0 section 2.6.12).
        """
        message = subscription.held.get(tag)
        if message is None:
            done()
        elif outcome is Event.ACCEPTED:
            self._accept(subscription, tag, message, done)
        else:
            del subscription.held[tag]
            if not here:
                message.refused_by |= {subscription}
            if outcome is Event.REJECTED:
                self._reject(message, done)
            else:
                self._requeue(message, outcome, done)

    def _accept(self, subscription: Subscription, tag: int, message: Message, done: Done) -> None:
        if self.behaviour.forgets(message.number, message.failures):
            done()
            return
        for other in self.behaviour.acknowledged_with(subscription.held, tag):
            self._remove(subscription.held.pop(other), Event.ACCEPTED, done if other == tag else nobody)

    def _reject(self, message: Message, done: Done) -> None:
        if message.queue.name == DEAD_LETTERS:
            self._remove(message, Event.ACCEPTED, done)
            return
        message.advance(Event.REJECTED)
        message.queue.unacknowledged -= 1
        target = self.queue(DEAD_LETTERS)
        number = target.number()

        def moved() -> None:
            message.advance(Event.MOVED)
            message.queue.discard(message)
            message.queue, message.number, message.refused_by = target, number, frozenset()
            target.add(message)
            self._undispatched[target] = None
            done()

        record = Moved(message.id, number, target.name)
        self._store(message, record, moved, sync=self._synced_acknowledgements)

    def _requeue(self, message: Message, event: Event, done: Done) -> None:
        """Ready again at once; only the count, if it changed, goes to disk before the answer."""
        before = message.failures
        message.advance(event)
        message.queue.unacknowledged -= 1
        message.queue.offer(message)
        self._undispatched[message.queue] = None
        if message.failures == before:
            done()
            return
        self._store(message, Counted(message.id, message.failures), done, sync=self._synced_acknowledgements)

    def _send(self, subscription: Subscription, message: Message) -> None:
        subscription.sent += 1
        tag = subscription.sent
        subscription.deliver(tag, message)
        message.acquired = True
        if subscription.settled or self.behaviour.removes_when_sending:
            self._remove(message, Event.SENT_SETTLED, nobody)
            return
        message.advance(Event.SENT)
        message.queue.unacknowledged += 1
        subscription.held[tag] = message

    def _remove(self, message: Message, event: Event, done: Done) -> None:
        if message.state is State.ACQUIRED:
            message.queue.unacknowledged -= 1
        message.advance(event)

        def removed() -> None:
            message.advance(Event.REMOVED)
            message.queue.discard(message)
            done()

        self._store(message, Removed(message.id), removed, sync=self._synced_acknowledgements)

    @property
    def _synced_acknowledgements(self) -> bool:
        return self._settings.sync_acknowledgements and self._settings.sync_non_transactional

    def _store(self, message: Message, record: Record, done: Done, *, sync: bool) -> None:
        kept = record if message.durable and self._settings.persistence else None
        add: Callable[[Record | None, Done], None] = self._commit.add if sync else self._commit.add_early
        add(kept, done)

    def _restore(self, stored: Stored) -> None:
        queue = self._queues[stored.queue]
        message = Message(stored.id, queue, stored.number, True, stored.rest, stored.bare)
        message.failures = stored.failures
        message.acquired = True
        message.advance(Event.STORED)
        queue.add(message, hidden=self.behaviour.hides(message.number))
