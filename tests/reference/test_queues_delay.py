"""Delivery times, by a clock that is set by hand."""

from __future__ import annotations

import pytest
from proton import Message as Sent
from proton import int32, symbol, ubyte

from conformance.reference.core import sections
from conformance.reference.core.settlement import SettlementEvent

from .queue_rig import START, Rig, due_in


def got(link):
    return [sections.delivery_time(bare) / 1000 - START for bare, _, _ in link.values()]


def test_a_message_is_delivered_at_its_time_and_not_before():
    """It is counted meanwhile, and keeps its place: what came later and had no time was sent before."""
    rig = Rig()
    _, link = rig.link()
    for seconds in (5, 2, 0):
        rig.send(due_in(rig, seconds))
    rig.disk()
    rig.broker.dispatch()
    assert (got(link), rig.queue.depth, rig.broker.next_time()) == ([0], 3, START + 2)
    rig.now += 1.999
    rig.broker.dispatch()
    assert got(link) == [0]
    rig.now += 0.001
    rig.broker.dispatch()
    assert (got(link), rig.broker.next_time()) == ([0, 2], START + 5)


def test_two_that_are_due_together_come_in_the_order_of_their_sends():
    rig = Rig()
    for seconds in (3, 2):
        rig.send(due_in(rig, seconds))
    rig.disk()
    rig.now += 4
    _, link = rig.link()

    assert got(link) == [3, 2]


def test_a_delivery_time_outlasts_a_restart():
    rig = Rig()
    rig.send(due_in(rig, 5))
    rig.disk()
    rig = rig.again()
    _, link = rig.link()
    assert (got(link), rig.queue.depth, rig.broker.next_time()) == ([], 1, START + 5)
    rig.now += 5
    rig.broker.dispatch()

    assert got(link) == [5]


def test_a_message_of_a_transaction_waits_for_its_time_too():
    rig = Rig()
    transaction = rig.broker.begin()
    rig.send(due_in(rig, 2), transaction)
    rig.commits(transaction)
    rig.disk()
    _, link = rig.link()
    assert got(link) == []
    rig.now += 2
    rig.broker.dispatch()

    assert got(link) == [2]


def test_a_message_that_is_given_back_comes_again_at_once():
    rig = Rig()
    link, came = rig.link()
    rig.send(due_in(rig, 1))
    rig.disk()
    rig.now += 1
    rig.broker.dispatch()
    rig.settle(link, 1, SettlementEvent.RELEASED)
    rig.broker.dispatch()

    assert got(came) == [1, 1]


def test_what_expires_before_its_time_is_never_delivered():
    rig = Rig()
    _, link = rig.link()
    rig.send(due_in(rig, 5), ttl=1000)
    rig.disk()
    for _ in range(2):
        rig.now += 3
        rig.broker.dispatch()
        rig.disk()

    assert (got(link), rig.queue.depth, rig.queue.counts[SettlementEvent.EXPIRED]) == ([], 0, 1)


def test_a_deleted_queue_delivers_nothing():
    rig = Rig()
    rig.send(due_in(rig, 1))
    rig.disk()
    rig.broker.delete(rig.queue)
    rig.now += 1
    rig.broker.dispatch()

    assert rig.broker.next_time() is None


@pytest.mark.parametrize(
    ("annotations", "due_ms"),
    [
        ({symbol("x-opt-delivery-time"): 1_764_590_000_000}, 1_764_590_000_000),
        ({symbol("x-opt-other"): 1, symbol("x-opt-delivery-time"): 7}, 7),
        ({symbol("x-opt-delivery-time"): -1}, 0),
        ({symbol("x-opt-delivery-time"): "soon"}, 0),
        ({symbol("x-opt-delivery-time"): int32(9)}, 0),
        ({symbol("x-opt-other"): ubyte(1)}, 0),
        (None, 0),
    ],
)
def test_the_time_is_a_long_of_the_annotations(annotations, due_ms):
    encoded = bytes(Sent(body="x-opt-delivery-time", annotations=annotations).encode())

    assert due_ms == sections.delivery_time(sections.parse(encoded).bare)
