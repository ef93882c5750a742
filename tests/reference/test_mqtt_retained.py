"""Retained messages of MQTT, without a socket or a disk (5.0, section 3.3.1.3; 3.1.1 has the same rules)."""

from __future__ import annotations

import struct

import pytest

from conformance.protocols.mqtt import packets
from conformance.protocols.mqtt.packets import PUBACK, PUBREC, PUBREL

from .mqtt_rig import Rig, bodies, deliveries, names


@pytest.fixture
def rig():
    return Rig()


def came(rig, name="late", filter="t/#", level=5):
    """The bodies that a new subscription brings, each with its RETAIN."""
    client = rig.client(name, subscribe=filter, level=level)
    heard = client.suback
    return list(zip(bodies(heard), client.flags, strict=True))


def retain(client, topic, body, number=1, qos=1, **more):
    client.publish(number, body, topic, qos, retain=True, **more)
    return client.heard()


@pytest.mark.parametrize("level", [4, 5])
def test_a_new_subscription_gets_the_last_of_each_topic(rig, level):
    publisher = rig.client("p", 0, level=level)
    for topic, body in (("t/1", b"old"), ("t/1", b"new"), ("t/2", b"only"), ("u", b"other")):
        retain(publisher, topic, body)
    publisher.leave()

    assert [(b"new", 1), (b"only", 1)] == came(rig, level=level)


def test_one_without_retain_changes_nothing(rig):
    publisher = rig.client("p", 0)
    retain(publisher, "t/1", b"kept")
    publisher.publish(2, b"passing", "t/1")
    publisher.heard()

    assert [(b"kept", 1)] == came(rig)


@pytest.mark.parametrize("then", [True, False])
def test_one_without_a_body_ends_it(rig, then):
    """Subscriptions that are there get it; so does a start find nothing."""
    here = rig.client("here", subscribe="t/1")
    publisher = rig.client("p", 0)
    retain(publisher, "t/1", b"kept")
    retain(publisher, "t/1", b"", 2)

    assert [b"kept", b""] == bodies(here.heard())
    assert [] == came(rig.again() if then else rig)


def test_a_subscription_that_is_there_gets_it_without_retain(rig):
    here, as_published = rig.client("here", subscribe="t/1"), rig.client("as", subscribe=("t/1", 1 | 8))
    retain(rig.client("p", 0), "t/1", b"x")

    for client, flags in ((here, [0]), (as_published, [1])):
        assert [b"x"] == bodies(client.heard())
        assert flags == client.flags


@pytest.mark.parametrize(("options", "first", "again"), [(0, 1, 1), (1 << 4, 1, 0), (2 << 4, 0, 0)])
def test_the_handling_of_a_subscription_says_when_it_is_sent(rig, options, first, again):
    """0: whenever one subscribes; 1: if the subscription is new; 2: never (section 3.8.3.1)."""
    retain(rig.client("p", 0), "t/1", b"x")
    client = rig.client("late")
    found = []
    for number in (1, 2):
        client.subscribe(("t/1", 1 | options), number=number)
        found.append(len(deliveries(client.heard())))

    assert [first, again] == found


def test_it_outlasts_a_start_with_its_qos_and_its_properties(rig):
    publisher = rig.client("p", 0)
    about = b"\x26" + packets.text("a") + packets.text("b")
    assert [PUBREC] == [getattr(packets, name) for name in names(retain(publisher, "t/1", b"x", qos=2, about=about))]
    publisher.asks(PUBREL, 1)
    client = rig.again().client("late", subscribe="t/1")
    (_, number, qos, again, body) = next(each for each in client.suback if each[0] == "PUBLISH")

    assert (2, False, b"x", {"a": "b"}) == (qos, again, body, client.last.texts)
    assert [("PUBREL", number, 0)] == client.asks(PUBREC, number)


def test_its_time_to_live_goes_on(rig):
    retain(rig.client("p", 0), "t/1", b"x", about=struct.pack(">BI", packets.MESSAGE_EXPIRY, 10))
    rig.now += 4
    client = rig.client("late", subscribe="t/1")
    left = packets.value_of(client.last.properties, packets.MESSAGE_EXPIRY, 0)
    rig.now += 7

    assert (6, []) == (left, came(rig, "later"))


def test_a_will_may_be_retained(rig):
    will = b"\x00" + packets.text("t/1") + struct.pack(">H", 4) + b"gone"
    client = rig.client
    dying = client("other")
    dying.leave()
    dying = type(dying)(rig)
    dying.connect("dying", 0, flags=4 | 1 << 3 | 1 << 5, more=will)
    dying.heard()
    dying.leave()

    assert [(b"gone", 1)] == came(rig)


def test_it_is_answered_although_there_is_no_subscription_and_once_it_is_stored(rig):
    publisher = rig.client("p", 0)
    publisher.publish(1, b"x", "t/1", retain=True)

    assert [] == publisher.heard(stored=False)
    assert [PUBACK] == [getattr(packets, name) for name in names(publisher.heard())]


def test_there_is_room_for_so_many_and_for_so_large_ones():
    rig = Rig(max_queues=2)
    publisher = rig.client("p", 0)
    answers = [retain(publisher, topic, body)[0][-1] for topic, body in (
        ("t/1", b"x"), ("t/2", b"x"), ("t/3", b"x"), ("t/1", b"y"), ("t/1", b"y" * 65_535),
    )]  # fmt: skip

    assert [packets.NOWHERE, packets.NOWHERE, 0x97, packets.NOWHERE, 0x97] == answers
    assert [(b"y", 1), (b"x", 1)] == came(rig)
