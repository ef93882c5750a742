"""Read strictly what a traced broker did to its journal, from the files of `strace -ff`.

The tracer takes a stamp when it stops the thread at the entry of a call, before the kernel begins the call. The
duration ends when the tracer sees the exit, before the thread continues. So a call lies within its stamps, the next
action of the thread lies after them, and a delay that the tracer injects at the entry is part of the duration (strace
6.1, measured).

A request of libaio is one `Call` from its `io_submit` until the `io_getevents` that returns it: they are joined by the
context and `aio_data`, which the tracer shows in both (it shows no address of a request in `io_submit`). A program may
also read completions from the ring in its memory, without a call: such a request has no end here.

An `msync` is a `Call` on the file that was last mapped at its address. What was stored there before is never shown.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import pathlib
import re
import time
from collections.abc import Container, Iterable, Iterator, Sequence

from conformance.errors import FaultError

WRITES = frozenset("write pwrite64 writev pwritev pwritev2".split())
AIO_WRITES = frozenset({"io_submit:PWRITE", "io_submit:PWRITEV"})
WRITTEN = WRITES | AIO_WRITES
EVERYWHERE = frozenset("sync syncfs".split())
SYNCS = EVERYWHERE | frozenset("fsync fdatasync".split())
"""Calls that put all writes to a file on its disk. Not `sync_file_range`: it writes neither the file's size nor the
device's cache (sync_file_range(2), "Warning")."""
SYNCED = SYNCS | {"io_submit:FSYNC", "io_submit:FDSYNC", "msync"}
"""With requests of libaio. An `msync` is taken for one of the whole file: brokers sync what they have stored."""

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
NO_FILE = frozenset("sync io_submit io_getevents io_pgetevents msync io_uring_setup io_uring_enter".split())
"""Calls that name no file for `strace -P`: with `-P` the tracer can neither show nor hold them."""

PENDING = "pending"
"""A flag of a request whose completion the broker cannot have read before the trace ended."""

STEP_NS = 1_000_000
_KEPT = EVERYWHERE | {"io_uring_setup", "io_uring_enter"}  # a syncfs covers every file, not only the one it names
_COMPLETIONS = frozenset({"io_getevents", "io_pgetevents"})


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
    `about`: the address and the length of a mapping, or the context and the data of a request of libaio.
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
    about: tuple[int, int] = (0, 0)

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
_LENGTH = re.compile(rb"(NULL|0x[0-9a-f]+), (\d+)")
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"(\.\.\.)?', re.DOTALL)
_TEXT = rb'"(?:[^"\\]|\\.)*"(?:\.\.\.)?'
_BUFFER = rb"(?:" + _TEXT + rb"|\[(?:\{iov_base=" + _TEXT + rb", iov_len=\d+\}(?:, )?|\.\.\.)*\])"
_CONTROL = re.compile(
    rb"\{aio_data=(?P<data>\w+), (?P<before>[^\"{}]*?)aio_lio_opcode=IOCB_CMD_(?P<name>\w+),[^\"{}]*?"
    rb"aio_fildes=(?P<descriptor>\d+)<(?P<path>[^>]*)>(?:, aio_buf=(?P<buffer>" + _BUFFER + rb"))?",
    re.DOTALL,
)
_EVENT = re.compile(rb"\{data=(\w+), obj=\w+, res=(-?\d+),")
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
    calls.sort(key=lambda call: call.started_ns)
    whole = _with_files(_with_completions(calls))
    wanted = [call for call in whole if call.name in _KEPT or call.file in files or call.renamed in files]
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
        about = (call.result or 0, _range(arguments)[1])
        yield dataclasses.replace(call, file=_path(mapped[4]) if mapped else "", flags=flags, about=about)
    elif call.name == "msync":
        yield dataclasses.replace(call, flags=_flags(arguments), about=_range(arguments))
    elif call.name == "io_submit":
        taken = None if call.failed else call.result  # it may take only the first ones
        yield from (_submitted(call, match, arguments) for match in [*_CONTROL.finditer(arguments)][:taken])
    elif call.name in _COMPLETIONS:
        context = int(arguments.partition(b",")[0], 16)
        events = [(int(match[1], 0), int(match[2])) for match in _EVENT.finditer(arguments)]
        yield from (dataclasses.replace(call, result=result, about=(context, data)) for data, result in events)
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


