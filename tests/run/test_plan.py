"""The plan: the same seed gives the same trials, and every check has its control."""

import dataclasses

import pytest

from conformance import adapters, claims, scenario
from conformance.run.plan import Selection, instances, plan

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)


def selection(*patterns, adapter="reference", overrides=None, required=(), seed=1, trials=3):
    found = adapters.find(adapter)
    overrides = overrides or {}
    return Selection(
        adapter=found,
        protocol="amqp",
        settings=found.effective(overrides),
        overrides=overrides,
        claims=claims.select(patterns or ["*"], CATALOGUE),
        required=frozenset(required),
        seed=seed,
        trials=trials,
    )


def planned(*patterns, **options):
    return plan(selection(*patterns, **options), SCENARIOS, CATALOGUE)


def test_same_seed_same_trials():
    """And another seed draws other numbers."""
    assert planned(seed=1) == planned(seed=1)
    assert [trial.k for trial in planned(seed=1)] != [trial.k for trial in planned(seed=2)]


def test_ids_are_unique():
    """They name folders, queues and histories."""
    trials = planned()

    assert len(trials) == len({trial.id for trial in trials}) == len({trial.queue for trial in trials})


def test_trials_of_one_broker_follow_each_other():
    """A broker is started once for each configuration."""
    groups = instances(planned(adapter="artemis"))

    assert len(groups) == len({group[0].instance for group in groups})


def test_selection_leaves_out_what_is_not_needed():
    """One claim, its scenarios, its controls."""
    trials = planned("AMQP-DUR-01")

    assert {"broker-killed-while-publishing"} == {trial.script.id for trial in trials}
    assert ["control"] * 3 + ["subject"] * 3 == sorted(trial.arm for trial in trials)


def test_weakened_subject_is_its_own_control():
    """The same settings need not be tried twice."""
    weak = dict(scenario.SYNC_OFF.settings)
    trials = planned("SOLCD-ACK-01", overrides=weak, required=["SOLCD-ACK-01"])

    assert {"", "persistence=false"} == {trial.control for trial in trials}


def test_liars_are_bundled_brokers():
    """Also in a run of another broker, and only they idle in a lane of their own."""
    trials = [trial for trial in planned(adapter="artemis") if trial.liar]

    assert {"reference"} == {trial.adapter.name for trial in trials}
    assert {"never-answers-one-send", "skips-every-hundredth-delivery"} == {t.liar for t in trials if t.patient}


@pytest.mark.parametrize("name", SCENARIOS)
def test_drawn_numbers_are_fixed(name):
    """Nothing random is left in a drawn script."""
    drawn = SCENARIOS[name].drawn(3)

    assert drawn == dataclasses.replace(SCENARIOS[name].drawn(3), says=drawn.says)
    assert drawn.fault is None or isinstance(drawn.fault.at.k, int)
