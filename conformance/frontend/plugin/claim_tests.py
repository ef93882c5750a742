"""The tests of a session: a class for each scenario, a test for each claim that it decides, the text of each outcome.

Ids come from scenario and claim. Those of the bundled suites begin with `suites/` in every installation, so that a
history of results stays valid.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec
import pytest

from conformance import paths, records, scenario
from conformance.campaign import Campaign
from conformance.claims import Catalogue, Claim, Kind
from conformance.errors import CatalogueError, visible
from conformance.judge.rows import HERE, Judgement, Verdict, VerdictRow, replay_in
from conformance.records import RunRecord, TrialRecord
from conformance.report.expectations import ExpectationOutcome
from conformance.report.model import STANDING_TEXTS, Standing, is_undecided
from conformance.report.phrases import row_words, steps_in_words
from conformance.report.pictures import course_words, story
from conformance.scenario import Scenario

LOG_LINES = 40
_HERE = pathlib.Path(HERE)

_SEVERITY = {Kind.SAFETY: "critical", Kind.LIVENESS: "critical", Kind.PERMISSION: "minor", Kind.OBSERVATION: "trivial"}
_SKIPPED = {Verdict.INCONCLUSIVE, Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE}


@dataclasses.dataclass(frozen=True)
class ClaimAnswer:
    """The row of a test, what the user expected of it, and whether its claim had to be tried and was not."""

    row: VerdictRow
    outcome: ExpectationOutcome
    untried: bool = False

    @property
    def missing(self) -> bool:
        return self.untried and self.row.verdict is Verdict.NOT_TRIED

    @property
    def lines(self) -> list[str]:
        """What was expected and how the row compares, a line each."""
        found = [f"{STANDING_TEXTS[item.standing].noun}: {item.text}" for item in self.outcome.items_of(self.row)]
        return [*found, STANDING_TEXTS[Standing.UNTRIED].noun] if self.missing else found


class HarnessError(Exception):
    """The suite itself failed: the test is an error, not a failure of the broker."""


def without_traceback(error: BaseException) -> Any:
    """Return the text of the error as pytest shows it, without the traceback of this front.

    For an expected failure it is the text of the failure, which `--xfail-tb` shows.
    """
    text = visible(str(error.__cause__ if isinstance(error, pytest.xfail.Exception) else error))
    failed = pytest.fail.Exception(text, pytrace=False).with_traceback(error.__traceback__)
    shown = pytest.ExceptionInfo.from_exception(failed)
    made = shown.getrepr(style="value")
    if made.reprcrash is not None:
        made.reprcrash.message = text  # for one-line summaries, without the name of the exception
    return made


def raise_for(answer: ClaimAnswer, folder: pathlib.Path = _HERE, *, strict: bool) -> None:
    """Pass, skip with the reason, or fail with the counterexample, by the verdict of a test.

    An excused violation is `xfailed`; the failure itself is its cause, and `--runxfail` shows it. A known failure that
    holds fails, and so does a claim that had to be tried and was not. `folder` is that of the run.
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
    """Describe a violation: reason, counterexample with its timeline, and the command that repeats it."""
    lines = [f"VIOLATED {row.claim}: {row.says}", row.reason]
    shown = next((witness for witness in row.witnesses if witness.timeline), None)
    if shown is not None:
        lines.append(f"message {shown.message} in {shown.queue}, trial {shown.trial}:")
        lines += [f"  {line}" for line in story(shown)]
    whole = folder.parents[1] if folder.parent.name == records.PARTS else folder
    return visible("\n".join([*lines, f"again: {replay_in(row.replay, whole)}"]))


def harness_error(row: VerdictRow, trials: Iterable[TrialRecord]) -> str:
    """Describe an error of the suite, with the end of the broker's log if there is one."""
    logs = [trial.void_log for trial in trials if trial.scenario == row.scenario and trial.void_log]
    tail = [f"  | {line}" for line in logs[0][-LOG_LINES:]] if logs else []
    return visible("\n".join([f"{row.verdict} {row.claim}: {row.reason}", *tail]))


def properties(answer: ClaimAnswer, run: RunRecord) -> list[tuple[str, object]]:
    words = {**row_words(answer.row), "seed": run.seed}
    if answer.lines:
        words["expected"] = "; ".join(answer.lines)
    return [(name, visible(str(value))) for name, value in words.items()]


