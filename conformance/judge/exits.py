"""What follows from a judgement: the exit code, and what has to be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from conformance.errors import PRECEDENCE, ExitCode
from conformance.judge.rows import Judgement, Verdict, VerdictRow

REPEATED_ENOUGH = 3

REPEATS = 2
"""Trials of the subject that one repeat adds to a scenario."""

MOST_REPEATS = 6
"""Trials that repeats may add to a scenario in which an offence was seen, but too seldom for a violation."""

_OF_BROKER = {
    Verdict.VIOLATED: ExitCode.VIOLATED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.HARNESS_ERROR: ExitCode.HARNESS,
    Verdict.HOLDS: ExitCode.CONFORMANT,
    Verdict.WITNESSED: ExitCode.CONFORMANT,
    Verdict.NOT_WITNESSED: ExitCode.CONFORMANT,
    Verdict.OBSERVED: ExitCode.CONFORMANT,
}
"""The code that a tried row asks for; words that are not here were not tried."""

_OF_OURSELVES = {**_OF_BROKER, Verdict.VIOLATED: ExitCode.HARNESS}
"""A session of ours that breaks its own rules is an error of the suite, never a violation of the broker."""


def exit_code(
    judgement: Judgement, *, spared: Callable[[VerdictRow], bool] = lambda _: False, also: Iterable[ExitCode] = ()
) -> ExitCode:
    """The exit code of a judged run, by `errors.PRECEDENCE`; see `codes`."""
    asked = codes(judgement, spared=spared, also=also)
    return next(code for code in PRECEDENCE if code in asked)


def codes(
    judgement: Judgement, *, spared: Callable[[VerdictRow], bool] = lambda _: False, also: Iterable[ExitCode] = ()
) -> set[ExitCode]:
    """Every exit code that something of a judged run asks for (design, "Verdicts" 7).

    A run that ended before its last trial is a harness error, an interrupted one says so. What was not tried changes
    nothing, unless nothing was tried at all, and so does what another row decided (`VerdictRow.decided_by`). A row that
    is `spared` was tried and asks for nothing more; `also` are codes that something beside the rows asks for. An error
    of the suite is never spared.
    """

    def code_of(row: VerdictRow, asked: ExitCode) -> ExitCode:
        settled = row.verdict is Verdict.INCONCLUSIVE and row.decided_by
        return ExitCode.CONFORMANT if asked is not ExitCode.HARNESS and (settled or spared(row)) else asked

    asked = {code_of(row, _OF_BROKER[row.verdict]) for row in judgement.rows if row.verdict in _OF_BROKER}
    if not asked:  # and that our own sessions kept their rules says nothing of a broker
        asked = {ExitCode.NOTHING_RAN}
    asked |= {code_of(row, _OF_OURSELVES[row.verdict]) for row in judgement.self_checks if row.verdict in _OF_OURSELVES}
    asked.update(also)
    if judgement.run.interrupted:
        asked.add(ExitCode.INTERRUPTED)
    if not judgement.run.finished:
        asked.add(ExitCode.HARNESS)
    return asked


def needs_repeats(judgement: Judgement, added: Mapping[str, int] = MappingProxyType({})) -> list[str]:
    """The ids of the scenarios that must be shown again, in order; `added` are the trials added to each so far.

    A violation counts when it was seen in every trial of at least three; any other is repeated once, so that a report
    can say "3 of 3" or "seen once in 5". What was seen, but in too few trials for a violation, is repeated until it was
    seen often enough, or `MOST_REPEATS` trials were added.
    """

    def is_due(row: VerdictRow, scenario: str) -> bool:
        before = added.get(scenario, 0)
        if row.verdict is Verdict.VIOLATED:
            return not before and (row.offended < row.trials or row.trials < REPEATED_ENOUGH)
        seldom = row.verdict is Verdict.INCONCLUSIVE and 0 < row.offended < REPEATED_ENOUGH
        return seldom and before < MOST_REPEATS

    asked = ((row, name) for row in judgement.rows for name in row.repeated_by or (row.scenario,))
    return list(dict.fromkeys(name for row, name in asked if is_due(row, name)))
