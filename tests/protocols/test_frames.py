"""Readers of AMQP 1.0 and STOMP frames: real sessions in any pieces, and rare or broken streams."""

import json
import pathlib
import struct

import pytest
from frame_pieces import (
    DIRECTIONS,
    assert_not_copied,
    assert_same_in_any_pieces,
    assert_side_by_side,
    assert_unreadable,
    split,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.protocols import link_reading
from conformance.protocols.stomp import frames as frames_stomp

RECORDED = json.loads((pathlib.Path(__file__).parent / "recorded_sessions.json").read_text())
"""The bytes between python-qpid-proton 0.40 and the bundled broker (in hexadecimal), and between stomp.py 9 and it: three
sends, one transaction committed and one rolled back, four deliveries, one confirmed acknowledgement, two others, one
refusal."""

AMQP = [(direction, bytes.fromhex(data)) for direction, data in RECORDED["amqp"]]
STOMP = [(direction, data.encode()) for direction, data in RECORDED["stomp"]]
SESSIONS = {"amqp": AMQP, "stomp": STOMP}


def kinds(protocol, parts):
    return [frame.kind for frame in split(protocol, parts) if frame.kind != "other"]


TRANSACTION = ["begin", "begin_answer", "send", "answer"]
WHOLE = [
    *["send"] * 3,
    *["answer"] * 3,
    *[*TRANSACTION, "commit", "commit_answer", *TRANSACTION, "rollback", "rollback_answer"],
    *["deliver"] * 4,
    *["acknowledge", "answer", "acknowledge", "acknowledge", "acknowledge", "deliver", "answer"],
]


def test_a_session_over_stomp():
    """Every send, answer and acknowledgement, and which RECEIPT is the commit's."""
    assert WHOLE == kinds("stomp", STOMP)


def test_a_session_over_amqp():
    """The same, but three answers and two acknowledgements are ranges of one frame, and a refusal has no answer."""
    assert [*WHOLE[:4], *WHOLE[6:-3], "deliver"] == kinds("amqp", AMQP)


def test_fields_of_frames():
    """Delivery-ids, ranges, outcomes, transactions; receipts and ids."""
    amqp = [frame[4:9] for frame in split("amqp", AMQP) if frame.kind != "other"]
    stomp = [frame[4:7] for frame in split("stomp", STOMP) if frame.kind != "other"]
    first = "0000000000000001"

    assert ("transfer handle=0 persistent", "2", None, None, None) == amqp[2]
    assert ("disposition accepted settled", None, None, 0, 2) == amqp[3]
    assert ("disposition declared settled of begin", None, first, 3, 3) == amqp[5]
    assert ("transfer handle=0 persistent", "4", first, None, None) == amqp[6]
    assert ("disposition transactional accepted settled", None, first, 4, 4) == amqp[7]
    assert ("transfer handle=1 commit", "5", first, None, None) == amqp[8]
    assert ("disposition accepted settled of commit", None, first, 5, 5) == amqp[9]
    assert ("disposition released settled", None, None, 3, 3) == amqp[-2]
    assert ("SEND receipt=receipt-1", "receipt-1", None) == stomp[0]
    assert ("COMMIT receipt=receipt-6", None, "t1") == stomp[10]
    assert ("RECEIPT receipt-id=receipt-6 of COMMIT", "receipt-6", "t1") == stomp[11]
    assert ("MESSAGE message-id=1 ack=1-1 individual", "1-1", None) == stomp[18]
    assert ("NACK receipt=receipt-12 id=1-4", "1-4", None) == stomp[-3]


def named(protocol, name):
    """The recorded session with its first message under another id."""
    old, new = {
        "amqp": ((b"\x01\xa1\x02m0", b"\x05"), (b"\x01\xa1%c%s" % (len(name), name), b"%c" % (len(name) + 3))),
        "stomp": ((b"conformance_id:m0", b""), (b"conformance_id:%s" % name, b"")),
    }[protocol]
    return [(direction, _renamed(data, old, new)) for direction, data in SESSIONS[protocol]]


def _renamed(data, old, new):
    """Once in each part; in a frame of AMQP its size, and that of its properties, go with it."""
    at = data.find(old[0])
    if at < 0:
        return data
    grown = bytearray(data.replace(old[0], new[0], 1))
    if old[1]:
        assert grown[at - 1 : at] == old[1]
        grown[at - 1 : at] = new[1]
        size = int.from_bytes(grown[:4], "big") + len(new[0]) - len(old[0])
        grown[:4] = size.to_bytes(4, "big")
    return bytes(grown)


@pytest.mark.parametrize("protocol", SESSIONS)
@pytest.mark.parametrize("name", [b"p1:7", b"p12:345", b"m", b"p1:7x", b"ID:p1:7", b"p1:"])
def test_a_message_is_known_by_our_own_id(protocol, name):
    """In its send and its delivery, in any pieces; the message of another client has no id."""
    parts = named(protocol, name)
    bytewise = [(direction, data[at : at + 1]) for direction, data in parts for at in range(len(data))]
    ours = name.decode() if name in (b"p1:7", b"p12:345") else None

    for each in (parts, bytewise):
        assert [("send", ours), ("deliver", ours)] == [
            (seen.kind, seen.message)
            for kind in ("send", "deliver")
            for seen in [next(seen for seen in split(protocol, each) if seen.kind == kind)]
        ]
    assert len([seen for seen in split(protocol, parts) if seen.message]) == (2 if ours else 0)


@pytest.mark.parametrize("protocol", SESSIONS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_pieces_give_the_same_frames(protocol, data):
    """And no byte passes before its frame is reported."""
    assert_same_in_any_pieces(protocol, SESSIONS[protocol], data)


@pytest.mark.parametrize("protocol", SESSIONS)
def test_frames_lie_side_by_side(protocol):
    """Without a gap, byte by byte as well."""
    for splitter, direction in zip(link_reading(protocol).readers(), DIRECTIONS, strict=True):
        assert_side_by_side(splitter, b"".join(data for name, data in SESSIONS[protocol] if name == direction))


# STOMP


def stomp(data, direction="to_broker"):
    return [(frame.name, frame.length) for frame in split("stomp", [(direction, data)])]


def test_a_declared_body_may_hold_anything():
    """NULs and whole frames in a body are a body; an EOL between frames belongs to neither."""
    body = b"\0SEND\n\n\0\n\n"
    frame = b"SEND\ncontent-length:%d\n\n%s\0" % (len(body), body)

    assert [("SEND", len(frame)), ("EOL", 1), ("EOL", 2), ("SEND", len(frame))] == stomp(frame + b"\n\r\n" + frame)


def test_lines_may_end_with_cr_lf():
    """The first blank line ends the head, even if the body begins with one."""
    frame = b"SEND\r\ncontent-length:4\r\nreceipt:1\r\n\r\n\n\na\0\0"

    assert [("SEND", len(frame))] == stomp(frame)
    assert "1" == split("stomp", [("to_broker", frame)])[0].delivery


def test_without_a_length_the_nul_ends_a_frame():
    """Before the NUL has come, no byte of the frame may pass."""
    splitter = link_reading("stomp").readers()[1]
    first = (splitter.feed(b"MESSAGE\nack:a\n\nbo"), splitter.passable)
    second = (splitter.feed(b"dy" * 100), splitter.passable)
    seen = splitter.feed(b"\0\nMESSAGE\nack:b\n")

    assert ([], 0) == first == second
    assert [("MESSAGE", 218), ("EOL", 1)] == [(frame.name, frame.length) for frame in seen]
    assert 219 == splitter.passable
    assert [("MESSAGE", 219, 16)] == [(f.name, f.start, f.length) for f in splitter.feed(b"\n\0")]


def test_a_body_without_a_length_is_kept_back_up_to_a_bound(monkeypatch):
    """A longer body makes the stream unreadable, and passes."""
    monkeypatch.setattr(frames_stomp, "MAX_UNDECLARED", 100)
    splitter = link_reading("stomp").readers()[0]
    seen = [splitter.feed(b"SEND\n\n" + b"x" * 94), splitter.feed(b"x")]

    assert [0, 1] == [len(each) for each in seen]
    assert ("unreadable", splitter.offset) == (seen[1][0].name, splitter.passable)


def test_a_frame_is_known_before_its_body_comes():
    """A fault can strike before its first byte."""
    splitter = link_reading("stomp").readers()[0]
    seen = splitter.feed(b"SEND\ncontent-length:1000\n\n")

    assert [(0, 1027)] == [frame[:2] for frame in seen]
    assert [] == splitter.feed(b"\0" * 1001)
    assert [1027] == [frame.start for frame in splitter.feed(b"BEGIN\n\n\0")]


def subscribed(*heads):
    """The last words of MESSAGEs for subscriptions 1 and 2, and for none."""
    asks = b"".join(b"SUBSCRIBE\n%s\n\n\0" % head for head in heads)
    came = b"".join(
        b"MESSAGE\nmessage-id:7\n%s\n\n\0" % head for head in (b"subscription:1", b"subscription:2", b"x:y")
    )
    found = split("stomp", [("to_broker", asks), ("to_client", came)])[len(heads) :]
    return [" ".join(frame.detail.split()[2:]) for frame in found]


def test_a_message_says_how_its_subscription_acknowledges():
    """Auto is the default (STOMP 1.2, SUBSCRIBE ack Header); a cumulative one is named too."""
    assert ["settled", "individual", "unsubscribed"] == subscribed(b"id:1", b"id:2\nack:client-individual")
    assert ["subscription=1 cumulative", "settled", "unsubscribed"] == subscribed(
        b"id:1\nack:client", b"id:2\nack:auto"
    )
    assert ["unsubscribed"] * 2 + ["settled"] == subscribed(b"ack:auto")


def test_subscriptions_that_differ_under_one_id_are_ambiguous():
    """Also without an id, as STOMP 1.0 allows; two that ask for the same mode are not ambiguous."""
    assert ["unsubscribed"] * 3 == subscribed(b"id:1", b"id:1\nack:client", b"ack:auto", b"ack:client")
    assert ["settled", "unsubscribed", "unsubscribed"] == subscribed(b"id:1", b"id:1\nack:auto", b"id:2\nack:never")


def test_a_nul_ends_a_head_without_a_blank_line():
    """Its declared length does not count: no body follows."""
    assert [("DISCONNECT", 12), ("BEGIN", 8)] == stomp(b"DISCONNECT\n\0BEGIN\n\n\0")
    assert [("SEND", 22), ("BEGIN", 8)] == stomp(b"SEND\ncontent-length:9\0BEGIN\n\n\0")


def test_a_nul_in_a_header_is_an_octet_of_it():
    """STOMP 1.2 allows it; RabbitMQ passes a binary correlation-id on so."""
    assert [("MESSAGE", 34), ("RECEIPT", 23)] == stomp(
        b"MESSAGE\ncorrelation-id:\0\1\n\nbody\n\n\0RECEIPT\nreceipt-id:1\n\n\0"
    )


def test_a_receipt_names_the_command_that_it_answers():
    """With or without escapes; for a SUBSCRIBE it is no answer; one that was never asked for is an answer and says so."""
    pairs = ((b"COMMIT", b"a\\c1"), (b"SUBSCRIBE", b"s"), (b"ACK", b"x"))
    asked = b"".join(b"%s\nreceipt:%s\n\n\0" % pair for pair in pairs)
    answers = b"".join(b"RECEIPT\nreceipt-id:%s\n\n\0" % name for name in (b"x", b"s", b"a:1", b"a:1"))
    found = split("stomp", [("to_broker", asked), ("to_client", answers)])[3:]

    assert ["answer", "other", "commit_answer", "answer"] == [frame.kind for frame in found]
    assert found[-1].detail == "RECEIPT receipt-id=a:1 never asked for"


def test_the_first_of_repeated_headers_counts():
    """STOMP 1.2, Repeated Header Entries."""
    assert [("SEND", 43)] == stomp(b"SEND\ncontent-length:2\ncontent-length:9\n\n\0\0\0")


@pytest.mark.parametrize("data", [b"\0", b"\rX", b"get / HTTP\n\n", b"S" * 33 + b"\n\n\0"])
def test_an_unreadable_stomp_stream_passes(data):
    assert_unreadable("stomp", b"BEGIN\n\n\0", data, b"BEGIN\n\n\0")


# AMQP


def frame(performative, payload=b"", channel=0, kind=0):
    return struct.pack(">IBBH", 8 + len(performative) + len(payload), 2, kind, channel) + performative + payload


def described(code, *fields, symbol=None, wide=False):
    """A list of encoded fields under a descriptor."""
    name = b"\x00\x53" + bytes([code])
    if wide:
        name = b"\x00\x80" + code.to_bytes(8, "big")
    if symbol:
        name = b"\x00\xa3" + bytes([len(symbol)]) + symbol
    body = b"".join(fields)
    return name + b"\xd0" + struct.pack(">II", len(body) + 4, len(fields)) + body


NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"


def uint(number):
    return b"\x70" + struct.pack(">I", number)


def transfer(delivery, *, handle=0, more=FALSE, payload=b"", channel=0, **how):
    number = NULL if delivery is None else uint(delivery)
    fields = (uint(handle), number, b"\xa0\x01t", b"\x43", FALSE, more)
    return frame(described(0x14, *fields, **how), payload, channel)


def disposition(first, last, *, role=TRUE, channel=0):
    return frame(described(0x15, role, uint(first), uint(last), TRUE, described(0x24)), channel=channel)


def attach(handle, *, coordinator=True, channel=0):
    target = described(0x30) if coordinator else described(0x29, b"\xa1\x01q")
    return frame(described(0x12, b"\xa1\x01n", uint(handle), FALSE, NULL, NULL, NULL, target), channel=channel)


def discharge(delivery, *, handle=0, fail=FALSE, channel=0, symbol=None):
    body = b"\x00\x53\x70\x45" + b"\x00\x53\x77" + described(0x32, b"\xa0\x02tx", fail, symbol=symbol)
    return transfer(delivery, handle=handle, payload=body, channel=channel)


def amqp(*parts):
    return kinds("amqp", parts)


@pytest.mark.parametrize("how", [{}, {"wide": True}, {"symbol": b"amqp:transfer:list"}])
def test_a_descriptor_has_three_spellings(how):
    """Small number, number, symbol (AMQP 1.0 section 1.3.4)."""
    assert ["send", "send"] == amqp(("to_broker", transfer(0, **how) + transfer(1, **how)))


def test_a_transfer_of_several_frames_counts_once():
    """Its first frame counts; frames of another link in between belong to other deliveries."""
    parts = transfer(0, more=TRUE) + transfer(7, handle=1) + transfer(None, more=TRUE) + transfer(None) + transfer(1)

    assert ["send"] * 3 == amqp(("to_broker", parts))
    assert ["deliver"] * 3 == amqp(("to_client", parts))
    assert ["0", "7", "0", "0", "1"] == [seen.delivery for seen in split("amqp", [("to_broker", parts)])]


def test_a_link_that_was_cut_short_begins_anew():
    """An aborted transfer, a detached link or an ended session leaves nothing half done."""
    aborted = frame(described(0x14, uint(0), *[NULL] * 4, TRUE, *[NULL] * 3, TRUE))
    ends = (aborted, frame(described(0x16, uint(0))), frame(described(0x17)))

    assert [["send"] * 2] * 3 == [amqp(("to_broker", transfer(0, more=TRUE) + end + transfer(1))) for end in ends]


HEADER = b"\x00\x53\x70\xc0\x02\x01\x41"
ID = b"\xa1\x04p1:7"


def properties(*fields, symbol=None):
    return described(0x73, *fields, symbol=symbol)


def messages(*parts):
    return [seen.message for seen in split("amqp", [("to_client", part) for part in parts])]


ANNOTATIONS = (
    b"\x00\x53\x72\xd1" + struct.pack(">II", 2004, 2) + b"\xa3\x01x\xb0" + struct.pack(">I", 1992) + b"y" * 1992
)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (properties(ID), "p1:7"),
        (HEADER + properties(ID, NULL), "p1:7"),
        (HEADER + ANNOTATIONS + properties(ID) + b"\x00\x53\x77\xa1\x01x", "p1:7"),
        (properties(ID, symbol=b"amqp:properties:list"), "p1:7"),
        (b"\x00\xa3\x10amqp:header:list\x45" + properties(ID), "p1:7"),
        (properties(b"\x80" + bytes(8)), None),
        (properties(NULL), None),
        (properties(b"\xa1\x02\xff\xfe"), None),
        (properties(), None),
        (HEADER, None),
        (b"", None),
        (b"\x00\x53\x77" + ID, None),
        (b"\x00\x53\x77" + ID + properties(ID), None),
        (b"\x00" * 600, None),
        (b"\x00\x53\x70\xc0\xff\x01", None),
        (b"\x00\x53\x70\x99", None),
        (b"\x00\x53\x73\xa1\x04p1:7", None),
    ],
)
def test_the_properties_hold_the_id_of_a_transfer(payload, expected):
    """Behind any sections that may precede them; a body, garbage and a stream that ends too soon give no id."""
    whole = transfer(0, payload=payload) + transfer(1, payload=properties(ID))

    assert [expected, "p1:7"] == messages(whole)
    assert [expected, "p1:7"] == messages(*(whole[at : at + 1] for at in range(len(whole))))


