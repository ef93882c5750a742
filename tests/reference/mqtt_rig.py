"""A broker without a socket for MQTT: the codec of the suite's client on the other side, and a disk that the test runs."""

from __future__ import annotations

import itertools
import struct

from conformance.protocols.mqtt import packets
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.honest import Honest
from conformance.reference.mqtt import connection as mqtt
from conformance.reference.mqtt.sessions import NEVER, MqttSessions
from conformance.reference.security import OPEN
from conformance.reference.settings import Settings
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import recover


class Rig:
    """One broker; nothing reaches its disk before `disk`. `again` is a start on what was written."""

    def __init__(self, chosen=None, guard=OPEN, segments=None, **settings):
        recovered = recover(segments or {})
        self.chosen, self.settings, self.guard = chosen, settings, guard
        self.segments = {number: bytearray(data) for number, data in (segments or {}).items()}
        self.commit = GroupCommit(Journal(recovered))
        self.now = 1_000_000.0
        self.broker = ReferenceBroker(
            Settings(**settings), chosen or Honest(), self.commit, recovered, clock=lambda: self.now
        )
        self.numbers = itertools.count(1)
        self.timers = []
        self.sessions = MqttSessions(self.broker, self.later)

    def later(self, seconds, call):
        self.timers.append((seconds, call))

    def disk(self):
        while self.commit.has_waiting:
            for write in self.commit.take().writes:
                data = self.segments.setdefault(write.segment, bytearray())
                data.extend(bytes(max(0, write.create - len(data))))
                data[write.offset : write.offset + len(write.data)] = write.data
            self.commit.finished()

    def again(self):
        """The broker was killed: what was not written is gone."""
        segments = {number: bytes(data) for number, data in self.segments.items()}
        return Rig(self.chosen, self.guard, segments, **self.settings)

    def depth(self, name):
        queue = self.broker.known(name)
        return None if queue is None else queue.depth

    def client(self, name="q", expiry_s=NEVER, *, clean=False, receive=100, subscribe=None, level=5):
        """A client that is connected, and has subscribed to a topic."""
        client = Client(self, level)
        client.connect(name, expiry_s, clean=clean, receive=receive)
        client.connack, *client.waiting = client.heard()
        if subscribe is not None:
            client.subscribe(subscribe)
            client.suback = client.heard()
        return client


class Client:
    """Writes packets, and reads what it is answered: tuples that begin with the packet's name."""

    def __init__(self, rig, level=5):
        self.rig, self.level = rig, level
        self.connection = mqtt.MqttServerConnection(
            rig.broker, lambda: None, rig.sessions, rig.numbers, rig.later, rig.guard
        )
        self.input = b""
        self.waiting = []  # what came with the CONNACK
        self.flags = []  # RETAIN of each PUBLISH that came

    def connect(self, name="q", expiry_s=NEVER, *, clean=False, receive=100, flags=0, more=b"", keep_alive=0):
        about = struct.pack(">BIBH", 0x11, expiry_s, 0x21, receive) if self.level == 5 else None
        head = packets.text("MQTT") + struct.pack(">BBH", self.level, flags | 2 * clean, keep_alive)
        self.say(packets.CONNECT, head + props(about) + packets.text(name) + more)

    def say(self, kind, payload=b"", flags=None):
        self.connection.receive(packets.packet(kind, payload, flags))

    def subscribe(self, *topics, qos=2, number=1):
        """Topics, or pairs of a topic and its options."""
        pairs = [each if isinstance(each, tuple) else (each, qos) for each in topics]
        payload = b"".join(packets.text(name) + bytes([options]) for name, options in pairs)
        self.say(packets.SUBSCRIBE, struct.pack(">H", number) + props(self._about) + payload)

    def unsubscribe(self, *topics, number=1):
        payload = b"".join(map(packets.text, topics))
        self.say(packets.UNSUBSCRIBE, struct.pack(">H", number) + props(self._about) + payload)

    def publish(self, number=1, body=b"1", topic="q", qos=1, *, again=False, about=b"", retain=False):
        head = packets.text(topic) + (struct.pack(">H", number) if qos else b"")
        about = about if self.level == 5 else None
        self.say(packets.PUBLISH, head + props(about) + body, 8 * again | qos << 1 | retain)

    def answer(self, kind, number, reason=0):
        self.say(kind, struct.pack(">HB", number, reason) if reason else struct.pack(">H", number))

    def asks(self, kind, number, reason=0):
        self.answer(kind, number, reason)
        return self.heard()

    def leave(self):
        """The connection is lost."""
        self.connection.lost()
        self.rig.broker.dispatch()
        self.rig.disk()

    def heard(self, *, stored=True):
        """The packets that came since, after all was stored and sent."""
        found, self.waiting = self.waiting, []
        while True:
            if stored:
                self.rig.disk()
            self.rig.broker.dispatch()
            due = [each for each in self.rig.timers if not each[0]]
            self.rig.timers = [each for each in self.rig.timers if each[0]]
            for _, call in due:
                call()
            data = self.connection.output()
            if not data and not due and not (stored and self.rig.commit.has_waiting):
                return found
            self.input += data
            while (head := packets.head(self.input, 0, len(self.input))) and len(self.input) >= head.length:
                found.append(self._read(head, self.input[head.size : head.length]))
                self.input = self.input[head.length :]

    def _read(self, head, data):
        name, end = packets.NAMES[head.kind], len(data)
        if head.kind == packets.PUBLISH:
            return self._delivery(data, head.flags)
        if head.kind in packets.ACKS:
            found = packets.read_answer(head.kind, data, 0, end, self.level)
            return name, found.number, found.reasons[0]
        if head.kind in (packets.SUBACK, packets.UNSUBACK):
            return name, int.from_bytes(data[:2]), tuple(data[3 if self.level == 5 else 2 :])
        if head.kind == packets.CONNACK:
            return name, bool(data[0]), data[1]
        return name, data[0] if data else 0

    def _delivery(self, data, flags):
        self.flags.append(flags & 1)
        if self.level == 5:
            found = packets.read_publish(data, 0, len(data), flags, 5)
            self.last = found
            return "PUBLISH", found.number, found.qos, found.again, found.body
        at = 2 + int.from_bytes(data[:2])
        qos = flags >> 1 & 3
        return (
            "PUBLISH",
            int.from_bytes(data[at : at + 2]) if qos else 0,
            qos,
            bool(flags & 8),
            data[at + 2 * bool(qos) :],
        )

    @property
    def _about(self):
        return b"" if self.level == 5 else None


def props(data):
    """Properties with their length; nothing for 3.1.1."""
    return b"" if data is None else packets.number(len(data)) + data


def names(heard):
    return [each[0] for each in heard]


def deliveries(heard):
    """Identifier, DUP and body of each PUBLISH."""
    return [(number, again, body) for name, number, _, again, body in (h for h in heard if h[0] == "PUBLISH")]


def bodies(heard):
    return [body for _, _, body in deliveries(heard)]
