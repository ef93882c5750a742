"""What a test does with its row, beside what the user expected of it."""

import datetime

import msgspec
import pytest
import verdict_rows

from conformance.frontend.plugin import claim_tests
from conformance.frontend.plugin.claim_tests import ClaimAnswer
from conformance.report import model
from conformance.report.expectations import Expect, Expected, Known

TODAY = datetime.date(2026, 11, 21)
KNOWN = Known(
    claim="AMQP-DUR-01", adapter="artemis", reason="a \x1b[31mtorn tail", link="https://example.org/1",
    expires=datetime.date(2027, 1, 31),
)  # fmt: skip


def row(verdict):
    return verdict_rows.row(verdict, reason="Why.")


def judgement(verdict):
    return verdict_rows.judgement(row(verdict))


def answer(now, then=None, *known, untried=False):
    baseline = model.report(judgement(then)) if then else None
    found = Expected(known=known, baseline=baseline, today=TODAY).of(judgement(now))
    return ClaimAnswer(row(now), found, untried=untried)


def outcome_of(answer, strict=False):
    """What pytest makes of it, and the text."""
    try:
        claim_tests.raise_for(answer, strict=strict)
    except pytest.skip.Exception as skipped:
        return "skipped", str(skipped)
    except pytest.xfail.Exception as expected:
        return "xfailed", str(expected)
    except pytest.fail.Exception as failed:
        return "failed", str(failed)
    return "passed", ""


@pytest.mark.parametrize(
    ("now", "plain", "strict"),
    [
        ("HOLDS", "passed", "passed"),
        ("WITNESSED", "passed", "passed"),
        ("NOT_WITNESSED", "passed", "passed"),
        ("OBSERVED", "passed", "passed"),
        ("VIOLATED", "failed", "failed"),
        ("INCONCLUSIVE", "skipped", "failed"),
        ("NOT_TRIED", "skipped", "skipped"),
        ("NOT_APPLICABLE", "skipped", "skipped"),
    ],
)
def test_nothing_expected(now, plain, strict):
    """The verdict alone decides."""
    assert (plain, strict) == (outcome_of(answer(now))[0], outcome_of(answer(now), strict=True)[0])


@pytest.mark.parametrize(
    ("now", "then", "outcome", "said"),
    [
        (
            "VIOLATED",
            "VIOLATED",
            "xfailed",
            "violation known from the baseline: VIOLATED in the baseline, VIOLATED now",
        ),
        ("VIOLATED", "HOLDS", "failed", "new violation: HOLDS in the baseline, VIOLATED now"),
        ("INCONCLUSIVE", "INCONCLUSIVE", "skipped", "answer undecided as before: INCONCLUSIVE in the baseline"),
        ("INCONCLUSIVE", "HOLDS", "failed", "answer lost since the baseline: HOLDS in the baseline, INCONCLUSIVE now"),
        ("NOT_TRIED", "HOLDS", "skipped", "answer lost since the baseline: HOLDS in the baseline, NOT_TRIED now"),
        ("HOLDS", "VIOLATED", "passed", ""),
    ],
)
def test_baseline(now, then, outcome, said):
    """Under `--strict-verdicts` too, only what is worse than before fails."""
    found, text = outcome_of(answer(now, then), strict=True)

    assert (outcome, True) == (found, said in text)


def test_a_known_failure_fails_as_expected():
    """Its reason is one line without control characters; the failure that it excuses is kept for `--runxfail`."""
    with pytest.raises(pytest.xfail.Exception) as caught:
        claim_tests.raise_for(answer("VIOLATED", None, KNOWN), strict=False)

    assert r"known failure: a \x1b[31mtorn tail (https://example.org/1; until 2027-01-31)" == str(caught.value)
    assert "VIOLATED AMQP-DUR-01: It is kept." in claim_tests.without_traceback(caught.value).reprcrash.message


@pytest.mark.parametrize(("expect", "outcome"), [(Expect.ALWAYS, "failed"), (Expect.SOMETIMES, "passed")])
def test_a_known_failure_that_holds(expect, outcome):
    """One that should fail always must go, and the test says so first."""
    found, text = outcome_of(answer("HOLDS", None, msgspec.structs.replace(KNOWN, expect=expect)))

    assert (outcome, outcome == "failed") == (found, text.startswith("known failure that holds: expected to fail"))


@pytest.mark.parametrize(
    ("now", "outcome"), [("NOT_TRIED", "failed"), ("NOT_APPLICABLE", "skipped"), ("HOLDS", "passed")]
)
def test_what_had_to_be_tried(now, outcome):
    """The test of a claim that nothing tries fails, with the reason."""
    found, text = outcome_of(answer(now, untried=True))

    assert outcome == found
    assert outcome != "failed" or "required claim that was not tried\nNOT_TRIED AMQP-DUR-01: Why." in text


def test_properties():
    """What was expected stands in junit.xml, where anything was."""
    plain, known = (
        dict(claim_tests.properties(answer("VIOLATED", None, *of), verdict_rows.RUN)) for of in ([], [KNOWN])
    )

    assert (False, True) == ("expected" in plain, known["expected"].startswith("known failure: a"))


def test_in_the_report():
    """Without expectations the report has no part about them."""
    nothing, something = Expected(), Expected(require_tried=("AMQP-DUR-01",))

    assert nothing.in_report(nothing.of(judgement("HOLDS"))) is None
    assert 0 == something.in_report(something.of(judgement("HOLDS"))).exit_code
