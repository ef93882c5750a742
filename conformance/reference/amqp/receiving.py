"""Links on which the client sends: messages for queues, with or without a publish window, and transactions (4.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cproton as pn

from conformance.reference.amqp import attach, states
from conformance.reference.amqp.attach import is_urgent
from conformance.reference.amqp.links import OVERHEAD, AmqpLink, AmqpPeer
from conformance.reference.core import sections
from conformance.reference.core.admission import LIMIT, SIZE, Refusal
from conformance.reference.core.confirms import Confirms
from conformance.reference.core.queues import Queue, Transaction
from conformance.reference.core.sections import DecodeError, Parsed, parse
from conformance.reference.profiles import Publishing

CREDIT = 1000
RETRACTION_DELAY = 0.02
"""Seconds between the two answers of the liar that retracts: time for the peer to read the first."""

_SCRATCH = bytearray(256 * 1024)
_VIEW = memoryview(_SCRATCH)
_POINTER = pn.ffi.from_buffer(_SCRATCH)
"""The engine's bytes are copied here, and from here once more: its own wrapper copies them three times."""


class Receiving(AmqpLink):
    """A link on which the peer sends, and is given credit for what it has sent (section 2.6.7).

    In receiver-settle-mode second the client settles first: the broker sends its outcome, keeps the delivery in
    `_unsettled`, and settles after the client (2.6.12).
    """

    max_bytes = 1 << 62

    def __init__(self, engine: Any, peer: AmqpPeer, *, credit: int = CREDIT) -> None:
        super().__init__(engine, peer)
        self._most = credit
        self._worth = credit // 2
        self._second = pn.pn_link_rcv_settle_mode(engine) == pn.PN_RCV_SECOND
        self._unsettled: set[Any] = set()
        self._parts: list[bytes] = []
        self._size = 0
        self._left = credit
        pn.pn_link_flow(engine, credit)

    def delivery(self, delivery: Any) -> None:
        """A whole transfer is taken; a part of one waits for the rest, an aborted one is forgotten."""
        if pn.pn_delivery_aborted(delivery):
            self._forget_parts()
            pn.pn_delivery_settle(delivery)
            self._used()
        elif pn.pn_delivery_readable(delivery):
            self._read(delivery)
        elif delivery in self._unsettled and pn.pn_delivery_settled(delivery):
            self._unsettled.discard(delivery)
            pn.pn_delivery_settle(delivery)
            self._peer.next(self._replenish)

    def _read(self, delivery: Any) -> None:
        partial = pn.pn_delivery_partial(delivery)
        data = self._bytes(delivery)
        if partial or self._parts:
            if not self._add_part(delivery, data) or partial:
                return
            data = b"".join(self._parts)
            self._forget_parts()
        elif len(data) > self.max_bytes:
            self._refuse_size(delivery)
            return
        pn.pn_link_advance(self.engine)
        self._used()
        if self.open:
            self._take(delivery, data, settled=pn.pn_delivery_settled(delivery))

    def _bytes(self, delivery: Any) -> bytes:
        pending = pn.pn_delivery_pending(delivery)
        read = pn.lib.pn_link_recv(self.engine, _POINTER, len(_SCRATCH))
        data = bytes(_VIEW[: max(read, 0)])
        while 0 < read < pending:
            pending -= read
            read = pn.lib.pn_link_recv(self.engine, _POINTER, len(_SCRATCH))
            data += _VIEW[: max(read, 0)]
        return data

    def _add_part(self, delivery: Any, data: bytes) -> bool:
        """Keeps a part; false if it made the message, or all that have come in part, too large to be kept."""
        self._parts.append(data)
        self._size += len(data)
        self._peer.partial += len(data)
        self._broker.unfinished += len(data)
        if self._size > self.max_bytes:
            self._refuse_size(delivery)
        elif self._peer.partial > 2 * self._broker.settings.max_message_bytes:
            pn.pn_delivery_settle(delivery)
            self.refuse(Refusal(LIMIT, "too many bytes of messages have come in part on this connection"))
        elif self._broker.unfinished > self._broker.settings.max_unfinished_bytes:
            pn.pn_delivery_settle(delivery)
            self.refuse(Refusal(LIMIT, "too many bytes of messages have come in part (max_unfinished_bytes)"))
        return self.open

    def _refuse_size(self, delivery: Any) -> None:
        # Settled: the engine drops what still comes of it.
        pn.pn_delivery_settle(delivery)
        self.refuse(Refusal(SIZE, f"a message has at most {self.max_bytes} bytes"))

    def _used(self) -> None:
        """One credit was used: at half of it there is new credit, from the next flow on and no earlier."""
        self._left -= 1
        if self._left == self._most // 2:
            self._peer.next(self._replenish)
        elif self._left < 0:
            self.refuse(Refusal("amqp:link:transfer-limit-exceeded", "a transfer came without credit"))

    def _replenish(self) -> None:
        missing = self._most - self._left - len(self._unsettled) - self._held()
        if self.open and missing >= self._worth:
            self._left += missing
            pn.pn_link_flow(self.engine, missing)

    def _held(self) -> int:
        """How many deliveries hold their credit until they are answered."""
        return 0

    def _take(self, delivery: Any, data: bytes, *, settled: bool) -> None:
        raise NotImplementedError

    def _settle(self, delivery: Any) -> None:
        """Disposition with settled=true (section 2.6.12), or in mode second with false, until the peer has settled."""
        if self._second and not pn.pn_delivery_settled(delivery):
            self._unsettled.add(delivery)
        else:
            pn.pn_delivery_settle(delivery)
        self._wake()

    def _reject(self, delivery: Any, condition: str, description: str) -> None:
        states.reject(delivery, condition, description)
        self._settle(delivery)

    def _forget_parts(self) -> None:
        self._peer.partial -= self._size
        self._broker.unfinished -= self._size
        self._size = 0
        self._parts.clear()

    def _release(self) -> None:
        self._forget_parts()


