"""The report as data, its headline, and what limits its answers.

This module only counts and words. The rows say whether a claim is violated.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from conformance import __version__, records
from conformance.claims import Catalogue, Kind, Scope, Subject
from conformance.counting import plural
from conformance.judge.exits import exit_code
from conformance.judge.rows import Course, Judgement, Verdict, VerdictRow
from conformance.records import RunRecord, TrialRecord
from conformance.report import questions
from conformance.report.phrases import UNTRIED, exposure_words, gravity


class Standing(enum.StrEnum):
    """How a row, or an entry of the user's file, compares with what was expected; the most serious first."""

    REGRESSION = "regression"
    MENDED = "mended"
    LOST_COVERAGE = "lost-coverage"
    UNTRIED = "untried"
    EXPIRED = "expired"
    KNOWN = "known"
    NOT_NEW = "not-new"
    STILL_UNDECIDED = "still-undecided"
    IMPROVEMENT = "improvement"
    UNMATCHED = "unmatched"


@dataclasses.dataclass(frozen=True)
class StandingText:
    """The texts of a standing: the title of its list, what the list means, and a noun for one member."""

    title: str
    means: str
    noun: str


STANDING_TEXTS: dict[Standing, StandingText] = {
    Standing.REGRESSION: StandingText("New violations", "Violated now, and not in the baseline.", "new violation"),
    Standing.MENDED: StandingText(
        "Known failures that did not fail", "Expected to fail every time, and they hold.", "known failure that holds"
    ),
    Standing.LOST_COVERAGE: StandingText(
        "Lost coverage", "Decided in the baseline, and not in this run.", "answer lost since the baseline"
    ),
    Standing.UNTRIED: StandingText(
        "Required to be tried", "Named by --require-tried, and not tried.", "required claim that was not tried"
    ),
    Standing.EXPIRED: StandingText("Expired entries", "They no longer excuse a violation.", "expired entry"),
    Standing.KNOWN: StandingText("Known failures", "Violated as expected: they do not fail the run.", "known failure"),
    Standing.NOT_NEW: StandingText(
        "Not new", "Violated in the baseline too: they do not fail the run.", "violation known from the baseline"
    ),
    Standing.STILL_UNDECIDED: StandingText(
        "Still undecided", "Not decided in the baseline either: they do not fail the run.", "answer undecided as before"
    ),
    Standing.IMPROVEMENT: StandingText("Improvements", "Violated or undecided in the baseline.", "improvement"),
    Standing.UNMATCHED: StandingText(
        "Entries that match nothing", "They match no row of this run.", "entry without a match"
    ),
}


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One row, or one entry without a row (`scenario` and `mode` are then empty), and its standing."""

    standing: Standing
    claim: str
    text: str
    scenario: str = ""
    mode: str = ""

    @property
    def line(self) -> str:
        return f"{self.claim}{' in ' + self.scenario if self.scenario else ''}: {self.text}"


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the expectations: the exit code, its meaning, and the items, the most serious first."""

    exit_code: int
    means: str
    items: tuple[Item, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [f"{STANDING_TEXTS[item.standing].title.lower()}: {item.line}" for item in self.items]

    def of(self, standing: Standing) -> list[Item]:
        return [item for item in self.items if item.standing is standing]

    def excuses(self, row: VerdictRow) -> bool:
        """Whether a violation is a known failure, or is in the baseline too."""
        about = (row.claim, row.scenario, row.mode)
        old = [*self.of(Standing.KNOWN), *self.of(Standing.NOT_NEW)]
        return any((item.claim, item.scenario, item.mode) == about for item in old)

    def marks(self, row: VerdictRow) -> list[str]:
        about = (row.claim, row.scenario, row.mode)
        found = [item.standing for item in self.items if (item.claim, item.scenario, item.mode) == about]
        return [STANDING_TEXTS[standing].noun for standing in dict.fromkeys(found)]


SCHEMA: Final = 1
ON_TOP = (Standing.REGRESSION, Standing.MENDED, Standing.UNTRIED, Standing.KNOWN, Standing.NOT_NEW)
"""The standings that the headline counts."""
UNPROMISED = "Not promised by this configuration, and seen to fail"
LOW_EXPOSURE = 10
"""The report points out trials with fewer operations at risk. It changes no verdict."""


class Generator(msgspec.Struct, frozen=True, kw_only=True):
    """The program that wrote the report."""

    name: str
    version: str


class Summary(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={word.value.lower(): word.value for word in Verdict},
):
    """The number of claims with each answer (`answers`), the exit code, and the headline."""

    holds: int
    violated: int
    inconclusive: int
    not_tried: int
    not_applicable: int
    harness_error: int
    witnessed: int
    not_witnessed: int
    observed: int
    exit_code: int
    headline: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`report.json`; `reports/templates/report.schema.json` is its JSON Schema.

    `account`: where the confirmed messages of the broker as configured ended, by the names of `fates.ACCOUNT`.
    `damage`: what it did with data that were damaged at rest, by the kind of damage and the names of `rows.ANSWERS`.
    `expectations` is set if the user named known failures, a baseline or claims that must be tried.
    """

    schema: Literal[1]
    generator: Generator
    run: RunRecord
    summary: Summary
    verdicts: tuple[VerdictRow, ...]
    self_checks: tuple[VerdictRow, ...]
    trials: tuple[TrialRecord, ...]
    courses: tuple[Course, ...] = ()
    account: dict[str, int] = {}
    damage: dict[str, dict[str, int]] = {}
    expectations: Expectations | None = None

    @property
    def judgement(self) -> Judgement:
        return Judgement(
            run=self.run,
            rows=self.verdicts,
            self_checks=self.self_checks,
            trials=self.trials,
            courses=self.courses,
            account=self.account,
            damage=self.damage,
        )


def report(judgement: Judgement, catalogue: Catalogue | None = None, expected: Expectations | None = None) -> Report:
    """Return the whole report as data; with the catalogue, claims without a row are counted as not tried."""
    words = list(answers(judgement, catalogue).values())
    return Report(
        schema=SCHEMA,
        generator=Generator(name="ack-conformance", version=__version__),
        run=judgement.run,
        summary=Summary(
            **{word.value.lower(): words.count(word) for word in Verdict},
            exit_code=expected.exit_code if expected else int(exit_code(judgement)),
            headline=headline(judgement, catalogue, expected),
        ),
        verdicts=judgement.rows,
        self_checks=judgement.self_checks,
        trials=judgement.trials,
        courses=judgement.courses,
        account=judgement.account,
        damage=judgement.damage,
        expectations=expected,
    )


def write_json(
    judgement: Judgement, path: Path, catalogue: Catalogue | None = None, expected: Expectations | None = None
) -> None:
    """Write `report.json`. Invalid bytes of a log become `?`: the file is always valid UTF-8."""
    data = msgspec.to_builtins(report(judgement, catalogue, expected))
    write(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", path)


def write(text: str, path: Path) -> None:
    """Write a file of the report in one step (`records.replace`). Invalid bytes become `?`."""
    records.replace(text.encode("utf-8", "replace"), path)


def read_stored(folder: Path) -> Judgement | None:
    """Return the verdicts in the report of a run; None unless this suite wrote them from the evidence that it has.

    Raises what `records.check_run` raises.
    """
    records.check_run(folder)
    if not records.is_judged(folder):
        return None
    try:
        return read_json(folder / "report.json").judgement
    except (OSError, msgspec.MsgspecError):
        return None


def read_json(path: Path) -> Report:
    """Read a `report.json`; raises `msgspec.ValidationError` if it does not follow the schema."""
    return msgspec.json.decode(path.read_bytes(), type=Report)


def schema_text() -> str:
    body = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Report)}
    return json.dumps(body, indent=1) + "\n"


def tried_rows(rows: Iterable[VerdictRow]) -> list[VerdictRow]:
    """Return the rows with a trial, the worst verdict first, and last those that a stronger scenario has decided."""
    found = (row for row in rows if row.verdict not in UNTRIED)
    return sorted(found, key=lambda row: (bool(row.decided_by), gravity(row.verdict)))


def answers(judgement: Judgement, catalogue: Catalogue | None = None) -> dict[str, Verdict]:
    """Return one answer a claim about the broker: the worst of its rows; with the catalogue, of every claim.

    A row that a stronger scenario has decided counts only if there is no other, and so does one without a trial. A
    claim that could apply and has no trial is NOT_TRIED, although it does not apply in another scenario.
    """
    found: dict[str, Verdict] = {}
    for row in tried_rows(judgement.rows):
        found.setdefault(row.claim, row.verdict)
    for word in (Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE):
        for row in judgement.rows:
            if row.verdict is word:
                found.setdefault(row.claim, word)
    known = {row.claim for row in judgement.rows + judgement.self_checks}
    every = catalogue.claims.items() if catalogue else ()
    absent = [name for name, claim in every if name not in known and claim.subject != Subject.SESSION]
    return found | dict.fromkeys(absent, Verdict.NOT_TRIED)


def not_promised(row: VerdictRow, run: RunRecord, catalogue: Catalogue | None = None) -> bool:
    """Whether the row is about another vendor's sentence, which does not bind this product."""
    claim = catalogue.claims.get(row.claim) if catalogue else None
    if claim is not None:
        return claim.scope is Scope.PROFILE and not set(claim.binds) & set(run.profiles)
    return row.scope == Scope.PROFILE and row.kind != Kind.OBSERVATION and row.verdict is Verdict.OBSERVED


def judged_as(row: VerdictRow, run: RunRecord, catalogue: Catalogue | None = None) -> bool:
    """Whether the row is judged only because the user asked for another vendor's sentences."""
    if not run.judged_as or not row.required or row.scope != Scope.PROFILE:
        return False
    return not_promised(row, run, catalogue) if catalogue and row.claim in catalogue.claims else True


def is_undecided(row: VerdictRow) -> bool:
    """Whether a row is undecided, and no stronger test covers it."""
    return row.verdict is Verdict.INCONCLUSIVE and not row.decided_by


def failed_unpromised(judgement: Judgement) -> dict[str, VerdictRow]:
    """Return the claims that this configuration does not promise and whose check failed, each with its worst row."""
    failed = sorted((row for row in judgement.rows if row.failed_unpromised), key=lambda row: -row.offences)
    return {claim: next(row for row in failed if row.claim == claim) for claim in claims_of(failed)}


def headline(judgement: Judgement, catalogue: Catalogue | None = None, expected: Expectations | None = None) -> str:
    """Return the headline: whether confirmed messages were safe, what else was violated, and what limits the answer."""
    rows = judgement.rows
    if not tried_rows(rows):
        parts = ["Nothing was tried."]
    else:
        violated = [row for row in rows if row.verdict is Verdict.VIOLATED]
        own = [row for row in violated if not row.required and not (expected and expected.excuses(row))]
        parts = [questions.sentence(judgement), *questions.failures(judgement, claims_of(own))]
        parts += ["Nothing new was violated."] if any(not row.required for row in violated) and not own else []
        asked = [row for row in violated if row.required]
        foreign = claims_of(row for row in asked if judged_as(row, judgement.run, catalogue))
        given_up = [claim for claim in claims_of(asked) if claim not in foreign]
        for found, noun, whose in (
            (given_up, "requirement", "of yours, not promised by this configuration"),
            (foreign, "sentence", "of another vendor, judged at your request"),
        ):
            parts += [f"{plural(len(found), noun)} {whose}, violated: {_listed(found)}."] if found else []
    limits = ["The run was interrupted."] if judgement.run.interrupted else []
    limits += ["The run is incomplete."] if not judgement.run.finished and not judgement.run.interrupted else []
    return " ".join([*parts, *_unpromised(judgement), *_expected_parts(expected), *limits])


COUNTED = {
    Verdict.VIOLATED: ("violated", "violated"),
    Verdict.HARNESS_ERROR: ("with an error of the suite", "with an error of the suite"),
    Verdict.INCONCLUSIVE: ("undecided", "undecided"),
    Verdict.HOLDS: ("claim holds", "claims hold"),
    Verdict.NOT_TRIED: ("not tried", "not tried"),
}


def counts(judgement: Judgement, catalogue: Catalogue | None = None) -> dict[Verdict, str]:
    """Return how many claims have which answer: `33 claims hold`. A requirement of the user does not count."""
    required = {row.claim for row in judgement.rows if row.required and row.verdict is Verdict.VIOLATED}
    words = [word for claim, word in answers(judgement, catalogue).items() if claim not in required]
    shown = [word for word in COUNTED if word in words or word is not Verdict.HARNESS_ERROR]
    return {word: plural(words.count(word), *COUNTED[word]) for word in shown}


def counted(judgement: Judgement, catalogue: Catalogue | None = None) -> str:
    """`0 violated, 0 undecided, 33 claims hold, 3 not tried`."""
    return f"{', '.join(counts(judgement, catalogue).values())}."


def _unpromised(judgement: Judgement) -> list[str]:
    figures = [f"{row.failed_unpromised} ({claim})" for claim, row in failed_unpromised(judgement).items()]
    return [f"{UNPROMISED}: {_listed(figures)}."] if figures else []


def _expected_parts(expected: Expectations | None) -> list[str]:
    found = {standing: claims_of(expected.of(standing)) for standing in ON_TOP} if expected else {}
    return [f"{plural(len(c), STANDING_TEXTS[name].noun)}: {_listed(c)}." for name, c in found.items() if c]


def claims_of(rows: Iterable[VerdictRow | Item]) -> list[str]:
    return list(dict.fromkeys(row.claim for row in rows))


def _listed(claims: Sequence[str]) -> str:
    return ", ".join(claims[:3]) + (f" and {len(claims) - 3} more" if len(claims) > 3 else "")


@dataclasses.dataclass(frozen=True)
class Doubt:
    """A limit of the answers, or a violation: a title, a sentence, and (row or None, text) items."""

    key: str
    title: str
    text: str
    items: tuple[tuple[VerdictRow | None, str], ...] = ()


def doubts(
    judgement: Judgement, catalogue: Catalogue | None = None, expected: Expectations | None = None
) -> list[Doubt]:
    """Return everything that counts against the broker or limits the answers, the most serious first."""
    everything = (
        *_by_word(judgement, catalogue),
        *_by_expectation(expected),
        *_by_trial(judgement),
        *_by_control(judgement),
        *_by_selection(judgement, catalogue),
        *_by_course(judgement),
        *_by_exposure(judgement),
    )
    return [doubt for doubt in everything if doubt.items or doubt.key == "course"]


def _by_word(judgement: Judgement, catalogue: Catalogue | None) -> Iterator[Doubt]:
    def rows(*words: Verdict, of: Iterable[VerdictRow] = judgement.rows) -> tuple[tuple[VerdictRow | None, str], ...]:
        return tuple((row, row.reason) for row in of if row.verdict in words)

    promised = [row for row in judgement.rows if not row.required]
    foreign = [row for row in judgement.rows if judged_as(row, judgement.run, catalogue)]
    given_up = [row for row in judgement.rows if row.required and row not in foreign]
    asked = "Judged because you asked; never counted against the vendor."
    violated = Verdict.VIOLATED
    yield Doubt("violated", "Violated", "A counterexample was found.", rows(violated, of=promised))
    yield Doubt("required", "Your requirement, not promised by this configuration", asked, rows(violated, of=given_up))
    failed = tuple((row, row.failed_unpromised) for row in judgement.rows if row.failed_unpromised)
    yield Doubt("unpromised", UNPROMISED, "It does not change the exit code; `--require CLAIM` makes it count.", failed)
    yield Doubt("judged-as", "Sentences of another vendor", asked, rows(violated, of=foreign))
    yield Doubt("error", "Errors of the suite", "Errors of the suite, not of the broker.", rows(Verdict.HARNESS_ERROR))
    open_ = [row for row in judgement.rows if is_undecided(row)]
    settled = [row for row in judgement.rows if row.decided_by]
    inconclusive = Verdict.INCONCLUSIVE
    stronger = "A kill cannot show a missing sync. A test of the disk, or a power loss, did, and the claim holds there."
    yield Doubt("undecided", "Undecided", "Tried, without evidence in either direction.", rows(inconclusive, of=open_))
    yield Doubt("covered", "Covered by a stronger test", stronger, rows(inconclusive, of=settled))
    not_passed = (Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR)
    broken = (row for row in judgement.self_checks if row.verdict in not_passed)
    yield Doubt(
        "self",
        "Self-checks that did not pass",
        "The suite's own sessions are in doubt, and so are all trials that used them.",
        tuple((row, f"{row.verdict}: {row.reason}") for row in broken),
    )


def _by_expectation(expected: Expectations | None) -> Iterator[Doubt]:
    if expected is None:
        return
    for standing, words in STANDING_TEXTS.items():
        lines = tuple((None, item.line) for item in expected.of(standing))
        yield Doubt(standing.value, words.title, words.means, lines)


def _by_trial(judgement: Judgement) -> Iterator[Doubt]:
    void = [trial for trial in judgement.trials if trial.void]
    count = f"{len(void)} of {plural(len(judgement.trials), 'trial')}"
    yield Doubt(
        "void",
        "Void trials",
        f"No conclusion is drawn from {count}.",
        tuple((None, f"{trial.trial} ({trial.scenario}, {trial.arm}): {trial.void}") for trial in void),
    )


def _by_control(judgement: Judgement) -> Iterator[Doubt]:
    judged = [row for row in tried_rows(judgement.rows) if row.verdict is not Verdict.VIOLATED]
    yield Doubt(
        "control",
        "Controls that were not always seen to fail",
        "If a control passes, a pass of the broker proves little.",
        tuple(
            (row, f"{row.control.label}: seen to fail in {row.control.failed} of {row.control.trials}")
            for row in judged
            if row.control is not None and row.control.failed < row.control.trials
        ),
    )


def _by_selection(judgement: Judgement, catalogue: Catalogue | None) -> Iterator[Doubt]:
    reasons: dict[str, list[str]] = {}
    left_out = [claim for claim, word in answers(judgement, catalogue).items() if word is Verdict.NOT_TRIED]
    known = {row.claim: row.reason for row in judgement.rows if row.verdict is Verdict.NOT_TRIED}
    for claim in left_out:
        reasons.setdefault(known.get(claim, "the judge was not asked about it") or "no reason given", []).append(claim)
    yield Doubt(
        "not-tried",
        "Not tried",
        f"{plural(len(left_out), 'claim')} without a trial: this report says nothing for or against the broker there.",
        tuple((None, f"{reason} ({len(claims)}): {', '.join(claims)}") for reason, claims in reasons.items()),
    )


def _by_course(judgement: Judgement) -> Iterator[Doubt]:
    if judgement.run.interrupted:
        yield Doubt("course", "Interrupted", "The run was stopped before its last trial; what was recorded counts.")
    elif not judgement.run.finished:
        early = "The run ended before its last trial, without an interrupt."
        wrong = f"No claim of this run holds, because its folder is not complete: {judgement.run.incomplete}."
        yield Doubt("course", "Incomplete", wrong if judgement.run.incomplete else early)


def _by_exposure(judgement: Judgement) -> Iterator[Doubt]:
    passes = [row for row in judgement.rows if row.verdict in (Verdict.HOLDS, Verdict.NOT_WITNESSED)]
    low = (row for row in passes if row.exposure is not None and row.exposure.minimum < LOW_EXPOSURE)
    yield Doubt(
        "exposure",
        "Low exposure",
        f"In at least one trial fewer than {LOW_EXPOSURE} operations were at risk.",
        tuple((row, exposure_words(row.exposure)) for row in low),
    )
