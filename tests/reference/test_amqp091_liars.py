"""Liars over AMQP 0-9-1, each beside the honest broker: what acts in the core needs nothing of the protocol."""

from __future__ import annotations

import pytest
from pika import spec

from conformance.reference.liars import behaviour

from .amqp091_rig import Rig, bodies, confirms, delivered, error, names

ACK = spec.Basic.Ack


def sent(rig, count=10, **options):
    client = rig.client(2)
    client.asks(spec.Confirm.Select())
    for number in range(1, count + 1):
        client.publish(b"%d" % number, **options)
    return client


def answered_before_storing(rig):
    """What is confirmed before the disk has anything."""
    client = sent(rig, 1)
    return confirms(client.heard(stored=False))


def returned(rig):
    """The answers to a mandatory publish without a queue."""
    return names(sent(rig, 1, queue="missing", mandatory=True).heard())


def kept_of_a_hundred(rig):
    client = sent(rig, 100)
    client.heard()
    return rig.queue.depth


def confirmed_twice(rig):
    """The numbers of a hundred publishes that are confirmed by name after all of them were."""
    client = sent(rig, 100)
    return [number for _, number, multiple in confirms(client.heard()) if not multiple]


def unanswered(rig):
    """The first answer, which speaks for all before it, of sixty publishes."""
    return confirms(sent(rig, 60).heard())[0]


def confirmed_and_stored(rig):
    """The answer to ten publishes, and how many of them are stored."""
    return confirms(sent(rig, 10).heard()), rig.queue.depth


def after_a_rollback(rig):
    """What is left in the queue after an acknowledgement that was rolled back."""
    client = sent(rig, 2)
    client.heard()
    client.asks(spec.Tx.Select(), 2)
    client.consume(channel=2)
    client.say(ACK(1), 2)
    client.asks(spec.Tx.Rollback(), 2)
    return rig.queue.depth


def rollback(rig):
    client = rig.client()
    client.asks(spec.Tx.Select())
    heard = client.asks(spec.Tx.Rollback())
    return names(heard) if names(heard) == ["Tx.RollbackOk"] else error(heard)


def requeued(rig):
    """What comes again of a message that was requeued."""
    client = sent(rig, 1)
    client.heard()
    client.consume(channel=2)
    return [each.redelivered for each in delivered(client.asks(spec.Basic.Nack(1, requeue=True), 2))]


def rejected(rig):
    """How deep the queue is after a message of it was rejected without requeue."""
    client = sent(rig, 1)
    client.heard()
    client.consume(channel=2)
    client.asks(spec.Basic.Reject(1, requeue=False), 2)
    return rig.queue.depth


def recovered(rig):
    """The redelivered flag of what comes again after basic.recover."""
    client = sent(rig, 1)
    client.heard()
    client.consume(channel=2)
    return [each.redelivered for each in delivered(client.asks(spec.Basic.Recover(requeue=True), 2))]


def counted(rig):
    """The delivery-count after a requeue."""
    client = sent(rig, 1)
    client.heard()
    client.consume(channel=2)
    (again,) = delivered(client.asks(spec.Basic.Nack(1, requeue=True), 2))
    return (again.properties.headers or {}).get("x-delivery-count")


def over_the_prefetch(rig):
    client = sent(rig, 10)
    client.heard()
    return len(client.consume(prefetch=2, channel=2))


def refilled(rig):
    client = sent(rig, 10)
    client.heard()
    client.consume(prefetch=2, channel=2)
    return bodies(client.asks(ACK(1), 2))


def covered_by_multiple(rig):
    client = sent(rig, 5)
    client.heard()
    client.consume(channel=2)
    client.asks(ACK(3, multiple=True), 2)
    return rig.queue.depth


def covered_by_one(rig):
    client = sent(rig, 5)
    client.heard()
    client.consume(channel=2)
    client.asks(ACK(3), 2)
    return rig.queue.depth


def removed_when_sent(rig):
    client = sent(rig, 3)
    client.heard()
    client.consume(channel=2)
    client.connection.lost()
    client.heard()
    return rig.queue.depth


