"""A run folder that was changed after the run: nothing of it holds, and the reason names the trial."""

import functools
import pathlib
import shutil

import msgspec
import pytest
from judge_histories import CLEAN, LOSSY, RUN
from judge_tampering import (
    KILL,
    bring_later,
    copy_honest,
    copy_sixteen,
    delete_all,
    delete_histories,
    delete_one,
    delete_violating,
    edit_history,
    edit_record,
    edit_seed,
    nothing,
    plant,
    recorded,
    swap,
    swap_histories,
)

from conformance import claims, judge, records, scenario
from conformance.errors import ExitCode, HistoryError
from conformance.judge.input import folder
from conformance.records import RunFile


@pytest.fixture
def run(tmp_path):
    return recorded(tmp_path / "run", [CLEAN, LOSSY, LOSSY])


TAMPERED = [
    (delete_histories, "subject.2", "drain-1.jsonl is missing"),
    (delete_one, "subject.2", "drain-1.jsonl is missing"),
    (swap, "subject.1", "trial is subject.2 in trial.json and subject.1 in the plan"),
    (swap_histories, "subject.1", "drain-1.jsonl is not the file that the run recorded"),
    (edit_history, "subject.2", "publisher-1.jsonl is not the file that the run recorded"),
    (edit_record, "subject.2", "trial.json is not the file that the run recorded"),
    (edit_seed, "subject.2", "seed is 2 in trial.json and 1 in the plan"),
    (copy_honest, "subject.2", "is not the file that the run recorded"),
    (delete_violating, "subject.2", "has no folder"),
    (delete_all, "control.1", "has no folder"),
    (copy_sixteen, "subject.10", "is not in the plan of run.json (and 15 more)"),
    (bring_later, "subject.3", "drain-1.jsonl was added after the run"),
    (plant, "subject.4", "is not in the plan of run.json"),
]


@pytest.mark.parametrize(("tamper", "trial", "why"), TAMPERED, ids=[tamper.__name__ for tamper, _, _ in TAMPERED])
def test_a_changed_folder_is_incomplete(run, tamper, trial, why):
    tamper(run)
    found = folder.read(run)

    assert not found.run.finished
    assert found.run.incomplete.startswith(f"the trial {trial} ")
    assert why in found.run.incomplete
    assert all(about.void for _, about in found.trials if about.trial == trial)
    assert {"subject.1", "subject.2", "subject.3", "control.1", "control.2", "control.3"} == {
        about.trial for _, about in found.trials
    }


def test_an_honest_folder_is_complete(run):
    """The packed files of the judge change nothing."""
    (run / "trials" / "subject.1" / "events.parquet").write_bytes(b"packed")
    found = folder.read(run)

    assert (True, "", 6) == (found.run.finished, found.run.incomplete, len(found.trials))
    assert not isinstance(found.run, RunFile)
    assert not any(about.void for _, about in found.trials)


@pytest.fixture(scope="module")
def judged(session, tmp_path_factory):
    """Runs that were judged, so that all is packed, by the histories of their subject."""
    catalogue = claims.load()

    @functools.cache
    def make(*histories):
        run = recorded(tmp_path_factory.mktemp("judged") / "run", histories)
        assert ExitCode.VIOLATED == judge.exit_code(judge.judge(run, catalogue, scenario.load(catalogue), session))
        return run

    return make


@pytest.mark.spark
@pytest.mark.parametrize(
    "histories",
    [pytest.param([LOSSY] * 3, id="each", marks=pytest.mark.full), pytest.param([CLEAN, LOSSY, LOSSY], id="some")],
)
@pytest.mark.parametrize(
    "tamper",
    [nothing, copy_honest, copy_sixteen, delete_violating, delete_histories, edit_history, swap],
    ids=lambda tamper: tamper.__name__,
)
def test_nothing_holds_in_a_changed_folder(session, judged, tmp_path, tamper, histories):
    """The folder was judged before; a counterexample in an unchanged trial still counts."""
    catalogue = claims.load()
    run = shutil.copytree(judged(*histories), tmp_path / "run")
    tamper(run)
    found = judge.judge(run, catalogue, scenario.load(catalogue), session)
    row = next(r for r in found.rows if (r.claim, r.scenario) == ("SOLCD-ACK-01", KILL))
    left = {about.trial for about in found.trials if about.trial.startswith("subject") and not about.void}

    assert "HOLDS" not in {r.verdict for r in found.rows}
    assert row.offended == len(left) - (histories[0] is CLEAN and "subject.1" in left)
    assert ("VIOLATED" == row.verdict) == (row.offended > 0)
    assert judge.exit_code(found) in ({ExitCode.VIOLATED} if tamper is nothing else {1, 2, 3})


@pytest.mark.spark
def test_sixteen_copies_of_a_clean_trial(session, tmp_path):
    """One recorded trial is too few, and its copies do not count."""
    catalogue = claims.load()
    run = recorded(tmp_path / "run", [CLEAN])
    copy_sixteen(run)
    found = judge.judge(run, catalogue, scenario.load(catalogue), session)
    row = next(r for r in found.rows if (r.claim, r.scenario) == ("SOLCD-ACK-01", KILL))

    assert ("INCONCLUSIVE", 1) == (row.verdict, row.trials)
    assert row.reason.startswith("The run is incomplete: the trial subject.10 is not in the plan of run.json")
    assert ExitCode.HARNESS == judge.exit_code(found)


