"""The reader of MQTT packets: boundaries, fields, and what they are about."""

import frame_pieces
import pytest
from frame_pieces import assert_not_copied, assert_unreadable
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history import Event, Op, Phase
from conformance.protocols import link_reading
from conformance.protocols import reader as frames
from conformance.protocols.ties import CARRIES, LinkState, words_of

# Put together by hand from the standard, octet by octet: a message is sent with QoS 1, one with QoS 2, and both come.
SESSION = (
    ("to_broker", "CONNECT", "10 0d 0004 4d515454 05 00 0000 00 0000"),
    ("to_client", "CONNACK", "20 03 01 00 00"),
    ("to_broker", "SUBSCRIBE", "82 07 0001 00 0001 71 02"),
    ("to_client", "SUBACK", "90 04 0001 00 02"),
    (
        "to_broker",
        "PUBLISH",
        "32 24 0001 71 0001 15 26 000e 636f6e666f726d616e63655f6964 0002 7831 70313a3720626f6479",
    ),
    ("to_client", "PUBACK", "40 02 0001"),
    ("to_client", "PUBLISH", "3a 0f 0001 71 0009 00 70313a3720626f6479"),
    ("to_broker", "PUBACK", "40 02 0009"),
    ("to_broker", "PUBLISH", "34 0f 0001 71 0002 00 70313a3820626f6479"),
    ("to_client", "PUBREC", "50 02 0002"),
    ("to_broker", "PUBREL", "62 02 0002"),
    ("to_client", "PUBCOMP", "70 02 0002"),
    ("to_client", "PUBLISH", "34 0f 0001 71 000a 00 70313a3820626f6479"),
    ("to_broker", "PUBREC", "50 02 000a"),
    ("to_client", "PUBREL", "62 02 000a"),
    ("to_broker", "PUBCOMP", "70 02 000a"),
    ("to_client", "PUBLISH", "30 07 0001 71 00 703173"),
    ("to_broker", "PUBLISH", "32 07 0001 71 0003 00 78"),
    ("to_client", "PUBACK", "40 04 0003 97 00"),
    ("to_broker", "PUBLISH", "34 07 0001 71 0004 00 78"),
    ("to_client", "PUBREC", "50 03 0004 10"),
    ("to_client", "PUBREC", "50 03 0004 97"),
    ("to_broker", "PINGREQ", "c0 00"),
    ("to_client", "PINGRESP", "d0 00"),
    ("to_client", "DISCONNECT", "e0 02 8b 00"),
    ("to_broker", "DISCONNECT", "e0 00"),
)
PARTS = tuple((direction, bytes.fromhex(octets)) for direction, _, octets in SESSION)


def split(*parts):
    return frame_pieces.split("mqtt", parts)


def test_every_packet_of_a_session_has_its_name():
    assert [(name, len(data)) for (_, name, _), (_, data) in zip(SESSION, PARTS, strict=True)] == [
        (frame.name, frame.length) for frame in split(*PARTS)
    ]


def test_fields_of_packets():
    found = [
        (frame.kind, frame.detail, frame.delivery, frame.message)
        for frame in split(*PARTS)
        if frame.kind != frames.OTHER or frame.name in ("CONNACK", "PUBREC", "DISCONNECT")
    ]

    assert found == [
        ("other", "CONNACK session present", None, None),
        ("send", "PUBLISH qos=1", "1", "p1:7"),
        ("answer", "PUBACK", "1", None),
        ("deliver", "PUBLISH qos=1 dup", "9", "p1:7"),
        ("acknowledge", "PUBACK", "9", None),
        ("send", "PUBLISH qos=2", "2", "p1:8"),
        ("received", "PUBREC", "2", None),
        ("release", "PUBREL", "2", None),
        ("answer", "PUBCOMP", "2", None),
        ("deliver", "PUBLISH qos=2", "10", "p1:8"),
        ("acknowledge", "PUBREC", "10", None),
        ("answer", "PUBREL", "10", None),
        ("complete", "PUBCOMP", "10", None),
        ("deliver", "PUBLISH qos=0 settled", None, None),
        ("send", "PUBLISH qos=1", "3", None),
        ("answer", "PUBACK reason=0x97 refused", "3", None),
        ("send", "PUBLISH qos=2", "4", None),
        ("received", "PUBREC reason=0x10", "4", None),
        ("answer", "PUBREC reason=0x97 refused", "4", None),
        ("other", "DISCONNECT reason=0x8b refused", None, None),
        ("other", "DISCONNECT", None, None),
    ]


