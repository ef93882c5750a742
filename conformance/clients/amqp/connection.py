"""One AMQP 1.0 connection: proton's engine on a socket, in one thread, with every write in our hands.

proton's own Container would do the same with less code, but it decides when bytes leave. A history is only worth
something if the `invoke` of an operation reached the kernel before the first byte of that operation did, so the write
is here, behind `before_write`. Bytes that arrive are given to the engine one frame at a time: two dispositions of one
delivery in one read would otherwise look like one.

The login (SASL) is proton's; a refusal becomes a `ClientError` that names what was refused.
"""

from __future__ import annotations

import contextlib
import select
import struct
import time
from collections.abc import Callable
from typing import Any, NoReturn

from proton import SASL, Collector, Connection, Event, Transport, TransportException

from conformance import limits
from conformance.adapters.credentials import OPEN, PLAIN, Access, library_lacks, mechanism_of, redacted
from conformance.clients.connecting import answered_in_tls, dial, unanswered
from conformance.clients.session import Disconnected, Refused, pump_until
from conformance.errors import ClientError


class Login:
    """Reads the secret when it is made.

    Raises:
        UsageError: There is none where it should be.
        ClientError: This proton has no such mechanism.
    """

    def __init__(self, access: Access) -> None:
        if lacks := library_lacks(access):
            raise ClientError(lacks)
        self._access = access
        self._mechanism = mechanism_of(access)
        self._password = access.password.read() if access.password is not None else ""

    def prepare(self, transport: Any, connection: Any) -> None:
        """Before the two are bound: exactly this mechanism and no other.

        proton sees no TLS, which is below it: it would not say a password aloud. What carries it is the user's choice.
        """
        sasl = transport.sasl()
        sasl.allowed_mechs(self._mechanism)
        if self._mechanism == PLAIN:
            sasl.allow_insecure_mechs = True
        if self._access.user:
            connection.user, connection.password = self._access.user, self._password

    def refused(self, transport: Any, said: bytes | bytearray) -> str:
        """Why the connection cannot come to be, where the peer has shown it; empty where it may just have gone.

        `said` is what came and is no frame yet.
        """
        if wrong := answered_in_tls(said):
            return wrong
        condition = transport.condition
        outcome = transport.sasl().outcome
        unauthorized = condition is not None and condition.name == "amqp:unauthorized-access"
        if outcome in (None, SASL.OK) and not unauthorized:
            return ""
        who = f" of {self._access.user!r}" if self._access.user else ""
        offers = f" ({self.clean(condition.description)})" if condition is not None and condition.description else ""
        return f"SASL {self._mechanism}: the login{who} was refused{offers}; {self._next}"

    def done(self, transport: Any) -> bool:
        """Whether the peer has let us in."""
        return bool(transport.sasl().outcome == SASL.OK)

    def clean(self, text: str) -> str:
        """What a peer said, without the secret."""
        return redacted(text, self._access)

    def advice(self, condition: Any) -> str:
        """What to do where an endpoint was closed because of who we are; empty for another reason.

        Artemis accepts SASL ANONYMOUS from any client, and closes the connection at the first session of a client it
        does not know (2.56.0, measured).
        """
        return f"; {self._next}" if condition.name == "amqp:unauthorized-access" else ""

    @property
    def _next(self) -> str:
        if self._access.password is not None:
            return f"look at the user and at {self._access.password}, and at the mechanisms that the broker takes"
        return (
            "give a login (--user with --password-env or --password-file) or a certificate (--tls-cert and --tls-key)"
        )


_READ = 1 << 18
_REST_S = 5.0
_UNAUTHORIZED = "amqp:unauthorized-access"
_OPENED = (Event.SESSION_REMOTE_OPEN, Event.LINK_REMOTE_OPEN)


