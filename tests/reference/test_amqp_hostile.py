"""Peers that break the protocol or use it up: an error for them, nothing lost for the others, memory bounded."""

from __future__ import annotations

import itertools
import random
import socket

import pytest
from proton import Message
from starts import starts_process

from tests.reference.amqp_raw import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    FLOW,
    HEADER,
    MESSAGE,
    NULL,
    OPEN,
    TRANSFER,
    TRUE,
    Raw,
    attaching,
    beginning,
    described,
    flow,
    frame,
    opening,
    text,
    transfer,
    uint,
)
from tests.reference.conftest import Running

FRAMING = b"amqp:connection:framing-error"
LIMIT = b"amqp:resource-limit-exceeded"
_QUEUES = itertools.count()


def until_served(running):
    """Until the broker has room for one more connection: one too many is told so, or dropped."""
    while not (frames := Raw(running, opening() + frame(CLOSE)).rest()) or LIMIT in frames[-1][1]:
        pass
    assert frames[-1][0] == CLOSE


@pytest.fixture(scope="module")
@starts_process
def survivor(tmp_path_factory):
    """One broker that has all of them as peers, one after the other, and in the end stops as it should."""
    with Running(tmp_path_factory.mktemp("survivor") / "data") as broker:
        yield broker
        assert broker.stop() == 0
        assert broker.errors.read_text() == ""


@pytest.fixture
def lives(survivor, peer):
    """A broker with a client that has stored a message before, and gets it, and stores another, afterwards."""
    client = peer(survivor, f"q-{next(_QUEUES)}")
    client.publish(1)
    yield survivor
    assert survivor.process.poll() is None
    client.publish(1, first=2)
    inbox = client.receive(2)
    assert inbox.bodies == [1, 2]
    client.accept(delivery for _, delivery in inbox.got)
    client.close()


@pytest.mark.parametrize(
    "foreign", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"AMQP\x00\x00\x09\x01", b"\x00" * 4096]
)
def test_another_protocol_is_answered_with_our_header(lives, foreign):
    """And closed (section 2.2)."""
    raw = Raw(lives, foreign)

    assert raw.rest() == []
    assert raw.header == HEADER or raw.buffer == HEADER


@pytest.mark.parametrize(
    "broken",
    [
        b"\x7f\xff\xff\xff\x02\x00\x00\x00",
        b"\x00\x00\x00\x04\x02\x00\x00\x00",
        b"\x00\x00\x00\x0c\x01\x00\x00\x00abcd",
        b"\x00\x00\x00\x0c\xff\x00\x00\x00abcd",
    ],
)
def test_a_frame_that_cannot_be_is_a_framing_error(lives, broken):
    """Longer than max-frame-size, shorter than its header, an offset before or behind it."""
    raw = Raw(lives, opening() + broken)

    assert FRAMING in raw.farewell()


@pytest.mark.parametrize(
    "broken",
    [
        frame(0x99),
        frame(OPEN, text("x"), type=7),
        b"\x00\x00\x00\x0c\x02\x00\x00\x00abcd",
        frame(TRANSFER, uint(0), uint(0), text("t", 0xA0), payload=MESSAGE),
        beginning() + transfer(5, 0, MESSAGE),
        beginning(channel=300),
        beginning() + attaching("a", 1 << 31),
        beginning() + attaching("a", 0) + attaching("a", 1),
        beginning() + flow(9, 1),
        beginning() + frame(DETACH, uint(3), TRUE),
    ],
    ids="performative type payload session handle channel-max handle-max name flow detach".split(),
)
def test_what_breaks_the_protocol_closes_the_connection(lives, broken):
    """With an error, by the broker."""
    raw = Raw(lives, opening() + broken)
    frames = raw.rest()

    assert frames[-1][0] == CLOSE
    assert b"amqp:" in frames[-1][1]


def test_a_name_that_is_no_utf8_is_refused(lives):
    """The link, not the connection."""
    raw = Raw(lives, opening() + beginning() + attaching("a", 0, b"\xff\xfe"))

    assert b"amqp:decode-error" in raw.until(DETACH)
    raw.close()


def test_values_nested_deep_do_no_harm(lives):
    """Descriptors, lists and maps, tens of thousands deep, wherever a value of the peer is read."""
    deep = [
        b"\x00" * 20_000 + b"\x40" * 20_001,
        b"".join(b"\xd0" + (9 * n + 5).to_bytes(4, "big") + b"\x00\x00\x00\x01" for n in range(9999, -1, -1)) + b"\x40",
    ]
    for value in deep:
        state = b"\x00\x53\x34\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + value
        raw = Raw(lives, opening() + beginning() + attaching("a", 0) + attaching("c", 1, target=described(0x30, NULL)))
        raw.until(FLOW)
        raw.until(FLOW)
        raw.say(frame(TRANSFER, uint(0), uint(0), text("t", 0xA0), uint(0), NULL, NULL, NULL, state, payload=MESSAGE))
        raw.say(transfer(1, 1, b"\x00\x53\x77" + value))
        raw.say(frame(CLOSE))
        raw.rest()
        raw.close()


