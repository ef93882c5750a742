"""The runs of a site: where each lies, what its page and its cells say, and how the answers change with the version."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from conformance import claims, scenario
from conformance.adapters.file.nodes_table import nodes_in
from conformance.errors import UsageError
from conformance.judge.rows import Verdict, VerdictRow
from conformance.judge.rules import UNPLAYED
from conformance.report import html, model, phrases, questions, trends
from conformance.report.expectations import version_numbers
from conformance.report.questions import Cell, Line

_WRONG = {
    questions.LOST: "confirmed messages lost",
    "came back": "acknowledged messages came back",
    "broken": "transactions broken",
    "failed": "recovery or delivery failed",
    "gone": "messages gone",
}
"""What went wrong in a cell, by its noun; `wrong` stands for several."""


@dataclasses.dataclass(frozen=True)
class RunView:
    """One run of the site: its `report.json` as a file and as data, its address, and its answers.

    `answers` are those to the six questions, `whole` has all checks together, `words` one answer a claim.
    """

    path: pathlib.Path
    address: str
    report: model.Report
    answers: tuple[Line, ...]
    whole: Line
    words: dict[str, Verdict]

    def tried(self, claim: str) -> bool:
        return self.words.get(claim, Verdict.NOT_TRIED) not in phrases.UNTRIED

    @property
    def worst(self) -> Verdict:
        return min(self.words.values(), key=phrases.gravity, default=Verdict.NOT_TRIED)

    @property
    def badge(self) -> str:
        """`41 hold, 0 violated`."""
        summary = self.report.summary
        return f"{summary.holds} hold, {summary.violated} violated"

    @property
    def broker(self) -> str:
        """The folder of the page of its broker."""
        return self.address.partition("/")[0]

    @property
    def part(self) -> str:
        """The name of its part of that page: `2.56.0-amqp`."""
        return self.address.partition("/")[2].replace("/", "-")

    @property
    def over(self) -> str:
        """`2.56.0 over amqp`."""
        return f"{self.report.run.version} over {self.report.run.over}"

    def rows(self, cause: str) -> list[VerdictRow]:
        """Return the rows of the scenarios with one kind of fault."""
        faults = questions.MODELS[cause]
        return [row for row in self.report.verdicts if (row.fault or "none") in faults and not row.standing]

    def cells(self, cause: str) -> list[Cell]:
        """Return the cells of the six questions for one kind of fault."""
        place = list(questions.MODELS).index(cause)
        return [line.cells[place] for line in self.answers]

    def note(self, cause: str) -> str:
        """Say what was wrong in the faults of one kind, and how strong a pass is."""
        cell = self.whole.cells[list(questions.MODELS).index(cause)]
        if cell.verdict in (Verdict.VIOLATED, Verdict.OBSERVED) and cell.seen:
            lost = any(each.verdict is cell.verdict and each.noun == questions.LOST for each in self.cells(cause))
            wrong = _WRONG.get(questions.LOST if lost else cell.noun, "not as promised")
        else:
            wrong = "nothing wrong" if cell.verdict is Verdict.HOLDS else ""
        undecided = "" if cell.verdict in (Verdict.HOLDS, Verdict.VIOLATED, Verdict.OBSERVED) else cell.word
        return ", ".join(filter(None, [wrong, undecided, cell.note]))

    def why_untried(self, cause: str) -> tuple[str, str]:
        """Say in words for anyone why nothing of one kind was tried, and in the words of the run."""
        reasons = collections.Counter(row.reason for row in self.rows(cause) if row.verdict is Verdict.NOT_TRIED)
        if not reasons:
            none = "this broker promises nothing about it" if self.rows(cause) else "the suite had no test of it then"
            return none, ""
        reason = reasons.most_common(1)[0][0]
        if reason in UNPLAYED:
            quick = "--quick" in self.report.run.command.split()
            return "a quick run leaves it out" if quick else "this run left it out", ""
        return "this set-up cannot do it", reason


def read(paths: Iterable[pathlib.Path]) -> list[RunView]:
    """Return the run of each `report.json`, by address; of several runs with one address the last.

    Raises `UsageError` for a file that cannot be read.
    """
    ordered = sorted(map(_read, paths), key=lambda run: run.report.run.started)
    runs = {run.address: run for run in ordered}
    return [runs[address] for address in sorted(runs)]


def _read(path: pathlib.Path) -> RunView:
    try:
        report = model.read_json(path)
    except (msgspec.DecodeError, OSError) as error:
        raise UsageError(f"{path}: {error}; `conformance judge {path.parent}` writes it again") from error
    run, scripts = report.run, scenario.load(claims.load())
    nodes = nodes_in(run.settings)
    way = (run.protocol, run.vendor, f"{nodes}-nodes" if nodes > 1 else "")
    parts = (run.adapter, run.version, "-".join(filter(None, way)))
    return RunView(
        path=path,
        address="/".join(html.anchor(part) for part in parts),
        report=report,
        answers=tuple(questions.lines(report.judgement, scripts)),
        whole=questions.line("", report.verdicts, questions.left_out(report.judgement, scripts)),
        words=model.answers(report.judgement),
    )


History = tuple[Sequence[RunView], list[trends.Trend]]
"""Runs of one broker over one protocol, by version, and the claims to which they have different answers."""


def histories(runs: Sequence[RunView]) -> list[History]:
    """Return what changes with the version, for each protocol and client of which there are two versions or more."""
    groups: dict[tuple[str, str], list[RunView]] = {}
    for run in runs:
        groups.setdefault((run.broker, run.address.rpartition("/")[2]), []).append(run)
    found: list[History] = []
    for group in (group for group in groups.values() if len(group) > 1):
        ordered = sorted(group, key=lambda run: version_numbers(run.report.run.version))
        every = trends.trends([run.report for run in ordered])
        found.append((ordered, [one for one in every if len({*one.answers} - {None}) > 1]))
    return found