def allure_markers(claim: Claim, scenario: Scenario, catalogue: Catalogue) -> list[pytest.MarkDecorator]:
    """Return the markers of Allure: document with its address, claim, severity, and the script.

    The script is a text: the steps of Allure are the trials that played it (`_trial_steps`).
    """
    allure: Any = importlib.import_module("allure")  # has no types

    document = catalogue.document_title(claim)
    script = (f"{number}. {step}" for number, step in enumerate(steps_in_words(scenario.steps), 1))
    found = [
        allure.feature(document),
        allure.story(claim.id),
        allure.severity(_SEVERITY.get(claim.kind, "normal")),
        allure.description("\n".join([claim.says, "", scenario.says, "", *script])),
    ]
    return [*found, allure.link(url, name=document)] if (url := catalogue.url(claim)) else found


_CATEGORIES = (
    ("The broker violates a claim", ["failed"], "VIOLATED.*"),
    ("Undecided", ["failed", "skipped"], "(?:Skipped: )?INCONCLUSIVE.*"),
    ("Not tried, or not applicable", ["skipped"], "(?:Skipped: )?NOT_.*"),
    ("Errors of the suite", ["broken"], ".*"),
)


def describe_to_allure(run: RunRecord, folder: pathlib.Path) -> None:
    """Write the environment of the run and the categories of its answers into the folder of Allure's results."""
    about = {"broker": run.product, "launcher": run.launcher, "protocol": run.protocol}
    about |= {"client": run.client, "seed": str(run.seed), **run.versions}
    lines = (f"{name.replace(' ', '_')}={visible(text)}\n" for name, text in about.items())
    (folder / "environment.properties").write_text("".join(lines), encoding="utf-8")
    told = [
        {"name": name, "matchedStatuses": statuses, "messageRegex": f"(?s){words}"}
        for name, statuses, words in _CATEGORIES
    ]
    (folder / "categories.json").write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1))


def report_to_allure(
    row: VerdictRow, judgement: Judgement, folder: pathlib.Path, logs: Iterable[pathlib.Path], reporter: Any
) -> None:
    """Give Allure the parameters, attachments and steps of the current test; `reporter` is that of allure-pytest.

    Seed and folder change with every run, so they are excluded from the identity of the test.
    """
    allure: Any = importlib.import_module("allure")  # has no types
    run = judgement.run

    for name in ("adapter", "version", "protocol"):
        allure.dynamic.parameter(name, getattr(row, name))
    allure.dynamic.parameter("seed", run.seed, excluded=True)
    allure.dynamic.parameter("folder", str(folder), excluded=True)
    verdict = msgspec.json.format(msgspec.json.encode(row), indent=2).decode()
    allure.attach(verdict, "verdict", allure.attachment_type.JSON)
    if any(witness.timeline for witness in row.witnesses):
        allure.attach(violation(row, folder), "timeline of the counterexample", allure.attachment_type.TEXT)
    for log in logs:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        allure.attach(visible(tail), f"end of {log.parent.name}/{log.name}", allure.attachment_type.TEXT)
    for step in _trial_steps(row, judgement, folder):
        reporter.start_step(None, step.name, step)
        reporter.stop_step(step.name)


def _trial_steps(row: VerdictRow, judgement: Judgement, folder: pathlib.Path) -> Iterator[Any]:
    """Yield the trials of the scenario as steps of Allure, with the times at which they were recorded.

    A trial with a counterexample of this row has failed, and a void one is broken. The others have passed, unless the
    row is violated (only its first counterexamples are known by trial) or undecided.
    """
    model: Any = importlib.import_module("allure_commons.model2")  # has no types
    failed = {witness.trial for witness in row.witnesses} if row.verdict is Verdict.VIOLATED else set()
    courses = {course.trial: course for course in judgement.courses}
    for trial in judgement.trials:
        if trial.scenario != row.scenario:
            continue
        ended = (folder / "trials" / trial.trial / "trial.json").stat().st_mtime
        if trial.void:
            status = model.Status.BROKEN
        elif trial.trial in failed:
            status = model.Status.FAILED
        else:
            status = None if row.verdict in (*_SKIPPED, Verdict.VIOLATED) else model.Status.PASSED
        course = courses.get(trial.trial)  # a void trial has none
        yield model.TestStepResult(
            name=visible(f"{trial.trial}: {course_words(course) if course else trial.void}"),
            status=status,
            start=round((ended - trial.seconds) * 1_000),
            stop=round(ended * 1_000),
        )


