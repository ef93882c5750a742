"""STOMP over real sockets: restarts, both protocols on one queue, slow peers, and how a connection ends."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from conformance.reference.peers import MAX_UNFINISHED, MAX_UNSENT
from conformance.reference.stomp.frames import SERVER, Decoder, encode

PATIENCE = 20
BUFFERED = "--set=journal_buffer_ms=60000"


QUICK = "connection.CONNECT_S = 0.5"
"""Of a broker as any, but for the time that a peer has for its CONNECT."""


class Peer:
    """A raw socket and a strict decoder; everything waits for its event."""

    def __init__(self, running, **headers):
        host, port = running.stomp.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE)
        self.decoder = Decoder(SERVER)
        self.frames = []
        self.say("CONNECT", **{"accept-version": "1.2", "host": "h", **headers})
        (connected,) = self.hear(1)
        assert connected.command == "CONNECTED"

    def say(self, command, body=b"", **headers):
        """One frame."""
        self.socket.sendall(encode(command, headers.items(), body))

    def hear(self, count):
        """The next so many frames."""
        while len(self.frames) < count:
            data = self.socket.recv(65536)
            assert data, f"closed after {self.frames}"
            self.frames += self.decoder.feed(data)
        taken, self.frames = self.frames[:count], self.frames[count:]
        return taken

    def rest(self):
        """All frames until the broker closes."""
        while data := self.socket.recv(65536):
            self.frames += self.decoder.feed(data)
        return self.frames

    def publish(self, count, first=1, **headers):
        """Messages whose bodies are numbers, pipelined, all answered."""
        for n in range(first, first + count):
            self.say("SEND", b"%d" % n, destination="q", receipt=str(n), **headers)
        assert [f.headers["receipt-id"] for f in self.hear(count)] == [str(n) for n in range(first, first + count)]

    def subscribe(self, count, ack="client-individual"):
        """So many messages of the queue."""
        self.say("SUBSCRIBE", id="0", destination="q", ack=ack)
        return self.hear(count)

    def ack(self, frame):
        """An ACK that is answered."""
        self.say("ACK", id=frame.headers["ack"], receipt="a")
        while self.hear(1)[0].headers.get("receipt-id") != "a":
            pass


@pytest.fixture
def connect():
    """Connects clients; each socket ends with the test."""
    peers = []

    def one(running, **headers):
        peers.append(Peer(running, **headers))
        return peers[-1]

    yield one
    for peer in peers:
        peer.socket.close()


def depth(running):
    """What the HTTP port says of the queue's depth."""
    told = running.get("/queues/q")
    return {name: told[name] for name in ("depth", "unacknowledged")}


