"""Read strictly what a traced broker did to its journal, from the files of `strace -ff`.

The tracer takes a stamp when it stops the thread at the entry of a call, before the kernel begins the call. The
duration ends when the tracer sees the exit, before the thread continues. So a call lies within its stamps, the next
action of the thread lies after them, and a delay that the tracer injects at the entry is part of the duration (strace
6.1, measured).
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import time
from collections.abc import Container, Iterable, Iterator, Sequence

from conformance.errors import FaultError

WRITES = frozenset("write pwrite64 writev pwritev pwritev2".split())
EVERYWHERE = frozenset("sync syncfs".split())
SYNCS = EVERYWHERE | frozenset("fsync fdatasync".split())
"""Calls that put all writes to a file on its disk. Not `sync_file_range`: it writes neither the file's size nor the
device's cache (sync_file_range(2), "Warning")."""

COPIES = frozenset("copy_file_range sendfile splice".split())
OPENS = frozenset("open openat openat2 creat".split())
DUPLICATES = frozenset("dup dup2 dup3 fcntl".split())
RENAMES = frozenset("rename renameat renameat2".split())
NAMES = (
    WRITES
    | (SYNCS - {"sync"})
    | COPIES
    | OPENS
    | DUPLICATES
    | RENAMES
    | frozenset("sync_file_range fallocate mmap".split())
)
NO_FILE = frozenset("sync io_submit io_uring_setup io_uring_enter".split())
"""Calls that name no file for `strace -P`: with `-P` the tracer can neither show nor hold them."""

STEP_NS = 1_000_000
_KEPT = NO_FILE | EVERYWHERE  # a syncfs covers every file, not only the one it names


