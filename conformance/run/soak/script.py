"""The segments of a soak: each is the same trial, with clients of its own and with one fault."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence

import msgspec

from conformance import limits
from conformance.adapters import Adapter, EffectiveSettings
from conformance.errors import UsageError
from conformance.run.planning import Planned
from conformance.scenario import Scenario
from conformance.scenario.script import (
    SETTLE,
    After,
    Consume,
    Kill,
    Nth,
    Pause,
    Publish,
    Restart,
    Step,
    Stop,
    Together,
    TogetherFault,
)

ID = "soak"
CLIENT_RATE = 500
"""Messages a second of one publisher, and of one consumer: a client in Python can do several times as many."""

_WINDOW, _PREFETCH, _BATCH = 100, 200, 50
_EARLIEST = 0.1
"""A fault strikes at a random time of its segment, but not in this first part of it."""

_HALTED_S = 1.0
_CONSUMER_EVENTS = 5
FAULTS = ("kill", "stop", "pause")


class SoakOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a soak, as typed, and its drawn seed. Times are in seconds, `rate` in messages a second."""

    adapter: str
    protocol: str
    settings: tuple[str, ...]
    for_s: int
    rate: int
    every_s: int
    faults: tuple[str, ...]
    seed: int
    offline: bool = False

    def check(self) -> None:
        """Raise `UsageError` for a number that no segment can have."""
        for option, number in (("--for", self.for_s), ("--rate", self.rate), ("--every", self.every_s)):
            if number < 1:
                raise UsageError(f"{option} {number}: at least 1", code="too-small", option=option)
        for fault in self.faults:
            if fault not in FAULTS:
                raise UsageError.unknown("fault", fault, FAULTS)
        if not self.faults:
            raise UsageError(f"--faults: name at least one of {', '.join(FAULTS)}", code="one-of")
        per_s = min(self.rate, CLIENT_RATE) * _CONSUMER_EVENTS * limits.EVENT_BYTES
        most = int(min(limits.CLIENT_S / 2, limits.HISTORY / per_s))
        if self.every_s > most:
            why = f"the history of one client has at most {limits.HISTORY:,} bytes and {limits.CLIENT_S:.0f} s"
            raise UsageError(
                f"--every {self.every_s}s: at most {most}s, because {why}", code="too-large", option="--every"
            )

    @property
    def clients(self) -> int:
        """The number of publishers, and of consumers."""
        return math.ceil(self.rate / CLIENT_RATE)


@dataclasses.dataclass(frozen=True)
class DrawnFault:
    """The fault of a segment, and the seconds after its clients have begun.

    It comes at that time, or `at_confirm`, when a client has just read the confirm that is due then.
    """

    name: str
    after_s: float
    at_confirm: bool

    def step(self, rate: float) -> TogetherFault:
        """Return the fault for a publisher of that rate."""
        milliseconds, confirms = int(self.after_s * 1000), max(1, int(self.after_s * rate))
        at = Nth("confirm", confirms) if self.at_confirm else After(milliseconds)
        if self.name == "pause":
            return Pause(at, hold_s=_HALTED_S, then_kill=True)
        return Stop(at) if self.name == "stop" else Kill(at)


def drawn_fault(options: SoakOptions, number: int, left_s: float) -> DrawnFault:
    """Draw the fault of the segment of that number, at most `left_s` seconds after its begin."""
    rng = random.Random(f"{options.seed}:{number}")
    name = rng.choice(options.faults)
    after = rng.uniform(_EARLIEST, 1) * options.every_s
    return DrawnFault(name, max(0.5, min(after, left_s)), rng.random() < 0.5)


def steps(options: SoakOptions, fault: DrawnFault | None) -> tuple[Step, ...]:
    """Return the steps of a segment that ends with a fault, or of the last one, which drains the queue."""
    if fault is None:
        return SETTLE
    count = options.clients
    rate = options.rate / count
    batch = max(1, min(_BATCH, int(rate / 4)))
    every = Publish(int(rate * (fault.after_s + 60)) + 1, window=_WINDOW, every_ms=1000 / rate)
    consumer = Consume("client", prefetch=_PREFETCH, acknowledge=batch, confirm=True)
    last = msgspec.structs.replace(every, until=fault.step(rate))
    return (Together((*[consumer] * count, *[every] * (count - 1), last)), Restart())


def planned(
    options: SoakOptions, adapter: Adapter, settings: EffectiveSettings, protocol: str, liar: str | None = None
) -> Planned:
    """Return the trial that every segment of a soak is: they differ in their steps."""
    script = Scenario(id=ID, says="", mode="client", steps=(), decides={})
    return Planned(
        id=f"{ID}.{'control' if liar else 'subject'}.1",
        script=script,
        arm="control" if liar else "subject",
        control=f"liar {liar}" if liar else "",
        index=1,
        seed=options.seed,
        adapter=adapter,
        settings=settings,
        protocol=protocol,
        liar=liar,
    )


def with_steps(trial: Planned, steps: Sequence[Step]) -> Planned:
    return dataclasses.replace(trial, script=dataclasses.replace(trial.script, steps=tuple(steps)))
