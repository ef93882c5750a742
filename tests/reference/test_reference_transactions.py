"""Transactions over AMQP 1.0 (section 4), with a real client and through deaths."""

from __future__ import annotations

import socket

import pytest
from proton import Delivery, Described, Message, ulong

TRANSACTIONAL = 0x34
EARLY = ("--set=sync_transactional=false", "--set=journal_buffer_ms=60000")
OK = (Delivery.ACCEPTED, None)


def held(broker):
    """What the queue has, and what of it is with consumers."""
    shown = broker.get(f"/queues/{broker.queue}")
    return {name: shown[name] for name in ("depth", "unacknowledged")}


def state(delivery):
    """The provisional outcome: transaction and descriptor."""
    identity, outcome = delivery.remote.data
    return delivery.remote_state, bytes(identity), outcome.descriptor


def test_what_is_sent_is_there_after_the_commit_and_not_before(broker, peer):
    """Section 4.4.1: a provisional outcome at once, the messages after the discharge, in their order."""
    client = peer(broker)
    control = client.control()
    identity = control.begin()
    waiting = client.inbox(10)
    sent = control.send(identity, range(1, 6))

    assert [state(d) for d in sent] == [(TRANSACTIONAL, identity, 0x24)] * 5
    client.barrier()
    assert (waiting.bodies, broker.depth()) == ([], 0)
    assert control.end(identity) == OK
    client.wait(lambda: len(waiting.got) == 5)
    assert waiting.bodies == [1, 2, 3, 4, 5]


def test_a_rollback_leaves_nothing(broker, peer):
    """discharge with fail: nothing was sent, and later messages take the places."""
    client = peer(broker)
    control = client.control()
    identity = control.begin()
    control.send(identity, [1, 2])

    assert control.end(identity, fail=True) == OK
    client.publish(1, first=3)
    assert (client.drain().bodies, broker.depth()) == ([3], 1)


@pytest.mark.parametrize("settled", [False, True])
def test_outcomes_are_applied_by_the_commit(broker, peer, settled):
    """Section 4.4.2: live until the discharge, then gone, and settled by the broker if the peer has not."""
    client = peer(broker)
    client.publish(3)
    box = client.receive(3)
    control = client.control()
    identity = control.begin()
    mine = [delivery for _, delivery in box.got[:2]]
    control.settle(identity, mine, settled=settled)

    assert held(broker) == {"depth": 3, "unacknowledged": 3}
    assert settled or [d.settled for d in mine] == [False, False]
    assert control.end(identity) == OK
    assert held(broker) == {"depth": 1, "unacknowledged": 1}
    if not settled:
        client.wait(lambda: all(d.settled for d in mine))
        assert [d.remote_state for d in mine] == [Delivery.ACCEPTED] * 2


def test_a_delivery_stays_acquired_after_a_rollback(broker, peer):
    """Section 4.4.2: it is the link's until the link releases it, in no other way."""
    client = peer(broker)
    client.publish(1)
    delivery = client.receive(1).got[0][1]
    control = client.control()
    identity = control.begin()
    control.settle(identity, [delivery])

    assert control.end(identity, fail=True) == OK
    assert held(broker) == {"depth": 1, "unacknowledged": 1}
    assert (client.drain().bodies, delivery.settled) == ([], False)
    client.outcome(delivery, Delivery.RELEASED)
    assert [(m.body, m.delivery_count) for m, _ in client.drain().got] == [(1, 0)]


def test_a_delivery_can_be_acknowledged_in_the_next_transaction(broker, peer):
    """What was rolled back once is committed the second time."""
    client = peer(broker)
    client.publish(1)
    delivery = client.receive(1).got[0][1]
    control = client.control()
    for fail, depth in ((True, 1), (False, 0)):
        identity = control.begin()
        control.settle(identity, [delivery])
        assert control.end(identity, fail=fail) == OK
        assert broker.depth() == depth


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delivery_settled_in_a_transaction_that_rolls_back_comes_again(broker, peer, when):
    """It is settled, so it gets no other outcome: as if it had been settled without one."""
    client = peer(broker)
    client.publish(1)
    delivery = client.receive(1).got[0][1]
    control = client.control()
    identity = control.begin()
    control.settle(identity, [delivery], settled=when == "before")
    assert control.end(identity, fail=True) == OK
    if when == "after":
        delivery.settle()
        client.barrier()

    assert [m.delivery_count for m, _ in client.drain().got] == [1]


