"""The result of the plan as plain Python: a few numbers a trial, and a few witnesses an anomaly."""

from __future__ import annotations

import dataclasses
import functools
import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.claims import Value
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.plan.exposures import EXPOSURES
from conformance.judge.plan.relations import figure_column, unpack, within_column
from conformance.scenario.faults import FAULTS, Corrupt, CorruptReplica

WITNESSES = 8
"""At most so many witnesses of one anomaly in one trial."""

OF_BROKER = ("not_recovered", "not_alive", "not_served")
"""Anomalies of a whole trial: their texts are among the counts."""


@dataclasses.dataclass(frozen=True)
class Failing:
    """One anomaly in one trial: how many messages offend, and some of them as `(queue, producer, n)`.

    `first` and `last` are the ends of the offending messages in the anomaly's `order`, nanoseconds; None without one.
    `faults` are the faults that they came before, one bit each, by the column that says it (`ExposureRule.period`).
    """

    offences: int
    witnesses: tuple[tuple[str, int, int], ...]
    first: int | None
    last: int | None
    faults: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TrialFacts:
    """One trial in numbers. `counts` are the aggregates of `relations.per_trial`, `failing` the anomalies seen."""

    counts: Mapping[str, Any]
    failing: Mapping[str, Failing]

    @property
    def refused_damage(self) -> bool:
        """Whether the broker did not start from data that were damaged, and so has given nothing wrong away.

        No copy of several nodes can show that the data are the reason: that a node does not start is enough there.
        """
        ended = self.effective(Corrupt.name) and self.text_of("not_recovered")
        return bool(ended or (self.effective(CorruptReplica.name) and self.unready))

    @property
    def answer_to_damage(self) -> str:
        """What the broker did with damaged data: one of `rows.ANSWERS`."""
        seen = {
            "altered": self.offences("corrupt"),
            "silent": self.offences("lost_silently"),
            "refused": self.refused_damage,
            "unreadable": self.unready,
            "reported": self.counts["all_unexplained"],
        }
        return next((answer for answer, is_seen in seen.items() if is_seen), "whole")

    def applies(self, anomaly: str) -> int:
        """Return the messages that can show it: those that the plan counted, or else those that do show it."""
        return max(int(self.counts.get(f"applies_{anomaly}") or 0), self.offences(anomaly))

    def offences(self, anomaly: str) -> int:
        # A broker that did not start, or ended, before a message was sent leaves none to count.
        return self.failing[anomaly].offences if anomaly in self.failing else int(bool(self.text_of(anomaly)))

    def text_of(self, anomaly: str) -> str:
        """Return how the broker did what an anomaly of `OF_BROKER` says; empty if it did not, and for any other."""
        return (self.counts.get(anomaly) or "") if anomaly in OF_BROKER else ""

    def exposed(self, exposure: str) -> int:
        return int(self.counts[f"exposed_{exposure}"])

    def faults(self, anomaly: str, exposure: str) -> int:
        """Count the faults that met something at risk, or lost something; one at least if no moment is asked for."""
        least = int(self.offences(anomaly) > 0) if EXPOSURES[exposure].since else 1
        return max(self._met(anomaly, exposure).bit_count(), least)

    def faults_at_trigger(self, anomaly: str, exposure: str) -> int:
        """Count those of `faults` that came at the trigger of this trial, not of another one that shared its broker."""
        joined = int(self.counts.get("faults_joined") or 0)
        if not EXPOSURES[exposure].period or not joined:
            return self.faults(anomaly, exposure)
        return (self._met(anomaly, exposure) & ~joined).bit_count()

    def offended_faults(self, anomaly: str, exposure: str) -> int:
        """Count the faults after which the anomaly was seen: at least one if it was seen at all."""
        return max(1, self._offended(anomaly, exposure).bit_count()) if self.offences(anomaly) else 0

    def faults_within(self, exposure: str, window_ms: int) -> int:
        """Count the faults that met something at risk, at most `window_ms` after a request that was answered."""
        within = int(self.counts.get(within_column(exposure, window_ms)) or 0)
        return (within & self._at_risk(exposure)).bit_count()

    def _met(self, anomaly: str, exposure: str) -> int:
        """The faults that met something at risk, or lost something, one bit each."""
        return self._at_risk(exposure) | self._offended(anomaly, exposure)

    def _at_risk(self, exposure: str) -> int:
        return int(self.counts.get(f"met_{exposure}") or 0)

    def _offended(self, anomaly: str, exposure: str) -> int:
        found = self.failing.get(anomaly)
        return found.faults.get(EXPOSURES[exposure].period, 0) if found else 0

    def window_ns(self, exposure: str) -> int | None:
        """Return the flush interval that an exposure counts back from the fault; None if it counts everything."""
        return int(self.counts["trial_flush_ns"]) if EXPOSURES[exposure].since else None

    def missed(self, anomaly: str) -> int:
        """Count the messages that the anomaly could not decide, because their write was not seen."""
        return int(self.counts.get(f"missed_{anomaly}", 0))

    def figure(self, anomaly: str, place: int) -> float | None:
        found = self.counts.get(figure_column(ANOMALIES[anomaly], place))
        return None if found is None else float(found)

    def effective(self, fault: str) -> bool:
        return bool(int(self.counts["faults_effective"]) & effective_mask(fault))

    @property
    def hidden(self) -> str | None:
        """What the tracer could not see of the broker's disk operations; None if it saw everything."""
        found: str | None = self.counts.get("hidden_at_disk")
        return found

    @property
    def settled(self) -> bool:
        """Whether the last drain, one of two at least, brought nothing and found a depth of 0."""
        return bool(self.counts["was_settled"])

    @property
    def stuck(self) -> bool:
        """Whether a drain ended with a depth above zero."""
        return bool(self.counts["was_stuck"])

    def may_reach(self, policy: str, value: Value) -> bool:
        """Whether a message may have reached the measure of a policy; one without a measure may explain anything."""
        reached = {
            "message_ttl_ms": int(self.counts["lasted_ns"]) / 1e6,
            "max_delivery_attempts": int(self.counts["most_deliveries"]),
        }
        return policy not in reached or reached[policy] >= int(value)

    @property
    def ended(self) -> str:
        """How the broker ended, or dropped a connection, without a fault or a cause of this machine; else empty."""
        return self.text_of("not_alive")

    @property
    def unready(self) -> str:
        """Why the broker was not ready after a fault, with or without proof of its guilt; empty if it was ready."""
        return self.text_of("not_recovered") or self.counts.get("not_ready") or ""

    @property
    def strange(self) -> int:
        """The number of messages that no client sent, or that arrived altered."""
        return self.offences("phantom") + self.offences("corrupt") + int(self.counts["all_foreign"])

    def part(self, anomaly: str) -> str:
        """Return which part of the sequence offended: `all`, `prefix`, `middle`, `tail`; empty without an order."""
        found = self.failing.get(anomaly)
        if found is None or found.first is None or found.last is None:
            return ""
        kept_first, kept_last = (self.counts.get(f"kept_{end}_{anomaly}") for end in ("first", "last"))
        if kept_first is None or kept_last is None:
            return "all"
        if found.first > kept_last:
            return "tail"
        return "prefix" if found.last < kept_first else "middle"

    def lost_the_end(self, anomaly: str) -> bool:
        """Whether the newest answers offend, and not the oldest nor all: nothing that was asked for later is there."""
        found = self.failing.get(anomaly)
        first, asked = (self.counts.get(f"kept_{what}_{anomaly}") for what in ("first", "asked"))
        if found is None or found.first is None or first is None or asked is None:
            return False
        return bool(found.first > max(first, asked))


