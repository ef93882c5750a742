"""What the user expects of the verdicts beside them, in a session of pytest: `conformance.expectations` decides."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from typing import Any

import pytest

from conformance import claims, expectations
from conformance.campaign import Campaign
from conformance.expectations import Known, Outcome
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.report.expected import WORDS, Expectations, Standing
from conformance.report.model import Report


@dataclasses.dataclass(frozen=True)
class Expected:
    """`--known-failures`, `--baseline` and `--require-tried` as they were read; `require_tried` are ids of claims."""

    known: tuple[Known, ...] = ()
    baseline: Report | None = None
    require_tried: tuple[str, ...] = ()
    today: datetime.date = dataclasses.field(default_factory=lambda: datetime.datetime.now().astimezone().date())

    def of(self, judgement: Judgement) -> Outcome:
        """What follows from everything that is judged so far."""
        return expectations.outcome(
            judgement,
            known=self.known,
            baseline=self.baseline,
            require_tried=self.require_tried,
            today=self.today,
        )

    def told(self, outcome: Outcome) -> Expectations | None:
        """What the report says of it; None where the user expected nothing."""
        return outcome.expectations if self.known or self.baseline or self.require_tried else None


def read(config: pytest.Config, campaign: Campaign) -> Expected:
    """Read and check every file and word; raises `UsageError`, one line."""

    def file(name: str) -> pathlib.Path | None:
        word = config.getoption(f"conformance_{name}")
        return pathlib.Path(word) if word else None

    catalogue, known, baseline = campaign.catalogue, file("known_failures"), file("baseline")
    before = expectations.read_baseline(baseline) if baseline else None
    expectations.check_baseline(before, adapter=campaign.adapter.name, protocol=campaign.selection.protocol)
    required = claims.select(words(config.getoption("conformance_require_tried")), catalogue)
    return Expected(
        known=expectations.read_known(known, catalogue) if known else (),
        baseline=before,
        require_tried=tuple(claim.id for claim in required),
    )


def words(given: Any) -> tuple[str, ...]:
    """The words of an option that may be repeated, and may hold several between commas."""
    return tuple(word for one in given for word in one.replace(",", " ").split())


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a test goes by: its row, what follows from it, and whether its claim had to be tried and is not."""

    row: VerdictRow
    outcome: Outcome
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
