"""The coordinator of AMQP 1.0 (section 4.3): a link on which a peer declares and discharges its transactions."""

from __future__ import annotations

from typing import Any

import cproton as pn

from conformance.reference.amqp import states
from conformance.reference.amqp.links import AmqpPeer
from conformance.reference.amqp.receiving import Receiving
from conformance.reference.core.refusal import LIMIT, Refusal
from conformance.reference.core.transactions import Transaction


class Coordinator(Receiving):
    """A control link. Its transactions can be used on all links of the connection, and end with it."""

    max_bytes = 64 * 1024

    def __init__(self, engine: Any, peer: AmqpPeer) -> None:
        super().__init__(engine, peer)
        self._declared: dict[bytes, Transaction] = {}

    def _release(self) -> None:
        """What it declared and nobody discharged is rolled back (section 4.1)."""
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
        states.declared(delivery, identity)
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
        """A commit that is refused has rolled back: the peer is told so, and why (section 4.3)."""

        def refused(refusal: Refusal) -> None:
            if self.open:
                self._reject(delivery, states.ROLLBACK, refusal.description)

        self._broker.commit(transaction, lambda: self._accept(delivery), refused)

    def _close(self, identity: bytes) -> Transaction:
        """No more work is taken into it."""
        del self._peer.transactions[identity]
        return self._declared.pop(identity)

    def _accept(self, delivery: Any) -> None:
        if self.open:
            pn.pn_delivery_update(delivery, pn.PN_ACCEPTED)
            self._settle(delivery)
