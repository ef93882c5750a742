"""The report for continuous integration: JUnit, CTRF, and a summary in Markdown with annotations.

A row of a claim and a scenario is a test. A violation that the user did not expect has failed, an error of the suite is
an error, and what was not decided or not tried is skipped with its reason: only what holds or was observed has passed.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from conformance import __version__
from conformance.claims import Catalogue
from conformance.errors import visible
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.report import model, questions
from conformance.report.model import Expectations
from conformance.report.phrases import SIGNS, gravity, row_words
from conformance.scenario import Scenario

SUMMARY_BYTES = 1 << 20
"""GitHub shows no larger summary of a step."""
_ANNOTATIONS = 10
"""GitHub shows so many errors of a step."""
_NO_ANSWER = (Verdict.INCONCLUSIVE, Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE)
_XML_FORBIDS = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def write(
    judgement: Judgement,
    folder: Path,
    catalogue: Catalogue,
    expected: Expectations | None = None,
    scenarios: Mapping[str, Scenario] = MappingProxyType({}),
) -> dict[str, Path]:
    """Write `junit.xml`, `ctrf.json` and `summary.md` into the folder; return their paths by kind."""
    texts = {
        "junit": ("junit.xml", _junit(judgement, expected)),
        "ctrf": ("ctrf.json", json.dumps(_ctrf(judgement, expected), ensure_ascii=False, indent=1) + "\n"),
        "summary": ("summary.md", markdown(judgement, catalogue, expected, scenarios)),
    }
    for name, text in texts.values():
        (folder / name).write_bytes(text.encode("utf-8", "replace"))
    return {kind: folder / name for kind, (name, _) in texts.items()}


def announce(
    judgement: Judgement,
    summary: Path,
    expected: Expectations | None = None,
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Add the summary to that of the step, where there is one; return the annotations that a step prints."""
    if place := environment.get("GITHUB_STEP_SUMMARY"):
        with Path(place).open("ab") as stream:
            stream.write(summary.read_bytes())
    if environment.get("GITHUB_ACTIONS") != "true":
        return []
    failed = [row for row in _rows(judgement) if _status(row, expected) == "failed"][:_ANNOTATIONS]
    return [f"::error title={_title(row.claim)} violated::{_data(row.says)} {_data(row.reason)}" for row in failed]


def _title(text: str) -> str:
    """Encode a property of a workflow command, which a colon or a comma would end."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _data(text: str) -> str:
    """Encode the message of a workflow command: a line of it must not be another command."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _status(row: VerdictRow, expected: Expectations | None) -> str:
    if row.verdict is Verdict.VIOLATED:
        return "skipped" if expected and expected.excuses(row) else "failed"
    if row.verdict is Verdict.HARNESS_ERROR:
        return "error"
    return "skipped" if row.verdict in _NO_ANSWER else "passed"


def _rows(judgement: Judgement) -> list[VerdictRow]:
    """Rows of the broker, the worst first; those without a trial last."""
    return sorted(judgement.rows, key=lambda row: gravity(row.verdict))


def _properties(row: VerdictRow, judgement: Judgement) -> dict[str, str]:
    more = {"client": row.client, "seed": str(judgement.run.seed), "verdict": row.graded, "replay": row.replay}
    return {name: text for name, text in (row_words(row) | more).items() if text}


