"""The report as data: its headline, its doubts, and `report.json`."""

from __future__ import annotations

import json

import msgspec
import pytest

from conformance import paths
from conformance.errors import ExitCode
from conformance.judge.rows import ControlResult, Exposure, Verdict
from conformance.report import model, phrases
from conformance.report.model import WORDS, Expectations, Item, Standing


def test_a_run_with_known_failures_only_begins_with_them(make):
    """It began with "1 claim was violated", although nothing in it is new."""
    known = Item(standing=Standing.KNOWN, claim="SOLCD-ACK-01", text="a bug", **ABOUT)
    expected = Expectations(exit_code=0, means="nothing new", items=(known,))
    old, new = make.violated(**ABOUT), make.violated("AMQP-DUR-01", **ABOUT)

    assert "Nothing new was violated. 1 known failure: SOLCD-ACK-01." == model.headline(
        make.judgement(old), expected=expected
    )
    assert "1 claim was violated: AMQP-DUR-01. 1 known failure: SOLCD-ACK-01." == model.headline(
        make.judgement(old, new), expected=expected
    )


ABOUT = {"scenario": "broker-killed-while-publishing", "mode": "async_ack"}


def test_what_failed_without_a_promise_is_in_the_headline(make):
    """It changes no exit code, so a reader must see it first; of several rows of a claim the worst is named."""
    few = {"verdict": Verdict.NOT_APPLICABLE, "offences": 3, "failed_unpromised": "3 of 90 confirmed messages lost"}
    all_ = {**few, "offences": 90, "failed_unpromised": "90 of 90 confirmed messages lost", "scenario": "other"}
    found = make.judgement(make.row("AMQP-DUR-01"), make.row(**few), make.row(**all_))

    assert (
        "Nothing was violated in what was tried. Not promised by this configuration, and seen to fail: 90 of 90 "
        "confirmed messages lost (SOLCD-ACK-01)."
    ) == model.headline(found)
    assert ["unpromised"] == [doubt.key for doubt in model.doubts(found) if "seen to fail" in doubt.title]


def headline(make, *rows, **changes):
    return model.headline(make.judgement(*rows, **changes))


def test_a_whole_run_without_violation(make):
    assert "Nothing was violated in what was tried." == headline(make, make.row())


def test_a_partial_run(make):
    rows = make.row(), make.unanswered("STOMP-ACK-01", Verdict.NOT_TRIED, "needs STOMP")

    assert "Nothing was violated in what was tried. Partial: 1 claim was not tried." == headline(make, *rows)


def test_a_claim_tried_in_one_scenario_only(make):
    """A claim that was left out of one scenario has an answer, and the report is partial all the same."""
    rows = make.row(), make.unanswered("SOLCD-ACK-01", Verdict.NOT_TRIED, "left out", scenario="another")

    expected = "Nothing was violated in what was tried. Partial: some claims were not tried in every scenario."
    assert expected == headline(make, *rows)


def test_a_claim_of_the_catalogue_without_row_is_not_tried(make, catalogue):
    others = len(catalogue.claims) - 1

    assert f"Partial: {others} claims were not tried." in model.headline(make.judgement(make.row()), catalogue)


def test_what_does_not_apply_makes_nothing_partial(make):
    rows = make.row(), make.unanswered("EMS-STEP-06", Verdict.NOT_APPLICABLE, "binds ems")

    assert "Nothing was violated in what was tried." == headline(make, *rows)


def test_a_violation_is_named(make):
    rows = make.violated(), make.violated(scenario="another")

    assert "1 claim was violated: SOLCD-ACK-01." == headline(make, *rows)


def test_a_requirement_of_the_user_is_not_the_vendors(make):
    expected = (
        "Nothing that the product promises was violated in what was tried. "
        "1 requirement of yours, not promised by this configuration, violated: SOLCD-ACK-01."
    )

    assert expected == headline(make, make.violated(required=True))


FOREIGN = {"scope": "profile", "required": True}


def test_a_sentence_of_another_vendor_is_not_counted_against_this_one(make, catalogue):
    """The user asked for it, and the headline says so."""
    run = make.judgement(make.violated("EMS-STEP-06", **FOREIGN), judged_as=("ems",))
    expected = (
        "Nothing that the product promises was violated in what was tried. "
        "1 sentence of another vendor, judged at your request, violated: EMS-STEP-06."
    )

    assert [expected] * 2 == [model.headline(run), model.headline(run, catalogue).partition(" Partial")[0]]
    assert ["judged-as"] == [doubt.key for doubt in model.doubts(run)]


def expected(*standings, code=0):
    items = (Item(standing=s, claim="SOLCD-ACK-01", scenario="s", mode="auto", text="why") for s in standings)
    return Expectations(exit_code=code, means="as expected", items=tuple(items))


