"""Compare a run with what its user expects: known failures, a baseline, and claims that must be tried.

No verdict changes here, only the exit code and the marks of a row:

* A known failure that is VIOLATED does not fail the run. One that should fail `always` and HOLDS does (exit 1): remove
  its entry. An entry excuses through the day it expires. Only VIOLATED is ever excused.
* With a baseline only regressions fail. Violated now and not then: 1. Decided then and now undecided, not tried, not
  applicable or without a row: 2. Violated, or undecided, in both: no failure. An error of the suite stays 3.
* A claim that must be tried and was not: 2.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import operator
import pathlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from conformance import claims
from conformance.claims import Catalogue
from conformance.errors import ExitCode, UsageError
from conformance.judge.exits import exit_code
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.judge.rules import is_self_check
from conformance.report import model
from conformance.report.model import Expectations, Item, Report, Standing
from conformance.report.phrases import EXIT_MEANS, with_errors

DECIDED = (Verdict.HOLDS, Verdict.VIOLATED, Verdict.WITNESSED, Verdict.NOT_WITNESSED, Verdict.OBSERVED)
"""Verdicts that decide; a row that had one of them in the baseline and has none now is lost coverage."""

_WORSE = (Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR, Verdict.NOT_TRIED)

_FAILS = {
    Standing.REGRESSION: ExitCode.VIOLATED,
    Standing.MENDED: ExitCode.VIOLATED,
    Standing.LOST_COVERAGE: ExitCode.INCONCLUSIVE,
    Standing.UNTRIED: ExitCode.INCONCLUSIVE,
}
_ORDER = list(Standing)


class Expect(enum.StrEnum):
    """How often a known failure occurs; one that fails `always` must fail."""

    ALWAYS = "always"
    SOMETIMES = "sometimes"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a file of known failures. An empty field matches everything.

    `versions` is a range such as `>=2.31,<2.60`. `expires` is the last day on which it excuses.
    """

    claim: str
    adapter: str
    reason: str
    link: str
    expires: datetime.date
    expect: Expect = Expect.ALWAYS
    versions: str = ""
    scenario: str = ""
    protocol: str = ""
    mode: str = ""

    def matches(self, row: VerdictRow) -> bool:
        """Whether the entry is about that row, with any verdict."""
        narrowed = ((self.scenario, row.scenario), (self.protocol, row.protocol), (self.mode, row.mode))
        return (
            (self.claim, self.adapter) == (row.claim, row.adapter)
            and all(mine in ("", theirs) for mine, theirs in narrowed)
            and in_range(row.version, self.versions)
        )

    def expired(self, today: datetime.date) -> bool:
        return today > self.expires

    @property
    def line(self) -> str:
        return f"{self.reason} ({self.link}; until {self.expires})"


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_BOUND = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)")


def in_range(version: str, bounds: str) -> bool:
    """Whether a version meets every bound; missing numbers count as 0.

    >>> in_range("2.56.0", ">=2.31,<2.60"), in_range("2.60", "<2.60.0"), in_range("2.9", "")
    (True, False, True)
    """
    found = [_BOUND.fullmatch(part.strip()) for part in bounds.split(",") if part.strip()]
    return all(match and _COMPARE[match[1]](version_numbers(version), version_numbers(match[2])) for match in found)


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, by which versions compare: 2.60 is 2.60.0."""
    leading = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in leading[0].split(".")] if leading else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def read_known(path: pathlib.Path, catalogue: Catalogue) -> tuple[Known, ...]:
    """The entries of a file of known failures (TOML, tables `[[known]]`).

    Raises `UsageError`, one line, if the file cannot be read or has an unknown word.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # a TOML error and one of the encoding are ValueErrors
        raise UsageError(f"--known-failures {path}: {_line(error)}", code="not-read", file=path) from error
    _known_words(f"{path}: table", data, ["known"])
    entries = data.get("known", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: every entry begins with a line [[known]]", code="bad-known-failures", file=path)
    return tuple(_entry(f"{path}: entry {number}", entry, catalogue) for number, entry in enumerate(entries, 1))


def _entry(where: str, data: Mapping[str, Any], catalogue: Catalogue) -> Known:
    _known_words(f"{where}: key", data, Known.__struct_fields__)
    try:
        known = msgspec.convert(data, Known)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_line(error)}", code="bad-known-failures") from error
    _known_words(f"{where}: claim", [known.claim], catalogue.claims)
    for part in filter(None, (part.strip() for part in known.versions.split(","))):
        if not _BOUND.fullmatch(part):
            raise UsageError(f"{where}: versions {part!r} is not a bound such as '>=2.31,<2.60'", code="bad-bound")
    return known