def test_the_user_property_names_the_message():
    """A message without a body has nothing else."""
    whole = bytes.fromhex("32 1d 0001 71 0001 17 26 000e 636f6e666f726d616e63655f6964 0004 70313a39")

    assert ["p1:9"] == [frame.message for frame in split(("to_broker", whole))]


def test_mqtt_3_1_1_has_no_properties():
    connect = bytes.fromhex("10 0c 0004 4d515454 04 02 0000 0000")
    publish = bytes.fromhex("32 0e 0001 71 0001 70313a3720626f6479")

    assert ["CONNECT", "PUBLISH"] == [frame.name for frame in split(("to_broker", connect + publish))]
    assert "p1:7" == split(("to_broker", connect + publish))[1].message


def test_a_return_code_of_3_1_1_is_a_refusal():
    assert ["CONNACK reason=0x87 refused"] == [each.detail for each in split(("to_client", bytes.fromhex("20020005")))]


# any pieces

TO_BROKER = b"".join(data for to, data in PARTS if to == "to_broker")


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_pieces_give_the_same_packets(data):
    frame_pieces.assert_same_in_any_pieces("mqtt", PARTS, data)


def test_packets_lie_side_by_side():
    frame_pieces.assert_side_by_side(link_reading("mqtt").readers()[0], TO_BROKER)


def test_a_large_message_is_reported_at_its_head():
    """And not kept: its body passes as it comes."""
    size = 1 << 24
    head = bytes.fromhex("0001 71 0001 00") + b"p1:7 "
    length = size + len(head)
    packed = bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14 & 127 | 128, length >> 21])

    assert_not_copied("mqtt", b"\x32" + packed + head + bytes(size))


@pytest.mark.parametrize(
    "octets",
    [
        "00 00",
        "f1 00",
        "36 00",
        "40 ff ff ff ff 01",
        "40 01 00",
        "20 ff ff ff 7f",
        "32 04 0009 7100",
        "32 08 0001 71 0001 7f 2600",
        "32 07 0001 71 0001 01 7f",
        "10 02 0009",
        "60 02 0001",
    ],
)
def test_what_breaks_the_protocol_is_unreadable(octets):
    """Before it is kept; a remaining length of five bytes, or one of 256 MiB for a CONNACK, among it."""
    assert_unreadable("mqtt", bytes.fromhex("c0 00"), bytes.fromhex(octets), b"x" * 10)


def test_a_head_without_end_is_bounded():
    """Properties of 200 MiB would have to be kept until the body begins."""
    packed = bytes.fromhex("32 ff ff ff 7f 0001 71 0001 ff ff ff 60")
    splitter = link_reading("mqtt").readers()[0]
    seen = []
    for _ in range(3):
        seen += splitter.feed(packed + bytes(1 << 20))
        packed = b""

    assert ["unreadable"] == [frame.name for frame in seen]


# ties


def tied(*parts):
    """What each packet means, and for which message."""
    state, tie = LinkState(1 << 30), link_reading("mqtt").tie
    found = []
    for direction, data in parts:
        for frame in split_one(direction, data):
            about = {"detail": frame.detail, "delivery": frame.delivery, "message": frame.message}
            event = Event(0, 1, Op.FRAME, Phase.OK, connection=1, link=direction, count=0, **about)
            found += [(CARRIES[row.carries], row.event.message) for row in tie(event, words_of(event), state)]
    return found


def split_one(direction, data):
    return frame_pieces.split("mqtt", [(direction, data)])


def test_an_answer_is_about_the_publish_with_its_identifier():
    assert [
        ("send", "p1:7"),
        ("answer", "p1:7"),
        ("deliver", "p1:7"),
        ("acknowledge", "p1:7"),
        ("send", "p1:8"),
        ("answer", "p1:8"),
        ("deliver", "p1:8"),
        ("acknowledge", "p1:8"),
        ("answer", "p1:8"),
    ] == tied(*PARTS)
