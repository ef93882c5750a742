"""Golden vectors: every example frame of STOMP 1.0, 1.1 and 1.2, and the rules that differ between them.

Two examples of the standard break its own grammar, and are refused: DISCONNECT and its RECEIPT in 1.1 and 1.2 have no
empty line, and the first CONNECT of 1.0 has one of spaces.
"""

from __future__ import annotations

import pytest

from conformance.reference.stomp.frames import CLIENT, SERVER, VERSIONS, Decoder, ProtocolError, StompFrame, encode

from .stomp_rig import Client, Rig

TOLD_10 = (
    b"The message:\n-----\nMESSAGE\ndestined:/queue/a\n\nHello queue a!\n-----\n"
    b"Did not contain a destination header, which is required \nfor message propagation.\n"
)
TOLD_11 = (
    b"The message:\n-----\nMESSAGE\ndestined:/queue/a\nreceipt:message-12345\n\n\nHello queue a!\n-----\n"
    b"Did not contain a destination header, which is REQUIRED\nfor message propagation.\n"
)
TOLD_12 = TOLD_11.replace(b"\n\n\n", b"\n\n")

EXAMPLES = [
    # section, version, bytes, frame
    ("1.0 CONNECTED", "1.0", b"CONNECTED\nsession: s-1\n\n\0", StompFrame("CONNECTED", {"session": "s-1"})),
    (
        "1.0 SEND",
        "1.0",
        b"SEND\ndestination:/queue/a\n\nhello queue a\n\0",
        StompFrame("SEND", {"destination": "/queue/a"}, b"hello queue a\n"),
    ),
    (
        "1.0 SUBSCRIBE",
        "1.0",
        b"SUBSCRIBE\ndestination: /queue/foo\nack: client\n\n\0",
        StompFrame("SUBSCRIBE", {"destination": "/queue/foo", "ack": "client"}),
    ),
    (
        "1.0 UNSUBSCRIBE",
        "1.0",
        b"UNSUBSCRIBE\ndestination: /queue/a\n\n\0",
        StompFrame("UNSUBSCRIBE", {"destination": "/queue/a"}),
    ),
    *[
        (
            f"1.0 {command}",
            "1.0",
            f"{command}\ntransaction: t-1\n\n\0".encode(),
            StompFrame(command, {"transaction": "t-1"}),
        )
        for command in ("BEGIN", "COMMIT", "ABORT")
    ],
    (
        "1.0 ACK",
        "1.0",
        b"ACK\nmessage-id: m-1\ntransaction: t-1\n\n\0",
        StompFrame("ACK", {"message-id": "m-1", "transaction": "t-1"}),
    ),
    ("1.0 DISCONNECT", "1.0", b"DISCONNECT\n\n\0", StompFrame("DISCONNECT", {})),
    (
        "1.0 Receipt",
        "1.0",
        b"SEND\ndestination:/queue/a\nreceipt:message-12345\n\nHello a!\0",
        StompFrame("SEND", {"destination": "/queue/a", "receipt": "message-12345"}, b"Hello a!"),
    ),
    (
        "1.0 MESSAGE",
        "1.0",
        b"MESSAGE\ndestination:/queue/a\nmessage-id: m-1\n\nhello queue a\0",
        StompFrame("MESSAGE", {"destination": "/queue/a", "message-id": "m-1"}, b"hello queue a"),
    ),
    (
        "1.0 RECEIPT",
        "1.0",
        b"RECEIPT\nreceipt-id:message-12345\n\n\0",
        StompFrame("RECEIPT", {"receipt-id": "message-12345"}),
    ),
    (
        "1.0 ERROR",
        "1.0",
        b"ERROR\nmessage: malformed packet received\n\n" + TOLD_10 + b"\0",
        StompFrame("ERROR", {"message": "malformed packet received"}, TOLD_10),
    ),
    (
        "1.1 ACK",
        "1.1",
        b"ACK\nsubscription:0\nmessage-id:007\ntransaction:tx1\n\n\0",
        StompFrame("ACK", {"subscription": "0", "message-id": "007", "transaction": "tx1"}),
    ),
    (
        "1.1 ERROR",
        "1.1",
        b"ERROR\nreceipt-id:message-12345\ncontent-type:text/plain\ncontent-length:171\n"
        b"message: malformed frame received\n\n" + TOLD_11 + b"\0",
        StompFrame(
            "ERROR",
            {
                "receipt-id": "message-12345",
                "content-type": "text/plain",
                "content-length": "171",
                "message": " malformed frame received",  # nothing is trimmed from 1.1 on
            },
            TOLD_11,
        ),
    ),
    (
        "1.2 ACK",
        "1.2",
        b"ACK\nid:12345\ntransaction:tx1\n\n\0",
        StompFrame("ACK", {"id": "12345", "transaction": "tx1"}),
    ),
    (
        "1.2 ERROR",
        "1.2",
        b"ERROR\nreceipt-id:message-12345\ncontent-type:text/plain\ncontent-length:170\n"
        b"message:malformed frame received\n\n" + TOLD_12 + b"\0",
        StompFrame(
            "ERROR",
            {
                "receipt-id": "message-12345",
                "content-type": "text/plain",
                "content-length": "170",
                "message": "malformed frame received",
            },
            TOLD_12,
        ),
    ),
]