def test_transfers_without_credit_end_the_link(lives):
    """1,000 are given, and not one more before the broker has said so."""
    raw = Raw(lives, opening() + beginning() + attaching("a", 0, "flood"))
    raw.until(FLOW)
    raw.say(b"".join(transfer(0, n, MESSAGE, settled=True) for n in range(3000)))

    assert b"amqp:link:transfer-limit-exceeded" in raw.until(DETACH)
    raw.close()


def test_a_message_without_an_end_is_bounded(start, peer):
    """Its parts are not kept beyond the limit, nor what still comes for its link; the connection lives on."""
    broker = start("--set=max_message_bytes=2000000")
    raw = Raw(broker, opening() + beginning() + attaching("a", 0))
    raw.until(FLOW)
    before = broker.rss()
    part = b"\x00\x53\x77\xb0\x7f\xff\xff\xff" + b"x" * 200_000
    for _ in range(250):
        raw.say(transfer(0, 0, part, more=True))
    assert b"amqp:link:message-size-exceeded" in raw.until(DETACH)
    for n in range(1, 250):
        raw.say(transfer(0, n, part))
    raw.say(attaching("b", 1))
    raw.until(ATTACH)

    assert broker.rss() - before < 20_000_000
    raw.close()


def test_parts_on_many_links_are_bounded(start):
    """Each is smaller than the limit, together they are not: amqp:resource-limit-exceeded."""
    broker = start("--set=max_message_bytes=1000000")
    raw = Raw(broker, opening() + beginning() + b"".join(attaching(f"l{n}", n) for n in range(30)))
    before = broker.rss()
    for n in range(30):
        raw.say(b"".join(transfer(n, n, b"x" * 225_000, more=True) for _ in range(4)))

    assert LIMIT in raw.until(DETACH)
    assert broker.rss() - before < 20_000_000
    raw.close()


def test_parts_on_many_connections_are_bounded(start):
    """Each connection stays below its own limit; all of them together do not."""
    broker = start("--set=max_unfinished_bytes=1000000")
    raws = [Raw(broker, opening() + beginning() + attaching(f"c{n}", 0)) for n in range(3)]
    parts = b"".join(transfer(0, 0, b"x" * 100_000, more=True) for _ in range(4))
    for raw in raws[:2]:
        raw.until(FLOW)
        raw.say(parts + attaching("another", 1))
        raw.until(FLOW)
    raws[2].until(FLOW)
    raws[2].say(parts)

    assert LIMIT in raws[2].until(DETACH)
    for raw in raws:
        raw.close()


def test_a_client_that_stops_reading(start, peer):
    """Credit for a million, 100 MB stored, a peer that reads nothing: memory stays, others are served, and it goes on."""
    broker = start()
    client = peer(broker)
    link = client.sender()
    sent = []
    for _ in range(1000):
        sent.append(link.send(Message(body=b"x" * 100_000)))
        if len(sent) % 100 == 0:
            client.wait(lambda: all(d.settled for d in sent))
    before = broker.rss()
    raw = Raw(broker, opening() + beginning() + attaching("r", 0, receives=True) + flow(0, 1_000_000), SO_RCVBUF=65536)
    client.publish(10, "other")
    assert client.receive(10, "other").bodies == list(range(1, 11))

    assert broker.get("/queues/q")["unacknowledged"] < 100
    assert broker.rss() - before < 30_000_000
    for _ in range(1000):
        raw.until(TRANSFER)
    raw.close()


def test_a_client_that_reads_no_answers(start, peer):
    """It sends and never reads: it is not read either, beyond a bound; what was taken is stored."""
    broker = start()
    before = broker.rss()
    raw = Raw(broker, opening() + beginning() + attaching("a", 0, "one-way"), SO_RCVBUF=4096)
    raw.until(FLOW)
    raw.socket.settimeout(1)
    unknown = b"".join(transfer(0, n, b"\x00\x53\x70\x45\x00\x53\x77\x40") for n in range(900))
    raw.say(unknown)
    blocked = False
    detach = b"".join(attaching(f"x{n}", 1, b"\xff" * 200) + frame(DETACH, uint(1), TRUE) for n in range(2000))
    for _ in range(40):
        try:
            raw.socket.sendall(detach)
        except TimeoutError:
            blocked = True
            break
        except OSError:
            break
    client = peer(broker)
    client.publish(1)

    assert blocked
    assert broker.rss() - before < 60_000_000
    raw.close()


def test_connections_opened_and_dropped(lives):
    """Some say nothing, some half a header, some all but an end; nothing of ten thousand is left."""
    openings = [b"", b"AMQ", HEADER, opening(), opening() + beginning() + attaching("a", 0)]
    before = lives.rss()
    for turn in range(10_000):
        Raw(lives, openings[turn % len(openings)]).close()
        if turn % 2000 == 1999:
            until_served(lives)

    # What one engine takes is 50 KB: were they kept, it would be ten times as much.
    assert lives.rss() - before < 40_000_000


