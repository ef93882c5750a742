"""The STOMP connection without a socket: bytes in, bytes out, and a disk that is asked when the test says so."""

from __future__ import annotations

import pytest

from conformance.reference import peers
from conformance.reference.core import selector
from conformance.reference.core.queues import Subscription
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.liars import behaviour
from conformance.reference.stomp import connection as stomp
from conformance.reference.stomp.session import CLIENT_ID, NAMED

from .stomp_rig import Client, Rig, bodies, refusal


@pytest.fixture
def rig():
    """An honest broker."""
    return Rig()


@pytest.mark.parametrize(
    ("headers", "wrong"),
    [
        ({"accept-version": "1.2"}, "CONNECT without the header host"),
        (
            {"accept-version": "1.2", "host": "h", "heart-beat": "1"},
            "heart-beat '1' is not two numbers of milliseconds",
        ),
        (
            {"accept-version": "1.2", "host": "h", "heart-beat": "1,-1"},
            "heart-beat '1,-1' is not two numbers of milliseconds",
        ),
    ],
)
def test_a_connect_that_lacks_something_is_refused(rig, headers, wrong):
    """And nothing after it is read."""
    client = Client(rig)
    client.say("CONNECT", headers)
    client.say("SEND", {"destination": "q"})

    assert refusal(client) == (wrong, None)
    assert rig.broker.known("q") is None


def test_nothing_comes_before_connect_and_no_second_one(rig):
    """STOMP 1.2, Connecting."""
    early = Client(rig)
    early.say("SEND", {"destination": "q", "receipt": "7"})
    twice = rig.client()
    twice.say("STOMP", {"accept-version": "1.2", "host": "h"})

    assert refusal(early) == ("SEND before CONNECT, which comes first", "7")
    assert refusal(twice) == ("connected already", None)


@pytest.mark.parametrize(
    ("command", "headers", "wrong"),
    [
        ("SEND", {}, "SEND without the header destination"),
        ("SEND", {"destination": ""}, "the destination '' is not a queue's name of 1 to 255 bytes"),
        ("SEND", {"destination": "/topic/"}, "the destination '/topic/' is not a queue's name of 1 to 255 bytes"),
        ("SEND", {"destination": "/topic/t"}, "the topic t has no subscription that would keep the message"),
        (
            "SUBSCRIBE",
            {"destination": "/topic/t", "id": "1"},
            f"a topic has only durable subscriptions: they need CONNECT with {CLIENT_ID} and SUBSCRIBE with {NAMED}",
        ),
        (
            "SEND",
            {"destination": "\u00e9" * 128},
            f"the destination {40 * chr(233)!r} is not a queue's name of 1 to 255 bytes",
        ),
        ("SEND", {"destination": "q", "transaction": "t"}, "no transaction 't' is open"),
        ("SUBSCRIBE", {"id": "1"}, "SUBSCRIBE without the header destination"),
        ("SUBSCRIBE", {"destination": "q"}, "SUBSCRIBE without the header id"),
        ("SUBSCRIBE", {"destination": "q", "id": "0"}, "the subscription '0' exists already"),
        (
            "SUBSCRIBE",
            {"destination": "q", "id": "1", "ack": "none"},
            "the ack mode 'none' does not exist in STOMP 1.2",
        ),
        (
            "SUBSCRIBE",
            {"destination": "q", "id": "1", "selector": "a="},
            f"the selector 'a=': {selector.KNOWN}",
        ),
        *[
            (
                "SUBSCRIBE",
                {"destination": "q", "id": "1", "ack": "client", "prefetch-count": count},
                f"prefetch-count {count!r} is not a whole number of messages from 1 to 999999999",
            )
            for count in ("0", "-1", "", "1.5", "9999999999")
        ],
        ("UNSUBSCRIBE", {}, "UNSUBSCRIBE without the header id"),
        ("UNSUBSCRIBE", {"id": "9"}, "there is no subscription '9'"),
        ("ACK", {}, "ACK without the header id"),
        ("ACK", {"id": "1-1"}, "nothing that is delivered and not acknowledged is called '1-1'"),
        ("NACK", {}, "NACK without the header id"),
        ("NACK", {"id": "1-1"}, "nothing that is delivered and not acknowledged is called '1-1'"),
        ("BEGIN", {}, "BEGIN without the header transaction"),
        ("BEGIN", {"transaction": "open"}, "the transaction 'open' is open already"),
        ("COMMIT", {}, "COMMIT without the header transaction"),
        ("COMMIT", {"transaction": "t"}, "no transaction 't' is open"),
        ("ABORT", {}, "ABORT without the header transaction"),
        ("ABORT", {"transaction": "t"}, "no transaction 't' is open"),
    ],
)
def test_what_cannot_be_done_ends_the_connection(rig, command, headers, wrong):
    """With one sentence, and the receipt of the frame that was wrong."""
    client = rig.client()
    client.subscribe()
    client.say("BEGIN", {"transaction": "open"})
    client.say(command, {**headers, "receipt": "7"})

    assert refusal(client) == (wrong, "7")


