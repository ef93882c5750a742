"""Tie the frames of AMQP 1.0 to messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.history import Event
from conformance.protocols.amqp.frames import readers
from conformance.protocols.reader import TO_BROKER, TO_CLIENT
from conformance.protocols.ties import LinkReading, LinkState, Tied, carried, covering, persistent, session_of

_REFUSALS = frozenset(("rejected", "released", "modified"))
_SERIAL = 0xFFFFFFFF


def tie(event: Event, words: Sequence[str], connection: LinkState) -> Iterator[Tied]:
    """Tie a frame of AMQP: a session numbers deliveries, and a disposition names a range of them."""
    session = session_of(words)
    if words[0] == "transfer":
        if event.delivery is not None:
            numbered = connection.sends if event.link == TO_BROKER else connection.deliveries
            numbered[session, int(event.delivery)] = event.message
        if event.message is not None:
            more = "more" in words or "aborted" in words
            yield carried(event, connection, settled="settled" in words, more=more, durable=persistent(words))
    elif words[0] == "disposition" and event.first is not None:
        # The sender of a delivery numbered it (AMQP 1.0 section 2.7.6, role).
        by_client = (event.link == TO_BROKER) == ("by the sender" in " ".join(words))
        messages = _within(connection.sends if by_client else connection.deliveries, session, event)
        if carries := _says(event, words):
            yield from covering(event, carries, messages)


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


LINK = LinkReading(readers, tie)
