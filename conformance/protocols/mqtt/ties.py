"""Tie the packets of MQTT to messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.history import Event
from conformance.protocols.mqtt.frames import readers
from conformance.protocols.reader import TO_BROKER
from conformance.protocols.ties import LinkReading, LinkState, Tied, carried, covering

_TO_BROKER = {"PUBACK": "acknowledge", "PUBREC": "acknowledge"}
_TO_CLIENT = ("PUBACK", "PUBCOMP", "PUBREL")


def tie(event: Event, words: Sequence[str], connection: LinkState) -> Iterator[Tied]:
    """Tie a packet of MQTT: an answer has the packet identifier of its PUBLISH, and an identifier is used again."""
    name, to_broker = words[0], event.link == TO_BROKER
    number = int(event.delivery or 0)
    if name == "PUBLISH":
        if number:
            numbered = connection.sends if to_broker else connection.deliveries
            numbered["", number] = event.message
        if event.message is not None:
            yield carried(event, connection, settled="settled" in words)
        return
    carries = _TO_BROKER.get(name, "") if to_broker else "answer" if _answers(name, words) else ""
    numbered = connection.deliveries if to_broker or name == "PUBREL" else connection.sends
    message = numbered.get(("", number)) if carries else None
    if message is not None:
        yield from covering(event, carries, [message])


def _answers(name: str, words: Sequence[str]) -> bool:
    return name in _TO_CLIENT or (name == "PUBREC" and "refused" in words)


LINK = LinkReading(readers, tie)
