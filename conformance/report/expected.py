"""How a run compares with what the user expected: plain data of the report, made by `expectations`."""

from __future__ import annotations

import dataclasses
import enum

import msgspec

from conformance.judge.rows import VerdictRow


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
class Words:
    """The texts of a standing: the title of its list, what the list means, and a noun for one member."""

    title: str
    means: str
    noun: str


WORDS: dict[Standing, Words] = {
    Standing.REGRESSION: Words("Regressions", "Violated now, and not in the baseline.", "regression"),
    Standing.MENDED: Words(
        "Known failures that did not fail", "Expected to fail every time, and they hold.", "known failure that holds"
    ),
    Standing.LOST_COVERAGE: Words(
        "Lost coverage", "Decided in the baseline, and not in this run.", "answer lost since the baseline"
    ),
    Standing.UNTRIED: Words(
        "Required to be tried", "Named by --require-tried, and not tried.", "required claim that was not tried"
    ),
    Standing.EXPIRED: Words("Expired entries", "They no longer excuse a violation.", "expired entry"),
    Standing.KNOWN: Words("Known failures", "Violated as expected: they do not fail the run.", "known failure"),
    Standing.NOT_NEW: Words(
        "Not new", "Violated in the baseline too: they do not fail the run.", "violation known from the baseline"
    ),
    Standing.STILL_UNDECIDED: Words(
        "Still undecided", "Not decided in the baseline either: they do not fail the run.", "answer undecided as before"
    ),
    Standing.IMPROVEMENT: Words("Improvements", "Violated or undecided in the baseline.", "improvement"),
    Standing.UNMATCHED: Words("Entries that match nothing", "They match no row of this run.", "entry without a match"),
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
        """The item as one line, without its standing."""
        return f"{self.claim}{' in ' + self.scenario if self.scenario else ''}: {self.text}"


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the expectations: the exit code, its meaning, and the items, the most serious first."""

    exit_code: int
    means: str
    items: tuple[Item, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Every item as one line."""
        return [f"{WORDS[item.standing].title.lower()}: {item.line}" for item in self.items]

    def of(self, standing: Standing) -> list[Item]:
        """Return the items of that standing."""
        return [item for item in self.items if item.standing is standing]

    def excuses(self, row: VerdictRow) -> bool:
        """Whether a violation is a known failure, or is in the baseline too."""
        about = (row.claim, row.scenario, row.mode)
        old = [*self.of(Standing.KNOWN), *self.of(Standing.NOT_NEW)]
        return any((item.claim, item.scenario, item.mode) == about for item in old)

    def marks(self, row: VerdictRow) -> list[str]:
        """Return the marks of a row, such as `known failure`."""
        about = (row.claim, row.scenario, row.mode)
        found = [item.standing for item in self.items if (item.claim, item.scenario, item.mode) == about]
        return [WORDS[standing].noun for standing in dict.fromkeys(found)]
