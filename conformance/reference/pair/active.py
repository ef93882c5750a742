"""The active member: sends its journal to the standby, and says when a batch may be confirmed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence

from conformance.errors import LaunchError
from conformance.reference.disk import DISK_ERROR, JournalThread
from conformance.reference.honest import Honest
from conformance.reference.pair import frames
from conformance.reference.pair.frames import PairFrame
from conformance.reference.pair.members import MEMBERS, PairOptions, SharedFolder
from conformance.reference.store.commit import Done
from conformance.reference.store.records import Record

BACKLOG_BYTES = 64 * 1024 * 1024
"""Bytes beyond the snapshot that wait for a standby which is not in step; with more the link is closed."""

BROKEN = (OSError, EOFError, ValueError)
"""What `read` raises if a link has ended, is broken, or has something else than frames."""


async def read(reader: asyncio.StreamReader) -> tuple[PairFrame, bytes]:
    """Return the next frame, its kind and its payload. Raises `BROKEN`."""
    kind, length = frames.HEAD.unpack(await reader.readexactly(frames.HEAD.size))
    return PairFrame(kind), await reader.readexactly(length)


class _Link:
    """A connected standby: the last batch that was `sent` to it, and the last one that it has `stored`."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.sent, self.stored = 0, -1
        self.in_step = False
        self.backlog = BACKLOG_BYTES


class Replication:
    """The link of the active member to its standby. It is set to replicate what `disk` stores.

    One batch of the group commit waits at a time. It is confirmed when the standby has it, or when the file `in-sync`
    does not name the standby.
    """

    def __init__(self, options: PairOptions, folder: SharedFolder, behaviour: Honest, disk: JournalThread) -> None:
        self._options = options
        self._folder = folder
        self._behaviour = behaviour
        self._disk = disk
        disk.replicate = self.replicate
        self._loop = asyncio.get_running_loop()
        self._link: _Link | None = None
        self._newest: _Link | None = None
        self._one_link = asyncio.Lock()
        self._named = True  # whether `in-sync` may name the standby, so that a batch has to wait for it
        self._halted = False  # it confirms nothing more: only a liar
        self._been_in_step = False
        self._done: Done | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen for the standby, and be the only member of `in-sync`. Raises `LaunchError`."""
        host, port = self._options.replication
        async with self._one_link:
            try:
                self._server = await asyncio.start_server(self._accept, host, port)
            except OSError as error:
                raise LaunchError(f"cannot listen on {host}:{port} for the standby: {error.strerror}") from error
            await self._stand_alone()
        print(f"member {self._options.member} is active", flush=True)

    def replicate(self, records: Sequence[Record], done: Done) -> None:
        """Send the records of a batch that is on this disk; call `done` when the batch may be confirmed."""
        link, late = self._link, self._behaviour.replica_late_s
        if link is not None:
            self._loop.call_later(late, self._send, link, records) if late else self._send(link, records)
        if late:
            done()
        else:
            self._done = done
            self._confirm()

    def _send(self, link: _Link, records: Sequence[Record]) -> None:
        link.sent += 1
        link.writer.write(frames.records(link.sent, map(self._behaviour.replicated, records)))
        if link.writer.transport.get_write_buffer_size() > link.backlog:
            link.writer.transport.abort()

    def _confirm(self) -> None:
        """Confirm the batch that waits, or close the link if the standby does not answer in time from now."""
        link = self._link
        if self._timer is not None:
            self._timer.cancel()
        if self._done is None or self._halted:
            return
        if not self._named or (link is not None and link.stored == link.sent):
            done, self._done = self._done, None
            done()
        elif link is not None:
            self._timer = self._loop.call_later(self._options.bound_s, link.writer.transport.abort)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection. If it is from the standby, it replaces the one before."""
        alive = self._loop.create_task(self._say_alive(writer))
        with contextlib.suppress(*BROKEN):
            async with asyncio.timeout(self._options.bound_s):
                hello = await read(reader)
            if hello == (PairFrame.HELLO, b"%d" % self._options.other):
                previous, self._newest = self._newest, (link := _Link(writer))
                if previous is not None:
                    previous.writer.transport.abort()
                async with self._one_link:
                    await self._follow(reader, link)
        alive.cancel()
        writer.close()

    async def _follow(self, reader: asyncio.StreamReader, link: _Link) -> None:
        """Keep the standby in step. If the link ends before this broker does, take the standby out of `in-sync`."""
        try:
            await self._snapshot(link)
            while True:
                link.stored = frames.batch_of((await read(reader))[1])
                self._named = True
                if not link.in_step and link.stored == link.sent:
                    await self._write(MEMBERS)
                    link.in_step = self._been_in_step = True
                    link.writer.write(frames.frame(PairFrame.IN_STEP))
                self._confirm()
        except BROKEN:
            self._link = None
            self._halted = not self._behaviour.goes_on_alone
            await self._stand_alone()
            if link.in_step:
                print(f"member {self._options.other} is out of step", flush=True)

    async def _snapshot(self, link: _Link) -> None:
        """Send the journal as it is between two batches: the batch after it is the first that is sent by itself."""
        begun = self._loop.create_future()

        def begin(segments: dict[int, bytes]) -> None:
            again = self._been_in_step and not self._behaviour.catches_up
            for number in sorted({} if again else segments):
                link.writer.write(frames.segment(number, segments[number]))
            link.writer.write(frames.frame(PairFrame.WHOLE))
            link.backlog += link.writer.transport.get_write_buffer_size()
            self._link = link
            begun.set_result(None)

        self._disk.snapshot(begin)
        await begun

    async def _say_alive(self, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(frames.frame(PairFrame.ALIVE, b"%d" % self._options.member))
            await asyncio.sleep(self._options.bound_s / 4)  # so that none is late

    async def _stand_alone(self) -> None:
        """Take the standby out of `in-sync`, and then confirm what waits for it."""
        await self._write([self._options.member])
        self._named = False
        self._confirm()

    async def _write(self, members: Sequence[int]) -> None:
        """Write `in-sync`. An error ends the broker: nothing more could be confirmed."""
        try:
            await asyncio.to_thread(self._folder.write, members)
        except OSError as error:
            print(f"stopped: the file in-sync could not be written: {error}", file=sys.stderr, flush=True)
            os._exit(DISK_ERROR)
