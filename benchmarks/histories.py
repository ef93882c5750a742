"""Make synthetic histories in Spark, with known truth, in the Parquet layout of the judge: one file a trial.

The broker is killed at the end of each trial. A consumer has taken nine tenths of the messages by then, and has not
acknowledged the last of them; two drains search for the rest. The fate of each message is drawn by a hash of its trial
and number: it is lost, delivered twice, delivered again after its acknowledgement, or overtaken by the next one. The
truth is counted from these fates, and not from the events.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from conformance.history import Ended, Event, Op, Phase, Recorder, bare_header, close_history, message_id
from conformance.judge.input.packing import FIELDS, FLUSH_MS, OP_CODE, PHASE_CODE, ROLES, Compacted
from conformance.records import TrialRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Counts = Mapping[tuple[str, str], tuple[int, int]]
"""By trial and check: how many messages the check applies to, and how many of them offend."""

EVENTS_OF_A_MESSAGE = 6.6
"""On average: a send and its answer; a delivery, its processing and its acknowledgement, or a delivery to a drain."""

_OPEN, _IN_FLIGHT = 20, 100
"""The consumer has not acknowledged so many deliveries, and is so many messages behind the publishers."""

_TASK = 200_000
"""Events that one task sorts and writes, in its share of the heap."""

_TRUTH = {
    "lost": ("durable AND answered", "fate = 'lost'"),
    "delivered_twice": ("fate <> 'lost'", "fate IN ('twice', 'again')"),
    "overtaken": ("fate <> 'lost'", "fate = 'swapped' AND n % 2 = 1"),
    "delivered_after_acknowledgement": ("fate <> 'lost' AND place < acknowledged", "fate = 'again'"),
}
"""By check: which messages it applies to, and which of them offend."""

CHECKS = tuple(_TRUTH)


@dataclasses.dataclass(frozen=True)
class Synthetic:
    """How many messages, and what is wrong with them.

    `messages` are those of all trials. The share `skew` of them is in the first trial, and the others are shared evenly
    among all trials. `loss`, `duplicates` and `reorder` are shares of the messages; one half of the duplicates comes
    before the acknowledgement, the other half after it.
    """

    messages: int
    trials: int
    producers: int = 4
    loss: float = 0.001
    duplicates: float = 0.001
    reorder: float = 0.001
    skew: float = 0.0
    seed: int = 1

    @property
    def each(self) -> int:
        """The messages of every trial but the first."""
        return int(self.messages * (1 - self.skew)) // self.trials

    @property
    def first(self) -> int:
        return self.messages - self.each * (self.trials - 1)

    @property
    def processes(self) -> list[str]:
        """In the order in which packing reads their files: it numbers the links of a trial."""
        publishers = [f"publisher-{number}" for number in range(1, self.producers + 1)]
        return sorted(["consumer-1", "drain-1", "drain-2", "orchestrator", *publishers])


def messages(spark: SparkSession, about: Synthetic) -> DataFrame:
    """Return a row for each message: its fate and, for each check, `applies_CHECK` and `offends_CHECK`."""
    first, each = about.first, about.each
    placed = spark.range(about.messages).selectExpr(
        f"format_string('t%05d', IF(id < {first}, 0, 1 + (id - {first}) DIV {each})) AS trial",
        f"IF(id < {first}, id, (id - {first}) % {each}) AS place",
        f"IF(id < {first}, {first}L, {each}L) AS size",
    )
    numbered = placed.selectExpr(
        "*",
        f"CAST(place % {about.producers} + 1 AS INT) AS producer",
        f"place DIV {about.producers} + 1 AS n",
        "size * 9 DIV 10 AS taken",
        f"greatest(size * 9 DIV 10 - {_OPEN}, 0L) AS acknowledged",
    )
    # Two neighbours of one producer change places, so the later of them decides whether both are acknowledged.
    later = f"place + IF(n % 2 = 1, {about.producers}, 0)"
    drawn = _chance("fate", "producer, n", about)
    drawn_fates = numbered.selectExpr(
        "*",
        f"""CASE
        WHEN {later} < acknowledged AND {_chance("pair", "producer, (n - 1) DIV 2", about)} < {2 * about.reorder}
          THEN 'swapped'
        WHEN {drawn} < {about.loss} THEN 'lost'
        WHEN place >= acknowledged THEN 'kept'
        WHEN {drawn} < {about.loss + about.duplicates / 2} THEN 'twice'
        WHEN {drawn} < {about.loss + about.duplicates} THEN 'again'
        ELSE 'kept' END AS fate""",
        "n % 50 <> 0 AS durable",
        f"place < taken OR {_chance('answer', 'producer, n', about)} >= 0.01 AS answered",
    )
    return drawn_fates.selectExpr(
        "*",
        f"place + IF(fate = 'swapped', IF(n % 2 = 1, {about.producers}, -{about.producers}), 0) AS turn",
        *(f"({applies}) AS applies_{check}" for check, (applies, _) in _TRUTH.items()),
        *(f"({applies}) AND ({offends}) AS offends_{check}" for check, (applies, offends) in _TRUTH.items()),
    )


def _chance(name: str, key: str, about: Synthetic) -> str:
    """Return SQL for a number below 1 that depends on the trial and on `key`."""
    return f"(pmod(xxhash64('{name}', {about.seed}, trial, {key}), 1000000) / 1e6)"


def truth(spark: SparkSession, about: Synthetic) -> Counts:
    """Return what each check has to count."""
    kinds = [f"{kind}_{check}" for check in CHECKS for kind in ("applies", "offends")]
    counted = messages(spark, about).selectExpr("trial", *(f"CAST({kind} AS INT) AS {kind}" for kind in kinds))
    rows = counted.groupBy("trial").sum(*kinds).collect()
    return {
        (row["trial"], check): (row[f"sum(applies_{check})"], row[f"sum(offends_{check})"])
        for row in rows
        for check in CHECKS
    }


def write(spark: SparkSession, about: Synthetic, folder: pathlib.Path) -> list[Compacted]:
    """Write the events of each trial in the layout of packing; return the trials."""
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    trials = spark.range(about.trials).selectExpr(
        "format_string('t%05d', id) AS trial",
        f"IF(id = 0, {about.first}L, {about.each}L) AS size",
        "CAST(NULL AS INT) AS producer",
        "CAST(NULL AS BIGINT) AS n",
    )
    of_messages, of_trials = (
        frame.selectExpr("trial", "producer", "n", f"inline(array_compact(array({', '.join(events)})))")
        for frame, events in ((messages(spark, about), _MESSAGE_EVENTS), (trials, _TRIAL_EVENTS))
    )
    tasks = max(os.cpu_count() or 2, int(about.messages * EVENTS_OF_A_MESSAGE) // _TASK)
    placed = of_messages.unionByName(of_trials).repartition(tasks, "trial")
    given = {
        "scenario": "'synthetic'",
        "flush_ns": f"{FLUSH_MS}000000L",
        "at_ns": "at_ns + pmod(xxhash64(trial, process, at_ns), 1000)",  # Parquet would compress an even clock too well
        "sequence": "row_number() OVER (PARTITION BY trial, process ORDER BY at_ns) - 1",
        "role": f"array_position({_sql_array(ROLES)}, substring_index(process, '-', 1)) - 1",
        "number": "coalesce(try_cast(substring_index(process, '-', -1) AS SMALLINT), 1)",
        "link": f"array_position({_sql_array(about.processes)}, process) - 1",
    }
    given = {name: f"`{name}`" for name in placed.columns} | given
    columns = (f"CAST({given.get(name, 'NULL')} AS {kind}) AS `{name}`" for name, _, kind in FIELDS)
    target = folder / "events"
    (
        placed.selectExpr(*columns, "trial AS part")
        .sortWithinPartitions("part", "process", "sequence")
        .write.partitionBy("part")
        .parquet(str(target))
    )
    return [
        Compacted(_record(path.parent.name.removeprefix("part=")), path) for path in sorted(target.glob("*/*.parquet"))
    ]


_KINDS = {name: kind for name, _, kind in FIELDS}
_END = f"(10 * (size + 2 * {_IN_FLIGHT}))"
"""The tick at which the broker is killed, after all other events but those of the drains. A tick is a microsecond."""


def _event(process: str, op: Op, phase: Phase, tick: str, when: str = "true", **columns: str) -> str:
    """Return SQL for an event, or for NULL unless `when` is true; every message has ten ticks of its own."""
    values = dict.fromkeys(("durable", "redelivered", "first_acquirer", "intact", "count", "fault", "detail"), "NULL")
    values |= {"process": process, "op": str(OP_CODE[op]), "phase": str(PHASE_CODE[phase]), "at_ns": f"1000 * ({tick})"}
    values |= {"epoch": "1", "period": "0", "queue": "'q'", **columns}
    named = (f"'{name}', CAST({values[name]} AS {_KINDS[name]})" for name in sorted(values))
    return f"IF({when}, named_struct({', '.join(named)}), NULL)"


def _sql_array(words: Sequence[str]) -> str:
    return f"array({', '.join(map(repr, words))})"


_PUBLISHER, _CONSUMER = "concat('publisher-', producer)", "'consumer-1'"
_TURN = f"10 * (turn + {_IN_FLIGHT})"
_TAKEN = "fate <> 'lost' AND place < taken"
_ACKED = "fate <> 'lost' AND place < acknowledged"
_HANDED = {"count": "0", "redelivered": "false", "first_acquirer": "true", "intact": "true"}
_AGAIN = {**_HANDED, "count": "1", "redelivered": "true", "first_acquirer": "false"}

_MESSAGE_EVENTS = (
    _event(_PUBLISHER, Op.SEND, Phase.INVOKE, "10 * place", durable="durable"),
    _event(_PUBLISHER, Op.SEND, Phase.OK, f"10 * (place + {_IN_FLIGHT // 2}) + 1", "answered", detail="'accepted'"),
    _event(_PUBLISHER, Op.SEND, Phase.INFO, f"{_END} + 2 + place", "NOT answered", detail="'disconnected'"),
    _event(_CONSUMER, Op.DELIVER, Phase.OK, f"{_TURN} + 2", _TAKEN, **_HANDED),
    _event(_CONSUMER, Op.DELIVER, Phase.OK, f"{_TURN} + 3", "fate = 'twice'", **_AGAIN),
    _event(_CONSUMER, Op.PROCESS, Phase.INVOKE, f"{_TURN} + 4", _TAKEN),
    _event(_CONSUMER, Op.PROCESS, Phase.OK, f"{_TURN} + 5", _ACKED),
    _event(_CONSUMER, Op.ACK, Phase.INVOKE, f"{_TURN} + 6", _ACKED),
    _event(_CONSUMER, Op.ACK, Phase.OK, f"{_TURN} + 7", _ACKED),
    _event(_CONSUMER, Op.DELIVER, Phase.OK, f"{_TURN} + 8", "fate = 'again'", **_AGAIN),
    _event(
        "'drain-1'",
        Op.DRAIN,
        Phase.OK,
        f"2 * {_END} + 1 + place",
        "fate <> 'lost' AND place >= acknowledged",
        epoch="2",
        period="1",
        **{**_AGAIN, "redelivered": "place < taken", "count": "IF(place < taken, 1, 0)"},
    ),
)

_TRIAL_EVENTS = (
    _event("'publisher-1'", Op.FAULT, Phase.FIRED, f"{_END} + 1", fault="'kill'", queue="NULL"),
    _event("'orchestrator'", Op.FAULT, Phase.EFFECTIVE, f"{_END} + 2", fault="'kill'", queue="NULL", period="1"),
    *(
        _event(
            f"'drain-{drain}'", op, phase, f"{drain + 1} * {_END} + {tick}", epoch=str(drain + 1), period="1", **columns
        )
        for drain in (1, 2)
        for op, phase, tick, columns in (
            (Op.DRAIN, Phase.INVOKE, "0", {}),
            (Op.DEPTH, Phase.OK, "size + 1", {"count": "0"}),
            (Op.DRAIN, Phase.OK, "size + 2", {"count": "0", "detail": "'silent'"}),
        )
    ),
)


def _record(trial: str) -> TrialRecord:
    return TrialRecord(
        trial=trial,
        scenario="synthetic",
        arm="subject",
        control="",
        index=1,
        seed=0,
        k=None,
        adapter="none",
        settings={},
    )


def write_lines(trial: Compacted, folder: pathlib.Path) -> int:
    """Write a trial as the JSON Lines of its processes, in a folder of its own; return the bytes."""
    folder.mkdir(parents=True)
    about = trial.record
    rows = pq.ParquetFile(trial.parquet).read().to_pylist()
    ops, phases = tuple(Op), tuple(Phase)
    for process, events in itertools.groupby(rows, lambda row: row["process"]):
        path = folder / f"{process}.jsonl"
        recorder = Recorder(path, bare_header(process, scenario=about.scenario, trial=about.trial, arm=about.arm))
        for row in events:
            message = None if row["n"] is None else message_id(row["producer"], row["n"])
            same = {name: row[name] for name in Event.__struct_fields__ if name in _SAME}
            recorder.append(Event(op=ops[row["op"]], phase=phases[row["phase"]], message=message, **same))
        recorder.close()
        close_history(path, Ended.FINISHED)
    return sum(path.stat().st_size for path in folder.iterdir())


_SAME = _KINDS.keys() - {"op", "phase", "link"}
