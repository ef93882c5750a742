"""The reader of AMQP 0-9-1 frames: boundaries, fields, and the deliveries that an acknowledgement covers."""

import struct

import frame_pieces
import pytest
from frame_pieces import assert_not_copied, assert_unreadable
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history import make_body
from conformance.protocols import link_reading
from conformance.protocols import reader as frames

# Put together by hand from the specification, octet by octet. On channel 1: a persistent message is sent in a
# transaction, delivered and acknowledged. On channel 2, the second one: a publish in confirm mode, and one got.
SESSION = (
    ("to_broker", "header", "414d5150 00 00 09 01"),
    (
        "to_client",
        "connection.start",
        "01 0000 0000001c 000a 000a 00 09 00000000 00000005504c41494e 00000005656e5f5553 ce",
    ),
    ("to_broker", "heartbeat", "08 0000 00000000 ce"),
    ("to_client", "heartbeat", "08 0000 00000000 ce"),
    ("to_broker", "channel.open", "01 0001 00000005 0014 000a 00 ce"),
    ("to_client", "channel.open-ok", "01 0001 00000008 0014 000b 00000000 ce"),
    ("to_broker", "tx.select", "01 0001 00000004 005a 000a ce"),
    ("to_client", "tx.select-ok", "01 0001 00000004 005a 000b ce"),
    ("to_broker", "basic.consume", "01 0001 0000000f 003c 0014 0000 0171 0163 00 00000000 ce"),
    ("to_client", "basic.consume-ok", "01 0001 00000006 003c 0015 0163 ce"),
    (
        "to_broker",
        "basic.publish",
        """
        01 0001 0000000a 003c 0028 0000 00 0171 00 ce
        02 0001 00000014 003c 0000 0000000000000009 1400 02 0470313a37 ce
        03 0001 00000009 70313a3720626f6479 ce
        """,
    ),
    ("to_broker", "tx.commit", "01 0001 00000004 005a 0014 ce"),
    ("to_client", "tx.commit-ok", "01 0001 00000004 005a 0015 ce"),
    (
        "to_client",
        "basic.deliver",
        """
        01 0001 00000012 003c 003c 0163 0000000000000001 00 00 0171 ce
        02 0001 00000014 003c 0000 0000000000000009 1400 02 0470313a37 ce
        03 0001 00000009 70313a3720626f6479 ce
        """,
    ),
    ("to_broker", "basic.ack", "01 0001 0000000d 003c 0050 0000000000000001 00 ce"),
    ("to_broker", "tx.rollback", "01 0001 00000004 005a 001e ce"),
    ("to_client", "tx.rollback-ok", "01 0001 00000004 005a 001f ce"),
    ("to_broker", "basic.ack", "01 0001 0000000d 003c 0050 0000000000000000 01 ce"),
    ("to_broker", "channel.open", "01 0002 00000005 0014 000a 00 ce"),
    ("to_broker", "confirm.select", "01 0002 00000005 0055 000a 00 ce"),
    ("to_client", "confirm.select-ok", "01 0002 00000004 0055 000b ce"),
    (
        "to_broker",
        "basic.publish",
        """
        01 0002 0000000a 003c 0028 0000 00 0171 01 ce
        02 0002 0000000e 003c 0000 0000000000000004 0000 ce
        03 0002 00000004 70313a38 ce
        """,
    ),
    (
        "to_client",
        "basic.return",
        """
        01 0002 0000000e 003c 0032 0138 04 4e4f4e45 00 0171 ce
        02 0002 0000000e 003c 0000 0000000000000004 0000 ce
        03 0002 00000004 70313a38 ce
        """,
    ),
    ("to_client", "basic.ack", "01 0002 0000000d 003c 0050 0000000000000001 00 ce"),
    ("to_broker", "basic.get", "01 0002 00000009 003c 0046 0000 0171 00 ce"),
    (
        "to_client",
        "basic.get-ok",
        """
        01 0002 00000014 003c 0047 0000000000000001 01 00 0171 00000000 ce
        02 0002 0000000f 003c 0000 0000000000000000 1000 01 ce
        """,
    ),
    ("to_broker", "basic.reject", "01 0002 0000000d 003c 005a 0000000000000001 01 ce"),
    ("to_broker", "basic.nack", "01 0002 0000000d 003c 0078 0000000000000009 00 ce"),
)
PARTS = tuple((direction, bytes.fromhex(octets)) for direction, _, octets in SESSION)


