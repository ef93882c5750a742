"""Links on which the broker sends: a consumer's, and a browser's. Both send within the peer's credit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cproton as pn

from conformance.reference.amqp import states
from conformance.reference.amqp.links import AmqpLink, AmqpPeer
from conformance.reference.core.admission import DELETED, SIZE, Refusal
from conformance.reference.core.queues import Message, Queue, Subscription
from conformance.reference.core.selector import Selector
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.profiles import PLAIN, Consuming

_ACCEPTED = SettlementEvent.ACCEPTED
_TRANSFERRED = frozenset({pn.PN_ACCEPTED, pn.PN_REJECTED, pn.PN_RELEASED, pn.PN_MODIFIED, states.TRANSACTIONAL})


class Sending(AmqpLink):
    """A link on which the broker sends, unsettled or, where the peer asks for it, settled."""

    def __init__(self, engine: Any, peer: AmqpPeer, queue: Queue) -> None:
        super().__init__(engine, peer)
        self._queue = queue
        self._settled = pn.pn_link_remote_snd_settle_mode(engine) == pn.PN_SND_SETTLED
        self._limit = pn.pn_link_remote_max_message_size(engine) or 1 << 62

    def _credit(self) -> int:
        if not self._peer.has_room:
            return 0
        credit: int = pn.pn_link_credit(self.engine)
        return credit

    def _drained(self) -> None:
        """Credit that a drain finds no message for is given up; that for which only room is missing is not (2.6.7)."""
        if self.open and self._peer.has_room and pn.pn_link_get_drain(self.engine):
            pn.pn_link_drained(self.engine)

    def _send(self, tag: int, data: bytes) -> Any:
        """One transfer, of as many frames as the peer's max-frame-size asks for."""
        delivery = pn.pn_delivery(self.engine, b"%d" % tag)
        pn.pn_link_send(self.engine, data)
        pn.pn_link_advance(self.engine)
        self._peer.unsent += len(data)
        if self._settled:
            pn.pn_delivery_settle(delivery)
        self._wake()
        return delivery

    def _refuse_size(self) -> None:
        self.refuse(Refusal(SIZE, f"the next message is larger than the {self._limit} bytes that this link takes"))


