"""The summary on a terminal: six questions, the claims, what limits the answers, and the paths of the report.

The suite's own text is ASCII; foreign text goes through `visible`, so that no message id can change the terminal.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from conformance.claims import Catalogue
from conformance.errors import visible
from conformance.judge.exits import exit_code
from conformance.judge.reasons import faults_named
from conformance.judge.rows import HERE, Judgement, Verdict, VerdictRow, replay_in
from conformance.records import RunRecord
from conformance.report import model, pictures, questions
from conformance.report.html import first_timeline, first_violation
from conformance.report.model import Expectations
from conformance.report.phrases import bound_words, exit_means

ROWS = 20
_EVIDENCE = "evidence (95 % confidence)"
UNCUT = 1_000_000
"""The columns of a page outside a terminal: more than any line has, so that each reason and remedy is whole."""
DOUBTS = ("error", "undecided", "required", "judged-as", "self", "void", "control", "not-tried", "course")
STYLES = {
    Verdict.HOLDS: "green",
    Verdict.WITNESSED: "green",
    Verdict.VIOLATED: "bold red",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.HARNESS_ERROR: "magenta",
}


def summary(
    judgement: Judgement,
    catalogue: Catalogue | None = None,
    written: Mapping[str, Path] | None = None,
    expected: Expectations | None = None,
) -> RenderableType:
    """Return what the terminal shows, about 45 lines. `written` are the paths from `write_all`."""
    answers = model.tried_rows(judgement.rows)
    code, means = (expected.exit_code, expected.means) if expected else (exit_code(judgement), exit_means(judgement))
    tone = STYLES.get(answers[0].verdict, "") if answers else ""
    parts: list[RenderableType] = []
    if answers:
        parts += [_questions(judgement), Text(), *_claims(judgement, catalogue)]
    parts += [*_first_violation(answers, written, expected), *_doubts(judgement, catalogue), *_course(judgement.run)]
    parts += [*_expected(expected), Text()]
    parts += [_whole(model.headline(judgement, catalogue, expected), f"bold {tone}".strip())]
    parts += map(_whole, [*questions.opening(judgement), model.counted(judgement, catalogue)]) if answers else []
    parts += [_whole(f"exit {int(code)}: {means}")]
    parts += [_whole(f"{kind}: {path}") for kind, path in (written or {}).items() if kind in ("html", "json")]
    return Group(*parts)


def plain(
    judgement: Judgement,
    catalogue: Catalogue | None = None,
    written: Mapping[str, Path] | None = None,
    width: int = UNCUT,
    expected: Expectations | None = None,
) -> str:
    """Return the summary for a pipe or a file: no escape sequence, no trailing blanks, and no line is cut."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, force_terminal=False, emoji=False, highlight=False)
    console.print(summary(judgement, catalogue, written, expected), soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _questions(judgement: Judgement) -> Table:
    """One line a question: the worst word, and the fact."""
    table = Table.grid(padding=(0, 2))
    for line in questions.lines(judgement):
        style = STYLES.get(line.whole.verdict, "dim")
        fact = _line(line.whole.text if line.whole.counts else "")
        table.add_row(_line(line.whole.word or "-", style), _line(line.name), fact)
    return table


def _claims(judgement: Judgement, catalogue: Catalogue | None) -> list[RenderableType]:
    """One line a claim, the worst first."""
    by_claim: dict[str, list[VerdictRow]] = {}
    for row in model.tried_rows(judgement.rows):
        by_claim.setdefault(row.claim, []).append(row)
    for rows in by_claim.values():  # of the worst verdict, the row with the most faults first
        rows.sort(key=lambda row, worst=rows[0].verdict: (row.verdict is not worst, -row.faults))  # type: ignore[misc]
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    for name in ("claim", "verdict", "scenarios", _EVIDENCE):
        table.add_column(name, no_wrap=name != _EVIDENCE, justify="right" if name == "scenarios" else "left")
    for claim, (row, *others) in list(by_claim.items())[:ROWS]:
        asked = "judged as" if model.judged_as(row, judgement.run, catalogue) else "required" if row.required else ""
        foreign = asked != "judged as" and model.not_promised(row, judgement.run, catalogue)
        evidence = "not promised" if foreign else _evidence(row, asked)
        verdict = _line(row.graded, STYLES.get(row.verdict, "dim"))
        table.add_row(_line(claim), verdict, _line(str(1 + len(others))), _whole(evidence))
    left = len(by_claim) - ROWS
    return [table, *([_line(f"... and {left} more in the report", "dim")] if left > 0 else [])]


def _evidence(row: VerdictRow, asked: str) -> str:
    """Return how often a violation was seen, or what a pass leaves open, without its faults: its verdict names them."""
    if row.verdict is Verdict.VIOLATED:
        return f"seen in {row.offended_faults} of {row.faults}" + (f", {asked}" if asked else "")
    return bound_words(row).partition("; ")[0].replace(f" of {faults_named(row.fault)}", "")


def _first_violation(
    answers: Sequence[VerdictRow], written: Mapping[str, Path] | None, expected: Expectations | None
) -> list[RenderableType]:
    row = first_violation(answers, expected)
    if row is None:
        return []
    parts: list[RenderableType] = [Text(), _whole(f"VIOLATED {row.claim}: {row.says}", "bold red"), _whole(row.reason)]
    if shown := first_timeline([row]):
        parts += [_whole(f"message {shown.message} in {shown.queue}, trial {shown.trial}:")]
        parts += [_whole(f"  {line}") for line in pictures.story(shown)]
    folder = next(iter(written.values())).parent if written else HERE
    return [*parts, _whole(f"again: {replay_in(row.replay, folder)}")] if row.replay else parts


def _doubts(judgement: Judgement, catalogue: Catalogue | None) -> list[RenderableType]:
    found = [doubt for doubt in model.doubts(judgement, catalogue) if doubt.key in DOUBTS]
    parts: list[RenderableType] = [Text()] if found else []
    for doubt in found:
        items = doubt.items or ((None, doubt.text),)
        rest = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
        row, text = items[0]
        parts.append(_line(f"{doubt.title.lower()}{rest}: {row.claim + ': ' if row else ''}{text}"))
    return parts


def _expected(expected: Expectations | None) -> list[RenderableType]:
    lines = expected.lines if expected else []
    rest = [f"... and {len(lines) - ROWS} more in the report"] if len(lines) > ROWS else []
    return [Text(), *(_whole(line) for line in [*lines[:ROWS], *rest])] if lines else []


def _course(run: RunRecord) -> list[Text]:
    """Say what more could be played, how long the run took, and how much of it no harness can avoid."""
    left = ", ".join(run.left_to_thorough)
    lines = [_line(f"not played, because others try the same: {left}; --thorough plays them too")] if left else []
    if not run.floor_seconds:
        return lines
    ratio = run.seconds / run.floor_seconds
    took = f"took {run.seconds:.0f} s with --jobs {run.jobs}"
    return [Text(), *lines, _line(f"{took}; restarts and waits alone {run.floor_seconds:.0f} s ({ratio:.1f} x)")]


def _line(text: str, style: str = "") -> Text:
    return Text(visible(text.replace("\n", " ")), style, no_wrap=True, overflow="ellipsis")


def _whole(text: str, style: str = "") -> Text:
    return Text(visible(text.replace("\n", " ")), style)
