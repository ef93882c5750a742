"""Make a disk slow, failing or full: the broker runs under `strace`, which changes the results of system calls.

A sync of the journal's files is held, or returns EIO; a write to them returns ENOSPC. To the broker this looks like a
disk that does so. It needs no privilege, and the same tracer records when each message was written and synced.

How `strace` 6.1 behaves, measured (tests/faults/test_disk.py shows each):

- `-P` limits tracing and injection to the named files, and other calls do not count for `when=`.
- `when=K` counts separately for each thread and each name of a call.
- `-P` drops every call that names no file (`io_submit`, `msync`, `sync`, `io_uring_enter`), and no option of 6.1 names
  descriptors instead. A broker whose journal needs such calls is traced without `-P`: then the syncs of its other files
  are held too, and a full disk meets only calls that no socket gets. `access.look` at its run before says whether.
- A delay at the entry of `io_submit` or `msync`, and an error of it, act as on any call: it then writes nothing. The
  result of one request (in `io_getevents`) cannot be changed.
- `signal=KILL` injects nothing under `--seccomp-bpf`, without an error: it is never used here.
- If the tracer dies first, the broker lives on, and each traced call returns ENOSYS: the trial shows nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from conformance.errors import FaultError
from conformance.faults.disk import access, pairing, trace
from conformance.faults.disk.access import JournalAccess
from conformance.faults.disk.pairing import StoredOperation
from conformance.faults.disk.trace import NAMES, NO_FILE, WRITTEN, Call, Clock, Operation, Trace
from conformance.faults.process import Target, prove_gone
from conformance.history import OF_ACK, Ended, Event, Header, Op, Phase, Recorder, close_history
from conformance.processes import send_all
from conformance.scenario.script import DiskFull, FailedSync, HeldSync, TracedFault, Watched, fixed_number

AHEAD = 64
"""The new files of a journal that are watched: so many numbers for `{n}` after the highest at the start. A file with a
higher number is reported."""

SAMPLE = 65536
"""Bytes of one write that are recorded: more than a batch of a hundred messages."""

_OLDEST = (5, 6)
_SHOWN = 0.5
"""The part of a hold that must be seen. The tracer starts its timer before it takes its stamp: on a busy machine a hold
looks shorter than it was (94 ms of 100, two processors with ten ready processes)."""

SYNCS = "fdatasync fsync syncfs sync_file_range".split()
"""The calls that are held, or fail; also `msync`, and writes that are their own sync, if `access.look` found such."""

FILLED = "write pwrite64 writev pwritev pwritev2 fallocate copy_file_range sendfile splice".split()
"""The calls that return ENOSPC. Not ftruncate: it reserves no space, so it works on a full disk (ftruncate(2))."""

_OF_SOCKETS = frozenset("write writev sendfile splice".split())
"""A tracer of all files cannot tell these calls on the journal from those on a connection."""

_NUMBER = re.compile(r"\{n(:[^}]*)?\}")


@functools.cache
def cannot() -> str:
    """Return why this machine cannot trace a broker; empty if it can. It is tried once."""
    found = shutil.which("strace") if sys.platform == "linux" else None
    if found is None:
        return "strace is not on PATH (Debian: apt-get install strace)"
    said = subprocess.run([found, "-V"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        return f"strace {version[0] if version else 'of an unknown version'} is too old: 5.6 has what is needed"
    command = [found, "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=none", sys.executable, "-c", ""]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"strace may not trace here: {(tried.stderr.strip().splitlines() or ['it gives no reason'])[0]}"
    return ""


@dataclasses.dataclass(frozen=True)
class _Below:
    """Every file below these folders."""

    folders: Collection[str]

    def __contains__(self, file: object) -> bool:
        return any(str(file).startswith(f"{folder}/") for folder in self.folders)


class Tracer:
    """One run of a broker under a tracer: its command prefix, its clock, and what it saw.

    Args:
        folder: A new folder for the tracer's files.
        journal: The folder of the broker's journal.
        fault: The fault, its numbers drawn. `Watched` traces every file, so that it sees calls that name no file.
        files: The names of the journal's files in that folder; `{n}` (or `{n:08d}`) stands for a number. Without names
            every sync of the broker is held, and each file below the folder is one of the journal.
        contained: For a broker in a container: its pids on this machine. The tracer runs in the container, and reports
            other pids.
        reached: How the broker reached its journal in the run before.

    Raises `FaultError` if this machine cannot trace.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        journal: pathlib.Path,
        fault: TracedFault,
        *,
        files: Sequence[str],
        contained: Callable[[], Iterable[int]] | None = None,
        reached: JournalAccess | None = None,
    ) -> None:
        if contained is None and (reason := cannot()):
            raise FaultError(f"a fault cannot be injected at the broker's disk: {reason}")
        folder.mkdir(parents=True)
        self.fault = fault
        self.reached = reached or JournalAccess()
        self._journals = watched(journal, files)
        self.files = self._journals if isinstance(self._journals, frozenset) else frozenset[str]()
        self.armed_ns = time.monotonic_ns()
        self._clock = Clock.now()
        self._folder, self._journal, self._patterns = folder.absolute(), journal, files
        self._reasons: set[str] = set()
        self._looked = isinstance(fault, Watched)
        self._pids = contained or self._traced

    @property
    def _narrowed(self) -> bool:
        return not (isinstance(self.fault, Watched) or self.reached.unnamed) and bool(self.files)

    @property
    def wrap(self) -> list[str]:
        command = ["strace", "-f", "--seccomp-bpf", "-ff", "-o", str(self._folder / "trace"), "-y", "-s", str(SAMPLE)]
        command += ["--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"]
        command += ["--quiet=attach,path-resolution", "-e", f"trace={_set(NAMES | NO_FILE)}"]
        command += _injection(self.fault, self.reached, narrowed=self._narrowed)
        if self._narrowed:
            command += [word for file in sorted({*self.files, *_folders(self._journal)}) for word in ("-P", file)]
        return command

    def look(self) -> None:
        """Look for I/O that the tracer cannot see in the broker's processes: once when it is ready, once at its end."""
        self._looked = True
        seen = access.look(self._pids(), self._journals)
        if seen.io_uring:
            self._reasons.add("the broker uses io_uring: its writes and syncs are no system calls")
        if self._narrowed and seen.libaio:
            self._reasons.add("the broker uses libaio: its writes name no file, and are not seen")
        if self._narrowed:
            self._reasons |= set(map(pairing.is_mapped, seen.mapped))

    def _traced(self) -> list[int]:
        """Return the threads that the tracer has followed: its files have their numbers."""
        return [int(path.suffix[1:]) for path in self._folder.glob("trace.*")]

    def read(self) -> Trace:
        """Return the trace, once the broker is gone. `FaultError`: the clock was stepped, or a line cannot be read."""
        found = trace.read(self._folder, self._clock.steady(Clock.now()), self._journals)
        if self._narrowed:  # its msync would not be in the trace
            self._reasons |= {pairing.is_mapped(call.file) for call in found.calls if call.maps}
        watched = {pathlib.Path(file).name for file in self.files}
        for name in sorted(_numbered(self._journal, self._patterns).keys() - watched):
            self._reasons.add(f"{name} was not watched: its number is more than {AHEAD} above those at the start")
        if not self._looked:
            self._reasons.add("the broker was not checked for a mapped journal, libaio and io_uring")
        return found

    def finish(
        self, path: pathlib.Path, header: Header, epoch: int, operations: Sequence[Operation]
    ) -> list[StoredOperation]:
        """Read and prove the trace, pair it with the operations, and write the history, once the broker is gone.

        Raises `FaultError` if the fault did not take effect, with what hides the broker's writes, or if the tracer was
        lost.
        """
        found = self.read()
        try:
            prove(found, self.fault)
        except FaultError as error:
            raise FaultError("; ".join([str(error), *sorted(self._reasons)])) from error
        pairs = pairing.pair_operations(found, operations)
        reasons = sorted({*self._reasons, *pairing.unseen(found, pairs)})
        times = (self.armed_ns, time.monotonic_ns())
        write_history(path, header, epoch, self.fault, found, pairs, reasons, times)
        return pairs


