"""Values of AMQP 1.0 that the engine knows only as data: the states and the bodies of transactions (section 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cproton as pn

from conformance.reference.core.settlement import SettlementEvent

DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x31, 0x32, 0x33, 0x34
"""Descriptors of section 4.5: two bodies for the coordinator, its answer, and the state of what is transacted."""

_AMQP_VALUE = 0x77
_ERROR = 0x1D

UNKNOWN_ID = "amqp:transaction:unknown-id"
ROLLBACK = "amqp:transaction:rollback"
"""Condition names of section 4.5.8: no such transaction is open; it was to be committed, and was rolled back."""

_DEPTH = 8
"""How deep a value is looked into: nothing of section 4.5 is deeper, and a peer may nest as deep as a frame is long."""

_NAMES = {
    "amqp:accepted:list": pn.PN_ACCEPTED,
    "amqp:rejected:list": pn.PN_REJECTED,
    "amqp:released:list": pn.PN_RELEASED,
    "amqp:modified:list": pn.PN_MODIFIED,
    "amqp:declare:list": DECLARE,
    "amqp:discharge:list": DISCHARGE,
    "amqp:amqp-value:*": _AMQP_VALUE,
}
"""A descriptor is a number or a name (section 1.5); here it is always the number."""


class Described(NamedTuple):
    """A described value; `code` is None for a descriptor that means nothing here."""

    code: int | None
    value: object


class Transacted(NamedTuple):
    """A transactional-state (section 4.5.8): `state` is its outcome's code, `outcome` the event; 0 and None: none."""

    identity: bytes
    state: int
    outcome: SettlementEvent | None
    here: bool


def read_transactional_state(delivery: Any) -> Transacted:
    """Read the client's transactional-state of a delivery; an identity that is no binary is read as an unknown one."""
    data = pn.pn_disposition_data(pn.pn_delivery_remote(delivery))
    pn.pn_data_rewind(data)
    fields = _fields(_value(data) if pn.pn_data_next(data) else None)
    identity, state = [*fields, None, None][:2]
    identity = identity if isinstance(identity, bytes) else b""
    if not isinstance(state, Described) or state.code is None:
        return Transacted(identity, 0, None, here=True)
    outcome, here = event(state.code, _fields(state.value))
    return Transacted(identity, state.code, outcome, here)


def event(code: int, fields: Sequence[object]) -> tuple[SettlementEvent | None, bool]:
    """The event for an outcome, None for what is no outcome, and whether it may be delivered here again."""
    if code == pn.PN_MODIFIED:
        failed, elsewhere = [*fields, None, None][:2]
        return (SettlementEvent.FAILED if failed is True else SettlementEvent.MODIFIED), elsewhere is not True
    return _EVENTS.get(code), True


_EVENTS = {
    pn.PN_ACCEPTED: SettlementEvent.ACCEPTED,
    pn.PN_REJECTED: SettlementEvent.REJECTED,
    pn.PN_RELEASED: SettlementEvent.RELEASED,
}


def body(message: bytes) -> Described | None:
    """What an encoded message without other sections than a header or properties asks the coordinator for."""
    data = pn.pn_data(16)
    try:
        while message:
            pn.pn_data_clear(data)
            taken = pn.pn_data_decode(data, message)
            if taken <= 0:
                return None
            message = message[taken:]
            pn.pn_data_rewind(data)
            section = _value(data) if pn.pn_data_next(data) else None
            if isinstance(section, Described) and section.code == _AMQP_VALUE:
                return section.value if isinstance(section.value, Described) else None
    finally:
        pn.pn_data_free(data)
    return None


def is_global(asked: Described) -> bool:
    return any(field is not None for field in _fields(asked.value)[:1])


def discharge(asked: Described) -> tuple[bytes, bool]:
    """The transaction that a discharge is about, and whether it is to fail."""
    identity, failed = [*_fields(asked.value), None, None][:2]
    return (identity if isinstance(identity, bytes) else b""), failed is True


