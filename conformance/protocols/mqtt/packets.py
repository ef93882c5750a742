"""Write and read the packets of MQTT 5 and 3.1.1 (chapters 2 and 3 of both), without I/O.

Sections are those of MQTT 5. `level` is the byte of CONNECT that names the version (section 3.1.2.2): 5, or 4 for
3.1.1, which has no properties, and no reason codes but those of CONNACK and SUBACK. There the first word of a body is
our id of the message. A message without a body has its id as its body.

Why no library: paho-mqtt 2.2.0 puts packets together inside its client, and reads them from its own socket. Its client
sends again by itself, and has no limit for the length of a packet. Only its properties are public, and need 0.05 ms
to write or to read one, which is half of the time of a message here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conformance.history import CONFORMANCE_ID

MQTT_5, MQTT_311 = 5, 4
"""The levels."""

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(10, 16)
NAMES = ("", *"CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK".split())
NAMES += tuple("UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP DISCONNECT AUTH".split())
ACKS = frozenset((PUBACK, PUBREC, PUBREL, PUBCOMP))

_FLAGS = {PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}
"""Section 2.1.3; of any other packet but PUBLISH they are 0."""

LONGEST = 268_435_455
"""The largest remaining length: four bytes with seven bits each (section 1.5.5)."""

LENGTH = 4
"""The most bytes of such a number."""

RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE, SESSION_EXPIRY, USER_PROPERTY = 0x21, 0x27, 0x11, 0x26
MESSAGE_EXPIRY = 0x02
SERVER_KEEP_ALIVE, REASON_STRING, MAXIMUM_QOS, TOPIC_ALIAS = 0x13, 0x1F, 0x24, 0x23
NEVER_EXPIRES = 0xFFFFFFFF
MOST = 65_535
"""The largest packet identifier, and Receive Maximum."""

_BYTE, _TWO, _FOUR, _VARIABLE, _BINARY, _PAIR = "byte", "two", "four", "variable", "binary", "pair"
_TYPES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), _BYTE),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), _TWO),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), _FOUR),
    0x0B: _VARIABLE,
    **dict.fromkeys((0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F), _BINARY),
    0x26: _PAIR,
}
"""The type of each property (section 2.2.2.2); texts are read as bytes."""

REASONS = {
    0x10: "no matching subscribers",
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "unsupported protocol version",
    0x85: "client identifier not valid",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8B: "server shutting down",
    0x8D: "keep alive timeout",
    0x8E: "session taken over",
    0x90: "topic name invalid",
    0x91: "packet identifier in use",
    0x92: "packet identifier not found",
    0x93: "receive maximum exceeded",
    0x95: "packet too large",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9B: "QoS not supported",
    0x9F: "connection rate exceeded",
}
"""Section 2.4. The others are about what this suite does not use."""

_RETURN_CODES = {1: 0x84, 2: 0x85, 3: 0x88, 4: 0x86, 5: 0x87}
"""The codes of a CONNACK of 3.1.1 (its section 3.2.2.3), by which a broker without MQTT 5 refuses that too."""

LOGIN_REFUSED = (0x86, 0x87)
REFUSED = 0x80
"""The least reason code of a refusal."""

NOWHERE = 0x10
"""No matching subscribers: the message was accepted and is in no session."""


FIRST_WORD = 64
"""Bytes of a body that are searched for our message id; every id is shorter."""


class Malformed(ValueError):
    """Bytes that are no packet of MQTT."""


class Head(NamedTuple):
    """The fixed header of a packet, its own `size` and the length of what follows."""

    kind: int
    flags: int
    size: int
    remaining: int

    @property
    def length(self) -> int:
        """The bytes of the whole packet."""
        return self.size + self.remaining


Properties = list[tuple[int, object]]


DUP, RETAIN = 8, 1
"""Flags of a PUBLISH beside its QoS (section 3.3.1)."""


class PublishPacket(NamedTuple):
    """A PUBLISH; `number` is its packet identifier, 0 for QoS 0."""

    topic: str
    number: int
    qos: int
    again: bool
    properties: Properties
    body: bytes
    retain: bool = False

    @property
    def texts(self) -> dict[str, str]:
        """Its user properties; of several with one name the first."""
        return user_properties(self.properties)


class Answer(NamedTuple):
    """What answers a packet: `number` is the identifier of that packet, `reasons` its codes (SUBACK has several)."""

    number: int
    reasons: tuple[int, ...]
    properties: Properties


class Connack(NamedTuple):
    """A CONNACK."""

    present: bool
    reason: int
    properties: Properties


# writing


def text(value: str) -> bytes:
    """Return a text with its length. Raises `struct.error` for more than 65,535 bytes."""
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def number(value: int) -> bytes:
    """Return a variable byte integer.

    >>> number(321).hex()
    'c102'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def packet(kind: int, payload: bytes, flags: int | None = None) -> bytes:
    return bytes([kind << 4 | (_FLAGS.get(kind, 0) if flags is None else flags)]) + number(len(payload)) + payload


