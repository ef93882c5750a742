"""How many messages a queue holds, by the broker's own word: over HTTP, or over AMQP messages to its management.

A connection of its own: a client that speaks STOMP or JMS asks in the same way, and its own broker traffic stays as
it is.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from proton import Delivery, Endpoint, Event, Message, symbol

from conformance import limits
from conformance.adapters import web
from conformance.clients.amqp import decoded
from conformance.clients.job import DepthProbe
from conformance.clients.session import Refused
from conformance.clients.wire import Wire
from conformance.errors import ClientError

_ANSWER_S = 30.0


class DepthGauge:
    """Asks as the adapter declares; connects when it is asked for the first time.

    Args:
        probe: How to ask; None where the adapter declares no way.
        name: AMQP container id of its connection.
    """

    def __init__(self, probe: DepthProbe | None, name: str) -> None:
        self._probe, self._name = probe, name
        self._management: _Management | None = None

    def ask(self, queue: str) -> int:
        """Messages on `queue`, those that are delivered and not acknowledged included where the broker counts them.

        Raises:
            ClientError: No way to ask, or no answer.
            Disconnected: The management connection was lost.
        """
        probe = self._probe
        if probe is None:
            raise ClientError(f"the adapter declares no way to ask for the depth of {queue}")
        if probe.method == "http":
            return _over_http(probe)
        if self._management is None:
            self._management = _Management(probe, self._name)
        return self._management.ask()

    def text(self) -> str:
        """The whole answer, which is JSON. Raises `ClientError`, also for an answer in HTTP that is no success."""
        probe = self._probe
        assert probe is not None  # asked only where the file says how
        if probe.method == "http":
            status, said = _answered(probe)
            if status >= 300:
                raise ClientError(f"{web.shown(probe.url)} answered {status}")
            return said
        self._management = self._management or _Management(probe, self._name)
        reply = self._management.reply()
        first = json.loads(reply)[0] if isinstance(reply, str) and reply.startswith("[") else reply
        return first if isinstance(first, str) else json.dumps(first)

    def close(self) -> None:
        """Close the connection, if there is one; a second call does nothing."""
        if self._management is not None:
            self._management.close()
            self._management = None


def _answered(probe: DepthProbe) -> tuple[int, str]:
    try:
        return web.ask("GET", probe.url, timeout_s=_ANSWER_S, tls=probe.access.tls)
    except OSError as error:
        raise ClientError(f"{web.shown(probe.url)} gives no answer: {error}") from error


def _over_http(probe: DepthProbe) -> int:
    status, text = _answered(probe)
    try:
        return int(web.field_of(text, probe.field))
    except ValueError as error:
        why = f"{limits.quoted(error)}; status {status}"
        raise ClientError(f"[depth] {web.shown(probe.url)} gives no number: {why}") from error


class _Management:
    """One connection with a sender to the management address and a receiver for the answers."""

    def __init__(self, probe: DepthProbe, name: str) -> None:
        self._probe = probe
        self._replies: deque[Any] = deque()
        self._requests = 0
        self._closing = False
        self._wire = Wire(
            probe.host, probe.port, name, dispatch=self._dispatch, before_write=_nothing, access=probe.access
        )
        try:
            session = self._wire.connection.session()
            session.open()
            self._receiver = session.receiver("management-replies")
            self._receiver.source.dynamic = True
            self._open(self._receiver)
            self._receiver.flow(10)
            self._sender = session.sender("management")
            self._sender.target.address = probe.address
            self._sender.target.capabilities.put_object(symbol("queue"))
            self._open(self._sender)
        except BaseException:
            self.close()
            raise

    def reply(self) -> Any:
        """The body of the answer to one request."""
        self._requests += 1
        reply_to = self._receiver.remote_source.address
        self._sender.delivery(f"management-{self._requests}")
        body = self._probe.body or None
        self._sender.stream(Message(body=body, reply_to=reply_to, properties=dict(self._probe.properties)).encode())
        self._sender.advance()
        if not self._wire.pump_until(lambda: bool(self._replies), _ANSWER_S):
            raise ClientError(f"the broker did not answer a management request ({self._probe.address})")
        self._receiver.flow(1)
        return self._replies.popleft()

    def ask(self) -> int:
        """One request; the answer is a map that holds the depth, a JSON list whose first item it is, or the depth."""
        reply = self.reply()
        if isinstance(reply, dict):
            if self._probe.field not in reply:
                names = limits.quoted(sorted(map(str, reply)))
                raise ClientError(f"[depth] {self._probe.address} answers no {self._probe.field}: {names}")
            return self._number(reply[self._probe.field])
        try:
            body = json.loads(reply)
        except (TypeError, ValueError, RecursionError):
            body = reply
        return self._number(body[0] if isinstance(body, list) and body else body)

    def _number(self, found: Any) -> int:
        try:
            return int(found)
        except (TypeError, ValueError, OverflowError) as error:
            said = limits.quoted(repr(found))
            raise ClientError(f"[depth] {self._probe.address} answers no number of messages: {said}") from error

    def close(self) -> None:
        """Close in order as far as the peer still listens."""
        self._closing = True
        self._wire.close()

    def _open(self, link: Any) -> None:
        link.open()
        if not self._wire.pump_until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE), _ANSWER_S):
            raise ClientError(f"the broker did not answer the attach of {link.name} within {_ANSWER_S:.0f} s")

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
            self._replies.append(decoded(link, delivery).body)
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()


def _nothing() -> None:
    """Nobody records a management request."""
