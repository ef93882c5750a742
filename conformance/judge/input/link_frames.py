"""Tie each frame that crossed a link to the message that it is about, and expand ranges.

A frame that carries a message has the message id in its payload. A frame that answers names a delivery-id (AMQP), or
the header of an earlier frame (STOMP). This module joins the two for each connection, in the order of the link. A frame
that cannot be tied stays a row without a message: it is in the history, and accuses no broker and no client.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from conformance.errors import HistoryError
from conformance.history import Event, Op
from conformance.protocols import link_reading
from conformance.protocols.reader import TO_CLIENT
from conformance.protocols.ties import LinkState, Tied, words_of


def tied(events: Sequence[Event], protocol: str) -> list[Tied]:
    """Return the events of one link, with a row for every message that a frame is about.

    A frame that was cut has left its client, and has not arrived.

    Raises:
        HistoryError: A link cannot carry `protocol`.
    """
    try:
        tie = link_reading(protocol).tie
    except KeyError as error:
        text = f"a link that carries {protocol!r}: this judge cannot read frames of that protocol"
        raise HistoryError(text) from error
    blind = {event.connection for event in events if event.op is Op.FRAME and words_of(event)[0] == "unreadable:"}
    reached = {
        event.connection: event.count or 0
        for event in events
        if event.op is Op.CONNECT and event.connection not in blind
    }
    connections: dict[int | None, LinkState] = {}
    found: list[Tied] = []
    for event in events:
        if event.op is not Op.FRAME:
            found.append(Tied(event))
            continue
        connection = connections.setdefault(event.connection, LinkState(reached.get(event.connection, 0)))
        if event.link == TO_CLIENT:
            connection.stream += event.count or 0
        rows = list(tie(event, words_of(event), connection))
        found += rows or [Tied(msgspec.structs.replace(event, message=None))]
    return found