class Incoming(Receiving):
    """A publisher's link: every send is answered as soon as it is stored, in any order.

    `queue` is None for the anonymous terminus: each message goes where its property `to` says.
    """

    def __init__(self, engine: Any, peer: AmqpPeer, queue: Queue | None, *, credit: int = CREDIT) -> None:
        super().__init__(engine, peer, credit=credit)
        self._queue = queue
        self.max_bytes = self._broker.settings.max_message_bytes

    def _take(self, delivery: Any, data: bytes, *, settled: bool) -> None:
        try:
            identity = self._identity(delivery)
            parsed = parse(data)
            queue = self._queue or self._addressed(parsed)
        except DecodeError as error:
            self._refused(delivery, Refusal("amqp:decode-error", str(error)), settled=settled)
        except _Unacceptable as error:
            self._refused(delivery, error.refusal, settled=settled)
        else:
            self._publish(delivery, queue, parsed, identity, settled=settled)

    def _identity(self, delivery: Any) -> bytes | None:
        if pn.pn_delivery_remote_state(delivery) != states.TRANSACTIONAL:
            return None
        identity = states.read_transactional_state(delivery).identity
        if identity not in self._peer.transactions:
            raise _Unacceptable(Refusal(states.UNKNOWN_ID, "no such transaction is open on this connection"))
        return identity

    def _addressed(self, parsed: Parsed) -> Queue:
        name = sections.addressee(parsed.bare)
        if not name:
            raise _Unacceptable(Refusal("amqp:precondition-failed", "a message without to needs a link with a target"))
        found = attach.find_queue(self._broker, name)
        if isinstance(found, Refusal):
            raise _Unacceptable(found)
        return found

    def _publish(self, delivery: Any, queue: Queue, parsed: Parsed, identity: bytes | None, *, settled: bool) -> None:
        urgent = identity is None and not settled and self._arrived(delivery, parsed)
        peer = self._peer
        owed = len(parsed.bare) + OVERHEAD
        peer.unstored += owed
        send = 0 if settled else self._broker.next_send()

        def stored() -> None:
            peer.unstored -= owed
            if settled:
                self._wake()
            elif self.open and self._broker.behaviour.answers(send):
                self._accept(delivery, identity, retract=self._broker.behaviour.retracts(send))

        def refused(refusal: Refusal) -> None:
            peer.unstored -= owed
            if self.open and self._broker.behaviour.answers(send):
                self._refused(delivery, refusal, settled=settled, identity=identity)

        transaction: Transaction | None = peer.transactions[identity] if identity is not None else None
        self._broker.publish(queue, parsed, stored, transaction, refused=refused, urgent=urgent, sender=peer)
        if settled and self.open:
            pn.pn_delivery_settle(delivery)

    def _arrived(self, delivery: Any, parsed: Parsed) -> bool:
        """An unsettled transfer outside a transaction is about to be stored; whether it asks for an answer at once."""
        return False

    def _accept(self, delivery: Any, identity: bytes | None, *, retract: bool) -> None:
        """The one place where a confirm leaves."""
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

    def _refused(self, delivery: Any, refusal: Refusal, *, settled: bool, identity: bytes | None = None) -> None:
        """Rejected, in its transaction (section 4.4.1).

        What was sent settled has no answer, and is not dropped in silence: the link ends.
        """
        if settled:
            self.refuse(refusal)
        elif identity is not None and self._broker.behaviour.refuses_in_transactions:
            states.provisional(delivery, identity, pn.PN_REJECTED, refusal)
            self._settle(delivery)
        else:
            self._reject(delivery, *refusal)


