"""Brokers that break one obligation, drawn at random from all lives of a message: each is convicted.

A lie is one message of which plain Python says what is wrong. Three trials show it, in the scenario whose script fits.
"""

import random

import lives
import msgspec
import pytest
from fates_oracle import fates
from judge_histories import record, write
from test_kinds import AMQP, CATALOGUE, SCENARIOS

from conformance.judge import rules
from conformance.judge.anomalies import EVERYWHERE
from conformance.judge.anomalies.fates import ALLOWED, REQUIRED, UNDECIDED
from conformance.judge.input.packing import compact_all
from conformance.judge.rows import Verdict
from conformance.judge.tally import ClaimEvidence
from conformance.judge.verdict import collect_facts

pytestmark = pytest.mark.spark

ABLE = msgspec.structs.replace(AMQP, capabilities=(*AMQP.capabilities, "explicit_rejections"))
SCRIPTS = {
    True: (
        "messages-acknowledged-in-transactions",
        "consumer-killed-in-transaction",
        "broker-killed-during-commit-of-acknowledgements",
    ),
    False: ("deliveries-refused", "consumer-killed-under-individual", "broker-killed-after-acknowledgements"),
}
"""Scenarios without a fault, with a dead consumer and with a dead broker: in transactions, and without any."""

OF_TRANSACTIONS = {name for name in EVERYWHERE if "commit" in name or "transact" in name or "discharged" in name}
OF_TRANSACTIONS |= {"available_early", "outcome_not_in_effect", "refused_delivered"}
CONVICTED = 0.95
OBSERVED = {"rejected_again", "given_back_nowhere"}
"""No document forbids them: the report says what was seen, and convicts a broker of it only where its user asks."""

LIES = 12
"""Lives that are drawn of each anomaly."""


def test_a_random_lie_is_convicted(session, tmp_path):
    broken = {}
    for name, events in lives.every():
        for message, fate in fates(events).items():
            broken.setdefault(fate, []).append((name, int(message.partition(":")[2])))
    anomalies = sorted(broken.keys() - {REQUIRED, ALLOWED, UNDECIDED} - OBSERVED)
    rng = random.Random(20261128)
    lies = [(fate, *life) for fate in anomalies for life in rng.sample(broken[fate], min(LIES, len(broken[fate])))]
    trials, scripts = [], []
    for at, (fate, name, n) in enumerate(lies):
        fault, place, _ = map(int, name.split("-"))
        events = lives.whole({n: lives.courses(n)[n - 1]}, lives.FAULTS[fault], lives.ENDS[place])
        scripts.append(SCRIPTS[fate in OF_TRANSACTIONS][fault])
        trials.append((tmp_path / str(at), write(tmp_path / str(at), events, record(trial=str(at)))))
    facts = collect_facts(session.spark, compact_all(trials))
    missed = [lies[at] for at, script in enumerate(scripts) if not convicted(script, facts[str(at)])]

    assert {*EVERYWHERE} - OBSERVED == {*anomalies}
    assert len(missed) <= (1 - CONVICTED) * len(lies), missed


def convicted(script, facts):
    """Whether a claim is violated in a run of three trials of this scenario that are alike."""
    trials = [record(f"{script}.{index}", script, index=index) for index in (1, 2, 3)]
    evidence = ClaimEvidence(ABLE, trials, {trial.trial: facts for trial in trials})
    return any(row.verdict is Verdict.VIOLATED for row in rules.rows(CATALOGUE, SCENARIOS, evidence, {}))
