"""The folder that both members share: the lock of the active one, and which members may take over."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import LaunchError

LOCK = "active.lock"
IN_SYNC = "in-sync"
MEMBERS = (1, 2)

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class PairOptions:
    """How a broker is a member of a pair.

    Attributes:
        folder: Shared by both members; made if missing.
        member: The number of this one, 1 or 2.
        replication: Where this member listens for the other one while it is active.
        peer: Where the other one listens while that is active.
        bound_s: Seconds in which the standby must answer, or it is taken out of `in-sync`.
    """

    folder: Path
    member: int
    replication: Address
    peer: Address
    bound_s: float = 5.0

    @property
    def other(self) -> int:
        """The number of the other member."""
        return sum(MEMBERS) - self.member


class SharedFolder:
    """The shared folder, as one member has it open.

    The lock lasts until `release`, or until this process ends. Only the member that holds it calls `write`.
    Raises `LaunchError` if the folder cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LaunchError(f"pair folder {folder} cannot be used: {error.strerror}") from error

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
        """Return the members that may take over; None before the first start of a pair, when there is no file.

        Raises `LaunchError` if the file cannot be read, or has something else than numbers.
        """
        path = self._folder / IN_SYNC
        try:
            return frozenset(map(int, path.read_text().split()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise LaunchError(f"{path} cannot be read: {error}") from error

    def write(self, members: Iterable[int]) -> None:
        """Put these members in `in-sync`: after a crash it has the old ones or the new ones. Raises `OSError`."""
        temporary = self._folder / f"{IN_SYNC}.new"
        with temporary.open("w") as file:
            file.write(" ".join(map(str, sorted(members))) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._folder / IN_SYNC)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
