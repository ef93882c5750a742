"""Acknowledging over STOMP in every version and mode, in transactions and out of them, and the headers of MESSAGE."""

from __future__ import annotations

import pytest
from proton import Message

from conformance.reference.core.sections import encode, parse
from conformance.reference.stomp.message import store

from .stomp_rig import Rig, bodies, refusal

NOTHING = "nothing that is delivered and not acknowledged is called"
FAR = 4_000_000_000_000
"""Milliseconds since 1970: in the year 2096."""


def named(client, message):
    """The headers by which a version acknowledges a MESSAGE."""
    if client.version == "1.2":
        return {"id": message.headers["ack"]}
    return {"message-id": message.headers["message-id"], "subscription": message.headers["subscription"]}


MODES = [
    ("1.0", "client"),
    *[(version, mode) for version in ("1.1", "1.2") for mode in ("client", "client-individual")],
]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(("version", "mode"), MODES)
def test_an_ack_covers_what_its_mode_says(version, mode, inside):
    """Of its own subscription only, answered when stored; in a transaction at its commit. An abort brings all of it back to be acknowledged."""
    rig = Rig()
    client = rig.client(version)
    client.publish(4)
    client.publish(2, "other")
    messages = client.subscribe(mode)
    assert bodies(client.subscribe(mode, "other", id="1")) == [1, 2]
    left = {"client": 1, "client-individual": 3}[mode]
    name = named(client, messages[2])
    if inside:
        for ending, depth in (("ABORT", 4), ("COMMIT", left)):
            assert client.asks("BEGIN", transaction="t") is True
            assert client.asks("ACK", **name, transaction="t") is True
            assert rig.depth() == 4
            assert client.asks(ending, transaction="t") is True
            assert rig.depth() == depth
    else:
        client.say("ACK", {**name, "receipt": "r"})
        assert client.heard(stored=False) == []
        assert [f.headers for f in client.heard()] == [{"receipt-id": "r"}]
    assert (rig.depth(), rig.depth("other")) == (left, 2)
    client.connection.lost()

    again = rig.client().subscribe()
    assert bodies(again) == ([4] if mode == "client" else [1, 2, 4])
    assert {f.headers["delivery-count"] for f in again} == {"1"}


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(("version", "mode"), MODES[1:])
def test_a_nack_gives_back_what_its_mode_says(version, mode, inside):
    """Counted, marked, in order, with the same message-id; the rest is held."""
    rig = Rig()
    client = rig.client(version)
    client.publish(4)
    messages = client.subscribe(mode)
    headers = named(client, messages[2])
    if inside:
        assert client.asks("BEGIN", transaction="t") is True
        assert client.asks("NACK", **headers, transaction="t") is True
        client.say("COMMIT", {"transaction": "t", "receipt": "r"})
    else:
        client.say("NACK", {**headers, "receipt": "r"})
    frames = client.heard()
    again = [f for f in frames if f.command == "MESSAGE"]

    assert [f.headers for f in frames if f.command == "RECEIPT"] == [{"receipt-id": "r"}]
    assert bodies(again) == ([1, 2, 3] if mode == "client" else [3])
    assert [(f.headers["redelivered"], f.headers["delivery-count"]) for f in again] == [("true", "1")] * len(again)
    assert [f.headers["message-id"] for f in again] == [messages[n - 1].headers["message-id"] for n in bodies(again)]
    client.say("NACK", named(client, again[0]))
    assert client.heard()[0].headers["delivery-count"] == "2"
    assert rig.depth() == 4
    client.connection.lost()
    assert bodies(rig.client().subscribe()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("version", "end", "why"),
    [
        ("1.2", "ACK", f"{NOTHING} '1-1': it was acknowledged before"),
        ("1.2", "NACK", f"{NOTHING} '1-1': it was acknowledged before"),
        ("1.2", "UNSUBSCRIBE", f"{NOTHING} '1-1': its subscription has ended"),
        ("1.1", "ACK", f"{NOTHING} '1'"),
        ("1.1", "UNSUBSCRIBE", "there is no subscription '0', so nothing of it can be acknowledged"),
        ("1.0", "ACK", f"{NOTHING} '1'"),
        ("1.0", "UNSUBSCRIBE", f"{NOTHING} '1'"),
    ],
)
def test_a_second_ack_is_an_error_that_says_why(version, end, why):
    """After ACK, NACK and UNSUBSCRIBE: the connection ends, and what it was about stays as it was."""
    rig = Rig()
    client = rig.client(version)
    client.publish(1)
    (message,) = client.subscribe("client")
    name = named(client, message)
    client.say(end, {"id": "0"} if end == "UNSUBSCRIBE" else name)
    client.heard()
    client.say("ACK", {**name, "receipt": "r"})

    assert refusal(client) == (why, "r")
    assert rig.depth() == (0 if end == "ACK" else 1)


