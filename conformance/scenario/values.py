"""The values of messages that a written scenario leaves open: drawn from the space, for each publisher of a trial."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from conformance.scenario import Scenario
from conformance.scenario.needs import PROPERTIES, TIME_TO_LIVE
from conformance.scenario.reading import rebuilt, singles
from conformance.scenario.script import LONG_LIFE_MS, Publish, Step
from conformance.scenario.space import BY_NAME, Edge, Pair

OPEN = {
    "size": ("size",),
    "time to live": ("lives_ms",),
    "properties": ("headers", "correlates", "parity", "for_topic"),
}
"""The dimensions that a written scenario takes from the seed, where a publisher has none of these fields."""

NEEDS = {"time to live": TIME_TO_LIVE, "properties": PROPERTIES}
"""What each needs of the broker if it has another edge than the usual one."""

SMALL = 4_096
"""A written scenario may send many thousand messages, and each of no more bytes is in one frame."""


def _is_taken(name: str, edge: Edge) -> bool:
    """Whether a written scenario may have it: brokers keep correlation-ids of one type only, and say so."""
    if name == "size":
        return bool(0 < edge.value <= SMALL)
    if name == "time to live":
        return bool(edge.value == 0 or edge.value >= LONG_LIFE_MS)
    return edge.name != "correlation-ids"


TAKEN: Mapping[str, tuple[Edge, ...]] = {
    name: tuple(edge for edge in BY_NAME[name].edges if _is_taken(name, edge)) for name in OPEN
}
"""The edges of these; the first is the usual one."""

UNDER_A_FAULT: Mapping[str, tuple[Edge, ...]] = {
    name: tuple(edge for edge in edges if name != "time to live" or edge.value < 2**31 - 1)
    for name, edges in TAKEN.items()
}
"""Those of a script with a fault.

Counter-example to longer lives: Artemis 2.56.0 over MQTT takes 25 days for over. It would be accused of losing by each
kill and power loss what was gone before.
"""


def _pairs_of(edges: Mapping[str, tuple[Edge, ...]]) -> frozenset[Pair]:
    return frozenset(
        ((one, a.name), (other, b.name))
        for one, other in itertools.combinations(sorted(edges), 2)
        for a in edges[one]
        for b in edges[other]
    )


OPEN_PAIRS, PAIRS_UNDER_A_FAULT = _pairs_of(TAKEN), _pairs_of(UNDER_A_FAULT)
_USUAL = {field: getattr(Publish(1, 1), field) for fields in OPEN.values() for field in fields}


def vary(script: Scenario, seed: int, usual: Collection[str] = ()) -> tuple[Step, ...]:
    """Return the steps of a script with values for what its publishers leave open, each with its own.

    Half of what is drawn is the usual edge. If a transaction is sent again, all publishers have the same values, since
    it must be what it was. The dimensions of `usual` keep that edge.
    """
    if script.settings:
        return script.steps  # it fills a queue or a page by bytes, or asks for an end of its own
    rng = random.Random(f"{script.id}:{seed}:values")
    edges = UNDER_A_FAULT if script.faults else TAKEN
    again = any(isinstance(step, Publish) and step.resends for step in singles(script.steps))
    same = _values(rng, edges, usual) if again else None

    def of_publisher(value: Any) -> Any:
        if isinstance(value, Publish):
            return _with_values(value, same or _values(rng, edges, usual))
        return rebuilt(value, of_publisher)

    steps: tuple[Step, ...] = of_publisher(script.steps)
    return steps


def open_pairs(steps: tuple[Step, ...]) -> set[Pair]:
    """Return every two edges of open dimensions that a publisher of the steps has together."""
    found: set[Pair] = set()
    for step in singles(steps):
        if isinstance(step, Publish):
            mine = ((name, edge.name) for name, edges in TAKEN.items() for edge in edges if _has(step, name, edge))
            found.update(itertools.combinations(sorted(mine), 2))
    return found


def _has(step: Publish, name: str, edge: Edge) -> bool:
    wanted = {field: _USUAL[field] for field in OPEN[name]} | _fields(name, edge)
    return all(getattr(step, field) == value for field, value in wanted.items())


def _fields(name: str, edge: Edge) -> dict[str, Any]:
    """Return the fields of a publisher that make an edge of an open dimension."""
    return edge.value if isinstance(edge.value, dict) else {OPEN[name][0]: edge.value}


def _values(rng: random.Random, edges: Mapping[str, tuple[Edge, ...]], usual: Collection[str]) -> dict[str, Edge]:
    found = {}
    for name, (first, *others) in edges.items():
        found[name] = first if rng.random() < 0.5 or name in usual else rng.choice(others)
    return found


def _with_values(step: Publish, values: Mapping[str, Edge]) -> Publish:
    fields: dict[str, Any] = {}
    for name, (usual, *_) in TAKEN.items():
        fields |= _fields(name, values[name]) if _has(step, name, usual) else {}
    return msgspec.structs.replace(step, **fields)
