"""Group scenarios whose checks need the same columns: each group is judged by a plan of its own.

One plan for a whole run carries every column through every sort and window, although most scenarios need a quarter of
them. One plan a scenario pays for planning and compiling each time.

Every trial of a plan is checked for the same. So scenarios that look for more than the table of fates are in no plan
with others: what a trial shows must not depend on the scenarios that were recorded beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from conformance.judge.plan.relations import Check, columns_of, wider_than_table

PLAN_COST = 20_000_000
"""Events times columns that cost as much as one more plan: 6 s, at 0.3 us for each. A run of 1.6 million events takes
106 s in two plans, 134 s in one, and 165 s in nine (two cores)."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Scenarios of one plan, the columns that their checks need, and the events of their trials.

    `wider` are the anomalies for which its plan looks further than the table of fates.
    """

    scenarios: tuple[str, ...]
    needed: frozenset[str]
    events: int
    wider: frozenset[str]

    @property
    def cost(self) -> int:
        return self.events * len(self.needed)

    def joined(self, other: Group) -> Group:
        needed, events = self.needed | other.needed, self.events + other.events
        return Group(self.scenarios + other.scenarios, needed, events, self.wider)


def group(checks: Mapping[str, Iterable[Check]], events: Mapping[str, int]) -> list[Group]:
    """Return the scenarios in groups, the one with the most events first.

    Each scenario joins the group to which it adds the least, unless a plan of its own costs less.

    Args:
        checks: The checks of each scenario, those of every trial included.
        events: The number of recorded events of each scenario.
    """
    found: list[Group] = []
    for name in sorted(checks, key=lambda name: (-events[name], name)):
        alone = Group((name,), columns_of(checks[name]), events[name], wider_than_table(checks[name]))
        added = [
            (each.joined(alone).cost - each.cost, place)
            for place, each in enumerate(found)
            if each.wider == alone.wider
        ]
        least, place = min(added, default=(0, -1))
        if place < 0 or least > alone.cost + PLAN_COST:
            found.append(alone)
        else:
            found[place] = found[place].joined(alone)
    return found
