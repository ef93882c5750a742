"""What is drawn from the space: scripts that go, each pair of edges in turn, and the same ones for the same seed."""

import itertools

import pytest

from conformance.errors import CatalogueError
from conformance.scenario import validate
from conformance.scenario.faults import Kill
from conformance.scenario.reading import singles
from conformance.scenario.script import SETTLE, Consume, Publish, Restart, Together
from conformance.scenario.space import (
    BY_NAME,
    DRAWN,
    SPACE,
    draw,
    every_pair,
    scenario_of,
)

SCRIPTS = 250


def anything(script):
    return True


@pytest.fixture(scope="module")
def drawn():
    """The first scripts of a seed, each chosen for the pairs that those before it have not met."""
    found, met = [], set()
    for number in range(1, SCRIPTS + 1):
        found.append(draw(3, number, met, anything))
        met |= found[-1].pairs
    return found


def test_every_edge_has_a_name_of_its_own_and_a_reason():
    for dimension in SPACE:
        names = [edge.name for edge in dimension.edges]

        assert len(set(names)) == len(names) >= 2
        assert all(edge.why for edge in dimension.edges)
        assert dimension[names[-1]] == dimension.edges[-1].value


def test_the_same_seed_draws_the_same_scripts(drawn):
    assert drawn[0] == draw(3, 1, set(), anything)
    assert drawn[0].point != draw(4, 1, set(), anything).point
    assert f"{DRAWN}1" == drawn[0].script.id


def test_drawn_scripts_contradict_nothing(drawn):
    for one in drawn:
        validate(one.script)

        assert one.script.steps[-len(SETTLE) :] == SETTLE
        assert any(isinstance(step, Publish) for step in singles(one.script.steps))


def test_a_broker_that_has_ended_is_started_again(drawn):
    for one in drawn:
        for step, after in itertools.pairwise(one.script.steps):
            ends = getattr(step, "until", None) is not None and step.until.ends_broker

            assert ends == (isinstance(after, Restart) and not after.clean)


def test_a_consumer_has_room_for_what_it_leaves_open(drawn):
    """Else it waits for ever: with credit for one, and every second message acknowledged, it gets one."""
    for step in itertools.chain.from_iterable(singles(one.script.steps) for one in drawn):
        if isinstance(step, Consume) and step.mode == "individual" and step.acknowledge > 1:
            assert step.prefetch >= 400


def test_nearly_every_pair_is_met_before_one_is_met_again(drawn):
    met = frozenset().union(*(one.pairs for one in drawn))
    every = set(every_pair())

    assert met <= every
    assert len(met) > 0.95 * len(every)
    assert len(frozenset().union(*(one.pairs for one in drawn[:60]))) > 0.75 * len(every)


def test_about_two_of_five_scripts_have_no_fault(drawn):
    without = sum(not one.script.faults for one in drawn)

    assert 0.25 * SCRIPTS < without < 0.55 * SCRIPTS


def test_only_what_the_broker_can_play_is_drawn():
    def without_kills(script):
        return not any(isinstance(fault, Kill) for fault in script.faults)

    scripts = [draw(3, number, set(), without_kills).script for number in range(1, 60)]

    assert all(map(without_kills, scripts))
    with pytest.raises(CatalogueError, match="this broker can play none"):
        draw(3, 1, set(), lambda script: False)


def test_the_values_of_a_script_are_those_of_its_point(drawn):
    for one in drawn:
        sends = [step for step in singles(one.script.steps) if isinstance(step, Publish) and step.every_ms < 100]

        assert {step.size for step in sends} == {BY_NAME["size"][one.point["size"]]}
        assert {step.lives_ms for step in sends} == {BY_NAME["time to live"][one.point["time to live"]]}
        assert (one.point["company"] == "one after the other") != any(
            isinstance(step, Together) for step in one.script.steps
        )


def test_a_drawn_script_decides_no_claim():
    steps = (Publish(5, window=1), Consume("auto", stop=5), *SETTLE)
    made = scenario_of("drawn-9", steps)

    assert (steps, "auto", {}) == (made.steps, made.mode, made.decides)