@pytest.mark.parametrize("name", ["2-1", "1-2", "1-0", "0-1", "1-1-1", "x", "", "1-", "\u0661-1", "9" * 30 + "-1"])
def test_a_name_that_was_never_given_is_an_error_that_guesses_nothing(name):
    """It is repeated, and no more."""
    rig = Rig()
    client = rig.client()
    client.publish(1)
    client.subscribe()
    client.say("ACK", {"id": name})

    assert refusal(client)[0] == f"{NOTHING} {name[:40]!r}"


@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
def test_two_connections_may_use_one_name_for_their_transactions(version):
    """STOMP 1.2, BEGIN: different within the same connection, and so the same in two."""
    rig = Rig()
    one, two = rig.client(version), rig.client(version)
    for client in (one, two):
        assert client.asks("BEGIN", transaction="t") is True
        assert client.asks("SEND", destination="q", transaction="t") is True
    assert one.asks("ABORT", transaction="t") is True
    assert rig.depth() == 0
    assert two.asks("COMMIT", transaction="t") is True
    assert rig.depth() == 1
    one.say("COMMIT", {"transaction": "t"})

    assert refusal(one)[0] == "no transaction 't' is open"


@pytest.mark.parametrize("end", ["disconnect", "lost", "error"])
@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
def test_the_end_of_a_connection_aborts_what_is_open(version, end):
    """STOMP 1.2, BEGIN: implicitly aborted. What was acknowledged in it is delivered again."""
    rig = Rig()
    client = rig.client(version)
    client.publish(2)
    messages = client.subscribe("client")
    client.say("BEGIN", {"transaction": "t"})
    client.say("SEND", {"destination": "new", "transaction": "t"})
    client.say("ACK", {**named(client, messages[1]), "transaction": "t"})
    client.heard()
    if end == "disconnect":
        assert client.asks("DISCONNECT") is True
    elif end == "lost":
        client.connection.lost()
    else:
        client.say("COMMIT", {"transaction": "another"})
        assert refusal(client) == ("no transaction 'another' is open", None)
    rig.disk()

    assert client.connection.closed or end == "lost"
    assert (rig.depth("new"), bodies(rig.client().subscribe())) == (0, [1, 2])


@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
def test_every_frame_but_connect_is_answered_when_it_asks(version):
    """Header receipt: CONNECT may not ask, and is answered by CONNECTED alone."""
    rig = Rig()
    client = rig.client(version, receipt="none")
    client.publish(2)
    messages = client.subscribe("client", prefetch_count="2")
    asked = [
        ("SEND", {"destination": "other"}),
        ("BEGIN", {"transaction": "t"}),
        ("SEND", {"destination": "other", "transaction": "t"}),
        ("ACK", {**named(client, messages[0]), "transaction": "t"}),
        ("COMMIT", {"transaction": "t"}),
        ("BEGIN", {"transaction": "t"}),
        ("ABORT", {"transaction": "t"}),
        ("SUBSCRIBE", {"id": "9", "destination": "third"}),
        ("UNSUBSCRIBE", {"id": "9"}),
        ("ACK" if version == "1.0" else "NACK", named(client, messages[1])),
        ("UNSUBSCRIBE", {"id": "0"}),
        ("DISCONNECT", {}),
    ]
    for number, (command, headers) in enumerate(asked):
        client.say(command, {**headers, "receipt": f"r:{number}"})
        told = [f.headers["receipt-id"] for f in client.heard() if f.command == "RECEIPT"]
        assert told == [f"r:{number}"], command


