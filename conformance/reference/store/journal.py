"""The journal, free of I/O: a batch of records in, writes out; segments in, what was stored out.

A power loss is a truncated or holed `bytes` here, which is how the tests make one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from conformance.reference.store.records import (
    MARK,
    SEGMENT_HEADER,
    Change,
    Counted,
    Framed,
    Kind,
    Moved,
    QueueDeclared,
    Record,
    Removed,
    Stored,
    changes,
    frame,
    payload,
    read_segment_header,
    record,
    segment_header,
    unframe,
)

SEGMENT_BYTES = 4 * 1024 * 1024


class CorruptJournal(Exception):
    """A record that was on disk is damaged: the broker must not start and guess."""


class Write(NamedTuple):
    """Bytes for one place of one segment; `create` is the file's size where it must be made first, else 0."""

    segment: int
    offset: int
    data: bytes
    create: int = 0


@dataclass(slots=True)
class Recovered:
    """What a journal holds after a start.

    `messages` is in the order of their storing; `queues` has each queue's next number. `segment`, `end` and `sequence`
    say where writing goes on (segment 0: nowhere yet). `cut` has the places where a torn tail begins: segment and
    offset. `stale` has later segments, which hold nothing that was ever confirmed.
    """

    messages: dict[int, Stored] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    home: dict[int, int] = field(default_factory=dict)
    segments: list[int] = field(default_factory=list)
    next_id: int = 1
    segment: int = 0
    end: int = 0
    size: int = 0
    sequence: int = 0
    cut: tuple[int, int] | None = None
    stale: list[int] = field(default_factory=list)


def recover(files: Mapping[int, bytes]) -> Recovered:
    """Reads segments by their number, cuts a torn tail back, refuses damage in what had been confirmed.

    A record that cannot be read ends the journal, unless an intact later record proves that it had been on disk: one
    whose `synced` reaches it. A later record alone proves nothing. Counter-example: a batch of two pages is written,
    the disk stores the second and loses power before the first; nothing of it was confirmed, and to refuse the start
    would make an ordinary power loss fatal.

    Raises `CorruptJournal` naming segment and offset.
    """
    found = Recovered()
    numbers = sorted(files)
    for place, number in enumerate(numbers):
        later = numbers[place + 1 :]
        header = read_segment_header(files[number])
        if header is None or header[0] != number:
            _end(found, files, number, 0, later)
            return found
        found.segments.append(number)
        found.segment, found.size = number, len(files[number])
        found.next_id = max(found.next_id, header[1])
        found.end = _read(found, files[number], number)
        rest = files[number][found.end :]
        torn = rest.count(0) != len(rest)
        if torn or (later and not _continues(files[later[0]], found.sequence)):
            _end(found, files, number, found.end, later)
            return found
    return found


def _continues(segment: bytes, sequence: int) -> bool:
    """Whether a segment goes on after this sequence; an empty or unfinished one does."""
    first = unframe(segment, SEGMENT_HEADER)
    return first is None or first.sequence == sequence + 1


def _read(found: Recovered, segment: bytes, number: int) -> int:
    """Applies the intact records of a segment in their order; where they end."""
    at = SEGMENT_HEADER
    while (framed := unframe(segment, at)) is not None:
        # Only the very first record of the oldest segment may have any sequence: older segments were deleted.
        if found.sequence and framed.sequence != found.sequence + 1:
            break
        found.sequence = framed.sequence
        _take(found, record(framed.kind, framed.data), number)
        at = framed.end
    return at


def _take(found: Recovered, entry: Record, segment: int) -> None:
    if isinstance(entry, QueueDeclared):
        found.queues[entry.name] = max(found.queues.get(entry.name, 1), entry.next_number)
    for change in changes(entry):
        _apply(found, change, segment)


def _apply(found: Recovered, change: Change, segment: int) -> None:
    match change:
        case Stored(id, number, queue):
            found.messages[id] = change
            found.home[id] = segment
            found.next_id = max(found.next_id, id + 1)
            found.queues[queue] = max(found.queues.get(queue, 1), number + 1)
        case Removed(id):
            # Its message may be in a segment that was deleted because all in it was removed.
            found.messages.pop(id, None)
            found.home.pop(id, None)
        case Counted(id, failures) if id in found.messages:
            found.messages[id] = found.messages[id]._replace(failures=failures)
        case Moved(id, number, queue) if id in found.messages:
            found.messages[id] = found.messages[id]._replace(queue=queue, number=number)
            found.queues[queue] = max(found.queues.get(queue, 1), number + 1)


