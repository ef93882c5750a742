"""Segments as files: the only place that writes. On every error but `NoSpace` its caller ends the broker."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from conformance.errors import LaunchError
from conformance.reference.honest import Honest
from conformance.reference.store.commit import Batch
from conformance.reference.store.journal import SEGMENT_BYTES, Extent, Write
from conformance.reference.store.recovery import CorruptJournal, Recovered, filename

_SUFFIX = Path(filename(0)).suffix
_ZEROS = bytes(512 * 1024)
_NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT))
_NO_ROOM = _NO_SPACE | {errno.EMFILE, errno.ENFILE}
"""Without one more file there is no segment either, and both may be there again later."""
_BLOCK = 512
"""Bytes of one of `st_blocks`, on every file system (stat(2))."""


class NoSpace(Exception):
    """There was no room for a batch. Nothing of it is on disk, and what was on disk before it is there.

    `segment_bytes` is the size of the segment that could not be made, 0 where an existing one could not be written.
    """

    def __init__(self, segment_bytes: int = 0) -> None:
        super().__init__("no space left for the journal")
        self.segment_bytes = segment_bytes


class SegmentFiles:
    """The segment files of one data directory, held under a lock for as long as this object lives.

    The next segment is always made ahead, as the file `reserve`: what frees space must find some. Where there is no
    space for it, the directory is `full`.

    Raises `LaunchError` if the directory cannot be made, read or locked.
    """

    def __init__(self, folder: Path, behaviour: Honest | None = None, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._behaviour = behaviour or Honest()
        self._folder = folder
        self._stop = folder / "stopped"
        self._current = -1
        self._file = -1
        self._reserve = Zeros(folder / "reserve", segment_bytes, self._write, self._sync)
        self._dead: list[int] = []
        self._blocked = False
        self._low = False
        self._begun = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LaunchError(f"data directory {folder} cannot be used: {error.strerror}") from error
        self._hold()

    def read(self) -> Mapping[int, bytes]:
        """Every segment's bytes by its number; each is read when it is asked for."""
        return _Segments(self._folder)

    def repair(self, recovered: Recovered) -> None:
        """Cuts a torn tail back to zeros, deletes what lies behind it, syncs what is left, and makes the reserve.

        The end of the journal is synced, for the broker before this one may have been killed between its write and its
        sync: what is offered from now on must not be lost by a loss of power.
        """
        self._check_stop(recovered.sequence)
        if recovered.segment:
            self._select(recovered.segment)
            if recovered.cut is not None:
                _write_all(self._file, bytes(recovered.size - recovered.cut[1]), recovered.cut[1])
            self._sync(self._file, os.fsync)
            self._begun = True
        self._dead += recovered.stale
        self._reserve.reopen()
        while self.untended:
            self.tend()

    def note_stop(self, sequence: int) -> None:
        """Note, in a file of its own, the last record of a broker that is stopped: the journal alone cannot say it."""
        with suppress(OSError), self._stop.open("w") as file:  # without room for it, the next start has one check less
            file.write(f"{sequence}\n")
            file.flush()
            os.fsync(file.fileno())

    def _check_stop(self, last: int) -> None:
        """Raise `CorruptJournal` if the journal ends before the record of `note_stop`: it is an older one, or cut."""
        noted = self._stop.read_text(errors="replace").strip() if self._stop.exists() else ""
        if not noted:
            return
        if self._behaviour.damaged == "refused" and not (noted.isdecimal() and int(noted) <= last):
            raise CorruptJournal(f"the journal ends at record {last}, and the broker was stopped at record {noted}")
        with self._stop.open("w") as file:  # empty: as if it were not there, and without a sync of the folder
            os.fsync(file.fileno())

    def replace(self, segments: Mapping[int, bytes]) -> None:
        """Put whole segments in place of all that are there. A crash before the end leaves a journal with holes."""
        self._stop.unlink(missing_ok=True)
        for number in self.read():
            self._path(number).unlink()
        for number, data in segments.items():
            with self._path(number).open("wb") as file:
                file.write(data)
                file.flush()
                self._sync(file.fileno(), os.fsync)
        self._sync(self._directory, os.fsync)

    def store(self, batch: Batch) -> None:
        """Puts a batch on disk: one write and one fdatasync, except where it crosses into a new segment.

        Raises `NoSpace`, and `OSError` for any other failure: then it is unknown what is on disk.
        """
        begun: list[Write] = []
        try:
            for write in batch.writes:
                begun.append(write)
                if write.create:
                    self._create(write)
                    self._begun, self._blocked = True, False
                self._select(write.segment)
                self._write(self._file, write.data, write.offset)
        except NoSpace as error:
            self._take_back(begun, error)
            self._blocked = True
            raise NoSpace(begun[-1].create) from error
        finally:
            self._dead += batch.unneeded
        if batch.sync and self._file >= 0:
            self._sync(self._file)

    def fetch(self, wanted: Extent) -> bytes:
        with self._path(wanted.segment).open("rb") as file:
            return os.pread(file.fileno(), wanted.length, wanted.offset)

    @property
    def full(self) -> bool:
        """Whether there was no space for the reserve. A journal that has not begun keeps nothing, and fails instead."""
        least = self._behaviour.refuses_below
        self._low = self._low or (least > 0 and _free_share(self._directory) < least)
        return (self._blocked or self._low) and self._begun

    @property
    def untended(self) -> bool:
        """Whether `tend` has something to do; where there was no space, not before `retry`."""
        return bool(self._dead) or not (self._reserve.made or self._blocked)

    def tend(self) -> None:
        """Do one short step that no client waits for: delete an unneeded segment, or make a part of the reserve.

        One segment a step, oldest first, each durably gone before the next: one that came back after a loss of power
        must not have a hole after it.
        """
        if self._dead:
            self._path(self._dead.pop(0)).unlink()
            self._sync(self._directory, os.fsync)
            return
        try:
            self._reserve.fill()
        except NoSpace:
            self._blocked = True

    def retry(self) -> None:
        self._blocked = self._blocked and not self._behaviour.finds_space_again

    def close(self) -> None:
        self._reserve.close()
        self._deselect()
        for descriptor in (self._lock, self._directory):
            if descriptor >= 0:
                os.close(descriptor)
        self._lock = self._directory = -1

    def _hold(self) -> None:
        """Take the lock, and write this process's id there for the error message of a second broker."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _alive(os.pread(self._lock, 32, 0))
            named = f" (process {holder})" if holder else ""
            raise LaunchError(
                f"data directory {self._folder} is in use by another broker{named}: stop it, or choose another"
            ) from error
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)
        except OSError as error:
            if error.errno not in _NO_SPACE:  # the lock holds without its text
                raise LaunchError(f"data directory {self._folder} cannot be used: {error.strerror}") from error

    def _path(self, segment: int) -> Path:
        return self._folder / filename(segment)

    def _select(self, segment: int) -> None:
        if segment == self._current:
            return
        self._deselect()
        self._file = os.open(self._path(segment), os.O_RDWR)
        self._current = segment

    def _deselect(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = self._current = -1

    def _create(self, write: Write) -> None:
        """A new segment, filled with zeros, and fsync of the directory that now names it: the reserve, if it is one.

        The segment before it is synced first, so that no journal on disk has a hole at a segment's end.
        """
        if self._file >= 0:
            self._sync(self._file)
        path = self._path(write.segment)
        if self._reserve.made and write.create == self._reserve.size:
            self._reserve.become(path)
        else:
            segment = Zeros(path, write.create, self._write, self._sync)
            try:
                while not segment.made:
                    segment.fill()
            finally:
                segment.close()
        self._sync(self._directory, os.fsync)

    def _take_back(self, begun: list[Write], error: NoSpace) -> None:
        """Leaves nothing of these writes, durably: what is refused and then found after a crash would be a lie.

        Raises `OSError` where that cannot be done. A journal that has not even begun has nothing to keep either.
        """
        if not self._begun and isinstance(error.__cause__, OSError):
            raise error.__cause__
        for write in reversed(begun):
            if write.create:
                self._path(write.segment).unlink(missing_ok=True)
                self._deselect()
            else:
                self._select(write.segment)
                _write_all(self._file, bytes(len(write.data)), write.offset)
                self._sync(self._file)
        self._sync(self._directory, os.fsync)

    def _write(self, file: int, data: bytes, offset: int) -> None:
        try:
            with _room():
                _write_all(file, data, offset)
        except NoSpace:
            if not self._behaviour.ignores_full_disk:
                raise

    def _sync(self, descriptor: int, sync: Callable[[int], None] | None = None) -> None:
        try:
            (sync or _fdatasync)(descriptor)
        except OSError:
            if not self._behaviour.ignores_failed_syncs:
                raise


class Zeros:
    """A file that is being filled with zeros, a slice at a time, to be a segment."""

    def __init__(
        self, path: Path, size: int, write: Callable[[int, bytes, int], None], sync: Callable[..., None]
    ) -> None:
        self.size = size
        self._path = path
        self._write = write
        self._sync = sync
        self._file = -1
        self._filled = 0

    @property
    def made(self) -> bool:
        return self._filled == self.size

    def reopen(self) -> None:
        """Goes on where an earlier process stopped, if that has left nothing but zeros that have their room."""
        if not self._path.exists():
            return
        self._file = os.open(self._path, os.O_RDWR)
        found = os.fstat(self._file)
        data = os.pread(self._file, self.size, 0)
        if found.st_size > self.size or found.st_blocks * _BLOCK < found.st_size or data.count(0) < found.st_size:
            os.ftruncate(self._file, 0)
        else:
            self._filled = found.st_size

    def fill(self) -> None:
        """One slice more, synced. Raises `NoSpace`."""
        with _room():
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            zeros = _ZEROS[: self.size - self._filled]
            self._write(self._file, zeros, self._filled)
        self._sync(self._file, os.fsync)
        self._filled += len(zeros)

    def become(self, path: Path) -> None:
        """It is the file of this name now, and the next one is to be made. Raises `NoSpace`."""
        with _room():
            self._path.rename(path)
        self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self._filled = -1, 0


class _Segments(Mapping[int, bytes]):
    """The segments of a folder as they are on disk."""

    def __init__(self, folder: Path) -> None:
        names = (path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())
        self._paths = {int(path.stem): path for path in names}

    def __getitem__(self, number: int) -> bytes:
        return self._paths[number].read_bytes()

    def __iter__(self) -> Iterator[int]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@contextmanager
def _room() -> Iterator[None]:
    """Raise `NoSpace` for a lack of space or files; let other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise NoSpace from error
        raise


def _free_share(descriptor: int) -> float:
    """Return the share of the file system that is free."""
    found = os.fstatvfs(descriptor)
    return found.f_bavail / max(found.f_blocks, 1)


def _alive(text: bytes) -> int:
    """The process whose id the lock file has; 0 if it has none, or one of a process that is gone."""
    if not text.strip().isdigit():
        return 0
    process = int(text)
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return 0
    except PermissionError:
        pass  # it is alive, and belongs to another user
    return process


_fdatasync = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync; its fsync stops at the drive's cache, so that only process death is covered there."""


def _write_all(file: int, data: bytes, offset: int) -> None:
    """A write may be short, on a full disk for one: the rest is written or raises."""
    written = os.pwrite(file, data, offset)
    while written < len(data):
        written += os.pwrite(file, memoryview(data)[written:], offset + written)