class TracedTarget(Target, Protocol):
    """A broker that runs under a tracer: the tracer's process is the first of its tree."""

    @property
    def exit_status(self) -> int | None:
        """The exit status of the tracer; None while it runs."""


def end(target: TracedTarget) -> None:
    """Kill the broker, and let its tracer record the end: a tracer that is killed with the broker may not.

    Raises `FaultError` if they are not gone.
    """
    with target.armed("kill") as descriptors:
        send_all(reversed(descriptors[1 if target.exit_status is None else 0 :]), signal.SIGKILL)
    prove_gone(target, "kill under the tracer")


def prove(found: Trace, fault: TracedFault) -> None:
    """Raise `FaultError` unless the tracer saw the end of every thread, and injected the fault into some call."""
    if not found.threads:
        raise FaultError("the tracer wrote nothing: it could not start the broker")
    if found.lost:
        raise FaultError(
            f"the tracer was lost before the broker ended: {len(found.lost)} of its {found.threads} files have no end "
            f"({found.lost[0]})"
        )
    hit = _hit(found, fault)
    if not hit:
        names = sorted({call.name for call in found.calls if call.file})
        seen = f"it saw {', '.join(names)}" if names else "it saw no call on a file of the journal"
        raise FaultError(f"the {fault.name} fault did not take effect: it met no call; {seen}")
    wrong = [call for call in hit if not _is_as_injected(call, fault)]
    if wrong:
        how = f"{wrong[0].short} took {wrong[0].seconds:.3f} s {wrong[0].error}".strip()
        raise FaultError(f"the {fault.name} fault did not take effect: {how}")


