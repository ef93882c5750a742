"""The broker: queues, settlement and the journal's records joined. No protocol, no I/O, no clock of its own.

A protocol publishes, subscribes and settles here; a callback says when it may answer.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from conformance.reference.core.admission import NOT_FOUND, Addresses, Admission, Refusal, Refused, ignore_refusal
from conformance.reference.core.effects import Effect, Effects, Storage
from conformance.reference.core.notes import Notes
from conformance.reference.core.queues import Delays, Expiries, Message, Queue, Send, Subscription, Transaction
from conformance.reference.core.sections import Parsed, encode, with_time_left
from conformance.reference.core.settlement import SettlementEvent, State
from conformance.reference.honest import Asked, Honest
from conformance.reference.profiles import STANDARD, Profile
from conformance.reference.settings import QueueOptions, Settings
from conformance.reference.store.commit import Done, GroupCommit, do_nothing
from conformance.reference.store.records import NOTES, Committed, Counted, Removed
from conformance.reference.store.recovery import Recovered

EXPIRED_AT_ONCE = 1000
"""Messages that expire before others are served: a million that end together must not stop the broker for seconds."""

_ACCEPTED, _SENT = SettlementEvent.ACCEPTED, SettlementEvent.SENT
_SEND, _URGENT_SEND, _ACKNOWLEDGEMENT = Asked.SEND, Asked.URGENT_SEND, Asked.ACKNOWLEDGEMENT
"""Python 3.11 takes 0.1 us to find a member of an enum by its name: these are needed for every message."""

_NO_OPTIONS: Mapping[str, QueueOptions] = {}


class ReferenceBroker:
    """All queues of one broker.

    `options` are the rules of the queues that have rules of their own, `clock` gives seconds since the epoch, `profile`
    is what peers may ask for beyond the standards; `surroundings` is set by who runs it, to the figures that only it
    knows: they are shown beside the broker's own. `unfinished` are the bytes of messages that have come in part, of all
    connections together.
    Raises `UsageError` where options contradict what was recovered.
    """

    def __init__(
        self,
        settings: Settings,
        behaviour: Honest,
        commit: GroupCommit,
        recovered: Recovered,
        options: Mapping[str, QueueOptions] = _NO_OPTIONS,
        clock: Callable[[], float] = time.time,
        profile: Profile = STANDARD,
    ) -> None:
        self.settings = settings
        self.profile = profile
        self.surroundings: Callable[[], Mapping[str, int]] = dict
        self.behaviour = behaviour
        self._commit = commit
        self._clock = clock
        self._storage = Storage(settings, behaviour, commit)
        self._undispatched: dict[Queue, None] = {}
        self._admission = Admission(settings, behaviour, commit, self.now_ms)
        self._expiries = Expiries()
        self._delays = Delays()
        self._addresses = Addresses(settings, options, commit)
        self._effects = Effects(
            behaviour, self._addresses, self._expiries, self._delays, self._undispatched, recovered.next_id
        )
        self.unfinished = 0
        self.stopping = False
        self._sends = 0
        self._transactions = 0
        self.notes = Notes(self._effects.take_id)
        for name, next_number in recovered.queues.items():
            if name == NOTES:
                continue
            self._addresses.restore(name, next_number, recovered.identities.get(name, []))
            identities = self._addresses.queue(name).identities
            if identities is not None:
                identities.mistaken = behaviour.mistakes_recovered_ids
        messages = self.notes.restored(recovered.messages.values())
        self._taken_over = len(messages)
        numbers: dict[str, list[int]] = collections.defaultdict(list)
        for stored in messages:
            numbers[stored.queue].append(stored.number)
        places: collections.Counter[str] = collections.Counter()
        crash = 0 if recovered.closed else recovered.sequence
        for stored in messages:
            place, count = places[stored.queue], len(numbers[stored.queue])
            if not stored.failures and (behaviour.recovers_late or behaviour.forgets_unused):
                commit.add(Counted(stored.id, 1), do_nothing)  # the mark by which the next start knows it
            if behaviour.forgets_unused if stored.failures else behaviour.recovers_late:
                pass
            elif not behaviour.recovers(place, count, crash):
                commit.add(Removed(stored.id), do_nothing)
            elif behaviour.takes_over(place, count):
                number = numbers[stored.queue][behaviour.recovered_at(place, count)]
                self._effects.restore(self._addresses.queue(stored.queue), stored, number)
            places[stored.queue] += 1
        for name in options:
            self._addresses.queue(name)

    def queue(self, name: str, *, durable: bool = True) -> Queue:
        """The queue of this name, declared now if it is unknown: durably, unless its options or `durable` say else."""
        return self._addresses.queue(name, durable=durable)

    def when_stored(self, done: Done) -> None:
        """Call back when all that was asked for before is stored, a declaration among it."""
        self._commit.add(None, done)

    def refused(self, name: str) -> Refusal | None:
        """Why no queue of this name can be declared; None where it can be, or is there."""
        return None if self.behaviour.makes_any_queue else self._addresses.refused(name)

    def known(self, name: str) -> Queue | None:
        return self._addresses.known(name)

    def named(self, name: str) -> Queue | None:
        """As `known`; a dead-letter queue or an expiry queue of the settings is there before its first message."""
        return self._addresses.named(name)

    def names(self) -> Iterator[str]:
        return self._addresses.names()

    def temporary(self) -> Queue:
        """A new queue in memory only, with a name that no other has had, before a restart or after it."""
        return self._addresses.temporary()

    def topic(self, name: str) -> Queue:
        """The topic of this name, to send to: it keeps nothing itself."""
        return self._addresses.topic(name)

    def subscription(self, topic: str, client: str, name: str) -> Queue | Refusal:
        """The queue of a client's durable subscription: it gets what is sent to the topic from its declaration on."""
        return self._addresses.subscription(topic, client, name)

    def delete(self, queue: Queue) -> None:
        """Delete the queue with all its messages; its subscriptions hold nothing any more, and their `ended` is called.

        What is sent to it from now on is refused, a transaction that has such a send too. A message that is on its way
        to another queue gets there.
        """
        if queue.deleted:
            return
        self._addresses.delete(queue)
        for message in queue.browse():
            self._expiries.forget(message)
        for subscription in queue.close():
            subscription.open = False
            subscription.held.clear()
            subscription.ended()

    def browse(self, queue: Queue) -> Iterator[Message]:
        """All stored messages in order, those that are acquired included; nothing changes by it.

        What is stored later is not among them, and what has gone, or has expired, when its turn comes is left out.
        """
        return (message for message in queue.browse() if not 0 < message.expires_ms <= self.now_ms())

    def next_send(self) -> int:
        """Counts a send that is owed an answer: its number since the start, from 1."""
        self._sends += 1
        if not self.behaviour.outlives_send(self._sends):
            raise SystemExit(f"the {self._sends:,}. send ended the broker")
        return self._sends

    def begin(self) -> Transaction:
        """Return a new transaction. The caller ends it, by `commit`, `rollback` or `abandon`."""
        self._transactions += 1
        return Transaction(self._transactions)

    def publish(
        self,
        queue: Queue,
        parsed: Parsed,
        done: Done,
        transaction: Transaction | None = None,
        *,
        refused: Refused = ignore_refusal,
        urgent: bool = False,
        sender: object = None,
    ) -> None:
        """Stores a message and calls `done` when the settings allow the answer accepted; it is offered only then.

        A message that cannot be taken is not stored, and never will be: `refused` is called in place of `done`, at once
        or, if the disk had no room for it, later.

        In a transaction `done` is called once the transaction has the message: the answer is a provisional one. From
        then on it has its place in the queue, so that a full queue refuses here, and never at the commit.

        One that repeats the id of a message that was stored is answered as accepted when that one would be, and not
        stored; in a transaction it is left out by the commit. `urgent`, and its connection `sender`, are for liars.
        """
        targets = self._addresses.targets(queue)
        if not targets:
            refused(Refusal(NOT_FOUND, f"the topic {queue.name} has no subscription that would keep the message"))
            return
        if queue.topic and not self.behaviour.serves_absent:
            targets = [each for each in targets if each.consumers]
        if targets:
            self._publish(targets, parsed, done, transaction, refused, urgent=urgent, sender=sender)
        else:
            done()

    def serve(self, sessions: Callable[[str], Iterable[Queue]]) -> None:
        """From now on what is sent to a topic also goes to the queues of these sessions that have subscribed to it."""
        self._addresses.sessions = sessions

    def targets(self, queue: Queue) -> list[Queue]:
        """The queues that get what is sent to this one, it among them if it is no topic."""
        return self._addresses.targets(queue)

    def publish_to(
        self,
        targets: Sequence[Queue],
        parsed: Parsed,
        done: Done,
        *,
        refused: Refused,
        noted: Sequence[Effect] = (),
        sender: object = None,
    ) -> None:
        """As `publish`, to one queue or several; what is `noted` is stored with the message, or refused with it."""
        if not self.behaviour.serves_absent:
            targets = [each for each in targets if each.consumers]
        if targets:
            self._publish(targets, parsed, done, None, refused, urgent=False, sender=sender, noted=noted)
        else:
            self.store(noted, done)

    def store(self, effects: Sequence[Effect], done: Done) -> None:
        """Store what is noted, and call back then."""
        self._storage.perform([*effects], done, None)

    def _publish(
        self,
        targets: Sequence[Queue],
        parsed: Parsed,
        done: Done,
        transaction: Transaction | None,
        refused: Refused,
        *,
        urgent: bool,
        sender: object,
        noted: Sequence[Effect] = (),
    ) -> None:
        """Publish to the first of these queues, whose rules decide, and a copy of it to each of the others."""
        if transaction is not None and not self.behaviour.holds_sends:
            transaction = None
        queue, *others = targets
        identity = self._admission.identity(queue, parsed)
        if identity is not None and transaction is None and self._admission.is_repeated(queue, identity, done, refused):
            return
        reason = self._admission.refusal(queue, parsed)
        if reason is not None:
            queue.refused += 1
            if transaction is not None and self.behaviour.hides_refusals_in_transactions:
                done()
                return
            refused(reason)
            if not self.behaviour.stores_refused or queue.deleted:
                return
            done, refused, transaction = do_nothing, ignore_refusal, None
        parsed = self._admission.dated(queue, parsed)
        queue.reserve(len(parsed.bare))
        for other in others:
            other.reserve(len(parsed.bare))
        if transaction is not None:
            transaction.sends += [Send(queue, parsed, identity), *(Send(other, parsed, None) for other in others)]
            done()
            return
        copies = self.behaviour.copies(queue.next_number)
        if not copies:
            self._drop(queue, len(parsed.bare))
            self.store(noted, done)
            return
        effects = [self._effects.arrival(queue, parsed, identity)]
        if self._taken_over and not self.behaviour.stores_after_recovery(self._sends):
            effects[0] = effects[0]._replace(records=())
        for _ in range(1, copies):
            queue.reserve(len(parsed.bare))
            effects.append(self._effects.arrival(queue, parsed, None))
        effects += [self._effects.arrival(other, parsed, None) for other in others]
        effects += noted
        beside = queue.first_sender(sender) is not sender
        asked = _URGENT_SEND if urgent else _SEND
        self._storage.perform(effects, done, asked, self._sends, refused=refused, beside=beside)

    def commit(
        self,
        transaction: Transaction,
        done: Done,
        refused: Refused = ignore_refusal,
        *,
        answers_acknowledgements: bool = False,
    ) -> None:
        """Applies all that the transaction holds, or after a crash nothing: it is one record of the journal.

        What it holds of a link that has ended, or has given another outcome since, is left out: such a message is no
        longer this link's to settle. `done` is called when the settings allow the answer.

        `refused` is called in its place where the disk is full, or a queue of its sends was deleted: it is rolled back
        as a whole, and the deliveries whose outcomes it has are their links' again.

        `answers_acknowledgements`: it has nothing but acknowledgements, and no other answer tells that they are stored.
        Then it is answered as they are, too.
        """
        reason = self._admission.commit_refusal(transaction.sends)
        if reason is not None:
            self._forget(transaction)
            refused(reason)
            return
        if self._admission.undecided(transaction.sends):
            # Whether these are duplicates is known once the disk has the first copies, or has refused them.
            again = partial(self.commit, answers_acknowledgements=answers_acknowledgements)
            self._commit.add(None, lambda: again(transaction, done, refused))
            return
        effects = self._sends_effects(self._admission.unrepeated(transaction.sends))
        stored = self.behaviour.stored_outcomes(len(transaction.outcomes))
        for place, ((subscription, tag), (event, here)) in enumerate(transaction.outcomes.items()):
            made = self._outcome_effects(subscription, tag, event, here=here, transacted=True)
            effects += made if place < stored else [effect._replace(records=()) for effect in made]
            subscription.committed = True
        transaction.sends.clear()

        def committed() -> None:
            transaction.over(committed=True)
            done()

        def failed(reason: Refusal) -> None:
            transaction.over(committed=False)
            refused(reason)

        acknowledges = answers_acknowledgements and bool(effects)
        self._storage.perform(effects, committed, Asked.COMMIT, refused=failed, acknowledges=acknowledges)

    def rollback(self, transaction: Transaction, done: Done) -> None:
        """Forgets what was sent in it; deliveries stay with their links, as if no outcome had been given (4.4.2)."""
        if self.behaviour.commits_rollbacks:
            transaction.outcomes.clear()
            self.commit(transaction, done)
        elif self.behaviour.records_rollbacks:
            self._forget(transaction)
            self._commit.add_unsynced(Committed(()), done, None)
        else:
            self._forget(transaction)
            done()

    def abandon(self, transaction: Transaction) -> None:
        """Its control link or connection ended before a discharge: it is rolled back (AMQP 1.0 section 4.1)."""
        if self.behaviour.commits_abandoned:
            self.commit(transaction, do_nothing)
        else:
            self.rollback(transaction, do_nothing)

    def subscribe(self, subscription: Subscription) -> None:
        """The subscription is served from the next `dispatch` on."""
        if not self.behaviour.outlives_consumers(self._taken_over):
            raise SystemExit(f"no consumer is served: {self._taken_over:,} messages were taken over")
        if subscription.selector is not None:
            subscription.selector = self.behaviour.selects_by(subscription.selector)
        subscription.queue.subscribe(subscription)
        self._undispatched[subscription.queue] = None

    def unsubscribe(self, subscription: Subscription) -> None:
        """The link has ended: what it held goes back to its place, counted as a delivery that may have failed.

        Does nothing where that was done, or where the queue was deleted.
        """
        if not subscription.open:
            return
        subscription.open = False
        subscription.queue.unsubscribe(subscription)
        for tag in list(subscription.held):
            self._give_back(subscription.held.pop(tag))
        if self.behaviour.empties_left and not subscription.queue.consumers:
            for message in subscription.queue.browse():
                if message.state is State.READY:
                    self._expire(message)

    def more_credit(self, subscription: Subscription) -> None:
        self._undispatched[subscription.queue] = None

    def dispatch(self) -> None:
        """Sends all that can be sent; what has expired by now is not sent but removed."""
        now_ms = 0
        if self._delays.next_ms() is not None:
            for message in self._delays.due(self.now_ms()):
                message.queue.offer(message)
                self._undispatched[message.queue] = None
        if self._expiries:
            now_ms = self.now_ms()
            for message in self._expiries.due(now_ms, EXPIRED_AT_ONCE):
                self._expire(message)
        unselected = self._expire if self.behaviour.drops_unselected else None
        while self._undispatched:
            self._undispatched.popitem()[0].dispatch(self._send, now_ms, self._expire, unselected)

    def next_time(self) -> float | None:
        """When `dispatch` is to be called if nothing else happens, in seconds since the epoch; None for never."""
        times = [due for due in (self._expiries.next_ms(), self._delays.next_ms()) if due is not None]
        return min(times) / 1000 if times else None

    def encoded(self, message: Message) -> bytes:
        """The message as it goes to a consumer: its bytes, with the header telling of its deliveries so far.

        first-acquirer is false for every message that was found in the journal at the start: acquisitions are not
        stored, and false only says that it may have been acquired before (AMQP 1.0 section 3.2.1). A ttl is what is
        left of it.
        """
        first = self.behaviour.first_acquirer(not message.acquired)
        count = self.behaviour.delivery_count(message.failures) if self.behaviour.marks_redelivered else 0
        rest = message.rest
        if message.expires_ms:
            rest = with_time_left(rest, self.left_ms(message))
        return encode(message.durable, rest, first, count, self.body(message))

    def left_ms(self, message: Message) -> int:
        """The milliseconds that a message with an end has left, at least one; 0 without an end."""
        return max(1, message.expires_ms - self.now_ms()) if message.expires_ms else 0

    def body(self, message: Message) -> bytes:
        """The sections of the message that a broker leaves as they are."""
        return self.behaviour.body(message.number, message.bare)

    def takes(self, subscription: Subscription, tag: int) -> bool:
        """Whether a delivery may be acknowledged now, with others before it open, or after a commit."""
        if subscription.committed and not self.behaviour.takes_after_commit:
            return False
        return self.behaviour.takes_any_order or next(iter(subscription.held), tag) == tag

    def settle(
        self,
        subscription: Subscription,
        tag: int,
        outcome: SettlementEvent,
        done: Done,
        *,
        here: bool = True,
        transaction: Transaction | None = None,
        noted: Sequence[Effect] = (),
    ) -> None:
        """Applies a consumer's outcome; `done` is called when it may be confirmed. What is `noted` is stored with it.

        `here` is false for undeliverable-here. A second outcome for the same delivery changes nothing, and is
        confirmed: a receiver may say accepted, and afterwards say it again and settle (AMQP 1.0 section 2.6.12).
        In a transaction the delivery stays with its link until the commit, and `done` is called at once.
        """
        if transaction is not None and self.behaviour.holds_outcomes:
            transaction.outcomes.setdefault((subscription, tag), (outcome, here))
            done()
            return
        effects = [*self._outcome_effects(subscription, tag, outcome, here=here, transacted=False), *noted]
        asked = _ACKNOWLEDGEMENT if outcome is _ACCEPTED else None
        self._storage.perform(effects, done, asked, self._sends, lazy=subscription.lazy)

    def _forget(self, transaction: Transaction) -> None:
        for send in transaction.sends:
            send.queue.release(len(send.parsed.bare))
        transaction.sends.clear()
        transaction.outcomes.clear()
        transaction.over(committed=False)

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _sends_effects(self, sends: list[Send]) -> list[Effect]:
        """The effects of a transaction's sends; which of them are stored is for a liar to say."""
        kept: list[Send] = []
        effects: list[Effect] = []
        for send in sends:
            if self.behaviour.copies(send.queue.next_number):
                kept.append(send)
                effects.append(self._effects.arrival(*send))
            else:
                self._drop(send.queue, len(send.parsed.bare))
        durable = [place for place, effect in enumerate(effects) if effect.records]
        for place, sent in enumerate(durable):
            if not self.behaviour.stores_send(place, len(durable), kept[sent].queue is kept[0].queue):
                effects[sent] = effects[sent]._replace(records=())
        return effects

    @staticmethod
    def _drop(queue: Queue, size: int) -> None:
        queue.release(size)
        queue.number()

    def _outcome_effects(
        self, subscription: Subscription, tag: int, outcome: SettlementEvent, *, here: bool, transacted: bool
    ) -> list[Effect]:
        """The effects of an outcome: none if the link does not hold the delivery any more."""
        if self.behaviour.mixes_receivers_up and outcome is _ACCEPTED:
            subscription, tag = self._another(subscription, tag)
        message = subscription.held.get(tag)
        if message is None:
            return []
        event = self.behaviour.applied(outcome)
        taken = [tag]
        if event is _ACCEPTED:
            if self.behaviour.forgets(message.number, message.failures):
                return []
            lazy = subscription.lazy
            covers = self.behaviour.acknowledged_lazily_with if lazy else self.behaviour.acknowledged_with
            taken = list(covers(subscription.held, tag))
        elif not here and self.behaviour.bars_refusers:
            message.refused_by |= {subscription}
        return [self._outcome_effect(subscription, other, event, transacted=transacted) for other in taken]

    def _another(self, subscription: Subscription, tag: int) -> tuple[Subscription, int]:
        """The oldest delivery that another subscription of the connection holds; this one if none does."""
        found = [other for name in self.names() for other in self.queue(name).holding(subscription.owner)]
        other = next((other for other in found if other is not subscription), None)
        return (subscription, tag) if other is None else (other, next(iter(other.held)))

    def _outcome_effect(
        self, subscription: Subscription, tag: int, event: SettlementEvent, *, transacted: bool
    ) -> Effect:
        message = subscription.held.pop(tag)
        if transacted:
            message.advance(SettlementEvent.COMMITTED)
        make = self._effects.removal if event is _ACCEPTED else self._effects.settled
        effect = make(message, event, at_once=not transacted)
        return effect._replace(undo=self._undoing(effect.undo, subscription, tag, message)) if transacted else effect

    def _undoing(self, undo: Done, subscription: Subscription, tag: int, message: Message) -> Done:
        """The commit was refused: the delivery is its link's again, or, if that has ended, the queue's."""

        def undone() -> None:
            undo()
            message.advance(SettlementEvent.REFUSED)
            if subscription.open:
                subscription.hold_again(tag, message)
            elif not message.queue.deleted:
                self._give_back(message)

        return undone

    def _give_back(self, message: Message) -> None:
        if self.behaviour.drops_abandoned(message.number, self.stopping):
            effect = self._effects.removal(message, SettlementEvent.ACCEPTED)
        else:
            message.turned = self.behaviour.turns_abandoned
            effect = self._effects.settled(message, self.behaviour.applied(SettlementEvent.ABANDONED), at_once=True)
        self._storage.perform([effect], do_nothing, None)

    def _expire(self, message: Message) -> None:
        self._storage.perform([self._effects.expiry(message)], do_nothing, None)

    def _send(self, subscription: Subscription, message: Message) -> None:
        subscription.sent += 1
        tag = subscription.sent
        settled = subscription.settled and not self.behaviour.keeps_settled
        if not settled or self.behaviour.sends_settled(message.number):
            subscription.deliver(tag, message)
        message.acquired = True
        if settled or self.behaviour.removes_when_sending:
            removal = self._effects.removal(message, SettlementEvent.SENT_SETTLED)
            self._storage.perform([removal], do_nothing, None)
            return
        message.advance(_SENT)
        message.queue.unacknowledged += 1
        subscription.held[tag] = message
        if self.behaviour.gives_twice(message.number) and (other := message.queue.beside(subscription)):
            other.sent += 1
            other.deliver(other.sent, message)  # and does not hold it: its outcome is confirmed, and changes nothing
