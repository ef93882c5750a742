"""What a script says when it is read: its steps, its numbers once a seed has drawn them, and what it needs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import msgspec

from conformance.scenario.needs import CLEAN_RESTART, JOURNAL_WATCHED, KILL_OF_HALTED, KILL_WHILE_STARTING, Need
from conformance.scenario.script import (
    ANOTHER,
    SETTLE,
    Ask,
    Between,
    Consume,
    Cut,
    Drain,
    FileRemoved,
    Nth,
    OneOf,
    Pause,
    Publish,
    Restart,
    Rounds,
    Single,
    Step,
    Together,
    leaves,
)

Value = TypeVar("Value")

_RELEASES = {
    ("acknowledge", "before"): "cut_before_release",
    ("answer", "before"): "cut_before_release",
    ("answer", "after"): "cut_after_release",
    ("complete", "before"): "cut_after_release",
}
"""By the frame at which a consumer loses its connection, and on which side of it: with QoS 2 the answer to an
acknowledgement, PUBREC, is its release, PUBREL."""


def singles(steps: Iterable[Step]) -> Iterator[Single]:
    """Yield every step of one client, in the order in which they begin; those of `Rounds` once."""
    for step in steps:
        if isinstance(step, Together):
            yield from itertools.chain(*step.groups)
        elif isinstance(step, Rounds):
            yield from singles(step.steps)
        else:
            yield step
        if isinstance(step, Restart):
            yield from step.beside


def questions_of(steps: Iterable[Step]) -> set[str]:
    """Return what its clients ask a broker, or a vendor's client."""
    return {step.question for step in singles(steps) if isinstance(step, Ask)}


def cut_around_release(steps: Iterable[Step]) -> set[str]:
    """Return on which side of a release consumers lose their connections, in words of the catalogue.

    >>> cut_around_release([Publish(1, 1)])
    set()
    """
    faults = [step.until for step in singles(steps) if isinstance(step, Consume)]
    cuts = [(fault.at.kind, fault.at.at) for fault in faults if isinstance(fault, Cut)]
    return {_RELEASES[cut] for cut in cuts if cut in _RELEASES}


def most_queues(steps: Iterable[Step]) -> int:
    """Return the number of queues that the steps use."""
    used = (step for step in singles(steps) if isinstance(step, Publish | Consume))
    return max((getattr(step, "from_queue", 0) + step.queues for step in used), default=1)


def shares_a_queue(steps: Iterable[Step]) -> bool:
    """Whether a queue has two receivers at the same time."""
    beside = [*(each.steps for each in togethers(steps)), *((step,) for step in singles(steps))]
    return any(len(used) > len({*used}) for used in map(_queues_of, beside))


def _queues_of(steps: Iterable[object]) -> list[int]:
    """Return the place of the queue of each receiver of these steps, and of one that looks on."""
    used = [0 for step in steps if isinstance(step, Publish) and step.peek]
    for step in (each for each in steps if isinstance(each, Consume)):
        used += [step.from_queue + place % step.queues for place in range(step.receivers)]
    return used


