"""Read the frames of AMQP 1.0, AMQP 0-9-1 and STOMP from outside the connection."""

from __future__ import annotations

from conformance.faults.frames import amqp, amqp091, stomp
from conformance.faults.frames.reader import Opaque, Splitter
from conformance.protocols import OPAQUE


def pair(protocol: str) -> tuple[Splitter, Splitter]:
    """Return readers of the two directions of one connection, to the broker and to the client.

    They share state: an answer to a commit can be recognised only after the commit. The frames of an
    `OPAQUE` protocol are not read.
    """
    pairs = {"amqp": amqp.pair, "amqp091": amqp091.pair, "stomp": stomp.pair}
    return (Opaque(), Opaque()) if protocol in OPAQUE else pairs[protocol]()
