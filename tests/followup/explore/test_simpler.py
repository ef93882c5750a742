"""A script that failed is made simpler by one change at a time, and written as a scenario file."""

import sys

import pytest

from conformance import scenario
from conformance.followup.explore.simpler import MOST, repeats, simpler, size
from conformance.followup.explore.source import class_name, source
from conformance.scenario import Check, Liar
from conformance.scenario.script import (
    SETTLE,
    Between,
    Consume,
    Cut,
    Drain,
    Frame,
    Kill,
    Nth,
    Publish,
    Restart,
    Together,
)
from conformance.scenario.space import draw, scenario_of

KILLED = Publish(50_000, window=20, size=4_096, until=Kill(Nth("confirm", Between(3, 9))))
SCRIPT = scenario_of(
    "drawn-1",
    (
        Together((Consume("auto", until_silent=True), Publish(40, window=10, headers=True))),
        Restart(clean=True),
        KILLED,
        Restart(),
        Consume("individual", prefetch=50, refuse=("released",), refuse_every=3, until_silent=True),
        *SETTLE,
    ),
)


def steps_of(script):
    return script.steps[: -len(SETTLE)]


def test_each_is_one_change_simpler():
    made = [steps_of(each) for each in simpler(SCRIPT)]
    first, restart, killed, started, taken = steps_of(SCRIPT)

    assert (restart, killed, started, taken) in made
    assert (first, restart, taken) in made  # neither the kill nor the start after it
    assert (first, killed, started, taken) in made
    assert (Publish(40, window=10, headers=True), restart, killed, started, taken) in made
    assert (first, restart, Publish(100, window=20, size=4_096), taken) in made
    plain = Consume("individual", prefetch=50, until_silent=True)
    assert (first, restart, killed, started, plain) in made
    assert len(made) == len(set(made))
    assert steps_of(SCRIPT) not in made


def test_no_script_uses_a_broker_that_has_ended():
    for made in simpler(SCRIPT):
        kills = any(isinstance(fault, Kill) for fault in made.faults)

        assert kills == (Restart() in made.steps)


def test_the_simplest_script_has_nothing_simpler():
    assert [] == list(simpler(scenario_of("drawn-1", (Publish(10, window=1), *SETTLE))))


def test_what_is_drawn_becomes_simple_in_few_changes():
    """Each way ends at one publisher: what is left can always be played."""
    script = draw(5, 2, set(), lambda _: True).script
    for _ in range(60):
        script = next(simpler(script), None) or script

    assert (1, 0) == size(script)[:2]


@pytest.mark.parametrize(("failed", "played", "times"), [(4, 4, 1), (3, 4, 3), (1, 4, MOST), (1, 1, 3)])
def test_more_trials_where_it_fails_seldom(failed, played, times):
    assert times == repeats(failed, played)


def test_a_scenario_file_has_the_same_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(scenario, "_REGISTRY", {})
    steps = (
        *steps_of(SCRIPT),
        Publish(9, window=3, until=Cut(Frame("send", Between(1, 3), at="middle"))),
        Consume("client", acknowledge=10, stop=4),
    )
    item = scenario_of("lost-kill-confirm", (*steps, *SETTLE))
    check = Check("lost", exposure="confirmed", control=Liar("loses-half-a-prefetch"))
    text = source(item, "It loses messages. " * 20, check)
    exec(compile(text, str(tmp_path / "found.py"), "exec"), {"__name__": "found"})
    found = scenario._REGISTRY[item.id]

    assert (item.steps, item.mode, (check,)) == (found.steps, found.mode, found.checks)
    assert "It loses messages." in found.says
    assert max(map(len, text.splitlines())) <= 200
    assert "drain" not in text.lower() or Drain() in item.steps
    assert "found" not in sys.modules


def test_the_class_of_a_scenario():
    assert "LostKillConfirm" == class_name("lost-kill-confirm")
