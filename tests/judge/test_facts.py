"""What the judge makes of the rows of its plan: numbers of a trial, and the messages that offend. Without Spark."""

import pytest
from judge_evidence import facts

from conformance.judge.anomalies import ANOMALIES
from conformance.judge.plan.facts import Failing, TrialFacts, effective_mask, from_rows, median
from conformance.judge.plan.relations import figure_column, within_column
from conformance.scenario.faults import FAULTS

WITNESS = 10**12
IN_WINDOW = "confirmed_in_window"


def counted(trial="t", **fields):
    """A row of a trial, or of one of its queues, without an anomaly."""
    return {"trial": trial, "failing": "", **fields}


def offending(anomaly="lost", trial="t", queue="q", n=1, **fields):
    """A row with one witness, which is the n-th message of the first producer."""
    order = ANOMALIES[anomaly].order
    about = {"trial": trial, "failing": anomaly, "queue": queue, "witness": WITNESS + n, "offences": 1}
    return {**about, **({f"first_{order}": n, f"last_{order}": n} if order else {}), **fields}


def of(*rows, trial="t"):
    return from_rows(rows)[trial]


@pytest.mark.parametrize(
    ("name", "values", "merged"),
    [
        ("applies_lost", (1, 2, None), 3),
        ("exposed_sends", (3, 4), 7),
        ("missed_lost", (1, 1), 2),
        ("all_foreign", (2, 3), 5),
        ("met_sends", (1, None, 4, 5), 5),
        ("met_sends", (None, None), 0),
        ("kept_first_lost", (7, None, 5, 9), 5),
        ("kept_first_lost", (None,), None),
        ("trial_started_at", (8, 6), 6),
        ("kept_last_lost", (7, None, 9, 5), 9),
        ("was_settled", (True, False), True),
        ("not_recovered", (None, "killed"), "killed"),
        ("not_recovered", (None, None), None),
    ],
)
def test_rows_of_the_queues_of_a_trial_become_one(name, values, merged):
    """Counts are added; of other numbers the least or the greatest stays, and each bit of a mask."""
    found = of(*(counted(**{name: value}) for value in values))

    assert {"trial": "t", "failing": "", name: merged} == found.counts
    assert {} == found.failing


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ({"first": 1, "asked": 2}, True),
        # One that was asked for when the first lost one was not answered yet proves nothing.
        ({"first": 1, "asked": 4}, True),
        ({"first": 1, "asked": 6}, False),
        ({"first": 7, "asked": 2}, False),
        ({}, False),
    ],
    ids=["the end", "at the same time", "a younger one is there", "the oldest", "everything"],
)
def test_lost_the_end(kept, found):
    """The answers of the lost were read from the time 5 on."""
    counts = {f"kept_{end}_lost": kept.get(end) for end in ("first", "asked")}
    lost = Failing(offences=2, witnesses=(), first=5, last=8)

    assert found is TrialFacts(counts, {"lost": lost}).lost_the_end("lost")
    assert not TrialFacts(counts, {}).lost_the_end("lost")


def test_each_trial_has_its_own_rows():
    rows = [
        counted("a", applies_lost=1),
        offending(trial="b"),
        counted("b", applies_lost=2),
        offending("transaction_torn", "a"),
    ]
    found = from_rows(rows)

    assert [("a", 1, ["transaction_torn"]), ("b", 2, ["lost"])] == [
        (trial, each.counts["applies_lost"], [*each.failing]) for trial, each in found.items()
    ]
    assert {} == from_rows([])


def test_anomalies_are_in_the_order_of_their_names():
    """Also of a trial that has no row without one."""
    found = of(offending(), offending("confirmed_missing"))

    assert ({}, ["confirmed_missing", "lost"]) == (found.counts, [*found.failing])


def test_rows_of_one_anomaly_are_added():
    """The witnesses are the first by producer, number and queue."""
    rows = [
        offending(n=7, offences=3, offended_confirm_period=2, offended_ack_period=None),
        offending(n=2, offences=4, queue=None, offended_confirm_period=5, offended_ack_period=None),
        offending(n=9, witness=3 * WITNESS + 1, queue="a", offended_confirm_period=None, offended_ack_period=None),
    ]
    found = of(*rows).failing["lost"]

    assert Failing(8, (("", 1, 2), ("q", 1, 7), ("a", 3, 1)), 2, 9, {"confirm_period": 7, "ack_period": 0}) == found


def test_some_witnesses_are_enough():
    found = of(*(offending(n=n) for n in range(9, 0, -1))).failing["lost"]

    assert (9, [1, 2, 3, 4, 5, 6, 7, 8]) == (found.offences, [n for _, _, n in found.witnesses])


def test_the_ends_of_what_offends():
    """A row of a message without that time has none; nor has an anomaly without an order."""
    order = ANOMALIES["lost"].order
    without = {f"first_{order}": None, f"last_{order}": None}
    found = of(offending(n=3, **without), offending(n=5, **{f"last_{order}": 8}), offending(n=4)).failing["lost"]

    assert (4, 8) == (found.first, found.last)
    assert (None, None) == (
        of(offending(**without)).failing["lost"].first,
        of(offending("phantom")).failing["phantom"].last,
    )


