"""Packets of MQTT 5 and 3.1.1: bytes to values and back, free of I/O.

Written by hand beside three libraries. The suite's client has its own codec (`protocols.mqtt.packets`), and paho has
one of a client: a fault that both ends had would stay hidden. mqttproto reads 3.1.1 not at all.

Source: MQTT 5.0, chapters 1 to 3; MQTT 3.1.1 has no properties and no reason codes.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(10, 16)
_NAMES = dict(enumerate("CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK".split(), 1))
_NAMES |= dict(enumerate("UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP DISCONNECT AUTH".split(), 10))
ACKS = frozenset((PUBACK, PUBREC, PUBREL, PUBCOMP))
_FLAGS = {PUBREL: 2, SUBSCRIBE: 2, UNSUBSCRIBE: 2}

SUCCESS, WITH_WILL, NO_SUBSCRIBER, NO_SUBSCRIPTION = 0x00, 0x04, 0x10, 0x11
UNSPECIFIED, MALFORMED, PROTOCOL_ERROR, NOT_OFFERED, BAD_VERSION, BAD_CLIENT, BAD_LOGIN = range(0x80, 0x87)
NOT_AUTHORIZED, BUSY, SHUTTING_DOWN, BAD_METHOD, KEEP_ALIVE, TAKEN_OVER = 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E
BAD_FILTER, BAD_TOPIC, NUMBER_NOT_FOUND, OVER_RECEIVE_MAXIMUM, BAD_ALIAS = 0x8F, 0x90, 0x92, 0x93, 0x94
TOO_LARGE, QUOTA, BAD_FORMAT, NO_SHARED, NO_IDENTIFIERS = 0x95, 0x97, 0x99, 0x9E, 0xA1
REFUSED = 0x80
"""Reason codes (section 2.4), and the least of them that refuses."""

RETURN_CODES = {BAD_VERSION: 1, BAD_CLIENT: 2, BUSY: 3, QUOTA: 3, BAD_LOGIN: 4, NOT_AUTHORIZED: 5}
"""What a CONNACK of 3.1.1 says for them (its section 3.2.2.3)."""

FORMAT, EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, SUBSCRIPTION = 0x01, 0x02, 0x03, 0x08, 0x09, 0x0B
SESSION_EXPIRY, ASSIGNED, METHOD, WILL_DELAY, RECEIVE_MAXIMUM, ALIAS = 0x11, 0x12, 0x15, 0x18, 0x21, 0x23
USER, LARGEST, REASON, HAS_IDENTIFIERS, HAS_SHARED = 0x26, 0x27, 0x1F, 0x29, 0x2A

_ONE, _TWO, _FOUR, _VARIABLE, _TEXT, _BINARY, _PAIR = range(7)
_TYPES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), _ONE),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), _TWO),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), _FOUR),
    0x0B: _VARIABLE,
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), _TEXT),
    **dict.fromkeys((0x09, 0x16), _BINARY),
    0x26: _PAIR,
}
"""The type of each property (section 2.2.2.2)."""

_MESSAGE = frozenset((FORMAT, EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, USER))
_WILL = _MESSAGE | {WILL_DELAY}
_ALLOWED = {
    CONNECT: frozenset((SESSION_EXPIRY, RECEIVE_MAXIMUM, LARGEST, 0x22, 0x19, 0x17, USER, METHOD, 0x16)),
    PUBLISH: _MESSAGE | {ALIAS, SUBSCRIPTION},
    SUBSCRIBE: frozenset((SUBSCRIPTION, USER)),
    UNSUBSCRIBE: frozenset((USER,)),
    DISCONNECT: frozenset((SESSION_EXPIRY, REASON, USER, 0x1C)),
    **dict.fromkeys(ACKS, frozenset((REASON, USER))),
}
"""The properties that a client may send, by packet."""

_TRUTHS, _ABOVE_ZERO = frozenset((FORMAT, 0x17, 0x19)), frozenset((RECEIVE_MAXIMUM, LARGEST, SUBSCRIPTION))

Properties = list[tuple[int, Any]]


class MqttError(Exception):
    """A peer broke the protocol, or asked for what there is not: `code` is a reason code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class FixedHeader(NamedTuple):
    """The fixed header of a packet: where its payload begins, and where it ends."""

    kind: int
    flags: int
    start: int
    end: int


class ConnectPacket(NamedTuple):
    """A CONNECT; `will` is the PUBLISH that it leaves behind."""

    level: int
    clean: bool
    keep_alive_s: int
    properties: Properties
    client: str
    will: ServerPublish | None
    user: bytes | None
    password: bytes


class ServerPublish(NamedTuple):
    """A PUBLISH; `number` is its packet identifier, 0 for QoS 0."""

    topic: str
    number: int
    qos: int
    retain: bool
    properties: Properties
    body: bytes


class Request(NamedTuple):
    """A SUBSCRIBE or UNSUBSCRIBE: filters, and the options of each, 0 for UNSUBSCRIBE."""

    number: int
    properties: Properties
    filters: list[tuple[str, int]]


