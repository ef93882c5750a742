"""Read the AMQP 0-9-1 frames of one connection, from outside (AMQP 0-9-1 sections 2.3.5, 4.2.3 and 4.2.6).

One `LinkFrame` is one message: its method, its content header and its bodies. Its fields:

- `name` is the name in the specification's XML, for example `basic.publish`. `detail` begins with it.
- `delivery` is the delivery-tag. For a publish on a channel in confirm mode it is the number that the broker's answer
  names (RabbitMQ, Publisher Confirms); for any other publish it is None.
- The `detail` of a message adds `settled` if its consumer, or its get, asked for no-ack, and `UNSUBSCRIBED` if the
  proxy did not see what was asked for; `continued` and `more` if it comes in pieces; `persistent` or `not persistent`.
- The `detail` of an acknowledgement, and of an answer to a publish, adds `multiple=true` or `multiple=false`;
  `accepted`, `rejected` or `released requeue`; and `covers=1,3-7`, the tags or numbers that it settles. `first` and
  `last` are the ends of that list; tags between them may have been settled before.
- Every frame with a kind, and every message, ends with `session=N` for the N-th channel that the connection opened,
  unless N is 1: tags belong to a channel.

A channel has one `begin`. Each commit and rollback begins the next transaction (the XML's class 90).

A message comes in pieces if frames of another channel, or a heartbeat, stand between its own (section 4.2.6). It also
does if it has several bodies of more than `_WHOLE` bytes together. Each body from the second on is then a piece: no
byte of a frame may pass before its length is known. The first piece has the kind; all pieces but the last say `more`,
all but the first `continued`. A piece before the content header has no message and no persistence.

`Channel` keeps consumers, unsettled deliveries, confirm mode and transaction. An acknowledgement may cover several
delivery-tags, and which ones depends on the deliveries before it.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import struct
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from conformance.history import parse_message
from conformance.protocols import reader as frames
from conformance.protocols.amqp091 import methods
from conformance.protocols.amqp091.methods import Arguments
from conformance.protocols.reader import LinkFrame, Splitter, Unreadable


class MethodEffect(NamedTuple):
    """The effect of a method without content: words for its detail, and the tags that it settles, ascending."""

    words: tuple[str, ...] = ()
    covers: tuple[int, ...] = ()


@dataclasses.dataclass
class Channel:
    """The state of one channel; both directions share it.

    Attributes:
        number: N for the N-th channel that the connection opened.
        confirms: Whether it is in confirm mode.
        published: The number of the last publish in that mode.
        unanswered: Numbers of publishes that the broker has not answered, ascending.
        unsettled: Tags of deliveries that the client has not acknowledged, ascending.
    """

    number: int = 1
    confirms: bool = False
    published: int = 0
    unanswered: dict[int, None] = dataclasses.field(default_factory=dict)
    unsettled: dict[int, None] = dataclasses.field(default_factory=dict)
    _taken: list[int] = dataclasses.field(default_factory=list)  # acknowledged in the open transaction
    _transacted: bool = False
    _consumers: dict[bytes, bool] = dataclasses.field(default_factory=dict)  # by tag: no-ack
    # No-ack of each request without an answer; a channel answers in the order of the requests.
    _consumes: collections.deque[bool] = dataclasses.field(default_factory=collections.deque)
    _gets: collections.deque[bool] = dataclasses.field(default_factory=collections.deque)

    def publish(self, number: int) -> None:
        """Note a publish that the broker will answer by this number."""
        self.published = number
        self.unanswered[number] = None

    def presettled(self, method: str, arguments: Arguments) -> bool | None:
        """Whether a delivery is sent settled; None if the proxy did not see what was asked for."""
        if method == "basic.get-ok":
            return self._gets[0] if self._gets else None
        return self._consumers.get(arguments.consumer)

    def deliver(self, method: str, tag: int, *, settled: bool) -> None:
        if method == "basic.get-ok" and self._gets:
            self._gets.popleft()
        if tag and not settled:
            self._wait([tag])

    def asks(self, method: str, arguments: Arguments) -> MethodEffect:
        match method:
            case "basic.ack" | "basic.nack" | "basic.reject":
                return self._acknowledged(method, arguments)
            case "basic.consume":
                self._consume(arguments)
            case "basic.get":
                self._gets.append("no-ack" in arguments.bits)
            case "basic.recover" | "basic.recover-async":
                self.unsettled.clear()  # they are delivered again, under new tags
            case "confirm.select":
                self.confirms = True
            case "tx.select":
                self._transacted = True
            case "tx.commit":
                self._taken.clear()
            case "tx.rollback":
                self._wait(sorted(self._taken))
                self._taken.clear()
        return MethodEffect()

    def answers(self, method: str, arguments: Arguments) -> MethodEffect:
        match method:
            case "basic.ack" | "basic.nack":
                covers = _covered(self.unanswered, arguments)
                _remove(self.unanswered, covers)
                return MethodEffect((_multiple(arguments), "accepted" if method == "basic.ack" else "rejected"), covers)
            case "basic.consume-ok" if self._consumes:
                self._consumers[arguments.consumer] = self._consumes.popleft()
            case "basic.get-empty" if self._gets:
                self._gets.popleft()
            case "basic.recover-ok":
                self.unsettled.clear()  # also deliveries that crossed the request
        return MethodEffect()

    def _consume(self, arguments: Arguments) -> None:
        """Without a tag the answer names the consumer; no-wait asks for no answer (the XML's class 60 method 20)."""
        settled = "no-ack" in arguments.bits
        if arguments.consumer:
            self._consumers[arguments.consumer] = settled
        if "no-wait" not in arguments.bits:
            self._consumes.append(settled)

    def _acknowledged(self, method: str, arguments: Arguments) -> MethodEffect:
        """Keep acknowledgements for a rollback. The XML's class 90 does not say whether that also undoes refusals."""
        covers = _covered(self.unsettled, arguments)
        if method == "basic.ack" and self._transacted:
            self._taken += [tag for tag in covers if tag in self.unsettled]
        _remove(self.unsettled, covers)
        outcome: tuple[str, ...] = ("accepted",) if method == "basic.ack" else ("rejected",)
        if "requeue" in arguments.bits:
            outcome = ("released", "requeue")
        return MethodEffect((_multiple(arguments), *outcome), covers)

    def _wait(self, tags: list[int]) -> None:
        """Add tags that the client must acknowledge; after a rollback, once more."""
        last = next(reversed(self.unsettled), 0)
        self.unsettled |= dict.fromkeys(tags)
        if tags and tags[0] < last:
            self.unsettled = dict.fromkeys(sorted(self.unsettled))


class Channels(collections.defaultdict[int, Channel]):
    """The channels of a connection by their numbers on the wire, which are the same in both directions."""

    def __init__(self) -> None:
        super().__init__(Channel)
        self._opened = 0

    def open(self, channel: int) -> None:
        """Start a new channel: the one that had this number before was closed (the XML's class 20 method 10)."""
        self._opened += 1
        self[channel] = Channel(self._opened)


def runs(numbers: tuple[int, ...]) -> str:
    """Return ascending numbers as runs.

    >>> runs((1, 3, 4, 5, 9))
    '1,3-5,9'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, run)) for run in found)


def _multiple(arguments: Arguments) -> str:
    return f"multiple={str('multiple' in arguments.bits).lower()}"


def _covered(waiting: dict[int, None], arguments: Arguments) -> tuple[int, ...]:
    """Return what an acknowledgement covers: with `multiple` all up to its tag, and all for tag 0 (class 60 method 80).

    It always covers the tag that it names, even a settled one: so a client that acknowledges twice is seen.
    """
    tag = arguments.tag
    found: list[int] = []
    if "multiple" in arguments.bits:
        found += itertools.takewhile(lambda each: each <= tag or not tag, waiting)
    return (*found, tag) if tag and tag not in found[-1:] else tuple(found)


def _remove(waiting: dict[int, None], covers: tuple[int, ...]) -> None:
    for tag in covers:
        waiting.pop(tag, None)


_HEAD = struct.Struct(">BHI")  # type, channel, size of the payload (section 4.2.3)
_METHOD, _CONTENT_HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END = 0xCE
_AROUND = _HEAD.size + 1
_CARRIERS = frozenset("basic.publish basic.return basic.deliver basic.get-ok".split())

_WHOLE = 1 << 20
"""Most bytes that are held back to read a frame other than a body, or a message in several bodies."""

_FIRST_WORD = 64
"""Bytes of a body that are searched for our message id; every id is shorter."""


class _Content(NamedTuple):
    """A message whose frames are being read.

    `size` is the size of its body, and `left` the part of it in frames to come: None before the content header. `tag`
    is 0 if it has none.
    """

    channel: int
    name: str
    kind: str
    tag: int
    words: tuple[str, ...]
    size: int = 0
    left: int | None = None
    message: str | None = None
    persistent: bool | None = None

    @property
    def next(self) -> int:
        return _CONTENT_HEADER if self.left is None else _BODY


def readers() -> tuple[Splitter, Splitter]:
    """Return readers of both directions; they share the state of the channels."""
    channels = Channels()
    return _ToBroker(channels), _ToClient(channels)


class _Amqp091(Splitter):
    kinds: ClassVar[Mapping[str, str]]

    def __init__(self, channels: Channels) -> None:
        super().__init__()
        self._channels = channels
        self._partial: dict[int, _Content] = {}  # by channel; at least one piece was reported

    def _frame(self, data: bytes | bytearray, at: int, end: int, offset: int) -> LinkFrame | None:
        if end - at < _AROUND:
            return None  # no frame is shorter, and a protocol header is as long
        if data[at : at + 4] == b"AMQP":
            version = "-".join(map(str, data[at + 5 : at + 8]))  # section 4.2.2
            return LinkFrame(offset, 8, frames.OTHER, "header", f"header {version}")
        kind, channel, size = _HEAD.unpack_from(data, at)
        partial = self._partial.get(channel)
        if partial is not None and kind == partial.next:
            return self._carry(partial, data, at, at, end, offset)
        if kind not in (_METHOD, _HEARTBEAT) or size > _WHOLE:
            raise Unreadable(f"a frame of {size} bytes, type {kind}: not allowed here")
        payload = _payload(data, at, end)
        if payload is None:
            return None
        if kind == _HEARTBEAT:
            return LinkFrame(offset, size + _AROUND, frames.OTHER, "heartbeat", "heartbeat")
        try:
            name = methods.name(payload)
            arguments = methods.arguments(name, payload)
        except (IndexError, struct.error) as error:
            raise Unreadable(f"a method of {size} bytes whose arguments are longer") from error
        self._partial.pop(channel, None)  # "any non-content frame explicitly marks the end" (section 4.2.6)
        if name in _CARRIERS:
            content = self._carried(name, arguments, channel)
            return self._carry(content, data, at, at + size + _AROUND, end, offset)
        return self._method(name, arguments, channel, offset, size + _AROUND)

    def _method(self, name: str, arguments: Arguments, channel: int, offset: int, length: int) -> LinkFrame:
        effect = self._apply(name, arguments, channel)
        kind = self.kinds.get(name, frames.OTHER)
        words = [name, *effect.words, *([f"covers={runs(effect.covers)}"] if effect.covers else [])]
        if kind != frames.OTHER:
            words += self._session(channel)
        first, last = (effect.covers[0], effect.covers[-1]) if effect.covers else (None, None)
        return LinkFrame(offset, length, kind, name, " ".join(words), first=first, last=last)

    def _carry(
        self, content: _Content, data: bytes | bytearray, at: int, here: int, end: int, offset: int
    ) -> LinkFrame | None:
        """Return the frames of a message that lie side by side from `at` on; those before `here` were read."""
        before = content.left
        while content.left != 0:
            if content.size > _WHOLE and content.left not in (before, content.size):
                break
            if end - here < _HEAD.size:
                return None
            if here > at and data[here - 1] != _END:
                raise Unreadable(f"a frame of a {content.name} that does not end where it says")
            kind, channel, size = _HEAD.unpack_from(data, here)
            if (kind, channel) != (content.next, content.channel):
                break
            grown = (_headed if kind == _CONTENT_HEADER else _filled)(content, data, here, end)
            if grown is None:
                return None
            content, here = grown, here + size + _AROUND
        return self._piece(content, offset, here - at)

    def _piece(self, content: _Content, offset: int, length: int) -> LinkFrame:
        channel, more = content.channel, content.left != 0
        continued = channel in self._partial
        if not continued:
            self._begin(content)
        if more:
            self._partial[channel] = content
        else:
            self._partial.pop(channel, None)
        flags = {
            "continued": continued,
            "more": more,
            "persistent": content.persistent,
            "not persistent": content.persistent is False,
        }
        words = [content.name, *content.words, *(word for word, true in flags.items() if true)]
        return LinkFrame(
            offset,
            length,
            frames.OTHER if continued else content.kind,
            content.name,
            " ".join([*words, *self._session(channel)]),
            str(content.tag) if content.tag else None,
            message=content.message,
        )

    def _session(self, channel: int) -> list[str]:
        """Return the word for the channel; none for the first of the connection."""
        number = self._channels[channel].number
        return [f"session={number}"] if number > 1 else []

    def _carried(self, name: str, arguments: Arguments, channel: int) -> _Content:
        """Return the message that a method begins. Change no state: it is read again when more of it has come."""
        return _Content(channel, name, self.kinds.get(name, frames.OTHER), arguments.tag, ())

    def _begin(self, content: _Content) -> None:
        """Note a message when its first piece is reported."""

    def _apply(self, name: str, arguments: Arguments, channel: int) -> MethodEffect:
        raise NotImplementedError


class _ToBroker(_Amqp091):
    kinds: ClassVar[Mapping[str, str]] = {
        "basic.publish": frames.SEND,
        **dict.fromkeys(("basic.ack", "basic.nack", "basic.reject"), frames.ACKNOWLEDGE),
        "tx.select": frames.BEGIN,
        "tx.commit": frames.COMMIT,
        "tx.rollback": frames.ROLLBACK,
    }

    def _carried(self, name: str, arguments: Arguments, channel: int) -> _Content:
        here = self._channels[channel]
        number = here.published + 1 if here.confirms else 0
        return super()._carried(name, arguments, channel)._replace(tag=number)

    def _begin(self, content: _Content) -> None:
        if content.tag:
            self._channels[content.channel].publish(content.tag)

    def _apply(self, name: str, arguments: Arguments, channel: int) -> MethodEffect:
        if name == "channel.open":
            self._channels.open(channel)
        return self._channels[channel].asks(name, arguments)


class _ToClient(_Amqp091):
    kinds: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("basic.deliver", "basic.get-ok"), frames.DELIVER),
        **dict.fromkeys(("basic.ack", "basic.nack"), frames.ANSWER),
        "tx.select-ok": frames.BEGIN_ANSWER,
        "tx.commit-ok": frames.COMMIT_ANSWER,
        "tx.rollback-ok": frames.ROLLBACK_ANSWER,
    }

    def _carried(self, name: str, arguments: Arguments, channel: int) -> _Content:
        content = super()._carried(name, arguments, channel)
        if content.kind != frames.DELIVER:
            return content
        settled = self._channels[channel].presettled(name, arguments)
        word = frames.UNSUBSCRIBED if settled is None else "settled" if settled else ""
        return content._replace(words=(word,) if word else ())

    def _begin(self, content: _Content) -> None:
        if content.kind == frames.DELIVER:
            here = self._channels[content.channel]
            here.deliver(content.name, content.tag, settled="settled" in content.words)

    def _apply(self, name: str, arguments: Arguments, channel: int) -> MethodEffect:
        return self._channels[channel].answers(name, arguments)


def _payload(data: bytes | bytearray, at: int, end: int) -> bytes | None:
    """Return the payload of the frame at `at`; None if the frame is not complete."""
    start = at + _HEAD.size
    stop = start + _HEAD.unpack_from(data, at)[2]
    if stop >= end:
        return None
    if data[stop] != _END:
        raise Unreadable(f"a frame of {stop - start} bytes that does not end where it says")
    return bytes(data[start:stop])


def _headed(content: _Content, data: bytes | bytearray, at: int, end: int) -> _Content | None:
    """Add the content header at `at`; return None if it is not complete."""
    size = _HEAD.unpack_from(data, at)[2]
    payload = _payload(data, at, end) if size <= _WHOLE else b""
    if payload is None:
        return None
    try:
        found = methods.properties(payload)
    except struct.error as error:
        raise Unreadable(f"a content header of {size} bytes") from error
    message = _ours(found.correlation)
    return content._replace(size=found.size, left=found.size, message=message, persistent=found.persistent)


def _filled(content: _Content, data: bytes | bytearray, at: int, end: int) -> _Content | None:
    """Add the body at `at`; return None if too little of it has come to read its message id."""
    assert content.left is not None
    size = _HEAD.unpack_from(data, at)[2]
    if size > content.left:
        raise Unreadable(f"a body of {size} bytes, and only {content.left} are left")
    message = content.message
    if message is None and content.left == content.size:
        start = at + _HEAD.size
        stop = start + min(size, _FIRST_WORD)
        if stop > end:
            return None
        words = bytes(data[start:stop]).split(maxsplit=1)
        message = _ours(words[0]) if words and len(words[0]) < _FIRST_WORD else None
    return content._replace(left=content.left - size, message=message)


def _ours(word: bytes | None) -> str | None:
    """Return a word if it is our message id: publishers write it as correlation-id and as first word of the body."""
    found = None if word is None else word.decode(errors="replace")
    return found if parse_message(found) else None
