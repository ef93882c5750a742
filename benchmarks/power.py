"""Detection power: how often kills find a broker with a stated defect (docs/explanation/power.md).

Each liar with a size is a subject: the engine of every run kills it so many times, and the judge counts the kills after
which messages offend. The chance of n kills is arithmetic: 1-(1-p)^n, with p as measured for one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from benchmarks import aligned
from benchmarks.triggers import Bench
from conformance.errors import JudgeError, UsageError
from conformance.frontend.selftest import SEED, prepare_run
from conformance.ledger import Ledger
from conformance.run.planning import Planned, subject_trials

KILLS = 10
"""Of each liar: all of them take some minutes."""

TRIALS = (1, 3, 10, 30)
WINDOWS_MS = (3, 10, 100)
RATES = (10, 100)
_NORMAL_95 = 1.959964
"""The quantile of a normal distribution that leaves 2.5 % on each side."""

_ALWAYS = "loses-at-one-in-1-kills"
"""The chance of one in N is that of this liar, divided by N: its draw does not depend on the trial."""


@dataclasses.dataclass(frozen=True)
class Aim:
    """A scenario, the claim that it decides, and what is wrong with the liars that break this claim.

    `family` names liars whose number is a window in milliseconds, `window` says of what. `rare`: the liars that lose
    messages at one in N kills are played as well.
    """

    scenario: str
    claim: str
    family: str
    window: str
    rare: bool = False

    @property
    def defects(self) -> dict[str, tuple[str, float]]:
        """By the words for a defect, its liar, and the share of kills at which it has the defect."""
        found = {f"{self.window} {ms} ms": (self.family.replace("N", str(ms)), 1.0) for ms in WINDOWS_MS}
        rare = {f"loss at one in {one_in} kills": (_ALWAYS, 1 / one_in) for one_in in RATES}
        return found | rare if self.rare else found


AIMS = (
    Aim(
        "broker-killed-while-publishing",
        "SOLCD-ACK-01",
        "confirms-N-ms-before-storing",
        "sends stored late by",
        rare=True,
    ),
    Aim(
        "broker-killed-while-sending-one-by-one",
        "SOLCD-ACK-01",
        "confirms-N-ms-before-storing",
        "sends stored late by",
        rare=True,
    ),
    Aim(
        "broker-killed-after-acknowledgements",
        "EMS-STEP-06",
        "acknowledges-N-ms-before-storing",
        "acknowledgements stored late by",
    ),
    Aim(
        "broker-killed-after-commit", "SOLCD-TX-02", "commits-N-ms-before-storing", "commits stored late by", rare=True
    ),
    Aim(
        "broker-killed-during-commit", "ARTEMIS-TX-09", "commits-in-two-halves-N-ms-apart", "halves of commits apart by"
    ),
)


@dataclasses.dataclass(frozen=True)
class Share:
    """In how many of how many kills the claim was violated."""

    found: int
    kills: int

    def chance(self, trials: int, share: float = 1.0) -> tuple[float, float, float]:
        """Return the chance that so many kills find it, and its interval, if it lies at this share of the kills.

        >>> [round(each, 2) for each in Share(9, 10).chance(3)]
        [1.0, 0.93, 1.0]
        """
        low, high = wilson(self.found, self.kills)
        first, second, third = (1 - (1 - p * share) ** trials for p in (self.found / self.kills, low, high))
        return first, second, third


def wilson(found: int, kills: int) -> tuple[float, float]:
    """Return the interval (95 %) of a chance that came true `found` times of `kills`, after Wilson (1927).

    It stays within 0 and 1, and is honest about 0 of n and n of n.

    >>> [round(end, 3) for end in wilson(9, 10)], [round(end, 3) for end in wilson(0, 10)]
    ([0.596, 0.982], [0.0, 0.278])
    """
    if not 0 <= found <= kills or kills < 1:
        raise ValueError(f"{found} of {kills} kills is no share")
    square = _NORMAL_95**2
    middle = found + square / 2
    half = _NORMAL_95 * math.sqrt(found * (kills - found) / kills + square / 4)
    low, high = (middle - half) / (kills + square), (middle + half) / (kills + square)
    return 0.0 if found == 0 else low, 1.0 if found == kills else high


def power(words: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for each liar as it ends, and the table. Raises `UsageError` for other words than `--kills N`."""
    kills = _kills(words)
    played: dict[tuple[Aim, str], Share] = {}
    wanted = [(aim, liar) for aim in AIMS for liar in dict.fromkeys(["", *(liar for liar, _ in aim.defects.values())])]
    yield f"power: ack-conformance {version('ack-conformance')}, {kills} kills of each liar, one at a time over AMQP"
    with tempfile.TemporaryDirectory(prefix="conformance-power-") as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        ledger = stack.enter_context(Ledger(folder, "bench-power"))
        bench = stack.enter_context(contextlib.closing(Bench(folder, ledger, SEED)))
        for number, (aim, liar) in enumerate(wanted, 1):
            began = time.monotonic()
            share = played[aim, liar] = measured(bench, aim, liar, kills)
            yield (
                f"power: {number} of {len(wanted)}: {aim.scenario}, {liar or 'the honest broker'}: {aim.claim} "
                f"violated in {share.found} of {share.kills} kills; {time.monotonic() - began:.0f} s, "
                f"load {os.getloadavg()[0]:.1f}"
            )
    heads = ("scenario", "defect", "found", *(f"{n} kills" if n > 1 else "1 kill" for n in TRIALS))
    found = [(aim, text, played[aim, liar], share) for aim in AIMS for text, (liar, share) in aim.defects.items()]
    yield from aligned([heads, *(_row(*each) for each in found)])


