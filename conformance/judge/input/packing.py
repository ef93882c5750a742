"""Read the histories of one trial strictly, and pack them into one Parquet file for Spark.

Ids become numbers; operations and phases become codes, in the order of their enums. Facts of a whole trial are columns
too: Parquet stores them once. Histories are read and written in blocks, so that a large trial needs little memory.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import gc
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance import records
from conformance.errors import HistoryError
from conformance.history import Ended, Event, Footer, Header, History, Op, Phase, read
from conformance.judge.input import blocks, link_frames
from conformance.protocols.ties import Tied
from conformance.records import Checksum, TrialRecord

FORMAT = "10"
"""The format of the Parquet files; a file of another format is made again."""

FILE = "events.parquet"
PART = "events.part"
"""What becomes `FILE` as soon as it is whole."""
SOURCES = "events.json"
"""Beside the Parquet file: the files that it was made of."""
ROWS = 1 << 19
"""Rows of a row group, at least: what is in memory before it is written."""
FLUSH_MS = 100
"""The flush interval of a broker whose settings do not give it."""

OP_CODE = {op: code for code, op in enumerate(Op)}
PHASE_CODE = {phase: code for code, phase in enumerate(Phase)}
ROLES = ("publisher", "consumer", "drain", "orchestrator", "disk", "link", "asker", "collector")
"""The code of a role is its place: append only. The role of a process is its name without the number."""

_NAME = pa.dictionary(pa.int32(), pa.string())  # equal in many rows in a row
FIELDS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("trial", _NAME, "string"),
    ("scenario", _NAME, "string"),
    ("flush_ns", pa.int64(), "bigint"),  # an answer so shortly before a fault may not be written yet
    ("process", _NAME, "string"),
    ("role", pa.int8(), "tinyint"),
    ("number", pa.int16(), "smallint"),  # of the process within its role, from 1
    ("sequence", pa.int64(), "bigint"),
    ("at_ns", pa.int64(), "bigint"),
    ("due_ns", pa.int64(), "bigint"),
    ("op", pa.int8(), "tinyint"),
    ("phase", pa.int8(), "tinyint"),
    ("epoch", pa.int32(), "int"),
    ("period", pa.int32(), "int"),  # so many faults had fired before: `_Periods`
    ("queue", pa.string(), "string"),
    ("producer", pa.int32(), "int"),
    ("n", pa.int64(), "bigint"),
    ("foreign_id", pa.string(), "string"),  # the raw id, only if it is not one of this suite
    ("link", pa.int32(), "int"),  # numbered within the trial; links of two processes are two links
    ("txn", pa.int32(), "int"),  # of the process that named it
    ("durable", pa.bool_(), "boolean"),
    ("redelivered", pa.bool_(), "boolean"),
    ("first_acquirer", pa.bool_(), "boolean"),
    ("intact", pa.bool_(), "boolean"),
    ("count", pa.int64(), "bigint"),
    ("first", pa.int64(), "bigint"),  # the range of sends that one answer covers, by their numbers
    ("last", pa.int64(), "bigint"),
    ("fault", pa.string(), "string"),
    ("delay_ms", pa.int64(), "bigint"),
    ("priority", pa.int32(), "int"),
    ("detail", pa.string(), "string"),
    ("carries", pa.int8(), "tinyint"),  # what a frame means for its message: `protocols.ties.CARRIES`
    ("settled", pa.bool_(), "boolean"),  # the delivery in it needs no acknowledgement
    ("whole", pa.bool_(), "boolean"),  # with it the delivery had reached its client completely
)
"""Name, Arrow type and Spark type of each column, in order."""

SCHEMA = pa.schema([(name, kind) for name, kind, _ in FIELDS], metadata={"conformance": FORMAT})
SPARK_SCHEMA = ", ".join(f"`{name}` {kind}" for name, _, kind in FIELDS)
_GROWING = ("sequence", "at_ns", "due_ns", "n")
"""Columns that Parquet stores as differences: 12 bytes an event less, and faster than a dictionary of all values."""

_PROCESS = re.compile(rf"({'|'.join(ROLES)})(?:-(\d{{1,4}}))?")
# The number of digits is bounded so that every matching id fits its column; any other id is foreign.
_TRANSACTION = re.compile(r"t(\d{1,9})")
_MESSAGE = "^p(?P<producer>[0-9]{1,9}):(?P<n>[0-9]{1,18})$"
_JOINS, _DISCHARGES = (Op.SEND, Op.ACK), (Op.COMMIT, Op.ROLLBACK)
_ASKED = frozenset((*_JOINS, *_DISCHARGES))
_OBSERVED = (Op.SYNC, Op.FRAME)
_WORDS = {"op": pa.array(list(Op), pa.string()), "phase": pa.array(list(Phase), pa.string())}
_PLACE = {name: place for place, name in enumerate(Event.__struct_fields__)}

_IDENTITY = ("scenario", "arm", "seed")
"""Fields that are equal in the header of each history and in the record of the trial."""

Discharged = dict[tuple[int, str], dict[str, tuple[str, ...]]]
"""The messages of a discharged transaction, by its epoch and name, and by the process that named it."""

Members = dict[str, dict[str, str | None]]
"""The queues of the messages in each transaction of one process, by its name and the id of the message."""


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """`events.json`: the checksums of the Parquet file and of the files that it was made of, and their run.

    The Parquet file is made again unless both agree with the folder. File times are not used.
    """

    run: str
    parquet: Checksum
    sources: dict[str, Checksum]


@dataclasses.dataclass(frozen=True)
class Compacted:
    """One trial, ready for the judge: `parquet` is None if and only if `record.void` gives a reason."""

    record: TrialRecord
    parquet: pathlib.Path | None

    @functools.cached_property
    def events(self) -> int:
        return pq.read_metadata(self.parquet).num_rows if self.parquet else 0


def compact_all(
    folders: Sequence[tuple[pathlib.Path, TrialRecord]],
    runs: Collection[str] = (),
    checksum: Callable[[pathlib.Path], Checksum] = records.checksum,
) -> list[Compacted]:
    """Call `compact` for each trial of a run, without the cyclic garbage collector: nothing here makes cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return [compact(folder, record, runs, checksum) for folder, record in folders]
    finally:
        if collecting:
            gc.enable()