def answer_declare(delivery: Any, identity: bytes) -> None:
    """Answers a declare, settled (section 4.5.6)."""
    data = _state(delivery, identity)
    pn.pn_data_exit(data)
    pn.pn_delivery_update(delivery, DECLARED)


def provisional(delivery: Any, identity: bytes, code: int, error: tuple[str, str] | None = None) -> None:
    """The state of a delivery in a transaction: an outcome that the discharge makes final, rejected with its error."""
    data = _state(delivery, identity)
    _begin_described(data, code)
    if error is not None:
        _begin_described(data, _ERROR)
        pn.pn_data_put_symbol(data, error[0])
        pn.pn_data_put_string(data, error[1])
        _end_described(data)
    _end_described(data)
    pn.pn_data_exit(data)
    pn.pn_delivery_update(delivery, TRANSACTIONAL)


def reject(delivery: Any, condition: str, description: str) -> None:
    """The outcome rejected, with an error that says why."""
    explain(pn.pn_disposition_condition(pn.pn_delivery_local(delivery)), condition, description)
    pn.pn_delivery_update(delivery, pn.PN_REJECTED)


def explain(condition: Any, name: str, description: str) -> None:
    pn.pn_condition_set_name(condition, name)
    pn.pn_condition_set_description(condition, description)


def _state(delivery: Any, identity: bytes) -> Any:
    """Begins the list of a state that starts with the transaction's id."""
    data = pn.pn_disposition_data(pn.pn_delivery_local(delivery))
    pn.pn_data_clear(data)
    pn.pn_data_put_list(data)
    pn.pn_data_enter(data)
    pn.pn_data_put_binary(data, identity)
    return data


def _begin_described(data: Any, code: int) -> None:
    """Begins a list with a descriptor, and enters it."""
    pn.pn_data_put_described(data)
    pn.pn_data_enter(data)
    pn.pn_data_put_ulong(data, code)
    pn.pn_data_put_list(data)
    pn.pn_data_enter(data)


def _end_described(data: Any) -> None:
    pn.pn_data_exit(data)
    pn.pn_data_exit(data)


def symbols(data: Any) -> list[str]:
    """The symbols of a field that has one of them or an array."""
    pn.pn_data_rewind(data)
    value = _value(data) if pn.pn_data_next(data) else None
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def put_symbols(data: Any, names: Sequence[str]) -> None:
    pn.pn_data_clear(data)
    pn.pn_data_put_array(data, False, pn.PN_SYMBOL)
    pn.pn_data_enter(data)
    for name in names:
        pn.pn_data_put_symbol(data, name)
    pn.pn_data_exit(data)


def _value(data: Any, depth: int = _DEPTH) -> object:
    """The value at the cursor; None for the types that nothing here needs, and for what is nested too deep."""
    kind = pn.pn_data_type(data)
    if kind in _CONTAINERS:
        values: list[object] = []
        if depth:
            pn.pn_data_enter(data)
            while pn.pn_data_next(data):
                values.append(_value(data, depth - 1))
            pn.pn_data_exit(data)
        if kind != pn.PN_DESCRIBED:
            return values
        return Described(_code(values[0]), values[1]) if len(values) > 1 else None
    reader = _READERS.get(kind)
    return reader(data) if reader is not None else None


def _symbol(data: Any) -> str:
    """proton's own reader raises for a symbol that is not ASCII."""
    return str(pn.bytes2pybytes(pn.lib.pn_data_get_symbol(data)).decode("ascii", "replace"))


_CONTAINERS = frozenset({pn.PN_LIST, pn.PN_ARRAY, pn.PN_DESCRIBED})
_READERS = {
    pn.PN_BOOL: pn.pn_data_get_bool,
    pn.PN_ULONG: pn.pn_data_get_ulong,
    pn.PN_SYMBOL: _symbol,
    pn.PN_BINARY: lambda data: bytes(pn.pn_data_get_binary(data)),
}


def _code(descriptor: object) -> int | None:
    return (
        _NAMES.get(descriptor) if isinstance(descriptor, str) else descriptor if isinstance(descriptor, int) else None
    )


def _fields(value: object) -> list[object]:
    return value if isinstance(value, list) else []
