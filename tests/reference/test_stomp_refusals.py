"""What is refused over STOMP, and how: ERROR with the receipt-id of its frame, the limit by its name, and the end."""

from __future__ import annotations

import pytest

from conformance.reference.core.admission import LIMIT, NOT_FOUND, Refusal
from conformance.reference.liars import behaviour
from conformance.reference.stomp import connection as stomp
from conformance.reference.stomp.frames import encode

from .stomp_rig import Client, Rig, bodies, refusal


def error(client):
    """The ERROR that ended a connection: message, receipt-id, and the condition in the body."""
    frames = client.heard()
    assert [f.command for f in frames] == ["ERROR"]
    (told,) = frames
    assert client.connection.closed
    lines = told.body.decode().splitlines()
    assert lines[0] == told.headers["message"]
    condition = next((line for line in lines if line.startswith("condition: ")), None)
    return told.headers["message"], told.headers.get("receipt-id"), condition


def test_what_the_broker_refuses_is_an_error_about_its_frame(monkeypatch):
    """A send: the receipt of that frame, the reason, the condition, and nothing after it is read."""
    rig = Rig()
    client = rig.client()
    calls = []

    def publish(queue, parsed, done, transaction=None, *, refused, sender):
        calls.append(queue.name)
        refused(Refusal(LIMIT, "the queue q is full: max_length=5"))

    monkeypatch.setattr(rig.broker, "publish", publish)
    send = encode("SEND", [("destination", "q"), ("receipt", "7")], b"x")
    client.connection.receive(send + send)

    assert error(client) == ("the queue q is full: max_length=5", "7", f"condition: {LIMIT}")
    assert calls == ["q"]


def test_a_refusal_that_comes_late_ends_the_connection_too(monkeypatch):
    """The disk may find no room after the frame was read; what was answered before stays answered."""
    rig = Rig()
    client = rig.client()
    later = []
    honest = rig.broker.publish

    def publish(queue, parsed, done, transaction=None, *, refused, sender):
        if parsed.bare.endswith(b"big"):
            later.append(refused)
        else:
            honest(queue, parsed, done, transaction, refused=refused, sender=sender)

    monkeypatch.setattr(rig.broker, "publish", publish)
    for body in (b"one", b"big", b"two"):
        client.say("SEND", {"destination": "q", "persistent": "true", "receipt": body.decode()}, body)
    assert [f.headers["receipt-id"] for f in client.heard()] == ["one", "two"]
    later[0](Refusal(LIMIT, "the disk has no room for more messages"))

    assert error(client) == ("the disk has no room for more messages", "big", f"condition: {LIMIT}")
    assert rig.depth() == 2


def test_a_commit_that_is_refused_is_an_error_about_the_commit(monkeypatch):
    """And no RECEIPT of it: none of the transaction has an effect."""
    rig = Rig()
    client = rig.client()
    monkeypatch.setattr(rig.broker, "commit", lambda transaction, done, refused: refused(Refusal(LIMIT, "no room")))
    client.say("BEGIN", {"transaction": "t"})
    client.say("SEND", {"destination": "q", "transaction": "t"})
    client.say("COMMIT", {"transaction": "t", "receipt": "c"})

    assert error(client) == ("no room", "c", f"condition: {LIMIT}")
    assert rig.depth() == 0


@pytest.mark.parametrize("inside", [False, True])
def test_a_full_queue_refuses_over_stomp(inside):
    """The broker's own refusal reaches the peer, in a transaction too; nothing of what was confirmed is dropped."""
    rig = Rig(max_length=2)
    client = rig.client()
    client.publish(2)
    headers = {"destination": "q", "receipt": "r"}
    if inside:
        client.say("BEGIN", {"transaction": "t"})
        headers["transaction"] = "t"
    client.say("SEND", headers)
    message, receipt, condition = error(client)

    assert "max_length" in message
    assert (receipt, condition, rig.depth()) == ("r", f"condition: {LIMIT}", 2)


def test_the_disconnect_that_waits_gets_the_error_of_what_it_waits_for(monkeypatch):
    """Not its RECEIPT, which would say that all before it was done."""
    rig = Rig()
    client = rig.client()
    later = []
    monkeypatch.setattr(rig.broker, "publish", lambda *told, refused, **named: later.append(refused))
    client.say("SEND", {"destination": "q", "receipt": "s"})
    client.say("DISCONNECT", {"receipt": "d"})
    assert client.heard() == []
    later[0](Refusal(LIMIT, "no room"))

    assert error(client)[:2] == ("no room", "s")


