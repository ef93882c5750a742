"""Write one self-contained page: no external resource, all foreign text escaped, complete without its one script.

The template `reports/templates/report.html.j2` holds the order of the page, and `cells.html.j2` what it shares with the
site; this module gives it data and phrases.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from conformance import paths
from conformance.claims import Catalogue, Claim, Scope, Subject
from conformance.counting import plural
from conformance.errors import visible
from conformance.judge.plan.timeline import fold
from conformance.judge.rows import ANSWERS, ControlResult, Course, Judgement, Verdict, VerdictRow, Witness
from conformance.records import TrialRecord
from conformance.report import ci, model, phrases, pictures, questions
from conformance.report.model import Expectations
from conformance.scenario import Scenario
from conformance.scenario.faults import DAMAGE
from conformance.scenario.reading import singles
from conformance.scenario.script import Consume, Publish
from conformance.scenario.space import Pair
from conformance.scenario.values import OPEN_PAIRS, open_pairs

_ROW = re.compile(r"<tr>(\s*<td><code>([\w.-]+)</code></td>)")
_BESIDE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
_ISSUE = re.compile(r"(?<![\w/])([\w.-]+/[\w.-]+) #(\d+)")


@dataclasses.dataclass(frozen=True)
class ClaimView:
    """A claim with all its rows, and its cells. `claim` is None if the catalogue no longer has it.

    `about` is the claim, or one of its rows. `said_by` names a document of which this claim is not the broker's own.
    """

    id: str
    claim: Claim | None
    about: Claim | VerdictRow
    rows: tuple[VerdictRow, ...]
    line: questions.Line
    url: str
    said_by: str
    reason: str
    not_promised: bool


Group = tuple[str, list[ClaimView], list[ClaimView]]
"""A question, and the claims that answer it: those that were tried, and not."""


@dataclasses.dataclass(frozen=True)
class ScenarioView:
    """One script and its results. `script` is None if this version of the suite does not have it."""

    id: str
    says: str
    mode: str
    script: Scenario | None
    steps: tuple[str, ...]
    failure_model: str
    rows: tuple[VerdictRow, ...]
    self_checks: tuple[str, ...]
    controls: tuple[ControlResult, ...]
    trials: tuple[TrialRecord, ...]


@dataclasses.dataclass(frozen=True)
class CrossingView:
    """What came of the messages that were sent over one protocol and received over another one.

    `cells`: by claim, how many messages offended it; empty for a claim that was not tried here.
    """

    sent: str
    received: str
    cells: Mapping[str, str]


def write_html(
    judgement: Judgement,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    path: Path,
    expected: Expectations | None = None,
    home: str = "",
) -> None:
    """Write the page; invalid bytes of a log become `?`."""
    model.write(page(judgement, catalogue, scenarios, expected, home), path)


def page(
    judgement: Judgement,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    expected: Expectations | None = None,
    home: str = "",
) -> str:
    """Return the page; `home` is the address of the page of its broker in a site."""
    problems = questions.known_problems(judgement.run)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            report=model.report(judgement, catalogue, expected),
            run=judgement.run,
            home=home,
            doubts=model.doubts(judgement, catalogue, expected),
            questions=questions.lines(judgement, scenarios),
            opening=questions.opening(judgement),
            counts=model.counts(judgement, catalogue),
            first=first_violation(judgement.rows, expected),
            next_step=phrases.next_step(judgement, first_violation(judgement.rows, expected)),
            copied=ci.opening(judgement, catalogue, expected, scenarios),
            models=questions.models(judgement),
            problems=problems,
            shown_by=lambda row: [one for one in problems if one.is_shown_by(row)],
            claims=claim_views(judgement, catalogue, scenarios, ours=False),
            self_checks=claim_views(judgement, catalogue, scenarios, ours=True),
            scenarios=scenario_views(judgement, scenarios),
            crossings=crossing_views(judgement),
            damage=damage_views(judgement),
            untried=[item.id for item in scenarios.values() if item.id not in _with_trials(judgement)],
            exit_means=expected.means if expected else phrases.exit_means(judgement),
            tone=_tone(judgement, catalogue),
            settings=catalogue.settings,
            values=_pairs_by_fault(judgement),
            pairs=len(OPEN_PAIRS),
            courses={course.trial: course for course in judgement.courses},
            by_arm=functools.partial(_courses_by_arm, judgement),
            times=_courses_by_fault(judgement, scenarios),
            marks=lambda row: _marks(row, judgement, catalogue, expected),
        )
    )


def _pairs_by_fault(judgement: Judgement) -> dict[str, int]:
    """Return how many pairs of values the messages of the broker's trials had, by the fault of their script."""
    found: dict[str, set[Pair]] = {}
    for trial in judgement.trials:
        steps = trial.steps or ()
        faults = {step.until.name for step in singles(steps) if isinstance(step, Publish | Consume) and step.until}
        for fault in (faults or {"no fault"}) if trial.arm == "subject" else ():
            found.setdefault(fault.replace("_", " "), set()).update(open_pairs(steps))
    return {fault: len(met) for fault, met in sorted(found.items())}


