"""The table of selectors, and the consumers that share a queue by them."""

import pytest

from conformance.scenario.selectors import NUMBERS, SELECTORS, TEXTS, takers


def test_the_table_has_thirty_selectors_and_two_by_parity():
    assert len({each.text for each in SELECTORS.values()}) == len(SELECTORS) >= 32


@pytest.mark.parametrize(("names", "count", "left"), [(TEXTS, 70, 0), (NUMBERS, 40, 15)])
def test_each_consumer_takes_what_those_before_it_leave(names, count, left):
    found = takers(names, count)

    assert [taker.selects for taker in found] == list(names)
    assert count - sum(taker.stop for taker in found) == left


def test_a_consumer_that_would_get_nothing_is_refused():
    with pytest.raises(ValueError, match="'odd' matches nothing that is left of 9"):
        takers(("odd", "even", "odd"), 9)
