"""Tie the frames of STOMP to messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from conformance.history import Event
from conformance.protocols.stomp.frames import SUBSCRIPTIONS, readers
from conformance.protocols.ties import LinkReading, LinkState, Tied, carried, covering

_RECEIPT = re.compile(r"\breceipt=(\S+)")


def tie(event: Event, words: Sequence[str], connection: LinkState) -> Iterator[Tied]:
    """Tie a frame of STOMP: an ACK names a header of its MESSAGE, a RECEIPT one of the frame that asked for it."""
    command = words[0]
    if command == "MESSAGE":
        if event.delivery is not None:
            connection.by_header[event.delivery] = event.message
            if words[-1] == SUBSCRIPTIONS["client"]:
                connection.cumulative[event.delivery] = words[-2], event.message
        if event.message is not None:
            yield carried(event, connection, settled=words[-1] == SUBSCRIPTIONS["auto"])
    elif command == "SEND" and event.message is not None:
        _remember(event, connection, (event.message,))
        yield carried(event, connection)
    elif command in ("ACK", "NACK") and event.delivery is not None:
        messages = _acknowledged(event.delivery, connection)
        _remember(event, connection, messages)
        yield from covering(event, "acknowledge" if command == "ACK" else "refuse", messages)
    elif command == "RECEIPT" and event.delivery is not None:
        yield from covering(event, "answer", connection.receipts.pop(event.delivery, ()))


def _remember(event: Event, connection: LinkState, messages: tuple[str, ...]) -> None:
    if asked := _RECEIPT.search(event.detail or ""):
        connection.receipts[asked[1]] = messages


def _acknowledged(delivery: str, connection: LinkState) -> tuple[str, ...]:
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


LINK = LinkReading(readers, tie)
