"""What a trigger is worth: how many kills it takes to find a liar whose window is a few milliseconds.

Each liar that a kill can see is hunted twice with one script: killed at its trigger, and killed at a random time. The
scripts are paced, so that a random time mostly meets an idle broker, as it does in real systems. Trials are recorded
and judged by the engine of every run; nothing here decides but the number of offences that the judge counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import re
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence

from benchmarks import aligned
from conformance import adapters, history
from conformance.errors import JudgeError
from conformance.history import Op, Phase, bare_header
from conformance.judge import start_in_background
from conformance.judge.input.packing import compact_all
from conformance.judge.plan.facts import TrialFacts
from conformance.judge.verdict import collect_facts
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.run.planning import Planned
from conformance.run.record import Recording
from conformance.scenario import Scenario
from conformance.scenario.script import SETTLE, After, Between, ClientEvent, Consume, Kill, Nth, Publish, Restart, Step

SEED = 20_240_229
AT_TRIGGER, AT_RANDOM = 3, 30
"""Trials at most, of one liar."""

BUDGET_S = 45.0
"""For the random kills of one liar: fewer than `AT_RANDOM` fit on a slow machine, and the table says how many did."""

PACE_MS = 50
WINDOW_MS = 5
"""How long such a liar's journal is behind its answers (`conformance broker --help`)."""

KILLS = 100
"""Of the honest broker, to measure how long after its event a kill is signalled: a third for each event."""

_EACH = 17


@dataclasses.dataclass(frozen=True)
class Quarry:
    """A liar, and the script that hunts it: `steps` end with what the kill interrupts.

    `every_ms`: how far apart answers are that can be a lie; the random kill comes `between` so many milliseconds after
    the client has begun, the span in which the trigger comes too.
    """

    liar: str
    mode: str
    anomaly: str
    exposure: str
    trigger: Nth
    between: Between
    every_ms: int
    steps: Callable[[Kill], tuple[Step, ...]]

    @property
    def miss(self) -> float:
        """The chance that a kill at a random time meets no window: arithmetic, nothing measured."""
        return 1 - WINDOW_MS / self.every_ms

    def script(self, kill: Kill, name: str) -> Scenario:
        """The whole script, with the search for what is gone, or came back."""
        steps = (*self.steps(kill), Restart(), *SETTLE)
        return Scenario(name, f"The hunt for {self.liar}.", self.mode, steps, {})


_SPAN = Between(5 * PACE_MS, 15 * PACE_MS)
_COUNT = Between(5, 15)

QUARRIES = (
    Quarry(
        "confirms-before-storing",
        "blocking",
        "lost",
        "confirmed_in_window",
        Nth("confirm", _COUNT),
        _SPAN,
        PACE_MS,
        lambda kill: (Publish(1_000, window=1, every_ms=PACE_MS, until=kill),),
    ),
    Quarry(
        # One send at a time would meet the tenth once in ten kills; a burst of ten has one in it, wherever it begins.
        "confirms-every-tenth-before-storing",
        "async_ack",
        "lost",
        "confirmed_in_window",
        Nth("confirm", Between(1, 10)),
        Between(10, 240),
        250,
        lambda kill: (Publish(10, window=10), Publish(10, window=10, until=kill)),
    ),
    Quarry(
        "commits-before-storing",
        "transacted",
        "lost_committed",
        "committed_in_window",
        Nth("committed", _COUNT),
        _SPAN,
        PACE_MS,
        lambda kill: (Publish(5_000, window=5, batch=5, every_ms=PACE_MS, until=kill),),
    ),
    Quarry(
        "acknowledges-before-storing",
        "individual",
        "delivered_after_restart",
        "acknowledged_in_window",
        Nth("ack", _COUNT),
        _SPAN,
        PACE_MS,
        lambda kill: (
            Publish(60, window=60),
            Restart(clean=True),
            Consume("individual", prefetch=10, work_ms=PACE_MS, confirm=True, until=kill),
        ),
    ),
)


