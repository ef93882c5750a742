"""Durable subscriptions of a topic: each is a queue of its own, found again by its client and name."""

from __future__ import annotations

import pytest
from proton import Message, Terminus, symbol
from proton.reactor import Container, LinkOption

from conformance.reference.core.admission import INVALID, LIMIT, NOT_FOUND, Refusal

from .queue_rig import Rig
from .stomp_rig import Rig as StompRig
from .stomp_rig import bodies, refusal

PLACE = {"destination": "/topic/t", "durable-subscription-name": "a"}


def subscribed(rig, name, topic="t", client="c"):
    """The name of the queue of a subscription."""
    found = rig.broker.subscription(topic, client, name)
    assert not isinstance(found, Refusal)
    return found.name


@pytest.mark.parametrize("transacted", [False, True])
def test_each_subscription_has_what_was_sent_since_it_is_there(transacted):
    """Also after a restart; to acknowledge one copy leaves the other. The topic itself keeps nothing."""
    rig = Rig()
    first = subscribed(rig, "a")
    rig.send(b"1", topic="t")
    second = subscribed(rig, "b")
    transaction = rig.broker.begin() if transacted else None
    rig.send(b"2", transaction, topic="t")
    if transaction is not None:
        rig.commits(transaction)
    rig.disk()
    link, _ = rig.link(queue=first)
    rig.settle(link, 1)
    rig.disk()

    for each in (rig, rig.again()):
        assert {first, second} == {subscribed(each, "a"), subscribed(each, "b")}
        assert ([b"2"], [b"2"]) == (each.bodies(first), each.bodies(second))
        assert {"q", first, second} == set(each.broker.names())


def test_a_subscription_found_after_a_restart_gets_what_is_sent_then():
    rig = Rig()
    names = [subscribed(rig, name) for name in ("a", "b")]
    rig.disk()
    again = rig.again()
    again.send(b"1", topic="t")
    again.disk()

    assert ["done"] == again.answers
    assert [[b"1"], [b"1"]] == [again.again().bodies(name) for name in names]


def test_client_name_and_topic_are_kept_apart():
    """Their own colons and slashes say nothing."""
    rig = Rig()
    places = [("a:b", "c", "d"), ("a", "b:c", "d"), ("a", "b", "c:d"), ("a/b", "c", "e"), ("a%3Ab", "c", "f")]
    names = [subscribed(rig, name, topic, client) for topic, client, name in places]
    rig.send(topic="a:b")
    rig.disk()

    assert len(places) == len(set(names))
    assert [1, 0, 0, 0, 0] == [rig.broker.known(name).depth for name in names]


def test_a_removed_subscription_gets_nothing_more():
    """Neither at once nor after a restart, and a topic without a subscription refuses what it would not keep."""
    rig = Rig()
    first, second = subscribed(rig, "a"), subscribed(rig, "b")
    rig.broker.delete(rig.broker.known(first))
    rig.send(b"1", topic="t")
    rig.disk()
    assert ([b"1"], None) == (rig.bodies(second), rig.broker.known(first))
    again = rig.again()
    again.broker.delete(again.broker.known(second))
    again.send(b"2", topic="t")
    again.disk()

    assert ["done"] == rig.answers
    assert [NOT_FOUND] == again.answers
    assert ["q"] == list(again.again().broker.names())


def test_what_is_no_subscription():
    """A name that has another topic, one that is too long, one more than the limit, and a queue that is called so."""
    rig = Rig(max_queues=3)
    name = subscribed(rig, "a")

    assert INVALID == rig.broker.subscription("other", "c", "a").condition
    assert INVALID == rig.broker.subscription("t" * 250, "c", "b").condition
    assert NOT_FOUND == rig.broker.refused(name + "x").condition
    assert rig.broker.refused(name) is None
    subscribed(rig, "b")
    assert LIMIT == rig.broker.subscription("t", "c", "d").condition
    assert name == subscribed(rig, "a")


# over STOMP


def test_a_stomp_client_finds_its_subscription_again():
    """After DISCONNECT, and after an UNSUBSCRIBE that does not name it. One that does removes it."""
    rig = StompRig()
    client = rig.client(**{"client-id": "c"})
    assert client.asks("SUBSCRIBE", id="1", ack="client-individual", **PLACE)
    assert client.asks("UNSUBSCRIBE", id="1")
    client.publish(2, "/topic/t")
    got = client.subscribe(id="1", queue="/topic/t", durable_subscription_name="a")
    assert [1, 2] == bodies(got)
    assert client.acks(got[0])
    assert client.asks("DISCONNECT")
    again = rig.client(**{"client-id": "c"})
    assert [2] == bodies(again.subscribe(id="7", queue="/topic/t", durable_subscription_name="a"))
    assert again.asks("UNSUBSCRIBE", id="7", **PLACE)
    again.say("SEND", {"destination": "/topic/t", "receipt": "s"})

    assert ("the topic t has no subscription that would keep the message", "s") == refusal(again)
    assert [] == list(rig.broker.names())


def test_the_same_name_of_another_stomp_client_is_another_subscription():
    rig = StompRig()
    for client in ("c", "d"):
        assert rig.client(**{"client-id": client}).asks("SUBSCRIBE", id="1", ack="auto", **PLACE)

    assert ["subscription:c:a:t", "subscription:d:a:t"] == list(rig.broker.names())


# over AMQP


class Durable(LinkOption):
    """The source of a durable subscription (AMQP 1.0 section 3.5.3)."""

    def apply(self, link):
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER
        link.source.capabilities.put_object(symbol("topic"))


class OnTopic(LinkOption):
    def apply(self, link):
        link.target.capabilities.put_object(symbol("topic"))


def known(peer, server, name="container"):
    """A client with a container-id of its own."""
    container = Container()
    container.container_id = name
    return peer(server, container=container)


def attached(client, name):
    return client.connection.create_receiver("t", name=name, credit=0, options=Durable()).link


def published(client, count):
    link = client.connection.create_sender("t", name="to the topic", options=OnTopic()).link
    client.wait(lambda: link.credit > 0)
    sent = [link.send(Message(body=n, durable=True)) for n in range(count)]
    client.wait(lambda: all(delivery.settled for delivery in sent))


def test_an_amqp_client_finds_its_subscriptions_again(start, peer):
    """Two on one connection: after a detach that is not closed, the end of the connection, and a kill."""
    server = start()
    client = known(peer, server)
    links = [attached(client, name) for name in ("a", "b")]
    source = links[0].remote_source
    assert ("t", Terminus.DELIVERIES, Terminus.EXPIRE_NEVER) == (
        source.address,
        source.durability,
        source.expiry_policy,
    )
    links[0].detach()
    published(client, 3)
    client.close()
    server.kill()
    server = start()
    client = known(peer, server)
    depths = {name: server.depth(f"subscription:container:{name}:t") for name in ("a", "b")}
    links = [attached(client, name) for name in ("a", "b")]
    published(client, 1)

    assert {"a": 3, "b": 3} == depths
    assert {"a": 4, "b": 4} == {name: server.depth(f"subscription:container:{name}:t") for name in ("a", "b")}


def test_a_closed_link_removes_its_subscription(start, peer):
    """Section 2.6.6: `closed` gives up the terminus. The other subscription of the connection stays."""
    server = start()
    client = known(peer, server)
    first, _ = (attached(client, name) for name in ("a", "b"))
    first.close()
    published(client, 1)

    assert ["subscription:container:b:t"] == [name for name in server.get("/queues")["queues"] if name != "q"]
    server.kill()
    assert ["subscription:container:b:t"] == [name for name in start().get("/queues")["queues"] if name != "q"]