def memory(running):
    """Bytes of the broker's memory that are in use."""
    pages = Path(f"/proc/{running.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def dial(running):
    """A socket on which nothing was said."""
    host, port = running.stomp.split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def everything(raw):
    """All bytes until the broker closes."""
    data = b""
    while piece := raw.recv(65536):
        data += piece
    return data


def bodies(frames):
    return [int(f.body) for f in frames]


def test_what_was_answered_survives_a_kill(start, connect):
    """Persistent sends, a cumulative ACK, the count of a NACK, a commit: all of it is there, in order. Nothing else is."""
    broker = start()
    peer = connect(broker)
    peer.publish(20, persistent="true")
    peer.publish(5, first=21)
    peer.publish(20, first=26, persistent="true")
    for name, numbers in (("a", (46, 47, 48)), ("b", (49, 50))):
        peer.say("BEGIN", transaction=name)
        for n in numbers:
            peer.say("SEND", b"%d" % n, destination="q", persistent="true", transaction=name)
    peer.say("COMMIT", transaction="a", receipt="c")
    assert peer.hear(1)[0].headers == {"receipt-id": "c"}
    messages = peer.subscribe(48, "client")
    peer.ack(messages[6])
    peer.say("NACK", id=messages[7].headers["ack"], receipt="n")
    assert {f.command for f in peer.hear(2)} == {"MESSAGE", "RECEIPT"}
    assert depth(broker) == {"depth": 41, "unacknowledged": 41}
    broker.kill()
    again = start()
    seen = connect(again).subscribe(36)

    assert depth(again)["depth"] == 36
    assert bodies(seen) == [*range(8, 21), *range(26, 49)]
    assert [(f.headers["redelivered"], f.headers["delivery-count"]) for f in seen] == [
        ("true", "1"),
        *[("true", "0")] * 35,
    ]


@pytest.mark.parametrize("setting", ["sync_non_transactional=false", "persistence=false"])
def test_a_weakened_send_is_confirmed_and_lost(start, connect, setting):
    """Controls: all are answered, none survives the kill."""
    broker = start(f"--set={setting}", BUFFERED)
    connect(broker).publish(50, persistent="true")
    assert depth(broker)["depth"] == 50
    broker.kill()

    assert depth(start())["depth"] == 0


def test_both_protocols_share_a_queue(start, connect):
    """Each reads what the other sent, with durability, properties and body."""
    broker = start()
    peer = connect(broker)
    amqp = BlockingConnection(f"amqp://{broker.amqp}", allowed_mechs="ANONYMOUS", timeout=PATIENCE)
    amqp.create_sender("q").send(Message(id="m", body="text", durable=True, properties={"n": 1}))
    (message,) = peer.subscribe(1)
    assert message.body == b"text"
    assert {k: message.headers[k] for k in ("n", "amqp-message-id", "persistent")} == {
        "n": "1",
        "amqp-message-id": "m",
        "persistent": "true",
    }
    peer.ack(message)
    peer.say("UNSUBSCRIBE", id="0")
    peer.say("SEND", b"body", destination="/queue/q", **{"persistent": "true", "content-type": "text/plain", "a": "b"})
    seen = amqp.create_receiver("q").receive(timeout=PATIENCE)

    assert (seen.body, seen.durable, seen.content_type, seen.properties) == (b"body", True, "text/plain", {"a": "b"})
    amqp.close()


def test_the_error_reaches_a_peer_that_is_still_sending(start, connect):
    """Unread bytes of the client do not take it back."""
    peer = connect(start())
    peer.say("SEND", b"x", destination="q", receipt="1", transaction="none")
    for _ in range(50):
        peer.say("SEND", b"x" * 1000, destination="q")
    (error,) = peer.rest()

    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "1")


def test_disconnect_closes_the_connection(start, connect):
    """After its RECEIPT; what was held goes to others, marked and counted, as after a close without DISCONNECT."""
    broker = start()
    peer = connect(broker)
    peer.publish(2)
    peer.subscribe(2)
    peer.say("DISCONNECT", receipt="bye")
    assert [(f.command, f.headers) for f in peer.rest()] == [("RECEIPT", {"receipt-id": "bye"})]

    for times in ("1", "2"):
        other = connect(broker)
        seen = other.subscribe(2)
        assert [(f.headers["redelivered"], f.headers["delivery-count"]) for f in seen] == [("true", times)] * 2
        other.socket.close()


def test_a_clean_stop_says_so_and_keeps_all(start, connect):
    """SIGTERM: ERROR, and what was held is counted in the journal."""
    broker = start()
    peer = connect(broker)
    peer.publish(2, persistent="true")
    peer.subscribe(2)
    assert broker.stop() == 0
    assert [f.headers["message"] for f in peer.rest()] == ["the broker is being stopped"]

    assert [f.headers["delivery-count"] for f in connect(start()).subscribe(2)] == ["1", "1"]


def test_heart_beats_come_and_their_lack_ends_the_connection(start, connect):
    """The broker beats; a peer that promised to and does not is told so."""
    peer = connect(start(), **{"heart-beat": "100,100"})
    assert peer.socket.recv(10) == b"\n"

    assert [f.headers["message"] for f in peer.rest()] == ["no heart-beat was received in time"]


def test_an_auto_consumer_that_does_not_read_is_not_drowned(start, connect):
    """The queue keeps what the socket does not take; afterwards all of it comes, in order."""
    broker = start()
    count, size = 400, 100_000
    publisher = connect(broker)
    for n in range(count):
        publisher.say("SEND", b"%06d" % n + b"x" * size, destination="q")
    publisher.say("SEND", b"%06d" % count, destination="q", receipt="last")
    publisher.hear(1)
    slow = connect(broker)
    slow.say("SUBSCRIBE", id="0", destination="q")
    slow.socket.recv(1, socket.MSG_PEEK)
    for _ in range(300):  # turns of the broker, in which it could send more
        publisher.say("SEND", destination="other", receipt="turn")
        publisher.hear(1)
    # What left the queue is in the two sockets' buffers and in this much of the broker's memory.
    sent = count + 1 - depth(broker)["depth"]
    assert sent * size < 16 * 1024 * 1024 + MAX_UNSENT

    assert [int(f.body[:6]) for f in slow.hear(count + 1)] == list(range(count + 1))


