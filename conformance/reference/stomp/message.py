"""Messages between the two protocols: what STOMP sends is stored as an AMQP message, so that a queue serves both.

| STOMP | AMQP 1.0 |
|---|---|
| `persistent:true` | header, durable (section 3.2.1) |
| content-type | properties, content-type, where it is ASCII as a symbol must be (3.2.4) |
| any other header, but the reserved | application-properties, string to string (3.2.5) |
| body | one data section (3.2.6) |

Back, numbers and truth values of other senders become text, binary becomes text where it is UTF-8, and the AMQP
message-id becomes the header amqp-message-id.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from conformance.reference.core.message import DecodeError, Parsed

RESERVED = frozenset(
    "destination transaction receipt persistent content-length content-type"
    " message-id subscription ack redelivered delivery-count".split()
)
"""Headers of SEND that are instructions to the broker, and those that the broker itself sets on MESSAGE."""

_BROKERS = RESERVED - {"content-type"}

_NO_PRIORITY_NO_TTL = b"\x40\x40"
_PROPERTIES, _APPLICATION, _DATA, _SEQUENCE, _VALUE = 0x73, 0x74, 0x75, 0x76, 0x77
_MESSAGE_ID, _CONTENT_TYPE = 0, 6
"""Places in the list of the properties section (3.2.4)."""

_CONSTANTS: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_NUMBERS = {
    code: struct.Struct(form)
    for code, form in {
        0x50: ">B", 0x51: ">b", 0x52: ">B", 0x53: ">B", 0x54: ">b", 0x55: ">b", 0x56: ">?", 0x60: ">H", 0x61: ">h",
        0x70: ">I", 0x71: ">i", 0x72: ">f", 0x80: ">Q", 0x81: ">q", 0x82: ">d", 0x83: ">q",
    }.items()
}  # fmt: skip
_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_BINARY, _UUID = 0x0, 0x98
"""The low nibble of binary among the variable widths 0xA and 0xB, and the constructor of uuid (section 1.6)."""

_PASSED = object()
"""Stands for a value that has no text: lists, maps, arrays, described values, char and the decimals."""


class Text(NamedTuple):
    """A message as STOMP shows it: headers of the sender, in their order, and the body."""

    headers: list[tuple[str, str]]
    body: bytes


def store(headers: Mapping[str, str], body: bytes) -> Parsed:
    """The headers and body of a SEND as the broker stores them; only `persistent:true` makes it durable."""
    kind = headers.get("content-type", "")
    others = [item for item in headers.items() if item[0] not in RESERVED]
    parts = []
    if kind.isascii() and kind:
        symbol = b"\xb3" + struct.pack(">I", len(kind)) + kind.encode()
        parts.append(_compound(_PROPERTIES, 0xD0, [b"\x40" * _CONTENT_TYPE, symbol], _CONTENT_TYPE + 1))
    elif kind:
        others.append(("content-type", kind))
    if others:
        strings = [_string(text) for item in others for text in item]
        parts.append(_compound(_APPLICATION, 0xD1, strings, len(strings)))
    parts += (b"\x00\x53\x75\xb0", struct.pack(">I", len(body)), body)
    return Parsed(headers.get("persistent") == "true", _NO_PRIORITY_NO_TTL, b"".join(parts))


def show(bare: bytes) -> Text:
    """A stored message as STOMP shows it.

    A body that is no text, number or bytes (a list, a map, or sections that cannot be read: the broker never looked
    into them) is shown as the bytes of its encoded sections, with the header `amqp-encoded:true`.
    """
    try:
        return _show(bare)
    except (DecodeError, IndexError, struct.error, ValueError):
        return Text([("amqp-encoded", "true")], bare)


def _show(bare: bytes) -> Text:
    headers: list[tuple[str, str]] = []
    parts: list[bytes] = []
    at = 0
    while at < len(bare):
        start = _end(bare, at + 1, described=False)
        section, at = _scalar(bare, at + 1, start) if bare[at] == 0 else None, _end(bare, start)
        if section == _PROPERTIES:
            headers += _properties(_items(bare, start))
        elif section == _APPLICATION:
            headers += _named(_items(bare, start))
        elif section in (_DATA, _VALUE):
            parts.append(_bytes(_scalar(bare, start, at)))
        elif section == _SEQUENCE or section is None:
            raise DecodeError("no body that STOMP could show")
    return Text(headers, b"".join(parts))


def _properties(fields: list[Any]) -> list[tuple[str, str]]:
    named = {"amqp-message-id": fields[_MESSAGE_ID:][:1], "content-type": fields[_CONTENT_TYPE:][:1]}
    return [(name, text) for name, found in named.items() for value in found if (text := _text(value)) is not None]


def _named(items: list[Any]) -> list[tuple[str, str]]:
    """Application properties as headers, without those that would pass for the broker's own."""
    pairs = zip(items[::2], items[1::2], strict=True)
    names = [(name, value) for name, value in pairs if isinstance(name, str) and name not in _BROKERS]
    return [(name, text) for name, value in names if (text := _text(value)) is not None]


