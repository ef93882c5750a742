"""A disk that can lose its power: an image file behind a loop device, with its own file system.

The order of calls: `LossyDisk.make` before the broker starts; `loss.lose` by the client that owns the trigger, through
the descriptor of `handle`; SIGKILL to the broker; `after_loss` before its next start; `release` at the end. The mount
replays the log, as after a real loss. Every piece is in the ledger before it is made.

Mount options of ext4. `data=ordered` and `barrier=1` are its defaults, set explicitly because the fault depends on
them: a sync waits until the disk has the data, and the size of a file reaches the disk after its data. `noatime`:
reading writes nothing. `noinit_itable`: no kernel thread writes in the background. `commit=300`: the log is written at
a sync and not every 5 s, which would at times save unsynced data. The kernel writes dirty pages after 30 s all the same
(vm.dirty_expire_centisecs): a trial must be shorter, or its first messages are not at risk. xfs has only the last
bound, for its log as well (fs.xfs.xfssyncd_centisecs).

The feature `verity` of ext4 is set and not used. With it the file system keeps single pages in its cache, and writes
them one by one. Without it the file system may join pages (large folios, ext4 since Linux 6.16): then a megabyte that
was written at once goes to the disk at once, and no write is ever torn.

Two ways in which this is kinder than a real disk: both file systems make the name of a new file durable with its first
sync, so a broker that does not sync the folder is not caught; and `loss` says what it cannot tear. ext4 also writes the
data of a file that takes the name of another one before the new name (`auto_da_alloc`, its default). xfs does not: if
its log is written by the sync of another file, an empty file is left (both measured on Linux 6.18).

There is no btrfs here: Linux 6.18 has no shutdown of it (FS_IOC_SHUTDOWN: ENOTTY, measured).

Containers. The bind mount of a container is another mount of the same file system: it keeps the dead file system alive,
and a new mount of the device gets the dead one again, which `after_loss` refuses. So a launcher of containers has two
ways. It ends the container before `after_loss` and starts a new one after it. Or it binds the folder above the
mountpoint, which must be a shared mount on the host, with propagation `rslave`: then the container sees both mounts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import pathlib
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Self

from conformance import locks, mounts
from conformance.errors import FaultError, UsageError
from conformance.faults.power import loss
from conformance.faults.power.loss import holders, wait_any_ended
from conformance.ledger import Ledger, child_environment

SIZE = 4 << 30
"""Bytes of an image, which is sparse. xfs needs at least 300 MB, and a store of HiveMQ sets 1.4 GB aside."""
_BUSY_S = 5.0
_COMMAND_S = 60
_CAP_SYS_ADMIN = 21


@dataclasses.dataclass(frozen=True)
class FileSystem:
    """How to make and mount a file system, and the Debian package of its mkfs."""

    mkfs: tuple[str, ...]
    options: str
    package: str


FILE_SYSTEMS = {
    "ext4": FileSystem(
        tuple("mkfs.ext4 -q -F -b 4096 -m 0 -O verity -E lazy_itable_init=1,lazy_journal_init=1,nodiscard".split()),
        "noatime,data=ordered,barrier=1,noinit_itable,commit=300",
        "e2fsprogs",
    ),
    "xfs": FileSystem(("mkfs.xfs", "-q", "-K"), "noatime", "xfsprogs"),
}


class LossyDisk:
    """See `make`.

    Attributes:
        mountpoint: The folder that the broker stores in.
        filesystem: `ext4` or `xfs`.
    """

    def __init__(self, ledger: Ledger, image: pathlib.Path, mountpoint: pathlib.Path, filesystem: str) -> None:
        if filesystem not in FILE_SYSTEMS:
            raise UsageError.unknown("file system", filesystem, FILE_SYSTEMS)
        self.mountpoint = mountpoint
        self.filesystem = filesystem
        self._ledger = ledger
        self._image = image
        self._has_image = False
        self._device = ""
        self._tickets: list[str] = []

    @classmethod
    def make(
        cls,
        ledger: Ledger,
        image: pathlib.Path,
        mountpoint: pathlib.Path,
        *,
        size: int = SIZE,
        filesystem: str = "ext4",
    ) -> Self:
        """Make a file system of `size` bytes in the new file `image`, and mount it at `mountpoint`.

        It gets a copy of the files that are in that folder. If something is missing or refused, it raises `FaultError`
        and leaves nothing behind; `UsageError` for a file system that is not in `FILE_SYSTEMS`.
        """
        disk = cls(ledger, image.resolve(), mountpoint.resolve(), filesystem)
        try:
            disk._make_image(size)
            disk._attach()
            disk._fill()
        except BaseException:
            disk.release()
            raise
        return disk

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    @contextlib.contextmanager
    def handle(self) -> Iterator[int]:
        """Yield a descriptor for `loss.lose`, closed at the end of the `with`.

        It and each copy of it in another process keep the file system busy: close all of them before `after_loss`.
        Raises `FaultError` if the disk is not mounted.
        """
        if mounts.mounted_at(str(self.mountpoint))[-1:] != [self._device]:
            raise FaultError(f"no disk is mounted at {self.mountpoint}")
        descriptor = os.open(self.mountpoint, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def settle(self) -> None:
        """Write all data to the disk: a power loss tests messages, not the set-up of the broker.

        Counter-example: Broker-J writes its queues into a file that it does not sync. With BDB the next sync of a
        message saves that file too (ext4 has one log). Derby writes into space that it has already, so the file is not
        saved for `commit` seconds, and after a loss the queues are gone.
        """
        self._run("sync", "--file-system", str(self.mountpoint))

    def after_loss(self) -> float:
        """Prove that the power was lost, and mount the file system again; return the seconds it took.

        Raises `FaultError`: the loss did not take effect, or a process still uses the dead file system (it is named).
        """
        began = time.monotonic()
        self._prove_lost()
        self._unmount()
        self._mount()
        return time.monotonic() - began

    def release(self) -> None:
        """Unmount, detach and delete the image; a second call does nothing.

        If processes still use it, the kernel releases it when the last of them ends.
        """
        if self._device:
            mounts.unmount(str(self.mountpoint), self._device)
        if self._has_image:  # otherwise the image and its loop device are not ours
            mounts.detach(str(self._image))
            self._image.unlink(missing_ok=True)
        for ticket in reversed(self._tickets):
            self._ledger.released(ticket)
        self._tickets.clear()
        self._device, self._has_image = "", False

    def _make_image(self, size: int) -> None:
        try:
            self._image.parent.mkdir(parents=True, exist_ok=True)
            self.mountpoint.mkdir(parents=True, exist_ok=True)
            with self._image.open("xb") as file:
                self._has_image = True
                file.truncate(size)
        except OSError as error:
            raise FaultError(f"no image of a disk can be made at {self._image}: {error.strerror}") from error
        self._run(*FILE_SYSTEMS[self.filesystem].mkfs, str(self._image))

    def _attach(self) -> None:
        """Attach a loop device. Its name is known only afterwards, so the ledger has its backing file first."""
        ticket = self._ledger.intend("loop", backing=str(self._image))
        self._tickets.append(ticket)
        self._device = self._run("losetup", "--find", "--show", str(self._image))
        self._ledger.made(ticket, device=self._device)

    def _fill(self) -> None:
        """Mount it for the first time, and copy the files of the mountpoint to it, with owner and mode."""
        below = os.open(self.mountpoint, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            ticket = self._ledger.intend("mount", target=str(self.mountpoint), device=self._device)
            self._tickets.append(ticket)
            self._mount()
            self._ledger.made(ticket)
            with contextlib.suppress(FileNotFoundError):
                (self.mountpoint / "lost+found").rmdir()  # some brokers take every folder for their own
            self._run("cp", "--archive", f"/proc/self/fd/{below}/.", str(self.mountpoint), pass_fds=[below])
            self.settle()
        finally:
            os.close(below)

    def _mount(self) -> None:
        options = FILE_SYSTEMS[self.filesystem].options
        self._run("mount", "-t", self.filesystem, "-o", options, self._device, str(self.mountpoint))

    def _prove_lost(self) -> None:
        """Try to sync a file without a name: it leaves nothing behind if that succeeds after all."""
        try:
            file = os.open(self.mountpoint, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, b"alive")
                os.fsync(file)
            finally:
                os.close(file)
        except OSError as error:
            if error.errno == errno.EIO:
                return
            raise FaultError(f"the power loss cannot be shown: {self.mountpoint} gives {error.strerror}") from error
        raise FaultError(f"the power loss did not take effect: {self.mountpoint} still stores data")

    def _unmount(self) -> None:
        """Unmount until the file system itself is gone: other mounts of it may keep the dead file system alive.

        Try for some seconds: a process that used io_uring releases its files a moment after it has ended.
        """
        deadline = time.monotonic() + _BUSY_S
        target = str(self.mountpoint)
        while True:
            if self._device in mounts.mounted_at(target):
                self._command("umount", target)
            if not self._is_alive():
                return
            found = holders(self._device, target)
            if time.monotonic() > deadline:
                whom = ", ".join(found.values()) or "no process that is visible here: a container?"
                raise FaultError(f"{target} stays busy after the power loss; it is held by {whom}")
            wait_any_ended(list(found))

    def _is_alive(self) -> bool:
        """Whether the kernel still has this file system, in any mount namespace."""
        return pathlib.Path("/sys/fs", self.filesystem, pathlib.Path(self._device).name).exists()

    def _run(self, *command: str, pass_fds: Sequence[int] = ()) -> str:
        done = self._command(*command, pass_fds=pass_fds)
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())[:300]
            raise FaultError(f"`{' '.join(command)}` ended with {done.returncode}: {said}")
        return done.stdout.strip()

    def _command(self, *command: str, pass_fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
        """Run a command in a session of its own: at Ctrl-C this process undoes what the command did."""
        program = mounts.tool(command[0])
        if program is None:
            raise FaultError(_missing(command[0], self.filesystem))
        try:
            return subprocess.run(
                [program, *command[1:]],
                env={**child_environment(), **self._ledger.environment, "LC_ALL": "C"},
                capture_output=True,
                text=True,
                timeout=_COMMAND_S,
                check=False,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FaultError(f"`{' '.join(command)}` cannot be run: {error}") from error


@functools.cache
def cannot(filesystem: str = "ext4") -> str:
    """Return why this machine cannot lose the power of a disk, and how to enable it; empty if it can.

    It is tried once: synced data must survive, other data must be gone. Raises `UsageError` for a file system that is
    not in `FILE_SYSTEMS`.
    """
    if filesystem not in FILE_SYSTEMS:
        raise UsageError.unknown("file system", filesystem, FILE_SYSTEMS)
    missing = _lacking(filesystem)
    if missing:
        return f"a power loss cannot be tried here: {missing}"
    with locks.scratch("power") as folder:
        try:
            _try(folder, filesystem)
        except (FaultError, OSError) as error:
            return f"a power loss cannot be tried here: {error}"
    return ""


def _lacking(filesystem: str) -> str:
    status = pathlib.Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    effective = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    if not lines:
        return "it needs Linux"
    if not effective >> _CAP_SYS_ADMIN & 1:
        return "it needs root (CAP_SYS_ADMIN) to mount; run it with sudo, or the container with --privileged"
    if not pathlib.Path("/dev/loop-control").exists():
        return "there are no loop devices; `modprobe loop`, or run the container with --privileged"
    for tool in (FILE_SYSTEMS[filesystem].mkfs[0], "losetup", "mount", "umount"):
        if mounts.tool(tool) is None:
            return _missing(tool, filesystem)
    return ""


def _missing(tool: str, filesystem: str) -> str:
    package = FILE_SYSTEMS[filesystem].package if tool.startswith("mkfs") else "mount, util-linux or coreutils"
    return f"{tool} is not installed; install {package}"


def _try(folder: pathlib.Path, filesystem: str) -> None:
    with (
        Ledger(folder / "run", f"power-{uuid.uuid4().hex[:12]}") as ledger,
        LossyDisk.make(ledger, folder / "disk.img", folder / "disk", filesystem=filesystem) as disk,
    ):
        file = disk.mountpoint / "file"
        with file.open("wb", buffering=0) as stream:
            stream.write(b"synced")
            os.fsync(stream.fileno())
            stream.write(b", and not")
        with disk.handle() as descriptor:
            loss.lose(descriptor)
        disk.after_loss()
        if (left := file.read_bytes()) != b"synced":
            raise FaultError(f"{filesystem} of this kernel keeps {left!r}, but only b'synced' was synced")
