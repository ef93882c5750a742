"""`conformance judge` judges only what is new: a run whose evidence, report or suite differs from those it was judged by."""

import shutil

import msgspec
import pytest
from judge_histories import CLEAN, RUN
from judge_tampering import KILL, of_file, recorded

from conformance import campaign, records
from conformance.records import RunFile
from conformance.report import model

pytestmark = pytest.mark.spark


@pytest.fixture
def runs(tmp_path):
    """Two runs of one scenario that holds."""
    only = msgspec.structs.replace(RUN, selected=("SOLCD-ACK-01",))
    one = recorded(tmp_path / "one", [CLEAN] * 3, only, controls=5)
    records.save(records.read(one / "run.json", RunFile).sealed, one / "run.json")
    return one, shutil.copytree(one, tmp_path / "two")


@pytest.fixture
def judged(session, typed, monkeypatch):
    """Type `conformance judge`; return what it printed, its exit code and the names of the runs that Spark judged."""
    asked = []
    judge_folders = campaign.judge_folders

    def spy(folders, **words):
        asked.extend(folder.name for folder in folders)
        return judge_folders(folders, **words)

    monkeypatch.setattr(campaign, "judge_folders", spy)

    def judge(*words):
        asked.clear()
        done = typed("judge", *words)
        assert "Traceback" not in done.stderr
        return done.stdout, done.returncode, list(asked)

    return judge


def edited_report(run):
    report = run / "report.json"
    report.write_bytes(report.read_bytes().replace(b'"HOLDS"', b'"OBSERVED"'))


CHANGES = {
    "a byte of a history": of_file("publisher-1.jsonl", "a byte edited"),
    "a trial that is gone": lambda run: shutil.rmtree(run / "trials" / "subject.3"),
    "a trial that was added": lambda run: shutil.copytree(run / "trials" / "subject.3", run / "trials" / "subject.4"),
    "a report that is gone": lambda run: (run / "report.json").unlink(),
    "a plan that says more": lambda run: (run / "run.json").write_bytes((run / "run.json").read_bytes() + b" "),
}


def test_an_unchanged_run_is_not_judged_again(judged, runs, monkeypatch):
    """Its report stays, word for word; --again, an edited report or another suite judges it.

    A claim that must be tried fails the run by its exit code, and no run is judged for that.
    """
    _, code, asked = judged(*runs)
    before = [model.read_json(run / "report.json") for run in runs]
    assert (0, ["one", "two"]) == (code, asked)
    assert KILL in {row.scenario for row in before[0].verdicts if row.verdict == "HOLDS"}

    said, code, asked = judged(*runs)
    assert (0, []) == (code, asked)
    assert [f"{run}: not changed since it was judged; --again judges it" in said for run in runs] == [True, True]
    assert before == [model.read_json(run / "report.json") for run in runs]

    assert (2, []) == judged(runs[0], "--require-tried", "EMS-STEP-04")[1:]
    assert (0, []) == judged(runs[0])[1:]
    assert (0, ["one"]) == judged(runs[0], "--again")[1:]
    edited_report(runs[1])
    assert (0, ["two"]) == judged(*runs)[1:]
    monkeypatch.setattr(records, "_suite_digest", lambda: "another")
    assert (0, ["one"]) == judged(runs[0])[1:]


@pytest.mark.full
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_run_is_judged_again(judged, runs, change):
    """It alone; and what was wrong with it is found."""
    judged(*runs)
    CHANGES[change](runs[1])
    _, code, asked = judged(*runs)

    assert ["two"] == asked
    assert ("report" in change or "says more" in change) == (code == 0)
