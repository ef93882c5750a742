"""The anomalies of single trials, and whether those of a recording are in its replay."""

import types

import pytest
from judge_evidence import SCENARIOS, facts
from judge_histories import CLEAN, record, write
from judge_tampering import KILL

from conformance.errors import HistoryError
from conformance.judge import trial_anomalies
from conformance.judge.anomalies import EVERYWHERE
from conformance.judge.input.packing import FILE
from conformance.judge.plan.relations import ALWAYS
from conformance.judge.trial_anomalies import TrialAnomaly, compare

SESSION = types.SimpleNamespace(spark="spark")


def seen(count):
    return {"lost": TrialAnomaly("lost", count, 9, tuple(f"p1:{n}" for n in range(1, count + 1)))}


@pytest.mark.parametrize(
    ("then", "now", "line", "again"),
    [
        (
            7,
            [7, 0],
            "C-1: seen again in 1 of 2: p1:1, p1:2, p1:3, p1:4, p1:5 and 2 more (7 of 9 confirmed messages lost)",
            False,
        ),
        (2, [1, 1], "C-1: seen again in 2 of 2: p1:1 (1 of 9 confirmed messages lost)", True),
        (2, [0], "C-1: not seen again in 1; before: 2 of 9 confirmed messages lost", False),
        (2, [], "C-1: not seen again in 0; before: 2 of 9 confirmed messages lost", False),
        (0, [2], "C-1: new, seen in 1 of 1: p1:1, p1:2 (2 of 9 confirmed messages lost)", False),
        (5, [5], "C-1: seen again in 1 of 1: p1:1, p1:2, p1:3, p1:4, p1:5 (5 of 9 confirmed messages lost)", True),
        (0, [0], "no anomaly in the first recording, and none in the new one", False),
    ],
)
def test_what_is_said_of_it(then, now, line, again):
    """How often, which messages, and how many."""
    found = compare({"lost": ["C-1"]}, seen(then), [seen(count) for count in now])

    assert ([line], again) == found


def test_a_broker_that_does_not_start_again_either():
    """How, instead of messages."""
    dead = {"not_recovered": TrialAnomaly("not_recovered", 1, 1, (), "not recovered: it ended with status 1")}
    line = "EXPECT-RECOVER-01: seen again in 1 of 1: not recovered: it ended with status 1"

    assert ([line], True) == compare({"not_recovered": ["EXPECT-RECOVER-01"]}, dead, [dead])


def test_each_anomaly_is_compared():
    """One that only the replay shows is no repetition; an anomaly that is not checked is left out."""
    checks = {"lost": ["C-1", "C-2"], "delivered_twice": ["C-3", "C-4"]}
    again = TrialAnomaly("delivered_twice", 1_234, 5_678, ("p1:1", "p1:2", "p1:3", "p1:4", "p1:5", "p1:6"))
    now = [{**seen(2), "delivered_twice": again, "phantom": again}]
    lines = [
        "C-1, C-2: seen again in 1 of 1: p1:1, p1:2 (2 of 9 confirmed messages lost)",
        f"C-3, C-4: new, seen in 1 of 1: p1:1, p1:2, p1:3, p1:4, p1:5 and 1,229 more ({again.figures})",
    ]

    assert (lines, True) == compare(checks, seen(1), now)
    assert (list(reversed(lines)), True) == compare(dict(reversed(checks.items())), seen(1), now)
    assert ("1,234 of 5,678 ", False) == (again.figures[:15], compare(checks, {}, now)[1])


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
