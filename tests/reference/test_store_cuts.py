"""The journal cut at every byte and holed at every page: what was confirmed is there, and nothing is there by half."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.reference.store import journal
from conformance.reference.store.commit import FULL
from conformance.reference.store.records import Committed, Counted, Identified, Moved, QueueDeleted, Removed
from conformance.reference.store.recovery import recover

from .store_rig import SMALL, Machine, content, declared, stored


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    """Machines have slices of their own."""
    monkeypatch.setattr(journal, "SLICE", journal.SLICE)
    monkeypatch.setattr(journal, "FEW", journal.FEW)


def play(machine, look=None):
    """Everything a journal says, over several segments: one old message stays, so that the others are compacted."""
    machine.batch(*declared("q", "gone", "DLQ"), stored(1), look=look)
    for n in range(2, 30, 4):
        machine.batch(
            Committed((stored(n), Identified("q", b"id-%d" % n))),
            Committed((stored(n + 1, "gone", number=n), Removed(n - 1 if n > 2 else 99), Counted(1, n))),
            look=look,
        )
        machine.batch(stored(n + 2, size=90), Moved(n, n, "DLQ"), Removed(n + 2), look=look)
        machine.batch(Removed(n), Identified("gone", b"gone-%d" % n), Counted(n + 1, 2), look=look)
    machine.batch(QueueDeleted("gone"), Identified("q", b"id-2"), stored(50), look=look)
    machine.batch(stored(51, "gone", number=1, expires_ms=7), Removed(50), look=look)
    for n in range(60, 70):
        machine.batch(stored(n), Removed(n), look=look)


def test_a_journal_cut_anywhere_holds_what_was_confirmed():
    """Every byte of every batch, and pages missing: the journal ends after some record of the batch, none is half."""
    machine = Machine()

    def look(image):
        assert content(image) in machine.states

    play(machine, look)

    assert machine.crashed > 3000
    assert machine.compacted > 3
    assert min(machine.durable) > 3
    assert sorted(content(machine.image()).messages) == [1, 51]
    assert content(machine.image()).messages[1].failures == 26
    assert content(machine.image()).identities == {"q": [b"id-22", b"id-26", b"id-2"]}


def test_a_whole_record_is_there_and_a_cut_one_is_not():
    """Exactly as many records as are whole: a journal that forgot the last one each time would pass the test above."""
    machine = Machine()
    machine.batch(*declared("q"), stored(1), stored(2))
    seen = []
    machine.batch(stored(3), stored(4), Removed(1), look=lambda image: seen.append(tuple(content(image).messages)))

    assert list(dict.fromkeys(seen)) == [(1, 2), (1, 2, 3), (1, 2, 3, 4), (2, 3, 4)]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_pages_since_the_last_sync_may_be_missing(data):
    """Batches that were written and never synced: what is left of them is a beginning."""
    machine = Machine()
    play(machine)
    first = len(machine.durable)
    for n in range(100, 100 + data.draw(st.integers(1, 6))):
        machine.batch(stored(n), Identified("q", b"%d" % n), Counted(1, n), sync=False)
    image = machine.some_pages(lambda count: data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))

    assert content(image) in machine.states
    assert len(machine.durable) >= first - 1


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("ssssrrcmitdn"), st.integers(0, 90), st.booleans()), min_size=30, max_size=120
)


@settings(deadline=None, max_examples=60)
@given(OPERATIONS, st.data())
def test_any_history_with_compaction_and_crashes(operations, data):
    """After any batches, full disks and losses of power the journal holds what it said, and goes on from there."""
    machine = Machine(slice_bytes=data.draw(st.sampled_from([64, 256, 4096])), few=1)
    for last, (kind, size, crash) in enumerate(operations, 1):
        held = machine.states[-1].messages
        id = data.draw(st.sampled_from(sorted(held))) if held else 0
        record = {
            "s": stored(last, "qd"[size % 2], size),
            "r": Removed(id),
            "c": Counted(id, size),
            "m": Moved(id, last, "DLQ"),
            "i": Identified("q", b"%d" % (size % 5)),
            "t": Committed((stored(last, size=size), Removed(id), Identified("d", b"%d" % last))),
            "d": QueueDeleted("d"),
            "n": stored(last, size=size),
        }[kind]
        if kind == "n":
            assert machine.no_room(record) == [FULL]
        else:
            machine.batch(record)
        if crash:
            machine = Machine(machine.image(), few=1)
        assert content(machine.image()) == machine.states[-1]


def test_segments_stay_few_however_many_messages_pass():
    """One message is never taken, a thousand others pass: the segments and what is in memory stay as they are."""
    machine = Machine()
    machine.batch(*declared("q"), stored(1, size=100))
    counts = []
    for n in range(2, 1000):
        machine.batch(stored(n, size=50), Counted(n, 1), *([Removed(n - 3)] if n > 4 else []))
        counts.append(len(machine.durable))
    index = machine.commit._journal.index

    assert max(counts) <= 4
    assert counts[-1] <= counts[100] + 1
    assert list(content(machine.image()).messages) == [1, 997, 998, 999]
    assert (len(index._where), len(index.live)) == (4, len(machine.durable))
    assert set(index._changed) <= {997, 998, 999}
    assert machine.commit._journal.total <= 4 * SMALL


def test_an_old_unused_queue_is_not_forgotten():
    """Its name, its next number and its ids outlive every segment they were said in."""
    machine = Machine()
    machine.batch(*declared("old", "q"), stored(1, "old", number=41), Identified("old", b"seen"), Removed(1))
    for n in range(2, 200):
        machine.batch(stored(n, size=50), *([Removed(n - 1)] if n > 2 else []))
    again = Machine(machine.image())
    found = again.commit._journal.index.queues["old"]

    assert min(machine.durable) > 10
    assert (found.next_number, list(found.seen)) == (42, [b"seen"])


def test_a_segment_begins_with_what_the_batch_before_it_said():
    """A queue that is declared, and one that is deleted, in the batch that begins a segment: the older one goes."""
    machine = Machine()
    machine.batch(*declared("q", "gone"), stored(1, "gone"), stored(2, size=300))
    machine.batch(
        *declared("late"),
        QueueDeleted("gone"),
        stored(7, "late", number=7),
        Removed(7),
        stored(8, size=300),
        Removed(2),
    )
    machine.batch()
    found = recover(machine.image())

    assert list(machine.durable) == [2]
    assert found.queues == {"q": 9, "late": 8}
    assert found.next_id == 9


def test_only_so_many_ids_are_kept_and_in_their_order():
    """The last ones, also where compaction has written old ones after new ones."""
    machine = Machine()
    machine.batch(*declared("q", "idle"), *(Identified("idle", b"%d" % n) for n in range(5)))
    for n in range(2, 400):
        machine.batch(Committed((stored(n), Identified("q", b"%d" % n), Removed(n - 1))))
        if n == 200:
            machine.batch(Identified("idle", b"3"))

    assert content(machine.image()).identities == {"q": [b"397", b"398", b"399"], "idle": [b"2", b"4", b"3"]}
    assert machine.compacted
    assert len(machine.durable) <= 4
