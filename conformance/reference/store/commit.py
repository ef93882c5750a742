"""Group commit: what is queued while the disk is busy goes out together, and is confirmed together.

Free of I/O: `take` gives the next batch, somebody puts it on disk, `finished` confirms it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from conformance.reference.store.journal import Journal, Write
from conformance.reference.store.records import Closed, Record, Stored, changes

Done = Callable[[], None]


def nobody() -> None:
    """For an operation that nobody waits for."""


class Batch(NamedTuple):
    """One trip to the disk: `writes` in order, then a sync if `sync`; then the `unneeded` segments are deleted."""

    writes: list[Write]
    sync: bool
    unneeded: list[int]
    done: list[Done]
    sequence: int


class _Waiting(NamedTuple):
    """An operation in its turn. `sync`: it is answered after a sync; without a record it only asks for one."""

    record: Record | None
    done: Done
    sync: bool


class _Early(NamedTuple):
    """A record whose operation was answered. `late`: it has a time of its own at which it is stored."""

    record: Record
    late: bool


class GroupCommit:
    """Queues operations and hands them out in batches; one batch is out at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: list[_Waiting] = []
        self._early: list[_Early] = []
        self._postponed: list[Done] = []
        self._out: Batch | None = None

    def add(self, record: Record | None, done: Done) -> None:
        """Calls `done` once the record, and all that was added before it, is on disk.

        Without a record (a message that is not durable) `done` only waits its turn, so that order is kept.
        """
        if record is None and not self._waiting and self._out is None:
            done()
        else:
            self._waiting.append(_Waiting(record, done, sync=record is not None))

    def add_early(self, record: Record | None, done: Done) -> None:
        """Calls `done` at once; the record sits in this process's memory until `take(early=True)`."""
        if record is not None:
            self._early.append(_Early(record, late=False))
        done()

    def add_late(self, record: Record | None, done: Done) -> None:
        """Calls `done` in its turn, as for what is not durable; the record is `postponed` (a liar's doing)."""

        def answered() -> None:
            if record is not None:
                self._early.append(_Early(record, late=True))
                self._postponed.append(lambda: self._store_late(record))
            done()

        self.add(None, answered)

    def add_unsynced(self, record: Record | None, done: Done) -> None:
        """Calls `done` once the record is written; its sync is `postponed` (a liar's doing)."""

        def written() -> None:
            self._postponed.append(lambda: self._waiting.append(_Waiting(None, nobody, sync=True)))
            done()

        if record is None:
            self.add(None, done)
        else:
            self._waiting.append(_Waiting(record, written, sync=False))

    def postponed(self) -> list[Done]:
        """What has to be called `LATE_S` from now, each once; then there may be something to take."""
        postponed, self._postponed = self._postponed, []
        return postponed

    @property
    def has_early(self) -> bool:
        """Whether records were confirmed that are in this process's memory only, and have no time of their own."""
        return any(not each.late for each in self._early)

    @property
    def has_waiting(self) -> bool:
        """Whether operations wait for a batch."""
        return bool(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether a batch is out."""
        return self._out is not None

    def take(self, *, early: bool = False) -> Batch:
        """The next batch, with all that waits and, if `early`, what was confirmed too early. None may be out.

        What was confirmed too early goes out as well where a change of its messages waits: written after its removal,
        a message would come back.
        """
        if self._out is not None:
            raise RuntimeError("a batch is out already")
        waiting = self._leading()
        records = [each.record for each in waiting if each.record is not None]
        if early or (self._early and self._touches_early(records)):
            records[:0] = [each.record for each in self._early]
            self._early = []
        return self._take(records, any(each.sync for each in waiting), [each.done for each in waiting])

    def take_last(self) -> Batch:
        """The batch of a clean stop: all that is left, and the mark that it was all on disk."""
        batch = self.take(early=True)
        writes = batch.writes + self._journal.writes([Closed()])
        return batch._replace(writes=writes, sync=True)

    def finished(self) -> None:
        """The batch that is out is on disk, or written if it was not to be synced: it is confirmed."""
        batch, self._out = self._out, None
        if batch is None:
            raise RuntimeError("no batch is out")
        if batch.sync:
            self._journal.synced(batch.sequence)
        for done in batch.done:
            done()

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
            self._waiting[:0] = [_Waiting(each.record, nobody, sync=True) for each in due]

    def _touches_early(self, records: list[Record]) -> bool:
        """Whether a record changes a message whose storing has not been handed out."""
        mentioned = [change for record in records for change in changes(record) if not isinstance(change, Stored)]
        return any(not self._journal.knows(change.id) for change in mentioned)

    def _take(self, records: list[Record], sync: bool, done: list[Done]) -> Batch:
        unneeded = self._journal.unneeded()
        writes = self._journal.writes(records)
        self._out = Batch(writes, sync, unneeded, done, self._journal.sequence)
        return self._out
