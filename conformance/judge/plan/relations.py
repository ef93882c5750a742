"""A plan: from events to one row a message, and from those to counts and witnesses.

Each stage is a table of names and SQL (`columns`), in the order in which they build on each other. `summary` runs
through them with one collect; a plan for many events scans twice. The plan has only the columns that the checks of
these trials need: a hundred unused expressions cost more than the events of a trial.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from conformance.history import Op
from conformance.judge.anomalies import ANOMALIES, EVERYWHERE, Anomaly
from conformance.judge.anomalies.fates import EXPLODED, PLACE, ROWS, SUMS, anomaly_of, is_fate
from conformance.judge.input.packing import OP_CODE, SPARK_SCHEMA
from conformance.judge.plan.columns import (
    COMPARED,
    DERIVED,
    EVENT,
    EVENT_WINDOWS,
    FACTS,
    FACTS_OF_TRIAL,
    MESSAGE,
    PACK,
    PART,
    PART_AGAIN,
    PART_KEYS,
    PART_WINDOWS,
    TRIAL_WINDOWS,
)
from conformance.judge.plan.exposures import EXPOSURES, ExposureRule
from conformance.judge.spark import read_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Check = tuple[str, str]
"""An anomaly and an exposure, by their names."""

FEW = 4
"""Up to so many trials stay in one partition: an exchange costs more than a second core saves (45 trials, 127,000
events, two cores: 1.4 s instead of 2.1 s; one trial: no gain)."""

MANY = 100_000
"""More events than these use every core, also if they are of few trials."""

CLASSES = 8
"""Hash classes of messages; the first offending message of each is a witness, without a sort."""

LOSS_WINDOWS_MS = (3, 10, 100)
"""For each fault the plan also says whether it surely shows a broker that stores so long after its answer."""

ALWAYS = ("phantom", "corrupt", "not_recovered", "not_alive")
"""Anomalies that every trial is checked for, and that prevent every HOLDS."""

_ASKED = {"confirmed_at": "sent_at", "committed_at": "commit_asked_at", "acked_at": "ack_sent_at"}
"""By the time of an answer, that of its request."""

TEXTS = ("not_recovered", "not_ready", "not_alive", "not_served")
"""Texts of a trial are group keys: all its rows have the same, and to aggregate a text would cost a sort."""

_KEYS = ("trial", "flush_ns", "queue", "producer", "n")
_PROCESS = ("trial", "process", "epoch", "period")
_WORD = re.compile(r"[a-z_]\w*")
_OP = re.compile(r"\bop = (\d+)")


EVERY: Sequence[Check] = (*((name, "sends") for name in ANOMALIES), *(("lost", name) for name in EXPOSURES))
"""All anomalies and exposures: for benchmarks, warm-up and tests."""


def checks(used: Iterable[Check]) -> tuple[tuple[Anomaly, ...], dict[str, ExposureRule]]:
    """Return the anomalies (with those `beside` them) and exposures of these checks, each once."""
    pairs = list(used)
    exposures = dict.fromkeys(exposure for _, exposure in pairs)
    anomalies = dict.fromkeys([*(anomaly for anomaly, _ in pairs), *ALWAYS])
    anomalies |= dict.fromkeys(ANOMALIES[name].beside for name in list(anomalies) if ANOMALIES[name].beside)
    return tuple(ANOMALIES[name] for name in anomalies), {name: EXPOSURES[name] for name in exposures}


def figure_column(anomaly: Anomaly, place: int) -> str:
    return f"figure_{anomaly.name}_{place}"


def _exposed(exposure: ExposureRule) -> str:
    within = f" AND {exposure.fault_at} - {exposure.since} <= flush_ns" if exposure.since else ""
    return f"is_message AND ({exposure.counts}){within}"


def _asked_within(exposure: ExposureRule, window_ms: int) -> str:
    """Whether the fault came so soon after the request that it came so soon after the answer too."""
    age = f"{exposure.fault_at} - {exposure.asked}"
    return f"is_message AND ({exposure.counts}) AND {age} <= {window_ms}000000L"


def _faults(period: str, condition: str) -> str:
    """Return an aggregate: the faults before which the condition is true of a message, one bit each."""
    return f"bit_or(CASE WHEN {condition} AND {period} < last_period THEN shiftleft(1L, {period}) ELSE 0L END)"


def within_column(exposure: str, window_ms: int) -> str:
    return f"met_{window_ms}_{exposure}"


def per_trial(anomalies: Sequence[Anomaly], exposures: Mapping[str, ExposureRule]) -> dict[str, str]:
    """Return the aggregates of one trial, over the rows with empty `failing`: every message has one of those."""
    found = {f"applies_{a.name}": f"count_if(is_message AND ({a.applies}))" for a in anomalies}
    found |= {f"exposed_{name}": f"count_if({_exposed(rule)})" for name, rule in exposures.items()}
    for name, rule in exposures.items():
        if rule.period:
            found[f"met_{name}"] = _faults(rule.period, _exposed(rule))
        if rule.since:
            found |= {within_column(name, ms): _faults(rule.period, _asked_within(rule, ms)) for ms in LOSS_WINDOWS_MS}
    if any(a.at_disk for a in anomalies):
        found["hidden_at_disk"] = "max(hidden)"
    for anomaly in anomalies:
        if anomaly.missed:
            found[f"missed_{anomaly.name}"] = f"count_if(is_message AND ({anomaly.missed}))"
        found |= {figure_column(anomaly, place): sql for place, (_, sql) in enumerate(anomaly.figures)}
        if anomaly.order:
            kept = f"FILTER (WHERE is_message AND ({anomaly.applies}) AND NOT ({anomaly.offends}))"
            found[f"kept_first_{anomaly.name}"] = f"min({anomaly.order}) {kept}"
            found[f"kept_last_{anomaly.name}"] = f"max({anomaly.order}) {kept}"
            if anomaly.order in _ASKED:
                found[f"kept_asked_{anomaly.name}"] = f"max({_ASKED[anomaly.order]}) {kept}"
    return found | {
        **SUMS,
        "all_confirmed": "count_if(is_message AND durable AND (confirmed OR committed))",
        "all_late": "count_if(is_message AND late)",
        "all_set_aside": "count_if(is_message AND set_aside)",
        "all_foreign": "sum(foreign_ids)",
        "trial_started_at": "min(started_at)",
        "trial_flush_ns": "max(flush_ns)",
        "lasted_ns": "max(ended_at - started_at)",
        "most_deliveries": "max(connections + last_drain + times_given_back)",
        "faults_effective": "max(effective)",
        "faults_joined": "max(joined)",
        "drains": "max(last_drain)",
        "was_settled": "max(settled)",
        "was_bringing": "max(still_brought)",
        "was_stuck": "max(stuck_at IS NOT NULL)",
    }


def _per_failure(anomalies: Sequence[Anomaly], exposures: Mapping[str, ExposureRule]) -> dict[str, str]:
    """Return the aggregates of each (trial, anomaly, hash class)."""
    faults = {f"offended_{rule.period}": _faults(rule.period, "true") for rule in exposures.values() if rule.period}
    orders = dict.fromkeys(anomaly.order for anomaly in anomalies if anomaly.order)
    ends = {f"{end}_{order}": f"{sql}({order})" for order in orders for end, sql in (("first", "min"), ("last", "max"))}
    return {"offences": "count(1)", "witness": f"min(producer * {PACK}L + n)", **faults, **ends}


def unpack(witness: int) -> tuple[int, int]:
    """Return producer and number of a packed witness.

    >>> unpack(1 * 10**12 + 137)
    (1, 137)
    """
    return divmod(witness, PACK)


def _exploded(anomalies: Sequence[Anomaly]) -> dict[str, str]:
    """Return columns that make a row for each anomaly that a message shows, and one with an empty `failing`.

    An anomaly that is a cell of the table is looked up: its `applies` only counts. What else it `offends` adds to that.
    """
    cells = {name: is_fate(name) for name in EVERYWHERE}
    own = [a for a in anomalies if a.offends != cells.get(a.name)]
    by_fate = anomaly_of(EVERYWHERE)
    more = {a.name: f"NOT {cells[a.name]} AND " if a.name in cells else "" for a in own}
    shown = ", ".join(
        f"CASE WHEN is_message AND {more[a.name]}({a.applies}) AND ({a.offends}) THEN '{a.name}' END" for a in own
    )
    return {
        **EXPLODED,
        "failing": f"explode(array_compact(array('', {shown}, CASE WHEN is_message THEN {by_fate} END)))",
        "class": f"CAST(pmod(hash(producer, n), {CLASSES}) AS INT)",
    }


def _stages(
    used: Iterable[Check], more: Iterable[str] = ()
) -> tuple[list[dict[str, str]], dict[str, str], dict[str, str]]:
    """Return the columns of each stage that these checks and `more` need, those of offences, and the aggregates."""
    anomalies, exposures = checks(used)
    exploded = _exploded(anomalies)
    counted = {**_per_failure(anomalies, exposures), **per_trial(anomalies, exposures)}
    of_event = {name: sql for name, (_, sql) in PART.items()}
    of_message = (MESSAGE, TRIAL_WINDOWS, DERIVED, {**ROWS, **COMPARED}, PLACE)
    stages = (EVENT, of_event, PART_WINDOWS, PART_AGAIN, EVENT_WINDOWS, *of_message)
    return _pruned(stages, [*PART_KEYS, *TEXTS, *exploded.values(), *counted.values(), *more]), exploded, counted


def wider_than_table(used: Iterable[Check]) -> frozenset[str]:
    """Return the anomalies of these checks that are cells of the table of fates, and offend by more than it says."""
    return frozenset(a for a, _ in used if a in EVERYWHERE and ANOMALIES[a].offends != is_fate(a))


def columns_of(used: Iterable[Check]) -> frozenset[str]:
    """Return the names of all columns and aggregates that the plan of these checks has: a measure of its cost."""
    stages, _, counted = _stages(used)
    return frozenset().union(*stages, counted)


def summary(spark: SparkSession, paths: Sequence[str], count: int, used: Iterable[Check]) -> DataFrame:
    """Count the anomalies of these checks in every trial, with witnesses, in one linear plan over `count` events.

    Columns: trial, queue, failing, class; then the aggregates of `per_trial` if `failing` is empty, else of a failure.
    """
    used = tuple(used)
    return count_anomalies(messages(spark, paths, count, used), used)


def count_anomalies(rows: DataFrame, used: Iterable[Check]) -> DataFrame:
    """Count the anomalies of these checks in the rows of messages that a plan of the same checks made."""
    _, exploded, aggregates = _stages(used)
    return _grouped(_with(rows, exploded), ("trial", *TEXTS, "queue", "failing", "class"), aggregates)


def messages(spark: SparkSession, paths: Sequence[str], count: int, used: Iterable[Check]) -> DataFrame:
    """Return a row for each message (`is_message`) with the columns of these checks, and rows of what is about none."""
    frame, few = read_parquet(spark, paths, SPARK_SCHEMA), len(paths) <= FEW and count <= MANY
    return messages_of(frame.coalesce(1) if few else frame, used, few=few)


def messages_of(events: DataFrame, used: Iterable[Check], more: Iterable[str] = (), *, few: bool) -> DataFrame:
    """Return the same for these events; `more` is SQL over the columns that the caller needs too.

    `few` says that all events of a trial are in one partition: windows find what each must know of the others.
    """
    event, *about, event_windows, message = (stages := _stages(used, more)[0])[:6]
    ops = _ops(event, message)
    known = [name for stage in about[1:] for name in stage if name in FACTS]
    named = _chosen(event, *about)
    if few:
        events = functools.reduce(_with, (named, *about), events)
        event = {name: sql for name, sql in event.items() if name not in named}
    else:
        facts = _facts(_with(events, named), *about).select(*_PROCESS, *known).distinct()
        events = events.join(facts.hint("broadcast"), list(_PROCESS))
    # A column that no window names is not carried through the sorts of the windows.
    early = _chosen(event, event_windows)
    late = {name: sql for name, sql in event.items() if name not in early}
    placed = _with(_with(_with(events, early), event_windows), late)
    keys = (*_KEYS, *(name for name in known if name in FACTS_OF_TRIAL))
    # What is about no message makes the row of its trial.
    named_in_a_row = placed.where(f"n IS NULL OR op IN ({', '.join(ops)})")
    return functools.reduce(_with, stages[6:], _grouped(named_in_a_row, keys, message))


def _ops(event: Mapping[str, str], message: Mapping[str, str]) -> list[str]:
    """Return the codes of the operations of which the row of a message says anything."""
    named = _words(message.values())
    return sorted({code for name, sql in event.items() if name in named for code in _OP.findall(sql)})


def _facts(events: DataFrame, part: Mapping[str, str], *windows: Mapping[str, str]) -> DataFrame:
    """Return a row for each part of a trial, with what its windows find in all parts: some dozens a trial.

    One task reads them, and every executor gets all of them.
    """
    put_together = {name: PART[name][0].format(sql) for name, sql in part.items()}
    return functools.reduce(_with, windows, _grouped(events, PART_KEYS, put_together).coalesce(1))


def _chosen(columns: Mapping[str, str], *stages: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that these stages name."""
    named = _words([*PART_KEYS, *(sql for stage in stages for sql in stage.values())])
    return {name: sql for name, sql in columns.items() if name in named}