def split(*parts):
    """Every frame of a dialogue, in its order."""
    return frame_pieces.split("amqp091", parts)


def test_every_frame_of_a_session_has_its_name():
    """The words of the specification's XML; of a message only the method's."""
    found = split(*PARTS)

    assert [(name, len(data)) for (_, name, _), (_, data) in zip(SESSION, PARTS, strict=True)] == [
        (frame.name, frame.length) for frame in found
    ]


def test_fields_of_frames():
    """Kinds, details, tags, covered tags, and message ids."""
    found = [
        (frame.kind, frame.detail, frame.delivery, frame.first, frame.last, frame.message)
        for frame in split(*PARTS)
        if frame.kind != frames.OTHER or frame.name == "basic.return"
    ]

    assert found == [
        ("begin", "tx.select", None, None, None, None),
        ("begin_answer", "tx.select-ok", None, None, None, None),
        ("send", "basic.publish persistent", None, None, None, "p1:7"),
        ("commit", "tx.commit", None, None, None, None),
        ("commit_answer", "tx.commit-ok", None, None, None, None),
        ("deliver", "basic.deliver persistent", "1", None, None, "p1:7"),
        ("acknowledge", "basic.ack multiple=false accepted covers=1", None, 1, 1, None),
        ("rollback", "tx.rollback", None, None, None, None),
        ("rollback_answer", "tx.rollback-ok", None, None, None, None),
        ("acknowledge", "basic.ack multiple=true accepted covers=1", None, 1, 1, None),
        ("send", "basic.publish not persistent session=2", "1", None, None, "p1:8"),
        ("other", "basic.return not persistent session=2", None, None, None, "p1:8"),
        ("answer", "basic.ack multiple=false accepted covers=1 session=2", None, 1, 1, None),
        ("deliver", "basic.get-ok not persistent session=2", "1", None, None, None),
        ("acknowledge", "basic.reject multiple=false released requeue covers=1 session=2", None, 1, 1, None),
        ("acknowledge", "basic.nack multiple=false rejected covers=9 session=2", None, 9, 9, None),
    ]


# What frames are made of.


def frame(kind, payload, channel=1):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(number, index, arguments=b"", channel=1):
    return frame(1, struct.pack(">HH", number, index) + arguments, channel)


def short(text):
    return bytes([len(text)]) + text


def content(body=b"", *, flags=0, properties=b"", most=1 << 31, channel=1, size=None):
    """A content header and its bodies, each of at most `most` bytes."""
    head = struct.pack(">HHQH", 60, 0, len(body) if size is None else size, flags) + properties
    bodies = (frame(3, body[at : at + most], channel) for at in range(0, len(body), most))
    return frame(2, head, channel) + b"".join(bodies)


PUBLISH = method(60, 40, b"\0\0\0\1q\0")
TOGETHER = content(b"p1:7 x")


def deliver(tag, message=b"", consumer=b"c", channel=1):
    arguments = short(consumer) + struct.pack(">Q", tag) + b"\0\0\1q"
    return method(60, 60, arguments, channel) + content(message, channel=channel)


def got(tag):
    return method(60, 71, struct.pack(">Q", tag) + b"\0\0\1q\0\0\0\0") + content()


def consume(consumer=b"c", bits=0, channel=1):
    return method(60, 20, b"\0\0\1q" + short(consumer) + bytes([bits]) + bytes(4), channel)


def settle(tag, *, multiple=False, name="ack", requeue=False, channel=1):
    bits = requeue if name == "reject" else multiple + 2 * requeue
    index = {"ack": 80, "reject": 90, "nack": 120}[name]
    return method(60, index, struct.pack(">QB", tag, bits), channel)


def opened(channel=1):
    return method(20, 10, b"\0", channel)


def tx(index):
    return method(90, index)


SELECT, COMMIT, ROLLBACK = 10, 20, 30
CONFIRM = method(85, 10, b"\0")
NO_ACK, NO_WAIT = 2, 8
HEARTBEAT = frame(8, b"", 0)
LARGE = 1 << 20


def details(*parts, kind=None):
    """What follows the name in each frame of a message or of a kind."""
    return [
        found.detail.partition(" ")[2]
        for found in split(*parts)
        if (kind is None or found.kind == kind) and (found.kind != frames.OTHER or "continued" in found.detail)
    ]


def to_broker(*data):
    return ("to_broker", b"".join(data))


def to_client(*data):
    return ("to_client", b"".join(data))


# Any pieces.

