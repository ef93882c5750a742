"""Messages of AMQP 0-9-1 are stored as those of AMQP 1.0, so that a queue serves every protocol.

| AMQP 0-9-1 | AMQP 1.0 |
|---|---|
| delivery-mode 2 | header, durable (section 3.2.1) |
| priority, expiration in milliseconds | header, priority and ttl (3.2.1) |
| message-id, user-id, type, reply-to, correlation-id, content-type, content-encoding, timestamp, app-id | properties (3.2.4): message-id, user-id, subject, reply-to, correlation-id, content-type, content-encoding, creation-time, group-id |
| headers | application-properties (3.2.5), each value in the type that is nearest |
| body | one data section (3.2.6) |

Values are encoded anew from bytes to bytes. Back, a value that a table cannot hold is left out, and so is a header by
which a sender would pass for the broker: `x-delivery-count`.
"""  # noqa: E501 - a row of a table

from __future__ import annotations

import struct
from collections.abc import Callable

from conformance.reference.amqp091.codec import PRECONDITION_FAILED, SYNTAX_ERROR, Amqp091Error, cut, sized
from conformance.reference.core import sections
from conformance.reference.core.sections import DecodeError, Parsed
from conformance.reference.stomp.message import show as text_of

COUNT = "x-delivery-count"
"""The header in which RabbitMQ says how often a delivery failed before."""

MOST_MS = 0xFFFFFFFF
"""The longest expiration: a ttl of AMQP 1.0 has 32 bits."""

_KINDS = "ssFBBssssQssss"
"""The 14 properties in their order (the XML's class 60): short strings, table, octets and the timestamp."""

_HEADERS, _MODE, _PRIORITY, _EXPIRATION, _TIMESTAMP, _TYPE = 2, 3, 4, 7, 9, 10
_PLACES = {8: 0, 11: 1, _TYPE: 3, 6: 4, 5: 5, 0: 6, 1: 7, _TIMESTAMP: 9, 12: 10}
"""The place of each property in the list of section 3.2.4."""

_FIELDS = {at: number for number, at in _PLACES.items()}
_SYMBOLS, _USER, _CREATED = (6, 7), 1, 9
_NULL = b"\x40"
_DEEPEST = 32
"""Tables within tables: a peer may nest them as deep as its frame is long."""

_PROPERTIES, _APPLICATION, _DATA = 0x73, 0x74, 0x75
_STRING, _BINARY, _SYMBOL = 0xA1, 0xA0, 0xA3
_PLAIN = {b"b": 0x51, b"B": 0x50, b"s": 0x61, b"u": 0x60, b"I": 0x71, b"i": 0x70, b"l": 0x81, b"L": 0x81, b"f": 0x72,
          b"d": 0x82}  # fmt: skip
"""Numbers whose bytes are the same in both: field type, constructor."""

_BACK = {code: kind for kind, code in _PLAIN.items() if kind != b"L"}
_WIDTHS = {0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8}
_BIAS, _COEFFICIENT = 398, (1 << 53) - 1
"""Exponent and coefficient of a decimal64 (IEEE 754-2008, binary integer decimal)."""


def store(properties: bytes, body: bytes) -> Parsed:
    """Return what a content is stored as. Raises `Amqp091Error` for properties that cannot be read."""
    try:
        found = _read(properties)
        headers = _table(found[_HEADERS], 0) if _HEADERS in found else []
    except (IndexError, UnicodeDecodeError):
        raise Amqp091Error(SYNTAX_ERROR, "the properties of a message cannot be read") from None
    ttl_ms = _lives(found[_EXPIRATION].decode()) if _EXPIRATION in found else 0
    rest = b"\x50" + found[_PRIORITY] if _PRIORITY in found else _NULL
    rest += b"\x70" + struct.pack(">I", ttl_ms) if ttl_ms else _NULL
    parts = _list(found)
    headers = [each for pair in zip(headers[::2], headers[1::2], strict=True) if pair[0] != _COUNTED for each in pair]
    if headers:
        parts.append(b"\x00\x53\x74" + sections.compound(0xD1, headers))
    parts += (b"\x00\x53\x75\xb0", struct.pack(">I", len(body)), body)
    return Parsed(found.get(_MODE) == b"\x02", rest, b"".join(parts), ttl_ms)