def effective_mask(*faults: str) -> int:
    places = [*FAULTS]
    return sum(1 << (places.index(fault) + 1) for fault in dict.fromkeys(faults))


def from_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, TrialFacts]:
    grouped: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        grouped.setdefault(row["trial"], {}).setdefault(row["failing"], []).append(row)
    return {
        trial: TrialFacts(
            _merged(parts.get("", [])),
            {name: _failing(name, found) for name, found in sorted(parts.items()) if name},
        )
        for trial, parts in grouped.items()
    }


def _merged(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the rows of one trial without anomaly, one per queue: add counts, take the least or greatest of others."""
    found: dict[str, Any] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows if row[name] is not None]
        if name.startswith(("applies_", "exposed_", "missed_", "all_")):
            found[name] = sum(values)
        elif name.startswith("met_"):
            found[name] = functools.reduce(operator.or_, values, 0)
        elif name.startswith("kept_first_") or name == "trial_started_at":
            found[name] = min(values, default=None)
        else:
            found[name] = max(values, default=None)
    return found


def _failing(anomaly: str, rows: Sequence[Mapping[str, Any]]) -> Failing:
    order = ANOMALIES[anomaly].order
    first = [row[f"first_{order}"] for row in rows if order and row.get(f"first_{order}") is not None]
    last = [row[f"last_{order}"] for row in rows if order and row.get(f"last_{order}") is not None]
    offended = [name for name in rows[0] if name.startswith("offended_")]
    faults = {
        name.removeprefix("offended_"): functools.reduce(operator.or_, (row[name] or 0 for row in rows))
        for name in offended
    }
    witnesses = sorted((*unpack(row["witness"]), row["queue"] or "") for row in rows)[:WITNESSES]
    return Failing(
        offences=sum(row["offences"] for row in rows),
        witnesses=tuple((queue, producer, n) for producer, n, queue in witnesses),
        first=min(first, default=None),
        last=max(last, default=None),
        faults=faults,
    )


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values)) if values else 0.0
