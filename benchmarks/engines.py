"""Count the same checks with the judge's plan in Spark, with DuckDB and with Polars.

DuckDB and Polars have the definitions of the judge, written again for each of them: the yardstick for the speed of the
plan, and a second opinion about its counts.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from benchmarks.histories import CHECKS, Counts
from conformance.history import DELAYED, Op, Phase
from conformance.judge.input.packing import OP_CODE, PHASE_CODE, ROLES, Compacted
from conformance.judge.spark import size_plans
from conformance.judge.verdict import collect_facts
from conformance.protocols.ties import CARRIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODES = {
    **{op.value: OP_CODE[op] for op in Op},
    **{phase.value: PHASE_CODE[phase] for phase in Phase},
    "drain_role": ROLES.index("drain"),
    "orchestrator_role": ROLES.index("orchestrator"),
    "carries_delivery": CARRIES.index("deliver"),
    "carries_acknowledge": CARRIES.index("acknowledge"),
    "delayed": DELAYED,
}
"""The parameters of SQL by name: every operation and phase; and some roles, kinds of frames and words."""

MEMORY = "8GB"
"""More than this DuckDB keeps on disk."""

DUCKDB = """
WITH e AS (
  SELECT trial, process, role, number, sequence, at_ns, op, phase, epoch, producer, n, txn, durable, detail, count,
    n IS NOT NULL AND op = $deliver AND phase = $ok AS handed,
    n IS NOT NULL AND op = $drain AND phase = $ok AS drained,
    (10000 * role::BIGINT + number) AS process_code
  FROM read_parquet($files)
),
about AS (
  SELECT trial,
    min(epoch) FILTER (role < $orchestrator_role AND epoch > 0) AS first_epoch,
    max(at_ns) FILTER (op = $fault AND phase = $fired) AS last_fault,
    coalesce(max(number) FILTER (role = $drain_role), 0) AS last_drain,
    arg_min(process, at_ns) FILTER (handed OR drained) AS first_process,
    coalesce(bit_or(1::BIGINT << number::BIGINT) FILTER (drained), 0) AS brought,
    coalesce(arg_max(count, at_ns) FILTER (op = $depth AND phase = $ok), 0) AS depth
  FROM e GROUP BY trial
),
ends AS (
  SELECT trial, bit_or(1::BIGINT << number::BIGINT) AS ended,
    coalesce(bit_or(1::BIGINT << number::BIGINT) FILTER (phase = $ok), 0) AS silent
  FROM e JOIN about USING (trial)
  WHERE op = $drain AND n IS NULL AND (phase = $ok OR phase = $info AND detail IS DISTINCT FROM $delayed)
    AND (last_fault IS NULL OR at_ns > last_fault)
  GROUP BY trial
),
trials AS (
  SELECT trial, first_epoch, first_process, depth, coalesce(silent, 0) AS silent,
    last_drain >= 2 AND coalesce(ended >> (last_drain - 1) & 3 = 3, false) AND brought >> last_drain & 1 = 0
      AS accounted,
    accounted AND silent >> last_drain & 1 = 1 AS settled
  FROM about LEFT JOIN ends USING (trial)
),
messages AS (
  SELECT trial, producer, n, any_value(first_epoch) AS first_epoch, any_value(silent) AS silent,
    any_value(accounted) AS accounted,
    bool_or(op = $send AND phase = $invoke) AS sent,
    bool_or(op = $send AND phase = $invoke AND durable IS TRUE) AS durable,
    bool_or(op = $send AND phase = $invoke AND txn IS NOT NULL) AS posted,
    bool_or(op = $send AND phase = $ok AND txn IS NULL) AS accepted,
    coalesce(arg_min(phase, at_ns) FILTER (op = $send AND phase IN ($ok, $fail)) = $fail, false) AS refused,
    bool_or(op = $commit AND phase = $ok) AS committed,
    bool_or(op = $nack AND phase = $invoke) AS given_back,
    bool_or(op = $drain AND phase = $info) AS set_aside,
    bool_or(op = $ack AND phase = $invoke) AS acked,
    bool_or(op = $ack AND phase = $invoke AND txn IS NOT NULL) AS acked_in_transaction,
    bool_or(op = $ack AND phase = $fail) AS ack_failed,
    min(at_ns) FILTER (op = $ack AND phase = $ok) AS acked_at,
    min(epoch) FILTER (op = $ack AND phase = $ok) AS ack_epoch,
    count_if(handed) AS handed,
    count_if(drained) AS drained,
    bit_count(bit_or(1::BIGINT << process_code % 63) FILTER (handed)) AS consumers,
    max(process_code) FILTER (handed) - min(process_code) FILTER (handed) AS apart,
    coalesce(bit_or(1::BIGINT << number::BIGINT) FILTER (drained), 0) AS drains,
    max(at_ns) FILTER (handed OR drained) AS last_at,
    max(at_ns) FILTER ((handed OR drained) AND epoch = first_epoch) AS early_at,
    max(epoch) FILTER (handed OR drained) AS last_epoch,
    min(sequence) FILTER ((handed OR drained) AND process = first_process) AS first_place,
    max(sequence) FILTER ((handed OR drained) AND process = first_process) AS last_place
  FROM e JOIN trials USING (trial) WHERE n IS NOT NULL GROUP BY trial, producer, n
),
waiting AS (
  SELECT trial, producer, n, depth,
    row_number() OVER (PARTITION BY trial ORDER BY handed, durable DESC, producer, n) AS place
  FROM messages JOIN (FROM trials SELECT trial, depth WHERE NOT settled AND depth > 0) USING (trial)
  WHERE NOT refused AND (accepted AND NOT posted OR committed AND posted)
    AND drained = 0 AND NOT acked AND NOT given_back AND NOT set_aside
),
judged AS (
  SELECT trial, producer, n,
    durable AND accepted AND NOT refused AND NOT posted AND accounted AND NOT set_aside AS applies_lost,
    handed + drained = 0 AND in_queue IS NULL AS offends_lost,
    handed + drained > 0 AND NOT given_back AND NOT acked_in_transaction AS applies_overtaken,
    min(first_place) OVER (PARTITION BY trial, producer ORDER BY n DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) < last_place AS offends_overtaken,
    applies_overtaken AND NOT ack_failed AS applies_delivered_twice,
    last_at > acked_at OR drained > bit_count(drains) OR handed > consumers AND apart < 63
      OR bit_count(drains) > 1 AND drains & -drains & silent <> 0 AS offends_delivered_twice,
    acked_at IS NOT NULL AS applies_delivered_after_acknowledgement,
    NOT ack_failed AND (accepted OR posted OR NOT refused)
      AND (ack_epoch = first_epoch AND early_at > acked_at OR ack_epoch = last_epoch AND last_at > acked_at)
      AS offends_delivered_after_acknowledgement
  FROM messages LEFT JOIN (FROM waiting SELECT trial, producer, n, true AS in_queue WHERE place <= depth)
    USING (trial, producer, n)
)
"""
"""Masks have one bit for each drain, by its number, as they are few."""


def spark_counts(spark: SparkSession, trials: Sequence[Compacted], *, in_buckets: bool = False) -> Counts:
    """Count with the plan of the judge; beside these checks it has those that every trial is checked for."""
    size_plans(spark, sum(trial.events for trial in trials))
    checks = [(check, "received") for check in CHECKS]
    facts = collect_facts(spark, trials, checks, 0 if in_buckets else sys.maxsize)
    return {
        (trial, check): (found.applies(check), found.offences(check))
        for trial, found in facts.items()
        for check in CHECKS
    }


def execute(query: str, files: Sequence[pathlib.Path]) -> list[Any]:
    """Return the rows of a query in DuckDB over `$files`; each other parameter is one of `CODES`."""
    known = {"files": [str(file) for file in files], **CODES}
    (statement,) = duckdb.extract_statements(query)
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(files[0].parent)}) as connection:
        return connection.execute(statement, {name: known[name] for name in statement.named_parameters}).fetchall()


def duckdb_counts(files: Sequence[pathlib.Path]) -> Counts:
    conditions = [f"applies_{check}{more}" for check in CHECKS for more in ("", f" AND offends_{check}")]
    counted = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
    return {
        (trial, check): (figures[2 * place], figures[2 * place + 1])
        for trial, *figures in execute(f"{DUCKDB} SELECT trial, {counted} FROM judged GROUP BY trial", files)
        for place, check in enumerate(CHECKS)
    }


def polars_counts(files: Sequence[pathlib.Path]) -> Counts:
    events = pl.scan_parquet([*files]).with_columns(
        handed=_on(Op.DELIVER, Phase.OK) & pl.col("n").is_not_null(),
        drained=_on(Op.DRAIN, Phase.OK) & pl.col("n").is_not_null(),
        process_code=10_000 * pl.col("role").cast(pl.Int64) + pl.col("number"),
        drain=_bit(pl.col("number")),
    )
    trials = _polars_trials(events)
    messages = _polars_messages(events.filter(pl.col("n").is_not_null()).join(trials, on="trial"))
    judged = _polars_judged(messages.join(trials, on="trial"))
    counted = judged.group_by("trial").agg(
        *(pl.col(f"applies_{check}").sum() for check in CHECKS),
        *(
            (pl.col(f"applies_{check}") & pl.col(f"offends_{check}")).sum().alias(f"offends_{check}")
            for check in CHECKS
        ),
    )
    return {
        (row["trial"], check): (row[f"applies_{check}"], row[f"offends_{check}"])
        for row in counted.collect(engine="streaming").iter_rows(named=True)
        for check in CHECKS
    }


_RECEIVED = pl.col("handed") | pl.col("drained")


def _on(op: Op, phase: Phase) -> pl.Expr:
    return (pl.col("op") == OP_CODE[op]) & (pl.col("phase") == PHASE_CODE[phase])


_OUTCOME = _on(Op.SEND, Phase.OK) | _on(Op.SEND, Phase.FAIL)
_FAILED = PHASE_CODE[Phase.FAIL]


def _bit(place: pl.Expr) -> pl.Expr:
    return pl.lit(2, pl.Int64).pow(place.cast(pl.Int64))


def _has(mask: str, place: pl.Expr) -> pl.Expr:
    return (pl.col(mask) & _bit(place)) != 0


def _polars_trials(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return a row for each trial: its first run of the broker, its first receiver, and what its drains say."""
    about = events.group_by("trial").agg(
        first_epoch=pl.col("epoch").filter(pl.col("role") < ROLES.index("orchestrator"), pl.col("epoch") > 0).min(),
        last_fault=pl.col("at_ns").filter(_on(Op.FAULT, Phase.FIRED)).max(),
        last_drain=pl.col("number").filter(pl.col("role") == ROLES.index("drain")).max().fill_null(0),
        brought=pl.col("drain").filter("drained").bitwise_or().fill_null(0),
    )
    receivers = events.filter(_RECEIVED).group_by("trial", "process_code").agg(pl.col("at_ns").min())
    first = receivers.sort("at_ns").group_by("trial").agg(first_receiver=pl.col("process_code").first())
    depths = events.filter(_on(Op.DEPTH, Phase.OK)).sort("at_ns").group_by("trial").agg(depth=pl.col("count").last())
    ended = _on(Op.DRAIN, Phase.OK) | (_on(Op.DRAIN, Phase.INFO) & pl.col("detail").ne_missing(DELAYED))
    ends = (
        events.filter(ended, pl.col("n").is_null())
        .join(about, on="trial")
        .filter(pl.col("last_fault").is_null() | (pl.col("at_ns") > pl.col("last_fault")))
        .group_by("trial")
        .agg(
            ended=pl.col("drain").bitwise_or(),
            silent=pl.col("drain").filter(pl.col("phase") == PHASE_CODE[Phase.OK]).bitwise_or(),
        )
    )
    last = pl.col("last_drain")
    accounted = (last >= 2) & _has("ended", last) & _has("ended", (last - 1).clip(0)) & ~_has("brought", last)
    return (
        about.join(first, on="trial", how="left")
        .join(depths, on="trial", how="left")
        .join(ends, on="trial", how="left")
        .with_columns(pl.col("ended", "silent", "depth").fill_null(0))
        .with_columns(accounted=accounted, settled=accounted & _has("silent", last))
        .select("trial", "first_epoch", "first_receiver", "depth", "silent", "accounted", "settled")
    )


