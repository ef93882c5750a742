"""Events, and the files that hold them: the only input of the judge.

A history is one JSON Lines file per process. Its first line is a `Header`, every further line an `Event`, its last
line a `Footer` that the orchestrator adds when it knows how the process ended. A file without a footer is incomplete,
and no HOLDS can rest on it.

An operation is recorded twice: `invoke` before its first byte can leave, then `ok` (certainly happened), `fail`
(certainly did not) or `info` (unknown: no answer). Faults use `armed`, `fired`, `effective`, `healed`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import pathlib
import re
import time
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from conformance import limits
from conformance.errors import HistoryError

SCHEMA = 1
WAITS, SHUT = "waits for the window", "the window did not reopen"
"""Details of a CONFIRM of unknown outcome: its message cannot be sent, with `count` others unanswered."""

DELAYED = "delayed"
"""Detail of a DRAIN with unknown end: the rest waits for a redelivery delay that is too long for a trial."""

CONFORMANCE_ID = "conformance_id"
"""The property or header with our id of a message, where the protocol has no id of the sender's."""

UNSELECTED, PASSED_OVER, SELECTED = "not selected", "passed over", "selected in vain"
"""Details of a DELIVER or DRAIN, where each consumer had a selector: that of this one does not match the message; or it
does; or so does that of a consumer before it, which waited in vain."""

RECEIVER_ENDED = "its receiver ended"
"""Detail of a NACK by a receiver that ends while others of its session go on."""

ONCE = "exactly once"
"""Detail of a SEND whose message must arrive once, however often its client connects; that of a later one says more."""

OUTSIDE = "outside its transaction"
"""End of the detail of a refused SEND in a transaction whose answer named no transaction."""

OF_ACK = "of an acknowledgement"
"""End of the detail of a SYNC that names a message, and is about the record of its acknowledgement."""

NOT_RECOVERED, NOT_READY = "not recovered", "not ready"
"""Beginnings of the detail of a BROKER event whose start after a fault failed: in `fail` the broker is to blame, in
`info` that is unknown."""

NOT_ALIVE = "not alive"
"""Beginning of the detail of a BROKER event in `fail`: without a fault the broker ended, or dropped a connection."""

NOT_SERVED = "not served"
"""Beginning of the detail of a BROKER event in `fail`: a shortage was over, and it took nothing more from clients."""

ENDED_SHORT = "ended by a shortage"
"""Detail of a BROKER event in `info`: it ended for want of a resource, and is started again."""

REPORTED = "reported"
"""Beginning of the detail of a BROKER event in `info`: what its log says since its data were damaged."""

OF_ANOTHER = "at the trigger of another trial"
"""The detail of a fault that fired, in the histories of the trials that it met beside its owner's."""


class Op(enum.StrEnum):
    """What was done. The order is the code of the Parquet files: append only."""

    CONNECT = "connect"
    SEND = "send"
    CONFIRM = "confirm"
    DELIVER = "deliver"
    PROCESS = "process"
    ACK = "ack"
    NACK = "nack"
    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    DRAIN = "drain"
    DEPTH = "depth"
    FRAME = "frame"
    SYNC = "sync"
    FAULT = "fault"
    BROKER = "broker"
    CALL = "call"
    ASK = "ask"


