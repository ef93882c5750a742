"""The journal's thread: takes batches from the group commit, has them stored, and says when that is done."""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from conformance.reference.store.commit import Batch, Done, GroupCommit
from conformance.reference.store.files import NoSpace, SegmentFiles
from conformance.reference.store.journal import Extent
from conformance.reference.store.records import Record
from conformance.reference.store.recovery import CorruptJournal

DISK_ERROR = 74
"""Exit code after a failed write or sync (EX_IOERR): what was not confirmed never will be."""

RETRY_S = 0.25
"""Seconds after which a full disk is looked at again."""

T = TypeVar("T")


class JournalThread:
    """One batch at a time in a thread of its own; `stored` is called in the loop after each, else the next one begins.

    Work that no client waits for is done in the same thread, in short steps: at most one between two batches. If
    `replicate` is set, it gets the records of a batch that was stored, and calls back when they may be confirmed.
    """

    def __init__(
        self, commit: GroupCommit, files: SegmentFiles, buffer_seconds: float, stored: Callable[[], None] | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._commit = commit
        self._files = files
        self._buffer_seconds = buffer_seconds
        self._stored_batch = stored or self.start
        self.replicate: Callable[[Sequence[Record], Done], None] | None = None
        self._asked: list[Callable[[dict[int, bytes]], None]] = []
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()
        self._early_due = False
        self._early_timer: asyncio.TimerHandle | None = None
        self._full_timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._working = False
        self._chore_due = False
        self._last_bytes = 0
        self._closing = self._closed = False
        commit.room(not files.full)

    def start(self) -> None:
        """Hands out what waits, if nothing is out."""
        if self._closed:
            return
        for seconds, call in self._commit.postponed():
            self._loop.call_later(seconds, self._is_due, call)
        if self._commit.has_early and self._early_timer is None and not self._early_due:
            self._early_timer = self._loop.call_later(self._buffer_seconds, self._early_is_due)
        if self._commit.full and self._full_timer is None and not self._closing:
            self._full_timer = self._loop.call_later(RETRY_S, self._look_again)
        if self._working or (self._chore_due and self._chore()):
            return
        if self._asked:
            self._run(lambda: dict(self._files.read()), self._asked.pop(0))
        elif self._commit.ready or self._early_due:
            early, self._early_due = self._early_due, False
            self._submit(self._commit.take(early=early))
        else:
            self._chore()

    def snapshot(self, then: Callable[[dict[int, bytes]], None]) -> None:
        """Read all segments when no batch is out, and call `then` with them before the next one is."""
        self._asked.append(then)
        self._stored_batch()

    async def settle(self) -> None:
        """Until nothing waits for the disk but what finds no room there."""
        self.start()
        while self._commit.busy or (self._commit.has_waiting and not self._commit.stalled):
            await self._pause()
            self.start()

    async def close(self) -> None:
        for timer in (self._early_timer, self._full_timer):
            if timer is not None:
                timer.cancel()
        self._closing = True
        while self._working:
            await self._pause()
        self._submit(self._commit.take_last())
        await self.settle()
        self._files.note_stop(self._commit.last_synced)
        await self.leave()

    async def leave(self) -> None:
        """As `close`, without the mark of a clean stop: for a journal that another broker goes on with."""
        self._closing = True
        while self._working:
            await self._pause()
        self._closed = True
        self._jobs.put(None)
        self._thread.join()
        self._files.close()

    async def _pause(self) -> None:
        self._idle.clear()
        await self._idle.wait()

    def _submit(self, batch: Batch) -> None:
        self._chore_due = True
        self._last_bytes = sum(len(write.data) for write in batch.writes)
        if batch.writes or batch.unneeded or batch.sync:
            self._run(lambda: self._files.store(batch), lambda _: self._written(batch.records))
        else:
            self._stored()

    def _chore(self) -> bool:
        """Do one short step that no client waits for, if there is one; return whether there was."""
        self._chore_due = False
        if self._closing:
            return False
        try:
            extent = self._commit.wanted(beside=self._last_bytes)
        except CorruptJournal as error:
            _stop(error)
        if extent is not None:
            self._run(lambda: self._files.fetch(extent), lambda data: self._fetched(extent, data))
        elif self._files.untended:
            self._run(self._files.tend, lambda _: self._tended())
        return self._working

    def _run(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        self._working = True
        self._jobs.put((work, then))

    def _work(self) -> None:
        """The thread. An executor and its futures would cost a twentieth of a lone send's processor time."""
        while (job := self._jobs.get()) is not None:
            work, then = job
            error, result = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(self._ran, error, result, then)
            except RuntimeError:
                return  # the loop is closed: the broker has ended, and the error that ended it is the last in its log

    def _ran(self, error: BaseException | None, result: Any, then: Callable[[Any], None]) -> None:
        self._working = False
        if isinstance(error, NoSpace):
            self._commit.no_space(error.segment_bytes)
        elif error is not None:
            _stop(error)
        else:
            then(result)
        self._idle.set()
        self._stored_batch()

    def _written(self, records: Sequence[Record]) -> None:
        if self.replicate is None or not records:
            self._stored()
        else:
            self._working = True
            self.replicate(records, self._stored)

    def _stored(self) -> None:
        self._working = False
        if self._files.full:
            self._commit.room(False)
        self._commit.finished()
        self._idle.set()
        self._stored_batch()

    def _fetched(self, extent: Extent, data: bytes) -> None:
        try:
            self._commit.supply(extent, data)
        except CorruptJournal as error:
            _stop(error)

    def _tended(self) -> None:
        if self._files.full or not self._files.untended:
            self._commit.room(not self._files.full)

    def _look_again(self) -> None:
        self._full_timer = None
        self._files.retry()
        if not self._files.untended:
            self._commit.room(not self._files.full)
        self._stored_batch()

    def _is_due(self, postponed: Done) -> None:
        postponed()
        self._stored_batch()

    def _early_is_due(self) -> None:
        self._early_timer = None
        self._early_due = True
        self._stored_batch()


def _stop(error: BaseException) -> NoReturn:
    """Ends this process: after a failed sync the kernel may have dropped the pages, and no later one is believed."""
    what = "is damaged" if isinstance(error, CorruptJournal) else "could not be written"
    print(f"stopped: the journal {what}: {error}", file=sys.stderr, flush=True)
    os._exit(DISK_ERROR)