@pytest.mark.parametrize(
    ("outcome", "fields", "count", "letters"),
    [(0x26, [], 0, 0), (0x27, [False], 0, 0), (0x27, [True], 1, 0), (0x25, [], None, 1)],
)
def test_every_outcome_can_be_transacted(start, peer, outcome, fields, count, letters):
    """Released, modified and rejected wait for the discharge too, and survive a kill."""
    broker = start()
    client = peer(broker)
    client.publish(1)
    delivery = client.receive(1).got[0][1]
    control = client.control()
    identity = control.begin()
    control.settle(identity, [delivery], outcome, fields)

    assert client.drain().bodies == []
    assert control.end(identity) == OK
    broker.kill()
    again = start()
    assert (again.depth(), again.depth("DLQ") if letters else 0) == (1 - letters, letters)
    assert [m.delivery_count for m, _ in peer(again).drain().got] == ([] if count is None else [count])


def test_undeliverable_here_can_be_transacted(broker, peer):
    """The second field of modified."""
    client = peer(broker)
    client.publish(1)
    box = client.receive(1)
    control = client.control()
    identity = control.begin()
    control.settle(identity, [box.got[0][1]], 0x27, [False, True])
    assert control.end(identity) == OK
    box.link.flow(1)
    client.barrier()

    assert len(box.got) == 1
    assert client.drain().bodies == [1]


def test_several_transactions_are_open_at_once(broker, peer):
    """Each has its own messages; the order of the queue is the order of the commits."""
    client = peer(broker)
    control, other = client.control(), client.control("second")
    first, second, third = control.begin(), control.begin(), other.begin()
    control.send(first, [1])
    control.send(second, [2])
    other.send(third, [3])
    control.send(first, [4])

    assert len({first, second, third}) == 3
    assert [other.end(third), control.end(second, fail=True), control.end(first)] == [OK] * 3
    assert client.drain().bodies == [3, 1, 4]


def test_an_unknown_transaction_is_refused_everywhere(broker, peer):
    """Discharge and transfer are rejected, an outcome ends its link; another connection's transaction is unknown."""
    stranger, client = peer(broker), peer(broker)
    foreign = stranger.control().begin()
    control = client.control()
    client.publish(1)
    box = client.receive(1)

    assert control.end(b"nonsense") == (Delivery.REJECTED, "amqp:transaction:unknown-id")
    assert control.end(foreign) == (Delivery.REJECTED, "amqp:transaction:unknown-id")
    [sent] = control.send(foreign, [2])
    assert (sent.remote_state, sent.remote.condition.name) == (Delivery.REJECTED, "amqp:transaction:unknown-id")
    delivery = box.got[0][1]
    delivery.local.data = [foreign, Described(ulong(0x24), [])]
    delivery.update(TRANSACTIONAL)
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    assert box.link.remote_condition.name == "amqp:transaction:unknown-id"
    assert (stranger.drain().bodies, broker.depth()) == ([1], 1)


def test_a_discharged_transaction_is_unknown(broker, peer):
    """It cannot be discharged twice."""
    control = peer(broker).control()
    identity = control.begin()

    assert control.end(identity) == OK
    assert control.end(identity) == (Delivery.REJECTED, "amqp:transaction:unknown-id")


@pytest.mark.parametrize(
    ("body", "condition"),
    [
        ("text", "amqp:decode-error"),
        (Described(ulong(0x99), []), "amqp:decode-error"),
        (Described(ulong(0x31), [b"global"]), "amqp:not-implemented"),
        (Described(ulong(0x32), []), "amqp:transaction:unknown-id"),
    ],
)
def test_a_coordinator_refuses_what_it_does_not_know(broker, peer, body, condition):
    """Rejected with a condition, and the link lives on."""
    control = peer(broker).control()
    answer = control.ask(body)

    assert (answer.remote_state, answer.remote.condition.name) == (Delivery.REJECTED, condition)
    assert control.end(control.begin()) == OK


def test_the_coordinator_says_what_it_can(broker, peer):
    """Capabilities of section 4.5.2 in the target."""
    control = peer(broker).control()
    target = control.link.remote_target

    assert target.type == target.COORDINATOR
    assert "amqp:local-transactions" in str(target.capabilities.get_object() if target.capabilities.next() else "")


