"""What a start finds in a journal's segments, and what of them is still needed. Free of I/O.

A power loss is a truncated or holed `bytes` here, which is how the tests make one.
"""

from __future__ import annotations

import gc
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from conformance.reference.store.records import (
    MAGIC,
    MARK,
    RECORD_HEADER,
    SEGMENT_HEADER,
    Change,
    Closed,
    Counted,
    Framed,
    Identified,
    IdentifiedAgain,
    Moved,
    QueueDeclared,
    QueueDeleted,
    Record,
    Removed,
    SegmentHeader,
    Stored,
    changes,
    read_segment_header,
    record,
    scan,
    unframe,
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


class CorruptJournal(Exception):
    """A record that was on disk is damaged: the broker must not start and guess."""


@dataclass(slots=True)
class Recovered:
    """What a journal holds after a start.

    `messages` is in the order of their ids; `queues` has each queue's next number, `identities` the ids that were seen
    in it, oldest first. `segments` has the size of each, `index` what is live in them. `segment`, `end` and `sequence`
    say where writing goes on (segment 0: nowhere yet). `cut` has the place where a torn tail begins: segment and
    offset. `stale` has later segments, which hold nothing that was ever confirmed. `closed` says that the last record
    is that of a clean stop.
    """

    messages: dict[int, Stored] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    identities: dict[str, list[bytes]] = field(default_factory=dict)
    next_id: int = 1
    segments: dict[int, int] = field(default_factory=dict)
    segment: int = 0
    end: int = 0
    size: int = 0
    sequence: int = 0
    cut: tuple[int, int] | None = None
    stale: list[int] = field(default_factory=list)
    index: Index = field(default_factory=Index, compare=False)
    closed: bool = field(default=False, compare=False)

    def notice(self) -> str:
        """The warning about the journal's end; empty if the broker was stopped cleanly."""
        if self.closed and self.cut is None and not self.stale:
            return ""
        where = f"record {self.sequence} in {filename(self.segment)}, offset {self.end}" if self.segment else "nothing"
        if self.cut is not None or self.stale:
            later = f"; {len(self.stale)} later segments are deleted" if self.stale else ""
            return f"the journal has a torn end: it is cut back behind {where}{later}"
        return (
            f"the journal does not end with a clean stop: the broker was killed, or the end of the journal is missing; "
            f"it goes on behind {where}"
        )


@contextmanager
def loading() -> Iterator[None]:
    """Stop the collector: nothing that a start makes is garbage, and each look at a million messages is slow."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def recover(files: Mapping[int, bytes], damaged: str = "refused") -> Recovered:
    """Reads segments by their number, cuts a torn tail back, refuses damage in what had been confirmed.

    A record that cannot be read ends the journal, unless an intact later record proves that it had been on disk: one
    whose `synced` reaches it. A later record alone proves nothing. Counter-example: a batch of two pages is written,
    the disk stores the second and loses power before the first; nothing of it was confirmed, and to refuse the start
    would make an ordinary power loss fatal.

    Raises `CorruptJournal` naming file and offset; a liar has it that what is damaged is `skipped`, or `trusted`.
    """
    reading = _Reading(damaged)
    found = reading.found
    numbers = sorted(files)
    for place, number in enumerate(numbers):
        segment = files[number]
        header = _header(segment, number)
        if header is None:
            _end(found, files, (number, 0), numbers[place + 1 :])
            break
        found.segments[number] = found.size = len(segment)
        found.segment = number
        found.next_id = max(found.next_id, header.next_id)
        found.end = reading.read(segment, number)
        if segment.count(0, found.end) != len(segment) - found.end:
            _end(found, files, (number, found.end), numbers[place + 1 :])
            break
    return reading.done()


class _Reading:
    """Applies records in their order."""

    def __init__(self, damaged: str) -> None:
        self.found = Recovered()
        self._skips = damaged == "skipped"
        self._scan = _intact_after if self._skips else partial(scan, checked=damaged == "refused")
        self._sorted = True
        self._last_id = 0

    def read(self, segment: bytes, number: int) -> int:
        """Applies the intact records of a segment; where they end."""
        found, index, end, sequence = self.found, self.found.index, SEGMENT_HEADER, self.found.sequence
        entry: Record | None = None
        for framed in self._scan(segment, end):
            # Only the very first record of the oldest segment may have any sequence: older segments were deleted.
            if sequence and framed.sequence != sequence + 1 and not self._skips:
                break
            sequence, end = framed.sequence, framed.end
            entry = record(framed.kind, segment, framed.start, end)
            if type(entry) is Stored:
                self._stored(entry)
                index.store(entry, number)
            else:
                self._take(entry)
                index.note(entry, number, sequence)
        found.sequence = sequence
        found.closed = isinstance(entry, Closed) or (entry is None and found.closed)
        return end

    def done(self) -> Recovered:
        found, index = self.found, self.found.index
        if not self._sorted:
            found.messages = dict(sorted(found.messages.items()))
        found.next_id = index.next_id = max(found.next_id, index.next_id)
        found.queues = {name: home.next_number for name, home in index.queues.items()}
        found.identities = index.identities()
        return found

    def _stored(self, message: Stored) -> None:
        self._sorted = self._sorted and message.id > self._last_id
        self._last_id = message.id
        self.found.messages[message.id] = message

    def _take(self, entry: Record) -> None:
        if isinstance(entry, QueueDeleted):
            home = self.found.index.queues.get(entry.name)
            for id in home.messages if home else ():
                del self.found.messages[id]
        for change in changes(entry):
            self._apply(change)

    def _apply(self, change: Change) -> None:
        messages = self.found.messages
        match change:
            case Stored():
                self._stored(change)
            case Removed(id):
                messages.pop(id, None)
            case Counted(id, failures) if id in messages:
                messages[id] = messages[id]._replace(failures=failures)
            case Moved(id, number, queue) if id in messages:
                messages[id] = messages[id]._replace(queue=queue, number=number)


def _header(segment: bytes, number: int) -> SegmentHeader | None:
    """The segment's header, None if it was never finished. Raises `CorruptJournal` if another format wrote it."""
    header = read_segment_header(segment)
    if header is not None and header.magic != MAGIC:
        raise CorruptJournal(
            f"{filename(number)} has the format {header.magic.decode(errors='replace')}, and {MAGIC.decode()} is read "
            "here: start the broker that wrote it, or choose another data directory"
        )
    return header if header is not None and header.number == number else None


def filename(number: int) -> str:
    return f"{number:08d}.journal"


def _end(found: Recovered, files: Mapping[int, bytes], cut: tuple[int, int], later: Sequence[int]) -> None:
    """The journal ends here: a torn tail, or damage."""
    bad = found.sequence + 1
    number, offset = cut
    for other in (number, *later):
        for framed in _intact_after(files[other], offset if other == number else 0):
            if framed.synced >= bad:
                raise CorruptJournal(
                    f"journal segment {number} is damaged at offset {offset} ({filename(number)}): record {bad} cannot "
                    f"be read, and record {framed.sequence} in segment {other} says that it had been on disk"
                )
    found.stale = [other for other in (number, *later) if other != found.segment]
    if found.segment == number:
        found.cut = cut


def _intact_after(segment: bytes, start: int) -> Iterable[Framed]:
    """Yield every intact record that begins at any offset from `start` on."""
    at = segment.find(MARK, start)
    while at >= 0:
        framed = unframe(segment, at)
        if framed is not None:
            yield framed
        at = segment.find(MARK, at + 1 if framed is None else framed.end)
