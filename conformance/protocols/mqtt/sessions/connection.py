"""One connection of MQTT: this module reads and writes, and `packets` encodes and decodes.

Why not paho's client (2.2.0): see `packets`. It also writes when it likes, and the history must have an `invoke` on
disk before its bytes leave. A script asks for one exchange of packets; that client answers PUBREC and PUBREL itself.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Mapping

from typing_extensions import override

from conformance import limits
from conformance.clients.byte_stream import ByteStream
from conformance.clients.connecting import Login, answered_in_tls
from conformance.clients.session import Disconnected, LoginRefused, Refused, await_answer, pump_until, wait_for_input
from conformance.errors import ClientError
from conformance.protocols.mqtt import packets
from conformance.protocols.mqtt.packets import Answer, Connack, Head, Malformed, PublishPacket

_CLOSE_S = 10.0
LARGEST = limits.MESSAGE + limits.STOMP_HEAD
"""Bytes of one packet; CONNECT says so (section 3.1.2.11.4)."""

OnPacket = Callable[[int, PublishPacket | Answer], None]


class MqttLogin(Login):
    """The user and the password of CONNECT."""

    @property
    def words(self) -> tuple[str, str] | None:
        return None if self.access.password is None else (self.access.user, self.password)


class MqttConnection(ByteStream[MqttLogin]):
    """Connects when it is made; `pump` does the I/O.

    Args:
        login: Where the broker is, and the credentials.
        client_id: By it the broker knows a session.
        level: The version, as in `packets`.
        receive: How many PUBLISH packets may be unacknowledged; 0 for as many as MQTT has.
        expiry_s: How long the session outlives this connection; 0 for one that ends with it.
        on_packet: Called with each PUBLISH, and with each answer to what this connection has sent.
        before_write: Called right before bytes may leave.
        connect_s: Time limit of the connection, in seconds.

    Attributes:
        present: Whether the broker still had the session.
        quota: How many PUBLISH packets the broker takes unacknowledged.

    Raises:
        ClientError: No CONNACK within `connect_s`, or a login that is refused.
    """

    def __init__(
        self,
        login: MqttLogin,
        client_id: str,
        level: int,
        *,
        receive: int = 0,
        expiry_s: int = 0,
        on_packet: OnPacket,
        before_write: Callable[[], None] = lambda: None,
        connect_s: float = 20.0,
    ) -> None:
        super().__init__(login, before_write, connect_s)
        self._on_packet, self._level = on_packet, level
        self.present, self.quota, self._most_qos = False, packets.MOST, 2
        self._largest = packets.LONGEST
        self._every_s = 0.0  # Server Keep Alive
        self._wrote = time.monotonic()
        self._subscribed: Answer | None = None
        self._number = 0
        self._pinged = False
        self._output += packets.connect(
            client_id,
            level,
            expiry_s=expiry_s,
            receive=min(receive or packets.MOST, packets.MOST),
            largest=LARGEST,
            login=login.words,
        )
        self._await_open(connect_s, "answer CONNECT")

    # what a session calls

    def subscribe(self, topic: str) -> None:
        """Subscribe to a topic with QoS 2, so that each message comes as it was sent, and wait for the answer."""
        self._subscribed = None
        self.put(packets.subscribe(self._next(), topic, 2, self._level))
        await_answer(self.pump, lambda: self._subscribed is not None, "SUBSCRIBE")
        reason = max(self._subscribed.reasons) if self._subscribed else 0
        if reason >= packets.REFUSED:
            raise Refused(f"the broker refused a SUBSCRIBE: {self._said(reason, self._subscribed)}")

    def publish(
        self,
        topic: str,
        texts: Mapping[str, str],
        body: bytes,
        qos: int,
        again: int = 0,
        lives_s: int = 0,
        *,
        retain: bool = False,
    ) -> int:
        """Queue a PUBLISH, and return its packet identifier; `again` is that of one that is sent again.

        Raises `ClientError` if the broker takes none like it.
        """
        identifier = again or (self._next() if qos else 0)
        flags = (packets.DUP if again else 0) | (packets.RETAIN if retain else 0)
        made = packets.publish(topic, identifier, qos, texts, body, self._level, flags=flags, lives_s=lives_s)
        if len(made) > self._largest or qos > self._most_qos:
            raise ClientError(f"the broker takes packets of {self._largest:,} bytes and QoS {self._most_qos} (CONNACK)")
        self.put(made)
        return identifier

    def put(self, packet: bytes) -> None:
        """Queue a packet; it leaves at the next `pump`."""
        self._output += packet

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waits_to_write(self) -> bool:
        return bool(self._output)

    @override
    def pump(self, timeout_s: float | None) -> None:
        """Write what is queued, wait at most `timeout_s` for input (None: no limit), read, and handle it.

        Raises:
            Disconnected: The peer closed or reset the connection. What it had sent before was handled.
            Refused: The broker said in a DISCONNECT or CONNACK why it goes.
            ClientError: The peer refused the login, or broke the protocol.
        """
        handled = self._handle()  # what came with the CONNACK
        self._keep_alive()
        self._write()
        wait_for_input(self._poll, self._socket.fileno(), self._read, 0 if handled else self._until_ping(timeout_s))
        self._handle()
        self._write()

    def close(self) -> None:
        """Say DISCONNECT, which keeps the session, and release the socket.

        A DISCONNECT has no answer, so a PINGREQ goes before it: the broker has read what this client acknowledged.
        """
        try:
            if not self._closed:
                with contextlib.suppress(Disconnected, ClientError, Refused):
                    self._pinged = True
                    self.put(packets.packet(packets.PINGREQ, b""))
                    pump_until(self.pump, lambda: not self._pinged, _CLOSE_S)
                    self.put(packets.packet(packets.DISCONNECT, b""))
                    self._write()
        finally:
            self._closed = True
            self._socket.close()

    # bytes

    def _next(self) -> int:
        """Return the next packet identifier; with so few in flight it is unused when the numbers begin again."""
        self._number = self._number % packets.MOST + 1
        return self._number

    def _keep_alive(self) -> None:
        if self._every_s and time.monotonic() - self._wrote > self._every_s / 2:
            self.put(packets.packet(packets.PINGREQ, b""))

    def _until_ping(self, timeout_s: float | None) -> float | None:
        if not self._every_s:
            return timeout_s
        left = max(self._wrote + self._every_s / 2 - time.monotonic(), 0) + 0.01
        return left if timeout_s is None else min(left, timeout_s)

    @override
    def _write(self) -> None:
        waits = bool(self._output)
        super()._write()
        if waits and not self._output:
            self._wrote = time.monotonic()

    # packets

    @override
    def _handle(self) -> bool:
        """Handle the packets that are complete, each once, even if that raises; return whether there was one.

        What comes with the CONNACK waits for the next call: the session does not have this connection yet.
        """
        data, offset, opened = self._input, 0, self._opened
        try:
            while not self._closed and (head := self._head(data, offset)) and len(data) - offset >= head.length:
                start, offset = offset + head.size, offset + head.length
                self._dispatch(head, data, start, offset)
                if self._opened != opened:
                    break
        except (Malformed, IndexError, struct.error) as error:
            self._closed = True
            raise self._broken(error) from error
        except ClientError:  # `close` does not wait for a broker that breaks the protocol
            self._closed = True
            raise
        finally:
            del data[:offset]
        return offset > 0

    def _head(self, data: bytearray, at: int) -> Head | None:
        if (wrong := answered_in_tls(data) if not self._opened else "") and not at:
            raise ClientError(f"{self._login.where}: {wrong}")
        head = packets.head(data, at, len(data))
        if head is not None and head.length > LARGEST:
            raise ClientError(f"a packet of {head.length:,} bytes, and this client takes at most {LARGEST:,}")
        return head

    def _dispatch(self, head: Head, data: bytearray, at: int, end: int) -> None:
        kind, name = head.kind, packets.NAMES[head.kind]
        if kind == packets.CONNACK and not self._opened:
            self._connected(packets.read_connack(bytes(data[at:end]), 0, end - at))
        elif kind == packets.DISCONNECT and self._level >= packets.MQTT_5:
            reason, found = packets.read_disconnect(bytes(data[at:end]), 0, end - at)
            self._closed = True
            raise Refused(f"the broker closed the connection: {self._login.clean(packets.said(reason, found))}")
        elif not self._opened:
            raise self._broken(f"a {name} before the CONNACK")
        elif kind == packets.PUBLISH:
            self._on_packet(kind, packets.read_publish(data, at, end, head.flags, self._level))
        elif kind in packets.ACKS:
            self._on_packet(kind, packets.read_answer(kind, bytes(data[at:end]), 0, end - at, self._level))
        elif kind == packets.SUBACK:
            self._subscribed = packets.read_answer(kind, bytes(data[at:end]), 0, end - at, self._level)
        elif kind == packets.PINGRESP:
            self._pinged = False
        else:
            raise self._broken(f"a {name}, which no broker sends")

    def _connected(self, found: Connack) -> None:
        if found.reason >= packets.REFUSED:
            said = self._login.clean(packets.said(found.reason, found.properties))
            self._closed = True
            if found.reason in packets.LOGIN_REFUSED:
                raise LoginRefused(self._login.turned_away(said))
            raise Refused(f"the broker refused the connection: {said}")
        self._opened, self.present = True, found.present
        self.quota = packets.value_of(found.properties, packets.RECEIVE_MAXIMUM, packets.MOST)
        self._largest = packets.value_of(found.properties, packets.MAXIMUM_PACKET_SIZE, packets.LONGEST)
        self._most_qos = packets.value_of(found.properties, packets.MAXIMUM_QOS, 2)
        self._every_s = packets.value_of(found.properties, packets.SERVER_KEEP_ALIVE, 0)

    def _said(self, reason: int, answer: Answer | None) -> str:
        return self._login.clean(packets.said(reason, answer.properties if answer else ()))
