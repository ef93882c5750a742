"""Who keeps a file system busy, without asking the file system: on a dead one even the status of a file may be EIO."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
from collections.abc import Iterator, Sequence

from conformance import ledger

_TICK_MS = 50


def holders(device: str, besides: str = "") -> dict[int, str]:
    """Who keeps the file system of a block device busy: by pid, a phrase that names the process and what it holds.

    Of each mount namespace in which it is mounted one process is named; in this one, a mount at `besides` is none.
    """
    about = pathlib.Path(device).stat().st_rdev
    number = f"{os.major(about)}:{os.minor(about)}"
    found: dict[int, str] = {}
    own = pathlib.Path("/proc/self/ns/mnt").readlink()
    seen: set[pathlib.Path] = set()
    for pid in sorted(int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()):
        with contextlib.suppress(OSError):  # it has gone meanwhile
            mounts = ledger.mounts(pid, number)
            held = [how for how, mount in _used(pid) if mount in mounts] or _mapped(pid, number)
            space = pathlib.Path(f"/proc/{pid}/ns/mnt").readlink()
            targets = [target for target in mounts.values() if space != own or target != besides]
            if not held and targets and space not in seen:
                held = [f"in its mount namespace it is mounted at {' and '.join(targets)}"]
            seen.add(space)
            if held:
                found[pid] = f"pid {pid} ({_name(pid)}: {held[0]})"
    return found


def _used(pid: int) -> Iterator[tuple[str, str]]:
    """What a process has open, and the id of the mount that each belongs to."""
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            for line in entry.read_text().splitlines():
                if line.startswith("mnt_id:"):
                    yield f"descriptor {entry.name}", line.split()[1]
    for what in ("cwd", "root"):
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/proc/{pid}/{what}", os.O_PATH | os.O_CLOEXEC)
            try:
                lines = pathlib.Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
                yield what, next(line.split()[1] for line in lines if line.startswith("mnt_id:"))
            finally:
                os.close(descriptor)


def _mapped(pid: int, number: str) -> list[str]:
    """Files that it has mapped, also where it has closed them."""
    major, minor = (int(part) for part in number.split(":"))
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    return ["a mapped file"] if any(line.split()[3] == f"{major:02x}:{minor:02x}" for line in lines) else []


def _name(pid: int) -> str:
    if pid == os.getpid():
        return "this very process"
    return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()


def wait_any_ended(pids: Sequence[int]) -> None:
    """Wait until one of them has ended, at most for a tick of 50 ms: one may also let go without ending."""
    poller = select.poll()
    opened = []
    try:
        for pid in pids:
            with contextlib.suppress(OSError):
                opened.append(os.pidfd_open(pid))
                poller.register(opened[-1], select.POLLIN)
        poller.poll(_TICK_MS)
    finally:
        for descriptor in opened:
            os.close(descriptor)
