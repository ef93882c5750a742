"""Lose the power of a file system: all data that was not synced is gone.

FS_IOC_SHUTDOWN with NOLOGFLUSH (the method of xfstests) stops a mounted file system at once, without a last write of
its log. From then on every write and sync returns EIO, and pages that are only in the page cache are never written. The
caller needs CAP_SYS_ADMIN and a descriptor of a folder on that file system, nothing else.

A real disk may also have written some unsynced pages and not others, in any order. To imitate that, a seed chooses
dirty pages that are written back before the loss. What that gives, and what it does not:

- ext4 as `image` makes it tears between single pages. A later page may survive an earlier one, and some pages of one
  write survive. This needs pages whose blocks are allocated and written (a segment filled with zeros and synced).
  Otherwise blocks and size are in the log, which is not written, and the file ends before the page.
- xfs tears between folios. A folio (up to megabytes, if the file was written in large pieces) survives as a whole.
- Neither tears within a page. Neither loses data that the device has and did not flush: an O_DIRECT write survives
  without a sync. So a confirm that relies on such a write is not found to be early.
- sync_file_range and cachestat do not call a page dirty while it is being written: such pages survive.

The processes that keep the file system busy are read from /proc: on a dead file system even `stat` may return EIO.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import functools
import os
import pathlib
import random
import select
import stat
import struct
import time
from collections.abc import Iterator, Sequence

from conformance import mounts
from conformance.errors import FaultError

_TICK_MS = 50


def holders(device: str, besides: str = "") -> dict[int, str]:
    """Return the processes that keep the file system of a block device busy: by pid, its name and what it holds.

    For each mount namespace in which it is mounted, one process is named; a mount at `besides` in ours does not count.
    """
    about = pathlib.Path(device).stat().st_rdev
    number = f"{os.major(about)}:{os.minor(about)}"
    found: dict[int, str] = {}
    own = pathlib.Path("/proc/self/ns/mnt").readlink()
    seen: set[pathlib.Path] = set()
    for pid in sorted(int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found_at = mounts.of_device(pid, number)
            held = [how for how, mount in _used(pid) if mount in found_at] or _mapped(pid, number)
            space = pathlib.Path(f"/proc/{pid}/ns/mnt").readlink()
            targets = [target for target in found_at.values() if space != own or target != besides]
            if not held and targets and space not in seen:
                held = [f"in its mount namespace it is mounted at {' and '.join(targets)}"]
            seen.add(space)
            if held:
                found[pid] = f"pid {pid} ({_name(pid)}: {held[0]})"
    return found


def _used(pid: int) -> Iterator[tuple[str, str]]:
    """Yield what a process has open, and the id of its mount."""
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            for line in entry.read_text().splitlines():
                if line.startswith("mnt_id:"):
                    yield f"descriptor {entry.name}", line.split()[1]
    for what in ("cwd", "root"):
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/proc/{pid}/{what}", os.O_PATH | os.O_CLOEXEC)
            try:
                lines = pathlib.Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
                yield what, next(line.split()[1] for line in lines if line.startswith("mnt_id:"))
            finally:
                os.close(descriptor)


def _mapped(pid: int, number: str) -> list[str]:
    """Return whether a process has mapped a file of the device, even a closed one, as a list of words."""
    major, minor = (int(part) for part in number.split(":"))
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    return ["a mapped file"] if any(line.split()[3] == f"{major:02x}:{minor:02x}" for line in lines) else []


def _name(pid: int) -> str:
    if pid == os.getpid():
        return "this very process"
    return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()


def wait_any_ended(pids: Sequence[int]) -> None:
    """Wait until one of them has ended, at most 50 ms: a process may also release its files without ending."""
    poller = select.poll()
    opened = []
    try:
        for pid in pids:
            with contextlib.suppress(OSError):
                opened.append(os.pidfd_open(pid))
                poller.register(opened[-1], select.POLLIN)
        poller.poll(_TICK_MS)
    finally:
        for descriptor in opened:
            os.close(descriptor)


_SHUTDOWN = 0x8004587D
"""FS_IOC_SHUTDOWN, _IOR('X', 125, __u32)."""
_NOLOGFLUSH = struct.pack("I", 2)
_WRITE_AND_WAIT = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER."""
_CACHESTAT = 451
_LOOP_MAJOR = 7
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LONGEST_RUN = 4


@dataclasses.dataclass(frozen=True)
class WrittenBack:
    """`written` of the `dirty` pages reached the disk before the loss.

    `dirty` is None if the kernel cannot say which pages are dirty (cachestat came with Linux 6.5). Then `written`
    counts the pages that were chosen among all, dirty or not.
    """

    dirty: int | None
    written: int

    def __str__(self) -> str:
        if self.dirty is None:
            return f"{self.written} pages chosen among all, and written back if they were dirty"
        return f"{self.written} of {self.dirty} dirty pages written back"


