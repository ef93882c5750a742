"""One AMQP 1.0 connection: proton's engine on a socket, in one thread.

proton's own Container would need less code, but it decides when bytes leave. A history is only evidence if the `invoke`
of an operation reached the kernel before the first byte of the operation. So this module writes, and calls
`before_write` first. The engine gets one frame at a time: otherwise two dispositions of one delivery in one read would
look like one.

proton does the login (SASL). A refusal becomes a `ClientError` that names what was refused.
"""

from __future__ import annotations

import contextlib
import select
import struct
import time
from collections.abc import Callable
from typing import Any, NoReturn

from proton import (
    SASL,
    Collector,
    Connection,
    Endpoint,
    Event,
    Message,
    MessageException,
    Transport,
    TransportException,
)

from conformance import limits
from conformance.adapters.credentials import OPEN, PLAIN, Access, library_lacks, mechanism_of
from conformance.clients.connecting import Login, answered_in_tls
from conformance.clients.session import Disconnected, LoginRefused, Refused, await_answer, pump_until, wait_for_input
from conformance.errors import BrokenProtocolError, ClientError, LoginError

_READ = 1 << 18
_REST_S = 5.0
_UNAUTHORIZED = "amqp:unauthorized-access"
_OPENED = (Event.SESSION_REMOTE_OPEN, Event.LINK_REMOTE_OPEN)
_CLOSED = (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH, Event.SESSION_REMOTE_CLOSE, Event.CONNECTION_REMOTE_CLOSE)


class SaslLogin(Login):
    """The login of one connection by SASL."""

    def __init__(self, host: str, port: int, access: Access) -> None:
        if lacks := library_lacks(access):
            raise ClientError(lacks)
        super().__init__(host, port, access)
        self._mechanism = mechanism_of(access)

    def prepare(self, transport: Any, connection: Any) -> None:
        """Allow exactly this mechanism; call it before the two are bound.

        proton does not see the TLS below it, and would refuse to send a password in plain text.
        """
        sasl = transport.sasl()
        sasl.allowed_mechs(self._mechanism)
        if self._mechanism == PLAIN:
            sasl.allow_insecure_mechs = True
        if self.access.user:
            connection.user, connection.password = self.access.user, self.password

    def refused(self, transport: Any, said: bytes | bytearray) -> str:
        """Return why the peer refused this connection; empty if it has not shown that it did.

        `said` holds the bytes that arrived and are no whole frame yet.
        """
        if wrong := answered_in_tls(said):
            return wrong
        condition = transport.condition
        outcome = transport.sasl().outcome
        unauthorized = condition is not None and condition.name == _UNAUTHORIZED
        if outcome in (None, SASL.OK) and not unauthorized:
            return ""
        who = f" of {self.access.user!r}" if self.access.user else ""
        offers = f" ({self.clean(condition.description)})" if condition is not None and condition.description else ""
        return f"SASL {self._mechanism}: the login{who} was refused{offers}; {self._next}"

    def accepted(self, transport: Any) -> bool:
        return bool(transport.sasl().outcome == SASL.OK)

    def advice(self, condition: Any) -> str:
        """Return what to do if the peer closed an endpoint because of our login; empty for another reason.

        Artemis accepts SASL ANONYMOUS from any client, and closes the connection at the first session of a client it
        does not know (2.56.0, measured).
        """
        return f"; {self._next}" if condition.name == _UNAUTHORIZED else ""

    @property
    def _next(self) -> str:
        if self.access.password is not None:
            return f"{self.where_to_look}, and at the mechanisms that the broker takes"
        return (
            "give a login (--user with --password-env or --password-file) or a certificate (--tls-cert and --tls-key)"
        )