def modes_of(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the words of the catalogue for how clients send and receive, and for what they send (`modes`)."""
    for step in singles(steps):
        if isinstance(step, Consume):
            yield step.mode
        elif isinstance(step, Publish):
            yield "persistent" if step.durable else "non_persistent"
            answered = step.ack_event_mode or ("blocking" if step.window == 1 else "async_ack")
            yield "transacted" if step.batch else answered


def togethers(steps: Iterable[Step]) -> Iterator[Together]:
    for step in steps:
        if isinstance(step, Rounds):
            yield from togethers(step.steps)
        elif isinstance(step, Together):
            yield step


def needs_of_launcher(steps: tuple[Step, ...]) -> Iterator[Need]:
    """Yield what a broker must allow that the suite starts itself, or whose owner has commands."""
    core = steps[: -len(SETTLE)] if steps[-len(SETTLE) :] == SETTLE else steps
    restarts = [step for step in singles(core) if isinstance(step, Restart)]
    faults = [step.until for step in singles(core) if isinstance(step, Publish | Consume)]
    if any(step.clean and step.under is None for step in restarts):
        yield CLEAN_RESTART
    if any(step.until is not None for step in restarts):
        yield KILL_WHILE_STARTING
    if any(isinstance(fault, Pause) and fault.then_kill for fault in faults):
        yield KILL_OF_HALTED
    if any(isinstance(each, FileRemoved) for fault in faults for each in leaves(getattr(fault, "at", None))):
        yield JOURNAL_WATCHED


def without_last_restart(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps without the clean restart before the last look, for a broker that the suite cannot restart.

    Two drains to silence remain; after each the broker says that nothing more is there.
    """
    return (*steps[: -len(SETTLE)], Drain(), Drain()) if steps[-len(SETTLE) :] == SETTLE else steps


def unroll(steps: tuple[Step, ...], most: int, *, control: bool) -> tuple[Step, ...]:
    """Return the steps with those of `Rounds` repeated: at most `most` times, or as often as a control needs."""
    found: list[Step] = []
    for step in steps:
        times = (step.control if control else min(step.times, most)) if isinstance(step, Rounds) else 1
        found += (step.steps if isinstance(step, Rounds) else (step,)) * times
    return tuple(found)


def broker_acts(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return what drawn steps do to the broker, in order: restarts, and faults that end it."""
    acts = []
    for step in steps:
        fault = getattr(step, "until", None)
        if isinstance(step, Restart):
            acts.append(step.does)
        elif fault is not None and fault.ends_broker:
            acts.append(fault.name)
    return tuple(acts)


def draw(value: Value, rng: random.Random) -> Value:
    """Return a step, fault or trigger, or several, with every number drawn."""
    found: Any = value
    if isinstance(value, Between):
        found = rng.randint(value.low, value.high)
    elif isinstance(value, OneOf):
        found = draw(rng.choice(value.options), rng)
    else:
        found = rebuilt(value, lambda part: draw(part, rng))
    return cast(Value, found)


def without_answered_acks(value: Value) -> Value:
    """Return steps whose faults come when an acknowledgement was written, where they waited for its answer.

    >>> from conformance.scenario.script import Kill
    >>> without_answered_acks((Consume("client", until=Kill(Nth("ack", 9))),))[0].until.at
    Nth(event='ack_written', k=9)
    """
    found: Any = value
    if isinstance(value, Nth) and value.event == "ack":
        found = msgspec.structs.replace(value, event="ack_written")
    else:
        found = rebuilt(value, without_answered_acks)
    return cast(Value, found)


def over(value: Value, protocol: str) -> Value:
    """Return steps in which each client of another protocol has this one.

    >>> over((Publish(1, 1, over=ANOTHER), Drain()), "stomp")[0].over
    'stomp'
    """
    found: Any = value
    if isinstance(value, Publish | Consume):
        found = msgspec.structs.replace(value, over=protocol) if value.over == ANOTHER else value
    else:
        found = rebuilt(value, lambda part: over(part, protocol))
    return cast(Value, found)


def rebuilt(value: Value, change: Callable[[Any], Any]) -> Value:
    """Return a step, fault or trigger, or several, with each of its parts changed."""
    found: Any = value
    if isinstance(value, tuple):
        found = tuple(map(change, value))
    elif isinstance(value, msgspec.Struct):
        found = msgspec.structs.replace(
            value, **{name: change(getattr(value, name)) for name in value.__struct_fields__}
        )
    return cast(Value, found)


def check_types(steps: tuple[Step, ...]) -> None:
    """Raise `msgspec.ValidationError` if a word or a number of the steps is not one that its field may have."""
    msgspec.convert(msgspec.to_builtins(steps), tuple[Step, ...])