def test_the_headline_counts_what_was_expected(make):
    text = model.headline(make.judgement(make.violated()), None, expected(Standing.KNOWN, Standing.IMPROVEMENT))

    assert "1 claim was violated: SOLCD-ACK-01. 1 known failure: SOLCD-ACK-01." == text


def test_what_was_expected_is_among_the_doubts(make):
    run = make.judgement(make.violated(), make.row("AMQP-HDR-02", Verdict.HARNESS_ERROR))
    found = model.doubts(run, None, expected(Standing.REGRESSION, Standing.UNMATCHED))

    assert ["violated", "error", "regression", "unmatched"] == [doubt.key for doubt in found]


def test_json_has_what_was_expected(make, tmp_path):
    asked = expected(Standing.KNOWN)
    model.write_json(make.judgement(make.violated()), tmp_path / "report.json", None, asked)
    read = model.read_json(tmp_path / "report.json")

    assert (asked, 0) == (read.expectations, read.summary.exit_code)


def test_every_standing_has_words():
    assert (set(Standing), len(Standing)) == (set(WORDS), len({entry.noun for entry in WORDS.values()}))


def test_nothing_ran(make):
    assert "Nothing was tried. The run was interrupted." == headline(make, finished=False, interrupted=True)


def test_doubts_come_in_the_order_of_gravity(make):
    low = Exposure(name="confirmed", total=12, minimum=4, median=6.0, trials=2)
    passing = ControlResult(label="sync=false", strong=True, failed=1, trials=3)
    run = make.judgement(
        make.row(exposure=low),
        make.row("AMQP-ACC-01", control=passing),
        make.row("AMQP-HDR-01", Verdict.INCONCLUSIVE),
        make.row("AMQP-HDR-02", Verdict.HARNESS_ERROR),
        make.violated("AMQP-DUR-01"),
        make.violated("EMS-STEP-02", required=True),
        make.unanswered("STOMP-ACK-01", Verdict.NOT_TRIED, "needs STOMP"),
        self_checks=(make.violated("EMS-AUTO-03"),),
        trials=(make.trial(void="the kill missed"),),
        finished=False,
    )

    expected = [
        "violated",
        "required",
        "error",
        "undecided",
        "self",
        "void",
        "control",
        "not-tried",
        "course",
        "exposure",
    ]
    assert expected == [doubt.key for doubt in model.doubts(run)]


def test_a_clean_whole_run_has_no_doubts(make):
    """Nothing is made up where nothing is wrong; a permission of our sessions that was seen is no failure."""
    own = make.row("QPID-PRE-07", Verdict.WITNESSED)

    assert [] == model.doubts(make.judgement(make.row(), trials=(make.trial(),), self_checks=(own,)))


def test_json_round_trip(make, catalogue, scenarios, tmp_path):
    run = make.full(catalogue, scenarios)
    model.write_json(run, tmp_path / "report.json", catalogue)

    assert model.report(run, catalogue) == model.read_json(tmp_path / "report.json")


def test_json_summary_counts_rows_by_word(make, tmp_path):
    run = make.judgement(make.row(), make.row("AMQP-DUR-01"), make.violated(), self_checks=(make.row(),))
    model.write_json(run, tmp_path / "report.json")
    summary = json.loads((tmp_path / "report.json").read_text())["summary"]

    assert {word.value for word in Verdict} | {"no_row", "exit_code", "headline"} == summary.keys()
    assert (2, 1, 0, 1) == (summary["HOLDS"], summary["VIOLATED"], summary["NOT_TRIED"], summary["exit_code"])


def test_json_survives_bytes_that_are_no_text(make, tmp_path):
    model.write_json(make.judgement(make.row(reason="a\udc80b")), tmp_path / "report.json")

    assert "a?b" == model.read_json(tmp_path / "report.json").verdicts[0].reason


def test_json_that_breaks_the_schema_is_refused(make, tmp_path):
    model.write_json(make.judgement(make.row()), tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps({**data, "schema": 2}))

    with pytest.raises(msgspec.ValidationError, match="schema"):
        model.read_json(tmp_path / "report.json")


def test_the_published_schema_is_current():
    """Write it anew: python -c "from conformance.report import model; print(model.schema_text(), end='')"."""

    assert model.schema_text() == (paths.reports() / "report.schema.json").read_text("utf-8")


def test_every_word_and_exit_code_has_its_own_meaning():
    assert set(Verdict) == set(phrases.MEANINGS)
    assert len(Verdict) == len({meaning.sign for meaning in phrases.MEANINGS.values()})
    assert set(ExitCode) == set(phrases.EXIT_MEANS)
