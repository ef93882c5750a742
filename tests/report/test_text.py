"""The summary on a terminal and in a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from report_rows import full, judgement, row, trial, violated
from rich.console import Console

from conformance.judge.rows import Verdict
from conformance.report import plain, summary
from conformance.report.model import Expectations, Item, Standing


def _lines(text):
    """The lines of the claims: what follows the header, up to an empty line."""
    lines = text.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("claim "))
    return lines[at + 1 : lines.index("", at)]


def test_one_line_for_each_claim():
    """Claim, verdict with its strength, how many scenarios, and what a pass leaves open."""
    held = row(strength="3 kills", fault="kill", anomaly="lost")
    first, *others = _lines(plain(judgement(held, row(scenario="other", faults=1))))

    assert ("SOLCD-ACK-01 HOLDS (3 kills) 2 up to 39 % could still lose a message", []) == (
        " ".join(first.split()),
        others,
    )


def test_a_pass_without_a_fault_says_what_its_control_proves():
    """Also that a chance is small, never that it is 0."""
    (line,) = _lines(plain(judgement(row(bound=None, q=1e-9))))

    assert line.endswith("a broker as weak as the control would pass with the chance q < 0.001")


def test_six_questions_come_first():
    """Each in one line, with its fact."""
    lost = violated(anomaly="lost", fault="kill", faults=3, offended_faults=2)
    lines = plain(judgement(lost, row("EMS-STEP-06", anomaly="gone", fault="kill", faults=3))).splitlines()[:6]

    assert "fails Are confirmed messages safe? lost in 2 of 3 kills" == " ".join(lines[0].split())
    assert "holds Does it recover and deliver everything? 0 failed in 3 kills (weak)" == " ".join(lines[4].split())
    assert "- Does nothing leave silently?" == " ".join(lines[5].split())


def test_a_normal_run_fits_on_a_screen(catalogue, scenarios):
    lengths = [len(plain(full(catalogue, scenarios, bad=bad), catalogue).splitlines()) for bad in (False, True)]

    assert [True, True] == [lengths[0] <= 46, lengths[1] <= 54]


def test_the_end_says_what_counts(tmp_path):
    """The exit code is that of the violation; an error of the suite beside it is named too."""
    errors = plain(judgement(violated(), row("EMS-STEP-03", verdict=Verdict.HARNESS_ERROR)))
    lines = plain(judgement(violated(anomaly="lost")), written={"html": tmp_path / "report.html"}).splitlines()[-5:]

    assert [
        "Apache Artemis 2.56.0 lost 41 confirmed messages, in 3 of 3 kills.",
        "Not decided: if the disk fails, if the power fails.",
        "1 violated, 0 undecided, 0 claims hold, 0 not tried.",
        "exit 1: at least one claim was violated",
        f"html: {tmp_path / 'report.html'}",
    ] == lines
    assert any("HARNESS_ERROR" in line and "EMS-STEP-03" in line for line in errors.splitlines())
    assert "exit 1: at least one claim was violated; also (3), part of the suite failed" in errors


def test_the_first_violation_has_its_timeline():
    """Message, confirm, kill: enough to believe it."""
    text = plain(judgement(violated(), violated("AMQP-DUR-01")))

    assert 1 == text.count("  publisher-1 sent message p1-000213; the broker confirmed it 2.8 ms later.\n")
    assert 1 == text.count("  The broker was killed 0.5 ms later.\n")
    assert "message p1-000213 in orders, trial t0002:" in text


@pytest.mark.parametrize(
    ("replay", "folder", "line"),
    [
        ("replay . --scenario s", "my runs/one", "again: conformance replay 'my runs/one' --scenario s\n"),
        ("replay . --scenario s", None, "again: conformance replay . --scenario s\n"),
        ("run --adapter artemis", "out", "again: conformance run --adapter artemis\n"),
    ],
)
def test_the_first_violation_can_be_seen_again(replay, folder, line):
    """The line works where the user is: with the folder that they named, quoted; a whole run needs none."""
    written = {"html": Path(folder) / "report.html"} if folder else None

    assert 1 == plain(judgement(violated(replay=f"conformance {replay}")), written=written).count(line)


def test_many_answers_are_cut_with_a_count():
    """A violation is never among the cut."""
    many = [row(f"C-{at:02}") for at in range(25)]
    text = plain(judgement(*many, violated("LAST-01")))

    assert "... and 6 more in the report\n" in text
    assert _lines(text)[0].startswith("LAST-01")


def test_text_in_a_pipe_is_plain(catalogue, scenarios):
    """ASCII but for foreign text, no escape sequence, no trailing blanks; a message id cannot repaint the terminal."""
    text = plain(full(catalogue, scenarios), catalogue)
    ours = plain(judgement(row(), violated(), trials=(trial(void="missed"),)))

    assert (False, []) == ("\x1b" in text, [line for line in text.splitlines() if line != line.rstrip()])
    assert ours.isascii()
    assert "[bold]a\\x1b[2Jb[/bold]" in plain(judgement(violated(reason="[bold]a\x1b[2Jb[/bold]")))


def test_nothing_is_cut_outside_a_terminal():
    """A reason ends with its remedy; on a terminal it is cut to one line."""
    reason = f"the fault was not possible here: {'a long reason, ' * 40}install strace"
    found = judgement(row(), trials=(trial(void=reason),))
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    console.print(summary(found))

    assert (True, False) == (f": {reason}" in plain(found), "…" in plain(found))
    assert "…" in console.file.getvalue()


def test_a_terminal_gets_colours():
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=100)
    console.print(summary(judgement(violated())))

    assert "\x1b[1;31mVIOLATED" in console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_claim_and_verdict_are_whole_at_any_width(width):
    (line,) = _lines(plain(judgement(row("ARTEMIS-SEND-09", Verdict.HARNESS_ERROR)), width=width))

    assert ["ARTEMIS-SEND-09", "HARNESS_ERROR"] == line.split()[:2]


def test_a_run_without_anything():
    text = plain(judgement(finished=False, interrupted=True), written={"json": Path("report.json")})

    assert "Nothing was tried. The run was interrupted." == text.splitlines()[-3]


def test_the_summary_says_what_thorough_would_add():
    run = msgspec.structs.replace(judgement(row()).run, left_to_thorough=("one", "two"), floor_seconds=2.0, seconds=3.0)
    lines = plain(msgspec.structs.replace(judgement(row()), run=run)).splitlines()
    said = "not played, because others try the same: one, two; --thorough plays them too"

    assert said in lines
    assert lines[lines.index(said) + 1].startswith("took 3 s")
    assert said not in plain(judgement(row()))


def test_the_error_says_what_was_expected():
    item = Item(standing=Standing.KNOWN, claim="SOLCD-ACK-01", scenario="s", text="flaky (link; until 2027-01-31)")
    found = Expectations(exit_code=0, means="nothing new", items=(item,) * 25)
    text = plain(judgement(violated()), expected=found)

    assert 20 == text.count("known failures: SOLCD-ACK-01 in s: flaky (link; until 2027-01-31)\n")
    assert ["... and 5 more in the report\n" in text, "exit 0: nothing new\n" in text] == [True, True]


def test_what_was_never_promised_says_so():
    foreign = {"scope": "profile", "required": True}
    judged, observed = violated("EMS-STEP-06", **foreign), row("EMS-STEP-06", Verdict.OBSERVED, scope="profile")

    assert "seen in 3 of 3, judged as" in plain(judgement(judged, judged_as=("ems",)))
    assert "not promised" in plain(judgement(observed))
