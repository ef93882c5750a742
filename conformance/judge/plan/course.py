"""The course of each trial, for a picture: what happened in each of `PARTS` equal parts of its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from conformance.history import Op, Phase
from conformance.judge.input.packing import OP_CODE, PHASE_CODE, ROLES, SPARK_SCHEMA
from conformance.judge.plan.relations import FEW
from conformance.judge.rows import ANSWER, DELIVERY, STEPS, Course, Histogram
from conformance.judge.spark import read_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 50
"""So many parts has a trial: more than a reader tells apart, and few enough for a report over hundreds of trials."""


def _is(op: Op, phase: Phase) -> str:
    return f"op = {OP_CODE[op]} AND phase = {PHASE_CODE[phase]}"


_ATTACHES = f"role = {ROLES.index('consumer')} AND {_is(Op.CONNECT, Phase.OK)}"
_COMMITS = f"role = {ROLES.index('publisher')} AND {_is(Op.COMMIT, Phase.OK)}"
_CONSUMED = f"role = {ROLES.index('consumer')} AND {_is(Op.DELIVER, Phase.OK)}"
# How many bits follow the 5 highest of a time; the bucket is made of both (`Histogram`).
_SHIFT = "greatest(length(bin(took)) - 5, 0)"
_BUCKET = f"{STEPS} * {_SHIFT} + shiftright(took, {_SHIFT})"

_COURSE = f"""
WITH spans AS (
  SELECT trial, min(at_ns) AS began, greatest(max(at_ns) - min(at_ns), 1) AS span,
    collect_list(struct(number, at_ns)) FILTER (WHERE {_ATTACHES}) AS attached
  FROM {{events}} GROUP BY trial
),
messages AS (
  SELECT trial,
    min(coalesce(due_ns, at_ns)) FILTER (WHERE {_is(Op.SEND, Phase.INVOKE)}) AS due,
    count(due_ns) > 0 AS paced,
    min(at_ns) FILTER (WHERE {_is(Op.SEND, Phase.OK)} AND txn IS NULL OR {_COMMITS}) AS answered,
    min(at_ns) FILTER (WHERE ({_is(Op.DELIVER, Phase.OK)}) OR ({_is(Op.DRAIN, Phase.OK)})) AS delivered,
    min(at_ns) FILTER (WHERE {_CONSUMED}) AS consumed,
    min_by(number, at_ns) FILTER (WHERE {_CONSUMED}) AS consumer
  FROM {{events}}
  WHERE n IS NOT NULL AND op IN ({", ".join(str(OP_CODE[op]) for op in (Op.SEND, Op.COMMIT, Op.DELIVER, Op.DRAIN))})
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
  SELECT trial, due, paced, consumer, inline(array(
    named_struct('at_ns', due, 'what', 'sent', 'messages', 1L, 'took', CAST(NULL AS BIGINT)),
    named_struct('at_ns', answered, 'what', 'confirmed', 'messages', 1L, 'took', answered - due),
    named_struct('at_ns', delivered, 'what', 'delivered', 'messages', 1L, 'took', CAST(NULL AS BIGINT)),
    named_struct('at_ns', answered, 'what', '{ANSWER}', 'messages', 1L, 'took', answered - due),
    named_struct('at_ns', consumed, 'what', '{DELIVERY}', 'messages', 1L, 'took', consumed - due)
  )) FROM messages
  UNION ALL
  SELECT trial, NULL, NULL, NULL, at_ns, CASE
    WHEN op = {OP_CODE[Op.SEND]} THEN 'confirmed'
    WHEN {_is(Op.FAULT, Phase.EFFECTIVE)} THEN 'began'
    WHEN {_is(Op.FAULT, Phase.HEALED)} OR {_is(Op.BROKER, Phase.OK)} THEN 'ended' END,
    coalesce(range, 0L), CASE WHEN op = {OP_CODE[Op.BROKER]} THEN took END FROM others
),
placed AS (
  SELECT *, what IN ('{ANSWER}', '{DELIVERY}') AS timed, CASE WHEN what = '{DELIVERY}' THEN
    coalesce(array_max(transform(filter(attached, a -> a.number = consumer AND a.at_ns <= moments.at_ns),
      a -> a.at_ns)), due) ELSE due END AS since
  FROM moments JOIN spans USING (trial) WHERE at_ns IS NOT NULL AND what IS NOT NULL
    AND (due IS NOT NULL OR what NOT IN ('{ANSWER}', '{DELIVERY}')) -- what was never sent has no time
)
SELECT trial,
  CASE WHEN NOT timed THEN CAST(least((at_ns - began) * {PARTS} DIV span, {PARTS - 1}) AS INT) END AS part,
  CASE WHEN timed THEN what END AS of,
  timed AND paced AS paced,
  CASE WHEN timed AND since <= due THEN {_BUCKET} END AS bucket,
  max(span) AS span_ns,
  sum(messages) AS messages,
  max(took) FILTER (WHERE since <= due) AS took_ns,
  min(greatest(due, since)) AS since_ns,
  max(at_ns) AS until_ns,
  sum(messages) FILTER (WHERE what = 'sent') AS sent,
  sum(messages) FILTER (WHERE what = 'confirmed') AS confirmed,
  sum(messages) FILTER (WHERE what = 'delivered') AS delivered,
  percentile_approx(took, 0.5) FILTER (WHERE what = 'confirmed') AS median_ns,
  max(took) FILTER (WHERE what = 'confirmed') AS longest_ns,
  count_if(what = 'began') AS faults,
  max_by(what, at_ns) FILTER (WHERE what IN ('began', 'ended')) AS last,
  max(took) FILTER (WHERE what = 'ended') AS start_ns
