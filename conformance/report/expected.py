"""What was expected of a run, beside what came: plain data of the report. `expectations` finds it out."""

from __future__ import annotations

import dataclasses
import enum

import msgspec

from conformance.judge.rows import VerdictRow


class Standing(enum.StrEnum):
    """How a row, or an entry of the user's own file, stands to what was expected; the gravest first."""

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
    """A standing for people: the title of its list, what the list is, and one of its members as a noun."""

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
        "Required to be tried", "Named by --require-tried, and not tried.", "claim missing that had to be tried"
    ),
    Standing.EXPIRED: Words("Expired entries", "They excuse nothing any more.", "expired entry"),
    Standing.KNOWN: Words("Known failures", "Violated as expected: they do not fail the run.", "known failure"),
    Standing.NOT_NEW: Words("Not new", "Violated in the baseline too: they do not fail the run.", "old violation"),
    Standing.STILL_UNDECIDED: Words(
        "Still undecided", "Not decided in the baseline either: they do not fail the run.", "answer open as before"
    ),
    Standing.IMPROVEMENT: Words("Improvements", "Violated or undecided in the baseline.", "improvement"),
    Standing.UNMATCHED: Words("Entries that match nothing", "No row of this run is theirs.", "idle entry"),
}


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One row, or one entry that no row answers to (`scenario` and `mode` are then empty), and how it stands."""

    standing: Standing
    claim: str
    text: str
    scenario: str = ""
    mode: str = ""

    @property
    def line(self) -> str:
        """One line without its standing."""
        return f"{self.claim}{' in ' + self.scenario if self.scenario else ''}: {self.text}"


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """What followed from the expectations: the exit code, why, and the items, the gravest first."""

    exit_code: int
    means: str
    items: tuple[Item, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Every item as one line."""
        return [f"{WORDS[item.standing].title.lower()}: {item.line}" for item in self.items]

    def of(self, standing: Standing) -> list[Item]:
        """The items of that standing."""
        return [item for item in self.items if item.standing is standing]

    def excuses(self, row: VerdictRow) -> bool:
        """Whether a violation is a known failure, or stands in the baseline too."""
        about = (row.claim, row.scenario, row.mode)
        old = [*self.of(Standing.KNOWN), *self.of(Standing.NOT_NEW)]
        return any((item.claim, item.scenario, item.mode) == about for item in old)

    def marks(self, row: VerdictRow) -> list[str]:
        """What to say beside a row, such as `known failure`."""
        about = (row.claim, row.scenario, row.mode)
        found = [item.standing for item in self.items if (item.claim, item.scenario, item.mode) == about]
        return [WORDS[standing].noun for standing in dict.fromkeys(found)]
