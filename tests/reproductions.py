"""Trials of the run that tests of replays and bundles record, and the scripts of `reproduce.py` that they write."""

import json

from conformance import adapters, claims, scenario
from conformance.followup.bundle import script

SCENARIOS = scenario.load(claims.load())
NAME = "broker-killed-while-sending-one-by-one"
FIRST = f"{NAME}.subject.1"


def change(path, **fields):
    """Change fields of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def judged(item):
    return [check.anomaly for claim, check in item.decides.items() if claims.load().claims[claim].judged]


def written(item, protocol="amqp", adapter="reference", anomalies=None):
    """The script of a scenario, drawn with seed 5, on an adapter or on the one with that name."""
    adapter = adapters.find(adapter) if isinstance(adapter, str) else adapter
    return script.write(item.drawn(5), anomalies or judged(item), adapter, protocol, "orders", "A title")


def names_of(item, protocol="stomp", **words):
    """The names of a written script, as if it were imported."""
    made = written(item, protocol, **words)
    assert made.text, made.missing
    names = {"__name__": "reproduce"}
    exec(compile(made.text, "reproduce.py", "exec"), names)
    return names
