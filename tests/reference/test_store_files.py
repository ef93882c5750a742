"""The journal's files: the reserve, the lock, and a disk that is full, for a while or in the middle of a write."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import threading
import time
import zlib
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from proton import Message
from proton.utils import BlockingConnection, SendException

from conformance.errors import LaunchError
from conformance.reference import disk
from conformance.reference.disk import JournalThread
from conformance.reference.store import files as files_module
from conformance.reference.store.commit import FULL, TOO_LARGE, GroupCommit, do_nothing
from conformance.reference.store.files import NoSpace, SegmentFiles
from conformance.reference.store.journal import Journal
from conformance.reference.store.records import Committed, Counted, QueueDeclared, Removed
from conformance.reference.store.recovery import CorruptJournal, recover

from . import store_rig

SMALL = 4096
PATIENCE = 20


def stored(n, size=20):
    return store_rig.stored(n, size=size)


class Store:
    """A journal in a folder, used as the disk's thread uses it."""

    def __init__(self, folder):
        self.files = SegmentFiles(folder, segment_bytes=SMALL)
        self.recovered = recover(self.files.read())
        self.files.repair(self.recovered)
        self.commit = GroupCommit(Journal(self.recovered, SMALL))
        self.folder = folder
        self.said = []

    def add(self, *records):
        for record in records:
            self.commit.add(record, lambda: self.said.append("done"), self.said.append)

    def put(self, *records, tend=True):
        """One batch; what its operations were told."""
        self.add(*records)
        try:
            self.files.store(self.commit.take())
        except NoSpace as error:
            self.commit.no_space(error.segment_bytes)
        else:
            self.commit.finished()
        while tend and self.files.untended:
            self.files.tend()
        said, self.said = self.said, []
        return said

    def image(self):
        return {path.name: path.read_bytes() for path in self.folder.glob("*.journal")}

    def ids(self):
        return list(recover(self.files.read()).messages)


@pytest.fixture
def store(tmp_path):
    """A journal, and its successors on the same folder."""
    made = []

    def one():
        if made:
            made[-1].files.close()
        made.append(Store(tmp_path / "data"))
        return made[-1]

    yield one
    made[-1].files.close()


class Space:
    """Writes fail from here on, all or some; the first that fails may have written a part."""

    def __init__(self, monkeypatch):
        self.real = files_module._write_all
        self.number, self.part, self.fails = errno.ENOSPC, 0, lambda data: False
        monkeypatch.setattr(files_module, "_write_all", self.write)

    def write(self, file, data, offset):
        if self.fails(data):
            self.real(file, data[: self.part], offset)
            raise OSError(self.number, "injected")
        self.real(file, data, offset)


@pytest.fixture
def space(monkeypatch):
    return Space(monkeypatch)


def zeros(data):
    return data.count(0) == len(data)


def records(data):
    return not zeros(data)


def anything(data):
    return True


def nothing(data):
    return False


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_what_was_refused_is_not_on_disk(store, space, number):
    """A write that was done by half, in the middle of a record: zeros again, and the next batch goes there."""
    one = store()
    assert one.put(QueueDeclared("q", 1), stored(1), Removed(9)) == ["done", "done", "done"]
    before = one.image()
    space.number, space.part, space.fails = number, 150, records
    assert one.put(stored(2), stored(3)) == [FULL, FULL]
    assert (one.image(), one.commit.full) == (before, True)

    space.fails = nothing
    one.commit.room(True)
    assert one.put(stored(4), Removed(1)) == ["done", "done"]
    assert (one.ids(), store().ids()) == ([4], [4])


