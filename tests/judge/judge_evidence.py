"""Counted trials as the rules see them, made up: no Spark."""

import dataclasses

import msgspec
from judge_histories import RUN, record

from conformance import claims, scenario
from conformance.judge import rules, tally
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.plan.exposures import EXPOSURES
from conformance.judge.plan.facts import Failing, TrialFacts, effective_mask
from conformance.judge.plan.relations import per_trial
from conformance.scenario.faults import FAULTS

CATALOGUE = claims.load()


def with_short_controls(item):
    """Return the scenario; each of its controls has three trials at most."""

    def short(check):
        control = check.control
        return dataclasses.replace(
            check, control=control and dataclasses.replace(control, trials=min(control.trials, 3))
        )

    return dataclasses.replace(item, decides={claim: short(check) for claim, check in item.decides.items()})


SCENARIOS = {name: with_short_controls(item) for name, item in scenario.load(CATALOGUE).items()}
"""The literal expectations of the tests are about three trials of a control: 3 of 3, 2 of 3, or one that is void."""

AT_WORK = tuple(name for name in FAULTS if not name.startswith("corrupt"))
"""The faults that meet a broker while it runs, and not its data while it is down."""

TAIL = {"first": 1, "last": 2, "asked": 1}
"""By end, the time of a message that is there although later ones, at 5 and 6, are not."""


def facts(*, offends=None, applies=100, exposed=50, effective=AT_WORK, tail=False, **counts):
    """A clean, drained trial with effective faults, in which these anomalies were seen so often; `tail`: at the end."""
    columns = per_trial(tuple(ANOMALIES.values()), EXPOSURES)
    found = dict.fromkeys(columns, 0)
    found |= {name: applies for name in columns if name.startswith("applies_")}
    found |= {name: exposed for name in columns if name.startswith("exposed_")}
    found |= {f"met_{name}": int(exposed > 0) for name in EXPOSURES}  # one fault a trial
    found |= {name: None for name in columns if name.startswith("kept_")}
    found |= {"faults_effective": effective_mask(*effective), "hidden_at_disk": None}
    found |= {"lasted_ns": 10_000_000_000, "most_deliveries": 3}
    found |= {"drains": 2, "was_settled": True, "was_bringing": False, "was_stuck": False, **counts}
    found |= {f"kept_{end}_{name}": place for name in offends or {} for end, place in TAIL.items() if tail}
    ends = {name: (5, 6) if ANOMALIES[name].order else (None, None) for name in offends or {}}
    failing = {name: Failing(n, (("q", 1, 7),), *ends[name]) for name, n in (offends or {}).items()}
    return TrialFacts(found, failing)


def evidence(name, subject, control=(), label=None, run=RUN, void="", **about_void):
    """Trials of one scenario: facts, or None for a void one."""
    trials, known = [], {}
    label = label or scenario.SYNC_OFF.label
    for arm, each in (("subject", subject), ("control", control)):
        for index, one in enumerate(each, 1):
            about = record(f"{arm}.{index}", name, arm, label if arm == "control" else "", index)
            gone = {"void": void or "the broker did not start", **about_void}
            trials.append(about if one else msgspec.structs.replace(about, **gone))
            if one:
                known[about.trial] = one
    return tally.ClaimEvidence(run, trials, known)


def everywhere(run=RUN, lies_in="every-trial", **arms):
    """Evidence of a run with trials of several scenarios: facts by scenario id, and those of liars by theirs."""
    trials, known = [], {}
    for name, each in arms.items():
        item = name.replace("_", "-")
        arm = "control" if item.startswith("liar-") else "subject"
        for index, one in enumerate(each, 1):
            if arm == "control":
                about = record(f"{item}.{index}", lies_in, arm, f"liar {item.removeprefix('liar-')}", index)
            else:
                about = record(f"{item}.{index}", item, arm, "", index)
            trials.append(about)
            known[about.trial] = one
    return tally.ClaimEvidence(run, trials, known)


def rule(claim, name, *args, scenarios=SCENARIOS, catalogue=CATALOGUE, **kwargs):
    """The row of one claim in one scenario."""
    found = evidence(name, *args, **kwargs)
    alone = msgspec.structs.replace(catalogue, claims={claim: catalogue.claims[claim]})
    return next(row for row in rules.rows(alone, scenarios, found, {}) if row.scenario == name)
