"""The frame codec: the example frames of STOMP 1.0, 1.1 and 1.2, the rules that differ, and every way to be malformed.

Two examples of the standard break its own grammar, and are refused: DISCONNECT and its RECEIPT in 1.1 and 1.2 have no
empty line, and the first CONNECT of 1.0 has one of spaces.
"""

from __future__ import annotations

import pytest

from conformance.reference.stomp.frames import (
    CLIENT,
    MAX_HEADERS,
    MAX_LINE,
    SERVER,
    VERSIONS,
    Decoder,
    ProtocolError,
    StompFrame,
    encode,
)

from .stomp_rig import Client, Rig

EVERY = CLIENT | SERVER


def read(*pieces, version="1.2", commands=EVERY, **limits):
    """The frames of a stream, and then what was wrong with it and the receipt of that frame, if anything was."""
    decoder = Decoder(commands, **limits)
    decoder.version = version
    seen = []
    try:
        for piece in pieces:
            seen.extend(decoder.feed(piece))
    except ProtocolError as error:
        return seen, (str(error), error.receipt)
    return seen, None


def read_both(data, version="1.2"):
    """What `read` gives for the bytes at once and one by one, which is the same."""
    found = read(data, version=version)
    assert read(*(bytes((byte,)) for byte in data), version=version) == found
    return found


ERROR = """\
The message:
-----
MESSAGE
destined:/queue/a
receipt:message-12345

Hello queue a!
-----
Did not contain a destination header, which is REQUIRED
for message propagation.
"""
SINCE_1_1 = """\
CONNECT
accept-version:1.0,1.1,2.0
host:stomp.github.org

^@
CONNECTED
version:1.1

^@
ERROR
version:1.2,2.1
content-type:text/plain

Supported protocol versions are 1.2 2.1^@
CONNECTED
heart-beat:3,4

^@
MESSAGE
foo:World
foo:Hello

^@
SEND
destination:/queue/a
receipt:message-12345

hello queue a
^@
SUBSCRIBE
id:0
destination:/queue/foo
ack:client

^@
UNSUBSCRIBE
id:0

^@
BEGIN
transaction:tx1

^@
MESSAGE
subscription:0
message-id:007
destination:/queue/a
content-type:text/plain

hello queue a^@
RECEIPT
receipt-id:message-12345

^@
"""
EXAMPLES = {
    "1.0": """\
CONNECTED
session: s-1

^@
SEND
destination:/queue/a
receipt:message-12345

hello queue a
^@
SUBSCRIBE
destination: /queue/foo
ack: client

^@
COMMIT
transaction: t-1

^@
ACK
message-id: m-1
transaction: t-1

^@
DISCONNECT

^@
MESSAGE
destination:/queue/a
message-id: m-1

hello queue a^@
RECEIPT
receipt-id:message-12345

^@
""",
    "1.1": f"""\
{SINCE_1_1}ACK
subscription:0
message-id:007
transaction:tx1

^@
ERROR
receipt-id:message-12345
content-type:text/plain
content-length:171
message: malformed frame received

{ERROR.replace("12345", "12345" + chr(10))}^@
""",
    "1.2": f"""\
{SINCE_1_1}ACK
id:12345
transaction:tx1

^@
ERROR
receipt-id:message-12345
content-type:text/plain
content-length:170
message:malformed frame received

{ERROR}^@
""",
}
"""As the standards write them, with ^@ for the NUL."""

VECTORS = [
    (version, example.encode() + b"\0") for version, text in EXAMPLES.items() for example in text.split("^@\n")[:-1]
]


def plainly(data, version):
    """The frame of an example, which has no escapes: 1.0 trims values, and nothing is trimmed from 1.1 on."""
    head, _, body = data[:-1].decode().partition("\n\n")
    command, *lines = head.split("\n")
    headers = dict(line.split(":") for line in reversed(lines) if line)
    trimmed = {name: value.strip(" ") if version == "1.0" else value for name, value in headers.items()}
    return StompFrame(command, trimmed, body.encode())


@pytest.mark.parametrize(("version", "data"), VECTORS)
def test_an_example_of_the_standard_is_read_and_written(version, data):
    """Alone, and between heart-beats; with its last byte, and never before. Padding and repeated headers are not written."""
    frame = plainly(data, version)

    assert read_both(data, version) == ([frame], None)
    assert read_both(data[:-1], version) == ([], None)
    assert read_both(b"\n\n" + data + b"\n" + data + b"\n", version) == ([frame, frame], None)
    if b"World" not in data and not (version == "1.0" and b": " in data):
        lines = [tuple(line.split(":")) for line in data.decode().partition("\n\n")[0].split("\n")[1:] if line]
        assert encode(frame.command, lines, frame.body, version) == data


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (
            b"CONNECT\nlogin: <username>\npasscode:<passcode>\n          \n\0",
            "the header line '          ' is not NAME:VALUE",
        ),
        (b"DISCONNECT\nreceipt:77\n\0", "a NUL before the empty line that ends the head"),
        (b"RECEIPT\nreceipt-id:77\n\0", "a NUL before the empty line that ends the head"),
    ],
)
def test_the_examples_that_break_the_grammar_are_refused(data, wrong):
    """frame = command EOL *( header EOL ) EOL *OCTET NULL: the empty line is required. With it they are read."""
    frames, told = read_both(data)
    assert (frames, told[0]) == ([], wrong)

    (frame,), told = read_both(data.replace(b"          \n", b"").replace(b"\0", b"\n\0"))
    assert (frame.command, told) == (data.split(b"\n")[0].decode(), None)