def test_a_publisher_that_outruns_the_disk_is_answered_all_the_same(start, connect):
    """It is held back by its socket, and every receipt comes."""
    broker = start()
    peer = connect(broker)
    peer.publish(5 * MAX_UNFINISHED, persistent="true")

    assert depth(broker)["depth"] == 5 * MAX_UNFINISHED


def test_a_publisher_that_never_reads_its_answers_is_not_read_either(start, connect):
    """Receipts would else fill the broker's memory; these are as long as a header may be."""
    peer = connect(start())
    peer.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        for _ in range(2000):
            peer.say("SEND", destination="q", receipt="r" * 50_000)


def test_a_peer_that_never_connects_gets_an_error_and_is_closed(start, connect):
    """Silent, with endless heart-beats, or with a CONNECT that comes byte by byte; one that is connected stays."""
    broker = start(before=QUICK)
    stays = connect(broker)
    said = {dial(broker): piece for piece in (b"", b"\n" * 1000, b"x")}
    told = dict.fromkeys(said, b"")
    for raw, piece in said.items():
        raw.settimeout(0.01)
        raw.sendall(b"CONNECT\nhost:" if piece == b"x" else b"")
    while not all(told.values()):
        for raw in [raw for raw in said if not told[raw]]:
            raw.sendall(said[raw])
            with contextlib.suppress(TimeoutError):
                told[raw] = raw.recv(65536)
    stays.publish(1)

    assert all(b"message:no CONNECT came within 0.5 seconds\n" in data for data in told.values())
    for raw in said:
        raw.close()


def test_megabytes_of_heart_beats_are_not_kept(start, connect):
    """They are no CONNECT, and no reason to keep others waiting."""
    broker = start()
    stays = connect(broker)
    stays.publish(1)
    before = memory(broker)
    with dial(broker) as raw:
        for _ in range(30):
            raw.sendall(b"\n" * 1_000_000)
        stays.publish(1)
        assert memory(broker) - before < 8_000_000


def test_a_body_that_comes_slowly_takes_what_has_come_and_no_more(start, connect):
    """99 MB are announced, and one comes; when the peer goes, that goes too. More than the limit is refused at once."""
    broker = start()
    stays, slow, greedy = connect(broker), connect(broker), connect(broker)
    stays.publish(1)
    before = memory(broker)
    slow.socket.sendall(b"SEND\ndestination:q\ncontent-length:99000000\n\n" + b"x" * 1_000_000)
    greedy.socket.sendall(b"SEND\ndestination:q\nreceipt:r\ncontent-length:199000000\n\n" + b"x" * 100_000)
    (error,) = greedy.rest()
    assert (error.headers["message"], error.headers["receipt-id"]) == ("a body of more than 104857600 bytes", "r")
    stays.publish(5)
    assert memory(broker) - before < 10_000_000
    slow.socket.close()
    stays.publish(1)

    assert depth(broker)["depth"] == 7


def test_ten_thousand_connections_leave_nothing_behind(start, connect):
    """Dropped before CONNECT, in it, after it, and with a message in hand: it is there for the next, and memory is flat."""
    broker = start()
    stays = connect(broker)
    stays.publish(1)
    hello = encode("CONNECT", [("accept-version", "1.2"), ("host", "h")])
    subscribe = encode("SUBSCRIBE", [("id", "0"), ("destination", "q"), ("ack", "client")])
    manners = [b"", hello[:20], hello, hello + subscribe]

    def storm(count):
        for number in range(count):
            with dial(broker) as raw:
                raw.sendall(manners[number % 4])
        stays.publish(1)

    storm(4000)
    before = memory(broker)
    storm(6000)

    assert memory(broker) - before < 8_000_000
    assert [int(f.body) for f in connect(broker).subscribe(3)] == [1, 1, 1]


def test_connections_beyond_the_limit_are_refused(start, connect):
    """With ERROR; those before it are served, and one that ends makes room."""
    broker = start("--set=max_connections=2")
    first, second = connect(broker), connect(broker)
    with dial(broker) as raw:
        told = everything(raw)
    assert told.startswith(b"ERROR\nmessage:the broker has 2 connections")
    first.publish(1)
    second.say("DISCONNECT", receipt="r")
    assert [f.command for f in second.rest()] == ["RECEIPT"]
    second.socket.close()
    first.publish(1)

    connect(broker).publish(1)
