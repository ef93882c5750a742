"""Compaction without stopping: what is live in the oldest segment is written again at the end, a slice at a time.

Then the segment holds nothing, and goes. The slices are read back from the file, for a journal that kept its records in
memory would hold each message twice; what has changed since they were written (count, queue) is in the index.

Only the oldest segment, whatever is in it: a removal must not go before what it removes. A segment is rewritten while
all of them are more than half dead, so that in the long run no more bytes are copied than are freed.

Free of I/O: `wanted` says which bytes are to be read, `supply` takes them, `copies` are the records for the next batch.
"""

from __future__ import annotations

from typing import NamedTuple

from conformance.reference.store.journal import Journal
from conformance.reference.store.records import (
    RECORD_HEADER,
    SEGMENT_HEADER,
    Change,
    Committed,
    IdentifiedAgain,
    Record,
    Stored,
    changes,
    extent,
    record,
    scan,
)
from conformance.reference.store.recovery import CorruptJournal, filename

SLICE = 256 * 1024
"""Bytes that are read, and at most written, beside a batch: they cost a confirm about a millisecond."""

FEW = 4
"""So many segments are left as they are, however little is live in them."""


class Extent(NamedTuple):
    """Bytes of a segment."""

    segment: int
    offset: int
    length: int


class _Found(NamedTuple):
    """A change that was live in the oldest segment when it was read, and the sequence of its record."""

    change: Change
    order: int


class Compaction:
    """Empties the oldest segment of a journal, again and again, while that is worth it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._segment = 0
        self._offset = 0
        self._needed = 0
        self._found: list[_Found] = []

    @property
    def has_copies(self) -> bool:
        """Whether records wait for the next batch."""
        return bool(self._found)

    def wanted(self, *, full: bool, beside: int = 0) -> Extent | None:
        """What is to be read next, beside a batch of so many bytes; None: nothing. No batch may be out.

        Twice the batch at least, so that dead bytes go as fast as new ones come. On a `full` disk only what can be
        copied without taking the room that removals need.

        Raises `CorruptJournal` if a message that is live in the segment was not found there.
        """
        if self._found or not (self._affordable() if full else self._worthwhile()):
            return None
        if self._segment != self._journal.oldest:
            self._segment, self._offset, self._needed = self._journal.oldest, SEGMENT_HEADER, 0
        if self._offset < 0:
            if live := self._journal.index.live[self._segment]:
                raise CorruptJournal(f"{filename(self._segment)} has no record of {live} bytes that are needed of it")
            return None
        length = max(SLICE, self._needed, 2 * beside)
        return Extent(self._segment, self._offset, min(length, self._journal.segments[self._segment] - self._offset))

    def supply(self, wanted: Extent, data: bytes) -> None:
        """These are the bytes. Raises `CorruptJournal` if a record in them is damaged: it is not written again."""
        if wanted.segment != self._journal.oldest:
            return
        index, at = self._journal.index, 0
        for framed in scan(data, 0):
            for change in changes(record(framed.kind, data, framed.start, framed.end)):
                if index.current(change, wanted.segment, framed.sequence) is not None:
                    self._found.append(_Found(change, framed.sequence))
            at = framed.end
        self._offset += at
        needed = extent(data, at)
        # A file that is shorter than it was made is a liar's, or somebody cut it: it has no more than this.
        last = len(data) < wanted.length or wanted.offset + wanted.length >= self._journal.segments[wanted.segment]
        if needed and (last or at + needed <= len(data)):
            raise CorruptJournal(f"{filename(wanted.segment)} is damaged at offset {self._offset}")
        if last or (not needed and len(data) - at >= RECORD_HEADER):
            self._offset = -1
        self._needed = max(needed, RECORD_HEADER)

    def copies(self) -> list[Record]:
        """What is still live of what was read, as it is now: before all else of its batch, which may remove it."""
        out: list[Record] = []
        seen: list[IdentifiedAgain] = []
        for change, order in self._found:
            now = self._journal.index.current(change, self._segment, order)
            if isinstance(now, Stored):
                out.append(now)
            elif now is not None:
                seen.append(now)
        return [*out, Committed(tuple(seen))] if seen else out

    def written(self) -> None:
        """The copies are in the files."""
        self._found = []

    def _worthwhile(self) -> bool:
        journal = self._journal
        return len(journal.segments) > FEW and 2 * journal.index.total < journal.total

    def _affordable(self) -> bool:
        journal = self._journal
        live = journal.index.live[journal.oldest] if journal.oldest else 0
        return 0 < 2 * live < min(journal.segments[journal.oldest], journal.room)
