"""AMQP links: what a publisher sends in, what a consumer is sent, and what both have to do with transactions.

Names are from the broker's side: an `Incoming` link is the peer's sender.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cproton as pn

from conformance.reference.amqp import states
from conformance.reference.core.broker import Broker
from conformance.reference.core.message import DecodeError, Parsed, parse
from conformance.reference.core.queues import Message, Queue, Subscription
from conformance.reference.core.settlement import Event
from conformance.reference.core.transactions import Transaction

CREDIT = 1000
RETRACTION_DELAY = 0.02
"""Seconds between the two answers of the liar that retracts: time for the peer to read the first."""

_TRANSFERRED = (pn.PN_ACCEPTED, pn.PN_REJECTED, pn.PN_RELEASED, pn.PN_MODIFIED, states.TRANSACTIONAL)


class Peer(NamedTuple):
    """What all links of a connection share; `transactions` has those that are open, by their id on the wire."""

    broker: Broker
    wake: Callable[[], None]
    later: Callable[[float, Callable[[], None]], object]
    transactions: dict[bytes, Transaction]


class Link:
    """What all kinds share. `engine` is proton's pointer, valid while `open`."""

    def __init__(self, engine: Any, session: int, peer: Peer) -> None:
        self.engine = engine
        self.session = session
        self.open = True
        self._peer = peer
        self._broker = peer.broker
        self._wake = peer.wake

    def flow(self) -> None:
        """The peer has sent a flow."""

    def delivery(self, delivery: Any) -> None:
        """The peer has sent a transfer or a disposition."""
        raise NotImplementedError

    def ended(self) -> None:
        """The link is gone, with or without a detach; no engine pointer of it may be used again."""
        self.open = False


class Receiving(Link):
    """A link on which the peer sends."""

    def __init__(self, engine: Any, session: int, peer: Peer) -> None:
        super().__init__(engine, session, peer)
        pn.pn_link_flow(engine, CREDIT)

    def delivery(self, delivery: Any) -> None:
        """A whole transfer is taken; a part of one waits for the rest, an aborted one is forgotten."""
        if pn.pn_delivery_aborted(delivery):
            pn.pn_delivery_settle(delivery)
        elif pn.pn_delivery_readable(delivery) and not pn.pn_delivery_partial(delivery):
            _, data = pn.pn_link_recv(self.engine, pn.pn_delivery_pending(delivery))
            pn.pn_link_advance(self.engine)
            self._take(delivery, bytes(data), settled=pn.pn_delivery_settled(delivery))
        missing = CREDIT - pn.pn_link_credit(self.engine)
        if missing > CREDIT // 2:
            pn.pn_link_flow(self.engine, missing)

    def _take(self, delivery: Any, data: bytes, *, settled: bool) -> None:
        raise NotImplementedError

    def _settle(self, delivery: Any) -> None:
        """Disposition with settled=true (section 2.6.12)."""
        pn.pn_delivery_settle(delivery)
        self._wake()

    def _reject(self, delivery: Any, condition: str, description: str) -> None:
        states.reject(delivery, condition, description)
        self._settle(delivery)


class Incoming(Receiving):
    """A publisher's link: every send is answered when the broker says so, in whatever order that is."""

    def __init__(self, engine: Any, session: int, peer: Peer, queue: Queue) -> None:
        super().__init__(engine, session, peer)
        self._queue = queue

    def _take(self, delivery: Any, data: bytes, *, settled: bool) -> None:
        identity = None
        if pn.pn_delivery_remote_state(delivery) == states.TRANSACTIONAL:
            identity = states.transacted(delivery).identity
            if identity not in self._peer.transactions:
                self._reject(delivery, states.UNKNOWN_ID, "no such transaction is open on this connection")
                return
        try:
            parsed = parse(data)
        except DecodeError as error:
            self._reject(delivery, "amqp:decode-error", str(error))
            return
        transaction = self._peer.transactions[identity] if identity is not None else None
        if settled:
            pn.pn_delivery_settle(delivery)
            self._broker.publish(self._queue, parsed, self._wake, transaction)
        else:
            self._publish(delivery, parsed, identity, transaction)

    def _publish(self, delivery: Any, parsed: Parsed, identity: bytes | None, transaction: Transaction | None) -> None:
        send = self._broker.next_send()

        def stored() -> None:
            if self.open and self._broker.behaviour.answers(send):
                self._accept(delivery, identity, retract=self._broker.behaviour.retracts(send))

        self._broker.publish(self._queue, parsed, stored, transaction)

    def _accept(self, delivery: Any, identity: bytes | None, *, retract: bool) -> None:
        if identity is None:
            pn.pn_delivery_update(delivery, pn.PN_ACCEPTED)
        else:
            states.provisional(delivery, identity, pn.PN_ACCEPTED)
        if not retract:
            self._settle(delivery)
            return
        self._wake()
        self._peer.later(RETRACTION_DELAY, lambda: self._retract(delivery))

    def _retract(self, delivery: Any) -> None:
        if self.open:
            pn.pn_delivery_update(delivery, pn.PN_REJECTED)
            self._settle(delivery)


