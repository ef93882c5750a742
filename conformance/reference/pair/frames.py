"""What the two members of a pair say to each other, as values and bytes. Free of I/O. All numbers are big-endian.

frame     kind u8 | length u32 | payload
hello     magic 8s | member u8                           the standby, once
refused   text                                           the active, in place of a snapshot: why
segment   number u32 | size u32 | bytes without the zeros at the end
whole                                                    the snapshot has no more segments
records   batch u64 | for each record: kind u8 | length u32 | payload
stored    batch u64                                      the standby has all up to this batch on disk; 0: the snapshot
in step                                                  the standby is in `in-sync`
alive                                                    the active has nothing else to say
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from typing import NamedTuple

from conformance.reference.store.records import Record, payload, record

MAGIC = b"CONFPAI1"

_HEAD = struct.Struct(">BI")
_HELLO = struct.Struct(">8sB")
_SEGMENT = struct.Struct(">II")
_BATCH = struct.Struct(">Q")

HEAD = _HEAD.size
"""Bytes of a frame before its payload."""


class PairFrame(enum.IntEnum):
    """What a frame says."""

    HELLO = 1
    REFUSED = 2
    SEGMENT = 3
    WHOLE = 4
    RECORDS = 5
    STORED = 6
    IN_STEP = 7
    ALIVE = 8


class Said(NamedTuple):
    """A frame that has arrived."""

    kind: PairFrame
    payload: bytes


def frame(kind: PairFrame, payload: bytes = b"") -> bytes:
    return _HEAD.pack(kind, len(payload)) + payload


def head(data: bytes) -> tuple[PairFrame, int]:
    """Return the kind of a frame and the length of its payload in bytes. Raises `ValueError` for an unknown kind."""
    kind, length = _HEAD.unpack(data)
    return PairFrame(kind), length


def hello(member: int) -> bytes:
    return frame(PairFrame.HELLO, _HELLO.pack(MAGIC, member))


def refusal(said: Said, active: int, standby: int) -> str:
    """Return why the first frame of a connection is not that of the member `standby`; empty if it is."""
    if said.kind is not PairFrame.HELLO or len(said.payload) != _HELLO.size:
        return "it did not say who it is"
    magic, member = _HELLO.unpack(said.payload)
    if magic != MAGIC:
        return f"it speaks {magic!r}, and {MAGIC!r} is spoken here: start both members from one version"
    return "" if member == standby else f"member {active} is active: start the other one with --member {standby}"


def segment(number: int, data: bytes) -> bytes:
    return frame(PairFrame.SEGMENT, _SEGMENT.pack(number, len(data)) + data.rstrip(b"\0"))


def segment_of(data: bytes) -> tuple[int, bytes]:
    """Return the number of a segment and its bytes, in their full size: the inverse of `segment`."""
    number, size = _SEGMENT.unpack_from(data)
    return number, data[_SEGMENT.size :].ljust(size, b"\0")


def records(batch: int, entries: Iterable[Record]) -> bytes:
    parts = [_BATCH.pack(batch)]
    for entry in entries:
        kind, data = payload(entry)
        parts += (_HEAD.pack(kind, len(data)), data)
    return frame(PairFrame.RECORDS, b"".join(parts))


def records_of(data: bytes) -> tuple[int, list[Record]]:
    """Return the number of a batch and its records: the inverse of `records`."""
    found: list[Record] = []
    at = _BATCH.size
    while at < len(data):
        kind, length = _HEAD.unpack_from(data, at)
        at += HEAD
        found.append(record(kind, data, at, at + length))
        at += length
    return batch_of(data), found


def stored(batch: int) -> bytes:
    return frame(PairFrame.STORED, _BATCH.pack(batch))


def batch_of(data: bytes) -> int:
    """Return the number of the batch with which a payload begins."""
    return int(_BATCH.unpack_from(data)[0])