class Phase(enum.StrEnum):
    """The phase of an operation or fault. The order is the code of the Parquet files: append only."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"
    ARMED = "armed"
    FIRED = "fired"
    EFFECTIVE = "effective"
    HEALED = "healed"


class Ended(enum.StrEnum):
    """How a process ended. Only after the first two can its trial be judged."""

    FINISHED = "finished"
    KILLED_BY_FAULT = "killed_by_fault"
    DIED = "died"
    INTERRUPTED = "interrupted"


class Header(msgspec.Struct, frozen=True, tag_field="record", tag="header", kw_only=True):
    """The first line of a file: the process and its run.

    `settings` are the effective settings of the broker, `changed` those that differ from stock, `versions` all
    versions involved, `command` the command line that repeats the run.
    """

    run: str
    scenario: str
    trial: str
    arm: str
    process: str
    seed: int
    adapter: str
    version: str
    protocol: str
    client: str
    mode: str
    settings: dict[str, Any]
    changed: dict[str, Any]
    versions: dict[str, str]
    command: str
    schema: int = SCHEMA


def bare_header(
    process: str, *, scenario: str = "", trial: str = "", arm: str = "subject", protocol: str = "none"
) -> Header:
    """Return the header of a history without a run: of a benchmark, a warm-up, a test."""
    return Header(
        run="none",
        scenario=scenario,
        trial=trial,
        arm=arm,
        process=process,
        seed=0,
        adapter="none",
        version="",
        protocol=protocol,
        client="",
        mode="",
        settings={},
        changed={},
        versions={},
        command="",
    )


class Event(msgspec.Struct, frozen=True, tag_field="record", tag="event", omit_defaults=True, gc=False):
    """One line of a history.

    `sequence` counts the events of its process from 0. `at_ns` is CLOCK_MONOTONIC, nanoseconds, the same clock for
    every process of one machine. `epoch` is the run of the broker, 1 for the first start. `message` is
    `producer:number`. `count` is the delivery count as received (AMQP 1.0 section 3.2.1), a depth, or in the
    `invoke` of a send the milliseconds that its message lives. `detail` is free text for people, except where an
    operation documents its words. `priority` is that of a send, if it says one, and `delay_ms` how long after it its
    message may be delivered.
    """

    sequence: int
    at_ns: int
    op: Op
    phase: Phase
    epoch: int = 0
    queue: str | None = None
    message: str | None = None
    delivery: str | None = None
    transaction: str | None = None
    connection: int | None = None
    link: str | None = None
    durable: bool | None = None
    redelivered: bool | None = None
    first_acquirer: bool | None = None
    count: int | None = None
    first: int | None = None
    last: int | None = None
    due_ns: int | None = None
    intact: bool | None = None
    fault: str | None = None
    delay_ms: int | None = None
    priority: int | None = None
    detail: str | None = None


class Footer(msgspec.Struct, frozen=True, tag_field="record", tag="footer", kw_only=True):
    """The last line of a file, written by the orchestrator: how many events, and how the process ended."""

    events: int
    ended: Ended
    detail: str = ""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Header | Event | Footer)
_BUFFER = 1 << 16


class Recorder:
    """Write the events of one process; at most 2 microseconds an event.

    Events are buffered until `flush()`, which hands them to the kernel in one write. The caller must flush before the
    first byte of a recorded operation leaves. `write_through` flushes after each event, for a process that a fault may
    kill at any instruction (data in the kernel survives SIGKILL).

    Raises `HistoryError` for an event beyond `limits.HISTORY` bytes. The earlier events stay, and a fault can still be
    recorded, so that a paused broker is resumed.
    """

    def __init__(self, path: pathlib.Path, header: Header, *, write_through: bool = False) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._buffer = bytearray(_BUFFER)
        self._used = self._size = 0
        self._write_through = write_through
        self.sequence = 0
        self.histories = [self]
        os.write(self._fd, _ENCODER.encode(header) + b"\n")

    def beside(self, path: pathlib.Path, header: Header) -> None:
        """Open one more history of this process, the last of `histories`: it is flushed and closed with this one."""
        self.histories.append(Recorder(path, header, write_through=self._write_through))

    def record(self, op: Op, phase: Phase, **fields: Any) -> int:
        """Add one event with the current time; return its `at_ns`."""
        at_ns = time.monotonic_ns()
        self.append(Event(self.sequence, at_ns, op, phase, **fields))
        return at_ns

    def append(self, event: Event) -> None:
        """Add an event that the caller built; its sequence must be `self.sequence`."""
        if self._size > limits.HISTORY and event.op is not Op.FAULT:
            raise HistoryError(limits.limit_sentence("what it sends makes a history", limits.HISTORY))
        self.sequence = event.sequence + 1
        buffer = self._buffer
        _ENCODER.encode_into(event, buffer, self._used)
        buffer += b"\n"
        self._used = len(buffer)
        if self._write_through or self._used > _BUFFER:
            self.flush()

    def flush(self) -> None:
        for other in self.histories[1:]:
            other.flush()
        if self._used:
            self._size += self._used
            view = memoryview(self._buffer)[: self._used]
            while view:
                written = os.write(self._fd, view)
                view = view[written:]
            del view
            self._used = 0

    def close(self) -> None:
        """Flush and close; the orchestrator adds the footer."""
        for other in self.histories[1:]:
            other.close()
        self.flush()
        os.close(self._fd)


def close_history(path: pathlib.Path, ended: Ended, detail: str = "") -> Footer:
    """Add the footer to the file of a process that has ended, and return it.

    A torn last line is cut off only if the fault killed the process; otherwise it is kept, and `read` refuses the file.
    A process that was killed before it began its file gets none.
    """
    if not path.exists():
        return Footer(events=0, ended=ended, detail=detail)
    data = path.read_bytes()
    torn = len(data) - (data.rfind(b"\n") + 1)
    if torn and ended is Ended.KILLED_BY_FAULT:
        os.truncate(path, len(data) - torn)
    footer = Footer(events=data.count(b"\n") - 1, ended=ended, detail=detail)
    with path.open("ab") as stream:
        if torn and ended is not Ended.KILLED_BY_FAULT:
            stream.write(b"\n")
        stream.write(_ENCODER.encode(footer) + b"\n")
    return footer


@dataclasses.dataclass(frozen=True)
class History:
    """One complete file: its header, its events in order, its footer."""

    header: Header
    events: tuple[Event, ...]
    footer: Footer


def read(path: pathlib.Path) -> History:
    """Read one file strictly.

    Raises `HistoryError` if a line does not parse, the footer is missing or has another count, a sequence number is
    skipped or repeated, the clock runs backwards, or the schema is unknown.
    """
    records: list[Header | Event | Footer] = []
    for number, line in enumerate(_lines(path), 1):
        try:
            records.append(_DECODER.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HistoryError(f"{path.name}: line {number} is not a record: {error}") from error
    if not records or not isinstance(records[0], Header):
        raise HistoryError(f"{path.name}: no header")
    header, footer = records[0], records[-1]
    if header.schema != SCHEMA:
        raise HistoryError(f"{path.name}: schema {header.schema}, this version reads {SCHEMA}")
    if not isinstance(footer, Footer):
        raise HistoryError(f"{path.name}: no footer: the harness ended before this process did")
    events = tuple(record for record in records[1:-1] if isinstance(record, Event))
    if len(events) != len(records) - 2 or footer.events != len(events):
        raise HistoryError(f"{path.name}: the footer counts {footer.events} events, the file holds {len(events)}")
    before = events[0].at_ns if events else 0
    for expected, event in enumerate(events):
        if event.sequence != expected:
            raise HistoryError(f"{path.name}: event {expected} carries sequence {event.sequence}")
        if event.at_ns < before:
            early = before - event.at_ns
            raise HistoryError(f"{path.name}: the clock runs backwards: event {expected} is {early} ns early")
        before = event.at_ns
    return History(header, events, footer)


def _lines(path: pathlib.Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from stream


_MESSAGE = re.compile(r"p([0-9]{1,9}):([0-9]{1,18})")


def message_id(producer: int, number: int) -> str:
    """Return the id of a message: its producer and its number.

    >>> message_id(1, 137)
    'p1:137'
    """
    return f"p{producer}:{number}"


@functools.lru_cache(maxsize=1_000)
def parse_message(text: str | None) -> tuple[int, int] | None:
    """Return `(producer, number)` of an id of this suite, None for any other.

    A client asks up to four times for each message, so the last answers are kept.

    >>> parse_message("p1:137"), parse_message("ID:foreign"), parse_message("p1:" + "9" * 5_000)
    ((1, 137), None, None)
    """
    match = _MESSAGE.fullmatch(text or "")
    return (int(match[1]), int(match[2])) if match else None


_MARK = 9
"""Bytes that the mark of a trial has in a first line."""


def make_body(message: str, size: int, trial: str = "") -> bytes:
    """Return a body of `size` bytes: its first line has the id, a checksum of the rest, and a mark of the trial.

    With a size of 0 there is no body; another small size is that of the first line.

    >>> len(make_body("p1:1", 64)), is_intact("p1:1", make_body("p1:1", 64))
    (64, True)
    """
    if not size:
        return b""
    seed, mark = message.encode(), _mark(trial)
    head_length = len(seed) + len(mark) + 10
    filler = (seed + b".") * (max(size - head_length, 0) // (len(seed) + 1) + 1)
    rest = filler[: max(size - head_length, 0)]
    return b"%s %08x%s\n%s" % (seed, zlib.crc32(seed + rest), mark, rest)


def is_intact(message: str, body: bytes, *, empty: bool = False) -> bool:
    """Whether `make_body` made `body` for this message; `empty` if it was sent without a body.

    >>> is_intact("p1:2", make_body("p1:1", 64))
    False
    """
    if empty:
        return not body
    head, _, rest = body.partition(b"\n")
    seed = message.encode()
    expected = b"%s %08x" % (seed, zlib.crc32(seed + rest))
    return head == expected or (head.startswith(expected + b" ") and len(head) == len(expected) + _MARK)


_FIRST_LINE = re.compile(rb"(p\d{1,9}:\d{1,18}) [0-9a-f]{8}")

WHOLE_BODY = re.compile(_FIRST_LINE.pattern + rb"[^\n]{0,%d}\n((?:\1\.)*)" % _MARK)
"""A body of `make_body` among other bytes: its id, and what fills it after its first line."""


def id_of(body: bytes) -> str:
    """Return the id that the first line of a body has, also of one that was altered; empty if it has none.

    A broker may hand on a body with what encloses it: RabbitMQ 3.10 gives a consumer of STOMP an encoded amqp-value.

    >>> id_of(b"Sw" + make_body("p1:2", 64)), id_of(b"p1:2")
    ('p1:2', '')
    """
    found = _FIRST_LINE.search(body[:100])
    return found[1].decode() if found else ""


def is_anothers(body: bytes, trial: str) -> bool:
    """Whether `body` was made for another trial: ids repeat in each trial, and a queue may outlive one.

    >>> is_anothers(make_body("p1:1", 64, "a.1"), "a.2"), is_anothers(make_body("p1:1", 64, "a.1"), "a.1")
    (True, False)
    """
    words = body.partition(b"\n")[0].split(b" ")
    return len(words) == 3 and b" " + words[2] != _mark(trial)


def _mark(trial: str) -> bytes:
    return b" %08x" % zlib.crc32(trial.encode()) if trial else b""
