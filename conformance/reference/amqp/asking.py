"""What a peer asks for under a profile: link properties and one message annotation (docs/reference-profiles.md)."""

from __future__ import annotations

from typing import Any

import cproton as pn

from conformance.reference.core.refusal import Refusal
from conformance.reference.message import encoded
from conformance.reference.profiles import Consuming, Profile, Publishing, Unknown

URGENT = b"x-opt-ack-immediately"
"""The message annotation that asks for an answer at once."""

_ANNOTATIONS = 0x72
_MAPS = {0xC1: 1, 0xD1: 4}
_TRUE = frozenset((b"\x41", b"\x56\x01"))

_READERS = {
    pn.PN_SYMBOL: pn.pn_data_get_symbol,
    pn.PN_STRING: pn.pn_data_get_string,
    pn.PN_UBYTE: pn.pn_data_get_ubyte,
    pn.PN_USHORT: pn.pn_data_get_ushort,
    pn.PN_UINT: pn.pn_data_get_uint,
    pn.PN_ULONG: pn.pn_data_get_ulong,
    pn.PN_BYTE: pn.pn_data_get_byte,
    pn.PN_SHORT: pn.pn_data_get_short,
    pn.PN_INT: pn.pn_data_get_int,
    pn.PN_LONG: pn.pn_data_get_long,
}


def publishing(profile: Profile, engine: Any) -> Publishing | Refusal | None:
    """What the attach of a sender asks for; None where the profile has no publish windows."""
    try:
        return profile.publishing(_words(engine))
    except Unknown as error:
        return Refusal("amqp:invalid-field", str(error))


def consuming(profile: Profile, engine: Any) -> Consuming | Refusal:
    """What the attach of a receiver asks for."""
    try:
        return profile.consuming(_words(engine))
    except Unknown as error:
        return Refusal("amqp:invalid-field", str(error))


def is_urgent(bare: bytes) -> bool:
    """Whether a message, without its header, asks for Ack Immediately (AMQP 1.0 section 3.2.3)."""
    return URGENT in bare and _annotation(bare) in _TRUE


def _words(engine: Any) -> dict[str, str]:
    """The properties of an attach (section 2.7.3) that are words or whole numbers, as text."""
    data = pn.pn_link_remote_properties(engine)
    found: dict[str, str] = {}
    if pn.isnull(data):  # of an attach without any
        return found
    pn.pn_data_rewind(data)
    if not pn.pn_data_next(data) or pn.pn_data_type(data) != pn.PN_MAP:
        return found
    pn.pn_data_enter(data)
    while pn.pn_data_next(data):
        key = _text(data)
        if pn.pn_data_next(data) and key is not None and (value := _text(data)) is not None:
            found[key] = value
    pn.pn_data_exit(data)
    return found


def _text(data: Any) -> str | None:
    reader = _READERS.get(pn.pn_data_type(data))
    try:
        return str(reader(data)) if reader is not None else None
    except UnicodeDecodeError:
        return None  # no word of ours


def _annotation(bare: bytes) -> bytes | None:
    """The encoded value of the annotation; None where there is none, or the sections cannot be read."""
    at = 0
    try:
        while at < len(bare):
            section, at = encoded.code(bare, at)
            stop = encoded.end(bare, at)
            if section == _ANNOTATIONS and (width := _MAPS.get(bare[at])):
                return _value(bare, at + 1 + 2 * width, stop)
            if section > _ANNOTATIONS:
                return None
            at = stop
    except encoded.Malformed:
        pass
    return None


def _value(bare: bytes, at: int, stop: int) -> bytes | None:
    while at < stop:
        middle = encoded.end(bare, at)
        last = encoded.end(bare, middle)
        if encoded.symbol(bare[at:middle]) == URGENT:
            return bare[middle:last]
        at = last
    return None
