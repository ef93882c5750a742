"""Memory grows with the messages that are held, not with those that have passed."""

from __future__ import annotations

import gc
from collections import deque

import pytest

from conformance.reference.core.queues import Message
from conformance.reference.core.settlement import SettlementEvent

from .queue_rig import Rig, identified

PASSED = 20_000
HELD = 10


def entries(root):
    """Items of every list, dict, set and deque that can be reached from the broker's own objects."""
    seen, waiting, count = {}, [root], 0
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing  # kept: the id of what is gone may be given to another
        if isinstance(thing, dict | list | set | frozenset | deque | tuple):
            count += len(thing)
            waiting += thing.values() if isinstance(thing, dict) else thing
        elif type(thing).__module__.startswith("conformance.reference.core"):
            names = [*getattr(type(thing), "__slots__", ()), *getattr(thing, "__dict__", {})]
            waiting += [getattr(thing, name) for name in names]
    return count


def accepted(rig, link):
    for tag in list(link.held):
        rig.settle(link, tag)


def failed_once(rig, link):
    for tag, message in list(link.held.items()):
        rig.settle(link, tag, SettlementEvent.ACCEPTED if message.failures else SettlementEvent.FAILED)


def rejected(rig, link):
    for tag in list(link.held):
        rig.settle(link, tag, SettlementEvent.REJECTED)


def transacted(rig, link):
    transaction = rig.broker.begin()
    for tag in list(link.held):
        rig.settle(link, tag, transaction=transaction)
    rig.broker.commit(transaction, lambda: None)


def expired(rig, link):
    rig.now += 10


def late(rig, link):
    """Its time ends in its consumer's hands, who acknowledges it all the same."""
    expired(rig, link)
    rig.broker.dispatch()
    accepted(rig, link)


def deleted(rig, link):
    queue = rig.broker.temporary()
    rig.send(queue=queue.name, ttl=60_000)
    rig.broker.delete(queue)
    accepted(rig, link)


def alive():
    """The messages of every broker in this process: another test may still hold some."""
    gc.collect()
    return sum(isinstance(each, Message) for each in gc.get_objects())


WAYS = [(way, ttl) for way in (accepted, failed_once, rejected, transacted, deleted) for ttl in (0, 3_600_000)]


@pytest.mark.parametrize(("way", "ttl"), [*WAYS, (expired, 5_000), (late, 5_000)])
def test_what_has_passed_leaves_nothing(way, ttl):
    """Twenty thousand messages in tens, by every way out: all that grew is gone, and so is every message."""
    before = alive()
    rig = Rig(f"q:duplicate_ids=5,ttl_ms={ttl}", "DLQ:durable=false,max_length=1")
    link, got = rig.link(credit=0 if way is expired else 10**9)
    sizes = []
    for n in range(PASSED // HELD):
        for m in range(HELD):
            rig.send(identified(str(m + n * HELD)) if m == 0 else b"x", durable=bool(m & 1))
        rig.disk()
        rig.broker.dispatch()
        way(rig, link)
        rig.disk()
        rig.broker.dispatch()
        if way is failed_once:
            way(rig, link)
        rig.disk()
        if way is rejected:
            letters, _ = rig.link(10**9, "DLQ")
            accepted(rig, letters)
            rig.disk()
            rig.broker.unsubscribe(letters)
        got.clear()
        rig.answers.clear()
        if n in (99, PASSED // HELD - 1):
            sizes.append(entries(rig.broker))

    assert rig.queue.depth == 0
    assert sizes[1] < sizes[0] + 300  # a heap may have 64 places more than it needs, each of a pair
    assert alive() - before <= HELD


def test_a_topic_without_subscriptions_leaves_nothing():
    """Each name is a topic, and each message is refused."""
    rig = Rig()
    before = entries(rig.broker)
    for n in range(100):
        rig.send(topic=f"t{n}")

    assert entries(rig.broker) == before
