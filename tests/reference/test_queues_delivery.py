"""Order, requeue, attempts and dead letters; queues that come and go; browsing. Without a socket."""

from __future__ import annotations

import random

import pytest

from conformance.reference.core.settlement import SettlementEvent

from .queue_rig import Rig


def test_every_consumer_sees_every_producer_in_order():
    """Three producers at random, four consumers with a credit of their own: FIFO per producer for each of them."""
    rig = Rig()
    chance = random.Random(7)
    links = [rig.link(credit=credit) for credit in (5, 50, 500, 500)]
    sent = [0, 0, 0]
    for _ in range(600):
        who = chance.randrange(3)
        rig.send(bytes([who]) + sent[who].to_bytes(2, "big"), durable=chance.random() < 0.5)
        sent[who] += 1
        if chance.random() < 0.1:
            rig.disk()
            rig.broker.dispatch()
    rig.disk()
    rig.broker.dispatch()

    got = [[body for body, _, _ in seen.values()] for _, seen in links]
    assert sorted(body for each in got for body in each) == sorted(
        bytes([who]) + n.to_bytes(2, "big") for who in range(3) for n in range(sent[who])
    )
    for each in got:
        for who in range(3):
            mine = [body for body in each if body[0] == who]
            assert mine == sorted(mine)


def test_what_comes_back_is_at_its_place_also_after_a_restart():
    """Before all that came after it, with its count; what was never sent is the same before and after."""
    rig = Rig()
    for n in range(6):
        rig.send(bytes([n]))
    rig.disk()
    link, _ = rig.link(credit=4)
    rig.settle(link, 2, SettlementEvent.FAILED)
    rig.settle(link, 4, SettlementEvent.RELEASED)
    rig.settle(link, 1)
    rig.broker.unsubscribe(link)
    rig.disk()
    for each in (rig.again("q"), rig):
        _, got = each.link()
        assert [(body[0], count) for body, count, _ in got.values()] == [(1, 1), (2, 1), (3, 0), (4, 0), (5, 0)]


def test_redelivered_is_said_of_all_after_a_restart():
    """Deliveries are not stored; "may have been acquired before" is true of each (AMQP 1.0 section 3.2.1)."""
    rig = Rig()
    rig.send(b"sent")
    rig.disk()
    link, got = rig.link(credit=1)
    assert got == {1: (b"sent", 0, False)}
    rig.settle(link, 1, SettlementEvent.RELEASED)
    rig.send(b"never")
    rig.disk()
    _, before = rig.link()
    _, after = rig.again("q").link()

    assert [again for _, _, again in before.values()] == [True, False]
    assert [(body, count, again) for body, count, again in after.values()] == [(b"sent", 0, True), (b"never", 0, True)]


def failed(rig, times, event=SettlementEvent.FAILED, queue=None):
    """The first message of a queue fails so often, each time with another link."""
    for _ in range(times):
        link, _ = rig.link(credit=1, queue=queue)
        if event is SettlementEvent.ABANDONED:
            rig.broker.unsubscribe(link)
        else:
            rig.settle(link, 1, event)
            rig.broker.unsubscribe(link)
        rig.disk()


@pytest.mark.parametrize("event", [SettlementEvent.FAILED, SettlementEvent.ABANDONED])
def test_a_message_is_dead_after_its_attempts(event):
    """Not one earlier; its count goes with it, and is the same after a restart."""
    rig = Rig("q:max_deliveries=3", "DLQ")
    rig.send(b"bad")
    rig.send(b"good")
    rig.disk()
    failed(rig, 2, event)
    assert (rig.bodies(), rig.bodies("DLQ")) == ([b"bad", b"good"], [])
    again = rig.again("q:max_deliveries=3")
    for each in (rig, again):
        failed(each, 1, event)
        assert each.on_disk() == [("DLQ", b"bad", 3), ("q", b"good", 0)]
        assert [(m.bare, m.failures) for m in each.broker.browse(each.broker.known("DLQ"))] == [(b"bad", 3)]
    assert (rig.queue.counts[SettlementEvent.EXHAUSTED], rig.queue.unacknowledged, rig.queue.bytes) == (1, 0, 4)


def test_a_release_is_no_attempt():
    """Nor is modified without delivery-failed: the consumer says that it did nothing."""
    rig = Rig("q:max_deliveries=1")
    rig.send()
    rig.disk()
    failed(rig, 5, SettlementEvent.RELEASED)
    failed(rig, 5, SettlementEvent.MODIFIED)

    assert rig.bodies() == [b"x"]


def test_without_a_limit_a_message_is_never_dead():
    """`max_deliveries=0`, the default."""
    rig = Rig()
    rig.send()
    rig.disk()
    failed(rig, 50)

    assert rig.on_disk() == [("q", b"x", 50)]


def test_a_dead_letter_stays():
    """A message that is rejected in a dead-letter queue is gone."""
    rig = Rig("q:dead_letter=Dead", max_deliveries=2)
    rig.send()
    rig.disk()
    failed(rig, 2)
    failed(rig, 5, queue="Dead")
    assert rig.on_disk() == [("Dead", b"x", 7)]
    link, _ = rig.link(queue="Dead")
    rig.settle(link, 1, SettlementEvent.REJECTED)
    rig.disk()

    assert (rig.on_disk(), rig.broker.known("Dead").counts[SettlementEvent.DISCARDED]) == ([], 1)