BOTH = [
    # section, bytes, frame: the same in 1.1 and 1.2
    (
        "Connecting",
        b"CONNECT\naccept-version:1.2\nhost:stomp.github.org\n\n\0",
        StompFrame("CONNECT", {"accept-version": "1.2", "host": "stomp.github.org"}),
    ),
    ("Connecting, answer", b"CONNECTED\nversion:1.1\n\n\0", StompFrame("CONNECTED", {"version": "1.1"})),
    (
        "Protocol Negotiation",
        b"CONNECT\naccept-version:1.0,1.1,2.0\nhost:stomp.github.org\n\n\0",
        StompFrame("CONNECT", {"accept-version": "1.0,1.1,2.0", "host": "stomp.github.org"}),
    ),
    (
        "Protocol Negotiation, refused",
        b"ERROR\nversion:1.2,2.1\ncontent-type:text/plain\n\nSupported protocol versions are 1.2 2.1\0",
        StompFrame(
            "ERROR",
            {"version": "1.2,2.1", "content-type": "text/plain"},
            b"Supported protocol versions are 1.2 2.1",
        ),
    ),
    ("Heart-beating", b"CONNECT\nheart-beat:1,2\n\n\0", StompFrame("CONNECT", {"heart-beat": "1,2"})),
    ("Heart-beating, answer", b"CONNECTED\nheart-beat:3,4\n\n\0", StompFrame("CONNECTED", {"heart-beat": "3,4"})),
    ("Repeated Header Entries", b"MESSAGE\nfoo:World\nfoo:Hello\n\n\0", StompFrame("MESSAGE", {"foo": "World"})),
    (
        "SEND",
        b"SEND\ndestination:/queue/a\ncontent-type:text/plain\n\nhello queue a\n\0",
        StompFrame("SEND", {"destination": "/queue/a", "content-type": "text/plain"}, b"hello queue a\n"),
    ),
    (
        "Header receipt",
        b"SEND\ndestination:/queue/a\nreceipt:message-12345\n\nhello queue a\0",
        StompFrame("SEND", {"destination": "/queue/a", "receipt": "message-12345"}, b"hello queue a"),
    ),
    (
        "SUBSCRIBE",
        b"SUBSCRIBE\nid:0\ndestination:/queue/foo\nack:client\n\n\0",
        StompFrame("SUBSCRIBE", {"id": "0", "destination": "/queue/foo", "ack": "client"}),
    ),
    ("UNSUBSCRIBE", b"UNSUBSCRIBE\nid:0\n\n\0", StompFrame("UNSUBSCRIBE", {"id": "0"})),
    *[
        (command, f"{command}\ntransaction:tx1\n\n\0".encode(), StompFrame(command, {"transaction": "tx1"}))
        for command in ("BEGIN", "COMMIT", "ABORT")
    ],
    (
        "MESSAGE",
        b"MESSAGE\nsubscription:0\nmessage-id:007\ndestination:/queue/a\ncontent-type:text/plain\n\nhello queue a\0",
        StompFrame(
            "MESSAGE",
            {"subscription": "0", "message-id": "007", "destination": "/queue/a", "content-type": "text/plain"},
            b"hello queue a",
        ),
    ),
    ("RECEIPT", b"RECEIPT\nreceipt-id:message-12345\n\n\0", StompFrame("RECEIPT", {"receipt-id": "message-12345"})),
]
VECTORS = EXAMPLES + [(f"{v} {section}", v, data, frame) for section, data, frame in BOTH for v in ("1.1", "1.2")]
IDS = [vector[0] for vector in VECTORS]