def _courses_by_fault(judgement: Judgement, scenarios: Mapping[str, Scenario]) -> dict[str, list[Course]]:
    """Return the courses of the broker as configured, by the fault of their scenario."""
    subjects = {trial.trial: trial.scenario for trial in judgement.trials if trial.arm == "subject"}
    found: dict[str, list[Course]] = {}
    for course in judgement.courses:
        if course.trial in subjects:
            script = scenarios.get(subjects[course.trial])
            fault = script.fault.name.replace("_", " ") if script and script.fault else "no fault"
            found.setdefault(fault, []).append(course)
    return {fault: found[fault] for fault in sorted(found)}


def _courses_by_arm(judgement: Judgement, trials: Iterable[TrialRecord]) -> dict[str, list[Course]]:
    """Return the courses of the trials of one scenario, by their arm."""
    arms = {trial.trial: trial.control or "as configured" for trial in trials}
    found: dict[str, list[Course]] = {arm: [] for arm in arms.values()}
    for course in judgement.courses:
        if course.trial in arms:
            found[arms[course.trial]].append(course)
    return found


def _marks(row: VerdictRow, judgement: Judgement, catalogue: Catalogue, expected: Expectations | None) -> list[str]:
    found = expected.marks(row) if expected else []
    if model.judged_as(row, judgement.run, catalogue):
        return ["judged at your request, not promised by this product", *found]
    if row.required:
        found = ["your requirement, not promised by this configuration", *found]
    return [*found, "not promised by this product"] if model.not_promised(row, judgement.run, catalogue) else found


def claim_views(
    judgement: Judgement, catalogue: Catalogue, scenarios: Mapping[str, Scenario], *, ours: bool
) -> tuple[list[Group], dict[str, list[ClaimView]]]:
    """Return by question the claims about the broker, or about the suite itself, and by reason what cannot apply.

    The broker's own claims come first, then common ones. A claim without a row stands where its subject belongs.
    """
    by_claim: dict[str, list[VerdictRow]] = {}
    for row in judgement.self_checks if ours else judgement.rows:
        by_claim.setdefault(row.claim, []).append(row)
    elsewhere = {row.claim for row in judgement.rows + judgement.self_checks} - by_claim.keys()
    left, known = questions.left_out(judgement, scenarios), questions.known_problems(judgement.run)
    others = [one.id for one in catalogue.claims.values() if (one.subject is Subject.SESSION) == ours]
    lines = (
        questions.line(
            name, by_claim.get(name, []), (x for x in left if x.claim == name), (x for x in known if name in x.claims)
        )
        for name in dict.fromkeys([*others, *by_claim])
        if name not in elsewhere
    )
    profiles = set(judgement.run.profiles)
    views = sorted((_claim_view(line, judgement, catalogue) for line in lines), key=lambda x: _rank(x.claim, profiles))
    groups: dict[str, Group] = {asks: (asks, [], []) for asks in questions.QUESTIONS}
    away: dict[str, list[ClaimView]] = {}
    for view in views:
        if not view.rows and {row.verdict for row in view.line.rows} == {Verdict.NOT_APPLICABLE}:
            away.setdefault(view.reason, []).append(view)
            continue
        anomalies = [row.anomaly for row in view.rows] + [*(view.claim.checks if view.claim else ())]
        asks = next(filter(None, map(questions.question_of, anomalies)), list(groups)[3])
        (groups[asks][1] if view.rows else groups[asks][2]).append(view)
    return [group for group in groups.values() if group[1] or group[2]], away


def _rank(claim: Claim | None, profiles: Collection[str]) -> int:
    """Return the place of a claim: the vendor's own, common ones, expectations of the suite, then other vendors'."""
    own = claim is not None and bool(set(claim.binds) & set(profiles))
    return 0 if own or claim is None else 3 if claim.binds else 2 if claim.is_expectation else 1