def _hit(found: Trace, fault: TracedFault) -> list[Call]:
    """Return the calls that the fault met: those that were held or failed, and for a watch every call on the journal.

    If a broker wrote and never synced, its writes count as met: the disk would have held a sync, and the finding is
    that none came. It is never an exposure (`sync_held` counts held syncs). So it is with one that maps its files, and
    never makes a sync that was seen; `pairing.unseen` reports that this shows nothing.
    """
    touched = [call for call in found.calls if call.file]
    if isinstance(fault, Watched):
        return touched
    tampered = [call for call in found.calls if call.tampered]
    if isinstance(fault, HeldSync) and not tampered and not any(call.name in SYNCS for call in touched):
        return [call for call in touched if _is_way_to_write(call)]
    return tampered


def _is_way_to_write(call: Call) -> bool:
    return call.name in WRITTEN or call.maps


def _is_as_injected(call: Call, fault: TracedFault) -> bool:
    match fault:
        case HeldSync(seconds):
            return not call.delayed or call.ended_ns is None or call.seconds >= seconds * _SHOWN
        case FailedSync():
            return call.error == "EIO"
        case DiskFull():
            return call.error == "ENOSPC"
        case Watched():
            return not call.tampered


def write_history(
    path: pathlib.Path,
    header: Header,
    epoch: int,
    fault: TracedFault,
    found: Trace,
    pairs: Iterable[StoredOperation],
    unseen: Iterable[str],
    times: tuple[int, int],
) -> None:
    """Write the trace as a complete history, in the order of time.

    For each operation (`message` or `transaction` names it, and `OF_ACK` says that it is an acknowledgement): SYNC
    INVOKE at the end of its write, or at the start of one without an end; SYNC OK at the end of the sync that covers it
    (with `fault` if that was held); SYNC FAIL if its write or a sync of it returned an error (with `fault` if that was
    injected). SYNC INFO says what cannot be seen. `times`: when the fault was armed and when it was over,
    CLOCK_MONOTONIC ns.
    """
    events = [*_fault_events(fault, found, times), *(Event(0, times[1], Op.SYNC, Phase.INFO, detail=w) for w in unseen)]
    for pair in pairs:
        events += _sync_events(pair, fault.name)
    writer = Recorder(path, header)
    for sequence, event in enumerate(sorted(events, key=lambda event: event.at_ns)):
        writer.append(msgspec.structs.replace(event, sequence=sequence, epoch=epoch))
    writer.close()
    close_history(path, Ended.FINISHED)


