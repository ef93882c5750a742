"""The report for continuous integration: JUnit, CTRF, the summary of a step, and its annotations."""

import json
import xml.etree.ElementTree as ET

import pytest
from report_rows import judgement, row, violated

from conformance.judge.rows import Verdict
from conformance.report import ci
from conformance.report.model import Expectations, Item, Standing

ROWS = (
    violated(),
    row("AMQP-DUR-01", Verdict.HARNESS_ERROR),
    row("EMS-STEP-03", Verdict.INCONCLUSIVE),
    row("EMS-STEP-06", Verdict.NOT_TRIED, scenario=""),
    row("QPID-PERS-02", strength="3 stops"),
)
EVIL = "</failure>]]><script>\x00\x1b%0A\n::error::|`<b>"


@pytest.fixture
def written(catalogue, tmp_path):
    """Write the files of a judgement; return the root of JUnit's, CTRF's data, and the summary."""

    def write(*rows, expected=None, **changes):
        paths = ci.write(judgement(*rows, **changes), tmp_path, catalogue, expected)
        return ET.parse(paths["junit"]).getroot(), json.loads(paths["ctrf"].read_text()), paths["summary"].read_text()

    return write


def test_each_row_is_a_test(written):
    """Only what holds has passed; the first is the worst, with the command that repeats it."""
    junit, ctrf, _ = written(*ROWS)
    (suite,) = junit
    words = [next((child.tag for child in case if child.tag != "properties"), "passed") for case in suite]

    assert ["failure", "error", "skipped", "passed", "skipped"] == words
    assert ["5", "1", "1", "2"] == [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert "again: conformance replay . --scenario" in suite[0].find("failure").text
    found = {one.get("name"): one.get("value") for one in suite[3].find("properties")}
    assert ["QPID-PERS-02", "HOLDS (3 stops)"] == [found["claim"], found["verdict"]]
    results = ctrf["results"]
    assert ["failed", "other", "skipped", "passed", "skipped"] == [test["status"] for test in results["tests"]]
    assert [5, 1, 1, 2, 1] == [results["summary"][word] for word in ("tests", "passed", "failed", "skipped", "other")]


def test_a_known_failure_has_not_failed(written):
    bad = violated()
    about = {"claim": bad.claim, "scenario": bad.scenario, "mode": bad.mode}
    known = Expectations(exit_code=0, means="", items=(Item(standing=Standing.KNOWN, text="known", **about),))
    junit, ctrf, _ = written(bad, expected=known)

    assert ["0", "1"] == [junit[0].get("failures"), junit[0].get("skipped")]
    assert "skipped" == ctrf["results"]["tests"][0]["status"]


def test_the_summary_has_the_worst_first(written):
    _, _, summary = written(row("QPID-PERS-02", strength="3 stops"), violated(anomaly="lost", fault="kill"))
    lines = summary.splitlines()
    first = lines.index("| claim | verdict | scenario | reason |") + 2

    assert lines[0].startswith("## ")
    assert "**Apache Artemis 2.56.0 lost 41 confirmed messages, in 3 of 3 kills.**" in lines
    assert "| Are confirmed messages safe? |  |  |  | ✗ lost in 3 of 3 kills |  |  |  |" in lines
    assert lines[first].startswith("| SOLCD-ACK-01 | VIOLATED |")
    assert lines[first + 1].startswith("| QPID-PERS-02 | HOLDS (3 stops) |")


def test_the_summary_stays_within_its_bound(written):
    """It says that there is more."""
    _, _, summary = written(*(violated(f"C-{at}", reason="x" * 100_000) for at in range(12)))

    assert len(summary.encode()) < ci.SUMMARY_BYTES
    assert summary.endswith("The others are in `report.html`. |\n")


def test_words_of_others_stay_words(written, tmp_path):
    """In XML, in Markdown, and in the commands of a workflow."""
    bad = violated(EVIL, says=EVIL, reason=EVIL, scenario=EVIL, replay=EVIL)
    junit, _, summary = written(bad, title=EVIL)
    (line,) = ci.announce(judgement(bad), tmp_path / "summary.md", None, {"GITHUB_ACTIONS": "true"})

    assert 1 == len(list(junit.iter("testcase")))
    assert "\x1b" not in summary
    assert "<b>" not in summary.replace("\\<b", "")
    assert 1 == line.count("::error ")
    _, title, message = line.split("::", 2)
    assert ("error title=</failure>]]><script>", True) == (title[:33], title.endswith(" violated"))
    assert "%0A::error::|" in message  # a colon is shown as it is
    assert "\n" not in line


def test_a_step_gets_the_summary_and_annotations(tmp_path):
    """Nowhere else. A known failure has no annotation, and what holds has none."""
    (tmp_path / "summary.md").write_text("ours\n")
    (tmp_path / "step").write_text("before\n")
    known = violated("AMQP-DUR-01")
    item = Item(standing=Standing.KNOWN, claim=known.claim, scenario=known.scenario, mode=known.mode, text="known")
    expected = Expectations(exit_code=1, means="", items=(item,))
    found = judgement(violated(), known, row())
    step = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "step")}

    assert [] == ci.announce(found, tmp_path / "summary.md", expected, {})
    (line,) = ci.announce(found, tmp_path / "summary.md", expected, step)
    assert line.startswith("::error title=SOLCD-ACK-01 violated::It is kept. 41 confirmed")
    assert "before\nours\n" == (tmp_path / "step").read_text()
