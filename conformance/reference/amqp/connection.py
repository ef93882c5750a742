"""AMQP 1.0 on proton's engine: bytes in, bytes out, one `AmqpConnection` a socket.

The engine is used through `cproton`, the function layer beneath proton's classes: importing the classes takes 60 ms of
a start where `cproton` takes 13 ms, and they build up to five wrapper objects an event. It is made when the AMQP header
has come: a peer that says nothing costs no engine.

An engine pointer is valid until its link is freed, so every callback that may come later asks its link first.

What the engine does not report, so that the broker cannot honour it: the resume of a delivery, the rcv-settle-mode of a
single transfer, and a handle-max of our own (a link too many is refused by a detach).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cproton as pn

from conformance.reference.amqp import attach, states
from conformance.reference.amqp.handshake import AMQP_HEADER, Handshake, farewell
from conformance.reference.amqp.links import MAX_UNSTORED, AmqpLink, AmqpPeer
from conformance.reference.amqp.receiving import Coordinator, Incoming, Windowed
from conformance.reference.amqp.sending import Browsing, Outgoing, Sending
from conformance.reference.core import sections
from conformance.reference.core.admission import LIMIT, Refusal
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.peers import MAX_UNSENT
from conformance.reference.profiles import PLAIN
from conformance.reference.security import OPEN, Guard

MAX_FRAME = 256 * 1024
MAX_SESSIONS = 256
MAX_EVENTS = 5_000
"""Events of the engine in one turn, beyond which other peers have theirs first: one range names a whole queue."""

MAX_DISPOSITION = 4096
"""Bytes of a disposition. The engine keeps its state with each delivery that it names."""

ATTACHED = 1024
"""Bytes of an attach, the average of as many links as there may be. The engine takes 80 times as much."""

OPEN_S = 10.0
"""Seconds in which a peer has to open its connection."""

FORCED = "amqp:connection:forced"
FRAMING = "amqp:connection:framing-error"
"""Condition names of section 2.8.16."""

_TRANSFER = b"\x00\x53\x14"

_SCRATCH = bytearray(256 * 1024)
_VIEW = memoryview(_SCRATCH)
_POINTER = pn.ffi.from_buffer(_SCRATCH)


class AmqpConnection:
    """One peer. `wake` is called when `output` may have something; `later` calls back after so many seconds.

    `subject` is that of the peer's verified certificate. With a `refusal` the connection is opened only to be closed
    with it.
    """

    def __init__(
        self,
        broker: ReferenceBroker,
        wake: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
        guard: Guard = OPEN,
        subject: str | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        self._broker = broker
        self._wake = wake
        self._peer = AmqpPeer(broker, wake, later)
        self._handshake = Handshake(guard, subject)
        self._refusal = refusal
        self._links: dict[Any, AmqpLink] = {}
        self._sessions: set[Any] = set()
        self._attached: dict[Any, int] = {}
        self._transport: Any = None
        self._deadline: float | None = None
        self._opened = False
        self._writing = False
        self._unread = b""
        self._waits = False
        self._size = 0
        self._was_choked = False
        self._dismissed = False
        self._farewell = b""
        self._ended = False

    def receive(self, data: bytes) -> None:
        """Bytes from the peer; malformed ones close the connection with amqp:connection:framing-error."""
        if self._ended:
            return
        if self._transport is None:
            self._handshake.receive(data)
            if not self._handshake.done:
                self._wake()
                return
            self._begin()
            data, self._handshake.rest = bytes(self._handshake.rest), bytearray()
        if self._was_choked:
            self._was_choked = False
            pn.pn_transport_set_idle_timeout(self._transport, self._idle_ms)
        at = handled = 0
        data = self._unread + data
        while handled < MAX_EVENTS and (end := _frame_end(data, at)) > at:
            handled += self._push(memoryview(data)[at:end])
            at = end
        self._unread = data[at:]
        self._waits = handled >= MAX_EVENTS
        if self._waits:
            self._peer.later(0, lambda: self.receive(b""))
        if not self._ended and pn.pn_transport_capacity(self._transport) < 0:
            self._no_more()
        self._wake()

    def _push(self, frame: memoryview) -> int:
        """Gives the engine one frame, or a run of transfers, and returns how many events it made of it."""
        self._size = len(frame)
        self._peer.said = None
        handled = 0
        if self._size > MAX_DISPOSITION and _is_disposition(bytes(frame[:MAX_DISPOSITION])):
            self.close(LIMIT, f"a disposition has at most {MAX_DISPOSITION} bytes")
            return 0
        while frame and not self._dismissed and not self._ended:
            room = pn.pn_transport_capacity(self._transport)
            if room <= 0:
                break
            frame = frame[pn.pn_transport_push(self._transport, frame[:room]) :]
            handled += self._events()
        return handled

    def _no_more(self) -> None:
        """The engine reads no more. It says why, but not where it did not know the performative or type of a frame."""
        faulty = pn.pn_condition_is_set(pn.pn_transport_condition(self._transport))
        if not faulty and not pn.pn_connection_state(self._connection) & pn.PN_LOCAL_CLOSED:
            self.close(FRAMING, "a frame is none of section 2.7")

    def output(self) -> bytes:
        if self._ended:
            return b""
        parts = [said] if (said := self._handshake.output()) else []
        if self._transport is None:
            return b"".join(parts)
        self._soon()
        self._writing = True
        while pn.pn_transport_pending(self._transport) > 0:
            size = pn.lib.pn_transport_peek(self._transport, _POINTER, len(_SCRATCH))
            parts.append(bytes(_VIEW[:size]))
            pn.pn_transport_pop(self._transport, size)
        self._events()
        self._writing = False
        self._written()
        if self._farewell:
            parts.append(self._farewell)
            self._farewell = b""
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def tick(self, now: float) -> float | None:
        """Keeps the idle time-outs (section 2.4.5): `now` in seconds; when to be called again, None for never."""
        if self._ended:
            return None
        if self._deadline is None:
            self._deadline = now + OPEN_S
        if not self._opened and now >= self._deadline:
            self._ended = self._transport is None
            self.close(FORCED, f"the connection was not opened within {OPEN_S:.0f} s")
        if self._transport is None:
            return self._deadline
        deadline: int = pn.pn_transport_tick(self._transport, int(now * 1000))
        first = [*([deadline / 1000] if deadline else []), *([] if self._opened else [max(self._deadline, now + 1)])]
        return min(first, default=None)

    @property
    def choked(self) -> bool:
        """Whether the peer should not be read: too much of it waits for the disk, or too many answers wait for it."""
        peer = self._peer
        choked = peer.paused or peer.unstored >= MAX_UNSTORED or self._waits
        if choked and not self._was_choked and self._transport is not None and not self._ended:
            # The broker does not read now, so the client's silence proves nothing until its next bytes arrive.
            pn.pn_transport_set_idle_timeout(self._transport, 0)
        self._was_choked = self._was_choked or choked
        return choked

    @property
    def closed(self) -> bool:
        if self._ended or self._transport is None:
            return self._ended or self._handshake.failed
        if self._dismissed:
            return not self._farewell
        return bool(pn.pn_transport_pending(self._transport) < 0)

    def pause(self) -> None:
        """The socket takes no more: the peer is sent no more messages, and not read."""
        self._peer.paused = True

    def resume(self) -> None:
        self._peer.paused = False
        self._more_room()
        self._wake()

    def close(self, condition: str, description: str) -> None:
        if self._ended or self._transport is None:
            return
        if self._opened:
            states.explain(pn.pn_connection_condition(self._connection), condition, description)
            pn.pn_connection_close(self._connection)
        elif not self._dismissed:
            # The engine closes no connection that the peer has not opened.
            self._dismissed = True
            self._farewell = farewell(condition, description)
        self._wake()

    def lost(self) -> None:
        """The socket is gone: every link ends, and the engine's memory is given back."""
        if self._transport is None:
            self._ended = True
        if self._ended:
            return
        self._ended = True
        self._end_links(None)
        pn.pn_transport_unbind(self._transport)
        pn.pn_collector_free(self._collector)
        pn.pn_connection_release(self._connection)
        pn.pn_decref(self._connection)
        pn.pn_decref(self._transport)

    def _begin(self) -> None:
        """Makes the engine. Who the peer is has been asked before: the engine is to ask nothing."""
        self._collector = pn.pn_collector()
        self._connection = pn.pn_connection()
        self._transport = pn.pn_transport()
        pn.pn_connection_set_container(self._connection, "conformance-reference")
        states.put_symbols(pn.pn_connection_offered_capabilities(self._connection), ["ANONYMOUS-RELAY"])
        pn.pn_connection_collect(self._connection, self._collector)
        pn.pn_transport_set_server(self._transport)
        pn.pn_transport_set_max_frame(self._transport, MAX_FRAME)
        pn.pn_transport_set_channel_max(self._transport, MAX_SESSIONS - 1)
        pn.pn_transport_set_idle_timeout(self._transport, self._idle_ms)
        pn.pn_transport_require_auth(self._transport, False)
        record = pn.pn_transport_attachments(self._transport)
        pn.pn_record_def_py(record)
        pn.pn_record_set_py(record, {})
        pn.pn_transport_set_pytracer(self._transport, self._logged)
        pn.pn_transport_bind(self._transport, self._connection)

    @property
    def _idle_ms(self) -> int:
        """The engine advertises half of it (section 2.4.5 asks for that), and enforces all of it."""
        return min(2 * self._broker.settings.idle_timeout_ms, 0xFFFFFFFF)

    def _soon(self) -> None:
        soon = self._peer.soon
        while soon:
            calls = soon[:]
            soon.clear()
            for call in calls:
                call()

    def _written(self) -> None:
        """What the peer's session windows hold back is unsent too."""
        peer = self._peer
        if peer.unsent:
            was_full = peer.unsent >= MAX_UNSENT
            peer.unsent = sum(pn.pn_session_outgoing_bytes(session) for session in self._sessions)
            if was_full and peer.has_room:
                self._more_room()

    def _more_room(self) -> None:
        for link in list(self._links.values()):
            if link.open and isinstance(link, Sending):
                link.flow()

    def _events(self) -> int:
        handled = 0
        while not self._ended and (event := pn.pn_collector_peek(self._collector)):
            handler = _HANDLERS.get(pn.pn_event_type(event))
            if handler is not None:
                handler(self, event)
            pn.pn_collector_pop(self._collector)
            handled += 1
        return handled

    def _on_connection_open(self, event: object) -> None:
        self._opened = True
        pn.pn_connection_open(self._connection)
        if self._refusal is not None:
            self.close(*self._refusal)

    def _on_connection_close(self, event: object) -> None:
        self._end_links(None)
        pn.pn_connection_close(self._connection)

    def _on_session_open(self, event: object) -> None:
        session = pn.pn_event_session(event)
        self._sessions.add(session)
        pn.pn_session_open(session)

    def _on_session_close(self, event: object) -> None:
        session = pn.pn_event_session(event)
        self._end_links(session)
        self._sessions.discard(session)
        pn.pn_session_close(session)
        self._apart()  # the engine has 256 channels, and an end that is not written keeps one
        pn.pn_session_free(session)

    def _on_link_open(self, event: object) -> None:
        engine = pn.pn_event_link(event)
        most = self._broker.settings.max_links
        self._attached[engine] = self._size
        if len(self._attached) > 2 * most or sum(self._attached.values()) > most * ATTACHED:
            self.close(LIMIT, "the links that the peer has not detached are too many, or too large")
        try:
            refusal = self._attach(engine)
        except UnicodeDecodeError:
            refusal = Refusal("amqp:decode-error", "the address is no UTF-8")
        if refusal is None:
            return
        # An attach without a terminus, and then the detach that says why (section 2.6.3).
        near = pn.pn_link_source(engine) if pn.pn_link_is_sender(engine) else pn.pn_link_target(engine)
        pn.pn_terminus_set_type(near, pn.PN_UNSPECIFIED)
        pn.pn_link_open(engine)
        states.explain(pn.pn_link_condition(engine), *refusal)
        pn.pn_link_close(engine)

    def _attach(self, engine: Any) -> Refusal | None:
        most = self._broker.settings.max_links
        if len(self._links) >= most:
            return Refusal(LIMIT, f"a connection has at most {most} links")
        sending = pn.pn_link_is_sender(engine)
        far = pn.pn_link_remote_source(engine) if sending else pn.pn_link_remote_target(engine)
        request = attach.read_request(far, sending=sending)
        names = pn.pn_connection_remote_container(self._connection) or "", pn.pn_link_name(engine)
        found = None if request.coordinator else attach.queue(self._broker, request, *names, sending=sending)
        if isinstance(found, Refusal):
            return found
        profile = self._broker.profile
        publishing = None if sending or request.coordinator else attach.apply_profile(profile.publishing, engine)
        if isinstance(publishing, Refusal):
            return publishing
        consuming = attach.apply_profile(profile.consuming, engine) if sending else PLAIN
        if isinstance(consuming, Refusal):
            return consuming
        # What the peer sends may be settled or not; what it is sent is one of the two.
        pn.pn_link_set_snd_settle_mode(engine, pn.pn_link_remote_snd_settle_mode(engine))
        pn.pn_link_set_rcv_settle_mode(engine, pn.pn_link_remote_rcv_settle_mode(engine))
        attach.answer(engine, request, found, sending=sending)
        pn.pn_link_set_max_message_size(engine, 0 if sending else self._broker.settings.max_message_bytes)
        pn.pn_link_open(engine)
        link: AmqpLink
        if request.coordinator:
            link = Coordinator(engine, self._peer)
        elif publishing is not None:
            link = Windowed(engine, self._peer, found, publishing, self._apart)
        elif not sending:
            link = Incoming(engine, self._peer, found)
        else:
            assert found is not None
            link = (
                Browsing(engine, self._peer, found)
                if request.browses
                else Outgoing(engine, self._peer, found, consuming, request.selector)
            )
        link.owned = found if request.dynamic else None
        link.subscription = found if request.topic and sending else None
        self._links[engine] = link
        return None

    def _apart(self) -> None:
        """What is settled from now on is in another disposition: the engine writes what it has."""
        pn.pn_transport_pending(self._transport)

    def _logged(self, transport: object, line: str) -> None:
        """The engine writes no more after a "process error", as where the peer's handle-max is too small for a link."""
        self._dismissed = self._dismissed or "process error" in line

    def _on_link_close(self, event: object) -> None:
        engine = pn.pn_event_link(event)
        link = self._links.pop(engine, None)
        self._attached.pop(engine, None)
        if link is not None:
            link.ended()
        # The same performative as the peer's: a detach is answered by a detach, a close by a close (section 2.6.6).
        if pn.pn_event_type(event) == pn.PN_LINK_REMOTE_DETACH:
            pn.pn_link_detach(engine)
        else:
            if link is not None and link.subscription is not None:
                self._broker.delete(link.subscription)
            pn.pn_link_close(engine)
        pn.pn_link_free(engine)

    def _on_link_flow(self, event: object) -> None:
        if self._writing:
            return  # Only the engine's word that it has written a transfer.
        link = self._links.get(pn.pn_event_link(event))
        if link is not None and link.open:
            link.flow()

    def _on_delivery(self, event: object) -> None:
        link = self._links.get(pn.pn_event_link(event))
        delivery = pn.pn_event_delivery(event)
        if link is not None and link.open:
            link.delivery(delivery)
        else:
            # What still comes for a link that we have ended is not kept.
            pn.pn_delivery_settle(delivery)

    def _end_links(self, session: Any) -> None:
        """Control links first: a transaction ends while its consumers' links still hold what it is about."""
        gone = [engine for engine in self._attached if session is None or pn.pn_link_session(engine) == session]
        for engine in gone:
            del self._attached[engine]
        ending = [engine for engine, link in self._links.items() if session is None or link.session == session]
        for engine in sorted(ending, key=lambda engine: not isinstance(self._links[engine], Coordinator)):
            self._links.pop(engine).ended()


