"""What people read: verdict rows come in, text goes out. Nothing here decides a verdict.

`model`     the report as data (`report.json`), the words of it, and what undermines it
`expected`  what a user expected beside it: known failures, a baseline
`html`      one self-contained page, readable offline and without scripts
`text`      the summary on a terminal or in a pipe
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.claims import Catalogue
from conformance.judge.rows import Judgement
from conformance.report.expected import Expectations
from conformance.report.html import write_html
from conformance.report.model import write_json
from conformance.report.text import plain, summary
from conformance.scenario import Scenario

__all__ = ["plain", "summary", "write_all", "write_html", "write_json"]


def write_all(
    judgement: Judgement,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    out_dir: Path,
    expected: Expectations | None = None,
) -> dict[str, Path]:
    """Write `report.json` and `report.html` into `out_dir`, which is made where it is missing; their paths by kind."""
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = {"html": out_dir / "report.html", "json": out_dir / "report.json"}
    write_json(judgement, paths["json"], catalogue, expected)
    write_html(judgement, catalogue, scenarios, paths["html"], expected)
    return paths
