"""The journal, free of I/O: a batch of records in, writes out. What a start finds is for `recovery`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from conformance.reference.store.records import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    Moved,
    QueueDeclared,
    QueueDeleted,
    Record,
    Stored,
    changes,
    frame,
    payload,
    segment_header,
)
from conformance.reference.store.recovery import CorruptJournal, Recovered, recover

__all__ = ["CorruptJournal", "Journal", "Recovered", "Write", "recover"]

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
        self._synced = recovered.sequence
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
            chunk.append(frame(kind, data, sequence, self._synced))
            at += length
            self._pending.append((entry, segment, sequence))
        if chunk:
            out.append(Write(segment, begin, b"".join(chunk), create))
        self._place = _Place(segment, at, size, sequence)
        return out

    def written(self) -> None:
        """What was handed out is in the files."""
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
        """The sequence of the last record that was framed."""
        return self._place.sequence

    @property
    def room(self) -> int:
        """Bytes that are left in the current segment."""
        return self._place.size - self._place.offset

    @property
    def oldest(self) -> int:
        """The oldest segment, which alone may be emptied; 0: it is the current one."""
        return next(iter(self.segments)) if len(self.segments) > 1 else 0

    def oversized(self, record: Record) -> bool:
        """Whether a record needs a segment of a size of its own, which nobody has made ahead."""
        return SEGMENT_HEADER + RECORD_HEADER + len(payload(record)[1]) > self.segment_bytes

    def synced(self, sequence: int) -> None:
        """All records up to this one are on disk."""
        self._synced = sequence

    @property
    def has_unneeded(self) -> bool:
        """Whether there are `unneeded` segments."""
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
        """Whether the message is in the journal."""
        return id in self.index

    def _head(self, segment: int, sequence: int) -> tuple[bytes, int]:
        """The first bytes of a segment, and their last sequence: every queue, so that older segments may go."""
        numbers = {name: home.next_number for name, home in self.index.queues.items()}
        next_id = self.index.next_id
        for record, *_ in self._pending:
            next_id = max(next_id, _number(numbers, record))
        head = [segment_header(segment, next_id)]
        for name, next_number in numbers.items():
            sequence += 1
            head.append(frame(*payload(QueueDeclared(name, next_number)), sequence, self._synced))
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
