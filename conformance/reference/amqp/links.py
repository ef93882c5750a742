"""What all AMQP links share. Names are from the broker's side: an `Incoming` link is the peer's sender."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cproton as pn

from conformance.reference.amqp import states
from conformance.reference.core.admission import Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Queue, Transaction
from conformance.reference.peers import MAX_UNSENT

MAX_UNSTORED = 16 * 1024 * 1024
"""Bytes of a peer's messages that wait for the disk, `OVERHEAD` for each added, beyond which it should not be read."""

OVERHEAD = 1024
"""Bytes that a message takes here beside its own, roughly."""


class AmqpPeer:
    """What all links of a connection share; `transactions` has those that are open, by their id on the wire.

    `unsent` and `unstored` are the bytes that the two bounds are about, `partial` those of messages that have come in
    part; `paused` says that the socket takes no more. `soon` is called before the next bytes are taken for the socket.
    `said` is the transactional-state of the frame that is being read, once it is decoded.
    """

    def __init__(
        self, broker: ReferenceBroker, wake: Callable[[], None], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self.broker = broker
        self.wake = wake
        self.later = later
        self.transactions: dict[bytes, Transaction] = {}
        self.soon: list[Callable[[], None]] = []
        self.unsent = 0
        self.unstored = 0
        self.partial = 0
        self.paused = False
        self.said: states.Transacted | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more message may be written for it."""
        return self.unsent < MAX_UNSENT and not self.paused

    def next(self, call: Callable[[], None]) -> None:
        """Calls `call` in this turn, once all that is going on now is done."""
        self.soon.append(call)
        self.wake()


class AmqpLink:
    """What all kinds share. `engine` is proton's pointer, valid while `open`."""

    owned: Queue | None = None
    """The temporary queue that goes with it (section 3.5.10, delete-on-close)."""

    subscription: Queue | None = None
    """The queue of the durable subscription that goes when the peer closes the link, but not when it detaches it."""

    def __init__(self, engine: Any, peer: AmqpPeer) -> None:
        self.engine = engine
        self.session = pn.pn_link_session(engine)
        self.open = True
        self._peer = peer
        self._broker = peer.broker
        self._wake = peer.wake

    def flow(self) -> None:
        """The peer has sent a flow, or there is room again in what is written for it."""

    def delivery(self, delivery: Any) -> None:
        """The peer has sent a transfer or a disposition."""
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> None:
        """Ends the link from our side, for what has no answer that could carry an error."""
        if self.open:
            states.explain(pn.pn_link_condition(self.engine), *refusal)
            pn.pn_link_close(self.engine)
            self.ended()

    def ended(self) -> None:
        """The link is gone, with or without a detach; no engine pointer of it may be used again."""
        if self.open:
            self.open = False
            self._release()
            if self.owned is not None:
                self._broker.delete(self.owned)
            self._wake()

    def _release(self) -> None: ...
