"""The header section of an encoded message: the only part that a broker may rewrite (AMQP 1.0 section 3.2).

The bytes after it, the bare message with its annotations, are never decoded.
"""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple

_DESCRIPTORS = (b"\x00\x53\x70", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70")
"""A header starts with its descriptor 0x70, as a smallulong or as a ulong (AMQP 1.0 section 1.6.9)."""

_SECTIONS = (*(bytes((0x00, 0x53, code)) for code in range(0x70, 0x79)), b"\x00\x80\x00\x00\x00\x00\x00\x00\x00")
_USUAL = b"\x00\x53\x70\xc0"
"""How nearly every message begins: a header as a list of less than 256 bytes, whose size is the next byte."""

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
    end = _end(encoded)
    if end == 0:
        return Parsed(False, _NULL * 2, encoded)
    if end > len(encoded):
        raise DecodeError("the header section is longer than the message")
    durable, rest, ttl_ms = _header(encoded[:end])
    return Parsed(durable, rest, encoded[end:], ttl_ms)


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


def _end(encoded: bytes) -> int:
    """Where the header section says that it ends; 0 where there is none."""
    if encoded.startswith(_USUAL) and len(encoded) > len(_USUAL):
        return len(_USUAL) + 1 + encoded[len(_USUAL)]
    if not encoded.startswith(_SECTIONS):
        raise DecodeError("the message starts with no section of section 3.2")
    start = next((len(d) for d in _DESCRIPTORS if encoded.startswith(d)), 0)
    if start == 0:
        return 0
    try:
        match encoded[start]:
            case 0x45:
                return start + 1
            case 0xC0:
                return start + 2 + encoded[start + 1]
            case 0xD0:
                return start + 5 + int(struct.unpack_from(">I", encoded, start + 1)[0])
    except (IndexError, struct.error) as error:
        raise DecodeError("the header section is malformed") from error
    raise DecodeError(f"the header section is no list: constructor 0x{encoded[start]:02x}")


@functools.lru_cache(256)
def _header(encoded: bytes) -> tuple[bool, bytes, int]:
    """Durable, the encoded priority and ttl, and the ttl of a header section: a publisher's are nearly all the same."""
    try:
        fields = _fields(encoded, next(len(d) for d in _DESCRIPTORS if encoded.startswith(d)))
        return _boolean(fields[_DURABLE]), fields[_PRIORITY] + fields[_TTL], _uint(fields[_TTL])
    except (IndexError, KeyError, struct.error) as error:
        raise DecodeError("the header section is malformed") from error


def _fields(encoded: bytes, start: int) -> list[bytes]:
    """The five encoded fields of the list that begins at `start` and fills the rest, null where it is shorter."""
    constructor = encoded[start]
    if constructor == 0x45:
        return [_NULL] * 5
    number, at = (encoded[start + 2], start + 3) if constructor == 0xC0 else _long(encoded, start)
    fields = []
    for _ in range(min(number, 6)):
        width = 1 + _WIDTHS[encoded[at] >> 4]
        fields.append(encoded[at : at + width])
        at += width
    if at != len(encoded) or number > 5:
        raise IndexError(at)
    return fields + [_NULL] * (5 - number)


def _long(encoded: bytes, start: int) -> tuple[int, int]:
    """How many fields a list of four-byte numbers has, and where the first is."""
    return struct.unpack_from(">I", encoded, start + 5)[0], start + 9


def _boolean(field: bytes) -> bool:
    return field[1] == 1 if field[0] == 0x56 else _TRUTH[field[0]]


def _uint(field: bytes) -> int:
    """A uint of four bytes, of one, or zero (section 1.6.4); null is 0 too."""
    if field[0] not in (0x40, 0x43, 0x52, 0x70):
        raise KeyError(field[0])
    return int.from_bytes(field[1:], "big")
