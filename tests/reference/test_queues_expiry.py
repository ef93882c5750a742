"""Time to live, by a clock that is set by hand."""

from __future__ import annotations

import pytest
from proton import Message as Sent

from conformance.reference.core.sections import parse
from conformance.reference.core.settlement import SettlementEvent

from .queue_rig import START, Rig

EXPIRED = SettlementEvent.EXPIRED


def test_a_message_expires_at_its_end_and_not_before():
    """A ttl counts from the arrival (AMQP 1.0 section 3.2.1); the removal is durable."""
    rig = Rig()
    rig.send(b"short", ttl=1500)
    rig.send(b"long", ttl=60_000)
    rig.send(b"ever")
    rig.disk()
    assert rig.broker.next_time() == START + 1.5
    rig.now += 1.499
    rig.broker.dispatch()
    assert rig.bodies() == [b"short", b"long", b"ever"]
    rig.now += 0.001
    rig.broker.dispatch()
    rig.disk()

    assert (rig.bodies(), rig.queue.counts[EXPIRED]) == ([b"long", b"ever"], 1)
    assert rig.on_disk() == [("q", b"ever", 0), ("q", b"long", 0)]
    assert rig.broker.next_time() == START + 60


def test_an_absolute_end_goes_before_a_ttl_and_a_queues_default_is_the_last():
    """What the sender says of this message counts more than what is said of all."""
    rig = Rig("q:ttl_ms=9000")
    rig.send(b"1", expires=int((START + 3) * 1000), ttl=1)
    rig.send(b"2", ttl=5000)
    rig.send(b"3")

    rig.disk()
    assert [m.expires_ms / 1000 - START for m in rig.broker.browse(rig.queue)] == [3, 5, 9]


def test_a_message_that_comes_too_late_is_never_delivered():
    """It is accepted, stored and gone."""
    rig = Rig()
    _, got = rig.link()
    rig.send(expires=1)
    rig.disk()
    rig.broker.dispatch()
    rig.disk()

    assert (rig.answers, got, rig.bodies(), rig.on_disk()) == (["done"], {}, [], [])


def test_an_expired_message_is_not_delivered_before_the_sweep():
    """More end together than are removed at once: the others are not sent in the meantime."""
    rig = Rig()
    for n in range(2500):
        rig.send(ttl=1000, expires=0, bare=n.to_bytes(2, "big"))
    rig.send(b"kept")
    rig.disk()
    rig.now += 2
    _, got = rig.link(credit=5000)
    rig.disk()

    assert [body for body, _, _ in got.values()] == [b"kept"]
    assert (rig.queue.depth, rig.queue.counts[EXPIRED]) == (1, 2500)


def test_many_that_end_together_go_in_several_turns():
    """Without a consumer a thousand a turn, and the next turn is due at once."""
    rig = Rig()
    for _ in range(2500):
        rig.send(ttl=1000)
    rig.disk()
    rig.now += 2
    left = []
    while (due := rig.broker.next_time()) is not None:
        assert due <= rig.now
        rig.broker.dispatch()
        rig.disk()
        left.append(rig.queue.depth)

    assert left == [1500, 500, 0]


@pytest.mark.parametrize("event", [SettlementEvent.RELEASED, SettlementEvent.FAILED])
def test_an_acquired_message_expires_when_it_comes_back(event):
    """Not in its consumer's hands: it can still be acknowledged there."""
    rig = Rig()
    rig.send(b"1", ttl=1000)
    rig.send(b"2", ttl=1000)
    rig.disk()
    link, got = rig.link()
    rig.now += 5
    rig.broker.dispatch()
    assert (list(link.held), rig.broker.next_time()) == ([1, 2], None)
    rig.settle(link, 1)
    rig.settle(link, 2, event)
    assert rig.broker.next_time() is not None
    rig.broker.dispatch()
    rig.disk()

    assert (rig.bodies(), rig.on_disk(), len(got)) == ([], [], 2)
    assert (rig.queue.counts[EXPIRED], rig.queue.counts[SettlementEvent.ACCEPTED]) == (1, 1)
    assert rig.broker.next_time() is None


