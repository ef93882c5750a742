"""Ask a broker how many messages a queue holds: over HTTP, or by AMQP messages to its management.

It uses a connection of its own: so a STOMP or JMS client asks in the same way, and its own traffic does not change.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from conformance import limits
from conformance.adapters import web
from conformance.clients.management import Management
from conformance.clients.workers.job import DepthRequest
from conformance.errors import ClientError

_ANSWER_S = 30.0


class DepthGauge:
    """Asks as the adapter declares; connects at the first question.

    Args:
        probe: How to ask; None if the adapter declares no way.
        name: AMQP container id of its connection.
    """

    def __init__(self, probe: DepthRequest | None, name: str) -> None:
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
        return _number_of(probe, self._reply(probe))

    def text(self) -> str:
        """Return the whole answer, which is JSON; raise `ClientError` also for an HTTP error status."""
        probe = self._probe
        assert probe is not None  # callers check that the file declares a way
        if probe.method == "http":
            status, said = _answered(probe)
            if status >= 300:
                raise ClientError(f"{web.shown(probe.url)} answered {status}")
            return said
        reply = self._reply(probe)
        first = json.loads(reply)[0] if isinstance(reply, str) and reply.startswith("[") else reply
        return first if isinstance(first, str) else json.dumps(first)

    def _reply(self, probe: DepthRequest) -> Any:
        """Return the body of the answer to one management request."""
        if self._management is None:
            self._management = Management(
                probe.host, probe.port, probe.address, probe.access, self._name, relayed=probe.relayed
            )
        answer = self._management.ask(dict(probe.properties), probe.body or None, within_s=_ANSWER_S)
        if answer is None:
            needs = f". It needs {probe.needs}" if probe.needs else ""
            raise ClientError(f"the broker did not answer a management request ({probe.address}){needs}")
        return answer.body

    def close(self) -> None:
        """Close the connection, if any; a second call does nothing."""
        if self._management is not None:
            self._management.close()
            self._management = None


def _answered(probe: DepthRequest) -> tuple[int, str]:
    try:
        return web.ask("GET", probe.url, timeout_s=_ANSWER_S, access=probe.access)
    except OSError as error:
        raise ClientError(f"{web.shown(probe.url)} gives no answer: {error}") from error


def _over_http(probe: DepthRequest) -> int:
    status, text = _answered(probe)
    try:
        return int(web.field_of(text, probe.field))
    except ValueError as error:
        why = f"{limits.quoted(error)}; status {status}"
        raise ClientError(f"[depth] {web.shown(probe.url)} gives no number: {why}") from error


def _number_of(probe: DepthRequest, body: Any) -> int:
    """Return the depth in an answer: a map with it, a JSON list with it as first item, or the depth itself."""
    if isinstance(body, dict):
        if probe.field not in body:
            names = limits.quoted(sorted(map(str, body)))
            raise ClientError(f"[depth] {probe.address} answers no {probe.field}: {names}")
        found = body[probe.field]
    else:
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # not JSON: it may be the number
            body = json.loads(body)
        found = body[0] if isinstance(body, list) and body else body
    try:
        return int(found)
    except (TypeError, ValueError, OverflowError) as error:
        said = limits.quoted(repr(found))
        raise ClientError(f"[depth] {probe.address} answers no number of messages: {said}") from error
