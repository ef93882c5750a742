"""The two kinds of AMQP link: what a publisher sends in, what a consumer is sent.

Names are from the broker's side: an `Incoming` link is the peer's sender.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cproton as pn

from conformance.reference.broker import Broker
from conformance.reference.message import DecodeError, parse
from conformance.reference.queues import Message, Queue, Subscription
from conformance.reference.settlement import Event

CREDIT = 1000
RETRACTION_DELAY = 0.02
"""Seconds between the two answers of the liar that retracts: time for the peer to read the first."""

_TRANSFERRED = (pn.PN_ACCEPTED, pn.PN_REJECTED, pn.PN_RELEASED, pn.PN_MODIFIED)


class Link:
    """What both kinds share. `engine` is proton's pointer, valid while `open`."""

    def __init__(
        self,
        engine: Any,
        session: int,
        broker: Broker,
        queue: Queue,
        wake: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.engine = engine
        self.session = session
        self.open = True
        self._broker = broker
        self._queue = queue
        self._wake = wake
        self._later = later
        self._start()

    def _start(self) -> None:
        """The link has just been opened."""

    def flow(self) -> None:
        """The peer has sent a flow."""

    def delivery(self, delivery: Any) -> None:
        """The peer has sent a transfer or a disposition."""
        raise NotImplementedError

    def ended(self) -> None:
        """The link is gone, with or without a detach; no engine pointer of it may be used again."""
        self.open = False


class Incoming(Link):
    """A publisher's link: every send is answered when the broker says so, in whatever order that is."""

    def _start(self) -> None:
        pn.pn_link_flow(self.engine, CREDIT)

    def delivery(self, delivery: Any) -> None:
        """A whole transfer is published; a part of one waits for the rest, an aborted one is forgotten."""
        if pn.pn_delivery_aborted(delivery):
            pn.pn_delivery_settle(delivery)
        elif pn.pn_delivery_readable(delivery) and not pn.pn_delivery_partial(delivery):
            _, data = pn.pn_link_recv(self.engine, pn.pn_delivery_pending(delivery))
            pn.pn_link_advance(self.engine)
            self._publish(delivery, bytes(data))
        missing = CREDIT - pn.pn_link_credit(self.engine)
        if missing > CREDIT // 2:
            pn.pn_link_flow(self.engine, missing)

    def _publish(self, delivery: Any, data: bytes) -> None:
        settled = pn.pn_delivery_settled(delivery)
        try:
            parsed = parse(data)
        except DecodeError as error:
            condition = pn.pn_disposition_condition(pn.pn_delivery_local(delivery))
            pn.pn_condition_set_name(condition, "amqp:decode-error")
            pn.pn_condition_set_description(condition, str(error))
            self._answer(delivery, pn.PN_REJECTED)
            return
        if settled:
            pn.pn_delivery_settle(delivery)
            self._broker.publish(self._queue, parsed, self._wake)
            return
        send = self._broker.next_send()

        def stored() -> None:
            if self._broker.behaviour.answers(send):
                self._accept(delivery, retract=self._broker.behaviour.retracts(send))

        self._broker.publish(self._queue, parsed, stored)

    def _accept(self, delivery: Any, *, retract: bool) -> None:
        if not retract:
            self._answer(delivery, pn.PN_ACCEPTED)
        elif self.open:
            pn.pn_delivery_update(delivery, pn.PN_ACCEPTED)
            self._wake()
            self._later(RETRACTION_DELAY, lambda: self._answer(delivery, pn.PN_REJECTED))

    def _answer(self, delivery: Any, state: int) -> None:
        """Disposition with settled=true (section 2.6.12); nobody is there to read it if the link has ended."""
        if self.open:
            pn.pn_delivery_update(delivery, state)
            pn.pn_delivery_settle(delivery)
            self._wake()


class Outgoing(Link):
    """A consumer's link: sends within its credit, and takes its outcomes."""

    def _start(self) -> None:
        settled = pn.pn_link_remote_snd_settle_mode(self.engine) == pn.PN_SND_SETTLED
        self._unsettled: dict[int, Any] = {}
        self._subscription = Subscription(self._queue, settled, self._credit, self._deliver)
        self._broker.subscribe(self._subscription)

    def flow(self) -> None:
        """New credit is served at once; credit that a drain finds no message for is given up (section 2.6.7)."""
        self._broker.more_credit(self._subscription)
        if pn.pn_link_get_drain(self.engine):
            self._broker.dispatch()
            pn.pn_link_drained(self.engine)
        self._wake()

    def delivery(self, delivery: Any) -> None:
        """An outcome, or a settlement without one."""
        tag = int(pn.pn_delivery_tag(delivery))
        settled = pn.pn_delivery_settled(delivery)
        state = pn.pn_delivery_remote_state(delivery)
        if tag not in self._unsettled or not (settled or state in _TRANSFERRED):
            return
        outcome, here = _outcome(delivery, state)
        if settled:
            del self._unsettled[tag]
            pn.pn_delivery_settle(delivery)
            self._broker.settle(self._subscription, tag, outcome, self._wake, here=here)
        else:
            self._broker.settle(self._subscription, tag, outcome, lambda: self._confirm(tag, state), here=here)

    def ended(self) -> None:
        """What it held becomes available to others."""
        if self.open:
            super().ended()
            self._unsettled.clear()
            self._broker.unsubscribe(self._subscription)
            self._wake()

    def _credit(self) -> int:
        credit: int = pn.pn_link_credit(self.engine)
        return credit

    def _deliver(self, tag: int, message: Message) -> None:
        delivery = pn.pn_delivery(self.engine, str(tag))
        pn.pn_link_send(self.engine, self._broker.encoded(message))
        pn.pn_link_advance(self.engine)
        if self._subscription.settled:
            pn.pn_delivery_settle(delivery)
        else:
            self._unsettled[tag] = delivery
        self._wake()

    def _confirm(self, tag: int, state: int) -> None:
        """The outcome is on disk: the same outcome back, settled (section 2.6.12), if the peer still waits for it."""
        delivery = self._unsettled.pop(tag, None)
        if delivery is not None:
            pn.pn_delivery_update(delivery, state)
            pn.pn_delivery_settle(delivery)
            self._wake()


def _outcome(delivery: Any, state: int) -> tuple[Event, bool]:
    """The event for a delivery's outcome, and whether it may be delivered here again."""
    if state == pn.PN_MODIFIED:
        said = pn.pn_delivery_remote(delivery)
        failed = pn.pn_disposition_is_failed(said)
        return (Event.FAILED if failed else Event.MODIFIED), not pn.pn_disposition_is_undeliverable(said)
    return _EVENTS.get(state, Event.ABANDONED), True


_EVENTS = {pn.PN_ACCEPTED: Event.ACCEPTED, pn.PN_REJECTED: Event.REJECTED, pn.PN_RELEASED: Event.RELEASED}
