"""Decode the part of the AMQP 1.0 type system that the head of a frame needs (AMQP 1.0 part 1).

Integers are read as unsigned, because no field that is read here is negative. Strings stay bytes. Maps and arrays are
stepped over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_CONSTANT: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: ()}
_WIDTH = {0x50: 1, 0x60: 2, 0x70: 4, 0x80: 8, 0x90: 16}
_SIZE_OF_SIZE = {0xA0: 1, 0xB0: 4, 0xC0: 1, 0xD0: 4, 0xE0: 1, 0xF0: 4}
_BOOLEAN, _LIST8, _LIST32 = 0x56, 0xC0, 0xD0


class DescribedValue(NamedTuple):
    """A value with its descriptor: the code of a type of the standard, or an unknown symbol."""

    code: int | bytes
    value: Any


_NAMES = {
    0x10: "open begin attach flow transfer disposition detach end close",
    0x23: "received accepted rejected released modified",
    0x30: "coordinator declare discharge declared transactional-state",
    0x40: "sasl-mechanisms sasl-init sasl-challenge sasl-response sasl-outcome",
}
SYMBOLS: dict[bytes, int] = {b"amqp:amqp-value:*": 0x77} | {
    f"amqp:{name}:list".encode(): code
    for first, names in _NAMES.items()
    for code, name in enumerate(names.split(), first)
}
"""A descriptor may be a symbol instead of a number (AMQP 1.0 section 1.3.4)."""


def read(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value at `at`, and the offset of the next one; a list becomes a tuple.

    Raises:
        IndexError: The data is too short for the value.
        ValueError: The constructor is unknown.
    """
    code = data[at]
    at += 1
    if code in _CONSTANT:
        return _CONSTANT[code], at
    if code == 0:
        descriptor, at = read(data, at)
        value, at = read(data, at)
        return DescribedValue(SYMBOLS.get(descriptor, descriptor), value), at
    group = code & 0xF0
    if group in _WIDTH:
        number, at = _number(data, at, _WIDTH[group])
        return (bool(number) if code == _BOOLEAN else number), at
    if group not in _SIZE_OF_SIZE:
        raise ValueError(f"no type has the constructor 0x{code:02x}")
    return _sized(code, data, at)


def _sized(code: int, data: bytes, at: int) -> tuple[Any, int]:
    width = _SIZE_OF_SIZE[code & 0xF0]
    size, at = _number(data, at, width)
    end = at + size
    if end > len(data):
        raise IndexError
    if code in (_LIST8, _LIST32):
        return _items(data, at, width), end
    return (data[at:end] if code < _LIST8 else None), end


def _items(data: bytes, at: int, width: int) -> tuple[Any, ...]:
    count, at = _number(data, at, width)
    items = []
    for _ in range(count):
        item, at = read(data, at)
        items.append(item)
    return tuple(items)


def _number(data: bytes, at: int, width: int) -> tuple[int, int]:
    end = at + width
    if width == 1:
        return data[at], end  # the usual case, a dozen times in each transfer
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[at:end], "big"), end