def _text(value: Any) -> str | None:
    """The value as text; None for null and for what has no text, as bytes that are not UTF-8 have none."""
    if value is None or value is _PASSED:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _bytes(value: Any) -> bytes:
    if value is _PASSED:
        raise DecodeError("no body that STOMP could show")
    return value if isinstance(value, bytes) else (_text(value) or "").encode()


def _items(data: bytes, at: int) -> list[Any]:
    """What a list or map holds, keys and values alike, one level deep."""
    code = data[at]
    if code == 0x45:
        return []
    if code not in (0xC0, 0xC1, 0xD0, 0xD1):
        raise DecodeError("a section that is no list or map")
    (count,), at = (data[at + 2 : at + 3], at + 3) if code < 0xD0 else (struct.unpack_from(">I", data, at + 5), at + 9)
    items = []
    for _ in range(count):
        end = _end(data, at)
        items.append(_scalar(data, at, end))
        at = end
    return items


def _end(data: bytes, at: int, *, described: bool = True) -> int:
    """Where the value at `at` ends; IndexError if that is behind the data."""
    while described and data[at] == 0:
        at = _end(data, at + 1, described=False)
    code = data[at]
    kind = code >> 4
    if kind in _WIDTHS:
        width = _WIDTHS[kind]
    elif kind < 0xA:
        raise DecodeError(f"constructor {code:#x}")
    else:
        width = 4 + struct.unpack_from(">I", data, at + 1)[0] if kind & 1 else 1 + data[at + 1]
    if at + 1 + width > len(data):
        raise IndexError(at)
    return at + 1 + width


def _scalar(data: bytes, at: int, end: int) -> Any:
    """The value from `at` to `end`, or `_PASSED`."""
    code = data[at]
    if code in _CONSTANTS:
        return _CONSTANTS[code]
    if code in _NUMBERS:
        return _NUMBERS[code].unpack_from(data, at + 1)[0]
    if code == _UUID:
        return uuid.UUID(bytes=data[at + 1 : end])
    if code >> 4 in (0xA, 0xB):
        raw = data[at + (5 if code >> 4 & 1 else 2) : end]
        return raw if code & 0xF == _BINARY else raw.decode()
    return _PASSED


def _string(text: str) -> bytes:
    raw = text.encode()
    return b"\xa1" + bytes((len(raw),)) + raw if len(raw) < 256 else b"\xb1" + struct.pack(">I", len(raw)) + raw


def _compound(section: int, code: int, parts: list[bytes], count: int) -> bytes:
    """A section that is a list32 or a map32 (section 1.6.22 and 1.6.23)."""
    content = b"".join(parts)
    return bytes((0x00, 0x53, section, code)) + struct.pack(">II", len(content) + 4, count) + content
