"""Frames and methods of AMQP 0-9-1: bytes to values and back, free of I/O.

Written by hand beside two libraries. pika decodes for the suite's client (`protocols.amqp091.sessions`): a fault
that both ends had would stay hidden, and its import takes 30 ms of a start. pamqp makes Python values of tables, and
the broker stores tables as AMQP 1.0 maps (`message`).

Source: AMQP 0-9-1, sections 2.3.5 (framing), 4.2.3 to 4.2.6 and the XML; errata of RabbitMQ for classes 60 and 85.
"""

from __future__ import annotations

import struct
from typing import Any

HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, CONTENT_HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
HEAD = struct.Struct(">BHI")
END = 0xCE
AROUND = HEAD.size + 1
"""Bytes of a frame around its payload."""

CONTENT_TOO_LARGE, NO_ROUTE, CONNECTION_FORCED = 311, 312, 320
ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED = 403, 404, 405, 406
FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID, CHANNEL_ERROR, UNEXPECTED_FRAME = 501, 502, 503, 504, 505
RESOURCE_ERROR, NOT_ALLOWED, NOT_IMPLEMENTED = 506, 530, 540
_NAMES = {value: name for name, value in list(globals().items()) if name.isupper() and isinstance(value, int)}
_SOFT = frozenset((CONTENT_TOO_LARGE, ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED))


class Amqp091Error(Exception):
    """A peer broke the protocol, or asked for what there is not: `code` is a reply code of the XML."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{_NAMES[code]} - {reason}")
        self.code = code

    @property
    def closes_channel(self) -> bool:
        """Whether it ends the channel only (the XML's soft errors)."""
        return self.code in _SOFT


_FIELDS = {"B": 1, "H": 2, "I": 4, "Q": 8}
_TEXTS = {"s": 1, "S": 4, "F": 4}
"""A short string, a long string and a table: bytes of the size before it. `b` is a bit; bits share an octet."""

_XML = """
10.10 connection.start BBFSS | 10.11 connection.start-ok FsSs | 10.30 connection.tune HIH
10.31 connection.tune-ok HIH | 10.40 connection.open ssb | 10.41 connection.open-ok s
10.50 connection.close HsHH | 10.51 connection.close-ok - | 20.10 channel.open s | 20.11 channel.open-ok S
20.20 channel.flow b | 20.21 channel.flow-ok b | 20.40 channel.close HsHH | 20.41 channel.close-ok -
50.10 queue.declare HsbbbbbF | 50.11 queue.declare-ok sII | 50.40 queue.delete Hsbbb | 50.41 queue.delete-ok I
60.10 basic.qos IHb | 60.11 basic.qos-ok - | 60.20 basic.consume HssbbbbF | 60.21 basic.consume-ok s
60.30 basic.cancel sb | 60.31 basic.cancel-ok s | 60.40 basic.publish Hssbb | 60.50 basic.return Hsss
60.60 basic.deliver sQbss | 60.70 basic.get Hsb | 60.71 basic.get-ok QbssI | 60.72 basic.get-empty s
60.80 basic.ack Qb | 60.90 basic.reject Qb | 60.100 basic.recover-async b | 60.110 basic.recover b
60.111 basic.recover-ok - | 60.120 basic.nack Qbb | 85.10 confirm.select b | 85.11 confirm.select-ok -
90.10 tx.select - | 90.11 tx.select-ok - | 90.20 tx.commit - | 90.21 tx.commit-ok - | 90.30 tx.rollback -
90.31 tx.rollback-ok -
"""


def _identity(text: str) -> bytes:
    return struct.pack(">HH", *map(int, text.split(".")))


_WORDS = [line.split() for line in _XML.replace("|", "\n").splitlines() if line.strip()]
_BY_IDENTITY = {_identity(number): (name, form.strip("-")) for number, name, form in _WORDS}
_BY_NAME = {name: (_identity(number), form.strip("-")) for number, name, form in _WORDS}


def decode(payload: bytes) -> tuple[str, list[Any]]:
    """Return the name and the arguments of a method; short strings are text, long ones and tables bytes."""
    found = _BY_IDENTITY.get(payload[:4])
    if found is None:
        raise Amqp091Error(NOT_IMPLEMENTED, f"there is no method {payload[:4].hex()}")
    name, form = found
    try:
        values, at = _arguments(payload, form)
    except (IndexError, UnicodeDecodeError):
        raise Amqp091Error(SYNTAX_ERROR, f"the arguments of {name} cannot be read") from None
    if at != len(payload):
        raise Amqp091Error(SYNTAX_ERROR, f"{name} has {len(payload)} bytes, and ends at {at}")
    return name, values


def _arguments(payload: bytes, form: str) -> tuple[list[Any], int]:
    at, bit = 4, 8
    values: list[Any] = []
    for kind in form:
        if kind == "b":
            if bit == 8:
                bit, at = 0, at + 1
            values.append(bool(payload[at - 1] >> bit & 1))
            bit += 1
            continue
        bit = 8
        if size := _FIELDS.get(kind):
            found = cut(payload, at, size)
            values.append(int.from_bytes(found, "big"))
        else:
            found, size = sized(payload, at, _TEXTS[kind])
            values.append(found.decode() if kind == "s" else found)
        at += size
    return values, at


def cut(data: bytes, at: int, size: int) -> bytes:
    """Return so many bytes; raises `IndexError` where there are fewer."""
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size]


def sized(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """Return the bytes after a size of so many bytes, and the length of both; raises `IndexError`."""
    size = int.from_bytes(cut(data, at, width), "big")
    return cut(data, at + width, size), width + size


def encode(name: str, *values: Any) -> bytes:
    """Return the payload of a method."""
    identity, form = _BY_NAME[name]
    parts = [identity]
    octet: list[int] = []
    for kind, value in zip(form, values, strict=True):
        if kind == "b":
            octet.append(bool(value) << len(octet))
            continue
        if octet:
            parts.append(bytes((sum(octet),)))
            octet.clear()
        if size := _FIELDS.get(kind):
            parts.append(value.to_bytes(size, "big"))
        else:
            raw = value.encode() if isinstance(value, str) else value
            parts += (len(raw).to_bytes(_TEXTS[kind], "big"), raw)
    if octet:
        parts.append(bytes((sum(octet),)))
    return b"".join(parts)


def identity(name: str) -> tuple[int, int]:
    """Return the class and the number of a method."""
    return struct.unpack(">HH", _BY_NAME[name][0])


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"".join((HEAD.pack(kind, channel, len(payload)), payload, b"\xce"))


def method(channel: int, name: str, *values: Any) -> bytes:
    return frame(METHOD, channel, encode(name, *values))


def content(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Return the frames of a content: its header, and its body in as many frames as it needs (section 4.2.6)."""
    parts = [frame(CONTENT_HEADER, channel, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties)]
    most = frame_max - AROUND
    parts += (frame(BODY, channel, body[start : start + most]) for start in range(0, len(body), most))
    return b"".join(parts)
