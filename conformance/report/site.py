"""A static site over many runs: an index with brokers side by side, and the page, data and badge of each run.

The address of a run is `ADAPTER/VERSION/PROTOCOL/`, or `.../PROTOCOL-CLIENT/` through a vendor's client: it stays when
the run is repeated. Of several runs with one address the last is shown.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import shutil
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from conformance import claims, paths, scenario
from conformance.errors import UsageError
from conformance.judge.rows import Verdict
from conformance.report import html, model, phrases, questions
from conformance.report.expectations import version_numbers
from conformance.report.questions import Line

_COLOURS = {Verdict.HOLDS: "#0f6b3a", Verdict.VIOLATED: "#a11212", Verdict.HARNESS_ERROR: "#5b2a8c"}
_OTHER_COLOUR = "#7a4d00"

WRITTEN = {"findings": "What was found about brokers", "bugs": "Bugs that brokers once had"}
"""The pages beside the index, by the folder of `fixtures` whose README they show, and their titles."""

PROOF = "selftest"
"""The page of `conformance selftest`, where one of the folders has it."""


@dataclasses.dataclass(frozen=True)
class RunView:
    """One run of the site: its folder, address, report, six answers, and one word a claim."""

    folder: pathlib.Path
    address: str
    report: model.Report
    answers: tuple[Line, ...]
    words: dict[str, Verdict]

    def tried(self, claim: str) -> bool:
        return self.words.get(claim, Verdict.NOT_TRIED) not in phrases.UNTRIED

    @property
    def worst(self) -> Verdict:
        return min(self.words.values(), key=phrases.gravity, default=Verdict.NOT_TRIED)

    @property
    def badge(self) -> str:
        """`41 hold, 0 violated`."""
        summary = self.report.summary
        return f"{summary.holds} hold, {summary.violated} violated"


class Change(NamedTuple):
    """Two runs of one broker, over the same protocol and client, that follow each other, and the words that differ."""

    before: RunView
    after: RunView
    claims: tuple[tuple[str, Verdict, Verdict], ...]


def changes(runs: Sequence[RunView]) -> list[Change]:
    """Return what changed from version to version: claims that both runs have tried, with another answer."""
    of: dict[tuple[str, str], list[RunView]] = {}
    for run in runs:
        of.setdefault((run.report.run.adapter, run.report.run.over), []).append(run)
    found = []
    for versions in of.values():
        ordered = sorted(versions, key=lambda run: version_numbers(run.report.run.version))
        for before, after in itertools.pairwise(ordered):
            both = [name for name in before.words if before.tried(name) and after.tried(name)]
            differ = [(name, before.words[name], after.words[name]) for name in sorted(both)]
            found.append(Change(before, after, tuple(one for one in differ if one[1] != one[2])))
    return found


def write(folders: Sequence[pathlib.Path], out: pathlib.Path) -> pathlib.Path:
    """Write the site of all runs in or below these folders into `out`, and return its index.

    Raises `UsageError` if there is no report, or one that cannot be read.
    """
    found = [path for folder in folders for path in _reports(folder)]
    if not found:
        raise UsageError(
            f"no report.json in {', '.join(map(str, folders))}: name the folders of runs, or of their parent"
        )
    runs = {run.address: run for run in sorted(map(_read, found), key=lambda run: run.report.run.started)}
    shown = [runs[address] for address in sorted(runs)]
    for run in shown:
        _write_run(run, out / run.address)
    tried = {row.claim: row for run in shown for row in run.report.verdicts if row.verdict not in phrases.UNTRIED}
    proofs = sorted(
        path for folder in folders for path in [folder, *folder.glob("*")] if (path / f"{PROOF}.html").is_file()
    )
    page = html.environment().get_template("site.html.j2")
    text = page.render(
        runs=shown,
        asked=list(questions.QUESTIONS),
        claims=[tried[name] for name in sorted(tried)],
        changes=changes(shown),
        written=WRITTEN | ({PROOF: "The suite on trial"} if proofs else {}),
    )
    index = out / "index.html"
    index.write_bytes(text.encode("utf-8", "replace"))
    for proof in proofs[-1:]:
        shutil.copyfile(proof / f"{PROOF}.html", out / f"{PROOF}.html")
    for name, title in WRITTEN.items():
        (out / f"{name}.html").write_text(_written(name, title), "utf-8")
    return index


def _written(name: str, title: str) -> str:
    """Return the page of a list that people wrote in Markdown, with its tables."""
    page = html.environment().get_template("document.html.j2")
    return page.render(title=title, body=html.markdown(paths.fixtures() / name / "README.md"))


def _reports(folder: pathlib.Path) -> Iterable[pathlib.Path]:
    own = folder / "report.json"
    return [own] if own.is_file() else sorted(folder.glob("*/report.json"))


def _read(path: pathlib.Path) -> RunView:
    try:
        report = model.read_json(path)
    except (msgspec.DecodeError, OSError) as error:
        raise UsageError(f"{path}: {error}; `conformance judge {path.parent}` writes it again") from error
    run, scripts = report.run, scenario.load(claims.load())
    answers = tuple(questions.lines(report.judgement, scripts))
    parts = (run.adapter, run.version, f"{run.protocol}-{run.vendor}" if run.vendor else run.protocol)
    address = "/".join(html.anchor(part) for part in parts)
    return RunView(path.parent, address, report, answers, model.answers(report.judgement))


def _write_run(run: RunView, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("report.html", "report.json"):
        if (run.folder / name).is_file():
            shutil.copyfile(run.folder / name, folder / name)
    colour = _COLOURS.get(run.worst, _OTHER_COLOUR)
    endpoint = {"schemaVersion": 1, "label": "acknowledgements", "message": run.badge, "color": colour}
    (folder / "badge.json").write_text(json.dumps(endpoint) + "\n", encoding="utf-8")
    picture = html.environment().get_template("badge.svg.j2")
    (folder / "badge.svg").write_text(
        picture.render(label="acknowledgements", message=run.badge, colour=colour), "utf-8"
    )
