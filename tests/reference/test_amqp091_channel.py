"""What the bundled broker's channels do over AMQP 0-9-1: confirms, acknowledgements, prefetch, transactions, queues."""

from __future__ import annotations

import pytest
from pika import spec

from .amqp091_rig import PERSISTENT, Rig, bodies, confirms, delivered, error, names, tags

ACK, NACK, REJECT = spec.Basic.Ack, spec.Basic.Nack, spec.Basic.Reject


@pytest.fixture
def rig():
    return Rig(max_message_bytes=100_000)


def filled(rig, count=4):
    """A client that has published so many confirmed messages."""
    client = rig.client(2)
    client.say(spec.Confirm.Select())
    for number in range(1, count + 1):
        client.publish(b"%d" % number)
    client.heard()
    return client


def test_a_confirm_waits_for_the_disk_and_speaks_for_all_before(rig):
    """What one commit of the journal stores is confirmed by one basic.ack."""
    client = rig.client()
    client.asks(spec.Confirm.Select())
    for number in range(5):
        client.publish(b"%d" % number)
    assert client.heard(stored=False) == []

    assert confirms(client.heard()) == [("Ack", 5, True)]
    client.publish()
    assert confirms(client.heard()) == [("Ack", 6, False)]
    assert rig.queue.depth == 6


def test_a_message_without_a_queue_is_returned_before_its_confirm(rig):
    """With mandatory only; both are confirmed, and no queue is made."""
    client = rig.client()
    client.asks(spec.Confirm.Select())
    client.publish(b"lost", "missing")
    client.publish(b"back" * 3000, "missing", mandatory=True)
    heard = client.heard()

    assert names(heard) == ["Basic.Return", "Basic.Ack"]
    assert (heard[0].reply_code, heard[0].routing_key, heard[0].body) == (312, "missing", b"back" * 3000)
    assert confirms(heard) == [("Ack", 2, True)]
    assert rig.broker.known("missing") is None


@pytest.mark.parametrize("limit", ["too large", "full"])
def test_a_refused_publish_gets_a_basic_nack(limit):
    """And the channel goes on. Without confirms the channel is closed, and a transaction cannot be committed."""
    rig = Rig(max_message_bytes=1000, max_length=1)
    client = rig.client(3)
    body = bytes(1001) if limit == "too large" else b"2"
    for channel, begin in ((1, spec.Confirm.Select()), (2, spec.Tx.Select())):
        client.asks(begin, channel)
    client.publish()
    client.publish(body)
    client.publish(body, channel=2)
    client.publish(body, channel=3)
    heard = client.heard()

    assert sorted(confirms(heard)) == [("Ack", 1, False), ("Nack", 2, False)]
    assert error(heard) == ("Channel", 311)
    assert error(client.asks(spec.Tx.Commit(), 2)) == ("Channel", 311)
    assert rig.queue.depth == 1


COVERED = [
    (ACK(2), [2], []),
    (ACK(3, multiple=True), [1, 2, 3], []),
    (ACK(0, multiple=True), [1, 2, 3, 4], []),
    (NACK(2, requeue=True), [2], [2]),
    (NACK(3, multiple=True, requeue=True), [1, 2, 3], [1, 2, 3]),
    (NACK(3, multiple=True, requeue=False), [1, 2, 3], []),
    (REJECT(2, requeue=True), [2], [2]),
    (REJECT(2, requeue=False), [2], []),
]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(("method", "covered", "again"), COVERED, ids=[str(row[0]) for row in COVERED])
def test_an_acknowledgement_covers_what_it_says(rig, method, covered, again, inside):
    """What is requeued comes again with new tags and the mark. A rejected one goes to the dead-letter queue."""
    client = filled(rig)
    if inside:
        client.asks(spec.Tx.Select(), 2)
    assert tags(client.consume(channel=2)) == [1, 2, 3, 4]
    rejected = covered if not isinstance(method, ACK) and not again else []
    heard = client.asks(method, 2)
    if inside:
        assert (heard, rig.queue.depth) == ([], 4)
        heard = client.asks(spec.Tx.Commit(), 2)

    assert bodies(heard) == again
    assert all(each.redelivered and each.delivery_tag > 4 for each in delivered(heard))
    assert rig.queue.depth == 4 - (0 if again else len(covered))
    dead = rig.broker.known("DLQ")
    assert (dead.depth if dead else 0) == len(rejected)
    left = [tag for tag in (1, 2, 3, 4) if tag not in covered] + tags(heard)
    assert error(client.asks(ACK(covered[0]), 2)) == ("Channel", 406)
    assert bodies(client.consume()) == [tag if tag < 5 else again[tag - 5] for tag in sorted(left)] or again