def compact(
    folder: pathlib.Path,
    record: TrialRecord,
    runs: Collection[str] = (),
    checksum: Callable[[pathlib.Path], Checksum] = records.checksum,
) -> Compacted:
    """Make `events.parquet` from the histories in `folder`, unless it was made from these very files.

    A trial is void if its record says so, if a history cannot be read strictly or is of another trial or of a run that
    is not in `runs` (if given), or if a process died or was interrupted. Then no file is made, and an old one is
    removed.
    """
    target = folder / FILE
    void = record.void
    if not void:
        try:
            run = _made_of_these(folder, checksum) or _pack(folder, record, checksum)
            if runs and run not in runs:
                raise HistoryError(f"its histories are of another run, {run}")
        except HistoryError as error:
            void = str(error)
    if not void:
        return Compacted(record, target)
    target.unlink(missing_ok=True)
    return Compacted(msgspec.structs.replace(record, void=void, void_after_fault=_took_effect(folder)), None)


def _took_effect(folder: pathlib.Path) -> bool:
    """Whether a history records an effective fault; by lines, because a history of a void trial may be torn."""
    paths = (path for path in folder.glob("*.jsonl") if path.is_file() and not path.is_symlink())
    return any(True for path in paths for _ in _lines(path, Phase.EFFECTIVE))


def _fired(path: pathlib.Path) -> Iterator[Event]:
    """Yield the faults that fired in a history; what is no event is an error that its reader will name."""
    with contextlib.suppress(msgspec.MsgspecError, OSError):
        for line in _lines(path, Phase.FIRED):
            event = msgspec.json.decode(line, type=Event)
            if event.op is Op.FAULT:
                yield event