def test_every_frame_of_a_delivery_is_of_its_message():
    """All but the last say that more follows; once settled, all are (section 2.7.5)."""
    first = frame(described(0x14, uint(0), uint(4), b"\xa0\x01t", b"\x43", TRUE, TRUE), properties(ID))
    parts = first + transfer(None, more=TRUE) + transfer(5, handle=1) + transfer(None) + transfer(6)
    found = split("amqp", [("to_client", parts)])

    assert ["p1:7", "p1:7", None, "p1:7", None] == [seen.message for seen in found]
    assert ["settled more", "settled continued more", "", "settled continued", ""] == [
        " ".join(seen.detail.split()[2:]) for seen in found
    ]


def test_a_session_has_delivery_ids_of_its_own():
    """The second of a connection, and the one that takes the first one's channel after its end."""
    begin, reply = described(0x11, NULL), described(0x11, b"\x60\x00\x03")
    asks = frame(begin, channel=3) + transfer(0, channel=3) + frame(begin, channel=1) + transfer(0, channel=1)
    asks += frame(described(0x17), channel=3) + frame(begin, channel=3) + disposition(0, 0, channel=3)
    found = split("amqp", [("to_broker", asks), ("to_client", frame(reply, channel=8) + transfer(0, channel=8))])

    assert ["transfer handle=0", "transfer handle=0 session=2", "disposition accepted settled session=3"] == [
        seen.detail for seen in found if seen.kind in ("send", "acknowledge")
    ]
    assert "transfer handle=0 session=3" == found[-1].detail


