"""The Spark plans of a soak: count a segment with what was carried to it, carry on, and count the whole.

A soak is one trial in many folders. Its messages are judged by the columns and anomalies of any trial
(`judge.plan`); only checks of one message are used, so that a soak of any length is counted in shards.
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq

from conformance.history import Op, Phase, message_id
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.input.packing import FIELDS, OP_CODE, PHASE_CODE, ROLES, SPARK_SCHEMA
from conformance.judge.plan import relations
from conformance.judge.plan.columns import PACK
from conformance.judge.plan.exposures import EXPOSURES
from conformance.judge.soak.carry import REOPENED, Carry
from conformance.judge.spark import read_parquet, size_plans
from conformance.judge.verdict import collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKS: Sequence[relations.Check] = (
    ("lost_unacknowledged", "confirmed_in_window"),
    ("delivered_twice", "received"),
    ("corrupt", "received"),
    ("phantom", "received"),
)
OFFENCES = {"lost": "lost_unacknowledged", "duplicated": "delivered_twice", "altered": "corrupt", "phantom": "phantom"}
"""By the word of a soak's result, the anomaly that decides it."""

SHARD = 250_000
"""About so many events are in one shard: a task sorts and counts them in its share of the heap."""

_EVERY_START = -(2**62)
_ZEROS = ("role", "sequence", "at_ns", "number", "epoch")
_RANGES = "producer int, low bigint, high bigint"


class SoakCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a soak after a segment. `witnesses` has a message for each word with an offence.

    `messages`, `lost`, `duplicated`, `altered` and `phantom` count from the start. `lost` is 0 until the queue was
    drained to the end (`settled`). `confirmed` and `exposed` (confirmed so shortly before the fault that a broker may
    not have stored it) are those of the segment alone. `open` messages are not final; `overdue` were confirmed in an
    earlier segment and not delivered yet.
    """

    messages: int
    confirmed: int
    exposed: int
    lost: int
    duplicated: int
    altered: int
    phantom: int
    open: int
    overdue: int
    settled: bool
    not_recovered: str = ""
    not_ready: str = ""
    not_alive: str = ""
    witnesses: dict[str, str] = {}


def _offends(anomaly: str) -> str:
    found = ANOMALIES[anomaly]
    return f"coalesce(is_message AND ({found.applies}) AND ({found.offends}), false)"


def _columns(since_ns: int, *, answered: bool) -> dict[str, str]:
    """Return the columns of a message of a soak; those of a segment begin at `since_ns`.

    A broker that answers no acknowledgement has taken one that was sent, unless it delivers the message again.
    """
    taken = "acked_at IS NOT NULL" if answered else "ack_sent_at IS NOT NULL"
    exposed = EXPOSURES["confirmed_in_window"]
    offences = {word: _offends(anomaly) for word, anomaly in OFFENCES.items()}
    return {
        "new": f"coalesce(confirmed AND confirmed_at >= {since_ns}L, false)",
        "exposed": f"coalesce(({exposed.counts}) AND {exposed.fault_at} - {exposed.since} <= flush_ns, false)",
        "waiting": f"coalesce(confirmed AND received = 0 AND confirmed_at < {since_ns}L, false)",
        "ended": f"coalesce(attempted AND received > 0 AND {taken}"
        " AND (accepted OR refused OR disconnected OR overdue), false)",
        **offences,
    }


def _state(frame: DataFrame, events: int, since_ns: int, *, answered: bool) -> DataFrame:
    """Return a row for each message, with whether it is final, and rows of what is about none."""
    columns = _columns(since_ns, answered=answered)
    shards = events // SHARD
    placed = relations.sharded(frame, shards) if shards > 1 else frame.coalesce(1)
    more = [*columns.values(), "settled_anywhere"]
    rows = relations.messages_of(placed, CHECKS, more, few=True).selectExpr(
        *("producer", "n", "is_message", "settled_anywhere", *relations.TEXTS),
        *(f"{sql} AS soak_{name}" for name, sql in columns.items()),
    )
    offended = " OR ".join(f"soak_{word}" for word in OFFENCES)
    return rows.selectExpr("*", f"soak_ended AND NOT ({offended}) AS final")


def _counted(state: DataFrame) -> dict[str, Any]:
    totals = [f"count_if(soak_{name}) AS {name}" for name in ("new", "exposed", "waiting", *OFFENCES)]
    first = [f"min(CASE WHEN soak_{word} THEN producer * {PACK}L + n END) AS first_{word}" for word in OFFENCES]
    return collect(
        lambda: state.selectExpr(
            "count_if(is_message) AS messages",
            "count_if(is_message AND NOT final) AS open",
            "bool_and(settled_anywhere) AS settled",
            *(f"max({name}) AS {name}" for name in relations.TEXTS),
            *totals,
            *first,
        )
    )[0]


def _counts(found: dict[str, Any], messages: int) -> SoakCounts:
    settled = bool(found["settled"])
    offences: dict[str, Any] = {word: int(found[word]) for word in OFFENCES}
    texts: dict[str, Any] = {name: found[name] or "" for name in relations.TEXTS}
    if not settled:
        offences["lost"] = 0
    return SoakCounts(
        messages=messages,
        confirmed=found["new"],
        exposed=found["exposed"],
        open=found["open"],
        overdue=found["waiting"],
        settled=settled,
        **texts,
        witnesses={
            word: message_id(*relations.unpacked(found[f"first_{word}"])) for word in OFFENCES if offences[word]
        },
        **offences,
    )


def whole(spark: SparkSession, packed: Sequence[pathlib.Path], *, answered: bool) -> SoakCounts:
    """Count a soak at once from the packed histories of all its segments; nothing is carried."""
    events = sum(pq.read_metadata(path).num_rows for path in packed)
    size_plans(spark, events)
    frame = read_parquet(spark, packed, SPARK_SCHEMA)
    found = _counted(_state(frame, events, _EVERY_START, answered=answered))
    return _counts(found, found["messages"])


def segment(
    spark: SparkSession, packed: pathlib.Path, folder: pathlib.Path, before: pathlib.Path | None, *, answered: bool
) -> SoakCounts:
    """Count a segment with what the one `before` it carries, and write into its folder what it carries itself.

    Raises `HistoryError` if the carried files are not those that were written.
    """
    carry, earlier = Carry(folder), Carry(before) if before else None
    if earlier:
        earlier.check()
    own = read_parquet(spark, [packed], SPARK_SCHEMA)
    events = pq.read_metadata(packed).num_rows
    size_plans(spark, events)
    frame = own if earlier is None else _joined(spark, own, earlier, answered=answered)
    since = _first_ns(packed)
    state = folder / "state"
    _state(frame, events, since, answered=answered).write.mode("overwrite").parquet(str(state))
    rows = read_parquet(spark, [state])
    found = _counted(rows)
    _write_open(frame, rows, carry)
    _write_final(spark, rows, earlier, carry)
    shutil.rmtree(state)
    carry.close()
    return _counts(found, carry.messages)


def _first_ns(packed: pathlib.Path) -> int:
    """Return the time of the first event, from the statistics of the file: reading the column would take its memory."""
    about = pq.read_metadata(packed)
    place = about.schema.to_arrow_schema().get_field_index("at_ns")
    return min(int(about.row_group(group).column(place).statistics.min) for group in range(about.num_row_groups))


def _joined(spark: SparkSession, own: DataFrame, earlier: Carry, *, answered: bool) -> DataFrame:
    """Return the events of a segment after those that were carried to it, and those that stand for final messages.

    A final message that is named again was sent and acknowledged before this segment.
    """
    carried = read_parquet(spark, [earlier.open], SPARK_SCHEMA)
    ranges = read_parquet(spark, [earlier.final], _RANGES)
    named = spark.sql(
        "SELECT producer, n, max(trial) AS trial, max(scenario) AS scenario, max(flush_ns) AS flush_ns,"
        " max(queue) AS queue FROM {own} WHERE n IS NOT NULL GROUP BY producer, n",
        own=own,
    )
    again = spark.sql(
        "SELECT named.* FROM {named} AS named JOIN {ranges} AS ranges"
        " ON named.producer = ranges.producer AND named.n BETWEEN ranges.low AND ranges.high",
        named=named,
        ranges=ranges,
    ).join(carried.select("producer", "n").distinct(), ["producer", "n"], "left_anti")
    return carried.unionByName(own).unionByName(_standing_for(again, answered=answered))


def _standing_for(again: DataFrame, *, answered: bool) -> DataFrame:
    """Return the events that stand for those of final messages: sent, confirmed, acknowledged and, maybe, answered."""
    known = [(Op.SEND, Phase.INVOKE), (Op.SEND, Phase.OK), (Op.ACK, Phase.INVOKE)]
    known += [(Op.ACK, Phase.OK)] if answered else []
    events = ", ".join(f"struct({OP_CODE[op]}, {PHASE_CODE[phase]})" for op, phase in known)
    fixed = {"process": "'carried'", "detail": f"'{REOPENED}'"} | dict.fromkeys(_ZEROS, "0")
    own = ("producer", "n", "trial", "scenario", "flush_ns", "queue", "op", "phase")
    return again.selectExpr("*", f"inline(array({events})) AS (op, phase)").selectExpr(
        *(f"CAST({name if name in own else fixed.get(name, 'NULL')} AS {kind}) AS `{name}`" for name, _, kind in FIELDS)
    )


def _write_open(frame: DataFrame, rows: DataFrame, carry: Carry) -> None:
    """Write the events of the open messages, and those of drains: how a drain ended is known to later ones."""
    keys = rows.where("is_message AND NOT final").select("producer", "n")
    of_drains = frame.where(f"n IS NULL AND role = {ROLES.index('drain')}")
    names = [name for name, _, _ in FIELDS]
    kept = frame.join(keys, ["producer", "n"], "left_semi").select(*names).unionByName(of_drains.select(*names))
    kept.coalesce(1).write.mode("overwrite").parquet(carry.open)


def _write_final(spark: SparkSession, rows: DataFrame, earlier: Carry | None, carry: Carry) -> None:
    """Write the numbers of the final messages of this and all earlier segments, as ranges that do not touch."""
    ranges = rows.where("final").selectExpr("producer", "n AS low", "n AS high")
    if earlier:
        ranges = ranges.unionByName(read_parquet(spark, [earlier.final], _RANGES))
    merged = spark.sql(
        "SELECT producer, min(low) AS low, max(high) AS high FROM ("
        " SELECT *, sum(begins) OVER (PARTITION BY producer ORDER BY low, high) AS island FROM ("
        "  SELECT *, CASE WHEN low <= max(high) OVER (PARTITION BY producer ORDER BY low, high"
        "   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 1 THEN 0 ELSE 1 END AS begins FROM {ranges}))"
        " GROUP BY producer, island",
        ranges=ranges,
    )
    merged.coalesce(1).write.mode("overwrite").parquet(carry.final)