def test_what_cannot_be_refused_waits(store, space):
    """Removals, counts and other records without an answer keep their order, and none is lost."""
    one = store()
    one.put(stored(1), stored(2))
    space.fails = records
    assert one.put(Removed(1), stored(3), Counted(2, 1)) == [FULL]
    assert one.put() == []
    assert (one.commit.stalled, one.commit.ready, one.ids()) == (True, False, [1, 2])

    space.fails = nothing
    one.commit.room(True)
    assert one.put() == ["done", "done"]
    assert recover(one.files.read()).messages == {2: stored(2)._replace(failures=1)}


def test_what_cannot_be_taken_back_stops_the_broker(store, space):
    """It is unknown what is on disk."""
    one = store()
    one.put(stored(1))
    space.part, space.fails = 50, anything
    with pytest.raises(OSError, match="injected"):
        one.put(stored(2))


def test_a_sync_that_finds_no_space_stops_the_broker(store, monkeypatch):
    """Delayed allocation: the write succeeded, and its result on the disk is unknown."""
    one = store()
    one.put(stored(1))

    def fail(_):
        raise OSError(errno.ENOSPC, "injected")

    monkeypatch.setattr(files_module, "_fdatasync", fail)
    with pytest.raises(OSError, match="injected"):
        one.put(stored(2))


def test_a_batch_over_two_segments_is_taken_back_from_both(store, space):
    """The first segment had room, the second could not be made: its file is gone, and the next one gets its number."""
    one = store()
    one.put(stored(1, 3000), tend=False)
    one.put(stored(2, 2000), tend=False)  # the reserve is the second segment now
    before = one.image()
    space.fails = lambda data: len(data) == SMALL
    assert one.put(stored(3, 900), stored(4, 3000), Removed(1), tend=False) == [FULL, FULL]
    assert (one.image(), one.ids()) == (before, [1, 2])

    space.fails = nothing
    one.commit.room(True)
    assert one.put(stored(5, 3000)) == ["done", "done"]
    one.put()
    assert (one.ids(), sorted(one.image())) == ([2, 5], [f"{n:08d}.journal" for n in (2, 3)])


def test_only_a_message_that_is_too_large_is_refused(store, space):
    """It needs a segment of its own size; the others have their room, and the disk is not full."""
    one = store()
    one.put(stored(1))
    space.fails = lambda data: len(data) > SMALL
    assert one.put(stored(2), stored(3, 3 * SMALL), stored(4)) == [TOO_LARGE]
    assert (one.put(), one.commit.full, one.ids()) == (["done", "done"], False, [1, 2, 4])


def test_removals_go_on_without_a_reserve(store, space):
    """The segment after the last one cannot be made: messages are refused, removals free segments, then it is made."""
    one = store()
    for n in range(1, 12):
        one.put(stored(n, 1000))
    space.fails = lambda data: len(data) == SMALL
    said = []
    for n in range(12, 20):
        said += one.put(stored(n, 1000))
        one.commit.room(not one.files.full)
    kept = one.ids()

    assert said == ["done"] * (len(kept) - 11) + [FULL] * (19 - len(kept))
    assert (one.files.full, one.commit.full, len(kept) < 19) == (True, True, True)
    for id in kept:
        assert one.put(Removed(id)) == ["done"]
    one.put()
    assert one.ids() == []
    assert len(one.image()) <= 2
    space.fails = nothing
    one.files.retry()
    while one.files.untended:
        one.files.tend()
    one.commit.room(not one.files.full)
    assert one.put(stored(30, 1000)) == ["done"]


def test_early_answers_are_kept_where_the_disk_is_full(store, space):
    """They were given: the record waits, and goes first."""
    one = store()
    one.put(stored(1))
    one.commit.add_early(stored(2), do_nothing)
    space.fails = records
    one.files.retry()
    batch = one.commit.take(early=True)
    with pytest.raises(NoSpace):
        one.files.store(batch)
    one.commit.no_space()
    said = []
    one.commit.add_early(stored(3), lambda: said.append("early"), said.append)
    one.commit.add_unsynced(stored(4), lambda: said.append("unsynced"), said.append)
    one.commit.add_late(stored(5), lambda: said.append("late"), said.append)

    space.fails = nothing
    one.commit.room(True)
    assert [*one.put(Removed(1)), *one.put()] == ["done"]
    assert (said, one.ids()) == ([FULL, FULL, "late"], [2])  # its turn came when there was room


