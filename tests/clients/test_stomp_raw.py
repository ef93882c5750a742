"""The raw codec is strict, and the raw session sees faults that a library hides."""

import pytest
from stomp_peer import receipt

from conformance.errors import ClientError
from conformance.protocols.stomp.sessions.dialogue import ReceivedFrame
from conformance.protocols.stomp.sessions.raw_session import MalformedFrameError, RawFrameDecoder, encode


def decoded(data):
    return list(RawFrameDecoder().feed(data))


def test_encoded_frames_are_decoded():
    """Every character that needs an escape, and octets that look like the end of a frame."""
    frame = ReceivedFrame("SEND", {"a:\\\r\n": "b:\\\r\n", "content-length": "4"}, b"\0\n\0x")

    assert [frame] == decoded(encode(frame))


def test_connect_is_not_escaped():
    """STOMP 1.2, Value Encoding: CONNECT and CONNECTED stay as they were in 1.0."""
    frame = ReceivedFrame("CONNECT", {"host": "a:1"})

    assert b"CONNECT\nhost:a:1\n\n\0" == encode(frame)
    assert [ReceivedFrame("CONNECTED", {"session": "a\\n:1"})] == decoded(b"CONNECTED\nsession:a\\n:1\n\n\0")


def test_carriage_returns_end_lines_too():
    """STOMP 1.2: EOL is LF or CR LF."""
    assert [ReceivedFrame("RECEIPT", {"receipt-id": "1"})] == decoded(b"\r\nRECEIPT\r\nreceipt-id:1\r\n\r\n\0\r\n")


def test_a_header_may_have_any_octet():
    """STOMP 1.2, Augmented BNF: all but CR, LF and a colon."""
    frame = ReceivedFrame("MESSAGE", {"correlation-id": "\0\x01\0"}, b"x")

    assert [frame, frame] == decoded(2 * b"MESSAGE\ncorrelation-id:\0\x01\0\n\nx\0\n")


def test_the_first_of_repeated_headers_counts():
    """STOMP 1.2, Repeated Header Entries."""
    assert "1" == decoded(b"RECEIPT\nreceipt-id:1\nreceipt-id:2\n\n\0")[0].headers["receipt-id"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"RECEIPT\na:\\t\n\n\0", "undefined escape"),
        (b"RECEIPT\na:\\\n\n\0", "undefined escape"),
        (b"RECEIPT\nabc\n\n\0", "header line"),
        (b"RECEIPT\n:abc\n\n\0", "header line"),
        (b"RECEIPT\na:b\rc\n\n\0", "header line"),
        (b"RECEIPT\na:\xff\n\n\0", "UTF-8"),
        (b"MESSAGE\ncontent-length:-1\n\n\0", "content-length"),
        (b"MESSAGE\ncontent-length:1\n\nabc\0", "no NUL"),
        (b"RECEIPT\nreceipt-id:1\n\0", "blank line"),
        (b"RECEIPT\nreceipt-id:1\n\0\nMESSAGE\na:b\n\n\0", "blank line"),
        (b"MESSAGE\nx-amqp-1.0-properties:\0Ss\xc0\x08\n\nbody\0", "UTF-8"),
    ],
)
def test_malformed_frames_are_refused(data, says):
    """A tolerant parser would accept each of them."""
    with pytest.raises(MalformedFrameError, match=says):
        decoded(data)


def test_frames_before_a_malformed_frame_are_handled(raw):
    """Then the session says that the broker broke the protocol."""
    session = raw(lambda peer: (peer.read(), peer.write(receipt(1) + b"RECEIPT\nabc\n\n\0")))
    session.attach_sender("q")
    session.send("m1", b"x", durable=True)

    with pytest.raises(ClientError, match="the broker broke the protocol: a header line 'abc'"):
        for _ in range(100):
            session.pump(5.0)
    assert ["m1"] == [outcome.message for outcome in session.outcomes]


def test_a_receipt_without_its_id_is_an_anomaly(raw):
    """stomp.py would end the connection."""
    session = raw(lambda peer: (peer.write(b"RECEIPT\n\n\0"), peer.go.wait(10)))

    while not session.anomalies:
        session.pump(5.0)

    assert ["a RECEIPT without receipt-id"] == list(session.anomalies)


def test_a_send_without_a_receipt_has_no_outcome(raw):
    """It has no receipt header."""
    session = raw(lambda peer: (peer.read(2), peer.write(receipt(1))))
    session.attach_sender("q")

    session.send_unanswered("m1", b"x", durable=True)
    session.send("m2", b"x", durable=True)
    while not session.outcomes:
        session.pump(5.0)

    assert [("SEND", False), ("SEND", True)] == [(frame[0], "receipt" in frame[1]) for frame in session.peer.frames[1:]]
    assert ["m2"] == [outcome.message for outcome in session.outcomes]
