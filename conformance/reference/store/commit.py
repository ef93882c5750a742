"""Group commit: what is queued while the disk is busy goes out together, and is confirmed together.

Free of I/O: `take` gives the next batch, the caller puts it on disk, and `finished` confirms it. If the disk had no
room, `no_space` refuses the records that store messages and keeps the others for later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from conformance.reference.honest import LATE_S
from conformance.reference.store.journal import Compaction, Extent, Journal, Write
from conformance.reference.store.records import (
    Closed,
    Counted,
    Moved,
    QueueDeleted,
    Record,
    Removed,
    Stored,
    changes,
    stores,
)

Done = Callable[[], None]
Refused = Callable[[str], None]

FULL = "the disk of the broker is full"
TOO_LARGE = "the disk of the broker has no room for a message of this size"


def do_nothing() -> None:
    """Stand for the answer to an operation that no client waits for."""


class Batch(NamedTuple):
    """One trip to the disk: `writes` in order, then a sync if `sync`; after it the `unneeded` segments may go."""

    writes: list[Write]
    sync: bool
    unneeded: list[int]
    done: list[Done]
    sequence: int
    records: Sequence[Record] = ()  # of its operations; the writes also have the copies of compaction


class _Waiting(NamedTuple):
    """An operation in its turn. `sync`: it is answered after a sync; without a record it only asks for one."""

    record: Record | None
    done: Done
    sync: bool
    refused: Refused | None = None


class _Early(NamedTuple):
    """A record whose operation was answered. `late`: it has a time of its own at which it is stored.

    `done` is for the second half of a commit, which is answered when it is stored.
    """

    record: Record
    late: bool
    done: Done = do_nothing

    def waiting(self, *, sync: bool) -> _Waiting:
        return _Waiting(self.record, self.done, sync or self.done is not do_nothing)


class GroupCommit:
    """Queues operations and hands them out in batches; one batch is out at a time.

    Every record may come with `refused`: where it stores messages and the disk has no room for them, `refused` is
    called with the reason, in place of `done`, and nothing of the record is on disk or will be. It may be called before
    `add` returns. A record without it waits until there is room.
    """

    def __init__(
        self,
        journal: Journal,
        copied: Callable[[int], bool] = bool,
        copies_late_s: float = 0.0,
        *,
        refuses_unstored: bool = True,
    ) -> None:
        self._journal = journal
        self._refuses_unstored = refuses_unstored
        self._compaction = Compaction(journal, copied)
        self._copies_late_s = copies_late_s
        self._waiting: list[_Waiting] = []
        self._early: list[_Early] = []
        self._postponed: list[tuple[float, Done]] = []
        self._out: Batch | None = None
        self._taken: list[_Waiting] = []
        self._full = False
        self._stalled = False

    def add(self, record: Record | None, done: Done, refused: Refused | None = None) -> None:
        """Calls `done` once the record, and all that was added before it, is on disk.

        Without a record (a message that is not durable) `done` only waits its turn, so that order is kept.
        """
        if record is None and not self._waiting and self._out is None:
            done()
        elif not self._refuses(record, refused):
            self._waiting.append(_Waiting(record, done, record is not None, refused))

    def add_early(self, record: Record | None, done: Done, refused: Refused | None = None) -> None:
        """Calls `done` at once; the record sits in this process's memory until `take(early=True)`."""
        if self._refuses(record, refused):
            return
        if record is not None:
            self._early.append(_Early(record, late=False))
        done()

    def add_late(
        self, record: Record | None, done: Done, refused: Refused | None = None, seconds: float | None = None
    ) -> None:
        """Calls `done` in its turn, as for what is not durable; the record is `postponed` (a liar's doing)."""

        def answered() -> None:
            if self._refuses(record, refused):
                return
            if record is not None:
                self._early.append(_Early(record, late=True))
                self._postponed.append((LATE_S if seconds is None else seconds, lambda: self._store_late(record)))
            done()

        self.add(None, answered)

    def add_halves(self, first: Record, second: Record, done: Done, refused: Refused | None, seconds: float) -> None:
        """As `add` for one commit in two records; the second is `postponed` once the first is on disk (a liar's doing).

        A disk without room refuses the first; the second waits for room.
        """

        def half_done() -> None:
            self._early.append(_Early(second, late=True, done=done))
            self._postponed.append((seconds, lambda: self._store_late(second)))

        self.add(first, half_done, refused)

    def add_lazy(self, record: Record | None, done: Done, seconds: float) -> None:
        """Calls `done` at once; the record is `postponed` by so many seconds: what a lazy acknowledgement is."""
        if record is not None:
            self._early.append(_Early(record, late=True))
            self._postponed.append((seconds, lambda: self._store_late(record)))
        done()

    def add_slowly(self, record: Record | None, done: Done, seconds: float) -> None:
        """As `add`, so many seconds later: a slow disk, for a liar that does not wait for it."""
        self._postponed.append((seconds, lambda: self.add(record, done)))

    def add_unsynced(
        self, record: Record | None, done: Done, refused: Refused | None = None, *, ever: bool = True
    ) -> None:
        """Calls `done` once the record is written; its sync, if `ever`, is `postponed` (a liar's doing)."""

        def written() -> None:
            if ever:
                self._postponed.append((LATE_S, lambda: self._waiting.append(_Waiting(None, do_nothing, sync=True))))
            done()

        if record is None:
            self.add(None, done)
        elif not self._refuses(record, refused):
            self._waiting.append(_Waiting(record, written, False, refused))

    @property
    def full(self) -> bool:
        """Whether the disk has no room for more messages: who sends one is to be refused at once."""
        return self._full

    def room(self, found: bool) -> None:
        """Says whether there is room for a segment more than there are; where there is none, the disk is `full`."""
        self._full = not found and self._refuses_unstored
        self._stalled = self._stalled and not found

    def postponed(self) -> list[tuple[float, Done]]:
        """What has to be called so many seconds from now, each once; then there may be something to take."""
        postponed, self._postponed = self._postponed, []
        return postponed

    @property
    def has_early(self) -> bool:
        """Whether records were confirmed that are in this process's memory only, and have no time of their own."""
        return any(not each.late for each in self._early)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def stalled(self) -> bool:
        """Whether what waits cannot be written before there is room again."""
        return self._stalled

    @property
    def ready(self) -> bool:
        """Whether there is something for a batch to do: operations, copies, or segments that may go."""
        waiting = bool(self._waiting) or self._compaction.has_copies
        return (waiting and not self._stalled) or self._journal.has_unneeded

    @property
    def busy(self) -> bool:
        return self._out is not None

    def take(self, *, early: bool = False) -> Batch:
        """The next batch, with all that waits and, if `early`, what was confirmed too early. None may be out.

        What was confirmed too early goes out as well where a change of its messages waits: written after its removal,
        a message would come back.
        """
        if self._out is not None:
            raise RuntimeError("a batch is out already")
        taken = self._leading()
        refused = [each for each in taken if self._full and _refusable(each)]
        if refused:
            taken = [each for each in taken if each not in refused]
        if early or (self._early and self._touches_early(taken)):
            taken[:0] = [each.waiting(sync=False) for each in self._early]
            self._early = []
        batch = self._take(taken)
        for each in refused:
            _refuse(each, FULL)
        return batch

    def take_last(self) -> Batch:
        """The batch of a clean stop: all that is left, and the mark that it was all on disk."""
        batch = self.take(early=True)
        writes = batch.writes + self._journal.writes([Closed()])
        return batch._replace(writes=writes, sync=True, records=[*batch.records, Closed()])

    @property
    def last_synced(self) -> int:
        """The number of the last record that is known to be on disk."""
        return self._journal.last_synced

    def finished(self) -> None:
        """The batch that is out is on disk, or written if it was not to be synced: it is confirmed."""
        batch, self._out, self._taken = self._out, None, []
        if batch is None:
            raise RuntimeError("no batch is out")
        self._journal.written()
        self._compaction.written()
        if batch.sync:
            self._journal.synced(batch.sequence)
        for done in batch.done:
            done()

    def no_space(self, segment_bytes: int = 0) -> None:
        """There was no room for the batch that is out, and nothing of it is on disk.

        Args:
            segment_bytes: The size of the segment that could not be made, 0: an existing one could not be written.

        Where only a segment of a size of its own could not be made, only what needs such a one is refused.
        """
        taken, self._taken, self._out = self._taken, [], None
        self._journal.undo()
        large = segment_bytes > self._journal.segment_bytes
        refused = [each for each in taken if _refusable(each) and (not large or self._oversized(each))]
        self._waiting[:0] = [each for each in taken if each not in refused]
        self._full = self._refuses_unstored and (self._full or not (large and refused))
        self._stalled = not refused
        for each in refused:
            if self._refuses_unstored:
                _refuse(each, TOO_LARGE if large else FULL)
            else:
                each.done()

    def wanted(self, *, beside: int = 0) -> Extent | None:
        """What compaction has to read next, beside a batch of so many bytes: see `Compaction.wanted`."""
        return None if self._stalled else self._compaction.wanted(full=self._full, beside=beside)

    def supply(self, wanted: Extent, data: bytes) -> None:
        """These are the bytes: see `Compaction.supply`."""
        self._compaction.supply(wanted, data)

    def _leading(self) -> list[_Waiting]:
        """What waits, up to where one asks for a sync and the other does not: neither is stored as the other is."""
        way: bool | None = None
        for place, each in enumerate(self._waiting):
            if each.record is None and not each.sync:
                continue
            if way is not None and each.sync is not way:
                leading, self._waiting = self._waiting[:place], self._waiting[place:]
                return leading
            way = each.sync
        leading, self._waiting = self._waiting, []
        return leading

    def _store_late(self, record: Record) -> None:
        """The record, and all that was answered too early before it, goes ahead of what waits, which may rest on it."""
        place = next((place for place, each in enumerate(self._early) if each.record is record), None)
        if place is not None:
            due, self._early = self._early[: place + 1], self._early[place + 1 :]
            self._waiting[:0] = [each.waiting(sync=True) for each in due]

    def _copied_late(self, copy: Record, changed: set[int]) -> Record:
        """Store the copy of a message later, and remove it now, so that its file goes without it (a liar's doing)."""
        if not isinstance(copy, Stored) or copy.id in changed:
            return copy
        self._early.append(_Early(copy, late=True))
        self._postponed.append((self._copies_late_s, lambda: self._store_late(copy)))
        return Removed(copy.id)

    def _touches_early(self, waiting: list[_Waiting]) -> bool:
        """Whether a record changes a message, or ends a queue, whose storing has not been handed out."""
        deletes = any(isinstance(each.record, QueueDeleted) for each in waiting)
        return deletes or any(not self._journal.knows(id) for id in _changed(waiting))

    def _take(self, taken: list[_Waiting]) -> Batch:
        copies = self._compaction.copies()
        if self._copies_late_s:
            changed = _changed(taken)
            copies = [self._copied_late(each, changed) for each in copies]
        unneeded = self._journal.unneeded()
        records = [each.record for each in taken if each.record is not None]
        writes = self._journal.writes([*copies, *records])
        # That a segment is not needed may be said by what was written and never synced: it must be, before it goes.
        sync = any(each.sync for each in taken) or bool(unneeded)
        self._taken = taken
        self._out = Batch(writes, sync, unneeded, [each.done for each in taken], self._journal.sequence, records)
        return self._out

    def _refuses(self, record: Record | None, refused: Refused | None) -> bool:
        """Refuses what cannot be stored for want of room; whether it did."""
        if not self._full or record is None or refused is None or not stores(record):
            return False
        refused(FULL)
        return True

    def _oversized(self, each: _Waiting) -> bool:
        return each.record is not None and self._journal.oversized(each.record)


def _changed(waiting: Iterable[_Waiting]) -> set[int]:
    """Return the ids of the messages that these records change or remove."""
    records = (each.record for each in waiting if each.record is not None)
    return {c.id for record in records for c in changes(record) if isinstance(c, Removed | Counted | Moved)}


def _refusable(each: _Waiting) -> bool:
    return each.refused is not None and each.record is not None and stores(each.record)


def _refuse(each: _Waiting, reason: str) -> None:
    if each.refused is not None:
        each.refused(reason)
