"""The methods of AMQP 0-9-1 that the proxy reads: names, a few arguments and properties.

Source: the AMQP 0-9-1 specification's XML for class, method and property ids; RabbitMQ's extension of it for
`basic.nack`, `confirm` and other methods that the original lacks; section 4.2.5 for the layout of arguments.

Why not `pamqp` 4.0.1 (pure Python, kept up, has all methods): it decodes every argument and every table, and a hostile
peer can use that. A content header with 3,000 nested tables raises RecursionError; one of 240 KB with 80,000 empty
fields takes 6 seconds, because each field copies the rest; a short string that is cut off by the end of its frame is
taken as it is; a consumer-tag that is not UTF-8 is an error. This module steps over tables without reading them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_METHODS = """
10 connection 10 start 11 start-ok 20 secure 21 secure-ok 30 tune 31 tune-ok 40 open 41 open-ok 50 close 51 close-ok
10 connection 60 blocked 61 unblocked 70 update-secret 71 update-secret-ok
20 channel 10 open 11 open-ok 20 flow 21 flow-ok 40 close 41 close-ok
30 access 10 request 11 request-ok
40 exchange 10 declare 11 declare-ok 20 delete 21 delete-ok 22 bound 23 bound-ok 30 bind 31 bind-ok 40 unbind
40 exchange 51 unbind-ok
50 queue 10 declare 11 declare-ok 20 bind 21 bind-ok 30 purge 31 purge-ok 40 delete 41 delete-ok 50 unbind 51 unbind-ok
60 basic 10 qos 11 qos-ok 20 consume 21 consume-ok 30 cancel 31 cancel-ok 40 publish 50 return 60 deliver 70 get
60 basic 71 get-ok 72 get-empty 80 ack 90 reject 100 recover-async 110 recover 111 recover-ok 120 nack
85 confirm 10 select 11 select-ok
90 tx 10 select 11 select-ok 20 commit 21 commit-ok 30 rollback 31 rollback-ok
"""
"""One line is the id and name of a class, then id and name of each method."""

_NAMES = {
    (int(number), int(method)): f"{name}.{word}"
    for number, name, *methods in map(str.split, _METHODS.strip().splitlines())
    for method, word in zip(methods[::2], methods[1::2], strict=True)
}
_LAYOUTS = {
    "basic.consume": "short string consumer bits",
    "basic.consume-ok": "consumer",
    "basic.deliver": "consumer tag",
    "basic.get": "short string bits",
    **dict.fromkeys(("basic.ack", "basic.nack", "basic.reject"), "tag bits"),
    "basic.get-ok": "tag",
}
"""The arguments of a method, up to the last one that is read. Only the name is read of every other method."""

_BITS = {
    "basic.consume": ("no-local", "no-ack", "exclusive", "no-wait"),
    "basic.get": ("no-ack",),
    "basic.ack": ("multiple",),
    "basic.reject": ("requeue",),
    "basic.nack": ("multiple", "requeue"),
}
"""Consecutive bits share an octet, the first is its lowest bit (section 4.2.5.2)."""

_CONTENT_HEADER = struct.Struct(">HHQH")  # class, weight, size of the body, property flags (section 4.2.6.1)
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY, _CORRELATION_ID = (
    1 << n for n in range(15, 9, -1)
)
_MORE_FLAGS = 1
_PERSISTENT = 2


class Arguments(NamedTuple):
    """The arguments that were read: consumer-tag, delivery-tag, and the names of the bits that are set."""

    consumer: bytes = b""
    tag: int = 0
    bits: frozenset[str] = frozenset()


class Properties(NamedTuple):
    """The fields of a content header that are read: bytes of the body, correlation-id, persistence.

    A message without delivery-mode is not persistent. If the properties are longer than their frame, both are None.
    """

    size: int
    correlation: bytes | None = None
    persistent: bool | None = None


def name(payload: bytes) -> str:
    """Return the name of a method frame as in the XML, `basic.publish`, or its ids if unknown (section 4.2.4).

    Raises:
        struct.error: The frame is too short for them.

    >>> name(bytes((0, 60, 0, 40))), name(bytes((0, 70, 0, 10)))
    ('basic.publish', 'method 70.10')
    """
    number, method = struct.unpack_from(">HH", payload)
    return _NAMES.get((number, method), f"method {number}.{method}")


def arguments(method: str, payload: bytes) -> Arguments:
    """Return the arguments of a method frame; empty for a method whose arguments are not read.

    Raises:
        IndexError, struct.error: The frame is too short for them.
    """
    consumer, tag, bits = b"", 0, 0
    at = 4
    for word in _LAYOUTS.get(method, "").split():
        match word:
            case "short":
                at += 2
            case "string":
                _, at = _short_string(payload, at)
            case "consumer":
                consumer, at = _short_string(payload, at)
            case "tag":
                (tag,) = struct.unpack_from(">Q", payload, at)
                at += 8
            case "bits":
                bits = payload[at]
    return Arguments(consumer, tag, frozenset(word for n, word in enumerate(_BITS.get(method, ())) if bits >> n & 1))


def properties(payload: bytes) -> Properties:
    """Return the fields of a content header frame (section 4.2.6.1; the XML's fields of class 60).

    Raises:
        struct.error: The frame is too short for the size of a body.
    """
    _, _, size, flags = _CONTENT_HEADER.unpack_from(payload)
    try:
        return Properties(size, *_read_properties(payload, flags))
    except (IndexError, struct.error):
        return Properties(size)


def _read_properties(payload: bytes, flags: int) -> tuple[bytes | None, bool]:
    """Return the correlation-id, and whether the delivery-mode says persistent."""
    at, further = _CONTENT_HEADER.size, flags
    while further & _MORE_FLAGS:
        (further,) = struct.unpack_from(">H", payload, at)
        at += 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            _, at = _short_string(payload, at)
    if flags & _HEADERS:
        (size,) = struct.unpack_from(">I", payload, at)
        at += 4 + size
    mode = 1
    if flags & _DELIVERY_MODE:
        mode, at = payload[at], at + 1
    if flags & _PRIORITY:
        at += 1
    correlation = _short_string(payload, at)[0] if flags & _CORRELATION_ID else None
    return correlation, mode == _PERSISTENT


def _short_string(payload: bytes, at: int) -> tuple[bytes, int]:
    end = at + 1 + payload[at]
    if end > len(payload):
        raise IndexError
    return payload[at + 1 : end], end
