"""AMQP 0-9-1: bytes in, bytes out, one `Amqp091ServerConnection` a socket.

`Amqp091ServerConnection` is the wire: the protocol header, the login, heartbeats, channels, contents, and how it ends.
What the methods of a channel do is in `ServerChannel`.

It answers the requests of a connection in their order: while a commit or a declaration waits for the disk, nothing more
is read. After an error it sends connection.close and reads nothing: a peer has time to answer with connection.close-ok
before the socket is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.reference.amqp091 import codec
from conformance.reference.amqp091.channel import ServerChannel
from conformance.reference.amqp091.codec import Amqp091Error
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Queue
from conformance.reference.peers import MAX_UNFINISHED, MAX_UNSENT, Beats, FramedPeer
from conformance.reference.security import OPEN, Guard
from conformance.reference.store.commit import Done

FRAME_MAX, FRAME_MIN = 128 * 1024, 4096
"""Bytes of a frame: proposed, and what every peer takes, also before connection.tune-ok (section 4.2.3)."""

CHANNEL_MAX = 2047
OPEN_S = 10.0
"""Seconds in which a peer has to open its connection."""

_KINDS = (codec.METHOD, codec.CONTENT_HEADER, codec.BODY, codec.HEARTBEAT)
_CAPABILITIES = "basic.nack consumer_cancel_notify publisher_confirms authentication_failure_close"


class _Gathered:
    """The content of a publish that has come in part. A body of None is not kept: it is too large."""

    def __init__(self, key: str, mandatory: bool) -> None:
        self.key = key
        self.mandatory = mandatory
        self.properties: bytes | None = None
        self.left = 0
        self.body: bytearray | None = bytearray()


class Amqp091ServerConnection(FramedPeer):
    """One peer. `wake` is called when `output` may have something; `later` calls back after so many seconds.

    `numbers` counts, from 1 and for all connections of a broker together, the confirms. `subject` is that of the peer's
    verified certificate. The time that a peer has to open its connection runs from the first `tick`.
    """

    def __init__(
        self,
        broker: ReferenceBroker,
        wake: Callable[[], None],
        numbers: Iterator[int],
        later: Callable[[float, Callable[[], None]], object],
        guard: Guard = OPEN,
        subject: str | None = None,
    ) -> None:
        super().__init__(broker, wake, later)
        self.numbers = numbers
        self.frame_max = FRAME_MIN
        self.cancel_notify = False
        self.dismissal = ""  # why a connection over the limit is closed after its start-ok
        self._confirming: dict[ServerChannel, None] = {}
        self.owned: list[Queue] = []
        self._guard = guard
        self._subject = subject
        self._awaits = "header"
        self._open_by: float | None = None
        self._channel_max = CHANNEL_MAX
        self._channels: dict[int, ServerChannel] = {}
        self._contents: dict[int, _Gathered] = {}
        self._kept = 0  # bytes of contents that have come in part
        self._unfinished = 0
        self._stalls = 0

    def _read(self) -> None:
        """What breaks the protocol is answered with an exception of the standard."""
        try:
            self._frames()
            if reason := self._hold(0 if self._ended else self._kept + len(self._input)):
                raise Amqp091Error(codec.RESOURCE_ERROR, reason)
        except Amqp091Error as error:
            self._refuse(error)

    def output(self) -> bytes:
        confirming, self._confirming = self._confirming, {}
        for channel in confirming:
            channel.confirm()
        return super().output()

    def tick(self, now: float) -> float | None:
        """Keeps time: `now` in seconds; when to be called again, None for never."""
        if self._ended:
            return None
        if self._awaits:
            self._open_by = now + OPEN_S if self._open_by is None else self._open_by
            if now >= self._open_by:
                self.close(f"the connection was not opened within {OPEN_S:g} seconds")
            return self._open_by
        # The broker does not read a client that it holds back, so that client's silence proves nothing.
        if self._beats.silent(now, excused=self.choked):
            self.close("no heartbeat was received in time")
            return None
        if self._beats.due(now) and not self._paused:
            self.write(codec.frame(codec.HEARTBEAT, 0, b""))
        return self._beats.deadline

    @property
    def choked(self) -> bool:
        return self._paused or self._blocked

    def close(self, description: str) -> None:
        self._refuse(Amqp091Error(codec.CONNECTION_FORCED, description))

    def lost(self) -> None:
        """The socket is gone: consumers end, open transactions are rolled back."""
        self._end()
        self._parts.clear()

    def confirms(self, channel: ServerChannel) -> None:
        self._confirming[channel] = None
        self._wake()

    def takes_consumer(self) -> bool:
        return sum(len(each.consumers) for each in self._channels.values()) < self._broker.settings.max_links

    def owed(self) -> Done:
        self._unfinished += 1
        return self._finished

    def stall(self) -> Done:
        self._stalls += 1
        return self._go_on

    @property
    def _blocked(self) -> bool:
        return bool(self._stalls) or self._unsent >= MAX_UNSENT or self._unfinished >= MAX_UNFINISHED

    def _finished(self) -> None:
        self._unfinished -= 1
        if self._unfinished == MAX_UNFINISHED - 1:
            self._more_room()

    def _go_on(self) -> None:
        self._stalls -= 1
        self._more_room()

    def _more_room(self) -> None:
        """What was held back is read in a turn of its own, and consumers are served."""
        if self._ended:
            return
        for channel in self._channels.values():
            channel.more_credit()
        self._read_on()
        self._wake()

    def _refuse(self, error: Amqp091Error, name: str = "") -> None:
        """The connection ends with the error; before the header there is nothing to say."""
        if self._ended:
            return
        if self._awaits != "header":
            place = codec.identity(name) if name else (0, 0)
            self.write(codec.method(0, "connection.close", error.code, str(error)[:255], *place))
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._input.clear()
        self._contents.clear()
        self._kept = 0
        self._hold(0)
        self._confirming.clear()
        for channel in self._channels.values():
            channel.end()
        self._channels.clear()
        for queue in self.owned:
            self._broker.delete(queue)
        self.owned.clear()

    def _frames(self) -> None:
        data, at = self._input, 0
        if self._awaits == "header":
            if not codec.HEADER.startswith(bytes(data[:8])):
                self._parts.append(codec.HEADER)
                self._end()
                return
            if len(data) < len(codec.HEADER):
                return
            at = len(codec.HEADER)
            self._start()
        while not self._ended and not self._blocked and len(data) - at >= codec.HEAD.size:
            kind, channel, size = codec.HEAD.unpack_from(data, at)
            end = at + codec.HEAD.size + size
            if kind not in _KINDS or end - at >= self.frame_max:
                raise Amqp091Error(codec.FRAME_ERROR, f"a frame of type {kind} with {size} bytes")
            if len(data) <= end:
                break
            if data[end] != codec.END:
                raise Amqp091Error(codec.FRAME_ERROR, "a frame does not end with the octet 206")
            payload = bytes(memoryview(data)[at + codec.HEAD.size : end])
            at = end + 1
            self._take(kind, channel, payload)
        del data[:at]

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == codec.HEARTBEAT:
            if number or payload:
                raise Amqp091Error(codec.FRAME_ERROR, "a heartbeat is empty and of channel 0")
            return
        if kind == codec.METHOD and not number:
            self._on_connection(payload)
            return
        if self._awaits:
            raise Amqp091Error(codec.COMMAND_INVALID, f"connection.{self._awaits} comes first")
        channel = self._channels.get(number)
        if channel is not None and channel.closing:
            self._drop(number)
            name = codec.decode(payload)[0] if kind == codec.METHOD else ""
            if name == "channel.close":  # it has crossed ours
                self.write(codec.method(number, "channel.close-ok"))
            elif name == "channel.close-ok":
                del self._channels[number]
        elif kind == codec.METHOD:
            self._on_method(number, channel, payload)
        elif number not in self._contents or channel is None:
            raise Amqp091Error(codec.UNEXPECTED_FRAME, "a content without a basic.publish")
        else:
            self._carry(channel, self._contents[number], kind, payload)

    def _drop(self, number: int) -> None:
        """What has come of a content is forgotten: its channel was closed."""
        found = self._contents.pop(number, None)
        if found is not None:
            self._kept -= len(found.body or b"")

    def _on_method(self, number: int, channel: ServerChannel | None, payload: bytes) -> None:
        name, arguments = codec.decode(payload)
        if number in self._contents:
            raise Amqp091Error(codec.UNEXPECTED_FRAME, f"{name} within a content")
        if name == "channel.open":
            if channel is not None or number > self._channel_max:
                raise Amqp091Error(codec.CHANNEL_ERROR, f"the channel {number} is open, or more than channel-max")
            self._channels[number] = ServerChannel(number, self._broker, self)
            self.write(codec.method(number, "channel.open-ok", b""))
        elif channel is None:
            raise Amqp091Error(codec.CHANNEL_ERROR, f"the channel {number} is not open")
        elif name == "channel.close":
            channel.end()
            del self._channels[number]
            self.write(codec.method(number, "channel.close-ok"))
        else:
            self._on_channel(channel, name, lambda: channel.take(name, arguments))
            if name == "basic.publish" and not channel.closing:
                self._contents[number] = _Gathered(arguments[2], arguments[3])

    def _on_channel(self, channel: ServerChannel, name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Amqp091Error as error:
            if not error.closes_channel:
                self._refuse(error, name)
            else:
                channel.close(error, name)

    def _carry(self, channel: ServerChannel, found: _Gathered, kind: int, payload: bytes) -> None:
        """A frame of a content."""
        if (kind == codec.CONTENT_HEADER) != (found.properties is None):
            raise Amqp091Error(codec.UNEXPECTED_FRAME, "a content is one header and then its body")
        if found.properties is None:
            if len(payload) < 14 or payload[:4] != b"\x00\x3c\x00\x00":
                raise Amqp091Error(codec.FRAME_ERROR, "a content header that is none of class 60")
            found.left, found.properties = int.from_bytes(payload[4:12], "big"), payload[12:]
            if found.left > self._broker.settings.max_message_bytes:
                found.body = None
        else:
            found.left -= len(payload)
            if found.left < 0:
                raise Amqp091Error(codec.FRAME_ERROR, "a body is longer than its header says")
            if found.body is not None:
                found.body += payload
                self._kept += len(payload)
        if not found.left:
            self._drop(channel.number)
            body = None if found.body is None else bytes(found.body)
            properties = found.properties
            self._on_channel(
                channel, "basic.publish", lambda: channel.publish(found.key, found.mandatory, properties, body)
            )

    def _start(self) -> None:
        self._awaits = "start-ok"
        self.write(codec.method(0, "connection.start", 0, 9, _about(), " ".join(self._mechanisms), "en_US"))

    @property
    def _mechanisms(self) -> list[str]:
        """Those that are offered, the strongest first. Without a user each login is taken."""
        external = ["EXTERNAL"] if self._subject is not None else []
        return [*external, "PLAIN", *([] if self._guard.user is not None else ["ANONYMOUS"])]

    def _on_connection(self, payload: bytes) -> None:
        name, arguments = codec.decode(payload)
        if name == "connection.close":
            self.write(codec.method(0, "connection.close-ok"))
            self._end()
        elif name == f"connection.{self._awaits}":
            _NEGOTIATION[name](self, *arguments)
        else:
            raise Amqp091Error(codec.COMMAND_INVALID, f"{name} on channel 0")

    def _on_start_ok(self, properties: bytes, mechanism: str, response: bytes, _locale: str) -> None:
        known = mechanism in self._mechanisms
        if mechanism == "PLAIN" and self._guard.user is not None:
            identity, _, login = response.partition(b"\0")
            user, _, password = login.partition(b"\0")
            known = self._guard.knows(user, password) and identity in (b"", user)
        elif mechanism == "EXTERNAL":
            known = known and response in (b"", (self._subject or "").encode())
        if not known:
            raise Amqp091Error(codec.ACCESS_REFUSED, f"the login by {mechanism[:40]!r} was refused")
        if self.dismissal:
            raise Amqp091Error(codec.CONNECTION_FORCED, self.dismissal)
        self.cancel_notify = b"consumer_cancel_notify" in properties
        self._awaits = "tune-ok"
        seconds = -(-self._broker.settings.idle_timeout_ms // 1000)
        self.write(codec.method(0, "connection.tune", CHANNEL_MAX, FRAME_MAX, min(seconds, 0xFFFF)))

    def _on_tune_ok(self, channels: int, size: int, seconds: int) -> None:
        size = size or FRAME_MAX
        if not FRAME_MIN <= size <= FRAME_MAX or channels > CHANNEL_MAX:
            raise Amqp091Error(codec.NOT_ALLOWED, "connection.tune-ok goes beyond what connection.tune proposes")
        self.frame_max = size
        self._channel_max = channels or CHANNEL_MAX
        self._beats = Beats(seconds, seconds)
        self._awaits = "open"

    def _on_open(self, host: str, *_: Any) -> None:
        if host != "/":
            raise Amqp091Error(codec.NOT_ALLOWED, f"there is no virtual host {host[:40]!r}")
        self._awaits = ""
        self.write(codec.method(0, "connection.open-ok", ""))


_NEGOTIATION: dict[str, Callable[..., None]] = {
    "connection.start-ok": Amqp091ServerConnection._on_start_ok,
    "connection.tune-ok": Amqp091ServerConnection._on_tune_ok,
    "connection.open": Amqp091ServerConnection._on_open,
}


def _about() -> bytes:
    """The server-properties: its name, and the extensions of the standard that it has."""
    able = b"".join(bytes((len(name),)) + name.encode() + b"t\x01" for name in _CAPABILITIES.split())
    product = b"conformance-reference"
    parts = (
        b"\x07productS",
        len(product).to_bytes(4, "big"),
        product,
        b"\x0ccapabilitiesF",
        len(able).to_bytes(4, "big"),
    )
    return b"".join((*parts, able))
