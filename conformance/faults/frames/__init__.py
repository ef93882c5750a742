"""Readers of the frames of AMQP 1.0, AMQP 0-9-1 and STOMP, seen from outside of the connection."""

from __future__ import annotations

from conformance.faults.frames import amqp, amqp091, stomp
from conformance.faults.frames.reader import Opaque, Splitter


def pair(protocol: str) -> tuple[Splitter, Splitter]:
    """The two directions of one connection, to the broker and to the client.

    They know of each other: only who saw the commit knows what its answer is. `core` is the protocol of Artemis' own
    client, whose frames this suite cannot read.
    """
    pairs = {"amqp": amqp.pair, "amqp091": amqp091.pair, "stomp": stomp.pair}
    return (Opaque(), Opaque()) if protocol == "core" else pairs[protocol]()