class Outgoing(Link):
    """A consumer's link: sends within its credit, and takes its outcomes."""

    def __init__(self, engine: Any, session: int, peer: Peer, queue: Queue) -> None:
        super().__init__(engine, session, peer)
        settled = pn.pn_link_remote_snd_settle_mode(engine) == pn.PN_SND_SETTLED
        self._unsettled: dict[int, Any] = {}
        self._enlisted: dict[int, bytes] = {}
        self._subscription = Subscription(queue, settled, self._credit, self._deliver)
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
        if state == states.TRANSACTIONAL:
            self._enlist(delivery, tag, settled=settled)
            return
        self._enlisted.pop(tag, None)
        outcome, here = _outcome(delivery, state)
        if settled:
            self._forget(delivery, tag)
            self._broker.settle(self._subscription, tag, outcome, self._wake, here=here)
        else:
            self._broker.settle(self._subscription, tag, outcome, lambda: self._confirm(tag, state), here=here)

    def _enlist(self, delivery: Any, tag: int, *, settled: bool) -> None:
        """An outcome in a transaction (section 4.4.2): a delivery that is not settled stays live until the discharge.

        One that the peer has settled has nobody left to say more of it: after a rollback it is settled without outcome.
        """
        said = states.transacted(delivery)
        transaction = self._peer.transactions.get(said.identity)
        over = transaction is None and settled and self._enlisted.get(tag) == said.identity
        if said.outcome is None or over:
            # A settlement that only repeats the state of a transaction that is over brings no outcome either.
            if settled:
                self._forget(delivery, tag)
                self._abandon(tag)
        elif transaction is None:
            self._refuse(states.UNKNOWN_ID, "no such transaction is open on this connection")
        else:
            self._enlisted[tag] = said.identity
            self._broker.settle(
                self._subscription, tag, said.outcome, self._wake, here=said.here, transaction=transaction
            )
            if settled:
                self._forget(delivery, tag)
                transaction.when_over(lambda committed: None if committed else self._abandon(tag))
            else:
                transaction.when_over(lambda committed: self._discharged(tag, said) if committed else None)

    def _abandon(self, tag: int) -> None:
        self._broker.settle(self._subscription, tag, Event.ABANDONED, self._wake)

    def _discharged(self, tag: int, said: states.Transacted) -> None:
        """Committed: the delivery is settled, unless it has had another outcome since."""
        if self._enlisted.get(tag) == said.identity:
            self._confirm(tag, said.state)

    def _forget(self, delivery: Any, tag: int) -> None:
        """The peer has settled."""
        del self._unsettled[tag]
        self._enlisted.pop(tag, None)
        pn.pn_delivery_settle(delivery)

    def _refuse(self, condition: str, description: str) -> None:
        """Ends the link from our side: an outcome of the peer has no answer that could carry an error."""
        states.explain(pn.pn_link_condition(self.engine), condition, description)
        pn.pn_link_close(self.engine)
        self.ended()

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
        self._enlisted.pop(tag, None)
        if delivery is not None:
            pn.pn_delivery_update(delivery, state)
            pn.pn_delivery_settle(delivery)
            self._wake()


def _outcome(delivery: Any, state: int) -> tuple[Event, bool]:
    """The event for a delivery's outcome, and whether it may be delivered here again."""
    said = pn.pn_delivery_remote(delivery)
    fields = (pn.pn_disposition_is_failed(said), pn.pn_disposition_is_undeliverable(said))
    outcome, here = states.event(state, fields)
    return outcome or Event.ABANDONED, here
