"""The six questions: what a cell says, that each check answers one of them, and the sentence above them."""

from collections import Counter

import msgspec
import pytest
from report_rows import judgement, row, trial, violated

from conformance.judge.anomalies import ANOMALIES
from conformance.judge.rows import Verdict
from conformance.judge.rules import UNPLAYED
from conformance.report import questions


def lost(fault, **changes):
    return row(anomaly="lost", fault=fault, **changes)


def test_each_check_answers_one_question():
    found = Counter(name for names in questions.QUESTIONS.values() for name in names)

    assert set(ANOMALIES) == set(found)
    assert {1} == set(found.values())


def test_each_fault_has_one_failure_model(scenarios):
    found = Counter(name for names in questions.MODELS.values() for name in names)
    used = {name for one in scenarios.values() for fault in one.faults for name in fault.names}

    assert set() == used - set(found)
    assert {1} == set(found.values())


@pytest.mark.parametrize(
    ("rows", "word", "figure"),
    [
        ((), "", ""),
        ((row(verdict=Verdict.NOT_APPLICABLE),), "", ""),
        ((row(verdict=Verdict.NOT_TRIED), row(verdict=Verdict.NOT_APPLICABLE)), "not tried", ""),
        ((row(verdict=Verdict.OBSERVED, kind="observation"), row(verdict=Verdict.NOT_TRIED)), "observed", ""),
        ((row(verdict=Verdict.OBSERVED),), "did not fail", "0/6 not promised"),
        ((row(verdict=Verdict.OBSERVED, offended_faults=2),), "failed", "2/6 not promised"),
        ((row(verdict=Verdict.WITNESSED),), "allowed, and seen", ""),
        ((row(faults=30),), "holds", "30/30"),
        # Two claims of one scenario rest on the same faults; another scenario has its own.
        ((row(faults=30), row("AMQP-DUR-01", faults=28), row(scenario="other", faults=3)), "holds", "33/33"),
        ((row(faults=30), violated(scenario="other", faults=3, offended_faults=2)), "fails", "2/33"),
        ((row(faults=30), row(scenario="other", verdict=Verdict.INCONCLUSIVE, faults=3)), "undecided", "3/33"),
        # What a stronger scenario has decided is not open.
        ((row(faults=30), row(scenario="b", verdict=Verdict.INCONCLUSIVE, decided_by="c")), "holds", "30/30"),
        # The user asked for it, and the run ends with exit code 1.
        ((row(faults=30), violated(scenario="b", required=True)), "fails", "3/33"),
    ],
)
def test_cell(rows, word, figure):
    found = questions.cell(rows)

    assert (word, figure) == (found.word, found.figure)


