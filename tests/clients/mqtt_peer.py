"""A scripted broker of MQTT in a thread. Its packets are put together here, by the standard, and not by the suite."""

import struct

import msgspec
from scripted_sessions import on_peers
from stomp_peer import Peer, job

from conformance.protocols.mqtt.options import MqttOptions
from conformance.protocols.mqtt.sessions.session import MqttSession
from conformance.protocols.mqtt311.sessions import Mqtt311Session

OWN = msgspec.structs.asdict(MqttOptions())
CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK = range(1, 10)
PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14


def length(value):
    """A variable byte integer (section 1.5.5)."""
    found = b""
    while value > 127:
        found += bytes([value % 128 + 128])
        value //= 128
    return found + bytes([value])


def packet(kind, payload=b"", flags=0):
    return bytes([kind << 4 | flags]) + length(len(payload)) + payload


def text(value):
    return struct.pack(">H", len(value)) + value


def connack(*, present=False, reason=0, properties=b""):
    return packet(CONNACK, bytes([present, reason]) + length(len(properties)) + properties)


def answer(kind, number, reason=None):
    more = b"" if reason is None else bytes([reason, 0])
    return packet(kind, struct.pack(">H", number) + more, 2 if kind == PUBREL else 0)


def user(name, value):
    return b"\x26" + text(name) + text(value)


def publish_311(number, body, *, qos=1):
    """A PUBLISH of 3.1.1, which has no properties."""
    return packet(PUBLISH, text(b"q") + struct.pack(">H", number) + body, qos << 1)


def publish(number, message=b"p1:1", *, qos=1, again=False, body=b"p1:1 body", more=b""):
    properties = user(b"conformance_id", message) + more
    head = text(b"q") + (struct.pack(">H", number) if qos else b"") + length(len(properties)) + properties
    return packet(PUBLISH, head + body, qos << 1 | again << 3)


class MqttPeer(Peer):
    """`script` gets this peer in a thread of its own, once CONNECT was answered.

    `packets` are those that it read: kind, flags and payload.
    """

    def __init__(self, script, greeting=None):
        self.packets = []
        self.suback = b"\0\2"
        self.hello = connack() if greeting is None else greeting
        super().__init__(lambda peer: peer.serve(script), greeting=b"")

    def read(self, count=1):
        """The next packets."""
        found = []
        while len(found) < count:
            size, shift, at = 0, 0, 1
            while at < len(self._rest) and self._rest[at] > 127:
                size, shift, at = size + (self._rest[at] - 128 << shift), shift + 7, at + 1
            whole = at + 1 + size + (self._rest[at] << shift) if at < len(self._rest) else 0
            if not whole or len(self._rest) < whole:
                data = self.socket.recv(65536)
                if not data:
                    raise EOFError
                self._rest += data
                continue
            found.append((self._rest[0] >> 4, self._rest[0] & 15, bytes(self._rest[at + 1 : whole])))
            self._rest = self._rest[whole:]
        self.packets += found
        return found

    def until(self, kind):
        """Read until a packet of this kind, answer SUBSCRIBE and PINGREQ, and return its payload."""
        while True:
            ((found, _, payload),) = self.read()
            if found == SUBSCRIBE:
                self.write(packet(SUBACK, payload[:2] + self.suback))
            elif found == PINGREQ:
                self.write(packet(PINGRESP))
            if found == kind:
                return payload

    def serve(self, script):
        self.write(self.hello)
        script(self)


def opened(port, **fields):
    """A session with that peer."""
    return MqttSession(job(port, "mqtt", **{"own": OWN, **fields}), lambda: None)


def on_mqtt_peers():
    """As `on_peers`, with peers that read until their client has left."""

    def peer_of(script, greeting=None):
        return MqttPeer(lambda peer: (script(peer), peer.until(DISCONNECT)), greeting)

    return on_peers(peer_of, opened)


def opened_311(port, **fields):
    return Mqtt311Session(job(port, "mqtt311", **{"own": OWN, **fields}), lambda: None)
