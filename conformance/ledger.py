"""Record what a run makes outside its process, so that the next run releases exactly what a killed run left.

`<run>/resources.jsonl` gets one line with the intent before a thing is made and one when it exists. Three facts make
a process ours: its pid, the time it started (a pid is reused, a pair is not) and the boot it belongs to. A process
that was made between the two lines is found by `CONFORMANCE_RUN=<run_id>` in its environment.

`paths.state()/live/<run_id>.json` says which runs are in progress; `release_leftovers` believes no entry, it looks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import subprocess
import threading
import types
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Self

from conformance import locks, mounts, paths
from conformance.errors import UsageError
from conformance.processes import Identity, boot_id, identify, is_same, kill, started_with

RUN_VARIABLE = "CONFORMANCE_RUN"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


_SECRETS: set[str] = set()


def withhold(variable: str) -> None:
    """Withhold this variable of the environment from every broker, client and JVM: it holds a secret."""
    _SECRETS.add(variable)


def child_environment() -> dict[str, str]:
    """Return the environment of this process without its secrets, for a child process."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def python_environment() -> dict[str, str]:
    """The environment of a Python child that finds this package, also in a checkout that is not installed."""
    package = str(pathlib.Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    return {**child_environment(), "PYTHONPATH": path}


Release = Callable[[Mapping[str, Any]], str]
"""Releases the resource of a record; returns a line, or "" if it was gone. Raises `StillThereError`."""

NO_OTHERS: Mapping[str, Release] = types.MappingProxyType({})


class Ledger:
    """The resources of one run.

    A new ledger marks the run as live until `close()`. Raises `UsageError` if `run_id` cannot be a file name. Threads
    may share a ledger.
    """

    def __init__(self, run_dir: pathlib.Path, run_id: str, others: Mapping[str, Release] = NO_OTHERS) -> None:
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"run id {run_id!r}: letters, digits, '.', '_' and '-' only", code="bad-run-id")
        self.run_id, self._others = run_id, others
        self.path = (run_dir / "resources.jsonl").absolute()
        run_dir.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._index = _live() / f"{run_id}.json"
        self._write_index()
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """After an error or Ctrl-C, release everything: an interrupt can come between a start and its record."""
        if kind is not None:
            _release({"run": self.run_id, "resources": str(self.path)}, self._others)
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """The variable that marks each child process of the run."""
        return {RUN_VARIABLE: self.run_id}

    def intend(self, kind: str, **fields: Any) -> str:
        """Record what is about to be made; return the ticket that `made` and `released` take.

        `kind` is `process` (what=), `mount` (target=, device=), `loop` (backing=), `container` (engine=, host=, name=)
        or one of the `others` that the ledger was given. `made` takes what is known only later, such as a pid.
        """
        ticket = uuid.uuid4().hex[:16]  # not a count: a run that is resumed appends to the same file
        self._append({"ticket": ticket, "state": "intent", "kind": kind, **fields})
        return ticket

    def made(self, ticket: str, *, pid: int | None = None, **fields: Any) -> None:
        """Record that it exists; a process is recorded with its identity."""
        identity = identify(pid) if pid is not None else None
        known = dataclasses.asdict(identity) if identity else {}
        self._append({"ticket": ticket, "state": "made", **known, **fields})

    def released(self, ticket: str) -> None:
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
        """Record the intent, start the process, record it. Return the process and its ticket.

        `env` is the whole environment (default: `child_environment`); the run's variable is added. A new session keeps
        the Ctrl-C of the terminal away from it. Raises OSError if it cannot be started; the ticket is then closed.
        """
        ticket = self.intend("process", what=what, command=list(command))
        try:
            process = subprocess.Popen(
                list(command),
                env={**(child_environment() if env is None else env), **self.environment},
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
        try:
            self.made(ticket, pid=process.pid)
        except BaseException:  # its mark cannot be read yet, while the kernel still replaces its environment
            process.kill()
            process.wait()
            raise
        return process, ticket

    def close(self) -> None:
        """End the record of the run; a second call does nothing."""
        with self._lock:
            if self._fd < 0:
                return
            os.close(self._fd)
            self._fd = -1
        self._index.unlink(missing_ok=True)

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            if self._fd >= 0:  # a late `released` after close has no reader
                os.write(self._fd, line)

    def _write_index(self) -> None:
        me = identify(os.getpid())
        assert me is not None  # we are alive: we are asking
        entry = {**dataclasses.asdict(me), "run": self.run_id, "namespace": _namespace(), "resources": str(self.path)}
        self._index.parent.mkdir(parents=True, exist_ok=True)
        draft = self._index.with_suffix(f".{me.pid}.draft")
        draft.write_text(json.dumps(entry))
        draft.rename(self._index)


def release_leftovers(others: Mapping[str, Release] = NO_OTHERS) -> list[str]:
    """Release what dead runs left, also their temporary folders; return a line for each, for the user.

    `others` release kinds that this module does not know, after all of its own; without one, such a resource stays in
    the record of its run. `run.leftovers` has them all.

    A run is dead if its harness is gone: no such pid, another start time or another boot. A run of another pid
    namespace (a container that shares the state folder) cannot be inspected and is left alone. A line names what could
    not be released; the next run tries again.
    """
    lines: list[str] = []
    if _live().is_dir():
        with _only_one():
            for index in sorted(_live().glob("*.json")):
                entry = _read_index(index)
                if entry is None or _is_dead(entry):
                    found, all_gone = _release(entry, others) if entry is not None else ([], True)
                    lines += found
                    if all_gone:
                        index.unlink(missing_ok=True)
    return lines + locks.release_abandoned()  # last: a temporary folder may hold a ledger, and a mount of it


def _release(entry: Mapping[str, Any], others: Mapping[str, Release]) -> tuple[list[str], bool]:
    """Return lines about what was released or is left, and whether everything was released."""
    lines: list[str] = []
    resources, releasers = pathlib.Path(entry["resources"]), {**_RELEASERS, **others}
    left = list(_left(resources))
    all_gone = all(record["kind"] in releasers for record in left)
    for kind, release in releasers.items():
        for record in [record for record in left if record["kind"] == kind]:
            try:
                lines.append(release(record))
            except StillThereError as error:
                all_gone = False
                lines.append(str(error))
            else:
                _note_released(resources, record["ticket"])
        if kind == "process":  # a mount can only be released after every process that may use it
            lines += _release_marked(entry["run"])
    return [f"run {entry['run']}: {line}" for line in lines if line], all_gone


def _note_released(resources: pathlib.Path, ticket: str) -> None:
    with contextlib.suppress(OSError), resources.open("a") as stream:
        stream.write(f"\n{json.dumps({'ticket': ticket, 'state': 'released'})}\n")  # behind a torn line


def _left(resources: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yield the merged record of everything that was intended and not released; a torn last line is left out."""
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
        return ""  # only intended: if it exists, it is found by its environment
    wanted = Identity(record["pid"], record["start"], record["boot"])
    return f"killed {record.get('what', 'process')} (pid {wanted.pid})" if kill(wanted) else ""


def pids_of_run(run_id: str) -> list[int]:
    """Return the pids of other processes that have the mark of this run in their environment."""
    return [each.pid for each in started_with(f"{RUN_VARIABLE}={run_id}")]


def _release_marked(run_id: str) -> list[str]:
    found = started_with(f"{RUN_VARIABLE}={run_id}")
    return [f"killed an unrecorded child (pid {each.pid})" for each in found if kill(each)]


def _release_mount(record: Mapping[str, Any]) -> str:
    target = record.get("target", "")
    return f"unmounted {target}" if mounts.unmount(target, record.get("device", "")) else ""


def _release_loop(record: Mapping[str, Any]) -> str:
    devices = mounts.detach(record.get("backing", ""))
    return f"detached {' and '.join(devices)}" if devices else ""


def _release_container(record: Mapping[str, Any]) -> str:
    """Remove it by its name, and each container with the label of its run whose record did not reach the disk."""
    engine, name, host, label = (record.get(key, "") for key in ("engine", "name", "host", "label"))
    command = [engine or "docker", *(["--host", host] if host else [])]
    listed = [*command, "ps", "--all", "--format", "{{.Names}}", "--filter", f"label={label}"]
    others = (mounts.output_of(*listed) or "").split() if label else []
    every = filter(None, dict.fromkeys([name, *others]))
    gone = [one for one in every if mounts.succeeds(*command, "rm", "--force", "--volumes", one)]
    return f"removed container {' and '.join(gone)}" if gone else ""


class StillThereError(Exception):
    """A resource could not be released now, and a later run may succeed; the text says what, and why."""


# In this order: a mount is busy while its broker lives, a loop device while it is mounted.
_RELEASERS: dict[str, Release] = {
    "process": _release_process,
    "mount": _release_mount,
    "loop": _release_loop,
    "container": _release_container,
}


def _live() -> pathlib.Path:
    return paths.state() / "live"


def _namespace() -> str:
    try:
        return str(pathlib.Path("/proc/self/ns/pid").readlink())
    except FileNotFoundError:  # a system without namespaces
        return ""


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