def test_malformed_bytes_end_the_connection_after_what_came_before(rig):
    """The SEND before them has its effect and its answer; what is still on its way to the disk would have none."""
    client = rig.client()
    client.publish(1)
    client.connection.receive(b"SEND\ndestination:q\nreceipt:1\n\nx\0SEND\nreceipt:2\ndestination\n\n\0")
    frames = client.heard()

    assert [(f.command, f.headers["receipt-id"]) for f in frames] == [("RECEIPT", "1"), ("ERROR", "2")]
    assert rig.depth() == 2


@pytest.mark.parametrize("command", ["SEND", "ACK", "NACK"])
def test_a_receipt_waits_for_the_disk(rig, command):
    """Of a persistent message: answered when stored, and never before."""
    client = rig.client()
    client.publish(1)
    (message,) = client.subscribe()
    headers = {"destination": "q", "persistent": "true"} if command == "SEND" else {"id": message.headers["ack"]}
    client.say(command, {**headers, "receipt": command})

    assert [f.command for f in client.heard(stored=False) if f.command != "MESSAGE"] == []
    assert [f.headers["receipt-id"] for f in client.heard() if f.command != "MESSAGE"] == [command]


def test_a_message_shows_what_the_sender_gave(rig):
    """First of repeated headers, escapes, a body with NUL, content-type; and where it came from."""
    client = rig.client()
    client.connection.receive(
        b"SEND\ndestination:/queue/q\npersistent:true\na:first\na:second\nb\\cc:x\\ny\n"
        b"message-id:forged\ncontent-type:text/plain\ncontent-length:3\n\n\0a\0\0"
    )
    (message,) = client.subscribe("client", id="s:1")

    assert message.body == b"\0a\0"
    assert message.headers == {
        "destination": "q",
        "subscription": "s:1",
        "message-id": "1",
        "ack": "1-1",
        "redelivered": "false",
        "delivery-count": "0",
        "content-length": "3",
        "persistent": "true",
        "content-type": "text/plain",
        "a": "first",
        "b:c": "x\ny",
    }


def test_auto_is_what_is_meant_without_an_ack_header(rig):
    """STOMP 1.2, SUBSCRIBE ack Header."""
    client = rig.client()
    client.publish(1)
    client.say("SUBSCRIBE", {"id": "0", "destination": "q"})

    assert bodies(client.heard()) == [1]
    assert rig.depth() == 0


def test_prefetch_count_is_a_hard_limit(rig):
    """Two are delivered, each acknowledgement makes room for one, a cumulative one for all that it covers."""
    client = rig.client()
    client.publish(7)
    messages = client.subscribe("client", prefetch_count="2")
    assert bodies(messages) == [1, 2]
    client.say("ACK", {"id": messages[0].headers["ack"]})
    messages += client.heard()
    assert bodies(messages) == [1, 2, 3]
    client.say("ACK", {"id": messages[2].headers["ack"]})
    messages += client.heard()
    assert bodies(messages) == [1, 2, 3, 4, 5]
    client.say("NACK", {"id": messages[3].headers["ack"]})

    assert bodies(client.heard()) == [4]


