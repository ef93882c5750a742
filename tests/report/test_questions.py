"""The six questions: what a cell says, that each check answers one of them, and the sentence above them."""

from collections import Counter

import msgspec
import pytest
from report_rows import judgement, row, trial, violated

from conformance.judge.anomalies import ANOMALIES
from conformance.judge.reasons import UNSHOWN
from conformance.judge.rows import Verdict
from conformance.judge.rules import UNPLAYED
from conformance.report import model, questions


def lost(fault, **changes):
    return row(**{"anomaly": "lost", "fault": fault, **changes})


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
    ("rows", "text"),
    [
        ((), ""),
        ((row(verdict=Verdict.NOT_APPLICABLE),), ""),
        ((row(verdict=Verdict.NOT_TRIED), row(verdict=Verdict.NOT_APPLICABLE)), "not tried"),
        ((row(verdict=Verdict.OBSERVED, kind="observation"), row(verdict=Verdict.NOT_TRIED)), "observed"),
        ((lost("kill", verdict=Verdict.OBSERVED),), "0 lost in 6 kills (not promised)"),
        ((lost("kill", verdict=Verdict.OBSERVED, offended_faults=2),), "lost in 2 of 6 kills (not promised)"),
        # It stands before what holds.
        (
            (lost("kill"), lost("kill", scenario="b", verdict=Verdict.OBSERVED, offended=1, offended_faults=2)),
            "lost in 2 of 6 kills (not promised)",
        ),
        # A check that had no message to look at has tried nothing.
        ((lost("kill", verdict=Verdict.OBSERVED, reason=f"No message {UNSHOWN}"),), "not tried"),
        ((row(verdict=Verdict.WITNESSED),), "allowed, and seen"),
        ((lost("kill", faults=30),), "0 lost in 30 kills (fair)"),
        ((lost("kill", faults=59),), "0 lost in 59 kills (strong)"),
        ((row(anomaly="came_back", fault="none"),), "0 failed in 6 trials (weak)"),
        ((row(anomaly="delivered_twice"),), "0 came back in 6 kills (weak)"),
        ((row(anomaly="half_applied"), lost("kill", scenario="b")), "0 broken in 12 kills (fair)"),
        ((row(anomaly="expired_nowhere"),), "0 gone in 6 kills (weak)"),
        ((row(anomaly="send_waited"),), "0 wrong in 6 kills (weak)"),
        # Two claims of one scenario rest on the same faults; another scenario has its own.
        (
            (
                lost("kill", faults=30),
                lost("kill", claim="AMQP-DUR-01", faults=28),
                lost("kill", scenario="b", faults=3),
            ),
            "0 lost in 33 kills (fair)",
        ),
        ((lost("kill", faults=30), violated(anomaly="lost", scenario="b", offended_faults=2)), "lost in 2 of 33 kills"),
        ((lost("kill"), lost("stop", scenario="b")), "0 lost in 12 faults (fair)"),
        ((lost("kill"), lost("none", scenario="b", faults=90)), "0 lost in 6 kills (weak)"),
        (
            (violated(anomaly="lost"), violated(anomaly="lost", scenario="b", fault="disk_full", offended_faults=1)),
            "lost in 3 of 3 kills and 1 of 3 full disks",
        ),
        ((lost("kill"), lost("kill", scenario="b", verdict=Verdict.INCONCLUSIVE)), "undecided in 6 of 12 kills"),
        # What a stronger scenario has decided is not open.
        (
            (lost("kill"), lost("kill", scenario="b", verdict=Verdict.INCONCLUSIVE, decided_by="c")),
            "0 lost in 6 kills (weak)",
        ),
        # The user asked for it, and the run ends with exit code 1.
        ((lost("kill"), violated(anomaly="lost", scenario="b", required=True)), "lost in 3 of 9 kills"),
    ],
)
def test_cell(rows, text):
    """The fact, and how strong it is."""
    assert text == questions.cell(rows).text


def expected(fault, anomaly, **changes):
    return row(anomaly=anomaly, fault=fault, verdict=Verdict.OBSERVED, **changes)


def test_an_expectation_that_failed_is_not_hidden_by_one_that_did_not():
    kept = expected("kill", "lost", faults=18)
    altered = expected("kill", "corrupt", scenario="b", faults=3, offended=3, offended_faults=3, offences=90)

    for holds in ([], [lost("kill", scenario="c", faults=30)]):
        assert "3 of" in questions.cell([*holds, kept, altered], questions.FIRST).fact