@dataclasses.dataclass(frozen=True)
class Clock:
    """`offset_ns`: CLOCK_REALTIME, which the tracer writes, minus CLOCK_MONOTONIC, which histories use.

    Both run at the same rate: the difference changes only if the clock is stepped.
    """

    offset_ns: int

    @classmethod
    def now(cls) -> Clock:
        """Return the offset now, from the tightest of several readings."""
        readings = []
        for _ in range(9):
            before = time.monotonic_ns()
            wall = time.time_ns()
            after = time.monotonic_ns()
            readings.append((after - before, wall - (before + after) // 2))
        return cls(min(readings)[1])

    def steady(self, later: Clock) -> Clock:
        """Return this clock; raise `FaultError` if it was stepped by more than 1 ms until `later`."""
        moved = later.offset_ns - self.offset_ns
        if abs(moved) > STEP_NS:
            raise FaultError(
                f"the machine's clock was stepped by {moved / 1e6:.1f} ms while the broker was traced: try again"
            )
        return self


@dataclasses.dataclass(frozen=True)
class Operation:
    """A request of a client: `key` names it, and the stored bytes contain `marker` (None: they cannot be recognised).

    `transaction`: the key names a transaction, not a message. `acknowledges`: the request acknowledged the message.
    `until_ns`: the time of the next request; without a marker, later writes may belong to that one.
    """

    key: str
    invoked_ns: int
    marker: bytes | None = None
    transaction: bool = False
    acknowledges: bool = False
    until_ns: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One system call on a file of the journal; times in CLOCK_MONOTONIC ns.

    `ended_ns` is None if the thread died in the call. `sample` has the written bytes that the tracer shows; `whole`:
    whether these are all. `flags` are those of an open, a mapping or a write; for a write, also of its descriptor.
    """

    thread: int
    name: str
    file: str
    started_ns: int
    ended_ns: int | None
    result: int | None
    descriptor: int = -1
    error: str = ""
    injected: bool = False
    delayed: bool = False
    sample: bytes = b""
    whole: bool = True
    flags: frozenset[str] = frozenset()
    renamed: str = ""

    @property
    def done(self) -> bool:
        return self.ended_ns is not None and self.result is not None and not self.error

    @property
    def failed(self) -> bool:
        """Whether it returned an error; a call that the kernel restarts did not."""
        return self.result is not None and bool(self.error)

    @property
    def tampered(self) -> bool:
        return self.injected or self.delayed

    @property
    def maps(self) -> bool:
        """Whether it maps its file for shared writing."""
        return self.name == "mmap" and {"MAP_SHARED", "PROT_WRITE"} <= self.flags

    @property
    def seconds(self) -> float:
        """Its duration; 0 if it never ended."""
        return ((self.ended_ns or self.started_ns) - self.started_ns) / 1e9

    @property
    def short(self) -> str:
        return f"{self.name} {pathlib.PurePath(self.file).name}".strip()


@dataclasses.dataclass(frozen=True)
class Trace:
    """All calls in the order of their start; `lost` names the files without the line that ends a thread."""

    calls: tuple[Call, ...]
    threads: int
    lost: tuple[str, ...] = ()


_LINE = re.compile(rb"(\d+)\.(\d{9}) (.*)", re.DOTALL)
# A thread that was killed at the entry of a call, before the tracer could read which: the kernel did not begin it.
_UNREAD = rb"\?\?\?\( <unfinished \.\.\.>"
# A thread that was killed at a signal, before the tracer could read which: there is no other end. Only a signal that
# stops a process has no more to it.
_GONE = rb"--- stopped by (?!SIGSTOP|SIGTSTP|SIGTTIN|SIGTTOU)SIG\w+ ---"
_END = rb"\+\+\+ (?:exited with \d+|killed by .*|superseded by execve in pid \d+) \+\+\+"
_MARK = re.compile(rb"(?P<end>" + _GONE + rb"|" + _END + rb")|--- .* ---|" + _UNREAD)
# A thread that was killed in a call, before the tracer saw it end: its own end is the next line.
_UNFINISHED = re.compile(rb"(\d+\.\d+ \w+\(.*) <unfinished \.\.\.>", re.DOTALL)
# `= ? <unavailable>`: its thread was killed before the tracer could read the result.
_CALL = re.compile(
    rb"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>\?|-?\d+|0x[0-9a-f]+)(?:<(?P<path>[^\">]*)>(?:\(deleted\))?)?"
    rb"(?: (?P<error>E[A-Z0-9]+) \([^\"]*?\))?(?P<notes>(?: \([^()\"]*\))*)"
    rb"(?: <(?P<s>\d+)\.(?P<ns>\d{9})>| <unavailable>)?",
    re.DOTALL,
)
_DESCRIPTOR = re.compile(rb"(\d+)<([^>]*)>")
_MAPPED = re.compile(rb", ([A-Z_|]+), ([A-Z_0-9x|<]+), (\d+)<([^>]*)>, (?:0|0x[0-9a-f]+)$")
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\.\.\.)?', re.DOTALL)
_CONTROL = re.compile(rb'IOCB_CMD_(\w+),[^"{}]*?aio_fildes=(\d+)<([^>]*)>(?:, aio_buf=("(?:[^"\\]|\\.)*"(?:\.\.\.)?))?')
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"f": b"\f", b"v": b"\v"}
_FLAG = re.compile(rb"\b[A-Z]+_[A-Z_]+\b")


def read(folder: pathlib.Path, clock: Clock, files: Container[str]) -> Trace:
    """Return the calls on `files` (absolute paths) from the files `trace.*` of a folder, one for each thread.

    Calls that name no file are kept, calls on other files are dropped. Raises `FaultError` for a line that is not the
    tracer's. An incomplete last line is allowed: the tracer was killed while it wrote, and the file is in `lost`.
    """
    calls: list[Call] = []
    lost: list[str] = []
    paths = sorted(folder.glob("trace.*"))
    for path in paths:
        lines = path.read_bytes().split(b"\n")
        torn, ended = lines.pop(), False
        for number, line in enumerate(_with_results(lines), 1):
            try:
                ended = is_end(line)
                calls += parse(line, int(path.suffix[1:]), clock)
            except ValueError as error:
                raise FaultError(f"{path}, line {number}: not a line of the tracer: {str(error)[:200]}") from error
        if torn or not ended:
            lost.append(path.name)
    wanted = [call for call in calls if call.name in _KEPT or call.file in files or call.renamed in files]
    wanted.sort(key=lambda call: call.started_ns)
    return Trace(tuple(_with_open_flags(wanted)), len(paths), tuple(lost))


def _with_results(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Give a call that its thread did not outlive the result `?`, as the tracer does where it sees the call end."""
    for line, after in itertools.zip_longest(lines, lines[1:], fillvalue=b""):
        unfinished = line.endswith(b"...>") and _UNFINISHED.fullmatch(line)
        yield unfinished[1] + b") = ?" if unfinished and is_end(after) else line


def is_end(line: bytes) -> bool:
    match = _MARK.fullmatch(line.partition(b" ")[2])
    return match is not None and match["end"] is not None


def parse(line: bytes, thread: int, clock: Clock) -> Iterator[Call]:
    """Yield the calls of one line: none for a signal or an end, several for an `io_submit`. ValueError otherwise."""
    stamped = _LINE.fullmatch(line)
    if stamped is None:
        raise ValueError(line)
    if _MARK.fullmatch(stamped[3]):
        return
    match = _CALL.fullmatch(stamped[3])
    if match is None:
        raise ValueError(line)
    started = int(stamped[1]) * 10**9 + int(stamped[2]) - clock.offset_ns
    unknown = match["result"] == b"?"
    call = Call(
        thread,
        match["name"].decode(),
        _path(match["path"]) if match["path"] else "",
        started,
        None if unknown or match["s"] is None else started + int(match["s"]) * 10**9 + int(match["ns"]),
        None if unknown else int(match["result"], 0),
        error=(match["error"] or b"").decode(),
        injected=b"INJECTED" in match["notes"],
        delayed=b"DELAYED" in match["notes"],
    )
    yield from _detailed(call, match["arguments"])


def _detailed(call: Call, arguments: bytes) -> Iterator[Call]:
    """Add the fields that the arguments give. This is the only table of kinds of calls."""
    if call.name in WRITES:
        sample, whole = _sample(arguments, call.result)
        flags = _flags(arguments.rpartition(b"]")[2]) if call.name == "pwritev2" else frozenset()
        yield dataclasses.replace(_on_descriptor(call, arguments), sample=sample, whole=whole, flags=flags)
    elif call.name in OPENS:
        name = _STRING.search(arguments)
        path = call.file or (_path(name[1]) if name else "")
        flags = _flags(arguments[name.end() :] if name else b"")
        yield dataclasses.replace(call, file=path, descriptor=-1 if call.result is None else call.result, flags=flags)
    elif call.name in RENAMES:
        names = [_path(match[1]) for match in _STRING.finditer(arguments)]
        yield dataclasses.replace(call, file=names[0], renamed=names[-1])
    elif call.name == "mmap":
        mapped = _MAPPED.search(arguments)
        flags = _flags(arguments)
        yield dataclasses.replace(call, file=_path(mapped[4]) if mapped else "", flags=flags)
    elif call.name == "io_submit":
        yield from (_submitted(call, match) for match in _CONTROL.finditer(arguments))
    elif call.name in COPIES:  # the last descriptor is the one that is written to, except in sendfile
        found = _DESCRIPTOR.findall(arguments)
        target = found[0 if call.name == "sendfile" else -1][1] if found else b""
        yield dataclasses.replace(call, file=_path(target))
    elif call.name in NO_FILE:
        yield call
    else:
        yield _on_descriptor(call, arguments)


def _on_descriptor(call: Call, arguments: bytes) -> Call:
    match = _DESCRIPTOR.match(arguments)
    if match is None:  # the number is not a descriptor: the call has failed
        return call
    return dataclasses.replace(call, file=_path(match[2]), descriptor=int(match[1]))


def _submitted(call: Call, match: re.Match[bytes]) -> Call:
    sample, whole = _sample(match[4] or b"", None)
    name = f"io_submit:{match[1].decode()}"
    return dataclasses.replace(
        call, name=name, file=_path(match[3]), descriptor=int(match[2]), sample=sample, whole=whole
    )


def _sample(arguments: bytes, result: int | None) -> tuple[bytes, bool]:
    """Return the bytes that were written, and whether these are all; for a short write, the part that was written."""
    parts = list(_STRING.finditer(arguments))
    data = b"".join(_unescaped(part[1]) for part in parts)
    length = result if result is not None and result > 0 else len(data)
    whole = bool(parts) and not any(part[2] for part in parts) and length <= len(data)
    # A new file is filled with zeros; no batch of records begins with as many zeros as are shown here.
    return data[:length], whole or (bool(parts) and not data.strip(b"\0"))


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(_character, text) if b"\\" in text else text


def _character(match: re.Match[bytes]) -> bytes:
    word = match[1]
    if word[:1].isdigit():
        return bytes([int(word, 8) & 0xFF])
    if len(word) == 3:
        return bytes([int(word[1:], 16)])
    return _LETTERS.get(word, word)


def _path(text: bytes) -> str:
    return _unescaped(text).removesuffix(b" (deleted)").decode(errors="surrogateescape")


def _flags(text: bytes) -> frozenset[str]:
    return frozenset(word.decode() for word in _FLAG.findall(text))


def _with_open_flags(calls: Iterable[Call]) -> Iterator[Call]:
    """Add to each write the flags of the open of its descriptor; `?` if the trace has no open of it.

    After a close a number may belong to another file, so the key of a descriptor is its number and its file.
    """
    opened: dict[tuple[int, str], frozenset[str]] = {}
    for call in calls:
        key = (call.descriptor, call.file)
        if call.name in OPENS and call.done:
            opened[key] = call.flags
        elif call.name in DUPLICATES and call.done and call.result is not None:
            opened.setdefault((call.result, call.file), opened.get(key, frozenset("?")))
        elif call.name in WRITES or call.name.startswith("io_submit:"):
            yield dataclasses.replace(call, flags=call.flags | opened.get(key, frozenset("?")))
            continue
        yield call