class Outgoing(Sending):
    """A consumer's link. `lapse` is the outcome of a delivery that the peer settles without one."""

    def __init__(
        self,
        engine: Any,
        peer: AmqpPeer,
        queue: Queue,
        asked: Consuming = PLAIN,
        selector: Selector | None = None,
    ) -> None:
        super().__init__(engine, peer, queue)
        self._settled = self._settled or asked.mode.settled
        self._limited = asked.prefetch > 0
        self._prefetch = asked.prefetch or 1 << 31
        self._unsettled: dict[int, Any] = {}
        self._tags: dict[Any, int] = {}
        self._enlisted: dict[int, bytes] = {}
        self.lapse = (SettlementEvent.ABANDONED, True)
        # A message that is sent settled is removed, and one that is too large for the peer must not be.
        careful = self._limit < self._broker.settings.max_message_bytes
        settled = self._settled and not careful
        self._subscription = Subscription(
            queue,
            settled,
            self._credit,
            self._deliver,
            self._deleted,
            lazy=asked.mode.lazy,
            owner=peer,
            selector=selector,
        )
        self._removes = self._settled and careful
        self._broker.subscribe(self._subscription)

    def _credit(self) -> int:
        return min(super()._credit(), self._prefetch - len(self._unsettled))

    def flow(self) -> None:
        """New credit is served with the next turn, that of a drain at once, for it ends with an answer."""
        self._broker.more_credit(self._subscription)
        if pn.pn_link_get_drain(self.engine):
            self._broker.dispatch()
            self._drained()
        self._wake()

    def delivery(self, delivery: Any) -> None:
        tag = self._tags.get(delivery)
        settled = pn.pn_delivery_settled(delivery)
        state = pn.pn_delivery_remote_state(delivery)
        if tag is None or not (settled or state in _TRANSFERRED):
            return
        if state == states.TRANSACTIONAL:
            self._enlist(delivery, tag, settled=settled)
            return
        self._enlisted.pop(tag, None)
        outcome, here = self._outcome(delivery, state)
        if outcome is _ACCEPTED and not self._broker.takes(self._subscription, tag):
            outcome, state = SettlementEvent.RELEASED, pn.PN_RELEASED
        if settled:
            self._forget(delivery, tag)
            self._broker.settle(self._subscription, tag, outcome, self._wake, here=here)
        else:
            self._broker.settle(self._subscription, tag, outcome, lambda: self._confirm(tag, state), here=here)

    def _outcome(self, delivery: Any, state: int) -> tuple[SettlementEvent, bool]:
        """The event for a delivery's outcome, and whether it may be delivered here again."""
        if state == pn.PN_ACCEPTED:
            return SettlementEvent.ACCEPTED, True
        said = pn.pn_delivery_remote(delivery)
        fields = (pn.pn_disposition_is_failed(said), pn.pn_disposition_is_undeliverable(said))
        outcome, here = states.event(state, fields)
        return self.lapse if outcome is None else (outcome, here)

    def _enlist(self, delivery: Any, tag: int, *, settled: bool) -> None:
        """An outcome in a transaction (section 4.4.2): a delivery that is not settled stays live until the discharge.

        If the client has settled it, no outcome can follow: after a rollback it counts as settled without one.
        """
        said = self._peer.said = self._peer.said or states.read_transactional_state(delivery)
        transaction = self._peer.transactions.get(said.identity)
        before = self._enlisted.get(tag)
        over = transaction is None and settled and before == said.identity
        if said.outcome is None or over:
            # A settlement that only repeats the state of a transaction that is over brings no outcome either.
            if settled:
                self._forget(delivery, tag)
                self._lapse(tag)
        elif transaction is None:
            self.refuse(Refusal(states.UNKNOWN_ID, "no such transaction is open on this connection"))
        elif settled or before != said.identity:
            if before in self._peer.transactions and before != said.identity:
                self._peer.transactions[before].leave_out(self._subscription, tag)
            self._enlisted[tag] = said.identity
            self._broker.settle(
                self._subscription, tag, said.outcome, self._wake, here=said.here, transaction=transaction
            )
            if settled:
                self._forget(delivery, tag)
            transaction.when_over(
                self._subscription,
                tag,
                lambda committed: self._discharged(tag, said, settled=settled, committed=committed),
            )

    def _lapse(self, tag: int) -> None:
        outcome, here = self.lapse
        self._broker.settle(self._subscription, tag, outcome, self._wake, here=here)

    def _discharged(self, tag: int, said: states.Transacted, *, settled: bool, committed: bool) -> None:
        """Committed: the delivery is settled, unless it has had another outcome since."""
        if committed and self._enlisted.get(tag) == said.identity:
            self._confirm(tag, said.state)
        elif settled and not committed:
            self._lapse(tag)

    def _forget(self, delivery: Any, tag: int) -> None:
        del self._tags[delivery], self._unsettled[tag]
        self._enlisted.pop(tag, None)
        pn.pn_delivery_settle(delivery)
        self._fewer()

    def _deleted(self) -> None:
        self.refuse(Refusal(DELETED, f"the queue {self._queue.name} was deleted"))

    def _release(self) -> None:
        self._unsettled.clear()
        self._tags.clear()
        self._broker.unsubscribe(self._subscription)

    def _deliver(self, tag: int, message: Message) -> None:
        data = self._broker.encoded(message)
        if len(data) > self._limit:
            # Not sent, and the broker holds it for this link from now on: the link's end gives it back uncounted.
            self._peer.next(lambda: self._too_large(tag))
            return
        delivery = self._send(tag, data)
        if self._removes:
            self._peer.next(lambda: self._broker.settle(self._subscription, tag, SettlementEvent.ACCEPTED, self._wake))
        elif not self._settled:
            self._unsettled[tag] = delivery
            self._tags[delivery] = tag

    def _too_large(self, tag: int) -> None:
        self._broker.settle(self._subscription, tag, SettlementEvent.RELEASED, self._wake)
        self._refuse_size()

    def _confirm(self, tag: int, state: int) -> None:
        """The outcome is on disk: the same outcome back, settled (section 2.6.12), if the peer still waits for it."""
        delivery = self._unsettled.pop(tag, None)
        self._enlisted.pop(tag, None)
        if delivery is not None:
            del self._tags[delivery]
            pn.pn_delivery_update(delivery, state)
            pn.pn_delivery_settle(delivery)
            self._fewer()
            self._wake()

    def _fewer(self) -> None:
        """There is room again below a prefetch limit."""
        if self._limited:
            self._broker.more_credit(self._subscription)


class Browsing(Sending):
    """A link with distribution-mode copy (section 3.5.7): messages are shown in order, and none is acquired.

    It shows what is stored when there is credit; what comes later is shown when the peer sends its next flow.
    """

    def __init__(self, engine: Any, peer: AmqpPeer, queue: Queue) -> None:
        super().__init__(engine, peer, queue)
        self._shown = 0
        self._tag = 0
        self._rest: Iterator[Message] | None = None

    def flow(self) -> None:
        """Shows as much as there is credit for; a drain ends with the last message."""
        if self._rest is None:
            self._rest = self._broker.browse(self._queue)
        while self.open and self._credit() > 0:
            message = next(self._rest, None)
            if message is None:
                self._rest = None
                self._drained()
                break
            if message.number > self._shown:
                self._show(message)
        self._wake()

    def _show(self, message: Message) -> None:
        data = self._broker.encoded(message)
        if len(data) > self._limit:
            self._refuse_size()
            return
        self._shown = message.number
        self._tag += 1
        self._send(self._tag, data)

    def delivery(self, delivery: Any) -> None:
        """Settle the delivery with any outcome; the queue does not change."""
        if pn.pn_delivery_settled(delivery) or pn.pn_delivery_remote_state(delivery) in _TRANSFERRED:
            pn.pn_delivery_update(delivery, pn.pn_delivery_remote_state(delivery))
            pn.pn_delivery_settle(delivery)
            self._wake()