def show(bare: bytes, *, durable: bool, rest: bytes, count: int) -> tuple[bytes, bytes]:
    """Return properties and body of a stored message; `count` of failed deliveries, which 0 does not show."""
    found: dict[int, bytes] = {_MODE: b"\x02" if durable else b"\x01"}
    table: list[bytes] = []
    parts: list[bytes] = []
    try:
        for section, at in sections.walk(bare):
            if section == _PROPERTIES:
                for place, item in enumerate(sections.items(bare, at, 11)):
                    if place in _FIELDS and (value := _property(place, item)) is not None:
                        found[_FIELDS[place]] = value
            elif section == _APPLICATION:
                table += _entries(bare, at)
            elif section == _DATA:
                parts.append(sections.text(bare[at : sections.end(bare, at)]) or b"")
            elif section not in (0x71, 0x72, 0x78):
                raise DecodeError("a body that is no bytes")
        body = b"".join(parts)
    except (IndexError, ValueError):
        body = text_of(bare).body
    if count:
        table.append(bytes((len(COUNT),)) + COUNT.encode() + b"l" + struct.pack(">q", count))
    if table:
        found[_HEADERS] = b"".join(table)
    if rest[0] == 0x50:
        found[_PRIORITY] = rest[1:2]
    ttl = rest[1 + (rest[0] == 0x50) :]
    if ttl[0] != _NULL[0]:
        found[_EXPIRATION] = b"%d" % int.from_bytes(ttl[1:], "big")
    return _write(found), body


def texts(table: bytes) -> dict[str, str]:
    """Return a table as text; a value that is none is empty. Raises `Amqp091Error` where it cannot be read."""
    try:
        words = _table(table, 0)
        raw = [(sections.text(each) or b"").decode() if each[0] in sections.TEXTS else "" for each in words]
    except (IndexError, UnicodeDecodeError):
        raise Amqp091Error(SYNTAX_ERROR, "a table cannot be read") from None
    return dict(zip(raw[::2], raw[1::2], strict=True))


def _read(properties: bytes) -> dict[int, bytes]:
    """The values of a property list by their places: after the flags those that are there."""
    flags = int.from_bytes(cut(properties, 0, 2), "big")
    at = 2
    if flags & 0b11:
        raise IndexError  # a second word of flags, and a property that class 60 does not have
    found: dict[int, bytes] = {}
    for place, kind in enumerate(_KINDS):
        if flags >> (15 - place) & 1:
            if kind in "BQ":
                found[place] = cut(properties, at, 1 if kind == "B" else 8)
                at += len(found[place])
            else:
                found[place], size = sized(properties, at, 1 if kind == "s" else 4)
                at += size
            if kind == "s":
                found[place].decode()
    if at != len(properties):
        raise IndexError(at)
    return found


def _write(found: dict[int, bytes]) -> bytes:
    flags = 0
    parts: list[bytes] = []
    for place, kind in enumerate(_KINDS):
        if (value := found.get(place)) is not None:
            flags |= 1 << (15 - place)
            width = {"s": 1, "F": 4}.get(kind, 0)
            parts += (len(value).to_bytes(width, "big") if width else b"", value)
    return struct.pack(">H", flags) + b"".join(parts)


def _lives(text: str) -> int:
    """A message with the expiration 0 is over unless a consumer waits; a ttl of 0 would be none."""
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MOST_MS):
        raise Amqp091Error(PRECONDITION_FAILED, f"expiration {text[:40]!r} is no number of milliseconds to {MOST_MS}")
    return int(text) or 1


def _list(found: dict[int, bytes]) -> list[bytes]:
    fields = [_NULL] * 11
    for number, place in _PLACES.items():
        if number not in found:
            continue
        value = found[number]
        if place == _CREATED:
            seconds = int.from_bytes(value, "big")
            fields[place] = b"\x83" + struct.pack(">q", min(seconds * 1000, (1 << 63) - 1))
        else:
            symbol = place in _SYMBOLS and value.isascii()
            fields[place] = sections.variable(_BINARY if place == _USER else _SYMBOL if symbol else _STRING, value)
    while fields and fields[-1] == _NULL:
        fields.pop()
    return [b"\x00\x53\x73" + sections.compound(0xD0, fields)] if fields else []


def _property(place: int, item: bytes) -> bytes | None:
    """The bytes of a property of section 3.2.4 as AMQP 0-9-1 has it; None for one that it has no room for."""
    if place == _CREATED:
        return _time(item)[1:] if item[0] == 0x83 else None
    value = sections.text(item) if item[0] in sections.TEXTS else None
    return value if value is not None and len(value) < 256 and sections.is_text(value) else None