class Wire:
    """Connects on construction; `pump` does I/O and hands every event of the engine to `dispatch`.

    Args:
        host: Address of the broker.
        port: TCP port of the broker.
        container: AMQP container id of this client.
        dispatch: Called with each engine event, in order, after each frame.
        before_write: Called right before bytes may leave.
        after_frame: Called when all events of one frame were dispatched.
        connect_s: Seconds within which the TCP connection must stand.
        access: TLS and login.

    Raises:
        ClientError: No connection within `connect_s`, or TLS or a secret that cannot be used.
    """

    def __init__(
        self,
        host: str,
        port: int,
        container: str,
        *,
        dispatch: Callable[[Any], None],
        before_write: Callable[[], None],
        after_frame: Callable[[], None] = lambda: None,
        connect_s: float = 20.0,
        access: Access = OPEN,
    ) -> None:
        login = Login(access)
        self.socket = dial(host, port, access, connect_s)
        self.socket.setblocking(False)
        self._dispatch, self._before_write, self._after_frame = dispatch, before_write, after_frame
        self._collector = Collector()
        self._transport = Transport()
        self._transport.max_frame_size = limits.AMQP_FRAME
        self.connection = Connection()
        self.connection.container = container
        self.connection.hostname = (access.tls and access.tls.server_name) or host
        self._login = login
        login.prepare(self._transport, self.connection)
        self.connection.collect(self._collector)
        self._transport.bind(self.connection)
        self.connection.open()
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self._input = bytearray()
        self._opened = 0
        self._host, self._port, self._access = host, port, access
        self._heard = False
        self._let_in = False
        self.closed = False

    def clean(self, text: object) -> str:
        """What the peer said, without the secret, which it may quote, and cut where it is too long."""
        return limits.quoted(self._login.clean(str(text)))

    def advice(self, condition: Any) -> str:
        """What to do about an error of the peer, where it lets this user do nothing; empty otherwise."""
        return self._login.advice(condition)

    def watch(self, descriptor: int) -> None:
        """End the process when `descriptor` hangs up: the harness that gave the job is gone."""
        self._poll.register(descriptor, 0)  # POLLHUP is always reported

    def pump(self, timeout_s: float | None) -> None:
        """Write what is pending, wait at most `timeout_s` for input (None: no limit), read, dispatch.

        Raises:
            Disconnected: The peer closed or reset the connection. What it had sent before was dispatched.
            ClientError: It let nobody in, and has shown why.
        """
        self._drain_events()
        beat_s = self._beat()
        self._write()
        wait_s = min((left for left in (timeout_s, beat_s) if left is not None), default=None)
        for descriptor, events in self._poll.poll(None if wait_s is None else max(wait_s, 0) * 1000):
            if descriptor != self.socket.fileno() and events & (select.POLLHUP | select.POLLERR):
                raise SystemExit("the harness is gone")
            if descriptor == self.socket.fileno() and events & ~select.POLLOUT:
                self._read()
        self._drain_events()
        self._beat()
        self._write()

    def _beat(self) -> float | None:
        """Have an empty frame ready where the peer is due one (AMQP 1.0 section 2.4.5); seconds until the next is due.

        A broker drops a client that is silent for its idle-timeout: ActiveMQ Classic after 30 s.
        """
        now = time.monotonic()
        due = self._transport.tick(now)
        return due - now if due else None

    def pump_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Pump until `done()`; False where `timeout_s` went by first."""
        return pump_until(self.pump, done, timeout_s)

    def close(self) -> None:
        """Close in order as far as the peer still listens, and release the socket."""
        if not self.closed:
            self.connection.close()
            with contextlib.suppress(Disconnected):
                self.pump_until(lambda: self.connection.state & self.connection.REMOTE_CLOSED != 0, 2.0)
        self.socket.close()
        self.closed = True

    def _write(self) -> None:
        transport = self._transport
        pending = transport.pending()
        if pending <= 0:
            return
        self._before_write()
        while pending > 0:
            try:
                sent = self.socket.send(transport.peek(min(pending, _READ)) or b"")
            except BlockingIOError:
                self._poll.modify(self.socket, select.POLLIN | select.POLLOUT)
                return
            except OSError as error:
                self._read_rest()
                raise self._lost(error) from error
            transport.pop(sent)
            pending = transport.pending()
        self._poll.modify(self.socket, select.POLLIN)

    def _read(self) -> None:
        try:
            data = self.socket.recv(_READ)
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
            self._look()

    def _look(self) -> None:
        """Whether the login has come to its end; proton only notes a refusal, and goes on waiting."""
        if refused := self._login.refused(self._transport, self._input):
            self.closed = True
            raise ClientError(f"{self._host}:{self._port}: {refused}")
        self._let_in = self._login.done(self._transport)

    def _lost(self, error: OSError | None = None) -> Exception:
        """What to raise at the end of the stream: a broker that died is no broker that let nobody in."""
        self.closed = True
        why = "" if self._let_in else self._login.refused(self._transport, self._input)
        if not (why or self._let_in or self._heard):
            why = unanswered(self._host, self._port, self._access, self.socket)
        return ClientError(f"{self._host}:{self._port}: {why}") if why else Disconnected(str(error or "end of stream"))

    def _read_rest(self) -> None:
        """After a failed write: answers may still lie in the socket, and the broker did send them."""
        deadline = time.monotonic() + _REST_S
        try:
            while not self.closed and (left := deadline - time.monotonic()) > 0:
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
        del data[:offset]

    def _size(self, size: int) -> int:
        """The size of a frame as its header has it; `ClientError` where no frame can have it."""
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
        over = self.connection.state & (self.connection.REMOTE_CLOSED | self.connection.LOCAL_CLOSED)
        if refused or over:
            raise Disconnected("the engine takes no more input")
        raise self._broken(condition or "a frame that the AMQP library cannot read")

    def _broken(self, how: object) -> ClientError:
        """The error of a broker that breaks the protocol; there is no goodbye after it."""
        self.closed = True
        return ClientError(f"the broker broke the protocol: {self.clean(how)}")

    def _check(self, event: Any) -> None:
        """Raise `ClientError` where the engine keeps more for the broker than any broker needs."""
        self._opened += event.type in _OPENED
        if self._opened > limits.ENDPOINTS:
            raise ClientError(limits.exceeded("sessions and links", limits.ENDPOINTS, "pieces"))
        if event.type == Event.DELIVERY and event.link.is_receiver:
            if event.delivery.pending > limits.MESSAGE:
                raise ClientError(limits.exceeded("a message", limits.MESSAGE))
            if event.link.session.incoming_bytes + event.link.queued * limits.OVERHEAD > limits.BACKLOG:
                raise ClientError(limits.exceeded("deliveries that nobody reads", limits.BACKLOG))

    def _drain_events(self) -> None:
        """Each event once, also where its dispatch raises: what was refused is not refused again by a close."""
        collector = self._collector
        while event := collector.peek():
            try:
                self._check(event)
                self._dispatch(event)
            except Refused:
                raise
            except ClientError:  # a broker that breaks the protocol is not waited for
                self.closed = True
                raise
            finally:
                collector.pop()
