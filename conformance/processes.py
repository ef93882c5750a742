"""Name processes, watch them and signal them, so that no signal reaches another process with the same pid.

A **handle** is a descriptor that stands for one process; it can be passed to another process. On Linux it is a pidfd
(pidfd_open(2)). Elsewhere it is an unnamed file with the pid and the start of the process. They are compared before
each signal, and only in the moment after that can the pid become another's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import select
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence

import psutil

_LOOK_S = 0.01
_KILL_WAIT_S = 5.0
_STOPPED = "TtZX"
"""The states of a thread that does nothing more (proc_pid_stat(5)): stopped, traced, ended."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """The identity of one process for all time.

    `start` is field 22 of /proc/PID/stat, in clock ticks since boot; without /proc it is in 1/100 s since 1970.
    """

    pid: int
    start: int
    boot: str


@functools.cache
def cannot_hold() -> str:
    """Return why this kernel gives no pidfds; empty if it does."""
    try:
        with _pidfd(os.getpid()) as descriptor:
            signal.pidfd_send_signal(descriptor, 0)
    except (AttributeError, OSError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


@functools.cache
def boot_id() -> str:
    """Return what tells this boot from others; empty without /proc, where a start is a time of the calendar."""
    try:
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except FileNotFoundError:
        return ""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _has_proc() -> bool:
    return pathlib.Path("/proc/self/stat").exists()


def identify(pid: int, *, zombie: bool = False) -> Identity | None:
    """Return the identity of a process; None if there is none or, unless `zombie`, its first thread is a zombie."""
    if not _has_proc():
        return _identify_elsewhere(pid, zombie=zombie)
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command name may itself hold spaces and brackets: the fields are counted from the last one.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X") and not zombie:
        return None
    return Identity(pid, int(fields[19]), boot_id())


def _identify_elsewhere(pid: int, *, zombie: bool = False) -> Identity | None:
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) and not zombie:
            return None
        return Identity(pid, round(process.create_time() * 100), boot_id())
    except psutil.Error:
        return None


def is_same(wanted: Identity) -> bool:
    """Whether that process is still alive, and its pid was not reused."""
    return identify(wanted.pid) == wanted


def environment(pid: int) -> list[bytes]:
    """Return the environment with which a process began; empty if it is gone, or another user's."""
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except FileNotFoundError:
        with contextlib.suppress(psutil.Error, OSError):
            return [f"{name}={text}".encode() for name, text in psutil.Process(pid).environ().items()]
    except OSError:
        pass
    return []


def started_with(variable: str) -> list[Identity]:
    """Return the other processes that began with this `NAME=value` in their environment.

    Each is identified before its environment is read, so that `kill` reaches no other process with the same pid.
    """
    others = filter(None, (identify(pid) for pid in psutil.pids() if pid != os.getpid()))
    return [each for each in others if os.fsencode(variable) in environment(each.pid)]


def is_stopped(pid: int) -> bool:
    """Whether every thread is stopped, traced or gone."""
    states = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.append(path.read_text().rpartition(")")[2].split()[0])
    if not states:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return all(state in _STOPPED for state in states)


def wait_stopped(handles: Sequence[int], timeout_s: float) -> bool:
    """Wait until every thread of these processes is stopped, which takes a moment; whether they are in time."""
    pids = [pid for handle in handles if (pid := pid_of(handle)) > 0]  # -1: it has ended, and was waited for
    deadline = time.monotonic() + timeout_s
    while not all(is_stopped(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0)  # lets another process have this core
    return True


def is_alive(pid: int) -> bool:
    """Whether some thread of the process still runs; its zombie is not alive."""
    try:
        with open_pidfd(pid) as handle:
            return not wait_ended([handle], 0)
    except OSError:
        return False


def kill(wanted: Identity) -> bool:
    """Kill exactly this process and wait until it is dead; False if it has ended already.

    The handle is opened before the comparison: from then on the signal can reach no other process.
    """
    try:
        with open_pidfd(wanted.pid) as handle:
            if not is_same(wanted):
                return False
            send(handle, signal.SIGKILL)
            wait_ended([handle], _KILL_WAIT_S)
            return True
    except OSError:
        return False


def open_pidfd(pid: int) -> contextlib.AbstractContextManager[int]:
    """A handle of this process, until the end of the `with`, which raises `ProcessLookupError` if there is none."""
    return _unnamed_file(pid) if cannot_hold() else _pidfd(pid)


@contextlib.contextmanager
def opened_all(pids: Sequence[int]) -> Iterator[dict[int, int]]:
    """Handles of these processes, by pid; without those that have ended."""
    with contextlib.ExitStack() as stack:
        handles: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles[pid] = stack.enter_context(open_pidfd(pid))
        yield handles


def pid_of(handle: int) -> int:
    """Return the pid of the process that a handle stands for, -1 if it has ended."""
    if cannot_hold():
        return _written(handle).pid
    lines = pathlib.Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))


def send(handle: int, number: signal.Signals) -> None:
    """Send a signal. Raises `ProcessLookupError` if the process has ended."""
    if not cannot_hold():
        signal.pidfd_send_signal(handle, number)
    elif is_same(process := _written(handle)):
        os.kill(process.pid, number)
    else:
        raise ProcessLookupError


def send_all(handles: Iterable[int], number: signal.Signals) -> None:
    """Send a signal by each of these handles; a process that has ended is skipped."""
    for handle in handles:
        with contextlib.suppress(ProcessLookupError):
            send(handle, number)


def wait_ended(handles: Sequence[int], timeout_s: float) -> bool:
    """Wait until each of these processes has ended, every thread of it; whether they have within that time."""
    waiting, deadline = set(handles), time.monotonic() + timeout_s
    while waiting:
        left = max(deadline - time.monotonic(), 0.0)
        waiting -= _ended(waiting, left)
        if waiting and not left:
            return False
    return True


def _ended(handles: set[int], timeout_s: float) -> set[int]:
    """Those of some processes that have ended, as soon as there is one, or after that time."""
    if cannot_hold():
        found = {each for each in handles if not is_same(_written(each))}
        time.sleep(0 if found else min(timeout_s, _LOOK_S))  # such a file cannot be waited for
        return found
    return readable(handles, timeout_s)


def readable(descriptors: Iterable[int], timeout_s: float) -> set[int]:
    """Return those that can be read, or have ended, as soon as there is one, or after that time.

    select(2) refuses a descriptor above 1,023, which a process has that has opened so many files.
    """
    poller = select.poll()
    for each in descriptors:
        poller.register(each, select.POLLIN)
    return {each for each, _ in poller.poll(timeout_s * 1000)}


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _unnamed_file(pid: int) -> Iterator[int]:
    if (found := identify(pid, zombie=True)) is None:
        raise ProcessLookupError
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(f"{found.pid} {found.start}".encode())
        yield file.fileno()


def _written(handle: int) -> Identity:
    pid, start = os.pread(handle, 64, 0).split()
    return Identity(int(pid), int(start), boot_id())
