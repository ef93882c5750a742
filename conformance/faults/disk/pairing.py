"""Pair operations with the trace: which write holds each, and which sync put it on the disk. Without I/O.

What the tracer cannot see is a reason in `unseen`. It never makes a pass, and never a violation.
"""

from __future__ import annotations

import bisect
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from conformance.faults.disk.trace import COPIES, EVERYWHERE, RENAMES, SYNCS, WRITES, Call, Operation, Trace

_EACH_WRITE = frozenset("O_DSYNC O_SYNC RWF_DSYNC RWF_SYNC".split())


@dataclasses.dataclass(frozen=True)
class StoredOperation:
    """How one operation reached the disk.

    `write` is the write that holds it. `sync` is the call that put that write on the disk: the write itself if its
    descriptor syncs each write. `failed` is the first write of it, or sync of that write, that returned an error.
    `unseen` says why none of these is known.
    """

    operation: Operation
    write: Call | None = None
    sync: Call | None = None
    failed: Call | None = None
    unseen: str = ""


def pair_operations(trace: Trace, operations: Iterable[Operation]) -> list[StoredOperation]:
    """Return, for each operation, the write that holds it and the sync that covers this write.

    The write started at or after the operation was invoked, before its `until_ns` if it has one, and contains its
    marker. If several do (a log and an index), the one that is synced first counts: an index that is never synced does
    not weaken the log.

    A sync covers a write that had ended when the sync began. Counter-example for a weaker rule: a sync begins, a write
    to the same file begins and ends, the sync ends. The kernel may have collected the pages of the sync before the
    write, so the write may not be on the disk, and a broker must not confirm it.
    """
    journal = _Journal(trace.calls)
    return [journal.stored(operation) for operation in operations]


class _Journal:
    """The writes in the order of their start, and for each file its syncs."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._file = dict(_last_names(calls))
        self._writes = [call for call in calls if _is_write(call)]
        self._starts = [call.started_ns for call in self._writes]
        self._syncs: dict[str, list[Call]] = {}
        everywhere = [call for call in calls if call.name in EVERYWHERE]
        for file in {self._file[id(call)] for call in self._writes}:
            own = [call for call in calls if call.name in SYNCS - EVERYWHERE and self._file[id(call)] == file]
            self._syncs[file] = sorted([*own, *everywhere], key=lambda call: call.started_ns)

    def stored(self, operation: Operation) -> StoredOperation:
        best, hidden = StoredOperation(operation), None
        forms = _forms(operation.marker)
        for write in self._writes[bisect.bisect_left(self._starts, operation.invoked_ns) :]:
            if best.sync is not None and write.started_ns >= (best.sync.ended_ns or 0):
                break  # every later write is synced later
            if operation.until_ns is not None and write.started_ns >= operation.until_ns:
                break
            if not any(form in write.sample for form in forms):
                hidden = hidden or (None if write.whole or best.write or write.failed else write)
                continue
            best = self._better(best, write)
        if hidden is not None:
            return StoredOperation(
                operation, unseen=f"{hidden.short}: only its first {len(hidden.sample)} bytes were shown"
            )
        return best

    def _better(self, best: StoredOperation, write: Call) -> StoredOperation:
        if write.failed:
            return best if best.failed else dataclasses.replace(best, failed=write)
        sync, failed = self._covered(write)
        found = dataclasses.replace(best, write=write, sync=sync, failed=best.failed or failed)
        if best.write is None:
            return found
        earlier = sync is not None and (best.sync is None or (sync.ended_ns or 0) < (best.sync.ended_ns or 0))
        return found if earlier else best

    def _covered(self, write: Call) -> tuple[Call | None, Call | None]:
        """Return the sync of a write that ended first, and the first sync that failed before that."""
        if write.ended_ns is None:
            return None, None
        if write.flags & _EACH_WRITE and write.name in WRITES:
            return write, None
        # A libaio write may complete, and be synced, before the call that submits it returns (Artemis, measured).
        after = write.started_ns if write.name == "io_submit:PWRITE" else write.ended_ns
        syncs = self._syncs[self._file[id(write)]]
        begun = syncs[bisect.bisect_left(syncs, after, key=lambda call: call.started_ns) :]
        good = min((call for call in begun if call.done), key=lambda call: call.ended_ns or 0, default=None)
        limit = good.ended_ns if good else None
        bad = (call for call in begun if call.failed and (limit is None or call.started_ns < limit))
        return good, next(bad, None)


def _forms(marker: bytes | None) -> tuple[bytes, ...]:
    """Return the forms of a marker in a journal: as it was sent, or in UTF-16 for a text message (Artemis over STOMP).

    A zero between two letters matches both byte orders. Without a marker, every write matches.
    """
    return (b"",) if marker is None else (marker, b"\0".join(bytes([letter]) for letter in marker))


def _is_write(call: Call) -> bool:
    return (call.name in WRITES and (call.failed or bool(call.result))) or call.name == "io_submit:PWRITE"


def _last_names(calls: Sequence[Call]) -> Iterator[tuple[int, str]]:
    """Yield the last name of each call's file: a file that is renamed between a write and its sync is the same file.

    It reads backwards, so that a file that had the new name before the rename (and was replaced) is another file.
    """
    last: dict[str, str] = {}
    for call in reversed(calls):
        if call.name in RENAMES and call.done:
            last[call.file] = last.get(call.renamed, call.renamed)
            last[call.renamed] = f"{call.renamed} (replaced)"
        yield id(call), last.get(call.file, call.file)


def unseen(trace: Trace, pairs: Sequence[StoredOperation]) -> list[str]:
    """Return the reasons why a trace is incomplete, sorted; empty if it is complete."""
    reasons = {reason for call in trace.calls if (reason := _hides(call))} | {pair.unseen for pair in pairs} - {""}
    sought = [pair for pair in pairs if pair.operation.marker]
    first = min((pair.operation.invoked_ns for pair in sought), default=None)
    writes = [call for call in trace.calls if first is not None and _is_write(call) and call.started_ns >= first]
    if writes and not any(pair.write or pair.failed or pair.unseen for pair in sought):
        reasons.add("no message was recognised in any write: the journal does not hold bodies as they were sent")
    return sorted(reasons)


def _hides(call: Call) -> str:
    """Return why the effect of a call cannot be seen; empty if it can. This is the only table of reasons."""
    name = pathlib.PurePath(call.file).name
    if call.maps:
        return f"{name} is mapped: writes through memory cannot be seen"
    if call.name.startswith("io_uring"):
        return "the broker uses io_uring: its writes and syncs are no system calls"
    if call.name in COPIES:
        return f"{call.name} to {name}: its bytes cannot be seen"
    if call.name.startswith("io_submit:") and call.name not in ("io_submit:PREAD", "io_submit:PREADV"):
        return f"{call.short}: its completion can be read without a system call"
    if call.name in WRITES and "?" in call.flags:
        return f"the trace has no open of {name}: it may be O_DSYNC, and each write a sync"
    return ""
