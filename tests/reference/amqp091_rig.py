"""A broker without a socket for AMQP 0-9-1: pika's codec on the side of the client, and a disk that the test runs."""

from __future__ import annotations

import itertools

from pika import frame, spec

from conformance.reference.amqp091 import connection as amqp091
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.honest import Honest
from conformance.reference.security import OPEN
from conformance.reference.settings import Settings
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import recover

HEADER = b"AMQP\x00\x00\x09\x01"
PERSISTENT = spec.BasicProperties(delivery_mode=2)


class Rig:
    """One broker with the durable queue `q`; nothing reaches its disk before `disk`."""

    def __init__(self, chosen=None, guard=OPEN, **settings):
        self.commit = GroupCommit(Journal(recover({})))
        self.now = 1_000_000.0
        self.broker = ReferenceBroker(
            Settings(**settings), chosen or Honest(), self.commit, recover({}), clock=lambda: self.now
        )
        self.guard = guard
        self.numbers = itertools.count(1)
        self.timers = []
        self.queue = self.broker.queue("q")
        self.disk()

    def later(self, seconds, call):
        self.timers.append(call)

    def disk(self):
        while self.commit.has_waiting:
            self.commit.take()
            self.commit.finished()

    def client(self, channels=1):
        """A client with the channels from 1 on open."""
        client = Client(self)
        client.open()
        for number in range(1, channels + 1):
            assert names(client.asks(spec.Channel.Open(), number)) == ["Channel.OpenOk"]
        return client


class Client:
    """Writes frames, and reads what it is answered."""

    def __init__(self, rig):
        self.rig = rig
        self.connection = amqp091.Amqp091ServerConnection(rig.broker, lambda: None, rig.numbers, rig.later, rig.guard)
        self.input = b""

    def open(self, frame_max=4096, heartbeat=0, mechanism="PLAIN", response="\0guest\0guest"):
        self.connection.receive(HEADER)
        self.say(spec.Connection.StartOk({}, mechanism, response, "en_US"), 0)
        self.say(spec.Connection.TuneOk(10, frame_max, heartbeat), 0)
        self.say(spec.Connection.Open("/"), 0)
        return self.heard()

    def say(self, method, channel=1):
        self.connection.receive(frame.Method(channel, method).marshal())

    def asks(self, method, channel=1):
        self.say(method, channel)
        return self.heard()

    def publish(self, body=b"1", queue="q", properties=PERSISTENT, channel=1, **options):
        self.say(spec.Basic.Publish(exchange="", routing_key=queue, **options), channel)
        self.connection.receive(frame.Header(channel, len(body), properties).marshal())
        for start in range(0, len(body), 4088):
            self.connection.receive(frame.Body(channel, body[start : start + 4088]).marshal())

    def heard(self, *, stored=True):
        """The methods that came since, after all was stored and sent; each with its message, if it has one."""
        found = []
        while True:
            if stored:
                self.rig.disk()
            self.rig.broker.dispatch()
            timers, self.rig.timers = self.rig.timers, []
            for call in timers:
                call()
            data = self.connection.output()
            if not data and not timers:
                return found
            self.input += data
            while self.input:
                size, each = frame.decode_frame(self.input)
                if each is None:
                    break
                self.input = self.input[size:]
                self._sort(each, found)

    def consume(self, prefetch=0, queue="q", channel=1, **options):
        """The deliveries of a new consumer."""
        self.say(spec.Basic.Qos(prefetch_count=prefetch), channel)
        return delivered(self.asks(spec.Basic.Consume(queue=queue, **options), channel))

    @staticmethod
    def _sort(each, found):
        if isinstance(each, frame.Method):
            each.method.channel, each.method.body = each.channel_number, b""
            found.append(each.method)
        elif isinstance(each, frame.Header):
            found[-1].properties = each.properties
        elif isinstance(each, frame.Body):
            found[-1].body += each.fragment


def names(methods):
    return [each.NAME for each in methods]


def delivered(methods):
    return [each for each in methods if each.NAME in ("Basic.Deliver", "Basic.GetOk")]


def bodies(methods):
    return [int(each.body) for each in delivered(methods)]


def tags(methods):
    return [each.delivery_tag for each in delivered(methods)]


def confirms(methods):
    """Answers to publishes: name, number and `multiple`."""
    answers = [each for each in methods if each.NAME in ("Basic.Ack", "Basic.Nack")]
    return [(each.NAME[6:], each.delivery_tag, each.multiple) for each in answers]


def error(methods):
    """The one method that closes a channel or connection, and its code."""
    (found,) = (each for each in methods if each.NAME in ("Channel.Close", "Connection.Close"))
    return found.NAME[:-6], found.reply_code
