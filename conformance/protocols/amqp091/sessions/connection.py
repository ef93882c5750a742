"""A connection of AMQP 0-9-1: pika encodes and decodes the frames, and this module reads and writes them.

Why not one of pika's connections (1.4.4, tried with RabbitMQ 3.10.8): its BlockingConnection waits for the confirm of
each message, so it has no window. Its SelectConnection, and its channels on any loop, write when they like: the history
must have an `invoke` on disk before its bytes leave, and the times of frames that were read. They also hide what a
trial is about: a channel that pika has closed drops the answers that are still in its input.

pika has no limit for the length of a frame; ours act before it gets the bytes.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from pika import frame, spec
from pika.exceptions import AMQPError, InvalidFrameError
from typing_extensions import override

from conformance import limits
from conformance.clients.byte_stream import ByteStream
from conformance.clients.connecting import Login, answered_in_tls
from conformance.clients.session import Disconnected, LoginRefused, Refused, await_answer, pump_until, wait_for_input
from conformance.errors import ClientError

_CLOSE_S = 2.0
_HEADER = struct.Struct(">BHI")
_AROUND = _HEADER.size + 1
_CARRIERS = (spec.Basic.Deliver, spec.Basic.GetOk, spec.Basic.Return)
_UNREADABLE = (AMQPError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""What pika raises for bytes that it cannot decode."""

_CAPABILITIES = dict.fromkeys(
    "authentication_failure_close basic.nack connection.blocked consumer_cancel_notify publisher_confirms".split(), True
)
"""What RabbitMQ sends only to clients that know it."""


class Content(NamedTuple):
    """A message that arrived."""

    properties: Any
    body: bytes


class _Incoming:
    """A message whose frames are being read."""

    def __init__(self, method: Any) -> None:
        self.method = method
        self.properties: Any = None
        self.size = 0
        self.body = bytearray()


OnMethod = Callable[[int, Any, Content | None], None]


class Amqp091Login(Login):
    """The login of one connection by SASL (AMQP 0-9-1, connection.start)."""

    def response(self, mechanisms: str) -> tuple[str, bytes]:
        """Return mechanism and response: of our password, our certificate, or of a client that has neither.

        RabbitMQ has a user guest with that password for such clients, and Broker-J has ANONYMOUS.
        """
        offered = mechanisms.split()
        if self.access.password is None:
            if self.access.tls is not None and self.access.tls.certificate and "EXTERNAL" in offered:
                return "EXTERNAL", b""
            if "ANONYMOUS" in offered:
                return "ANONYMOUS", b""
        user, password = (self.access.user, self.password) if self.access.password is not None else ("guest", "guest")
        return "PLAIN", f"\0{user}\0{password}".encode()


