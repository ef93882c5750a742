"""A publisher's link with a publish window (docs/reference-profiles.md): stored sends are confirmed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.reference.amqp.asking import is_urgent
from conformance.reference.amqp.links import AmqpPeer
from conformance.reference.amqp.receiving import Incoming
from conformance.reference.core.confirms import Confirms
from conformance.reference.core.queues import Queue
from conformance.reference.core.refusal import Refusal
from conformance.reference.message.header import Parsed
from conformance.reference.profiles import Publishing


class Windowed(Incoming):
    """The window is the link's credit: what has no answer holds its credit, and a confirm gives it back.

    A confirm is one disposition for each unbroken run of deliveries, which the engine makes of those that are settled
    one after the other; where the peer asked for PER_MESSAGE each has one of its own. `apart` ends a run.
    """

    def __init__(
        self, engine: Any, peer: AmqpPeer, queue: Queue | None, asked: Publishing, apart: Callable[[], None]
    ) -> None:
        super().__init__(engine, peer, queue, credit=asked.window)
        self._worth = 1
        self._windowed = asked.ranged
        self._apart = apart
        behaviour = self._broker.behaviour
        # Over AMQP a range says nothing of what is not in it: no confirm has to wait for an earlier one.
        self._confirms: Confirms[Any] = Confirms(
            asked.window, self._leave, peer.later, ranged=False, behaviour=behaviour
        )

    def _held(self) -> int:
        if self._broker.behaviour.reopens_windows:
            return self._confirms.unanswered
        return self._most - self._left

    def _arrived(self, delivery: Any, parsed: Parsed) -> bool:
        urgent = is_urgent(parsed.bare)
        self._confirms.arrived(delivery, immediate=urgent)
        return urgent

    def _accept(self, delivery: Any, identity: bytes | None, *, retract: bool) -> None:
        if identity is not None or retract:
            super()._accept(delivery, identity, retract=retract)
        else:
            self._confirms.stored(delivery)

    def _refused(self, delivery: Any, refusal: Refusal, *, settled: bool) -> None:
        if delivery not in self._confirms:
            super()._refused(delivery, refusal, settled=settled)
        elif self._broker.behaviour.covers_refused:
            self._confirms.stored(delivery)
        else:
            self._confirms.refused(delivery)
            self._apart()
            super()._refused(delivery, refusal, settled=settled)
            self._apart()
            self._peer.next(self._replenish)

    def _leave(self, deliveries: list[Any]) -> None:
        if not self.open:
            return  # a timer
        for delivery in deliveries:
            super()._accept(delivery, None, retract=False)
            if not self._windowed:
                self._apart()
        self._apart()
        self._peer.next(self._replenish)
