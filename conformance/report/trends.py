"""Compare runs of one broker over one protocol: the answers to each claim in a row, what changed, and the rates.

Two runs are compared as they are given, more in the order of their start. The last is compared with the first; and its
rates with all earlier runs of its version together.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from conformance.judge.rows import Course, Verdict, VerdictRow
from conformance.report import html, model, phrases, rates
from conformance.report.expectations import DECIDED, Expected, check_baseline
from conformance.report.model import Expectations, Report

CHANGES = ("new violation", "newly undecided", "newly missing", "fixed", "")
"""How the last run may differ, in the order in which a page shows it."""


@dataclasses.dataclass(frozen=True)
class Trend:
    """One claim: its answer in each run, None where no trial stands behind it, and how the last one differs."""

    claim: str
    says: str
    answers: tuple[Verdict | None, ...]

    @property
    def change(self) -> str:
        """How the last answer differs from the last one that was decided; empty if it does not.

        Only an answer that the run before had is newly missing or undecided.
        """
        *earlier, now = self.answers
        decided = [answer for answer in earlier if answer in DECIDED]
        if now is Verdict.VIOLATED:
            return "" if decided and decided[-1] is now else "new violation"
        if now in DECIDED:
            return "fixed" if decided and decided[-1] is Verdict.VIOLATED else ""
        if earlier[-1] not in DECIDED:
            return ""
        return "newly undecided" if now else "newly missing"

    @property
    def line(self) -> str:
        """`SOLCD-ACK-01: HOLDS, not tried, VIOLATED: new violation`."""
        answers = ", ".join(answer or "not tried" for answer in self.answers)
        return f"{self.claim}: {answers}" + (f": {self.change}" if self.change else "")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs in a row, and what the last of them shows: against the first, and against all earlier ones together."""

    reports: tuple[Report, ...]
    expectations: Expectations

    @property
    def trends(self) -> list[Trend]:
        return trends(self.reports)

    @property
    def differences(self) -> list[str]:
        """What has another standing in the last run than in the first, and how often each saw it: one line a row.

        A claim is newly violated with the first counterexample, although its rate may be the same as before.
        """
        found = dict(_by_row(rates.lines(self.reports[:1], self.reports[-1])))
        marked = [
            f"{line}; {counts}" if (counts := found.pop((item.claim, item.scenario, item.mode), "")) else line
            for item, line in zip(self.expectations.items, self.expectations.lines, strict=True)
        ]
        return [*marked, *(_about(*row, counts) for row, counts in found.items())]

    @property
    def pooled(self) -> list[str]:
        """The rates against all earlier runs of one version; a run that was judged twice counts once."""
        *earlier, last = self.reports
        pool = {report.run.run: report for report in earlier if report.run.run != last.run.run}
        if len(pool) < 2:
            return []
        return [_about(*row, counts) for row, counts in _by_row(rates.lines([*pool.values()], last, one_version=True))]

    @property
    def times(self) -> dict[str, list[Course]]:
        """The courses of the broker as configured, by run, in scenarios that all runs have: others take other times."""
        played = [{trial.scenario for trial in report.trials} for report in self.reports]
        shared = set.intersection(*played)
        found = {}
        for number, report in enumerate(self.reports, 1):
            chosen = {trial.trial for trial in report.trials if trial.arm == "subject" and trial.scenario in shared}
            name = f"{number}: {report.run.version}, {report.run.started[:10]}"
            found[name] = [course for course in report.courses if course.trial in chosen]
        return found

    @property
    def lines(self) -> Iterator[str]:
        several = len(self.reports) > 2
        names = [f"run {number}" for number in range(1, len(self.reports) + 1)] if several else ["before", "after"]
        for name, run in zip(names, (report.run for report in self.reports), strict=True):
            yield f"{name}: {run.product} over {run.over}, {run.started}"
        if several:
            yield from (trend.line for trend in self.trends if len(set(trend.answers)) > 1)
            yield "the last against the first:"
        if not self.expectations.items:
            yield "no claim has another answer"
        yield from self.differences
        if pooled := self.pooled:
            yield f"the last against all earlier runs of {self.reports[-1].run.version}:"
            yield from pooled
        yield f"exit code {self.expectations.exit_code}: {self.expectations.means}"


def trends(reports: Sequence[Report]) -> list[Trend]:
    """Return the claims that a run has tried, those that changed first."""
    words = [model.answers(report.judgement) for report in reports]
    says = {row.claim: row.says for report in reports for row in report.verdicts}
    found = [
        Trend(
            claim, says[claim], tuple(None if (word := each.get(claim)) in phrases.UNTRIED else word for each in words)
        )
        for claim in sorted(says)
    ]
    return sorted((one for one in found if any(one.answers)), key=lambda one: (CHANGES.index(one.change), one.claim))


def _by_row(lines: Iterable[tuple[VerdictRow | None, str]]) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Name the row of each line by claim, scenario and mode, as an item of the expectations does."""
    return (((row.claim, row.scenario, row.mode) if row else ("", "", ""), counts) for row, counts in lines)


def _about(claim: str, scenario: str, mode: str, counts: str) -> str:
    return f"{claim} in {scenario}: {counts}" if claim else counts


def compare(reports: Sequence[Report]) -> Comparison:
    """Compare two runs or more; raises `UsageError` for runs of different brokers or protocols."""
    if len(reports) > 2:
        reports = sorted(reports, key=lambda report: report.run.started)
    first, *others = reports
    for other in others:
        check_baseline(first, adapter=other.run.adapter, protocol=other.run.protocol)
    return Comparison(tuple(reports), Expected(baseline=first).of(reports[-1].judgement).expectations)


def write(found: Comparison, path: pathlib.Path) -> None:
    """Write the comparison as one self-contained page."""
    text = html.environment().get_template("diff.html.j2").render(found=found)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))
