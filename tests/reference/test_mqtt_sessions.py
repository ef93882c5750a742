"""What the bundled broker does over MQTT: sessions, quality of service, Receive Maximum, wills, refusals."""

from __future__ import annotations

import struct

import pytest

from conformance.protocols.mqtt.packets import PUBACK, PUBCOMP, PUBREC, PUBREL, text
from conformance.reference.core.sections import parse
from conformance.reference.mqtt.topics import is_filter, matches
from conformance.reference.security import Guard

from .mqtt_rig import Client, Rig, bodies, deliveries, names, props

BOTH = pytest.mark.parametrize("level", [5, 4])
SHARED_NUMBER = 65_535


@pytest.fixture
def rig():
    return Rig()


def filled(rig, count=3, qos=1, **options):
    """A consumer of the session `q`, and a publisher that has sent so many messages to it."""
    consumer = rig.client(subscribe="q", **options)
    publisher = rig.client("p", 0)
    for number in range(1, count + 1):
        publisher.publish(number, b"%d" % number, qos=qos)
    publisher.heard()
    return consumer, publisher


@BOTH
@pytest.mark.parametrize(("qos", "kind"), [(1, "PUBACK"), (2, "PUBREC")])
def test_an_answer_waits_for_the_disk(rig, level, qos, kind):
    rig.client(subscribe="q")
    publisher = rig.client("p", 0, clean=True, level=level)
    publisher.publish(7, qos=qos)
    assert publisher.heard(stored=False) == []

    assert publisher.heard() == [(kind, 7, 0)]
    assert rig.again().depth("q") == 1


@BOTH
def test_a_session_keeps_what_comes_while_its_client_is_away(rig, level):
    """Over a kill too: its subscriptions, its messages, in their order and with the same identifiers."""
    consumer = rig.client(subscribe="t/+", level=level)
    consumer.leave()
    publisher = rig.client("p", 0, clean=True)
    for number in (1, 2):
        publisher.publish(number, b"%d" % number, "t/x", qos=number)
    publisher.heard()
    again = rig.again().client(level=level)

    assert again.connack == ("CONNACK", True, 0)
    assert [(number, body) for number, _, body in deliveries(again.heard())] == [(1, b"1"), (2, b"2")]


def test_what_was_not_acknowledged_comes_again_with_dup(rig):
    consumer, _ = filled(rig)
    assert deliveries(consumer.heard()) == [(1, False, b"1"), (2, False, b"2"), (3, False, b"3")]
    consumer.answer(PUBACK, 1)
    consumer.leave()
    again = rig.client()

    assert deliveries(again.heard()) == [(2, True, b"2"), (3, True, b"3")]


def test_a_message_of_qos_2_is_stored_once(rig):
    """A PUBLISH that is sent again before its PUBREL: on this connection, on another, and after a kill."""
    rig.client(subscribe="q")
    publisher = rig.client("p")
    publisher.publish(9, qos=2)
    publisher.publish(9, qos=2, again=True)
    assert publisher.heard() == [("PUBREC", 9, 0)] * 2
    publisher.leave()
    for each in (rig, rig.again()):
        publisher = each.client("p")
        assert publisher.connack == ("CONNACK", True, 0)
        publisher.publish(9, qos=2, again=True)
        assert publisher.heard() == [("PUBREC", 9, 0)]
        assert each.depth("q") == 1
        assert publisher.asks(PUBREL, 9) == [("PUBCOMP", 9, 0)]
        assert publisher.asks(PUBREL, 9) == [("PUBCOMP", 9, 0x92)]
        publisher.publish(9, qos=2)
        publisher.heard()
        assert each.depth("q") == 2


def test_a_pubcomp_waits_for_the_disk(rig):
    """Else the identifier is known after a kill, and the next message with it is taken for the old one."""
    rig.client(subscribe="q")
    publisher = rig.client("p")
    publisher.publish(9, qos=2)
    publisher.heard()
    publisher.answer(PUBREL, 9)

    assert publisher.heard(stored=False) == []
    assert publisher.heard() == [("PUBCOMP", 9, 0)]


