"""Group commit: what is queued while the disk is busy goes out together, and is confirmed together.

Free of I/O: `take` gives the next batch, somebody puts it on disk, `finished` confirms it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from conformance.reference.journal import Journal, Write
from conformance.reference.records import Closed, Record, Stored, changes

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


class GroupCommit:
    """Queues operations and hands them out in batches; one batch is out at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: list[tuple[Record | None, Done]] = []
        self._early: list[Record] = []
        self._out: Batch | None = None

    def add(self, record: Record | None, done: Done) -> None:
        """Calls `done` once the record, and all that was added before it, is on disk.

        Without a record (a message that is not durable) `done` only waits its turn, so that order is kept.
        """
        if record is None and not self._waiting and self._out is None:
            done()
        else:
            self._waiting.append((record, done))

    def add_early(self, record: Record | None, done: Done) -> None:
        """Calls `done` at once; the record sits in this process's memory until `take(early=True)`."""
        if record is not None:
            self._early.append(record)
        done()

    @property
    def has_early(self) -> bool:
        """Whether records were confirmed that are in this process's memory only."""
        return bool(self._early)

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
        waiting, self._waiting = self._waiting, []
        records = [record for record, _ in waiting if record is not None]
        sync = bool(records)
        if early or (self._early and self._touches_early(records)):
            records[:0] = self._early
            self._early = []
        return self._take(records, sync, [done for _, done in waiting])

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

    def _touches_early(self, records: list[Record]) -> bool:
        """Whether a record changes a message whose storing has not been handed out."""
        mentioned = [change for record in records for change in changes(record) if not isinstance(change, Stored)]
        return any(not self._journal.knows(change.id) for change in mentioned)

    def _take(self, records: list[Record], sync: bool, done: list[Done]) -> Batch:
        unneeded = self._journal.unneeded()
        writes = self._journal.writes(records)
        self._out = Batch(writes, sync, unneeded, done, self._journal.sequence)
        return self._out
