"""A broker without a socket for AMQP, and a client of proton's engine: bytes carried by hand, and read on their way."""

from __future__ import annotations

from typing import Any

from proton import Connection, Delivery, Endpoint, Message, Transport, symbol

from conformance.protocols.amqp import frames as frames_amqp
from conformance.reference.amqp import connection as amqp
from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.honest import Honest
from conformance.reference.profiles import PROFILES
from conformance.reference.settings import Settings
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import recover


class Rig:
    """One broker with one client; nothing reaches its disk before `disk`, and no timer runs before `second`.

    `frames` has what the broker wrote since they were last looked at.
    """

    def __init__(self, profile="standard", behaviour=None, **settings):
        self.commit = GroupCommit(Journal(recover({})))
        self.broker = ReferenceBroker(
            Settings(**settings), behaviour or Honest(), self.commit, recover({}), profile=PROFILES[profile]
        )
        self.timers = []
        self.frames = []
        self._other, self._reader = frames_amqp.readers()
        self.there = amqp.AmqpConnection(self.broker, lambda: None, lambda s, call: self.timers.append((s, call)))
        self.here = Connection()
        self.transport = Transport()
        self.transport.bind(self.here)
        self.here.container = "client"
        self.here.open()
        self.session = self.here.session()
        self.session.open()
        self.carry()

    def carry(self):
        """All bytes that either side has for the other."""
        while True:
            pending = self.transport.pending()
            data = self.transport.peek(pending) if pending > 0 else b""
            if data:
                self.transport.pop(len(data))
                self._other.feed(data)
                self.there.receive(data)
            self.broker.dispatch()
            back = self.there.output()
            if back:
                self.frames += self._reader.feed(back)
                self.transport.push(back)
            if not data and not back:
                return

    def disk(self):
        while self.commit.has_waiting:
            self.commit.take()
            self.commit.finished()
        self.carry()

    def second(self):
        due, self.timers = self.timers, []
        for _, call in due:
            call()
        self.carry()

    def sender(self, queue="q", **properties: Any):
        return self._attached(self.session.sender(f"s-{queue}"), "target", queue, properties)

    def receiver(self, credit, queue="q", **properties: Any):
        link = self._attached(self.session.receiver(f"r-{queue}"), "source", queue, properties)
        link.flow(credit)
        self.carry()
        return link

    def _attached(self, link, terminus, queue, properties):
        getattr(link, terminus).address = queue
        if properties:
            link.properties = {symbol(name.replace("_", "-")): value for name, value in properties.items()}
        link.open()
        self.carry()
        return link

    def send(self, link, *bodies, **annotations):
        """Durable messages, unsettled; their deliveries."""
        found = []
        for body in bodies:
            message = Message(body=body, durable=True)
            message.annotations = {symbol(name.replace("_", "-")): value for name, value in annotations.items()}
            found.append(link.delivery(str(body)))
            link.send(message.encode())
            link.advance()
        self.carry()
        return found

    def dispositions(self):
        """First and last of the dispositions that were written since, without what else was."""
        found = [(frame.first, frame.last) for frame in self.frames if frame.name == "disposition"]
        self.frames.clear()
        return found

    def received(self, link):
        """The deliveries that have come."""
        found = []
        while link.current is not None and link.current.readable:
            delivery = link.current
            link.recv(delivery.pending)
            link.advance()
            found.append(delivery)
        return found


def accept(delivery):
    """An outcome, not settled: it is to be confirmed."""
    delivery.update(Delivery.ACCEPTED)


def closed(link):
    """The condition that ended the link, None while it is open."""
    return link.remote_condition.name if link.state & Endpoint.REMOTE_CLOSED else None
