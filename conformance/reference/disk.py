"""The journal's thread: takes batches from the group commit, has them stored, and says when that is done."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from conformance.reference.honest import LATE_S
from conformance.reference.store.commit import Batch, Done, GroupCommit
from conformance.reference.store.files import SegmentFiles

DISK_ERROR = 74
"""Exit code after a failed write or sync (EX_IOERR): what was not confirmed never will be."""


class Disk:
    """One batch at a time in a thread of its own; `stored` is called in the loop after each."""

    def __init__(
        self, commit: GroupCommit, files: SegmentFiles, buffer_seconds: float, stored: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._commit = commit
        self._files = files
        self._buffer_seconds = buffer_seconds
        self._stored_batch = stored
        self._thread = ThreadPoolExecutor(1, "journal")
        self._early_due = False
        self._early_timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()

    def start(self) -> None:
        """Hands out what waits, if nothing is out."""
        for call in self._commit.postponed():
            self._loop.call_later(LATE_S, self._is_due, call)
        if self._commit.has_early and self._early_timer is None and not self._early_due:
            self._early_timer = self._loop.call_later(self._buffer_seconds, self._early_is_due)
        if self._commit.busy or not (self._commit.has_waiting or self._early_due):
            return
        self._idle.clear()
        early, self._early_due = self._early_due, False
        self._submit(self._commit.take(early=early))

    async def settle(self) -> None:
        """Until nothing waits for the disk."""
        self.start()
        while self._commit.busy or self._commit.has_waiting:
            self._idle.clear()
            await self._idle.wait()
            self.start()

    async def close(self) -> None:
        """Leaves a closed journal."""
        if self._early_timer is not None:
            self._early_timer.cancel()
        self._submit(self._commit.take_last())
        await self.settle()
        self._thread.shutdown()
        self._files.close()

    def _submit(self, batch: Batch) -> None:
        if not (batch.writes or batch.unneeded or batch.sync):
            self._stored()
            return
        future = self._thread.submit(self._files.store, batch)
        future.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._stored, done.exception()))

    def _stored(self, error: BaseException | None = None) -> None:
        if error is not None:
            # After a failed sync the kernel may have dropped the pages: no later sync can be believed.
            print(f"stopped: the journal could not be written: {error}", file=sys.stderr, flush=True)
            os._exit(DISK_ERROR)
        self._commit.finished()
        self._idle.set()
        self._stored_batch()

    def _is_due(self, postponed: Done) -> None:
        postponed()
        self._stored_batch()

    def _early_is_due(self) -> None:
        self._early_timer = None
        self._early_due = True
        self._stored_batch()
