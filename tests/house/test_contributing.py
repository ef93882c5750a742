"""The pages for contributors, followed to the letter in a checkout: what they add is accepted and does what they say."""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from conformance import paths

ROOT = paths.root()


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the package reads, without .venv."""
    unread = shutil.ignore_patterns("__pycache__", "examples", "*.html")
    for name in ("conformance", "suites", "fixtures", "reports", "docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unread)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def blocks(page, language):
    text = (ROOT / "docs" / "contributing" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def play(checkout, page):
    """Run every line of the page's console blocks; returns what each printed."""
    said = []
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    for line in "".join(blocks(page, "console")).splitlines():
        name, *words = shlex.split(line, comments=True)
        start = {"conformance": [sys.executable, "-m", "conformance.frontend.cli"], "python": [sys.executable]}[name]
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(checkout)}
        done = subprocess.run([*start, *words], cwd=checkout, env=env, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, f"{line}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    return said


@pytest.mark.spark
def test_the_claim_and_the_scenario_of_the_page(checkout):
    (claim,), (script,) = blocks("scenario.md", "yaml"), blocks("scenario.md", "python")
    (checkout / "suites" / "claims" / "example.yaml").write_text(claim)
    (checkout / "suites" / "example").mkdir()
    (checkout / "suites" / "example" / "stops.py").write_text(f'"""An example."""\n\n{script}')

    play(checkout, "scenario.md")

    rows = json.loads((checkout / "runs" / "new" / "report.json").read_text())["verdicts"]
    assert [("broker-stopped-twice-while-publishing", "lost", "HOLDS")] == [
        (row["scenario"], row["anomaly"], row["verdict"])
        for row in rows
        if row["claim"] == "EXPECT-STOPS-01" and row["trials"]
    ]
    assert "EXPECT-STOPS-01" in (checkout / "docs" / "reference" / "claims.md").read_text()


@pytest.mark.process
def test_the_broker_of_the_page(checkout):
    (checkout / "fixtures" / "brokers" / "example").mkdir()

    _, shown, checked = play(checkout, "broker.md")

    assert "native       can be started here" in shown
    assert "can be tried: conformance run --adapter example" in checked