RULES = [
    # bytes, then what 1.2, 1.1 and 1.0 make of them: headers and body, or what is wrong; None: as the version before it
    # Value Encoding: CONNECT has no escapes
    (b"CONNECT\nhost:[::1]\npasscode:a\\b\n\n\0", ({"host": "[::1]", "passcode": "a\\b"}, b""), None, None),
    # STOMP Frames: EOL
    (b"SEND\na:b\r\n\nx\0", ({"a": "b"}, b"x"), ({"a": "b\r"}, b"x"), None),
    (b"SEND\r\na:b\r\n\r\nx\0", ({"a": "b"}, b"x"), "unknown command 'SEND\\r'", None),
    # Value Encoding
    (b"SEND\na:\\r\n\nx\0", ({"a": "\r"}, b"x"), "undefined escape '\\\\r'", ({"a": "\\r"}, b"x")),
    (
        b"SEND\n\\c\\n\\\\:\\\\n\\c\n\nx\0",
        ({":\n\\": "\\n:"}, b"x"),
        None,
        ({"\\c\\n\\\\": "\\\\n\\c"}, b"x"),
    ),
    (b"SEND\na:\\t\n\nx\0", "undefined escape '\\\\t'", None, ({"a": "\\t"}, b"x")),
    (b"SEND\na: b \n c :d\n\nx\0", ({"a": " b ", " c ": "d"}, b"x"), None, ({"a": "b", " c ": "d"}, b"x")),
    # Augmented BNF: header-value
    (
        b"SEND\na:b:c\n\nx\0",
        "the value of the header 'a' has a colon that is not escaped",
        None,
        ({"a": "b:c"}, b"x"),
    ),
    (b"SEND\na:\n\nx\0", ({"a": ""}, b"x"), None, None),
    (b"SEND\na:\xc3\n\n\0", "the head is not UTF-8", None, None),
    # Body; 1.0 SUBSCRIBE: "The body is ignored."
    (
        b"SUBSCRIBE\ndestination:q\nid:0\n\nignored\0",
        "SUBSCRIBE with a body",
        None,
        ({"destination": "q", "id": "0"}, b"ignored"),
    ),
    (b"ACK\ncontent-length:2\n\nxy\0", "ACK with a body", None, ({"content-length": "2"}, b"xy")),
    # Header content-length
    (b"SEND\ncontent-length:3\n\na\0b\0", ({"content-length": "3"}, b"a\0b"), None, None),
    (b"SEND\ncontent-length:1\n\nabc\0", "no NUL after a body of 1 bytes", None, None),
    (b"SEND\ncontent-length:1\ncontent-length:9\n\na\0", ({"content-length": "1"}, b"a"), None, None),
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_an_example_does_not_show(rule):
    """The same bytes under each version."""
    data, *expected = rule
    told = None
    for version, own in zip(VERSIONS, expected, strict=True):
        told = told if own is None else own
        frames, wrong = read_both(data, version)
        assert ((frames[0].headers, frames[0].body) if frames else wrong[0]) == told, version


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"HELLO\n\n\0", "unknown command 'HELLO'"),
        (b"SEND \n\n\0", "unknown command 'SEND '"),
        (b"\rSEND\n\n\0", "a CR that no LF follows"),
        (b"SEND\na\n\n\0", "the header line 'a' is not NAME:VALUE"),
        (b"SEND\n:a\n\n\0", "the header line ':a' is not NAME:VALUE"),
        (b"SEND\na:b\\\n\n\0", "undefined escape '\\\\'"),
        (b"SEND\na\\x:b\n\n\0", "undefined escape '\\\\x'"),
        (b"SEND\na:b\rc\n\n\0", "a CR that no LF follows"),
        (b"SEND\na:b\r\r\n\n\0", "a CR that no LF follows"),
        (b"SEND\na:\0b\n\n\0", "a NUL before the empty line that ends the head"),
        (b"SEND\ncontent-length:+1\n\nx\0", "content-length '+1' is not a number of bytes"),
        (b"SEND\ncontent-length:\n\nx\0", "content-length '' is not a number of bytes"),
        ("SEND\ncontent-length:\u0661\n\nx\0".encode(), "content-length '\u0661' is not a number of bytes"),
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

    assert read_both(stream) == ([before], (wrong, None))


