"""List mounts and loop devices, and release them with the system's tools."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import subprocess


def of_device(pid: int | str, number: str) -> dict[str, str]:
    """Return the mounts of a block device (`major:minor`) that a process sees: target by mount id."""
    fields = (line.split() for line in _mountinfo(pid))
    return {field[0]: _plain(field[4]) for field in fields if field[2] == number}


def mounted_at(target: str) -> list[str]:
    """Return the sources of the mounts at exactly this target; the last one hides the others. None but on Linux."""
    if not pathlib.Path("/proc/self/mountinfo").exists():
        return []
    halves = (line.split(" - ", 1) for line in _mountinfo("self"))
    return [_plain(right.split()[1]) for left, right in halves if _plain(left.split()[4]) == target]


def _mountinfo(pid: int | str) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape").splitlines()


def _plain(word: str) -> str:
    """Decode a path of the kernel, which writes a space as `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def unmount(target: str, device: str = "") -> bool:
    """Unmount `target`, if it is mounted from `device` or the device is unknown; False if it is not.

    A mount that is still in use is unmounted lazily: it disappears now, and is released with its last user.
    """
    sources = mounted_at(target)
    if not sources or (device and sources[-1] != device):
        return False
    return succeeds("umount", target) or succeeds("umount", "--lazy", target)


def detach(backing: str) -> list[str]:
    """Detach every loop device with exactly this backing file; one that is still used goes with its last user."""
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # detached meanwhile
            holds = path.read_text(errors="surrogateescape").rstrip("\n").removesuffix(" (deleted)")
            device = f"/dev/{path.parts[3]}"
            if backing and holds == backing and succeeds("losetup", "--detach", device):
                found.append(device)
    return found


def search_path() -> str:
    """Return the PATH of this process with the folders of commands for root."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def tool(name: str) -> str | None:
    """Return the path of a command, also of one in a folder for root; None if it is missing."""
    return shutil.which(name, path=search_path())


def succeeds(*command: str) -> bool:
    return output_of(*command) is not None


def output_of(*command: str) -> str | None:
    """Run a command; return its output, or None if it cannot be run, takes over 30 s, or its exit code is not 0."""
    try:
        program = [tool(command[0]) or command[0], *command[1:]]
        done = subprocess.run(program, capture_output=True, timeout=30, check=False, text=True, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
