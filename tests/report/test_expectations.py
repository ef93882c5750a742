"""Known failures, a baseline, and claims that must be tried: what fails the run, and the lines about it."""

import datetime

import msgspec
import pytest
from verdict_rows import judgement, row

from conformance import claims
from conformance.errors import ExitCode, UsageError
from conformance.frontend.cli import cli
from conformance.report import model
from conformance.report.expectations import Expect, Expected, Known, read_known, read_report

TODAY = datetime.date(2026, 11, 21)
KNOWN = Known(
    claim="AMQP-DUR-01",
    adapter="artemis",
    reason="loses the last one",
    link="https://example.org/1",
    expires=datetime.date(2027, 1, 31),
)
ENTRY = """
[[known]]
claim = "AMQP-DUR-01"
adapter = "artemis"
reason = "loses the last one"
link = "https://example.org/1"
expires = 2027-01-31
"""


def judged(*rows, known=(), then=None, require_tried=(), ours=(), **run):
    baseline = model.report(judgement(*then)) if then is not None else None
    expected = Expected(known=tuple(known), baseline=baseline, require_tried=tuple(require_tried), today=TODAY)
    return expected.of(judgement(*rows, ours=ours, **run))


def standings(found):
    return [str(item.standing) for item in found.expectations.items]


def known(**changes):
    return msgspec.structs.replace(KNOWN, **changes)


def test_without_expectations_nothing_changes():
    found = judged(row(), row("INCONCLUSIVE", "AMQP-ACC-01"))

    assert (ExitCode.VIOLATED, [], "at least one claim was violated") == (
        found.exit_code,
        found.lines,
        found.expectations.means,
    )


def test_a_known_failure_does_not_fail_the_run():
    found = judged(row(), row("HOLDS", "AMQP-ACC-01"), known=[KNOWN])

    assert (ExitCode.CONFORMANT, KNOWN, None) == (
        found.exit_code,
        found.excused(row()),
        found.excused(row("HOLDS", "AMQP-ACC-01")),
    )
    assert [
        "known failures: AMQP-DUR-01 in killed: loses the last one (https://example.org/1; until 2027-01-31)"
    ] == found.lines
    assert "every violation and every undecided claim was expected" == found.expectations.means


@pytest.mark.parametrize("verdict", ["HARNESS_ERROR", "INCONCLUSIVE"])
def test_nothing_but_a_violation_is_excused(verdict):
    plain, entered = judged(row(verdict)), judged(row(verdict), known=[KNOWN])

    assert (plain.exit_code, []) == (entered.exit_code, entered.lines)
    assert entered.excused(row(verdict)) is None


def test_another_violation_still_fails():
    assert ExitCode.VIOLATED == judged(row(), row(claim="AMQP-ACC-01"), known=[KNOWN]).exit_code


def test_an_error_of_the_suite_is_worse_than_a_known_failure():
    """3 stays 3."""
    assert ExitCode.HARNESS == judged(row(), row("HARNESS_ERROR", "AMQP-ACC-01"), known=[KNOWN]).exit_code


@pytest.mark.parametrize(
    "changes",
    [
        {"adapter": "qpid"},
        {"claim": "AMQP-ACC-01"},
        {"versions": ">=2.31,<2.56"},
        {"scenario": "other"},
        {"protocol": "stomp"},
        {"mode": "auto"},
    ],
)
def test_what_an_entry_names_narrows_it(changes):
    found = judged(row(), known=[known(**changes)])

    assert (ExitCode.VIOLATED, ["unmatched"]) == (found.exit_code, standings(found))


@pytest.mark.parametrize(
    "changes", [{"versions": ">=2.31,<2.60"}, {"scenario": "killed"}, {"protocol": "amqp"}, {"mode": "async_ack"}]
)
def test_what_an_entry_names_may_fit(changes):
    assert ExitCode.CONFORMANT == judged(row(), known=[known(**changes)]).exit_code


def test_always_that_holds_fails_the_run():
    found = judged(row("HOLDS"), known=[KNOWN])

    assert (ExitCode.VIOLATED, ["mended"], KNOWN) == (found.exit_code, standings(found), found.mended(row("HOLDS")))
    assert "expected to fail and did not: remove the entry" in found.lines[0]
    assert "remove its entry" in found.expectations.means


def test_sometimes_may_hold():
    entry = known(expect=Expect.SOMETIMES)

    assert (ExitCode.CONFORMANT, []) == (
        judged(row("HOLDS"), known=[entry]).exit_code,
        judged(row("HOLDS"), known=[entry]).lines,
    )
    assert ExitCode.CONFORMANT == judged(row(), known=[entry]).exit_code


@pytest.mark.parametrize(
    ("expires", "code", "standing"),
    [(TODAY, ExitCode.CONFORMANT, "known"), (TODAY - datetime.timedelta(1), ExitCode.VIOLATED, "expired")],
)
def test_an_entry_excuses_through_the_day_it_expires(expires, code, standing):
    found = judged(row(), known=[known(expires=expires)])

    assert (code, [standing]) == (found.exit_code, standings(found))