def test_an_expectation_fails_by_as_many_trials_as_a_violation_needs():
    """One trial in which a broker serves no more may have another cause."""
    rows = [expected("files_used_up", "not_served", faults=3, offended=n, offended_faults=n) for n in (1, 2)]
    holds = row(anomaly="stuck", fault="files_used_up", scenario="b", faults=3)

    assert [Verdict.HOLDS, Verdict.OBSERVED] == [questions.cell([each, holds]).verdict for each in rows]


def test_the_sentence_does_not_count_what_damaged_data_lost():
    """No broker can keep what was changed on its disk."""
    bad = expected("corrupt", "lost_silently", faults=8, offended=2, offended_faults=2, offences=2)

    assert "damaged" not in questions.sentence(judgement(bad, lost("kill", scenario="b", faults=30)))


def test_a_row_stands_in_the_column_of_its_fault():
    """A check of every trial stands apart: its trials had all kinds of faults."""
    everywhere = lost("none", standing=True, faults=126)
    line = questions.lines(judgement(lost("kill"), lost("power_loss", scenario="b"), everywhere))[0]
    facts = ["", "", "", "0 lost in 6 kills", "", "", "", "", "0 lost in 6 power losses", "", ""]

    assert facts == [cell.fact for cell in line.cells]
    assert ["0 lost in 126 trials", "0 lost in 12 faults"] == [line.everywhere.fact, line.whole.fact]


def test_a_column_that_is_left_out_moves_no_cell():
    """Counter-example: without shortages the cell of power losses stood in no column, and theirs in its own."""
    found = judgement(lost("power_loss"), lost("kill_nodes", scenario="b"))
    columns = questions.models(found)
    shown = dict(zip(columns, questions.lines(found)[0].below(columns), strict=True))

    assert "a resource runs out for a time" not in columns
    assert (shown["the power fails"].fact, shown["nodes fail"].fact) == (
        "0 lost in 6 power losses",
        "0 lost in 6 kills of nodes",
    )


ARTEMIS = "Apache Artemis 2.56.0"
LOSSLESS = f"{ARTEMIS} lost no confirmed message in"
UNPROMISED = lost("kill", verdict=Verdict.OBSERVED, offended=3, offended_faults=2, offences=41)
NOWHERE = "no document promises to keep them there"
NOT_DECIDED = f"Whether {ARTEMIS} loses confirmed messages was not decided."


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), f"Whether {ARTEMIS} loses confirmed messages was not tried."),
        ((lost("kill", verdict=Verdict.INCONCLUSIVE),), NOT_DECIDED),
        ((lost("kill", faults=42), lost("power_loss", scenario="b", faults=20)), f"{LOSSLESS} 62 faults."),
        (
            (violated(anomaly="lost", fault="kill", faults=3, offended_faults=2), lost("stop", scenario="b")),
            f"{ARTEMIS} lost 41 confirmed messages, in 2 of 3 kills.",
        ),
        ((violated(anomaly="gone", fault="kill"), lost("kill")), f"{LOSSLESS} 6 kills."),
        # A loss in any trial of the run is a loss, although the kills that a scenario counts show none.
        (
            (lost("kill"), violated(anomaly="lost", fault="none", standing=True, scenario="b", faults=126)),
            f"{ARTEMIS} lost 41 confirmed messages, in 3 of 126 trials.",
        ),
        # A commit is a confirm of its sends, although another question asks about transactions.
        (
            (lost("kill"), violated(anomaly="lost_committed", scenario="b", offended_faults=2)),
            f"{ARTEMIS} lost 41 confirmed messages, in 2 of 9 kills.",
        ),
        # Only a check of every trial has decided it.
        ((lost("none", standing=True, faults=3), lost("kill", verdict=Verdict.NOT_TRIED)), f"{LOSSLESS} 3 trials."),
        ((row(anomaly="corrupt", standing=True),), NOT_DECIDED),
        # What one scenario leaves open is not counted as kept.
        (
            (lost("kill"), lost("kill", claim="C", verdict=Verdict.INCONCLUSIVE), lost("stop", scenario="b")),
            f"{LOSSLESS} 6 stops.",
        ),
        # What no document promises is said as such, and is not left out.
        ((UNPROMISED,), f"{ARTEMIS} lost 41 confirmed messages, in 2 of 6 kills: {NOWHERE}."),
        (
            (UNPROMISED, lost("stop", scenario="b")),
            f"{LOSSLESS} 6 stops where it promises that, and 41 in 2 of 6 kills: {NOWHERE}.",
        ),
    ],
)
def test_sentence(rows, said):
    assert said == questions.sentence(judgement(*rows))


