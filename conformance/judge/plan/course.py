"""The course of each trial, for a picture: what happened in each of `PARTS` equal parts of its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from conformance.history import Op, Phase
from conformance.judge.input.packing import OP_CODE, PHASE_CODE, SPARK_SCHEMA
from conformance.judge.plan.relations import FEW
from conformance.judge.rows import Course

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 50
"""So many parts has a trial: more than a reader tells apart, and few enough for a report over hundreds of trials."""


def _is(op: Op, phase: Phase) -> str:
    return f"op = {OP_CODE[op]} AND phase = {PHASE_CODE[phase]}"


_COURSE = f"""
WITH spans AS (
  SELECT trial, min(at_ns) AS began, greatest(max(at_ns) - min(at_ns), 1) AS span FROM {{events}} GROUP BY trial
),
messages AS (
  SELECT trial,
    min(coalesce(due_ns, at_ns)) FILTER (WHERE {_is(Op.SEND, Phase.INVOKE)}) AS due,
    min(at_ns) FILTER (WHERE {_is(Op.SEND, Phase.OK)}) AS answered,
    min(at_ns) FILTER (WHERE ({_is(Op.DELIVER, Phase.OK)}) OR ({_is(Op.DRAIN, Phase.OK)})) AS delivered
  FROM {{events}}
  WHERE n IS NOT NULL AND op IN ({OP_CODE[Op.SEND]}, {OP_CODE[Op.DELIVER]}, {OP_CODE[Op.DRAIN]})
  GROUP BY trial, producer, n
),
others AS (
  SELECT trial, at_ns, op, phase, last - first + 1 AS range,
    at_ns - lag(at_ns) OVER (PARTITION BY trial, process, op ORDER BY sequence) AS took
  FROM {{events}}
  WHERE op = {OP_CODE[Op.FAULT]} OR op = {OP_CODE[Op.BROKER]} AND detail IN ('start', 'restart')
    OR {_is(Op.SEND, Phase.OK)} AND n IS NULL AND first IS NOT NULL
),
moments AS (
  SELECT trial, inline(array(
    named_struct('at_ns', due, 'what', 'sent', 'messages', 1L, 'took', CAST(NULL AS BIGINT)),
    named_struct('at_ns', answered, 'what', 'confirmed', 'messages', 1L, 'took', answered - due),
    named_struct('at_ns', delivered, 'what', 'delivered', 'messages', 1L, 'took', CAST(NULL AS BIGINT))
  )) FROM messages
  UNION ALL
  SELECT trial, at_ns, CASE
    WHEN op = {OP_CODE[Op.SEND]} THEN 'confirmed'
    WHEN {_is(Op.FAULT, Phase.EFFECTIVE)} THEN 'began'
    WHEN {_is(Op.FAULT, Phase.HEALED)} OR {_is(Op.BROKER, Phase.OK)} THEN 'ended' END,
    coalesce(range, 0L), CASE WHEN op = {OP_CODE[Op.BROKER]} THEN took END FROM others
)
SELECT trial, CAST(least((at_ns - began) * {PARTS} DIV span, {PARTS - 1}) AS INT) AS part,
  max(span) AS span_ns,
  sum(messages) FILTER (WHERE what = 'sent') AS sent,
  sum(messages) FILTER (WHERE what = 'confirmed') AS confirmed,
  sum(messages) FILTER (WHERE what = 'delivered') AS delivered,
  percentile_approx(took, 0.5) FILTER (WHERE what = 'confirmed') AS median_ns,
  max(took) FILTER (WHERE what = 'confirmed') AS longest_ns,
  count_if(what = 'began') AS faults,
  max_by(what, at_ns) FILTER (WHERE what IN ('began', 'ended')) AS last,
  max(took) FILTER (WHERE what = 'ended') AS start_ns
FROM moments JOIN spans USING (trial) WHERE at_ns IS NOT NULL AND what IS NOT NULL GROUP BY 1, 2
"""


def courses(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return a row for each part of a trial in which something happened.

    Columns: trial, part (from 0), span_ns of the trial; the messages sent (at the intended time, if there is one),
    confirmed and delivered for the first time; the median and the longest time from the intended send to its answer;
    how many faults began, whether the last edge was one that `began` or one that `ended`, and the longest start of the
    broker that ended in it. Times are in nanoseconds, null where there is none.
    """
    events = spark.read.schema(SPARK_SCHEMA).parquet(*paths)
    return spark.sql(_COURSE, events=events.coalesce(1) if len(paths) <= FEW else events)


def from_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Course]:
    """Return the course of each trial."""
    of: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        of.setdefault(row["trial"], {})[row["part"]] = row
    return {trial: _course(trial, parts) for trial, parts in of.items()}


def _course(trial: str, parts: Mapping[int, Mapping[str, Any]]) -> Course:
    def each(name: str) -> list[int]:
        return [parts.get(part, {}).get(name) or 0 for part in range(PARTS)]

    def ms(name: str) -> tuple[float, ...]:
        return tuple(round(ns / 1e6, 3) for ns in each(name))

    return Course(
        trial=trial,
        seconds=round(max(each("span_ns")) / 1e9, 3),
        sent=tuple(each("sent")),
        confirmed=tuple(each("confirmed")),
        delivered=tuple(each("delivered")),
        median_ms=ms("median_ns"),
        longest_ms=ms("longest_ns"),
        down=_down(each("faults"), [parts.get(part, {}).get("last") for part in range(PARTS)]),
        faults=sum(each("faults")),
        starts_ms=tuple(filter(None, ms("start_ns"))),
    )


def _down(faults: Sequence[int], last: Sequence[str | None]) -> tuple[int, ...]:
    """Return 1 for each part from one with a fault to the next in which a fault ended or the broker was ready.

    >>> _down([0, 1, 0, 0, 1], [None, "began", None, "ended", "ended"])
    (0, 1, 1, 1, 1)
    """
    found, down = [], False
    for began, edge in zip(faults, last, strict=True):
        found.append(int(down or bool(began)))
        down = edge == "began" if edge else down
    return tuple(found)
