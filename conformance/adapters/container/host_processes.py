"""The processes of a container on the host, where they have pids and pidfds like any other process.

Their control group has the id of the container in its name, under every layout and driver.
Signals go to them straight, and not through the engine: nothing lies between the event of a trigger and its kill.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import pathlib
import struct
from collections.abc import Iterator

import psutil

from conformance.adapters.container.engine import Container
from conformance.adapters.launch.process_tree import Tree, is_alive, wait_ended_now
from conformance.errors import LaunchError

_KILLED = -9
_LISTEN = "0A"
"""TCP_LISTEN of net/tcp_states.h, as proc_pid_net(5) prints it."""


class Init:
    """The first process of a container, in the words of a child of ours: `pid` here, `poll`, `wait`, `returncode`.

    Raises `LaunchError` if it has ended already, or is not to be seen here: an engine on another machine, in a
    virtual one, or rootless.
    """

    def __init__(self, container: Container, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._container = container
        if pid == 0:
            raise LaunchError(f"container {container.name} ended at once: {container.output().strip()[-400:]}")
        try:
            self._descriptor = os.pidfd_open(pid)
        except OSError as error:
            raise LaunchError(f"{unseen(container.name)} (pid {pid}: {error.strerror})") from error
        if not belongs(pid, container.id):
            os.close(self._descriptor)
            raise LaunchError(unseen(container.name))

    def poll(self) -> int | None:
        """Its exit status if it has ended, for the engine as well: only then can it be started again."""
        if self.returncode is None and wait_ended_now(self._descriptor):
            self.returncode = self._status()
            os.close(self._descriptor)
        return self.returncode

    def wait(self) -> int:
        """Its exit status, once it has ended; negative where a signal ended it."""
        while (status := self.poll()) is None:
            wait_ended_now(self._descriptor, -1)
        return status

    def _status(self) -> int:
        try:
            status = self._container.wait()
        except LaunchError:  # it was removed meanwhile, which kills it
            return _KILLED
        return 128 - status if status > 128 else status


class ContainerTree(Tree):
    """The tree of a container: its first process, its descendants, and all others of its control group."""

    def __init__(
        self, container: Container, pid: int, *, pid_file: pathlib.Path | None = None, forks: bool = False
    ) -> None:
        super().__init__(Init(container, pid), pid_file=pid_file, forks=forks)
        self._id = container.id

    def named(self) -> int | None:
        """The process in the pid file, which has its number inside."""
        if self._pid_file is None:
            return None
        try:
            wanted = int(self._pid_file.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        return next((pid for pid in _members(self._id) if number_inside(pid) == wanted), None)

    def members(self) -> Iterator[int]:
        """The first process, parents before their children, then all others."""
        if self.leader.poll() is None:
            yield self.leader.pid
            with contextlib.suppress(psutil.Error):
                yield from (child.pid for child in psutil.Process(self.leader.pid).children(recursive=True))
        yield from _members(self._id)


def _members(container: str) -> Iterator[int]:
    return (pid for pid in psutil.pids() if belongs(pid, container) and is_alive(pid))


def number_inside(pid: int) -> int | None:
    """The pid that a process has in its own namespace; None if it is gone."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses and numbers at which anything listens in the network of a process (proc_pid_net(5)).

    All of a container share one; it is asked of any, and need not be entered.
    """
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN:
                    address, _, number = words[1].partition(":")
                    found.add((_address(address), int(number, 16)))
    return found


def _address(digits: str) -> str:
    """An address as the kernel prints it: in words of four bytes, each in the order of this machine."""
    words = [struct.pack("=I", int(digits[start : start + 8], 16)) for start in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def belongs(pid: int, container: str) -> bool:
    """Whether a process is in the control group of the container with this id."""
    try:
        return container in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def unseen(name: str) -> str:
    """Why no fault can be injected into a container from here."""
    return (
        f"the processes of container {name} cannot be seen from here: its engine runs on another machine or in a "
        "virtual one, and a signal through it would come too late to be at its event"
    )
