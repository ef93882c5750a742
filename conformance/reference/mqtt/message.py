"""Messages of MQTT are stored as those of AMQP 1.0, so that a queue serves every protocol.

| MQTT | AMQP 1.0 |
|---|---|
| QoS 1 or 2 | header, durable (section 3.2.1); QoS 2 also the message annotation `x-opt-mqtt-qos` |
| RETAIN | message annotation `x-opt-mqtt-retain` |
| Message Expiry Interval | header, ttl (3.2.1) |
| topic, Response Topic, Correlation Data | properties (3.2.4): to, reply-to, correlation-id |
| Content Type | properties (3.2.4): content-type |
| User Property | application-properties (3.2.5), string to string, in their order |
| body | one data section (3.2.6); with the Payload Format Indicator 1 a string |

Back, a value of another sender becomes text, and one that has no text is left out.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from conformance.reference.core import sections
from conformance.reference.core.sections import DecodeError, Parsed
from conformance.reference.mqtt import codec
from conformance.reference.mqtt.codec import MqttError, Properties, ServerPublish
from conformance.reference.stomp.message import as_text
from conformance.reference.stomp.message import show as text_of

_NULL = b"\x40"
_STRING, _BINARY = 0xA1, 0xA0
_PROPERTIES, _APPLICATION, _DATA, _VALUE = 0x73, 0x74, 0x75, 0x77
_TO, _REPLY_TO, _CORRELATION, _CONTENT_TYPE = 2, 4, 5, 6
"""Places in the list of section 3.2.4."""

_PLACES = {codec.RESPONSE_TOPIC: _REPLY_TO, codec.CORRELATION: _CORRELATION, codec.CONTENT_TYPE: _CONTENT_TYPE}
FORWARDED, KEPT = 1, 2
"""Of a message with RETAIN: on its way to the subscriptions that were there, and to one that came later."""


def _annotations(qos: int, retain: int) -> bytes:
    """The message annotations of a message of MQTT, which has no others; none of one of QoS 1 without RETAIN."""
    pairs: list[bytes] = []
    for name, value in ((b"x-opt-mqtt-qos", qos if qos == 2 else 0), (b"x-opt-mqtt-retain", retain)):
        pairs += [sections.variable(sections.SYMBOL, name), bytes((0x50, value))] if value else []
    return b"\x00\x53\x72" + sections.compound(0xD1, pairs) if pairs else b""


_ANNOTATIONS = {(qos, retain): _annotations(qos, retain) for qos in (1, 2) for retain in (0, FORWARDED, KEPT)}
_BEGINNINGS = [(raw, of) for of, raw in _ANNOTATIONS.items() if raw]
_SAID = tuple(raw for raw, _ in _BEGINNINGS)

_MOST_MS = 0xFFFFFFFF
"""The longest ttl: it has 32 bits."""


class Shown(NamedTuple):
    """A stored message as MQTT shows it; `topic` is empty where its sender named none, `retain` 0 without RETAIN."""

    topic: str
    qos: int
    retain: int
    properties: Properties
    body: bytes


def store(packet: ServerPublish) -> Parsed:
    """Return what a PUBLISH is stored as. Raises `MqttError` where its body is not the text that it is said to be."""
    fields = [_NULL] * (_CONTENT_TYPE + 1)
    fields[_TO] = sections.variable(_STRING, packet.topic.encode())
    users: list[bytes] = []
    ttl_ms = is_text = 0
    for name, value in packet.properties:
        if name == codec.USER:
            users += [sections.variable(_STRING, each.encode()) for each in value]
        elif name == codec.EXPIRY:
            ttl_ms = value * 1000 or 1
        elif name == codec.FORMAT:
            is_text = value
        elif name in _PLACES:
            raw = value if isinstance(value, bytes) else value.encode()
            fields[_PLACES[name]] = sections.variable(_BINARY if name == codec.CORRELATION else _STRING, raw)
    while fields[-1] == _NULL:
        fields.pop()
    parts = [_ANNOTATIONS[max(packet.qos, 1), packet.retain and FORWARDED]]
    parts.append(b"\x00\x53\x73" + sections.compound(0xD0, fields))
    if users:
        parts.append(b"\x00\x53\x74" + sections.compound(0xD1, users))
    if is_text and not sections.is_text(packet.body):
        raise MqttError(codec.BAD_FORMAT, "a body that is no UTF-8, and said to be")
    parts += (b"\x00\x53\x77\xb1" if is_text else b"\x00\x53\x75\xb0", struct.pack(">I", len(packet.body)), packet.body)
    rest = _NULL + (b"\x70" + struct.pack(">I", min(ttl_ms, _MOST_MS)) if ttl_ms else _NULL)
    return Parsed(packet.qos > 0, rest, b"".join(parts), ttl_ms)


def retained(durable: bool, bare: bytes, left_ms: int) -> Parsed:
    """A message as it was stored when it came with RETAIN, for a later subscription."""
    raw, (qos, _) = _beginning(bare)
    rest = _NULL + (b"\x70" + struct.pack(">I", min(left_ms, _MOST_MS)) if left_ms else _NULL)
    return Parsed(durable, rest, _ANNOTATIONS[qos, KEPT] + bare[len(raw) :], left_ms)


def _beginning(bare: bytes) -> tuple[bytes, tuple[int, int]]:
    """The message annotations of a message of MQTT, and the QoS and RETAIN that they say."""
    if not bare.startswith(_SAID):
        return b"", (1, 0)
    return next(each for each in _BEGINNINGS if bare.startswith(each[0]))


def show(bare: bytes, *, durable: bool) -> Shown:
    """Return a stored message; a body that is neither bytes nor text is shown as STOMP shows it."""
    _, (qos, retain) = _beginning(bare)
    name, found, parts = "", Properties(), list[bytes]()
    try:
        for section, at in sections.walk(bare):
            if section == _PROPERTIES:
                name = _add_properties(sections.values(bare, at), found)
            elif section == _APPLICATION:
                _add_users(sections.values(bare, at), found)
            elif section in (_DATA, _VALUE):
                value = sections.value(bare, at, sections.end(bare, at))
                if not isinstance(value, bytes | str):
                    raise DecodeError("a body that is neither bytes nor text")
                if isinstance(value, str):
                    found.insert(0, (codec.FORMAT, 1))
                parts.append(value if isinstance(value, bytes) else value.encode())
            elif section not in (0x71, 0x72, 0x78):
                raise DecodeError("a body that is no bytes")
        body = b"".join(parts)
    except (IndexError, ValueError, struct.error):
        body = text_of(bare).body
    return Shown(name, qos if durable else 0, retain, found, body)


def _add_properties(values: list[Any], found: Properties) -> str:
    """Add the properties of MQTT among those of section 3.2.4; return the topic."""
    values += [None] * (_CONTENT_TYPE + 1 - len(values))
    for name, place in _PLACES.items():
        value = values[place]
        if name == codec.CORRELATION and isinstance(value, bytes):
            found.append((name, value))
        elif (said := _short(value)) is not None:
            found.append((name, said))
    to = _short(values[_TO]) or ""
    return "" if "+" in to or "#" in to else to


def _add_users(items: list[Any], found: Properties) -> None:
    for name, value in zip(items[::2], items[1::2], strict=True):
        pair = _short(name), _short(value)
        if None not in pair:
            found.append((codec.USER, pair))


def _short(value: Any) -> str | None:
    """The value as a text that MQTT can carry; None if it has none."""
    said = as_text(value)
    return said if said is not None and len(said.encode()) < 1 << 16 and "\0" not in said else None