def test_a_rollback_leaves_deliveries_unacknowledged(rig):
    """They keep their tags and are not sent again; what was published is gone."""
    client = filled(rig)
    client.asks(spec.Tx.Select(), 2)
    client.consume(channel=2)
    client.say(ACK(2, multiple=True), 2)
    client.publish(b"9", channel=2)

    assert names(client.asks(spec.Tx.Rollback(), 2)) == ["Tx.RollbackOk"]
    assert rig.queue.depth == 4
    client.say(ACK(1), 2)
    client.publish(b"5", channel=2)
    assert names(client.asks(spec.Tx.Commit(), 2)) == ["Tx.CommitOk", "Basic.Deliver"]
    assert rig.queue.depth == 4


def test_a_commit_is_answered_when_it_is_stored_and_in_its_turn(rig):
    """A rollback after it waits for the answer of the commit."""
    client = rig.client()
    client.asks(spec.Tx.Select())
    client.publish()
    client.say(spec.Tx.Commit())
    client.publish(b"2")
    client.say(spec.Tx.Rollback())

    assert client.heard(stored=False) == []
    assert client.connection.choked
    assert names(client.heard()) == ["Tx.CommitOk", "Tx.RollbackOk"]
    assert rig.queue.depth == 1


@pytest.mark.parametrize("shared", [False, True], ids=["of a consumer", "of the channel"])
def test_prefetch(rig, shared):
    """Two consumers of one channel hold two each, or two together."""
    client = filled(rig, 6)
    client.asks(spec.Basic.Qos(prefetch_count=2, global_qos=shared), 2)
    got = [client.asks(spec.Basic.Consume(queue="q", consumer_tag=tag), 2) for tag in "ab"]

    assert [bodies(each) for each in got] == ([[1, 2], []] if shared else [[1, 2], [3, 4]])
    assert bodies(client.asks(ACK(1), 2)) == [3 if shared else 5]


def test_automatic_acknowledgement_removes_when_it_sends(rig):
    client = filled(rig)

    assert bodies(client.consume(no_ack=True, channel=2)) == [1, 2, 3, 4]
    client.heard()
    assert rig.queue.depth == 0


def test_a_cancelled_consumer_keeps_what_it_holds(rig):
    """It can be acknowledged; what is left goes back when the channel is closed."""
    client = filled(rig)
    client.consume(prefetch=2, channel=2, consumer_tag="c")
    assert names(client.asks(spec.Basic.Cancel("c"), 2)) == ["Basic.CancelOk"]

    assert client.asks(ACK(1), 2) == []
    assert names(client.asks(spec.Channel.Close(0, "", 0, 0), 2)) == ["Channel.CloseOk"]
    again = client.consume()
    assert bodies(again) == [2, 3, 4]
    assert [each.redelivered for each in again] == [True, False, False]
    assert again[0].properties.headers == {"x-delivery-count": 1}


def test_basic_get(rig):
    """One message or none; a get that is not acknowledged holds its message."""
    client = filled(rig, 2)
    first = client.asks(spec.Basic.Get(queue="q"))
    assert (bodies(first), first[0].message_count) == ([1], 1)
    assert bodies(client.asks(spec.Basic.Get(queue="q"))) == [2]

    assert names(client.asks(spec.Basic.Get(queue="q"))) == ["Basic.GetEmpty"]
    assert rig.queue.consumers == 1
    client.asks(ACK(0, multiple=True))
    assert (rig.queue.depth, rig.queue.consumers) == (0, 0)


def test_basic_recover_sends_what_is_open_again(rig):
    client = filled(rig, 3)
    client.consume(channel=2)
    client.asks(ACK(1), 2)
    heard = client.asks(spec.Basic.Recover(requeue=True), 2)

    assert names(heard) == ["Basic.RecoverOk", "Basic.Deliver", "Basic.Deliver"]
    assert (bodies(heard), tags(heard)) == ([2, 3], [4, 5])
    assert all(each.redelivered for each in delivered(heard))


def test_channel_flow_holds_deliveries(rig):
    client = filled(rig, 2)
    assert names(client.asks(spec.Channel.Flow(active=False), 2)) == ["Channel.FlowOk"]
    assert client.consume(channel=2) == []

    assert bodies(client.asks(spec.Channel.Flow(active=True), 2)) == [1, 2]


def test_an_expiration_is_a_time_to_live(rig):
    """In milliseconds; the message goes when it is over, and the property stays as it was."""
    client = rig.client()
    for lives_ms in (1000, 5000):
        client.publish(properties=spec.BasicProperties(expiration=str(lives_ms)))
    client.heard()
    rig.now += 2
    (left,) = client.consume()

    assert left.properties.expiration == "5000"
    client.publish(properties=spec.BasicProperties(expiration="soon"))
    assert error(client.heard()) == ("Channel", 406)


