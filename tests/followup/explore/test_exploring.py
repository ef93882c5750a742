"""An exploration to its end: of a broker that lies, made simpler and played by pytest, and of the honest one."""

import json
import os
import subprocess
import sys

import pytest
from starts import starts_process

from conformance import paths, records
from conformance.followup.explore import PAGE, STATE, Explored
from conformance.scenario.script import SETTLE, Publish

pytestmark = pytest.mark.spark

LIAR = ["--adapter", "reference", "--set", "liar=corrupts-a-body"]
SEED = "131"
"""Its first script has one publisher and one consumer: few steps to make it simple."""


@pytest.fixture(scope="module")
@starts_process
def run(tmp_path_factory):
    """Run a module to its end in one folder; returns the completed process and the folder."""
    folder = tmp_path_factory.mktemp("explored")
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": "200"}

    def ran(*words):
        command = [sys.executable, "-m", *map(str, words)]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return ran, folder


@pytest.fixture(scope="module")
def lying(run):
    ran, folder = run
    done = ran("conformance.frontend.cli", "explore", *LIAR, "--seed", SEED, "--trials", "1", "--out", "lying")
    return done, folder / "lying"


def test_what_fails_is_found_and_made_simpler(lying):
    """One step is left: every hundredth body is altered, and nothing else is asked for."""
    done, folder = lying
    found = records.read(folder / STATE, Explored)

    assert 1 == done.returncode, done.stdout + done.stderr
    assert [("corrupt", "", 4)] == [(one.anomaly, one.fault, one.played) for one in found.findings]
    (finding,) = found.findings
    assert 1 <= finding.failed
    assert SETTLE == finding.steps[-len(SETTLE) :]
    assert 1 == len([step for step in finding.steps if isinstance(step, Publish)])
    assert len(finding.steps) <= 2 + len(SETTLE)
    assert f"{finding.claim}, in {finding.failed} of 4 trials: found/corrupt.py" in done.stdout


def test_the_page_says_what_was_met(lying):
    page = (lying[1] / PAGE).read_text()

    assert "What was met, and what never" in page
    assert "found/corrupt.py" in page
    assert '<th scope="col">power loss</th>' in page


@pytest.mark.full
def test_pytest_plays_what_was_found(lying, run):
    """It convicts the liar by a control of its own, and acquits the honest broker."""
    ran, folder = run
    file = lying[1] / "found" / "corrupt.py"
    words = ["pytest", "-p", "no:cacheprovider", file, "--trials", "1"]
    liar, honest = ran(*words, *LIAR, "--out", "again"), ran(*words, "--adapter", "reference", "--out", "honest")

    assert 1 == liar.returncode, liar.stdout + liar.stderr
    assert "received messages altered" in liar.stdout
    assert 0 == honest.returncode, honest.stdout + honest.stderr
    assert "failed" not in honest.stdout
    assert (folder / "honest" / "report.json").exists()


def test_another_session_goes_on(lying, run):
    """With its seed; what it finds again is the same finding. And another broker is another exploration."""
    ran, folder = run
    again = ["conformance.frontend.cli", "explore", "--resume", "lying", "--trials", "1", "--seed", SEED]
    done = ran(*again, *LIAR)
    found = records.read(folder / "lying" / STATE, Explored)
    other = ran(*again, "--adapter", "reference")

    assert 1 == done.returncode, done.stdout + done.stderr
    assert (2, 2, 1) == (found.drawn, found.parts, len(found.findings))
    assert 4 == other.returncode
    assert "this is another exploration; give the options that it had" in other.stderr


def test_an_honest_broker_is_not_accused(run):
    ran, folder = run
    words = ["--adapter", "reference", "--seed", SEED, "--trials", "2", "--out", "honest-2"]
    done = ran("conformance.frontend.cli", "explore", *words)
    found = records.read(folder / "honest-2" / STATE, Explored)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert (2, ()) == (found.drawn, found.findings)
    assert "0 findings, 0 known" in done.stdout
    assert "of them show a violation of this broker (95 % confidence)" in done.stdout


def test_a_broker_that_does_not_start_ends_it(run):
    """Else it would look for an hour at nothing."""
    ran, folder = run
    text = (paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text()
    before, rest = text.split("command = [", 1)
    command = json.dumps(["/bin/sh", "-c", "echo the disk is on fire; exit 7"])
    (folder / "odd.toml").write_text(f"{before}command = {command}{rest.split(']', 1)[1]}")
    done = ran("conformance.frontend.cli", "explore", "--adapter", "./odd.toml", "--trials", "2", "--out", "odd")

    assert 3 == done.returncode, done.stdout + done.stderr
    assert "none of the first 2 scripts could be played" in done.stderr
