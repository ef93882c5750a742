"""Choose the scenarios of `--quick`: the ten strongest claims.

A claim is strong if its control is the same product, weakened, and stronger if the broker is also killed. A claim whose
control is a liar comes next. Claims that wait for the liveness bound or need the disk are left out. A scenario is
chosen by what it adds for the time that it costs: a claim that is decided already adds nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from conformance.claims import Catalogue
from conformance.run.planning.plan import Selection, wanted
from conformance.scenario import Check, Liar, Scenario, Weakened
from conformance.scenario.script import Ask, Consume, Drain, Kill, Offer, PowerLoss, Publish, Restart, singles

CLAIMS = 10
BUDGET_S = 40.0
"""For the trials of the broker. Starting, judging and reporting take the rest of the minute; liars run in parallel."""

_JAVA_START_S, _START_S = 1.4, 0.2
_STEP_S, _DRAIN_S = 0.15, 0.3
_KILLED, _STRONG, _LIAR = 20, 10, 1


def quick(selection: Selection, scenarios: Mapping[str, Scenario], catalogue: Catalogue) -> Selection:
    """Narrow the selection to at most ten claims in the scenarios that decide them fastest."""
    found: dict[str, dict[str, int]] = {}
    for item in scenarios.values():
        values = {
            claim: value
            for claim, check in wanted(item, selection).items()
            if catalogue.claims[claim].gets_verdict(selection.required)
            and (value := _value(item, claim, check, catalogue))
        }
        if values:
            found[item.id] = values
    cost = {name: _cost(scenarios[name], found[name], selection) for name in found}
    chosen: dict[str, int] = {}
    played: list[str] = []
    left = BUDGET_S
    while len(chosen) < CLAIMS:
        gains = {name: sum(value for claim, value in found[name].items() if claim not in chosen) for name in found}
        fitting = [name for name in found if name not in played and gains[name] and cost[name] <= left]
        if not fitting:
            break
        best = max(fitting, key=lambda name: gains[name] / cost[name])
        left -= cost[best]
        played.append(best)
        chosen |= {claim: max(value, chosen.get(claim, 0)) for claim, value in found[best].items()}
    claims = sorted(chosen, key=lambda claim: -chosen[claim])[:CLAIMS]
    return dataclasses.replace(
        selection,
        claims=[claim for claim in selection.claims if claim.id in claims],
        only=frozenset(played),
    )


def _value(item: Scenario, claim: str, check: Check, catalogue: Catalogue) -> int:
    if catalogue.claims[claim].needs:
        return 0
    if isinstance(check.control, Weakened):
        return _KILLED if isinstance(item.fault, Kill | PowerLoss) else _STRONG
    return _LIAR if isinstance(check.control, Liar) and not check.control.waits_for_liveness else 0


def _cost(item: Scenario, claims: Mapping[str, int], selection: Selection) -> float:
    """Estimate the seconds of its trials and of the weakened controls that these claims need."""
    start = _JAVA_START_S if selection.adapter.file.java else _START_S
    controls = {item.decides[claim].control for claim in claims}
    weak = sum(control.trials for control in controls if isinstance(control, Weakened))
    return (selection.trials + weak) * _trial(item, start) + (start if weak else 0.0)


def _trial(item: Scenario, start: float) -> float:
    """Estimate the seconds of one trial: starts of the broker, drains, and the work of clients."""
    seconds = 0.0
    for step in singles(item.steps):
        match step:
            case Restart():
                seconds += start
            case Drain():
                seconds += _DRAIN_S
            case Publish() | Consume() | Ask():
                seconds += _STEP_S
            case Offer():
                seconds += start * (len(step.settings) + 1)
    return seconds
