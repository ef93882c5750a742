"""A hostile client of AMQP 0-9-1, drawn from a seed."""

from __future__ import annotations

import struct

from hostile_broker import Fuzz
from pika import frame, spec

HEADER = b"AMQP\x00\x00\x09\x01"
PERSISTENT = spec.BasicProperties(delivery_mode=2, headers={"colour": "red", "n": 1})


def said(method, channel=1):
    return frame.Method(channel, method).marshal()


def published(body, queue="q", channel=1, size=None, **options):
    head = frame.Header(channel, len(body) if size is None else size, PERSISTENT).marshal()
    method = said(spec.Basic.Publish(routing_key=queue, **options), channel)
    bodies = (body[at : at + 4088] for at in range(0, len(body), 4088))
    return method + head + b"".join(frame.Body(channel, each).marshal() for each in bodies)


def _consumer(fuzz):
    """A consumer that is cancelled again; the deliveries that it leaves are requeued."""
    name = str(fuzz.chance.random())
    prefetch = said(spec.Basic.Qos(prefetch_count=fuzz.chance.randrange(9)))
    cancelled = said(spec.Basic.Cancel(name)) + said(spec.Basic.Recover(requeue=True))
    return prefetch + said(spec.Basic.Consume(queue="q", consumer_tag=name)) + cancelled


def _channel(fuzz):
    """A channel that is opened, used and closed."""
    number = fuzz.chance.randrange(3, 10)
    ends = fuzz.chance.choice((spec.Tx.Commit(), spec.Tx.Rollback()))
    body = published(b"x" * fuzz.chance.randrange(200), channel=number)
    opened = said(spec.Channel.Open(), number) + said(spec.Tx.Select(), number)
    return opened + body + said(ends, number) + said(spec.Channel.Close(0, "", 0, 0), number)


class Amqp091ClientFuzz(Fuzz):
    LEGAL = (
        lambda fuzz: published(b"x" * fuzz.chance.randrange(200)),
        lambda _: published(bytes(30_000), mandatory=True),
        lambda _: published(b"x" * 5000, "missing", mandatory=True),
        lambda _: said(spec.Basic.Get(queue="q", no_ack=True)),
        lambda _: said(spec.Basic.Get(queue="q")) + said(spec.Basic.Ack(0, multiple=True)),
        _consumer,
        _channel,
        lambda _: said(spec.Queue.Declare(queue="", exclusive=True)),
        lambda _: frame.Heartbeat().marshal() * 50,
    )
    WRONG = (
        HEADER,
        said(spec.Basic.Ack(1 << 60)),
        said(spec.Basic.Nack(7, multiple=True)),
        said(spec.Channel.Open()),
        said(spec.Basic.Qos(), 99),
        said(spec.Basic.Publish(routing_key="q")) * 2,
        said(spec.Exchange.Declare(exchange="e")),
        said(spec.Queue.Declare(queue="missing", passive=True)),
        said(spec.Connection.Open("/"), 0),
        b"".join(said(spec.Basic.Consume(queue="q", consumer_tag=str(n))) for n in range(1000)),
        b"".join(said(spec.Channel.Open(), n) for n in range(3, 3000)),
        published(b"x", size=1 << 63),
        published(bytes(1_100_000)),
        published(b"xyz", size=2),
        frame.Body(1, b"x").marshal(),
        b"\x01\x00\x01\xff\xff\xff\xff" + bytes(70_000),
        b"\x03\x00\x01" + struct.pack(">I", 1 << 20) + bytes(70_000),
        b"\x00" * 70_000,
        b"GET / HTTP/1.1\r\n\r\n",
    )

    def beginning(self):
        """What comes first: mostly an open connection with a channel that confirms and one that consumes."""
        login = said(spec.Connection.StartOk({}, "PLAIN", "\0g\0g", "en_US"), 0)
        opened = HEADER + login + said(spec.Connection.TuneOk(0, 4096, 0), 0) + said(spec.Connection.Open("/"), 0)
        sending = said(spec.Channel.Open()) + said(spec.Confirm.Select())
        consuming = said(spec.Channel.Open(), 2) + said(spec.Basic.Consume(queue="q", no_ack=True), 2)
        whole = opened + sending + consuming
        return self.chance.choice((*[whole] * 9, b"", HEADER, HEADER + login, whole[:-1]))