@pytest.mark.parametrize(
    ("offending_ends", "kept_ends", "part"),
    [
        ((3, 4), (None, None), "all"),
        ((41, 42), (10, 40), "tail"),
        ((40, 41), (10, 40), "middle"),
        ((8, 9), (10, 40), "prefix"),
        ((8, 10), (10, 40), "middle"),
        ((None, None), (10, 40), ""),
        ((8, None), (10, 40), ""),
        ((None, 8), (10, 40), ""),
        ((3, 4), (None, 40), "all"),
        ((3, 4), (10, None), "all"),
    ],
)
def test_which_part_of_a_sequence_offends(offending_ends, kept_ends, part):
    kept = dict(zip(("kept_first_lost", "kept_last_lost"), kept_ends, strict=True))
    found = TrialFacts(kept, {"lost": Failing(1, (), *offending_ends)})

    assert (part, "") == (found.part("lost"), found.part("duplicate"))


@pytest.mark.parametrize(
    ("at_risk", "offended", "faults", "after"),
    [(0b0101, 0b0100, 2, 1), (0b0001, 0b0110, 3, 2), (0, 0, 1, 1), (None, 0b1000, 1, 1)],
)
def test_a_trial_stands_for_the_faults_that_could_show_something(at_risk, offended, faults, after):
    """Those with something at risk, and those that lost something; at least one if something was lost."""
    lost = Failing(1, (), None, None, {"confirm_period": offended})
    counts = {f"met_{IN_WINDOW}": at_risk, "applies_lost": 9}
    found = TrialFacts(counts, {"lost": lost})

    assert (faults, after) == (found.faults("lost", IN_WINDOW), found.offended_faults("lost", IN_WINDOW))
    kept = TrialFacts(counts, {})
    assert ((at_risk or 0).bit_count(), 0) == (kept.faults("lost", IN_WINDOW), kept.offended_faults("lost", IN_WINDOW))
    assert (1, 1, 0) == (
        found.faults("lost", "sends"),
        found.offended_faults("lost", "sends"),
        kept.offended_faults("lost", "sends"),
    )


def test_a_loss_of_an_unknown_fault():
    """It adds none to those with something at risk."""
    found = TrialFacts({f"met_{IN_WINDOW}": 0b100}, {"lost": Failing(1, (), None, None)})

    assert (1, 1) == (found.faults("lost", IN_WINDOW), found.offended_faults("lost", IN_WINDOW))


def test_faults_soon_after_a_request():
    counts = {f"met_{IN_WINDOW}": 0b0111, within_column(IN_WINDOW, 3): 0b1010}
    found = TrialFacts(counts, {})

    assert (1, 0) == (found.faults_within(IN_WINDOW, 3), found.faults_within(IN_WINDOW, 10))


def test_a_broker_that_did_not_start_again():
    """Before a message was sent there is nothing else to count. Without proof of its guilt it is only not ready."""
    counts = {"applies_not_recovered": 0, "applies_lost": 0}
    dead, late = ({**counts, "not_recovered": "no start"}, {**counts, "not_recovered": None, "not_ready": "slow"})
    found = [TrialFacts(each, {}) for each in (dead, late, {**dead, "not_ready": "slow"}, counts)]

    assert [("no start", "no start"), ("", "slow"), ("no start", "no start"), ("", "")] == [
        (each.text_of("not_recovered"), each.unready) for each in found
    ]
    assert [1, 0, 1, 0] == [each.offences("not_recovered") for each in found]
    assert [1, 0, 1, 0] == [each.applies("not_recovered") for each in found]
    assert [0] * 4 == [each.applies("lost") + each.offences("lost") for each in found]
    many = TrialFacts({**dead, "applies_not_recovered": 5}, {"not_recovered": Failing(4, (), None, None)})
    assert (5, 4) == (many.applies("not_recovered"), many.offences("not_recovered"))


def test_what_a_trial_says():
    mask = effective_mask("kill", "stop", "kill")
    figure = figure_column(ANOMALIES["send_waited"], 0)
    found = facts(
        offends={"phantom": 2, "corrupt": 3},
        effective=("kill", "stop"),
        all_foreign=4,
        missed_lost=6,
        trial_flush_ns=7_000_000,
        hidden_at_disk="a memory map",
        **{figure: 2},
    )
    none, bits = facts(effective=(), was_settled=False, was_stuck=True, **{figure: None}), [*FAULTS]

    assert mask == found.counts["faults_effective"] == 2 ** (bits.index("kill") + 1) + 2 ** (bits.index("stop") + 1)
    assert [(True, True, False), (False, False, False)] == [
        tuple(each.effective(fault) for fault in ("kill", "stop", "pause")) for each in (found, none)
    ]
    assert (9, 6, 0) == (found.strange, found.missed("lost"), TrialFacts({}, {}).missed("lost"))
    assert (7_000_000, None) == (found.window_ns(IN_WINDOW), found.window_ns("sends"))
    assert ("a memory map", None, None) == (found.hidden, none.hidden, TrialFacts({}, {}).hidden)
    assert [(True, False), (False, True)] == [(each.settled, each.stuck) for each in (found, none)]
    assert (2.0, None) == (found.figure("send_waited", 0), none.figure("send_waited", 0))
    assert 100 == found.applies("lost")
    assert 50 == found.exposed("sends")


def test_the_median_of_nothing():
    assert (0.0, 2.5) == (median([]), median([1, 4, 2, 3]))
