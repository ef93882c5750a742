"""Random histories over every row of the table of fates: the judge and plain Python find the same fates."""

import random
from collections import Counter

import lives
import pytest
from fates_oracle import fates
from judge_histories import fates_met
from judge_words import came, crashed, killed, pause, set_aside, silent, stuck

from conformance.judge.anomalies.fates import ALLOWED, FATES, REQUIRED, SENT, TAKEN, UNDECIDED

pytestmark = pytest.mark.spark

MESSAGES = 100
"""Messages of a trial."""

TWO = "sent in one transaction and acknowledged in another"
NO_ANOMALY = {REQUIRED, ALLOWED, UNDECIDED}


def sending(rng, n):
    """How a message is sent, half of the time so that the broker owes it."""
    ways = lives.sendings(n)
    return rng.choice([*ways, *ways[: lives.TWICE] * (len(ways) // lives.TWICE)])


def taking(rng, n, consumer, tx):
    """What a consumer does with one delivery."""
    return rng.choice(lives.takings(n, tx, consumer))


def merged(rng, courses):
    """The steps of all messages in one order, each message's in its own."""
    waiting = [list(steps) for steps in courses if steps]
    found = []
    while waiting:
        steps = rng.choice(waiting)
        found += steps.pop(0)
        waiting = [each for each in waiting if each]
    return found


def trial(rng, numbers):
    """A history: lives before the fault, the fault, and drains of what is left."""
    fault = rng.choice([[], [], crashed(), killed("publisher-3")])
    epoch = 2 if fault[:1] and fault[0][1]["fault"] == "kill" else 1
    courses = []
    for n in numbers:
        steps = sending(rng, n)
        if rng.random() < 0.6:
            for time in range(rng.choice([1, 1, 1, 2, 3])):
                taken = taking(rng, n, rng.choice([1, 1, 1, 2]), lives.TX.format(n + 10_000 * (time + 1)))
                steps = steps + taken
        courses.append(steps)
    first, second, aside = [], [], []
    for n in numbers:
        if (luck := rng.random()) < 0.45:
            first += came(n, epoch=epoch)
        elif luck < 0.46:
            second += came(n, drain=2, epoch=epoch + 1)
        elif luck < 0.52:
            aside += set_aside(n)
    if rng.random() < 0.7:
        second = []
    ended = [(silent if rng.random() < 0.85 else stuck)(drain, epoch=epoch + drain - 1) for drain in (1, 2)]
    return [*merged(rng, courses), *pause(5), *fault, *first, *ended[0], *second, *ended[1], *aside]


def alike(cell, fate):
    """Whether both agree. The columns of a message have one commit: one of two transactions may be decided less."""
    if cell[1] == TWO and (FATES[cell] == UNDECIDED or fate not in NO_ANOMALY):
        return True
    return FATES[cell] == fate


def compared(spark, folder, seed, trials):
    """Return the lives on which both disagree, and how often each cell was met."""
    rng = random.Random(seed)
    histories = [trial(rng, range(1, MESSAGES + 1)) for _ in range(trials)]
    met = fates_met(spark, folder, {f"t{at}": events for at, events in enumerate(histories)})
    found = {key: (sent.name, taken.name, seen) for key, (sent, taken, seen) in met.items()}
    expected = {(f"t{at}", name): fate for at, events in enumerate(histories) for name, fate in fates(events).items()}
    assert expected.keys() == found.keys()
    unlike = {key: (found[key], fate) for key, fate in expected.items() if not alike(found[key], fate)}
    return unlike, Counter(found.values())


def test_every_life_agrees(session, tmp_path):
    """All ways to send a message, to take it, and to find it in the end: half of the cells are met by one."""
    met = fates_met(session.spark, tmp_path, dict(lives.every()))
    lives_met = {life: (sent.name, taken.name, seen) for life, (sent, taken, seen) in met.items()}
    expected = {(name, of): fate for name, events in lives.every() for of, fate in fates(events).items()}
    unlike = {life: (cell, expected[life]) for life, cell in lives_met.items() if not alike(cell, expected[life])}

    assert expected.keys() == lives_met.keys()
    assert {} == unlike
    assert {row.name for row in SENT} == {sent for sent, _, _ in lives_met.values()}
    assert {row.name for row in TAKEN} == {taken for _, taken, _ in lives_met.values()}
    assert 912 == len(set(lives_met.values()))


def test_ten_thousand_lives_agree(session, tmp_path):
    unlike, met = compared(session.spark, tmp_path, 20261128, 10_000 // MESSAGES)

    assert {} == unlike
    assert {row.name for row in SENT} == {sent for sent, _, _ in met}
    assert {row.name for row in TAKEN} == {taken for _, taken, _ in met}
    assert set(FATES.values()) == {FATES[cell] for cell in met}


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_a_hundred_thousand_lives_agree(session, tmp_path, seed):
    """25,000 of each seed."""
    unlike, _ = compared(session.spark, tmp_path, seed, 25_000 // MESSAGES)

    assert {} == unlike
