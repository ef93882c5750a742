"""What a run has made outside itself, so that the next run can release exactly what a killed one left behind.

`<run>/resources.jsonl` gets one line with the intent before a thing is made and one when it exists. Three facts make
a process ours: its pid, the time it started (a pid is reused, a pair is not) and the boot it belongs to. A process
that was made between the two lines is found by `CONFORMANCE_RUN=<run_id>` in its environment.

`paths.state()/live/<run_id>.json` says which runs are in progress; `release_leftovers()` believes no entry, it looks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Self

from conformance import paths
from conformance.errors import UsageError

RUN_VARIABLE = "CONFORMANCE_RUN"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_KILL_WAIT_MS = 5000


@dataclasses.dataclass(frozen=True)
class Identity:
    """One process, as no later one can be: `start` is field 22 of /proc/PID/stat, in clock ticks since boot."""

    pid: int
    start: int
    boot: str


def boot_id() -> str:
    """The id that the kernel gave to this boot."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """The identity of a live process; None where there is none, or only its zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command name may itself hold spaces and brackets: the fields are counted from the last one.
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Identity(pid, int(fields[19]), boot_id())


def is_same(wanted: Identity) -> bool:
    """Whether the very process is still alive."""
    return identify(wanted.pid) == wanted


def kill(wanted: Identity) -> bool:
    """SIGKILL this very process and wait until it is dead; False where it was gone, or is another one by now.

    The pidfd is opened before the comparison: from then on the signal can reach no other process.
    """
    try:
        descriptor = os.pidfd_open(wanted.pid)
    except OSError:
        return False
    try:
        if not is_same(wanted):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.poll(_KILL_WAIT_MS)
    except ProcessLookupError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


