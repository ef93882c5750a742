"""Encoded values of AMQP 1.0 (section 1.6), as far as a broker looks into them: found and cut out, not decoded."""

from __future__ import annotations

_PROPERTIES = 0x73
_TO = 2
"""Place of `to` among the properties (section 3.2.4)."""

_FIXED = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
"""Bytes after a constructor, by its high nibble (section 1.2); the other kinds begin with a size."""

_SIZES = {0xA: 1, 0xC: 1, 0xE: 1, 0xB: 4, 0xD: 4, 0xF: 4}
"""Width of that size."""

_TEXTS = {0xA0: 2, 0xA1: 2, 0xA3: 2, 0xB0: 5, 0xB1: 5, 0xB3: 5}
"""Binary, string and symbol: where their bytes begin."""


class Malformed(ValueError):
    """The bytes are not what section 1.6 says."""


def end(data: bytes, at: int) -> int:
    """Where the value that begins at `at` ends, whatever it is. Raises `Malformed`.

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
        raise Malformed(f"no value of section 1.6 at byte {at}") from None
    if at > len(data):
        raise Malformed(f"a value ends at byte {at} of {len(data)}")
    return at


def items(data: bytes, at: int, limit: int) -> list[bytes]:
    """The first `limit` items of the list that begins at `at`, encoded; `Malformed` if it is no list."""
    code = data[at] if at < len(data) else None
    if code == 0x45:
        return []
    if code not in (0xC0, 0xD0):
        raise Malformed(f"no list at byte {at}")
    stop, width = end(data, at), 1 if code == 0xC0 else 4
    count = int.from_bytes(data[at + 1 + width : at + 1 + 2 * width], "big")
    at += 1 + 2 * width
    found = []
    for _ in range(min(count, limit)):
        found.append(data[at : end(data, at)])
        at += len(found[-1])
    if at > stop:
        raise Malformed("a list is longer than it says")
    return found


def code(data: bytes, at: int) -> tuple[int, int]:
    """The numeric descriptor at `at`, and where its value begins; `Malformed` if there is none."""
    if data.startswith(b"\x00\x53", at) and at + 2 < len(data):
        return data[at + 2], at + 3
    if data.startswith(b"\x00\x80", at) and at + 9 < len(data):
        return int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
    raise Malformed(f"no descriptor at byte {at}")


def text(item: bytes) -> bytes | None:
    """The bytes of an encoded binary, string or symbol; None for null; `Malformed` for anything else."""
    if item[:1] == b"\x40":
        return None
    start = _TEXTS.get(item[0]) if item else None
    if start is None:
        raise Malformed("neither binary nor string nor symbol")
    return item[start:]


def symbol(item: bytes) -> bytes | None:
    """The bytes of an encoded symbol; None for anything else."""
    return text(item) if item[:1] in (b"\xa3", b"\xb3") else None


def addressee(bare: bytes) -> str | None:
    """The `to` of a message without its header (section 3.2.4), None if it has none. Raises `Malformed`."""
    at = 0
    while at < len(bare):
        section, at = code(bare, at)
        if section == _PROPERTIES:
            fields = items(bare, at, _TO + 1)
            name = text(fields[_TO]) if len(fields) > _TO else None
            try:
                return name.decode() if name is not None else None
            except UnicodeDecodeError:
                raise Malformed("the property to is no UTF-8") from None
        if section > _PROPERTIES:
            return None
        at = end(bare, at)
    return None
