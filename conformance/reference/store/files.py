"""Segments as files: the only place that writes. Every error here is fatal to the broker, by decision of the caller."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from conformance.errors import LaunchError
from conformance.reference.honest import Honest
from conformance.reference.store.commit import Batch
from conformance.reference.store.journal import Recovered, Write

_SUFFIX = ".journal"
_ZEROS = bytes(1024 * 1024)


class SegmentFiles:
    """The segment files of one data directory, held under a lock for as long as this object lives.

    Raises `LaunchError` if the directory cannot be made, read or locked.
    """

    def __init__(self, folder: Path, behaviour: Honest | None = None) -> None:
        self._behaviour = behaviour or Honest()
        self._folder = folder
        self._current = -1
        self._file = -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LaunchError(f"data directory {folder} is in use by another broker") from error
        except OSError as error:
            raise LaunchError(f"data directory {folder} cannot be used: {error.strerror}") from error

    def read(self) -> dict[int, bytes]:
        """Every segment's bytes by its number."""
        return {int(path.stem): path.read_bytes() for path in self._folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal()}

    def repair(self, recovered: Recovered) -> None:
        """Cuts a torn tail back to zeros and deletes what lies behind it, both durably."""
        if recovered.cut is not None:
            segment, offset = recovered.cut
            with self._path(segment).open("r+b") as file:
                file.seek(offset)
                file.write(bytes(recovered.size - offset))
                file.flush()
                os.fsync(file.fileno())
        self._delete(recovered.stale)

    def store(self, batch: Batch) -> None:
        """Puts a batch on disk: one write and one fdatasync, except where it crosses into a new segment."""
        for write in batch.writes:
            if write.create:
                self._create(write)
                continue
            self._select(write.segment)
            self._write(write.data, write.offset)
        if batch.sync:
            self._sync(self._file)
        self._delete(batch.unneeded)

    def close(self) -> None:
        """Lets go of the files and of the lock."""
        for descriptor in (self._file, self._lock, self._directory):
            if descriptor >= 0:
                os.close(descriptor)

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:08d}{_SUFFIX}"

    def _select(self, segment: int) -> None:
        if segment == self._current:
            return
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self._path(segment), os.O_RDWR)
        self._current = segment

    def _create(self, write: Write) -> None:
        """A new segment: zeros, its first bytes, fsync, and fsync of the directory that now names it.

        The segment before it is synced first, so that no journal on disk has a hole at a segment's end.
        """
        if self._file >= 0:
            self._sync(self._file)
            os.close(self._file)
        self._file = os.open(self._path(write.segment), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._current = write.segment
        for start in range(0, write.create, len(_ZEROS)):
            self._write(_ZEROS[: write.create - start], start)
        self._write(write.data, 0)
        self._sync(self._file, os.fsync)
        self._sync(self._directory, os.fsync)

    def _delete(self, segments: list[int]) -> None:
        for segment in segments:
            self._path(segment).unlink()
        if segments:
            self._sync(self._directory, os.fsync)

    def _write(self, data: bytes, offset: int) -> None:
        try:
            _write_all(self._file, data, offset)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self._behaviour.ignores_full_disk:
                raise

    def _sync(self, descriptor: int, sync: Callable[[int], None] | None = None) -> None:
        try:
            (sync or _fdatasync)(descriptor)
        except OSError:
            if not self._behaviour.ignores_failed_syncs:
                raise


_fdatasync = getattr(os, "fdatasync", os.fsync)
"""macOS has no fdatasync; its fsync stops at the drive's cache, so that only process death is covered there."""


def _write_all(file: int, data: bytes, offset: int) -> None:
    """A write may be short, on a full disk for one: the rest is written or raises."""
    written = os.pwrite(file, data, offset)
    while written < len(data):
        written += os.pwrite(file, memoryview(data)[written:], offset + written)
