"""Hostile peers of AMQP 0-9-1: each breach has the code of the standard, and memory and time are bounded."""

from __future__ import annotations

import itertools
import random
import struct
import time

import pytest
from pika import frame, spec

from conformance.reference.amqp091 import codec
from conformance.reference.amqp091.connection import FRAME_MAX, OPEN_S
from conformance.reference.peers import MAX_UNSENT
from conformance.reference.security import Guard

from .amqp091_rig import HEADER, PERSISTENT, Client, Rig, error, names

MILLION, BOUND_S = 1_000_000, 60
"""Frames, and the seconds that they may take. Alone they take less than ten."""

PUBLISH = frame.Method(1, spec.Basic.Publish(routing_key="q")).marshal()


def content_header(size, flags=0, rest=b"", kind=60):
    return codec.frame(2, 1, struct.pack(">HHQH", kind, 0, size, flags) + rest)


def table_property(table):
    """A content header with these bytes as its headers table."""
    return PUBLISH + content_header(1, 1 << 13, struct.pack(">I", len(table)) + table) + codec.frame(3, 1, b"1")


DEEP = b"\x01aF\x00\x00\x00\x00" * 10
for _ in range(60):
    DEEP = b"\x01aF" + struct.pack(">I", len(DEEP)) + DEEP

BREACHES = [
    (b"\x09\x00\x01\x00\x00\x00\x00\xce", 501, "a frame of an unknown type"),
    (b"\x01\x00\x01\xff\xff\xff\xff", 501, "a frame of 2^32 - 1 bytes"),
    (b"\x03\x00\x01" + struct.pack(">I", 4096 - 7), 501, "a frame that is one byte larger than frame-max"),
    (b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x0a\x00", 501, "a frame with a wrong end"),
    (b"\x08\x00\x01\x00\x00\x00\x00\xce", 501, "a heartbeat of a channel"),
    (codec.frame(1, 1, b"\x00\x3c\x00\x50"), 502, "a method without its arguments"),
    (codec.frame(1, 1, codec.encode("basic.ack", 1, False) + b"\0"), 502, "a method with more than its arguments"),
    (codec.frame(1, 1, b"\x00\x3c\x00\x14\x00\x00\xff"), 502, "a short string that is longer than its frame"),
    (codec.frame(1, 1, b"\x00\x3c\x00\x14\x00\x00\x01\xff\x00\x00\0\0\0\0"), 502, "a short string that is no UTF-8"),
    (codec.frame(1, 1, b"\x00\x63\x00\x01"), 540, "a method that does not exist"),
    (codec.frame(1, 1, b""), 540, "a method of no bytes"),
    (codec.frame(2, 1, bytes(14)), 505, "a content header without a publish"),
    (codec.frame(3, 1, b"x"), 505, "a body without a publish"),
    (codec.frame(3, 9, b"x"), 505, "a body of a channel that is not open"),
    (PUBLISH + codec.frame(3, 1, b"x"), 505, "a body before its header"),
    (PUBLISH + content_header(5) + content_header(5), 505, "two content headers"),
    (PUBLISH + PUBLISH, 505, "a method within a content"),
    (PUBLISH + content_header(1, kind=50), 501, "a content header of another class"),
    (PUBLISH + codec.frame(2, 1, b"\x00\x3c"), 501, "a content header that is cut"),
    (PUBLISH + content_header(2) + codec.frame(3, 1, b"xyz"), 501, "a body that is longer than its header says"),
    (PUBLISH + content_header(1, 1) + codec.frame(3, 1, b"x"), 502, "properties with a second word of flags"),
    (PUBLISH + content_header(1, 0x8000, b"\xffabc") + codec.frame(3, 1, b"x"), 502, "a property that is cut"),
    (PUBLISH + content_header(1, 0, b"more") + codec.frame(3, 1, b"x"), 502, "bytes after the properties"),
    (table_property(b"\x01a"), 502, "a table that is cut"),
    (table_property(b"\x01aZ"), 502, "a field of an unknown type"),
    (table_property(b"\x01aS\xff\xff\xff\xff"), 502, "a field of 2^32 - 1 bytes"),
    (table_property(DEEP), 502, "tables in tables in tables"),
    (codec.method(0, "connection.tune-ok", 0, 0, 0), 503, "a second connection.tune-ok"),
    (codec.method(0, "channel.open", ""), 503, "a method of a channel on channel 0"),
    (codec.method(11, "channel.open", ""), 504, "a channel beyond channel-max"),
]


@pytest.fixture
def rig():
    return Rig()


@pytest.mark.parametrize(("data", "code", "what"), BREACHES, ids=[row[2] for row in BREACHES])
def test_a_breach_closes_the_connection_with_its_code(rig, data, code, what):
    """And what the peer holds goes back. The same bytes one by one end it the same way."""
    for pieces in ((data,), [data[at : at + 1] for at in range(len(data))]):
        client = rig.client()
        for piece in pieces:
            client.connection.receive(piece)
        assert error(client.heard()) == ("Connection", code)
        assert client.connection.closed
        client.connection.receive(data)
        assert client.heard() == []
    assert (rig.queue.depth, rig.queue.consumers, rig.broker.unfinished) == (0, 0, 0)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x01\x01\x00\x0a", b"\x16\x03"]
)
def test_another_protocol_is_answered_with_the_header(rig, data):
    client = Client(rig)
    client.connection.receive(data)

    assert client.connection.output() == HEADER
    assert client.connection.closed


