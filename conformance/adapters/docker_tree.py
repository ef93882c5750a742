"""The processes of a container as this machine sees them: they have pids here, and pidfds, like any other.

They are told by their control group, whose name has the id of the container in it, under every layout and driver.
Signals go to them straight, and not through the engine: nothing lies between the event of a trigger and its kill.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

import psutil

from conformance.adapters.engine import Container
from conformance.adapters.tree import Tree, is_alive, wait_ended_now
from conformance.errors import LaunchError

_KILLED = -9


class Init:
    """The first process of a container, in the words of a child of ours: `pid` here, `poll`, `wait`, `returncode`.

    Raises `LaunchError` where it has ended already, or is not to be seen here: an engine on another machine, in a
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
        """Its exit status where it has ended, for the engine as well: only then can it be started again."""
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
    """The tree of a container: its first process, what descends from it, and who else is in its control group."""

    def __init__(self, container: Container, pid: int) -> None:
        super().__init__(Init(container, pid))
        self._id = container.id

    def members(self) -> Iterator[int]:
        """The first process, parents before their children, then all others."""
        if self.leader.poll() is None:
            yield self.leader.pid
            with contextlib.suppress(psutil.Error):
                yield from (child.pid for child in psutil.Process(self.leader.pid).children(recursive=True))
        yield from (pid for pid in psutil.pids() if belongs(pid, self._id) and is_alive(pid))


def belongs(pid: int, container: str) -> bool:
    """Whether a process is in the control group of the container with this id."""
    try:
        return container in pathlib.Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


def unseen(name: str) -> str:
    """Why a container cannot be hurt from here."""
    return (
        f"the processes of container {name} cannot be seen from here: its engine runs on another machine or in a "
        "virtual one, and a signal through it would come too late to be at its event"
    )