LONG = b"".join(
    (
        HEARTBEAT,
        CONFIRM,
        PUBLISH + content(make_body("p1:300", 50), most=20),
        PUBLISH + content(b"y" * 100, most=7, flags=0x9C00, properties=short(b"t") + b"\2\4" + short(b"p2:1")),
        PUBLISH + HEARTBEAT + content(b"p1:7", most=1) + HEARTBEAT,
        settle(3, multiple=True),
        PUBLISH + content(),
    )
)
"""To the broker: bodies of several frames, one that a heartbeat stands in, and one that is empty."""


@pytest.mark.parametrize("parts", [PARTS, (to_broker(LONG),)], ids=["session", "bodies"])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_pieces_give_the_same_frames(parts, data):
    """And none is passed on before it is reported."""
    frame_pieces.assert_same_in_any_pieces("amqp091", parts, data)


@pytest.mark.parametrize("whole", [LONG, b"".join(data for to, data in PARTS if to == "to_broker")])
def test_frames_lie_side_by_side(whole):
    """Without a gap, byte by byte as well."""
    frame_pieces.assert_side_by_side(link_reading("amqp091").readers()[0], whole)


# Messages.


def test_a_message_of_several_bodies_is_one_frame():
    """300 kB over a frame-max of 128 KiB: reported at the first bytes of the last body, and held back until then."""
    whole = PUBLISH + content(make_body("p1:7", 300_000), most=(1 << 17) - 8)
    last = len(whole) - 300_000 % ((1 << 17) - 8) - 1
    splitter = link_reading("amqp091").readers()[0]

    assert ([], 0) == (splitter.feed(whole, 0, last - 1), splitter.passable)
    assert [(0, len(whole), "send", "p1:7")] == [
        (seen.start, seen.length, seen.kind, seen.message) for seen in splitter.feed(whole, last - 1, last)
    ]
    assert last == splitter.passable
    assert [] == splitter.feed(whole, last)
    assert ["heartbeat"] == [seen.name for seen in splitter.feed(HEARTBEAT)]


