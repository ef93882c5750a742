"""The folder that both members share: the lock of the active one, and which members may take over."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import LaunchError

MEMBERS = (1, 2)


@dataclass(frozen=True, slots=True)
class PairOptions:
    """How a broker is a member of a pair.

    It is number `member` of the two that share `folder`, which is made if missing. While it is active it listens at
    `replication` for its standby; the other member does so at `peer`. A standby must answer within `bound_s` seconds.
    """

    folder: Path
    member: int
    replication: tuple[str, int]
    peer: tuple[str, int]
    bound_s: float = 5.0

    @property
    def other(self) -> int:
        """The number of the other member."""
        return sum(MEMBERS) - self.member


class SharedFolder:
    """The shared folder, as one member has it open. Raises `LaunchError` if the folder cannot be used.

    The lock lasts until `release`, or until this process ends. Only the member that holds it calls `write`.
    """

    def __init__(self, folder: Path) -> None:
        self._in_sync = folder / "in-sync"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self._lock = os.open(folder / "active.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LaunchError(f"--pair {folder} cannot be used: {error.strerror}") from error

    def acquire(self) -> bool:
        """Take the lock if no member holds it, and return whether this one has it now. Never waits."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def in_sync(self) -> frozenset[int] | None:
        """Return the members that may take over; None before the first start of a pair. Raises `LaunchError`."""
        try:
            return frozenset(map(int, self._in_sync.read_text().split()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise LaunchError(f"{self._in_sync} cannot be read: {error}") from error

    def write(self, members: Iterable[int]) -> None:
        """Put these members in `in-sync`: after a crash it has the old ones or the new ones. Raises `OSError`."""
        temporary = self._in_sync.with_suffix(".new")
        with temporary.open("w") as file:
            file.write(" ".join(map(str, sorted(members))) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._in_sync)
        os.fsync(self._folder)
