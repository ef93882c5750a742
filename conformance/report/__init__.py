"""Turn verdict rows into text for people. Nothing here decides a verdict.

`model`         the report as data (`report.json`), its headline, and what limits its answers
`expectations`  what a user expected: known failures, a baseline, claims that must be tried
`questions`     the six questions of the first screen, by failure model
`pictures`      the time line of a message, the course of a trial, and times, as pictures
`html`          one self-contained page, readable offline and without scripts
`ci`            JUnit, CTRF, and a summary in Markdown with annotations
`site`          a static site over many runs
`rates`         how often two runs saw a claim violated, and what they could have seen
`trends`        runs of one broker in a row: as text and as a page
`text`          the summary on a terminal or in a pipe
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.claims import Catalogue
from conformance.judge.rows import Judgement
from conformance.report import ci
from conformance.report.html import write_html
from conformance.report.model import Expectations, write_json
from conformance.report.text import plain, summary
from conformance.scenario import Scenario

__all__ = ["plain", "summary", "write_all", "write_html", "write_json", "write_pages"]


def write_all(
    judgement: Judgement,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    out_dir: Path,
    expected: Expectations | None = None,
) -> dict[str, Path]:
    """Write the report into `out_dir`, which is created if needed; return the paths of its files by kind."""
    pages = write_pages(judgement, catalogue, scenarios, out_dir, expected)
    return pages | ci.write(judgement, out_dir, catalogue, expected, scenarios)


def write_pages(
    judgement: Judgement,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    out_dir: Path,
    expected: Expectations | None = None,
) -> dict[str, Path]:
    """Write the page and the data only, also of a run that goes on: a CI reads the other files at its end."""
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = {"html": out_dir / "report.html", "json": out_dir / "report.json"}
    write_json(judgement, paths["json"], catalogue, expected)
    write_html(judgement, catalogue, scenarios, paths["html"], expected)
    return paths