def _fault_events(fault: TracedFault, found: Trace, times: tuple[int, int]) -> list[Event]:
    events = [
        Event(0, call.started_ns, Op.FAULT, phase, fault=fault.name, detail=call.short)
        for call in _hit(found, fault)[:1]
        for phase in (Phase.FIRED, Phase.EFFECTIVE)
    ]
    armed, healed = (
        Event(0, at_ns, Op.FAULT, phase, fault=fault.name)
        for at_ns, phase in zip(times, (Phase.ARMED, Phase.HEALED), strict=True)
    )
    return [armed, *events, healed]


def _sync_events(pair: StoredOperation, fault: str) -> list[Event]:
    """Return the events of one operation; none if the tracer could not see it, because the reason is its own event."""
    named = "transaction" if pair.operation.transaction else "message"
    about = f" {OF_ACK}" if pair.operation.acknowledges else ""

    def event(at_ns: int | None, phase: Phase, detail: str, *, met: bool = False) -> Event:
        assert at_ns is not None  # a call that was paired has ended
        fields: dict[str, Any] = {named: pair.operation.key, "fault": fault if met else None}
        return Event(0, at_ns, Op.SYNC, phase, detail=f"{detail}{about}", **fields)

    if pair.unseen:
        return []
    events = []
    if (write := pair.write) is not None:
        events.append(event(write.ended_ns or write.started_ns, Phase.INVOKE, write.short))
    if (sync := pair.sync) is not None:
        events.append(event(sync.ended_ns, Phase.OK, f"{sync.short} {sync.seconds:.3f} s", met=sync.delayed))
    if (failed := pair.failed) is not None:
        events.append(event(failed.ended_ns, Phase.FAIL, f"{failed.short} {failed.error}", met=failed.injected))
    return events


def _injection(fault: TracedFault, reached: JournalAccess, *, narrowed: bool) -> list[str]:
    syncs, filled = set(SYNCS), set(FILLED)
    if reached.mapped:
        syncs.add("msync")
    if reached.synced_writes:
        syncs |= {"io_submit"} if reached.libaio else trace.WRITES
    if reached.libaio:
        filled.add("io_submit")
    if not narrowed:
        syncs, filled = syncs - _OF_SOCKETS, filled - _OF_SOCKETS
    match fault:
        case HeldSync(seconds):
            return ["-e", f"inject={_set(syncs)}:delay_enter={round(seconds * 1e6)}"]
        case FailedSync(k):
            return ["-e", f"inject={_set(syncs)}:error=EIO:when={fixed_number(k)}+"]
        case DiskFull(k):
            return ["-e", f"inject={_set(filled)}:error=ENOSPC:when={fixed_number(k)}+"]
        case Watched():
            return []


def _set(names: Iterable[str]) -> str:
    """Return the names with `?`, so that a name unknown on this machine is no error (aarch64 has no `open`)."""
    return ",".join(f"?{name}" for name in sorted(names))


def _folders(journal: pathlib.Path) -> set[str]:
    """Return the folder as given, and with links resolved: `-P` compares strings."""
    return {str(journal.absolute()), str(journal.resolve())}


def watched(journal: pathlib.Path, files: Sequence[str]) -> frozenset[str] | _Below:
    """Return the paths of a journal: those of its files by their names, or else all below its folder."""
    if not files:
        return _Below(_folders(journal))
    found = _numbered(journal, files)
    first = max(found.values(), default=0) + 1
    names = {pattern.format(n=number) for pattern in files for number in range(first, first + AHEAD)} | found.keys()
    return frozenset(f"{folder}/{name}" for folder in _folders(journal) for name in names)


def _numbered(journal: pathlib.Path, files: Sequence[str]) -> dict[str, int]:
    """Return the files of the journal that are there, each with its number; 0 for a name without one."""
    shapes = [re.compile(r"(\d+)".join(map(re.escape, _NUMBER.sub("\0", name).split("\0")))) for name in files]
    names = [path.name for path in journal.glob("*") if path.is_file()]
    matches = [(name, match) for name in names for shape in shapes if (match := shape.fullmatch(name))]
    return {name: int(match[1]) if match.groups() else 0 for name, match in matches}
