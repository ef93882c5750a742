"""How often two runs saw a claim violated: the statistics against published figures, and what is said of them."""

import pytest
from report_rows import judgement, row

from conformance.judge.rows import Verdict
from conformance.report import model, rates
from conformance.report.rates import Share


@pytest.mark.parametrize(
    ("before", "after", "p"),
    [
        ((8, 10), (1, 6), 0.0350),  # the example in the manual of scipy.stats.fisher_exact
        ((3, 4), (1, 4), 0.4857),  # Fisher's lady who tastes tea
        ((0, 30), (6, 30), 0.0237),
        ((0, 30), (5, 30), 0.0522),
        ((3, 3), (3, 3), 1.0),
    ],
)
def test_fishers_exact_test(before, after, p):
    assert p == round(rates.fisher([(Share(*before), Share(*after))]), 4)


def test_strata_are_not_pooled():
    """Simpson's counter-example: in each scenario the rate is equal, and pooled it is 19 of 110 before, 91 of 110 after."""
    rare, often = (Share(10, 100), Share(1, 10)), (Share(9, 10), Share(90, 100))

    assert pytest.approx(1.0) == rates.fisher([rare, often])
    assert rates.fisher([(Share(19, 110), Share(91, 110))]) < 1e-6


def compared(before, after, **about):
    """The lines about one claim with these counts of offended kills; `about` is what differs in the second run."""
    reports = [
        model.report(judgement(row(verdict=verdict, fault="kill", faults=faults, offended_faults=offended, **words)))
        for (offended, faults), words in ((before, {}), (after, about))
        for verdict in [Verdict.VIOLATED if offended else Verdict.HOLDS]
    ]
    return [line for _, line in rates.lines(reports[:1], reports[1])]


def test_what_is_said():
    (more,) = compared((0, 30), (6, 30))
    (none,) = compared((0, 30), (1, 30))
    (few,) = compared((1, 3), (3, 3))

    assert more.endswith("0 of 30 kills, now 6 of 30: more often (p = 0.024, 95 %: +5% to +37%)")
    assert none.endswith(
        "now 1 of 30: the rate may be the same, a change of 20% could have shown (p = 1, 95 %: -8% to +17%)"
    )
    assert "1 of 3 kills, now 3 of 3: the rate may be the same, so few show no change of the rate" in few
    assert ["checks of equal settings with no counterexample in either run: 1"] == compared((0, 3), (0, 3))


def test_only_equal_settings_are_compared():
    assert [] == compared((0, 30), (6, 30), settings={"persistence": False})
    assert [] == compared((0, 30), (6, 30), client="Qpid JMS")
