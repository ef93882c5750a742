"""Read the AMQP 1.0 frames of one connection, from outside (AMQP 1.0 sections 2.3 and 2.7, 4.5, 5.3).

`read_value` decodes the part of the type system that the head of a frame needs (AMQP 1.0 part 1). Integers are read as
unsigned, because no field that is read here is negative. Strings stay bytes. Maps and arrays are skipped.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from conformance.history import parse_message
from conformance.protocols import reader as frames
from conformance.protocols.reader import LinkFrame, Splitter, Unreadable

_HEADER = struct.Struct(">IBBH")
_AMQP, _SASL = 0, 1
_PROTOCOLS = {0: "AMQP", 2: "TLS", 3: "SASL"}
_BEGIN, _ATTACH, _TRANSFER, _DISPOSITION, _DETACH, _END = 0x11, 0x12, 0x14, 0x15, 0x16, 0x17
_TYPES = {
    first: dict(enumerate(names.split(), first))
    for first, names in {
        0x10: "open begin attach flow transfer disposition detach end close",
        0x23: "received accepted rejected released modified",
        0x30: "coordinator declare discharge declared transactional-state",
        0x40: "sasl-mechanisms sasl-init sasl-challenge sasl-response sasl-outcome",
    }.items()
}
"""Names of described types by code, in the groups of the standard."""

_NAMES = {**_TYPES[0x10], **_TYPES[0x40], _BEGIN: "begin-session", _END: "end-session"}
_STATES = {**_TYPES[0x23], 0x33: "declared", 0x34: "transactional"}
_SYMBOLS: dict[bytes, int] = {b"amqp:amqp-value:*": 0x77} | {
    f"amqp:{name}:list".encode(): code for group in _TYPES.values() for code, name in group.items()
}
"""A descriptor may be a symbol instead of a number (AMQP 1.0 section 1.3.4)."""

_CONSTANT: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: ()}
_WIDTH = {0x50: 1, 0x60: 2, 0x70: 4, 0x80: 8, 0x90: 16}
_SIZE_OF_SIZE = {0xA0: 1, 0xB0: 4, 0xC0: 1, 0xD0: 4, 0xE0: 1, 0xF0: 4}
_BOOLEAN, _LIST8, _LIST32 = 0x56, 0xC0, 0xD0
_BEFORE_PROPERTIES = frozenset(
    (0x70, 0x71, 0x72, b"amqp:header:list", b"amqp:delivery-annotations:map", b"amqp:message-annotations:map")
)
_PROPERTIES = (0x73, b"amqp:properties:list")
_MESSAGE_ID, _CORRELATION_ID = 0, 5
_MESSAGE_HEADER = (0x70, b"amqp:header:list")
_DESCRIPTORS = frozenset((0x53, 0x80, 0xA3, 0xB3))
"""Constructors of a section's descriptor: a small or a large number, a short or a long symbol."""

_COORDINATOR, _DECLARE, _DISCHARGE, _DECLARED, _TRANSACTIONAL, _VALUE = 0x30, 0x31, 0x32, 0x33, 0x34, 0x77
_ANSWERS = {
    frames.COMMIT: frames.COMMIT_ANSWER,
    frames.ROLLBACK: frames.ROLLBACK_ANSWER,
    frames.BEGIN: frames.BEGIN_ANSWER,
}
"""In this order: a disposition that answers several requests has the kind of the first one here."""

_HEAD = 512
_WHOLE = 1 << 20
"""Bytes of a frame that are read first, and at most. A performative is far smaller than a payload."""

_SERIAL = 0xFFFFFFFF


class DescribedValue(NamedTuple):
    """A value with its descriptor: the code of a type of the standard, or an unknown symbol."""

    code: int | bytes
    value: Any


def read_value(data: bytes, at: int) -> tuple[Any, int]:
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
        descriptor, at = read_value(data, at)
        value, at = read_value(data, at)
        return DescribedValue(_SYMBOLS.get(descriptor, descriptor), value), at
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
        item, at = read_value(data, at)
        items.append(item)
    return tuple(items)