class Ledger:
    """The resources of one run.

    Making one indexes the run as live; `close()` ends that. Raises `UsageError` where `run_id` cannot be a file name.
    Threads may share a ledger.
    """

    def __init__(self, run_dir: pathlib.Path, run_id: str) -> None:
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"run id {run_id!r}: letters, digits, '.', '_' and '-' only")
        self.run_id = run_id
        self.path = (run_dir / "resources.jsonl").absolute()
        run_dir.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._index = _live() / f"{run_id}.json"
        self._write_index()
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """After an error or Ctrl-C whatever is left goes as well.

        Its own owner may never have heard of it: an interrupt can come between the start of a process and its record.
        """
        if kind is not None:
            _release({"run": self.run_id, "resources": str(self.path)})
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """What every child must find in its environment."""
        return {RUN_VARIABLE: self.run_id}

    def intend(self, kind: str, **fields: Any) -> str:
        """Say what is about to be made; returns the ticket that `made` and `released` take.

        `kind` is `process` (what=), `mount` (target=, device=), `loop` (backing=) or `container` (engine=, host=,
        name=). What is only known afterwards (a pid, a loop device) belongs to `made`.
        """
        ticket = uuid.uuid4().hex[:16]  # not a count: a run that is resumed appends to the same file
        self._append({"ticket": ticket, "state": "intent", "kind": kind, **fields})
        return ticket

    def made(self, ticket: str, *, pid: int | None = None, **fields: Any) -> None:
        """Say that it exists now; a process is recorded with its identity."""
        identity = identify(pid) if pid is not None else None
        known = dataclasses.asdict(identity) if identity else {}
        self._append({"ticket": ticket, "state": "made", **known, **fields})

    def released(self, ticket: str) -> None:
        """Say that it is gone."""
        self._append({"ticket": ticket, "state": "released"})

    def spawn(
        self,
        what: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: pathlib.Path | None = None,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        new_session: bool = True,
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start a process by the book: intent, start, record. Returns it and its ticket.

        `env` is the whole environment (default: this process's); the run's variable is added. A session of its own
        keeps the Ctrl-C of the terminal away from it. OSError where it cannot be started; the ticket is then closed.
        """
        ticket = self.intend("process", what=what, command=list(command))
        try:
            process = subprocess.Popen(
                list(command),
                env={**(os.environ if env is None else env), **self.environment},
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=tuple(pass_fds),
                start_new_session=new_session,
            )
        except OSError:
            self.released(ticket)
            raise
        self.made(ticket, pid=process.pid)
        return process, ticket

    def close(self) -> None:
        """The run has ended and released what it made; a second call does nothing."""
        with self._lock:
            if self._fd < 0:
                return
            os.close(self._fd)
            self._fd = -1
        self._index.unlink(missing_ok=True)

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._fd >= 0:  # a late `released` after close is worth nothing to anybody
                os.write(self._fd, line)

    def _write_index(self) -> None:
        me = identify(os.getpid())
        assert me is not None  # we are alive: we are asking
        entry = {**dataclasses.asdict(me), "run": self.run_id, "namespace": _namespace(), "resources": str(self.path)}
        self._index.parent.mkdir(parents=True, exist_ok=True)
        draft = self._index.with_suffix(f".{me.pid}.draft")
        draft.write_text(json.dumps(entry))
        draft.rename(self._index)


def release_leftovers() -> list[str]:
    """Release what dead runs left; one line for each released thing, for the user to read.

    A run is dead where its harness is gone (no such pid, another start time or another boot). Runs of another pid
    namespace (a container that shares the state folder) cannot be looked at, and are left alone.
    """
    if not _live().is_dir():
        return []
    lines: list[str] = []
    with _only_one():
        for index in sorted(_live().glob("*.json")):
            entry = _read_index(index)
            if entry is None or _is_dead(entry):
                if entry is not None:
                    lines += _release(entry)
                index.unlink(missing_ok=True)
    return lines


def _release(entry: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    left = list(_left(pathlib.Path(entry["resources"])))
    for kind, release in _RELEASERS.items():
        lines += [release(record) for record in left if record["kind"] == kind]
        if kind == "process":  # what is mounted can only be released after everybody who might use it
            lines += _release_marked(entry["run"])
    return [f"run {entry['run']}: {line}" for line in lines if line]


def _left(resources: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The merged record of everything that was intended and not released. A torn last line is no record."""
    merged: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(OSError):
        for line in resources.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            merged.setdefault(record["ticket"], {}).update(record)
    return (record for record in merged.values() if record["state"] != "released" and "kind" in record)


def _release_process(record: Mapping[str, Any]) -> str:
    if "start" not in record:
        return ""  # only intended: if it exists, its environment gives it away
    wanted = Identity(record["pid"], record["start"], record["boot"])
    return f"killed {record.get('what', 'process')} (pid {wanted.pid})" if kill(wanted) else ""


def _release_marked(run_id: str) -> list[str]:
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    lines = []
    for pid in [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]:
        if pid == os.getpid() or mark not in _environ(pid):
            continue
        identity = identify(pid)
        # Read again: between the first look and the identity the pid may have changed hands.
        if identity and mark in _environ(pid) and kill(identity):
            lines.append(f"killed an unrecorded child (pid {pid})")
    return lines


def _environ(pid: int) -> list[bytes]:
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return []


def _release_mount(record: Mapping[str, Any]) -> str:
    target = record.get("target", "")
    return f"unmounted {target}" if unmount(target, record.get("device", "")) else ""


def mounts(pid: int | str, number: str) -> dict[str, str]:
    """The mounts of a block device (`major:minor`) as a process sees them: target by mount id."""
    fields = (line.split() for line in _mountinfo(pid))
    return {field[0]: _plain(field[4]) for field in fields if field[2] == number}


def mounted_at(target: str) -> list[str]:
    """The sources of what is mounted at exactly this place; the last hides the others."""
    halves = (line.split(" - ", 1) for line in _mountinfo("self"))
    return [_plain(right.split()[1]) for left, right in halves if _plain(left.split()[4]) == target]


def _mountinfo(pid: int | str) -> list[str]:
    return pathlib.Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape").splitlines()


def _plain(word: str) -> str:
    """The kernel writes a space in a path as `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)


def unmount(target: str, device: str = "") -> bool:
    """Unmount what is mounted at `target`, from `device` where that is known; False where nothing of it is.

    Lazily where somebody still uses it: it is then out of the way, and goes with its last user.
    """
    sources = mounted_at(target)
    if not sources or (device and sources[-1] != device):
        return False
    return _did("umount", target) or _did("umount", "--lazy", target)


def _release_loop(record: Mapping[str, Any]) -> str:
    devices = detach(record.get("backing", ""))
    return f"detached {' and '.join(devices)}" if devices else ""


def detach(backing: str) -> list[str]:
    """Detach every loop device whose backing file is exactly this one, also one that was never recorded.

    A device that is still used goes with its last user.
    """
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # detached meanwhile
            holds = path.read_text(errors="surrogateescape").rstrip("\n").removesuffix(" (deleted)")
            device = f"/dev/{path.parts[3]}"
            if backing and holds == backing and _did("losetup", "--detach", device):
                found.append(device)
    return found


def _release_container(record: Mapping[str, Any]) -> str:
    """By its name; and by the label of its run whatever else that has left, of which no record came to the disk."""
    engine, name, host, label = (record.get(key, "") for key in ("engine", "name", "host", "label"))
    command = [engine or "docker", *(["--host", host] if host else [])]
    others = _said(*command, "ps", "--all", "--format", "{{.Names}}", "--filter", f"label={label}") if label else ""
    every = filter(None, dict.fromkeys([name, *(others or "").split()]))
    gone = [one for one in every if _did(*command, "rm", "--force", "--volumes", one)]
    return f"removed container {' and '.join(gone)}" if gone else ""


# In this order: a mount is busy while its broker lives, a loop device while it is mounted.
_RELEASERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "process": _release_process,
    "mount": _release_mount,
    "loop": _release_loop,
    "container": _release_container,
}


def tool(name: str) -> str | None:
    """The path of a command, also of one for root where a plain user's PATH is in force; None where it is missing."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))


def _did(*command: str) -> bool:
    return _said(*command) is not None


def _said(*command: str) -> str | None:
    try:
        program = [tool(command[0]) or command[0], *command[1:]]
        done = subprocess.run(program, capture_output=True, timeout=30, check=False, text=True, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _live() -> pathlib.Path:
    return paths.state() / "live"


def _namespace() -> str:
    return str(pathlib.Path("/proc/self/ns/pid").readlink())


def _read_index(index: pathlib.Path) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(index.read_text())
    except (OSError, ValueError):
        return None
    known = {"run", "pid", "start", "boot", "namespace", "resources"}
    return entry if isinstance(entry, dict) and known <= entry.keys() else None


def _is_dead(entry: Mapping[str, Any]) -> bool:
    if entry["boot"] != boot_id():
        return True
    if entry["namespace"] != _namespace():
        return False
    return not is_same(Identity(entry["pid"], entry["start"], entry["boot"]))


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    with (_live() / ".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
