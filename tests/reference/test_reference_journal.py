"""The journal, with power losses made of truncated, holed and flipped bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.errors import LaunchError
from conformance.reference.store.commit import GroupCommit, do_nothing
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.journal import Journal
from conformance.reference.store.records import (
    SEGMENT_HEADER,
    Closed,
    Committed,
    Counted,
    Identified,
    IdentifiedAgain,
    Moved,
    QueueDeclared,
    QueueDeleted,
    Removed,
    Stored,
    payload,
    record,
    unframe,
)
from conformance.reference.store.recovery import CorruptJournal, Recovered, recover

SMALL = 600


class Disk:
    """Segments in memory, and a journal that writes to them."""

    def __init__(self, files=None, segment_bytes=SMALL):
        self.files = {number: bytearray(data) for number, data in (files or {}).items()}
        self.recovered = recover(self.image())
        self.journal = Journal(self.recovered, segment_bytes)

    def image(self):
        return {number: bytes(data) for number, data in self.files.items()}

    def put(self, *entries, sync=True):
        """One batch, written and, if `sync`, known to be on disk."""
        for segment in self.journal.unneeded():
            del self.files[segment]
        for write in self.journal.writes(entries):
            if write.create:
                self.files[write.segment] = bytearray(write.create)
            file = self.files[write.segment]
            file[write.offset : write.offset + len(write.data)] = write.data
        self.journal.written()
        if sync:
            self.journal.synced(self.journal.sequence)


def stored(n, queue="q", size=20):
    return Stored(n, n, queue, 0, b"", bytes([n % 256]) * size)


def ids(image):
    return list(recover(image).messages)


ENTRIES = [
    QueueDeclared("q/ü", 7),
    Stored(3, 4, "q", 5, b"", b"body"),
    Removed(9),
    Counted(9, 2),
    Moved(9, 1, "DLQ"),
    Closed(),
    QueueDeleted("q/ü"),
    Stored(3, 4, "q/ü", 5, b"rest", b"body", 1_700_000_000_000),
    Identified("q/ü", b"id"),
    IdentifiedAgain("q/ü", b"id", 2**40),
    Committed(()),
    Committed(
        (Stored(3, 4, "q", 5, b"", b"body"), Identified("q", b"\0"), Removed(9), Counted(8, 2), Moved(7, 1, "DLQ"))
    ),
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_record_survives_its_encoding(entry):
    """payload and record are inverses."""
    assert record(*payload(entry)) == entry


def test_an_empty_directory_is_an_empty_journal():
    """Nothing there, nothing recovered, writing begins at segment 1."""
    assert recover({}) == Recovered()
    disk = Disk()
    disk.put(stored(1))
    assert list(disk.files) == [1]


def test_a_journal_cut_at_any_byte_gives_the_confirmed_prefix():
    """Whatever part of the last record reached the disk: all confirmed ones are there, and never half of one."""
    disk = Disk(segment_bytes=4096)
    disk.put(stored(1), stored(2))
    disk.put(stored(3))
    whole = disk.image()[1]
    before = recover({1: whole}).end
    disk.put(stored(4), stored(5))
    whole, after = disk.image()[1], recover(disk.image()).end
    ends = [unframe(whole, before).end, after]

    for cut in range(before, after + 1):
        expected = [1, 2, 3] + [4] * (cut >= ends[0]) + [5] * (cut >= ends[1])
        torn = whole[:cut]
        assert ids({1: torn}) == expected
        assert ids({1: torn.ljust(len(whole), b"\0")}) == expected


TRANSACTION = Committed((stored(4), stored(5, "other"), Removed(1), Counted(2, 3), Moved(3, 1, "DLQ")))


def test_a_transaction_cut_at_any_byte_is_there_whole_or_not_at_all():
    """Sends to two queues, a removal, a count and a move: never one without the others."""
    disk = Disk(segment_bytes=4096)
    disk.put(stored(1), stored(2), stored(3))
    before = recover(disk.image())
    disk.put(TRANSACTION)
    whole, after = disk.image()[1], recover(disk.image())

    assert list(after.messages) == [2, 3, 4, 5]
    assert (after.messages[2].failures, after.messages[3].queue, after.messages[5].queue) == (3, "DLQ", "other")
    for cut in range(before.end, after.end + 1):
        expected = after.messages if cut == after.end else before.messages
        assert recover({1: whole[:cut]}).messages == expected
        assert recover({1: whole[:cut].ljust(len(whole), b"\0")}).messages == expected


@given(st.data())
def test_a_transaction_with_a_flipped_bit_is_not_there_at_all(data):
    """The last record of the journal, and no later one to prove that it had been on disk."""
    disk = Disk(segment_bytes=4096)
    disk.put(stored(1), stored(2), stored(3))
    before = recover(disk.image())
    disk.put(TRANSACTION)
    image = bytearray(disk.image()[1])
    place = data.draw(st.integers(before.end, recover({1: bytes(image)}).end - 1))
    image[place] ^= 1 << data.draw(st.integers(0, 7))

    assert recover({1: bytes(image)}).messages == before.messages


def test_a_transaction_larger_than_a_segment_gets_a_segment_of_its_own_size():
    """One record is never split."""
    disk = Disk()
    disk.put(stored(1))
    disk.put(Committed(tuple(stored(n, size=100) for n in range(2, 30))))
    disk.put(Committed(tuple(Removed(n) for n in range(1, 29))))

    assert ids(disk.image()) == [29]
    assert len(disk.files[2]) > SMALL


def test_what_a_transaction_removed_frees_its_segments():
    """Compaction counts the members of a transaction as it counts single records."""
    disk = Disk()
    disk.put(*(stored(n) for n in range(1, 60)))
    full = len(disk.files)
    disk.put(Committed(tuple(Removed(n) for n in range(1, 60))))
    disk.put()

    assert len(disk.files) < full
    assert ids(disk.image()) == []


def test_a_torn_tail_is_zeroed_and_written_over(tmp_path):
    """After repair the file reads as if the tail had never been."""
    files = SegmentFiles(tmp_path)
    journal = Journal(recover(files.read()), SMALL)
    commit = GroupCommit(journal)
    for n in (1, 2):
        commit.add(stored(n), do_nothing)
        files.store(commit.take())
        commit.finished()
    path = tmp_path / "00000001.journal"
    torn = bytearray(path.read_bytes())
    torn[recover({1: bytes(torn)}).end - 3] ^= 0xFF
    path.write_bytes(torn)

    found = recover(files.read())
    files.repair(found)
    files.close()

    assert list(found.messages) == [1]
    assert found.cut == (1, found.end)
    assert recover({1: path.read_bytes()}).cut is None
    assert path.stat().st_size == SMALL


@given(st.data())
def test_a_flipped_bit_is_never_believed(data):
    """Refused where a later record proves that it had been on disk; else nothing but the last batch is missing."""
    disk = Disk(segment_bytes=4096)
    for n in range(1, 6):
        disk.put(stored(n))
    image = bytearray(disk.image()[1])
    end = recover({1: bytes(image)}).end
    place = data.draw(st.integers(SEGMENT_HEADER, end - 1))
    image[place] ^= 1 << data.draw(st.integers(0, 7))
    last = _start_of_last(disk.image()[1])

    if place < last:
        with pytest.raises(CorruptJournal, match="damaged at offset"):
            recover({1: bytes(image)})
    else:
        assert ids({1: bytes(image)}) == [1, 2, 3, 4]


def _start_of_last(segment):
    at = SEGMENT_HEADER
    while (framed := unframe(segment, at)) is not None:
        start, at = at, framed.end
    return start


def test_damage_is_found_across_segments():
    """The proof may lie in a later segment."""
    disk = Disk()
    for n in range(1, 40):
        disk.put(stored(n))
    image = disk.image()
    assert len(image) > 2
    broken = bytearray(image[1])
    broken[SEGMENT_HEADER + 40] ^= 1

    with pytest.raises(CorruptJournal, match="segment 1"):
        recover({**image, 1: bytes(broken)})


def test_a_missing_or_headless_segment_is_damage():
    """A hole in the numbers, or a header that cannot be read before good records."""
    disk = Disk()
    for n in range(1, 40):
        disk.put(stored(n))
    image = disk.image()

    with pytest.raises(CorruptJournal):
        recover({number: data for number, data in image.items() if number != 2})
    with pytest.raises(CorruptJournal):
        recover({**image, 2: b"\0" * SMALL})


def test_a_hole_in_an_unconfirmed_batch_is_a_torn_tail():
    """The disk stored the second page of a batch and not the first: nothing of it was confirmed."""
    disk = Disk(segment_bytes=4096)
    disk.put(stored(1))
    before = recover(disk.image()).end
    disk.put(stored(2), stored(3), stored(4), sync=False)
    image = bytearray(disk.image()[1])
    image[before : before + 10] = bytes(10)

    found = recover({1: bytes(image)})

    assert list(found.messages) == [1]
    assert found.cut == (1, before)


def test_a_segment_that_was_never_finished_is_dropped():
    """Power went while the file was made."""
    disk = Disk()
    disk.put(stored(1))
    for rubbish in (b"", b"\0" * SMALL, b"CONFJRN1\0\0"):
        found = recover({**disk.image(), 2: rubbish})
        assert (list(found.messages), found.stale, found.segment) == ([1], [2], 1)
    assert recover({1: b"\0" * 10}).stale == [1]


def test_rolling_over_keeps_order_counts_and_queues():
    """Forty messages over many segments, some counted, one moved, some removed."""
    disk = Disk()
    disk.put(QueueDeclared("empty", 1), QueueDeclared("q", 1))
    for n in range(1, 41):
        disk.put(stored(n))
    disk.put(Counted(7, 3), Moved(9, 1, "DLQ"), *(Removed(n) for n in range(20, 30)))
    found = recover(disk.image())

    assert list(found.messages) == [*range(1, 20), *range(30, 41)]
    assert found.messages[7].failures == 3
    assert (found.messages[9].queue, found.messages[9].number) == ("DLQ", 1)
    assert found.queues == {"empty": 1, "q": 41, "DLQ": 2}
    assert found.next_id == 41


def test_a_message_larger_than_a_segment_gets_its_own():
    """The file is as large as it must be."""
    disk = Disk()
    disk.put(stored(1), stored(2, size=3 * SMALL), stored(3))

    assert ids(disk.image()) == [1, 2, 3]


def test_acknowledged_leading_segments_are_deleted_and_nothing_is_forgotten():
    """All but the live ones go; queue names and numbers go on."""
    disk = Disk()
    for n in range(1, 60):
        disk.put(stored(n))
    full = len(disk.files)
    for n in range(1, 56):
        disk.put(Removed(n))
    disk.put()
    found = recover(disk.image())

    assert len(disk.files) < full
    assert min(disk.files) > 1
    assert list(found.messages) == [56, 57, 58, 59]
    assert (found.queues["q"], found.next_id) == (60, 60)


def test_segments_that_are_not_needed_leave_the_disk(tmp_path):
    """The files of a queue that was emptied are deleted with the next batch, and the rest reads as before."""
    files = SegmentFiles(tmp_path)
    commit = GroupCommit(Journal(Recovered(), SMALL))
    batches = [[stored(n) for n in range(1, 60)], [Removed(n) for n in range(1, 60)], [stored(60)]]
    counts = []
    for entries in batches:
        for entry in entries:
            commit.add(entry, do_nothing)
        files.store(commit.take())
        commit.finished()
        while files.untended:
            files.tend()
        counts.append(len(files.read()))

    assert counts[2] < counts[1]
    assert ids(files.read()) == [60]
    files.close()


def test_one_live_message_keeps_its_segment_and_all_after_it():
    """Compaction takes only a prefix: a removal must not go before what it removes."""
    disk = Disk()
    for n in range(1, 30):
        disk.put(stored(n))
    for n in range(2, 30):
        disk.put(Removed(n))
    disk.put()

    assert min(disk.files) == 1
    assert ids(disk.image()) == [1]


@given(st.lists(st.tuples(st.sampled_from("srcmt"), st.integers(0, 30), st.booleans()), max_size=60), st.data())
def test_any_history_recovers_to_what_was_synced_and_goes_on(steps, data):
    """A model: after any batches, with or without a restart between, the journal holds what a dict would."""
    disk, model = Disk(), {}
    for number, (kind, size, restart) in enumerate(steps, 1):
        if kind == "s":
            model[number] = stored(number, size=size)
            disk.put(model[number])
        elif kind == "t":
            gone = data.draw(st.sampled_from(sorted(model))) if model else None
            model[number] = stored(number, size=size)
            disk.put(Committed((model[number], *([Removed(gone)] if gone else []))))
            model.pop(gone, None)
        elif model:
            id = data.draw(st.sampled_from(sorted(model)))
            change = {"r": Removed(id), "c": Counted(id, number), "m": Moved(id, number, "DLQ")}[kind]
            disk.put(change)
            if kind == "r":
                del model[id]
            else:
                fields = {"failures": number} if kind == "c" else {"number": number, "queue": "DLQ"}
                model[id] = model[id]._replace(**fields)
        if restart:
            disk = Disk(disk.image())
    assert recover(disk.image()).messages == model


def test_what_waits_during_a_sync_goes_out_together():
    """Group commit: three operations queued while a batch is out are one batch, confirmed in order."""
    commit = GroupCommit(Journal(Recovered(), SMALL))
    done = []
    commit.add(stored(1), lambda: done.append(1))
    commit.take()
    for n in (2, 3):
        commit.add(stored(n), lambda n=n: done.append(n))
    commit.add(None, lambda: done.append("not durable"))
    assert done == []

    commit.finished()
    assert done == [1]
    batch = commit.take()
    assert [write.create > 0 for write in batch.writes] == [False]
    commit.finished()
    assert done == [1, 2, 3, "not durable"]


def test_what_is_confirmed_early_stays_in_memory_until_it_is_taken():
    """The loss window of a weakened broker, and it is written without a sync."""
    commit = GroupCommit(Journal(Recovered(), SMALL))
    done = []
    commit.add_early(stored(1), lambda: done.append(1))
    assert (done, commit.has_early, commit.take().writes) == ([1], True, [])
    commit.finished()
    batch = commit.take(early=True)

    assert (bool(batch.writes), batch.sync, commit.has_early) == (True, False, False)


def test_what_was_confirmed_early_goes_out_before_its_removal():
    """Written after it, the message would come back: the acknowledgement takes the message to the disk with it."""
    commit = GroupCommit(Journal(Recovered(), SMALL))
    commit.add_early(Committed((stored(1), stored(2))), do_nothing)
    commit.add(stored(3), do_nothing)
    disk = Disk()
    for entry, left in ((None, [3]), (Removed(1), [2, 3])):
        commit.add(entry, do_nothing)
        batch = commit.take()
        commit.finished()
        for write in batch.writes:
            file = disk.files.setdefault(write.segment, bytearray(write.create))
            file[write.offset : write.offset + len(write.data)] = write.data
        assert ids(disk.image()) == left
    assert (batch.sync, commit.has_early) == (True, False)


def test_a_directory_serves_one_broker(tmp_path):
    """The lock ends with the holder."""
    first = SegmentFiles(tmp_path)
    with pytest.raises(LaunchError, match="in use by another broker"):
        SegmentFiles(tmp_path)
    first.close()
    SegmentFiles(tmp_path).close()
