"""The plan: the same seed gives the same trials, and every check has its control."""

import dataclasses
import doctest

import pytest

from conformance import adapters, claims, scenario
from conformance.run import plan as plans
from conformance.run.plan import Selection, arm_label, instances, plan, wanted

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)


def selection(
    *patterns,
    adapter="reference",
    protocol="amqp",
    overrides=None,
    required=(),
    judged_as=(),
    only=(),
    seed=1,
    trials=3,
):
    found = adapters.find(adapter)
    overrides = overrides or {}
    return Selection(
        adapter=found,
        protocol=protocol,
        settings=found.effective(overrides),
        overrides=overrides,
        claims=claims.select(patterns or ["*"], CATALOGUE),
        required=frozenset(required),
        seed=seed,
        trials=trials,
        judged_as=frozenset(judged_as),
        only=frozenset(only),
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


@pytest.mark.parametrize(
    ("claim", "options", "expected"),
    [
        ("STOMP-RCPT-01", {"protocol": "stomp"}, True),
        ("STOMP-RCPT-01", {"protocol": "amqp"}, False),
        ("AMQP-DUR-01", {"protocol": "stomp"}, False),
        ("EMS-STEP-06", {"protocol": "stomp"}, True),  # of a product's own client: over any, on the bundled broker
        ("STOMP-TX-02", {"protocol": "stomp"}, True),
        ("STOMP-TX-02", {"protocol": "stomp", "adapter": "artemis"}, False),  # it has no transactional_acks there
        ("QPID-PERS-02", {}, True),
        ("QPID-PERS-02", {"adapter": "artemis"}, False),
        ("QPID-PERS-02", {"adapter": "artemis", "judged_as": ["qpid"]}, True),
        ("QPID-PERS-02", {"adapter": "artemis", "judged_as": ["ems"]}, False),
        ("QPID-PERS-02", {"adapter": "artemis", "required": ["QPID-PERS-02"]}, True),
        ("STOMP-RCPT-01", {"required": ["STOMP-RCPT-01"]}, True),
        ("SOLPUB-WIN-01", {"adapter": "artemis"}, True),  # a check of ourselves binds no vendor
        ("SOLCD-ACK-01", {"overrides": {"sync_non_transactional": False}}, True),  # the permission beside it is seen
    ],
)
def test_what_could_be_decided_here(claim, options, expected):
    """By protocol, capability and vendor; the user's own words outrank them."""
    assert expected == selection(**options).applies(CATALOGUE.claim(claim))


@pytest.mark.parametrize(("adapter", "protocol"), [(a, p) for a in adapters.names() for p in ("amqp", "stomp")])
def test_nothing_is_recorded_that_cannot_be_decided(adapter, protocol):
    """Every scenario of a plan decides a claim that applies, and every scenario with such a claim is there."""
    chosen = selection(adapter=adapter, protocol=protocol)
    applicable = {claim.id for claim in CATALOGUE.claims.values() if chosen.applies(claim)}
    expected = {name for name, script in SCENARIOS.items() if applicable & set(script.decides)}

    assert expected == {trial.script.id for trial in plan(chosen, SCENARIOS, CATALOGUE)}
    assert expected != set(SCENARIOS)


def test_only_some_scenarios():
    """A scenario that is not named decides nothing."""
    chosen = selection("SOLCD-ACK-01", only=["broker-stopped-while-publishing"])

    assert {} == wanted(SCENARIOS["broker-killed-while-publishing"], chosen)
    assert ["SOLCD-ACK-01"] == list(wanted(SCENARIOS["broker-stopped-while-publishing"], chosen))


def test_lanes():
    """The broker on trial and its weakened self in one, liars beside it, and each patient trial by itself."""
    trials = planned("AMQP-DUR-01", "AMQP-HDR-01", "EMS-STEP-02")
    lanes = {trial.arm_label: trial.lane for trial in trials if not trial.patient}
    patient = [trial for trial in trials if trial.patient]

    assert {"subject": "", "weakened": "", "liar counts-from-one": "liars"} == lanes
    assert len(patient) > 1
    assert [trial.id for trial in patient] == [trial.lane for trial in patient]
    assert len(patient) == len({trial.instance for trial in patient})


@pytest.mark.parametrize(
    ("arm", "control", "expected"),
    [
        ("subject", "", "subject"),
        ("control", "persistence=false", "weakened"),
        ("control", "liar counts-from-one", "liar counts-from-one"),
        ("control", "session liar ignores-its-window", "session liar ignores-its-window"),
    ],
)
def test_arms_in_a_word(arm, control, expected):
    """Weakened settings have a line of their own in the report; a liar is known by its name."""
    assert expected == arm_label(arm, control)
    assert 0 == doctest.testmod(plans).failed


@pytest.mark.parametrize("name", SCENARIOS)
def test_drawn_numbers_are_fixed(name):
    """Nothing random is left in a drawn script."""
    drawn = SCENARIOS[name].drawn(3)

    assert drawn == dataclasses.replace(SCENARIOS[name].drawn(3), says=drawn.says)
    assert "Between(" not in repr(drawn.steps)