class AmqpClientConnection:
    """Connects when it is made; `pump` does the I/O.

    Args:
        host: Address of the broker.
        port: TCP port of the broker.
        name: AMQP container id of this client.
        on_delivery: Called with the link and the delivery when a delivery is new or has changed.
        before_write: Called right before bytes may leave.
        after_frame: Called when all events of one frame were handled.
        connect_s: Time limit of the TCP connection, in seconds.
        access: TLS and login.

    Raises:
        ClientError: No connection within `connect_s`, or TLS or a secret that cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        name: str,
        *,
        on_delivery: Callable[[Any, Any], None],
        before_write: Callable[[], None] = lambda: None,
        after_frame: Callable[[], None] = lambda: None,
        connect_s: float = 20.0,
        access: Access = OPEN,
    ) -> None:
        self._login = SaslLogin(host, port, access)
        self._socket = self._login.dial(connect_s)
        self._socket.setblocking(False)
        self.name = name
        self._on_delivery, self._before_write, self._after_frame = on_delivery, before_write, after_frame
        self._collector = Collector()
        self._transport = Transport()
        self._transport.max_frame_size = limits.AMQP_FRAME
        self._connection = Connection()
        self._connection.container = name
        self._connection.hostname = self._login.server_name
        self._login.prepare(self._transport, self._connection)
        self._connection.collect(self._collector)
        self._transport.bind(self._connection)
        self._connection.open()
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._input = bytearray()
        self._opened = 0
        self._detached: set[str] = set()
        self._heard = False
        self._let_in = False
        self._closed = False

    @property
    def greeting(self) -> str:
        """The product and version in the properties of the broker's open frame (section 2.7.1), which may be empty."""
        said = self._connection.remote_properties or {}
        return self.clean(" ".join(str(said[name]) for name in ("product", "version") if name in said))

    def session(self) -> Any:
        session = self._connection.session()
        session.open()
        return session

    def attach(self, link: Any) -> Any:
        """Open a link, and wait until the broker has opened its end."""
        link.open()
        await_answer(self.pump, lambda: bool(link.state & Endpoint.REMOTE_ACTIVE), f"the attach of {link.name}")
        return link

    def detach(self, link: Any) -> None:
        """Close a link, and wait until the broker has closed or detached its end.

        RabbitMQ 3.10 answers a detach that closes by one that does not (AMQP 1.0 section 2.6.6 wants one that does).
        """
        link.close()

        def gone() -> bool:
            return bool(link.state & Endpoint.REMOTE_CLOSED) or link.name in self._detached

        await_answer(self.pump, gone, f"the detach of {link.name}")

    def clean(self, text: object) -> str:
        return self._login.clean(str(text))

    def watch(self, descriptor: int) -> None:
        self._poll.register(descriptor, 0)  # POLLHUP is always reported

    def pump(self, timeout_s: float | None) -> None:
        """Write what is pending, wait at most `timeout_s` for input (None: no limit), read, handle events.

        Raises:
            Disconnected: The peer closed or reset the connection. What it had sent before was handled.
            Refused: The peer closed a link, a session or the connection with an error.
            ClientError: The peer refused the login, or broke the protocol.
        """
        self._drain_events()
        beat_s = self._beat()
        self._write()
        wait_s = min((left for left in (timeout_s, beat_s) if left is not None), default=None)
        wait_for_input(self._poll, self._socket.fileno(), self._read, wait_s)
        self._drain_events()
        self._beat()
        self._write()

    def _beat(self) -> float | None:
        """Queue an empty frame if the peer is due one (AMQP 1.0 section 2.4.5); return seconds until the next one.

        A broker drops a client that is silent for its idle-timeout: ActiveMQ Classic after 30 s.
        """
        now = time.monotonic()
        due = self._transport.tick(now)
        return due - now if due else None

    def pump_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        return pump_until(self.pump, done, timeout_s)

    def close(self) -> None:
        """Close in order, as far as the peer still listens, and release the socket."""
        try:
            if not self._closed:
                self._connection.close()
                with contextlib.suppress(Disconnected):
                    self.pump_until(lambda: self._connection.state & Endpoint.REMOTE_CLOSED != 0, 2.0)
        finally:
            self._socket.close()
            self._closed = True

    def _write(self) -> None:
        transport = self._transport
        pending = transport.pending()
        if pending <= 0:
            return
        self._before_write()
        while pending > 0:
            try:
                sent = self._socket.send(transport.peek(min(pending, _READ)) or b"")
            except BlockingIOError:
                self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
                return
            except OSError as error:
                self._read_rest()
                raise self._lost(error) from error
            transport.pop(sent)
            pending = transport.pending()
        self._poll.modify(self._socket, select.POLLIN)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise self._lost()
        self._heard = True
        self._input += data
        self._push_frames()
        if not self._let_in:
            self._check_login()

    def _check_login(self) -> None:
        """Raise `ClientError` if the login was refused: proton only notes that, and goes on waiting."""
        if refused := self._login.refused(self._transport, self._input):
            self._closed = True
            raise LoginError(f"{self._login.where}: {refused}")
        self._let_in = self._login.accepted(self._transport)

    def _lost(self, error: OSError | None = None) -> Exception:
        """Return the error of an ended stream: `ClientError` only if the broker refused us, not if it died."""
        self._closed = True
        if why := "" if self._let_in else self._login.refused(self._transport, self._input):
            return LoginError(f"{self._login.where}: {why}")
        if not (why or self._let_in or self._heard):
            why = self._login.unanswered(self._socket)
        return ClientError(f"{self._login.where}: {why}") if why else Disconnected(str(error or "end of stream"))

    def _read_rest(self) -> None:
        """Read what the broker had sent before a write failed: the socket may still hold answers."""
        deadline = time.monotonic() + _REST_S
        try:
            while not self._closed and (left := deadline - time.monotonic()) > 0:
                if self._poll.poll(left * 1000):
                    self._read()
        except (Disconnected, ClientError):
            return

    def _push_frames(self) -> None:
        data, offset = self._input, 0
        while len(data) - offset >= 8:
            size = 8 if data[offset : offset + 4] == b"AMQP" else self._size(struct.unpack_from(">I", data, offset)[0])
            if len(data) - offset < size:
                break
            self._push(bytes(data[offset : offset + size]))
            offset += size
            self._drain_events()
            self._after_frame()
            self._transport.pending()  # the engine forgets what is settled; else each range of the peer names it again
        del data[:offset]

    def _size(self, size: int) -> int:
        """Return the size that a frame's header declares; raise `ClientError` if no frame can have it."""
        if limits.AMQP_FRAME_LEAST <= size <= limits.AMQP_FRAME:
            return size
        expected = (
            f"expected {limits.AMQP_FRAME_LEAST} bytes to {limits.AMQP_FRAME:,}, the max-frame-size of this client "
            "(AMQP 1.0 sections 2.3.1 and 2.7.1)"
        )
        raise self._broken(f"a frame of {size:,} bytes; {expected}")

    def _push(self, frame: bytes) -> None:
        start = 0
        try:
            while start < len(frame):
                capacity = self._transport.capacity()
                if capacity <= 0:
                    self._refuse_input()
                self._transport.push(frame[start : start + capacity])
                start += capacity
        except TransportException as error:
            raise self._broken(error) from error

    def _refuse_input(self) -> NoReturn:
        condition = self._transport.condition
        refused = condition is not None and condition.name == _UNAUTHORIZED
        over = self._connection.state & (Endpoint.REMOTE_CLOSED | Endpoint.LOCAL_CLOSED)
        if refused or over:
            raise Disconnected("the engine takes no more input")
        raise self._broken(condition or "a frame that the AMQP library cannot read")

    def _broken(self, how: object) -> BrokenProtocolError:
        """Return the error of a broker that breaks the protocol. The connection is not closed in order after it."""
        self._closed = True
        return BrokenProtocolError(self.clean(how))

    def _check(self, event: Any) -> None:
        """Raise `ClientError` if the engine keeps more for the broker than any broker needs."""
        self._opened += event.type in _OPENED
        if self._opened > limits.ENDPOINTS:
            raise ClientError(limits.limit_sentence("sessions and links", limits.ENDPOINTS, "pieces"))
        if event.type == Event.DELIVERY and event.link.is_receiver:
            if event.delivery.pending > limits.MESSAGE:
                raise ClientError(limits.limit_sentence("a message", limits.MESSAGE))
            if event.link.session.incoming_bytes + event.link.queued * limits.OVERHEAD > limits.BACKLOG:
                raise ClientError(limits.limit_sentence("deliveries that no client reads", limits.BACKLOG))

    def _drain_events(self) -> None:
        """Handle each event once, even if that raises: `close` must not raise the same refusal again."""
        collector = self._collector
        while event := collector.peek():
            try:
                self._check(event)
                if event.type == Event.DELIVERY:
                    self._on_delivery(event.link, event.delivery)
                elif event.type in _CLOSED:
                    self._on_close(event.type, event.context)
            except Refused:
                raise
            except ClientError:  # `close` does not wait for a broker that breaks the protocol
                self._closed = True
                raise
            finally:
                collector.pop()

    def _on_close(self, kind: Any, endpoint: Any) -> None:
        if kind == Event.LINK_REMOTE_DETACH:
            self._detached.add(endpoint.name)
        if not endpoint.state & Endpoint.LOCAL_ACTIVE:
            return
        condition = endpoint.remote_condition
        if condition is not None:
            kind_of = LoginRefused if condition.name == _UNAUTHORIZED else Refused
            said = f"{self.clean(condition)}{self._login.advice(condition)}"
            raise kind_of(f"the broker closed a {type(endpoint).__name__.lower()}: {said}")
        if kind == Event.CONNECTION_REMOTE_CLOSE:
            raise Disconnected("closed by the broker")


def decode(link: Any, delivery: Any) -> Message:
    """Return the message of a complete delivery; raise `ClientError` if it is none of AMQP 1.0 section 3.2."""
    message = Message()
    try:
        message.decode(link.recv(delivery.pending) or b"")
    except (MessageException, ValueError) as error:
        raise BrokenProtocolError(f"a message that cannot be decoded: {error}") from error
    link.advance()
    return message