def test_a_message_too_large_to_hold_back_comes_in_pieces():
    """The first piece has the kind; each has the message."""
    bodies = [LARGE // 2, LARGE // 2, 1]
    body = make_body("p1:7", sum(bodies))
    whole = PUBLISH + content(body, most=LARGE // 2)
    found = split(to_broker(whole, PUBLISH, TOGETHER))

    assert ["send", "other", "other", "send"] == [seen.kind for seen in found]
    assert ["p1:7"] * 4 == [seen.message for seen in found]
    assert [8 + size for size in bodies[1:]] == [seen.length for seen in found[1:3]]
    assert ["more not persistent", "continued more not persistent", "continued not persistent", "not persistent"] == (
        details(to_broker(whole, PUBLISH, TOGETHER))
    )
    assert 3 == len(split(to_broker(PUBLISH, content(body), PUBLISH, TOGETHER, HEARTBEAT))), (
        "one body alone is not a piece"
    )


@pytest.mark.parametrize("between", [HEARTBEAT, method(20, 20, b"\1", channel=2)])
def test_frames_of_others_may_stand_between(between):
    """Then the message comes in pieces, and the first has its kind (section 4.2.6)."""
    header, body = content(b"p1:7 x")[: -len(frame(3, b"p1:7 x"))], frame(3, b"p1:7 x")
    first = split(to_broker(PUBLISH, between, header, body, HEARTBEAT))
    second = split(to_broker(PUBLISH, header, between, body, HEARTBEAT))
    third = split(to_client(deliver(4, b"p1:7 x")[: -len(body)], between, body, HEARTBEAT))

    assert ["send", "other", "other", "other"] == [seen.kind for seen in first] == [seen.kind for seen in second]
    assert ["basic.publish more", "basic.publish continued not persistent"] == [seen.detail for seen in first[::2]]
    assert [None, "p1:7"] == [seen.message for seen in second[::2]]
    assert [("deliver", "4", None), ("other", "4", "p1:7")] == [
        (seen.kind, seen.delivery, seen.message) for seen in third[::2]
    ]


def test_two_channels_at_a_time():
    """Each has its own message; bodies side by side are one piece."""
    header, one, two = content(b"p1:7 abc", most=4)[:22], frame(3, b"p1:7"), frame(3, b" abc")
    other = [part.replace(b"\0\1\0\0", b"\0\2\0\0", 1) for part in (PUBLISH, header, one, two)]
    found = split(to_broker(PUBLISH, other[0], header, other[1], one, two, other[2], other[3]))

    assert ["send", "send", "other", "other", "other", "other"] == [seen.kind for seen in found]
    assert [None, None, None, None, "p1:7", "p1:7"] == [seen.message for seen in found]
    assert ["more", "more", *["continued more not persistent"] * 2, *["continued not persistent"] * 2] == details(
        to_broker(PUBLISH, other[0], header, other[1], one, two, other[2], other[3])
    )


def test_a_method_ends_the_message_before_it():
    """A sender may break off the sending of content so (section 4.2.6)."""
    unfinished = PUBLISH + content(b"p1:7", size=9)
    found = split(to_broker(unfinished, PUBLISH, TOGETHER), to_broker(PUBLISH, opened(), PUBLISH, TOGETHER))

    assert ["send", "send", "send", "other", "send"] == [seen.kind for seen in found]
    assert ["more not persistent", "not persistent", "more", "not persistent"] == details(
        to_broker(unfinished, PUBLISH, TOGETHER), to_broker(PUBLISH, opened(), PUBLISH, TOGETHER)
    )


def test_an_id_stands_at_the_beginning_of_a_body():
    """At the beginning of the first body: the beginning of a later one is payload."""
    assert [None] == [seen.message for seen in split(to_broker(PUBLISH, content(b"bodyp1:7", most=4)))]


def test_a_frame_is_known_before_its_body_comes():
    """It waits only for the part of the body that may be an id."""
    whole = PUBLISH + content(b"p1:7 " + bytes(1000))
    body = len(whole) - 1006
    splitter = link_reading("amqp091").readers()[0]

    assert ([], 0) == (splitter.feed(whole, 0, body + 63), splitter.passable)
    assert [(0, len(whole))] == [seen[:2] for seen in splitter.feed(whole, body + 63, body + 64)]
    named = PUBLISH + content(bytes(1000), flags=0x0400, properties=short(b"p1:7"))
    assert ["p1:7"] == [seen.message for seen in link_reading("amqp091").readers()[0].feed(named[:-1001])]


CORRELATION = 0x0400
TABLE = struct.pack(">I", 300) + bytes(300)


@pytest.mark.parametrize(
    ("flags", "properties", "body", "expected"),
    [
        (CORRELATION, short(b"p1:7"), b"", "p1:7"),
        (CORRELATION, short(b"p1:7"), b"p1:8 x", "p1:7"),
        (CORRELATION, short(b"ID:1"), b"p1:8 x", "p1:8"),
        (0xFC00, short(b"t") + short(b"e") + TABLE + b"\2\4" + short(b"p1:7"), b"x", "p1:7"),
        (0xFFF8, short(b"t") + short(b"e") + TABLE + b"\2\4" + short(b"p1:7") + b"\0" * 30, b"x", "p1:7"),
        (CORRELATION | 1, b"\0\1\0\0" + short(b"p1:7"), b"", "p1:7"),
        (0, b"", make_body("p1:7", 500), "p1:7"),
        (0, b"", make_body("p12:345", 10, "t"), "p12:345"),
        (0, b"", b"p1:7", "p1:7"),
        (0, b"", b"p1:7\nabc", "p1:7"),
        (0, b"", b"p1:7x", None),
        (0, b"", b"x p1:7", None),
        (0, b"", b"\xff\xfe", None),
        (0, b"", b"   ", None),
        (0, b"", b"p1:" + b"7" * 70, None),
        (0, b"", b"", None),
        (CORRELATION, b"", b"p1:7", "p1:7"),
        (CORRELATION, b"\x09p1:7", b"", None),
        (0x2000, b"\xff\xff\xff\xff", b"", None),
    ],
)
def test_the_id_of_a_message(flags, properties, body, expected):
    """It is the correlation-id, else the first word of the body; a broken or foreign message has none."""
    whole = PUBLISH + content(body, flags=flags, properties=properties) + PUBLISH + TOGETHER
    bytewise = [to_broker(whole[at : at + 1]) for at in range(len(whole))]

    assert [expected, "p1:7"] == [seen.message for seen in split(to_broker(whole))]
    assert [expected, "p1:7"] == [seen.message for seen in split(*bytewise)]


@pytest.mark.parametrize(
    ("flags", "properties", "expected"),
    [
        (0x1000, b"\2", "persistent"),
        (0x1000, b"\1", "not persistent"),
        (0x8000, short(b"t"), "not persistent"),
        (0xB000, short(b"t") + bytes(4) + b"\2", "persistent"),
        (0x1000, b"", ""),
    ],
)
def test_whether_a_message_is_persistent(flags, properties, expected):
    """Its delivery-mode says so; if the properties are longer than their frame, it is unknown."""
    assert [expected] == details(to_broker(PUBLISH, content(b"x", flags=flags, properties=properties)))


# What is settled.


def test_a_delivery_to_a_consumer_without_acknowledgement_is_settled():
    """By the consumer-tag of the client or the broker; an unknown consumer is reported as unsubscribed."""
    named = to_broker(consume(b"d", NO_WAIT), consume(b"a", NO_ACK), consume(b"b"), consume(b"", NO_ACK))
    answers = to_client(*(method(60, 21, short(name)) for name in (b"a", b"b", b"made")))
    came = to_client(*(deliver(1, consumer=name) for name in (b"a", b"b", b"made", b"d", b"e")))

    assert ["settled", "", "settled", "", "unsubscribed"] == [
        detail.removesuffix("not persistent").strip() for detail in details(named, answers, came)
    ]


def test_a_get_with_no_ack_is_settled():
    """Answers come in the order of the requests; an empty answer counts too."""
    asked = to_broker(*(method(60, 70, b"\0\0\1q" + bytes([bits])) for bits in (1, 0, 1, 1)))
    came = to_client(got(1), method(60, 72, b"\0"), got(2), got(3), got(4))

    assert ["settled", "settled", "settled", "unsubscribed"] == [
        detail.removesuffix("not persistent").strip() for detail in details(asked, came)
    ]


def acknowledged(*parts):
    """The details of each acknowledgement, on one channel."""
    return details(to_broker(consume()), *parts, kind="acknowledge")


DELIVERED = to_client(*(deliver(tag) for tag in range(1, 8)))


def test_a_multiple_acknowledgement_covers_open_deliveries_up_to_its_tag():
    """But no delivery that was refused before it."""
    found = acknowledged(
        DELIVERED,
        to_broker(settle(2, name="reject"), settle(4), settle(5, multiple=True), settle(0, multiple=True)),
        to_broker(settle(0, multiple=True), settle(7)),
    )

    assert found == [
        "multiple=false rejected covers=2",
        "multiple=false accepted covers=4",
        "multiple=true accepted covers=1,3,5",
        "multiple=true accepted covers=6-7",
        "multiple=true accepted",
        "multiple=false accepted covers=7",
    ]


def test_the_ends_of_the_covered_tags():
    """`first` and `last`; None if it covers no delivery."""
    asks = to_broker(settle(2), settle(5, multiple=True), settle(7, multiple=True), settle(0))
    found = [seen for seen in split(DELIVERED, asks) if seen.kind == "acknowledge"]

    assert [(2, 2), (1, 5), (6, 7), (None, None)] == [(seen.first, seen.last) for seen in found]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"name": "reject"}, "multiple=false rejected covers=3"),
        ({"name": "reject", "requeue": True}, "multiple=false released requeue covers=3"),
        ({"name": "nack"}, "multiple=false rejected covers=3"),
        ({"name": "nack", "requeue": True}, "multiple=false released requeue covers=3"),
        ({"name": "nack", "multiple": True}, "multiple=true rejected covers=1-3"),
        ({"name": "nack", "multiple": True, "requeue": True}, "multiple=true released requeue covers=1-3"),
    ],
)
def test_refusals(how, expected):
    """With requeue it is `released`, the word of AMQP 1.0."""
    assert [expected] == acknowledged(DELIVERED, to_broker(settle(3, **how)))


