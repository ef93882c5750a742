"""Requests to a management address over AMQP: for the depth of a queue, and to remove one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from proton import Delivery, Endpoint, Event, Message, symbol

from conformance import limits
from conformance.adapters.credentials import Access
from conformance.adapters.external import leftovers
from conformance.adapters.external.leftovers import Removal
from conformance.clients.amqp.connection import Wire
from conformance.clients.amqp.session import decoded
from conformance.clients.session import Disconnected, Refused
from conformance.errors import ClientError

_ATTACH_S = 30.0


class Management:
    """One connection with a sender to the management address and a receiver for the answers.

    With `relayed` requests go to that address without a link to it (AMQP 1.0, Anonymous Terminus): a link would make
    ActiveMQ Classic create a queue of that name, and leave it there. Artemis answers requests over a link only.

    Raises `ClientError` or `Disconnected` if the broker does not let it in.
    """

    def __init__(self, host: str, port: int, address: str, access: Access, name: str, *, relayed: bool) -> None:
        self._replies: deque[Any] = deque()
        self._requests = 0
        self._closing = False
        self._wire = Wire(host, port, name, dispatch=self._dispatch, before_write=_nothing, access=access)
        try:
            session = self._wire.connection.session()
            session.open()
            self._receiver = session.receiver("management-replies")
            self._receiver.source.dynamic = True
            self._open(self._receiver)
            self._receiver.flow(10)
            self._sender = session.sender("management")
            self._to = address
            if not relayed:
                self._sender.target.address = address
                self._sender.target.capabilities.put_object(symbol("queue"))
            self._open(self._sender)
        except BaseException:
            self.close()
            raise

    def ask(self, properties: Mapping[str, str], body: str | None = None, *, within_s: float) -> Message | None:
        """Send one request; return its answer, None if there is none within that time."""
        self._requests += 1
        reply_to = self._receiver.remote_source.address
        self._sender.delivery(f"management-{self._requests}")
        self._sender.stream(self._request(str(reply_to), properties, body).encode())
        self._sender.advance()
        if not self._wire.pump_until(lambda: bool(self._replies), within_s):
            return None
        self._receiver.flow(1)
        answer: Message = self._replies.popleft()
        return answer

    def close(self) -> None:
        """Close in order as far as the peer still listens."""
        self._closing = True
        self._wire.close()

    def _request(self, reply_to: str, properties: Mapping[str, str], body: str | None) -> Message:
        return Message(address=self._to, reply_to=reply_to, properties=dict(properties), body=body)

    def _open(self, link: Any) -> None:
        link.open()
        if not self._wire.pump_until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE), _ATTACH_S):
            raise ClientError(f"the broker did not answer the attach of {link.name} within {_ATTACH_S:.0f} s")

    def _dispatch(self, event: Any) -> None:
        if self._closing:
            return  # an event that raised comes again, and was told
        if event.type == Event.DELIVERY:
            self._on_delivery(event.link, event.delivery)
        elif event.type in (Event.LINK_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE, Event.CONNECTION_REMOTE_CLOSE):
            endpoint = event.context
            if endpoint.remote_condition is not None and endpoint.state & Endpoint.LOCAL_ACTIVE:
                condition = endpoint.remote_condition
                raise Refused(f"the broker closed a {type(endpoint).__name__.lower()}: {condition}")

    def _on_delivery(self, link: Any, delivery: Any) -> None:
        if link.is_sender:
            if delivery.remote_state or delivery.settled:
                delivery.settle()
        elif delivery.readable and not delivery.partial:
            self._replies.append(decoded(link, delivery))
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()


def _nothing() -> None:
    """No history records a management request."""


@leftovers.by_amqp
def remove(how: Removal) -> str:
    """Remove one queue. Return why it is still there, empty where it is gone."""
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
