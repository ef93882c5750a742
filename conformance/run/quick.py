"""Choose the scenarios of `--quick`: at most ten claims, the strongest, and one at least about each question.

A claim is strong if its control is the same product, weakened, and stronger if the broker is also killed. A claim whose
control is a liar comes next. Claims that wait for the liveness bound or need the disk are left out. A scenario is
chosen by what it adds for the time that it costs: a claim that is decided already adds nothing. The questions come
first, one after another. Scenarios whose kind of queue the user's own file sets up are added.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from signal import Signals

from conformance.adapters import opening
from conformance.claims import Catalogue
from conformance.run.planning import Selection, seconds_of, start_seconds, wanted_checks
from conformance.scenario import Check, Liar, Scenario, Weakened

QUICK_CLAIMS = 10
QUICK_S, SLOW_S = 40.0, 65.0
"""For the trials of the broker, and of one that needs a second to start. Judging and reporting come on top; liars run
beside them."""

_KILLED, _STRONG, _LIAR = 20, 10, 1
_ROUNDS = 3
"""A trial of a scenario with rounds has so many. A control that failed in 3 of 5 trials decides after 9 kills (q is
0.010), and not after 3 (0.119, and 0.05 is allowed)."""


def quick(
    selection: Selection,
    scenarios: Mapping[str, Scenario],
    catalogue: Catalogue,
    questions: Collection[Collection[str]],
) -> Selection:
    """Narrow the selection to at most ten claims in the scenarios that decide them fastest.

    `questions` are the anomalies of each question of the report: a claim that is the first about one comes before
    others.
    """
    found: dict[str, dict[str, int]] = {}
    for item in scenarios.values():
        values = {
            claim: value
            for claim, check in wanted_checks(item, selection).items()
            if catalogue.claims[claim].gets_verdict(selection.required)
            and (value := _value(item, claim, check, catalogue))
        }
        if values:
            found[item.id] = values
    about = {
        claim: next((place for place, names in enumerate(questions) if item.decides[claim].anomaly in names), -1)
        for item in scenarios.values()
        for claim in item.decides
    }
    cost = {name: _cost(scenarios[name], found[name], selection) for name in found}
    chosen: dict[str, int] = {}
    played: list[str] = []
    left = SLOW_S if selection.adapter.file.java else QUICK_S
    for question in (*range(len(questions)), *[None] * QUICK_CLAIMS):
        if len(chosen) >= QUICK_CLAIMS if question is None else question in {about[claim] for claim in chosen}:
            continue
        gains = {
            name: sum(value for claim, value in values.items() if claim not in chosen)
            for name, values in found.items()
            if name not in played and cost[name] <= left and question in (None, *(about[claim] for claim in values))
        }
        best = max(filter(gains.get, gains), key=lambda name: gains[name] / cost[name], default=None)
        if best is not None:
            left -= cost[best]
            played.append(best)
            chosen |= {claim: max(value, chosen.get(claim, 0)) for claim, value in found[best].items()}
    strongest = sorted(chosen, key=lambda claim: -chosen[claim])
    first = {about[claim]: claim for claim in reversed(strongest)}
    claims = list(dict.fromkeys([*first.values(), *strongest]))[:QUICK_CLAIMS]
    turned_on = _turned_on(selection)
    for item in scenarios.values():
        if turned_on & dict(item.queue).keys():
            of_file = [claim for claim in wanted_checks(item, selection) if catalogue.claims[claim].judged]
            played += [item.id] if of_file else []
            claims += of_file
    return dataclasses.replace(
        selection,
        claims=[claim for claim in selection.claims if claim.id in claims],
        only=frozenset(played),
        rounds=_ROUNDS,
    )


def _turned_on(selection: Selection) -> set[str]:
    """Return the options of queues that a setting in the user's own configuration, or a typed one, is about.

    Counter-example: a file with auto-delete-queues. The ten strongest claims were tried on declared queues only, and
    the version lost each queue that a client had made.
    """
    own = opening.configuration_of(selection.adapter)
    stated = {**(own.stock if own else {}), **selection.overrides}
    used = {name for name, value in stated.items() if value}
    return {option for option, entry in selection.adapter.file.queue_settings.items() if used & set(entry.named)}


def _value(item: Scenario, claim: str, check: Check, catalogue: Catalogue) -> int:
    if catalogue.claims[claim].needs:
        return 0
    if isinstance(check.control, Weakened):
        return _KILLED if item.fault and item.fault.signal is Signals.SIGKILL else _STRONG
    return _LIAR if isinstance(check.control, Liar) and not check.control.waits_for_liveness else 0


def _cost(item: Scenario, claims: Mapping[str, int], selection: Selection) -> float:
    """Estimate the seconds of its trials and of the weakened controls that these claims need."""
    start = start_seconds(selection.adapter)
    controls = {item.decides[claim].control for claim in claims}
    weak = sum(control.trials for control in controls if isinstance(control, Weakened))
    return (selection.trials + weak) * seconds_of(item.drawn(0, _ROUNDS).steps, start) + (start if weak else 0.0)
