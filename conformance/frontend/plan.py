"""Say what a run would play, before it starts: which trials share a broker, and which of them fires which fault."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from conformance.campaign import Campaign
from conformance.run.planning import Planned, companies
from conformance.run.trial.company import owner
from conformance.scenario.reading import broker_acts
from conformance.words import plural


def lines(campaign: Campaign) -> Iterator[str]:
    """Yield a heading, and a block for all trials that share a broker at the same time."""
    groups = companies(campaign.trials)
    shared = sum(len(members) for members in groups if len(members) > 1)
    yield (
        f"{plural(len(campaign.trials), 'trial')}, {shared} of them share a broker with others; "
        f"{plural(campaign.jobs, 'broker')} at once"
    )
    for members in groups:
        yield ""
        yield _heading(members)
        yield from (f"  {trial.id}{_owned(trial, members)}" for trial in members)


def _heading(members: Sequence[Planned]) -> str:
    first = members[0]
    acts = collections.Counter(broker_acts(first.script.steps))
    done = ", ".join(f"{name} {count} times" if count > 1 else name for name, count in acts.items()) or "no restart"
    when = "after all others, alone" if first.alone else "beside all others" if first.waits_for_liveness else ""
    return "; ".join(filter(None, (f"{first.adapter.spec} {first.arm_label}: {done}", when)))


def _owned(trial: Planned, members: Sequence[Planned]) -> str:
    """Say which of the faults come at the trigger of this trial."""
    ids = [each.id for each in members]
    count = sum(fault.ends_broker for fault in trial.script.faults)
    fired = [str(fault) for fault in range(1, count + 1) if owner(ids, fault, trial.index) == trial.id]
    if not fired or len(members) == 1:
        return ""
    return f": fires {'number ' if len(fired) == 1 else 'numbers '}{', '.join(fired)}"