def _pruned(stages: Sequence[Mapping[str, str]], finally_: Iterable[str]) -> list[dict[str, str]]:
    """Return each stage without the columns that no later stage names."""
    named = _words(finally_)
    kept: list[dict[str, str]] = []
    for stage in reversed(stages):
        kept.insert(0, {name: sql for name, sql in stage.items() if name in named})
        named |= _words(kept[0].values())
    return kept


def _words(expressions: Iterable[str]) -> set[str]:
    """Return every word of these expressions, among them the columns that they name."""
    return set().union(*map(_words_of, expressions))


@functools.cache
def _words_of(sql: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sql))


def _with(frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    return frame.selectExpr("*", *[f"{sql} AS {name}" for name, sql in columns.items()]) if columns else frame


def _grouped(frame: DataFrame, keys: Sequence[str], columns: Mapping[str, str]) -> DataFrame:
    # One text, not a list of Column objects: each of those is a dozen calls into the JVM, 0.1 s in all.
    by = ", ".join(keys)
    selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    return frame.sparkSession.sql(f"SELECT {by}, {selected} FROM {{frame}} GROUP BY {by}", frame=frame)


def timeline(spark: SparkSession, paths: Sequence[str], wanted: Sequence[tuple[str, int, int]]) -> DataFrame:
    """Return the events of the wanted messages `(trial, producer, n)`; faults, restarts and drains of their trials too.

    Columns: trial, producer, n, at_ns, process, sequence, op, phase, epoch, detail, fault, count, by time.
    """
    chosen = " OR ".join(f"(producer = {producer} AND n = {n})" for _, producer, n in wanted)
    always = f"op IN ({OP_CODE[Op.FAULT]}, {OP_CODE[Op.BROKER]}, {OP_CODE[Op.DRAIN]})"
    return (
        read_parquet(spark, paths, SPARK_SCHEMA)
        .where(f"({chosen}) OR {always}")
        .select(
            "trial", "producer", "n", "at_ns", "process", "sequence", "op", "phase", "epoch", "detail", "fault", "count"
        )
        .coalesce(1)
        .sortWithinPartitions("trial", "at_ns", "process", "sequence")
    )
