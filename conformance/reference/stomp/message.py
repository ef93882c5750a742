"""Messages between the two protocols: what STOMP sends is stored as an AMQP message, so that a queue serves both.

| STOMP | AMQP 1.0 |
|---|---|
| `persistent:true` | header, durable (section 3.2.1) |
| priority, a number from 0 to 9 | header, priority (3.2.1) |
| expires, milliseconds since 1970, 0 for never | properties, absolute-expiry-time (3.2.4) |
| content-type | properties, content-type, where it is ASCII as a symbol must be (3.2.4) |
| any other header, but the reserved | application-properties, string to string (3.2.5) |
| body | one data section (3.2.6) |

Back, numbers and truth values of other senders become text, binary becomes text where it is UTF-8, and the AMQP
message-id becomes the header amqp-message-id.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from conformance.reference.core import sections
from conformance.reference.core.sections import DecodeError, Parsed
from conformance.reference.stomp.frames import ProtocolError

RESERVED = frozenset(
    "destination transaction receipt persistent content-length content-type"
    " message-id subscription ack redelivered delivery-count expires".split()
)
"""Headers of SEND that are instructions to the broker, and those that the broker itself sets on MESSAGE."""

_BROKERS = RESERVED - {"content-type"}

_NULL = b"\x40"
_NOTHING_SAID = 2 * _NULL
"""Neither a priority nor a ttl."""

_SECTION, _BODY = b"\x00\x53%c", struct.Struct(">BBBBI")
_PROPERTIES, _APPLICATION, _DATA, _SEQUENCE, _VALUE = 0x73, 0x74, 0x75, 0x76, 0x77
_MESSAGE_ID, _CONTENT_TYPE, _EXPIRY = 0, 6, 8
"""Places in the list of the properties section (3.2.4)."""

_PRIORITIES = frozenset("0123456789")


class Text(NamedTuple):
    """A message as STOMP shows it: headers of the sender, in their order, and the body."""

    headers: list[tuple[str, str]]
    body: bytes


def store(headers: Mapping[str, str], body: bytes) -> Parsed:
    """The headers and body of a SEND as the broker stores them; only `persistent:true` makes it durable.

    Raises `ProtocolError` where `expires` is no time. A priority that is none is a header as any.
    """
    kind = headers.get("content-type", "")
    expires = _expires(headers["expires"]) if "expires" in headers else 0
    urgency = headers.get("priority") in _PRIORITIES
    others = [item for item in headers.items() if item[0] not in RESERVED]
    if urgency:
        others.remove(("priority", headers["priority"]))
    if kind and not kind.isascii():
        others.append(("content-type", kind))
        kind = ""
    parts = [_properties_of(kind, expires)] if kind or expires else []
    if others:
        strings = [sections.variable(sections.STRING, text.encode()) for item in others for text in item]
        parts.append(_SECTION % _APPLICATION + sections.compound(0xD1, strings))
    parts += (_BODY.pack(0, 0x53, _DATA, 0xB0, len(body)), body)
    rest = b"\x50" + bytes((int(headers["priority"]),)) + _NULL if urgency else _NOTHING_SAID
    return Parsed(headers.get("persistent") == "true", rest, b"".join(parts), 0, expires)


def _properties_of(kind: str, expires: int) -> bytes:
    symbol = b"\xb3" + struct.pack(">I", len(kind)) + kind.encode() if kind else _NULL
    fields = [*[_NULL] * _CONTENT_TYPE, symbol]
    if not expires:
        return _SECTION % _PROPERTIES + sections.compound(0xD0, fields)
    return _SECTION % _PROPERTIES + sections.compound(0xD0, [*fields, _NULL, b"\x83" + struct.pack(">q", expires)])


def _expires(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ProtocolError(f"expires {text[:40]!r} is not a whole number of milliseconds since 1970")
    return int(text)


def priority(rest: bytes) -> int | None:
    """The priority in the encoded header fields of a message, None where it has none (AMQP 1.0 section 3.2.1)."""
    return rest[1] if rest[0] == 0x50 else None


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
    for section, at in sections.walk(bare):
        if section == _PROPERTIES:
            headers += _properties(sections.values(bare, at))
        elif section == _APPLICATION:
            headers += _named(sections.values(bare, at))
        elif section in (_DATA, _VALUE):
            parts.append(_bytes(sections.value(bare, at, sections.end(bare, at))))
        elif section in (_SEQUENCE, None):
            raise DecodeError("no body that STOMP could show")
    return Text(headers, b"".join(parts))


def _properties(fields: list[Any]) -> list[tuple[str, str]]:
    named = zip(
        ("amqp-message-id", "content-type"), fields[_MESSAGE_ID : _CONTENT_TYPE + 1 : _CONTENT_TYPE], strict=False
    )
    return [(name, text) for name, value in named if (text := as_text(value)) is not None]


def _named(items: list[Any]) -> list[tuple[str, str]]:
    """Application properties as headers, without those that would pass for the broker's own."""
    headers = []
    for name, value in zip(items[::2], items[1::2], strict=True):
        if isinstance(name, str) and name not in _BROKERS and (text := as_text(value)) is not None:
            headers.append((name, text))
    return headers


def as_text(value: Any) -> str | None:
    """The value as text; None for null and for what has no text, as bytes that are not UTF-8 have none."""
    if isinstance(value, str) or value is None:
        return value
    if value is sections.OTHER:
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
    if value is sections.OTHER:
        raise DecodeError("no body that STOMP could show")
    return value if isinstance(value, bytes) else (as_text(value) or "").encode()
