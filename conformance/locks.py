"""Lock files: of temporary folders, and of what only one process at a time may make.

The kernel unlocks them when the process ends. So the next start can tell the folders of a killed process from those
of a living one. This also works across containers, and if process ids were reused.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator

from conformance import paths, processes

_PREFIX = "conformance-"
VARIABLE = "CONFORMANCE_SCRATCH"
"""Names the temporary folder of a child process that may outlive its parent, so that the next start ends it."""


def acquire(path: pathlib.Path) -> int | None:
    """Lock a file, which is created if it is missing; return its descriptor, or None if another owner holds it.

    A file that was removed between its opening and its lock guards nothing: the next process creates another one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def release(path: pathlib.Path, descriptor: int) -> None:
    """Remove a file that was acquired, then unlock it: in this order no other process locks it in between."""
    path.unlink(missing_ok=True)
    os.close(descriptor)


@contextlib.contextmanager
def lock(target: pathlib.Path) -> Iterator[None]:
    """Let only one process at a time make `target`; the others wait, and find it made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _scratch() -> pathlib.Path:
    """Return the folder of the locks of temporary folders; each lock file has the path of its folder."""
    return paths.state() / "scratch"


@contextlib.contextmanager
def scratch(what: str) -> Iterator[pathlib.Path]:
    """Make a temporary folder, `conformance-WHAT-*`, that the next start removes if this process was killed."""
    name = f"{_PREFIX}{what}-{uuid.uuid4().hex[:12]}"
    folder = pathlib.Path(tempfile.gettempdir()) / name
    lock = _scratch() / f"{name}.lock"
    descriptor = None
    with contextlib.suppress(OSError):  # a read-only home: the folder works without a lock
        descriptor = acquire(lock)
    try:
        if descriptor is not None:
            os.write(descriptor, os.fsencode(folder))
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            release(lock, descriptor)


_UNUSED_S = 7 * 86400.0
"""After this time a folder without a lock has no owner: a version of the suite that made no locks left it."""


def _unlocked() -> Iterator[pathlib.Path]:
    """Yield temporary folders of this user that have no lock and were not used for a week."""
    for what in ("spark", "warm"):
        for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{_PREFIX}{what}-*"):
            with contextlib.suppress(OSError):
                seen = folder.lstat()
                ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid()
                old = time.time() - seen.st_mtime > _UNUSED_S
                if ours and old and not (_scratch() / f"{folder.name}.lock").exists():
                    yield folder


def release_abandoned() -> list[str]:
    """Remove the temporary folders of processes that have ended, and end their children; return a line for each.

    Counter-example to children that end by themselves: a JVM sees that its parent is gone only when it has started, and
    until then it makes its folder again.
    """
    lines = []
    for lock in sorted(_scratch().glob("*.lock")):
        descriptor = acquire(lock)
        if descriptor is None:
            continue
        folder = pathlib.Path(os.fsdecode(os.read(descriptor, 1 << 12)))
        users = [each for each in processes.started_with(f"{VARIABLE}={folder}") if processes.kill(each)]
        lines += [f"killed a child that used {folder} (pid {each.pid})" for each in users]
        if folder.name.startswith(_PREFIX) and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():  # another user's: a later start tries again
                os.close(descriptor)
                continue
            lines.append(f"removed {folder}")
        release(lock, descriptor)
    for folder in _unlocked():
        shutil.rmtree(folder, ignore_errors=True)
        lines += [] if folder.exists() else [f"removed {folder}"]
    return lines