def _number(data: bytes, at: int, width: int) -> tuple[int, int]:
    end = at + width
    if width == 1:
        return data[at], end  # the usual case, a dozen times in each transfer
    if end > len(data):
        raise IndexError
    return int.from_bytes(data[at:end], "big"), end


_Request = tuple[str, str | None]
"""The kind of a transfer, and the transaction that its body names."""

_Carried = tuple[int | None, str | None, bool]
"""A delivery between two of its frames: its delivery-id, its message, and whether it is settled."""


@dataclasses.dataclass
class _Shared:
    """The state that both directions of a connection share. Channels and handles are the client's numbers."""

    channels: dict[int, int] = dataclasses.field(default_factory=dict)  # by the broker's
    sessions: dict[int, int] = dataclasses.field(default_factory=dict)  # by channel: the N-th that was begun
    begun: int = 0
    coordinators: set[tuple[int, int]] = dataclasses.field(default_factory=set)  # channel, handle
    asked: dict[tuple[int, int], _Request] = dataclasses.field(default_factory=dict)  # by channel and delivery-id


def readers() -> tuple[Splitter, Splitter]:
    """Return readers of both directions; they share channels, sessions, control links and open requests."""
    shared = _Shared()
    return _ToBroker(shared), _ToClient(shared)


class _Amqp(Splitter):
    def __init__(self, shared: _Shared) -> None:
        super().__init__()
        self._shared = shared
        self._partial: dict[tuple[int, int], _Carried] = {}  # by link, in the middle of a transfer of several frames

    def _frame(self, data: bytes | bytearray, at: int, end: int, offset: int) -> LinkFrame | None:
        if end - at < _HEADER.size:
            return None
        if data[at : at + 4] == b"AMQP":
            name = _PROTOCOLS.get(data[at + 4], str(data[at + 4]))
            return LinkFrame(offset, 8, frames.OTHER, "header", f"header {name}")
        size, doff, kind, channel = _HEADER.unpack_from(data, at)
        if doff < 2 or size < doff * 4 or kind not in (_AMQP, _SASL):
            raise Unreadable(f"a frame of {size} bytes, data offset {doff}, type {kind}")
        body, known = at + doff * 4, min(end, at + size)
        if size == doff * 4:
            return LinkFrame(offset, size, frames.OTHER, "heartbeat", "heartbeat")
        for limit in (_HEAD, _WHOLE):
            head = bytes(data[body : min(known, body + limit)])
            whole = body + len(head) == at + size or len(head) >= _WHOLE
            try:
                return self._performative(head, channel, offset, size, whole=whole)
            except IndexError:
                continue
            except (ValueError, TypeError, RecursionError) as error:
                raise Unreadable(f"a frame of {size} bytes that cannot be decoded: {error}") from error
        if known == at + size or known - body >= _WHOLE:
            raise Unreadable(f"a frame of {size} bytes whose performative is longer")
        return None

    def _performative(self, head: bytes, channel: int, offset: int, size: int, *, whole: bool) -> LinkFrame:
        performative, at = read_value(head, 0)
        if not isinstance(performative, DescribedValue):
            raise ValueError("no performative")  # noqa: TRY004 - the stream is wrong, as in the other cases
        code = performative.code
        fields = (*performative.value, *(None,) * 12)
        if code == _TRANSFER:
            return self._transfer(fields, head, at, channel, offset, size, whole=whole)
        if code == _DISPOSITION:
            return self._disposition(fields, channel, offset, size)
        self._remember(code, channel, fields)
        name = _NAMES.get(code, f"performative {code!r}") if isinstance(code, int) else f"performative {code!r}"
        return LinkFrame(offset, size, frames.OTHER, name, name)

    def _transfer(
        self, fields: tuple[Any, ...], head: bytes, at: int, channel: int, offset: int, size: int, *, whole: bool
    ) -> LinkFrame:
        """Section 2.7.5: handle, delivery-id, delivery-tag, message-format, settled, more, ..., state, ..., aborted."""
        handle, delivery, _, _, settled, more, _, state, _, aborted, *_ = fields
        key = (channel, handle)
        kind, asked, persistent = frames.OTHER, None, False
        continued = key in self._partial
        if continued:
            first, message, before = self._partial[key]
            delivery, settled = (first if delivery is None else delivery), settled or before
        else:  # may raise to get more of the frame, so it comes before any change of state
            message, persistent = _message(head, at, whole=whole)
            kind, asked = self._kind(key, delivery, head, at)
        if more and not aborted:
            self._partial[key] = delivery, message, bool(settled)
        else:
            self._partial.pop(key, None)
        flags = {"settled": settled, "aborted": aborted, "continued": continued, "more": more, kind: kind in _ANSWERS}
        flags["persistent"] = persistent
        words = ["transfer", f"handle={handle}", *(word for word, true in flags.items() if true)]
        return LinkFrame(
            offset,
            size,
            kind,
            "transfer",
            " ".join([*words, *self._session(channel)]),
            None if delivery is None else str(delivery),
            _transaction(state) or asked,
            message=message,
        )

    def _disposition(self, fields: tuple[Any, ...], channel: int, offset: int, size: int) -> LinkFrame:
        """Section 2.7.6: role (true: of a receiver), first, last, settled, state."""
        role, first, last, settled, state, *_ = fields
        last = first if last is None else last
        words = ["disposition", *_outcome(state), *(["settled"] if settled else [])]
        if not role:
            words.append("by the sender")
        kind, asked, transaction = self._answered(bool(role), channel, first, last)
        if asked:
            words.append(f"of {asked}")
        return LinkFrame(
            offset,
            size,
            kind,
            "disposition",
            " ".join([*words, *self._session(channel)]),
            transaction=_transaction(state) or transaction,
            first=first,
            last=last,
        )

    def _remember(self, code: int | bytes, channel: int, fields: tuple[Any, ...]) -> None:
        if code == _DETACH:
            self._partial.pop((channel, fields[0]), None)
        elif code == _END:
            for key in [key for key in self._partial if key[0] == channel]:
                del self._partial[key]

    def _session(self, channel: int) -> list[str]:
        """Return the word for the session, none for the first: delivery-ids belong to a session (section 2.5.6)."""
        number = self._shared.sessions.get(self._mine(channel), 1)
        return [f"session={number}"] if number > 1 else []

    def _mine(self, channel: int) -> int:
        return channel

    def _kind(self, link: tuple[int, int], delivery: int | None, head: bytes, at: int) -> _Request:
        """Return the kind of a new transfer, and the transaction that its body names."""
        raise NotImplementedError

    def _answered(self, by_receiver: bool, channel: int, first: int, last: int) -> tuple[str, str, str | None]:
        """Return the kind of a disposition, the kind of the request that it answers, and its transaction."""
        raise NotImplementedError


