"""Requests to a management address over AMQP: for the depth of a queue, and to remove one."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Any

from proton import Delivery, Message, symbol

from conformance import limits
from conformance.adapters.credentials import Access
from conformance.adapters.external import leftovers
from conformance.adapters.external.leftovers import Removal
from conformance.clients.amqp.connection import AmqpClientConnection, decoded
from conformance.clients.session import Disconnected, Refused
from conformance.errors import ClientError


class Management:
    """One connection with a sender to the management address and a receiver for the answers.

    With `relayed`, requests go to that address without a link to it (AMQP 1.0, Anonymous Terminus): a link would make
    ActiveMQ Classic create a queue of that name, and leave it there. Artemis answers requests over a link only.

    Raises `ClientError` or `Disconnected` if the broker refuses the connection.
    """

    def __init__(self, host: str, port: int, address: str, access: Access, name: str, *, relayed: bool) -> None:
        self._replies: deque[Any] = deque()
        self._requests = 0
        self._to = address
        self._connection = AmqpClientConnection(host, port, name, on_delivery=self._on_delivery, access=access)
        try:
            session = self._connection.session()
            receiver = session.receiver("management-replies")
            receiver.source.dynamic = True
            self._receiver = self._connection.attach(receiver)
            self._receiver.flow(10)
            sender = session.sender("management")
            if not relayed:
                sender.target.address = address
                sender.target.capabilities.put_object(symbol("queue"))
            self._sender = self._connection.attach(sender)
        except BaseException:
            self.close()
            raise

    def ask(self, properties: Mapping[str, str], body: str | None = None, *, within_s: float) -> Message | None:
        """Send one request; return its answer, None if there is none within that time."""
        self._requests += 1
        reply_to = str(self._receiver.remote_source.address)
        request = Message(address=self._to, reply_to=reply_to, properties=dict(properties), body=body)
        self._sender.delivery(f"management-{self._requests}")
        self._sender.stream(request.encode())
        self._sender.advance()
        if not self._connection.pump_until(lambda: bool(self._replies), within_s):
            return None
        self._receiver.flow(1)
        answer: Message = self._replies.popleft()
        return answer

    def close(self) -> None:
        """Close in order, as far as the peer still listens."""
        with contextlib.suppress(Refused):  # a refusal that comes so late changes no answer
            self._connection.close()

    def _on_delivery(self, link: Any, delivery: Any) -> None:
        if link.is_sender:
            if delivery.remote_state or delivery.settled:
                delivery.settle()
        elif delivery.readable and not delivery.partial:
            self._replies.append(decoded(link, delivery))
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()


@leftovers.by_amqp
def remove(how: Removal) -> str:
    """Remove one queue. Return why it is still there; empty if it is gone."""
    try:
        management = Management(how.host, how.port, how.address, how.access, "conformance-remove", relayed=False)
        try:
            answer = management.ask(how.properties, how.body, within_s=how.seconds)
        finally:
            management.close()
    except (ClientError, Disconnected) as error:
        return f"{how.address}: {error}"
    if answer is None:
        return f"{how.address} did not answer within {how.seconds:g} s"
    text = limits.quoted(answer.body)
    properties: dict[str, Any] = dict(answer.properties or {})
    said = str(properties.get(how.field)).lower()
    if (how.absent and how.absent in text) or said == how.value or not how.field:
        return ""
    return f"{how.address} answered without {how.field} {how.value}: {text}"