def _lines(path: pathlib.Path, phase: Phase) -> Iterator[bytes]:
    """Yield the lines of a history that have events of this phase."""
    word = f'"phase":"{phase}"'.encode()
    with path.open("rb") as lines:
        yield from (line for line in lines if word in line)


def _made_of_these(folder: pathlib.Path, checksum: Callable[[pathlib.Path], Checksum]) -> str:
    """Return the run of the histories if the Parquet file was made of exactly these, and is whole; else empty.

    Raises `HistoryError` if one of its histories is gone: the rest would be judged as if it were complete.
    """
    try:
        packed = records.read(folder / SOURCES, Packed)
    except HistoryError:
        return ""
    sources = {path.name: checksum(path) for path in records.evidence(folder)}
    if gone := sorted(packed.sources.keys() - sources.keys()):
        raise HistoryError(f"{gone[0]} is gone: {FILE} was made of it. Put it back, or record the run again")
    try:
        whole = checksum(folder / FILE) == packed.parquet
        current = whole and pq.read_schema(folder / FILE).equals(SCHEMA, check_metadata=True)
    except (OSError, pa.ArrowException):
        return ""
    return packed.run if current and packed.sources == sources else ""


def _pack(folder: pathlib.Path, record: TrialRecord, checksum: Callable[[pathlib.Path], Checksum]) -> str:
    """Write the Parquet file and the list of its sources; return the run of the histories."""
    sources = {path.name: checksum(path) for path in records.evidence(folder)}
    target, part = folder / FILE, folder / PART
    try:
        rows = _Rows(record, _paths(folder))
        _write(rows.batches(), part)
        run = _only_run(rows.headers)
        if not pq.read_metadata(part).num_rows:
            raise HistoryError("no process recorded anything")
        part.replace(target)
    except HistoryError:
        # The first block that cannot be packed ended it. An invalid file goes first, and this reader names its line.
        _only_run([history.header for history in _histories(folder, record)])
        raise
    finally:
        part.unlink(missing_ok=True)
    records.save(Packed(run=run, parquet=checksum(target), sources=sources), folder / SOURCES)
    return run


def _paths(folder: pathlib.Path) -> list[pathlib.Path]:
    paths = sorted(folder.glob("*.jsonl"))
    if "orchestrator" not in (path.stem for path in paths):
        raise HistoryError("the history of the orchestrator is missing")
    return paths


def _only_run(headers: Sequence[Header]) -> str:
    runs = sorted({header.run for header in headers})
    if len(runs) > 1:
        raise HistoryError(f"its histories are of {len(runs)} runs: {' and '.join(runs)}")
    return runs[0]


def _histories(folder: pathlib.Path, record: TrialRecord) -> Iterator[History]:
    for path in _paths(folder):
        history = read(path)
        _check(path, record, history.header, history.footer)
        yield history


def _check(path: pathlib.Path, record: TrialRecord, header: Header, footer: Footer) -> None:
    """Raise `HistoryError` unless the process ended as it should, and in this trial."""
    if footer.ended not in (Ended.FINISHED, Ended.KILLED_BY_FAULT):
        raise HistoryError(": ".join(filter(None, (path.name, f"the process {footer.ended}", footer.detail))))
    if header.trial != record.trial or header.process != path.stem:
        raise HistoryError(f"{path.name}: it is {header.process} of {header.trial}")
    for name in _IDENTITY:
        if getattr(header, name) != getattr(record, name):
            was, is_ = getattr(record, name), getattr(header, name)
            raise HistoryError(f"{path.name}: its {name} is {is_}, and that of trial.json is {was}")


def _write(batches: Iterable[pa.RecordBatch], path: pathlib.Path) -> None:
    encodings = dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED")
    others = [name for name, _, _ in FIELDS if name not in encodings]
    with pq.ParquetWriter(path, SCHEMA, use_dictionary=others, column_encoding=encodings) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(map(len, waiting)) >= ROWS:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting.clear()
        writer.write_table(pa.Table.from_batches(waiting, SCHEMA))