def test_what_waits_is_refused_when_the_disk_is_found_full(store):
    """It was asked for before; its removal goes on."""
    one = store()
    one.add(stored(1))
    batch = one.commit.take()
    one.add(stored(2), Removed(1))
    one.files.store(batch)
    one.commit.finished()
    one.commit.room(False)
    assert one.put() == ["done", FULL, "done"]

    assert one.ids() == []


def test_a_torn_tail_is_zeroed(store):
    """After a start the file reads as if the tail had never been, and what was before it is there."""
    one = store()
    one.put(stored(1))
    one.put(stored(2))
    path = one.folder / "00000001.journal"
    torn = bytearray(path.read_bytes())
    torn[recover({1: bytes(torn)}).end - 3] ^= 0xFF
    path.write_bytes(torn)
    again = store()

    assert again.recovered.cut == (1, again.recovered.end)
    assert (again.ids(), recover(again.files.read()).cut) == ([1], None)
    assert path.stat().st_size == SMALL


def test_a_segment_is_synced_before_the_next_one_begins(store, monkeypatch):
    """A hole at its end would cut off the next one."""
    one = store()
    one.commit.add_unsynced(stored(1, 3000), do_nothing)
    one.files.store(one.commit.take())
    one.commit.finished()
    one.files.tend()
    first, calls = one.files._file, []
    monkeypatch.setattr(files_module, "_fdatasync", lambda file: calls.append(("sync", file == first)))
    real = Path.rename
    monkeypatch.setattr(Path, "rename", lambda *names: (calls.append(names[1].name), real(*names)))
    one.commit.add_unsynced(stored(2, 3000), do_nothing)
    one.files.store(one.commit.take())

    assert calls == [("sync", True), "00000002.journal"]


def test_a_start_syncs_what_the_kernel_had_kept(store, monkeypatch):
    """A killed broker's last write may be in the page cache only, and is offered from now on."""
    store().put(stored(1))
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (synced.append(str(Path(f"/proc/self/fd/{file}").readlink())), real(file))
    )
    one = store()

    assert str(one.folder / "00000001.journal") in synced


def test_the_next_segment_is_made_ahead(store):
    """The file that was the reserve becomes the segment, and another is made; a start finds it and writes nothing."""
    one = store()
    one.put(stored(1, 3000))
    reserve = one.folder / "reserve"
    number = reserve.stat().st_ino
    one.put(stored(2, 3000), tend=False)
    assert (one.folder / "00000002.journal").stat().st_ino == number
    assert not reserve.exists()
    one.files.tend()
    made = reserve.stat()
    assert (made.st_size, reserve.read_bytes().count(0)) == (SMALL, SMALL)

    again = store()
    found = reserve.stat()
    assert (found.st_ino, found.st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    assert again.ids() == [1, 2]


@pytest.mark.parametrize("left", [b"", b"\0" * 100, b"\0" * 5000, b"\0" * 99 + b"x", None])
def test_a_reserve_that_is_no_whole_one_is_made_again(store, left):
    """Killed while it was made, or full of something else, or a hole without room."""
    reserve = store().folder / "reserve"
    if left is None:
        os.truncate(reserve, 0)
        os.truncate(reserve, SMALL)
    else:
        reserve.write_bytes(left)
    store()

    assert reserve.read_bytes() == bytes(SMALL)
    assert reserve.stat().st_blocks * 512 >= SMALL


def test_a_start_with_a_full_disk_serves_what_it_has(store, space):
    """No reserve: the directory is full from the start, and a removal goes on."""
    store().put(stored(1), stored(2))
    space.fails = lambda data: len(data) == SMALL
    (store().folder / "reserve").unlink()
    one = store()
    one.commit.room(not one.files.full)

    assert (one.commit.full, one.put(stored(3), Removed(1))) == (True, [FULL, "done"])
    assert one.ids() == [2]


def test_a_journal_that_cannot_begin_fails(store, space):
    """There is nothing to keep, so nothing is served by going on: the first record stops the broker."""
    space.fails = anything
    one = store()
    assert (one.files.full, one.files.untended) == (False, False)
    with pytest.raises(OSError, match="injected"):
        one.put(QueueDeclared("q", 1))


def test_segments_go_one_by_one(store, monkeypatch):
    """Each is gone for good before the next goes: one that came back would have a hole after it."""
    one = store()
    for n in range(1, 10):
        one.put(stored(n, 3000))
    one.put(*(Removed(n) for n in range(1, 10)), tend=False)
    one.put(tend=False)
    calls = []
    real = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda path: (calls.append(path.name), real(path)))
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("sync"))
    while one.files.untended:
        one.files.tend()

    gone = [call for call in calls if call != "sync"]
    assert gone == sorted(gone)
    assert len(gone) == 8
    assert calls[: 2 * len(gone)] == [word for name in gone for word in (name, "sync")]


