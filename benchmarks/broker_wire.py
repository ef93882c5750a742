"""Clients that cost little, for the rates of a broker: proton's engine through `cproton`, and STOMP on a bare socket.

A client of proton's classes costs as much as some brokers do, and would then be all that is measured. Run as a module
it is the other end of the engine: it accepts every message and keeps none, so that there is a rate with no broker.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import cproton as pn
from proton import Message

SIZE = 1024
PATIENCE_S = 60.0
_READ = 1 << 18
_FRAME = 1 << 18
_HOST = "127.0.0.1"
_ERRORS = (pn.PN_CONNECTION_REMOTE_CLOSE, pn.PN_SESSION_REMOTE_CLOSE, pn.PN_LINK_REMOTE_CLOSE, pn.PN_TRANSPORT_ERROR)


class Engine:
    """One connection of proton's engine on a blocking socket; `on_delivery` is called for each delivery event.

    Raises:
        RuntimeError: From `turn`: the peer closed something, or went away.
    """

    def __init__(self, end: socket.socket, on_delivery: Callable[[Any, Any], None], *, server: bool = False) -> None:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(PATIENCE_S)
        self._socket, self._on_delivery, self._server = end, on_delivery, server
        self._collector = pn.pn_collector()
        self.connection = pn.pn_connection()
        self._transport = pn.pn_transport()
        pn.pn_connection_set_container(self.connection, "bench")
        pn.pn_connection_collect(self.connection, self._collector)
        pn.pn_transport_set_max_frame(self._transport, _FRAME)
        if server:
            pn.pn_transport_set_server(self._transport)
            pn.pn_transport_require_auth(self._transport, False)
        pn.pn_sasl_allowed_mechs(pn.pn_sasl(self._transport), "ANONYMOUS")
        pn.pn_transport_bind(self._transport, self.connection)
        if not server:
            pn.pn_connection_open(self.connection)
            self.session = pn.pn_session(self.connection)
            pn.pn_session_open(self.session)

    def turn(self) -> None:
        """Write what is pending, wait for input, read once, and handle its events."""
        self._write()
        data = self._socket.recv(_READ)
        if not data:
            raise RuntimeError("the peer closed the connection")
        rest = memoryview(data)
        while rest:
            taken = pn.pn_transport_push(self._transport, rest[: pn.pn_transport_capacity(self._transport)])
            if taken <= 0:
                raise RuntimeError(f"the engine refused input: {taken}")
            rest = rest[taken:]
            self._events()

    def close(self) -> None:
        """Close the connection, and free the engine."""
        with contextlib.suppress(OSError):
            pn.pn_connection_close(self.connection)
            self._write()
        self._socket.close()
        pn.pn_transport_unbind(self._transport)
        pn.pn_collector_free(self._collector)
        pn.pn_connection_release(self.connection)
        pn.pn_decref(self.connection)
        pn.pn_decref(self._transport)

    def _write(self) -> None:
        while (pending := pn.pn_transport_pending(self._transport)) > 0:
            _, data = pn.pn_transport_peek(self._transport, min(pending, _FRAME))
            self._socket.sendall(data)
            pn.pn_transport_pop(self._transport, len(data))

    def _events(self) -> None:
        while not pn.isnull(event := pn.pn_collector_peek(self._collector)):
            kind = pn.pn_event_type(event)
            if kind == pn.PN_DELIVERY:
                self._on_delivery(pn.pn_event_link(event), pn.pn_event_delivery(event))
            elif self._server:
                _welcome(kind, event)
            elif kind in _ERRORS:
                raise RuntimeError(f"the peer ended it: {_why(event)}")
            pn.pn_collector_pop(self._collector)


def _why(event: Any) -> str:
    for condition in (pn.pn_link_remote_condition, pn.pn_connection_remote_condition):
        of = pn.pn_event_link(event) if condition is pn.pn_link_remote_condition else pn.pn_event_connection(event)
        if not pn.isnull(of) and pn.pn_condition_is_set(condition(of)):
            return f"{pn.pn_condition_get_name(condition(of))} {pn.pn_condition_get_description(condition(of))}"
    return "no reason given"


def publish(port: int, queue: str, count: int, window: int) -> None:
    """Send `count` persistent messages, at most `window` unanswered, until all are accepted."""
    payload = Message(body=b"x" * SIZE, durable=True).encode()
    answered = 0

    def on_delivery(_: Any, delivery: Any) -> None:
        nonlocal answered
        state = pn.pn_delivery_remote_state(delivery)
        if pn.pn_delivery_updated(delivery) and state:
            if state != pn.PN_ACCEPTED:
                raise RuntimeError(f"a send was answered with state {state}")
            answered += 1
            pn.pn_delivery_settle(delivery)

    engine = Engine(socket.create_connection((_HOST, port)), on_delivery)
    with contextlib.closing(engine):
        link = _link(pn.pn_sender(engine.session, f"to-{queue}"), queue)
        sent = 0
        while answered < count:
            for _ in range(min(window - (sent - answered), pn.pn_link_credit(link), count - sent)):
                sent += 1
                pn.pn_delivery(link, str(sent))
                pn.pn_link_send(link, payload)
                pn.pn_link_advance(link)
            engine.turn()


def consume(port: int, queue: str, count: int, credit: int = 1000) -> None:
    """Receive `count` messages and accept each, until the peer has settled each acceptance."""
    confirmed = taken = 0

    def on_delivery(link: Any, delivery: Any) -> None:
        nonlocal confirmed, taken
        if pn.pn_delivery_readable(delivery) and not pn.pn_delivery_partial(delivery):
            pn.pn_link_recv(link, pn.pn_delivery_pending(delivery))
            pn.pn_link_advance(link)
            pn.pn_delivery_update(delivery, pn.PN_ACCEPTED)
            taken += 1
        elif pn.pn_delivery_settled(delivery):
            confirmed += 1
            pn.pn_delivery_settle(delivery)

    engine = Engine(socket.create_connection((_HOST, port)), on_delivery)
    with contextlib.closing(engine):
        link = _link(pn.pn_receiver(engine.session, f"from-{queue}"), queue)
        given = 0
        while confirmed < count:
            more = min(credit - (given - confirmed), count - given)
            if more * 4 >= credit or (more and given - confirmed < credit // 2):
                pn.pn_link_flow(link, more)
                given += more
            engine.turn()


def _link(link: Any, queue: str) -> Any:
    """Open the link with the capability `queue`; without it Artemis makes a topic."""
    for terminus in (pn.pn_link_source(link), pn.pn_link_target(link)):
        pn.pn_terminus_set_address(terminus, queue)
        pn.pn_data_put_symbol(pn.pn_terminus_capabilities(terminus), "queue")
    pn.pn_link_open(link)
    return link


def publish_stomp(port: int, headers: dict[str, str], count: int, window: int) -> None:
    """Send `count` persistent messages, at most `window` without a RECEIPT, until all are answered."""
    words = "".join(f"{name}:{value}\n" for name, value in headers.items())
    rest = f"\npersistent:true\ncontent-length:{SIZE}\n{words}\n".encode() + b"x" * SIZE + b"\0"
    with socket.create_connection((_HOST, port), timeout=PATIENCE_S) as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        answers = _answers(end)
        if not next(answers).startswith(b"CONNECTED"):
            raise RuntimeError("the broker did not answer CONNECT")
        sent = answered = 0
        while answered < count:
            fresh = min(window - (sent - answered), count - sent)
            if fresh:
                end.sendall(b"".join(b"SEND\nreceipt:%d" % number + rest for number in range(sent, sent + fresh)))
                sent += fresh
            for frame in next_batch(answers):
                if not frame.startswith(b"RECEIPT"):
                    raise RuntimeError(f"a SEND was answered with {frame[:200]!r}")
                answered += 1
        end.sendall(b"DISCONNECT\n\n\0")


class _Frames(Iterator[bytes]):
    """The frames of a socket; what has arrived already is in `ready`. No answer here has a body with a NUL."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._rest = b""
        self.ready: list[bytes] = []

    def __next__(self) -> bytes:
        while not self.ready:
            data = self._socket.recv(_READ)
            if not data:
                raise RuntimeError(f"the peer closed the connection: {self._rest[:200]!r}")
            *whole, self._rest = (self._rest + data).split(b"\0")
            self.ready = [frame.lstrip(b"\r\n") for frame in whole]
        return self.ready.pop(0)