def found(properties: Properties, name: int, default: Any = None) -> Any:
    """Return the value of a property; the default if it is not there."""
    return next((value for each, value in properties if each == name), default)


def head(data: bytes | bytearray, at: int, largest: int) -> FixedHeader | None:
    """Return the fixed header that begins at `at`; None if too little of it has come. Raises `MqttError`.

    A PUBLISH may be larger: see `cut_publish`.
    """
    if at >= len(data):
        return None
    kind, flags = data[at] >> 4, data[at] & 0x0F
    if not kind or (flags & 6 == 6 if kind == PUBLISH else flags != _FLAGS.get(kind, 0)):
        raise MqttError(MALFORMED, f"a packet that begins with {data[at]:#04x}")
    length = 0
    for place in range(4):
        if at + 1 + place >= len(data):
            return None
        length |= (data[at + 1 + place] & 0x7F) << 7 * place
        if data[at + 1 + place] < 0x80:
            if length > largest and kind != PUBLISH:
                raise MqttError(TOO_LARGE, f"a {_NAMES[kind]} of {length} bytes")
            return FixedHeader(kind, flags, at + 2 + place, at + 2 + place + length)
    raise MqttError(MALFORMED, "a remaining length of more than four bytes")


class _Reader:
    """Takes the payload of one packet apart; every method raises `MqttError` where it is too short."""

    def __init__(self, kind: int, data: bytes) -> None:
        self.kind = kind
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise MqttError(MALFORMED, f"a {_NAMES[self.kind]} that ends within a field")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def identifier(self) -> int:
        value = self.number(2)
        if not value:
            raise MqttError(PROTOCOL_ERROR, f"a {_NAMES[self.kind]} with the packet identifier 0")
        return value

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        """A text of section 1.5.4: UTF-8 without U+0000."""
        try:
            value = self.binary().decode()
        except UnicodeDecodeError:
            value = "\0"
        if "\0" in value:
            raise MqttError(MALFORMED, f"a text in a {_NAMES[self.kind]} that is no UTF-8, or has U+0000")
        return value

    def variable(self) -> int:
        value = 0
        for place in range(4):
            byte = self.number(1)
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value
        raise MqttError(MALFORMED, "a number of more than four bytes")

    def properties(self, allowed: frozenset[int]) -> Properties:
        """Read a length and the properties in it: each once, but user properties (section 2.2.2)."""
        size = self.variable()
        if size > self.left:
            raise MqttError(MALFORMED, f"properties that are longer than their {_NAMES[self.kind]}")
        stop, read, seen = self.at + size, [], set()
        while self.at < stop:
            name = self.variable()
            if name not in allowed:
                raise MqttError(PROTOCOL_ERROR, f"a {_NAMES[self.kind]} with the property {name:#04x}")
            if name in seen and name not in (USER, SUBSCRIPTION):
                raise MqttError(PROTOCOL_ERROR, f"a {_NAMES[self.kind]} with two properties {name:#04x}")
            seen.add(name)
            value = self._value(name)
            if (name in _TRUTHS and value > 1) or (name in _ABOVE_ZERO and not value):
                raise MqttError(PROTOCOL_ERROR, f"a {_NAMES[self.kind]} whose property {name:#04x} is {value}")
            read.append((name, value))
        if self.at != stop:
            raise MqttError(MALFORMED, f"a property that is longer than those of its {_NAMES[self.kind]}")
        return read

    def _value(self, name: int) -> Any:
        kind = _TYPES[name]
        if kind == _PAIR:
            return self.text(), self.text()
        if kind == _TEXT:
            return self.text()
        if kind == _BINARY:
            return self.binary()
        return self.variable() if kind == _VARIABLE else self.number((1, 2, 4)[kind])


def read_connect(data: bytes) -> ConnectPacket:
    """Read a CONNECT (section 3.1). Raises `MqttError`; one of another protocol gets no answer."""
    reader = _Reader(CONNECT, data)
    name, level = reader.text(), reader.number(1)
    if name != "MQTT" or level not in (4, 5):
        raise MqttError(BAD_VERSION, f"the protocol {name[:10]!r} level {level}: MQTT 5 and 3.1.1 are served")
    flags, keep_alive = reader.number(1), reader.number(2)
    qos = flags >> 3 & 3
    if flags & 1 or qos > 2 or (not flags & 4 and flags & 0x38) or (level == 4 and flags & 0xC0 == 0x40):
        raise MqttError(MALFORMED, f"a CONNECT with the flags {flags:#04x}")
    found = reader.properties(_ALLOWED[CONNECT]) if level == 5 else []
    client, will = reader.text(), None
    if flags & 4:
        about = reader.properties(_WILL) if level == 5 else []
        will = ServerPublish(topic(reader.text()), 0, qos, bool(flags & 0x20), about, reader.binary())
    user = reader.text().encode() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else b""
    _ends(reader)
    return ConnectPacket(level, bool(flags & 2), keep_alive, found, client, will, user, password)