def _junit(judgement: Judgement, expected: Expectations | None) -> str:
    run, rows = judgement.run, _rows(judgement)
    statuses = [_status(row, expected) for row in rows]
    suite = ET.Element(
        "testsuite",
        name=_xml(f"{run.adapter}@{run.version} {run.protocol}"),
        tests=str(len(rows)),
        failures=str(statuses.count("failed")),
        errors=str(statuses.count("error")),
        skipped=str(statuses.count("skipped")),
        time=f"{run.seconds:.3f}",
        timestamp=run.started,
    )
    tags = {"failed": "failure", "error": "error", "skipped": "skipped"}
    for row, status in zip(rows, statuses, strict=True):
        about = {"classname": row.scenario or "not tried", "name": row.claim, "file": "report.html", "time": "0"}
        case = ET.SubElement(suite, "testcase", {name: _xml(text) for name, text in about.items()})
        properties = ET.SubElement(case, "properties")
        for name, text in _properties(row, judgement).items():
            ET.SubElement(properties, "property", name=name, value=_xml(text))
        if status in tags:
            found = ET.SubElement(case, tags[status], message=_xml(f"{row.verdict}: {row.reason}"))
            if status == "failed":
                found.text = _xml(f"{row.says}\n{row.reason}\nagain: {row.replay}")
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Replace what XML cannot hold."""
    return _XML_FORBIDS.sub("?", visible(text))


def _ctrf(judgement: Judgement, expected: Expectations | None) -> dict[str, object]:
    """Return the report in the Common Test Report Format, version 0.0.0 of its schema; times in milliseconds."""
    run, rows = judgement.run, _rows(judgement)
    words = {"failed": "failed", "error": "other", "skipped": "skipped", "passed": "passed"}
    tests = [
        {
            "name": f"{row.claim} {row.scenario}".strip(),
            "status": words[_status(row, expected)],
            "duration": 0,
            "suite": [row.document, row.section],
            "message": f"{row.verdict}: {row.reason}",
            "rawStatus": str(row.verdict),
            "extra": _properties(row, judgement),
        }
        for row in rows
    ]
    start = int(datetime.datetime.fromisoformat(run.started).timestamp() * 1_000) if run.started else 0
    counts = {word: sum(test["status"] == word for test in tests) for word in ("passed", "failed", "skipped", "other")}
    summary = {"tests": len(tests), **counts, "pending": 0, "start": start, "stop": start + int(run.seconds * 1_000)}
    return {
        "reportFormat": "CTRF",
        "specVersion": "0.0.0",
        "generatedBy": f"ack-conformance {__version__}",
        "results": {"tool": {"name": "ack-conformance", "version": __version__}, "summary": summary, "tests": tests},
    }


def markdown(
    judgement: Judgement,
    catalogue: Catalogue,
    expected: Expectations | None = None,
    scenarios: Mapping[str, Scenario] = MappingProxyType({}),
) -> str:
    """Return the summary of a step: its opening, then the rows, the worst first, within 1 MiB."""
    lines = [opening(judgement, catalogue, expected, scenarios)]
    lines += ["", "| claim | verdict | scenario | reason |", "|---|---|---|---|"]
    left = SUMMARY_BYTES - len("\n".join(lines).encode()) - 200
    for row in model.tried_rows(judgement.rows):
        text = f"| {_md(row.claim)} | {_md(row.graded)} | {_md(row.scenario)} | {_md(row.reason)} |"
        left -= len(text.encode("utf-8", "replace")) + 1
        if left < 0:
            lines.append("| ... | | | The others are in `report.html`. |")
            break
        lines.append(text)
    return "\n".join(lines) + "\n"


def opening(
    judgement: Judgement, catalogue: Catalogue, expected: Expectations | None, scenarios: Mapping[str, Scenario]
) -> str:
    """Return the headline, the six questions and the next step in Markdown."""
    run, columns = judgement.run, questions.models(judgement)
    lines = [
        f"## {_md(run.product)} over {_md(run.over)}\n",
        f"**{_md(model.headline(judgement, catalogue, expected))}**\n",
        *(f"{_md(text)}\n" for text in [*questions.opening(judgement), model.counted(judgement, catalogue)]),
        f"| | {' | '.join(columns)} |\n{'|---' * (1 + len(columns))}|",
    ]
    for line in questions.lines(judgement, scenarios):
        shown = line.below(columns)
        cells = (f"{SIGNS[cell.verdict]} {cell.text}" if cell.shown else cell.word for cell in shown)
        lines.append(f"| {line.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _md(text: str) -> str:
    """Escape what Markdown, or the HTML in it, would obey."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", visible(text).replace("\n", " "))
