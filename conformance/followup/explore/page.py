"""The page of an exploration: what it found, and how often each edge of the space was met, under each fault."""

from __future__ import annotations

import pathlib

from conformance.followup.explore import PAGE, Explored, summary, text_of
from conformance.report.html import environment
from conformance.report.phrases import steps_in_words
from conformance.scenario.space import FAULTS, SPACE, Dimension, every_pair

TEMPLATE = "explored.html.j2"


def write(explored: Explored, folder: pathlib.Path) -> pathlib.Path:
    """Write the page into the folder; return its path."""
    template = environment().get_template(TEMPLATE)
    dimensions = [dimension for dimension in SPACE if dimension is not FAULTS]
    text = template.render(
        explored=explored,
        lines=list(summary(explored)),
        findings=[(finding, steps_in_words(finding.steps)) for finding in explored.findings],
        faults=[edge.name for edge in FAULTS.edges],
        tables=[(dimension, _rows(explored, dimension)) for dimension in dimensions],
        missing=len(frozenset(every_pair()) - explored.pairs),
    )
    target = folder / PAGE
    target.write_text(text, encoding="utf-8")
    return target


def _rows(explored: Explored, dimension: Dimension) -> list[tuple[str, str, list[int]]]:
    """Return for each edge its name, its reason, and the scripts that met it under each fault."""
    found = []
    for edge in dimension.edges:
        mine = (dimension.name, edge.name)
        pairs = (sorted((mine, (FAULTS.name, fault.name))) for fault in FAULTS.edges)
        met = [explored.met.get(text_of((one, other)), 0) for one, other in pairs]
        found.append((edge.name, edge.why, met))
    return found
