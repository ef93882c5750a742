"""Make a disk slow, failing or full: the broker runs under `strace`, which changes the results of system calls.

A sync of the journal's files is held, or returns EIO; a write to them returns ENOSPC. The broker cannot tell this from
a disk that does so, no privilege is needed, and the same tracer writes down when each message was written and synced.

What `strace` 6.1 does, measured (tests/faults/test_disk.py shows each):

- `-P` narrows what is traced and what is injected alike, and a call that it leaves out does not count for `when=`.
- `when=K` counts for each thread, and in it for each name of a call, on its own.
- `-P` never lets through what names no file (`io_submit`, `msync`, `sync`, `io_uring_enter`): see `Tracer.look`.
- `signal=KILL` injects nothing under `--seccomp-bpf`, and does not say so: it is never used here.
- If the tracer dies first, the broker lives on, and each call that was traced returns ENOSYS: nothing may be concluded.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from conformance.errors import FaultError
from conformance.faults.disk import pairing, trace
from conformance.faults.disk.pairing import StoredOperation
from conformance.faults.disk.trace import NAMES, NO_FILE, WRITES, Call, Clock, Operation, Trace
from conformance.faults.process import Target, prove_gone, send
from conformance.history import Ended, Event, Header, Op, Phase, Recorder, close_history
from conformance.scenario.script import DiskFault, DiskFull, FailedSync, HeldSync, Watched

NUMBERS = range(1, 65)
"""The numbers that `{n}` stands for in the name of a journal's file; one beyond is found out, and told."""

SAMPLE = 65536
"""Bytes that are shown of one write: more than a batch of a hundred messages."""

_OLDEST = (5, 6)
_SHOWN = 0.5
"""The part of a hold that has to be seen. The tracer starts its timer, then takes its stamp: where it is kept waiting
in between, a hold looks shorter than it was (94 ms of 100, two processors with ten ready processes)."""

SYNCS = "fdatasync fsync syncfs sync_file_range".split()
"""The calls that are held, or fail."""

FILLED = "write pwrite64 writev pwritev pwritev2 fallocate copy_file_range sendfile splice".split()
"""The calls that find no room. No ftruncate: it reserves nothing, and no disk is too full for it (ftruncate(2))."""

_NUMBER = re.compile(r"\{n(:[^}]*)?\}")


@functools.cache
def cannot() -> str:
    """Why this machine cannot trace a broker; empty where it can. Tried once."""
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
        return f"strace may not trace here: {(tried.stderr.strip().splitlines() or ['it says nothing'])[0]}"
    return ""