def acknowledgement_by_a_commit(rig):
    """Whether a commit of an acknowledgement alone is answered before it is stored."""
    client = sent(rig, 1)
    client.heard()
    client.asks(spec.Tx.Select(), 2)
    client.consume(channel=2)
    client.say(ACK(1), 2)
    client.say(spec.Tx.Commit(), 2)
    return names(client.heard(stored=False))


def of_nothing(rig):
    """The answer to an acknowledgement of what was not delivered, and to the next request."""
    client = rig.client()
    client.say(ACK(7))
    return names(client.asks(spec.Basic.Qos(prefetch_count=1)))


def committed_without(rig):
    """The answer to a commit on a channel without transactions."""
    return names(rig.client().asks(spec.Tx.Commit()))


def fetched(rig):
    """How many of a hundred requests find one of a hundred confirmed messages, and how many none."""
    client = sent(rig, 100)
    client.heard()
    answers = [name for _ in range(100) for name in names(client.asks(spec.Basic.Get(queue="q"), 2))]
    return answers.count("Basic.GetOk"), answers.count("Basic.GetEmpty")


def changed(rig):
    """A property that is true, as it is delivered."""
    client = sent(rig, 1, properties=spec.BasicProperties(headers={"truth": True}))
    client.heard()
    return client.consume(channel=2)[0].properties.headers


LIES = [
    ("confirms-before-storing", answered_before_storing, [("Ack", 1, False)], []),
    ("confirms-without-returning", returned, ["Basic.Ack"], ["Basic.Return", "Basic.Ack"]),
    ("makes-any-queue", returned, ["Basic.Ack"], ["Basic.Return", "Basic.Ack"]),
    ("drops-every-tenth-send", kept_of_a_hundred, 90, 100),
    ("stores-every-hundredth-twice", kept_of_a_hundred, 101, 100),
    ("answers-every-hundredth-frame-twice", confirmed_twice, [100], []),
    ("never-answers-one-send", unanswered, ("Ack", 49, True), ("Ack", 60, True)),
    ("range-covers-unstored", confirmed_and_stored, ([("Ack", 10, True)], 9), ([("Ack", 10, True)], 10)),
    ("acknowledges-before-commit", after_a_rollback, 1, 2),
    ("refuses-rollbacks", rollback, ("Channel", 406), ["Tx.RollbackOk"]),
    ("drops-released", requeued, [], [True]),
    ("never-marks-redelivered", requeued, [False], [True]),
    ("drops-released", recovered, [], [True]),
    ("never-marks-redelivered", recovered, [False], [True]),
    ("requeues-rejected", rejected, 1, 0),
    ("counts-releases", counted, 1, None),
    ("ignores-prefetch", over_the_prefetch, 10, 2),
    ("never-refills-prefetch", refilled, [], [3]),
    ("client-ack-is-individual", covered_by_multiple, 4, 2),
    ("individual-ack-is-cumulative", covered_by_one, 2, 4),
    ("removes-when-sending", removed_when_sent, 0, 3),
    ("acknowledges-before-storing", acknowledgement_by_a_commit, ["Tx.CommitOk"], []),
    ("commits-before-storing", acknowledgement_by_a_commit, ["Tx.CommitOk"], []),
    ("takes-an-acknowledgement-of-nothing", of_nothing, ["Basic.QosOk"], ["Channel.Close"]),
    ("commits-without-transactions", committed_without, ["Tx.CommitOk"], ["Channel.Close"]),
    ("hides-from-every-hundredth-get", fetched, (99, 1), (100, 0)),
    ("turns-true-to-false", changed, {"truth": False}, {"truth": True}),
]


@pytest.mark.parametrize(
    ("name", "script", "wrong", "right"), LIES, ids=[f"{row[0]}, {row[1].__name__}" for row in LIES]
)
def test_a_liar_is_wrong_in_one_way(name, script, wrong, right):
    assert (script(Rig(behaviour(name))), script(Rig(behaviour(None)))) == (wrong, right)
