"""The table of fates has a cell for each pair of rows and each observation, and each row has a history that meets it."""

import itertools

import pytest
from judge_histories import fates_met, record, write
from judge_words import history

from conformance.judge.anomalies import ANOMALIES
from conformance.judge.anomalies.fates import (
    ALLOWED,
    CELLS,
    COUNTED,
    EVIDENCE,
    FATES,
    REQUIRED,
    SENT,
    TAKEN,
    UNDECIDED,
    Owed,
    Seen,
    is_fate,
)
from conformance.judge.input.packing import compact_all
from conformance.judge.verdict import collect_facts

NO_ANOMALY = {REQUIRED, ALLOWED, UNDECIDED}


def test_every_cell_is_filled():
    """With one letter each, in the order in which a message looks its own up."""
    names = list(itertools.product([row.name for row in SENT], [row.name for row in TAKEN], Seen))
    letters = {cell: is_fate(cell) for cell in set(FATES.values())}

    assert names == list(FATES)
    assert len(names) == len(CELLS)
    assert set(FATES.values()) <= NO_ANOMALY | set(ANOMALIES)
    assert len(letters) == len(set(letters.values()))
    assert all(f"'{letter}'" in letters[cell] for letter, cell in zip(CELLS, FATES.values(), strict=True))


def test_a_message_of_an_unknown_end_is_accused_of_no_absence():
    for sent, taken in itertools.product(SENT, TAKEN):
        cell = FATES[sent.name, taken.name, Seen.UNKNOWN]

        assert cell in NO_ANOMALY or (sent.owed is Owed.ABSENT and taken is not TAKEN[0])


def test_only_what_the_broker_owes_can_be_lost():
    losses = {sent for (sent, _, seen), cell in FATES.items() if seen is Seen.NOWHERE and cell not in NO_ANOMALY}

    assert {"confirmed", "committed"} == losses - {row.name for row in SENT if row.owed is Owed.ABSENT}


def test_what_a_check_rests_on():
    assert {"absence"} == EVIDENCE["lost"] == EVIDENCE["gone"]
    assert {"aside"} == EVIDENCE["set_aside_early"]
    assert {"return"} == EVIDENCE["delivered_after_restart"] == EVIDENCE["returned_after_close"]
    assert {"absence", "return"} == EVIDENCE["transacted_acknowledgement"]
    assert not any(
        EVIDENCE[name] for name in ("phantom", "refused_delivered", "available_early", "available_undischarged")
    )


@pytest.fixture(scope="module")
def met(session, tmp_path_factory):
    """The rows and the observation of the message in each row's own history, by the name of the row."""
    examples = {row.name: row.example for row in (*SENT, *TAKEN)}
    found = fates_met(session.spark, tmp_path_factory.mktemp("fates"), examples)
    return {name: cell for (name, _), cell in found.items()}


@pytest.mark.spark
@pytest.mark.parametrize("row", SENT, ids=lambda row: row.name)
def test_the_example_of_a_publisher_shows_its_row(met, row):
    sent, taken, seen = met[row.name]

    assert row.name == sent.name
    assert (row.anomaly or ALLOWED) == FATES[sent.name, taken.name, seen]


@pytest.mark.spark
@pytest.mark.parametrize("row", TAKEN, ids=lambda row: row.name)
def test_the_example_of_a_consumer_shows_its_row(met, row):
    """And offends, if it can."""
    sent, taken, seen = met[row.name]
    anomalies = set(row.cells.values()) - NO_ANOMALY

    assert row.name == taken.name
    assert sent.owed is Owed.KEPT
    assert FATES[sent.name, taken.name, seen] in ({"lost"} if row is TAKEN[0] else anomalies or NO_ANOMALY - {REQUIRED})


@pytest.mark.spark
def test_the_account_adds_up(session, tmp_path):
    """Each confirmed or committed message is in one account; the others are in none."""
    text = (
        "kept 1 2 3 4 5 6, kept 7 durable=False, kept 8 lives=5, put t1 9, committed t1, sent 10, sent 11, refused 11, "
        "kept 12, handed 12, given_back 12 failed, took 1, handed 2, ack_sent 2, handed 3, pause 9, killed, settled 3 4, set_aside 5, set_aside 12"
    )
    about = record(trial="t", scenario="s")
    trial = compact_all([(tmp_path, write(tmp_path, history(text), about))])
    counts = collect_facts(session.spark, trial)["t"].counts

    assert {
        "delivered": 3,
        "in_queue": 0,
        "aside": 1,
        "volatile": 1,
        "expired": 1,
        "in_doubt": 1,
        "undecided": 0,
        "unexplained": 3,
    } == {name: counts[f"all_{name}"] for name in COUNTED}
    assert 10 == sum(counts[f"all_{name}"] for name in COUNTED)


@pytest.mark.spark
def test_a_kill_at_the_trigger_of_another_trial_counts_apart(session, tmp_path):
    """Of three kills that met a confirmed message the second was its own."""
    text = "kept 1, killed_by_another, kept_in 2 2, killed epoch=2, kept_in 3 3, killed_by_another 3, settled 1 2 3"
    trial = compact_all([(tmp_path, write(tmp_path, history(text), record(trial="t", scenario="s")))])
    found = collect_facts(session.spark, trial)["t"]
    lost = ("lost", "confirmed_in_window")

    assert (3, 1) == (found.faults(*lost), found.faults_at_trigger(*lost))
    assert (3, 1) == (found.faults("lost", "sends"), found.faults_at_trigger("lost", "sends"))
    assert (1, 1) == (found.faults("lost", "unsent"), found.faults_at_trigger("lost", "unsent"))
