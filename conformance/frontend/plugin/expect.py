"""What the user expects of the verdicts beside them, in a session of pytest: `conformance.report.expectations` decides."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from conformance import claims
from conformance.campaign import Campaign
from conformance.judge.rows import Verdict, VerdictRow
from conformance.report.expectations import ExpectationOutcome, Expected, check_baseline
from conformance.report.expected import WORDS, Standing


def read(config: pytest.Config, campaign: Campaign) -> Expected:
    """`--known-failures`, `--baseline` and `--require-tried`, read and checked; raises `UsageError`, one line."""

    def file(name: str) -> pathlib.Path | None:
        word = config.getoption(f"conformance_{name}")
        return pathlib.Path(word) if word else None

    required = claims.words(config.getoption("conformance_require_tried"))
    found = Expected.read(campaign.catalogue, file("known_failures"), file("baseline"), required)
    check_baseline(found.baseline, adapter=campaign.adapter.name, protocol=campaign.selection.protocol)
    return found


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