def _answers(end: socket.socket) -> _Frames:
    return _Frames(end)


def next_batch(frames: _Frames) -> list[bytes]:
    """The next frame, and all that came with it."""
    batch = [next(frames), *frames.ready]
    frames.ready = []
    return batch


def _welcome(kind: int, event: Any) -> None:
    """Open what the peer opens, give credit, and close after the peer."""
    if kind == pn.PN_CONNECTION_REMOTE_OPEN:
        pn.pn_connection_open(pn.pn_event_connection(event))
    elif kind == pn.PN_SESSION_REMOTE_OPEN:
        pn.pn_session_open(pn.pn_event_session(event))
    elif kind == pn.PN_LINK_REMOTE_OPEN:
        pn.pn_link_open(pn.pn_event_link(event))
        pn.pn_link_flow(pn.pn_event_link(event), 1000)
    elif kind == pn.PN_CONNECTION_REMOTE_CLOSE:
        pn.pn_connection_close(pn.pn_event_connection(event))


def _swallow(link: Any, delivery: Any) -> None:
    if pn.pn_delivery_readable(delivery) and not pn.pn_delivery_partial(delivery):
        pn.pn_link_recv(link, pn.pn_delivery_pending(delivery))
        pn.pn_link_advance(link)
        pn.pn_delivery_update(delivery, pn.PN_ACCEPTED)
        pn.pn_delivery_settle(delivery)
        if pn.pn_link_credit(link) < 500:
            pn.pn_link_flow(link, 500)


def sink() -> None:
    """Serve one connection after the other until killed; the port is printed first."""
    with socket.create_server((_HOST, 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            end, _ = listening.accept()
            engine = Engine(end, _swallow, server=True)
            with contextlib.closing(engine), contextlib.suppress(RuntimeError, OSError):
                while True:
                    engine.turn()


if __name__ == "__main__":
    sink()