def test_a_message_of_qos_2_is_delivered_once(rig):
    """After PUBREC it does not come again, and PUBREL does until PUBCOMP: on another connection, and after a kill."""
    consumer, _ = filled(rig, 2, qos=2)
    assert [each[:3] for each in consumer.heard()] == [("PUBLISH", 1, 2), ("PUBLISH", 2, 2)]
    consumer.answer(PUBREC, 1)
    assert consumer.heard(stored=False) == []
    assert consumer.heard() == [("PUBREL", 1, 0)]
    consumer.leave()
    for each in (rig.again(), rig):
        consumer = each.client()
        heard = consumer.heard()
        assert (names(heard), deliveries(heard)) == (["PUBREL", "PUBLISH"], [(2, True, b"2")])
    assert consumer.asks(PUBCOMP, 1) == []
    assert names(rig.again().client().heard()) == ["PUBLISH"]


def test_receive_maximum_counts_until_the_last_answer(rig):
    consumer, _ = filled(rig, 6, qos=2, receive=2)
    assert bodies(consumer.heard()) == [b"1", b"2"]
    assert names(consumer.asks(PUBREC, 1)) == ["PUBREL"]

    assert bodies(consumer.asks(PUBCOMP, 1)) == [b"3"]


@pytest.mark.parametrize(("sent", "granted", "came"), [(2, 1, 1), (1, 2, 1), (2, 0, 0), (0, 2, 0)])
def test_the_lower_quality_of_service_is_in_force(rig, sent, granted, came):
    """A message of QoS 0 leaves the queue when it is sent."""
    consumer = rig.client(subscribe=("q", granted))
    publisher = rig.client("p", 0)
    publisher.publish(5, qos=sent)
    publisher.heard()

    assert [each[2] for each in consumer.heard()] == [came]
    assert rig.depth("q") == (1 if came else 0)


def test_overlapping_subscriptions_deliver_once_with_the_highest(rig):
    consumer = rig.client()
    consumer.subscribe(("a/#", 0), ("a/b", 1), ("+/b", 0))
    assert consumer.heard() == [("SUBACK", 1, (0, 1, 0))]
    consumer.publish(4, topic="a/b", qos=2)

    assert [each[:3] for each in consumer.heard()] == [("PUBREC", 4, 0), ("PUBLISH", 1, 1)]


def test_unsubscribe_keeps_what_has_come(rig):
    consumer, publisher = filled(rig, 1)
    consumer.unsubscribe("q", "never")
    assert consumer.heard()[-1] == ("UNSUBACK", 1, (0, 0x11))
    publisher.publish(2)

    assert publisher.heard() == [("PUBACK", 2, 0x10)]
    assert (rig.depth("q"), rig.again().client().connack) == (1, ("CONNACK", True, 0))


@pytest.mark.parametrize("how", ["clean start", "expiry 0", "time", "disconnect"])
def test_a_session_ends_with_its_messages(rig, how):
    consumer, _ = filled(rig, 1, expiry_s=0 if how == "expiry 0" else 60)
    if how == "disconnect":
        consumer.say(14, b"\0" + props(struct.pack(">BI", 0x11, 0)))
    consumer.leave()
    if how == "time":
        ((seconds, end),) = rig.timers
        assert (seconds, rig.depth("q")) == (60, 1)
        end()
    rig.disk()
    for each in (rig.again(), rig):
        assert each.client(clean=how == "clean start").connack == ("CONNACK", False, 0)
        each.disk()
        assert each.depth("q") is None


def test_a_client_that_came_back_in_time_keeps_its_session(rig):
    consumer, _ = filled(rig, 1, expiry_s=60)
    consumer.leave()
    rig.client(expiry_s=60)
    for _, call in rig.timers:
        call()

    assert rig.depth("q") == 1


def test_a_second_connection_takes_the_session_over(rig):
    consumer, _ = filled(rig, 1)
    consumer.heard()
    other = rig.client()

    assert consumer.heard() == [("DISCONNECT", 0x8E)]
    assert rig.client("other").connack == ("CONNACK", False, 0)
    assert rig.broker.known("q").consumers == 1
    assert other.connection.closed is False