@pytest.mark.spark
def test_a_folder_with_the_name_of_a_pattern(session, tmp_path, monkeypatch):
    """Spark would take it for a pattern. The folder is named as a user types it; a second folder fits the pattern."""
    catalogue = claims.load()
    names = ("plain", "one*", "a=1 [seed 7] {a,b} what? back\\slash 50%41")
    for name in names:
        recorded(tmp_path / name, [CLEAN, LOSSY])
    recorded(tmp_path / "one more", [CLEAN, CLEAN])
    monkeypatch.chdir(tmp_path)
    plain, *others = (judge.judge(pathlib.Path(name), catalogue, scenario.load(catalogue), session) for name in names)

    assert [(plain.rows, plain.courses)] * 2 == [(found.rows, found.courses) for found in others]
    assert any(witness.timeline for row in plain.rows for witness in row.witnesses)


def test_an_edited_run_file_is_incomplete(run):
    """Counter-example: a setting that does not promise the claim made a violation NOT_APPLICABLE."""
    whole = records.read(run / "run.json", RunFile).sealed
    records.save(whole, run / "run.json")
    honest = folder.read(run)
    records.save(msgspec.structs.replace(whole, settings={"persistence": False}), run / "run.json")
    edited = folder.read(run)

    assert (True, "") == (honest.run.finished, honest.run.incomplete)
    assert (False, "run.json was edited after the run") == (edited.run.finished, edited.run.incomplete)


def test_an_edited_run_file_is_named_first(run):
    whole = records.read(run / "run.json", RunFile).sealed
    records.save(msgspec.structs.replace(whole, seed=8), run / "run.json")
    shutil.rmtree(run / "trials" / "subject.2")
    found = folder.read(run)

    assert "run.json was edited after the run (and 1 more)" == found.run.incomplete
    assert {place.name: place for place, _ in found.trials} == {
        about.trial: run / "trials" / about.trial for _, about in found.trials
    }


@pytest.mark.parametrize("planned", [True, False])
def test_the_last_trial_of_an_interrupted_run_may_have_no_record(run, planned):
    whole = records.read(run / "run.json", RunFile)
    (run / "trials" / "subject.3" / "trial.json").unlink()
    plan = whole.plan if planned else None
    records.save(msgspec.structs.replace(whole, plan=plan), run / "run.json")
    with pytest.raises(HistoryError, match=r"trial\.json"):
        folder.read(run)

    records.save(msgspec.structs.replace(whole, plan=plan, finished=False, checksums={}), run / "run.json")
    left = {"subject.1", "subject.2", "control.1", "control.2", "control.3"}
    assert left == {about.trial for _, about in folder.read(run).trials}


def test_a_run_file_of_another_version_is_not_edited(run):
    """It has a field that this version does not know, and lacks one that this version has."""
    fields = msgspec.json.decode(msgspec.json.encode(records.read(run / "run.json", RunFile)))
    del fields["policies_unread"]
    other = {**fields, "later": 1, "seal": ""}
    other["seal"] = records.seal(msgspec.json.encode(other))
    (run / "run.json").write_bytes(msgspec.json.encode(other))

    assert "" == folder.read(run).run.incomplete


def test_an_interrupted_run_misses_nothing(run):
    whole = records.read(run / "run.json", RunFile)
    records.save(msgspec.structs.replace(whole, finished=False, checksums={}), run / "run.json")
    shutil.rmtree(run / "trials" / "subject.3")
    found = folder.read(run)

    assert (False, "", 5) == (found.run.finished, found.run.incomplete, len(found.trials))


@pytest.mark.parametrize("plan", [None, ()])
def test_a_run_without_a_plan_cannot_be_checked(run, plan):
    """An earlier version wrote it. An empty plan is a plan."""
    whole = records.read(run / "run.json", RunFile)
    records.save(msgspec.structs.replace(whole, plan=plan, checksums={}), run / "run.json")
    found = folder.read(run)

    assert not found.run.finished
    assert ("run.json has no plan" in found.run.incomplete) == (plan is None)
    assert (6 if plan is None else 0) == len(found.trials)


def test_copies_in_a_run_without_a_plan(run):
    records.save(records.read(run / "run.json", RunFile).run_record, run / "run.json")
    copy_sixteen(run)
    found = folder.read(run)

    assert 6 == len(found.trials)
    assert found.run.incomplete.startswith("the folder subject.10 holds the trial subject.1 (and 16 more)")


def test_the_parts_of_a_run_are_its_own(run):
    (run / "workers" / "gw1").mkdir(parents=True)
    records.save(msgspec.structs.replace(RUN, run="part"), run / "workers" / "gw1" / "run.json")

    assert {"r", "part"} == folder.read(run).runs
