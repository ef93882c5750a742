"""The ten strongest claims within a minute: which scenarios `--quick` plays, and for which of their claims.

Strong is a claim whose control is the same product, weakened; then one whose control is a liar. What must wait for the
liveness bound, or needs the disk, is left out. Scenarios are taken by what they decide for the time that they cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from conformance.claims import Catalogue
from conformance.run.plan import Selection, wanted
from conformance.scenario import Check, Consume, Drain, Liar, Publish, Restart, Scenario, Weakened

CLAIMS = 10
BUDGET_S = 40.0
"""For trials alone; starting, judging and reporting take the rest of the minute."""

_JAVA_START_S, _START_S = 1.8, 0.4
_STEP_S, _DRAIN_S = 0.3, 0.4
_STRONG, _LIAR = 3, 1


def quick(selection: Selection, scenarios: Mapping[str, Scenario], catalogue: Catalogue) -> Selection:
    """The selection narrowed to at most ten claims in the scenarios that decide them fastest."""
    found: dict[str, dict[str, int]] = {}
    for item in scenarios.values():
        values = {
            claim: value
            for claim, check in wanted(item, selection).items()
            if (value := _value(claim, check, catalogue))
        }
        if values:
            found[item.id] = values
    ranked = sorted(found, key=lambda name: -sum(found[name].values()) / _cost(scenarios[name], found[name], selection))
    chosen: dict[str, int] = {}
    played: list[str] = []
    left = BUDGET_S
    for name in ranked:
        cost = _cost(scenarios[name], found[name], selection)
        if cost <= left and len(chosen) < CLAIMS:
            left -= cost
            played.append(name)
            chosen |= {claim: max(value, chosen.get(claim, 0)) for claim, value in found[name].items()}
    claims = sorted(chosen, key=lambda claim: -chosen[claim])[:CLAIMS]
    return dataclasses.replace(
        selection,
        claims=[claim for claim in selection.claims if claim.id in claims],
        only=frozenset(played),
    )


def _value(claim: str, check: Check, catalogue: Catalogue) -> int:
    if catalogue.claims[claim].needs:
        return 0
    if isinstance(check.control, Weakened):
        return _STRONG
    return _LIAR if isinstance(check.control, Liar) and not check.control.patient else 0


def _cost(item: Scenario, claims: Mapping[str, int], selection: Selection) -> float:
    """Seconds of its trials and of those of the controls that these claims need."""
    start = _JAVA_START_S if selection.adapter.file.java else _START_S
    controls = {item.decides[claim].control for claim in claims}
    seconds = selection.trials * _trial(item, start)
    for control in controls:
        assert control is not None
        strong = isinstance(control, Weakened)
        seconds += control.trials * _trial(item, start if strong else _START_S) + (start if strong else _START_S)
    return seconds


def _trial(item: Scenario, start: float) -> float:
    """Seconds of one trial: starts of the broker, drains until silence, and the work of clients."""
    seconds = 0.0
    for step in item.steps:
        match step:
            case Restart():
                seconds += start
            case Drain():
                seconds += _DRAIN_S
            case Publish() | Consume():
                seconds += _STEP_S
    return seconds