class _ToBroker(_Amqp):
    def _kind(self, link: tuple[int, int], delivery: int | None, head: bytes, at: int) -> _Request:
        if link not in self._shared.coordinators or delivery is None:
            return frames.SEND, None
        request = self._shared.asked[link[0], delivery] = _request(head, at)
        return request

    def _answered(self, by_receiver: bool, channel: int, first: int, last: int) -> tuple[str, str, str | None]:
        return (frames.ACKNOWLEDGE if by_receiver else frames.OTHER), "", None

    def _remember(self, code: int | bytes, channel: int, fields: tuple[Any, ...]) -> None:
        super()._remember(code, channel, fields)
        shared = self._shared
        if code == _BEGIN:
            shared.begun += 1
            shared.sessions[channel] = shared.begun
        elif code == _ATTACH:
            target = fields[6]
            if isinstance(target, DescribedValue) and target.code == _COORDINATOR:
                shared.coordinators.add((channel, fields[1]))
            else:
                shared.coordinators.discard((channel, fields[1]))
        elif code == _DETACH:
            shared.coordinators.discard((channel, fields[0]))
        elif code == _END:
            shared.coordinators -= {key for key in shared.coordinators if key[0] == channel}


class _ToClient(_Amqp):
    def _kind(self, link: tuple[int, int], delivery: int | None, head: bytes, at: int) -> _Request:
        return frames.DELIVER, None

    def _answered(self, by_receiver: bool, channel: int, first: int, last: int) -> tuple[str, str, str | None]:
        """A broker that is the sender answers an acknowledgement by its settlement (section 2.6.12)."""
        asked = self._shared.asked
        if not (asked and by_receiver):
            return frames.ANSWER, "", None
        mine = self._mine(channel)
        within = [key for key in asked if key[0] == mine and (key[1] - first) & _SERIAL <= (last - first) & _SERIAL]
        answered = dict(asked.pop(key) for key in within)
        kind = next((kind for kind in _ANSWERS if kind in answered), "")
        return _ANSWERS.get(kind, frames.ANSWER), kind, answered.get(kind)

    def _remember(self, code: int | bytes, channel: int, fields: tuple[Any, ...]) -> None:
        super()._remember(code, channel, fields)
        if code == _BEGIN and fields[0] is not None:
            self._shared.channels[channel] = fields[0]

    def _mine(self, channel: int) -> int:
        return self._shared.channels.get(channel, channel)


