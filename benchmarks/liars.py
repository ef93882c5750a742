"""Each liar of the reference broker on trial: what the suite says of the claims that the liar is labelled with.

The engine of every run records and judges; only the subject's arm is played, for that a liar cannot hold is decided by
a counterexample and by no control. A liar that is labelled with no claim is left to the broker's own tests.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import tempfile
import time
from collections.abc import Iterator, Sequence

from conformance import campaign, claims
from conformance.campaign import Campaign, Options, Watcher
from conformance.judge.rows import Verdict, VerdictRow
from conformance.reference.honest import Lie
from conformance.reference.liars import LIARS
from conformance.run.planning import Planned

SEED = 20_240_229
TRIALS = 3
"""Of each scenario: a race may be missed once."""

SCRIPTS = (1, 100)
"""Scenarios of one liar: the first, and if that does not show it, all; each takes three trials."""

PROTOCOLS = ("amqp", "stomp", "jms")


def liars() -> Iterator[str]:
    """A line a liar: what was tried, and whether it was found."""
    found = 0
    tried = {name: liar for name, liar in LIARS.items() if liar.breaks}
    for name, liar in tried.items():
        began = time.monotonic()
        rows = _judged(name, liar)
        shown = [row for row in rows if row.verdict is Verdict.VIOLATED]
        found += bool(shown)
        yield f"liars: {name} ({liar.fault}): {_words(rows, shown)}; {time.monotonic() - began:.0f} s"
    none = len(LIARS) - len(tried)
    yield f"liars: {found} of {len(tried)} found by the claims they break; {none} more break none of the catalogue"


def _words(rows: Sequence[VerdictRow], shown: Sequence[VerdictRow]) -> str:
    if not rows:
        return "NOT TRIED: no scenario with its fault applies"
    best = shown or rows
    lines = [f"{row.claim} {row.verdict.value} in {row.scenario}, {row.offended} of {row.trials}" for row in best]
    return ", ".join(lines)


def _judged(name: str, liar: Lie) -> list[VerdictRow]:
    """The rows of the liar's own claims, over the first protocol that shows it.

    They are required only if nothing is violated otherwise: an expectation is OBSERVED unless it is required, and the
    claim of the liar that records rollbacks does not bind the honest broker.
    """
    rows: list[VerdictRow] = []
    broken = [claims.load().claims[claim] for claim in liar.breaks]
    over = [word for word in PROTOCOLS if any(claims.spoken(claim, word, bundled=True) for claim in broken)]
    for most, required, protocol in itertools.product(SCRIPTS, ((), liar.breaks), over):
        with tempfile.TemporaryDirectory(prefix="conformance-liars-") as folder:
            made = _campaign(name, liar, protocol, required, most, pathlib.Path(folder) / "run")
            if made.chosen:
                judgement = campaign.execute(made, Watcher())
                rows = [row for row in judgement.rows if row.claim in liar.breaks and row.trials]
        if any(row.verdict is Verdict.VIOLATED for row in rows):
            break
    return rows


def _campaign(
    name: str, liar: Lie, protocol: str, required: Sequence[str], most: int, folder: pathlib.Path
) -> Campaign:
    words = [f"liar={name}", *([f"profile={liar.needs}"] if liar.needs != "standard" else [])]
    made = prepared(words, liar.breaks, folder, protocol=protocol, required=required, thorough=True)
    return dataclasses.replace(made, chosen=tuple(_chosen(name, liar.fault, made.trials, most)))


def prepared(
    words: Sequence[str],
    chosen: Sequence[str],
    folder: pathlib.Path | None,
    *,
    protocol: str = "amqp",
    required: Sequence[str] = (),
    thorough: bool = False,
) -> Campaign:
    """Prepare a run of the bundled broker with these settings and claims."""
    return campaign.prepare(
        Options(
            adapter="reference",
            protocol=protocol,
            settings=words,
            claims=chosen,
            required=required,
            thorough=thorough,
            trials=TRIALS,
            seed=SEED,
            out=folder,
        )
    )


def _chosen(name: str, fault: str, planned: Sequence[Planned], most: int) -> list[Planned]:
    """The subject's trials of the first scenarios with its fault; of any where none has it.

    Those that have the liar as a control come first.
    Counter-example: a full disk is no fault that a failed sync could stand for.
    """
    own = {each.script.id for each in planned if each.liar == name}
    subject = [each for each in planned if each.arm == "subject"]
    subject.sort(key=lambda each: each.script.id not in own)
    fitting = [each for each in subject if each.script.id in own or _shows(each, fault)] or subject
    scenarios = list(dict.fromkeys(each.script.id for each in fitting))[:most]
    return [each for each in fitting if each.script.id in scenarios and each.index <= TRIALS]


def _shows(planned: Planned, fault: str) -> bool:
    names = {each.name for each in planned.script.faults}
    return fault in names if fault != "none" else not names
