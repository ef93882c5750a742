"""Tie each frame that crossed a link to the message that it is about, and expand ranges.

A frame that carries a message has the message id in its payload. A frame that answers names a delivery-id (AMQP), or
the header of an earlier frame (STOMP). This module joins the two for each connection, in the order of the link. A frame
that cannot be tied stays a row without a message: it is in the history, and accuses no broker and no client.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from conformance.errors import HistoryError
from conformance.faults.frames import reader as frames
from conformance.faults.frames.reader import TO_BROKER, TO_CLIENT
from conformance.history import Event, Op, Phase
from conformance.protocols import OPAQUE

CARRIES = ("send", "deliver", "acknowledge", "refuse", "answer", "acknowledge_up_to")
"""What a frame means for its message; the code is its place: append only. The last one covers all earlier ones."""

_CODE = {word: code for code, word in enumerate(CARRIES)}
_REFUSALS = frozenset(("rejected", "released", "modified"))
_BRINGS = frozenset(("basic.publish", "basic.deliver", "basic.get-ok"))
_CUT = ", not passed on"  # `link.connection`: the frame was cut
_RECEIPT = re.compile(r"\breceipt=(\S+)")
_SESSION = re.compile(r"session=\d+")
_SERIAL = 0xFFFFFFFF


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
class _Connection:
    """What one connection has carried so far. `reached`: the bytes that had arrived at the client."""

    reached: int
    stream: int = 0
    sends: dict[tuple[str, int], str | None] = dataclasses.field(default_factory=dict)
    deliveries: dict[tuple[str, int], str | None] = dataclasses.field(default_factory=dict)
    by_header: dict[str, str | None] = dataclasses.field(default_factory=dict)
    # For cumulative subscriptions, by the same header, in delivery order: the subscription and the message.
    cumulative: dict[str, tuple[str, str | None]] = dataclasses.field(default_factory=dict)
    receipts: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def tied(events: Sequence[Event], protocol: str) -> list[Tied]:
    """Return the events of one link, with a row for every message that a frame is about.

    A frame that was cut has left its client, and has not arrived.

    Raises:
        HistoryError: A link cannot carry `protocol`.
    """
    if protocol not in _TIES:
        raise HistoryError(f"a link that carries {protocol!r}: this judge cannot read frames of that protocol")
    blind = {event.connection for event in events if event.op is Op.FRAME and _words(event)[0] == "unreadable:"}
    reached = {
        event.connection: event.count or 0
        for event in events
        if event.op is Op.CONNECT and event.connection not in blind
    }
    connections: dict[int | None, _Connection] = {}
    found: list[Tied] = []
    for event in events:
        if event.op is not Op.FRAME:
            found.append(Tied(event))
            continue
        connection = connections.setdefault(event.connection, _Connection(reached.get(event.connection, 0)))
        if event.link == TO_CLIENT:
            connection.stream += event.count or 0
        rows = list(_TIES[protocol](event, _words(event), connection))
        found += rows or [Tied(msgspec.structs.replace(event, message=None))]
    return found


def _words(event: Event) -> list[str]:
    return (event.detail or "").removesuffix(_CUT).split() or [""]


def _carried(event: Event, connection: _Connection, *, settled: bool = False, more: bool = False) -> Tied:
    if event.link == TO_BROKER:
        return Tied(msgspec.structs.replace(event, durable=_persistent(event)), _CODE["send"])
    whole = not more and event.phase is Phase.OK and connection.stream <= connection.reached
    return Tied(event, _CODE["deliver"], settled, whole)


def _persistent(event: Event) -> bool | None:
    """Return the persistence flag of a send; None if an earlier frame had it, or the protocol has none."""
    words = _words(event)
    if words[0] not in ("transfer", "basic.publish") or "continued" in words:
        return None
    return "persistent" in words and "not" not in words


def _covering(event: Event, carries: str, messages: Sequence[str]) -> Iterator[Tied]:
    for message in messages:
        yield Tied(msgspec.structs.replace(event, message=message), _CODE[carries])


# AMQP


def _amqp(event: Event, words: Sequence[str], connection: _Connection) -> Iterator[Tied]:
    session = next(filter(_SESSION.fullmatch, words), "")
    if words[0] == "transfer":
        if event.delivery is not None:
            numbered = connection.sends if event.link == TO_BROKER else connection.deliveries
            numbered[session, int(event.delivery)] = event.message
        if event.message is not None:
            more = "more" in words or "aborted" in words
            yield _carried(event, connection, settled="settled" in words, more=more)
    elif words[0] == "disposition" and event.first is not None:
        # The sender of a delivery numbered it (AMQP 1.0 section 2.7.6, role).
        by_client = (event.link == TO_BROKER) == ("by the sender" in " ".join(words))
        messages = _within(connection.sends if by_client else connection.deliveries, session, event)
        if carries := _says(event, words):
            yield from _covering(event, carries, messages)


def _says(event: Event, words: Sequence[str]) -> str:
    """Return the meaning of a disposition: only the accepted outcome acknowledges, also in a transaction.

    Smallest counter-example to settled means accepted: a receiver that settles without an outcome, to forget a delivery
    (section 2.6.12).
    """
    if event.link == TO_CLIENT:
        return "answer"
    if "by the sender" in " ".join(words):
        return ""
    if "accepted" in words:
        return "acknowledge"
    return "refuse" if _REFUSALS.intersection(words) else ""


def _within(numbered: Mapping[tuple[str, int], str | None], session: str, event: Event) -> list[str]:
    """Return the messages of a range of serial numbers (section 2.8.10) that the link saw being sent."""
    assert event.first is not None
    first, last = event.first, event.first if event.last is None else event.last
    size = ((last - first) & _SERIAL) + 1
    if size <= len(numbered):
        found = (numbered.get((session, (first + step) & _SERIAL)) for step in range(size))
    else:
        found = (m for (s, number), m in numbered.items() if s == session and (number - first) & _SERIAL < size)
    return [message for message in found if message is not None]


# STOMP


def _stomp(event: Event, words: Sequence[str], connection: _Connection) -> Iterator[Tied]:
    command = words[0]
    if command == "MESSAGE":
        if event.delivery is not None:
            connection.by_header[event.delivery] = event.message
            if words[-1] == frames.SUBSCRIPTIONS["client"]:
                connection.cumulative[event.delivery] = words[-2], event.message
        if event.message is not None:
            yield _carried(event, connection, settled=words[-1] == frames.SUBSCRIPTIONS["auto"])
    elif command == "SEND" and event.message is not None:
        _remember(event, connection, (event.message,))
        yield _carried(event, connection)
    elif command in ("ACK", "NACK") and event.delivery is not None:
        messages = _acknowledged(event.delivery, connection)
        _remember(event, connection, messages)
        yield from _covering(event, "acknowledge" if command == "ACK" else "refuse", messages)
    elif command == "RECEIPT" and event.delivery is not None:
        yield from _covering(event, "answer", connection.receipts.pop(event.delivery, ()))


def _remember(event: Event, connection: _Connection, messages: tuple[str, ...]) -> None:
    if asked := _RECEIPT.search(event.detail or ""):
        connection.receipts[asked[1]] = messages


def _acknowledged(delivery: str, connection: _Connection) -> tuple[str, ...]:
    """Return all open deliveries up to this one on a cumulative subscription (STOMP 1.2, ACK); else this one."""
    if delivery not in connection.cumulative:
        message = connection.by_header.get(delivery)
        return () if message is None else (message,)
    mine, _ = connection.cumulative[delivery]
    found = []
    for earlier, (subscription, message) in list(connection.cumulative.items()):
        if subscription == mine:
            del connection.cumulative[earlier]
            found += [] if message is None else [message]
        if earlier == delivery:
            break
    return tuple(found)


# AMQP 0-9-1


def _amqp091(event: Event, words: Sequence[str], connection: _Connection) -> Iterator[Tied]:
    """Tie a frame of AMQP 0-9-1: a channel numbers deliveries and publishes, and the link names what an ack covers."""
    session = next(filter(_SESSION.fullmatch, words), "")
    to_broker = event.link == TO_BROKER
    if words[0] in _BRINGS:
        if event.delivery is not None:
            numbered = connection.sends if to_broker else connection.deliveries
            numbered[session, int(event.delivery)] = event.message
        if event.message is not None:
            yield _carried(event, connection, settled="settled" in words, more="more" in words)
    elif words[0] in ("basic.ack", "basic.nack", "basic.reject"):
        numbered = connection.deliveries if to_broker else connection.sends
        covered = (numbered.get((session, number)) for number in _covers(words))
        up_to = "_up_to" if "multiple=true" in words else ""
        carries = "answer" if not to_broker else f"acknowledge{up_to}" if "accepted" in words else "refuse"
        yield from _covering(event, carries, [message for message in covered if message is not None])


def _covers(words: Sequence[str]) -> Iterator[int]:
    """Return the numbers of `covers=1,3-7`."""
    for run in next((word for word in words if word.startswith("covers=")), "").removeprefix("covers=").split(","):
        first, _, last = run.partition("-")
        if first:
            yield from range(int(first), int(last or first) + 1)


def _none(event: Event, words: Sequence[str], connection: _Connection) -> Iterator[Tied]:
    """Tie nothing: the frames of this protocol are opaque."""
    return iter(())


_TIES = {"amqp": _amqp, "amqp091": _amqp091, "stomp": _stomp, **dict.fromkeys(OPAQUE, _none)}