def read(data, version="1.2"):
    """The frames of a stream and what was wrong with it; of both, at once and byte by byte, which are the same."""
    told = []
    for pieces in ([data], [bytes((byte,)) for byte in data]):
        decoder, seen, wrong = Decoder(CLIENT | SERVER), [], None
        decoder.version = version
        try:
            for piece in pieces:
                seen.extend(decoder.feed(piece))
        except ProtocolError as error:
            wrong = str(error)
        told.append((seen, wrong))
    assert told[0] == told[1]
    return told[0]


@pytest.mark.parametrize(("section", "version", "data", "frame"), VECTORS, ids=IDS)
def test_an_example_of_the_standard_is_read(section, version, data, frame):
    """Alone, and between heart-beats; with its last byte, and never before."""
    assert read(data, version) == ([frame], None)
    assert read(data[:-1], version) == ([], None)
    assert read(b"\n\n" + data + b"\n" + data + b"\n", version) == ([frame, frame], None)


@pytest.mark.parametrize(
    ("section", "version", "data", "frame"),
    [
        vector
        for vector in VECTORS
        if vector[3].command in SERVER and b": " not in vector[2] and b"World" not in vector[2]
    ],
    ids=lambda part: part if isinstance(part, str) and " " in part else "",
)
def test_an_example_that_a_server_sends_is_written(section, version, data, frame):
    """To the byte; but those of 1.0 that are padded, and the one whose header is repeated."""
    assert encode(frame.command, list(frame.headers.items()), frame.body, version) == data


@pytest.mark.parametrize(
    ("section", "data"),
    [
        ("1.0 CONNECT", b"CONNECT\nlogin: <username>\npasscode:<passcode>\n          \n\0"),
        ("1.1 and 1.2 DISCONNECT", b"DISCONNECT\nreceipt:77\n\0"),
        ("1.1 and 1.2 DISCONNECT, answer", b"RECEIPT\nreceipt-id:77\n\0"),
    ],
)
def test_the_examples_that_break_the_grammar_are_refused(section, data):
    """frame = command EOL *( header EOL ) EOL *OCTET NULL: the empty line is required. With it they are read."""
    frames, wrong = read(data)
    assert frames == []
    assert wrong in (
        "the header line '          ' is not NAME:VALUE",
        "a NUL before the empty line that ends the head",
    )

    (frame,), wrong = read(data.replace(b"          \n", b"").replace(b"\0", b"\n\0"))
    assert (frame.command, wrong) == (data.split(b"\n")[0].decode(), None)