@dataclasses.dataclass(frozen=True)
class PowerLossReport:
    """What a power loss did; its text is the detail of the event.

    The machine counts as dead from `invoked_ns` (CLOCK_MONOTONIC) on. `shutdown_us` is the duration of the ioctl.
    """

    invoked_ns: int
    shutdown_us: int
    torn: WrittenBack | None = None

    def __str__(self) -> str:
        return f"{self.shutdown_us} us for the shutdown" + (f", {self.torn}" if self.torn else "")


def lose(descriptor: int, *, torn: int | None = None, folder: str = ".") -> PowerLossReport:
    """Lose the power of the file system of `descriptor`, an open folder.

    Args:
        descriptor: An open folder. Files are searched relative to it, so that it is enough after a fork.
        torn: A seed: before the loss, runs of one to four dirty pages are drawn, and each is written back or not.
        folder: The folder, below the descriptor, of the files whose pages are drawn.

    Raises:
        FaultError: It is not on a loop device, it is not permitted, or the file system cannot be shut down.
    """
    _refuse_the_machines_own(descriptor)
    invoked_ns = time.monotonic_ns()
    written = None if torn is None else _write_some_back(descriptor, folder, random.Random(torn))
    began = time.monotonic_ns()
    try:
        fcntl.ioctl(descriptor, _SHUTDOWN, _NOLOGFLUSH)
    except OSError as error:
        raise FaultError(f"the power cannot be lost: {_why(error)}") from error
    return PowerLossReport(invoked_ns, (time.monotonic_ns() - began) // 1000, written)


def _refuse_the_machines_own(descriptor: int) -> None:
    """Refuse a folder whose disk is not mounted: the ioctl would shut down the machine's own disk below it."""
    device = os.fstat(descriptor).st_dev
    if os.major(device) != _LOOP_MAJOR or device == os.lstat("/").st_dev:
        raise FaultError(f"the power cannot be lost: device {os.major(device)}:{os.minor(device)} is not our disk")


def _why(error: OSError) -> str:
    if error.errno == errno.EPERM:
        return "the shutdown of a file system needs CAP_SYS_ADMIN"
    if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
        return "this file system has no shutdown; ext4 and xfs have one"
    return f"the shutdown of the file system gave {error.strerror}"


def _write_some_back(descriptor: int, folder: str, rng: random.Random) -> WrittenBack:
    dirty: int | None = 0
    written = 0
    try:
        for file, size in _files(descriptor, folder):
            whole = -(-size // _PAGE)
            pages = _dirty(file, 0, whole)
            dirty = None if dirty is None or pages is None else dirty + len(pages)
            for first, count in _drawn(range(whole) if pages is None else pages, rng):
                _write_back(file, first, count)
                written += count
    except OSError as error:
        raise FaultError(f"the files below {folder!r} cannot be torn: {error.strerror}") from error
    return WrittenBack(dirty, written)


def _files(descriptor: int, folder: str) -> Iterator[tuple[int, int]]:
    """Yield each regular file, open, and its size; in the order of names, so that a seed gives the same twice."""
    for _, folders, names, here in os.fwalk(folder, onerror=_raise, dir_fd=descriptor):
        folders.sort()
        for name in sorted(names):
            try:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
                    continue  # the broker has deleted it, or it is a link or a socket
                raise
            try:
                about = os.fstat(file)
                if stat.S_ISREG(about.st_mode):
                    yield file, about.st_size
            finally:
                os.close(file)


def _raise(error: OSError) -> None:
    raise error


def _drawn(pages: range | list[int], rng: random.Random) -> Iterator[tuple[int, int]]:
    """Yield the runs of consecutive pages that are written back: first page and count."""
    at = 0
    while at < len(pages):
        most = rng.randint(1, _LONGEST_RUN)
        count = 1
        while count < most and at + count < len(pages) and pages[at + count] == pages[at] + count:
            count += 1
        if rng.random() < 0.5:
            yield pages[at], count
        at += count


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    """struct cachestat (linux/mman.h), counts of pages."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writing", "evicted", "recently"))


@functools.cache
def _libc() -> ctypes.CDLL:
    """The library of Linux; elsewhere there is no `sync_file_range`, and this module is only imported."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    libc.syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.POINTER(_Range), ctypes.POINTER(_Pages), ctypes.c_uint)
    return libc


def _write_back(file: int, first: int, count: int) -> None:
    if _libc().sync_file_range(file, first * _PAGE, count * _PAGE, _WRITE_AND_WAIT) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _dirty(file: int, first: int, count: int) -> list[int] | None:
    """Return the dirty pages of `count` from `first` on, found by halving; None if the kernel cannot say."""
    if count == 0:
        return []
    found = _Pages()
    if _libc().syscall(_CACHESTAT, file, _Range(first * _PAGE, count * _PAGE), found, 0) != 0:
        if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
            return None  # before Linux 6.5, or blocked by a container's filter
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if found.dirty == 0:
        return []
    if count == 1:
        return [first]
    half = count // 2
    parts = [_dirty(file, first, half), _dirty(file, first + half, count - half)]
    return [page for part in parts if part is not None for page in part]
