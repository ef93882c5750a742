"""Peers that break MQTT end their own connection, with a reason code where there is one, and cost the broker little."""

import random
import struct
import time

import pytest
from mqtt_rig import NEVER, Rig, names, props

from conformance.protocols.mqtt import packets
from conformance.reference.mqtt import connection as mqtt
from conformance.reference.peers import MAX_UNSENT

LONGEST = b"\xff\xff\xff\x7f"
"""A remaining length of 268,435,455 bytes."""

MALFORMED, PROTOCOL_ERROR, BAD_TOPIC, NUMBER_NOT_FOUND = 0x81, 0x82, 0x90, 0x92
BOUND_S = 30
ABSENT = 7
"""A packet identifier that nothing has."""


@pytest.fixture
def rig():
    return Rig()


def publish_of(topic, number=1, qos=1):
    """The bytes of a PUBLISH of MQTT 5 without a body."""
    head = struct.pack(">H", len(topic)) + topic + (struct.pack(">H", number) if qos else b"")
    return packets.packet(packets.PUBLISH, head + props(b""), qos << 1)


AFTER_CONNECT = {
    "a length of five bytes": (b"\x30\xff\xff\xff\xff\x01", MALFORMED),
    "a type that is none": (b"\x00\x00", MALFORMED),
    "AUTH without a method": (b"\xf0\x00", PROTOCOL_ERROR),
    "PUBLISH with QoS 3": (packets.packet(packets.PUBLISH, b"\0\1q\0\1\0", 6), MALFORMED),
    "PUBLISH with identifier 0": (publish_of(b"q", 0), PROTOCOL_ERROR),
    "PUBLISH without a topic": (publish_of(b""), BAD_TOPIC),
    "PUBLISH with a wildcard": (publish_of(b"q/#"), BAD_TOPIC),
    "PUBLISH that is no UTF-8": (publish_of(b"\xff\xfe"), MALFORMED),
    "PUBLISH cut short": (packets.packet(packets.PUBLISH, b"\0\x09q", 2), MALFORMED),
    "SUBSCRIBE with other flags": (packets.packet(packets.SUBSCRIBE, b"\0\1\0\0\1q\1", 0), MALFORMED),
    "SUBSCRIBE to nothing": (packets.packet(packets.SUBSCRIBE, b"\0\1\0"), PROTOCOL_ERROR),
    "a CONNACK": (packets.packet(packets.CONNACK, b"\0\0\0"), PROTOCOL_ERROR),
    "a second CONNECT": (packets.connect("q", 5, expiry_s=0, receive=1, largest=1000, login=None), PROTOCOL_ERROR),
    "properties that are longer than their packet": (
        packets.packet(packets.PUBLISH, b"\0\1q\0\1\x7f", 2),
        MALFORMED,
    ),
}


@pytest.mark.parametrize("name", AFTER_CONNECT)
def test_a_broken_packet_ends_its_connection_alone(rig, name):
    data, code = AFTER_CONNECT[name]
    other, peer = rig.client("other", subscribe="q"), rig.client("peer")
    peer.connection.receive(data)
    (last,) = peer.heard()

    assert ("DISCONNECT", code) == last
    assert peer.connection.closed
    other.publish()
    assert ["PUBACK", "PUBLISH"] == sorted(names(other.heard()))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 64,
        publish_of(b"q"),
        packets.packet(packets.CONNECT, b"\0\4MQTT\x09\2\0\0\0\0\0"),
        packets.packet(packets.CONNECT, b"\0\4MQTX\5\2\0\0\0\0\0"),
        b"\x10" + LONGEST + b"\0\4MQTT",
    ],
)
def test_what_is_no_connect_gets_no_session(rig, data):
    client = rig.client("other")
    peer = type(client)(rig)
    peer.connection.receive(data)

    assert not {"SUBACK", "PUBACK", "PUBLISH"} & {*names(peer.heard())}
    assert peer.connection.closed
    assert {"other"} == {*rig.sessions._sessions}


@pytest.mark.parametrize(("kind", "answer"), [(packets.PUBREL, "PUBCOMP"), (packets.PUBREC, "PUBREL")])
def test_a_packet_identifier_that_nothing_has(rig, kind, answer):
    peer = rig.client("peer")

    assert [(answer, ABSENT, NUMBER_NOT_FOUND)] == peer.asks(kind, ABSENT)
    assert [] == peer.asks(packets.PUBACK, ABSENT)
    assert [] == peer.asks(packets.PUBCOMP, ABSENT)
    assert not peer.connection.closed


def test_more_than_receive_maximum_ends_the_connection(rig):
    peer = rig.client("peer")
    for number in range(1, mqtt.RECEIVE + 2):
        peer.publish(number, qos=2)

    assert ("DISCONNECT", 0x93) == peer.heard()[-1]


def test_a_packet_that_never_ends_is_kept_up_to_the_limit_of_the_broker():
    """Its bytes are counted, those of all connections together, and given back when the connection ends."""
    rig = Rig(max_unfinished_bytes=200_000)
    peer = rig.client("peer")
    peer.connection.receive(b"\x32" + packets.number(1_000_000) + b"\0\1q\0\1\0")
    for _ in range(40):
        peer.connection.receive(bytes(10_000))

    assert ("DISCONNECT", 0x97) == peer.heard()[-1]
    assert 0 == rig.broker.unfinished


def test_a_message_beyond_the_limit_is_read_and_not_kept():
    rig = Rig(max_message_bytes=1000)
    peer = rig.client("peer", subscribe="q")
    peer.connection.receive(b"\x32" + packets.number(10_000_006) + b"\0\1q\0\1\0")
    for _ in range(100):
        peer.connection.receive(bytes(100_000))
        assert rig.broker.unfinished <= 200_000
    peer.publish(2)

    assert [("PUBACK", 1, 0x97), ("PUBACK", 2, 0)] == [each for each in peer.heard() if each[0] == "PUBACK"]


def test_a_client_that_reads_nothing_is_sent_no_more_than_a_limit(rig):
    """What it asks for meanwhile is not read either."""
    peer = rig.client("peer", expiry_s=NEVER)
    asked = 0
    while not peer.connection.choked and asked < 10 * MAX_UNSENT:
        peer.connection.receive(packets.packet(packets.PINGREQ, b"") * 1000)
        asked += 1000

    assert peer.connection.choked
    assert asked < 10 * MAX_UNSENT


@pytest.mark.parametrize("packet", [packets.packet(packets.PINGREQ, b""), b"\x62\x02\0\7", b"\x40\x02\0\7"])
def test_a_hundred_thousand_packets_take_a_bounded_time(rig, packet):
    """PINGREQ, a PUBREL and a PUBACK of an identifier that nothing has; alone they take two seconds."""
    peer, before = rig.client("peer"), time.perf_counter()
    for _ in range(100):
        peer.connection.receive(packet * 1000)
        peer.heard()

    assert not peer.connection.closed
    assert time.perf_counter() - before < BOUND_S


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_never_reach_another_client(rig, seed):
    rng = random.Random(seed)
    other, peer = rig.client("other", subscribe="q"), rig.client("peer")
    for _ in range(50):
        peer.connection.receive(rng.randbytes(rng.randint(1, 200)))
        peer.heard()
    other.publish(body=b"good")

    assert b"good" in [each[-1] for each in other.heard() if each[0] == "PUBLISH"]
