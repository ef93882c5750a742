"""The broker: queues, settlement and the journal's records joined. No protocol, no I/O, no clock.

A protocol publishes, subscribes and settles here, and is told by a callback when the answer may be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from conformance.reference.core.message import Parsed, encode
from conformance.reference.core.queues import Message, Queue, Subscription
from conformance.reference.core.settlement import COUNTED, Event, State
from conformance.reference.core.transactions import Outcome, Send, Transaction
from conformance.reference.honest import Answered, Asked, Honest
from conformance.reference.settings import Settings
from conformance.reference.store.commit import Done, GroupCommit, nobody
from conformance.reference.store.journal import Recovered
from conformance.reference.store.records import (
    Change,
    Committed,
    Counted,
    Moved,
    QueueDeclared,
    Record,
    Removed,
    Stored,
)

DEAD_LETTERS = "DLQ"
"""Where rejected messages go; one that is rejected there is removed, for it has nowhere left to go."""


class Effect(NamedTuple):
    """A change of one message: the record that keeps it, None for memory only, and what it does once that is stored."""

    record: Change | None
    apply: Done


class Broker:
    """All queues of one broker."""

    def __init__(self, settings: Settings, behaviour: Honest, commit: GroupCommit, recovered: Recovered) -> None:
        self.behaviour = behaviour
        self._settings = settings
        self._commit = commit
        self._adders: dict[Answered, Callable[[Record | None, Done], None]] = {
            Answered.STORED: commit.add,
            Answered.WRITTEN: commit.add_unsynced,
            Answered.AT_ONCE: commit.add_late,
        }
        self._queues: dict[str, Queue] = {}
        self._undispatched: dict[Queue, None] = {}
        self._next_id = recovered.next_id
        self._sends = 0
        self._transactions = 0
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

    def begin(self) -> Transaction:
        """A transaction that holds nothing yet. Whoever begins one ends it, by `commit`, `rollback` or `abandon`."""
        self._transactions += 1
        return Transaction(self._transactions)

    def publish(self, queue: Queue, parsed: Parsed, done: Done, transaction: Transaction | None = None) -> None:
        """Stores a message and calls `done` when the settings allow the answer accepted; it is offered only then.

        In a transaction `done` is called once the transaction has the message: the answer is a provisional one.
        Raises nothing: a message that cannot be stored stops the broker.
        """
        if transaction is not None and self.behaviour.holds_sends:
            transaction.sends.append(Send(queue, parsed))
            done()
        else:
            sync = self._settings.sync_non_transactional
            self._perform([self._arrival(queue, parsed)], done, sync=sync, asked=Asked.SEND)

    def commit(self, transaction: Transaction, done: Done) -> None:
        """Applies all that the transaction holds, or after a crash nothing: it is one record of the journal.

        What it holds of a link that has ended, or has given another outcome since, is left out: such a message is no
        longer this link's to settle. `done` is called when the settings allow the answer.
        """
        effects = self._sends_effects(transaction.sends)
        for subscription, tag, event, here in transaction.outcomes:
            effects += self._outcome_effects(subscription, tag, event, here=here, at_once=False)

        def committed() -> None:
            transaction.over(committed=True)
            done()

        self._perform(effects, committed, sync=self._settings.sync_transactional, asked=Asked.COMMIT)

    def rollback(self, transaction: Transaction, done: Done) -> None:
        """Forgets what was sent in it; deliveries stay with their links, as if no outcome had been given (4.4.2)."""
        transaction.sends.clear()
        transaction.outcomes.clear()
        transaction.over(committed=False)
        done()

    def abandon(self, transaction: Transaction) -> None:
        """Its control link or connection ended before a discharge: it is rolled back (AMQP 1.0 section 4.1)."""
        if self.behaviour.commits_abandoned:
            self.commit(transaction, nobody)
        else:
            self.rollback(transaction, nobody)

    def subscribe(self, subscription: Subscription) -> None:
        """The subscription is served from the next `dispatch` on."""
        subscription.queue.subscribe(subscription)
        self._undispatched[subscription.queue] = None

    def unsubscribe(self, subscription: Subscription) -> None:
        """The link has ended: what it held goes back to its place, counted as a delivery that may have failed."""
        subscription.queue.unsubscribe(subscription)
        for tag in list(subscription.held):
            effect = self._return(subscription.held.pop(tag), Event.ABANDONED, at_once=True)
            self._perform([effect], nobody, sync=self._synced_acknowledgements)

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
        count = self.behaviour.delivery_count(message.failures) if self.behaviour.marks_redelivered else 0
        return encode(message.durable, message.rest, first, count, message.bare)

    def settle(
        self,
        subscription: Subscription,
        tag: int,
        outcome: Event,
        done: Done,
        *,
        here: bool = True,
        transaction: Transaction | None = None,
    ) -> None:
        """Applies a consumer's outcome; `done` is called when it may be confirmed.

        `here` is false for undeliverable-here. A second outcome for the same delivery changes nothing, and is
        confirmed: a receiver may say accepted, and afterwards say it again and settle (AMQP 1.0 section 2.6.12).
        In a transaction the delivery stays with its link until the commit, and `done` is called at once.
        """
        if transaction is not None and self.behaviour.holds_outcomes:
            transaction.outcomes.append(Outcome(subscription, tag, outcome, here))
            done()
            return
        effects = self._outcome_effects(subscription, tag, outcome, here=here, at_once=True)
        asked = Asked.ACKNOWLEDGEMENT if outcome is Event.ACCEPTED else None
        self._perform(effects, done, sync=self._synced_acknowledgements, asked=asked)

    def _sends_effects(self, sends: list[Send]) -> list[Effect]:
        """The effects of a transaction's sends; which of them are stored is for a liar to say."""
        effects = [self._arrival(*send) for send in sends]
        durable = [effect for effect in effects if effect.record is not None]
        forgotten = durable[self.behaviour.stored_sends(len(durable)) :]
        return [effect._replace(record=None) if effect in forgotten else effect for effect in effects]

    def _outcome_effects(
        self, subscription: Subscription, tag: int, outcome: Event, *, here: bool, at_once: bool
    ) -> list[Effect]:
        """The effects of an outcome: none if the link does not hold the delivery any more."""
        message = subscription.held.get(tag)
        if message is None:
            return []
        event = self.behaviour.applied(outcome)
        if event is Event.ACCEPTED:
            if self.behaviour.forgets(message.number, message.failures):
                return []
            taken = list(self.behaviour.acknowledged_with(subscription.held, tag))
            return [self._removal(subscription.held.pop(other), Event.ACCEPTED) for other in taken]
        del subscription.held[tag]
        if not here and self.behaviour.bars_refusers:
            message.refused_by |= {subscription}
        if event is Event.REJECTED:
            return [self._rejection(message)]
        return [self._return(message, event, at_once=at_once)]

    def _arrival(self, queue: Queue, parsed: Parsed) -> Effect:
        message = Message(self._next_id, queue, queue.number(), parsed.durable, parsed.rest, parsed.bare)
        self._next_id += 1

        def stored() -> None:
            message.advance(Event.STORED)
            queue.add(message, hidden=self.behaviour.hides(message.number))
            self._undispatched[queue] = None

        return self._effect(
            message, Stored(message.id, message.number, queue.name, 0, parsed.rest, parsed.bare), stored
        )

    def _removal(self, message: Message, event: Event) -> Effect:
        if message.state is State.ACQUIRED:
            message.queue.unacknowledged -= 1
        message.advance(event)

        def removed() -> None:
            message.advance(Event.REMOVED)
            message.queue.discard(message)

        return self._effect(message, Removed(message.id), removed)

    def _rejection(self, message: Message) -> Effect:
        if message.queue.name == DEAD_LETTERS:
            return self._removal(message, Event.ACCEPTED)
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

        return self._effect(message, Moved(message.id, number, target.name), moved)

    def _return(self, message: Message, event: Event, *, at_once: bool) -> Effect:
        """Back to its place: `at_once`, for only the count is to be stored, or with the rest of a transaction."""
        failures = message.failures + (event in COUNTED)

        def returned() -> None:
            message.advance(event)
            message.queue.unacknowledged -= 1
            message.queue.offer(message)
            self._undispatched[message.queue] = None

        record = Counted(message.id, failures) if failures != message.failures else None
        if at_once:
            returned()
        return self._effect(message, record, nobody if at_once else returned)

    def _effect(self, message: Message, record: Change | None, apply: Done) -> Effect:
        return Effect(record if message.durable and self._settings.persistence else None, apply)

    def _perform(self, effects: list[Effect], done: Done, *, sync: bool, asked: Asked | None = None) -> None:
        """Stores the effects as one, then applies them in their order, and then calls `done`; `asked` for an answer."""
        records = tuple(effect.record for effect in effects if effect.record is not None)

        def stored() -> None:
            for effect in effects:
                effect.apply()
            done()

        answered = self.behaviour.answered(asked, self._sends) if asked is not None else Answered.STORED
        add = self._adders[answered] if sync else self._commit.add_early
        add(Committed(records) if len(records) > 1 else next(iter(records), None), stored)

    def _send(self, subscription: Subscription, message: Message) -> None:
        subscription.sent += 1
        tag = subscription.sent
        subscription.deliver(tag, message)
        message.acquired = True
        settled = subscription.settled and not self.behaviour.keeps_settled
        if settled or self.behaviour.removes_when_sending:
            removal = self._removal(message, Event.SENT_SETTLED)
            self._perform([removal], nobody, sync=self._synced_acknowledgements)
            return
        message.advance(Event.SENT)
        message.queue.unacknowledged += 1
        subscription.held[tag] = message

    @property
    def _synced_acknowledgements(self) -> bool:
        return self._settings.sync_acknowledgements and self._settings.sync_non_transactional

    def _restore(self, stored: Stored) -> None:
        queue = self._queues[stored.queue]
        message = Message(stored.id, queue, stored.number, True, stored.rest, stored.bare)
        message.failures = stored.failures
        message.acquired = True
        message.advance(Event.STORED)
        queue.add(message, hidden=self.behaviour.hides(message.number))
