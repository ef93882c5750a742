"""A small Debian made by debootstrap: what an image is built on, and where a version that this machine lacks runs.

`{XDG_CACHE_HOME}/ack-conformance/images` keeps the folder or the tar of each. Making one needs root, and a minute.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

from conformance import mounts, paths
from conformance.adapters.broker_log import launch_error, text_of
from conformance.errors import LaunchError
from conformance.ledger import child_environment
from conformance.locks import lock

SUITE = "bookworm"
"""Of a Debian that a broker's file does not ask for by version."""

_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
"""debootstrap mounts /proc in what it makes, and its children go on without it: both end with the namespaces."""

_ENTER = """
top=$1/$(echo "$2" | cut -d / -f 2)
mkdir -p "$top" && mount -t tmpfs none "$top" || exit
for folder in /proc /dev /sys "$2"; do
    mkdir -p "$1$folder" && mount --rbind "$folder" "$1$folder" || exit
done
mkdir -p "$1/etc" && touch "$1/etc/hosts" && mount --bind /etc/hosts "$1/etc/hosts" || exit
mount --rbind "$1" "$1" && cd "$1" && pivot_root . . && umount -l . && cd "$3" || exit
shift 3
exec "$@"
"""


def cannot_make() -> str:
    """Why no Debian can be made here; empty if one can."""
    if os.getuid() != 0:
        return "to make one of Debian needs root"
    if mounts.tool("debootstrap") is None:
        return "debootstrap is not installed (Debian: apt-get install debootstrap)"
    return ""


def name_of(packages: Sequence[str], suite: str = SUITE) -> str:
    return f"{suite}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"


def archive(packages: Sequence[str], suite: str = SUITE) -> pathlib.Path:
    """A tar of a minimal Debian with these packages; `LaunchError` with the end of what debootstrap said."""
    return _made(packages, suite, ".tar")


def root(packages: Sequence[str], suite: str, *, offline: bool = False) -> pathlib.Path:
    """The folder of a minimal Debian with these packages; `LaunchError` if it is not there and cannot be made."""
    why = "the run is offline" if offline else cannot_make()
    if why and not _target(packages, suite).exists():
        raise LaunchError(f"Debian {suite} with {', '.join(packages)} is not in the cache, and {why}")
    if os.getuid() != 0:
        raise LaunchError(f"to run a broker in Debian {suite} needs root")
    return _made(packages, suite)


def entering(folder: pathlib.Path, own: pathlib.Path, working: pathlib.Path) -> tuple[str, ...]:
    """The words before a command that runs with `folder` as its root, in a mount namespace of its own.

    Of everything else it has only the folder `own`, whose files keep their paths: a tracer sees the same names.
    `pivot_root`, and not `chroot`, for that reason: after a chroot /proc/PID/fd names files below `folder`. A mount of
    another broker must not be there: it would stay busy after a power loss.
    """
    return ("unshare", "--mount", "sh", "-c", _ENTER, "sh", str(folder), str(own), str(working))


def _target(packages: Sequence[str], suite: str, suffix: str = "") -> pathlib.Path:
    return paths.cache() / "images" / f"debian-{name_of(packages, suite)}{suffix}"


def _made(packages: Sequence[str], suite: str, suffix: str = "") -> pathlib.Path:
    target = _target(packages, suite, suffix)
    with lock(target):
        if not target.exists():
            draft, made, log = (target.with_name(f"{target.name}.{word}") for word in ("root", "draft", "log"))
            shutil.rmtree(draft, ignore_errors=True)  # the lock is ours: a killed process left it
            include = [f"--include={','.join(packages)}"] if packages else []
            try:
                _run([*_NAMESPACE, "debootstrap", "--variant=minbase", *include, suite, str(draft)], log)
                if suffix:
                    _run(["tar", "-C", str(draft), "-cf", str(made), "."], log)
                (made if suffix else draft).replace(target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
                made.unlink(missing_ok=True)
    return target


def _run(words: Sequence[str], log: pathlib.Path) -> None:
    with log.open("ab") as stream:
        try:
            done = subprocess.run(
                [*_ENDS_WITH_US, *words],
                env={**child_environment(), "PATH": mounts.search_path()},
                stdout=stream,
                stderr=stream,
                check=False,
            )
        except OSError as error:
            raise LaunchError(f"{_ENDS_WITH_US[0]} cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        what = f"no Debian to build on: `{' '.join(words)}` ended with {done.returncode}"
        raise launch_error(what, text_of(log), log)
