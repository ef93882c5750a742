"""The frame codec: every way to be malformed, and its limits; `test_stomp_golden` has what the standard shows."""

from __future__ import annotations

import pytest

from conformance.reference.stomp import frames as stomp_frames
from conformance.reference.stomp.frames import CLIENT, MAX_HEADERS, MAX_LINE, SERVER, Decoder, StompFrame

EVERY = CLIENT | SERVER


def read(*pieces, version="1.2", commands=EVERY, **limits):
    """The frames of a stream, and then what was wrong with it, if anything was."""
    decoder = Decoder(commands, **limits)
    decoder.version = version
    seen = []
    try:
        for piece in pieces:
            seen.extend(decoder.feed(piece))
    except stomp_frames.ProtocolError as error:
        return seen, (str(error), error.receipt)
    return seen, None


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"HELLO\n\n\0", "unknown command 'HELLO'"),
        (b"send\n\n\0", "unknown command 'send'"),
        (b"SEND \n\n\0", "unknown command 'SEND '"),
        (b"\rSEND\n\n\0", "a CR that no LF follows"),
        (b"SEND\na\n\n\0", "the header line 'a' is not NAME:VALUE"),
        (b"SEND\n:a\n\n\0", "the header line ':a' is not NAME:VALUE"),
        (b"SEND\na:b:c\n\n\0", "the value of the header 'a' has a colon that is not escaped"),
        (b"SEND\na:\\t\n\n\0", "undefined escape '\\\\t'"),
        (b"SEND\na:b\\\n\n\0", "undefined escape '\\\\'"),
        (b"SEND\na\\x:b\n\n\0", "undefined escape '\\\\x'"),
        (b"SEND\na:b\rc\n\n\0", "a CR that no LF follows"),
        (b"SEND\na:b\r\r\n\n\0", "a CR that no LF follows"),
        (b"SEND\na:\xff\n\n\0", "the head is not UTF-8"),
        (b"DISCONNECT\n\0", "a NUL before the empty line that ends the head"),
        (b"SEND\na:\0b\n\n\0", "a NUL before the empty line that ends the head"),
        (b"SEND\ncontent-length:+1\n\nx\0", "content-length '+1' is not a number of bytes"),
        (b"SEND\ncontent-length:\n\nx\0", "content-length '' is not a number of bytes"),
        ("SEND\ncontent-length:\u0661\n\nx\0".encode(), "content-length '\u0661' is not a number of bytes"),
        (b"SEND\ncontent-length:1\n\nxy\0", "no NUL after a body of 1 bytes"),
        (b"SEND\ncontent-length:104857601\n\nx", "a body of more than 104857600 bytes"),
        (b"SEND\ncontent-length:" + b"9" * 5000 + b"\n\nx", "a body of more than 104857600 bytes"),
        (b"ACK\nid:1\n\nbody\0", "ACK with a body"),
        (b"ACK\nid:1\ncontent-length:4\n\nbody\0", "ACK with a body"),
        (b"SEND\n" + b"a:b\n" * (MAX_HEADERS + 1), f"more than {MAX_HEADERS} headers"),
        (b"SEND\na:" + b"b" * MAX_LINE, f"a line of the head is longer than {MAX_LINE} bytes"),
    ],
)
def test_what_the_grammar_does_not_have_is_refused(data, wrong):
    """With one sentence that says what; the frame before it is still read, and a split changes nothing."""
    before = StompFrame("SEND", {"a": "b"}, b"x")
    stream = b"SEND\na:b\n\nx\0" + data

    assert read(stream) == ([before], (wrong, None))
    assert read(*(bytes((byte,)) for byte in stream)) == ([before], (wrong, None))


def test_the_frames_before_a_fault_are_given_first():
    """A valid SEND has its effect, whatever follows in the same read."""
    decoder = Decoder()
    frames = decoder.feed(b"SEND\n\none\0SEND\n\ntwo\0garbage\n")

    assert (next(frames).body, next(frames).body) == (b"one", b"two")
    with pytest.raises(stomp_frames.ProtocolError, match="garbage"):
        next(frames)


def test_a_fault_names_the_receipt_of_its_frame():
    """If that header had come before it; of no other frame."""
    assert read(b"SEND\nreceipt:7\na\n")[1][1] == "7"
    assert read(b"SEND\na\nreceipt:7\n")[1][1] is None
    assert read(b"SEND\nreceipt:7\n\n\0", b"SEND\na\n")[1][1] is None


def test_a_body_is_limited_with_a_length_and_without():
    """As soon as it is announced, or there is too much of it, and not only at its end."""
    wrong = ("a body of more than 10 bytes", None)

    assert read(b"SEND\n\n0123456789\0", max_body=10)[1] is None
    assert read(b"SEND\n\n0123456789", b"0", max_body=10)[1] == wrong
    assert read(b"SEND\n\n01234567890\0", max_body=10)[1] == wrong
    assert read(b"SEND\ncontent-length:10\n\n0123456789\0", max_body=10)[1] is None
    assert read(b"SEND\ncontent-length:11\n\n", max_body=10)[1] == wrong


def test_a_client_does_not_send_the_frames_of_a_server():
    """And the other way round."""
    assert read(b"MESSAGE\n\n\0", commands=CLIENT)[1] == ("unknown command 'MESSAGE'", None)
    assert read(b"SEND\n\n\0", commands=SERVER)[1] == ("unknown command 'SEND'", None)


def test_the_version_rules_from_the_next_frame_on():
    """The owner sets it between two frames of one read."""
    decoder, seen = Decoder(), []
    for frame in decoder.feed(b"CONNECT\n\n\0SEND\na:b:c\n\n\0"):
        decoder.version = "1.0"
        seen.append(frame)

    assert seen == [StompFrame("CONNECT", {}), StompFrame("SEND", {"a": "b:c"})]