def connect(
    client_id: str,
    level: int,
    *,
    expiry_s: int,
    receive: int,
    largest: int,
    login: tuple[str, str] | None,
) -> bytes:
    """Return a CONNECT without keep alive: a paused broker answers no PINGREQ.

    A session of 0 seconds begins and ends with its connection; in 3.1.1 each other never expires.
    """
    flags = (0 if expiry_s else 2) | (0xC0 if login else 0)
    more = struct.pack(">BIBHBI", SESSION_EXPIRY, expiry_s, RECEIVE_MAXIMUM, receive, MAXIMUM_PACKET_SIZE, largest)
    payload = text("MQTT") + bytes([level, flags, 0, 0]) + _with_length(level, more) + text(client_id)
    return packet(CONNECT, payload + b"".join(map(text, login or ())))


def publish(
    topic: str,
    identifier: int,
    qos: int,
    texts: Mapping[str, str],
    body: bytes,
    level: int,
    *,
    flags: int = 0,
    lives_s: int = 0,
) -> bytes:
    """Return a PUBLISH with these user properties, of which `CONFORMANCE_ID` is one; `flags`: `DUP` and `RETAIN`."""
    more = struct.pack(">BI", MESSAGE_EXPIRY, lives_s) if lives_s else b""
    more += b"".join(b"\x26" + text(name) + text(value) for name, value in texts.items())
    head = text(topic) + (struct.pack(">H", identifier) if qos else b"")
    if level < MQTT_5:
        body = body or texts.get(CONFORMANCE_ID, "").encode()
    return packet(PUBLISH, head + _with_length(level, more) + body, flags | qos << 1)


def subscribe(identifier: int, topic: str, qos: int, level: int) -> bytes:
    return packet(SUBSCRIBE, struct.pack(">H", identifier) + _with_length(level, b"") + text(topic) + bytes([qos]))


def _with_length(level: int, more: bytes) -> bytes:
    """Return properties with their length; nothing of a level that has none."""
    return number(len(more)) + more if level >= MQTT_5 else b""


def acknowledge(kind: int, identifier: int) -> bytes:
    """Return a PUBACK, PUBREC, PUBREL or PUBCOMP; without a reason code it says success (section 3.4.2.1)."""
    return packet(kind, struct.pack(">H", identifier))


# reading


def head(data: bytes | bytearray, at: int, end: int) -> Head | None:
    """Return the fixed header at `at`; None if too little of it has come. Raises `Malformed`."""
    if end - at < 2:
        return None
    kind, flags = data[at] >> 4, data[at] & 0x0F
    if not kind or (kind != PUBLISH and flags != _FLAGS.get(kind, 0)) or (kind == PUBLISH and flags & 6 == 6):
        raise Malformed(f"a packet that begins with {data[at]:#04x}")
    found = variable(data, at + 1, end)
    return None if found is None else Head(kind, flags, found[1] - at, found[0])


def variable(data: bytes | bytearray, at: int, end: int) -> tuple[int, int] | None:
    """Return a variable byte integer and where it ends; None if too little of it has come. Raises `Malformed`."""
    value = 0
    for place in range(LENGTH):
        if at + place >= end:
            return None
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise Malformed("a number of more than four bytes")


def properties(data: bytes | bytearray, at: int, end: int) -> tuple[Properties, int]:
    """Return the properties that begin with their length at `at`, and where they end. Raises `Malformed`."""
    found = variable(data, at, end)
    if found is None or found[1] + found[0] > end:
        raise Malformed("properties that are longer than their packet")
    at, stop = found[1], found[1] + found[0]
    read: Properties = []
    while at < stop:
        kind = _TYPES.get(data[at], "")
        value, at_next = _property(kind, data, at + 1, stop)
        read.append((data[at], value))
        at = at_next
    return read, stop


def user_properties(found: Properties) -> dict[str, str]:
    texts: dict[str, str] = {}
    for kind, value in found:
        if kind == USER_PROPERTY and isinstance(value, tuple):
            name, said = (part.decode(errors="replace") for part in value)
            texts.setdefault(name, said)
    return texts