def test_a_refusal_for_a_peer_that_is_gone_is_dropped(monkeypatch):
    """Its socket has closed meanwhile."""
    rig = Rig()
    client = rig.client()
    later = []
    monkeypatch.setattr(rig.broker, "publish", lambda *told, refused, **named: later.append(refused))
    client.say("SEND", {"destination": "q", "receipt": "s"})
    client.connection.lost()
    later[0](Refusal(LIMIT, "no room"))

    assert client.heard() == []


def test_a_body_beyond_the_limit_is_refused_when_it_is_announced():
    """Before any of it has come; a body of the limit itself passes the codec, and the broker judges the message."""
    rig = Rig(max_message_bytes=1000)
    client = rig.client()
    client.say("SEND", {"destination": "q", "receipt": "1"}, b"x" * 900)
    assert [f.command for f in client.heard()] == ["RECEIPT"]
    client.connection.receive(b"SEND\ndestination:q\nreceipt:2\ncontent-length:1001\n\n")

    assert error(client) == ("a body of more than 1000 bytes", "2", f"condition: {LIMIT}")

    other = rig.client()
    other.say("SEND", {"destination": "q", "receipt": "3"}, b"x" * 1000)  # with its sections it is larger
    message, receipt, condition = error(other)
    assert "1000" in message
    assert (receipt, condition, rig.depth()) == ("3", "condition: amqp:link:message-size-exceeded", 1)


def test_subscriptions_beyond_the_limit_are_refused():
    """Of one connection; one that ended makes room."""
    rig = Rig(max_links=2)
    client = rig.client()
    for key in ("1", "2"):
        assert client.asks("SUBSCRIBE", id=key, destination="q") is True
    assert client.asks("UNSUBSCRIBE", id="1") is True
    assert client.asks("SUBSCRIBE", id="3", destination="q") is True
    assert rig.client().asks("SUBSCRIBE", id="1", destination="q") is True
    client.say("SUBSCRIBE", {"id": "4", "destination": "q", "receipt": "r"})

    assert error(client) == ("a connection has at most 2 subscriptions (max_links)", "r", f"condition: {LIMIT}")


def test_transactions_beyond_the_limit_are_refused():
    """Of one connection; one that is over makes room, and those that were open are aborted."""
    rig = Rig(max_transactions=2)
    client = rig.client()
    for name in ("1", "2"):
        assert client.asks("BEGIN", transaction=name) is True
    assert client.asks("COMMIT", transaction="1") is True
    assert client.asks("BEGIN", transaction="3") is True
    client.say("SEND", {"destination": "q", "transaction": "3"})
    client.say("BEGIN", {"transaction": "4", "receipt": "r"})

    assert error(client) == (
        "a connection has at most 2 open transactions (max_transactions)",
        "r",
        f"condition: {LIMIT}",
    )
    assert rig.depth() == 0


@pytest.mark.parametrize(
    "destination", ["/topic/", "/temp-queue/t", "/exchange/e", "/", "/queue", "/queue/", "", "/dsub/x", "q" * 256]
)
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_a_destination_that_is_no_queue_is_refused(command, destination):
    """And no queue is made of it."""
    rig = Rig()
    client = rig.client()
    client.say(command, {"destination": destination, "id": "0", "receipt": "r"})

    assert error(client) == (
        f"the destination {destination[:40]!r} is not a queue's name of 1 to 255 bytes",
        "r",
        None,
    )
    assert list(rig.broker.names()) == []


@pytest.mark.parametrize(
    ("destination", "name"), [("a/b", "a/b"), ("/queue/a", "a"), ("/queue//a", "/a"), ("q:1", "q:1")]
)
def test_a_destination_that_is_a_queue_is_one(destination, name):
    """With its name, or with the word that says what it is."""
    rig = Rig()
    rig.client().asks("SEND", destination=destination)

    assert list(rig.broker.names()) == [name]


def test_a_queue_that_is_deleted_ends_its_subscribers():
    """STOMP has no other way to tell them; their other subscriptions give back."""
    rig = Rig()
    client = rig.client()
    client.publish(1, "other")
    client.subscribe(queue="gone", id="1")
    assert bodies(client.subscribe(queue="other", id="2")) == [1]
    rig.broker.delete(rig.broker.queue("gone"))

    assert error(client) == ("the queue 'gone' was deleted", None, None)
    assert bodies(rig.client().subscribe(queue="other")) == [1]