def read_publish(data: bytes, flags: int, level: int) -> ServerPublish:
    """Read a PUBLISH (section 3.3). Raises `MqttError`."""
    reader, qos = _Reader(PUBLISH, data), flags >> 1 & 3
    if flags & 8 and not qos:
        raise MqttError(MALFORMED, "a PUBLISH of QoS 0 with DUP")
    name = reader.text()
    number = reader.identifier() if qos else 0
    found = reader.properties(_ALLOWED[PUBLISH]) if level == 5 else []
    for each, _ in found:
        if each == ALIAS:
            raise MqttError(BAD_ALIAS, "topic aliases are not offered (Topic Alias Maximum)")
        if each == SUBSCRIPTION:
            raise MqttError(PROTOCOL_ERROR, "a PUBLISH of a client with a subscription identifier")
    return ServerPublish(topic(name), number, qos, bool(flags & 1), found, reader.take(reader.left))


def cut_publish(data: bytes | bytearray, head: FixedHeader) -> ServerPublish | None:
    """Return a PUBLISH without properties and body, by its first bytes; None if too little of it has come."""
    qos, at = head.flags >> 1 & 3, head.start + 2
    at += int.from_bytes(data[head.start : at])
    if len(data) < at + 2:
        return None
    found = read_publish(bytes(data[head.start : at + 2 * bool(qos)]), head.flags, 4)
    return found._replace(body=b"")


def topic(name: str) -> str:
    """Return a topic's name. Raises `MqttError` where it has wildcards or is empty."""
    if not name or "+" in name or "#" in name:
        raise MqttError(BAD_TOPIC, f"{name[:40]!r} is no topic to publish to")
    return name


def read_answer(kind: int, data: bytes, level: int) -> tuple[int, int]:
    """Read a PUBACK, PUBREC, PUBREL or PUBCOMP: the packet identifier and the reason code. Raises `MqttError`."""
    reader = _Reader(kind, data)
    number, reason = reader.identifier(), 0
    if level == 5 and reader.left:
        reason = reader.number(1)
        if reader.left:
            reader.properties(_ALLOWED[kind])
    _ends(reader)
    return number, reason


def read_request(kind: int, data: bytes, level: int) -> Request:
    """Read a SUBSCRIBE or UNSUBSCRIBE (sections 3.8 and 3.10). Raises `MqttError`."""
    reader = _Reader(kind, data)
    number = reader.identifier()
    about = reader.properties(_ALLOWED[kind]) if level == 5 else []
    filters = []
    while reader.left:
        name = reader.text()
        options = reader.number(1) if kind == SUBSCRIBE else 0
        if options & 3 == 3 or options & 0xC0 or options & 0x30 == 0x30 or (level == 4 and options > 2):
            raise MqttError(MALFORMED, f"a SUBSCRIBE with the options {options:#04x}")
        filters.append((name, options))
    if not filters:
        raise MqttError(PROTOCOL_ERROR, f"a {_NAMES[kind]} without a filter")
    return Request(number, about, filters)


def read_disconnect(data: bytes, level: int) -> tuple[int, Properties]:
    """Read the reason code and the properties of a DISCONNECT. Raises `MqttError`."""
    reader, reason, about = _Reader(DISCONNECT, data), 0, Properties()
    if level == 5 and reader.left:
        reason = reader.number(1)
        about = reader.properties(_ALLOWED[DISCONNECT]) if reader.left else []
    _ends(reader)
    return reason, about


def _ends(reader: _Reader) -> None:
    if reader.left:
        raise MqttError(MALFORMED, f"a {_NAMES[reader.kind]} with {reader.left} bytes too many")


def length(value: int) -> bytes:
    """Return a variable byte integer.

    >>> length(321).hex()
    'c102'
    """
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def packet(kind: int, payload: bytes, flags: int | None = None) -> bytes:
    return b"".join(
        (bytes((kind << 4 | (_FLAGS.get(kind, 0) if flags is None else flags),)), length(len(payload)), payload)
    )


def binary(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def properties(values: Properties) -> bytes:
    """Return properties with their length before them; texts are `str` or their bytes."""
    parts = []
    for name, value in values:
        kind = _TYPES[name]
        if kind == _PAIR:
            data = b"".join(binary(each if isinstance(each, bytes) else each.encode()) for each in value)
        elif kind in (_TEXT, _BINARY):
            data = binary(value if isinstance(value, bytes) else value.encode())
        else:
            data = int(value).to_bytes((1, 2, 4)[kind])
        parts.append(bytes((name,)) + data)
    joined = b"".join(parts)
    return length(len(joined)) + joined


def answer(kind: int, number: int, reason: int, level: int) -> bytes:
    """Return a PUBACK, PUBREC, PUBREL or PUBCOMP; without a reason code it says success."""
    payload = struct.pack(">HB", number, reason) if level == 5 and reason else struct.pack(">H", number)
    return packet(kind, payload)