def test_a_row_stands_in_the_column_of_its_fault():
    """A check of every trial stands apart: its trials had all kinds of faults."""
    everywhere = lost("none", standing=True, faults=126)
    line = questions.lines(judgement(lost("kill"), lost("power_loss", scenario="b"), everywhere))[0]

    assert ["", "", "", "6/6", "", "", "6/6"] == [cell.figure for cell in line.cells]
    assert "126/126" == line.everywhere.figure


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), "Whether confirmed messages are safe was not decided."),
        ((lost("kill", verdict=Verdict.INCONCLUSIVE),), "Whether confirmed messages are safe was not decided."),
        (
            (lost("kill", faults=42), lost("power_loss", scenario="b", faults=20), lost("held_sync", scenario="c")),
            "No confirmed message was lost in 42 kills, 6 starts with held syncs and 20 power losses.",
        ),
        (
            (violated(anomaly="lost", fault="kill", faults=3, offended_faults=2), lost("stop")),
            "Confirmed messages were not safe in 2 of 3 kills. Not decided: if the disk fails, if the power fails.",
        ),
        ((violated(anomaly="gone", fault="kill"), lost("kill")), "No confirmed message was lost in 6 kills."),
        # A loss in any trial of the run is a loss, although the kills that a scenario counts show none.
        (
            (lost("kill"), violated(anomaly="lost", fault="none", standing=True, faults=126, offended_faults=1)),
            "Confirmed messages were not safe in 1 of 126 trials.",
        ),
        (
            (lost("kill"), violated(anomaly="lost", fault="kill", required=True)),
            "Confirmed messages were not safe in 3 of 6 kills.",
        ),
        # A commit is a confirm of its sends, although another question asks about transactions.
        (
            (lost("kill"), violated(anomaly="lost_committed", fault="kill", scenario="b", faults=3, offended_faults=2)),
            "Confirmed messages were not safe in 2 of 9 kills.",
        ),
        # Only a check of every trial has decided it.
        (
            (lost("none", standing=True, faults=3), lost("kill", verdict=Verdict.NOT_TRIED)),
            "No confirmed message was lost in 3 trials. Not decided: if the broker is killed, if the disk fails,",
        ),
        (
            (row(anomaly="corrupt", standing=True),),
            "What was tried of confirmed messages holds, and whether one is lost was not decided. Not decided: if",
        ),
        (
            (lost("kill"), violated("AMQP-BARE-01", anomaly="corrupt", standing=True)),
            "No confirmed message was lost in 6 kills, and yet they are not safe: AMQP-BARE-01. Not decided: if",
        ),
        ((violated(anomaly="lost", fault="kill", required=True),), "Confirmed messages were not safe in "),
    ],
)
def test_sentence(rows, said):
    assert questions.sentence(judgement(*rows)).startswith(said)


def undecided(scenario, **changes):
    return lost("kill", scenario=scenario, verdict=Verdict.INCONCLUSIVE, faults=3, **changes)


MISSING = {"offended": 1, "offended_faults": 1}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            (lost("kill", faults=3), undecided("b", offended=2, offended_faults=2), undecided("c", **MISSING)),
            (
                "No confirmed message was lost in 3 kills. "
                "Undecided, with confirmed messages missing: b (2 of 3 kills), c (1 of 3 kills). "
                "Not decided: if the disk fails, if the power fails."
            ),
        ),
        (
            (lost("kill", faults=3), undecided("b"), undecided("c", **MISSING), lost("power_loss"), lost("held_sync")),
            (
                "No confirmed message was lost in 3 kills, 6 starts with held syncs and 6 power losses. "
                "Undecided, with confirmed messages missing: c (1 of 3 kills). Not decided: b."
            ),
        ),
        (
            (undecided("b", **MISSING), undecided("c")),
            (
                "Whether confirmed messages are safe was not decided. "
                "Undecided, with confirmed messages missing: b (1 of 3 kills)."
            ),
        ),
        # A stronger scenario has decided it.
        (
            (lost("kill", faults=3), undecided("b", decided_by="c"), lost("power_loss"), lost("held_sync")),
            "No confirmed message was lost in 3 kills, 6 starts with held syncs and 6 power losses.",
        ),
        (
            (lost("kill"), *map(undecided, "bcdef"), lost("power_loss"), lost("held_sync")),
            (
                "No confirmed message was lost in 6 kills, 6 starts with held syncs and 6 power losses. "
                "Not decided: b, c, d, 2 more scenarios."
            ),
        ),
    ],
    ids=["two with losses", "one without", "none decided", "decided elsewhere", "many"],
)
def test_the_sentence_names_the_scenarios_that_are_undecided(rows, said):
    """Three kills that lose nothing say nothing about another scenario, in which messages are missing."""
    assert said == questions.sentence(judgement(*rows))


def test_without_a_decided_loss_no_kind_of_queue_is_named():
    """Counter-example: a user's own file, of which only a check of every trial had decided anything."""
    found = judgement(lost("none", standing=True, scenario="standing"), trials=(trial(),), configuration="a difference")

    assert "Tried" not in questions.sentence(found)