def test_a_delivery_that_was_sent_settled_is_not_open():
    """Only an acknowledgement with its own tag covers it."""
    parts = (
        to_broker(consume(b"s", NO_ACK)),
        to_client(deliver(1, consumer=b"s"), deliver(2), deliver(3, consumer=b"s")),
    )

    assert ["multiple=true accepted covers=2-3"] == acknowledged(*parts, to_broker(settle(3, multiple=True)))
    assert ["multiple=true accepted covers=2"] == acknowledged(*parts, to_broker(settle(0, multiple=True)))


def test_a_rollback_takes_acknowledgements_back():
    """They must be made again; a commit makes them final."""
    first = to_broker(tx(SELECT), settle(2), settle(1), tx(ROLLBACK), settle(3, multiple=True), tx(COMMIT))
    second = to_broker(settle(5), tx(ROLLBACK), settle(0, multiple=True))

    assert ["2", "1", "1-3", "5", "4-7"] == [
        detail.partition("covers=")[2] for detail in acknowledged(DELIVERED, first, second)
    ]
    assert ["2", "1,3"] == [
        detail.partition("covers=")[2]
        for detail in acknowledged(DELIVERED, to_broker(settle(2), tx(ROLLBACK), settle(3, multiple=True)))
    ]


@pytest.mark.parametrize("index", [100, 110])
def test_recovered_deliveries_get_new_tags(index):
    """The old tags, and those of deliveries that crossed the request, are not open."""
    recover = to_broker(method(60, index, b"\1"))
    again = to_client(deliver(8), *([] if index == 100 else [method(60, 111)]), deliver(9))

    assert [f"multiple=true accepted covers={'8-9' if index == 100 else '9'}"] == acknowledged(
        DELIVERED, recover, again, to_broker(settle(9, multiple=True))
    )


