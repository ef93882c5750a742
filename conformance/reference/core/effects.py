"""What happens to a message: its steps in the table, the records that keep them, and when a client has its answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from conformance.reference.core.admission import LIMIT, Addresses, Refusal, Refused
from conformance.reference.core.queues import Delays, Expiries, Message, Queue
from conformance.reference.core.sections import Parsed, delivery_time
from conformance.reference.core.settlement import COUNTED, SettlementEvent, State
from conformance.reference.honest import LAZY_S, Answered, Asked, Honest
from conformance.reference.settings import Settings
from conformance.reference.store.commit import Done, GroupCommit, do_nothing
from conformance.reference.store.records import Change, Committed, Counted, Identified, Moved, Record, Removed, Stored

_STORED, _REMOVED = SettlementEvent.STORED, SettlementEvent.REMOVED
_HELD = frozenset({State.ACQUIRED, State.COMMITTING})
"""Python 3.11 takes 0.1 us to find a member of an enum by its name: these are needed for every message."""


class Effect(NamedTuple):
    """A change of one message.

    `records` keep it, none for memory only; `apply` is what it does once they are stored; `undo` takes it back where
    they are refused, which only what a peer waits for can be.
    """

    records: tuple[Change, ...]
    apply: Done
    undo: Done = do_nothing


class Effects:
    """Makes the effects of one broker's messages.

    `undispatched` gets the queues that may have something to send. Where an effect is not `at_once`, the message makes
    no step before it is applied: in a commit, which may be refused.
    """

    def __init__(
        self,
        behaviour: Honest,
        addresses: Addresses,
        expiries: Expiries,
        delays: Delays,
        undispatched: dict[Queue, None],
        next_id: int,
    ) -> None:
        self._behaviour = behaviour
        self._addresses = addresses
        self._expiries = expiries
        self._delays = delays
        self._undispatched = undispatched
        self._next_id = next_id

    def take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def arrival(self, queue: Queue, parsed: Parsed, identity: bytes | None) -> Effect:
        """A message that has its place in the queue reserved; `identity` is what its sender calls it."""
        durable, rest, bare, _, expires_ms = parsed
        number = self._behaviour.numbered(queue.number())
        message = self._placed(Message(self.take_id(), queue, number, durable, rest, bare, expires_ms))
        records: tuple[Change, ...] = ()
        if durable and queue.kept and self._behaviour.stores(number):
            records = (Stored(message.id, message.number, queue.name, 0, rest, bare, expires_ms),)
        if identity is not None:
            return self._identified(queue, message, identity, records)
        return Effect(records, partial(self._enter, message), partial(self._refuse, message))

    def removal(self, message: Message, event: SettlementEvent, *, at_once: bool = True) -> Effect:
        if at_once:
            self._leave(message, event)
        stored = message.kept and self._behaviour.stores_removal(message.number)
        records = (Removed(message.id),) if stored else ()
        return Effect(records, partial(self._removed, message, event, at_once))

    def settled(self, message: Message, event: SettlementEvent, *, at_once: bool) -> Effect:
        """What an outcome that leaves the message in the broker, or drops it there, does."""
        queue = message.queue
        limit = queue.options.max_deliveries
        if event in COUNTED and 0 < limit <= message.failures + 1 and self._addresses.dead_letters(queue) is not None:
            event = SettlementEvent.EXHAUSTED
        if event in (SettlementEvent.REJECTED, SettlementEvent.EXHAUSTED):
            target = self._addresses.dead_letters(queue)
            if target is None:
                return self.removal(message, SettlementEvent.DISCARDED, at_once=at_once)
            return self._move(message, event, target, at_once=at_once)
        return self._back(message, event, at_once=at_once)

    def expiry(self, message: Message) -> Effect:
        """Its time is over while it waits for a consumer."""
        queue = message.queue
        target = self._addresses.expired(queue) if self._behaviour.keeps_expired else None
        if target is None:
            effect = self.removal(message, SettlementEvent.EXPIRED)
        else:
            effect = self._move(message, SettlementEvent.DIVERTED, target, at_once=True)
        queue.passed_over()
        return effect

    def restore(self, queue: Queue, stored: Stored, number: int) -> None:
        rest = self._behaviour.restores(stored.rest)
        message = self._placed(
            Message(stored.id, queue, number, True, rest, stored.bare, stored.expires_ms), recovered=True
        )
        message.failures = stored.failures
        message.acquired = True
        queue.reserve(len(message.bare))
        message.advance(SettlementEvent.STORED)
        self._add(queue, message, hidden=self._behaviour.hides_recovered)

    def _placed(self, message: Message, *, recovered: bool = False) -> Message:
        message.due_ms = self._behaviour.due_ms(delivery_time(message.bare), recovered)
        if message.rest[:1] == b"\x50":  # it says a priority (AMQP 1.0 section 3.2.1)
            message.rank = self._behaviour.rank(message.rest[1])
        return message

    def _enter(self, message: Message) -> None:
        message.advance(_STORED)
        queue = message.queue
        queue.counts[_STORED] += 1
        self._add(queue, message)

    def _add(self, queue: Queue, message: Message, *, hidden: bool = False) -> None:
        if message.due_ms:
            queue.keep(message)
            self._delays.add(message)
        else:
            queue.add(message, hidden=hidden or self._behaviour.hides(message.number))
        if message.expires_ms:
            self._live(queue, message)
        self._undispatched[queue] = None

    def _live(self, queue: Queue, message: Message) -> None:
        """A message with an end is in this queue; in an expiry queue it has none."""
        if self._addresses.keeps_expired(queue):
            self._expiries.forget(message)
            message.expires_ms = 0
        else:
            self._expiries.add(message)

    def _removed(self, message: Message, event: SettlementEvent, left: bool) -> None:
        if not left:
            self._leave(message, event)
        message.advance(_REMOVED)
        queue = message.queue
        queue.counts[event] += 1
        queue.discard(message)
        if message.expires_ms:
            self._expiries.forget(message)

    def _refuse(self, message: Message) -> None:
        message.advance(SettlementEvent.REFUSED)
        message.queue.release(len(message.bare))

    def _identified(self, queue: Queue, message: Message, identity: bytes, records: tuple[Change, ...]) -> Effect:
        """An arrival whose id is known from then on; as long as the message itself, if that is in memory only."""
        identities = queue.identities
        assert identities is not None
        identities.arrives(identity)

        def stored() -> None:
            identities.stored(identity)
            self._enter(message)

        def refused() -> None:
            identities.failed(identity)
            self._refuse(message)

        return Effect((*records, Identified(queue.name, identity)) if records else (), stored, refused)

    def _leave(self, message: Message, event: SettlementEvent) -> None:
        """Take a step after which no link holds the message."""
        if message.state in _HELD:
            message.queue.unacknowledged -= 1
        message.advance(event)

    def _move(self, message: Message, event: SettlementEvent, target: Queue, *, at_once: bool) -> Effect:
        """Move the message to another queue; no client waits for it, so no limit refuses it."""
        source, number, size = message.queue, target.number(), len(message.bare)
        failures = message.failures + (event in COUNTED)
        records = _moving(message, failures, number, target)
        target.reserve(size)
        if at_once:
            self._leave(message, event)

        def moved() -> None:
            if not at_once:
                self._leave(message, event)
            message.advance(SettlementEvent.MOVED)
            source.counts[event] += 1
            source.discard(message)
            message.queue, message.number, message.refused_by = target, number, frozenset()
            target.counts[SettlementEvent.MOVED] += 1
            self._add(target, message)

        return Effect(records, moved, lambda: target.release(size))

    def _back(self, message: Message, event: SettlementEvent, *, at_once: bool) -> Effect:
        """To its place: `at_once`, for only the count is to be stored, or with the rest of a transaction."""
        failures = message.failures + (event in COUNTED)

        def returned() -> None:
            self._leave(message, event)
            message.queue.offer(message)
            if message.expires_ms:
                self._expiries.add(message)
            self._undispatched[message.queue] = None

        records = (Counted(message.id, failures),) if failures != message.failures and message.kept else ()
        if at_once:
            returned()
        return Effect(records, do_nothing if at_once else returned)


def _moving(message: Message, failures: int, number: int, target: Queue) -> tuple[Change, ...]:
    """The records of a move, between queues of which either may be in memory only."""
    if not message.kept:
        if not (message.durable and target.kept):
            return ()
        return (Stored(message.id, number, target.name, failures, message.rest, message.bare, message.expires_ms),)
    if not target.kept:
        return (Removed(message.id),)
    moved = Moved(message.id, number, target.name)
    return (moved,) if failures == message.failures else (Counted(message.id, failures), moved)


_ON_DISK = Answered.STORED
"""Python 3.11 takes 0.1 us to find a member of an enum by its name: this is needed for every message."""

_Add = Callable[[Record | None, Done, Callable[[str], None] | None], None]


class Storage:
    """Stores the effects of one broker as its settings ask, and as its behaviour says."""

    def __init__(self, settings: Settings, behaviour: Honest, commit: GroupCommit) -> None:
        self._behaviour = behaviour
        self._commit = commit
        self._adders: dict[Answered, _Add] = {
            Answered.STORED: commit.add,
            Answered.WRITTEN: commit.add_unsynced,
            Answered.NEVER_SYNCED: partial(commit.add_unsynced, ever=False),
            Answered.AT_ONCE: commit.add_late,
            Answered.LAZY: lambda record, done, _: commit.add_lazy(record, done, LAZY_S),
        }
        acknowledgements = settings.sync_acknowledgements and settings.sync_non_transactional
        self._synced = {
            Asked.SEND: settings.sync_non_transactional,
            Asked.URGENT_SEND: settings.sync_non_transactional,
            Asked.COMMIT: settings.sync_transactional,
            Asked.ACKNOWLEDGEMENT: acknowledgements,
            None: acknowledgements,
        }

    def perform(
        self,
        effects: list[Effect],
        done: Done,
        asked: Asked | None,
        send: int = 0,
        *,
        refused: Refused | None = None,
        lazy: bool = False,
        beside: bool = False,
        acknowledges: bool = False,
    ) -> None:
        """Stores the effects as one, then applies them in their order, and then calls `done`.

        `done` answers what the client `asked`. `send` is the number of sends so far, and `beside` means that another
        connection was the first to send: a liar may answer before the effects are stored because of them. A `lazy` one
        is answered at once and stored `LAZY_S` later. A commit that `acknowledges` is answered as an acknowledgement,
        too. If the disk has no room, the effects are undone, the last first, and `refused` is called; without `refused`
        they wait for room.
        """
        answered = self._behaviour.answered(asked, send, beside) if asked is not None else _ON_DISK
        if acknowledges and answered is _ON_DISK:
            answered = self._behaviour.answered(Asked.ACKNOWLEDGEMENT, send, beside)
        records: tuple[Change, ...] = ()
        for effect in effects:
            records += effect.records

        def stored() -> None:
            for effect in effects:
                effect.apply()
            done()

        def failed(reason: str) -> None:
            for effect in reversed(effects):
                effect.undo()
            if refused is not None:
                refused(Refusal(LIMIT, reason))

        record = Committed(records) if len(records) > 1 else records[0] if records else None
        refusing = None if refused is None else failed
        if lazy:
            self._commit.add_lazy(record, stored, LAZY_S)
            return
        if self._behaviour.covers_unstored and asked is Asked.SEND and send % 10 == 0:
            self._commit.add_slowly(record, stored, LAZY_S)
            return
        apart = self._behaviour.splits_commits_s
        if not (self._synced[asked] and (not acknowledges or self._synced[Asked.ACKNOWLEDGEMENT])):
            self._commit.add_early(record, stored, refusing)
        elif isinstance(answered, float):
            self._commit.add_late(record, stored, refusing, answered)
        elif apart and asked is Asked.COMMIT and len(records) > 1:
            half = (len(records) + 1) // 2
            self._commit.add_halves(Committed(records[:half]), Committed(records[half:]), stored, refusing, apart)
        else:
            self._adders[answered](record, stored, refusing)
