"""Say what a run would play, and how long: which trials share a broker, and which of them fires which fault."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from conformance.campaign import Campaign
from conformance.counting import plural
from conformance.run.planning import Planned, companies
from conformance.run.trial.company import owner
from conformance.scenario.reading import broker_acts

PACE = 2.9
"""Seconds that a trial took for each that was estimated, in a whole run of the bundled broker on two idle cores."""
BESIDE = 0.5
"""Liars play on a broker of their own: so much more is done beside the broker on trial."""


def lines(campaign: Campaign) -> Iterator[str]:
    """Yield a heading, and a block for all trials that share a broker at the same time."""
    groups = companies(campaign.trials)
    shared = sum(len(members) for members in groups if len(members) > 1)
    minutes = expected_s(groups, campaign.jobs) / 60
    yield (
        f"{plural(len(campaign.trials), 'trial')}, {shared} of them share a broker with others; "
        f"{plural(campaign.jobs, 'broker')} at once; about {minutes:.0f} min of recording on an idle machine"
    )
    for members in groups:
        yield ""
        yield _heading(members)
        yield from (f"  {trial.id}{_owned(trial, members)}" for trial in members)


def expected_s(groups: Sequence[Sequence[Planned]], jobs: int) -> float:
    """Estimate the seconds of recording these companies; those that wait for the liveness bound wait beside them."""
    alone = sum(members[0].seconds for members in groups if members[0].alone)
    beside = sum(members[0].seconds for members in groups if not (members[0].alone or members[0].waits_for_liveness))
    return PACE * (alone + beside / (jobs + BESIDE))


def _heading(members: Sequence[Planned]) -> str:
    first = members[0]
    acts = collections.Counter(broker_acts(first.script.steps))
    done = ", ".join(f"{name} {count} times" if count > 1 else name for name, count in acts.items()) or "no restart"
    when = "after all others, alone" if first.alone else "beside all others" if first.waits_for_liveness else ""
    took = "" if first.waits_for_liveness else f"about {PACE * first.seconds:.0f} s"
    return "; ".join(filter(None, (f"{first.adapter.spec} {first.arm_label}: {done}", when, took)))


def _owned(trial: Planned, members: Sequence[Planned]) -> str:
    """Say which of the faults come at the trigger of this trial."""
    ids = [each.id for each in members]
    count = sum(fault.ends_broker for fault in trial.script.faults)
    fired = [str(fault) for fault in range(1, count + 1) if owner(ids, fault, trial.index) == trial.id]
    if not fired or len(members) == 1:
        return ""
    return f": fires {'number ' if len(fired) == 1 else 'numbers '}{', '.join(fired)}"
