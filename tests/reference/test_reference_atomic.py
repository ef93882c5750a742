"""What a commit does to the broker and to its journal, without a socket: all or nothing, at every byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conformance.reference.core.broker import ReferenceBroker
from conformance.reference.core.queues import Subscription
from conformance.reference.core.sections import Parsed
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.liars import Honest
from conformance.reference.settings import Settings
from conformance.reference.store.commit import GroupCommit, do_nothing
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import recover


class Rig:
    """A broker on bytes; `disk` puts on them what waits, and nothing else does."""

    def __init__(self, files=None, **settings):
        self.files = {number: bytearray(data) for number, data in (files or {}).items()}
        recovered = recover(self.image())
        self.commit = GroupCommit(Journal(recovered, 8192))
        self.broker = ReferenceBroker(Settings(**settings), Honest(), self.commit, recovered)
        self.queue = self.broker.queue("q")
        self.disk()

    def image(self):
        return {number: bytes(data) for number, data in self.files.items()}

    def disk(self, *, early=False):
        """All that waits is stored and answered; the writes."""
        writes = []
        while self.commit.has_waiting or early:
            writes += self.commit.take(early=early).writes
            early = False
            for write in writes:
                file = self.files.setdefault(write.segment, bytearray(write.create))
                file[write.offset : write.offset + len(write.data)] = write.data
            self.commit.finished()
        return writes

    def publish(self, body, transaction=None, queue="q", *, durable=True, done=do_nothing):
        self.broker.publish(self.broker.queue(queue), Parsed(durable, b"", bytes([body])), done, transaction)

    def link(self, credit=100, queue="q"):
        """A consumer, and what it was sent by tag."""
        got = {}
        link = Subscription(
            self.broker.queue(queue), False, lambda: credit - link.sent, lambda tag, m: got.update({tag: m.bare[0]})
        )
        self.broker.subscribe(link)
        self.broker.dispatch()
        return link, got

    def settle(self, link, tag, event=SettlementEvent.ACCEPTED, transaction=None):
        self.broker.settle(link, tag, event, do_nothing, transaction=transaction)

    def content(self):
        """Bodies with their delivery-counts by queue, as a restart finds them."""
        return content(self.image())


def content(image):
    return sorted((m.queue, m.bare[0], m.failures) for m in recover(image).messages.values())


def test_a_commit_cut_at_any_byte_is_there_whole_or_not_at_all():
    """Sends to two queues, and every outcome: a crash leaves all of them or none."""
    rig = Rig()
    rig.broker.queue("other")
    for body in range(4):
        rig.publish(body)
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.publish(4, transaction)
    rig.publish(5, transaction, "other")
    rig.publish(6, transaction, durable=False)
    for tag, event in enumerate(
        (SettlementEvent.ACCEPTED, SettlementEvent.REJECTED, SettlementEvent.FAILED, SettlementEvent.RELEASED), 1
    ):
        rig.settle(link, tag, event, transaction)
    rig.broker.queue("DLQ")
    rig.disk()
    image, before = rig.image(), rig.content()
    rig.broker.commit(transaction, do_nothing)
    [write] = rig.disk()
    after = rig.content()

    assert before == [("q", 0, 0), ("q", 1, 0), ("q", 2, 0), ("q", 3, 0)]
    assert after == [("DLQ", 1, 0), ("other", 5, 0), ("q", 2, 1), ("q", 3, 0), ("q", 4, 0)]
    for cut in range(len(write.data) + 1):
        torn = bytearray(image[1])
        torn[write.offset : write.offset + cut] = write.data[:cut]
        assert content({1: bytes(torn)}) == (after if cut == len(write.data) else before)


def test_a_commit_shows_all_of_itself_at_once_and_then_answers():
    """Before the disk has it nobody sees a part; after it effects, watchers and the answer come in this order."""
    rig = Rig()
    rig.publish(1)
    rig.disk()
    link, got = rig.link()
    transaction = rig.broker.begin()
    said = []
    rig.publish(2, transaction, done=lambda: said.append("provisional"))
    rig.settle(link, 1, transaction=transaction)
    transaction.when_over(lambda committed: said.append((committed, rig.queue.depth)))
    assert (said, rig.queue.depth, rig.queue.unacknowledged) == (["provisional"], 1, 1)

    rig.broker.commit(transaction, lambda: said.append("answer"))
    rig.broker.dispatch()
    assert (said, got, rig.queue.depth) == (["provisional"], {1: 1}, 1)
    rig.disk()
    rig.broker.dispatch()
    assert (said[1:], got, rig.queue.depth) == ([(True, 1), "answer"], {1: 1, 2: 2}, 1)


def test_a_link_that_ends_while_the_commit_is_on_its_way_gives_nothing_back():
    """The outcome counted when the commit was asked for: from then on the message is nobody's."""
    rig = Rig()
    rig.publish(1)
    rig.publish(2)
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    rig.settle(link, 1, transaction=transaction)
    rig.settle(link, 2, SettlementEvent.RELEASED, transaction)
    rig.broker.commit(transaction, do_nothing)
    rig.broker.unsubscribe(link)
    _, got = rig.link()
    assert (got, rig.queue.depth) == ({}, 2)
    rig.disk()
    rig.broker.dispatch()

    assert (got, rig.queue.depth, rig.queue.unacknowledged) == ({1: 2}, 1, 1)


