"""The active member and its link, with a standby that is written here: when a batch is confirmed, and what is sent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import zlib

import pytest

from conformance.errors import LaunchError
from conformance.reference.honest import Honest
from conformance.reference.pair import frames
from conformance.reference.pair.active import Replication, read
from conformance.reference.pair.frames import PairFrame
from conformance.reference.pair.members import PairOptions, SharedFolder
from conformance.reference.pair.standby import Standby
from conformance.reference.store.files import SegmentFiles
from conformance.reference.store.records import (
    Committed,
    QueueDeclared,
    Removed,
    Stored,
    frame,
    payload,
    segment_header,
)
from conformance.reference.store.recovery import recover

from .pair_rig import free_port

PATIENCE = 20
ENTRIES = [
    QueueDeclared("q", 1),
    Stored(1, 1, "q", 0, b"", b"body\0\0"),
    Committed((Stored(2, 2, "q", 0, b"", b""), Removed(1))),
]
SEGMENTS = {1: b"one" + bytes(100), 2: bytes(7)}


class Disk:
    """A journal of two segments, between whose batches there is always time."""

    def snapshot(self, then):
        then(SEGMENTS)


class Rig:
    """An active member 1 in this process. `answer` connects as its standby."""

    def __init__(self, folder, bound_s):
        self.options = PairOptions(folder, 1, ("127.0.0.1", free_port()), ("127.0.0.1", 1), bound_s)
        self.folder = SharedFolder(folder)
        self.replication = Replication(self.options, self.folder, Honest(), Disk())
        self.confirmed = []
        self.changed = asyncio.Event()

    def replicate(self, number, *records):
        """One batch; the number is in `confirmed`, with what `in-sync` had then, when the batch may be confirmed."""

        def confirmed():
            self.confirmed.append((number, self.folder.in_sync()))
            self.changed.set()

        self.replication.replicate(records, confirmed)

    async def standby(self):
        """A connection that has its snapshot, and has not said so."""
        self.reader, self.writer = await asyncio.open_connection(*self.options.replication)
        self.writer.write(frames.frame(PairFrame.HELLO, b"2"))
        found = {}
        while (said := await self.hear(PairFrame.SEGMENT, PairFrame.WHOLE))[0] is PairFrame.SEGMENT:
            number, found[number] = frames.segment_of(said[1])
        return found

    async def in_step(self):
        await self.standby()
        self.say(frames.stored(0))
        await self.hear(PairFrame.IN_STEP)

    def say(self, *parts):
        self.writer.write(b"".join(parts))

    async def hear(self, *kinds):
        """The next frame of one of these kinds, and before it none but those of a member that is alive."""
        while (said := await read(self.reader))[0] not in kinds:
            assert said == (PairFrame.ALIVE, b"1")
        return said

    async def until(self, *confirmed):
        """Wait until this has been confirmed, and nothing else."""
        while len(self.confirmed) < len(confirmed):
            self.changed.clear()
            await self.changed.wait()
        assert self.confirmed == [*confirmed]


def run(script, folder, bound_s=PATIENCE):
    async def play():
        rig = Rig(folder, bound_s)
        await rig.replication.start()
        async with asyncio.timeout(PATIENCE):
            await script(rig)
        with contextlib.suppress(AttributeError):
            rig.writer.close()

    asyncio.run(play())


BOTH, ALONE = frozenset((1, 2)), frozenset((1,))


def test_a_batch_is_confirmed_when_the_standby_has_it(tmp_path):
    async def script(rig):
        await rig.in_step()
        rig.replicate(1, *ENTRIES)
        batch, records = frames.records_of((await rig.hear(PairFrame.RECORDS))[1])
        assert (batch, records, rig.confirmed) == (1, ENTRIES, [])
        rig.say(frames.stored(1))
        await rig.until((1, BOTH))

    run(script, tmp_path)


@pytest.mark.parametrize("silent", [False, True], ids=["link ends", "silent"])
def test_a_standby_without_an_answer_is_out_of_step_first(tmp_path, silent):
    """`in-sync` is without it when the batch is confirmed, and so is the next batch."""

    async def script(rig):
        await rig.in_step()
        assert rig.folder.in_sync() == BOTH
        rig.replicate(1, *ENTRIES)
        if not silent:
            rig.writer.close()
        await rig.until((1, ALONE))
        rig.replicate(2, *ENTRIES)
        await rig.until((1, ALONE), (2, ALONE))

    run(script, tmp_path, 0.2)


def test_a_batch_that_comes_while_the_standby_is_taken_out_waits(tmp_path, monkeypatch):
    """No batch was out when the link ended: still the file is written before the next answer."""

    async def script(rig):
        await rig.in_step()
        taken_out = asyncio.Event()
        monkeypatch.setattr(rig.replication, "_stand_alone", wrapped(rig.replication._stand_alone, taken_out))
        rig.writer.close()
        await taken_out.wait()
        rig.replicate(1, *ENTRIES)
        await rig.until((1, ALONE))

    run(script, tmp_path)


def wrapped(call, event):
    """The same call, with an event before it."""

    async def called():
        event.set()
        await call()

    return called


def test_no_batch_waits_for_a_standby_that_has_no_snapshot(tmp_path, monkeypatch):
    """What is stored since is sent behind the snapshot. The standby is in step when it has that as well."""

    async def script(rig):
        assert await rig.standby() == SEGMENTS
        rig.replicate(1, *ENTRIES)
        assert rig.confirmed == [(1, ALONE)]
        written, write = [], rig.folder.write
        monkeypatch.setattr(
            rig.folder, "write", lambda each: written.append(rig.replication._link.stored) or write(each)
        )
        rig.say(frames.stored(0))
        assert frames.batch_of((await rig.hear(PairFrame.RECORDS))[1]) == 1
        rig.say(frames.stored(1))
        await rig.hear(PairFrame.IN_STEP)
        assert (written, rig.folder.in_sync()) == ([1], BOTH)

    run(script, tmp_path)


def test_a_second_connection_replaces_the_first(tmp_path):
    """The batch that waited for the first is confirmed alone, before the second is in step."""

    async def script(rig):
        await rig.in_step()
        rig.replicate(1, *ENTRIES)
        await rig.in_step()
        assert rig.confirmed == [(1, ALONE)]
        assert rig.folder.in_sync() == BOTH

    run(script, tmp_path)


def test_a_connection_whose_end_was_not_seen_is_replaced(tmp_path):
    """It has never said a word after its snapshot. The next one need not wait for it."""

    async def script(rig):
        await rig.standby()
        silent = rig.writer
        await rig.in_step()
        silent.close()

    run(script, tmp_path)


def test_a_standby_that_does_not_read_is_cut_off(tmp_path, monkeypatch):
    """The broker does not keep without limit what a standby without a snapshot has not read."""
    monkeypatch.setattr("conformance.reference.pair.active.BACKLOG_BYTES", 0)

    async def script(rig):
        await rig.standby()
        big = Stored(1, 1, "q", 0, b"", bytes(16 << 20))
        rig.replicate(1, big)
        with pytest.raises((EOFError, OSError)):
            await rig.hear(PairFrame.IN_STEP)
        assert rig.confirmed == [(1, ALONE)]

    run(script, tmp_path)


@pytest.mark.parametrize(
    "said", [b"", frames.stored(0), frames.frame(PairFrame.HELLO, b"1"), b"GET / HTTP/1.1\r\n\r\n"]
)
def test_another_peer_gets_nothing(tmp_path, said):
    """A check of ports, or a member of the same number: the standby stays in step."""

    async def script(rig):
        await rig.in_step()
        reader, writer = await asyncio.open_connection(*rig.options.replication)
        writer.write(said)
        writer.write_eof()
        assert (await reader.read()).removeprefix(frames.frame(PairFrame.ALIVE, b"1")) == b""
        writer.close()
        rig.replicate(1, *ENTRIES)
        await rig.hear(PairFrame.RECORDS)
        rig.say(frames.stored(1))
        await rig.until((1, BOTH))

    run(script, tmp_path)


def test_bytes_that_are_no_frame_end_the_link(tmp_path):
    async def script(rig):
        await rig.in_step()
        rig.say(b"\xff" * frames.HEAD.size)
        with pytest.raises((EOFError, OSError)):
            await rig.hear()
        rig.replicate(1, *ENTRIES)
        await rig.until((1, ALONE))

    run(script, tmp_path)


def test_in_sync_is_read_as_it_was_written(tmp_path):
    folder = SharedFolder(tmp_path / "new" / "folder")
    assert folder.in_sync() is None
    folder.write([2, 1])
    assert folder.in_sync() == BOTH
    folder.write([2])
    assert folder.in_sync() == {2}


def test_an_unusable_folder_is_a_launch_error(tmp_path):
    (tmp_path / "in-sync").write_text("both")
    with pytest.raises(LaunchError, match="in-sync cannot be read"):
        SharedFolder(tmp_path).in_sync()
    with pytest.raises(LaunchError, match="in-sync cannot be used: File exists"):
        SharedFolder(tmp_path / "in-sync")


def test_the_lock_has_one_holder(tmp_path):
    one, two = SharedFolder(tmp_path), SharedFolder(tmp_path)
    assert [one.acquire(), two.acquire(), one.acquire()] == [True, False, True]
    one.release()
    assert two.acquire()


def test_a_standby_leaves_an_active_member_that_is_silent(tmp_path):
    """A link that was cut without a sign: it connects again, and gets a snapshot again."""

    async def play():
        connections = asyncio.Queue()

        async def accept(reader, writer):
            assert await read(reader) == (PairFrame.HELLO, b"2")
            writer.write(frames.segment(1, segment_header(1, 1).ljust(100, b"\0")))
            writer.write(frames.frame(PairFrame.WHOLE))
            assert await read(reader) == (PairFrame.STORED, bytes(8))
            await connections.put(writer)

        port = free_port()
        async with await asyncio.start_server(accept, "127.0.0.1", port), asyncio.timeout(PATIENCE):
            options = PairOptions(tmp_path, 2, ("127.0.0.1", 1), ("127.0.0.1", port), 0.2)
            standby = Standby(options, SharedFolder(tmp_path), tmp_path / "data", Honest(), 10)
            follows = asyncio.create_task(standby._follow())
            writers = [await connections.get() for _ in range(2)]
            follows.cancel()
            await asyncio.gather(follows, return_exceptions=True)
            for writer in writers:
                writer.close()

    asyncio.run(play())


def test_a_standby_answers_after_its_sync(tmp_path, monkeypatch):
    """The sync takes long enough to hear an answer that comes before it."""
    order, answered = [], threading.Event()

    def sync(descriptor):
        order.append("answered" if answered.wait(0.3) else "synced")
        os.fdatasync(descriptor)

    async def play():
        over = asyncio.Event()

        async def accept(reader, writer):
            await read(reader)
            head = segment_header(1, 1) + frame(*payload(ENTRIES[0]), 1, 0)
            writer.write(frames.segment(1, head.ljust(1000, b"\0")) + frames.frame(PairFrame.WHOLE))
            await read(reader)
            monkeypatch.setattr("conformance.reference.store.files._fdatasync", sync)
            writer.write(frames.records(1, ENTRIES[1:]))
            assert frames.batch_of((await read(reader))[1]) == 1
            answered.set()
            over.set()
            writer.close()

        port = free_port()
        async with await asyncio.start_server(accept, "127.0.0.1", port), asyncio.timeout(PATIENCE):
            options = PairOptions(tmp_path, 2, ("127.0.0.1", 1), ("127.0.0.1", port))
            follows = asyncio.create_task(
                Standby(options, SharedFolder(tmp_path), tmp_path / "data", Honest(), 10)._follow()
            )
            await over.wait()
            follows.cancel()
            await asyncio.gather(follows, return_exceptions=True)

    asyncio.run(play())

    assert order[:1] == ["synced"]
    assert [*recover(SegmentFiles(tmp_path / "data").read()).messages] == [2]


def test_a_snapshot_that_cannot_be_stored_ends_the_standby(tmp_path):
    """A journal of another format, or a full disk: one line with the folder."""
    options = PairOptions(tmp_path, 2, ("127.0.0.1", 1), ("127.0.0.1", 2))
    standby = Standby(options, SharedFolder(tmp_path), tmp_path / "data", Honest(), 10)
    with pytest.raises(LaunchError, match=r"data: the snapshot is not stored: .* has the format CONFJRN1"):
        standby._installed({1: journal_of_another_format()})


def journal_of_another_format():
    head = segment_header(1, 1).replace(b"CONFJRN2", b"CONFJRN1")[:-4]
    return head + zlib.crc32(head).to_bytes(4, "big")