FROM placed GROUP BY 1, 2, 3, 4, 5
"""


def courses(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the courses of the trials in these files (`courses_of`)."""
    events = read_parquet(spark, paths, SPARK_SCHEMA)
    return courses_of(events.coalesce(1) if len(paths) <= FEW else events)


def courses_of(events: DataFrame) -> DataFrame:
    """Return a row for each part of a trial in which something happened, and one for each bucket of its histograms.

    Columns of a part: trial, part (from 0), span_ns of the trial; the messages sent (at the intended time, if there is
    one), confirmed and delivered for the first time; the median and the longest time from the intended send to its
    answer; how many faults began, whether the last edge was one that `began` or one that `ended`, and the longest start
    of the broker that ended in it. Columns of a bucket: trial, of, paced, bucket (`Histogram`), its messages, the
    longest of their times, when the first was due and when the last came. Times are in nanoseconds, null where there
    is none.
    """
    return events.sparkSession.sql(_COURSE, events=events)


def from_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, Course]:
    """Return the course of each trial."""
    of: dict[str, tuple[dict[int, Mapping[str, Any]], list[Mapping[str, Any]]]] = {}
    for row in rows:
        parts, buckets = of.setdefault(row["trial"], ({}, []))
        if row["part"] is None:
            buckets.append(row)
        else:
            parts[row["part"]] = row
    return {
        trial: msgspec.structs.replace(_course(trial, parts), times=_histograms(buckets))
        for trial, (parts, buckets) in of.items()
    }


def _histograms(buckets: Iterable[Mapping[str, Any]]) -> tuple[Histogram, ...]:
    kinds: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for row in buckets:
        kinds.setdefault((row["of"], row["paced"]), []).append(row)
    return tuple(
        Histogram(
            of=of,
            paced=paced,
            messages=sum(row["messages"] for row in rows),
            seconds=round((max(row["until_ns"] for row in rows) - min(row["since_ns"] for row in rows)) / 1e9, 6),
            longest_ms=max(row["took_ns"] or 0 for row in rows) / 1e6,
            counts=dict(sorted((row["bucket"], row["messages"]) for row in rows if row["bucket"] is not None)),
        )
        for (of, paced), rows in sorted(kinds.items())
    )


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