def test_a_delivery_cannot_be_acknowledged_in_two_transactions(rig):
    """It is taken until the first is aborted."""
    client = rig.client()
    client.publish(1)
    (message,) = client.subscribe()
    for name in "tu":
        client.say("BEGIN", {"transaction": name})
    client.say("ACK", {"id": message.headers["ack"], "transaction": "t"})
    client.say("ACK", {"id": message.headers["ack"], "transaction": "u"})

    assert refusal(client)[0].startswith("nothing that is delivered")


def test_the_receipt_of_disconnect_is_the_last(rig):
    """It waits for the frames before it; then the connection is closed."""
    client = rig.client()
    client.say("SEND", {"destination": "q", "persistent": "true", "receipt": "1"})
    client.say("DISCONNECT", {"receipt": "2"})
    client.say("SEND", {"destination": "q", "receipt": "3"})
    assert (client.heard(stored=False), client.connection.closed) == ([], False)

    assert [f.headers["receipt-id"] for f in client.heard()] == ["1", "2"]
    assert (client.connection.closed, rig.depth()) == (True, 1)


def test_a_peer_that_does_not_read_is_sent_no_more(rig):
    """Neither beyond what may wait for its socket, nor while the socket is full."""
    client = rig.client()
    size = peers.MAX_UNSENT // 4
    for _ in range(10):
        client.say("SEND", {"destination": "q"}, b"x" * size)
    client.say("SUBSCRIBE", {"id": "0", "destination": "q"})
    rig.disk()
    rig.broker.dispatch()
    first = client.connection.output()
    assert 4 * size <= len(first) < 5 * size

    client.connection.pause()
    rig.broker.dispatch()
    assert client.connection.output() == b""
    client.connection.resume()
    assert len(list(client.decoder.feed(first)) + client.heard()) == 10
    assert rig.depth() == 0


def test_a_peer_that_is_faster_than_the_disk_is_to_be_held_back(rig):
    """Until something is stored."""
    client = rig.client()
    for _ in range(peers.MAX_UNFINISHED):
        assert not client.connection.choked
        client.say("SEND", {"destination": "q", "persistent": "true"})
    assert client.connection.choked
    client.heard()

    assert not client.connection.choked


def test_a_held_answer_is_sent_when_the_disk_is_done(rig):
    """Though there is nothing to be sent: a peer that asks for no receipts would else never be read again."""
    woken = []
    connection = stomp.StompConnection(rig.broker, lambda: woken.append(connection.choked), rig.numbers, rig.later)
    connection.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    connection.receive(b"SEND\ndestination:q\npersistent:true\n\nx\0" * peers.MAX_UNFINISHED)
    assert woken.pop()
    woken.clear()
    rig.disk()

    assert woken == [False]


def test_what_another_released_is_marked_and_not_counted(rig):
    """redelivered says that some consumer may have seen it, delivery-count how often it may have failed."""
    client = rig.client()
    client.publish(1)
    tags = []
    other = Subscription(rig.broker.queue("q"), False, lambda: 1, lambda tag, message: tags.append(tag))
    rig.broker.subscribe(other)
    rig.broker.dispatch()
    rig.broker.settle(other, tags[0], SettlementEvent.RELEASED, lambda: None)
    other.credit = lambda: 0
    (message,) = client.subscribe()

    assert (message.headers["redelivered"], message.headers["delivery-count"]) == ("true", "0")


def test_a_peer_that_does_not_read_its_answers_is_held_back_too(rig):
    """Else a publisher that asks and never reads would fill the memory with receipts."""
    client = rig.client()
    client.connection.pause()
    assert client.connection.choked
    client.connection.resume()
    assert not client.connection.choked