def _range(arguments: bytes) -> tuple[int, int]:
    """Return the address and the length that `mmap` and `msync` begin with."""
    match = _LENGTH.match(arguments)
    return (0, 0) if match is None else (0 if match[1] == b"NULL" else int(match[1], 16), int(match[2]))


def _submitted(call: Call, match: re.Match[bytes], arguments: bytes) -> Call:
    """Return a request of libaio, without an end unless it was refused."""
    sample, whole = _sample(match["buffer"] or b"", None)
    request = dataclasses.replace(
        call,
        name=f"io_submit:{match['name'].decode()}",
        file=_path(match["path"]),
        descriptor=int(match["descriptor"]),
        sample=sample,
        whole=whole,
        flags=_flags(match["before"]),
        about=(int(arguments.partition(b",")[0], 16), int(match["data"], 0)),
    )
    return request if call.failed else dataclasses.replace(request, ended_ns=None, result=None)


def _with_completions(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls, each request of libaio with the end and the result that `io_getevents` returned for it.

    If several with the same data are under way (some programs leave it 0), no completion says which one it is about:
    they have no end. One that came after the last call of every thread that reads completions was under way at the
    end: it is `PENDING`. Counter-example: of an Artemis that does not sync, and is killed while its reader is in a
    sync that is held.

    The tracer takes the stamp of a call before it starts its timer. If it loses its processor in between, the call
    seems to end too soon: `io_getevents` 0.8 ms before the `io_submit` whose request it returns (seen once, on a busy
    machine). So an event may be about a request that comes before the next call of its thread.
    """
    found: dict[int, Call] = {}
    waiting: dict[tuple[int, int], list[Call | None]] = {}
    early: dict[tuple[int, int], Call] = {}
    following = _following(calls)
    events = [call for call in calls if call.name in _COMPLETIONS]
    requests = [call for call in calls if call.name.startswith("io_submit:") and not call.failed]
    for call in sorted([*requests, *events], key=lambda call: call.ended_ns or call.started_ns):
        under_way = waiting.setdefault(call.about, [])
        if call.name not in _COMPLETIONS:
            event = early.pop(call.about, None)
            if event and call.started_ns < following.get((event.thread, event.started_ns), call.started_ns + 1):
                found[id(call)] = _completed(call, event)
            else:
                under_way.append(call)
        elif len(under_way) == 1 and (request := under_way.pop()):
            found[id(request)] = _completed(request, call)
        elif under_way:
            under_way[:] = [None] * (len(under_way) - 1)
        else:
            early[call.about] = call
    readers = {call.thread for call in calls if call.name in _COMPLETIONS}
    last = max((call.started_ns for call in calls if call.thread in readers), default=0)
    for call in requests:
        if readers and call.started_ns > last:
            found[id(call)] = dataclasses.replace(call, flags=call.flags | {PENDING})
    yield from (found.get(id(call), call) for call in calls if call.name not in _COMPLETIONS)


def _following(calls: Sequence[Call]) -> dict[tuple[int, int], int]:
    """Return, by its thread and its start, when its next call began. One call may be several."""
    following: dict[tuple[int, int], int] = {}
    last: dict[int, int] = {}
    for call in reversed(calls):
        if last.get(call.thread, call.started_ns) != call.started_ns:
            following[call.thread, call.started_ns] = last[call.thread]
        last[call.thread] = call.started_ns
    return following


def _completed(request: Call, event: Call) -> Call:
    result = event.result or 0
    error = errno.errorcode.get(-result, "error") if result < 0 else ""
    sample = request.sample if result <= 0 else request.sample[:result]
    ended = max(event.ended_ns or 0, request.started_ns)
    return dataclasses.replace(request, ended_ns=ended, result=result, error=error, sample=sample)


def _with_files(calls: Iterable[Call]) -> Iterator[Call]:
    """Yield the calls, each `msync` with the file that is mapped at its address; one that covers no file is left out.

    An `munmap` is not traced: what is mapped later at an address takes the place of what was there.
    """
    mapped: list[Call] = []
    for call in calls:
        if call.name == "msync":
            begin = call.about[0]
            last = (each for each in reversed(mapped) if each.about[0] <= begin < sum(each.about))
            if (mapping := next(last, None)) is None or "MS_SYNC" not in call.flags:
                continue
            yield dataclasses.replace(call, file=mapping.file)
            continue
        if call.name == "mmap" and call.done:
            mapped.append(call)
        yield call


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
        elif call.name in WRITTEN:
            yield dataclasses.replace(call, flags=call.flags | opened.get(key, frozenset("?")))
            continue
        yield call
