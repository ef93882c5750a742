"""The journal's records: what is written, as values, and their bytes.

A segment is a header and then records, one directly after the other, in a file that was filled with zeros before: a
record's length of zero is the end. All numbers are big-endian.

    segment header  magic 8s | segment u32 | next message id u64 | crc u32
    record          mark 2s | kind u8 | zero u8 | length u32 | crc u32 | sequence u64 | synced u64 | payload
    transaction     for each change: kind u8 | length u32 | payload

`crc` covers everything of the record but itself. `sequence` rises by one from record to record across segments.
`synced` is the highest sequence that was known to be on disk when this record was written.
"""

from __future__ import annotations

import enum
import functools
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

NOTES = "\0notes"
"""The queue of what is kept beside messages (`core.notes`): no client can name it."""

MAGIC = b"CONFJRN2"
MARK = b"\xc7\x9d"

_SEGMENT = struct.Struct(">8sIQ")
_CRC = struct.Struct(">I")
_FRONT = struct.Struct(">2sBBI")
_HEAD = struct.Struct(">2sBBIIQQ")
_ID = struct.Struct(">Q")
_COUNT = struct.Struct(">QI")
_PLACE = struct.Struct(">QQ")
_STORED = struct.Struct(">QQQIHH")
_NAME = struct.Struct(">H")
_SEEN = struct.Struct(">QH")
_MEMBER = struct.Struct(">BI")

SEGMENT_HEADER = _SEGMENT.size + _CRC.size
RECORD_HEADER = _HEAD.size


class RecordKind(enum.IntEnum):
    """What a record says."""

    QUEUE = 1
    STORED = 2
    REMOVED = 3
    COUNTED = 4
    MOVED = 5
    CLOSED = 6
    COMMITTED = 7
    IDENTIFIED = 8
    DELETED = 9
    SEEN = 10


_KIND_STORED = RecordKind.STORED
"""Python 3.11 takes 0.1 us to find a member of an enum by its name: this is needed for every message."""


class QueueDeclared(NamedTuple):
    """A durable queue exists, and its next message gets at least this number."""

    name: str
    next_number: int


class QueueDeleted(NamedTuple):
    """The queue is gone, with all that was in it and all that was known of it."""

    name: str


class Stored(NamedTuple):
    """A message: its id is unique in the data directory, its number in the queue; `expires_ms` since 1970, 0: never.

    A message that is stored again is the same message, as it is by then: its earlier record counts no more.
    """

    id: int
    number: int
    queue: str
    failures: int
    rest: bytes
    bare: bytes
    expires_ms: int = 0


class Removed(NamedTuple):
    """A message was acknowledged, or dropped."""

    id: int


class Counted(NamedTuple):
    """A message's delivery-count is now this."""

    id: int
    failures: int


class Moved(NamedTuple):
    """A message is now in another queue: one record, so that no crash can leave it in both or in none."""

    id: int
    number: int
    queue: str


class Identified(NamedTuple):
    """An id for the detection of duplicates was seen in this queue."""

    queue: str
    identity: bytes


class IdentifiedAgain(NamedTuple):
    """An `Identified`, written again by compaction; `order` is the sequence of the record that said it first."""

    queue: str
    identity: bytes
    order: int


class Closed(NamedTuple):
    """The broker stopped cleanly: all before this was on disk."""


Change = Stored | Removed | Counted | Moved | Identified | IdentifiedAgain


class Committed(NamedTuple):
    """All changes of one transaction, in order: one record with one CRC, so that no crash can leave a part of them."""

    changes: tuple[Change, ...]


Record = QueueDeclared | QueueDeleted | Change | Closed | Committed


def changes(record: Record) -> tuple[Change, ...]:
    """The changes inside its queues that a record says, in order."""
    match record:
        case Committed(members):
            return members
        case QueueDeclared() | QueueDeleted() | Closed():
            return ()
    return (record,)


def stores(record: Record) -> bool:
    """Whether a record needs the room of a message."""
    return any(isinstance(change, Stored) for change in changes(record))


def payload(record: Record) -> tuple[RecordKind, bytes]:
    """The kind and the payload of a record; `record` is its inverse. Raises `struct.error` for a name above 64 KiB."""
    if isinstance(record, Stored):  # not by a pattern: a message is taken apart eight times as fast
        id, number, queue, failures, rest, bare, expires = record
        name = queue.encode()
        head = _STORED.pack(id, number, expires, failures, len(name), len(rest))
        return _KIND_STORED, b"".join((head, name, rest, bare))
    match record:
        case Removed(id):
            return RecordKind.REMOVED, _ID.pack(id)
        case Counted(id, failures):
            return RecordKind.COUNTED, _COUNT.pack(id, failures)
        case Moved(id, number, queue):
            return RecordKind.MOVED, _PLACE.pack(id, number) + queue.encode()
        case Identified(queue, identity):
            name = queue.encode()
            return RecordKind.IDENTIFIED, b"".join((_NAME.pack(len(name)), name, identity))
        case IdentifiedAgain(queue, identity, order):
            name = queue.encode()
            return RecordKind.SEEN, b"".join((_SEEN.pack(order, len(name)), name, identity))
        case QueueDeclared(queue, number):
            return RecordKind.QUEUE, _ID.pack(number) + queue.encode()
        case QueueDeleted(queue):
            return RecordKind.DELETED, queue.encode()
        case Closed():
            return RecordKind.CLOSED, b""
        case Committed(members):
            return RecordKind.COMMITTED, b"".join(_member(*payload(member)) for member in members)


