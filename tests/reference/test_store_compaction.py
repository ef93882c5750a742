"""Compaction: what it reads, what it writes again, and what it refuses to."""

from __future__ import annotations

import pytest

from conformance.reference.liars import behaviour
from conformance.reference.store import journal
from conformance.reference.store.commit import GroupCommit
from conformance.reference.store.journal import Compaction
from conformance.reference.store.records import Committed, Counted, Identified, IdentifiedAgain, Moved, Removed
from conformance.reference.store.recovery import CorruptJournal

from . import store_rig
from .store_rig import Disk

SEGMENT = 4096


def stored(n, size=100):
    return store_rig.stored(n, size=size)


class Old(Disk):
    """A journal whose oldest segment holds little that is live, and its compaction, with the bytes that it reads."""

    def __init__(self, *first, then=(), segments=7, copied=bool):
        super().__init__(SEGMENT)
        self.last = 1000
        self.put(*first)
        while len(self.journal.segments) < segments:
            self.last += 1
            self.put(stored(self.last), Removed(self.last))
        self.put(*then)
        self.compaction = Compaction(self.journal, copied)
        self.read = []

    def slice(self, *, full=False):
        """One slice is read; what is to be written again of it, None: nothing is to be read."""
        wanted = self.compaction.wanted(full=full)
        if wanted is None:
            return None
        self.read.append((wanted.segment, wanted.offset, wanted.length))
        data = bytes(self.files[wanted.segment][wanted.offset : wanted.offset + wanted.length])
        self.compaction.supply(wanted, data)
        return self.compaction.copies()

    def all(self):
        """What is written again of the oldest segment, slice by slice."""
        out = []
        oldest = self.journal.oldest
        while self.journal.oldest == oldest and (copies := self.slice()) is not None:
            out.append(copies)
            self.put(*copies)
            self.compaction.written()
        return out


def test_what_is_live_is_written_again_as_it_is_now():
    """With its later count and queue; what was removed is not, and an id keeps its place in the order."""
    first = Committed((stored(1), stored(2), Identified("q", b"a"), stored(3), stored(4)))
    old = Old(first, then=[Counted(1, 5), Moved(2, 9, "DLQ"), Counted(2, 1), Removed(3)])
    expected = [
        stored(1)._replace(failures=5),
        stored(2)._replace(failures=1, number=9, queue="DLQ"),
        stored(4),
        Committed((IdentifiedAgain("q", b"a", 1),)),
    ]

    assert [copies for copies in old.all() if copies] == [expected]
    assert (old.journal.unneeded(), old.journal.index.current(stored(1), 1, 1)) == (list(range(1, 7)), None)


def test_a_liar_removes_what_it_should_copy():
    """The message is still in memory, and gone after the next start."""
    old = Old(stored(1), stored(2), copied=behaviour("loses-at-compaction").copied)

    assert [copies for copies in old.all() if copies] == [[Removed(1), Removed(2)]]
    assert 1 not in old.journal.index


@pytest.mark.parametrize(("liar", "found"), [(None, [[1, 2], [1, 2]]), ("stores-copies-after-removal", [[], [1, 2]])])
def test_a_file_is_removed_before_its_copies_are_stored(liar, found):
    """A liar loses what is needed of it in between. The honest broker keeps it at any time."""
    old = Old(stored(1), stored(2))
    commit = GroupCommit(old.journal, copies_late_s=behaviour(liar).copies_late_s)
    postponed = []

    def turn():
        if wanted := commit.wanted():
            data = bytes(old.files[wanted.segment][wanted.offset : wanted.offset + wanted.length])
            commit.supply(wanted, data)
        batch = commit.take()
        store_rig.write_all(old.files, batch.writes)
        for segment in batch.unneeded:
            del old.files[segment]
        commit.finished()
        postponed.extend(commit.postponed())

    def left():
        return sorted(id for id in store_rig.content(old.image()).messages if id <= 2)

    while 1 in old.files:
        turn()
    seen = [left()]
    for _, call in postponed:
        call()
    turn()

    assert [*seen, left()] == found
    assert {seconds for seconds, _ in postponed} <= {0.1}


def test_an_id_that_was_seen_again_has_its_later_place():
    """Its first record is in the same segment: written again as that, it would be the first to be forgotten."""
    old = Old(*(Identified("q", identity) for identity in (b"a", b"b", b"a")))

    assert old.slice() == [Committed((IdentifiedAgain("q", b"b", 2), IdentifiedAgain("q", b"a", 3)))]


def test_slices_are_bounded_and_leave_nothing_out(monkeypatch):
    """Records go on from one slice to the next; one that is larger than a slice is read whole."""
    monkeypatch.setattr(journal, "SLICE", 300)
    old = Old(*(stored(n) for n in range(1, 11)), stored(11, 1000), stored(12))
    slices = old.all()

    assert [record.id for copies in slices for record in copies] == list(range(1, 13))
    assert max(len(copies) for copies in slices) <= 2
    assert max(length for _, _, length in old.read) < 1100


def test_what_is_removed_in_between_is_not_written():
    """Read, then removed, and only then the batch goes out."""
    old = Old(stored(1), stored(2))
    assert old.slice() == [stored(1), stored(2)]
    old.put(Removed(1))

    assert old.compaction.copies() == [stored(2)]
    old.compaction.written()
    assert not old.compaction.has_copies


@pytest.mark.parametrize(
    ("first", "segments", "full", "reads"),
    [
        ([stored(1)], 7, False, True),
        ([stored(1)], 4, False, False),
        ([stored(1)], 4, True, True),
        ([stored(n, 3000) for n in range(1, 6)], 7, False, False),
        ([stored(1, 3000)], 4, True, False),
    ],
    ids=["mostly dead", "few segments", "few on a full disk", "mostly live", "too much for a full disk"],
)
def test_when_it_is_worth_it(first, segments, full, reads):
    """Half dead and more than a few segments; on a full disk, where it takes little room."""
    old = Old(*first, segments=segments)

    assert (old.slice(full=full) is not None) == reads


def test_a_damaged_record_is_not_written_again_with_a_good_crc():
    """A bit that turned on the disk since the start."""
    old = Old(stored(1), stored(2))
    old.files[1][150] ^= 1

    with pytest.raises(CorruptJournal, match=r"00000001\.journal is damaged at offset \d+"):
        old.slice()


def test_a_message_that_is_not_found_is_named():
    """Another process emptied its segment: the broker must not delete it as if that were right."""
    old = Old(stored(1), stored(2))
    old.files[1][24:] = bytes(SEGMENT - 24)
    old.slice()
    old.compaction.written()

    with pytest.raises(CorruptJournal, match="has no record of"):
        old.slice()