def test_connections_that_are_held_open(start, peer):
    """More than the limit at once: the first are served, the rest are refused, and there is room when they go."""
    broker = start("--set=max_connections=50")
    raws = [Raw(broker, opening()) for _ in range(60)]
    refused = [LIMIT in raw.farewell() for raw in raws[50:]]
    assert refused == [True] * 10
    for raw in raws:
        raw.close()
    until_served(broker)
    peer(broker).publish(1)


def test_a_storm_of_links(start, peer):
    """Attached and never detached: refused beyond the limit, and closed in the end; attached and detached: no leak."""
    broker = start("--set=max_links=100")
    raw = Raw(broker, opening() + beginning() + b"".join(attaching(f"l{n}", n) for n in range(250)))
    frames = raw.rest()
    assert frames[-1][0] == CLOSE and LIMIT in frames[-1][1]
    assert sum(code == DETACH for code, _ in frames) >= 100
    client = peer(broker)
    client.publish(1)
    sizes = []
    raw = Raw(broker, opening() + beginning())
    for turn in range(5):
        for n in range(1000):
            raw.say(attaching(f"l{turn}-{n}", n % 7, receives=n % 2 == 0) + frame(DETACH, uint(n % 7), TRUE))
            raw.until(DETACH)
        sizes.append(broker.rss())

    assert sizes[-1] - sizes[1] < 2_000_000, sizes
    raw.close()


def test_sessions_beyond_the_limit(lives):
    """channel-max is told, and held to."""
    raw = Raw(lives, opening() + b"".join(beginning(channel=n) for n in range(256)))
    for _ in range(256):
        raw.until(BEGIN)
    raw.say(beginning(channel=256))

    assert FRAMING in raw.farewell()


def test_silence_is_not_for_ever(start):
    """With an idle time-out the silent are closed with an error, and those that send empty frames are not."""
    broker = start("--set=idle_timeout_ms=300")
    silent, lively = Raw(broker, opening()), Raw(broker, opening())
    silent.socket.settimeout(0.1)
    frames = []
    while not frames:
        lively.say(b"\x00\x00\x00\x08\x02\x00\x00\x00")
        try:
            frames = silent.rest()
        except TimeoutError:
            continue
    assert frames[-1][0] == CLOSE and LIMIT in frames[-1][1]
    lively.say(frame(CLOSE))
    assert b"\x00\x53\x1d" not in lively.farewell()


def conversation():
    """What an ordinary client would say, in frames."""
    source = described(0x28, text("q"), NULL, NULL, NULL, NULL, NULL, text("move", 0xA3))
    return [
        opening(),
        beginning(),
        attaching("s", 0),
        attaching("r", 1, receives=True, source=source),
        attaching("c", 2, target=described(0x30, NULL)),
        flow(1, 100),
        transfer(0, 0, MESSAGE),
        transfer(0, 1, MESSAGE[:8], more=True),
        transfer(0, 1, MESSAGE[8:]),
        transfer(2, 2, b"\x00\x53\x77" + described(0x31, NULL)),
        frame(DISPOSITION, TRUE, uint(0), uint(3), TRUE, described(0x24)),
        frame(
            DISPOSITION,
            TRUE,
            uint(0),
            uint(3),
            NULL,
            described(0x34, text(bytes(7) + b"\x01", 0xA0), described(0x27, TRUE)),
        ),
        frame(DETACH, uint(1), TRUE),
        attaching("r", 1, receives=True),
        frame(DETACH, uint(0), NULL),
        frame(0x17),
        frame(CLOSE),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_conversations(lives, seed):
    """Bytes changed, cut out, doubled, frames in another order: the broker closes, or waits, and lives."""
    chance = random.Random(seed)
    for _ in range(60):
        frames = conversation()
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(frames))
            match chance.randrange(5):
                case 0:
                    data = bytearray(frames[at])
                    for _ in range(chance.randrange(1, 5)):
                        data[chance.randrange(len(data))] = chance.randrange(256)
                    frames[at] = bytes(data)
                case 1:
                    cut = chance.randrange(len(frames[at]))
                    frames[at] = frames[at][:cut] + frames[at][cut + chance.randrange(1, 9) :]
                case 2:
                    frames.insert(at, frames[chance.randrange(len(frames))])
                case 3:
                    other = chance.randrange(len(frames))
                    frames[at], frames[other] = frames[other], frames[at]
                case 4:
                    del frames[at]
        raw = Raw(lives)
        raw.say(b"".join(frames))
        raw.socket.shutdown(socket.SHUT_WR)
        raw.rest()
        raw.close()
        assert lives.process.poll() is None, frames


@pytest.mark.parametrize("first", [frame(0x99), beginning(channel=999), frame(TRANSFER, uint(0)), b"\x00\x00\x00\x04"])
def test_what_comes_in_place_of_an_open(lives, first):
    """Open and close, with an error, by the broker."""
    raw = Raw(lives, HEADER + first)
    frames = raw.rest()

    assert [code for code, _ in frames] == [OPEN, CLOSE]
    assert b"amqp:" in frames[-1][1]