def _observes(path: pathlib.Path) -> bool:
    """Whether the process only observes: the disk, or a link."""
    return path.stem.startswith(("disk", "link"))


class _Rows:
    """The rows of a trial, process after process, and the headers of the histories that were read to their end."""

    def __init__(self, record: TrialRecord, paths: Sequence[pathlib.Path]) -> None:
        self._record = record
        # A sync of a transaction becomes a row for each member, so processes that name members come first.
        self._paths = sorted(paths, key=_observes)
        self._processes = pa.array([path.stem for path in self._paths])
        self._links: dict[tuple[str, str | None], int] = {}
        self._discharged: Discharged = {}
        self._sent: dict[str | None, str | None] = {}
        self._fired = sorted(event.at_ns for path in paths for event in _fired(path))
        self.headers: list[Header] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        watched = _observes(self._paths[-1])
        for place, path in enumerate(self._paths):
            members: Members = {}
            periods = _Periods(self._fired)
            for block in _blocks(path):
                if block.footer is not None:
                    _check(path, self._record, block.header, block.footer)
                    self.headers.append(block.header)
                if watched:
                    self._sent |= {event.message: event.queue for event in block.events if event.op is Op.SEND}
                if block.events:
                    yield self._batch(place, block, members, periods)

    def _batch(self, place: int, block: blocks.Block, members: Members, periods: _Periods) -> pa.RecordBatch:
        process = self._paths[place].stem
        match = _PROCESS.fullmatch(process)
        if match is None:
            raise HistoryError(f"{process}: this judge does not know a process of that name")
        events, tied = block.events, None
        if match[1] == "link":
            tied = link_frames.tied(events, block.header.protocol)
            events = [row.event for row in tied]
        elif block.columns[_PLACE["transaction"]].count(None) < len(events):
            events = _expanded(process, events, members, self._discharged)
        if _observes(self._paths[place]):
            events = [_in_queue(event, self._sent) for event in events]
        values = block.columns if events is block.events else blocks.columns_of(events)
        columns: dict[str, Any] = dict(zip(Event.__struct_fields__, values, strict=True))
        rows = len(events)
        named = columns["transaction"].count(None) < rows
        columns["txn"] = [_number(event) for event in events] if named else columns["transaction"]
        links = {link: self._link(process, link) for link in dict.fromkeys(columns["link"])}
        columns["link"] = [links[link] for link in columns["link"]]
        for at, name in enumerate(Tied._fields[1:], 1):
            columns[name] = (None,) * rows if tied is None else [row[at] for row in tied]
        for name, words in _WORDS.items():
            columns[name] = pc.index_in(pa.array(columns[name]), words).cast(pa.int8())
        columns |= _ids(pa.array(columns["message"], pa.string()))
        columns["period"] = periods.of(events)
        columns["trial"] = _repeated([self._record.trial], 0, rows)
        columns["scenario"] = _repeated([self._record.scenario], 0, rows)
        columns["process"] = _repeated(self._processes, place, rows)
        columns["flush_ns"] = ((self._record.flush_ms or FLUSH_MS) * 1_000_000,) * rows
        columns["role"] = (ROLES.index(match[1]),) * rows
        columns["number"] = (int(match[2] or 1),) * rows
        try:
            return pa.record_batch([_repeats(columns[name]) for name in SCHEMA.names], schema=SCHEMA)
        except (pa.ArrowException, OverflowError) as error:
            raise HistoryError(f"{process}: a number does not fit its column: {error}") from error

    def _link(self, process: str, link: str | None) -> int:
        return self._links.setdefault((process, link), len(self._links))


