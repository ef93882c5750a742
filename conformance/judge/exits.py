"""What follows from a judgement: the exit code, and what has to be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conformance.errors import PRECEDENCE, ExitCode
from conformance.judge.rows import Judgement, Verdict, VerdictRow

REPEATED_ENOUGH = 3

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
    """The exit code of a judged run, by `errors.PRECEDENCE` (design, "Verdicts" 6).

    A run that ended before its last trial is a harness error, an interrupted one says so. What was not tried changes
    nothing, unless nothing was tried at all, and so does what another row decided (`VerdictRow.decided_by`). A row that
    is `spared` was tried and asks for nothing more; `also` are codes that something beside the rows asks for. An error
    of the suite is never spared.
    """

    def code_of(row: VerdictRow, asked: ExitCode) -> ExitCode:
        settled = row.verdict is Verdict.INCONCLUSIVE and row.decided_by
        return ExitCode.CONFORMANT if asked is not ExitCode.HARNESS and (settled or spared(row)) else asked

    codes = {code_of(row, _OF_BROKER[row.verdict]) for row in judgement.rows if row.verdict in _OF_BROKER}
    if not codes:  # and that our own sessions kept their rules says nothing of a broker
        codes = {ExitCode.NOTHING_RAN}
    codes |= {code_of(row, _OF_OURSELVES[row.verdict]) for row in judgement.self_checks if row.verdict in _OF_OURSELVES}
    codes.update(also)
    if judgement.run.interrupted:
        codes.add(ExitCode.INTERRUPTED)
    if not judgement.run.finished:
        codes.add(ExitCode.HARNESS)
    return next(code for code in PRECEDENCE if code in codes)


def needs_repeats(judgement: Judgement) -> list[str]:
    """The ids of the scenarios whose violations must be shown again, in order.

    A violation counts when it was seen in every trial of at least three; any other is repeated once more, so that a
    report can say "3 of 3" or "seen once in 5". Whoever asks decides how often: a flaky one asks every time.
    """
    found = [
        row.scenario
        for row in judgement.rows
        if row.verdict is Verdict.VIOLATED and (row.offended < row.trials or row.trials < REPEATED_ENOUGH)
    ]
    return list(dict.fromkeys(found))