def test_an_expired_entry_is_named():
    lines = judged(row("HOLDS"), known=[known(expires=datetime.date(2026, 11, 20))]).lines

    assert ["expired entries: AMQP-DUR-01: expired on 2026-11-20: loses the last one (https://example.org/1)"] == lines


def test_a_session_of_ours_is_never_excused():
    """A self-check that fails is an error of the suite, known or in the baseline or not."""
    own = row(subject="session")
    found = judged(row("HOLDS", "AMQP-ACC-01"), ours=[own], known=[KNOWN], then=[own])

    assert (ExitCode.HARNESS, None) == (found.exit_code, found.excused(own))


NOTHING, FAILED, OPEN = ExitCode.CONFORMANT, ExitCode.VIOLATED, ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(
    ("then", "now", "code", "standing"),
    [
        ("HOLDS", "HOLDS", NOTHING, []),
        ("HOLDS", "VIOLATED", FAILED, ["regression"]),
        ("WITNESSED", "VIOLATED", FAILED, ["regression"]),
        ("NOT_TRIED", "VIOLATED", FAILED, ["regression"]),
        (None, "VIOLATED", FAILED, ["regression"]),
        ("VIOLATED", "VIOLATED", NOTHING, ["not-new"]),
        ("VIOLATED", "HOLDS", NOTHING, ["improvement"]),
        ("INCONCLUSIVE", "HOLDS", NOTHING, ["improvement"]),
        ("NOT_APPLICABLE", "HOLDS", NOTHING, []),
        ("HOLDS", "INCONCLUSIVE", OPEN, ["lost-coverage"]),
        ("VIOLATED", "INCONCLUSIVE", OPEN, ["lost-coverage"]),
        ("HOLDS", "NOT_TRIED", OPEN, ["lost-coverage"]),
        ("HOLDS", "NOT_APPLICABLE", OPEN, ["lost-coverage"]),
        ("HOLDS", "HARNESS_ERROR", ExitCode.HARNESS, ["lost-coverage"]),
        ("HARNESS_ERROR", "HARNESS_ERROR", ExitCode.HARNESS, []),
        ("INCONCLUSIVE", "INCONCLUSIVE", NOTHING, ["still-undecided"]),
        (None, "INCONCLUSIVE", NOTHING, ["still-undecided"]),
    ],
)
def test_beside_a_baseline(then, now, code, standing):
    rest = row("HOLDS", "AMQP-ACC-01")
    found = judged(row(now), rest, then=[*([row(then)] if then else []), rest])

    assert (code, standing) == (found.exit_code, standings(found))


def test_nothing_decided_is_no_success():
    """Also where the baseline has decided nothing: with --trials 1 an upgrade left all claims undecided, and exited with 0."""
    found = judged(row("INCONCLUSIVE"), then=[row("INCONCLUSIVE")])

    assert (ExitCode.NOTHING_RAN, ["still-undecided"]) == (found.exit_code, standings(found))
    assert "none was decided" in found.expectations.means


def test_a_row_that_is_gone_is_lost():
    found = judged(row("HOLDS"), then=[row("HOLDS"), row("HOLDS", scenario="gone")])

    assert (OPEN, "lost coverage: AMQP-DUR-01 in gone: HOLDS in the baseline, no row now") == (
        found.exit_code,
        found.lines[0],
    )


def test_rows_are_compared_by_claim_scenario_and_mode():
    found = judged(row(mode="auto"), then=[row(), row("HOLDS", mode="auto")])

    assert ["regression", "lost-coverage"] == standings(found)


def test_a_known_failure_is_no_regression():
    found = judged(row(), known=[KNOWN], then=[row("HOLDS")])

    assert (NOTHING, ["known"]) == (found.exit_code, standings(found))


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ({"adapter": "qpid"}, "the baseline is about artemis over amqp, this run about qpid over amqp"),
        ({"protocol": "stomp"}, "the baseline is about artemis over amqp, this run about artemis over stomp"),
    ],
)
def test_a_baseline_of_another_broker_is_refused(run, line):
    """It says nothing about this one; another version is what a baseline is for."""
    with pytest.raises(UsageError) as raised:
        judged(row(), then=[row()], **run)

    assert line == str(raised.value)
    assert NOTHING == judged(row(version="2.57.0"), then=[row()], version="2.57.0").exit_code


def test_what_must_be_tried_and_was_not():
    rows = row("HOLDS", "AMQP-ACC-01"), row("NOT_TRIED", scenario="", reason="Needs STOMP.")
    found = judged(*rows, require_tried=["AMQP-DUR-01", "AMQP-ACC-01"])

    assert (OPEN, ["required to be tried: AMQP-DUR-01: Needs STOMP."]) == (found.exit_code, found.lines)
    assert "a claim that had to be tried or decided was not" in found.expectations.means


