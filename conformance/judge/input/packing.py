"""Read the histories of one trial strictly, and pack them into one Parquet file for Spark.

Ids become numbers; operations and phases become codes, in the order of their enums. Facts of a whole trial are columns
too: Parquet stores them once.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance import records
from conformance.errors import HistoryError
from conformance.history import Ended, Event, History, Op, Phase, read
from conformance.judge.input import link_frames
from conformance.records import Checksum, TrialRecord

FORMAT = "6"
"""The format of the Parquet files; a file of another format is made again."""

FILE = "events.parquet"
SOURCES = "events.json"
"""Beside the Parquet file: the files that it was made of."""
FLUSH_MS = 100
"""The flush interval of a broker whose settings do not give it."""

OP_CODE = {op: code for code, op in enumerate(Op)}
PHASE_CODE = {phase: code for code, phase in enumerate(Phase)}
ROLES = ("publisher", "consumer", "drain", "orchestrator", "disk", "link", "asker", "collector")
"""The code of a role is its place: append only. The role of a process is its name without the number."""

FIELDS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("trial", pa.string(), "string"),
    ("scenario", pa.string(), "string"),
    ("flush_ns", pa.int64(), "bigint"),  # an answer so shortly before a fault may not be written yet
    ("process", pa.string(), "string"),
    ("role", pa.int8(), "tinyint"),
    ("number", pa.int16(), "smallint"),  # of the process within its role, from 1
    ("sequence", pa.int64(), "bigint"),
    ("at_ns", pa.int64(), "bigint"),
    ("due_ns", pa.int64(), "bigint"),
    ("op", pa.int8(), "tinyint"),
    ("phase", pa.int8(), "tinyint"),
    ("epoch", pa.int32(), "int"),
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
    ("detail", pa.string(), "string"),
    ("carries", pa.int8(), "tinyint"),  # what a frame means for its message: `link_frames.CARRIES`
    ("settled", pa.bool_(), "boolean"),  # the delivery in it needs no acknowledgement
    ("whole", pa.bool_(), "boolean"),  # with it the delivery had reached its client completely
)
"""Name, Arrow type and Spark type of each column, in order."""

SCHEMA = pa.schema([(name, kind) for name, kind, _ in FIELDS], metadata={"conformance": FORMAT})
SPARK_SCHEMA = ", ".join(f"`{name}` {kind}" for name, _, kind in FIELDS)

_PROCESS = re.compile(rf"({'|'.join(ROLES)})(?:-(\d{{1,4}}))?")
# The number of digits is bounded so that every matching id fits its column; any other id is foreign.
_TRANSACTION = re.compile(r"t(\d{1,9})")
_MESSAGE = "^p(?P<producer>[0-9]{1,9}):(?P<n>[0-9]{1,18})$"
# Members are looked up by identity: hashing a StrEnum runs Python, and costs more than all the rest.
_JOINS, _DISCHARGES = (Op.SEND, Op.ACK), (Op.COMMIT, Op.ROLLBACK)
_OBSERVED = (Op.SYNC, Op.FRAME)
_CODES = {id(member): code for members in (OP_CODE, PHASE_CODE) for member, code in members.items()}
_PLACE = {name: place for place, name in enumerate(Event.__struct_fields__)}

_IDENTITY = ("scenario", "arm", "seed")
"""Fields that are equal in the header of each history and in the record of the trial."""

Discharged = dict[tuple[int, str], dict[str, tuple[str, ...]]]
"""The messages of a discharged transaction, by its epoch and name, and by the process that named it."""


_EFFECTIVE = f'"phase":"{Phase.EFFECTIVE}"'.encode()


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
    for path in folder.glob("*.jsonl"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as lines:
                if any(_EFFECTIVE in line for line in lines):
                    return True
    return False


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
    histories = list(_histories(folder, record))
    runs = sorted({history.header.run for history in histories})
    if len(runs) > 1:
        raise HistoryError(f"its histories are of {len(runs)} runs: {' and '.join(runs)}")
    target = folder / FILE
    _write(_table(record, histories), target)
    records.save(Packed(run=runs[0], parquet=checksum(target), sources=sources), folder / SOURCES)
    return runs[0]


def _histories(folder: pathlib.Path, record: TrialRecord) -> Iterator[History]:
    paths = sorted(folder.glob("*.jsonl"))
    if "orchestrator" not in (path.stem for path in paths):
        raise HistoryError("the history of the orchestrator is missing")
    for path in paths:
        history = read(path)
        header = history.header
        if history.footer.ended not in (Ended.FINISHED, Ended.KILLED_BY_FAULT):
            raise HistoryError(f"{path.name}: the process {history.footer.ended}: {history.footer.detail}".rstrip(": "))
        if header.trial != record.trial or header.process != path.stem:
            raise HistoryError(f"{path.name}: it is {header.process} of {header.trial}")
        for name in _IDENTITY:
            if getattr(header, name) != getattr(record, name):
                was, is_ = getattr(record, name), getattr(header, name)
                raise HistoryError(f"{path.name}: its {name} is {is_}, and that of trial.json is {was}")
        yield history


def _table(record: TrialRecord, histories: Sequence[History]) -> pa.Table:
    links: dict[tuple[str, str | None], int] = {}
    discharged: Discharged = {}
    # A sync of a transaction becomes a row for each member, so processes that name members come first.
    ordered = sorted(histories, key=_observes)
    watched = bool(ordered) and _observes(ordered[-1])
    sent = {e.message: e.queue for h in ordered for e in h.events if e.op is Op.SEND} if watched else {}
    parts = [_columns(history, links, discharged, sent) for history in ordered if history.events]
    if not parts:
        raise HistoryError("no process recorded anything")
    columns: dict[str, Any] = {
        name: list(itertools.chain.from_iterable(part[name] for part in parts)) for name in parts[0]
    }
    rows = len(columns["at_ns"])
    columns["trial"] = pa.repeat(record.trial, rows)
    columns["scenario"] = pa.repeat(record.scenario, rows)
    columns["flush_ns"] = pa.repeat(round((record.flush_ms or FLUSH_MS) * 1e6), rows)
    columns.update(_ids(pa.array(columns.pop("message"), pa.string())))
    try:
        return pa.table([_array(columns[name], kind) for name, kind, _ in FIELDS], schema=SCHEMA)
    except (pa.ArrowException, OverflowError) as error:
        raise HistoryError(f"a number does not fit its column: {error}") from error


def _observes(history: History) -> bool:
    """Whether the process only observes: the disk, or a link."""
    return history.header.process.startswith(("disk", "link"))


def _in_queue(event: Event, sent: Mapping[str | None, str | None]) -> Event:
    """Return an observed event with the queue of its message: neither a journal nor a frame names it."""
    if event.message not in sent or event.op not in _OBSERVED:
        return event
    return msgspec.structs.replace(event, queue=sent[event.message])


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _columns(
    history: History,
    links: dict[tuple[str, str | None], int],
    discharged: Discharged,
    sent: Mapping[str | None, str | None],
) -> dict[str, Sequence[Any]]:
    process = history.header.process
    match = _PROCESS.fullmatch(process)
    if match is None:
        raise HistoryError(f"{process}: this judge does not know a process of that name")
    tied = link_frames.tied(history.events, history.header.protocol) if match[1] == "link" else None
    events = _expanded(process, history.events, discharged) if tied is None else [row.event for row in tied]
    if _observes(history):
        events = [_in_queue(event, sent) for event in events]
    fields = list(zip(*map(msgspec.structs.astuple, events), strict=True))
    rows = len(events)
    taken = ("sequence", "at_ns", "epoch", "queue", "message", "durable", "redelivered", "first_acquirer", "intact")
    more = ("due_ns", "count", "first", "last", "fault", "detail")
    columns: dict[str, Sequence[Any]] = {name: fields[_PLACE[name]] for name in (*taken, *more)}
    for name in ("op", "phase"):
        columns[name] = list(map(_CODES.__getitem__, map(id, fields[_PLACE[name]])))
    for place, name in enumerate(link_frames.Tied._fields[1:], 1):
        columns[name] = [None] * rows if tied is None else [row[place] for row in tied]
    columns["txn"] = [_number(event) for event in events]
    columns["link"] = [links.setdefault((process, link), len(links)) for link in fields[_PLACE["link"]]]
    columns["process"] = [process] * rows
    columns["role"] = [ROLES.index(match[1])] * rows
    columns["number"] = [int(match[2] or 1)] * rows
    return columns


def _number(event: Event) -> int | None:
    """Return the number of its transaction; None for a frame, in which the broker names transactions."""
    if event.transaction is None or event.op is Op.FRAME:
        return None
    match = _TRANSACTION.fullmatch(event.transaction)
    if match is None:
        raise HistoryError(f"transaction {event.transaction!r} is not one of this suite")
    return int(match[1])


def _expanded(process: str, events: Sequence[Event], discharged: Discharged) -> Sequence[Event]:
    """Return the events, and each commit, rollback and sync of its record again for every message that it covers.

    The judge groups by message, so the events of a transaction must be in the rows of its members. The members are the
    messages whose send or acknowledgement the same process invoked in it.
    """
    members: dict[str, dict[str, str | None]] = {}
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
    foreign = pc.if_else(pc.is_null(n), messages, pa.scalar(None, pa.string()))
    return {"producer": producer.cast(pa.int32()), "n": n.cast(pa.int64()), "foreign_id": foreign}


def _write(table: pa.Table, target: pathlib.Path) -> None:
    part = target.with_suffix(".part")
    pq.write_table(table, part, compression="snappy", row_group_size=1 << 20)
    part.replace(target)