def test_the_frames_before_a_fault_are_given_first():
    """A valid SEND has its effect, also if invalid bytes follow in the same read."""
    decoder = Decoder()
    frames = decoder.feed(b"SEND\n\none\0SEND\n\ntwo\0garbage\n")

    assert (next(frames).body, next(frames).body) == (b"one", b"two")
    with pytest.raises(ProtocolError, match="garbage"):
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


@pytest.mark.parametrize(
    ("version", "data"),
    [
        ("1.2", b"MESSAGE\na\\cb:c\\nd\\re\\\\\n\n\0"),
        ("1.1", b"MESSAGE\na\\cb:c\\nd\re\\\\\n\n\0"),
        ("1.0", b"MESSAGE\n\n\0"),
    ],
)
def test_what_must_be_escaped_is_written_as_the_version_has_it(version, data):
    """1.1 has no escape for a carriage return; 1.0 has none at all, and the header is left out. CONNECTED has none."""
    assert encode("MESSAGE", [("a:b", "c\nd\re\\")], version=version) == data
    assert encode("CONNECTED", [("server", "a:b\\")], version=version) == b"CONNECTED\nserver:a:b\\\n\n\0"


def test_a_header_that_has_no_bytes_is_left_out():
    """No name, and a NUL, which would end the frame for a parser that looks for it first."""
    assert encode("MESSAGE", [("", "x"), ("a", "\0"), ("b\0", ""), ("c", "")], b"\0") == b"MESSAGE\nc:\n\n\0\0"
    assert encode("MESSAGE", [("", "x"), ("a", "b")]) == encode("MESSAGE", [("a", "b"), ("", "x")])
    assert encode("MESSAGE", [("a", "b"), ("", "x")]) == b"MESSAGE\na:b\n\n\0"


@pytest.mark.parametrize(
    ("offered", "answer"),
    [
        ("1.0,1.1,2.0", "1.1"),  # Protocol Negotiation, the example
        ("1.2", "1.2"),
        ("1.1", "1.1"),
        ("1.0", "1.0"),
        ("1.2,1.1,1.0", "1.2"),
        ("1.1,1.2", "1.2"),
        (None, "1.0"),
    ],
)
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_the_highest_version_in_common_is_spoken(command, offered, answer):
    """And the bytes that follow are read by it; 1.0 has no heart-beats."""
    client = Client(Rig())
    client.say(command, {"host": "stomp.github.org"} | ({"accept-version": offered} if offered else {}))
    (connected,) = client.heard()
    assert (connected.command, connected.headers["version"]) == ("CONNECTED", answer)
    assert connected.headers.get("heart-beat") == (None if answer == "1.0" else "100,100")

    client.connection.receive(b"SEND\ndestination:q\na:\\r\n\nx\0")
    assert [f.command for f in client.heard()] == (["ERROR"] if answer == "1.1" else [])


def test_no_version_in_common_is_answered_as_the_standard_shows():
    """ERROR with the header version, content-type and a body; then the connection ends."""
    client = Client(Rig())
    client.say("CONNECT", {"accept-version": "0.9,2.1", "host": "h"})
    (error,) = client.heard()

    assert (error.command, error.headers["version"], error.headers["content-type"]) == (
        "ERROR",
        "1.0,1.1,1.2",
        "text/plain",
    )
    assert error.body.startswith(b"supported versions are 1.0,1.1,1.2\n")
    assert client.connection.closed


def test_an_error_says_which_frame_was_wrong():
    """STOMP 1.2, ERROR: receipt-id, a short message, and a body with the head of the frame, but no password."""
    client = Rig().client()
    client.say("SEND", {"destined": "/queue/a", "receipt": "message-12345"}, b"Hello queue a!")
    (error,) = client.heard()
    told = "SEND without the header destination"
    body = f"{told}\n-----\nSEND\ndestined:/queue/a\nreceipt:message-12345\n-----\n".encode()
    assert (error.headers, error.body) == (
        {
            "message": told,
            "receipt-id": "message-12345",
            "content-type": "text/plain",
            "content-length": str(len(body)),
        },
        body,
    )

    secret = Client(Rig())
    secret.say("CONNECT", {"accept-version": "3.0", "host": "h", "passcode": "hidden"})
    (error,) = secret.heard()
    assert b"passcode:***\n" in error.body
    assert b"hidden" not in error.body


def test_heart_beats_between_frames_are_no_frames():
    """STOMP 1.2, Heart-beating: the EOL of the version, any number of them."""
    client = Rig().client()
    client.connection.receive(b"\n\r\n\nSEND\ndestination:q\nreceipt:1\n\nx\0\n\r\n\n" + b"\n" * 100_000)
    assert [f.headers["receipt-id"] for f in client.heard()] == ["1"]

    old = Rig().client("1.1")
    old.connection.receive(b"\n\r\n")
    (error,) = old.heard()
    assert error.headers["message"] == "unknown command '\\r'"
