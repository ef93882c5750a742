"""What a commit does to the broker and to its journal, without a socket: all or nothing, at every byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.store.commit import do_nothing

from .queue_rig import Rig, on_disk


def bodies(got):
    return {tag: body[0] for tag, (body, _, _) in got.items()}


def test_a_commit_cut_at_any_byte_is_there_whole_or_not_at_all():
    """Sends to two queues, and every outcome: a crash leaves all of them or none."""
    rig = Rig("q", "other", "DLQ")
    for body in b"0123":
        rig.send(bytes([body]))
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.send(b"4", transaction)
    rig.send(b"5", transaction, "other")
    rig.send(b"6", transaction, durable=False)
    outcomes = (SettlementEvent.ACCEPTED, SettlementEvent.REJECTED, SettlementEvent.FAILED, SettlementEvent.RELEASED)
    for tag, event in enumerate(outcomes, 1):
        rig.settle(link, tag, event, transaction)
    image, before = rig.image(), rig.on_disk()
    rig.commits(transaction)
    batch = rig.commit.take()
    [write] = batch.writes
    rig.store(batch)
    after = rig.on_disk()

    assert before == [("q", b"0", 0), ("q", b"1", 0), ("q", b"2", 0), ("q", b"3", 0)]
    assert after == [("DLQ", b"1", 0), ("other", b"5", 0), ("q", b"2", 1), ("q", b"3", 0), ("q", b"4", 0)]
    for cut in range(len(write.data) + 1):
        torn = bytearray(image[1])
        torn[write.offset : write.offset + cut] = write.data[:cut]
        assert on_disk({1: bytes(torn)}) == (after if cut == len(write.data) else before)


def test_a_commit_shows_all_of_itself_at_once_and_then_answers():
    """Before the disk has it no part is seen; after it effects, watchers and the answer come in this order."""
    rig = Rig()
    rig.send(b"1")
    rig.disk()
    link, got = rig.link()
    transaction = rig.broker.begin()
    order = []
    rig.send(b"2", transaction)
    rig.settle(link, 1, transaction=transaction)
    transaction.when_over(link, 1, lambda committed: order.append((committed, rig.queue.depth)))
    assert (rig.answers[-1], order, rig.queue.depth, rig.queue.unacknowledged) == ("done", [], 1, 1)

    rig.broker.commit(transaction, lambda: order.append("answer"))
    rig.broker.dispatch()
    assert (order, bodies(got), rig.queue.depth) == ([], {1: ord("1")}, 1)
    rig.disk()
    rig.broker.dispatch()
    assert (order, bodies(got), rig.queue.depth) == ([(True, 1), "answer"], {1: ord("1"), 2: ord("2")}, 1)


def test_a_link_that_ends_while_the_commit_is_on_its_way_gives_nothing_back():
    """The outcome counted when the commit was asked for: from then on no link holds the message."""
    rig = Rig()
    rig.send(b"1")
    rig.send(b"2")
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.settle(link, 1, transaction=transaction)
    rig.settle(link, 2, SettlementEvent.RELEASED, transaction)
    rig.commits(transaction)
    rig.broker.unsubscribe(link)
    _, got = rig.link()
    assert (got, rig.queue.depth) == ({}, 2)
    rig.disk()
    rig.broker.dispatch()

    assert (bodies(got), rig.queue.depth, rig.queue.unacknowledged) == ({1: ord("2")}, 1, 1)


def test_a_rollback_forgets_once():
    """Its watchers hear false, and a transaction that was rolled back holds nothing to commit."""
    rig = Rig()
    rig.send(b"1")
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    heard = []
    transaction.when_over(link, 1, heard.append)
    rig.send(b"2", transaction)
    rig.settle(link, 1, transaction=transaction)
    rig.broker.rollback(transaction, lambda: heard.append("answer"))
    rig.commits(transaction)
    rig.disk()

    assert (heard, list(link.held), rig.on_disk()) == ([False, "answer"], [1], [("q", b"1", 0)])


def test_without_persistence_a_commit_is_in_memory_only():
    """Nothing is written, and all is done."""
    rig = Rig(persistence=False)
    before = rig.image()
    transaction = rig.broker.begin()
    rig.send(b"1", transaction)
    rig.commits(transaction)
    rig.disk()

    assert (rig.image(), rig.queue.depth) == (before, 1)


def test_a_commit_that_is_not_synced_is_answered_at_once():
    """And its record is written with the next early batch, whole."""
    rig = Rig(sync_transactional=False)
    transaction = rig.broker.begin()
    rig.send(b"1", transaction)
    rig.send(b"2", transaction)
    rig.commits(transaction)
    assert (rig.answers, rig.queue.depth, rig.on_disk()) == (["done"] * 3, 2, [])
    rig.store(rig.commit.take(early=True))

    assert rig.on_disk() == [("q", b"1", 0), ("q", b"2", 0)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "accept", "commit", "rollback", "abandon", "end", "disk"]),
        st.integers(0, 1),
        st.booleans(),
    ),
    max_size=40,
)


@given(STEPS, st.data())
def test_any_history_leaves_what_was_committed(steps, data):
    """A model: two transactions and two links, in any order, with and without a transaction; what a kill leaves."""
    rig, model, body = Rig(), set(), 0
    links = [rig.link(), rig.link()]
    transactions = [(rig.broker.begin(), set(), []) for _ in range(2)]
    for step, which, inside in steps:
        transaction, sends, accepts = transactions[which]
        link, got = links[which]
        if step == "send":
            body += 1
            rig.send(bytes([body]), transaction if inside else None)
            (sends if inside else model).add(body)
        elif step == "accept" and link.held:
            tag = data.draw(st.sampled_from(list(link.held)))
            if inside:
                accepts.append((link, tag, got[tag][0][0]))
            else:
                model.discard(got[tag][0][0])
            rig.settle(link, tag, transaction=transaction if inside else None)
        elif step == "end":
            rig.broker.unsubscribe(link)
            links[which] = rig.link()
        elif step in ("commit", "rollback", "abandon"):
            if step == "commit":
                model |= sends
                model -= {taken for holder, tag, taken in accepts if tag in holder.held}
                rig.commits(transaction)
            elif step == "rollback":
                rig.broker.rollback(transaction, do_nothing)
            else:
                rig.broker.abandon(transaction)
            transactions[which] = (rig.broker.begin(), set(), [])
        else:
            rig.disk()
        rig.broker.dispatch()
    rig.disk()

    assert {message[0] for _, message, _ in rig.on_disk()} == model
    assert rig.queue.depth == len(model)
    assert rig.queue.unacknowledged == sum(len(link.held) for link, _ in links)
    assert {message[0] for _, message, _ in rig.again().on_disk()} == model