def value_of(found: Properties, kind: int, default: int) -> int:
    """Return the number that a property has; the default if it is not there."""
    return next((value for each, value in found if each == kind and isinstance(value, int)), default)


def read_publish(data: bytes | bytearray, at: int, end: int, flags: int, level: int) -> PublishPacket:
    """Read the payload of a PUBLISH. Raises `Malformed`."""
    topic, at = _binary(data, at, end)
    qos, identifier = flags >> 1 & 3, 0
    if qos:
        identifier, at = _integer(data, at, end, 2)
        if not identifier:
            raise Malformed("a PUBLISH with packet identifier 0")
    found, at = properties(data, at, end) if level >= MQTT_5 else ([], at)
    body = bytes(data[at:end])
    if level < MQTT_5:
        word = first_word(body)
        found, body = [(USER_PROPERTY, (CONFORMANCE_ID.encode(), word))], b"" if body == word else body
    again, retain = bool(flags & DUP), bool(flags & RETAIN)
    return PublishPacket(topic.decode(errors="replace"), identifier, qos, again, found, body, retain)


def first_word(body: bytes) -> bytes:
    return body[:FIRST_WORD].split(b" ", 1)[0]


def read_answer(kind: int, data: bytes, at: int, end: int, level: int) -> Answer:
    """Read the payload of a PUBACK, PUBREC, PUBREL, PUBCOMP or SUBACK. Raises `Malformed`."""
    identifier, at = _integer(data, at, end, 2)
    reasons: tuple[int, ...]
    if kind in ACKS:
        if level < MQTT_5 and at < end:
            raise Malformed(f"a {NAMES[kind]} with a reason code")
        reasons = (data[at],) if at < end else (0,)
        found = properties(data, at + 1, end)[0] if end > at + 1 else []
    else:
        found, at = properties(data, at, end) if level >= MQTT_5 else ([], at)
        reasons = tuple(data[at:end])
    if not identifier or not reasons:
        raise Malformed(f"a {NAMES[kind]} without what it must have")
    return Answer(identifier, reasons, found)


def read_connack(data: bytes, at: int, end: int) -> Connack:
    if end - at < 2 or data[at] > 1:
        raise Malformed("a CONNACK without its flags")
    found = properties(data, at + 2, end)[0] if end > at + 2 else []
    return Connack(bool(data[at]), refusal(data[at + 1]), found)


def refusal(code: int) -> int:
    """Return the reason code of a CONNACK, also if it has the code of 3.1.1."""
    return _RETURN_CODES.get(code, code)


def read_disconnect(data: bytes, at: int, end: int) -> tuple[int, Properties]:
    """Return the reason code and the properties of a DISCONNECT."""
    return (data[at] if at < end else 0), (properties(data, at + 1, end)[0] if end > at + 1 else [])


def said(reason: int, found: Sequence[tuple[int, object]] = ()) -> str:
    """Return a reason code in words, with what the broker adds.

    >>> said(0x97), said(0xA2)
    ('0x97 quota exceeded', '0xa2')
    """
    more = next((value for kind, value in found if kind == REASON_STRING and isinstance(value, bytes)), b"")
    words = [f"{reason:#04x}", REASONS.get(reason, ""), f"({more.decode(errors='replace')})" if more else ""]
    return " ".join(word for word in words if word)


def _property(kind: str, data: bytes | bytearray, at: int, end: int) -> tuple[object, int]:
    sizes = {_BYTE: 1, _TWO: 2, _FOUR: 4}
    if kind in sizes:
        return _integer(data, at, end, sizes[kind])
    if kind == _VARIABLE:
        found = variable(data, at, end)
        if found is None:
            raise Malformed("a property that is longer than its packet")
        return found
    if kind == _BINARY:
        return _binary(data, at, end)
    if kind == _PAIR:
        name, at = _binary(data, at, end)
        value, at = _binary(data, at, end)
        return (name, value), at
    raise Malformed(f"a property {data[at - 1]:#04x}")


def _integer(data: bytes | bytearray, at: int, end: int, size: int) -> tuple[int, int]:
    if at + size > end:
        raise Malformed("a number that is longer than its packet")
    return int.from_bytes(data[at : at + size]), at + size


def _binary(data: bytes | bytearray, at: int, end: int) -> tuple[bytes, int]:
    size, at = _integer(data, at, end, 2)
    if at + size > end:
        raise Malformed("a text that is longer than its packet")
    return bytes(data[at : at + size]), at + size
