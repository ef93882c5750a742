"""Peers that do what they must not: a black box on real sockets. The others notice nothing, and nothing is lost."""

from __future__ import annotations

import contextlib
import random
import socket
import struct

import pytest
from blackbox import amqp, stomp
from blackbox.load import body
from blackbox.server import PATIENCE, Server
from proton import Message
from proton.utils import BlockingConnection
from starts import starts_process

BOTH = pytest.mark.parametrize("protocol", ["amqp", "stomp"])
KEPT = 50
WAVES = [80] * 125
"""Connections that are open together: as many as a listening socket keeps waiting, or the kernel lets them try later."""
WAITING, MORE = 2_000, b"." * 8_000
"""Messages for a client that does not read, and what makes them more than any buffer between holds."""
GROWTH = 64 << 20
"""Bytes of resident memory that no peer of these may cost for long."""

AMQP_HEADER, SASL_HEADER = b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0"
GARBAGE = random.Random(1).randbytes(100_000)
PREFIX = {"amqp": AMQP_HEADER, "stomp": CONNECT}

BAD = {
    "the other protocol": {"amqp": CONNECT, "stomp": SASL_HEADER + b"\0\0\0\x08\2\1\0\0"},
    "HTTP": dict.fromkeys(PREFIX, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "garbage": dict.fromkeys(PREFIX, GARBAGE),
    "garbage after a good beginning": {name: prefix + GARBAGE for name, prefix in PREFIX.items()},
    "an oversize frame": {
        "amqp": AMQP_HEADER + struct.pack(">IBBH", 0xFFFF_FFF0, 2, 0, 0),
        "stomp": CONNECT + b"SEND\ndestination:q\ncontent-length:99999999999\n\n",
    },
    "a size below its own header": {"amqp": AMQP_HEADER + struct.pack(">IBBH", 1, 2, 0, 0)},
    "a header without an end": {"stomp": CONNECT + b"SEND\ndestination:" + b"x" * 200_000},
    "an unknown command": {"stomp": CONNECT + b"BUY\nmilk:2\n\n\0"},
    "silence": dict.fromkeys(PREFIX, b""),
}
CASES = [(name, protocol) for name, by_protocol in BAD.items() for protocol in by_protocol]


@pytest.fixture(scope="module")
@starts_process
def server(tmp_path_factory):
    """One for all: what a peer does must not reach the next test either."""
    with Server(tmp_path_factory.mktemp("bad") / "data") as started:
        line = stomp.Line(started.port("stomp"))
        line.say(*(stomp.send(f"kept-{number}", receipt=str(number)) for number in range(KEPT)))
        assert [line.hear().headers["receipt-id"] for _ in range(KEPT)] == [str(number) for number in range(KEPT)]
        line.close()
        yield started


def assert_well(server):
    """It serves both protocols, and has all that it had."""
    connection = BlockingConnection(server.url, allowed_mechs="ANONYMOUS", timeout=PATIENCE)
    connection.create_sender("other").send(Message(body=body("fresh"), durable=True), timeout=PATIENCE)
    connection.close()
    line = stomp.Line(server.port("stomp"))
    line.say(stomp.frame("SUBSCRIBE", id="1", destination="other", ack="auto", receipt="r"))
    heard = {line.hear().command, line.hear().command}
    line.close()

    assert server.process.poll() is None
    assert heard == {"RECEIPT", "MESSAGE"}
    assert amqp.census(server) == [f"kept-{number}" for number in range(KEPT)]
    assert server.depth() == KEPT


def read_all(end):
    """What the peer says until it closes; reading goes on while the broker lingers."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while data := end.recv(1 << 16):
            said += data
    return said


@pytest.mark.parametrize(("what", "protocol"), CASES)
def test_bytes_that_are_no_frames(server, what, protocol):
    """Answered in the words of the protocol where there are some, and closed; `silence` closes by itself."""
    bad = BAD[what][protocol]
    before = server.rss()
    with socket.create_connection(("127.0.0.1", server.port(protocol)), timeout=PATIENCE) as end:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            end.sendall(bad)
            if what == "silence":
                end.shutdown(socket.SHUT_WR)
        said = read_all(end)
    if what in ("an unknown command", "a header without an end"):
        assert b"ERROR\n" in said
    if protocol == "amqp" and bad:
        assert said.startswith(b"AMQP")

    assert_well(server)
    assert server.rss() - before < GROWTH


@BOTH
def test_ten_thousand_connections_opened_and_dropped(server, protocol):
    """Each dropped in the middle of its first words."""
    port, resident = server.port(protocol), []
    for wave in WAVES:
        with contextlib.ExitStack() as stack:
            for _ in range(wave):
                end = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
                end.sendall(PREFIX[protocol][:-1])
        server.get("/queues")  # a turn of its loop, in which it sees them go
        resident.append(server.rss())
    assert_well(server)

    assert max(resident[1:]) - resident[0] < GROWTH


def publish(server, names, queue):
    """Confirmed, by STOMP."""
    line = stomp.Line(server.port("stomp"))
    line.say(*(stomp.send(name, queue, more=MORE, receipt=name) for name in names))
    assert [line.hear().headers["receipt-id"] for _ in names] == names
    line.close()


@BOTH
def test_a_client_that_stops_reading(server, protocol):
    """With 16 MB waiting for it: others are served, and what it did not acknowledge is theirs."""
    names = [f"{protocol}-{number}" for number in range(WAITING)]
    slow = f"slow-{protocol}"
    publish(server, names, slow)
    before = server.rss()
    if protocol == "stomp":
        peer = stomp.Line(server.port("stomp"))
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.say(stomp.frame("SUBSCRIBE", id="1", destination=slow, ack="client-individual"))
        assert peer.hear().command == "MESSAGE"
    else:
        peer = BlockingConnection(server.url, allowed_mechs="ANONYMOUS", timeout=PATIENCE)
        peer.create_receiver(slow, credit=100_000).receive(timeout=PATIENCE)  # from here on it looks at no socket
    assert_well(server)
    assert server.rss() - before < GROWTH
    peer.close()
    assert sorted(amqp.census(server, slow)) == sorted(names)