@pytest.mark.parametrize("end", ["link", "connection", "lost"])
def test_a_transaction_ends_with_its_control_link(broker, peer, end):
    """Section 4.1: rolled back; what was sent is gone, what was acknowledged comes again."""
    client, other = peer(broker), peer(broker)
    client.publish(2)
    box = client.receive(2)
    control = client.control()
    identity = control.begin()
    control.send(identity, [3])
    control.settle(identity, [delivery for _, delivery in box.got])
    if end == "link":
        control.link.close()
        client.wait(lambda: bool(control.link.state & control.link.REMOTE_CLOSED))
        assert held(broker) == {"depth": 2, "unacknowledged": 2}
        box.link.close()
        client.barrier()
    elif end == "connection":
        client.close()
    else:
        client.connection.conn.transport._selectable._delegate.shutdown(socket.SHUT_RDWR)

    assert other.receive(2).bodies == [1, 2]
    assert other.drain().bodies == []


def test_a_link_that_ends_takes_its_outcomes_out_of_the_transaction(broker, peer):
    """Another link holds its messages by then: the commit does not touch them."""
    client, other = peer(broker), peer(broker)
    client.publish(2)
    box = client.receive(2)
    control = client.control()
    identity = control.begin()
    control.send(identity, [3])
    control.settle(identity, [delivery for _, delivery in box.got])
    box.link.close()
    client.wait(lambda: bool(box.link.state & box.link.REMOTE_CLOSED))
    taken = other.receive(2)

    assert control.end(identity) == OK
    assert held(broker) == {"depth": 3, "unacknowledged": 2}
    other.accept(delivery for _, delivery in taken.got)
    assert client.drain().bodies == [3]


def test_a_committed_transaction_survives_a_kill_and_an_open_one_does_not(start, peer):
    """All of the one, none of the other: sends and acknowledgements; what is not durable is gone."""
    broker = start()
    client = peer(broker)
    client.publish(4)
    box = client.receive(4)
    control = client.control()
    done, undone = control.begin(), control.begin()
    control.send(done, [5, 6])
    control.send(done, [7], durable=False)
    control.send(undone, [8])
    control.settle(done, [d for _, d in box.got[:2]])
    control.settle(undone, [d for _, d in box.got[2:]])
    assert control.end(done) == OK
    broker.kill()

    assert peer(start()).drain().bodies == [3, 4, 5, 6]


def test_a_weakened_commit_is_answered_and_lost(start, peer):
    """Control: sync_transactional gives up commits, and nothing else."""
    broker = start(*EARLY)
    client = peer(broker)
    client.publish(2)
    box = client.receive(2)
    control = client.control()
    identity = control.begin()
    control.send(identity, [3, 4])
    control.settle(identity, [d for _, d in box.got])
    assert control.end(identity) == OK
    assert broker.depth() == 2
    broker.kill()

    assert peer(start()).drain().bodies == [1, 2]


def test_a_confirmed_acknowledgement_of_a_weakened_commit_holds(start, peer):
    """The removal is synced, and takes with it the message that it removes: it cannot come back."""
    broker = start(*EARLY)
    client = peer(broker)
    control = client.control()
    identity = control.begin()
    control.send(identity, [1, 2])
    assert control.end(identity) == OK
    client.accept([client.receive(1).got[0][1]])
    broker.kill()

    assert peer(start()).drain().bodies == [2]


def test_a_transaction_that_holds_nothing_is_committed(broker, peer):
    """Declared and discharged, and again."""
    control = peer(broker).control()
    for fail in (False, True):
        assert control.end(control.begin(), fail=fail) == OK


def test_a_settled_transfer_is_part_of_its_transaction(broker, peer):
    """No answer is sent, and the commit brings the message."""
    client = peer(broker)
    control = client.control()
    identity = control.begin()
    link = client.sender()
    delivery = link.delivery("settled")
    delivery.local.data = [identity]
    delivery.update(TRANSACTIONAL)
    link.stream(Message(body=1, durable=True).encode())
    delivery.settle()
    client.barrier()

    assert client.drain().bodies == []
    assert control.end(identity) == OK
    assert client.drain().bodies == [1]