def test_a_message_that_comes_back_in_time_lives_on():
    """And ends when it would have ended."""
    rig = Rig()
    rig.send(ttl=2000)
    rig.disk()
    link, _ = rig.link(credit=1)
    rig.now += 1
    rig.settle(link, 1, SettlementEvent.RELEASED)
    assert (rig.bodies(), rig.broker.next_time()) == ([b"x"], START + 2)
    rig.now += 1
    rig.broker.dispatch()
    rig.disk()
    assert rig.bodies() == []


def test_an_end_survives_a_restart():
    """Both that which has come in the meantime, and that which is still to come."""
    rig = Rig()
    rig.send(b"1", ttl=1000)
    rig.send(b"2", ttl=9000)
    rig.disk()
    rig.now += 2
    again = rig.again("q")
    assert again.broker.next_time() == START + 1
    again.broker.dispatch()
    again.disk()

    assert (again.bodies(), again.broker.next_time()) == ([b"2"], START + 9)
    assert again.on_disk() == [("q", b"2", 0)]


def test_an_expiry_that_is_not_on_the_disk_is_done_again():
    """A crash between: the message comes back, and expires at once."""
    rig = Rig()
    rig.send(ttl=1000)
    rig.disk()
    rig.now += 2
    rig.broker.dispatch()
    again = rig.again("q")
    _, got = again.link()

    assert (again.queue.depth, got) == (1, {})


def test_expired_messages_go_to_their_queue_and_stay():
    """One record, durable; there they have no end, before a restart and after it."""
    words = ("q:expiry_queue=Late", "Late:ttl_ms=1")
    rig = Rig(*words)
    rig.send(b"1", ttl=1000)
    rig.disk()
    rig.now += 2
    rig.broker.dispatch()
    rig.disk()
    assert (rig.bodies(), rig.bodies("Late"), rig.on_disk()) == ([], [b"1"], [("Late", b"1", 0)])
    again = rig.again(*words)
    for each in (rig, again):
        each.now += 100
        each.broker.dispatch()
        _, got = each.link(queue="Late")
        assert ([body for body, _, _ in got.values()], each.broker.next_time()) == ([b"1"], None)
    assert rig.queue.counts[SettlementEvent.DIVERTED] == 1


def test_a_dead_letter_ends_too():
    """Its time goes on in the dead-letter queue."""
    rig = Rig()
    rig.send(ttl=3000)
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1, SettlementEvent.REJECTED)
    rig.disk()
    assert rig.bodies("DLQ") == [b"x"]
    rig.now += 3
    rig.broker.dispatch()
    rig.disk()

    assert (rig.bodies("DLQ"), rig.on_disk()) == ([], [])


def test_a_transaction_counts_from_the_send():
    """That is when the message arrived; who commits later has less left."""
    rig = Rig()
    transaction = rig.broker.begin()
    rig.send(transaction=transaction, ttl=5000)
    rig.now += 3
    rig.commits(transaction)
    rig.disk()

    assert rig.broker.next_time() == START + 5


def test_the_consumer_gets_what_is_left():
    """Section 3.2.1: an intermediary sends the reduced ttl, and none where none came."""
    rig = Rig("q:ttl_ms=60000")
    for ttl in (10.0, 0):
        parsed = parse(bytes(Sent(body="x", durable=True, priority=9, ttl=ttl).encode()))
        rig.broker.publish(rig.queue, parsed, lambda: None)
    rig.disk()
    rig.now += 4
    seen = [Sent() for _ in range(2)]
    for message, stored in zip(seen, rig.broker.browse(rig.queue), strict=True):
        message.decode(rig.broker.encoded(stored))

    assert [(m.ttl, m.priority, m.durable) for m in seen] == [(6.0, 9, True), (0.0, 9, True)]


def test_a_deleted_queue_has_no_ends():
    """Nothing is due any more."""
    rig = Rig()
    rig.send(ttl=1000)
    rig.disk()
    rig.broker.delete(rig.queue)

    assert rig.broker.next_time() is None
