"""Play historic bugs as a score: `python -m tools.bugs [--out DIR] [NAME...]`, or `just bugs [NAME...]`.

A file `fixtures/bugs/NAME.toml` is one bug of one product (`Bug`). Its scenarios are played on the version that has the
bug and on the version without it. The suite is right if it convicts the first and acquits the second. The folders of
the runs stay in DIR (default: `runs/bugs`).

Exit code 0: each answer is as recorded; 1: a good version is accused, or a bug that is recorded as shown is not; 4:
usage.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from conformance import adapters, campaign, claims, paths, report, scenario
from conformance.errors import ConformanceError, UsageError

FOLDER = paths.fixtures() / "bugs"
OUT = pathlib.Path("runs/bugs")
ORDER = ("VIOLATED", "HARNESS_ERROR", "INCONCLUSIVE", "HOLDS", "NOT_TRIED", "NOT_APPLICABLE")
"""From the worst: a version is acquitted only if nothing that was tried is left open."""


class Bug(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A bug as its file describes it.

    `claims`: at least one of them must be VIOLATED by the `bad` version, and none by the `good` one, in `scenarios`.
    Other scenarios are not played. `settings` are those of broker or client, as with `--set`. `seed` fixes the numbers
    of the trials, if few of them meet the bug.

    Without `good` no version without the bug can be fetched here.

    `not_shown`: what the suite lacks to show the bug, or why the bad version cannot run here. With `claims` it is
    played all the same, so that you see when the answer changes.
    """

    title: str
    link: str
    says: str
    adapter: str
    bad: str
    good: str = ""
    protocol: str = ""
    client: str = ""
    settings: Mapping[str, str | int | bool] = {}
    claims: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    trials: int = scenario.TRIALS
    seed: int | None = None
    not_shown: str = ""

    def options(self, version: str, out: pathlib.Path) -> campaign.Options:
        known = claims.load().claims
        return campaign.Options(
            adapter=f"{self.adapter}@{version}",
            protocol=self.protocol,
            client=self.client,
            settings=[f"{name}={_word(value)}" for name, value in self.settings.items()],
            claims=self.claims,
            required=[claim for claim in self.claims if not known[claim].gets_verdict(())],
            trials=self.trials,
            seed=self.seed,
            out=out,
        )


def _word(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclasses.dataclass(frozen=True)
class Played:
    """What a version of the broker got: its worst verdict, in the claims of the bug, and how long that took."""

    verdict: str
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Row:
    """A bug and its two answers; None: not played."""

    name: str
    bug: Bug
    bad: Played | None = None
    good: Played | None = None

    @property
    def wrong(self) -> bool:
        """Whether the good version is accused, or a bug that is recorded as shown is not."""
        accused = self.good is not None and self.good.verdict == "VIOLATED"
        missed = not self.bug.not_shown and (self.bad is None or self.bad.verdict != "VIOLATED")
        return accused or missed

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Return name, bad version, good version and seconds."""
        words = {"VIOLATED": "convicted"}
        bad = _said(self.bad, words, "not shown")
        words = {"VIOLATED": "accused", "HOLDS": "acquitted"}
        good = f"{self.bug.good}: {_said(self.good, words, 'not accused')}" if self.bug.good else "none"
        seconds = " + ".join(f"{played.seconds:.0f}" for played in (self.bad, self.good) if played)
        return self.name, f"{self.bug.adapter} {self.bug.bad}: {bad}", good, seconds

    @property
    def remark(self) -> str:
        """Return why the bug is not shown, or that its file is out of date; empty if there is nothing to say."""
        if self.bug.not_shown and self.bad is not None and self.bad.verdict == "VIOLATED":
            return f"{self.name}: it is shown now: remove not_shown from its file"
        return f"{self.name}: {self.bug.not_shown}" if self.bug.not_shown else ""


def _said(played: Played | None, words: Mapping[str, str], other: str) -> str:
    if played is None:
        return "not played"
    return words.get(played.verdict, f"{other} ({played.verdict})")


def read(path: pathlib.Path) -> Bug:
    """Read a bug's file; `UsageError` names the file and what is wrong in it."""
    try:
        bug = msgspec.toml.decode(path.read_bytes(), type=Bug)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path.name}: {error}") from error
    catalogue = claims.load()
    known = {"claim": list(catalogue.claims), "scenario": list(scenario.load(catalogue))}
    for kind, words in (("claim", bug.claims), ("scenario", bug.scenarios)):
        for word in words:
            if word not in known[kind]:
                raise UsageError(f"{path.name}: {UsageError.unknown(kind, word, known[kind])}")
    if bool(bug.claims) != bool(bug.scenarios) or not (bug.claims or bug.not_shown):
        raise UsageError(f"{path.name}: give claims and scenarios, or say in not_shown why there are none")
    if bug.claims:
        try:
            for version in filter(None, (bug.bad, bug.good)):
                adapters.open_broker(bug.options(version, OUT).broker)
        except UsageError as error:
            raise UsageError(f"{path.name}: {error}") from error
    return bug


def worst(found: Mapping[str, Any], wanted: Sequence[str]) -> str:
    """Return the first of `ORDER` that a row of these claims has; `found` is the content of a `report.json`."""
    verdicts = {row["verdict"] for row in found["verdicts"] if row["claim"] in wanted}
    return next((verdict for verdict in ORDER if verdict in verdicts), "NOT_TRIED")


def play(bug: Bug, version: str, out: pathlib.Path) -> Played:
    """Run the scenarios of a bug on a version of its broker, and write the report into `out`, which is cleared."""
    shutil.rmtree(out, ignore_errors=True)
    prepared = campaign.prepare(bug.options(version, out))
    selection = dataclasses.replace(prepared.selection, only=frozenset(bug.scenarios))
    prepared = dataclasses.replace(prepared, selection=selection)
    started = time.monotonic()
    judgement = campaign.execute(prepared, campaign.Watcher())
    written = report.write_all(judgement, prepared.catalogue, prepared.scenarios, out)
    return Played(worst(json.loads(written["json"].read_text()), bug.claims), time.monotonic() - started)


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table, and below it what is to be said about single bugs."""
    lines = [("bug", "bad version", "good version", "seconds"), *(row.cells for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    shown = sum(row.bad is not None and row.bad.verdict == "VIOLATED" for row in rows)
    accused = sum(row.good is not None and row.good.verdict == "VIOLATED" for row in rows)
    total = f"{shown} of {len(rows)} bad versions convicted, {accused} good versions accused"
    return [*text, "", *(row.remark for row in rows if row.remark), total]


def main(words: Sequence[str]) -> int:
    """Play the bugs that are named, or all, and print the table."""
    names, out = list(words), OUT
    if "--out" in names[:1] and len(names) > 1:
        out, names = pathlib.Path(names[1]), names[2:]
    files = {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}
    rows = []
    try:
        for name in names:
            if name not in files:
                raise UsageError.unknown("bug", name, files)
        bugs = {name: read(files[name]) for name in names or files}
    except ConformanceError as error:
        print(error, file=sys.stderr)
        return 4
    for name, bug in bugs.items():
        played: list[Played | None] = [None, None]
        if bug.claims:
            for number, version in enumerate(filter(None, (bug.bad, bug.good))):
                try:
                    played[number] = play(bug, version, out / f"{name}-{version}")
                except ConformanceError as error:
                    print(f"{name}: {bug.adapter} {version}: {error}", file=sys.stderr)
                    played[number] = Played("HARNESS_ERROR")
        rows.append(Row(name, bug, *played))
        print("  ".join(rows[-1].cells), flush=True)
    print("\n".join(["", *table(rows)]))
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
