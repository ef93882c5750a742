"""Which scenarios share a plan of the judge; and that a plan with fewer columns gives the same facts."""

import dataclasses

import pytest
from judge_evidence import SCENARIOS
from judge_histories import CLEAN, LOSSY, record, write

from conformance.judge.input.packing import compact, compact_all
from conformance.judge.plan import groups
from conformance.judge.verdict import _facts, collect_facts

LOST = ("lost", "confirmed_in_window")
TORN = ("transaction_torn", "transactions_at_risk")
CHECKS = {"a": [LOST], "b": [LOST], "c": [TORN], "d": [TORN]}


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ({"a": 5_000_000, "b": 4_000_000, "c": 3_000_000, "d": 2_000_000}, ["a b", "c d"]),
        ({"a": 5_000, "b": 4_000, "c": 300, "d": 200}, ["a b c d"]),
        ({"a": 0, "b": 0, "c": 0, "d": 0}, ["a b c d"]),
        ({"a": 900, "b": 4_000_000, "c": 5_000_000, "d": 200}, ["c d", "b a"]),
    ],
)
def test_a_plan_of_its_own_where_it_is_cheaper(events, found):
    """Scenarios of the same columns share a plan; few events are worth no plan of their own."""
    made = groups.group(CHECKS, events)

    assert found == [" ".join(each.scenarios) for each in made]
    assert sum(events.values()) == sum(each.events for each in made)
    assert all(groups.columns_of(CHECKS[name]) <= each.needed for each in made for name in each.scenarios)


def test_no_scenario_no_plan():
    assert [] == groups.group({}, {})


def test_other_checks_in_the_plan_change_no_fact(session, tmp_path):
    trials = [
        compact(tmp_path / str(n), write(tmp_path / str(n), history, record(f"t{n}")))
        for n, history in enumerate((CLEAN, LOSSY))
    ]
    alone, together = (collect_facts(session.spark, trials, checks) for checks in ([LOST], [LOST, TORN]))

    assert alone.keys() == together.keys()
    for trial, facts in alone.items():
        assert facts.counts.items() <= together[trial].counts.items()
        for name, failing in facts.failing.items():
            assert failing == dataclasses.replace(together[trial].failing[name], faults=failing.faults)
    assert [0, 2] == [facts.offences("lost") for facts in alone.values()]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("one", "other", "anomaly", "history"),
    [
        (
            "messages-sent-in-transactions",
            "sends-too-large-in-transactions",
            "outcome_not_in_effect",
            "put t1 1, sent 2 tx=t1, committed t1, settled 1 2 epoch=1",
        ),
        (
            "consumer-killed-after-refusals",
            "attempts-used-up",
            "given_back_nowhere",
            (
                "kept 1, handed 1, given_back 1, handed 1 consumer=2, given_back 1 undeliverable, crashed,"
                " handed 1 consumer=3, settled epoch=1"
            ),
        ),
    ],
)
def test_what_a_trial_shows_does_not_depend_on_the_others(session, tmp_path, one, other, anomaly, history):
    """Only the other scenario asks for these conditions, which are wider than those that every trial is checked for."""

    def offences(folder, *names):
        trials = [(folder / name, write(folder / name, history, record(name, name))) for name in names]
        return _facts(session, compact_all(trials), SCENARIOS)[one].offences(anomaly)

    assert (0, 0) == (offences(tmp_path / "alone", one), offences(tmp_path / "beside", one, other))
