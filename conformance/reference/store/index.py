"""What is live in a journal and in which segment: what a compaction must keep, and when a segment may go. No I/O.

It grows with what is held, not with what has passed.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict

from conformance.reference.store.records import (
    RECORD_HEADER,
    Change,
    Counted,
    Identified,
    IdentifiedAgain,
    Moved,
    QueueDeclared,
    QueueDeleted,
    Record,
    Removed,
    Stored,
    changes,
)

_SIZE_BITS = 40
_SIZE = (1 << _SIZE_BITS) - 1
_OVERHEAD = RECORD_HEADER + 32
"""Bytes of a record beside what it carries, about."""


class Home:
    """One queue: its messages with the place of their record, and the ids that were seen in it with their segment.

    A place is segment and bytes in one number, for there may be millions. The oldest id is the first; with it are its
    segment and its order, the sequence of the record that said it.
    """

    __slots__ = ("messages", "name", "next_number", "seen")

    def __init__(self, name: str) -> None:
        self.name = name
        self.next_number = 1
        self.messages: dict[int, int] = {}
        self.seen: OrderedDict[bytes, tuple[int, int]] = OrderedDict()


class Index:
    """Queues, messages and ids, as far as the journal's records up to now say so.

    `live` has the bytes of each segment that are needed still, `total` their sum. Of each queue's ids the last
    `identities` are needed, None: all.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Home] = {}
        self.next_id = 1
        self.live: defaultdict[int, int] = defaultdict(int)
        self.total = 0
        self._identities: int | None = None
        self._where: dict[int, Home] = {}
        self._changed: dict[int, tuple[int | None, int | None]] = {}

    def __contains__(self, id: int) -> bool:
        """Whether a message is there."""
        return id in self._where

    def bound(self, identities: int) -> None:
        """From now on this many ids of each queue are needed."""
        self._identities = identities
        for home in self.queues.values():
            self._trim(home)

    def note(self, record: Record, segment: int, sequence: int) -> None:
        """This record is in the journal now, in this segment."""
        if isinstance(record, Stored):
            self.store(record, segment)
            return
        match record:
            case QueueDeclared(name, number):
                self._home(name, number)
            case QueueDeleted(name):
                self._delete(name)
        for change in changes(record):
            self._note(change, segment, sequence)

    def store(self, message: Stored, segment: int) -> None:
        """As `note`, and nothing else: a start does this a million times."""
        id, number, queue, _, rest, bare, _ = message
        if id in self._where:
            self._forget(id)
        home = self.queues.get(queue)
        if home is None:
            home = self._home(queue, number + 1)
        elif number >= home.next_number:
            home.next_number = number + 1
        size = len(rest) + len(bare) + _OVERHEAD
        self._where[id] = home
        home.messages[id] = segment << _SIZE_BITS | size
        self.live[segment] += size
        self.total += size
        if id >= self.next_id:
            self.next_id = id + 1

    def current(self, change: Change, segment: int, order: int) -> Stored | IdentifiedAgain | None:
        """What is needed of a change that was found in `segment`, in the record of sequence `order`; None: nothing."""
        match change:
            case Stored(id):
                home = self._where.get(id)
                if home is None or home.messages[id] >> _SIZE_BITS != segment:
                    return None
                failures, number = self._changed.get(id, (None, None))
                return change._replace(
                    queue=home.name,
                    failures=change.failures if failures is None else failures,
                    number=change.number if number is None else number,
                )
            case Identified(queue, identity):
                return (
                    IdentifiedAgain(queue, identity, order) if self._is_seen(queue, identity, segment, order) else None
                )
            case IdentifiedAgain(queue, identity, first):
                return change if self._is_seen(queue, identity, segment, first) else None
        return None

    def identities(self) -> dict[str, list[bytes]]:
        """The ids of each queue, put in the order they were seen: compaction writes old ones after new ones."""
        for home in self.queues.values():
            home.seen = OrderedDict(sorted(home.seen.items(), key=lambda item: item[1][1]))
        return {home.name: list(home.seen) for home in self.queues.values() if home.seen}

    def _note(self, change: Change, segment: int, sequence: int) -> None:
        match change:
            case Stored():
                self.store(change, segment)
            case Removed(id):
                # Its message may be in a segment that was deleted because all in it was removed.
                self._forget(id)
            case Counted(id, failures) if id in self._where:
                self._changed[id] = (failures, self._changed.get(id, (None, None))[1])
            case Moved(id, number, queue) if id in self._where:
                self._move(id, self._home(queue, number + 1), number)
            case Identified(queue, identity):
                home = self._home(queue, 1)
                self._see(home, identity, segment, sequence)
                home.seen.move_to_end(identity)
                self._trim(home)
            case IdentifiedAgain(queue, identity, order):
                self._see(self._home(queue, 1), identity, segment, order)

    def _home(self, name: str, next_number: int) -> Home:
        home = self.queues.get(name)
        if home is None:
            home = self.queues[name] = Home(name)
        home.next_number = max(home.next_number, next_number)
        return home

    def _count(self, segment: int, size: int) -> None:
        self.live[segment] += size
        self.total += size

    def _forget(self, id: int) -> None:
        if (home := self._where.pop(id, None)) is not None:
            place = home.messages.pop(id)
            self._count(place >> _SIZE_BITS, -(place & _SIZE))
            self._changed.pop(id, None)

    def _move(self, id: int, home: Home, number: int) -> None:
        home.messages[id] = self._where[id].messages.pop(id)
        self._where[id] = home
        self._changed[id] = (self._changed.get(id, (None, None))[0], number)

    def _delete(self, name: str) -> None:
        if (home := self.queues.pop(name, None)) is not None:
            for id in list(home.messages):
                self._forget(id)
            for identity, (segment, _) in home.seen.items():
                self._count(segment, -_weight(identity))

    def _see(self, home: Home, identity: bytes, segment: int, order: int) -> None:
        if (old := home.seen.get(identity)) is not None:
            self._count(old[0], -_weight(identity))
        home.seen[identity] = (segment, order)
        self._count(segment, _weight(identity))

    def _is_seen(self, queue: str, identity: bytes, segment: int, order: int) -> bool:
        home = self.queues.get(queue)
        return home is not None and home.seen.get(identity) == (segment, order)

    def _trim(self, home: Home) -> None:
        while self._identities is not None and len(home.seen) > self._identities:
            identity, (segment, _) = home.seen.popitem(last=False)
            self._count(segment, -_weight(identity))


def _weight(identity: bytes) -> int:
    return len(identity) + _OVERHEAD
