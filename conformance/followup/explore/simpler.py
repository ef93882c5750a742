"""Make a script that failed simpler, one change at a time: fewer steps, faults and messages, plainer values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import msgspec

from conformance.errors import CatalogueError
from conformance.scenario import Scenario, validate
from conformance.scenario.script import SETTLE, Consume, Fault, Publish, Restart, Step, Together

KEPT = {"count", "window", "mode", "until", "stop", "until_silent", "refuse", "refuse_every", "refuse_again"}
"""Fields of a step that are made simpler in another way, or never."""

LEAST = 10
"""A publisher sends at least so many messages."""

MOST = 4
"""So many trials of a simpler script at most."""


def simpler(item: Scenario) -> Iterator[Scenario]:
    """Yield each script that is one change simpler than this one, the boldest change first."""
    core = item.steps[: -len(SETTLE)]
    seen = {item.steps}
    for steps in _changes(core):
        made = dataclasses.replace(item, steps=(*steps, *SETTLE))
        if made.steps in seen or not _plays(made):
            continue
        seen.add(made.steps)
        yield made


def repeats(failed: int, played: int) -> int:
    """Return how many trials tell a script that still fails from one that does not: 9 of 10 times at the same rate.

    The rate is taken a little lower than it was seen, since few trials were played; more than `MOST` would take long.

    >>> repeats(4, 4), repeats(2, 4)
    (1, 4)
    """
    rate = failed / (played + 1)
    return max(1, min(MOST, round(math.log(0.1) / math.log(1 - rate))))


def size(item: Scenario) -> tuple[int, int, int]:
    """Return steps, faults and messages, to tell which of two scripts is the simpler one."""
    core = item.steps[: -len(SETTLE)]
    clients = [step for each in core for step in (each.steps if isinstance(each, Together) else (each,))]
    messages = sum(step.count for step in clients if isinstance(step, Publish))
    return len(clients), len(item.faults), messages


def _plays(item: Scenario) -> bool:
    """Whether the script goes: something is sent, and the broker is started after its end, and then only."""
    try:
        validate(item)
    except CatalogueError:
        return False
    down = False
    for step in item.steps:
        if isinstance(step, Restart):
            if down == step.clean:
                return False
            down = False
        elif down:
            return False
        down = down or _ends_broker(step)
    return not down and any(isinstance(step, Publish | Together) for step in item.steps)


def _changes(core: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for at, step in enumerate(core):
        yield (*core[:at], *core[at + 1 :])
        if at and isinstance(step, Restart) and not step.clean:
            yield (*core[: at - 1], *core[at + 1 :])
    for at, step in enumerate(core):
        for changed in _of_step(step):
            rest = core[at + 1 :]
            if _ends_broker(step) and not _ends_broker(changed):
                rest = rest[1:] if rest and isinstance(rest[0], Restart) else rest
            yield (*core[:at], changed, *rest)


def _ends_broker(step: Step) -> bool:
    fault: Fault | None = getattr(step, "until", None)
    return fault is not None and fault.ends_broker


def _of_step(step: Step) -> Iterator[Step]:
    """Yield the step with one thing less."""
    if isinstance(step, Together):
        for at, each in enumerate(step.steps):
            others = (*step.steps[:at], *step.steps[at + 1 :])
            yield others[0] if len(others) == 1 else Together(others)
            yield from (Together((*step.steps[:at], one, *step.steps[at + 1 :])) for one in _of_client(each))
    elif isinstance(step, Publish | Consume):
        yield from _of_client(step)


def _of_client(step: Publish | Consume) -> Iterator[Publish | Consume]:
    if step.until is not None:
        ended = {"until_silent": True} if isinstance(step, Consume) else {"count": min(step.count, 100)}
        yield msgspec.structs.replace(step, until=None, **ended)
    for field in msgspec.structs.fields(type(step)):
        plain = field.default
        if field.name not in KEPT and not field.required and getattr(step, field.name) != plain:
            yield msgspec.structs.replace(step, **{field.name: plain})
    if isinstance(step, Consume) and step.refuse:
        yield msgspec.structs.replace(step, refuse=(), refuse_every=0, refuse_again=False)
    if isinstance(step, Publish) and step.until is None and step.count > LEAST and not step.batch:
        yield msgspec.structs.replace(step, count=max(step.count // 2, LEAST))
    if isinstance(step, Publish) and step.window > 1:
        yield msgspec.structs.replace(step, window=1)
    if isinstance(step, Consume) and step.mode not in ("individual", "transacted"):
        yield msgspec.structs.replace(step, mode="individual", acknowledge=1)