def test_the_sentence_counts_messages():
    """Of all that were confirmed, if the run has the account of them."""
    found = judgement(violated(anomaly="lost"))
    counted = msgspec.structs.replace(found, account={"delivered": 2_000, "unexplained": 41})

    assert f"{ARTEMIS} lost 41 of 2,041 confirmed messages, in 3 of 3 kills." == questions.sentence(counted)


def test_what_else_was_violated():
    """In the figures of its question, with the claims; what was excused is not named."""
    found = judgement(
        violated("AMQP-TX-01", anomaly="half_applied"),
        violated("AMQP-TX-02", anomaly="half_applied", scenario="b"),
        violated(anomaly="lost"),
    )

    assert ["Transactions were not whole in 6 of 6 kills (AMQP-TX-01)."] == questions.failures(found, ["AMQP-TX-01"])


def undecided(scenario, **changes):
    return lost("kill", scenario=scenario, verdict=Verdict.INCONCLUSIVE, faults=3, **changes)


MISSING = {"offended": 1, "offended_faults": 1}


@pytest.mark.parametrize(
    ("rows", "missing", "left"),
    [
        (
            (lost("kill", faults=3), undecided("b", offended=2, offended_faults=2), undecided("c", **MISSING)),
            " Undecided, with confirmed messages missing: b (2 of 3 kills), c (1 of 3 kills).",
            "Not decided: if the disk fails, if the power fails.",
        ),
        (
            (lost("kill"), undecided("b"), undecided("c", **MISSING), lost("power_loss"), lost("held_sync")),
            " Undecided, with confirmed messages missing: c (1 of 3 kills).",
            "Not decided: b.",
        ),
        ((lost("kill"), undecided("b", decided_by="c"), lost("power_loss"), lost("held_sync")), "", ""),
        (
            (lost("kill"), *map(undecided, "bcdef"), lost("power_loss"), lost("held_sync")),
            "",
            "Not decided: b, c, d, 2 more scenarios.",
        ),
    ],
    ids=["two with losses", "one without", "decided elsewhere", "many"],
)
def test_scenarios_that_are_undecided_are_named(rows, missing, left):
    """Three kills that lose nothing say nothing about another scenario, in which messages are missing."""
    found = judgement(*rows)

    assert missing == questions.sentence(found).partition(".0 lost no confirmed message in ")[2].partition(".")[2]
    assert left == questions.limits(found)


def test_without_a_decided_loss_no_kind_of_queue_is_named():
    """Counter-example: a user's own file, of which only a check of every trial had decided anything."""
    found = judgement(lost("none", standing=True, scenario="standing"), trials=(trial(),), configuration="a difference")

    assert "Tried" not in questions.limits(found)


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
@pytest.mark.parametrize("changes", [{}, {"standing": True}, {"fault": "kill"}])
def test_the_headline_and_the_first_cell_agree(anomaly, word, changes):
    """Counter-example: the index said "holds" of OpenMQ, and its report that nothing was decided."""
    found = judgement(row(anomaly=anomaly, verdict=word, offended_faults=1, **{"fault": "none", **changes}))
    first, said = questions.lines(found)[0].whole, model.headline(found)

    assert (first.fact.startswith("0 lost")) == ("lost no confirmed message" in said)
    assert (first.fact.startswith("lost")) == (f"confirmed messages, in {first.seen}." in said)
    assert (first.fact.startswith("wrong")) == (f"not safe in {first.seen} (" in said)


CREATED = trial("t0002", scenario="b", queue={"created": True})


@pytest.mark.parametrize(
    ("trials", "configuration", "said"),
    [
        (
            (trial(),),
            "",
            "Not decided: if the disk fails, if the power fails.",
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
def test_the_queues_that_were_tried_are_named(trials, configuration, said):
    """A user's own file may be about queues that clients make. A pass on declared queues says nothing about them."""
    rows = [lost("kill"), lost("kill", scenario="b", faults=0)]

    assert questions.limits(judgement(*rows, trials=trials, configuration=configuration)).endswith(said)


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
