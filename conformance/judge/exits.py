"""Derive the exit code of a judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conformance.errors import PRECEDENCE, ExitCode
from conformance.judge.rows import Judgement, Verdict, VerdictRow

OF_BROKER = {
    Verdict.VIOLATED: ExitCode.VIOLATED,
    Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Verdict.HARNESS_ERROR: ExitCode.HARNESS,
    **dict.fromkeys((Verdict.HOLDS, Verdict.WITNESSED, Verdict.NOT_WITNESSED, Verdict.OBSERVED), ExitCode.CONFORMANT),
}
"""The exit code for a tried row; verdicts that are not here were not tried."""

_OF_SUITE = {**OF_BROKER, Verdict.VIOLATED: ExitCode.HARNESS}
"""A session of the suite that breaks its own rules is an error of the suite, never a violation of the broker."""


def exit_code(
    judgement: Judgement, *, spared: Callable[[VerdictRow], bool] = lambda _: False, also: Iterable[ExitCode] = ()
) -> ExitCode:
    asked = codes(judgement, spared=spared, also=also)
    return next(code for code in PRECEDENCE if code in asked)


def codes(
    judgement: Judgement, *, spared: Callable[[VerdictRow], bool] = lambda _: False, also: Iterable[ExitCode] = ()
) -> set[ExitCode]:
    """Return the exit codes for all parts of a judged run (design, "Verdicts" 7).

    A run that ended before its last trial is a harness error. A row that was not tried, or that another row decided
    (`VerdictRow.decided_by`), changes nothing. A `spared` row counts as conformant, unless it is an error of the suite;
    but where no claim was decided, and some claim is undecided, the run says nothing, although a baseline has no more.
    `also` are further codes, from outside the rows.
    """

    def code_of(row: VerdictRow, asked: ExitCode) -> ExitCode:
        settled = row.verdict is Verdict.INCONCLUSIVE and row.decided_by
        return ExitCode.CONFORMANT if asked is not ExitCode.HARNESS and (settled or spared(row)) else asked

    tried = [row for row in judgement.rows if row.verdict in OF_BROKER]  # self-checks say nothing about the broker
    asked = {code_of(row, OF_BROKER[row.verdict]) for row in tried}
    judged = {row.verdict for row in tried} & {Verdict.HOLDS, Verdict.VIOLATED, Verdict.INCONCLUSIVE}
    if not tried or judged == {Verdict.INCONCLUSIVE}:
        asked.add(ExitCode.NOTHING_RAN)
    asked |= {code_of(row, _OF_SUITE[row.verdict]) for row in judgement.self_checks if row.verdict in _OF_SUITE}
    asked.update(also)
    if judgement.run.interrupted:
        asked.add(ExitCode.INTERRUPTED)
    if not judgement.run.finished:
        asked.add(ExitCode.HARNESS)
    return asked
