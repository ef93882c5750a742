"""The processes of one broker: its leader, the leader's descendants, and the other processes of its session.

A broker that forks and leaves its parent (RabbitMQ, every daemon) leaves its session too. It is found by a mark in its
environment, which children inherit, and by the pid file that it writes, for those that clear their environment.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import Collection, Iterator
from typing import Protocol

import psutil

from conformance.processes import (
    Identity,
    environment,
    identify,
    is_alive,
    open_pidfd,
    opened_all,
    send_all,
    wait_ended,
)

MARK = "CONFORMANCE_BROKER"
"""The variable in the environment of a broker's processes; its value is that of one start."""


class Leader(Protocol):
    """The first process of a tree; a `subprocess.Popen` is one."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Its exit status, negative if a signal ended it; None while it runs."""

    def wait(self) -> int:
        """Wait until it has ended; return its exit status."""


class Tree:
    """A process tree whose leader is our child and leads a session of its own.

    Args:
        leader: The process that was started.
        mark: The value of `MARK` in the environment of its processes; none if it is empty.
        pid_file: Where the broker writes the pid that serves. It must not exist when the leader is started: the pid of
            an earlier start may be another process by now.
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
        """The leader while it runs, its descendants, and processes of its session, with its mark, or named or seen.

        Some may be dead. A process that was killed loses its environment, and with it its mark, before it closes its
        files. Counter-example to marks alone: a broker is started again on a journal that the killed one still locks.
        """
        leader = self.leader.pid
        if self.leader.poll() is None:
            yield leader
        yield from descendants(leader)
        every_pid = psutil.pids()
        yield from (pid for pid in every_pid if _session(pid) == leader)
        if self._mark:
            yield from (pid for pid in every_pid if self._mark in environment(pid))
        if (named := self.named()) is not None:
            yield named
            yield from descendants(named)
        yield from (known.pid for known in self._seen if identify(known.pid, zombie=True) == known)

    def named(self) -> int | None:
        """The process in the pid file, if it is a process of this start: one that began after the leader."""
        pid = self.number_in_pid_file()
        found = identify(pid) if pid is not None else None
        return pid if found is not None and found.start >= self._since else None

    def number_in_pid_file(self) -> int | None:
        try:
            return int(self._pid_file.read_text().split()[0]) if self._pid_file else None
        except (OSError, ValueError, IndexError):
            return None

    def main(self, *, wrapped: bool) -> int:
        """The broker's own pid: the leader, or the tracer's child if the start was wrapped in a tracer.

        For a broker that forks it is the process in its pid file, or the oldest that lives. Raises
        `ProcessLookupError` if none lives.
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
        """Whether the broker's own process lives; if it forks, the one in its pid file, or any of its tree."""
        if not self.forks:
            return self.leader.poll() is None
        self.leader.poll()
        return bool(self.pids()) and (self._pid_file is None or self.named() is not None)

    @contextlib.contextmanager
    def handles(self) -> Iterator[list[int]]:
        """A handle of every process of the tree; processes that are forked while they are opened are seen too."""
        with contextlib.ExitStack() as stack:
            found: dict[int, int] = {}
            while new := [pid for pid in self.pids() if pid not in found]:
                more = stack.enter_context(opened_all(new))
                found |= more
                if not more:
                    break
            yield list(found.values())

    @contextlib.contextmanager
    def main_handle(self, *, wrapped: bool) -> Iterator[list[int]]:
        with open_pidfd(self.main(wrapped=wrapped)) as handle:
            yield [handle]

    def wait_gone(self, timeout_s: float, left_behind: Collection[str] = ()) -> bool:
        """Wait until every process is gone, and reap the leader; False if some are left after `timeout_s`.

        Those whose names are in `left_behind` are not waited for: they are killed once all others are gone.
        """
        deadline = time.monotonic() + timeout_s
        while pids := self.pids():
            others = [pid for pid in pids if name_of(pid) not in left_behind]
            if not others:
                return self.kill()
            with opened_all(others) as handles:
                if not wait_ended(list(handles.values()), deadline - time.monotonic()):
                    return False
        return True

    def kill(self, timeout_s: float = 10.0) -> bool:
        """SIGKILL everything, children before their parents: a tracer that dies first lets its broker go on."""
        deadline = time.monotonic() + timeout_s
        while self.pids() and time.monotonic() < deadline:
            with self.handles() as handles:
                send_all(reversed(handles), signal.SIGKILL)
                wait_ended(handles, deadline - time.monotonic())
        return not self.pids()


def descendants(pid: int) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def name_of(pid: int) -> str:
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
