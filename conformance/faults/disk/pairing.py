"""Pair operations with the trace: which write holds each, and which sync put it on the disk. Without I/O.

What the tracer cannot see is a reason in `unseen`. It never makes a pass, and never a violation.
"""

from __future__ import annotations

import bisect
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from conformance.faults.disk.trace import (
    AIO_WRITES,
    COPIES,
    EVERYWHERE,
    PENDING,
    RENAMES,
    SYNCED,
    WRITTEN,
    Call,
    Operation,
    Trace,
)

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
    write, so the write may not be on the disk, and a broker must not confirm it. A write of libaio ends when it is
    returned as complete.

    A journal that is mapped is written by stores, which no call shows. What counts then is the first sync of a mapped
    file that began after the operation was invoked: if none ended before the answer, the broker cannot have waited. The
    other way round it may be the sync of something else, so an operation that such a sync could also hold is unknown
    if a write was seen too.
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
            own = [call for call in calls if call.name in SYNCED - EVERYWHERE and self._file[id(call)] == file]
            self._syncs[file] = sorted([*own, *everywhere], key=lambda call: call.started_ns)
        self._mapped = {call.file for call in calls if call.maps}
        self._memory = [call for call in calls if call.name in SYNCED and call.file in self._mapped]

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
            if write.name in AIO_WRITES and write.ended_ns is None and PENDING not in write.flags:
                return StoredOperation(
                    operation, unseen=f"{write.short}: no call of the broker returned its completion"
                )
            best = self._better(best, write)
        if hidden is not None:
            return StoredOperation(
                operation, unseen=f"{hidden.short}: only its first {len(hidden.sample)} bytes were shown"
            )
        return self._through_memory(operation, best) if self._memory else best

    def _through_memory(self, operation: Operation, best: StoredOperation) -> StoredOperation:
        """Return how an operation was stored by a broker that maps files of its journal, and syncs them."""
        until = operation.until_ns
        begun = [
            call
            for call in self._memory
            if call.started_ns >= operation.invoked_ns and (until is None or call.started_ns < until)
        ]
        good = min((call for call in begun if call.done), key=lambda call: call.ended_ns or 0, default=None)
        if best.sync is not None and (good is None or (best.sync.ended_ns or 0) <= (good.ended_ns or 0)):
            return best
        written = [write for write in self._writes if write.started_ns >= operation.invoked_ns]
        if any(write.sample.strip(b"\0") for write in written):
            return StoredOperation(operation, unseen=is_mapped(min(self._mapped))) if good else best
        failed = (call for call in begun if call.failed and (good is None or call.started_ns < (good.ended_ns or 0)))
        return StoredOperation(operation, good, good, next(failed, None))

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
        if write.flags & _EACH_WRITE:
            return write, None
        syncs = self._syncs[self._file[id(write)]]
        begun = syncs[bisect.bisect_left(syncs, write.ended_ns, key=lambda call: call.started_ns) :]
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
    return call.name in AIO_WRITES or (call.name in WRITTEN and (call.failed or bool(call.result)))


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
    mapped = {call.file for call in trace.calls if call.maps}
    synced = any(call.name in SYNCED and call.file in mapped for call in trace.calls)  # one may be a spare file
    hidden = set() if synced else set(map(is_mapped, mapped))
    reasons = {*hidden, *map(_hides, trace.calls), *(pair.unseen for pair in pairs)} - {""}
    sought = [pair for pair in pairs if pair.operation.marker]
    first = min((pair.operation.invoked_ns for pair in sought), default=None)
    writes = [call for call in trace.calls if first is not None and _is_write(call) and call.started_ns >= first]
    if writes and not any(pair.write or pair.failed or pair.unseen for pair in sought):
        reasons.add("no message was recognised in any write: the journal does not hold bodies as they were sent")
    return sorted(reasons)


def _hides(call: Call) -> str:
    """Return why the effect of a call cannot be seen by itself; empty if it can."""
    name = pathlib.PurePath(call.file).name
    if call.name.startswith("io_uring"):
        return "the broker uses io_uring: its writes and syncs are no system calls"
    if call.name in COPIES:
        return f"{call.name} to {name}: its bytes cannot be seen"
    if call.name.startswith("io_submit:F") and call.ended_ns is None and PENDING not in call.flags:
        return f"{call.short}: no call of the broker returned its completion"
    if call.name in WRITTEN and "?" in call.flags:
        return f"the trace has no open of {name}: it may be O_DSYNC, and each write a sync"
    return ""


def is_mapped(file: str) -> str:
    return f"{pathlib.PurePath(file).name} is mapped: writes through memory cannot be seen"