NEGOTIATIONS = [
    ([spec.Connection.TuneOk(1, 4096, 0)], 503),
    ([spec.Connection.StartOk({}, "GSSAPI", "", "en_US")], 403),
    ([spec.Connection.StartOk({}, "PLAIN", "\0alice\0wrong", "en_US")], 403),
    ([spec.Connection.StartOk({}, "ANONYMOUS", "", "en_US")], 403),
    ([spec.Connection.StartOk({}, "PLAIN", "bob\0alice\0secret", "en_US")], 403),
    ([spec.Connection.StartOk({}, "PLAIN", "\0alice\0secret", "en_US"), spec.Connection.Open("/")], 503),
    ([spec.Connection.StartOk({}, "PLAIN", "\0alice\0secret", "en_US"), spec.Connection.TuneOk(1, 4095, 0)], 530),
    ([spec.Connection.StartOk({}, "PLAIN", "\0alice\0secret", "en_US"), spec.Connection.TuneOk(1, FRAME_MAX + 1, 0)], 530),
]  # fmt: skip


@pytest.mark.parametrize(("methods", "code"), NEGOTIATIONS)
def test_a_negotiation_that_fails(methods, code):
    """Nothing of a channel is read before the login."""
    client = Client(Rig(guard=Guard("alice", b"secret")))
    client.connection.receive(HEADER)
    for method in methods:
        client.say(method, 0)
    client.say(spec.Channel.Open())

    assert error(client.heard()) == ("Connection", code)


def test_the_right_login_and_another_virtual_host():
    client = Client(Rig(guard=Guard("alice", b"secret")))
    assert names(client.open(response="\0alice\0secret"))[-1] == "Connection.OpenOk"

    other = Client(Rig())
    other.connection.receive(HEADER)
    for method in (
        spec.Connection.StartOk({}, "ANONYMOUS", "", "en_US"),
        spec.Connection.TuneOk(),
        spec.Connection.Open("/x"),
    ):
        other.say(method, 0)
    assert error(other.heard()) == ("Connection", 530)


def test_a_silent_peer_has_its_time(rig):
    """To open the connection, and then two of the heartbeats that it chose; it is sent one in each half of them."""
    client = Client(rig)
    assert client.connection.tick(5.0) == 5.0 + OPEN_S
    client.connection.tick(5.0 + OPEN_S)
    assert client.connection.closed

    client = Client(rig)
    client.open(heartbeat=10)
    assert client.connection.tick(100.0) == 105.0
    client.connection.tick(105.0)
    assert client.connection.output() == frame.Heartbeat().marshal()
    client.connection.tick(119.0)
    assert not client.connection.closed
    client.connection.tick(120.0)
    assert error(client.heard()) == ("Connection", 320)


