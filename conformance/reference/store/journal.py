"""The journal, free of I/O: a batch of records in, writes out; compaction writes what is live again at the end.

Compaction goes on without stopping the broker. It copies what is live in the oldest segment, a slice at a time; then
the segment holds nothing, and is deleted. It reads the slices back from the file, because a journal that kept its
records in memory would hold each message twice. What has changed since they were written is in the index.

Only the oldest segment is copied: a removal must not be deleted before what it removes. A segment is rewritten while
all of them are more than half dead, so in the long run no more bytes are copied than are freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from conformance.reference.store.records import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    Change,
    Committed,
    IdentifiedAgain,
    Moved,
    QueueDeclared,
    QueueDeleted,
    Record,
    Removed,
    Stored,
    changes,
    extent,
    frame,
    payload,
    record,
    scan,
    segment_header,
)
from conformance.reference.store.recovery import CorruptJournal, Recovered, filename

SEGMENT_BYTES = 4 * 1024 * 1024
IDENTITIES = 20_000


class Write(NamedTuple):
    """Bytes for one place of one segment; `create` is the file's size where it must be made first, else 0."""

    segment: int
    offset: int
    data: bytes
    create: int = 0


class _Place(NamedTuple):
    """Where the next record goes: a segment of `size` bytes, an offset in it; `sequence` is that of the last record."""

    segment: int
    offset: int
    size: int
    sequence: int


class Journal:
    """Where the next record goes, and which segments are still needed.

    Records are handed out by `writes`. Then either `written` says that they are in the files, or `undo` that no byte of
    them is: only then are the next ones handed out. Of each queue's ids the last `identities` are kept.
    """

    def __init__(self, recovered: Recovered, segment_bytes: int = SEGMENT_BYTES, identities: int = IDENTITIES) -> None:
        self.segment_bytes = segment_bytes
        self.segments = dict(recovered.segments)
        self.index = recovered.index
        self.index.bound(identities)
        self.total = sum(self.segments.values())
        self._place = _Place(recovered.segment, recovered.end, recovered.size, recovered.sequence)
        self._before = self._place
        self.last_synced = recovered.sequence
        self._pending: list[tuple[Record, int, int]] = []
        """Records that were handed out and are not known to be written, with their segment and sequence."""

    def writes(self, entries: Iterable[Record]) -> list[Write]:
        """The writes that put these records at the end, in order; a new segment where the current one is full."""
        if not self._pending:
            self._before = self._place
        out: list[Write] = []
        chunk: list[bytes] = []
        segment, begin, size, sequence = self._place
        at, create = begin, 0
        for entry in entries:
            kind, data = payload(entry)
            length = RECORD_HEADER + len(data)
            if at + length > size:
                if chunk:
                    out.append(Write(segment, begin, b"".join(chunk), create))
                head, sequence = self._head(segment + 1, sequence)
                segment, begin, at, chunk = segment + 1, 0, len(head), [head]
                size = create = max(self.segment_bytes, at + length)
                self.segments[segment] = size
                self.total += size
            sequence += 1
            chunk.append(frame(kind, data, sequence, self.last_synced))
            at += length
            self._pending.append((entry, segment, sequence))
        if chunk:
            out.append(Write(segment, begin, b"".join(chunk), create))
        self._place = _Place(segment, at, size, sequence)
        return out

    def written(self) -> None:
        pending, self._pending = self._pending, []
        for each in pending:
            self.index.note(*each)

    def undo(self) -> None:
        """Nothing of what was handed out is in the files: the next record goes where the first of it was to go."""
        self._pending = []
        for segment in range(self._before.segment + 1, self._place.segment + 1):
            self.total -= self.segments.pop(segment)
        self._place = self._before

    @property
    def sequence(self) -> int:
        return self._place.sequence

    @property
    def room(self) -> int:
        return self._place.size - self._place.offset

    @property
    def oldest(self) -> int:
        """The oldest segment, which alone may be emptied; 0: it is the current one."""
        return next(iter(self.segments)) if len(self.segments) > 1 else 0

    def oversized(self, record: Record) -> bool:
        """Whether a record needs a segment of its own size, which is never made ahead."""
        return SEGMENT_HEADER + RECORD_HEADER + len(payload(record)[1]) > self.segment_bytes

    def synced(self, sequence: int) -> None:
        self.last_synced = sequence

    @property
    def has_unneeded(self) -> bool:
        oldest = self.oldest
        return bool(oldest) and not self.index.live[oldest]

    def unneeded(self) -> list[int]:
        """The leading segments in which nothing is live; the current one never. They are forgotten here.

        Only leading ones: a removal must not be deleted before the last copy of the message that it removes. They may
        be deleted once all that is written by now has been synced: that they are dead is said there, for a half by the
        copy of a live message.
        """
        gone = []
        while self.has_unneeded:
            oldest = self.oldest
            self.total -= self.segments.pop(oldest)
            del self.index.live[oldest]
            gone.append(oldest)
        return gone

    def knows(self, id: int) -> bool:
        return id in self.index

    def _head(self, segment: int, sequence: int) -> tuple[bytes, int]:
        """The first bytes of a segment, and their last sequence: every queue, so that older segments may go."""
        numbers = {name: home.next_number for name, home in self.index.queues.items()}
        next_id = self.index.next_id
        for entry, *_ in self._pending:
            next_id = max(next_id, _number(numbers, entry))
        head = [segment_header(segment, next_id)]
        for name, next_number in numbers.items():
            sequence += 1
            head.append(frame(*payload(QueueDeclared(name, next_number)), sequence, self.last_synced))
        return b"".join(head), sequence


