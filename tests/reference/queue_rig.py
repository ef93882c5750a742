"""A broker without a socket, on bytes for a disk, with a clock that is set by hand."""

from __future__ import annotations

import struct

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Subscription
from conformance.reference.core.sections import Parsed
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.honest import Honest
from conformance.reference.settings import Settings, parse_queues
from conformance.reference.store.commit import GroupCommit, do_nothing
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import recover

START = 1_000_000.0
"""Seconds since the epoch when a rig starts."""

NULLS = b"\x40\x40"


class Rig:
    """Queues by their options as `--queue` takes them; `disk` stores what waits, and nothing else does.

    `answers` has what was said of each send: "done", or the condition of its refusal.
    """

    def __init__(self, *queues, image=None, now=START, behaviour=None, **settings):
        self.files = {number: bytearray(data) for number, data in (image or {}).items()}
        self.now = now
        self.behaviour = behaviour or Honest()
        recovered = recover(self.image())
        self.commit = GroupCommit(Journal(recovered))
        chosen = Settings(**settings)
        options = parse_queues(queues or ("q",), chosen)
        self.broker = ReferenceBroker(chosen, self.behaviour, self.commit, recovered, options, lambda: self.now)
        self.queue = self.broker.known(next(iter(options)))
        self.answers = []
        self.syncs = []
        self.postponed = []
        self.disk()
        self.syncs.clear()

    def again(self, *queues, **settings):
        """What a restart after a power loss makes of what is on the disk, at the same time of day."""
        return Rig(*queues, image=self.image(), now=self.now, behaviour=self.behaviour, **settings)

    def image(self):
        return {number: bytes(data) for number, data in self.files.items()}

    def disk(self):
        while self.commit.has_waiting:
            self.store(self.commit.take())
        self.postponed += [call for _, call in self.commit.postponed()]

    def store(self, batch):
        """One batch is written, synced if it asks for that, and answered."""
        for write in batch.writes:
            file = self.files.setdefault(write.segment, bytearray(write.create))
            file[write.offset : write.offset + len(write.data)] = write.data
        self.syncs.append(batch.sync)
        self.commit.finished()

    def late(self):
        """The time of what was postponed first is over."""
        self.postponed.pop(0)()

    def no_room(self):
        """The batch that is next finds the disk full."""
        self.commit.take()
        self.commit.no_space()

    def send(
        self,
        bare=b"x",
        transaction=None,
        queue=None,
        *,
        topic=None,
        durable=True,
        ttl=0,
        expires=0,
        sender=None,
        rest=NULLS,
    ):
        self.broker.next_send()
        place = len(self.answers)
        self.answers.append(None)

        def said(word):
            assert self.answers[place] is None, "answered twice"
            self.answers[place] = word

        at = self.broker.topic(topic) if topic else self.broker.queue(queue) if queue else self.queue
        self.broker.publish(
            at,
            Parsed(durable, rest, bare, ttl, expires),
            lambda: said("done"),
            transaction,
            refused=lambda refusal: said(refusal.condition),
            sender=sender,
        )

    def commits(self, transaction):
        place = len(self.answers)
        self.answers.append(None)
        self.broker.commit(
            transaction,
            lambda: self.answers.__setitem__(place, "done"),
            lambda refusal: self.answers.__setitem__(place, refusal.condition),
        )

    def link(self, credit=100, queue=None, *, settled=False, ended=do_nothing, selector=None):
        """A consumer, and what it was sent: (body, delivery-count, redelivered) by tag."""
        got = {}
        link = Subscription(
            self.broker.queue(queue) if queue else self.queue,
            settled,
            lambda: credit - link.sent,
            lambda tag, message: got.update({tag: (message.bare, message.failures, message.acquired)}),
            ended,
            selector=selector,
        )
        self.broker.subscribe(link)
        self.broker.dispatch()
        return link, got

    def settle(self, link, tag, event=SettlementEvent.ACCEPTED, transaction=None):
        self.broker.settle(link, tag, event, do_nothing, transaction=transaction)

    def bodies(self, queue=None):
        """What is stored in a queue, in order."""
        return [message.bare for message in self.broker.browse(self.broker.known(queue) if queue else self.queue)]

    def on_disk(self):
        """What a restart would find: queue, body, delivery-count."""
        return on_disk(self.image())


def on_disk(image):
    return sorted((m.queue, bytes(m.bare), m.failures) for m in recover(image).messages.values())


def due_in(rig, seconds):
    """A bare message that may be delivered so many seconds after the rig's now."""
    name = b"x-opt-delivery-time"
    pair = b"\xa3" + bytes((len(name),)) + name + b"\x81" + struct.pack(">q", int((rig.now + seconds) * 1000))
    return b"\x00\x53\x72\xc1" + bytes((len(pair) + 1, 2)) + pair + b"\x00\x53\x77\x40"


def identified(identity, body=b"x"):
    """A bare message with the application property that names it, and a body."""
    raw = identity.encode()
    pair = b"\xa1\x0c_AMQ_DUPL_ID\xa1" + bytes((len(raw),)) + raw
    return (
        b"\x00\x53\x74\xc1"
        + bytes((len(pair) + 1, 2))
        + pair
        + b"\x00\x53\x75\xb0"
        + struct.pack(">I", len(body))
        + body
    )
