"""The two formulas, against figures worked out by hand and by simulation."""

import random

import pytest

from conformance.counting import may_fail, miss_probability, percent, q_words, upper_bound


def test_bounds_of_the_design():
    """n=1: 95 %, 6: 39 %, 10: 26 %, 300: 1 %."""
    assert [95, 39, 26, 1] == [round(100 * upper_bound(n)) for n in (1, 6, 10, 300)]


def test_three_of_three_and_three_clean_trials_are_enough():
    """1/5 * 2/6 * 3/7 = 0.0286, the least that allows HOLDS."""
    assert pytest.approx(1 / 5 * 2 / 6 * 3 / 7) == miss_probability(3, 3, 3)
    assert miss_probability(3, 3, 3) <= 0.05 < miss_probability(2, 3, 3)


def test_a_control_that_never_failed_shows_nothing():
    assert miss_probability(0, 3, 3) > 0.5


def test_q_is_the_mean_over_the_posterior():
    """Drawn from Beta(k+1, m-k+1) and averaged, the chance of n clean trials comes out the same."""
    rng = random.Random(1)
    drawn = sum((1 - rng.betavariate(5, 2)) ** 3 for _ in range(200_000)) / 200_000

    assert pytest.approx(miss_probability(4, 5, 3), abs=0.002) == drawn


@pytest.mark.parametrize("counts", [(4, 3, 1), (-1, 3, 1), (1, 3, -1)])
def test_counts_that_contradict_themselves(counts):
    with pytest.raises(ValueError, match="cannot fail"):
        miss_probability(*counts)


def test_no_fault_bounds_nothing():
    with pytest.raises(ValueError, match="bound nothing"):
        upper_bound(0)


@pytest.mark.parametrize("clean", [10, 30, 300, 3_000])
def test_no_figure_is_printed_as_nothing(clean):
    """Counter-example: `q=0.000` and `<0%` read as certainty. Thousands of clean faults leave a chance open."""
    assert "q < 0.001" == q_words(miss_probability(3, 3, clean) * 1e-3)
    assert percent(upper_bound(clean)) not in ("0 %", "0.0 %")


def test_words_of_a_bound():
    assert "up to 26 % of power losses could still lose a message" == may_fail(
        upper_bound(10), "power losses", "lose a message"
    )
    assert ["10 %", "1 %", "0.3 %", "0.03 %"] == [percent(upper_bound(n)) for n in (30, 300, 1_000, 10_000)]
