"""The honest broker, over the wire and through deaths."""

from __future__ import annotations

import socket

import pytest
from proton import ConnectionException, Delivery, Message, Timeout
from proton.reactor import AtMostOnce
from proton.utils import ConnectionClosed

BUFFERED = "--set=journal_buffer_ms=60000"


def held(broker):
    """What the queue has, and what of it is with consumers."""
    shown = broker.get(f"/queues/{broker.queue}")
    return {name: shown[name] for name in ("depth", "unacknowledged")}


def test_confirmed_sends_survive_a_kill(start, peer):
    """What was accepted before SIGKILL is there after it, in order, and nothing that was never sent."""
    broker = start()
    client = peer(broker)
    sent = client.send(300)
    client.wait(lambda: sum(d.settled for d in sent) >= 137)
    broker.kill()
    confirmed = [n for n, d in enumerate(sent, 1) if d.settled and d.remote_state == Delivery.ACCEPTED]

    again = start()
    bodies = peer(again).receive(again.depth()).bodies

    assert bodies == list(range(1, len(bodies) + 1))
    assert set(confirmed) <= set(bodies)


def test_confirmed_acknowledgements_survive_a_kill(start, peer):
    """What was acknowledged and confirmed is not delivered again."""
    broker = start()
    client = peer(broker)
    client.publish(100)
    box = client.receive(100)
    client.accept(delivery for _, delivery in box.got[:60])
    assert held(broker) == {"depth": 40, "unacknowledged": 40}
    broker.kill()

    assert peer(start()).receive(40).bodies == list(range(61, 101))


def test_a_clean_stop_keeps_all_and_exits_with_zero(start, peer):
    """SIGTERM: the peers are told, the journal is closed."""
    broker = start()
    client = peer(broker)
    client.publish(10)

    assert broker.stop() == 0
    with pytest.raises((ConnectionClosed, ConnectionException)):
        client.wait(lambda: False)
    assert start().depth() == 10


def test_a_clean_stop_counts_what_consumers_held(start, peer):
    """A stop ends every link, so what they held may have been acted upon: delivery-count says so afterwards."""
    broker = start()
    client = peer(broker)
    client.publish(2)
    client.receive(1)
    broker.stop()

    assert [m.delivery_count for m, _ in peer(start()).receive(2).got] == [1, 0]


def test_an_interrupt_is_a_clean_stop(start):
    """SIGINT exits with zero too."""
    broker = start()
    broker.process.send_signal(2)

    assert broker.process.wait(10) == 0


@pytest.mark.parametrize("setting", ["sync_non_transactional=false", "persistence=false"])
def test_a_weakened_send_is_confirmed_and_lost(start, peer, setting):
    """Controls: all 100 are accepted, none survives the kill."""
    weak = (f"--set={setting}", BUFFERED)
    broker = start(*weak)
    peer(broker).publish(100)
    assert broker.depth() == 100
    broker.kill()

    assert start().depth() == 0


def test_a_buffer_that_was_written_survives_a_kill(start, peer):
    """The loss window ends when the buffer is written: what a stop flushes is kept."""
    broker = start("--set=sync_non_transactional=false", BUFFERED)
    peer(broker).publish(100)
    broker.stop()

    assert start().depth() == 100


@pytest.mark.parametrize("setting", ["sync_acknowledgements=false", "sync_non_transactional=false"])
def test_a_weakened_acknowledgement_is_confirmed_and_forgotten(start, peer, setting):
    """Controls: the messages are stored first by an honest broker, their removals are lost by the weak one."""
    broker = start()
    peer(broker).publish(50)
    broker.stop()
    broker = start(f"--set={setting}", BUFFERED)
    client = peer(broker)
    client.accept(delivery for _, delivery in client.receive(50).got)
    assert broker.depth() == 0
    broker.kill()

    assert start().depth() == 50


def test_sends_are_still_synced_when_acknowledgements_are_not(start, peer):
    """sync_acknowledgements gives up acknowledgements and nothing else."""
    broker = start("--set=sync_acknowledgements=false", BUFFERED)
    peer(broker).publish(50)
    broker.kill()

    assert start().depth() == 50