RULES = [
    # section, bytes, then what each version makes of it: headers and body, or what is wrong
    (
        "1.2 Value Encoding: CONNECT has no escapes",
        b"CONNECT\nhost:[::1]\npasscode:a\\b\n\n\0",
        dict.fromkeys(VERSIONS, ({"host": "[::1]", "passcode": "a\\b"}, b"")),
    ),
    (
        "1.2 STOMP Frames: EOL after a header",
        b"SEND\na:b\r\n\nx\0",
        {"1.2": ({"a": "b"}, b"x"), "1.1": ({"a": "b\r"}, b"x"), "1.0": ({"a": "b\r"}, b"x")},
    ),
    (
        "1.2 STOMP Frames: EOL",
        b"SEND\r\na:b\r\n\r\nx\0",
        {
            "1.2": ({"a": "b"}, b"x"),
            "1.1": "unknown command 'SEND\\r'",
            "1.0": "unknown command 'SEND\\r'",
        },
    ),
    (
        "1.2 Value Encoding: \\r",
        b"SEND\na:\\r\n\nx\0",
        {"1.2": ({"a": "\r"}, b"x"), "1.1": "undefined escape '\\\\r'", "1.0": ({"a": "\\r"}, b"x")},
    ),
    (
        "1.1 Value Encoding",
        b"SEND\n\\c\\n\\\\:\\\\n\\c\n\nx\0",
        {"1.2": ({":\n\\": "\\n:"}, b"x"), "1.1": ({":\n\\": "\\n:"}, b"x"), "1.0": ({"\\c\\n\\\\": "\\\\n\\c"}, b"x")},
    ),
    (
        "1.1 Value Encoding: undefined escapes",
        b"SEND\na:\\t\n\nx\0",
        {"1.2": "undefined escape '\\\\t'", "1.1": "undefined escape '\\\\t'", "1.0": ({"a": "\\t"}, b"x")},
    ),
    (
        "1.2 Augmented BNF: header-value",
        b"SEND\na:b:c\n\nx\0",
        {
            "1.2": "the value of the header 'a' has a colon that is not escaped",
            "1.1": "the value of the header 'a' has a colon that is not escaped",
            "1.0": ({"a": "b:c"}, b"x"),
        },
    ),
    (
        "1.1 Value Encoding: trimming",
        b"SEND\na: b \n c :d\n\nx\0",
        {
            "1.2": ({"a": " b ", " c ": "d"}, b"x"),
            "1.1": ({"a": " b ", " c ": "d"}, b"x"),
            "1.0": ({"a": "b", " c ": "d"}, b"x"),
        },
    ),
    (
        "1.2 Body",
        b"SUBSCRIBE\ndestination:q\nid:0\n\nignored\0",
        {
            "1.2": "SUBSCRIBE with a body",
            "1.1": "SUBSCRIBE with a body",
            "1.0": ({"destination": "q", "id": "0"}, b"ignored"),  # 1.0 SUBSCRIBE: "The body is ignored."
        },
    ),
    *[
        (f"Header content-length: {name}", data, dict.fromkeys(VERSIONS, told))
        for name, data, told in [
            ("NUL in the body", b"SEND\ncontent-length:3\n\na\0b\0", ({"content-length": "3"}, b"a\0b")),
            ("too short", b"SEND\ncontent-length:1\n\nabc\0", "no NUL after a body of 1 bytes"),
            ("no number", b"SEND\ncontent-length:1x\n\nabc\0", "content-length '1x' is not a number of bytes"),
            ("the first counts", b"SEND\ncontent-length:1\ncontent-length:9\n\na\0", ({"content-length": "1"}, b"a")),
        ]
    ],
    *[
        (f"Augmented BNF: {name}", data, dict.fromkeys(VERSIONS, told))
        for name, data, told in [
            ("command", b"Send\n\n\0", "unknown command 'Send'"),
            ("header", b"SEND\na\n\n\0", "the header line 'a' is not NAME:VALUE"),
            ("header-name", b"SEND\n:a\n\n\0", "the header line ':a' is not NAME:VALUE"),
            ("UTF-8", b"SEND\na:\xc3\n\n\0", "the head is not UTF-8"),
            ("an empty value", b"SEND\na:\n\nx\0", ({"a": ""}, b"x")),
        ]
    ],
    (
        "1.2 Body: of ACK",
        b"ACK\ncontent-length:2\n\nxy\0",
        {
            "1.2": "ACK with a body",
            "1.1": "ACK with a body",
            "1.0": ({"content-length": "2"}, b"xy"),
        },
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("section", "data", "told"), RULES, ids=[rule[0] for rule in RULES])
def test_a_rule_that_an_example_does_not_show(section, data, told, version):
    """The same bytes under each version."""
    frames, wrong = read(data, version)

    assert ((frames[0].headers, frames[0].body) if frames else wrong) == told[version]


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