def test_a_channel_has_tags_of_its_own():
    """The second channel, and a later one that reuses the number of the first."""
    parts = (
        to_broker(opened(), opened(2)),
        to_client(deliver(1), deliver(2), deliver(1, channel=2)),
        to_broker(settle(0, multiple=True, channel=2), opened(), settle(2, multiple=True)),
    )

    assert [
        "multiple=true accepted covers=1 session=2",
        "multiple=true accepted covers=2 session=3",
    ] == details(*parts, kind="acknowledge")


def test_tags_out_of_order_are_covered():
    """A broker may send deliveries in another order than that of their tags."""
    came = to_client(deliver(5), deliver(3))

    assert ["multiple=true accepted covers=3"] == acknowledged(came, to_broker(settle(3, multiple=True)))


def test_an_answer_says_which_publishes_it_is_for():
    """Publishes are numbered from the first after confirm.select."""
    asks = to_broker(PUBLISH, TOGETHER, CONFIRM, *(PUBLISH + TOGETHER for _ in range(5)), CONFIRM, PUBLISH, TOGETHER)
    answers = to_client(settle(2), settle(3, multiple=True), settle(6, multiple=True, name="nack"))
    found = split(asks, answers)

    assert [None, "1", "2", "3", "4", "5", "6"] == [seen.delivery for seen in found if seen.kind == "send"]
    assert [
        "multiple=false accepted covers=2",
        "multiple=true accepted covers=1,3",
        "multiple=true rejected covers=4-6",
    ] == details(asks, answers, kind="answer")


# What is not everyday.


@pytest.mark.parametrize(
    "data",
    [
        *(b"HTTP/1.1", b"\0\0\0\x10\x02\0\0\0", frame(4, b""), frame(1, b"")),
        *(frame(2, bytes(14)), frame(3, b"x"), PUBLISH + frame(2, bytes(13)), PUBLISH + content(b"xy", size=1)),
        *(PUBLISH[:-1] + b"\0", settle(1)[:10] + bytes(20), frame(1, settle(1)[7:-2]), frame(1, consume()[7:12])),
        *(struct.pack(">BHI", 1, 1, (1 << 20) + 1) + b"\0", PUBLISH + struct.pack(">BHI", 2, 1, 1 << 31) + b"\0"),
        PUBLISH + content(b"abcdef", most=3)[:-12] + b"\0" + frame(3, b"def"),
    ],
)
def test_an_unreadable_stream_passes(data):
    """No frame, a body without a message, impossible sizes, no octet 0xCE at the end of a frame."""
    assert_unreadable("amqp091", b"AMQP\0\0\x09\1", data, HEARTBEAT)


def test_names_of_other_frames():
    """Protocol headers of both ends, an unknown method, methods from the wrong end."""
    found = split(
        to_broker(b"AMQP\0\0\x09\1", method(70, 10), deliver(1), tx(SELECT + 1)),
        to_client(b"AMQP\0\1\0\0", PUBLISH, TOGETHER, method(60, 30, b"\1c\0")),
    )

    assert [
        ("header 0-9-1", "other"),
        ("method 70.10", "other"),
        ("basic.deliver not persistent", "other"),
        ("tx.select-ok", "other"),
        ("header 1-0-0", "other"),
        ("basic.publish not persistent", "other"),
        ("basic.cancel", "other"),
    ] == [(seen.detail, seen.kind) for seen in found]


def test_payloads_are_not_copied():
    """16 MiB in one body, in pieces: the reader takes less than a thousandth of it."""
    assert_not_copied("amqp091", bytearray(PUBLISH + content(bytes(1 << 24))))
