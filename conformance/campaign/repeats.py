"""Say which scenarios of a judged run are to be recorded again, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from conformance.judge.rows import Judgement, Verdict, VerdictRow

REPEATED_ENOUGH = 3

REPEATS = 2
"""Trials of the subject that one repeat adds to a scenario."""

MOST_REPEATS = 6
"""Trials that repeats may add to a scenario whose offences are too few for a violation."""


def needs_repeats(judgement: Judgement, added: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """Return the ids of the scenarios to repeat, in order; `added` are the trials added to each so far.

    A violation is repeated once unless it was seen in every trial of at least three, so that a report can say "3 of 3"
    or "seen once in 5". An offence in too few trials for a violation is repeated until it was seen often enough, or
    `MOST_REPEATS` trials were added. So is a script in which a fault met nothing at risk: a busy machine may hold a
    client up, and then nothing was answered just before the fault. Trials are added by exposure, never to change what
    was found.
    """

    def is_due(row: VerdictRow, scenario: str) -> bool:
        before = added.get(scenario, 0)
        if row.verdict is Verdict.VIOLATED:
            return not before and (row.offended < row.trials or row.trials < REPEATED_ENOUGH)
        seldom = row.verdict is Verdict.INCONCLUSIVE and 0 < row.offended < REPEATED_ENOUGH
        return (seldom or row.needs_exposure) and before < MOST_REPEATS

    asked = ((row, name) for row in judgement.rows for name in row.repeated_by or (row.scenario,))
    return list(dict.fromkeys(name for row, name in asked if is_due(row, name)))