def _known_words(what: str, words: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for word in words:
        if word not in known:
            where, _, noun = what.rpartition(": ")
            raise UsageError.unknown(noun, word, known).within(where)


def read_report(path: pathlib.Path, *, option: str = "") -> Report:
    """Read an earlier `report.json`, or the one in a folder; raises `UsageError`, with the option, if there is none."""
    file = path / "report.json" if path.is_dir() else path
    try:
        return model.read_json(file)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{option} {path}: {_line(error)}".strip(), code="not-read", file=path) from error


def check_baseline(baseline: Report | None, *, adapter: str, protocol: str) -> None:
    """Raise `UsageError` if the baseline is about another broker or protocol."""
    if baseline is None:
        return
    then, now = (baseline.run.adapter, baseline.run.protocol), (adapter, protocol)
    if then != now:
        raise UsageError(
            f"the baseline is about {' over '.join(then)}, this run about {' over '.join(now)}", code="other-baseline"
        )


_NOTHING = Expectations(exit_code=0, means="")


@dataclasses.dataclass(frozen=True)
class ExpectationOutcome:
    """The result of comparing a judgement with what was expected, as a whole and for each row."""

    known: tuple[Known, ...]
    then: Mapping[tuple[str, str, str], Verdict] | None
    today: datetime.date
    expectations: Expectations = _NOTHING

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode(self.expectations.exit_code)

    @property
    def lines(self) -> list[str]:
        return self.expectations.lines

    def excused(self, row: VerdictRow) -> Known | None:
        """Return the entry that excuses this violation; None without one, or without a violation."""
        return self._entry(row) if row.verdict is Verdict.VIOLATED and not is_self_check(row) else None

    def mended(self, row: VerdictRow) -> Known | None:
        """Return the entry that expects a row to fail `always` although it holds."""
        return self._entry(row, Expect.ALWAYS) if row.verdict is Verdict.HOLDS and not is_self_check(row) else None

    def spared(self, row: VerdictRow) -> bool:
        """Whether a row that would fail the run does not. A row that holds is not spared."""
        return self.excused(row) is not None or self._since(row) in (Standing.NOT_NEW, Standing.STILL_UNDECIDED)

    def items_of(self, row: VerdictRow) -> Iterator[Item]:
        excused, mended, since = self.excused(row), self.mended(row), self._since(row)
        if excused:
            yield _item(Standing.KNOWN, row, excused.line)
        elif since:
            yield _item(since, row, f"{self._before(row)} in the baseline, {row.verdict} now")
        if mended:
            narrow = "" if mended.scenario else ", or name the scenario that fails"
            yield _item(Standing.MENDED, row, f"expected to fail and did not: remove the entry{narrow}. {mended.line}")

    def _entry(self, row: VerdictRow, *expect: Expect) -> Known | None:
        live = (entry for entry in self.known if not entry.expired(self.today) and entry.matches(row))
        return next((entry for entry in live if entry.expect in (expect or Expect)), None)

    def _before(self, row: VerdictRow) -> str:
        return str((self.then or {}).get(_key(row), "no answer"))

    def _since(self, row: VerdictRow) -> Standing | None:
        """Return how a row compares with the baseline; None without one, and for no difference."""
        if self.then is None:
            return None
        before, now = self.then.get(_key(row)), row.verdict
        if now is Verdict.VIOLATED:
            if is_self_check(row):
                return None  # an error of the suite, old or new
            return Standing.NOT_NEW if before is Verdict.VIOLATED else Standing.REGRESSION
        if now not in DECIDED and before in DECIDED:
            return Standing.LOST_COVERAGE
        if now is Verdict.INCONCLUSIVE:
            return Standing.STILL_UNDECIDED
        return Standing.IMPROVEMENT if now in DECIDED and before in _WORSE else None


@dataclasses.dataclass(frozen=True)
class Expected:
    """What the user expects, as read from files and options; `require_tried` are ids of claims."""

    known: tuple[Known, ...] = ()
    baseline: Report | None = None
    require_tried: tuple[str, ...] = ()
    today: datetime.date = dataclasses.field(default_factory=lambda: datetime.datetime.now().astimezone().date())

    @classmethod
    def read(
        cls,
        catalogue: Catalogue,
        known_failures: pathlib.Path | None,
        baseline: pathlib.Path | None,
        require_tried: Iterable[str],
    ) -> Expected:
        """Read and check every file and option; raises `UsageError`, one line."""
        return cls(
            known=read_known(known_failures, catalogue) if known_failures else (),
            baseline=read_report(baseline, option="--baseline") if baseline else None,
            require_tried=tuple(claim.id for claim in claims.select(require_tried, catalogue)),
        )

    def of(self, judgement: Judgement) -> ExpectationOutcome:
        """Compare a judgement with what is expected; raises `UsageError` for a baseline of another broker."""
        run, baseline = judgement.run, self.baseline
        check_baseline(baseline, adapter=run.adapter, protocol=run.protocol)
        then = {_key(row): row.verdict for row in baseline.verdicts + baseline.self_checks} if baseline else None
        plain = ExpectationOutcome(self.known, then, self.today)
        found = [item for row in judgement.rows + judgement.self_checks for item in plain.items_of(row)]
        found += [*_gone(judgement, baseline), *_untried(judgement, self.require_tried)]
        found += _of_entries(plain, judgement)
        found.sort(key=lambda item: _ORDER.index(item.standing))
        asked = [_FAILS[item.standing] for item in found if item.standing in _FAILS]
        code = exit_code(judgement, spared=plain.spared, also=asked)
        means = _means(code, exit_code(judgement), exit_code(judgement, spared=plain.spared), baseline is not None)
        means = with_errors(means, code, judgement)
        return dataclasses.replace(
            plain, expectations=Expectations(exit_code=int(code), means=means, items=tuple(found))
        )

    def in_report(self, found: ExpectationOutcome) -> Expectations | None:
        """Return the part of the report about it; None if the user expected nothing."""
        return found.expectations if self.known or self.baseline or self.require_tried else None


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return next(iter(str(error).splitlines()), type(error).__name__)


def _key(row: VerdictRow) -> tuple[str, str, str]:
    return (row.claim, row.scenario, row.mode)


def _item(standing: Standing, row: VerdictRow, text: str) -> Item:
    return Item(standing=standing, claim=row.claim, scenario=row.scenario, mode=row.mode, text=text)


def _gone(judgement: Judgement, baseline: Report | None) -> Iterator[Item]:
    """Yield decided rows of the baseline that this run does not have."""
    here = {_key(row) for row in judgement.rows + judgement.self_checks}
    for row in baseline.verdicts + baseline.self_checks if baseline else ():
        if row.verdict in DECIDED and _key(row) not in here:
            yield _item(Standing.LOST_COVERAGE, row, f"{row.verdict} in the baseline, no row now")


def _untried(judgement: Judgement, require_tried: Iterable[str]) -> Iterator[Item]:
    rows = judgement.rows + judgement.self_checks
    for claim in require_tried:
        mine = [row for row in rows if row.claim == claim]
        if any(row.verdict is not Verdict.NOT_TRIED for row in mine):
            continue
        selected = judgement.run.selected
        why = mine[0].reason if mine else "The judge was not asked about it."
        enable = f" --claims {claim} selects it." if selected and claim not in selected else ""
        yield Item(standing=Standing.UNTRIED, claim=claim, text=f"{why}{enable}")


def _of_entries(plain: ExpectationOutcome, judgement: Judgement) -> Iterator[Item]:
    """Yield entries that excuse nothing: expired ones, and those that match no row of this run."""
    for entry in plain.known:
        if entry.expired(plain.today):
            yield Item(
                standing=Standing.EXPIRED,
                claim=entry.claim,
                text=f"expired on {entry.expires}: {entry.reason} ({entry.link})",
            )
        elif not any(entry.matches(row) for row in judgement.rows):
            words = [entry.adapter, entry.versions, entry.protocol, entry.scenario, entry.mode]
            yield Item(
                standing=Standing.UNMATCHED,
                claim=entry.claim,
                text=f"no row of this run is about {', '.join(filter(None, words))}",
            )


def _means(code: ExitCode, usual: ExitCode, of_rows: ExitCode, compared: bool) -> str:
    """Return the meaning of the exit code: the usual one, unless the expectations changed it.

    `usual` is the code without expectations, `of_rows` the code of the rows that are not spared.
    """
    if code is ExitCode.VIOLATED and of_rows is not code:
        return "a known failure that should fail every time did not: remove its entry"
    if code is ExitCode.VIOLATED and compared:
        return "at least one claim was violated that was not violated in the baseline"
    if code is usual:
        return EXIT_MEANS[code]
    if code is ExitCode.INCONCLUSIVE:
        return "only expected violations, and a claim that had to be tried or decided was not"
    if code is ExitCode.CONFORMANT:
        return "every violation and every undecided claim was expected"
    return EXIT_MEANS[code]
