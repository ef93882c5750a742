"""The standby: stores what the active member sends, and waits for the lock."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
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


class Standby:
    """A member without the lock. Its journal is at `data`, with so many duplicate `identities` of each queue."""

    def __init__(
        self, options: PairOptions, folder: SharedFolder, data: Path, behaviour: Honest, identities: int
    ) -> None:
        self._options = options
        self._folder = folder
        self._data = data
        self._behaviour = behaviour
        self._identities = identities
        self._barred = False  # it had the lock while it was out of step, and leaves it to the other member since

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
        for task in ended:
            task.result()
        return not stopped.is_set()

    async def _await_lock(self) -> None:
        """Return when this member has the lock, and may take over."""
        while True:
            if not self._barred and self._folder.acquire():
                members, me = self._folder.in_sync(), self._options.member
                if members is None or me in members or not self._behaviour.heeds_in_sync:
                    return
                self._folder.release()
                self._barred = True
                reason = f"out of step and does not take over: it waits for member {self._options.other}"
                print(f"member {me} is {reason}", flush=True)
            await asyncio.sleep(POLL_S)

    async def _follow(self) -> None:
        """Connect to the active member, again and again. Never returns; raises `LaunchError`."""
        while True:
            with contextlib.suppress(*BROKEN):
                link = asyncio.open_connection(*self._options.peer)
                reader, writer = await asyncio.wait_for(link, self._options.bound_s)
                try:
                    writer.write(frames.frame(PairFrame.HELLO, b"%d" % self._options.member))
                    await self._store(reader, writer, *self._installed(await self._snapshot(reader)))
                finally:
                    writer.close()
            await asyncio.sleep(POLL_S)

    async def _read(self, reader: asyncio.StreamReader) -> tuple[PairFrame, bytes]:
        """Return the next frame. An active member that is silent for too long is as one that has closed the link."""
        return await asyncio.wait_for(read(reader), self._options.bound_s)

    async def _snapshot(self, reader: asyncio.StreamReader) -> dict[int, bytes]:
        """Return the segments of the active member's journal by their numbers."""
        segments: dict[int, bytes] = {}
        while (said := await self._read(reader))[0] is not PairFrame.WHOLE:
            if said == (PairFrame.ALIVE, b"%d" % self._options.member):
                raise LaunchError(f"member {self._options.member} is active: start the other one with another --member")
            if said[0] is PairFrame.SEGMENT:
                number, segments[number] = frames.segment_of(said[1])
        return segments

    def _installed(self, segments: Mapping[int, bytes]) -> tuple[GroupCommit, SegmentFiles]:
        """Put the snapshot in place of this member's journal, and return that journal, open. Raises `LaunchError`.

        This member is not in `in-sync` here, so it never starts from a snapshot that is not whole.
        """
        files = SegmentFiles(self._data, self._behaviour)
        try:
            with loading():
                files.replace(segments)
                recovered = recover(segments)
                files.repair(recovered)
        except (CorruptJournal, OSError) as error:
            files.close()
            raise LaunchError(f"data directory {self._data}: the snapshot is not stored: {error}") from error
        return GroupCommit(Journal(recovered, identities=self._identities)), files

    async def _store(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, commit: GroupCommit, files: SegmentFiles
    ) -> None:
        """Store each batch, and answer when it is synced, until the link ends."""
        loop = asyncio.get_running_loop()

        def turn() -> None:
            loop.call_soon(disk.start)

        disk = JournalThread(commit, files, 0.0, turn)
        try:
            writer.write(frames.stored(0))
            while True:
                kind, data = await self._read(reader)
                if kind is PairFrame.IN_STEP:
                    self._barred = False
                    print(f"member {self._options.member} is in step", flush=True)
                elif kind is PairFrame.RECORDS:
                    batch, records = frames.records_of(data)
                    for entry in records:
                        commit.add(entry, do_nothing)
                    commit.add(None, partial(writer.write, frames.stored(batch)))
                    disk.start()
        finally:
            await disk.settle()
            await disk.leave()