def test_what_was_left_out_is_said(scenarios):
    """In the cells of its fault: left by the selection or to --thorough, or a fault that this machine cannot inject.

    What the broker cannot be given was not left out.
    """
    left = row(anomaly="lost", fault="stop", scenario="b", verdict=Verdict.NOT_TRIED)
    held = [lost(fault) for fault in ("none", "kill", "stop", "power_loss")]
    disk = [lost("held_sync"), lost("failed_sync", scenario="b", verdict=Verdict.NOT_TRIED, reason="no strace")]
    parts = {
        "--thorough": judgement(*held, left_to_thorough=("broker-halted-then-killed", "gone")),
        "selection": judgement(*held, msgspec.structs.replace(left, reason=UNPLAYED[0])),
        "broker": judgement(*held, msgspec.structs.replace(left, reason="It needs a queue with durable.")),
        "machine": judgement(*disk, unable={"failed_sync": "no strace"}),
    }
    found = {name: questions.lines(each, scenarios)[0] for name, each in parts.items()}
    marked = {
        name: [model for model, cell in zip(questions.MODELS, line.cells, strict=True) if cell.partly]
        for name, line in found.items()
    }

    assert {
        "--thorough": ["the broker is killed", "the broker is stopped"],  # it is halted first
        "selection": ["the broker is stopped"],
        "broker": [],
        "machine": ["the disk fails"],
    } == marked
    assert {name: bool(models) for name, models in marked.items()} == {
        n: line.whole.partly for n, line in found.items()
    }


WORDS = [Verdict.HOLDS, Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.NOT_TRIED, Verdict.NOT_APPLICABLE]


@pytest.mark.parametrize("anomaly", ["lost", "corrupt"])
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("changes", [{}, {"standing": True}, {"required": True}, {"fault": "kill"}])
def test_the_sentence_and_the_first_cell_agree(anomaly, word, changes):
    """Counter-example: the index said "holds" of OpenMQ, and its report that nothing was decided."""
    found = judgement(row(anomaly=anomaly, verdict=word, offended_faults=1, **{"fault": "none", **changes}))
    first = questions.cell(questions.lines(found)[0].rows)
    said = questions.sentence(found)

    assert (first.verdict in (Verdict.HOLDS, Verdict.VIOLATED)) == ("safe was not decided" not in said)
    assert (first.verdict is Verdict.VIOLATED) == ("not safe" in said)


CREATED = trial("t0002", scenario="b", queue={"created": True})


@pytest.mark.parametrize(
    ("trials", "configuration", "said"),
    [
        (
            (trial(),),
            "",
            "No confirmed message was lost in 6 kills. Not decided: if the disk fails, if the power fails.",
        ),
        ((trial(),), "a difference", "Tried: declared queues."),
        ((trial(), CREATED), "", "Tried: declared queues and queues that clients make by naming them."),
        ((CREATED,), "a difference", "Tried: queues that clients make by naming them."),
        (
            (trial(), trial("t0003", scenario="c", queue={"subscribed": True})),
            "a difference",
            "Tried: declared queues.",
        ),
    ],
)
def test_the_sentence_names_the_queues_that_it_speaks_of(trials, configuration, said):
    """A user's own file may be about queues that clients make. A pass on declared queues says nothing about them."""
    rows = [lost("kill"), lost("kill", scenario="b", faults=0)]

    assert questions.sentence(judgement(*rows, trials=trials, configuration=configuration)).endswith(said)


def test_the_account_of_a_run():
    """Every account that has messages, and always those that nothing explains."""
    found = msgspec.structs.replace(
        judgement(), account={"delivered": 1200, "aside": 0, "expired": 3, "unexplained": 1}
    )

    assert (
        "Of 1,204 confirmed messages: 1,200 delivered and acknowledged, 3 gone, and older than their time to live, "
        "0 undecided and 1 unexplained."
    ) == questions.account(found)
    assert "" == questions.account(judgement())