class _Periods:
    """The periods of the events of one process: how many faults of the trial had fired before an event.

    An answer is in the period of its request. Smallest counter-example to its own time: a confirm that the client reads
    from its socket after the broker was killed was in flight at that kill, and not at the next one.
    """

    def __init__(self, fired: Sequence[int]) -> None:
        self._fired = fired
        self._asked: dict[tuple[Op, str | None, str | None], int] = {}

    def of(self, events: Sequence[Event]) -> Sequence[int]:
        if not self._fired:
            return (0,) * len(events)
        return [self._period(event) for event in events]

    def _period(self, event: Event) -> int:
        now = bisect.bisect_left(self._fired, event.at_ns)
        if event.op not in _ASKED:
            return now
        key = (event.op, event.message, event.transaction)
        if event.phase is Phase.INVOKE:
            self._asked[key] = now
            return now
        return self._asked.pop(key, now)


def _blocks(path: pathlib.Path) -> Iterable[blocks.Block]:
    """Return the blocks of a history; that of a link is one block, because a frame may be tied to any earlier one.

    It has no columns: the rows of its messages are not its events.
    """
    if not path.stem.startswith("link"):
        return blocks.read(path)
    history = read(path)
    return [blocks.Block(history.header, history.events, (), history.footer)]


def _in_queue(event: Event, sent: Mapping[str | None, str | None]) -> Event:
    """Return an observed event with the queue of its message: neither a journal nor a frame names it."""
    if event.message not in sent or event.op not in _OBSERVED:
        return event
    return msgspec.structs.replace(event, queue=sent[event.message])


def _repeated(names: Any, place: int, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(place, rows), names)


def _repeats(values: Any) -> Any:
    """Return equal values as one that is repeated: to convert them one by one takes longer."""
    if not isinstance(values, pa.Array) and values.count(values[0]) == len(values):
        return pa.repeat(values[0], len(values))
    return values


def _number(event: Event) -> int | None:
    """Return the number of its transaction; None for a frame, in which the broker names transactions."""
    if event.transaction is None or event.op is Op.FRAME:
        return None
    match = _TRANSACTION.fullmatch(event.transaction)
    if match is None:
        raise HistoryError(f"transaction {event.transaction!r} is not one of this suite")
    return int(match[1])


def _expanded(process: str, events: Sequence[Event], members: Members, discharged: Discharged) -> Sequence[Event]:
    """Return the events, and each commit, rollback and sync of its record again for every message that it covers.

    The judge groups by message, so the events of a transaction must be in the rows of its members. The members are the
    messages whose send or acknowledgement the same process invoked in it.
    """
    found: list[Event] = []
    for event in events:
        found.append(event)
        if event.transaction is None:
            continue
        if event.op in _DISCHARGES:
            covered = members.get(event.transaction, {})
            found += [msgspec.structs.replace(event, message=each, queue=queue) for each, queue in covered.items()]
            discharged.setdefault((event.epoch, event.transaction), {})[process] = tuple(covered)
        elif event.op is Op.SYNC:
            found += [msgspec.structs.replace(event, message=message) for message in _synced(event, discharged)]
        elif event.op in _JOINS and event.phase is Phase.INVOKE and event.message is not None:
            members.setdefault(event.transaction, {})[event.message] = event.queue
    return found


def _synced(event: Event, discharged: Discharged) -> tuple[str, ...]:
    """Return the members of the transaction whose record a sync is about.

    Raises `HistoryError` if it names a message too, or if two processes have a transaction of that name: each process
    counts from 1, and the disk does not say whose it was.
    """
    assert event.transaction is not None
    if event.message is not None:
        raise HistoryError(f"a sync names both {event.message} and transaction {event.transaction}")
    owners = discharged.get((event.epoch, event.transaction), {})
    if len(owners) > 1:
        raise HistoryError(
            f"transaction {event.transaction} is of {' and '.join(owners)}: it is unknown which one was synced"
        )
    return next(iter(owners.values()), ())


def _ids(messages: pa.Array) -> dict[str, pa.Array]:
    parsed = pc.extract_regex(messages, _MESSAGE)
    producer, n = pc.struct_field(parsed, "producer"), pc.struct_field(parsed, "n")
    foreign = pc.if_else(pc.is_null(n), messages, None)
    return {"producer": producer.cast(pa.int32()), "n": n.cast(pa.int64()), "foreign_id": foreign}