def _claim_view(line: questions.Line, judgement: Judgement, catalogue: Catalogue) -> ClaimView:
    claim, rows = catalogue.claims.get(line.name), line.rows
    reasons = dict.fromkeys(row.reason for row in rows if row.verdict in phrases.UNTRIED)
    silent = "the judge was not asked about it: it has no row"
    return ClaimView(
        id=line.name,
        claim=claim,
        about=claim or rows[0],
        rows=tuple(model.tried_rows(rows)),
        line=line,
        url=catalogue.url(claim) if claim else "",
        said_by="" if claim is None or claim.is_expectation else catalogue.document_title(claim),
        reason="; ".join(reasons) if rows else silent,
        not_promised=any(model.not_promised(row, judgement.run, catalogue) for row in rows),
    )


def scenario_views(judgement: Judgement, scenarios: Mapping[str, Scenario]) -> list[ScenarioView]:
    """Return the scenarios that were run, in order, then those of rows without a trial."""
    return [_scenario_view(name, judgement, scenarios.get(name)) for name in _with_trials(judgement)]


def crossing_views(judgement: Judgement) -> list[CrossingView]:
    """Return each pair of protocols that trials of the broker as configured have tried, in their order."""
    trials: dict[tuple[str, str], list[TrialRecord]] = {}
    for trial in judgement.trials:
        steps = list(singles(trial.steps or ()))
        ends = [next((one.over for one in steps if isinstance(one, kind)), "") for kind in (Publish, Consume)]
        if any(ends) and trial.arm == "subject" and not trial.void:
            sent, received = (end or judgement.run.protocol for end in ends)
            trials.setdefault((sent, received), []).append(trial)
    names = {trial.scenario for each in trials.values() for trial in each}
    rows = [row for row in model.tried_rows(judgement.rows) if row.scenario in names and not row.standing]
    claims = sorted({row.claim for row in rows})
    return [
        CrossingView(*pair, {claim: _crossed([row for row in rows if row.claim == claim], each) for claim in claims})
        for pair, each in trials.items()
    ]


def damage_views(judgement: Judgement) -> list[tuple[str, list[str]]]:
    """Return what is done to the data of a broker that is down, and how often it answers in each of these ways."""
    return [
        (words, [f"{did} ({n} of {sum(counts.values())})" for did, n in _answered(counts)])
        for how, words in DAMAGE.items()
        if (counts := judgement.damage.get(how))
    ]


def _answered(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(words, counts[name]) for name, words in ANSWERS.items() if counts.get(name)]


def _crossed(rows: Iterable[VerdictRow], trials: Iterable[TrialRecord]) -> str:
    """Return in how many of these trials a message offended one claim, and whether it was decided."""
    ids: dict[str, set[str]] = {}
    for trial in trials:
        ids.setdefault(trial.scenario, set()).add(trial.trial)
    here = [row for row in rows if row.scenario in ids]
    offended = {witness.trial for row in here for witness in row.witnesses if witness.trial in ids[row.scenario]}
    undecided = any(row.verdict not in (Verdict.HOLDS, Verdict.VIOLATED) for row in here)
    tried = sum(len(ids[name]) for name in {row.scenario for row in here})
    return f"{len(offended)} of {plural(tried, 'trial')}{', undecided' if undecided else ''}" if here else ""


def _with_trials(judgement: Judgement) -> list[str]:
    rows = model.tried_rows(judgement.rows + judgement.self_checks)
    return list(dict.fromkeys([*(t.scenario for t in judgement.trials), *(r.scenario for r in rows if r.scenario)]))


def _scenario_view(name: str, judgement: Judgement, script: Scenario | None) -> ScenarioView:
    everything = [row for row in model.tried_rows(judgement.rows + judgement.self_checks) if row.scenario == name]
    fault = script.fault if script else None
    return ScenarioView(
        id=name,
        says=script.says if script else "This version of the suite no longer has the script.",
        mode=script.mode if script else next((row.mode for row in everything), ""),
        script=script,
        steps=tuple(phrases.steps_in_words(script.steps)) if script else (),
        failure_model=fault.failure_model if fault else next((row.failure_model for row in everything), ""),
        rows=tuple(row for row in everything if row in judgement.rows),
        self_checks=tuple(row.claim for row in everything if row in judgement.self_checks),
        controls=tuple(dict.fromkeys(row.control for row in everything if row.control)),
        trials=tuple(
            sorted((one for one in judgement.trials if one.scenario == name), key=lambda one: one.arm != "subject")
        ),
    )