class Tracer:
    """One run of a broker under a tracer: its command prefix, its clock, and what it saw.

    Args:
        folder: Gets the tracer's files; must not exist.
        journal: The folder of the broker's journal.
        fault: What is done to it, its numbers drawn. `Watched` watches every file, so that calls that name none are
            seen as well.
        files: The names of the journal's files in that folder; `{n}` (or `{n:08d}`) stands for a number.
        contained: For a broker in a container: its pids here. Its tracer is that of its image, and names other pids.

    Raises `FaultError` where this machine cannot trace.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        journal: pathlib.Path,
        fault: DiskFault,
        *,
        files: Sequence[str],
        contained: Callable[[], Iterable[int]] | None = None,
    ) -> None:
        if contained is None and (reason := cannot()):
            raise FaultError(f"the disk of the broker cannot be hurt: {reason}")
        folder.mkdir(parents=True)
        self.fault = fault
        self.files = _watched(journal, files)
        self.armed_ns = time.monotonic_ns()
        self._clock = Clock.now()
        self._folder, self._journal, self._patterns = folder.absolute(), journal, files
        self._reasons: set[str] = set()
        self._looked = isinstance(fault, Watched)
        self._pids = contained or self._traced

    @property
    def _narrowed(self) -> bool:
        return not isinstance(self.fault, Watched)

    @property
    def wrap(self) -> list[str]:
        """What stands before the broker's command."""
        command = ["strace", "-f", "--seccomp-bpf", "-ff", "-o", str(self._folder / "trace"), "-y", "-s", str(SAMPLE)]
        command += ["--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns"]
        command += ["--quiet=attach,path-resolution", "-e", f"trace={_set(NAMES | NO_FILE)}"]
        if self._narrowed:
            command += _injection(self.fault)
            command += [word for file in sorted({*self.files, *_folders(self._journal)}) for word in ("-P", file)]
        return command

    def look(self) -> None:
        """Look into the broker's processes for what the tracer cannot see: once it is ready, and before it ends."""
        self._looked = True
        whole: set[str] = set()  # processes: their threads share memory and descriptors, and a JVM has fifty of them
        for pid in self._pids():
            with contextlib.suppress(OSError):  # that thread is gone
                process = pathlib.Path("/proc", str(pid))
                group = next(line for line in (process / "status").read_text().splitlines() if line.startswith("Tgid:"))
                if group in whole:
                    continue
                self._look_at_memory((process / "maps").read_text(errors="replace"))
                whole.add(group)
                if "anon_inode:[io_uring]" in map(_link, (process / "fd").iterdir()):
                    self._reasons.add("the broker uses io_uring: its writes and syncs are no system calls")

    def _traced(self) -> list[int]:
        """The threads that it has followed: its files have their numbers."""
        return [int(path.suffix[1:]) for path in self._folder.glob("trace.*")]

    def _look_at_memory(self, maps: str) -> None:
        for line in maps.splitlines():
            _, mode, *rest = line.split(maxsplit=5)
            name = rest[-1] if len(rest) == 4 else ""
            if "w" in mode and "s" in mode and name in self.files:
                self._reasons.add(
                    f"{pathlib.PurePath(name).name} is mapped: what is written through memory cannot be seen"
                )
            if name.startswith("/[aio]") and self._narrowed:
                self._reasons.add("the broker uses libaio: its writes name no file, and cannot be seen or hurt")

    def read(self) -> Trace:
        """What it saw, once the broker is gone. `FaultError`: the clock was stepped, or a line cannot be read."""
        found = trace.read(self._folder, self._clock.steady(Clock.now()), self.files)
        for name in _beyond(self._journal, self._patterns):
            self._reasons.add(f"{name} was not watched: its number is above {NUMBERS[-1]}")
        if not self._looked:
            self._reasons.add("nobody looked whether the broker maps its journal, or uses libaio or io_uring")
        return found

    def finish(
        self, path: pathlib.Path, header: Header, epoch: int, operations: Sequence[Operation]
    ) -> list[StoredOperation]:
        """Read, prove, pair, and write the history: all that is left to do once the broker is gone.

        Raises `FaultError` where the fault did not take effect, with what hides the broker's writes from it, or the
        tracer was lost.
        """
        found = self.read()
        try:
            prove(found, self.fault)
        except FaultError as error:
            raise FaultError("; ".join([str(error), *sorted(self._reasons)])) from error
        pairs = pairing.stored(found, operations)
        reasons = sorted({*self._reasons, *pairing.unseen(found, pairs)})
        times = (self.armed_ns, time.monotonic_ns())
        write_history(path, header, epoch, self.fault, found, pairs, reasons, times)
        return pairs


class TracedBroker(Target, Protocol):
    """What is needed of a broker that runs under a tracer: the tracer's process is the first of its tree."""

    @property
    def exit_status(self) -> int | None:
        """Of the tracer: None while it runs."""


def end(target: TracedBroker) -> None:
    """SIGKILL the broker and leave its tracer to write down the end: a tracer that is killed with it may not.

    Raises `FaultError` where they are not gone.
    """
    with target.pidfds() as descriptors:
        send(reversed(descriptors[1 if target.exit_status is None else 0 :]), signal.SIGKILL)
    prove_gone(target, "kill under the tracer")


def prove(found: Trace, fault: DiskFault) -> None:
    """Raise `FaultError` unless the tracer saw the end of every thread, and did to some call what the fault says."""
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
        raise FaultError(f"the {fault.name} fault did not take effect: nothing was met by it; {seen}")
    wrong = [call for call in hit if not _as_told(call, fault)]
    if wrong:
        how = f"{wrong[0].short} took {wrong[0].seconds:.3f} s {wrong[0].error}".strip()
        raise FaultError(f"the {fault.name} fault did not take effect: {how}")


def _hit(found: Trace, fault: DiskFault) -> list[Call]:
    """The calls that the fault met: those that were held or failed, and for a watch every call on the journal.

    A broker that wrote and never asked for a sync leaves nothing to hold: what it wrote was met by a disk that would
    have held it, and that no sync came is what there is to see. It is never an exposure (`sync_held` counts held ones).
    One that maps its files writes through them, and syncs by msync: why that says nothing is in `pairing.unseen`.
    """
    touched = [call for call in found.calls if call.file]
    if isinstance(fault, Watched):
        return touched
    if isinstance(fault, HeldSync) and not any(call.name in SYNCS for call in touched):
        return [call for call in touched if _is_way_to_write(call)]
    return [call for call in found.calls if call.tampered]


