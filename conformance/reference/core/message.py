"""The header section of an encoded message: the only part that a broker may rewrite (AMQP 1.0 section 3.2).

The bytes after it, the bare message with its annotations, are never decoded.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_DESCRIPTORS = (b"\x00\x53\x70", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70")
"""A header starts with its descriptor 0x70, as a smallulong or as a ulong (AMQP 1.0 section 1.6.9)."""

_SECTIONS = (*(bytes((0x00, 0x53, code)) for code in range(0x70, 0x79)), b"\x00\x80\x00\x00\x00\x00\x00\x00\x00")
_NULL = b"\x40"
_TRUTH = {0x40: False, 0x41: True, 0x42: False}
_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8}
"""Bytes after a constructor, by its high nibble (AMQP 1.0 section 1.2); a header holds no others."""

_DURABLE = 0
_PRIORITY = 1
_TTL = 2


class DecodeError(Exception):
    """The bytes are not an AMQP message: answered with amqp:decode-error (AMQP 1.0 section 2.8.15)."""


class Parsed(NamedTuple):
    """A message taken apart: `rest` is the encoded priority and ttl as they came, `bare` all after the header.

    It lives for `ttl_ms` from its arrival on, or until `expires_ms`, in milliseconds since the epoch; 0: not said. A
    ttl of 0 is no ttl: it is how senders say so that cannot leave the field out.
    """

    durable: bool
    rest: bytes
    bare: bytes
    ttl_ms: int = 0
    expires_ms: int = 0


def parse(encoded: bytes) -> Parsed:
    """Splits the header from an encoded message; a message without a header is not durable (section 3.2.1).

    Raises `DecodeError` if the bytes start with no known section.
    """
    if not encoded.startswith(_SECTIONS):
        raise DecodeError("the message starts with no section of section 3.2")
    start = next((len(d) for d in _DESCRIPTORS if encoded.startswith(d)), 0)
    if start == 0:
        return Parsed(False, _NULL * 2, encoded)
    try:
        fields, end = _fields(encoded, start)
        durable, ttl = _boolean(fields[_DURABLE]), _uint(fields[_TTL])
    except (IndexError, KeyError, struct.error) as error:
        raise DecodeError("the header section is malformed") from error
    return Parsed(durable, fields[_PRIORITY] + fields[_TTL], encoded[end:], ttl)


def encode(durable: bool, rest: bytes, first: bool, count: int, bare: bytes) -> bytes:
    """The message with a header of its own: durable, priority and ttl as they came, first-acquirer, delivery-count."""
    number = b"\x43" if count == 0 else b"\x70" + count.to_bytes(4, "big")
    flags = (b"\x41" if durable else b"\x42", rest, b"\x41" if first else b"\x42", number)
    fields = b"".join(flags)
    return b"".join((b"\x00\x53\x70\xc0", bytes((len(fields) + 1, 5)), fields, bare))


def aged(rest: bytes, left_ms: int) -> bytes:
    """The priority and ttl of `Parsed.rest`, with so many milliseconds left to live: an intermediary's duty (3.2.1).

    A message that came without a ttl leaves without one.
    """
    ttl = 1 + _WIDTHS[rest[0] >> 4]
    return rest if rest[ttl:] == _NULL else rest[:ttl] + b"\x70" + min(left_ms, 0xFFFFFFFF).to_bytes(4, "big")


def _fields(encoded: bytes, start: int) -> tuple[list[bytes], int]:
    """The five encoded fields, null where the list is shorter, and where the section ends."""
    constructor = encoded[start]
    if constructor == 0x45:
        return [_NULL] * 5, start + 1
    if constructor == 0xC0:
        size, number, at, end = encoded[start + 1], encoded[start + 2], start + 3, start + 2 + encoded[start + 1]
    elif constructor == 0xD0:
        size, number = struct.unpack_from(">II", encoded, start + 1)
        at, end = start + 9, start + 5 + size
    else:
        raise KeyError(constructor)
    fields = []
    for _ in range(number):
        width = 1 + _WIDTHS[encoded[at] >> 4]
        fields.append(encoded[at : at + width])
        at += width
    if at != end or number > 5 or end > len(encoded):
        raise IndexError(end)
    return fields + [_NULL] * (5 - number), end


def _boolean(field: bytes) -> bool:
    return field[1] == 1 if field[0] == 0x56 else _TRUTH[field[0]]


def _uint(field: bytes) -> int:
    """A uint of four bytes, of one, or zero (section 1.6.4); null is 0 too."""
    if field[0] not in (0x40, 0x43, 0x52, 0x70):
        raise KeyError(field[0])
    return int.from_bytes(field[1:], "big")
