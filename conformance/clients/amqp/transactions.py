"""The controlling end of AMQP 1.0 transactions (section 4): declare, discharge, and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cproton import pn_data_clear, pn_disposition_data
from proton import Delivery, Described, Message, Terminus, symbol, ulong

from conformance.clients.session import OperationAnswer
from conformance.errors import ClientError
from conformance.history import Op, Phase

TRANSACTIONAL = 0x34
"""Code of the delivery state `transactional-state` (section 4.5.8)."""

_DECLARED = 0x33


class TransactionController:
    """One control link. Callers use our names of transactions; the broker's ids stay in here.

    Args:
        attach: Attaches the control link. Called once, when the first transaction is declared.
    """

    def __init__(self, attach: Callable[[], Any]) -> None:
        self._attach = attach
        self._link: Any = None
        self._ids: dict[str, Any] = {}
        self._asked: dict[Any, tuple[Op, str]] = {}  # by proton's delivery
        self._tags = 0

    def owns(self, link: Any) -> bool:
        """Whether `link` is the control link."""
        return self._link is not None and bool(link == self._link)

    def declare(self, name: str) -> None:
        """Ask for a transaction."""
        self._ask(Op.BEGIN, name, Described(symbol("amqp:declare:list"), [None]))

    def discharge(self, op: Op, name: str) -> None:
        """Ask to commit, or to roll back (`fail` set)."""
        body = [self.identity(name), op is Op.ROLLBACK]
        self._ask(op, name, Described(symbol("amqp:discharge:list"), body))

    def identity(self, name: str) -> Any:
        """Return the broker's id of a declared transaction."""
        if name not in self._ids:
            raise ClientError(f"transaction {name} was not declared")
        return self._ids[name]

    def answered(self, delivery: Any) -> OperationAnswer | None:
        """Return what a disposition on the control link answers; None if it answers no request of ours."""
        asked = self._asked.get(delivery)
        if asked is None or not (delivery.remote_state or delivery.settled):
            return None
        del self._asked[delivery]
        op, name = asked
        state = delivery.remote_state
        data = list(delivery.remote.data or [])
        if state == _DECLARED and op is Op.BEGIN and data:
            self._ids[name] = data[0]
        delivered = state == (_DECLARED if op is Op.BEGIN else Delivery.ACCEPTED)
        condition = delivery.remote.condition
        delivery.settle()
        if delivered:
            return OperationAnswer(op, name, Phase.OK)
        return OperationAnswer(op, name, Phase.FAIL, str(condition or f"state {int(state)}"))

    def outcome(self, delivery: Any) -> int:
        """Return the provisional outcome in a transactional state (section 4.5.8); 0 if it has none."""
        data = list(delivery.remote.data or [])
        inner = data[1] if len(data) > 1 else None
        return int(inner.descriptor) if isinstance(inner, Described) and isinstance(inner.descriptor, int) else 0

    def enlist(self, delivery: Any, name: str, outcome: int | None = None) -> None:
        """Make a transfer, or an outcome, part of a transaction (sections 4.4.1 and 4.4.2)."""
        pn_data_clear(pn_disposition_data(delivery.local._impl))  # proton appends to the data of an earlier update
        state = [] if outcome is None else [Described(ulong(outcome), [])]
        delivery.local.data = [self.identity(name), *state]
        delivery.update(TRANSACTIONAL)

    def _ask(self, op: Op, name: str, body: Described) -> None:
        if self._link is None:
            self._link = self._attach()
        self._tags += 1
        delivery = self._link.delivery(f"txn-{self._tags}")
        self._link.stream(Message(body=body).encode())
        self._link.advance()
        self._asked[delivery] = (op, name)


def coordinator_link(session: Any, name: str) -> Any:
    """Return a sender to the coordinator that asks for local transactions (section 4.5.1); it is not open yet."""
    link = session.sender(name)
    link.target.type = Terminus.COORDINATOR
    link.target.capabilities.put_object(symbol("amqp:local-transactions"))
    return link