def _is_way_to_write(call: Call) -> bool:
    return call.name in WRITES or call.maps


def _as_told(call: Call, fault: DiskFault) -> bool:
    match fault:
        case HeldSync(seconds):
            return _is_way_to_write(call) or call.ended_ns is None or call.seconds >= seconds * _SHOWN
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
    fault: DiskFault,
    found: Trace,
    pairs: Iterable[StoredOperation],
    unseen: Iterable[str],
    times: tuple[int, int],
) -> None:
    """Write what the tracer saw as a complete history, in the order of time.

    For each operation (`message` or `transaction` names it): SYNC INVOKE at the end of its write, SYNC OK at the end
    of the sync that covers it (`fault` where that was held), SYNC FAIL where its write or a sync of it returned an
    error (`fault` where that was injected). SYNC INFO: what cannot be seen. `times`: when the fault was armed and when
    it was over, CLOCK_MONOTONIC ns.
    """
    events = [*_fault_events(fault, found, times), *(Event(0, times[1], Op.SYNC, Phase.INFO, detail=w) for w in unseen)]
    for pair in pairs:
        events += _sync_events(pair, fault.name)
    writer = Recorder(path, header)
    for sequence, event in enumerate(sorted(events, key=lambda event: event.at_ns)):
        writer.append(msgspec.structs.replace(event, sequence=sequence, epoch=epoch))
    writer.close()
    close_history(path, Ended.FINISHED)


def _fault_events(fault: DiskFault, found: Trace, times: tuple[int, int]) -> list[Event]:
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
    """What is known of one operation; nothing where the tracer could not see it: the reason stands by itself."""
    named = "transaction" if pair.operation.transaction else "message"

    def event(at_ns: int | None, phase: Phase, detail: str, *, met: bool = False) -> Event:
        assert at_ns is not None  # a call that was paired has ended
        fields: dict[str, Any] = {named: pair.operation.key, "fault": fault if met else None}
        return Event(0, at_ns, Op.SYNC, phase, detail=detail, **fields)

    if pair.unseen:
        return []
    events = []
    if (write := pair.write) is not None:
        events.append(event(write.ended_ns, Phase.INVOKE, write.short))
    if (sync := pair.sync) is not None:
        events.append(event(sync.ended_ns, Phase.OK, f"{sync.short} {sync.seconds:.3f} s", met=sync.delayed))
    if (failed := pair.failed) is not None:
        events.append(event(failed.ended_ns, Phase.FAIL, f"{failed.short} {failed.error}", met=failed.injected))
    return events


def _injection(fault: DiskFault) -> list[str]:
    match fault:
        case HeldSync(seconds):
            return ["-e", f"inject={_set(SYNCS)}:delay_enter={round(seconds * 1e6)}"]
        case FailedSync(int(k)):
            return ["-e", f"inject={_set(SYNCS)}:error=EIO:when={k}+"]
        case DiskFull(int(k)):
            return ["-e", f"inject={_set(FILLED)}:error=ENOSPC:when={k}+"]
        case Watched():
            return []
    raise FaultError(f"the {fault.name} fault has a number that was not drawn: {fault}")


def _set(names: Iterable[str]) -> str:
    """Each with `?`: some machines have no `open` (aarch64), and that is no mistake."""
    return ",".join(f"?{name}" for name in sorted(names))


def _folders(journal: pathlib.Path) -> set[str]:
    """The folder as it is named, and as the kernel names it: `-P` compares words."""
    return {str(journal.absolute()), str(journal.resolve())}


def _watched(journal: pathlib.Path, files: Sequence[str]) -> frozenset[str]:
    names = {pattern.format(n=number) for pattern in files for number in NUMBERS}
    return frozenset(f"{folder}/{name}" for folder in _folders(journal) for name in names)


def _beyond(journal: pathlib.Path, files: Sequence[str]) -> list[str]:
    """The journal's files whose number is not among those that were watched."""
    known = {pattern.format(n=number) for pattern in files for number in NUMBERS}
    shapes = [re.compile(r"\d+".join(map(re.escape, _NUMBER.sub("\0", name).split("\0")))) for name in files]
    names = sorted(path.name for path in journal.glob("*") if path.is_file())
    return [name for name in names if name not in known and any(shape.fullmatch(name) for shape in shapes)]


def _link(path: pathlib.Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
