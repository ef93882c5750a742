"""The frame codec: the standard's own examples, every split of a stream, and every way to be malformed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.reference.stomp import frames as stomp_frames
from conformance.reference.stomp.frames import CLIENT, MAX_HEADERS, MAX_LINE, SERVER, Decoder, Frame, encode

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


GOLDEN = [
    (
        b"CONNECT\naccept-version:1.0,1.1,2.0\nhost:stomp.github.org\n\n\0",
        Frame("CONNECT", {"accept-version": "1.0,1.1,2.0", "host": "stomp.github.org"}),
    ),
    (b"CONNECTED\nversion:1.1\n\n\0", Frame("CONNECTED", {"version": "1.1"})),
    (
        b"SEND\ndestination:/queue/a\ncontent-type:text/plain\n\nhello queue a\n\0",
        Frame("SEND", {"destination": "/queue/a", "content-type": "text/plain"}, b"hello queue a\n"),
    ),
    (
        b"SUBSCRIBE\nid:0\ndestination:/queue/foo\nack:client\n\n\0",
        Frame("SUBSCRIBE", {"id": "0", "destination": "/queue/foo", "ack": "client"}),
    ),
    (b"ACK\nid:12345\ntransaction:tx1\n\n\0", Frame("ACK", {"id": "12345", "transaction": "tx1"})),
    (b"BEGIN\ntransaction:tx1\n\n\0", Frame("BEGIN", {"transaction": "tx1"})),
    (b"DISCONNECT\nreceipt:77\n\n\0", Frame("DISCONNECT", {"receipt": "77"})),
    (b"RECEIPT\nreceipt-id:message-12345\n\n\0", Frame("RECEIPT", {"receipt-id": "message-12345"})),
    # "foo:World" is the one that counts (Repeated Header Entries).
    (b"MESSAGE\nfoo:World\nfoo:Hello\n\n\0", Frame("MESSAGE", {"foo": "World"})),
    (b"SEND\r\na:b\r\n\r\nx\0", Frame("SEND", {"a": "b"}, b"x")),
    (b"SEND\na: b \n\nx\0", Frame("SEND", {"a": " b "}, b"x")),
    (b"SEND\na:\n\n\0", Frame("SEND", {"a": ""})),
    (b"SEND\n\\c\\\\:\\r\\n\\c\\\\\n\n\0", Frame("SEND", {":\\": "\r\n:\\"})),
    (b"SEND\ncontent-length:3\n\n\0a\0\0", Frame("SEND", {"content-length": "3"}, b"\0a\0")),
    (b"CONNECT\nhost:[::1]\npasscode:a\\b\n\n\0", Frame("CONNECT", {"host": "[::1]", "passcode": "a\\b"})),
]


@pytest.mark.parametrize(("data", "frame"), GOLDEN, ids=range(len(GOLDEN)))
def test_the_examples_of_the_standard_are_read(data, frame):
    """STOMP 1.2; also with heart-beats before and after."""
    assert read(data) == ([frame], None)
    assert read(b"\n\r\n" + data + b"\n\r\n" + data) == ([frame, frame], None)


@pytest.mark.parametrize(("data", "frame"), GOLDEN, ids=range(len(GOLDEN)))
def test_a_frame_comes_with_its_last_byte(data, frame):
    """Never before its NUL."""
    decoder = Decoder(EVERY)

    assert [list(decoder.feed(bytes((byte,)))) for byte in data] == [[]] * (len(data) - 1) + [[frame]]


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
    before = Frame("SEND", {"a": "b"}, b"x")
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


def test_version_1_1_has_no_carriage_returns():
    """Neither as an escape nor as the end of a line."""
    assert read(b"SEND\na:b\r\n\n\0", version="1.1") == ([Frame("SEND", {"a": "b\r"})], None)
    assert read(b"SEND\na:\\n\\c\\\\\n\n\0", version="1.1") == ([Frame("SEND", {"a": "\n:\\"})], None)
    assert read(b"SEND\na:\\r\n\n\0", version="1.1")[1] == ("undefined escape '\\\\r'", None)


def test_version_1_0_has_no_escapes():
    """A value is all that follows the first colon."""
    assert read(b"SEND\na:b:\\t\n\n\0", version="1.0") == ([Frame("SEND", {"a": "b:\\t"})], None)


def test_the_version_rules_from_the_next_frame_on():
    """The owner sets it between two frames of one read."""
    decoder, seen = Decoder(), []
    for frame in decoder.feed(b"CONNECT\n\n\0SEND\na:b:c\n\n\0"):
        decoder.version = "1.0"
        seen.append(frame)

    assert seen == [Frame("CONNECT", {}), Frame("SEND", {"a": "b:c"})]


def test_frames_are_written_as_the_standard_shows_them():
    """Escapes in all frames but CONNECTED; what 1.0 has no bytes for is left out."""
    odd = [("a:b", "c\nd"), ("e", "f\\:\r"), ("", "x"), ("g", "h")]

    assert encode("MESSAGE", odd, b"x\0y") == b"MESSAGE\na\\cb:c\\nd\ne:f\\\\\\c\\r\ng:h\n\nx\0y\0"
    assert encode("MESSAGE", odd, version="1.1") == b"MESSAGE\na\\cb:c\\nd\ne:f\\\\\\c\r\ng:h\n\n\0"
    assert encode("MESSAGE", odd, version="1.0") == b"MESSAGE\ne:f\\:\r\ng:h\n\n\0"
    assert encode("CONNECTED", [("server", "a:b\\")]) == b"CONNECTED\nserver:a:b\\\n\n\0"


_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
_FRAMES = st.builds(
    Frame,
    st.sampled_from(["SEND", "MESSAGE", "ERROR"]),
    st.dictionaries(_TEXT.filter(bool).filter(lambda name: name != "content-length"), _TEXT, max_size=4),
    st.binary(max_size=20),
)


def _measured(frame):
    return frame._replace(headers={**frame.headers, "content-length": str(len(frame.body))})


@given(st.lists(_FRAMES.map(_measured), max_size=4), st.sampled_from(["1.2", "1.1"]), st.data())
def test_what_is_written_is_read_however_it_is_split(frames, version, data):
    """Encode, cut anywhere, decode: the same frames."""
    if version == "1.1":
        stream = b"\n".join(encode(f.command, f.headers.items(), f.body, version) for f in frames)
    else:
        stream = b"\r\n\n".join(encode(f.command, f.headers.items(), f.body) for f in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert read(*pieces, version=version) == (frames, None)


@given(
    st.binary(max_size=60), st.sampled_from(["1.2", "1.1", "1.0"]), st.sampled_from([b"", b"SEND\n", b"SEND\na:b\n\n"])
)
def test_any_bytes_are_read_or_refused(tail, version, start):
    """No other exception; byte by byte the same as at once."""
    at_once = read(start + tail, version=version)
    one_by_one = read(*(bytes((byte,)) for byte in start + tail), version=version)

    assert at_once[1] == one_by_one[1]
    assert one_by_one[0][: len(at_once[0])] == at_once[0]