def _polars_messages(events: pl.LazyFrame) -> pl.LazyFrame:
    """Return a row for each message: what was done to it."""
    in_transaction = pl.col("txn").is_not_null()
    at_first = _RECEIVED & (pl.col("process_code") == pl.col("first_receiver"))
    return events.group_by("trial", "producer", "n").agg(
        durable=(_on(Op.SEND, Phase.INVOKE) & pl.col("durable").fill_null(value=False)).any(),
        posted=(_on(Op.SEND, Phase.INVOKE) & in_transaction).any(),
        accepted=(_on(Op.SEND, Phase.OK) & ~in_transaction).any(),
        refused=(
            pl.col("phase").filter(_OUTCOME).sort_by(pl.col("at_ns").filter(_OUTCOME)).first() == _FAILED
        ).fill_null(value=False),
        committed=_on(Op.COMMIT, Phase.OK).any(),
        given_back=_on(Op.NACK, Phase.INVOKE).any(),
        set_aside=_on(Op.DRAIN, Phase.INFO).any(),
        acked=_on(Op.ACK, Phase.INVOKE).any(),
        acked_in_transaction=(_on(Op.ACK, Phase.INVOKE) & in_transaction).any(),
        ack_failed=_on(Op.ACK, Phase.FAIL).any(),
        acked_at=pl.col("at_ns").filter(_on(Op.ACK, Phase.OK)).min(),
        ack_epoch=pl.col("epoch").filter(_on(Op.ACK, Phase.OK)).min(),
        handed=pl.col("handed").sum(),
        drained=pl.col("drained").sum(),
        consumers=_bit(pl.col("process_code") % 63).filter("handed").bitwise_or().fill_null(0),
        apart=pl.col("process_code").filter("handed").max() - pl.col("process_code").filter("handed").min(),
        drains=pl.col("drain").filter("drained").bitwise_or().fill_null(0),
        last_at=pl.col("at_ns").filter(_RECEIVED).max(),
        early_at=pl.col("at_ns").filter(_RECEIVED & (pl.col("epoch") == pl.col("first_epoch"))).max(),
        last_epoch=pl.col("epoch").filter(_RECEIVED).max(),
        first_place=pl.col("sequence").filter(at_first).min(),
        last_place=pl.col("sequence").filter(at_first).max(),
    )