def _number(numbers: dict[str, int], record: Record) -> int:
    """Applies to the queues' next numbers what a record says of them; the next message id after it, at least."""
    match record:
        case QueueDeclared(name, number):
            numbers[name] = max(numbers.get(name, 1), number)
        case QueueDeleted(name):
            numbers.pop(name, None)
    next_id = 1
    for change in changes(record):
        if isinstance(change, Stored | Moved):
            numbers[change.queue] = max(numbers.get(change.queue, 1), change.number + 1)
            next_id = max(next_id, change.id + 1)
    return next_id


SLICE = 256 * 1024
"""Bytes that are read, and at most written, beside a batch: they cost a confirm about a millisecond."""

FEW = 4
"""So many segments are left as they are, however little is live in them."""


class Extent(NamedTuple):
    """Bytes of a segment."""

    segment: int
    offset: int
    length: int


class _Found(NamedTuple):
    """A change that was live in the oldest segment when it was read, and the sequence of its record."""

    change: Change
    order: int


class Compaction:
    """Empties the oldest segment of a journal, again and again, while that is worth it.

    `copied` says whether the n-th message of a queue (from 1) is copied; a liar removes it instead.
    """

    def __init__(self, journal: Journal, copied: Callable[[int], bool] = bool) -> None:
        self._journal = journal
        self._copied = copied
        self._segment = 0
        self._offset = 0
        self._needed = 0
        self._found: list[_Found] = []

    @property
    def has_copies(self) -> bool:
        return bool(self._found)

    def wanted(self, *, full: bool, beside: int = 0) -> Extent | None:
        """What is to be read next, beside a batch of so many bytes; None: nothing. No batch may be out.

        Twice the batch at least, so that dead bytes go as fast as new ones come. On a `full` disk only what can be
        copied without taking the room that removals need.

        Raises `CorruptJournal` if a message that is live in the segment was not found there.
        """
        if self._found or not (self._affordable() if full else self._worthwhile()):
            return None
        if self._segment != self._journal.oldest:
            self._segment, self._offset, self._needed = self._journal.oldest, SEGMENT_HEADER, 0
        if self._offset < 0:
            if live := self._journal.index.live[self._segment]:
                raise CorruptJournal(f"{filename(self._segment)} has no record of {live} bytes that are needed of it")
            return None
        length = max(SLICE, self._needed, 2 * beside)
        return Extent(self._segment, self._offset, min(length, self._journal.segments[self._segment] - self._offset))

    def supply(self, wanted: Extent, data: bytes) -> None:
        """These are the bytes. Raises `CorruptJournal` if a record in them is damaged: it is not written again."""
        if wanted.segment != self._journal.oldest:
            return
        index, at = self._journal.index, 0
        for framed in scan(data, 0):
            for change in changes(record(framed.kind, data, framed.start, framed.end)):
                if index.current(change, wanted.segment, framed.sequence) is not None:
                    self._found.append(_Found(change, framed.sequence))
            at = framed.end
        self._offset += at
        needed = extent(data, at)
        # A file that is shorter than it was made belongs to a liar, or was cut from outside: it has no more than this.
        last = len(data) < wanted.length or wanted.offset + wanted.length >= self._journal.segments[wanted.segment]
        if needed and (last or at + needed <= len(data)):
            raise CorruptJournal(f"{filename(wanted.segment)} is damaged at offset {self._offset}")
        if last or (not needed and len(data) - at >= RECORD_HEADER):
            self._offset = -1
        self._needed = max(needed, RECORD_HEADER)

    def copies(self) -> list[Record]:
        """What is still live of what was read, as it is now: before all else of its batch, which may remove it."""
        out: list[Record] = []
        seen: list[IdentifiedAgain] = []
        for change, order in self._found:
            now = self._journal.index.current(change, self._segment, order)
            if isinstance(now, Stored):
                out.append(now if self._copied(now.number) else Removed(now.id))
            elif now is not None:
                seen.append(now)
        return [*out, Committed(tuple(seen))] if seen else out

    def written(self) -> None:
        self._found = []

    def _worthwhile(self) -> bool:
        journal = self._journal
        return len(journal.segments) > FEW and 2 * journal.index.total < journal.total

    def _affordable(self) -> bool:
        journal = self._journal
        live = journal.index.live[journal.oldest] if journal.oldest else 0
        return 0 < 2 * live < min(journal.segments[journal.oldest], journal.room)
