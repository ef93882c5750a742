"""The one plan: from events to one row a message, and from those to counts and witnesses.

Each stage is a table of names and SQL, in the order in which they build on each other; `summary` runs through them
with one scan and one collect. Columns of a message are the words that `anomalies` is written in.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from conformance.history import Op, Phase
from conformance.judge.anomalies import ANOMALIES, EXPOSURES, Exposure
from conformance.judge.compact import OP_CODE, PHASE_CODE, SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW = 4
"""Up to so many trials stay in one partition: an exchange costs more than a second core gives (45 trials, 127,000
events, two cores: 1.4 s instead of 2.1 s; one trial: nothing to win)."""

CLASSES = 8
"""Hash classes of messages; the first offending message of each is a witness, which needs no sort."""

NO_CONTROL_NS = 100_000_000
"""The loss window where no control showed one (design, "Words": exposure)."""

_SHIFT = 10**12  # a message as one number: producer * _SHIFT + n, so that min() of it needs no struct


def _on(op: Op, phase: Phase) -> str:
    return f"op = {OP_CODE[op]} AND phase = {PHASE_CODE[phase]}"


_HAS_ID = "(n IS NOT NULL OR foreign_id IS NOT NULL)"
_TRIAL = "OVER (PARTITION BY trial)"
_PROCESS = "OVER (PARTITION BY trial, process)"
_SO_FAR = "OVER (PARTITION BY trial, process ORDER BY sequence ROWS UNBOUNDED PRECEDING)"

EVENT: Mapping[str, str] = {
    "sent": _on(Op.SEND, Phase.INVOKE),
    "accepts": _on(Op.SEND, Phase.OK),
    "refuses": _on(Op.SEND, Phase.FAIL),
    "forgets": _on(Op.SEND, Phase.INFO),
    "hands": f"{_on(Op.DELIVER, Phase.OK)} AND {_HAS_ID}",
    "drains": f"{_on(Op.DRAIN, Phase.OK)} AND {_HAS_ID}",
    "silent": f"{_on(Op.DRAIN, Phase.OK)} AND NOT {_HAS_ID}",
    "stuck": f"{_on(Op.DRAIN, Phase.INFO)} AND NOT {_HAS_ID}",
    "acks": _on(Op.ACK, Phase.INVOKE),
    "ack_settled": _on(Op.ACK, Phase.OK),
    "processed": _on(Op.PROCESS, Phase.OK),
    "fires": _on(Op.FAULT, Phase.FIRED),
    "bites": _on(Op.FAULT, Phase.EFFECTIVE),
}
"""What an event is, as booleans."""

# One sort by (trial, process, sequence) serves all of them.
EVENT_WINDOWS: Mapping[str, str] = {
    # A running count, not a look at the event before: of ten deliveries in a row only the last shows the backlog.
    "holding": f"sum(CASE WHEN hands THEN 1 WHEN acks THEN -1 ELSE 0 END) {_SO_FAR}",
    "last_ack_at": f"max(CASE WHEN acks THEN at_ns END) {_PROCESS}",
    "fired_at": f"min(CASE WHEN fires THEN at_ns END) {_TRIAL}",
    "first_epoch": f"min(CASE WHEN role < 3 AND epoch > 0 THEN epoch END) {_TRIAL}",
}

_RECEIVED = "(hands OR drains)"
_EARLY = f"{_RECEIVED} AND epoch = first_epoch"
_CLAIM = f"{_EARLY} AND first_acquirer"
_FRESH = "hands AND (fired_at IS NULL OR at_ns <= fired_at)"
_REFUSED_AS = "refuses AND detail = "

MESSAGE: Mapping[str, str] = {
    "attempted": "bool_or(sent)",
    "durable": "bool_or(sent AND coalesce(durable, false))",
    "accepted": "bool_or(accepts)",
    "refused": "bool_or(refuses)",
    "confirmed_at": "min(at_ns) FILTER (WHERE accepts)",
    # A refusal without a word of its own is rejected: smallest counter-example to counting events instead, the same
    # outcome reported twice.
    "outcomes": "CAST(bool_or(accepts) AS INT)"
    " + CAST(bool_or(refuses AND coalesce(detail NOT IN ('released', 'modified'), true)) AS INT)"
    f" + CAST(bool_or({_REFUSED_AS}'released') AS INT) + CAST(bool_or({_REFUSED_AS}'modified') AS INT)",
    "overdue": "bool_or(forgets AND coalesce(detail = 'unanswered', false))",
    "disconnected": "bool_or(forgets AND coalesce(detail = 'disconnected', false))",
    "handed": "count_if(hands)",
    "handed_at": "min(at_ns) FILTER (WHERE hands)",
    "handed_after_acknowledge": "coalesce(bool_or(hands AND at_ns > last_ack_at), false)",
    "handed_before_acknowledge": "coalesce(bool_or(hands AND at_ns < last_ack_at), false)",
    "held": "max(holding) FILTER (WHERE hands)",
    "redelivered": "count_if(drains)",
    "redelivered_at": "min(at_ns) FILTER (WHERE drains)",
    # Only the drain after one more clean restart found it: the one before was not the end.
    "late": "coalesce(min(number) FILTER (WHERE drains) >= 2, false) AND bool_or(sent) AND NOT bool_or(acks)",
    "received": f"count_if({_RECEIVED})",
    "last_epoch": f"max(epoch) FILTER (WHERE {_RECEIVED})",
    "early_received_at": f"max(at_ns) FILTER (WHERE {_EARLY})",
    "fresh_at": f"min(at_ns) FILTER (WHERE {_FRESH})",
    "first_count": f"min_by(`count`, at_ns) FILTER (WHERE {_FRESH})",
    "first_link": f"min_by(link, at_ns) FILTER (WHERE {_EARLY})",
    "links_differ": f"min(link) FILTER (WHERE {_EARLY}) <> max(link) FILTER (WHERE {_EARLY})",
    "claims": f"count_if({_CLAIM})",
    "claim_link": f"min(link) FILTER (WHERE {_CLAIM})",
    "claim_links_differ": f"min(link) FILTER (WHERE {_CLAIM}) <> max(link) FILTER (WHERE {_CLAIM})",
    "processed_at": "min(at_ns) FILTER (WHERE processed)",
    "ack_sent_at": "min(at_ns) FILTER (WHERE acks)",
    "acked_at": "min(at_ns) FILTER (WHERE ack_settled)",
    "ack_epoch": "min(epoch) FILTER (WHERE ack_settled)",
    "altered": f"bool_or({_RECEIVED} AND NOT coalesce(intact, true))",
    "first_epoch": "max(first_epoch)",
    "fired_at": "max(fired_at)",
    # What belongs to the trial; it stands in the row of the events that name no message.
    "foreign_ids": f"count_if({_RECEIVED} AND foreign_id IS NOT NULL)",
    "events": "count(1)",
    "started_at": "min(at_ns)",
    "row_bites": "bool_or(bites)",
    "row_silent": "bit_or(CASE WHEN silent AND (fired_at IS NULL OR at_ns > fired_at)"
    " THEN shiftleft(1L, CAST(number AS INT)) ELSE 0L END)",
    "row_stuck_at": "min(at_ns) FILTER (WHERE stuck)",
    "row_drain": "max(CAST(number AS INT)) FILTER (WHERE role = 2)",
    "row_left": f"max_by(`count`, at_ns) FILTER (WHERE {_on(Op.DEPTH, Phase.OK)})",
}
"""One row a message: how it fared. Times are CLOCK_MONOTONIC nanoseconds, null where it did not happen."""

_IN_TRIAL = "OVER (PARTITION BY scenario, trial)"
TRIAL_WINDOWS: Mapping[str, str] = {
    "effective": f"max(row_bites) {_IN_TRIAL}",
    "silent_mask": f"bit_or(row_silent) {_IN_TRIAL}",
    "stuck_at": f"min(row_stuck_at) {_IN_TRIAL}",
    "last_drain": f"coalesce(max(row_drain) {_IN_TRIAL}, 0)",
    "left_over": f"max(row_left) {_IN_TRIAL}",
    "any_late": f"max(late) {_IN_TRIAL}",
}
# The last two drains found silence, and with it the broker's own depth of 0.
_DRAINED = "(last_drain >= 2 AND (shiftright(silent_mask, last_drain - 1) & 3L) = 3L)"

DERIVED: Mapping[str, str] = {
    "is_message": "n IS NOT NULL",
    "answered": "accepted OR refused",
    "unanswered": "attempted AND NOT (accepted OR refused)",
    "confirmed": "accepted AND NOT refused",
    "silent_drains": "bit_count(silent_mask)",
    "drained": _DRAINED,
    # Smallest counter-example to `drained` alone: the second drain brings one more of three missing messages; the
    # other two may come in a third.
    "settled": f"{_DRAINED} AND NOT any_late",
}


def window_column(exposure: Exposure) -> str:
    """The name of the column that holds the loss window of an exposure, in nanoseconds."""
    return f"window_{exposure.name}"


def _windows() -> dict[str, str]:
    """How long before the fault the strong control of the same scenario shows things to be at risk."""
    found = {}
    for exposure in EXPOSURES.values():
        if exposure.window:
            shown = ANOMALIES[exposure.window]
            at_risk = f"strong AND effective AND is_message AND ({shown.applies}) AND ({shown.offends})"
            longest = f"max(CASE WHEN {at_risk} THEN fired_at - {exposure.since} END) OVER (PARTITION BY scenario)"
            found[window_column(exposure)] = f"greatest(0L, coalesce({longest}, {NO_CONTROL_NS}L))"
    return found


def _exposed(exposure: Exposure) -> str:
    if not exposure.window:
        return f"is_message AND ({exposure.counts})"
    return f"is_message AND ({exposure.counts}) AND fired_at - {exposure.since} <= {window_column(exposure)}"


def _per_trial() -> dict[str, str]:
    """What is counted once a trial, in the rows where `failing` is empty: every message has one of those."""
    found = {f"applies_{a.name}": f"count_if(is_message AND ({a.applies}))" for a in ANOMALIES.values()}
    found |= {f"exposed_{e.name}": f"count_if({_exposed(e)})" for e in EXPOSURES.values()}
    found |= {window_column(e): f"max({window_column(e)})" for e in EXPOSURES.values() if e.window}
    for anomaly in ANOMALIES.values():
        if anomaly.order:
            kept = f"FILTER (WHERE is_message AND ({anomaly.applies}) AND NOT ({anomaly.offends}))"
            found[f"kept_first_{anomaly.name}"] = f"min({anomaly.order}) {kept}"
            found[f"kept_last_{anomaly.name}"] = f"max({anomaly.order}) {kept}"
    return found | {
        "all_events": "sum(events)",
        "all_confirmed": "count_if(is_message AND confirmed AND durable)",
        "all_late": "count_if(is_message AND late)",
        "all_foreign": "sum(foreign_ids)",
        "trial_started_at": "min(started_at)",
        "fault_effective": "max(effective)",
        "was_drained": "max(drained)",
        "was_settled": "max(settled)",
        "was_stuck": "max(stuck_at IS NOT NULL)",
        "depth_left": "max(left_over)",
    }


PER_TRIAL = _per_trial()

PER_FAILURE: Mapping[str, str] = {
    "offences": "count(1)",
    "witness": f"min(producer * {_SHIFT}L + n)",
    "first_confirmed_at": "min(confirmed_at)",
    "last_confirmed_at": "max(confirmed_at)",
    "first_handed_at": "min(handed_at)",
    "last_handed_at": "max(handed_at)",
}
"""What is counted for each (trial, anomaly, hash class)."""


def unpacked(witness: int) -> tuple[int, int]:
    """Producer and number of a packed witness.

    >>> unpacked(1 * 10**12 + 137)
    (1, 137)
    """
    return divmod(witness, _SHIFT)


def events(spark: SparkSession, paths: Sequence[str], trials: int) -> DataFrame:
    """The events of all files, placed so that no window and no message spans two partitions."""
    frame = spark.read.schema(SPARK_SCHEMA).parquet(*paths)
    if trials <= FEW:
        return frame.coalesce(1)
    return frame.repartition(int(spark.conf.get("spark.sql.shuffle.partitions") or 2), "trial")


def _failing() -> str:
    """One element per anomaly that a message shows, and an empty one for every row."""
    found = ", ".join(
        f"CASE WHEN is_message AND ({a.applies}) AND ({a.offends}) THEN '{a.name}' END" for a in ANOMALIES.values()
    )
    return f"explode(array_compact(array('', {found})))"


EXPLODED: Mapping[str, str] = {"failing": _failing(), "class": f"CAST(pmod(hash(producer, n), {CLASSES}) AS INT)"}


def messages(frame: DataFrame) -> DataFrame:
    """One row a message (and one a trial for the events that name none): keys, `MESSAGE` and the stages after it."""
    keys = ("scenario", "trial", "strong", "queue", "producer", "n")
    placed = _with(_with(frame, EVENT), EVENT_WINDOWS)
    return functools.reduce(_with, (TRIAL_WINDOWS, DERIVED, _windows()), _grouped(placed, keys, MESSAGE))


def summary(spark: SparkSession, paths: Sequence[str], trials: int) -> DataFrame:
    """Counts and witnesses of every anomaly in every trial, in one linear plan.

    Columns: trial, queue, failing, class; where `failing` is empty those of `PER_TRIAL`, else those of `PER_FAILURE`.
    """
    exploded = _with(messages(events(spark, paths, trials)), EXPLODED)
    return _grouped(exploded, ("trial", "queue", "failing", "class"), {**PER_FAILURE, **PER_TRIAL})


def _with(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    return frame.selectExpr("*", *[f"{sql} AS {name}" for name, sql in columns.items()])


def _grouped(frame: DataFrame, keys: Sequence[str], columns: Mapping[str, str]) -> DataFrame:
    # As one text, not as a list of Column objects: each of those is a dozen calls into the JVM, 0.1 s in all.
    by = ", ".join(keys)
    selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    return frame.sparkSession.sql(f"SELECT {by}, {selected} FROM {{frame}} GROUP BY {by}", frame=frame)


def timeline(spark: SparkSession, paths: Sequence[str], wanted: Sequence[tuple[str, int, int]]) -> DataFrame:
    """The events of the wanted messages `(trial, producer, n)`, and the faults and restarts of their trials.

    Columns: trial, producer, n, at_ns, process, sequence, op, phase, epoch, detail, fault, count, by time.
    """
    chosen = " OR ".join(f"(producer = {producer} AND n = {n})" for _, producer, n in wanted)
    always = f"op IN ({OP_CODE[Op.FAULT]}, {OP_CODE[Op.BROKER]})"
    return (
        spark.read.schema(SPARK_SCHEMA)
        .parquet(*paths)
        .where(f"({chosen}) OR {always}")
        .select(
            "trial", "producer", "n", "at_ns", "process", "sequence", "op", "phase", "epoch", "detail", "fault", "count"
        )
        .coalesce(1)
        .sortWithinPartitions("trial", "at_ns", "process", "sequence")
    )