def _polars_judged(messages: pl.LazyFrame) -> pl.LazyFrame:
    """Return for each message and check whether it applies and offends."""
    col = pl.col
    confirmed = col("accepted") & ~col("posted") & ~col("refused")
    committed = col("committed") & col("posted") & ~col("refused")
    owed = (confirmed | committed) & (col("drained") == 0) & ~col("acked") & ~col("given_back") & ~col("set_aside")
    key = ("trial", "producer", "n")
    waiting = (
        messages.filter(owed, ~col("settled"), col("depth") > 0)
        .sort("trial", "handed", "durable", "producer", "n", descending=[False, False, True, False, False])
        .filter(col("n").cum_count().over("trial") <= col("depth"))
        .select(*key, in_queue=pl.lit(value=True))
    )
    drains = col("drains").bitwise_count_ones()
    first_drain = col("drains") & -col("drains")
    received = col("handed") + col("drained") > 0
    taken = received & ~col("given_back") & ~col("acked_in_transaction")
    return (
        messages.join(waiting, on=key, how="left")
        .sort(*key, descending=[False, False, True])
        .with_columns(later=col("first_place").cum_min().forward_fill().shift(1).over("trial", "producer"))
        .select(
            "trial",
            applies_lost=confirmed & col("durable") & col("accounted") & ~col("set_aside"),
            offends_lost=~received & col("in_queue").is_null(),
            applies_overtaken=taken,
            offends_overtaken=col("later") < col("last_place"),
            applies_delivered_twice=taken & ~col("ack_failed"),
            offends_delivered_twice=(col("last_at") > col("acked_at"))
            | (col("drained") > drains)
            | ((col("handed") > col("consumers").bitwise_count_ones()) & (col("apart") < 63))
            | ((drains > 1) & (first_drain & col("silent") != 0)),
            applies_delivered_after_acknowledgement=col("acked_at").is_not_null(),
            offends_delivered_after_acknowledgement=~col("ack_failed")
            & (col("accepted") | col("posted") | ~col("refused"))
            & (
                ((col("ack_epoch") == col("first_epoch")) & (col("early_at") > col("acked_at")))
                | ((col("ack_epoch") == col("last_epoch")) & (col("last_at") > col("acked_at")))
            ),
        )
    )
