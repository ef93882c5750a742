"""An exploration to its end: of a broker that lies, made simpler and played by pytest, and of the honest one."""

import datetime
import functools
import types

import pytest
import verdict_rows

from conformance import records
from conformance.campaign import Options
from conformance.followup.explore import PAGE, STATE, Explored, Explorer, ExploreRequest
from conformance.report.expectations import Expected, Known
from conformance.scenario.script import SETTLE, Publish

pytestmark = pytest.mark.spark

LIAR = ["--adapter", "reference", "--set", "liar=corrupts-a-body"]
SEED = "131"
"""Its first script has one publisher and one consumer: few steps to make it simple."""


@pytest.fixture(scope="module")
def run(run_python, tmp_path_factory):
    """Run a module to its end in one folder; returns the completed process and the folder."""
    folder = tmp_path_factory.mktemp("explored")
    return functools.partial(run_python, cwd=folder), folder


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


def test_a_broker_that_does_not_start_ends_it(run, broken_broker):
    """Else it would look for an hour at nothing."""
    ran, folder = run
    adapter = broken_broker(folder)
    done = ran("conformance.frontend.cli", "explore", "--adapter", adapter, "--trials", "2", "--out", "odd")

    assert 3 == done.returncode, done.stdout + done.stderr
    assert "none of the first 2 scripts could be played" in done.stderr


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, True),
        ({"scenario": "broker-killed-while-publishing"}, True),  # no drawn script has the id of a written one
        ({"adapter": "rabbitmq"}, False),
        ({"versions": ">=3.0"}, False),
        ({"claim": "AMQP-ACC-02"}, False),
        ({"expires": datetime.date(2020, 1, 1)}, False),
    ],
)
def test_a_known_failure_is_one_of_this_broker(changes, known, tmp_path):
    row = verdict_rows.row(claim="SOLCD-ACK-01")
    entry = {"claim": row.claim, "adapter": row.adapter, "reason": "slow", "link": "x", "expires": datetime.date.max}
    expected = Expected(known=(Known(**entry | changes),))
    wanted = ExploreRequest(options=Options(row.adapter), for_s=1, scripts=1, expected=expected)
    prepared, nothing = types.SimpleNamespace(folder=tmp_path), types.SimpleNamespace(drawn=0)

    assert known == bool(Explorer(wanted, prepared, nothing, None, print).known(row))
