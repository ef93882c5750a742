"""What the two members of a pair say to each other, as values and bytes. Free of I/O. All numbers are big-endian.

frame     kind u8 | length u32 | payload
hello     member as a digit                              the standby, once
alive     member as a digit                              the active, first of all and when it has nothing else to say
segment   number u32 | size u32 | bytes without the zeros at the end
whole                                                    the snapshot has no more segments
records   batch u64 | for each record: kind u8 | length u32 | payload
stored    batch u64                                      the standby has all up to this batch on disk; 0: the snapshot
in step                                                  the standby is in `in-sync`
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable

from conformance.reference.store.records import Record, payload, record

HEAD = struct.Struct(">BI")
_SEGMENT = struct.Struct(">II")
_BATCH = struct.Struct(">Q")

PairFrame = enum.IntEnum("PairFrame", "HELLO ALIVE SEGMENT WHOLE RECORDS STORED IN_STEP")


def frame(kind: PairFrame, data: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(data)) + data


def segment(number: int, data: bytes) -> bytes:
    return frame(PairFrame.SEGMENT, _SEGMENT.pack(number, len(data)) + data.rstrip(b"\0"))


def segment_of(data: bytes) -> tuple[int, bytes]:
    """Return the number of a segment and its bytes, in their full size: the inverse of `segment`."""
    number, size = _SEGMENT.unpack_from(data)
    return number, data[_SEGMENT.size :].ljust(size, b"\0")


def records(batch: int, entries: Iterable[Record]) -> bytes:
    framed = (HEAD.pack(kind, len(data)) + data for kind, data in map(payload, entries))
    return frame(PairFrame.RECORDS, _BATCH.pack(batch) + b"".join(framed))


def records_of(data: bytes) -> tuple[int, list[Record]]:
    """Return the number of a batch and its records: the inverse of `records`."""
    found: list[Record] = []
    at = _BATCH.size
    while at < len(data):
        kind, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        found.append(record(kind, data, at, at + length))
        at += length
    return batch_of(data), found


def stored(batch: int) -> bytes:
    return frame(PairFrame.STORED, _BATCH.pack(batch))


def batch_of(data: bytes) -> int:
    """Return the number of the batch with which a payload begins."""
    return int.from_bytes(data[: _BATCH.size], "big")
