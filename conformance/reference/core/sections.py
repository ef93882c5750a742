"""Encoded messages of AMQP 1.0 (section 3.2): the header, which a broker rewrites, and what it reads of the rest.

The bare message and its annotations are passed on as they came: values in it are found and cut out, never encoded anew.
"""

from __future__ import annotations

import functools
import struct
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

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


class DecodeError(ValueError):
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


def with_time_left(rest: bytes, left_ms: int) -> bytes:
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


_PROPERTIES = 0x73
_TO = 2
"""Place of `to` among the properties (section 3.2.4)."""

_FIXED = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
"""Bytes after a constructor, by its high nibble (section 1.2); the other kinds begin with a size."""

_SIZES = {0xA: 1, 0xC: 1, 0xE: 1, 0xB: 4, 0xD: 4, 0xF: 4}
"""Width of that size."""

TEXTS = {0xA0: 2, 0xA1: 2, 0xA3: 2, 0xB0: 5, 0xB1: 5, 0xB3: 5}
"""Binary, string and symbol: where their bytes begin."""


def end(data: bytes, at: int) -> int:
    """Where the value of any type that begins at `at` ends. Raises `DecodeError`.

    A loop and no recursion: a peer may nest descriptors as deep as its frame is long.
    """
    left = 1
    try:
        while left:
            code = data[at]
            at, left = at + 1, left - 1
            if code == 0:
                left += 2
            elif code >> 4 in _FIXED:
                at += _FIXED[code >> 4]
            else:
                width = _SIZES[code >> 4]
                data[at + width - 1]
                at += width + int.from_bytes(data[at : at + width], "big")
    except (IndexError, KeyError):
        raise DecodeError(f"no value of section 1.6 at byte {at}") from None
    if at > len(data):
        raise DecodeError(f"a value ends at byte {at} of {len(data)}")
    return at


def items(data: bytes, at: int, limit: int, *, of_map: bool = False) -> list[bytes]:
    """The first `limit` items of the list that begins at `at`, encoded; `DecodeError` if it is no list.

    With `of_map` it is a map, and its keys and values take turns.
    """
    code = data[at] if at < len(data) else None
    if code == 0x45:
        return []
    if code not in ((0xC1, 0xD1) if of_map else (0xC0, 0xD0)):
        raise DecodeError(f"no {'map' if of_map else 'list'} at byte {at}")
    stop, width = end(data, at), 1 if code < 0xD0 else 4
    count = int.from_bytes(data[at + 1 + width : at + 1 + 2 * width], "big")
    at += 1 + 2 * width
    found = []
    for _ in range(min(count, limit)):
        found.append(data[at : end(data, at)])
        at += len(found[-1])
    if at > stop:
        raise DecodeError("a list is longer than it says")
    return found


def code(data: bytes, at: int) -> tuple[int, int]:
    """The numeric descriptor at `at`, and where its value begins; `DecodeError` if there is none."""
    if data.startswith(b"\x00\x53", at) and at + 2 < len(data):
        return data[at + 2], at + 3
    if data.startswith(b"\x00\x80", at) and at + 9 < len(data):
        return int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
    raise DecodeError(f"no descriptor at byte {at}")


def text(item: bytes) -> bytes | None:
    """The bytes of an encoded binary, string or symbol; None for null; `DecodeError` for anything else."""
    if item[:1] == b"\x40":
        return None
    start = TEXTS.get(item[0]) if item else None
    if start is None:
        raise DecodeError("neither binary nor string nor symbol")
    return item[start:]


