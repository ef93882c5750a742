"""Keep the evidence of a trial besides its histories, and find in these what the broker still owes.

The evidence is the journal as a fault left it, and the trial's part of the logs. A broker later changes its journal,
and writes one log for many trials. A copy of the journal leaves out the preallocated zeros at the end of each file, and
takes the newest files first, at most `COPY` bytes. All copies of a run take at most `RUN` bytes. `evidence.json` names
what is left out; nothing here voids a trial.

Measured, in ms of one processor: 6 for two files of 10 MB with 0.4 MB of messages in them, 25 for 4 MB of messages, 95
for 4 MB that cannot be compressed. Artemis 2.56.0 after 500 messages: 20 MB become 23 kB.
"""

from __future__ import annotations

import gzip
import io
import pathlib
import shutil
import tarfile
import time
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from conformance import records
from conformance.adapters import Broker
from conformance.history import Op, Phase

COPY = 4 << 20
"""Bytes of one copy, before they are compressed."""

RUN = 256 << 20
"""Bytes of all copies below one folder of trials, compressed."""

FILE = "evidence.json"
_BLOCK = 1 << 16
_ZEROS = bytes(_BLOCK)


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """One log of the broker (`path` in its folder), and the bytes that were written to it during the trial."""

    path: str
    begin: int
    end: int


class JournalCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The journal as the end of one run of the broker left it: `file` holds what was written of each file.

    `sizes` are the whole sizes in bytes, by name: what follows the copied part of a file is zeros. `left_out` names
    files that are not in the copy, with the reason; `file` is empty if there is none at all.
    """

    epoch: int
    file: str
    sizes: dict[str, int]
    left_out: dict[str, str]
    milliseconds: float


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """`evidence.json`: the folder of the broker below that of the run, its logs, and the copies of its journal."""

    broker: str
    logs: tuple[LogPart, ...]
    journals: tuple[JournalCopy, ...]


class EvidenceKeeper:
    """Keeps the evidence of one trial in its folder: `begin`, `before_restart` after each fault, `end`.

    Call `end` also for a trial that failed. Of one run of the broker only the first copy is made.
    """

    def __init__(self, folder: pathlib.Path, broker: Broker) -> None:
        self.folder, self.broker = folder, broker
        self._begins: dict[pathlib.Path, int] = {}
        self._journals: list[JournalCopy] = []

    def begin(self) -> None:
        """Note how long each log is before the first step."""
        self._begins = {path: path.stat().st_size for path in logs_of(self.broker)}

    def before_restart(self) -> EvidenceKeeper:
        """Copy the journal of a node that is gone, before anything starts it again; return what keeps it."""
        epoch, journal = self.broker.epoch, self.broker.node.facts.journal_files.folder
        if all(kept.epoch != epoch for kept in self._journals):
            self._journals.append(copy_journal(journal, self.folder, epoch))
        return self

    def share(self, keeper: EvidenceKeeper) -> None:
        """Keep the last copy that another trial on this broker has made."""
        if (last := keeper._journals[-1]) not in self._journals:
            if last.file:
                shutil.copyfile(keeper.folder / last.file, self.folder / last.file)
            self._journals.append(last)

    def end(self) -> Kept:
        folder, logs = self.broker.folder, []
        for path in logs_of(self.broker):
            end = path.stat().st_size
            begin = self._begins.get(path, 0)
            name = str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name
            logs.append(LogPart(path=name, begin=begin if begin <= end else 0, end=end))  # shorter: it was rotated
        kept = Kept(broker=folder.name, logs=tuple(logs), journals=tuple(self._journals))
        records.save(kept, self.folder / FILE)
        return kept


def logs_of(broker: Broker) -> list[pathlib.Path]:
    """Return every log of every node."""
    return [path for node in broker.nodes for path in node.facts.logs]


class _Operation(msgspec.Struct, gc=False):
    """What an event says about the place of a message; a header and a footer say nothing."""

    op: str = ""
    phase: str = ""
    message: str | None = None
    transaction: str | None = None
    durable: bool | None = None
    count: int | None = None
    detail: str | None = None


_OPERATIONS = msgspec.json.Decoder(_Operation)
_ROLES = ("publisher", "consumer", "drain", "collector")
_TAKEN_FOR_GOOD = ("rejected", "undeliverable")


def undelivered_messages(folder: pathlib.Path) -> frozenset[str]:
    """Return the messages that the broker confirmed and still owes, by the closed histories in the folder of a trial.

    They are durable and have no time to live. Their send or its commit was answered. No drain received them, and no
    consumer settled them: one that was only delivered has to come again.
    """
    owed: set[str] = set()
    done: set[str] = set()
    for path in (path for role in _ROLES for path in folder.glob(f"{role}-*.jsonl")):
        confirmed, settled = _confirmed_and_settled(map(_OPERATIONS.decode, path.read_bytes().splitlines()))
        owed |= confirmed
        done |= settled
    return frozenset(owed - done)


def _confirmed_and_settled(operations: Iterable[_Operation]) -> tuple[set[str], set[str]]:
    """Return the messages that one process saw confirmed, and those that it settled or drained."""
    durable: set[str] = set()
    confirmed: set[str] = set()
    settled: set[str] = set()
    sent_in: dict[str, set[str]] = defaultdict(set)
    settled_in: dict[str, set[str]] = defaultdict(set)
    for one in operations:
        message, transaction = one.message or "", one.transaction or ""
        match one.op, one.phase:
            case Op.SEND, Phase.INVOKE if one.durable and one.count is None:
                durable.add(message)
                sent_in[transaction].add(message)
            case Op.SEND, Phase.OK if not transaction and message in durable:
                confirmed.add(message)
            case Op.SEND, Phase.FAIL:
                durable.discard(message)
            case Op.ACK, Phase.INVOKE:
                (settled_in[transaction] if transaction else settled).add(message)
            case Op.NACK, Phase.INVOKE if one.detail in _TAKEN_FOR_GOOD:
                settled.add(message)
            case Op.COMMIT, Phase.INVOKE:
                settled |= settled_in[transaction]
            case Op.COMMIT, Phase.OK:
                confirmed |= sent_in[transaction] & durable
            case Op.DRAIN, (Phase.OK | Phase.INFO):
                settled.add(message)
    return confirmed, settled


def copy_journal(journal: pathlib.Path, folder: pathlib.Path, epoch: int) -> JournalCopy:
    """Write `journal-<epoch>.tar.gz` into `folder`; files that cannot be read are listed in `left_out`."""
    began = time.monotonic()
    sizes: dict[str, int] = {}
    left_out: dict[str, str] = {}
    name = f"journal-{epoch}.tar.gz"
    chosen: dict[str, bytes] = {}
    try:
        files = sorted((path for path in journal.rglob("*") if path.is_file()), key=_newest)
        full = sum(path.stat().st_size for path in folder.parent.glob("*/journal-*.tar.gz")) >= RUN
    except OSError as error:
        files, full, left_out = [], False, {".": f"{journal.name} cannot be read: {error.strerror}"}
    room = COPY
    for path in files:
        inside = str(path.relative_to(journal))
        try:
            sizes[inside] = path.stat().st_size
            data = b"" if full else written_part(path, room)
        except OSError as error:
            left_out[inside] = f"cannot be read: {error.strerror}"
            continue
        if full or data is None:
            left_out[inside] = f"the copies of this run have {RUN >> 20} MB" if full else f"over {COPY >> 20} MB in all"
        else:
            chosen[inside] = data
            room -= len(data)
    if chosen:
        (folder / name).write_bytes(_archive(chosen))
    spent = round((time.monotonic() - began) * 1e3, 1)
    file = name if chosen else ""
    return JournalCopy(epoch=epoch, file=file, sizes=sizes, left_out=left_out, milliseconds=spent)


def written_part(path: pathlib.Path, room: int) -> bytes | None:
    """Return the file without the zeros at its end; None if that is more than `room` bytes."""
    with path.open("rb") as stream:
        end = _end_of_data(stream, path.stat().st_size)
        if end > room:
            return None
        stream.seek(0)
        return stream.read(end)


def _end_of_data(stream: io.BufferedReader, size: int) -> int:
    """Search backwards by blocks: a file of 10 MB usually has only a few written blocks, at its beginning."""
    at = size
    while at > 0:
        first = max(at - _BLOCK, 0)
        stream.seek(first)
        block = stream.read(at - first)
        if block != _ZEROS[: len(block)]:
            return first + len(block.rstrip(b"\0"))
        at = first
    return 0


def _newest(path: pathlib.Path) -> tuple[int, str]:
    return -path.stat().st_mtime_ns, path.name


def _archive(files: dict[str, bytes]) -> bytes:
    """Return a tar of these files, sorted and without times or owners, with the fastest compression."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            archive.addfile(member, io.BytesIO(files[name]))
    return gzip.compress(buffer.getvalue(), 1, mtime=0)
