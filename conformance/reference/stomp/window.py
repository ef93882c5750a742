"""A publish window over STOMP (docs/reference-profiles.md, `solace`): the RECEIPTs of SEND wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.confirms import Confirms
from conformance.reference.honest import Honest
from conformance.reference.profiles import IMMEDIATELY, Publishing, Unknown
from conformance.reference.stomp.frames import ProtocolError, StompFrame


class WindowOutlet(Protocol):
    """The connection as its window needs it."""

    def confirm(self, receipt: str) -> None:
        """A RECEIPT leaves."""


class Window:
    """The SENDs of one connection that asked for a receipt, are in no transaction, and have none yet.

    Where the peer asked for WINDOWED, one RECEIPT, that of the last, speaks for all SENDs before it. It never speaks
    for one that is not stored: a SEND without a receipt is stored before the next one, in the order of the connection.
    """

    def __init__(
        self,
        asked: Publishing,
        behaviour: Honest,
        outlet: WindowOutlet,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._ranged = asked.ranged
        self._outlet = outlet
        self._behaviour = behaviour
        self._receipts: dict[int, str] = {}
        self._arrived = 0
        self._confirms: Confirms[int] = Confirms(
            asked.window, self._leave, later, ranged=asked.ranged, behaviour=behaviour
        )

    @classmethod
    def asked(
        cls,
        frame: StompFrame,
        broker: ReferenceBroker,
        outlet: WindowOutlet,
        later: Callable[[float, Callable[[], None]], object],
    ) -> Window | None:
        """The window that a CONNECT asks for; None under a profile without. Raises `ProtocolError`."""
        try:
            asked = broker.profile.publishing(frame.headers)
        except Unknown as error:
            raise ProtocolError(str(error)) from error
        return cls(asked, broker.behaviour, outlet, later) if asked is not None else None

    def arrived(self, frame: StompFrame) -> int:
        """A SEND with a receipt; the key by which it is said to be stored or refused."""
        self._arrived += 1
        self._receipts[self._arrived] = frame.headers["receipt"]
        self._confirms.arrived(self._arrived, immediate=is_urgent(frame))
        return self._arrived

    def stored(self, key: int) -> None:
        """It is stored as the settings ask."""
        self._confirms.stored(key)

    def refused(self, key: int) -> bool:
        """It is refused, after the RECEIPT of what is stored before it; false where a liar covers it instead."""
        if self._behaviour.covers_refused:
            self._confirms.stored(key)
            return False
        self._confirms.refused(key)
        self._receipts.pop(key, None)
        return True

    def flush(self) -> None:
        """The connection is about to end: what is stored is confirmed."""
        self._confirms.flush()

    def _leave(self, keys: list[int]) -> None:
        receipts = [self._receipts.pop(key) for key in keys]
        for receipt in receipts[-1:] if self._ranged else receipts:
            self._outlet.confirm(receipt)


def is_urgent(frame: StompFrame) -> bool:
    """Whether a SEND asks for Ack Immediately."""
    return frame.headers.get(IMMEDIATELY) == "true"
