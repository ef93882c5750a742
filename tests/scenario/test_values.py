"""What a written scenario leaves open is drawn for each publisher; what it says stays."""

import msgspec

from conformance import claims
from conformance.scenario import load
from conformance.scenario.reading import singles
from conformance.scenario.script import Consume, Kill, Nth, Publish, Restart, Together
from conformance.scenario.space import scenario_of
from conformance.scenario.values import OPEN_PAIRS, PAIRS_UNDER_A_FAULT, open_pairs, vary


def publishers(steps):
    return [step for step in singles(steps) if isinstance(step, Publish)]


PLAIN = Publish(50, window=10)


def test_each_publisher_takes_from_the_seed_what_it_leaves_open():
    script = scenario_of("some", (PLAIN,) * 40)
    steps = vary(script, 3)

    assert steps == vary(script, 3) != vary(script, 4)
    assert {256, 4096} == {step.size for step in publishers(steps)}
    assert len({step.lives_ms for step in publishers(steps)}) == 7
    assert {step.headers for step in publishers(steps)} == {True, False}
    assert {(step.count, step.window) for step in publishers(steps)} == {(50, 10)}


def test_what_a_scenario_says_stays():
    """A size, a time to live, or properties of its own."""
    said = Publish(50, window=10, size=999, lives_ms=2_000, correlates=True)

    assert vary(scenario_of("some", (said,) * 20), 3) == (said,) * 20


def test_nothing_is_drawn_that_the_broker_has_not():
    plain = publishers(vary(scenario_of("some", (PLAIN,) * 40), 3, ["time to live", "properties"]))

    assert {(0, False, False)} == {(step.lives_ms, step.headers, step.parity) for step in plain}
    assert {256, 4096} == {step.size for step in plain}


def test_what_is_sent_again_is_what_it_was():
    again = Publish(10, window=10, batch=5, resends=True)
    found = {
        (step.size, step.lives_ms, step.headers, step.parity)
        for step in publishers(vary(scenario_of("some", (PLAIN, PLAIN, again)), 5))
    }

    assert len(found) == 1


def test_clients_beside_each_other_take_values_too():
    steps = (Together((PLAIN, Consume("auto"))), Restart(beside=(PLAIN,))) * 20

    assert len({step.size for step in publishers(vary(scenario_of("some", steps), 3))}) == 2


def test_a_run_meets_nearly_every_pair_of_values_under_a_kill():
    """Three trials of the scenarios whose fault is a kill, as a run plays them."""
    met = set()
    for script in load(claims.load()).values():
        if script.varies and script.fault and script.fault.name == "kill":
            for seed in range(3):
                met |= open_pairs(vary(script.drawn(seed), seed))

    assert len(PAIRS_UNDER_A_FAULT - met) <= 2
    assert met <= PAIRS_UNDER_A_FAULT < OPEN_PAIRS


def test_lives_of_more_than_31_bits_are_drawn_without_a_fault():
    """A broker that takes 25 days for over would be accused of losing by a kill what was gone before it."""
    killed = msgspec.structs.replace(PLAIN, until=Kill(Nth("confirm", 5)))

    def longest(step):
        return max(each.lives_ms for each in publishers(vary(scenario_of("some", (step,) * 40), 3)))

    assert longest(killed) < 2**31 - 1 < longest(PLAIN)


def test_values_of_other_sizes_are_no_pairs():
    assert set() == open_pairs((Publish(5, window=5, size=20_000, lives_ms=2_000),))
    assert len(open_pairs((PLAIN,))) == 3