def timeline(witness: Witness) -> list[dict[str, str]]:
    """Return the events of a witness as the texts of table cells; a missing field is empty.

    In place of events that are left out (`judge.plan.timeline`) is a row with their number as its process.
    """
    shown = fold(witness.timeline, pictures.EVENTS)
    rows = [{"at_ms": "...", "process": f"{one} more"} if isinstance(one, int) else one for one in shown]
    return [
        {key: _cell(row.get(key, "")) for key in ("at_ms", "process", "op", "phase", "epoch", "detail")} for row in rows
    ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def first_timeline(rows: Iterable[VerdictRow]) -> Witness | None:
    """Return the first witness with a timeline, which a report shows."""
    return next((witness for row in rows for witness in row.witnesses if witness.timeline), None)


def first_violation(rows: Iterable[VerdictRow], expected: Expectations | None = None) -> VerdictRow | None:
    """Return the violation whose story comes first: one that was not expected, with a time line, of a loss."""
    return min(
        (row for row in rows if row.verdict is Verdict.VIOLATED),
        key=lambda row: (
            bool(expected and expected.excuses(row)),
            first_timeline([row]) is None,
            not questions.is_loss(row.anomaly),
            row.standing,
            row.scope == Scope.COMMON,
        ),
        default=None,
    )


@functools.cache
def markdown(path: Path) -> Markup:
    """Return a Markdown file of ours as HTML: rows about a file can be linked to, and `owner/name #7` is a link.

    Links to files beside it are left out.
    """
    text = _BESIDE.sub(r"\1", path.read_text("utf-8"))
    made = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    made = _ISSUE.sub(r'<a href="https://github.com/\1/issues/\2">\1 #\2</a>', _ROW.sub(r'<tr id="\2">\1', made))
    return Markup(made)  # noqa: S704 - our own file, in which HTML is escaped


def describe_problem(problem: questions.Problem) -> list[tuple[str, Markup]]:
    """Return what the list of a problem says about it: the heading and the text of each column behind its name."""
    page = str(markdown(paths.fixtures() / problem.page / "README.md"))
    head = re.findall(r"<th>(.*?)</th>", page)
    texts = re.findall(r"<td>(.*?)</td>", page.partition(f'<tr id="{problem.name}">')[2].partition("</tr>")[0])
    return [(name, Markup(text)) for name, text in zip(head[1:], texts[1:], strict=True)]  # noqa: S704 - see `markdown`


def anchor(text: str) -> str:
    """Return the element id for a text: only letters, digits, dots and hyphens.

    >>> anchor("a b<c>")
    'a-b-c-'
    """
    return re.sub(r"[^A-Za-z0-9.-]", "-", text)


def _tone(judgement: Judgement, catalogue: Catalogue) -> Verdict:
    """Return the verdict that gives the headline its sign and colour.

    It is never `HOLDS` if more claims were not tried than hold, or if the check of a claim that is not promised failed.
    """
    rows = [row for row in model.tried_rows(judgement.rows) if not row.decided_by]
    grave = (Verdict.VIOLATED, Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE)
    if rows and rows[0].verdict in grave:
        return rows[0].verdict
    if judgement.run.interrupted or not judgement.run.finished:
        return Verdict.INCONCLUSIVE
    words = list(model.answers(judgement, catalogue).values())
    most = words.count(Verdict.NOT_TRIED) <= words.count(Verdict.HOLDS)
    return rows[0].verdict if rows and most and not model.failed_unpromised(judgement) else Verdict.NOT_TRIED


@functools.cache
def environment() -> jinja2.Environment:
    """Return the templates with their filters: every text is escaped, also what a browser or terminal would obey."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.reports()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for module in (phrases, pictures):
        environment.filters.update({name: each for name, each in vars(module).items() if callable(each)})
    own = {"anchor": anchor, "described": describe_problem, "setting_words": _setting, "timeline": timeline}
    environment.filters.update(own)
    style, script = ((paths.reports() / name).read_text("utf-8") for name in ("report.css", "report.js"))
    environment.globals.update(
        css=Markup(style),  # noqa: S704 - our own file, without foreign text
        script=Markup(script),  # noqa: S704
        script_hash=f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        signs=phrases.SIGNS,
        strengths=(questions.FAIR, questions.STRONG),
        first_timeline=first_timeline,
    )
    return environment


def _finalize(value: Any) -> Any:
    """Escape characters that a browser would interpret; jinja escapes the markup afterwards."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _setting(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
