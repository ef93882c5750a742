"""The codec and the connection under arbitrary bytes in arbitrary pieces. A failure prints its seed and its bytes.

Two oracles: the same bytes one at a time, which are read line by line and never by the short way; and the decoder of
the suite's own client, which shares nothing with this one.
"""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.protocols.stomp.sessions import raw_session
from conformance.reference.stomp import frames as stomp_frames
from conformance.reference.stomp.frames import CLIENT, SERVER, VERSIONS, Decoder, ProtocolError, StompFrame, encode

from .stomp_rig import Client, Rig

BOUNDED = settings(max_examples=200, deadline=None, print_blob=True)
EVERY = CLIENT | SERVER
BODIES = ("SEND", "MESSAGE", "ERROR")
MAX = 64
"""Bytes of a body here, so that the limit is met."""


def read(pieces, version):
    """The frames, then what was wrong and its receipt; no exception but `ProtocolError`."""
    decoder, seen = Decoder(EVERY, MAX), []
    decoder.version = version
    try:
        for piece in pieces:
            seen.extend(decoder.feed(piece))
    except ProtocolError as error:
        return seen, (str(error), error.receipt, error.condition)
    return seen, None


def cut(data, places):
    """The bytes in pieces."""
    places = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def one_by_one(data):
    return [data[at : at + 1] for at in range(len(data))]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
NAMES = TEXT.filter(bool).filter(lambda name: name != "content-length")


@st.composite
def frames(draw):
    """Any frame that a version has bytes for, with a measured body or one that ends at its NUL."""
    command = draw(st.sampled_from(sorted(EVERY - {"CONNECT", "CONNECTED"})))
    headers = draw(st.dictionaries(NAMES, TEXT, max_size=4))
    body = draw(st.binary(max_size=MAX)) if command in BODIES else b""
    if draw(st.booleans()) or b"\0" in body:
        headers["content-length"] = str(len(body))
    return StompFrame(command, headers, body)


PLACES = st.lists(st.integers(0, 10_000), max_size=8)


@BOUNDED
@given(st.lists(frames(), max_size=5), st.sampled_from(["1.2", "1.1"]), st.sampled_from([b"", b"\n", b"\n\n"]), PLACES)
def test_what_is_written_is_read_however_it_is_cut(sent, version, between, places):
    """The same frames from every cut, and for 1.2 from the client's decoder too."""
    stream = between.join(encode(f.command, list(f.headers.items()), f.body, version) for f in sent)

    assert read(cut(stream, places), version) == (sent, None)
    assert read(one_by_one(stream), version) == (sent, None)
    if version == "1.2":
        assert [StompFrame(f.command, f.headers, f.body) for f in raw_session.RawFrameDecoder().feed(stream)] == sent


@BOUNDED
@given(
    st.lists(
        st.builds(
            StompFrame,
            st.sampled_from(BODIES),
            st.dictionaries(
                st.text(st.characters(codec="ascii", exclude_characters="\0\n:"), min_size=1, max_size=8).filter(
                    lambda name: name != "content-length"
                ),
                st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), max_size=8),
                max_size=4,
            ),
            st.binary(max_size=MAX).filter(lambda body: b"\0" not in body),
        ),
        max_size=4,
    ),
    PLACES,
)
def test_1_0_is_read_however_it_is_cut(sent, places):
    """But for the spaces around a value, which it does not keep."""
    stream = b"\n".join(encode(f.command, list(f.headers.items()), f.body, "1.0") for f in sent)
    trimmed = [f._replace(headers={name: value.strip(" ") for name, value in f.headers.items()}) for f in sent]

    assert read(cut(stream, places), "1.0") == (trimmed, None)


_WORDS = (
    *(b"SEND", b"ACK", b"CONNECT", b"MESSAGE", b"\n", b"\n\n", b"\r\n", b"\r", b"\0", b":", b"\\", b"\\c", b"\\t"),
    *(b"content-length:", b"receipt:7", b"3", b"65", b"64", b"x" * 70, b" ", b"\xc3\xa9", b"\xff", b"a:b\n", b"a\0b"),
)
PIECES = st.lists(st.sampled_from(_WORDS) | st.binary(max_size=5), max_size=25).map(b"".join)


@st.composite
def mutated(draw):
    """Valid frames with some bytes changed, lost or doubled."""
    version = draw(st.sampled_from(VERSIONS))
    stream = bytearray(b"".join(encode(f.command, list(f.headers.items()), f.body, version) for f in draw(PAIRS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, 10_000)) % (len(stream) + 1)
        stream[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2) | st.sampled_from([b"\n", b"\0", b":"]))
    return bytes(stream)


PAIRS = st.lists(frames(), min_size=1, max_size=2)


@BOUNDED
@given(PIECES | mutated(), st.sampled_from(VERSIONS), PLACES)
def test_any_bytes_give_the_same_however_they_are_cut(data, version, places):
    """The same frames, the same fault with the same words, receipt and condition; never another exception."""
    told = read(one_by_one(data), version)

    assert read([data], version) == told
    assert read(cut(data, places), version) == told


