"""Selections, planned trials, and a run of one trial."""

import dataclasses

from conformance import adapters, campaign, claims, protocols, scenario
from conformance.run.planning import Planned, Selection, subject_trials
from conformance.scenario import Scenario
from conformance.scenario.script import SETTLE, Publish

CATALOGUE = claims.load()
SCENARIOS = scenario.load(CATALOGUE)
REFERENCE = adapters.find("reference")
SCRIPT = Scenario("odd", "", "async_ack", (Publish(5, window=5), *SETTLE), {})
WIRES = [(a, p) for a in adapters.names() for p in protocols.WIRES if p in adapters.find(a).file.protocols]
"""Each adapter with each protocol of the suite's own sessions."""


def selection(*patterns, adapter="reference", protocol="amqp", overrides=None, **changes):
    """A selection of these claims, or of all."""
    found = adapters.find(adapter)
    asked = Selection(
        adapter=found,
        protocol=protocol,
        settings=found.effective(overrides),
        overrides=overrides or {},
        claims=claims.select(patterns or ["*"], CATALOGUE),
        required=frozenset(),
        seed=1,
    )
    sets = {name: frozenset(value) for name, value in changes.items() if isinstance(value, list)}
    return dataclasses.replace(asked, **{**changes, **sets})


def planned(identity="odd.subject.1", **changes):
    """A trial of the subject on the bundled broker."""
    trial = Planned(identity, SCRIPT, "subject", "", 1, 1, REFERENCE, REFERENCE.effective(), "amqp")
    return dataclasses.replace(trial, **changes)


def run_one(made, name):
    """Record and judge one trial of one scenario of a prepared run."""
    only = dataclasses.replace(made.selection, only=frozenset({name}))
    chosen = tuple(subject_trials(only, made.scenarios[name], [1]))
    return campaign.execute(dataclasses.replace(made, selection=only, chosen=chosen), campaign.Watcher())
