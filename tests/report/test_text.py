"""The summary on a terminal and in a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from conformance.judge.rows import Verdict, Witness
from conformance.report import plain, summary
from conformance.report.model import Expectations, Item, Standing


def test_one_line_for_each_answer(make):
    """Claim, verdict, scenario, exposure, control and confidence."""
    first = plain(make.judgement(make.row())).splitlines()[1]

    assert "SOLCD-ACK-01 HOLDS broker-killed-while-publishing 180+ x 6 3/3 strong q=0.029 <39%" == " ".join(
        first.split()
    )


def test_a_normal_run_fits_on_a_screen(make, catalogue, scenarios):
    lengths = [len(plain(make.full(catalogue, scenarios, bad=bad), catalogue).splitlines()) for bad in (False, True)]

    assert [True, True] == [lengths[0] <= 40, lengths[1] <= 46]


def test_the_end_says_what_counts(make, tmp_path):
    lines = plain(make.judgement(make.violated()), written={"html": tmp_path / "report.html"}).splitlines()[-4:]

    expected = [
        "1 claim was violated: SOLCD-ACK-01.",
        "1 VIOLATED",
        "exit 1: at least one claim was violated",
        f"html: {tmp_path / 'report.html'}",
    ]
    assert expected == lines


def test_a_violation_beside_an_error_of_the_suite(make):
    """The exit code is that of the violation; the error is named, and the last line names both."""
    text = plain(make.judgement(make.violated(), make.row("EMS-STEP-03", verdict=Verdict.HARNESS_ERROR)))

    assert any("HARNESS_ERROR" in line and "EMS-STEP-03" in line for line in text.splitlines())
    assert "exit 1: at least one claim was violated; also (3), part of the suite failed" in text


def test_the_first_violation_has_its_timeline(make):
    """Message, confirm, kill: enough to believe it."""
    text = plain(make.judgement(make.violated(), make.violated("AMQP-DUR-01")))

    assert 1 == text.count("815.377 ms  publisher-1   fault    fired      kill at the 213th confirm")
    assert "message p1-000213 in orders, trial t0002:" in text


def test_the_first_violation_can_be_seen_again(make, tmp_path):
    """The line works where the user is: with the folder that they named, quoted."""
    place = tmp_path / "my runs" / "one"
    text = plain(make.judgement(make.violated()), written={"html": place / "report.html"})
    line = f"again: conformance replay '{place}' --scenario broker-killed-while-publishing --trial 2\n"

    assert 1 == text.count(line), text
    assert "again: conformance replay . --scenario" in plain(make.judgement(make.violated()))


def test_a_line_that_repeats_a_whole_run_names_no_folder(make, tmp_path):
    row = make.violated(replay="conformance run --adapter artemis --seed 7")
    text = plain(make.judgement(row), written={"html": tmp_path / "report.html"})

    assert "again: conformance run --adapter artemis --seed 7\n" in text


def test_a_long_timeline_is_cut_in_the_middle(make):
    """How it began and how it ended; the page has the rest."""
    events = tuple({"at_ms": float(at), "op": "deliver", "phase": "ok", "detail": f"number {at}"} for at in range(99))
    seen = Witness(trial="t", queue="q", message="m", timeline=events)
    text = plain(make.judgement(make.violated(witnesses=(seen,))))

    assert [True, False, True] == [f"number {at}\n" in text for at in (3, 50, 98)]
    assert "89 more" in text


def test_a_long_timeline_keeps_what_shows_the_violation(make):
    """The second delivery of a message that two consumers got was in the middle that was cut."""
    each = [("deliver", "ok"), ("process", "invoke"), ("process", "ok"), ("ack", "invoke"), ("ack", "ok")]
    told = [("send", "ok", "publisher-1"), *((op, phase, f"consumer-{n}") for n in (1, 2) for op, phase in each)]
    told += [("broker", "invoke", "orchestrator"), ("broker", "ok", "orchestrator")]
    events = tuple({"at_ms": 0.0, "op": op, "phase": phase, "process": who} for op, phase, who in told)
    text = plain(
        make.judgement(make.violated(witnesses=(Witness(trial="t", queue="q", message="m", timeline=events),)))
    )

    assert 2 == text.count("deliver  ok")
    assert 2 == text.count("ack      ok")
    assert "4 more" in text


def test_many_answers_are_cut_with_a_count(make):
    text = plain(make.judgement(*(make.row(f"C-{at:02}") for at in range(25))))

    assert "... and 5 more in the report\n" in text


def test_violations_are_never_among_the_cut(make):
    rows = [*(make.row(f"C-{at:02}") for at in range(25)), make.violated("LAST-01")]

    assert plain(make.judgement(*rows)).splitlines()[1].startswith("LAST-01")


def test_a_pipe_gets_no_escape_sequence(make, catalogue, scenarios):
    """`--no-color` and a pipe are the same text."""
    text = plain(make.full(catalogue, scenarios), catalogue)

    assert (False, []) == ("\x1b" in text, [line for line in text.splitlines() if line != line.rstrip()])


def test_the_words_of_the_summary_are_ascii(make):
    assert plain(make.judgement(make.row(), make.violated(), trials=(make.trial(void="missed"),))).isascii()


def test_a_message_id_cannot_repaint_the_terminal(make):
    text = plain(make.judgement(make.violated(reason="[bold]a\x1b[2Jb[/bold]")))

    assert "[bold]a\\x1b[2Jb[/bold]" in text


def test_a_terminal_gets_colours(make):
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=100)
    console.print(summary(make.judgement(make.violated())))

    assert "\x1b[1;31mVIOLATED" in console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_claim_and_verdict_are_whole_at_any_width(make, width):
    line = plain(make.judgement(make.row("ARTEMIS-SEND-09", Verdict.HARNESS_ERROR)), width=width).splitlines()[1]

    assert ["ARTEMIS-SEND-09", "HARNESS_ERROR"] == line.split()[:2]


def test_a_run_without_anything(make):
    text = plain(make.judgement(finished=False, interrupted=True), written={"json": Path("report.json")})

    assert ["Nothing was tried. The run was interrupted.", "no rows"] == text.splitlines()[-4:-2]


def test_what_was_expected_is_told(make):
    item = Item(standing=Standing.KNOWN, claim="SOLCD-ACK-01", scenario="s", text="flaky (link; until 2027-01-31)")
    told = Expectations(exit_code=0, means="nothing new", items=(item,) * 25)
    text = plain(make.judgement(make.violated()), expected=told)

    assert 20 == text.count("known failures: SOLCD-ACK-01 in s: flaky (link; until 2027-01-31)\n")
    assert ["... and 5 more in the report\n" in text, "exit 0: nothing new\n" in text] == [True, True]


def test_a_row_judged_as_another_vendor(make):
    row = make.violated("EMS-STEP-06", scope="profile", required=True)

    assert "seen in 3 of 3, judged as" in plain(make.judgement(row, judged_as=("ems",)))


def test_an_observation_of_what_was_never_promised(make):
    row = make.row("EMS-STEP-06", Verdict.OBSERVED, scope="profile")

    assert "not promised" in plain(make.judgement(row))
