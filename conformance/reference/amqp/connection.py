"""AMQP 1.0 on proton's engine: bytes in, bytes out, one `Connection` a socket.

The engine is used through `cproton`, the function layer beneath proton's classes: importing the classes takes 60 ms of
a start where `cproton` takes 13 ms, and they build up to five wrapper objects an event.

An engine pointer is valid until its link is freed, so every callback that may come later asks its link first.
"""

from __future__ import annotations

from collections.abc import Callable

import cproton as pn

from conformance.reference.amqp.coordinator import Coordinator, accept
from conformance.reference.amqp.links import Incoming, Link, Outgoing, Peer
from conformance.reference.amqp.states import explain
from conformance.reference.core.broker import Broker

PREFERRED_FRAME = 256 * 1024
_CHUNK = 256 * 1024

NOT_FOUND = "amqp:not-found"
NOT_IMPLEMENTED = "amqp:not-implemented"
FORCED = "amqp:connection:forced"
"""Condition names of AMQP 1.0 sections 2.8.15 and 2.8.16."""


class Connection:
    """One peer. `wake` is called when `output` may have something; `later` calls back after so many seconds."""

    def __init__(
        self, broker: Broker, wake: Callable[[], None], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._wake = wake
        self._peer = Peer(broker, wake, later, {})
        self._links: dict[int, Link] = {}
        self._collector = pn.pn_collector()
        self._connection = pn.pn_connection()
        self._transport = pn.pn_transport()
        self._alive = True
        pn.pn_connection_set_container(self._connection, "conformance-reference")
        pn.pn_connection_collect(self._connection, self._collector)
        pn.pn_transport_set_server(self._transport)
        pn.pn_transport_set_max_frame(self._transport, PREFERRED_FRAME)
        pn.pn_sasl_allowed_mechs(pn.pn_sasl(self._transport), "ANONYMOUS")
        # Not required: a client may also begin with the AMQP header and no security layer (section 5.3.2).
        pn.pn_transport_require_auth(self._transport, False)
        pn.pn_transport_bind(self._transport, self._connection)

    def receive(self, data: bytes) -> None:
        """Bytes from the peer; malformed ones close the connection with amqp:connection:framing-error by the engine."""
        rest = memoryview(data)
        while rest and self._alive:
            room = pn.pn_transport_capacity(self._transport)
            if room <= 0:
                break
            taken = pn.pn_transport_push(self._transport, rest[:room])
            if taken <= 0:
                break
            rest = rest[taken:]
            self._events()
        self._wake()

    def output(self) -> bytes:
        """The bytes that are now to be sent to the peer, in order."""
        if not self._alive:
            return b""
        parts = []
        while (pending := pn.pn_transport_pending(self._transport)) > 0:
            _, data = pn.pn_transport_peek(self._transport, min(pending, _CHUNK))
            parts.append(data)
            pn.pn_transport_pop(self._transport, len(data))
        self._events()
        return b"".join(parts)

    def tick(self, now: float) -> float | None:
        """Keeps the peer's idle time-out (section 2.4.5): `now` in seconds; when to be called again, None for never."""
        if not self._alive:
            return None
        deadline: int = pn.pn_transport_tick(self._transport, int(now * 1000))
        return deadline / 1000 if deadline else None

    @property
    def closed(self) -> bool:
        """Whether nothing more will be sent, so that the socket may be closed."""
        return not self._alive or pn.pn_transport_pending(self._transport) < 0

    def close(self, condition: str, description: str) -> None:
        """Closes from our side with an error."""
        if self._alive:
            explain(pn.pn_connection_condition(self._connection), condition, description)
            pn.pn_connection_close(self._connection)
            self._wake()

    def lost(self) -> None:
        """The socket is gone: every link ends, and the engine's memory is given back."""
        if not self._alive:
            return
        self._alive = False
        self._end_links(None)
        pn.pn_transport_unbind(self._transport)
        pn.pn_collector_free(self._collector)
        pn.pn_connection_release(self._connection)
        pn.pn_decref(self._connection)
        pn.pn_decref(self._transport)

    def _events(self) -> None:
        while self._alive and not pn.isnull(event := pn.pn_collector_peek(self._collector)):
            handler = _HANDLERS.get(pn.pn_event_type(event))
            if handler is not None:
                handler(self, event)
            pn.pn_collector_pop(self._collector)

    def _on_connection_open(self, event: object) -> None:
        pn.pn_connection_open(self._connection)

    def _on_connection_close(self, event: object) -> None:
        self._end_links(None)
        pn.pn_connection_close(self._connection)

    def _on_session_open(self, event: object) -> None:
        pn.pn_session_open(pn.pn_event_session(event))

    def _on_session_close(self, event: object) -> None:
        session = pn.pn_event_session(event)
        self._end_links(pn.addressof(session))
        pn.pn_session_close(session)
        pn.pn_session_free(session)

    def _on_link_open(self, event: object) -> None:
        engine = pn.pn_event_link(event)
        sending = pn.pn_link_is_sender(engine)
        near, far = (
            (pn.pn_link_source(engine), pn.pn_link_remote_source(engine))
            if sending
            else (pn.pn_link_target(engine), pn.pn_link_remote_target(engine))
        )
        refusal = _refusal(far)
        if refusal is not None:
            # An attach without a terminus, and then the detach that says why (section 2.6.3).
            pn.pn_link_open(engine)
            explain(pn.pn_link_condition(engine), *refusal)
            pn.pn_link_close(engine)
            return
        pn.pn_terminus_set_type(near, pn.pn_terminus_get_type(far))
        pn.pn_link_set_snd_settle_mode(engine, pn.pn_link_remote_snd_settle_mode(engine))
        pn.pn_link_set_rcv_settle_mode(engine, pn.pn_link_remote_rcv_settle_mode(engine))
        session = pn.addressof(pn.pn_link_session(engine))
        if pn.pn_terminus_get_type(far) == pn.PN_COORDINATOR:
            accept(near)
            pn.pn_link_open(engine)
            self._links[pn.addressof(engine)] = Coordinator(engine, session, self._peer)
            return
        address = pn.pn_terminus_get_address(far)
        pn.pn_terminus_set_address(near, address)
        pn.pn_link_open(engine)
        make = Outgoing if sending else Incoming
        self._links[pn.addressof(engine)] = make(engine, session, self._peer, self._peer.broker.queue(address))

    def _on_link_close(self, event: object) -> None:
        engine = pn.pn_event_link(event)
        link = self._links.pop(pn.addressof(engine), None)
        if link is not None:
            link.ended()
        # The same performative as the peer's: a detach is answered by a detach, a close by a close (section 2.6.6).
        if pn.pn_event_type(event) == pn.PN_LINK_REMOTE_DETACH:
            pn.pn_link_detach(engine)
        else:
            pn.pn_link_close(engine)
        pn.pn_link_free(engine)

    def _on_link_flow(self, event: object) -> None:
        link = self._links.get(pn.addressof(pn.pn_event_link(event)))
        if link is not None:
            link.flow()

    def _on_delivery(self, event: object) -> None:
        link = self._links.get(pn.addressof(pn.pn_event_link(event)))
        if link is not None:
            link.delivery(pn.pn_event_delivery(event))

    def _end_links(self, session: int | None) -> None:
        """Control links first: a transaction ends while its consumers' links still hold what it is about."""
        keys = [key for key, link in self._links.items() if session is None or link.session == session]
        for key in sorted(keys, key=lambda key: not isinstance(self._links[key], Coordinator)):
            self._links.pop(key).ended()


_HANDLERS: dict[int, Callable[[Connection, object], None]] = {
    pn.PN_CONNECTION_REMOTE_OPEN: Connection._on_connection_open,
    pn.PN_CONNECTION_REMOTE_CLOSE: Connection._on_connection_close,
    pn.PN_SESSION_REMOTE_OPEN: Connection._on_session_open,
    pn.PN_SESSION_REMOTE_CLOSE: Connection._on_session_close,
    pn.PN_LINK_REMOTE_OPEN: Connection._on_link_open,
    pn.PN_LINK_REMOTE_CLOSE: Connection._on_link_close,
    pn.PN_LINK_REMOTE_DETACH: Connection._on_link_close,
    pn.PN_LINK_FLOW: Connection._on_link_flow,
    pn.PN_DELIVERY: Connection._on_delivery,
}


def _refusal(terminus: object) -> tuple[str, str] | None:
    """Why a link to this source or target is refused: condition and description; None if it is not."""
    if pn.pn_terminus_get_type(terminus) == pn.PN_COORDINATOR:
        return None
    if pn.pn_terminus_is_dynamic(terminus):
        return NOT_IMPLEMENTED, "there are no dynamic nodes"
    if pn.pn_terminus_get_distribution_mode(terminus) == pn.PN_DIST_MODE_COPY:
        return NOT_IMPLEMENTED, "there is no browsing"
    if not pn.pn_terminus_get_address(terminus):
        return NOT_FOUND, "the link names no queue"
    return None
