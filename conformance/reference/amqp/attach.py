"""What a client asks for in its attach: source, target (sections 3.5.3 and 3.5.4) and the words of a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import cproton as pn

from conformance.reference.amqp import states
from conformance.reference.core import sections, selector
from conformance.reference.core.admission import INVALID, NOT_FOUND, Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Queue
from conformance.reference.core.selector import Selector
from conformance.reference.profiles import Unknown
from conformance.reference.settings import MAX_NAME

OUTCOMES = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
"""Each may be chosen for every delivery (section 3.4); the broker ignores the annotations of modified."""

TRANSACTIONS = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
"""What the coordinator can do (section 4.5.2)."""

NOT_IMPLEMENTED = "amqp:not-implemented"
"""A condition of section 2.8.15."""

T = TypeVar("T")

_TEMPORARY = "temporary-"
"""How the names of temporary queues begin."""

_TOPICS = frozenset({"topic", "temporary-topic"})
_DELETE_ON_CLOSE = 0x2B
"""The lifetime-policy of a dynamic node (section 3.5.10)."""

_SELECTOR_FILTER = 0x0000468C00000004
_SELECTOR_FILTERS = frozenset({"apache.org:selector-filter:string", str(_SELECTOR_FILTER)})
"""The descriptors of a filter whose value is a selector of JMS."""


class SelectorFilter(NamedTuple):
    """A filter of a source that is a selector of ours: its name, its text, and what the text means."""

    name: str
    text: str
    selector: Selector


class AttachRequest(NamedTuple):
    """What an attach asks for: the queue's `address`, None for the anonymous one; `nothing`: no terminus.

    `topic`: the address names a topic. `lasts`: the terminus is to outlive its link, the connection and the broker.
    `filter` will be in force; every other filter is left out of the answer (section 3.5.3), and all of a topic.
    """

    nothing: bool
    coordinator: bool
    dynamic: bool
    browses: bool
    address: str | None
    topic: bool
    lasts: bool
    filter: SelectorFilter | None

    @property
    def selector(self) -> Selector | None:
        return self.filter.selector if self.filter is not None else None


def read_request(terminus: Any, *, sending: bool) -> AttachRequest:
    """Reads the peer's source if we are to be `sending`, its target if not.

    Raises `UnicodeDecodeError` for an address that is no UTF-8.
    """
    topic = not _TOPICS.isdisjoint(states.symbols(pn.pn_terminus_capabilities(terminus)))
    copies = sending and not topic and pn.pn_terminus_get_distribution_mode(terminus) == pn.PN_DIST_MODE_COPY
    kind = pn.pn_terminus_get_type(terminus)
    durable = pn.pn_terminus_get_durability(terminus) != pn.PN_NONDURABLE
    return AttachRequest(
        kind == pn.PN_UNSPECIFIED,
        kind == pn.PN_COORDINATOR,
        pn.pn_terminus_is_dynamic(terminus),
        copies,
        pn.pn_terminus_get_address(terminus) or None,
        topic,
        durable and pn.pn_terminus_get_expiry_policy(terminus) == pn.PN_EXPIRE_NEVER,
        _filter(pn.pn_terminus_filter(terminus)) if sending and not copies and not topic else None,
    )


def queue(
    broker: ReferenceBroker, request: AttachRequest, client: str, link: str, *, sending: bool
) -> Queue | Refusal | None:
    """The queue of a link, made if it has to be; None for the anonymous terminus (a target whose address is null).

    A durable subscription is known by the container-id of its `client` and the name of its `link`.
    """
    if request.nothing:
        return Refusal(INVALID, "the attach has no " + ("source" if sending else "target"))
    if request.topic:
        if request.dynamic or request.address is None or (sending and not request.lasts):
            return Refusal(NOT_IMPLEMENTED, "only durable subscriptions (expiry-policy never) of topics with a name")
        return broker.subscription(request.address, client, link) if sending else broker.topic(request.address)
    if request.dynamic:
        return broker.refused("") or broker.temporary()
    if request.address is None:
        return Refusal(NOT_FOUND, "the link names no queue") if sending else None
    return find_queue(broker, request.address)


def find_queue(broker: ReferenceBroker, name: str) -> Queue | Refusal:
    """The queue of this name, declared now if it is unknown; a temporary one that is gone is not declared anew."""
    if len(name.encode()) > MAX_NAME:
        return Refusal(INVALID, f"the name of a queue has at most {MAX_NAME} bytes")
    if name.startswith(_TEMPORARY) and broker.known(name) is None:
        return Refusal(NOT_FOUND, "there is no such temporary queue any more")
    return broker.refused(name) or broker.queue(name)


def answer(engine: Any, request: AttachRequest, found: Queue | None, *, sending: bool) -> None:
    """Fills in source and target of the attach that answers.

    No terminus outlives its link, but for that of a durable subscription (section 3.5.3).
    """
    source, target = pn.pn_link_source(engine), pn.pn_link_target(engine)
    near, other, far = (
        (source, target, pn.pn_link_remote_target(engine))
        if sending
        else (target, source, pn.pn_link_remote_source(engine))
    )
    pn.pn_terminus_set_address(other, pn.pn_terminus_get_address(far))
    states.put_symbols(pn.pn_terminus_outcomes(source), OUTCOMES)
    if request.coordinator:
        pn.pn_terminus_set_type(near, pn.PN_COORDINATOR)
        states.put_symbols(pn.pn_terminus_capabilities(near), TRANSACTIONS)
        return
    pn.pn_terminus_set_type(near, pn.PN_SOURCE if sending else pn.PN_TARGET)
    pn.pn_terminus_set_address(near, request.address if request.topic else found.name if found is not None else None)
    kind = ("topic",) if request.topic else ("queue",)
    states.put_symbols(pn.pn_terminus_capabilities(near), kind if found is not None else ())
    if request.topic and sending:
        pn.pn_terminus_set_durability(near, pn.PN_DELIVERIES)
        pn.pn_terminus_set_expiry_policy(near, pn.PN_EXPIRE_NEVER)
    if sending:
        mode = pn.PN_DIST_MODE_COPY if request.browses else pn.PN_DIST_MODE_MOVE
        pn.pn_terminus_set_distribution_mode(near, mode)
    if (filter := request.filter) is not None:
        place = pn.pn_terminus_filter(near)
        _put_described(place, filter.name, _SELECTOR_FILTER, lambda data: pn.pn_data_put_string(data, filter.text))
    if request.dynamic:
        pn.pn_terminus_set_dynamic(near, True)
        properties = pn.pn_terminus_properties(near)
        _put_described(properties, "lifetime-policy", _DELETE_ON_CLOSE, pn.pn_data_put_list)


def _filter(data: Any) -> SelectorFilter | None:
    """The first selector of a filter-set (section 3.5.8) that this broker knows."""
    for name in _keys(data):
        if pn.pn_data_type(data) != pn.PN_DESCRIBED:
            continue
        pn.pn_data_enter(data)
        text = None
        if pn.pn_data_next(data) and _text(data) in _SELECTOR_FILTERS and pn.pn_data_next(data):
            text = _text(data)
        pn.pn_data_exit(data)
        if text is not None and (found := selector.parse(text)) is not None:
            return SelectorFilter(name, text, found)
    return None


def _put_described(data: Any, key: str, code: int, put: Callable[[Any], object]) -> None:
    """Put a map of one key, whose value is described by `code` and written by `put`."""
    pn.pn_data_put_map(data)
    pn.pn_data_enter(data)
    pn.pn_data_put_symbol(data, key)
    pn.pn_data_put_described(data)
    pn.pn_data_enter(data)
    pn.pn_data_put_ulong(data, code)
    put(data)
    pn.pn_data_exit(data)
    pn.pn_data_exit(data)


URGENT = b"x-opt-ack-immediately"
"""The message annotation that asks for an answer at once."""

_ANNOTATIONS = 0x72
_URGENT_KEYS = sections.encodings(URGENT, sections.SYMBOL)
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


def apply_profile(ask: Callable[[Mapping[str, str]], T], engine: Any) -> T | Refusal:
    """What a profile makes of the properties of an attach."""
    try:
        return ask(_words(engine))
    except Unknown as error:
        return Refusal(INVALID, str(error))


def is_urgent(bare: bytes) -> bool:
    """Whether a message, without its header, asks for Ack Immediately (AMQP 1.0 section 3.2.3)."""
    return URGENT in bare and sections.entry(bare, _ANNOTATIONS, _URGENT_KEYS) in _TRUE


def _words(engine: Any) -> dict[str, str]:
    """The properties of an attach (section 2.7.3) that are words or whole numbers, as text."""
    data = pn.pn_link_remote_properties(engine)
    if pn.isnull(data):  # of an attach without any
        return {}
    return {key: value for key in _keys(data) if (value := _text(data)) is not None}


def _keys(data: Any) -> Iterator[str]:
    """The keys of a map that are words or whole numbers; while each is looked at, the data is at its value."""
    pn.pn_data_rewind(data)
    if not pn.pn_data_next(data) or pn.pn_data_type(data) != pn.PN_MAP:
        return
    pn.pn_data_enter(data)
    while pn.pn_data_next(data):
        key = _text(data)
        if pn.pn_data_next(data) and key is not None:
            yield key
    pn.pn_data_exit(data)


def _text(data: Any) -> str | None:
    reader = _READERS.get(pn.pn_data_type(data))
    try:
        return str(reader(data)) if reader is not None else None
    except UnicodeDecodeError:
        return None  # no word of ours
