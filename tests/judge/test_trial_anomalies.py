"""The anomalies of single trials."""

import types

import pytest
from judge_evidence import SCENARIOS, facts
from judge_histories import CLEAN, record, write
from judge_tampering import KILL

from conformance.errors import HistoryError
from conformance.followup import trial_anomalies
from conformance.followup.trial_anomalies import TrialAnomaly
from conformance.judge.anomalies import EVERYWHERE
from conformance.judge.input.packing import FILE
from conformance.judge.plan.relations import ALWAYS

SESSION = types.SimpleNamespace(spark="spark")


@pytest.fixture
def found(tmp_path, monkeypatch):
    """The anomalies of trials with these facts, and what Spark was asked for; a trial without facts has no folder."""
    asked = []

    def of(**trials):
        def collect_facts(spark, compacted, used):
            asked.append((spark, [each.record.trial for each in compacted], used))
            return {each.record.trial: trials[each.record.trial] for each in compacted if each.parquet}

        for name, known in trials.items():
            if known:
                write(tmp_path / "trials" / name, CLEAN, record(name))
        monkeypatch.setattr(trial_anomalies, "collect_facts", collect_facts)
        listed = map(record, trials)
        return trial_anomalies.offences(tmp_path, listed, SCENARIOS[KILL], SESSION), asked

    return of


def test_the_anomalies_of_trials(found):
    """Those of the checks of the scenario, and those that every trial is checked for."""
    dead = facts(offends={"not_recovered": 1}, not_recovered="not recovered: status 1")
    by_trial, asked = found(clean=facts(), lossy=facts(offends={"lost": 3}, applies=50), dead=dead, gone=None)
    used = [(check.anomaly, check.exposure) for check in SCENARIOS[KILL].decides.values()]

    assert [("spark", ["clean", "lossy", "dead"], used)] == asked
    assert [list(dict.fromkeys([*(anomaly for anomaly, _ in used), *ALWAYS, *EVERYWHERE]))] * 3 == [
        list(each) for each in by_trial.values()
    ]
    assert TrialAnomaly("lost", 0, 100, ()) == by_trial["clean"]["lost"]
    assert TrialAnomaly("lost", 3, 50, ("p1:7",)) == by_trial["lossy"]["lost"]
    assert (
        TrialAnomaly("not_recovered", 1, 100, ("p1:7",), "not recovered: status 1") == by_trial["dead"]["not_recovered"]
    )
    assert "" == by_trial["dead"]["lost"].words


def test_a_trial_that_cannot_be_packed(found, tmp_path):
    (tmp_path / "trials" / "t" / FILE).mkdir(parents=True)
    with pytest.raises(HistoryError) as error:
        found(t=facts())

    assert str(error.value).startswith(f"{tmp_path}: its trials cannot be compacted for the judge: [Errno 21]")