def test_heart_beats_are_sent_and_expected(rig):
    """The slower of both wishes: half of an interval of our silence, two of the peer's."""
    client = rig.client(**{"heart-beat": "1000,400"})
    connection = client.connection
    assert connection.tick(10.0) == pytest.approx(10.2)
    assert connection.output() == b""
    assert connection.tick(10.2) == pytest.approx(10.4)
    assert connection.output() == b"\n"
    connection.receive(b"\n")
    connection.tick(11.0)
    assert client.heard() == []
    connection.tick(12.9)
    assert (client.heard(), connection.closed) == ([], False)
    connection.tick(13.0)

    assert refusal(client) == ("no heart-beat was received in time", None)


def test_no_heart_beats_are_agreed_without_a_wish(rig):
    """0,0 is the default, and 1 ms is more than is promised."""
    silent, eager = rig.client(), rig.client(**{"heart-beat": "0,1"})

    assert silent.connection.tick(10.0) is None
    assert eager.connection.tick(10.0) == pytest.approx(10.05)


def test_a_peer_that_is_held_back_is_not_blamed_for_silence(rig):
    """Its heart-beats are unread in the socket."""
    client = rig.client(**{"heart-beat": "100,0"})
    for _ in range(peers.MAX_UNFINISHED):
        client.say("SEND", {"destination": "q", "persistent": "true"})
    for now in range(10, 20):
        client.connection.tick(now)

    assert client.heard() == []


def test_1_1_wants_the_right_subscription(rig):
    """Its own, and no other."""
    client = rig.client("1.1")
    client.publish(1)
    message = client.subscribe("client")[0]
    client.subscribe("client", "other", id="1")
    client.say("ACK", {"message-id": message.headers["message-id"], "subscription": "1"})
    assert refusal(client)[0].startswith("nothing that is delivered")
    assert rig.depth() == 1

    for headers, wrong in (
        ({}, "ACK without the header subscription"),
        ({"subscription": "x"}, "there is no subscription 'x'"),
    ):
        client = rig.client("1.1")
        client.publish(1)
        message = client.subscribe("client")[0]
        client.say("ACK", {"message-id": message.headers["message-id"], **headers})

        assert refusal(client)[0].startswith(wrong)


def test_1_0_names_a_subscription_by_its_destination(rig):
    """Without an id; there is no NACK and no client-individual."""
    client = rig.client("1.0")
    client.publish(1)
    client.say("SUBSCRIBE", {"destination": "q"})
    (message,) = client.heard()
    assert "subscription" not in message.headers
    assert client.asks("UNSUBSCRIBE", destination="q") is True
    client.say("SUBSCRIBE", {"destination": "q", "ack": "client-individual"})
    assert refusal(client)[0] == "the ack mode 'client-individual' does not exist in STOMP 1.0"

    other = rig.client("1.0")
    other.say("NACK", {"message-id": "1"})
    assert refusal(other)[0] == "NACK does not exist in STOMP 1.0"


def answers(client):
    """How often each of 250 sends that is not answered once is answered."""
    for n in range(1, 251):
        client.say("SEND", {"destination": "q", "receipt": str(n)})
    seen = [int(f.headers["receipt-id"]) for f in client.heard()]
    return {n: seen.count(n) for n in range(1, 251) if seen.count(n) != 1}


def third_of_four(command, ack):
    """A script: what an ACK or NACK of the third of four changes."""

    def script(client):
        client.publish(4)
        client.say(command, {"id": client.subscribe(ack)[2].headers["ack"]})
        return bodies(client.heard()), client.rig.depth()

    return script


def second_delivery(client):
    """What a message that was given back says of itself."""
    client.publish(1)
    client.subscribe()
    client.say("UNSUBSCRIBE", {"id": "0"})
    (message,) = client.subscribe()
    return message.headers["redelivered"], message.headers["delivery-count"]


def window(client):
    """Two of five are asked for: what comes at first, and after an acknowledgement."""
    client.publish(5)
    first = client.subscribe(prefetch_count="2")
    client.say("ACK", {"id": first[0].headers["ack"]})
    return bodies(first), bodies(client.heard())