def is_text(raw: bytes) -> bool:
    """Whether these bytes are UTF-8, as a string must be (section 1.6.20)."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def walk(bare: bytes) -> Iterator[tuple[int | None, int]]:
    """The sections of a message without its header, and where the value of each begins.

    A section whose descriptor is no number is None. Raises `DecodeError`, but not before it is asked for what comes
    after the section that it cannot read.
    """
    section: int | None
    at = 0
    while at < len(bare):
        if bare.startswith(b"\x00\x53", at) and at + 2 < len(bare):  # as nearly all do
            section, start = bare[at + 2], at + 3
        elif bare[at]:
            raise DecodeError(f"no descriptor at byte {at}")
        else:
            start = end(bare, at + 1)
            section = int.from_bytes(bare[at + 2 : start], "big") if bare[at + 1] == 0x80 else None
        yield section, start
        at = end(bare, start)


_ANNOTATIONS = 0x72
APPLICATION_PROPERTIES = 0x74
STRING, SYMBOL = 0xA1, 0xA3
"""Constructors of the short ones."""

_MAPS = {b"\xc1": 1, b"\xd1": 4}
"""Width of the size, and of the count, of a map."""


def variable(code: int, content: bytes) -> bytes:
    """Encode a binary, string or symbol: `code` is the constructor of the short one."""
    if len(content) < 256:
        return bytes((code, len(content))) + content
    return bytes((code + 0x10,)) + struct.pack(">I", len(content)) + content


def compound(code: int, parts: list[bytes]) -> bytes:
    """Encode a list32 or a map32 (sections 1.6.22 and 1.6.23) of encoded items."""
    content = b"".join(parts)
    return bytes((code,)) + struct.pack(">II", len(content) + 4, len(parts)) + content


def encodings(content: bytes, code: int) -> frozenset[bytes]:
    """The two ways to encode a string or symbol: `code` is the constructor of the short one.

    >>> sorted(encodings(b"a", 0xA1))
    [b'\\xa1\\x01a', b'\\xb1\\x00\\x00\\x00\\x01a']
    """
    long = bytes((code + 0x10,)) + struct.pack(">I", len(content)) + content
    return frozenset({long} if len(content) > 0xFF else {long, bytes((code, len(content))) + content})


_CONSTANTS: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_NUMBERS = {
    code: struct.Struct(form)
    for code, form in {
        0x50: ">B", 0x51: ">b", 0x52: ">B", 0x53: ">B", 0x54: ">b", 0x55: ">b", 0x56: ">?", 0x60: ">H", 0x61: ">h",
        0x70: ">I", 0x71: ">i", 0x72: ">f", 0x80: ">Q", 0x81: ">q", 0x82: ">d", 0x83: ">q",
    }.items()
}  # fmt: skip
_BINARY, _UUID, _SHORT_STRING = 0x0, 0x98, 0xA1
"""The low nibble of binary among the variable widths 0xA and 0xB, and two constructors (section 1.6)."""

OTHER = object()
"""Stands for a value of another type than those of `value`: lists, maps, arrays, described values, char, decimals."""


def values(data: bytes, at: int) -> list[Any]:
    """What a list or map holds, keys and values alike, one level deep."""
    code = data[at]
    if code == 0x45:
        return []
    if code not in (0xC0, 0xC1, 0xD0, 0xD1):
        raise DecodeError("a section that is no list or map")
    (count,), at = (data[at + 2 : at + 3], at + 3) if code < 0xD0 else (struct.unpack_from(">I", data, at + 5), at + 9)
    items: list[Any] = []
    for _ in range(count):
        code = data[at]
        if code == _SHORT_STRING:  # these two first: nearly all are one of them
            last = at + 2 + data[at + 1]
            if last > len(data):
                raise IndexError(last)
            items.append(data[at + 2 : last].decode())
        elif code == _NULL[0]:
            last = at + 1
            items.append(None)
        else:
            last = end(data, at)
            items.append(value(data, at, last))
        at = last
    return items


def value(data: bytes, at: int, last: int) -> Any:
    """The value from `at` to `last`: None, a truth, number, UUID, text or bytes; or `OTHER`."""
    code = data[at]
    if code in _CONSTANTS:
        return _CONSTANTS[code]
    if code in _NUMBERS:
        return _NUMBERS[code].unpack_from(data, at + 1)[0]
    if code == _UUID:
        return uuid.UUID(bytes=data[at + 1 : last])
    if code >> 4 in (0xA, 0xB):
        raw = data[at + (5 if code >> 4 & 1 else 2) : last]
        return raw if code & 0xF == _BINARY else raw.decode()
    return OTHER


def properties(bare: bytes) -> dict[str, object]:
    """The application properties by name, as `value` says them; none if the sections cannot be read."""
    try:
        for section, at in walk(bare):
            if section is None or section > APPLICATION_PROPERTIES:
                break
            if section == APPLICATION_PROPERTIES:
                items = values(bare, at)
                return dict(zip(items[::2], items[1::2], strict=True))
    except (DecodeError, IndexError, struct.error, TypeError, ValueError):
        pass
    return {}


def entry(bare: bytes, section: int, keys: frozenset[bytes]) -> bytes | None:
    """The encoded value of the first of these encoded keys in a section that is a map.

    None if there is none, or if the sections cannot be read.
    """
    try:
        for found, at in walk(bare):
            if found is None or found > section:
                return None
            if found == section and (width := _MAPS.get(bare[at : at + 1])):
                return _value(bare, at + 1 + 2 * width, end(bare, at), keys)
    except DecodeError:
        pass
    return None


def _value(bare: bytes, at: int, stop: int, keys: frozenset[bytes]) -> bytes | None:
    while at < stop:
        middle = end(bare, at)
        last = end(bare, middle)
        if bare[at:middle] in keys:
            return bare[middle:last]
        at = last
    return None


_DELIVERY_TIME, _FAR = b"x-opt-delivery-time", 1024
"""The annotation with the time, and how far from the beginning of a message it is looked for."""

_TIME_KEYS = encodings(_DELIVERY_TIME, SYMBOL)
_LONGS = (0x55, 0x81, 0x83)


def delivery_time(bare: bytes) -> int:
    """When a message says that it may be delivered, in milliseconds since the epoch; 0 if it says nothing of it.

    The annotation is that of the AMQP JMS Mapping, a long.
    """
    if bare.find(_DELIVERY_TIME, 0, _FAR) < 0:
        return 0
    encoded = entry(bare, _ANNOTATIONS, _TIME_KEYS)
    form = _NUMBERS.get(encoded[0]) if encoded else None
    return max(0, int(form.unpack(encoded[1:])[0])) if encoded and form and encoded[0] in _LONGS else 0


def addressee(bare: bytes) -> str | None:
    """The `to` of a message without its header (section 3.2.4), None if it has none. Raises `DecodeError`."""
    for section, at in walk(bare):
        if section is None:
            raise DecodeError("a section has no numeric descriptor")
        if section > _PROPERTIES:
            return None
        if section == _PROPERTIES:
            fields = items(bare, at, _TO + 1)
            name = text(fields[_TO]) if len(fields) > _TO else None
            try:
                return name.decode() if name is not None else None
            except UnicodeDecodeError:
                raise DecodeError("the property to is no UTF-8") from None
    return None
