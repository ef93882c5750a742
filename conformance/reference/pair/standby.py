"""The standby: stores what the active member sends, and waits for the lock."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from conformance.errors import LaunchError
from conformance.reference.disk import JournalThread
from conformance.reference.honest import Honest
from conformance.reference.pair import frames
from conformance.reference.pair.active import BROKEN, read
from conformance.reference.pair.frames import PairFrame
from conformance.reference.pair.members import PairOptions, SharedFolder
from conformance.reference.store.commit import GroupCommit, do_nothing
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.journal import Journal
from conformance.reference.store.recovery import CorruptJournal, loading, recover

POLL_S = 0.05
"""Seconds between two looks at the lock, and between two attempts to connect."""


@dataclass
class Standby:
    """A member without the lock. Its journal is at `data`, with so many duplicate `identities` of each queue."""

    options: PairOptions
    folder: SharedFolder
    data: Path
    behaviour: Honest
    identities: int
    barred: bool = False  # it had the lock while it was out of step, and leaves it to the other member since

    async def wait(self) -> bool:
        """Follow the active member until this one may take over; return False if a signal stops it first.

        It has the lock then, and its journal is closed. Raises `LaunchError` if it cannot be the standby.
        """
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        tasks = [*map(loop.create_task, (stopped.wait(), self._await_lock(), self._follow()))]
        ended, going_on = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in going_on:
            task.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        await asyncio.gather(*ended)
        return not stopped.is_set()

    async def _await_lock(self) -> None:
        """Return when this member has the lock, and may take over."""
        while True:
            if not self.barred and self.folder.acquire():
                members, me, other = self.folder.in_sync(), self.options.member, self.options.other
                if members is None or me in members or not self.behaviour.heeds_in_sync:
                    return
                self.folder.release()
                self.barred = True
                print(f"member {me} does not take over: it is out of step, and waits for member {other}", flush=True)
            await asyncio.sleep(POLL_S)

    async def _follow(self) -> None:
        """Connect to the active member, again and again. Never returns; raises `LaunchError`."""
        while True:
            with contextlib.suppress(*BROKEN):
                async with asyncio.timeout(self.options.bound_s):
                    reader, writer = await asyncio.open_connection(*self.options.peer)
                with contextlib.closing(writer):
                    writer.write(frames.frame(PairFrame.HELLO, b"%d" % self.options.member))
                    await self._store(reader, writer)
            await asyncio.sleep(POLL_S)

    async def _store(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Store the snapshot and then each batch, and answer when it is synced, until the link ends or is silent."""
        segments: dict[int, bytes] = {}
        commit = disk = None
        try:
            while True:
                async with asyncio.timeout(self.options.bound_s):  # `wait_for` may lose a cancellation (Python 3.11)
                    kind, data = await read(reader)
                if kind is PairFrame.SEGMENT:
                    number, segments[number] = frames.segment_of(data)
                elif kind is PairFrame.WHOLE:
                    commit, disk = self._installed(segments)
                    segments.clear()
                    writer.write(frames.stored(0))
                elif kind is PairFrame.RECORDS and commit is not None and disk is not None:
                    batch, records = frames.records_of(data)
                    for entry in records:
                        commit.add(entry, do_nothing)
                    commit.add(None, partial(writer.write, frames.stored(batch)))
                    disk.start()
                elif kind is PairFrame.IN_STEP:
                    self.barred = False
                    print(f"member {self.options.member} is in step", flush=True)
                elif (kind, data) == (PairFrame.ALIVE, b"%d" % self.options.member):
                    raise LaunchError(f"member {data.decode()} is active: start the other one with another --member")
        finally:
            if disk is not None:
                await disk.settle()
                await disk.leave()

    def _installed(self, segments: Mapping[int, bytes]) -> tuple[GroupCommit, JournalThread]:
        """Put a snapshot in place of the journal, while `in-sync` is without this member. Raises `LaunchError`."""
        files = SegmentFiles(self.data, self.behaviour)
        try:
            with loading():
                if segments or self.behaviour.catches_up:
                    files.replace(segments)
                recovered = recover(segments or files.read())
                files.repair(recovered)
        except (CorruptJournal, OSError) as error:
            files.close()
            raise LaunchError(f"data directory {self.data}: the snapshot is not stored: {error}") from error
        commit = GroupCommit(Journal(recovered, identities=self.identities))
        return commit, JournalThread(commit, files, 0.0)
