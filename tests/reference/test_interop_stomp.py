"""The two Python clients of STOMP against the bundled broker: stomp.py, and stompman, which is strict in other places."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest
import stomp
from blackbox.server import PATIENCE, QUEUE, Server
from starts import starts_process

ODD = "a:b\\c\nd"
"""Header values with all that STOMP 1.2 escapes but a carriage return, which stompman drops."""


@pytest.fixture
@starts_process
def server(tmp_path):
    with Server(tmp_path / "data") as started:
        yield started


class Heard(stomp.ConnectionListener):
    """What a stomp.py connection is told, in order of its arrival, by kind."""

    def __init__(self):
        self.messages, self.receipts, self.errors = queue.Queue(), queue.Queue(), queue.Queue()
        self.ended = threading.Event()

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame):
        self.errors.put((frame.headers, frame.body))

    def on_disconnected(self):
        self.ended.set()


CONNECTIONS = {"1.0": stomp.StompConnection10, "1.1": stomp.StompConnection11, "1.2": stomp.StompConnection12}


def connected(server, version="1.2"):
    """A connection of stomp.py, and what it hears."""
    # Without vhost it leaves out the header host in STOMP 1.1, which has to have it (STOMP 1.1, CONNECT).
    words = {} if version == "1.0" else {"vhost": "localhost"}
    connection, heard = CONNECTIONS[version]([("127.0.0.1", server.port("stomp"))], **words), Heard()
    connection.set_listener("heard", heard)
    connection.connect(wait=True)
    return connection, heard


@pytest.mark.parametrize("version", CONNECTIONS)
def test_stomp_py_sends_and_acknowledges(server, version):
    """Each version: confirmed sends, individual acknowledgements, and nothing is left."""
    connection, heard = connected(server, version)
    for number in range(5):
        connection.send(QUEUE, f"body {number}", headers={"persistent": "true", "receipt": f"s{number}", "n": number})
    receipts = [heard.receipts.get(timeout=PATIENCE) for _ in range(5)]
    ack = "client" if version == "1.0" else "client-individual"
    connection.subscribe(QUEUE, id="1", ack=ack)
    got = [heard.messages.get(timeout=PATIENCE) for _ in range(5)]
    for frame in got:
        words = {"1.0": (frame.headers["message-id"],), "1.1": (frame.headers["message-id"], "1")}
        connection.ack(*words.get(version, (frame.headers.get("ack"),)), receipt=f"a{frame.headers['n']}")
    acked = [heard.receipts.get(timeout=PATIENCE) for _ in range(5)]
    connection.disconnect()

    assert receipts == [f"s{number}" for number in range(5)]
    assert [(frame.headers["n"], frame.body) for frame in got] == [(str(n), f"body {n}") for n in range(5)]
    assert acked == [f"a{number}" for number in range(5)]
    assert heard.errors.empty()
    assert server.depth() == 0


def test_stomp_py_transactions(server):
    """An aborted one leaves nothing, a committed one everything; a NACK in between."""
    connection, heard = connected(server)
    for number, end in enumerate(("abort", "commit")):
        transaction = connection.begin()
        for part in range(3):
            connection.send(QUEUE, f"{number}-{part}", transaction=transaction, headers={"persistent": "true"})
        getattr(connection, end)(transaction, headers={"receipt": end})
        assert heard.receipts.get(timeout=PATIENCE) == end
    connection.subscribe(QUEUE, id="1", ack="client-individual")
    got = [heard.messages.get(timeout=PATIENCE) for _ in range(3)]
    transaction = connection.begin()
    for frame in got:
        connection.ack(frame.headers["ack"], transaction=transaction)
    connection.commit(transaction, headers={"receipt": "acknowledged"})
    assert heard.receipts.get(timeout=PATIENCE) == "acknowledged"
    connection.disconnect()

    assert [frame.body for frame in got] == ["1-0", "1-1", "1-2"]
    assert server.depth() == 0


def test_stomp_py_headers_survive(server):
    """What needs escapes comes back as it was sent; in names stomp.py escapes nothing."""
    connection, heard = connected(server)
    connection.send(QUEUE, "x", headers={"odd": ODD, "ä": "ö"})
    connection.subscribe(QUEUE, id="1", ack="auto")
    frame = heard.messages.get(timeout=PATIENCE)
    connection.disconnect()

    assert (frame.headers["odd"], frame.headers["ä"]) == (ODD, "ö")


def test_stomp_py_gets_the_error(server):
    """An ERROR with words in its message header; and the broker ends the connection (STOMP 1.2, ERROR)."""
    connection, heard = connected(server)
    connection.ack("nothing")
    headers, _ = heard.errors.get(timeout=PATIENCE)

    assert headers["message"]
    assert heard.ended.wait(PATIENCE)


def test_stompman(server):
    """Sends, a transaction, acknowledgement by itself, heart-beats on: all of it in its own words."""
    stompman = pytest.importorskip("stompman", reason="stompman is not installed (it is part of the extra dev)")

    async def play():
        got = asyncio.Queue()
        errors = []
        place = stompman.ConnectionParameters(
            host="127.0.0.1", port=server.port("stomp"), login="guest", passcode="guest"
        )
        async with stompman.Client(servers=[place], on_error_frame=errors.append) as client:
            await client.send(b"plain", QUEUE, headers={"persistent": "true", "odd": ODD})
            async with client.begin() as transaction:
                for part in range(3):
                    await transaction.send(f"together {part}".encode(), QUEUE, headers={"persistent": "true"})

            async def handle(frame):
                await got.put(frame)

            subscription = await client.subscribe(
                QUEUE, handle, on_suppressed_exception=lambda error, frame: errors.append(error)
            )
            frames = [await asyncio.wait_for(got.get(), PATIENCE) for _ in range(4)]
            await subscription.unsubscribe()
        return frames, errors

    frames, errors = asyncio.run(play())

    assert [frame.body for frame in frames] == [b"plain", b"together 0", b"together 1", b"together 2"]
    assert frames[0].headers["odd"] == ODD
    assert errors == []
    assert server.depth() == 0