def _table(data: bytes, depth: int, *, named: bool = True) -> list[bytes]:
    """The encoded keys and values of a table, or the values of an array. Raises `IndexError`."""
    if depth > _DEEPEST:
        raise IndexError
    found: list[bytes] = []
    at = 0
    while at < len(data):
        if named:
            key, size = sized(data, at, 1)
            key.decode()
            found.append(sections.variable(_STRING, key))
            at += size
        value, size = _value(cut(data, at, 1), data, at + 1, depth)
        found.append(value)
        at += 1 + size
    return found


def _value(kind: bytes, data: bytes, at: int, depth: int) -> tuple[bytes, int]:
    """The field value of a type that begins at `at` as AMQP 1.0 encodes it, and its size in the table."""
    if code := _PLAIN.get(kind):
        size = _WIDTHS[code >> 4]
        return bytes((code,)) + cut(data, at, size), size
    if kind == b"t":
        return b"\x41" if cut(data, at, 1) != b"\x00" else b"\x42", 1
    if kind == b"V":
        return _NULL, 0
    if kind == b"T":
        seconds = int.from_bytes(cut(data, at, 8), "big")
        return b"\x83" + struct.pack(">q", min(seconds * 1000, (1 << 63) - 1)), 8
    if kind == b"D":
        scale, value = struct.unpack(">Bi", cut(data, at, 5))
        return b"\x84" + ((value < 0) << 63 | (_BIAS - scale) << 53 | abs(value)).to_bytes(8, "big"), 5
    if kind not in (b"S", b"x", b"F", b"A"):
        raise IndexError
    raw, size = sized(data, at, 4)
    if kind == b"F":
        return sections.compound(0xD1, _table(raw, depth + 1)), size
    if kind == b"A":
        return sections.compound(0xD0, _table(raw, depth + 1, named=False)), size
    return sections.variable(_STRING if kind == b"S" and sections.is_text(raw) else _BINARY, raw), size


def _entries(data: bytes, at: int, depth: int = 0) -> list[bytes]:
    """The entries of a table that a map is, or of an array that a list is."""
    named = data[at] in (0xC1, 0xD1)
    if depth > _DEEPEST:
        raise DecodeError("too deep")
    items = sections.items(data, at, len(data), of_map=named)
    if not named:
        return [value for item in items if (value := _field(item, depth)) is not None]
    found: list[bytes] = []
    for name, item in zip(items[::2], items[1::2], strict=True):
        key = (sections.text(name) or b"") if name[0] in sections.TEXTS else b""
        value = _field(item, depth)
        if value is not None and 0 < len(key) < 256 and key != COUNT.encode() and sections.is_text(key):
            found.append(bytes((len(key),)) + key + value)
    return found


def _field(item: bytes, depth: int) -> bytes | None:
    code = item[0]
    if kind := _BACK.get(code):
        return kind + item[1:]
    if code in sections.TEXTS:
        raw = item[sections.TEXTS[code] :]
        return (b"x" if code & 0xF == 0 else b"S") + struct.pack(">I", len(raw)) + raw
    made = _OTHERS.get(code)
    if made is not None:
        return made(item)
    if code in (0x45, 0xC0, 0xD0, 0xC1, 0xD1):
        named = code in (0xC1, 0xD1)
        raw = b"".join(_entries(item, 0, depth + 1))
        return (b"F" if named else b"A") + struct.pack(">I", len(raw)) + raw
    return None


def _decimal(item: bytes) -> bytes | None:
    number = int.from_bytes(item[1:], "big")
    scale, value = _BIAS - (number >> 53 & 0x3FF), number & _COEFFICIENT
    if not 0 <= scale < 256 or value >= 1 << 31:
        return None
    return b"D" + struct.pack(">Bi", scale, -value if number >> 63 else value)


def _time(item: bytes) -> bytes:
    return b"T" + struct.pack(">Q", max(0, int.from_bytes(item[1:], "big", signed=True)) // 1000)


def _whole(item: bytes) -> bytes | None:
    value = int.from_bytes(item[1:], "big", signed=item[0] in (0x54, 0x55))
    return b"l" + struct.pack(">q", value) if value < 1 << 63 else None


_OTHERS: dict[int, Callable[[bytes], bytes | None]] = {
    0x40: lambda _: b"V",
    0x41: lambda _: b"t\x01",
    0x42: lambda _: b"t\x00",
    0x56: lambda item: b"t" + item[1:],
    0x83: _time,
    0x84: _decimal,
    **dict.fromkeys((0x43, 0x44, 0x52, 0x53, 0x54, 0x55, 0x80), _whole),
}


_COUNTED = sections.variable(_STRING, COUNT.encode())