def test_the_answer_to_a_commit_is_recognised():
    """In the middle of a range, across the wrap of the ids, and with different channel numbers at both ends."""
    asks = attach(3, channel=2) + attach(0, coordinator=False, channel=2)
    asks += transfer(0xFFFFFFFF, channel=2) + discharge(0, handle=3, channel=2) + transfer(1, channel=2)
    begin = frame(described(0x11, b"\x60\x00\x02"), channel=5)
    answers = disposition(0, 0, channel=6) + disposition(0xFFFFFFFF, 1, channel=5) + disposition(0, 0, channel=5)

    assert ["send", "commit", "send", "answer", "commit_answer", "answer"] == amqp(
        ("to_broker", asks), ("to_client", begin + answers)
    )


def test_a_control_link_is_one_only_as_long_as_it_is_attached():
    """Its handle may be given to a sender later."""
    ends = (frame(described(0x16, uint(0))), frame(described(0x17)), b"")
    sender = attach(0, coordinator=False) + transfer(1)

    assert [["rollback", "send"]] * 3 == [
        amqp(("to_broker", attach(0) + discharge(0, fail=TRUE) + end + sender)) for end in ends
    ]
    assert ["rollback", "send"] == amqp(("to_broker", attach(0) + discharge(0, fail=TRUE) + ends[0] + transfer(1)))
    assert ["commit"] == amqp(("to_broker", attach(0) + discharge(0, symbol=b"amqp:discharge:list")))


