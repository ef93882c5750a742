"""Each liar of the reference broker on trial: what the suite says of the claims that the liar is labelled with.

The engine of every run records and judges; only the subject's arm is played, for that a liar cannot hold is decided by
a counterexample and by no control. A liar that is labelled with no claim is left to the broker's own tests.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Iterator, Sequence

from conformance import campaign
from conformance.campaign import Campaign, Options, Watcher
from conformance.judge.rows import Verdict, VerdictRow
from conformance.run.plan import Planned
from conformance.run.spoken import PROTOCOLS

SEED = 20_240_229
TRIALS = 3
"""Of each scenario: a race may be missed once."""

SCRIPTS = 1
"""Scenarios of one liar at most: each takes three trials."""


@dataclasses.dataclass(frozen=True)
class Label:
    """What a liar says of itself: the claims it breaks, the fault that shows it, the profile it needs."""

    name: str
    breaks: tuple[str, ...]
    fault: str
    profile: str


def liars(labels: Sequence[Label]) -> Iterator[str]:
    """A line a liar: what was tried, and whether it was found."""
    found = 0
    tried = [label for label in labels if label.breaks]
    for label in tried:
        began = time.monotonic()
        rows = _judged(label)
        shown = [row for row in rows if row.verdict is Verdict.VIOLATED]
        found += bool(shown)
        yield f"liars: {label.name} ({label.fault}): {_words(rows, shown)}; {time.monotonic() - began:.0f} s"
    none = len(labels) - len(tried)
    yield f"liars: {found} of {len(tried)} found by the claims they break; {none} more break none of the catalogue"


def _words(rows: Sequence[VerdictRow], shown: Sequence[VerdictRow]) -> str:
    if not rows:
        return "NOT TRIED: no scenario with its fault applies"
    best = shown or rows
    told = [f"{row.claim} {row.verdict.value} in {row.scenario}, {row.offended} of {row.trials}" for row in best]
    return ", ".join(told)


def _judged(label: Label) -> list[VerdictRow]:
    """The rows of the liar's own claims, over the first protocol that can try them."""
    for protocol in PROTOCOLS:
        with tempfile.TemporaryDirectory(prefix="conformance-liars-") as folder:
            made = _campaign(label, protocol, pathlib.Path(folder) / "run")
            if made.chosen:
                judgement = campaign.execute(made, Watcher())
                return [row for row in judgement.rows if row.claim in label.breaks and row.trials]
    return []


def _campaign(label: Label, protocol: str, folder: pathlib.Path) -> Campaign:
    words = [f"liar={label.name}", *([f"profile={label.profile}"] if label.profile != "standard" else [])]
    options = Options(
        adapter="reference",
        protocol=protocol,
        settings=words,
        claims=label.breaks,
        trials=TRIALS,
        seed=SEED,
        out=folder,
    )
    made = campaign.prepare(options)
    return dataclasses.replace(made, chosen=tuple(_chosen(label, made.trials)))


def _chosen(label: Label, planned: Sequence[Planned]) -> list[Planned]:
    """The subject's trials of the first scenarios whose faults are the liar's; of any where none has its fault."""
    subject = [each for each in planned if each.arm == "subject"]
    fitting = [each for each in subject if _shows(each, label.fault)] or subject
    scenarios = list(dict.fromkeys(each.script.id for each in fitting))[:SCRIPTS]
    return [each for each in fitting if each.script.id in scenarios and each.index <= TRIALS]


def _shows(planned: Planned, fault: str) -> bool:
    names = {each.name for each in planned.script.faults}
    return fault in names if fault != "none" else not names