@dataclasses.dataclass(frozen=True)
class Hunt:
    """The trials of one liar, in order: `found` is the number of the one that showed it, None if none of `tried` did.

    `signals` has the microseconds from the event to the signal, of every trial whose kill waited for an event.
    """

    found: int | None
    tried: int
    signals: tuple[int, ...] = ()

    def describe(self, most: int) -> str:
        if self.found is not None:
            return f"trial {self.found} of {most}"
        return f"not in {self.tried}" + (f" (of {most}: time is up)" if self.tried < most else "")


class Bench:
    """Records and judges single trials, in a folder of its own."""

    def __init__(self, folder: pathlib.Path, ledger: Ledger, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._starting = start_in_background()
        self._recording = Recording(folder, bare_header("orchestrator"), ledger)
        self._reference = adapters.find("reference")

    def close(self) -> None:
        self._recording.close()
        self._starting.stop()

    def offences(self, quarry: Quarry, script: Scenario, liar: str | None, number: int) -> tuple[int, list[str]]:
        """How many messages the judge puts down to the broker in one trial, and what its kill said of itself.

        Raises:
            JudgeError: The trial is void, or could not be decided.
        """
        folder, record = self.record(script, liar, number)
        found = self.decided([(folder, record)], quarry.anomaly, quarry.exposure)
        if not found:
            raise JudgeError(f"trial {record.trial} decides nothing: no kill took effect, or the queue was not drained")
        return found[0].offences(quarry.anomaly), fired(folder)

    def decided(
        self, trials: Sequence[tuple[pathlib.Path, TrialRecord]], anomaly: str, exposure: str
    ) -> list[TrialFacts]:
        """Judge recorded trials in one job: the facts of those whose kill took effect, and that emptied the queue."""
        facts = collect_facts(self._starting.result().spark, compact_all(trials), [(anomaly, exposure)])
        return [found for found in facts.values() if found.effective("kill") and found.settled]

    def recorded(self, planned: Sequence[Planned]) -> list[tuple[pathlib.Path, TrialRecord]]:
        """Record trials; the folder and the record of each."""
        records = self._recording.record(planned)
        return [(self._folder / "trials" / record.trial, record) for record in records]

    def record(self, script: Scenario, liar: str | None, number: int) -> tuple[pathlib.Path, TrialRecord]:
        """Record one trial; its folder. `JudgeError` where it is void."""
        name = f"{script.id}.{number}"
        seed = zlib.crc32(f"{self._seed}:{name}".encode())
        planned = Planned(
            id=name,
            script=script.drawn(seed),
            arm="control" if liar else "subject",
            control=f"liar {liar}" if liar else "",
            index=number,
            seed=seed,
            adapter=self._reference,
            settings=self._reference.effective(),
            protocol="amqp",
            liar=liar,
        )
        ((folder, record),) = self.recorded([planned])
        if record.void:
            raise JudgeError(f"trial {name} is void: {record.void}")
        return folder, record


def triggers(seed: int = SEED) -> Iterator[str]:
    """The lines of the table, after a line for every hunt as it ends."""
    yield f"triggers: seed {seed}, a window of {WINDOW_MS} ms, one broker at a time over AMQP"
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        ledger = stack.enter_context(Ledger(folder, "bench-triggers"))
        bench = stack.enter_context(contextlib.closing(Bench(folder, ledger, seed)))
        rows = []
        for quarry in QUARRIES:
            honest = hunt(bench, quarry, quarry.trigger, None, AT_TRIGGER)
            yield f"triggers: {quarry.liar}: the honest broker under the same kills: {honest.describe(AT_TRIGGER)}"
            aimed = hunt(bench, quarry, quarry.trigger, quarry.liar, AT_TRIGGER)
            yield f"triggers: {quarry.liar}: killed at its trigger: {aimed.describe(AT_TRIGGER)}"
            random = hunt(bench, quarry, After(quarry.between), quarry.liar, AT_RANDOM, BUDGET_S)
            yield f"triggers: {quarry.liar}: killed at a random time: {random.describe(AT_RANDOM)}"
            rows.append(_row(quarry, honest, aimed, random))
        yield from aligned([COLUMNS, *rows])
        yield from signals(bench)


def hunt(
    bench: Bench, quarry: Quarry, at: Nth | After, liar: str | None, most: int, budget_s: float = float("inf")
) -> Hunt:
    """Kill until the judge finds an offence, `most` times at most, and no longer than the budget."""
    until = time.monotonic() + budget_s
    said: list[str] = []
    tried = 0
    while tried < most and time.monotonic() < until:
        tried += 1
        script = quarry.script(Kill(at), f"{quarry.liar}-{'liar' if liar else 'honest'}-{type(at).__name__.lower()}")
        offences, details = bench.offences(quarry, script, liar, tried)
        said += details
        if offences:
            return Hunt(tried, tried, delays(said, "event"))
    return Hunt(None, tried, delays(said, "event"))


def fired(folder: pathlib.Path) -> list[str]:
    """Return the details of every fired kill of a trial."""
    return [
        event.detail or ""
        for path in sorted([*folder.glob("publisher-*.jsonl"), *folder.glob("consumer-*.jsonl")])
        for event in history.read(path).events
        if event.op is Op.FAULT and event.phase is Phase.FIRED
    ]


def delays(details: Sequence[str], since: str) -> tuple[int, ...]:
    """The microseconds after its `event`, or after its `sends had left`, in what kills said of themselves.

    >>> delays(["85 us after its event, 40 us after its sends had left, 30 us for the signals"], "sends had left")
    (40,)
    """
    found = (re.search(rf"(\d+) us after its {since}", detail) for detail in details)
    return tuple(int(match[1]) for match in found if match)


COLUMNS = ("liar", "honest, at trigger", "at its trigger", "us to the signal", "at a random time", "chance to miss")


def _row(quarry: Quarry, honest: Hunt, aimed: Hunt, random: Hunt) -> tuple[str, ...]:
    """Return the cells of `COLUMNS` for one liar. The chance is that of one random kill."""
    return (
        quarry.liar,
        honest.describe(AT_TRIGGER),
        aimed.describe(AT_TRIGGER),
        f"{statistics.median(aimed.signals):.0f}",
        random.describe(AT_RANDOM),
        f"{quarry.miss:.0%} ({WINDOW_MS} ms in {quarry.every_ms})",
    )


def _kills(event: ClientEvent) -> Scenario:
    """Kill one broker `_EACH` times at that event, without judging."""
    steps: dict[str, Callable[[Kill], Step]] = {
        "confirm": lambda kill: Publish(50_000, window=100, until=kill),
        "committed": lambda kill: Publish(50_000, window=50, batch=5, until=kill),
        "ack": lambda kill: Consume("individual", prefetch=50, confirm=True, until=kill),
    }
    low = {"confirm": 150}.get(event, 10)
    before = (Publish(50 * _EACH, window=100),) if event == "ack" else ()
    killed = [(steps[event](Kill(Nth(event, Between(low, 3 * low)))), Restart()) for _ in range(_EACH)]
    return Scenario(f"signals-{event}", "How fast a kill is.", "individual", (*before, *itertools.chain(*killed)), {})


def signals(bench: Bench) -> Iterator[str]:
    """Microseconds from the event to the signal over `KILLS` kills, for each event that a client can wait for.

    At a confirm the publisher first sends a few messages: the time since then is given as well.
    """
    events: tuple[ClientEvent, ...] = ("confirm", "committed", "ack")
    for event in events:
        said: list[str] = []
        for number in itertools.count(1):
            if len(said) >= KILLS / 3:
                break
            said += fired(bench.record(_kills(event), None, number)[0])
        yield f"triggers: {event} to signal: {_summary(delays(said, 'event'))}"
        if full := delays(said, "sends had left"):
            yield f"triggers: {event}, its sends written to signal: {_summary(full)}"


def _summary(figures: Sequence[int]) -> str:
    return f"median {statistics.median(figures):.0f} us, worst {max(figures):,} us of {len(figures)} kills"