def test_a_declaration_is_answered_when_it_is_stored(rig):
    """A queue that is there is answered at once, if it is as it was asked for."""
    client = rig.client()
    client.say(spec.Queue.Declare(queue="new", durable=True))
    assert client.heard(stored=False) == []

    assert names(client.heard()) == ["Queue.DeclareOk"]
    assert rig.broker.known("new").durable
    assert error(client.asks(spec.Queue.Declare(queue="new"))) == ("Channel", 406)


def test_an_exclusive_queue_is_of_its_connection(rig):
    """Others may send to it. It goes with the connection, as one that is auto-delete goes with its last consumer."""
    client, other = rig.client(), rig.client()
    (found,) = client.asks(spec.Queue.Declare(queue="", exclusive=True))
    client.asks(spec.Queue.Declare(queue="auto", auto_delete=True))
    other.asks(spec.Confirm.Select())
    other.publish(queue=found.queue, mandatory=True)
    assert names(other.heard()) == ["Basic.Ack"]
    assert error(other.asks(spec.Basic.Get(queue=found.queue))) == ("Channel", 405)

    client.consume(queue="auto", consumer_tag="c")
    client.asks(spec.Basic.Cancel("c"))
    assert rig.broker.known("auto") is None
    client.connection.lost()
    assert rig.broker.known(found.queue) is None


def test_a_deleted_queue_ends_its_consumers(rig):
    """A client that knows basic.cancel gets it. Acknowledgements of its deliveries are taken, and change nothing."""
    client = rig.client(2)
    client.connection.cancel_notify = True
    client.publish()
    client.consume(consumer_tag="c")
    heard = client.asks(spec.Queue.Delete(queue="q"), 2)

    assert sorted(names(heard)) == ["Basic.Cancel", "Queue.DeleteOk"]
    assert client.asks(ACK(1)) == []


ERRORS = [
    (spec.Basic.Consume(queue="missing"), "Channel", 404),
    (spec.Queue.Declare(queue="missing", passive=True), "Channel", 404),
    (spec.Queue.Declare(queue="amq.mine"), "Channel", 403),
    (spec.Queue.Declare(queue="r", arguments={"x-max-length": 1}), "Channel", 406),
    (spec.Queue.Delete(queue="missing"), "Channel", 404),
    (spec.Basic.Publish(exchange="amq.direct", routing_key="q"), "Channel", 404),
    (spec.Basic.Publish(exchange="", routing_key="q", immediate=True), "Connection", 540),
    (ACK(1), "Channel", 406),
    (ACK(0), "Channel", 406),
    (NACK(1 << 63), "Channel", 406),
    (ACK(1, multiple=True), "Channel", 406),
    (REJECT(7), "Channel", 406),
    (spec.Basic.Recover(requeue=False), "Connection", 540),
    (spec.Basic.Qos(prefetch_size=1), "Connection", 540),
    (spec.Basic.Consume(queue="q", arguments={"x-priority": 1}), "Connection", 540),
    (spec.Basic.Consume(queue="q", arguments={"x-filter-jms-selector": "a >"}), "Channel", 406),
    (spec.Exchange.Declare(exchange="e"), "Connection", 540),
    (spec.Tx.Commit(), "Channel", 406),
    (spec.Tx.Rollback(), "Channel", 406),
    (spec.Channel.Open(), "Connection", 504),
    (spec.Basic.Ack, "Connection", 504),
    (spec.Connection.TuneOk(), "Connection", 503),
    (spec.Basic.GetEmpty(), "Connection", 503),
]


@pytest.mark.parametrize(("method", "level", "code"), ERRORS, ids=[str(row[0]) for row in ERRORS])
def test_errors_have_the_codes_of_the_standard(rig, method, level, code):
    """One of a channel leaves the connection open: the number can be used again after channel.close-ok."""
    client = rig.client()
    channel = 0 if isinstance(method, spec.Connection.TuneOk) else 1
    if method is spec.Basic.Ack:
        method, channel = ACK(1), 9
    heard = client.asks(method, channel)

    assert error(heard) == (level, code)
    assert client.connection.closed == (level == "Connection")
    if level == "Channel":
        client.publish(b"ignored")
        assert client.heard() == []
        client.say(spec.Channel.CloseOk())
        assert names(client.asks(spec.Channel.Open())) == ["Channel.OpenOk"]
        client.publish(b"1", properties=PERSISTENT)
        client.heard()
        assert rig.queue.depth == 1


def test_confirms_and_transactions_exclude_each_other(rig):
    client = rig.client(2)
    client.asks(spec.Confirm.Select())
    client.asks(spec.Tx.Select(), 2)

    assert error(client.asks(spec.Tx.Select())) == ("Channel", 406)
    assert error(client.asks(spec.Confirm.Select(), 2)) == ("Channel", 406)