def test_what_was_left_out_says_how_to_select_it():
    rows = row("HOLDS", "AMQP-ACC-01"), row("NOT_TRIED", scenario="", reason="Left out by the selection.")
    found = judged(*rows, require_tried=["AMQP-DUR-01"], selected=("AMQP-ACC-01",))

    assert "Left out by the selection. --claims AMQP-DUR-01 selects it." in found.lines[0]


@pytest.mark.parametrize("verdict", ["HOLDS", "INCONCLUSIVE", "NOT_APPLICABLE"])
def test_what_was_tried_or_does_not_apply_is_enough(verdict):
    """One scenario of a claim is enough, and a feature that the product lacks cannot be tried."""
    rows = row(verdict), row("NOT_TRIED", scenario="another")

    assert [] == judged(*rows, require_tried=["AMQP-DUR-01"]).lines


def test_a_worse_code_wins():
    assert FAILED == judged(row(), require_tried=["AMQP-ACC-01"]).exit_code
    assert ExitCode.HARNESS == judged(row("HOLDS"), require_tried=["AMQP-ACC-01"], finished=False).exit_code


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "known.toml"
        path.write_text(text)
        return path

    return write


def test_a_file_is_read(file):
    """Dates are dates of TOML; `always` is what an entry says that says nothing."""
    text = ENTRY + 'versions = ">=2.31,<2.60"\nexpect = "sometimes"\n' + ENTRY

    assert (known(versions=">=2.31,<2.60", expect=Expect.SOMETIMES), KNOWN) == read_known(file(text), claims.load())


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        ("reason", "raeson", "unknown-key", "known.toml: entry 1: unknown key 'raeson': did you mean 'reason'?"),
        ("[[known]]", "[[knwon]]", "unknown-table", "'knwon': did you mean 'known'?"),
        ("[[known]]", "[known]", "bad-known-failures", "every entry begins with a line [[known]]"),
        ("AMQP-DUR-01", "AMQP-DRU-01", "unknown-claim", "entry 1: unknown claim 'AMQP-DRU-01': did you mean 'AMQP-"),
        ("2027-01-31", '"soon"', "bad-known-failures", "expires"),
        ("2027-01-31", '2027-01-31\nexpect = "never"', "bad-known-failures", "expect"),
        ("2027-01-31", '2027-01-31\nversions = "2.31 or so"', "bad-bound", "versions '2.31 or so' is not a bound"),
        ('link = "https://example.org/1"', "", "bad-known-failures", "link"),
        ("= 2027", "2027", "not-read", "line 7"),
    ],
)
def test_a_file_with_a_wrong_word(file, before, after, code, words):
    with pytest.raises(UsageError) as raised:
        read_known(file(ENTRY.replace(before, after)), claims.load())

    assert (code, True, 0) == (raised.value.code, words in str(raised.value), str(raised.value).count("\n"))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"--known-failures .*: No such file"):
        read_known(tmp_path / "known.toml", claims.load())
    with pytest.raises(UsageError, match=r"--baseline .*: No such file"):
        read_report(tmp_path / "report.json", option="--baseline")


def test_two_runs_are_compared(tmp_path, capsys):
    """The later one against the earlier one; nothing is said of what has the same answer in both."""
    for name, found in (("a", row("HOLDS", "SOLCD-ACK-01")), ("b", row("VIOLATED", "SOLCD-ACK-01"))):
        (tmp_path / name).mkdir()
        model.write_json(judgement(found, row("HOLDS")), tmp_path / name / "report.json")

    def diff(*names):
        code = cli.main(["diff", *(str(tmp_path / name) for name in names)], standalone_mode=False)
        before, after, *lines, means = capsys.readouterr().out.splitlines()
        assert (True, True) == (before.startswith("before: Apache Artemis"), after.startswith("after: Apache Artemis"))
        assert means.startswith(f"exit code {code}: ")
        return code, lines

    changed = "SOLCD-ACK-01 in killed:"
    assert (1, [f"new violations: {changed} HOLDS in the baseline, VIOLATED now"]) == diff("a", "b")
    assert (0, [f"improvements: {changed} VIOLATED in the baseline, HOLDS now"]) == diff("b", "a")
    assert (0, [f"not new: {changed} VIOLATED in the baseline, VIOLATED now"]) == diff("b", "b/report.json")
    assert (0, ["no claim has another answer"]) == diff("a", "a")
    with pytest.raises(UsageError, match="c: No such file"):
        diff("a", "c")


def test_a_baseline_is_a_report_or_its_folder(tmp_path):
    """What `conformance run --out` wrote can be named as it is; anything else is refused."""
    model.write_json(judgement(row()), tmp_path / "report.json")
    (tmp_path / "odd.json").write_text("{}")

    assert read_report(tmp_path) == read_report(tmp_path / "report.json")
    with pytest.raises(UsageError, match=r"odd\.json"):
        read_report(tmp_path / "odd.json")