def test_a_message_that_is_not_durable_dies_with_the_broker(start, peer):
    """header.durable false: memory only, and order among durable ones is kept while it lives."""
    broker = start()
    client = peer(broker)
    client.publish(5)
    client.publish(5, durable=False, first=6)
    client.publish(5, first=11)
    box = client.receive(15)
    assert box.bodies == list(range(1, 16))
    assert [m.durable for m, _ in box.got] == [True] * 5 + [False] * 5 + [True] * 5
    broker.kill()

    assert peer(start()).receive(10).bodies == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]


def test_a_pre_settled_send_is_stored(start, peer):
    """No answer is sent, and the message is there."""
    broker = start()
    client = peer(broker)
    link = client.connection.create_sender("q", options=AtMostOnce()).link
    for n in range(3):
        link.send(Message(body=n, durable=True))

    assert client.receive(3).bodies == [0, 1, 2]


def test_a_settled_delivery_is_removed_when_it_is_sent(broker, peer):
    """A receiver that asks for snd-settle-mode settled acknowledges nothing."""
    client = peer(broker)
    client.publish(3)
    box = client.inbox(3, settled=True)
    client.wait(lambda: len(box.got) == 3)
    client.barrier()

    assert held(broker) == {"depth": 0, "unacknowledged": 0}


def test_credit_is_a_limit(broker, peer):
    """Five credits, five messages; the drain flag gives unused credit back."""
    client = peer(broker)
    client.publish(20)
    box = client.receive(5)
    rest = client.drain()

    assert box.bodies == [1, 2, 3, 4, 5]
    assert rest.bodies == list(range(6, 21))
    assert client.drain().bodies == []


def test_waiting_credit_is_served_when_a_message_comes(broker, peer):
    """Credit first, message afterwards."""
    client = peer(broker)
    box = client.inbox(2)
    client.publish(1)
    client.wait(lambda: len(box.got) == 1)

    assert box.bodies == [1]


def test_consumers_share_a_queue(broker, peer):
    """Every message goes to one of two, each gets its turn, each sees its own in order."""
    boxes = [(client := peer(broker), client.inbox(50)) for _ in range(2)]
    peer(broker).publish(100)
    for client, box in boxes:
        client.wait(lambda box=box: len(box.got) == 50)
        assert box.bodies == sorted(box.bodies)

    assert sorted(boxes[0][1].bodies + boxes[1][1].bodies) == list(range(1, 101))


def test_a_lost_link_gives_back_at_the_original_place(broker, peer):
    """Unacknowledged deliveries come again, first in the queue, counted, and no longer first-acquirer."""
    client = peer(broker)
    client.publish(5)
    first = client.receive(3)
    assert [(m.delivery_count, m.first_acquirer) for m, _ in first.got] == [(0, True)] * 3
    client.accept([first.got[1][1]])
    client.close()

    seen = peer(broker).receive(4).got
    assert [m.body for m, _ in seen] == [1, 3, 4, 5]
    assert [m.delivery_count for m, _ in seen] == [1, 1, 0, 0]
    assert [m.first_acquirer for m, _ in seen] == [False, False, True, True]


def test_a_detached_link_gives_back_too(broker, peer):
    """Only the link ends; the connection stays and may receive the same again."""
    client = peer(broker)
    client.publish(2)
    for expected in range(30):
        box = client.receive(2)
        assert [m.delivery_count for m, _ in box.got] == [expected, expected]
        box.link.close()
        client.wait(lambda link=box.link: bool(link.state & link.REMOTE_CLOSED))


def test_delivery_counts_survive_a_kill(start, peer):
    """The count is stored; first-acquirer is false after a restart, because acquisitions are not."""
    broker = start()
    client = peer(broker)
    client.publish(2)
    client.outcome(client.receive(1).got[0][1], Delivery.MODIFIED, failed=True)
    broker.kill()

    seen = peer(start()).receive(2).got
    assert [(m.body, m.delivery_count, m.first_acquirer) for m, _ in seen] == [(1, 1, False), (2, 0, False)]


@pytest.mark.parametrize(
    ("state", "failed", "count"),
    [(Delivery.RELEASED, False, 0), (Delivery.MODIFIED, False, 0), (Delivery.MODIFIED, True, 1)],
)
def test_a_returned_message_comes_again(broker, peer, state, failed, count):
    """Released and modified requeue at the original place; only delivery-failed counts."""
    client = peer(broker)
    client.publish(3)
    box = client.receive(1)
    client.outcome(box.got[0][1], state, failed=failed)

    again = client.receive(3).got
    assert [m.body for m, _ in again] == [1, 2, 3]
    assert again[0][0].delivery_count == count