class Amqp091Connection(ByteStream[Amqp091Login]):
    """Connects when it is made; `pump` does the I/O.

    Args:
        login: Where the broker is, and the credentials.
        virtual_host: The virtual host to open.
        name: What the broker may show of this client.
        on_method: Called with channel, method and content for each method of a channel.
        before_write: Called right before bytes may leave.
        connect_s: Time limit of the connection, in seconds.

    Raises:
        ClientError: No open connection within `connect_s`, or a login that is refused.
    """

    def __init__(
        self,
        login: Amqp091Login,
        virtual_host: str,
        name: str,
        *,
        on_method: OnMethod,
        before_write: Callable[[], None] = lambda: None,
        connect_s: float = 20.0,
    ) -> None:
        super().__init__(login, before_write, connect_s)
        self._virtual_host, self._name, self._on_method = virtual_host, name, on_method
        self.greeting = ""
        self.blocked = False
        self.refused = 0  # the method for which a channel was closed, as `INDEX` of pika
        self._frame_max = limits.AMQP_FRAME
        self._channels = 0
        self._contents: dict[int, _Incoming] = {}
        self._answers: dict[tuple[int, type], Any] = {}  # the last method of each kind on each channel
        self._output += frame.ProtocolHeader().marshal()
        self._await_open(connect_s, "open the connection")

    # what a session calls

    def open_channel(self) -> int:
        self._channels += 1
        self.ask(self._channels, spec.Channel.Open(), spec.Channel.OpenOk)
        return self._channels

    def close_channel(self, channel: int) -> None:
        """Close a channel: its unacknowledged deliveries go back to their queue."""
        self.ask(channel, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)

    @property
    def ended(self) -> bool:
        """Whether the broker has closed the connection, or this client."""
        return self._closed

    def ask(self, channel: int, method: Any, *answers: type, content: Content | None = None) -> Any:
        """Send a method, wait for one of its answers and return it."""
        wanted = {(channel, answer) for answer in answers}
        for each in wanted:
            self._answers.pop(each, None)
        self.put(channel, method, content)
        await_answer(self.pump, lambda: bool(wanted & self._answers.keys()), method.NAME)
        return self._answers.pop((wanted & self._answers.keys()).pop())

    def put(self, channel: int, method: Any, content: Content | None = None) -> None:
        """Queue a method; it leaves at the next `pump`."""
        self._output += frame.Method(channel, method).marshal()
        if content is not None:
            body, most = content.body, self._frame_max - _AROUND
            self._output += frame.Header(channel, len(body), content.properties).marshal()
            for start in range(0, len(body), most):
                self._output += frame.Body(channel, body[start : start + most]).marshal()

    @override
    def pump(self, timeout_s: float | None) -> None:
        """Write what is queued, wait at most `timeout_s` for input (None: no limit), read, and handle it.

        Raises:
            Disconnected: The peer closed or reset the connection. What it had sent before was handled.
            Refused: The broker closed a channel or the connection with an error.
            ClientError: The peer refused the login, or broke the protocol.
        """
        self._handle()
        self._write()
        wait_for_input(self._poll, self._socket.fileno(), self._read, timeout_s)
        self._handle()
        self._write()

    def close(self) -> None:
        """Close in order, as far as the peer still listens, and release the socket."""
        try:
            if not self._closed:
                with contextlib.suppress(Disconnected):
                    self.put(0, spec.Connection.Close(200, "", 0, 0))
                    pump_until(self.pump, lambda: (0, spec.Connection.CloseOk) in self._answers, _CLOSE_S)
        finally:
            self._closed = True
            self._socket.close()

    # frames

    @override
    def _handle(self) -> None:
        """Handle the frames that are complete, each once, even if that raises."""
        data, offset = self._input, 0
        try:
            while not self._closed and (size := self._size(data, offset)) and len(data) - offset >= size:
                whole = bytes(memoryview(data)[offset : offset + size])
                offset += size
                self._dispatch(*self._decoded(whole))
        except ClientError:  # `close` does not wait for a broker that breaks the protocol
            self._closed = True
            raise
        finally:
            del data[:offset]

    def _size(self, data: bytearray, at: int) -> int:
        """Return the size of the frame at `at`; 0 if too little of it has come to know."""
        if data[at : at + 4] == b"AMQP":
            raise self._broken(f"it does not speak AMQP 0-9-1, and answers {bytes(data[at : at + 8])!r}")
        if len(data) - at < _HEADER.size:
            return 0
        kind, _, size = _HEADER.unpack_from(data, at)
        if wrong := answered_in_tls(data) if not self._opened else "":
            raise ClientError(f"{self._login.where}: {wrong}")
        if kind not in (spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY, spec.FRAME_HEARTBEAT):
            raise self._broken(f"a frame of type {kind}")
        if size + _AROUND > self._frame_max:
            raise self._broken(f"a frame of {size:,} bytes, and frame-max is {self._frame_max:,} (connection.tune)")
        return _AROUND + int(size)

    def _decoded(self, whole: bytes) -> tuple[int, Any]:
        try:
            _, found = frame.decode_frame(whole)
        except InvalidFrameError as error:
            raise self._broken(error) from error
        except _UNREADABLE as error:
            raise ClientError(f"pika cannot read a frame of the broker: {error!r}") from error
        if found is None:
            raise ClientError(f"pika does not know a frame of the broker, of type {whole[0]}")
        return _HEADER.unpack_from(whole)[1], found

    def _dispatch(self, channel: int, found: Any) -> None:
        if isinstance(found, frame.Heartbeat):
            return
        if channel > self._channels:
            raise self._broken(f"a {found.NAME} frame on channel {channel}, which is not open")
        waiting = self._contents.get(channel)
        if isinstance(found, frame.Method) == (waiting is not None):
            raise self._broken(
                f"a {found.NAME} frame on channel {channel} {'within' if waiting else 'without'} a message"
            )
        if isinstance(found, frame.Method):
            self._on_frame(channel, found.method)
        elif waiting is not None:
            self._on_content(channel, waiting, found)

    def _on_frame(self, channel: int, method: Any) -> None:
        if isinstance(method, _CARRIERS):
            self._contents[channel] = _Incoming(method)
        elif channel == 0:
            self._on_connection(method)
        elif isinstance(method, spec.Channel.Close):
            self.put(channel, spec.Channel.CloseOk())
            self.refused = method.class_id << 16 | method.method_id
            raise Refused(f"the broker closed a channel: {self._said(method)}")
        else:
            self._answers[channel, type(method)] = method
            self._on_method(channel, method, None)

    def _on_content(self, channel: int, waiting: _Incoming, found: Any) -> None:
        if isinstance(found, frame.Header) == (waiting.properties is not None):
            raise self._broken(f"a {found.NAME} frame in a message where none may be")
        if isinstance(found, frame.Header):
            waiting.properties, waiting.size = found.properties, found.body_size
        else:
            waiting.body += found.fragment
        if waiting.size > limits.MESSAGE:
            raise ClientError(limits.limit_sentence("a message", limits.MESSAGE))
        if len(waiting.body) > waiting.size:
            raise self._broken(f"a body of more than the {waiting.size:,} bytes that its header says")
        if len(waiting.body) == waiting.size:
            del self._contents[channel]
            self._answers[channel, type(waiting.method)] = waiting.method
            self._on_method(channel, waiting.method, Content(waiting.properties, bytes(waiting.body)))

    def _on_connection(self, method: Any) -> None:
        match method:
            case spec.Connection.Start():
                self._start(method)
            case spec.Connection.Tune():
                most = min(method.frame_max or limits.AMQP_FRAME, limits.AMQP_FRAME)
                self.put(0, spec.Connection.TuneOk(method.channel_max, most, 0))  # a paused broker sends no heartbeats
                self.put(0, spec.Connection.Open(self._virtual_host))
                self._frame_max = most
            case spec.Connection.OpenOk():
                self._opened = True
            case spec.Connection.Blocked() | spec.Connection.Unblocked():
                self.blocked = isinstance(method, spec.Connection.Blocked)
            case spec.Connection.CloseOk():
                self._answers[0, spec.Connection.CloseOk] = method
            case spec.Connection.Close():
                self._closed_by_broker(method)
            case _:
                raise self._broken(f"a {method.NAME} on channel 0")

    def _start(self, method: Any) -> None:
        said = method.server_properties or {}
        self.greeting = self._login.clean(" ".join(str(said[name]) for name in ("product", "version") if name in said))
        mechanisms = method.mechanisms
        offered = mechanisms.decode(errors="replace") if isinstance(mechanisms, bytes) else str(mechanisms)
        mechanism, response = self._login.response(offered)
        about = {"product": "ack-conformance", "connection_name": self._name, "capabilities": _CAPABILITIES}
        self.put(0, spec.Connection.StartOk(about, mechanism, response.decode(), "en_US"))

    def _closed_by_broker(self, method: Any) -> None:
        self._closed = True
        if not self._output:
            with contextlib.suppress(OSError):
                self._socket.send(frame.Method(0, spec.Connection.CloseOk()).marshal())
        said = self._said(method)
        if method.reply_code == 403 and not self._opened:  # access-refused
            raise LoginRefused(self._login.turned_away(said))
        raise Refused(f"the broker closed the connection: {said}")

    def _said(self, method: Any) -> str:
        return self._login.clean(f"{method.reply_code} {method.reply_text}")
