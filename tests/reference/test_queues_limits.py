"""Limits of a queue and of the disk: what does not fit is refused, and nothing that was taken is ever dropped."""

from __future__ import annotations

import pytest

from conformance.reference.core.settlement import SettlementEvent

from .queue_rig import Rig

FULL = "amqp:resource-limit-exceeded"


def test_a_burst_never_exceeds_the_limit():
    """What is on its way to the disk counts: all ten come before one is stored."""
    rig = Rig("q:max_length=3")
    for n in range(10):
        rig.send(bytes([n]))
    assert rig.answers == [None] * 3 + [FULL] * 7
    rig.disk()

    assert rig.answers[:3] == ["done"] * 3
    assert rig.bodies() == [b"\x00", b"\x01", b"\x02"]
    assert (rig.queue.refused, len(rig.on_disk())) == (7, 3)


def test_bytes_are_a_limit_too():
    """A smaller message may fit where a larger one does not."""
    rig = Rig("q:max_bytes=10")
    for size in (6, 5, 4, 1):
        rig.send(bytes(size))

    assert rig.answers == [None, FULL, None, FULL]
    assert rig.queue.bytes == 10


def test_room_comes_with_the_removal_on_the_disk():
    """Not with the acknowledgement: a crash would bring the message back, one too many."""
    rig = Rig("q:max_length=1")
    rig.send()
    rig.disk()
    link, _ = rig.link()
    rig.settle(link, 1)
    rig.send(b"early")
    rig.disk()
    rig.send(b"late")
    rig.disk()

    assert rig.answers == ["done", FULL, "done"]
    assert (rig.bodies(), rig.queue.bytes) == ([b"late"], 4)


def test_limits_hold_after_a_restart():
    """What the journal has counts."""
    rig = Rig("q:max_length=2,max_bytes=8")
    rig.send(b"1234")
    rig.disk()
    again = rig.again("q:max_length=2,max_bytes=8")
    again.send(b"12345")
    again.send(b"1234")
    again.send(b"")

    assert again.answers == [FULL, None, FULL]


def test_a_transaction_takes_its_room_at_the_send():
    """So that its commit is never refused for a limit; a rollback gives the room back."""
    rig = Rig("q:max_length=2")
    transaction = rig.broker.begin()
    rig.send(b"1", transaction)
    rig.send(b"2", transaction)
    rig.send(b"3", transaction)
    rig.send(b"outside")
    assert rig.answers == ["done", "done", FULL, FULL]
    rig.broker.rollback(transaction, lambda: None)
    assert (rig.queue.arriving, rig.queue.bytes) == (0, 0)

    other = rig.broker.begin()
    rig.send(b"4", other)
    rig.send(b"5", other)
    rig.commits(other)
    rig.disk()
    assert (rig.answers[4:], rig.bodies(), rig.queue.arriving) == (["done"] * 3, [b"4", b"5"], 0)


@pytest.mark.parametrize("end", ["rollback", "abandon"])
def test_an_open_transaction_gives_its_room_back_once(end):
    """However it ends, and however often it is told so."""
    rig = Rig("q:max_length=1")
    transaction = rig.broker.begin()
    rig.send(b"1", transaction)
    if end == "rollback":
        rig.broker.rollback(transaction, lambda: None)
    rig.broker.abandon(transaction)

    assert (rig.queue.arriving, rig.queue.bytes) == (0, 0)


def test_dead_letters_are_never_refused():
    """A limit refuses senders; a move to a dead-letter queue has no sender to refuse."""
    rig = Rig("q", "DLQ:max_length=1")
    for _ in range(3):
        rig.send()
    rig.disk()
    link, _ = rig.link()
    for tag in (1, 2, 3):
        rig.settle(link, tag, SettlementEvent.REJECTED)
    rig.disk()
    rig.send(queue="DLQ")

    assert (rig.broker.known("DLQ").depth, rig.answers[3]) == (3, FULL)


