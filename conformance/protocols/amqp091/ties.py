"""Tie the frames of AMQP 0-9-1 to messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.history import Event
from conformance.protocols.amqp091.frames import readers
from conformance.protocols.reader import TO_BROKER
from conformance.protocols.ties import LinkReading, LinkState, Tied, carried, covering, persistent, session_of

_BRINGS = frozenset(("basic.publish", "basic.deliver", "basic.get-ok"))


def tie(event: Event, words: Sequence[str], connection: LinkState) -> Iterator[Tied]:
    """Tie a frame of AMQP 0-9-1: a channel numbers deliveries and publishes, and the link names what an ack covers."""
    session = session_of(words)
    to_broker = event.link == TO_BROKER
    if words[0] in _BRINGS:
        if event.delivery is not None:
            numbered = connection.sends if to_broker else connection.deliveries
            numbered[session, int(event.delivery)] = event.message
        if event.message is not None:
            settled, more = "settled" in words, "more" in words
            yield carried(event, connection, settled=settled, more=more, durable=persistent(words))
    elif words[0] in ("basic.ack", "basic.nack", "basic.reject"):
        numbered = connection.deliveries if to_broker else connection.sends
        covered = (numbered.get((session, number)) for number in _covers(words))
        up_to = "_up_to" if "multiple=true" in words else ""
        carries = "answer" if not to_broker else f"acknowledge{up_to}" if "accepted" in words else "refuse"
        yield from covering(event, carries, [message for message in covered if message is not None])


def _covers(words: Sequence[str]) -> Iterator[int]:
    """Return the numbers of `covers=1,3-7`."""
    for run in next((word for word in words if word.startswith("covers=")), "").removeprefix("covers=").split(","):
        first, _, last = run.partition("-")
        if first:
            yield from range(int(first), int(last or first) + 1)


LINK = LinkReading(readers, tie)