def measured(bench: Bench, aim: Aim, liar: str, kills: int) -> Share:
    """Kill this liar, or the honest broker, so many times in the scenario. A trial that decides nothing is no kill."""
    made = prepare_run([f"liar={liar}"] if liar else [], [aim.claim], None, required=[aim.claim])
    script = made.scenarios[aim.scenario]
    check = script.decides[aim.claim]
    planned: list[Planned] = []
    for each in subject_trials(made.selection, script, range(1, kills + 1)):
        if sum(len(trial.script.faults) for trial in planned) < kills:
            planned.append(dataclasses.replace(each, id=f"{each.id}.{liar or 'honest'}.{aim.claim}"))
    names = check.anomaly, check.exposure
    decided = bench.decided(bench.recorded(planned), *names)
    if not decided:
        raise JudgeError(f"no kill of {liar or 'the honest broker'} in {aim.scenario} decides anything")
    return Share(sum(each.offended_faults(*names) for each in decided), sum(each.faults(*names) for each in decided))


def _kills(words: Sequence[str]) -> int:
    match [*words]:
        case []:
            return KILLS
        case ["--kills", text] if text.isascii() and text.isdecimal() and int(text):
            return int(text)
    raise UsageError(f"power takes --kills N, a whole number from 1 on, and not {' '.join(words)!r}")


def _row(aim: Aim, text: str, played: Share, share: float) -> tuple[str, ...]:
    lying = "" if share == 1 else " that lose"
    chances = (_cell(*played.chance(trials, share)) for trials in TRIALS)
    return (aim.scenario, text, f"{played.found} of {played.kills}{lying}", *chances)


def _cell(chance: float, low: float, high: float) -> str:
    """Return a chance and its interval in percent.

    >>> _cell(0.9, 0.596, 0.982), _cell(1.0, 0.999, 1.0)
    ('90 % (60 to 98)', '100 % (>99 to 100)')
    """
    return f"{_percent(chance)} % ({_percent(low)} to {_percent(high)})"


def _percent(chance: float) -> str:
    """Round; what is neither impossible nor certain is not shown as 0 or 100."""
    rounded = round(100 * chance)
    return "<1" if rounded == 0 < chance else ">99" if rounded == 100 > 100 * chance else str(rounded)
