"""AMQP links over the wire: termini, settlement in both modes, sizes, and what a connection offers."""

from __future__ import annotations

import contextlib

import pytest
from cproton import pn_link_max_message_size, pn_link_remote_max_message_size, pn_link_set_max_message_size
from proton import Delivery, Endpoint, Link, Message, symbol
from proton.reactor import Copy, DynamicNodeProperties, LinkOption, SenderOption
from proton.utils import ConnectionClosed, LinkDetached

OUTCOMES = [symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")]
ANONYMOUS_RELAY = symbol("ANONYMOUS-RELAY")


class Second(LinkOption):
    """rcv-settle-mode second."""

    def apply(self, link):
        link.rcv_settle_mode = Link.RCV_SECOND


class Largest(LinkOption):
    """max-message-size of ours, and settled transfers or not."""

    def __init__(self, size, *, settled):
        self.size, self.settled = size, settled

    def apply(self, link):
        pn_link_set_max_message_size(link._impl, self.size)
        link.snd_settle_mode = Link.SND_SETTLED if self.settled else Link.SND_UNSETTLED


def opened(client, address, **options):
    """A sender with credit."""
    link = client.connection.create_sender(address, **options).link
    client.wait(lambda: link.credit > 0)
    return link


def outcome(client, link, message):
    """State and condition that answer one message, once it is settled."""
    delivery = link.send(message)
    client.wait(lambda: delivery.settled)
    condition = delivery.remote.condition
    return delivery.remote_state, condition and condition.name


def closed_with(client, link):
    """The condition with which the broker has ended the link."""
    with contextlib.suppress(LinkDetached):
        client.wait(lambda: bool(link.state & Endpoint.REMOTE_CLOSED))
    return link.remote_condition.name


def test_the_connection_offers_the_anonymous_relay(broker, peer):
    """JMS clients look for it before they use one link for all queues."""
    assert list(peer(broker).connection.conn.remote_offered_capabilities) == [ANONYMOUS_RELAY]


def test_an_anonymous_terminus_goes_by_to(start, peer):
    """Section 3.2.4: each message to its own queue, and rejected where there is none."""
    client = peer(start("--queue=r"))
    link = opened(client, None, name="anonymous")

    assert outcome(client, link, Message(address="q", body=1, durable=True)) == (Delivery.ACCEPTED, None)
    assert outcome(client, link, Message(address="r", body=2, id="x", user_id=b"u")) == (Delivery.ACCEPTED, None)
    assert outcome(client, link, Message(address="temporary-1", body=3)) == (Delivery.REJECTED, "amqp:not-found")
    assert outcome(client, link, Message(body=4)) == (Delivery.REJECTED, "amqp:precondition-failed")
    assert (client.receive(1, "q").bodies, client.receive(1, "r").bodies) == ([1], [2])


def test_a_settled_send_that_is_refused_ends_its_link(broker, peer):
    """It has no answer that could carry the error, and is not dropped in silence."""
    client = peer(broker)
    link = opened(client, None, name="anonymous")
    link.send(Message(address="temporary-1", body=1)).settle()

    assert closed_with(client, link) == "amqp:not-found"


def test_a_message_that_is_none_is_rejected(broker, peer):
    """amqp:decode-error, and the link lives on."""
    client = peer(broker)
    link = client.sender()
    delivery = link.delivery("1")
    link.stream(b"no section")
    link.advance()
    client.wait(lambda: delivery.settled)

    assert (delivery.remote_state, delivery.remote.condition.name) == (Delivery.REJECTED, "amqp:decode-error")
    assert outcome(client, link, Message(body=1)) == (Delivery.ACCEPTED, None)


def test_a_dynamic_source(broker, peer):
    """A temporary queue: its name is in the answer, it ends with its link, and other links to it are detached."""
    client, other = peer(broker), peer(broker)
    receiver = client.connection.create_receiver(None, dynamic=True, name="replies")
    address = receiver.link.remote_source.address
    assert receiver.link.remote_source.dynamic
    link = opened(other, address)
    for body in (1, 2):
        assert outcome(other, link, Message(body=body, durable=True)) == (Delivery.ACCEPTED, None)
    assert receiver.receive(timeout=20).body == 1
    third = peer(broker)
    second = third.inbox(0, address)
    receiver.close()

    assert closed_with(third, second.link) == "amqp:resource-deleted"
    assert outcome(other, link, Message(body=3)) == (Delivery.REJECTED, "amqp:resource-deleted")
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        other.connection.create_sender(address, name="too late")


def test_a_dynamic_target(start, peer):
    """As JMS asks for a temporary queue; it is gone with the connection, and after a restart."""
    broker = start()
    client, other = peer(broker), peer(broker)
    policy = DynamicNodeProperties({symbol("lifetime-policy"): symbol("anything")})

    class Dynamic(SenderOption):
        def apply(self, link):
            link.target.dynamic = True
            policy.apply(link)

    link = client.connection.create_sender(None, name="temporary", options=Dynamic()).link
    address = link.remote_target.address
    assert outcome(client, link, Message(body=1, durable=True)) == (Delivery.ACCEPTED, None)
    box = other.receive(1, address)
    assert box.bodies == [1]
    client.close()

    assert closed_with(other, box.link) == "amqp:resource-deleted"
    broker.kill()
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        peer(start()).connection.create_sender(address, name="after a restart")


def browser(client, name="browser"):
    """A link with distribution-mode copy, and what it has shown."""
    box = type(client.inbox(0, "other"))()
    box.attach(client.connection.create_receiver(client.queue, credit=0, handler=box, options=Copy(), name=name))
    return box


def test_a_browser_acquires_nothing(broker, peer):
    """All is shown in order, those that others hold included; a drain ends it, and the consumers get all."""
    client = peer(broker)
    client.publish(10)
    held = client.receive(3)
    box = browser(client)
    box.link.drain(100)
    client.wait(lambda: box.link.credit == 0)

    assert box.bodies == list(range(1, 11))
    assert broker.get(f"/queues/{broker.queue}")["depth"] == 10
    for _, delivery in box.got:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    client.accept(delivery for _, delivery in held.got)
    assert [m.delivery_count for m, _ in client.receive(7).got] == [0] * 7


def test_a_browser_has_credit_too(broker, peer):
    """As many as it gives credit for, the rest with the next; a second round shows only what is new."""
    client = peer(broker)
    client.publish(5)
    box = browser(client)
    box.link.flow(2)
    client.wait(lambda: len(box.got) == 2)
    box.link.drain(10)
    client.wait(lambda: box.link.credit == 0)
    assert box.bodies == [1, 2, 3, 4, 5]
    client.publish(2, first=6)
    box.link.drain(10)
    client.wait(lambda: box.link.credit == 0)

    assert box.bodies == [1, 2, 3, 4, 5, 6, 7]


def test_the_source_says_which_outcomes_there_are(broker, peer):
    """Section 3.5.3, and that no filter is applied."""
    link = peer(broker).inbox(0).link

    outcomes = link.remote_source.outcomes
    outcomes.next()
    assert list(outcomes.get_py_array().elements) == OUTCOMES
    assert link.remote_source.distribution_mode == link.remote_source.DIST_MODE_MOVE


@pytest.mark.parametrize("capability", ["topic", "temporary-topic"])
def test_a_topic_has_only_durable_subscriptions(broker, peer, capability):
    """A receiver that asks for another one is not given a queue."""

    class Topic(LinkOption):
        def apply(self, link):
            link.source.capabilities.put_object(symbol(capability))

    with pytest.raises(LinkDetached, match="amqp:not-implemented"):
        peer(broker).connection.create_receiver("t", options=Topic())


def test_a_name_that_is_too_long_is_refused(broker, peer):
    """255 bytes are what the journal has for it; the broker lives on."""
    client = peer(broker)
    with pytest.raises(LinkDetached, match="amqp:invalid-field"):
        client.connection.create_sender("é" * 128)
    client.publish(1, "n" * 255)


def test_the_receiver_settles_last_in_mode_second(start, peer):
    """A send is answered accepted and not settled; the peer settles, and then the broker (section 2.6.12)."""
    client = peer(start())
    link = client.connection.create_sender("q", name="second", options=Second()).link
    client.wait(lambda: link.credit > 0)
    sent = [link.send(Message(body=n, durable=True)) for n in range(3)]
    client.wait(lambda: all(d.remote_state == Delivery.ACCEPTED for d in sent))

    assert link.remote_rcv_settle_mode == Link.RCV_SECOND
    assert not any(d.settled for d in sent)
    for delivery in sent:
        delivery.settle()
    client.barrier()
    assert client.receive(3).bodies == [0, 1, 2]


def test_credit_in_mode_second_waits_for_the_peer(start, peer):
    """Deliveries that the peer never settles are bounded by the credit; it comes back when it does."""
    client = peer(start())
    link = client.connection.create_sender("q", name="second", options=Second()).link
    client.wait(lambda: link.credit > 0)
    sent = [link.send(Message(body=n)) for n in range(1000)]
    client.wait(lambda: all(d.remote_state == Delivery.ACCEPTED for d in sent))
    client.barrier()
    assert link.credit == 0
    for delivery in sent:
        delivery.settle()
    client.wait(lambda: link.credit > 0)


def test_a_consumer_in_mode_second_is_answered(start, peer):
    """Outcome, settlement by the broker, settlement by the receiver."""
    broker = start()
    client = peer(broker)
    client.publish(2)
    box = type(client.inbox(0, "other"))()
    box.attach(client.connection.create_receiver(client.queue, credit=2, handler=box, options=Second(), name="second"))
    client.wait(lambda: len(box.got) == 2)
    client.accept(delivery for _, delivery in box.got)

    assert broker.depth() == 0


def test_mixed_settlement_on_one_link(broker, peer):
    """Transfer by transfer."""
    client = peer(broker)
    link = client.sender()
    sent = []
    for n in range(10):
        sent.append(link.send(Message(body=n, durable=True)))
        if n % 2:
            sent[-1].settle()
    client.wait(lambda: all(d.settled for d in sent[::2]))

    assert client.receive(10).bodies == list(range(10))


def test_a_settlement_without_an_outcome_counts_as_failed(broker, peer):
    """The consumer may have acted on it: it is delivered again, one higher."""
    client = peer(broker)
    client.publish(1)
    (_, delivery), *_ = client.receive(1).got
    delivery.settle()

    assert [m.delivery_count for m, _ in client.receive(1).got] == [1]


def test_a_message_of_many_frames(start, peer):
    """Both ways, in frames of 512 bytes; its bytes are those that were sent, also after a kill."""
    broker = start()
    small = peer(broker, max_frame_size=512)
    body = bytes(range(256)) * 4000
    link = small.sender()
    assert outcome(small, link, Message(body=body, durable=True)) == (Delivery.ACCEPTED, None)
    broker.kill()

    assert [bytes(b) for b in peer(start(), max_frame_size=512).receive(1).bodies] == [body]


def test_two_large_messages_at_the_same_time(broker, peer):
    """Parts of two links in turn do not mix."""
    client = peer(broker, max_frame_size=4096)
    links = [client.sender(), client.sender()]
    bodies = [bytes([n]) * 300_000 for n in (1, 2)]
    sent = [link.send(Message(body=body)) for link, body in zip(links, bodies, strict=True)]
    client.wait(lambda: all(d.settled for d in sent))

    assert sorted(bytes(b) for b in client.receive(2).bodies) == bodies


def test_an_aborted_delivery_is_forgotten(broker, peer):
    """Half of it has come; neither it nor its bytes are seen again, and its credit comes back."""
    client = peer(broker)
    link = client.sender()
    for n in range(1200):
        client.wait(lambda: link.credit > 0)
        delivery = link.delivery(f"aborted-{n}")
        link.stream(b"x" * 2000)
        if n % 400 == 0:
            client.wait(lambda: link.queued == 0 or link.session.outgoing_bytes == 0)
        delivery.abort()
    assert outcome(client, link, Message(body="whole")) == (Delivery.ACCEPTED, None)

    assert client.drain().bodies == ["whole"]


LIMITED = "--set=max_message_bytes=100000"


def test_the_error_names_the_limit_of_a_message(start, peer):
    """max-message-size of the attach."""
    link = peer(start(LIMITED)).sender()

    assert pn_link_remote_max_message_size(link._impl) == 100_000
    assert pn_link_max_message_size(link._impl) == 0


@pytest.mark.parametrize("size", [100_001, 3_000_000])
def test_a_message_that_is_too_large_ends_its_link(start, peer, size):
    """In one frame or in many: amqp:link:message-size-exceeded, nothing is stored, and the connection lives on."""
    broker = start(LIMITED)
    client = peer(broker, max_frame_size=200_000 if size < 200_000 else 16_384)
    link = client.sender()
    link.send(Message(body=b"x" * size))
    assert closed_with(client, link) == "amqp:link:message-size-exceeded"

    client.publish(1)
    assert broker.depth() == 1


def test_a_message_at_the_limit_is_taken(start, peer):
    """To the byte, in one frame and in many."""
    size = 100_000 - len(Message(body=b"x" * 300, durable=True).encode()) + 300 - 3
    for options in ({}, {"max_frame_size": 8192}):
        client = peer(start(LIMITED, data=f"data{len(options)}"), **options)
        message = Message(body=b"x" * size, durable=True)
        while len(message.encode()) < 100_000:
            message.body += b"x"
        assert len(message.encode()) == 100_000
        assert outcome(client, client.sender(), message) == (Delivery.ACCEPTED, None)


@pytest.mark.parametrize("settled", [False, True])
def test_a_message_too_large_for_its_consumer_stays(start, peer, settled):
    """The smaller one before it is delivered, the link is ended, and another consumer gets the large one, uncounted."""
    broker = start()
    client = peer(broker)
    link = client.sender()
    for body in (b"small", b"x" * 10_000):
        assert outcome(client, link, Message(body=body, durable=True)) == (Delivery.ACCEPTED, None)
    box = type(client.inbox(0, "other"))()
    options = Largest(1000, settled=settled)
    box.attach(client.connection.create_receiver(client.queue, credit=5, handler=box, options=options, name="small"))
    assert closed_with(client, box.link) == "amqp:link:message-size-exceeded"

    assert [bytes(b) for b in box.bodies] == [b"small"]
    other = peer(broker).receive(1)
    if not settled:
        assert other.got[0][0].delivery_count == 1
        other = peer(broker).receive(1)
    assert [len(bytes(m.body)) for m, _ in other.got][-1] == 10_000
    assert other.got[-1][0].delivery_count == 0


def test_links_beyond_the_limit_are_refused(start, peer):
    """amqp:resource-limit-exceeded; what is there goes on, and room that is given back can be used."""
    client = peer(start("--set=max_links=3"))
    links = [client.sender() for _ in range(3)]
    with pytest.raises(LinkDetached, match="amqp:resource-limit-exceeded"):
        client.connection.create_sender("q", name="one too many")
    links[0].close()
    client.wait(lambda: bool(links[0].state & Endpoint.REMOTE_CLOSED))
    client.publish(1)


def test_transactions_beyond_the_limit_are_refused(start, peer):
    """Declare is rejected; the open ones go on."""
    client = peer(start("--set=max_transactions=2"))
    control = client.control()
    first, second = control.begin(), control.begin()
    from proton import Described, ulong

    answer = control.ask(Described(ulong(0x31), [None]))
    assert (answer.remote_state, answer.remote.condition.name) == (Delivery.REJECTED, "amqp:resource-limit-exceeded")
    control.send(first, [1])
    assert control.end(first)[0] == Delivery.ACCEPTED
    assert control.end(second)[0] == Delivery.ACCEPTED
    assert len(control.begin()) == 8


def test_connections_beyond_the_limit_are_refused(start, peer):
    """Opened, and closed with an error that says why; the others go on."""
    broker = start("--set=max_connections=2")
    client, _other = peer(broker), peer(broker)
    with pytest.raises(ConnectionClosed, match="amqp:resource-limit-exceeded"):
        peer(broker).publish(1)
    client.publish(1)
    client.close()


def test_the_peers_idle_time_out_is_kept(broker, peer):
    """Empty frames come in time: the connection is open after several times of it."""
    client = peer(broker, heartbeat=0.4)
    client.connection.container.timeout = 0.2
    deadline = client.connection.container.now + 2
    while client.connection.container.now < deadline:
        client.connection.container.process()
    client.publish(1)


def test_a_send_that_is_refused_is_rejected(start, peer):
    """A full queue: the answer is rejected with the limit, unsettled; what was sent settled ends its link."""
    broker = start("--queue=full:max_length=2")
    client = peer(broker)
    link = client.sender("full")
    answers = [outcome(client, link, Message(body=n, durable=True)) for n in range(3)]
    assert answers == [(Delivery.ACCEPTED, None)] * 2 + [(Delivery.REJECTED, "amqp:resource-limit-exceeded")]
    link.send(Message(body=3)).settle()

    assert closed_with(client, link) == "amqp:resource-limit-exceeded"
    assert broker.depth("full") == 2


def test_a_send_that_is_refused_in_its_transaction(start, peer):
    """Rejected at once, not at the commit, which stores the rest."""
    broker = start("--queue=full:max_length=2")
    client = peer(broker, "full")
    control = client.control()
    identity = control.begin()
    sent = control.send(identity, [1, 2, 3])

    assert [d.remote_state for d in sent] == [0x34, 0x34, 0x34]
    outcomes = [d.remote.data[1] for d in sent]
    assert [outcome.descriptor for outcome in outcomes] == [Delivery.ACCEPTED, Delivery.ACCEPTED, Delivery.REJECTED]
    assert outcomes[2].value[0].value[0] == "amqp:resource-limit-exceeded"
    assert control.end(identity)[0] == Delivery.ACCEPTED
    assert client.receive(2).bodies == [1, 2]


def test_several_transactions_over_several_sessions(start, peer):
    """Declared on one session and used on another (amqp:multi-ssns-per-txn), each by itself."""
    broker = start()
    client = peer(broker)
    control = client.control()
    first, second = control.begin(), control.begin()
    session = client.connection.conn.session()
    session.open()
    link = session.sender("elsewhere")
    link.target.address = "q"
    link.open()
    client.wait(lambda: link.credit > 0)
    sent = []
    for identity, body in ((first, 1), (second, 2), (first, 3)):
        delivery = link.delivery(str(body))
        delivery.local.data = [identity]
        delivery.update(0x34)
        link.stream(Message(body=body, durable=True).encode())
        link.advance()
        sent.append(delivery)
    client.wait(lambda: all(d.settled for d in sent))
    assert control.end(second, fail=True)[0] == Delivery.ACCEPTED
    assert broker.depth() == 0
    assert control.end(first)[0] == Delivery.ACCEPTED
    assert control.end(first) == (Delivery.REJECTED, "amqp:transaction:unknown-id")

    assert client.receive(2).bodies == [1, 3]


def test_a_range_of_outcomes(start, peer):
    """One disposition for all: each is confirmed once it is stored, and stays so after a kill."""
    broker = start()
    client = peer(broker)
    client.publish(500)
    box = client.receive(500)
    client.accept(delivery for _, delivery in box.got[100:400])
    broker.kill()

    bodies = peer(start()).receive(200).bodies
    assert bodies == [*range(1, 101), *range(401, 501)]


def test_queues_beyond_the_limit_are_refused(start, peer):
    """A new name is, and so is a temporary queue; those that are there go on."""
    client = peer(start("--set=max_queues=2"))
    client.publish(1, "b")
    for address, dynamic in (("c", False), (None, True)):
        with pytest.raises(LinkDetached, match="amqp:resource-limit-exceeded"):
            client.connection.create_receiver(address, name=f"third {address}", dynamic=dynamic)
    client.publish(1, "b")