class ClaimSession(Protocol):
    """The session that answers for every claim; `plugin.front` has it."""

    config: pytest.Config
    campaign: Campaign
    strict: bool

    def answer(self, item: ClaimItem) -> ClaimAnswer:
        """Record and judge the scenario of that test, if it was not yet, and return the row of its claim."""


def defines_scenarios(path: pathlib.Path) -> bool:
    """Whether a class of the module has the decorator `scenario`; nothing is imported to find out."""
    if path.suffix != ".py":
        return False
    text = path.read_bytes()
    if b"scenario" not in text:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False  # pytest reports it
    return any(isinstance(node, ast.ClassDef) and any(map(_registers, node.decorator_list)) for node in tree.body)


def _registers(decorator: ast.expr) -> bool:
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == "scenario"


def make_file(path: pathlib.Path, parent: pytest.Collector, front: ClaimSession) -> ScenarioFile:
    words: dict[str, Any] = {"path": path}
    if path.is_relative_to(paths.suites()):
        words["nodeid"] = f"suites/{path.relative_to(paths.suites()).as_posix()}"
    made: ScenarioFile = ScenarioFile.from_parent(parent, **words)
    made.front = front
    return made


class ScenarioFile(pytest.Module):
    """A module with scenarios. A bundled one is loaded already: a second import would define them twice."""

    front: ClaimSession

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield what pytest finds in the module, then its scenarios."""
        loaded = [each for each in sys.modules.values() if getattr(each, "__file__", None) == str(self.path)]
        if loaded:
            self.obj = loaded[0]
        yield from super().collect()
        try:
            known = scenario.load(self.front.campaign.catalogue)
        except CatalogueError as error:
            raise self.CollectError(str(error)) from error
        for name, cls in vars(self.obj).items():
            identity = scenario.slug(name)
            if inspect.isclass(cls) and cls.__module__ == self.obj.__name__ and identity in known:
                yield ScenarioClass.make(self, name, cls, known[identity])


class ScenarioClass(pytest.Collector):
    """A scenario; its trials are recorded when its first test runs."""

    parent: ScenarioFile
    scenario: Scenario
    line: int

    @classmethod
    def make(cls, parent: ScenarioFile, name: str, defined: type[Any], found: Scenario) -> ScenarioClass:
        made: ScenarioClass = cls.from_parent(parent, name=name)
        made.scenario = found
        made.line = inspect.getsourcelines(defined)[1]
        return made

    def collect(self) -> Iterator[ClaimItem]:
        front = self.parent.front
        selected = {claim.id for claim in front.campaign.selection.claims}
        for claim_id in self.scenario.decides:
            if claim_id in selected:
                yield ClaimItem.make(self, front.campaign.catalogue.claims[claim_id], front)


class ClaimItem(pytest.Item):
    """One claim in one scenario. It reads its row from the judge, and decides nothing."""

    parent: ScenarioClass
    front: ClaimSession
    answer: ClaimAnswer

    @classmethod
    def make(cls, parent: ScenarioClass, claim: Claim, front: ClaimSession) -> ClaimItem:
        """Make the test of a claim, with the markers for `-m` and Allure."""
        item: ClaimItem = cls.from_parent(parent, name=claim.id)
        item.front = front
        for word in ("conformance", str(claim.kind), str(claim.scope)):
            item.add_marker(word)
        if front.config.pluginmanager.hasplugin("allure_pytest"):
            for marker in allure_markers(claim, parent.scenario, front.campaign.catalogue):
                item.add_marker(marker)
        return item

    def setup(self) -> None:
        """Record the scenario if needed, and read the row; an error of the suite is an error of the set-up."""
        self.answer = self.front.answer(self)

    def runtest(self) -> None:
        if self.config.pluginmanager.hasplugin("allure_listener"):
            row = self.answer.row  # here, because Allure names the test when the set-up has ended
            importlib.import_module("allure").dynamic.title(f"{row.claim}: {row.says}")
        raise_for(self.answer, self.front.campaign.folder, strict=self.front.strict)

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        return self.path, self.parent.line - 1, f"{self.parent.name}.{self.name}"