def _message(head: bytes, at: int, *, whole: bool) -> tuple[str | None, bool]:
    """Return the id of the message at `at`, if it is ours, and whether its header says durable.

    Our id is the message-id or, if the client sets that itself (JMS), the correlation-id (sections 3.2.1 and 3.2.4).
    IndexError if both may be in the part of the frame that has not come; a `whole` frame has none.
    """
    persistent = False
    try:
        while head[at] == 0 and head[at + 1] in _DESCRIPTORS:
            code, at = read_value(head, at + 1)
            if code not in _BEFORE_PROPERTIES and code not in _PROPERTIES:
                break
            value, at = read_value(head, at)
            if code in _MESSAGE_HEADER:
                persistent = bool(value and value[0])
            if code in _PROPERTIES:
                named = (_ours(value, place) for place in (_MESSAGE_ID, _CORRELATION_ID))
                return next(filter(None, named), None), persistent
    except IndexError:
        if not whole:
            raise
    except (ValueError, TypeError, RecursionError):
        pass  # it is no message, so it has no id
    return None, persistent


def _ours(properties: Sequence[Any], place: int) -> str | None:
    found = properties[place].decode() if len(properties) > place and isinstance(properties[place], bytes) else None
    return found if parse_message(found) else None


def _request(head: bytes, at: int) -> _Request:
    """Return the request in a message to a coordinator (sections 4.5.5 and 4.5.6), and its transaction.

    IndexError if the body is not complete.
    """
    section: Any = None
    while not (isinstance(section, DescribedValue) and section.code == _VALUE):
        section, at = read_value(head, at)
    request = section.value
    if not isinstance(request, DescribedValue) or request.code not in (_DECLARE, _DISCHARGE):
        raise ValueError("a message to the coordinator that is neither declare nor discharge")
    if request.code == _DECLARE:
        return frames.BEGIN, None
    fields = (*request.value, None)
    return (frames.ROLLBACK if fields[1] else frames.COMMIT), fields[0].hex()


def _transaction(state: Any) -> str | None:
    """Return the id in a `declared` or a `transactional-state` (sections 4.5.7 and 4.5.8), in hexadecimal."""
    if isinstance(state, DescribedValue) and state.code in (_DECLARED, _TRANSACTIONAL) and state.value:
        return bytes(state.value[0]).hex()
    return None


def _outcome(state: Any) -> list[str]:
    """Return the words of a delivery state; a transactional state adds its outcome."""
    if not isinstance(state, DescribedValue):
        return []
    words = [_STATES.get(state.code, repr(state.code)) if isinstance(state.code, int) else repr(state.code)]
    if state.code == _TRANSACTIONAL and len(state.value) > 1:
        words += _outcome(state.value[1])
    return words