def test_the_role_decides_the_kind_of_a_disposition():
    """A client acknowledges as receiver and only settles as sender; a broker answers in both roles."""
    both = disposition(0, 0) + disposition(0, 0, role=FALSE)

    assert ["acknowledge"] == amqp(("to_broker", both))
    assert ["answer", "answer"] == amqp(("to_client", both))


def test_a_large_transfer_is_known_by_its_head():
    """A commit must be complete."""
    large = transfer(0, payload=b"\0" * 100_000)
    splitter = link_reading("amqp").readers()[0]

    assert [] == splitter.feed(large[:20])
    assert 0 == splitter.passable
    assert [(0, len(large), "send")] == [seen[:3] for seen in splitter.feed(large[20:60])]
    assert 60 == splitter.passable
    assert [] == splitter.feed(large[60:])

    splitter.feed(attach(0))
    assert [] == splitter.feed(discharge(1)[:-1])
    assert ["commit"] == [seen.kind for seen in splitter.feed(discharge(1)[-1:])]


@pytest.mark.parametrize(
    "data",
    [
        *(b"\0\0\0\x07\x02\0\0\0", b"\0\0\0\x10\x01\0\0\0", b"HTTP/1.1", b"\0\0\0\x10\x02\x07\0\0"),
        *(frame(b"\x99"), frame(b"\x40"), frame(b"\x00\x53\x14\xc0"), frame(b"\x00" * 3000)),
    ],
)
def test_an_unreadable_amqp_stream_passes(data):
    """A size below a head's, no data offset, no type, no constructor, no performative, one that does not end."""
    assert_unreadable("amqp", b"AMQP\0\1\0\0", data, transfer(0))


def test_names_of_other_frames():
    """Protocol headers, SASL, an empty frame."""
    data = (
        b"AMQP\3\1\0\0" + frame(described(0x41), kind=1) + frame(b"") + frame(described(0x17)) + frame(described(0x99))
    )

    assert ["header SASL", "sasl-init", "heartbeat", "end-session", "performative 153"] == [
        seen.detail for seen in split("amqp", [("to_broker", data)])
    ]


@pytest.mark.parametrize(
    ("protocol", "data"),
    [
        ("amqp", transfer(0, payload=bytes(1 << 24))),
        ("stomp", b"SEND\ncontent-length:%d\n\n" % (1 << 24) + bytes((1 << 24) + 1)),
    ],
    ids=["amqp", "stomp"],
)
def test_payloads_are_not_copied(protocol, data):
    """16 MiB in one frame, and in pieces: the reader takes less than a thousandth of it."""
    assert_not_copied(protocol, bytearray(data))
