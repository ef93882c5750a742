"""Compare how often runs of one broker saw a claim violated, and say what could have been seen.

The unit is the effective fault, as in every verdict. Faults are compared only of one claim in one scenario, over the
same protocol and client, with equal settings and acknowledgement mode. No exit code comes from here: a counterexample
needs no test.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from conformance.judge.reasons import count_faults
from conformance.judge.rows import Verdict, VerdictRow
from conformance.report.model import Report

LEVEL = 0.05
"""A difference counts if chance alone shows such a one, or a rarer one, at most so often."""

_Z = 1.959964
"""The normal quantile of a two-sided interval of 95 %."""


@dataclasses.dataclass(frozen=True)
class Share:
    """How many of a number of faults offended."""

    offended: int
    faults: int

    @property
    def rate(self) -> float:
        return self.offended / self.faults


Pair = tuple[Share, Share]
"""Before and after."""


def fisher(strata: Sequence[Pair]) -> float:
    """Return the two-sided p of Fisher's exact test, of all strata together.

    Given the offences of each stratum in all, how they fall before and after is hypergeometric; the sum over strata has
    the convolution of these. Source: Fisher 1935; of strata, Zelen 1971.

    >>> round(fisher([(Share(8, 10), Share(1, 6))]), 4)
    0.035
    >>> fisher([(Share(0, 3), Share(0, 3))])
    1.0
    """
    chances = {0: 1.0}
    for before, after in strata:
        one = _hypergeometric(before.faults, after.faults, before.offended + after.offended)
        summed: dict[int, float] = {}
        for total, chance in chances.items():
            for offended, more in one.items():
                summed[total + offended] = summed.get(total + offended, 0.0) + chance * more
        chances = summed
    seen = chances[sum(after.offended for _, after in strata)]
    return min(1.0, sum(chance for chance in chances.values() if chance <= seen * (1 + 1e-9)))


def _hypergeometric(before: int, after: int, offended: int) -> dict[int, float]:
    """Return the chance of each number of offences after."""
    ways = math.comb(before + after, offended)
    least, most = max(0, offended - before), min(after, offended)
    return {n: math.comb(after, n) * math.comb(before, offended - n) / ways for n in range(least, most + 1)}


def holm(ps: Sequence[float]) -> list[float]:
    """Return the adjusted p of each test: of m tests the smallest p counts m times, the next m - 1 times, and so on.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, least = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = least
    return adjusted


def newcombe(before: Share, after: Share) -> tuple[float, float]:
    """Return the interval (95 %) of the difference of two rates, from their Wilson intervals.

    Source: Newcombe 1998, method 10.

    >>> [round(end, 4) for end in newcombe(Share(48, 80), Share(56, 70))]
    [0.0524, 0.3339]
    """
    (low_before, high_before), (low_after, high_after) = _wilson(before), _wilson(after)
    difference = after.rate - before.rate
    return (
        difference - math.hypot(after.rate - low_after, high_before - before.rate),
        difference + math.hypot(high_after - after.rate, before.rate - low_before),
    )


def _wilson(one: Share) -> tuple[float, float]:
    n, rate = one.faults, one.rate
    middle, half = rate + _Z**2 / (2 * n), _Z * math.sqrt(rate * (1 - rate) / n + _Z**2 / (4 * n**2))
    return max(0.0, (middle - half) / (1 + _Z**2 / n)), min(1.0, (middle + half) / (1 + _Z**2 / n))


def least_difference(before: Share, faults: int, level: float) -> float | None:
    """Return the smallest rise or fall of the rate that so many faults after could have told; None if none could.

    >>> least_difference(Share(0, 3), 3, LEVEL), least_difference(Share(0, 30), 30, LEVEL)
    (None, 0.2)
    """
    told = (Share(offended, faults) for offended in range(faults + 1))
    found = [abs(after.rate - before.rate) for after in told if fisher([(before, after)]) <= level]
    return min(found, default=None)


def lines(
    before: Sequence[Report], after: Report, *, one_version: bool = False
) -> Iterator[tuple[VerdictRow | None, str]]:
    """Yield each row after with its counts if a run saw an offence, and with None what the others say together.

    Faults of several runs before are added. With `one_version` only those of the version of the run after count.
    """
    pairs = _pairs(before, after, one_version=one_version)
    claims = list(dict.fromkeys(row.claim for row, pair in pairs if any(each.offended for each in pair)))
    tested = [fisher([pair for row, pair in pairs if row.claim == claim]) for claim in claims]
    adjusted = dict(zip(claims, holm(tested), strict=True))
    for row, pair in pairs:
        if any(each.offended for each in pair):
            yield row, _words(row, pair, adjusted[row.claim], LEVEL / len(claims))
    if clean := sum(not any(each.offended for each in pair) for _, pair in pairs):
        runs = "either run" if len(before) == 1 else "any run"
        yield None, f"checks of equal settings with no counterexample in {runs}: {clean}"


def _words(row: VerdictRow, pair: Pair, p: float, level: float) -> str:
    before, after = pair
    low, high = newcombe(before, after)
    counts = f"{before.offended} of {count_faults(row.fault, before.faults)}, now {after.offended} of {after.faults}"
    found = f"p = {p:.2g}, 95 %: {low:+.0%} to {high:+.0%}"
    if p <= LEVEL:
        return f"{counts}: {'more' if after.rate > before.rate else 'less'} often ({found})"
    least = least_difference(before, after.faults, level)
    shows = "so few show no change of the rate" if least is None else f"a change of {least:.0%} could have shown"
    return f"{counts}: the rate may be the same, {shows} ({found})"


def _pairs(before: Sequence[Report], after: Report, *, one_version: bool) -> list[tuple[VerdictRow, Pair]]:
    """Return the rows that may be compared: the row after, and the counts of all before and its own."""
    known: dict[tuple[object, ...], Share] = {}
    for row in (row for report in before for row in report.verdicts if _counts(row)):
        if not one_version or row.version == after.run.version:
            sofar = known.get(_key(row), Share(0, 0))
            known[_key(row)] = Share(sofar.offended + row.offended_faults, sofar.faults + row.faults)
    return [
        (row, (then, Share(row.offended_faults, row.faults)))
        for row in after.verdicts
        if _counts(row) and (then := known.get(_key(row))) is not None
    ]


def _counts(row: VerdictRow) -> bool:
    """Whether an offence counts against the broker there; a permission or an observation has no better rate."""
    return row.faults > 0 and row.verdict in (Verdict.HOLDS, Verdict.VIOLATED, Verdict.INCONCLUSIVE)


def _key(row: VerdictRow) -> tuple[object, ...]:
    settings = tuple(sorted(row.settings.items()))
    return row.claim, row.scenario, row.fault, row.protocol, row.client, row.mode, settings
