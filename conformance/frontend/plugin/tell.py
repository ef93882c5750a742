"""Report a verdict as a pytest test: the text of a failure, properties, Allure, and what the user expected."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from conformance.claims import Claim, Kind
from conformance.frontend.plugin.parts import PARTS
from conformance.judge.rows import HERE, TrialRecord, Verdict, VerdictRow, replay_in
from conformance.quoting import visible
from conformance.records import RunRecord
from conformance.report.expectations import ExpectationOutcome
from conformance.report.expected import WORDS, Standing
from conformance.report.html import timeline
from conformance.report.model import is_undecided
from conformance.report.words import control_words, exposure_words, steps_in_words
from conformance.scenario import Scenario


@dataclasses.dataclass(frozen=True)
class ClaimAnswer:
    """What a test goes by: its row, what follows from it, and whether its claim had to be tried and is not."""

    row: VerdictRow
    outcome: ExpectationOutcome
    untried: bool = False

    @property
    def missing(self) -> bool:
        """Whether the test fails because nothing tried its claim."""
        return self.untried and self.row.verdict is Verdict.NOT_TRIED

    @property
    def lines(self) -> list[str]:
        """How the row stands to what was expected, a line for each thing to say; mostly none."""
        said = [f"{WORDS[item.standing].noun}: {item.text}" for item in self.outcome.items_of(self.row)]
        return [*said, WORDS[Standing.UNTRIED].noun] if self.missing else said


EVENTS = 40
"""Lines of a timeline in the text of a failure; the report has all of them."""

LOG_LINES = 40
_HERE = pathlib.Path(HERE)

_SEVERITY = {Kind.SAFETY: "critical", Kind.LIVENESS: "critical", Kind.PERMISSION: "minor", Kind.OBSERVATION: "trivial"}
_SKIPPED = {Verdict.INCONCLUSIVE, Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE}


class HarnessError(Exception):
    """Something of the suite went wrong: an error of the test, which is charged to nobody."""


def without_traceback(error: BaseException) -> Any:
    """The text of the error as pytest shows it: the traceback would only show this front.

    Of an expected failure it is what it would have said unexpected; `--xfail-tb` shows it.
    """
    text = visible(str(error.__cause__ if isinstance(error, pytest.xfail.Exception) else error))
    failed = pytest.fail.Exception(text, pytrace=False).with_traceback(error.__traceback__)
    shown = pytest.ExceptionInfo.from_exception(failed)
    made = shown.getrepr(style="value")
    if made.reprcrash is not None:
        made.reprcrash.message = text  # for one-line summaries, without the name of the exception
    return made


def raise_for(answer: ClaimAnswer, folder: pathlib.Path = _HERE, *, strict: bool) -> None:
    """What a verdict does to its test: nothing, a skip with the reason, or a failure with the counterexample.

    A violation that is spared fails as expected (`xfailed`): the failure that it would be is the cause of that, and
    `--runxfail` shows it. A known failure that holds fails, and so does what had to be tried and was not. `folder` is
    that of the run.
    """
    row, outcome, lines = answer.row, answer.outcome, [visible(line) for line in answer.lines]
    undecided = is_undecided(row) and strict and not outcome.spared(row)
    if row.verdict is Verdict.VIOLATED:
        failed = pytest.fail.Exception("\n".join([violation(row, folder), *lines]), pytrace=False)
        if outcome.spared(row):
            raise pytest.xfail.Exception("; ".join(lines)) from failed
        raise failed
    if undecided or answer.missing or outcome.mended(row):
        text = visible(f"{row.verdict} {row.claim}: {row.reason}\nagain: {row.replay}")
        pytest.fail("\n".join([*lines, text]), pytrace=False)
    if row.verdict in _SKIPPED:
        pytest.skip("; ".join([f"{row.verdict}: {row.reason}", *lines]))


def violation(row: VerdictRow, folder: pathlib.Path) -> str:
    """The reason, the counterexample with its timeline, and the command that repeats it."""
    lines = [f"VIOLATED {row.claim}: {row.says}", row.reason]
    shown = next((witness for witness in row.witnesses if witness.timeline), None)
    if shown is not None:
        lines += [f"message {shown.message} in {shown.queue}, trial {shown.trial}:", *_events(timeline(shown))]
    return visible("\n".join([*lines, f"again: {replay_in(row.replay, whole(folder))}"]))


def whole(folder: pathlib.Path) -> pathlib.Path:
    """The folder of the run that a worker's part will be joined to."""
    return folder.parents[1] if folder.parent.name == PARTS else folder


