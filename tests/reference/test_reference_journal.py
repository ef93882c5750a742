"""The journal, with power losses made of truncated, holed and flipped bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.reference.store.commit import GroupCommit, do_nothing
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

from .store_rig import Disk, stored, write_all

SMALL = 600


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
    disk = Disk(SMALL)
    disk.put(stored(1))
    assert list(disk.files) == [1]


def test_a_journal_cut_at_any_byte_gives_the_confirmed_prefix():
    """With any part of the last record on the disk, all confirmed messages are there, and never half of one."""
    disk = Disk(4096)
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


def test_a_transaction_larger_than_a_segment_gets_a_segment_of_its_own_size():
    """One record is never split."""
    disk = Disk(SMALL)
    disk.put(stored(1))
    disk.put(Committed(tuple(stored(n, size=100) for n in range(2, 30))))
    disk.put(Committed(tuple(Removed(n) for n in range(1, 29))))

    assert ids(disk.image()) == [29]
    assert len(disk.files[2]) > SMALL


@given(st.data())
def test_a_flipped_bit_is_never_believed(data):
    """Refused where a later record proves that it had been on disk; else nothing but the last batch is missing."""
    disk = Disk(4096)
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
    disk = Disk(SMALL)
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
    disk = Disk(SMALL)
    for n in range(1, 40):
        disk.put(stored(n))
    image = disk.image()

    with pytest.raises(CorruptJournal):
        recover({number: data for number, data in image.items() if number != 2})
    with pytest.raises(CorruptJournal):
        recover({**image, 2: b"\0" * SMALL})


def test_a_hole_in_an_unconfirmed_batch_is_a_torn_tail():
    """The disk stored the second page of a batch and not the first: nothing of it was confirmed."""
    disk = Disk(4096)
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
    disk = Disk(SMALL)
    disk.put(stored(1))
    for rubbish in (b"", b"\0" * SMALL, b"CONFJRN1\0\0"):
        found = recover({**disk.image(), 2: rubbish})
        assert (list(found.messages), found.stale, found.segment) == ([1], [2], 1)
    assert recover({1: b"\0" * 10}).stale == [1]


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
    disk = Disk(SMALL)
    for entry, left in ((None, [3]), (Removed(1), [2, 3])):
        commit.add(entry, do_nothing)
        batch = commit.take()
        commit.finished()
        write_all(disk.files, batch.writes)
        assert ids(disk.image()) == left
    assert (batch.sync, commit.has_early) == (True, False)