def test_a_queue_serves_every_protocol(rig):
    """A queue that is no session gets what is published to its name; a session gives what others sent to its queue."""
    rig.broker.queue("orders")
    client = rig.client("p", subscribe="nothing")
    client.publish(1, topic="orders")
    assert client.heard() == [("PUBACK", 1, 0)]
    rig.broker.publish(
        rig.broker.queue("p"), parse(b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x02hi"), lambda: None
    )

    assert deliveries(client.heard()) == [(1, False, b"hi")]
    assert (rig.depth("orders"), client.last.topic) == (1, "p")


def test_what_others_send_to_a_topic_comes_once_to_each_session_that_has_subscribed(rig):
    """Also where one of its filters is a pattern; without a session the message is refused."""
    refusals = []
    parsed = parse(b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x02hi")
    rig.broker.publish(rig.broker.topic("a/b"), parsed, lambda: None, refused=refusals.append)
    client, other = rig.client("p", subscribe="a/+"), rig.client("q", subscribe="a/b")
    rig.broker.publish(rig.broker.topic("a/b"), parsed, lambda: None, refused=refusals.append)

    assert [[(1, False, b"hi")]] * 2 == [deliveries(each.heard()) for each in (client, other)]
    assert ["the topic a/b has no subscription that would keep the message"] == [each.description for each in refusals]


def test_properties_come_back_in_their_order(rig):
    """User properties of one name too; what is left of an expiry interval is rounded up."""
    consumer, publisher = filled(rig, 0)
    users = b"".join(b"\x26" + text(name) + text(value) for name, value in [("b", "1"), ("a", "2"), ("b", "3")])
    about = b"\x01\x01" + struct.pack(">BI", 0x02, 10) + b"\x03" + text("k") + b"\x08" + text("r") + b"\x09" + text("c")
    publisher.publish(1, b"\xc3\xa9", about=about + users, qos=2)
    rig.now += 2.5
    publisher.heard()
    rig.now += 2.0
    consumer.leave()
    consumer = rig.client()
    consumer.heard()
    (found,) = [consumer.last]

    assert sorted(each for each in found.properties if each[0] != 0x26) == [
        (0x01, 1), (0x02, 6), (0x03, b"k"), (0x08, b"r"), (0x09, b"c")
    ]  # fmt: skip
    assert [value for name, value in found.properties if name == 0x26] == [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")]
    assert found.body == b"\xc3\xa9"


@pytest.mark.parametrize("limit", ["full", "too large", "no text"])
def test_a_refused_publish_has_a_reason_code(limit):
    """And the connection goes on; its answer comes after those before it. 3.1.1 closes the connection."""
    rig = Rig(max_length=1, max_message_bytes=1000)
    rig.client(subscribe="q")
    body, about = (
        (bytes(200_000), b"") if limit == "too large" else (b"\xff", b"\x01\x01" if limit == "no text" else b"")
    )
    publisher = rig.client("p", 0)
    publisher.publish(1)
    publisher.publish(2, body, qos=2, about=about)
    publisher.publish(3, topic="nowhere")

    code = 0x99 if limit == "no text" else 0x97
    assert publisher.heard() == [("PUBACK", 1, 0), ("PUBREC", 2, code), ("PUBACK", 3, 0x10)]
    assert rig.depth("q") == 1
    if limit != "no text":
        old = rig.client("o", clean=True, level=4)
        old.publish(1, body)
        assert (old.heard(), old.connection.closed) == ([], True)


def test_a_message_that_its_client_refuses_is_dead(rig):
    consumer, _ = filled(rig, 2, qos=2)
    consumer.heard()
    consumer.answer(PUBREC, 1, 0x83)
    consumer.heard()

    assert (rig.depth("q"), rig.depth("DLQ")) == (1, 1)


def test_a_message_larger_than_its_client_takes_is_dead(rig):
    consumer = Client(rig)
    about = struct.pack(">BIBI", 0x11, 60, 0x27, 100)
    consumer.say(1, text("MQTT") + struct.pack(">BBH", 5, 0, 0) + props(about) + text("q"))
    consumer.subscribe("q")
    consumer.heard()
    publisher = rig.client("p", 0)
    publisher.publish(1, bytes(200))
    publisher.publish(2, b"2")
    publisher.heard()

    assert bodies(consumer.heard()) == [b"2"]
    assert rig.depth("DLQ") == 1


WILL = text("w") + text("gone")


@pytest.mark.parametrize(
    ("ends", "published"), [("lost", 1), ("disconnect", 0), ("with will", 1), ("delayed", 0), ("over", 1), ("back", 0)]
)
def test_a_will_is_published_when_the_connection_is_lost(rig, ends, published):
    rig.client(subscribe="w")
    client = Client(rig)
    delay = b"" if ends not in ("delayed", "over", "back") else struct.pack(">BI", 0x18, 30)
    client.connect("c", flags=4 | 1 << 3, more=props(delay) + WILL)
    client.heard()
    if ends in ("disconnect", "with will"):
        client.say(14, b"\x04" if ends == "with will" else b"")
    client.leave()
    if ends == "back":
        rig.client("c")
    for _, call in rig.timers if ends in ("over", "back") else ():
        call()
    rig.disk()

    assert rig.depth("q") == published


LOGINS = [(b"alice", b"secret", 0), (b"alice", b"wrong", 0x86), (b"", b"secret", 0x86)]


@pytest.mark.parametrize(("user", "password", "code"), LOGINS)
def test_a_login(user, password, code):
    client = Client(Rig(guard=Guard("alice", b"secret")))
    client.connect(flags=0xC0, more=text(user.decode()) + text(password.decode()))

    assert client.heard() == [("CONNACK", False, code)]


def test_a_client_without_a_name_gets_one(rig):
    client = rig.client("", 0, clean=True)
    assert client.connack == ("CONNACK", False, 0)
    assert rig.client("", clean=True, level=4).connack == ("CONNACK", False, 0)
    assert rig.client("", level=4).connack == ("CONNACK", False, 2)
    assert rig.client("x" * 256).connack == ("CONNACK", False, 0x85)


REFUSED = [("$share/g/t", 1, 0x9E), ("a/#/b", 1, 0x8F), ("a+", 1, 0x8F), ("t", 5, 0x83), ("t", 1, 1)]


@pytest.mark.parametrize(("topic", "options", "code"), REFUSED)
def test_what_is_not_offered_is_refused_by_its_code(rig, topic, options, code):
    client = rig.client()
    client.subscribe((topic, options))

    assert client.heard() == [("SUBACK", 1, (code,))]


def test_an_unknown_queue_that_may_not_be_made():
    """No session can have a queue, so no subscription is granted; without a subscriber a PUBLISH says so."""
    rig = Rig(creates_queues=False)
    client = rig.client(subscribe="q")
    assert client.suback == [("SUBACK", 1, (0x87,))]
    client.publish(1)

    assert client.heard() == [("PUBACK", 1, 0x10)]
    assert list(rig.broker.names()) == []


def test_limits_of_sessions_and_subscriptions():
    rig = Rig(max_queues=2, max_links=2)
    rig.client(subscribe="1").subscribe("2", "3")
    assert rig.client("r").connack == ("CONNACK", False, 0)
    assert rig.client("s").connack == ("CONNACK", False, 0x97)
    client = rig.client()
    client.subscribe("1", "2", "3")

    assert client.heard() == [("SUBACK", 1, (2, 2, 0x97))]


def test_identifiers_of_deliveries_begin_again(rig):
    """After 65,535 comes 1. One that is still open by then ends the connection: its client skips it against the rules."""
    consumer, publisher = filled(rig, 0, receive=SHARED_NUMBER)
    rig.broker.known("q").next_number = SHARED_NUMBER
    for number in (1, 2):
        publisher.publish(number)
    publisher.heard()
    assert [each[0] for each in deliveries(consumer.heard())] == [SHARED_NUMBER, 1]
    rig.broker.known("q").next_number = 2 * SHARED_NUMBER
    publisher.publish(3)
    publisher.heard()

    assert consumer.heard() == [("DISCONNECT", 0x82)]
    assert rig.broker.known("q").unacknowledged == 0


@pytest.mark.parametrize(
    ("name", "topic", "expected"),
    [
        ("a/b", "a/b", True), ("a/+", "a/", True), ("+", "a/b", False), ("a/#", "a", True), ("#", "a/b", True),
        ("+/#", "$a/b", False), ("$a/#", "$a/b", True), ("a/b", "a/c", False), ("a/#", "b", False),
    ],
)  # fmt: skip
def test_a_filter_matches(name, topic, expected):
    assert (is_filter(name), matches(name, topic)) == (True, expected)