def test_a_content_in_part_is_counted_and_limited():
    """All peers together keep so much; a body beyond the limit of a message is read, and not kept."""
    rig = Rig(max_message_bytes=1_000_000, max_unfinished_bytes=100_000)
    client = rig.client()
    client.connection.receive(PUBLISH + content_header(900_000))
    for _ in range(24):
        client.connection.receive(codec.frame(3, 1, bytes(4088)))
    assert rig.broker.unfinished == 24 * 4088
    client.connection.receive(codec.frame(3, 1, bytes(4088)))
    assert error(client.heard()) == ("Connection", 506)
    assert rig.broker.unfinished == 0

    client = rig.client()
    client.connection.receive(PUBLISH + content_header(1 << 63))
    for _ in range(100):
        client.connection.receive(codec.frame(3, 1, bytes(4088)))
    assert (client.heard(), rig.broker.unfinished) == ([], 0)


@pytest.mark.parametrize("ends", ["close", "error", "lost"])
def test_what_has_come_in_part_is_forgotten(rig, ends):
    client = rig.client(2)
    client.connection.receive(PUBLISH + content_header(100) + codec.frame(3, 1, bytes(50)))
    assert rig.broker.unfinished == 50
    if ends == "lost":
        client.connection.lost()
    else:
        client.say(spec.Connection.Close(200, "", 0, 0) if ends == "close" else spec.Connection.OpenOk(), 0)

    assert rig.broker.unfinished == 0


def test_a_peer_that_reads_nothing_is_not_read(rig):
    """A get of a large message is 20 bytes: what waits for the peer is one such message beyond the limit."""
    client = rig.client()
    client.publish(bytes(100_000))
    client.heard()
    for _ in range(1000):
        client.say(spec.Basic.Get(queue="q"))
        client.say(spec.Basic.Recover(requeue=True))

    assert client.connection.choked
    assert len(client.connection.output()) < MAX_UNSENT + 110_000


def test_more_publishes_than_the_disk_takes_are_not_read(rig):
    """They wait in the input, and are read when others are stored."""
    client = rig.client()
    client.asks(spec.Confirm.Select())
    for _ in range(1500):
        client.publish()
    assert client.connection.choked
    client.heard()

    assert not client.connection.choked
    assert rig.queue.depth == 1500


FLOODS = {
    "heartbeats": frame.Heartbeat().marshal(),
    "empty bodies": codec.frame(3, 1, b""),
    "quality of service": codec.method(1, "basic.qos", 0, 1, False),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_million_frames(rig, name):
    """Their time is bounded, and nothing is left of them."""
    client = rig.client()
    if name == "empty bodies":
        client.connection.receive(PUBLISH + content_header(1))
    data = FLOODS[name] * 10_000
    begun = time.monotonic()
    for _ in range(MILLION // 10_000):
        client.connection.receive(data)
        while client.connection.output() or rig.timers:
            timers, rig.timers = rig.timers, []
            for call in timers:
                call()

    assert time.monotonic() - begun < BOUND_S
    assert rig.broker.unfinished == 0
    if name == "empty bodies":
        client.connection.receive(codec.frame(3, 1, b"1"))
    assert names(client.asks(spec.Basic.Qos())) == ["Basic.QosOk"]


def test_random_bytes_break_nothing(rig):
    """What is legal goes on, and what is not is a protocol error: no exception of Python, and no message that was not sent."""
    chance = random.Random(1)
    whole = b"".join(
        (
            codec.method(1, "confirm.select", False),
            PUBLISH + content_header(1) + codec.frame(3, 1, b"1"),
            codec.method(1, "basic.consume", 0, "q", "c", False, False, False, False, b""),
            codec.method(1, "basic.ack", 1, False),
            codec.method(1, "channel.close", 0, "", 0, 0),
        )
    )
    for _ in range(2000):
        client = rig.client()
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        at = sorted(chance.randrange(len(data)) for _ in range(3))
        for start, stop in itertools.pairwise((0, *at, len(data))):
            client.connection.receive(bytes(data[start:stop]))
        client.heard()
        client.connection.lost()

    assert (rig.queue.consumers, rig.broker.unfinished, rig.queue.unacknowledged) == (0, 0, 0)
    honest = rig.client()
    honest.asks(spec.Confirm.Select())
    honest.publish(properties=PERSISTENT)
    assert names(honest.heard()) == ["Basic.Ack"]