class _Unacceptable(Exception):
    """A transfer that is rejected, and why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.description)
        self.refusal = refusal


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

    def _refused(self, delivery: Any, refusal: Refusal, *, settled: bool, identity: bytes | None = None) -> None:
        if delivery not in self._confirms:
            super()._refused(delivery, refusal, settled=settled, identity=identity)
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


class Coordinator(Receiving):
    """A control link. Its transactions can be used on all links of the connection, and end with it."""

    max_bytes = 64 * 1024

    def __init__(self, engine: Any, peer: AmqpPeer) -> None:
        super().__init__(engine, peer)
        self._declared: dict[bytes, Transaction] = {}

    def _release(self) -> None:
        """Roll back each transaction that was declared and not discharged (section 4.1)."""
        super()._release()
        for identity in list(self._declared):
            self._broker.abandon(self._close(identity))

    def _take(self, delivery: Any, data: bytes, *, settled: bool) -> None:
        """A declare or a discharge; one that is sent settled is not answered, so that such a declare does nothing."""
        asked = states.body(data)
        code = asked.code if asked is not None else None
        if asked is not None and code == states.DISCHARGE:
            self._discharge(delivery, asked)
        elif asked is None or code != states.DECLARE:
            self._reject(delivery, "amqp:decode-error", "the message is no declare and no discharge")
        elif settled or states.is_global(asked):
            self._reject(delivery, "amqp:not-implemented", "there are no transactions that are global or unanswered")
        elif len(self._peer.transactions) >= (most := self._broker.settings.max_transactions):
            self._reject(delivery, LIMIT, f"a connection has at most {most} open transactions")
        else:
            self._declare(delivery)

    def _declare(self, delivery: Any) -> None:
        transaction = self._broker.begin()
        identity = transaction.number.to_bytes(8, "big")
        self._declared[identity] = self._peer.transactions[identity] = transaction
        states.answer_declare(delivery, identity)
        self._settle(delivery)

    def _discharge(self, delivery: Any, asked: states.Described) -> None:
        identity, failed = states.discharge(asked)
        if identity not in self._declared:
            self._reject(delivery, states.UNKNOWN_ID, "no such transaction is open on this link")
        elif not failed:
            self._commit(delivery, self._close(identity))
        elif self._broker.behaviour.refuses_rollbacks:
            self._reject(delivery, "amqp:internal-error", "the transaction cannot be rolled back")
        else:
            self._broker.rollback(self._close(identity), lambda: self._accept(delivery))

    def _commit(self, delivery: Any, transaction: Transaction) -> None:
        """Commit; a refused commit has rolled back, and the client gets the reason (section 4.3)."""

        def refused(refusal: Refusal) -> None:
            if self.open:
                self._reject(delivery, states.ROLLBACK, refusal.description)

        self._broker.commit(transaction, lambda: self._accept(delivery), refused)

    def _close(self, identity: bytes) -> Transaction:
        del self._peer.transactions[identity]
        return self._declared.pop(identity)

    def _accept(self, delivery: Any) -> None:
        if self.open:
            pn.pn_delivery_update(delivery, pn.PN_ACCEPTED)
            self._settle(delivery)
