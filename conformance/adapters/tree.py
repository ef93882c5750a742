"""The processes of one broker: its leader, whatever descends from it, and whatever is left of its session."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

import psutil


class Leader(Protocol):
    """What is asked of the first process of a tree; a `subprocess.Popen` answers it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Its exit status, negative where a signal ended it; None while it runs."""

    def wait(self) -> int:
        """Wait for its end."""


class Tree:
    """A process tree whose leader is our child and leads a session of its own."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self._empty = False

    def pids(self) -> list[int]:
        """Every live process of the tree, the leader first.

        A process counts until its last thread is gone: a JVM whose first thread is already a zombie may still hold
        its files. Once the tree was seen empty it stays empty, since its numbers can then be another's.
        """
        if self._empty:
            return []
        alive = [pid for pid in dict.fromkeys(self.members()) if is_alive(pid)]
        self._empty = not alive and self.leader.returncode is not None
        return alive

    def members(self) -> Iterator[int]:
        """The leader while it runs, what descends from it, and who is left of its session; some may be dead."""
        leader = self.leader.pid
        if self.leader.poll() is None:
            yield leader
        with contextlib.suppress(psutil.Error):
            yield from [child.pid for child in psutil.Process(leader).children(recursive=True)]
        yield from (pid for pid in psutil.pids() if _session(pid) == leader)

    def main(self, *, wrapped: bool) -> int:
        """The broker's own pid: the leader, or, where a tracer was put before it, the tracer's child."""
        if wrapped:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self.leader.pid).children():
                    return child.pid
        return self.leader.pid

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

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until every process is gone, and reap the leader; False where some are left after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self.pids():
            with self.pidfds() as descriptors:
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


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