def _frame_end(data: bytes, at: int) -> int:
    """Where the next frame ends, or the last of a run of transfers, each of which makes one event.

    It is `at` if no frame is whole. Bytes that cannot be a frame are left to the engine, to refuse them.
    """
    end = at
    while len(data) >= end + 4:
        head = data[end : end + 4]
        size = len(AMQP_HEADER) if head == AMQP_HEADER[:4] else int.from_bytes(head, "big")
        if not 8 <= size <= MAX_FRAME:
            return len(data)
        if end + size > len(data):
            break
        if not data.startswith(_TRANSFER, end + 8) or data[end + 4] != 2:
            return end if end > at else end + size
        end += size
    return end


def _is_disposition(frame: bytes) -> bool:
    try:
        return sections.code(frame, 4 * frame[4])[0] == 0x15
    except sections.DecodeError:
        return False


_HANDLERS: dict[int, Callable[[AmqpConnection, object], None]] = {
    pn.PN_CONNECTION_REMOTE_OPEN: AmqpConnection._on_connection_open,
    pn.PN_CONNECTION_REMOTE_CLOSE: AmqpConnection._on_connection_close,
    pn.PN_SESSION_REMOTE_OPEN: AmqpConnection._on_session_open,
    pn.PN_SESSION_REMOTE_CLOSE: AmqpConnection._on_session_close,
    pn.PN_LINK_REMOTE_OPEN: AmqpConnection._on_link_open,
    pn.PN_LINK_REMOTE_CLOSE: AmqpConnection._on_link_close,
    pn.PN_LINK_REMOTE_DETACH: AmqpConnection._on_link_close,
    pn.PN_LINK_FLOW: AmqpConnection._on_link_flow,
    pn.PN_DELIVERY: AmqpConnection._on_delivery,
}
