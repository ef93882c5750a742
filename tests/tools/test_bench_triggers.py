"""The table of triggers: how a hunt ends, what it reads, and one real hunt."""

import contextlib
import os
import re

import pytest

import benchmarks
from benchmarks import triggers
from benchmarks.triggers import AT_TRIGGER, QUARRIES, Bench, Hunt, hunt
from conformance.errors import JudgeError
from conformance.ledger import Ledger
from conformance.reference.honest import LATE_S, Answered, Asked
from conformance.reference.liars import LIARS
from conformance.scenario.script import After, Kill, Nth, Publish


class ScriptedBench:
    """A bench with given offences for each trial, and the report of its kill."""

    def __init__(self, *offences):
        self.left = list(offences)
        self.asked = []

    def offences(self, quarry, script, liar, number):
        self.asked.append((script, liar, number))
        return self.left.pop(0), [f"{number}0 us after its event, 9 us for the signals"]


def test_a_hunt_ends_when_something_is_found():
    """In the third trial; what comes after is not tried."""
    scripted = ScriptedBench(0, 0, 2, 0)

    assert hunt(scripted, QUARRIES[0], Nth("confirm", 5), "x", 30) == Hunt(3, 3, (10, 20, 30))
    assert [number for _, _, number in scripted.asked] == [1, 2, 3]


def test_a_hunt_finds_nothing():
    """Neither in the trials that it may take, nor in the time."""
    assert hunt(ScriptedBench(0, 0, 0, 1), QUARRIES[0], Nth("confirm", 5), None, 3) == Hunt(None, 3, (10, 20, 30))
    assert hunt(ScriptedBench(), QUARRIES[0], After(5), "x", 30, 0.0) == Hunt(None, 0)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Hunt(2, 2), "trial 2 of 30"),
        (Hunt(None, 30), "not in 30"),
        (Hunt(None, 12), "not in 12 (of 30: time is up)"),
    ],
)
def test_what_a_hunt_says(found, said):
    """A hunt that ran out of time does not look like one that tried everything."""
    assert found.describe(30) == said


def test_both_hunts_play_one_script():
    """Killed at a trigger or at a time: every step but the kill is the same."""
    for quarry in QUARRIES:
        aimed, random = (quarry.script(Kill(at), "s").steps for at in (quarry.trigger, After(quarry.between)))
        differing = [(a, r) for a, r in zip(aimed, random, strict=True) if a != r]

        assert [(a.until.at, r.until.at) for a, r in differing] == [(quarry.trigger, After(quarry.between))]


def test_every_liar_that_a_kill_can_see_is_hunted():
    """Those that answer a single publisher before they write; the window of the arithmetic is theirs."""
    seen = {
        name
        for name, liar in LIARS.items()
        if any(liar.behaviour().answered(asked, 10, False) is Answered.AT_ONCE for asked in Asked)
    }

    assert {quarry.liar for quarry in QUARRIES} == seen
    assert triggers.WINDOW_MS == LATE_S * 1000


def test_random_kills_come_while_the_script_works():
    """The span of the random kills is that in which the trigger comes, where sends are paced."""
    for quarry in QUARRIES:
        (paced,) = [step for step in quarry.steps(Kill(quarry.trigger)) if getattr(step, "until", None)]
        pace = getattr(paced, "every_ms", 0) or getattr(paced, "work_ms", 0)
        if pace:
            drawn = quarry.trigger.k
            assert (quarry.between.low, quarry.between.high) == (drawn.low * pace, drawn.high * pace)
            assert quarry.every_ms == pace
        else:
            assert (paced, quarry.between.high) == (Publish(10, window=10, until=Kill(quarry.trigger)), 240)


def test_the_table_lines_up():
    """Every column begins where its head does."""
    head, row = benchmarks.aligned([triggers.COLUMNS, ("a-liar", "x", "trial 1 of 3", "50", "not in 30", "90%")])

    assert [head.index(word) for word in triggers.COLUMNS] == [
        row.index(cell) for cell in ("a-liar", "x ", "trial", "50", "not", "90%")
    ]


def test_the_benchmark_is_one_of_the_list(monkeypatch):
    """`just bench triggers`."""
    monkeypatch.setattr(triggers, "triggers", lambda: iter(["a line"]))

    assert list(benchmarks.run("triggers")) == ["a line"]


@pytest.fixture
def bench(tmp_path):
    """A real one; the session of the judge is its own, or a guest of one that is there."""
    with Ledger(tmp_path, f"bench-{os.getpid()}") as ledger, contextlib.closing(Bench(tmp_path, ledger, 1)) as made:
        yield made


@pytest.mark.spark
def test_a_kill_at_the_trigger_finds_the_liar_and_not_the_honest_broker(bench):
    """By the judge: the message whose confirm was just read is lost by the one, and never by the other."""
    quarry = QUARRIES[0]
    found = hunt(bench, quarry, quarry.trigger, quarry.liar, AT_TRIGGER)

    assert found.found is not None
    assert len(found.signals) == found.tried
    assert hunt(bench, quarry, quarry.trigger, None, 1).found is None


@pytest.mark.spark
def test_a_trial_without_a_kill_is_void(bench):
    """A trigger that is never reached: nothing is concluded."""
    quarry = QUARRIES[1]
    with pytest.raises(JudgeError, match=re.escape("trial unreached.1 is void")):
        bench.record(quarry.script(Kill(Nth("confirm", 11)), "unreached"), None, 1)