@BOUNDED
@given(st.lists(PIECES, max_size=4), st.integers(0, 3), st.sampled_from(VERSIONS), PLACES)
def test_any_bytes_are_answered_the_same_however_they_are_cut(parts, valid, version, places):
    """By the whole connection: its answers, what it stores, and whether it ends."""
    send = encode("SEND", [("destination", "q"), ("receipt", "r")], b"x", version)
    data = send * valid + b"".join(parts)
    told = []
    for pieces in ([data], cut(data, places), one_by_one(data)):
        rig = Rig()
        client = rig.client(version)
        for piece in pieces:
            client.connection.receive(piece)
        heard = client.heard()
        told.append((heard, client.connection.closed, rig.depth()))
        assert [f.command for f in heard].count("ERROR") == client.connection.closed or b"DISCONNECT" in data

    assert told[0] == told[1] == told[2]
    assert told[0][2] >= valid


@BOUNDED
@given(st.binary(max_size=200) | PIECES, PLACES)
def test_any_bytes_before_connect_are_no_more_than_an_error(data, places):
    """Nothing is stored, and no other connection gets a frame."""
    rig = Rig()
    client = Client(rig)
    for piece in cut(data, places):
        client.connection.receive(piece)

    assert {f.command for f in client.heard()} <= {"ERROR", "CONNECTED"}
    assert list(rig.broker.names()) in ([], ["q"])


LONG = b"a:" + b"x" * 60_000 + b"\n"


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"SEND\n" + LONG * 4 + b"\n\0", None),
        (b"SEND\n" + LONG * 5 + b"\n\0", "the head is longer than 262144 bytes"),
        (b"SEND\n" + LONG * 4 + b"a:" + b"x" * 23_000 + b"\0", "the head is longer than 262144 bytes"),
        (b"SEND\na:" + b"x" * (stomp_frames.MAX_LINE - 2) + b"\n\n\0", None),
        (b"SEND\na:" + b"x" * (stomp_frames.MAX_LINE - 1) + b"\n", "a line of the head is longer than 65536 bytes"),
        (b"SEND\na:" + b"x" * 70_000 + b"\0\n", "a line of the head is longer than 65536 bytes"),
        (b"SEND\na:x\0" + b"x" * 70_000, "a NUL before the empty line that ends the head"),
    ],
    ids=range(7),
)
def test_a_head_is_limited_wherever_it_is_cut(data, wrong):
    """A line, and all lines together; of two faults the first byte that is wrong counts."""
    for size in (len(data), 65_536, 4096, 1000):
        frames, told = read([data[at : at + size] for at in range(0, len(data), size)], "1.2")
        assert (len(frames), told and told[0]) == (wrong is None, wrong)


@pytest.mark.parametrize(
    ("start", "piece", "most"),
    [
        (b"SEND\na:", b"x" * 1000, stomp_frames.MAX_LINE),
        (b"SEND\n", b"a:" + b"x" * 998 + b"\n", stomp_frames.MAX_HEAD),
        (b"SEND\n", b"a:b\n" * 250, 4 * stomp_frames.MAX_HEADERS),
        (b"", b"\n" * 1000, 0),
        (b"SEND\n\n", b"x" * 1000, 1_000_000),
        (b"SEND\ncontent-length:1000000\n\n", b"x" * 1000, 1_000_000),
    ],
    ids=["a line", "a head", "headers", "heart-beats", "a body", "a measured body"],
)
def test_no_more_is_kept_than_the_limits_allow(start, piece, most):
    """Two million bytes of what never ends, in pieces: refused, or thrown away, before there is too much of it."""
    decoder = Decoder(max_body=1_000_000)
    tracemalloc.start()
    try:
        refused = False
        try:
            for part in [start, *[piece] * 2000]:
                assert list(decoder.feed(part)) == []
        except ProtocolError:
            refused = True
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert refused is (most > 0)
    # A growing buffer has an eighth to spare, and is there twice while it grows.
    assert peak < 2.5 * most + 40_000


def test_a_body_that_is_announced_takes_no_room_before_it_comes():
    """99 MB in the head are a number and not a buffer; and what has come is kept once."""
    decoder = Decoder()
    tracemalloc.start()
    try:
        assert list(decoder.feed(b"SEND\ncontent-length:99000000\n\n")) == []
        announced = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            assert list(decoder.feed(b"x" * 10_000)) == []
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert announced < 20_000
    assert 1_000_000 <= held < 1_300_000


def test_a_peer_that_is_silent_keeps_nothing_of_what_it_said():
    """Ten thousand idle connections would else keep the last chunk of each."""
    decoder = Decoder()
    frame = encode("SEND", [("destination", "q")], b"x" * 1000)
    tracemalloc.start()
    try:
        assert len(list(decoder.feed(frame * 250))) == 250
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert held < 50_000
