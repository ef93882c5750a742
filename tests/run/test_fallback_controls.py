"""A broker with fixed settings: every check has a liar as its control, and each liar fails in each scenario."""

import os
import pathlib

import pytest
from planned_trials import CATALOGUE, SCENARIOS, selection

from conformance.claims import Kind
from conformance.faults import possible
from conformance.history import bare_header
from conformance.judge.input.packing import compact
from conformance.judge.verdict import collect_facts
from conformance.ledger import Ledger
from conformance.run.planning import plan
from conformance.run.record import Recording
from conformance.scenario import Liar, Weakened
from conformance.scenario.controls import LIARS, changes_broker, substitute

FIXED = str(pathlib.Path(__file__).with_name("fixed_broker.toml"))
FEW = {"broker-killed-while-publishing", "broker-killed-while-sending-one-by-one", "sync-held-while-committing"}


def fallbacks():
    found = {}
    for item in SCENARIOS.values():
        for claim_id, check in item.decides.items():
            claim = CATALOGUE.claims[claim_id]
            if isinstance(check.control, Weakened) and claim.kind is not Kind.DEFAULT and changes_broker(check.control):
                given = substitute(check, claim.kind, item.fault_for(claim), False, False, ())
                found.setdefault(item.id, {})[given.anomaly] = given
    return found


FALLBACKS = fallbacks()


def required(only):
    """Every claim is required, so that a control is planned for every claim."""
    everything = list(CATALOGUE.claims)
    return selection(adapter=FIXED, required=everything, seed=19, only=list(only))


def test_no_setting_can_be_changed():
    controls = [trial for trial in plan(required(FALLBACKS), SCENARIOS, CATALOGUE) if trial.arm == "control"]

    assert required(()).weakens == frozenset()
    assert {trial.adapter.name for trial in controls} == {"reference"}


def test_every_liar_of_the_table_is_needed():
    needed = {(anomaly, check.control.name) for checks in FALLBACKS.values() for anomaly, check in checks.items()}

    assert needed == {(anomaly, liar.name) for (anomaly, _), liar in LIARS.items()}


@pytest.mark.spark
@pytest.mark.parametrize(
    "only", [pytest.param(FEW, id="few"), pytest.param(set(FALLBACKS), id="all", marks=pytest.mark.full)]
)
def test_each_fallback_control_fails(only, tmp_path, spark_for_all):
    """The trials share brokers as in a whole run: the journal of one must not hide what the next one loses."""
    unable = {item for item in only if possible.unable(SCENARIOS[item].faults)}
    played = [
        trial
        for trial in plan(required(only - unable), SCENARIOS, CATALOGUE)
        if any(trial.control == check.control.label for check in FALLBACKS[trial.script.id].values())
    ]
    with Ledger(tmp_path, f"fallbacks-{os.getpid()}") as ledger:
        recording = Recording(tmp_path, bare_header(""), ledger)
        try:
            records = {record.trial: record for record in recording.record(played)}
        finally:
            recording.close()
    used = [(anomaly, check.exposure) for item in only for anomaly, check in FALLBACKS[item].items()]
    packed = [compact(tmp_path / "trials" / name, one) for name, one in records.items()]
    facts = collect_facts(spark_for_all.spark, packed, used)
    seen = {
        (trial.script.id, anomaly): facts[trial.id].offences(anomaly) > 0
        if trial.id in facts
        else records[trial.id].void
        for trial in played
        for anomaly, check in FALLBACKS[trial.script.id].items()
        if check.control == Liar(trial.liar)
    }

    assert seen == {(item, anomaly): True for item in only - unable for anomaly in FALLBACKS[item]}