def rolled_back(client):
    """How an ABORT is answered."""
    client.say("BEGIN", {"transaction": "t"})
    client.say("ABORT", {"transaction": "t", "receipt": "r"})
    return [(f.command, f.headers["receipt-id"], f.headers.get("message")) for f in client.heard()]


def never_discharged(client):
    """A send in a transaction of a connection that is lost: the depth."""
    client.say("BEGIN", {"transaction": "t"})
    client.say("SEND", {"destination": "q", "transaction": "t"})
    before = client.rig.depth()
    client.connection.lost()
    client.rig.disk()
    return before, client.rig.depth()


def acknowledged_and_aborted(client):
    """A message whose acknowledgement is rolled back: the depth."""
    client.publish(1)
    (message,) = client.subscribe()
    client.say("BEGIN", {"transaction": "t"})
    client.say("ACK", {"id": message.headers["ack"], "transaction": "t"})
    client.say("ABORT", {"transaction": "t"})
    client.heard()
    return client.rig.depth()


def acknowledged_after_a_commit(client):
    """How the acknowledgements of two messages are answered, the first of them in a transaction."""
    client.publish(2)
    first, second = client.subscribe()
    client.say("BEGIN", {"transaction": "t"})
    client.say("ACK", {"id": first.headers["ack"], "transaction": "t"})
    client.say("COMMIT", {"transaction": "t", "receipt": "c"})
    client.heard()
    client.say("ACK", {"id": second.headers["ack"], "receipt": "r"})
    return [frame.command for frame in client.heard()], client.rig.depth()


def auto(client):
    """A message that was sent to an auto subscription, whose connection is lost: the depth."""
    client.publish(1)
    client.subscribe("auto")
    client.connection.lost()
    client.rig.disk()
    return client.rig.depth()


CASES = {
    ("never-answers-one-send", answers): ({}, {50: 0}),
    ("answers-every-hundredth-frame-twice", answers): ({}, {100: 2, 200: 2}),
    ("client-ack-is-individual", third_of_four("ACK", "client")): (([], 1), ([], 3)),
    ("client-ack-is-individual", third_of_four("NACK", "client")): (([1, 2, 3], 4), ([1, 2, 3], 4)),
    ("individual-ack-is-cumulative", third_of_four("ACK", "client-individual")): (([], 3), ([], 1)),
    ("individual-ack-is-cumulative", third_of_four("NACK", "client-individual")): (([3], 4), ([3], 4)),
    ("nack-acknowledges-earlier", third_of_four("NACK", "client-individual")): (([3], 4), ([3], 2)),
    ("nack-acknowledges-earlier", third_of_four("ACK", "client-individual")): (([], 3), ([], 3)),
    ("never-marks-redelivered", second_delivery): (("true", "1"), ("false", "0")),
    ("counts-from-one", second_delivery): (("true", "1"), ("true", "2")),
    ("ignores-prefetch", window): (([1, 2], [3]), ([1, 2, 3, 4, 5], [])),
    ("never-refills-prefetch", window): (([1, 2], [3]), ([1, 2], [])),
    ("refuses-rollbacks", rolled_back): ([("RECEIPT", "r", None)], [("ERROR", "r", "the rollback is refused")]),
    ("delivers-before-commit", never_discharged): ((0, 0), (1, 1)),
    ("commits-when-link-closes", never_discharged): ((0, 0), (0, 1)),
    ("acknowledges-before-commit", acknowledged_and_aborted): (1, 0),
    ("refuses-acknowledgements-after-a-commit", acknowledged_after_a_commit): ((["RECEIPT"], 0), (["ERROR"], 1)),
    ("requeues-settled", auto): (0, 1),
}


@pytest.mark.parametrize(("name", "script"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_a_liar_is_seen_over_stomp_and_the_honest_broker_is_not(name, script):
    """The same script tells the two apart; a NACK is no ACK, and no liar lies about it."""
    honest, lies = CASES[name, script]
    told = []
    for chosen in (None, name):
        rig = Rig(behaviour(chosen))
        rig.broker.queue("q")
        rig.disk()
        told.append(script(rig.client()))

    assert told == [honest, lies]