def test_an_outcome_outside_takes_its_delivery_out_of_the_transaction():
    """The later word counts: the commit does not take the message from whom it went to."""
    rig = Rig()
    rig.publish(1)
    rig.disk()
    link, _ = rig.link(credit=1)
    transaction = rig.broker.begin()
    rig.settle(link, 1, transaction=transaction)
    rig.settle(link, 1, SettlementEvent.RELEASED)
    other, got = rig.link()
    rig.broker.commit(transaction, do_nothing)
    rig.disk()

    assert (got, list(other.held), rig.queue.depth) == ({1: 1}, [1], 1)


def test_a_rollback_forgets_once():
    """Its watchers are told false, and a transaction that was rolled back holds nothing to commit."""
    rig = Rig()
    rig.publish(1)
    rig.disk()
    link, _ = rig.link()
    transaction = rig.broker.begin()
    said = []
    transaction.when_over(said.append)
    rig.publish(2, transaction)
    rig.settle(link, 1, transaction=transaction)
    rig.broker.rollback(transaction, lambda: said.append("answer"))
    rig.broker.commit(transaction, do_nothing)
    rig.disk()

    assert (said, list(link.held), rig.content()) == ([False, "answer"], [1], [("q", 1, 0)])


def test_without_persistence_a_commit_is_in_memory_only():
    """Nothing is written, and all is done."""
    rig = Rig(persistence=False)
    transaction = rig.broker.begin()
    rig.publish(1, transaction)
    rig.broker.commit(transaction, do_nothing)

    assert (rig.disk(), rig.queue.depth) == ([], 1)


def test_a_commit_that_is_not_synced_is_answered_at_once():
    """And its record is written with the next early batch, whole."""
    rig = Rig(sync_transactional=False)
    transaction = rig.broker.begin()
    said = []
    rig.publish(1, transaction)
    rig.publish(2, transaction)
    rig.broker.commit(transaction, lambda: said.append("answer"))
    assert (said, rig.queue.depth, rig.content()) == (["answer"], 2, [])
    rig.disk(early=True)

    assert rig.content() == [("q", 1, 0), ("q", 2, 0)]


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
            rig.publish(body, transaction if inside else None)
            (sends if inside else model).add(body)
        elif step == "accept" and link.held:
            tag = data.draw(st.sampled_from(list(link.held)))
            if inside:
                accepts.append((link, tag, got[tag]))
            else:
                model.discard(got[tag])
            rig.settle(link, tag, transaction=transaction if inside else None)
        elif step == "end":
            rig.broker.unsubscribe(link)
            links[which] = rig.link()
        elif step in ("commit", "rollback", "abandon"):
            if step == "commit":
                model |= sends
                model -= {taken for holder, tag, taken in accepts if tag in holder.held}
                rig.broker.commit(transaction, do_nothing)
            elif step == "rollback":
                rig.broker.rollback(transaction, do_nothing)
            else:
                rig.broker.abandon(transaction)
            transactions[which] = (rig.broker.begin(), set(), [])
        else:
            rig.disk()
        rig.broker.dispatch()
    rig.disk()

    assert {message for _, message, _ in rig.content()} == model
    assert rig.queue.depth == len(model)
    assert rig.queue.unacknowledged == sum(len(link.held) for link, _ in links)
    assert {message for _, message, _ in content(Rig(rig.image()).image())} == model
