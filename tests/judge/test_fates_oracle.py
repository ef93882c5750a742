"""Random histories over every row of the table of fates: the judge and plain Python find the same fates."""

import random
from collections import Counter

import pytest
from fates_oracle import fates
from judge_histories import fates_met
from judge_words import (
    ack_refused,
    ack_sent,
    acked,
    again,
    came,
    committed,
    confirmed,
    crashed,
    given_back,
    handed,
    killed,
    no_answer,
    pause,
    put,
    refused,
    rolled_back,
    sent,
    set_aside,
    silent,
    stuck,
)

from conformance.history import Phase
from conformance.judge.anomalies.fates import ALLOWED, FATES, REQUIRED, SENT, TAKEN, UNDECIDED

pytestmark = pytest.mark.spark

MESSAGES = 100
"""Messages of a trial."""

TX = "t{}"
TWO = "sent in one transaction and acknowledged in another"
NO_ANOMALY = {REQUIRED, ALLOWED, UNDECIDED}


def sending(rng, n):
    """How a message is sent, and what its publisher learns: as a list of steps, in order."""
    tx, other = TX.format(n), TX.format(n + 5_000)
    answer = rng.choice([Phase.OK, Phase.OK, Phase.FAIL, Phase.INFO, None])
    return rng.choice(
        [
            *[[sent(n), confirmed(n)]] * 4,
            [sent(n, durable=False), confirmed(n)],
            [sent(n, lives=1), confirmed(n)],
            [sent(n, lives=10_000_000), confirmed(n)],
            [sent(n)],
            [sent(n), no_answer(n)],
            [sent(n), refused(n, rng.choice(["rejected", "released", "modified"]))],
            [sent(n), refused(n), confirmed(n)],
            [sent(n), confirmed(n), refused(n)],
            [sent(n), sent(n), confirmed(n)],
            [sent(n), refused(n), sent(n), no_answer(n)],
            [sent(n), no_answer(n), again(other, n), committed(other, answer, "publisher-2")],
            [],
            *[[put(tx, n), committed(tx)]] * 2,
            [put(tx, n), committed(tx, answer)],
            [put(tx, n), rolled_back(tx, rng.choice([Phase.OK, None]))],
            [put(tx, n)],
            [put(tx, n), refused(n, tx=tx), committed(tx)],
            [put(tx, n), refused(n, "rejected outside its transaction", tx=tx), committed(tx)],
            [put(tx, n), committed(tx, Phase.FAIL), again(other, n), committed(other, by="publisher-2")],
        ]
    )


def taking(rng, n, consumer, tx):
    """What a consumer does with one delivery."""
    by = f"consumer-{consumer}"
    own = [handed(n, consumer=consumer)]
    if consumer > 1:  # the words for an answer are those of the first consumer
        return rng.choice([own, [*own, ack_sent(n, consumer=consumer)]])
    answer = rng.choice([Phase.OK, Phase.OK, Phase.FAIL, None])
    word = rng.choice(["released", "failed", "undeliverable", "rejected", "its receiver ended"])
    return rng.choice(
        [
            own,
            [*own, acked(n)],
            [*own, acked(n)],
            [*own, ack_sent(n)],
            [*own, ack_sent(n), ack_refused(n)],
            [*own, given_back(n, word)],
            [*own, given_back(n, word)],
            [*own, ack_sent(n, tx=tx), committed(tx, answer, by)],
            [*own, ack_sent(n, tx=tx), committed(tx, by=by)],
            [*own, ack_sent(n, tx=tx), rolled_back(tx, rng.choice([Phase.OK, None]), by)],
            [*own, ack_sent(n, tx=tx)],
        ]
    )


def merged(rng, lives):
    """The steps of all messages in one order, each message's in its own."""
    waiting = [list(steps) for steps in lives if steps]
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
    lives = []
    for n in numbers:
        steps = sending(rng, n)
        if rng.random() < 0.6:
            for time in range(rng.choice([1, 1, 1, 2, 3])):
                taken = taking(rng, n, rng.choice([1, 1, 1, 2]), TX.format(n + 10_000 * (time + 1)))
                steps = steps + taken
        lives.append(steps)
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
    return [*merged(rng, lives), *pause(5), *fault, *first, *ended[0], *second, *ended[1], *aside]


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
