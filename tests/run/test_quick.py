"""The first look: few claims, the strong ones, and nothing that waits."""

import dataclasses

import pytest

from conformance import adapters, claims, scenario
from conformance.run import planning
from conformance.run.planning import QUICK_CLAIMS, QUICK_S, Selection, plan, quick, wanted
from conformance.scenario import Check, Liar, Scenario, Weakened
from conformance.scenario.script import SETTLE, Drain, Kill, Nth, Publish

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)
EVERYWHERE = pytest.mark.parametrize(
    ("adapter", "protocol"),
    [(a, p) for a in adapters.names() for p in ("amqp", "stomp") if p in adapters.find(a).file.protocols],
)
WEAK, LIAR = scenario.weakened(persistence=False), Liar("counts-from-one")
SHORT = (Publish(10, window=5), *SETTLE)
PATIENT = Liar("never-answers-one-send", trials=3, waits_for_liveness=True)


def everything(adapter="reference", protocol="amqp", **changes):
    found = adapters.find(adapter)
    asked = Selection(
        adapter=found,
        protocol=protocol,
        settings=found.effective(),
        overrides={},
        claims=claims.select(["*"], CATALOGUE),
        required=frozenset(),
        seed=1,
    )
    return dataclasses.replace(asked, **changes)


def script(name, controls, steps=SHORT):
    return Scenario(
        name, "", "async_ack", steps, {claim: Check("lost", "confirmed", c) for claim, c in controls.items()}
    )


def chosen(*scripts, **changes):
    """The claims and the scenarios of a first look at these."""
    found = quick(everything(**changes), {each.id: each for each in scripts}, CATALOGUE)
    return [claim.id for claim in found.claims], sorted(found.only)


def controls(selection):
    """The controls of what the selection would try, with their claims."""
    checks = [wanted(script, selection) for script in SCENARIOS.values()]
    return [(claim, check.control) for found in checks for claim, check in found.items()]


@EVERYWHERE
def test_few_claims_that_need_no_patience(adapter, protocol):
    """At most ten, each decided by what answers at once, none by what needs the disk."""
    found = quick(everything(adapter, protocol), SCENARIOS, CATALOGUE)
    decided = [(claim, control) for claim, control in controls(found) if control is not None]

    assert 0 < len(found.claims) <= QUICK_CLAIMS
    assert {claim.id for claim in found.claims} == {
        claim for claim, c in decided if isinstance(c, Weakened | Liar) and not getattr(c, "waits_for_liveness", False)
    }
    assert [] == [claim.id for claim in found.claims if claim.needs or not claim.judged]


@EVERYWHERE
def test_the_trials_fit_into_the_budget(adapter, protocol):
    """Also with the controls of every claim that was kept; and only scenarios that were weighed are played."""
    found = quick(everything(adapter, protocol), SCENARIOS, CATALOGUE)
    ids = {claim.id for claim in found.claims}
    seconds = sum(
        planning._cost(SCENARIOS[name], {c: 1 for c in SCENARIOS[name].decides if c in ids}, found)
        for name in found.only
    )

    assert 0 < seconds <= QUICK_S
    assert {trial.script.id for trial in plan(found, SCENARIOS, CATALOGUE)} <= found.only


@EVERYWHERE
def test_a_strong_claim_is_among_them(adapter, protocol):
    """One whose control is the same product, weakened."""
    found = quick(everything(adapter, protocol), SCENARIOS, CATALOGUE)

    assert [] != [claim for claim, control in controls(found) if isinstance(control, Weakened)]


def test_more_trials_leave_fewer_scenarios():
    """The budget is one of time."""
    usual, many = (quick(everything(trials=trials), SCENARIOS, CATALOGUE) for trials in (3, 12))

    assert len(many.only) < len(usual.only)


def test_nothing_fits():
    """A budget that no scenario fits leaves nothing to try, and never one that is too long."""
    assert ([], []) == chosen(script("one", {"AMQP-DUR-01": WEAK}), trials=1_000)


def test_the_strong_ones_of_many():
    """Twelve claims by liars and two by the weakened product: both of those are among the ten."""
    by_liars = ["AMQP-TX-01", "AMQP-TX-02", "AMQP-TX-03", "AMQP-TX-04", "AMQP-ACC-01", "AMQP-HDR-01", "AMQP-HDR-02",
                "AMQP-REL-01", "AMQP-REL-02", "AMQP-MOD-01", "AMQP-MOD-02", "AMQP-STATE-01"]  # fmt: skip
    strong = {"SOLCD-ACK-01", "AMQP-DUR-01"}
    found, _ = chosen(script("all", {**dict.fromkeys(by_liars, LIAR), **dict.fromkeys(sorted(strong), WEAK)}))

    assert (QUICK_CLAIMS, True) == (len(found), strong <= set(found))


def test_a_strong_scenario_before_one_of_a_liar():
    """At the same price, where there is time for one only."""
    steps = (Publish(10, window=5), *[Drain()] * 18)
    strong, weak = script("strong", {"AMQP-DUR-01": WEAK}, steps), script("by-liar", {"AMQP-HDR-01": LIAR}, steps)
    found = chosen(weak, strong)

    assert (["AMQP-DUR-01"], ["strong"]) == found


def test_a_kill_before_what_ends_in_order():
    """At the same price, where there is time for one only."""
    killed = Publish(10, window=5, until=Kill(Nth("confirm", 5)))
    plain, kill = (
        script(name, {claim: WEAK}, (step, *[Drain()] * 13))
        for name, claim, step in (("plain", "SOLCD-ACK-01", SHORT[0]), ("killed", "AMQP-DUR-01", killed))
    )

    assert (["AMQP-DUR-01"], ["killed"]) == chosen(plain, kill)


@pytest.mark.parametrize(
    ("claim", "control"),
    [
        ("EMS-STEP-02", PATIENT),
        ("ARTEMIS-SEND-09", WEAK),
        ("SOLCD-ACK-02", None),
        ("SOLPUB-WIN-01", scenario.SessionLiar("ignores-its-window")),
        ("STOMP-RCPT-02", LIAR),
    ],
)
def test_what_a_first_look_leaves_out(claim, control):
    """Waiting, the disk, permissions, ourselves, and what cannot be decided over this protocol."""
    assert ([], []) == chosen(script("one", {claim: control}), judged_as=frozenset(["artemis"]))


def test_a_claim_that_was_not_asked_for_stays_out():
    """`--quick` narrows what `--claims` selects."""
    asked = claims.select(["AMQP-TX-*"], CATALOGUE)
    found = quick(everything(claims=asked), SCENARIOS, CATALOGUE)

    assert {"AMQP-TX-01", "AMQP-TX-04"} <= {claim.id for claim in found.claims} <= {claim.id for claim in asked}