@pytest.mark.parametrize("persistent", [False, True])
def test_the_end_of_a_message_is_stored_and_shown(persistent):
    """`expires` on SEND is the broker's time to live and an AMQP peer's absolute-expiry-time; MESSAGE has it again."""
    headers = {
        "destination": "q",
        "expires": str(FAR),
        "priority": "7",
        **({"persistent": "true"} if persistent else {}),
    }
    parsed = store(headers, b"x")
    assert (parsed.expires_ms, parsed.durable) == (FAR, persistent)
    seen = Message()
    seen.decode(encode(parsed.durable, parsed.rest, True, 0, parsed.bare))
    assert (seen.expiry_time * 1000, seen.priority, seen.properties) == (FAR, 7, None)

    rig = Rig()
    client = rig.client()
    client.say("SEND", headers, b"1")
    (message,) = client.subscribe()
    assert {name: message.headers[name] for name in ("expires", "priority")} == {"expires": str(FAR), "priority": "7"}


def test_a_message_without_an_end_shows_none():
    """Nor one whose end is 0, which says that there is none; nor a priority that the sender did not give."""
    rig = Rig()
    client = rig.client()
    client.publish(1)
    client.publish(1, expires="0")

    assert [f.headers.keys() & {"expires", "priority"} for f in client.subscribe()] == [set(), set()]


def test_a_message_whose_end_has_come_is_not_delivered():
    """The time of the SEND's header is the broker's to keep."""
    rig = Rig()
    client = rig.client()
    client.publish(1, expires="1")
    client.say("SEND", {"destination": "q"}, b"2")

    assert bodies(client.subscribe()) == [2]


@pytest.mark.parametrize("priority", ["", "10", "-1", "high", "04"])
def test_a_priority_that_is_none_is_a_header_as_any(priority):
    """User defined headers MUST be passed through (STOMP 1.2, SEND)."""
    rig = Rig()
    client = rig.client()
    client.publish(1, priority=priority)

    assert client.subscribe()[0].headers["priority"] == priority


def test_what_an_amqp_peer_says_of_priority_and_time_is_shown():
    """From the header section of its message; a ttl is an end from the arrival on."""
    rig = Rig()
    queue = rig.broker.queue("q")
    sent = parse(bytes(Message(body=b"1", ttl=1_000_000, priority=9, properties={"priority": "mine"}).encode()))
    rig.broker.publish(queue, sent, lambda: None)
    (message,) = rig.client().subscribe()

    assert message.headers["priority"] == "9"
    assert int(message.headers["expires"]) > 1_000_000


def test_the_id_for_duplicates_passes_as_a_property():
    """As Artemis has it; both copies that differ in it come."""
    rig = Rig()
    client = rig.client()
    client.publish(1, _AMQ_DUPL_ID="a")
    client.publish(1, _AMQ_DUPL_ID="b")
    client.publish(1, _AMQ_DUPL_ID="a")

    assert [f.headers["_AMQ_DUPL_ID"] for f in client.subscribe()] == ["a", "b"]
    stored = store({"destination": "q", "_AMQ_DUPL_ID": "a"}, b"")
    seen = Message()
    seen.decode(encode(False, stored.rest, True, 0, stored.bare))
    assert seen.properties == {"_AMQ_DUPL_ID": "a"}


def test_the_headers_of_the_broker_come_first():
    """So that a property of the same name never counts: of repeated headers the first does."""
    rig = Rig()
    sent = parse(bytes(Message(body=b"1", properties={"x": "y"}, priority=3).encode()))
    rig.broker.publish(rig.broker.queue("q"), sent, lambda: None)
    client = rig.client()
    client.say("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "client"})
    rig.broker.dispatch()

    assert client.connection.output() == (
        b"MESSAGE\ndestination:/queue/q\nsubscription:s\nmessage-id:1\nack:1-1\nredelivered:false\n"
        b"delivery-count:0\ncontent-length:1\npriority:3\nx:y\n\n1\0"
    )
