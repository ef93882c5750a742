"""List the anomalies of single trials for a replay or a bundle, independent of the verdict; compare two recordings."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from conformance.errors import HistoryError
from conformance.history import message_id
from conformance.judge.anomalies import ANOMALIES, EVERYWHERE
from conformance.judge.input.packing import compact_all
from conformance.judge.plan.facts import TrialFacts
from conformance.judge.plan.relations import ALWAYS
from conformance.judge.spark import JudgeSession
from conformance.judge.verdict import collect_facts
from conformance.records import TrialRecord
from conformance.scenario import Scenario

SHOWN = 5
"""How many messages one line names."""


@dataclasses.dataclass(frozen=True)
class TrialAnomaly:
    """One anomaly in one trial: offences, messages that it applied to, and some of the offending messages.

    `words` say how a broker did not start again; empty for other anomalies.
    """

    anomaly: str
    count: int
    applies: int
    messages: tuple[str, ...]
    words: str = ""

    @property
    def figures(self) -> str:
        """Return `57 of 237 confirmed messages lost`, or `words`."""
        if self.words:
            return self.words
        return f"{self.count:,} of {self.applies:,} {ANOMALIES[self.anomaly].words}"


def offences(
    folder: pathlib.Path, trials: Iterable[TrialRecord], script: Scenario, session: JudgeSession
) -> dict[str, dict[str, TrialAnomaly]]:
    """Return the anomalies of the scenario's checks and of every trial, by trial and name; a void trial has none.

    Raises:
        HistoryError: The folder of the run is not writable: each history is packed beside itself.
        JudgeError: Spark could not run the plan.
    """
    used = [(check.anomaly, check.exposure) for check in script.decides.values()]
    places = [(folder / "trials" / record.trial, record) for record in trials]
    try:
        compacted = compact_all([(place, record) for place, record in places if place.is_dir()])
    except OSError as error:
        raise HistoryError(f"{folder}: its trials cannot be compacted for the judge: {error}") from error
    names = list(dict.fromkeys([*(anomaly for anomaly, _ in used), *ALWAYS, *EVERYWHERE]))
    found = collect_facts(session.spark, compacted, used)
    return {trial: {name: _seen(name, facts) for name in names} for trial, facts in found.items()}


def _seen(anomaly: str, facts: TrialFacts) -> TrialAnomaly:
    failing = facts.failing.get(anomaly)
    messages = tuple(message_id(producer, n) for _, producer, n in failing.witnesses) if failing else ()
    return TrialAnomaly(anomaly, facts.offences(anomaly), facts.applies(anomaly), messages, facts.text_of(anomaly))


def compare(
    checks: Mapping[str, Sequence[str]], then: Mapping[str, TrialAnomaly], now: Sequence[Mapping[str, TrialAnomaly]]
) -> tuple[list[str], bool]:
    """Return a line for each anomaly of either recording, and whether each of the first is in all of the new ones."""
    lines, again = [], bool(now)
    for name, names in checks.items():
        before = then.get(name)
        each = [found[name] for found in now if found[name].count]
        if before is not None and before.count:
            again = again and len(each) == len(now)
            shown = f"seen again in {len(each)} of {len(now)}: {_messages(each[0])}" if each else ""
            lines.append(f"{', '.join(names)}: {shown or f'not seen again in {len(now)}; before: {before.figures}'}")
        elif each:
            lines.append(f"{', '.join(names)}: new, seen in {len(each)} of {len(now)}: {_messages(each[0])}")
    if not lines:
        lines.append("no anomaly in the first recording, and none in the new one")
    return lines, again and any(then[name].count for name in checks if name in then)


def _messages(seen: TrialAnomaly) -> str:
    if seen.words:
        return seen.words
    more = f" and {seen.count - SHOWN:,} more" if seen.count > SHOWN else ""
    return f"{', '.join(seen.messages[:SHOWN])}{more} ({seen.figures})"