def _events(events: Sequence[Mapping[str, str]]) -> list[str]:
    lines = [
        f"  {one['at_ms']:>12} ms  {one['process']:14} {one['op']:10} {one['phase']:9} {one['detail']}".rstrip()
        for one in events
    ]
    if len(lines) <= EVENTS:
        return lines
    half = EVENTS // 2
    return [*lines[:half], f"  ... {len(lines) - 2 * half} more in the report", *lines[-half:]]


def harness_error(row: VerdictRow, trials: Iterable[TrialRecord]) -> str:
    """What went wrong, with the end of the log of the broker where there is one."""
    logs = [trial.void_log for trial in trials if trial.scenario == row.scenario and trial.void_log]
    tail = [f"  | {line}" for line in logs[0][-LOG_LINES:]] if logs else []
    return visible("\n".join([f"{row.verdict} {row.claim}: {row.reason}", *tail]))


def properties(answer: ClaimAnswer, run: RunRecord) -> list[tuple[str, object]]:
    """What goes into junit.xml beside the test."""
    row = answer.row
    words = {
        "claim": row.claim,
        "kind": row.kind,
        "scope": row.scope,
        "document": row.document,
        "section": row.section,
        "adapter": row.adapter,
        "version": row.version,
        "protocol": row.protocol,
        "mode": row.mode,
        "fault": row.fault,
        "seed": run.seed,
        "verdict": row.verdict,
        "exposure": exposure_words(row.exposure),
        "control": control_words(row.control),
    }
    if answer.lines:
        words["expected"] = "; ".join(answer.lines)
    return [(name, visible(str(value))) for name, value in words.items()]


def allure_markers(claim: Claim, title: str) -> list[pytest.MarkDecorator]:
    """What Allure can select tests by: the document, the claim, and how much it weighs."""
    allure: Any = importlib.import_module("allure")  # has no types

    return [
        allure.feature(title),
        allure.story(claim.id),
        allure.severity(_SEVERITY.get(claim.kind, "normal")),
        allure.description(claim.says),
    ]


def tell_allure(
    row: VerdictRow, run: RunRecord, scenario: Scenario, folder: pathlib.Path, logs: Iterable[pathlib.Path]
) -> None:
    """Parameters, steps and attachments of the test that is under way.

    Seed and folder change with every run: they are excluded, so that the history of a test is that of its claim.
    """
    allure: Any = importlib.import_module("allure")  # has no types

    for name in ("adapter", "version", "protocol"):
        allure.dynamic.parameter(name, getattr(row, name))
    allure.dynamic.parameter("seed", run.seed, excluded=True)
    allure.dynamic.parameter("folder", str(folder), excluded=True)
    for step in steps_in_words(scenario):
        with allure.step(step):
            pass
    verdict = msgspec.json.format(msgspec.json.encode(row), indent=2).decode()
    allure.attach(verdict, "verdict", allure.attachment_type.JSON)
    if any(witness.timeline for witness in row.witnesses):
        allure.attach(violation(row, folder), "timeline of the counterexample", allure.attachment_type.TEXT)
    for log in logs:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        allure.attach(visible(tail), f"end of {log.parent.name}/{log.name}", allure.attachment_type.TEXT)