def record(kind: int, data: bytes, start: int = 0, end: int | None = None) -> Record:
    """The record whose payload, which its CRC has shown to be intact, is `data[start:end]`."""
    return _RECORDS[kind](data, start, len(data) if end is None else end)


_named = functools.lru_cache(4096)(bytes.decode)
"""A queue's name: one string for all messages of the queue."""


def _stored(data: bytes, start: int, end: int) -> Stored:
    id, number, expires, failures, name, rest = _STORED.unpack_from(data, start)
    at = start + _STORED.size
    middle = at + name
    bare = middle + rest
    return Stored(id, number, _named(data[at:middle]), failures, data[middle:bare], data[bare:end], expires)


def _moved(data: bytes, start: int, end: int) -> Moved:
    id, number = _PLACE.unpack_from(data, start)
    return Moved(id, number, _named(data[start + _PLACE.size : end]))


def _identified(data: bytes, start: int, end: int) -> Identified:
    at = start + _NAME.size
    middle = at + _NAME.unpack_from(data, start)[0]
    return Identified(_named(data[at:middle]), data[middle:end])


def _seen(data: bytes, start: int, end: int) -> IdentifiedAgain:
    order, name = _SEEN.unpack_from(data, start)
    at = start + _SEEN.size
    return IdentifiedAgain(_named(data[at : at + name]), data[at + name : end], order)


def _committed(data: bytes, at: int, end: int) -> Committed:
    members: list[Change] = []
    while at < end:
        kind, length = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        members += changes(record(kind, data, at, at + length))
        at += length
    return Committed(tuple(members))


_RECORDS: dict[int, Callable[[bytes, int, int], Record]] = {
    RecordKind.STORED: _stored,
    RecordKind.REMOVED: lambda data, start, _: Removed(*_ID.unpack_from(data, start)),
    RecordKind.COUNTED: lambda data, start, _: Counted(*_COUNT.unpack_from(data, start)),
    RecordKind.MOVED: _moved,
    RecordKind.IDENTIFIED: _identified,
    RecordKind.SEEN: _seen,
    RecordKind.QUEUE: lambda data, start, end: QueueDeclared(
        _named(data[start + _ID.size : end]), _number(data, start)
    ),
    RecordKind.DELETED: lambda data, start, end: QueueDeleted(_named(data[start:end])),
    RecordKind.CLOSED: lambda *_: Closed(),
    RecordKind.COMMITTED: _committed,
}


def _number(data: bytes, start: int) -> int:
    number: int = _ID.unpack_from(data, start)[0]
    return number


def _member(kind: RecordKind, data: bytes) -> bytes:
    return _MEMBER.pack(kind, len(data)) + data


def frame(kind: RecordKind, data: bytes, sequence: int, synced: int) -> bytes:
    head = _HEAD.pack(MARK, kind, 0, len(data), 0, sequence, synced)
    front, back = head[: _FRONT.size], head[_FRONT.size + _CRC.size :]
    crc = zlib.crc32(data, zlib.crc32(front + back))
    return b"".join((front, _CRC.pack(crc), back, data))


class Framed(NamedTuple):
    """A record found in a segment: its payload is there from `start` to `end`, which is where the next begins."""

    sequence: int
    synced: int
    kind: int
    start: int
    end: int


def unframe(segment: bytes, at: int) -> Framed | None:
    """The record that begins at `at`, or None if no intact record does."""
    return next(scan(segment, at), None)


def scan(segment: bytes, at: int, *, checked: bool = True) -> Iterator[Framed]:
    """The intact records from `at` on, up to what is none. A generator of its own: a start reads a million of them."""
    view = memoryview(segment)
    length, size, crc32, unpack = len(segment), RECORD_HEADER, zlib.crc32, _HEAD.unpack_from
    while at + size <= length:
        mark, kind, _, extent, crc, sequence, synced = unpack(segment, at)
        start = at + size
        end = start + extent
        if mark != MARK or end > length or kind not in _RECORDS:
            return
        if checked and crc32(view[at + 12 : end], crc32(view[at : at + 8])) != crc:
            return
        yield Framed(sequence, synced, kind, start, end)
        at = end


def extent(segment: bytes, at: int) -> int:
    """How many bytes the record that begins at `at` says that it has; 0 where none begins."""
    if len(segment) - at < RECORD_HEADER or segment[at : at + len(MARK)] != MARK:
        return 0
    return RECORD_HEADER + int(_FRONT.unpack_from(segment, at)[3])


def segment_header(segment: int, next_id: int) -> bytes:
    head = _SEGMENT.pack(MAGIC, segment, next_id)
    return head + _CRC.pack(zlib.crc32(head))


class SegmentHeader(NamedTuple):
    """A segment's first bytes: which format it has, its number, and the next message id when it was begun."""

    magic: bytes
    number: int
    next_id: int


def read_segment_header(segment: bytes) -> SegmentHeader | None:
    """The header of a segment, or None if it was never finished or is no segment."""
    if len(segment) < SEGMENT_HEADER:
        return None
    head = segment[: _SEGMENT.size]
    if zlib.crc32(head) != _CRC.unpack_from(segment, _SEGMENT.size)[0]:
        return None
    return SegmentHeader(*_SEGMENT.unpack(head))