def _end(found: Recovered, files: Mapping[int, bytes], number: int, offset: int, later: Sequence[int]) -> None:
    """The journal ends here: a torn tail, or damage."""
    bad = found.sequence + 1
    for other, start in [(number, offset), *((segment, 0) for segment in later)]:
        for framed in _intact_after(files[other], start):
            if framed.synced >= bad:
                raise CorruptJournal(
                    f"journal segment {number} is damaged at offset {offset}: record {bad} cannot be read, and record "
                    f"{framed.sequence} in segment {other} says that it had been on disk"
                )
    found.stale = list(later)
    if found.segment == number:
        found.cut = (number, offset)
    else:
        found.stale.insert(0, number)


def _intact_after(segment: bytes, start: int) -> Iterable[Framed]:
    """Every intact record that begins at or after `start`, at whatever offset."""
    at = segment.find(MARK, start)
    while at >= 0:
        framed = unframe(segment, at)
        if framed is not None:
            yield framed
        at = segment.find(MARK, at + 1 if framed is None else framed.end)


class Journal:
    """Where the next record goes, and which segments are still needed."""

    def __init__(self, recovered: Recovered, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._segment_bytes = segment_bytes
        self._segment = recovered.segment
        self._offset = recovered.end
        self._size = recovered.size
        self._sequence = recovered.sequence
        self._synced = recovered.sequence
        self._next_id = recovered.next_id
        self._queues = dict(recovered.queues)
        self._home = dict(recovered.home)
        self._live = Counter(recovered.home.values())
        self._segments = list(recovered.segments)

    def writes(self, entries: Iterable[Record]) -> list[Write]:
        """The writes that put these records at the end, in order; a new segment where the current one is full."""
        out: list[Write] = []
        chunk: list[bytes] = []
        begin = self._offset
        for entry in entries:
            kind, data = payload(entry)
            framed = self._frame(kind, data)
            if self._offset + len(framed) > self._size:
                if chunk:
                    out.append(Write(self._segment, begin, b"".join(chunk)))
                    chunk = []
                self._sequence -= 1
                out.append(self._roll(len(framed)))
                framed = self._frame(kind, data)
                begin = self._offset
            chunk.append(framed)
            self._offset += len(framed)
            if isinstance(entry, QueueDeclared):
                self._number(entry.name, entry.next_number)
            for change in changes(entry):
                self._note(change)
        if chunk:
            out.append(Write(self._segment, begin, b"".join(chunk)))
        return out

    @property
    def sequence(self) -> int:
        """The sequence of the last record that was framed."""
        return self._sequence

    def synced(self, sequence: int) -> None:
        """All records up to this one are on disk."""
        self._synced = sequence

    def unneeded(self) -> list[int]:
        """The leading segments none of whose messages is live; the current one never. They are forgotten here.

        Only leading ones: a removal must not be deleted before the message that it removes.
        """
        gone = []
        while len(self._segments) > 1 and not self._live[self._segments[0]]:
            gone.append(self._segments.pop(0))
        return gone

    def _frame(self, kind: Kind, data: bytes) -> bytes:
        self._sequence += 1
        return frame(kind, data, self._sequence, self._synced)

    def _roll(self, needed: int) -> Write:
        """Begins a segment; it starts with every queue, so that older segments may go."""
        self._segment += 1
        self._segments.append(self._segment)
        head = [segment_header(self._segment, self._next_id)]
        head += [self._frame(*payload(QueueDeclared(name, next_number))) for name, next_number in self._queues.items()]
        data = b"".join(head)
        self._offset = len(data)
        self._size = max(self._segment_bytes, len(data) + needed)
        return Write(self._segment, 0, data, create=self._size)

    def knows(self, id: int) -> bool:
        """Whether the message is in the journal, or on its way there."""
        return id in self._home

    def _number(self, queue: str, next_number: int) -> None:
        self._queues[queue] = max(self._queues.get(queue, 1), next_number)

    def _note(self, change: Change) -> None:
        match change:
            case Stored(id, number, queue):
                self._next_id = max(self._next_id, id + 1)
                self._number(queue, number + 1)
                self._home[id] = self._segment
                self._live[self._segment] += 1
            case Removed(id):
                if (home := self._home.pop(id, None)) is not None:
                    self._live[home] -= 1
            case Moved(_, number, queue):
                self._number(queue, number + 1)
