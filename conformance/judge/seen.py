"""What offends in single trials, whatever becomes of it in a verdict: for a replay, and for a bundle."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable

from conformance.errors import HistoryError
from conformance.history import message_id
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.compact import compact_all
from conformance.judge.facts import TrialFacts
from conformance.judge.session import Session
from conformance.judge.verdict import collect_facts
from conformance.records import TrialRecord
from conformance.scenario import Scenario


@dataclasses.dataclass(frozen=True)
class Seen:
    """One anomaly in one trial: how often, out of how many it applied to, and some of the messages."""

    anomaly: str
    count: int
    applies: int
    messages: tuple[str, ...]

    @property
    def figures(self) -> str:
        """`57 of 237 confirmed messages lost`."""
        anomaly = ANOMALIES[self.anomaly]
        return f"{self.count:,} of {self.applies:,} {anomaly.of} {anomaly.happened}"


def offences(
    folder: pathlib.Path, trials: Iterable[TrialRecord], script: Scenario, session: Session
) -> dict[str, dict[str, Seen]]:
    """The anomalies of the scenario's checks, by trial and name; a void trial has none.

    Raises:
        HistoryError: The folder of the run cannot be written to: histories are compacted beside themselves.
        JudgeError: Spark could not run the plan.
    """
    used = [(check.anomaly, check.exposure) for check in script.decides.values()]
    places = [(folder / "trials" / record.trial, record) for record in trials]
    try:
        compacted = compact_all([(place, record) for place, record in places if place.is_dir()])
    except OSError as error:
        raise HistoryError(f"{folder}: its trials cannot be compacted for the judge: {error}") from error
    names = list(dict.fromkeys(anomaly for anomaly, _ in used))
    found = collect_facts(session.spark, compacted, used)
    return {trial: {name: _seen(name, facts) for name in names} for trial, facts in found.items()}


def _seen(anomaly: str, facts: TrialFacts) -> Seen:
    failing = facts.failing.get(anomaly)
    messages = tuple(message_id(producer, n) for _, producer, n in failing.witnesses) if failing else ()
    return Seen(anomaly, facts.offences(anomaly), facts.applies(anomaly), messages)