@pytest.mark.parametrize("chunk", [b"", b"\n", b"\r\n\n", b"CONN", b"CONNECT\nhost:"])
def test_a_connection_that_never_connects_is_closed(chunk):
    """Ten seconds from the first tick, and not from the last byte that it sends meanwhile."""
    client = Client(Rig())
    connection = client.connection
    assert connection.tick(100.0) == 100.0 + stomp.CONNECT_S
    for now in (101.0, 105.0, 109.9):
        connection.receive(chunk if now == 101.0 or chunk.isspace() else b"")
        assert (connection.tick(now), client.heard()) == (110.0, [])
    assert connection.tick(110.0) is None

    assert refusal(client) == ("no CONNECT came within 10 seconds", None)


def test_a_connection_that_connects_in_time_stays():
    """Without heart-beats it has all the time there is."""
    client = Client(Rig())
    client.connection.tick(100.0)
    client.say("CONNECT", {"accept-version": "1.2", "host": "h"})

    assert client.connection.tick(109.0) is None
    assert client.connection.tick(10_000.0) is None
    assert [f.command for f in client.heard()] == ["CONNECTED"]


@pytest.mark.parametrize(("version", "answered"), [("1.0", None), ("1.1", "100,100"), ("1.2", "100,100")])
def test_1_0_has_no_heart_beats(version, answered):
    """A client that offers them and then speaks 1.0 is not taken for dead."""
    client = Client(Rig())
    client.say("CONNECT", {"accept-version": version, "host": "h", "heart-beat": "100,100"})
    (connected,) = client.heard()
    assert connected.headers.get("heart-beat") == answered

    assert (client.connection.tick(10.0) is None) is (answered is None)


@pytest.mark.parametrize("expires", ["soon", "-1", "1.5", "", "1" * 16, "\u0661"])
def test_an_end_that_is_no_time_is_refused(expires):
    """Before anything is stored."""
    rig = Rig()
    client = rig.client()
    client.say("SEND", {"destination": "q", "expires": expires, "receipt": "r"})

    assert error(client)[:2] == (f"expires {expires!r} is not a whole number of milliseconds since 1970", "r")
    assert rig.depth() == 0


def test_queues_beyond_the_limit_are_refused():
    """A new name is; those that are there go on."""
    rig = Rig(max_queues=2)
    rig.client().publish(1, "a")
    rig.client().publish(1, "b")
    client = rig.client()
    client.say("SEND", {"destination": "c", "receipt": "r"}, b"x")

    assert error(client) == ("the broker has 2 queues (max_queues)", "r", f"condition: {LIMIT}")
    rig.client().publish(1, "a")
    assert (["a", "b"], 2) == (list(rig.broker.names()), rig.depth("a"))


@pytest.mark.parametrize(("lies", "made"), [(None, False), ("makes-any-queue", True)])
def test_no_queue_is_made(lies, made):
    """Those that are there go on; a liar makes any other too."""
    rig = Rig(behaviour(lies) if lies else None, creates_queues=False)
    rig.broker.queue("a")
    rig.client().publish(1, "a")
    client = rig.client()
    client.say("SEND", {"destination": "b", "receipt": "r"}, b"x")

    assert made == (rig.broker.known("b") is not None)
    if not made:
        missing = "there is no such queue, and none is made (creates_queues)"
        assert error(client) == (missing, "r", f"condition: {NOT_FOUND}")


def test_unfinished_bodies_are_bounded_in_all():
    """Each of them is small enough; together they are not. What has ended gives its room back."""
    rig = Rig(max_unfinished_bytes=1000)
    part = encode("SEND", [("destination", "q"), ("content-length", "900")], b"")[:-1] + b"x" * 400
    clients = [rig.client() for _ in range(3)]
    for client in clients:
        client.connection.receive(part)

    message = "too many bytes of messages have come in part (max_unfinished_bytes)"
    assert error(clients[2]) == (message, None, f"condition: {LIMIT}")
    assert rig.broker.unfinished == 800
    clients[0].connection.lost()
    clients[1].connection.receive(b"x" * 500 + b"\0")
    clients[1].heard()
    assert (rig.broker.unfinished, rig.depth()) == (0, 1)
