"""The processes of one broker: its leader, the descendants of that, and what is left of its session.

A broker that forks and leaves its parent (RabbitMQ, every daemon) leaves its session too. It is found by a mark in its
environment, which children inherit, and by the pid file that it writes, for those that clear their environment.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import psutil

from conformance.ledger import Identity, identify

MARK = "CONFORMANCE_BROKER"
"""The variable in the environment of a broker's processes; its value is that of one start."""


class Leader(Protocol):
    """What is asked of the first process of a tree; a `subprocess.Popen` answers it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Its exit status, negative where a signal ended it; None while it runs."""

    def wait(self) -> int:
        """Wait for its end."""


class Tree:
    """A process tree whose leader is our child and leads a session of its own.

    Args:
        leader: The process that was started.
        mark: The value of `MARK` in the environment of its processes; none if it is empty.
        pid_file: Where the broker writes the pid that serves. It must not be there when the leader is started: what an
            earlier start left there is another's number by now.
        forks: Whether the leader may end while the broker goes on.
    """

    def __init__(
        self, leader: Leader, *, mark: str = "", pid_file: pathlib.Path | None = None, forks: bool = False
    ) -> None:
        self.leader = leader
        self.forks = forks
        self._mark = f"{MARK}={mark}".encode() if mark else b""
        self._pid_file = pid_file
        began = identify(leader.pid)
        self._since = began.start if began is not None else 0
        self._empty = False
        self._seen: set[Identity] = set()

    def pids(self) -> list[int]:
        """Every live process of the tree, the leader first.

        A process counts until its last thread is gone: a JVM whose first thread is already a zombie may still hold
        its files. Once the tree was seen empty it stays empty, since its numbers can then be another's.
        """
        if self._empty:
            return []
        # Again: a process that forks and ends while the list of all is read is not alive, and its child not listed.
        alive = self._alive() or self._alive() or self._alive()
        self._empty = not alive and self.leader.returncode is not None
        # A set of its own: another thread may be walking through the one before.
        self._seen = self._seen | {found for pid in alive if (found := identify(pid, zombie=True)) is not None}
        return alive

    def _alive(self) -> list[int]:
        return [pid for pid in dict.fromkeys(self.members()) if is_alive(pid)]

    def members(self) -> Iterator[int]:
        """The leader while it runs, its descendants, and what is of its session, has its mark, or was named or seen.

        Some may be dead. One that was killed loses its environment, and with it its mark, before it lets go of its
        files: smallest counter-example to looking for marks alone, a broker that is started again on a journal which
        the one before still has locked.
        """
        leader = self.leader.pid
        if self.leader.poll() is None:
            yield leader
        yield from _descendants(leader)
        every_pid = psutil.pids()
        yield from (pid for pid in every_pid if _session(pid) == leader)
        if self._mark:
            yield from (pid for pid in every_pid if self._mark in _environ(pid))
        if (named := self.named()) is not None:
            yield named
            yield from _descendants(named)
        yield from (known.pid for known in self._seen if identify(known.pid, zombie=True) == known)

    def named(self) -> int | None:
        """The process in the pid file, if it is a process of this start: one that began after the leader."""
        if self._pid_file is None:
            return None
        try:
            pid = int(self._pid_file.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        found = identify(pid)
        return pid if found is not None and found.start >= self._since else None

    def main(self, *, wrapped: bool) -> int:
        """The broker's own pid: the leader, or, where a tracer was put before it, the tracer's child.

        Of a broker that forks it is the process in its pid file, or the oldest that is left. Raises
        `ProcessLookupError` if none is left.
        """
        if self.forks:
            named = self.named()
            left = [pid for pid in self.pids() if pid != self.leader.pid or not wrapped]
            if named is None and not left:
                raise ProcessLookupError
            return named if named is not None else min(left, key=_began)
        if wrapped:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self.leader.pid).children():
                    return child.pid
        return self.leader.pid

    def serves(self) -> bool:
        """Whether the broker's own process lives: of one that forks any of its tree, or the one of its pid file."""
        if not self.forks:
            return self.leader.poll() is None
        self.leader.poll()
        return bool(self.pids()) and (self._pid_file is None or self.named() is not None)

    @contextlib.contextmanager
    def pidfds(self) -> Iterator[list[int]]:
        """A pidfd for every process of the tree; processes that are forked while they are opened are seen too."""
        opened: dict[int, int] = {}
        try:
            while new := [pid for pid in self.pids() if pid not in opened]:
                for pid in new:
                    with contextlib.suppress(ProcessLookupError):
                        opened[pid] = os.pidfd_open(pid)
                if not any(pid in opened for pid in new):
                    break
            yield list(opened.values())
        finally:
            for descriptor in opened.values():
                os.close(descriptor)

    @contextlib.contextmanager
    def main_pidfd(self, *, wrapped: bool) -> Iterator[list[int]]:
        """A pidfd for the broker's own process only."""
        descriptor = os.pidfd_open(self.main(wrapped=wrapped))
        try:
            yield [descriptor]
        finally:
            os.close(descriptor)

    def wait_gone(self, timeout_s: float, left_behind: Collection[str] = ()) -> bool:
        """Wait until every process is gone, and reap the leader; False if some are left after `timeout_s`.

        Those whose names are in `left_behind` are not waited for: they are killed once all others are gone.
        """
        deadline = time.monotonic() + timeout_s
        while pids := self.pids():
            others = [pid for pid in pids if name_of(pid) not in left_behind]
            if not others:
                return self.kill()
            with _pidfds(others) as descriptors:
                if not wait_ended(descriptors, deadline - time.monotonic()):
                    return False
        return True

    def kill(self, timeout_s: float = 10.0) -> bool:
        """SIGKILL everything, children before their parents: a tracer that dies first lets its broker go on."""
        deadline = time.monotonic() + timeout_s
        while self.pids() and time.monotonic() < deadline:
            with self.pidfds() as descriptors:
                for descriptor in reversed(descriptors):
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                wait_ended(descriptors, deadline - time.monotonic())
        return not self.pids()


@contextlib.contextmanager
def _pidfds(pids: Sequence[int]) -> Iterator[list[int]]:
    opened: list[int] = []
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                opened.append(os.pidfd_open(pid))
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def wait_ended(descriptors: Sequence[int], timeout_s: float) -> bool:
    """Wait until the processes of all these pidfds have ended."""
    waiting = set(descriptors)
    poller = select.poll()
    for descriptor in waiting:
        poller.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while waiting and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(left * 1000):
            poller.unregister(descriptor)
            waiting.discard(descriptor)
    return not waiting


def is_alive(pid: int) -> bool:
    """Whether some thread of the process still runs; its zombie is not alive."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        return not wait_ended_now(descriptor)
    finally:
        os.close(descriptor)


def wait_ended_now(descriptor: int, timeout_ms: int = 0) -> bool:
    """Whether the process of this pidfd has ended, or does within `timeout_ms`."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(timeout_ms))


def _descendants(pid: int) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def _environ(pid: int) -> list[bytes]:
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return []


def name_of(pid: int) -> str:
    """The name of its program; empty if it is gone."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).name()
    return ""


def _began(pid: int) -> tuple[int, int]:
    found = identify(pid)
    return (found.start if found is not None else sys.maxsize, pid)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
