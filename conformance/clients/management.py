"""Ask the management of a broker: over HTTP, by AMQP or by its command, for depths and alarms, and to remove a queue.

It uses a connection of its own: so a STOMP or JMS client asks in the same way, and its own traffic does not change.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import subprocess
from collections import deque
from collections.abc import Mapping
from typing import Any

from proton import Delivery, Message, symbol

from conformance import limits
from conformance.adapters import web
from conformance.adapters.credentials import Access
from conformance.adapters.file.launch_tables import Remove
from conformance.adapters.interface import DepthProbe
from conformance.clients.session import Disconnected, Refused
from conformance.errors import ClientError
from conformance.ledger import child_environment
from conformance.protocols.amqp.sessions.connection import AmqpClientConnection, decode

_ANSWER_S = 30.0


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
        with contextlib.suppress(Refused):  # a refusal that comes so late changes no answer
            self._connection.close()

    def _on_delivery(self, link: Any, delivery: Any) -> None:
        if link.is_sender:
            if delivery.remote_state or delivery.settled:
                delivery.settle()
        elif delivery.readable and not delivery.partial:
            self._replies.append(decode(link, delivery))
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()


def remove(request: Remove, host: str, port: int, access: Access) -> str:
    """Remove one queue by its request. Return why it is still there; empty if it is gone."""
    try:
        management = Management(host, port, request.address, access, "conformance-remove", relayed=False)
        try:
            answer = management.ask(request.properties, request.body, within_s=request.seconds)
        finally:
            management.close()
    except (ClientError, Disconnected) as error:
        return f"{request.address}: {error}"
    if answer is None:
        return f"{request.address} did not answer within {request.seconds:g} s"
    text = limits.quote(answer.body)
    properties: dict[str, Any] = dict(answer.properties or {})
    said = str(properties.get(request.field)).lower()
    if (request.absent and request.absent in text) or said == request.value or not request.field:
        return ""
    return f"{request.address} answered without {request.field} {request.value}: {text}"


class DepthClient:
    """Asks as the adapter declares; connects at the first question.

    Args:
        probe: How to ask; None if the adapter declares no way.
        name: AMQP container id of its connection.
    """

    def __init__(self, probe: DepthProbe | None, name: str) -> None:
        self._probe, self._name = probe, name
        self._management: Management | None = None

    def ask(self, queue: str) -> int:
        """Return the messages on `queue`, with those that are delivered and not acknowledged if the broker counts them.

        Raises:
            ClientError: No way to ask, or no answer.
            Disconnected: The management connection was lost.
        """
        probe = self._probe
        if probe is None:
            raise ClientError(f"the adapter declares no way to ask for the depth of {queue}")
        if probe.method == "http":
            return _over_http(probe)
        if probe.method == "command":
            return _by_command(probe)
        return _number_of(probe, self._reply(probe))

    def text(self, *, of_error: bool = False) -> str:
        """Return the whole answer: JSON, if the broker does as its file says.

        Raises `ClientError` for an HTTP error status, unless its text is wanted too (`of_error`). Artemis answers with
        a JSON list that holds the text.
        """
        probe = self._probe
        assert probe is not None  # callers check that the file declares a way
        if probe.method == "command":
            return _output(probe).stdout
        if probe.method == "http":
            status, said = _answered(probe)
            if status >= 300 and not of_error:
                raise ClientError(f"{web.without_login(probe.url)} answered {status}")
            return said
        reply = self._reply(probe)
        if isinstance(reply, str) and reply.startswith("["):
            with contextlib.suppress(LookupError, ValueError, RecursionError):  # no such list: it is the answer
                reply = json.loads(reply)[0]
        return reply if isinstance(reply, str) else json.dumps(reply, default=str)

    def _reply(self, probe: DepthProbe) -> Any:
        if self._management is None:
            self._management = Management(
                probe.host, probe.port, probe.address, probe.access, self._name, relayed=probe.relayed
            )
        answer = self._management.ask(probe.properties, probe.body or None, within_s=_ANSWER_S)
        if answer is None:
            needs = f". It needs {probe.needs}" if probe.needs else ""
            raise ClientError(f"the broker did not answer a management request ({probe.address}){needs}")
        return answer.body

    def close(self) -> None:
        """Close the connection, if any; a second call does nothing."""
        if self._management is not None:
            self._management.close()
            self._management = None


def _answered(probe: DepthProbe) -> tuple[int, str]:
    try:
        return web.ask("GET", probe.url, timeout_s=_ANSWER_S, access=probe.access)
    except OSError as error:
        raise ClientError(f"{web.without_login(probe.url)} gives no answer: {error}") from error


def _over_http(probe: DepthProbe) -> int:
    status, text = _answered(probe)
    try:
        return sum(int(web.field_of(text, place)) for place in probe.field.split("+"))
    except ValueError as error:
        why = f"{limits.quote(error)}; status {status}"
        raise ClientError(f"[depth] {web.without_login(probe.url)} gives no number: {why}") from error


def _output(probe: DepthProbe) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            probe.command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env=child_environment(),
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClientError(f"{pathlib.PurePath(probe.command[0]).name} gives no answer: {error}") from error


def _by_command(probe: DepthProbe) -> int:
    name, done = pathlib.PurePath(probe.command[0]).name, _output(probe)
    found = re.search(probe.pattern, done.stdout) if not done.returncode else None
    if found is None or not found[1].isdecimal():
        said = limits.quote(" ".join((done.stdout + done.stderr).split())[-300:])
        raise ClientError(f"[depth] {name} gives no number ({probe.pattern}): status {done.returncode}: {said}")
    return int(found[1])


def _number_of(probe: DepthProbe, body: Any) -> int:
    """Return the depth in an answer: a map with it, a JSON list with it as first item, or the depth itself."""
    if isinstance(body, dict):
        if probe.field not in body:
            names = limits.quote(sorted(map(str, body)))
            raise ClientError(f"[depth] {probe.address} answers no {probe.field}: {names}")
        found = body[probe.field]
    else:
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # not JSON: it may be the number
            body = json.loads(body)
        found = body[0] if isinstance(body, list) and body else body
    try:
        return int(found)
    except (TypeError, ValueError, OverflowError) as error:
        said = limits.quote(repr(found))
        raise ClientError(f"[depth] {probe.address} answers no number of messages: {said}") from error