def test_each_segment_is_read_once():
    """Memory at a start: one segment beside its messages."""
    disk = store_rig.Disk(SMALL)
    for n in range(1, 40):
        disk.put(stored(n, 900))
    reads = []

    class Files(dict):
        def __getitem__(self, number):
            reads.append(number)
            return bytes(dict.__getitem__(self, number))

    found = recover(Files(disk.files))
    assert (reads, len(found.messages)) == (sorted(disk.files), 39)


def test_another_format_is_refused(store):
    """Never taken for an unfinished segment, and deleted."""
    one = store()
    one.put(stored(1))
    header = one.image()["00000001.journal"]
    old = b"CONFJRN1" + header[8:20]
    (one.folder / "00000001.journal").write_bytes(old + _crc(old) + header[24:])
    with pytest.raises(CorruptJournal, match=r"00000001\.journal has the format CONFJRN1"):
        recover(one.files.read())


def _crc(data):
    return zlib.crc32(data).to_bytes(4, "big")


def _second(folder):
    with pytest.raises(LaunchError) as refused:
        SegmentFiles(folder)
    return str(refused.value)


@pytest.mark.parametrize("text", [None, b"", b"no number", b"4194305\n"])
def test_the_lock_names_its_holder(tmp_path, text):
    """And none if the file has no id, or the id of a process that is gone."""
    first = SegmentFiles(tmp_path)
    if text is not None:
        (tmp_path / "lock").write_bytes(text)
    said = _second(tmp_path)
    first.close()
    SegmentFiles(tmp_path).close()

    named = f" (process {os.getpid()})" if text is None else ""
    assert said == f"data directory {tmp_path} is in use by another broker{named}: stop it, or choose another"


class Served:
    """The disk's thread on a store, in a loop of its own."""

    def __init__(self, store):
        self.changed = asyncio.Event()
        self.disk = JournalThread(store.commit, store.files, 0.003, self.turn)
        self.store = store

    def turn(self):
        self.changed.set()
        asyncio.get_running_loop().call_soon(self.disk.start)

    async def until(self, reached):
        async with asyncio.timeout(PATIENCE):
            while not reached():
                self.changed.clear()
                self.disk.start()
                await self.changed.wait()


