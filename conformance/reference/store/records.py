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
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"CONFJRN1"
MARK = b"\xc7\x9d"

_SEGMENT = struct.Struct(">8sIQ")
_CRC = struct.Struct(">I")
_FRONT = struct.Struct(">2sBBI")
_BACK = struct.Struct(">QQ")
_ID = struct.Struct(">Q")
_COUNT = struct.Struct(">QI")
_PLACE = struct.Struct(">QQ")
_STORED = struct.Struct(">QQIBBB")
_MEMBER = struct.Struct(">BI")

SEGMENT_HEADER = _SEGMENT.size + _CRC.size
RECORD_HEADER = _FRONT.size + _CRC.size + _BACK.size


class Kind(enum.IntEnum):
    """What a record says."""

    QUEUE = 1
    STORED = 2
    REMOVED = 3
    COUNTED = 4
    MOVED = 5
    CLOSED = 6
    COMMITTED = 7


_KINDS = frozenset(Kind)


class QueueDeclared(NamedTuple):
    """A durable queue exists, and its next message gets at least this number."""

    name: str
    next_number: int


class Stored(NamedTuple):
    """A message: its id is unique in the data directory, its number in the queue."""

    id: int
    number: int
    queue: str
    failures: int
    rest: bytes
    bare: bytes


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


class Closed(NamedTuple):
    """The broker stopped cleanly: all before this was on disk."""


Change = Stored | Removed | Counted | Moved


class Committed(NamedTuple):
    """All changes of one transaction, in order: one record with one CRC, so that no crash can leave a part of them."""

    changes: tuple[Change, ...]


Record = QueueDeclared | Change | Closed | Committed


def changes(record: Record) -> tuple[Change, ...]:
    """The changes of single messages that a record says, in order."""
    match record:
        case Committed(members):
            return members
        case Stored() | Removed() | Counted() | Moved():
            return (record,)
    return ()


def payload(record: Record) -> tuple[Kind, bytes]:
    """The kind and the payload of a record; `record` is its inverse."""
    match record:
        case Stored(id, number, queue, failures, rest, bare):
            name = queue.encode()
            return Kind.STORED, _STORED.pack(id, number, failures, len(name), len(rest), 0) + name + rest + bare
        case Removed(id):
            return Kind.REMOVED, _ID.pack(id)
        case Counted(id, failures):
            return Kind.COUNTED, _COUNT.pack(id, failures)
        case Moved(id, number, queue):
            return Kind.MOVED, _PLACE.pack(id, number) + queue.encode()
        case QueueDeclared(queue, number):
            return Kind.QUEUE, _ID.pack(number) + queue.encode()
        case Closed():
            return Kind.CLOSED, b""
        case Committed(members):
            return Kind.COMMITTED, b"".join(_member(*payload(member)) for member in members)


def record(kind: Kind, data: bytes) -> Record:
    """The record with this payload, which its CRC has shown to be intact."""
    match kind:
        case Kind.STORED:
            id, number, failures, name, rest, _ = _STORED.unpack_from(data)
            at = _STORED.size + name
            return Stored(
                id, number, data[_STORED.size : at].decode(), failures, data[at : at + rest], data[at + rest :]
            )
        case Kind.REMOVED:
            return Removed(*_ID.unpack(data))
        case Kind.COUNTED:
            return Counted(*_COUNT.unpack(data))
        case Kind.MOVED:
            id, number = _PLACE.unpack_from(data)
            return Moved(id, number, data[_PLACE.size :].decode())
        case Kind.QUEUE:
            return QueueDeclared(data[_ID.size :].decode(), _ID.unpack_from(data)[0])
        case Kind.CLOSED:
            return Closed()
        case Kind.COMMITTED:
            return Committed(tuple(_members(data)))


def _member(kind: Kind, data: bytes) -> bytes:
    return _MEMBER.pack(kind, len(data)) + data


def _members(data: bytes) -> Iterator[Change]:
    at = 0
    while at < len(data):
        kind, length = _MEMBER.unpack_from(data, at)
        at += _MEMBER.size
        yield from changes(record(Kind(kind), data[at : at + length]))
        at += length


def frame(kind: Kind, data: bytes, sequence: int, synced: int) -> bytes:
    """One record, header and payload."""
    front = _FRONT.pack(MARK, kind, 0, len(data))
    back = _BACK.pack(sequence, synced) + data
    return front + _CRC.pack(zlib.crc32(back, zlib.crc32(front))) + back


class Framed(NamedTuple):
    """A record found in a segment at `start`, and where it ends."""

    sequence: int
    synced: int
    kind: Kind
    data: bytes
    end: int


def unframe(segment: bytes, start: int) -> Framed | None:
    """The record at `start`, or None if no intact record is there."""
    if segment[start : start + 2] != MARK or len(segment) - start < RECORD_HEADER:
        return None
    _, kind, _, length = _FRONT.unpack_from(segment, start)
    (crc,) = _CRC.unpack_from(segment, start + _FRONT.size)
    back, end = start + _FRONT.size + _CRC.size, start + RECORD_HEADER + length
    if end > len(segment) or kind not in _KINDS:
        return None
    if zlib.crc32(segment[back:end], zlib.crc32(segment[start : start + _FRONT.size])) != crc:
        return None
    sequence, synced = _BACK.unpack_from(segment, back)
    return Framed(sequence, synced, Kind(kind), segment[start + RECORD_HEADER : end], end)


def segment_header(segment: int, next_id: int) -> bytes:
    """The first bytes of a segment."""
    head = _SEGMENT.pack(MAGIC, segment, next_id)
    return head + _CRC.pack(zlib.crc32(head))


def read_segment_header(segment: bytes) -> tuple[int, int] | None:
    """The segment's number and the next message id, or None if it was never finished or is no segment."""
    if len(segment) < SEGMENT_HEADER:
        return None
    head = segment[: _SEGMENT.size]
    if zlib.crc32(head) != _CRC.unpack_from(segment, _SEGMENT.size)[0]:
        return None
    magic, number, next_id = _SEGMENT.unpack(head)
    return (number, next_id) if magic == MAGIC else None