def test_undeliverable_here_goes_elsewhere(broker, peer):
    """Not to the link that refused it, but to another."""
    client = peer(broker)
    client.publish(2)
    box = client.inbox(1)
    client.wait(lambda: len(box.got) == 1)
    client.outcome(box.got[0][1], Delivery.MODIFIED, elsewhere=True)
    box.link.flow(2)
    client.wait(lambda: len(box.got) == 2)

    assert box.bodies == [1, 2]
    assert client.drain().bodies == [1]


def test_a_rejected_message_is_dead_lettered_durably(start, peer):
    """It leaves its queue and is in DLQ, also after a kill; rejected there, it is gone."""
    broker = start()
    client = peer(broker)
    client.publish(2)
    client.outcome(client.receive(1).got[0][1], Delivery.REJECTED)
    assert (broker.depth(), broker.depth("DLQ")) == (1, 1)
    broker.kill()

    again = start()
    assert (again.depth(), again.depth("DLQ")) == (1, 1)
    client = peer(again)
    box = client.receive(1, "DLQ")
    client.outcome(box.got[0][1], Delivery.REJECTED)
    assert box.bodies == [1]
    assert again.depth("DLQ") == 0


def test_a_delivery_settled_without_outcome_comes_again(broker, peer):
    """Section 3.4: no outcome was reached; it counts as a delivery that may have failed."""
    client = peer(broker)
    client.publish(1)
    client.receive(1).got[0][1].settle()

    assert client.receive(1).got[0][0].delivery_count == 1


def test_content_arrives_as_it_was_sent(start, peer):
    """All but first-acquirer, delivery-count and what is left of a ttl is passed on, through memory and journal."""
    message = Message(
        body={"k": [1, 2.5, "x", b"\x00" * 70_000]},
        durable=True,
        id="an-id",
        properties={"p": 7, "q": "text"},
        annotations={"x-opt-a": 1},
        priority=7,
        ttl=600.0,
        subject="s",
    )
    broker = start()
    client = peer(broker)
    delivery = client.sender().send(message)
    client.wait(lambda: delivery.settled)
    before = client.receive(1).got[0][0]
    broker.kill()
    after = peer(start()).receive(1).got[0][0]

    for seen in (before, after):
        for name in ("body", "id", "properties", "annotations", "priority", "subject", "durable"):
            assert getattr(seen, name) == getattr(message, name), name
        assert 0 < seen.ttl <= message.ttl
    assert after.ttl < before.ttl  # a restart takes longer than a millisecond


def test_bytes_that_are_no_message_are_rejected(broker, peer):
    """amqp:decode-error, and the link lives on."""
    client = peer(broker)
    link = client.sender()
    bad = link.delivery("bad")
    link.stream(b"\xff\xff\xff")
    link.advance()
    client.wait(lambda: bad.settled)

    assert (bad.remote_state, bad.remote.condition.name) == (Delivery.REJECTED, "amqp:decode-error")
    client.publish(1)


def test_an_unknown_queue_is_made_and_kept(start, peer):
    """Attach creates it, durably: also empty it is there after a kill."""
    broker = start()
    client = peer(broker)
    client.publish(1, "made")
    client.accept([client.receive(1, "made").got[0][1]])
    broker.kill()

    assert start().get("/queues") == {"queues": ["q", "made"]}


def test_a_client_without_a_security_layer_is_served(broker, peer):
    """A client may begin with the AMQP header at once (section 5.3.2)."""
    peer(broker, sasl_enabled=False).publish(1)

    assert broker.depth() == 1


def test_an_idle_peer_is_kept_alive(broker, peer):
    """With a time-out of 0.6 s the client hears often enough to stay for the whole of its patience."""
    client = peer(broker, heartbeat=0.6)
    with pytest.raises(Timeout):
        client.connection.wait(lambda: False, timeout=1.5)
    client.publish(1)


def test_garbage_ends_only_its_own_connection(broker, peer):
    """A stranger's bytes are answered by closing the socket."""
    host, port = broker.amqp.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while stranger.recv(4096):
            pass
    peer(broker).publish(1)


def test_many_connections_come_and_go(broker, peer):
    """Engine memory is given back without harm, also with deliveries in flight."""
    peer(broker).publish(1)
    for _ in range(50):
        client = peer(broker)
        client.receive(1)
        client.close()

    assert broker.depth() == 1