def test_a_full_disk_refuses_what_would_be_stored():
    """At once where it is known; what needs no room is taken."""
    rig = Rig("q", "memory:durable=false")
    rig.commit.room(False)
    rig.send(b"durable")
    rig.send(b"not", durable=False)
    rig.send(b"memory", queue="memory")

    assert rig.answers == [FULL, "done", "done"]
    assert (rig.queue.refused, rig.queue.arriving, rig.queue.bytes) == (1, 0, 3)
    rig.commit.room(True)
    rig.send(b"again")
    rig.disk()
    assert rig.on_disk() == [("q", b"again", 0)]


def test_a_batch_that_finds_no_room_is_refused_whole():
    """Its senders are told, its places are free, and the numbers go on."""
    rig = Rig("q:max_length=2")
    rig.send(b"1")
    rig.send(b"2")
    rig.no_room()
    assert rig.answers == [FULL, FULL]
    rig.commit.room(True)
    rig.send(b"3")
    rig.send(b"4")
    rig.send(b"5")
    rig.disk()

    assert rig.answers[2:] == ["done", "done", FULL]
    assert (rig.bodies(), rig.queue.arriving, rig.queue.bytes) == ([b"3", b"4"], 0, 2)


EVERY = [SettlementEvent.ACCEPTED, SettlementEvent.REJECTED, SettlementEvent.FAILED, SettlementEvent.RELEASED]


def transacted(rig):
    """Four deliveries, each with another outcome in a transaction that also sends."""
    for n in range(5):
        rig.send(bytes([n]))
    rig.disk()
    rig.broker.queue("DLQ")
    rig.disk()
    link, got = rig.link()
    transaction = rig.broker.begin()
    for tag, event in enumerate(EVERY, 2):
        rig.settle(link, tag, event, transaction)
    rig.send(b"new", transaction)
    return link, got, transaction


def test_a_refused_commit_leaves_nothing_of_itself():
    """All deliveries are their link's again, in their order, as if nothing had been said of them."""
    rig = Rig("q:max_length=6")
    link, _, transaction = transacted(rig)
    said = []
    transaction.when_over(link, 1, said.append)
    before = rig.on_disk()
    rig.commits(transaction)
    rig.no_room()

    assert (rig.answers[-1], said) == (FULL, [False])
    assert [(tag, m.bare, m.failures) for tag, m in link.held.items()] == [(n + 1, bytes([n]), 0) for n in range(5)]
    assert (rig.queue.unacknowledged, rig.queue.depth, rig.queue.arriving, rig.queue.bytes) == (5, 5, 0, 5)
    assert (rig.broker.known("DLQ").arriving, rig.on_disk()) == (0, before)
    for tag in list(link.held):
        rig.settle(link, tag)
    rig.disk()
    assert (rig.bodies(), rig.on_disk(), rig.queue.unacknowledged) == ([], [], 0)


def test_a_refused_commit_whose_link_has_ended_gives_to_others():
    """The link's end counts for the deliveries that were not its any more when it came."""
    rig = Rig("q")
    link, _, transaction = transacted(rig)
    rig.commits(transaction)
    rig.broker.unsubscribe(link)
    rig.no_room()
    _, got = rig.link()

    assert [(body, count) for body, count, _ in got.values()] == [(bytes([n]), 1) for n in range(5)]
    assert rig.queue.unacknowledged == 5


def test_a_commit_of_acknowledgements_needs_no_room():
    """It makes some, so a full disk takes it."""
    rig = Rig("q")
    rig.send()
    rig.disk()
    rig.commit.room(False)
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.settle(link, 1, transaction=transaction)
    rig.commits(transaction)
    rig.disk()

    assert (rig.answers[-1], rig.on_disk(), rig.queue.depth) == ("done", [], 0)


def test_a_full_disk_refuses_a_commit_before_it_is_tried():
    """Rolled back: the room in the queue is free, the delivery stays with its link."""
    rig = Rig("q")
    rig.send()
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.settle(link, 1, transaction=transaction)
    rig.send(b"new", transaction)
    rig.commit.room(False)
    rig.commits(transaction)

    assert (rig.answers[-1], list(link.held), rig.queue.arriving) == (FULL, [1], 0)
