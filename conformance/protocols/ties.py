"""What ties a frame to the message that it is about, in each protocol."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from conformance.history import Event, Phase
from conformance.protocols.reader import TO_BROKER, Opaque, Splitter

CARRIES = ("send", "deliver", "acknowledge", "refuse", "answer", "acknowledge_up_to")
"""What a frame means for its message; the code is its place: append only. The last one covers all earlier ones."""

_CODE = {word: code for code, word in enumerate(CARRIES)}
_CUT = ", not passed on"  # `link.connection`: the frame was cut
_SESSION = re.compile(r"session=\d+")


class Tied(NamedTuple):
    """One row: the event with its message, and what the frame means for it.

    `settled` and `whole` are for deliveries: it was sent settled; with this frame it had reached its client completely,
    on a connection whose frames could be read to the end.
    """

    event: Event
    carries: int | None = None
    settled: bool | None = None
    whole: bool | None = None


@dataclasses.dataclass
class LinkState:
    """What one connection has carried so far. `reached`: the bytes that had arrived at the client."""

    reached: int
    stream: int = 0
    sends: dict[tuple[str, int], str | None] = dataclasses.field(default_factory=dict)
    deliveries: dict[tuple[str, int], str | None] = dataclasses.field(default_factory=dict)
    by_header: dict[str, str | None] = dataclasses.field(default_factory=dict)
    # For cumulative subscriptions, by the same header, in delivery order: the subscription and the message.
    cumulative: dict[str, tuple[str, str | None]] = dataclasses.field(default_factory=dict)
    receipts: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def words_of(event: Event) -> list[str]:
    """Return the words of what the link wrote about the frame; the first one is its name."""
    return (event.detail or "").removesuffix(_CUT).split() or [""]


def carried(
    event: Event, connection: LinkState, *, settled: bool = False, more: bool = False, durable: bool | None = None
) -> Tied:
    """Return the row of a frame that carries a message. `more`: other frames of its delivery follow."""
    if event.link == TO_BROKER:
        return Tied(msgspec.structs.replace(event, durable=durable), _CODE["send"])
    whole = not more and event.phase is Phase.OK and connection.stream <= connection.reached
    return Tied(event, _CODE["deliver"], settled, whole)


def persistent(words: Sequence[str]) -> bool | None:
    """Return the persistence flag of a send; None if an earlier frame had it."""
    return None if "continued" in words else "persistent" in words and "not" not in words


def session_of(words: Sequence[str]) -> str:
    return next(filter(_SESSION.fullmatch, words), "")


def covering(event: Event, carries: str, messages: Sequence[str]) -> Iterator[Tied]:
    """Yield a row for each message that the frame is about."""
    for message in messages:
        yield Tied(msgspec.structs.replace(event, message=message), _CODE[carries])


Tie = Callable[[Event, Sequence[str], LinkState], Iterator[Tied]]
"""It yields a row for each message that a frame is about; the words are those of `words_of`."""


class LinkReading(NamedTuple):
    """How the frames of one connection are read, and tied to messages.

    `readers` returns readers of its two directions, to the broker and to the client. They share state: an answer to a
    commit can be recognised only after the commit.
    """

    readers: Callable[[], tuple[Splitter, Splitter]]
    tie: Tie


def _ties_nothing(event: Event, words: Sequence[str], connection: LinkState) -> Iterator[Tied]:
    return iter(())


UNREAD = LinkReading(lambda: (Opaque(), Opaque()), _ties_nothing)
"""For a protocol of a vendor's client that the suite cannot read."""
