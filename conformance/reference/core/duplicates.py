"""Duplicate detection: the id that a sender gave its message, and the last ids that a queue has stored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from conformance.reference.core import sections

PROPERTY = b"_AMQ_DUPL_ID"
"""The application property with the id: the name that Apache Artemis gave it. Over STOMP it is a header."""

_KEYS = sections.encodings(PROPERTY, sections.STRING)

_LONGEST = 128
"""Bytes of an id that is kept as it is."""


class Arrival:
    """A message with an id that is on its way to the disk; `failed` if it did not get there."""

    def __init__(self) -> None:
        self.failed = False


class Identities:
    """The last `limit` ids of one queue, in the order of their storing, and those on their way.

    An id counts only once its message is on disk. Counter-example: the first copy is on its way, the second is answered
    as accepted, and the disk is full: neither is stored, and one of them was confirmed.
    """

    def __init__(self, limit: int, stored: Iterable[bytes] = ()) -> None:
        self._limit = limit
        self._stored: OrderedDict[bytes, None] = OrderedDict.fromkeys(stored)
        self._arriving: dict[bytes, Arrival] = {}
        self.mistaken = False
        self._trim()

    def __len__(self) -> int:
        return len(self._stored) + len(self._arriving)

    def known(self, identity: bytes) -> bool:
        return (identity in self._stored) is not self.mistaken

    def arriving(self, identity: bytes) -> Arrival | None:
        return self._arriving.get(identity)

    def arrives(self, identity: bytes) -> None:
        self._arriving[identity] = Arrival()

    def stored(self, identity: bytes) -> None:
        self._arriving.pop(identity, None)
        self._stored[identity] = None
        self._trim()

    def failed(self, identity: bytes) -> None:
        self._arriving.pop(identity).failed = True

    def _trim(self) -> None:
        while len(self._stored) > self._limit:
            self._stored.popitem(last=False)


def identity(bare: bytes) -> bytes | None:
    """The id that a message has; None if it has none, or is not encoded as AMQP 1.0 section 3.2 says."""
    if PROPERTY not in bare:
        return None
    value = sections.entry(bare, sections.APPLICATION_PROPERTIES, _KEYS)
    return None if value is None else _bounded(_plain(value))


def _plain(value: bytes) -> bytes:
    """The bytes of a text or a binary, the same in each of its types; of any other type the whole encoding."""
    return value[sections.TEXTS.get(value[0], 0) :]


def _bounded(identity: bytes) -> bytes:
    """The id, or what stands for a long one: ids are kept in memory by the thousand."""
    if len(identity) <= _LONGEST:
        return identity
    from hashlib import sha256  # costs a start 3 ms, and hardly anybody needs it

    return sha256(identity).digest()