def test_a_full_disk_ends_without_a_restart(store, space, monkeypatch):
    """Refused at once while it is full; the disk is looked at again, and messages are taken again."""
    monkeypatch.setattr(disk, "RETRY_S", 0.01)

    async def script():
        one = store()
        served = Served(one)
        for n in range(1, 8):
            one.add(stored(n, 1000))
            await served.disk.settle()
        space.fails = lambda data: len(data) == SMALL
        while len(one.image()) < 3:
            one.add(stored(len(one.said) + 1, 1000))
            await served.disk.settle()
        await served.until(lambda: one.commit.full)
        assert set(one.said) == {"done"}  # no send was refused before: the reserve could not be made
        one.said.clear()
        one.add(stored(20))
        assert one.said == [FULL]
        one.add(Removed(1))
        await served.disk.settle()
        assert one.said == [FULL, "done"]
        space.fails = nothing
        await served.until(lambda: not one.commit.full)
        one.add(stored(21))
        await served.disk.settle()
        assert one.said == [FULL, "done", "done"]
        await served.disk.close()

    asyncio.run(script())
    found = store().ids()
    assert 21 in found
    assert not {1, 20} & set(found)


def test_a_clean_stop_does_not_wait_for_space(store, space):
    """What could not be written was not confirmed."""

    async def script():
        one = store()
        served = Served(one)
        one.add(stored(1))
        await served.disk.settle()
        space.fails = records
        one.add(Removed(1))
        await served.disk.settle()
        async with asyncio.timeout(PATIENCE):
            await served.disk.close()
        assert one.said == ["done"]

    asyncio.run(script())
    space.fails = nothing
    assert store().ids() == [1]


def test_compaction_goes_on_without_requests(store):
    """One message of the first segment stays and is moved; the disk's thread does it in its own time."""

    async def script():
        one = store()
        served = Served(one)
        one.add(stored(1))
        for n in range(2, 40):
            one.add(stored(n, 900), *([Removed(n - 1)] if n > 2 else []))
            await served.disk.settle()
        one.add(Committed((Counted(1, 3), Removed(39))))
        await served.disk.settle()
        await served.until(lambda: len(one.image()) <= 4 and not one.files.untended)
        await served.disk.close()
        return sorted(one.image())

    assert asyncio.run(script())[0] > "00000004"
    found = recover(store().files.read())
    assert found.messages == {1: stored(1)._replace(failures=3)}


@contextmanager
def _small_disk(folder):
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=18m", "none", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"a small disk needs the right to mount: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_broker_on_a_disk_that_is_full(tmp_path, start, peer):
    """It refuses, keeps, gives, takes again, and a kill in between loses nothing of what was confirmed."""
    folder = tmp_path / "data"
    with _small_disk(folder):
        broker = start()
        sent = _taken(broker, 1000)
        assert broker.depth() == sent > 50
        broker.kill()
        broker = start()
        assert (broker.depth(), _taken(broker, 1)) == (sent, 0)
        client = peer(broker)
        client.accept(delivery for _, delivery in client.receive(sent).got)
        assert broker.depth() == 0
        began = time.monotonic()
        while not _taken(broker, 1):
            assert time.monotonic() - began < PATIENCE
        assert (broker.depth(), broker.stop()) == (1, 0)


def _taken(broker, count):
    """How many of so many messages of 100 kB were taken, up to the first that was refused."""
    connection = BlockingConnection(broker.amqp, timeout=PATIENCE)
    sender = connection.create_sender("q")
    taken = 0
    try:
        for _ in range(count):
            sender.send(Message(body=b"x" * 100_000, durable=True))
            taken += 1
    except SendException:
        pass
    connection.close()
    return taken


def test_a_broker_that_ends_of_an_error_says_nothing_after_it(monkeypatch):
    """The journal's thread is writing when the loop ends, and reports to a loop that is closed."""
    heard, going = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", heard.append)

    async def begin():
        files = SimpleNamespace(full=False)
        thread = JournalThread(SimpleNamespace(room=do_nothing_with), files, 0.003, do_nothing)
        thread._run(going.wait, do_nothing_with)
        return thread._thread

    thread = asyncio.run(begin())
    going.set()
    thread.join()

    assert [] == heard


def do_nothing_with(_):
    """Takes what it is given."""