@pytest.mark.parametrize(("source", "target"), [("true", "false"), ("false", "true"), ("false", "false")])
def test_a_dead_letter_is_kept_as_its_new_queue_keeps(source, target):
    """Between a durable queue and one in memory, in both directions; its header has said durable all the time."""
    rig = Rig(f"q:durable={source},max_deliveries=2", f"DLQ:durable={target}")
    rig.send()
    rig.disk()
    failed(rig, 2)

    assert rig.bodies("DLQ") == [b"x"]
    assert rig.on_disk() == ([("DLQ", b"x", 2)] if target == "true" else [])
    link, _ = rig.link(queue="DLQ")
    rig.settle(link, 1)
    rig.disk()
    assert rig.on_disk() == []


def test_a_commit_can_be_the_last_attempt():
    """An outcome in a transaction counts as any other, and is part of its record."""
    rig = Rig("q:max_deliveries=1", "DLQ")
    rig.send()
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.settle(link, 1, SettlementEvent.FAILED, transaction)
    rig.commits(transaction)
    assert rig.on_disk() == [("q", b"x", 0)]
    rig.disk()

    assert (rig.on_disk(), rig.queue.unacknowledged) == ([("DLQ", b"x", 1)], 0)


def test_temporary_queues_have_names_of_their_own():
    """Over restarts too: nothing of them is on the disk."""
    rig = Rig()
    queues = [rig.broker.temporary() for _ in range(100)] + [rig.again("q").broker.temporary() for _ in range(100)]
    rig.send(queue=queues[0].name)

    assert len({queue.name for queue in queues}) == 200
    assert (queues[0].depth, rig.on_disk(), list(rig.again("q").broker.names())) == (1, [], ["q"])


def test_a_deleted_queue_is_gone_with_all_in_it():
    """Durably; its consumers are told once and hold nothing; a queue of the same name is another."""
    rig = Rig("q", "other")
    told = []
    for n in range(3):
        rig.send(bytes([n]))
    rig.send(b"stays", queue="other")
    rig.disk()
    link, _ = rig.link(credit=1, ended=lambda: told.append("q"))
    rig.link(queue="other", ended=lambda: told.append("other"))
    old = rig.queue
    rig.broker.delete(old)
    rig.broker.delete(old)
    rig.broker.unsubscribe(link)
    rig.settle(link, 1)
    rig.disk()

    assert (told, link.held, old.depth, rig.broker.known("q")) == (["q"], {}, 0, None)
    assert (rig.on_disk(), list(rig.again("other").broker.names())) == ([("other", b"stays", 0)], ["other"])
    rig.send(b"late")
    assert rig.answers[-1] == "amqp:resource-deleted"
    rig.send(b"new", queue="q")
    rig.disk()
    assert (rig.bodies("q"), rig.on_disk()) == ([b"new"], [("other", b"stays", 0), ("q", b"new", 0)])


def test_what_is_on_its_way_when_its_queue_is_deleted():
    """Sends and acknowledgements are answered as always; a message that is being dead-lettered gets there."""
    rig = Rig("q", "DLQ")
    rig.send(b"1")
    rig.send(b"2")
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1)
    rig.settle(link, 2, SettlementEvent.REJECTED)
    rig.send(b"3")
    rig.broker.delete(rig.queue)
    rig.disk()

    assert (rig.answers, rig.on_disk(), rig.bodies("DLQ")) == (["done"] * 3, [("DLQ", b"2", 0)], [b"2"])


def test_a_commit_into_a_deleted_queue_is_refused_whole():
    """Its sends to other queues too, and its outcomes; the deliveries stay with their link."""
    rig = Rig("q", "other")
    rig.send(queue="other")
    rig.disk()
    link, _ = rig.link(queue="other")
    transaction = rig.broker.begin()
    rig.send(b"1", transaction, "other")
    rig.send(b"2", transaction)
    rig.settle(link, 1, transaction=transaction)
    rig.broker.delete(rig.queue)
    rig.commits(transaction)
    rig.disk()

    assert rig.answers == ["done", "done", "done", "amqp:resource-deleted"]
    assert (rig.bodies("other"), list(link.held), rig.broker.known("other").arriving) == ([b"x"], [1], 0)


def test_browsing_takes_nothing():
    """In order, with what is acquired; messages that go or come meanwhile are left out."""
    rig = Rig()
    for n in range(5):
        rig.send(bytes([n]), ttl=1000 if n == 3 else 0)
    rig.disk()
    link, _ = rig.link(credit=2)
    rig.settle(link, 1, SettlementEvent.RELEASED)
    looking = rig.broker.browse(rig.queue)
    first = next(looking).bare
    rig.settle(link, 2)
    rig.send(b"new")
    rig.disk()
    rig.now += 5

    assert (first, [m.bare[0] for m in looking]) == (b"\x00", [2, 4])
    assert (rig.queue.unacknowledged, rig.queue.depth) == (0, 5)
