"""Counts: the words for them in texts for people, and what a count of trials lets one conclude.

A bound holds for the chance of an offence after zero counterexamples. The independent unit is the effective fault,
never the message: messages that one kill loses share their cause.
"""

from __future__ import annotations

import math

LEVEL = 0.95
"""The confidence of every bound that a report prints."""

ENOUGH = 0.05
"""The highest miss probability of a strong control that allows HOLDS."""


def plural(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun; `several` is the plural of one that is not the noun with an s.

    >>> plural(1, "claim"), plural(1240, "message"), plural(2, "power loss", "power losses")
    ('1 claim', '1,240 messages', '2 power losses')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> ordinal(1), ordinal(12), ordinal(1003)
    ('1st', '12th', '1,003rd')
    """
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


def upper_bound(faults: int) -> float:
    """Return the upper bound (95 %) of the chance that one fault offends, after `faults` effective ones without one.

    If faults are independent and each offends with chance p, none of n does with chance (1-p)^n; the bound is the p at
    which that is 5 %. Source: design, "Verdicts" 5. Raises `ValueError` for less than one fault.

    >>> [round(upper_bound(n), 2) for n in (1, 3, 6, 10, 300)]
    [0.95, 0.63, 0.39, 0.26, 0.01]
    """
    if faults < 1:
        raise ValueError(f"{faults} faults bound nothing")
    return float(1 - (1 - LEVEL) ** (1 / faults))


def miss_probability(failed: int, trials: int, clean: int) -> float:
    """Return the chance q that a subject as bad as the control shows `clean` clean trials in a row.

    The control failed `failed` of `trials` times; with a uniform prior its failure rate is Beta(k+1, m-k+1), and the
    expectation of (1-p)^n over that is prod_{j=0}^{n-1} (m-k+1+j)/(m+2+j). Source: design, "Verdicts" 5. Raises
    `ValueError` if the counts contradict each other.

    A control that failed 3 of 3 times allows HOLDS after 3 clean trials, not after 2:

    >>> [round(miss_probability(3, 3, n), 4) for n in (1, 2, 3)]
    [0.2, 0.0667, 0.0286]
    >>> miss_probability(0, 0, 0)
    1
    """
    if not 0 <= failed <= trials or clean < 0:
        raise ValueError(f"a control cannot fail {failed} of {trials} times beside {clean} clean trials")
    return math.prod((trials - failed + 1 + j) / (trials + 2 + j) for j in range(clean))


def percent(share: float) -> str:
    """Return a share in percent, rounded, but never to 0.

    >>> percent(upper_bound(3)), percent(upper_bound(1_000)), percent(0.0)
    ('63 %', '0.3 %', '0 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def may_fail(share: float, faults: str, how: str) -> str:
    """Say what `upper_bound` leaves open; `faults` is the plural of the fault, and `how` what one could still do.

    >>> may_fail(upper_bound(3), "kills", "lose a message")
    'up to 63 % of kills could still lose a message'
    """
    return f"up to {percent(share)} of {faults} could still {how}"


def chance_of_control(q: float) -> str:
    """Say what a miss probability is.

    >>> chance_of_control(miss_probability(3, 3, 3))
    'a broker as weak as the control would pass with the chance q = 0.029'
    """
    return f"a broker as weak as the control would pass with the chance {q_words(q)}"


def q_words(q: float) -> str:
    """Return a miss probability with three decimals, but never as 0.

    >>> q_words(miss_probability(3, 3, 3)), q_words(miss_probability(3, 3, 30))
    ('q = 0.029', 'q < 0.001')
    """
    return f"q = {q:.3f}" if q >= 0.001 else "q < 0.001"
