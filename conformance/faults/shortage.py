"""Take something of a running broker away for a time: the space on its disk, files that it may open, one of its nodes.

The client that owns the trigger calls `begin` and `end`. The harness makes a `Resource` before it, and closes it when
the client is done, or has died: then the resource is back.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pathlib
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol

from conformance import processes
from conformance.adapters.launch.links import between
from conformance.errors import FaultError
from conformance.faults.process import GONE_S, STOPPED_S
from conformance.scenario.faults import FilesUsedUp, FilledDisk, LoseNode, PartNodes, PauseNodes, Shortage

if sys.platform == "linux":
    import resource

_ATTEMPTS = 5
_LEAST = 4096
"""Bytes below which a file system has no block left to give."""


@functools.cache
def cannot() -> str:
    """Return why this machine cannot change what another process may open; empty if it can."""
    return "" if sys.platform == "linux" else "only Linux changes the limits of a running process (prlimit(2))"


@contextlib.contextmanager
def taken(fault: FilledDisk | FilesUsedUp, folder: int | None, pids: Sequence[int]) -> Iterator[list[int]]:
    """Yield the descriptors that `Shortage` needs before the handles of the broker's processes; then undo everything.

    `folder` is a descriptor of a folder on the file system that `FilledDisk` fills.
    """
    if isinstance(fault, FilledDisk):
        assert folder is not None
        filler = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            yield [filler]
        finally:
            os.close(filler)
        return
    before = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in pids}
    try:
        yield []
    finally:
        for pid, limits in before.items():
            _limit(pid, limits)


class Taken(Protocol):
    """A shortage as the client makes it, with the descriptors that it was passed."""

    def begin(self) -> str:
        """Take the resource; return what shows that it is gone, for people. Raises `FaultError` if it is not."""

    def missed(self) -> str:
        """Return what shows that the broker has missed it, if that can be seen; `FaultError` if it has not."""

    def end(self) -> None:
        """Give it back."""


def taking(fault: Shortage, descriptors: Sequence[int], address: tuple[str, int]) -> tuple[Taken, Sequence[int]]:
    """Return how a client takes the resource, and the handles of the processes of the broker at this `address`."""
    if isinstance(fault, FilledDisk):
        return _Filled(descriptors[0], fault.leaves_percent), descriptors[1:]
    if isinstance(fault, PartNodes):
        return _Parted(descriptors[0]), descriptors[1:]
    if isinstance(fault, LoseNode):
        return _Dead(descriptors), descriptors
    if isinstance(fault, PauseNodes):
        return _Halted(descriptors), descriptors
    return _UsedUp(descriptors, address), descriptors


class _Filled:
    """The space of a file system, but for some percent, in one file."""

    def __init__(self, filler: int, leaves_percent: int) -> None:
        self._filler = filler
        found = os.fstatvfs(filler)
        self._leaves = found.f_blocks * found.f_frsize * leaves_percent // 100

    def begin(self) -> str:
        """Take every block that is to be taken; again what the broker has freed meanwhile, `_ATTEMPTS` times in all."""
        for _ in range(_ATTEMPTS):
            self._take_free()
            if (left := _free(self._filler)) < self._leaves + _LEAST:
                return f"{os.fstat(self._filler).st_size} bytes taken, {left} left"
        raise FaultError(f"the disk of the broker is not filled: it has {left} bytes")

    def missed(self) -> str:
        return ""

    def end(self) -> None:
        os.ftruncate(self._filler, 0)

    def _take_free(self) -> None:
        """Take free blocks in halves: a file system may refuse a size for which it has no room."""
        piece = _free(self._filler)
        while (piece := min(piece, _free(self._filler) - self._leaves)) >= _LEAST:
            size = os.fstat(self._filler).st_size
            try:
                os.posix_fallocate(self._filler, size, piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise FaultError(f"the disk of the broker cannot be filled: {error.strerror}") from error
                piece //= 2


class _Parted:
    """The links between nodes of a broker, which its launcher has aimed at one of them."""

    def __init__(self, links: int) -> None:
        self._links = links

    def begin(self) -> str:
        between.part(self._links)
        return "no byte crosses"

    def missed(self) -> str:
        return str(between.missed(self._links))

    def end(self) -> None:
        between.join(self._links)


class _Halted:
    """The processes of a node."""

    def __init__(self, handles: Sequence[int]) -> None:
        self._handles = handles

    def begin(self) -> str:
        processes.send_all(self._handles, signal.SIGSTOP)
        if not self._handles or not processes.wait_stopped(self._handles, STOPPED_S):
            self.end()
            raise FaultError(f"a thread of the node still ran {STOPPED_S:.0f} s after SIGSTOP, or there is none")
        return "every thread of the node stopped"

    def missed(self) -> str:
        if processes.readable(self._handles, 0) or not processes.wait_stopped(self._handles, 0):
            raise FaultError("the node did not stay halted, or a process of it has ended")
        return ""

    def end(self) -> None:
        processes.send_all(self._handles, signal.SIGCONT)


class _Dead:
    """The processes of a node, which its client outlives."""

    def __init__(self, handles: Sequence[int]) -> None:
        self._handles = handles

    def begin(self) -> str:
        processes.send_all(self._handles, signal.SIGKILL)
        if not self._handles or not processes.wait_ended(self._handles, GONE_S):
            raise FaultError(f"a process of the node was still there {GONE_S:.0f} s after SIGKILL, or there is none")
        return "no process of the node is left"

    def missed(self) -> str:
        return ""

    def end(self) -> None: ...


class _UsedUp:
    """The files that processes may open.

    A broker with its files at hand meets it only at a new connection: so one is made, to the `address` of the broker,
    and stays until the end.
    """

    def __init__(self, handles: Sequence[int], address: tuple[str, int]) -> None:
        self._handles, self._address = handles, address
        self._knock: socket.socket | None = None
        self._before: dict[int, tuple[int, int]] = {}

    def begin(self) -> str:
        open_files = 0
        for pid in (processes.pid_of(handle) for handle in self._handles):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                used = {int(name.name) for name in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
                first = next(number for number in range(len(used) + 1) if number not in used)
                before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (first, _hard(pid)))
                self._before[pid] = before
                open_files += len(used)
        if not open_files:
            raise FaultError("no process of the broker is there whose open files could be counted")
        with contextlib.suppress(OSError):  # the kernel, and not the broker, takes it
            self._knock = socket.create_connection(self._address, timeout=1)
        return f"{open_files} files are open, and no more can be"

    def missed(self) -> str:
        return ""

    def end(self) -> None:
        if self._knock:
            self._knock.close()
        for pid, limits in self._before.items():
            _limit(pid, limits)


def _hard(pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]


def _limit(pid: int, limits: tuple[int, int]) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def _free(descriptor: int) -> int:
    found = os.fstatvfs(descriptor)
    return found.f_bavail * found.f_frsize
