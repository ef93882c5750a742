"""What the HTTP port tells of queues: bytes in, bytes out, and once over a socket."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import time
from urllib.parse import quote

import pytest
from proton import Message

from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.depth import DepthConnection

from .queue_rig import START, Rig, identified


def ask(rig, target):
    """The status, and what the JSON says."""
    asked = DepthConnection(rig.broker)
    asked.receive(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode("latin-1"))
    answer = asked.answer()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    return int(head.split()[1]), json.loads(body)


def test_a_queue_tells_what_has_happened_to_its_messages():
    """Every counter moves by its own event, and by no other."""
    rig = Rig("q:max_deliveries=2,max_length=8", "DLQ:durable=false")
    for n in range(7):
        rig.send(bytes([n]) * 10, ttl=1000 if n == 6 else 0)
    rig.send(identified("a"))
    rig.send(identified("a"))
    rig.send(b"too many")
    rig.disk()
    link, _ = rig.link(credit=5)
    rig.settle(link, 1)
    rig.settle(link, 2)
    rig.settle(link, 3, SettlementEvent.REJECTED)
    rig.settle(link, 4, SettlementEvent.FAILED)
    rig.disk()
    other, _ = rig.link(credit=1)
    rig.settle(other, 1, SettlementEvent.FAILED)
    rig.now += 2
    rig.broker.dispatch()
    rig.disk()

    assert ask(rig, "/queues/q") == (
        200,
        {
            "depth": 3,
            "unacknowledged": 1,
            "durable": True,
            "consumers": 2,
            "enqueued": 8,
            "acknowledged": 2,
            "dead_lettered": 2,
            "discarded": 0,
            "expired": 1,
            "refused": 1,
            "duplicates": 1,
            "next_number": 9,
            "bytes": 20 + len(identified("a")),
        },
    )
    letters = ask(rig, "/queues/DLQ")[1]
    assert (letters["durable"], letters["enqueued"], letters["depth"], letters["bytes"]) == (False, 2, 2, 20)


def test_messages_are_shown_and_not_taken():
    """Their place, what a consumer would be told, and a checksum of their bytes."""
    rig = Rig()
    rig.send(b"first", ttl=5000)
    rig.send(b"second", durable=False)
    rig.disk()
    link, _ = rig.link(credit=1)
    rig.settle(link, 1, SettlementEvent.FAILED)
    rig.disk()
    rig.link(credit=1)
    status, shown = ask(rig, "/queues/q/messages")

    assert (status, shown["depth"]) == (200, 2)
    assert shown["messages"] == [
        {
            "id": 1,
            "number": 1,
            "durable": True,
            "delivery_count": 1,
            "redelivered": True,
            "expires_ms": int(START * 1000) + 5000,
            "bytes": 5,
            "sha256": hashlib.sha256(b"first").hexdigest(),
            "acquired": True,
        },
        {
            "id": 2,
            "number": 2,
            "durable": False,
            "delivery_count": 0,
            "redelivered": False,
            "expires_ms": 0,
            "bytes": 6,
            "sha256": hashlib.sha256(b"second").hexdigest(),
            "acquired": False,
        },
    ]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", range(1, 1001)),
        ("?limit=3", range(1, 4)),
        ("?limit=3&offset=1199", range(1200, 1201)),
        ("?offset=1190", range(1191, 1201)),
        ("?limit=100000", range(1, 1001)),
        ("?limit=0", range(0)),
        ("?offset=5000", range(0)),
    ],
)
def test_an_answer_is_bounded(query, numbers):
    """A thousand at most, from wherever it is asked."""
    rig = Rig("q:durable=false")
    for _ in range(1200):
        rig.send()
    _, shown = ask(rig, f"/queues/q/messages{query}")

    assert [message["number"] for message in shown["messages"]] == list(numbers)


def test_large_messages_end_an_answer_early():
    """While no other connection is served, at most one message more than 8 MiB is hashed."""
    rig = Rig("q:durable=false")
    for _ in range(6):
        rig.send(bytes(5 * 1024 * 1024))

    assert len(ask(rig, "/queues/q/messages")[1]["messages"]) == 2
    assert len(ask(rig, "/queues/q/messages?offset=4")[1]["messages"]) == 2


@pytest.mark.parametrize("query", ["?limit=x", "?limit=-1", "?limit=", "?color=red", "?limit=%D9%A3", "?limit=1&x=1"])
def test_a_wrong_question_is_400(query):
    """And says what can be asked."""
    status, shown = ask(Rig(), f"/queues/q/messages{query}")

    assert (status, "limit and offset" in shown["error"]) == (400, True)
    assert ask(Rig(), f"/queues{query}")[0] == 400


NAMES = ["a/b", "a/messages", "ä ö/✓", "50%", "a?b=c", "messages", "a%2Fb", "x#y", "..", "a+b"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_asked_for(name):
    """Percent-encoded whole: slashes, blanks, other scripts, and what looks like an escape."""
    rig = Rig(*NAMES)
    rig.send(b"1", queue=name)
    rig.disk()
    path = f"/queues/{quote(name, safe='')}"

    assert [ask(rig, f"/queues/{quote(each, safe='')}")[1]["depth"] for each in NAMES] == [
        int(each == name) for each in NAMES
    ]
    assert ask(rig, f"{path}/messages")[1]["messages"][0]["bytes"] == 1


def test_a_name_with_plain_slashes_is_found():
    """As clients write it that do not escape; the longest name goes first."""
    rig = Rig("a/b", "a/messages", "a")
    rig.send(b"1", queue="a/messages")
    rig.disk()

    assert ask(rig, "/queues/a/b")[1]["depth"] == 0
    assert ask(rig, "/queues/a/messages")[1]["enqueued"] == 1
    assert ask(rig, "/queues/a/messages/messages")[1]["messages"][0]["bytes"] == 1


@pytest.mark.parametrize("path", ["/queues/none", "/queues/none/messages", "/queues/%ff", "/other", "/queues/q/", "//"])
def test_what_is_not_there_is_404(path):
    """Names that are not declared, and bytes that are no name; a request declares nothing."""
    rig = Rig()

    assert ask(rig, path) == (404, {"error": "no such queue"})
    assert list(rig.broker.names()) == ["q"]


def test_the_whole_broker():
    """Sums, and what only those around it know."""
    rig = Rig("q", "r")
    rig.broker.surroundings = lambda: {"connections": 7}
    for queue in "qqr":
        rig.send(queue=queue)
    rig.disk()
    rig.link(credit=1)

    assert ask(rig, "/") == (200, {"queues": 2, "depth": 3, "unacknowledged": 1, "consumers": 1, "connections": 7})
    assert ask(rig, "/queues?limit=1&offset=1") == (200, {"queues": ["r"]})


def test_over_a_socket(start, peer):
    """One connection asks for all of it, of a broker that runs; its limits come from the command line."""
    broker = start("--queue=a/b:max_length=2,durable=false", "--set=duplicate_ids=5")
    client = peer(broker)
    client.publish(2, "a/b")
    connection = http.client.HTTPConnection(broker.http, timeout=20)
    answers = []
    for path in ("/", "/queues", "/queues/a%2Fb", "/queues/a%2Fb/messages?limit=1"):
        connection.request("GET", path)
        answers.append(json.load(connection.getresponse()))
    connection.close()

    assert answers[0]["depth"] == 2
    assert (answers[0]["connections"], answers[0]["journal_segments"]) == (1, 1)
    assert answers[1] == {"queues": ["q", "a/b"]}
    assert (answers[2]["depth"], answers[2]["durable"]) == (2, False)
    assert [message["number"] for message in answers[3]["messages"]] == [1]


REQUEST = b"GET /queues/q/messages HTTP/1.1\r\n\r\n"


def test_pipelined_requests_leave_others_their_turn(start, peer):
    """Three thousand requests of 4 MiB to hash: another connection is answered in between, and not after all of them."""
    broker = start("--set=persistence=false")
    client = peer(broker)
    link = client.sender("q")
    sent = [link.send(Message(body=bytes(1024 * 1024))) for _ in range(4)]
    client.wait(lambda: all(each.settled for each in sent))
    host, port = broker.http.split(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=20) as greedy:
        greedy.sendall(REQUEST * 3000)
        assert greedy.recv(1)
        depth = broker.depth()
        taken = time.monotonic() - began
        rest = sum(len(greedy.recv(1 << 20)) for _ in range(3))

    assert depth == 4
    assert rest > 0
    assert taken < 5


def test_a_flood_of_http_connections_leaves_the_broker(start, peer):
    """Connections beyond the limit are dropped, a new one is served when one has left, and the broker still stores."""
    broker = start("--set=max_http_connections=3")
    host, port = broker.http.split(":")
    held = [socket.create_connection((host, int(port)), timeout=20) for _ in range(3)]
    for line in held:
        line.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert line.recv(1)
    beyond = [socket.create_connection((host, int(port)), timeout=20) for _ in range(200)]
    assert {_said(line) for line in beyond} == {b""}
    peer(broker).publish(1, "q")
    for line in (*held, *beyond):
        line.close()
    deadline = time.monotonic() + 20
    depth = None
    while depth is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # until the broker has seen that they are gone
            depth = broker.depth()

    assert depth == 1


def test_a_request_without_end_is_dropped(start):
    """Its head has a limit."""
    host, port = start().http.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(b"GET /" + b"x" * 20_000)
        assert _said(line) == b""


def _said(line):
    try:
        return line.recv(1)
    except ConnectionResetError:
        return b""
