"""A static site over many runs: which broker loses what, and with which setting.

The index has brokers and kinds of fault, the page of each broker says what loses messages there and what to set, and
the page of claims has the answers of all brokers side by side. All of it is made from the `report.json` of each run.

The address of a run is `ADAPTER/VERSION/PROTOCOL/`, `.../PROTOCOL-CLIENT/` through a vendor's client, and
`...-3-nodes/` for a broker of three nodes. It stays when the run is repeated. The site may be written into the folder
that it is made from.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

from conformance import claims, paths, scenario
from conformance.errors import UsageError
from conformance.judge.rows import Verdict
from conformance.report import html, model, questions
from conformance.report.site import losses
from conformance.report.site.runs import RunView, histories, read

_COLOURS = {Verdict.HOLDS: "#0f6b3a", Verdict.VIOLATED: "#a11212", Verdict.HARNESS_ERROR: "#5b2a8c"}
_OTHER_COLOUR = "#7a4d00"

WRITTEN = {"findings": "What was found about brokers", "bugs": "Bugs that brokers once had"}
"""The pages beside the index, by the folder of `fixtures` whose README they show, and their titles."""

PROOF = "selftest"
"""The page of `conformance selftest`, where one of the folders has it."""


def write(folders: Sequence[pathlib.Path], out: pathlib.Path) -> pathlib.Path:
    """Write the site of all runs in or below these folders into `out`, and return its index.

    Raises `UsageError` if there is no report, or one that cannot be read.
    """
    found = [path for folder in folders for path in _reports(folder)]
    if not found:
        raise UsageError(
            f"no report.json in {', '.join(map(str, folders))}: name the folders of runs, or of their parent"
        )
    runs = read(found)
    for run in runs:
        _write_run(run, out / run.address)
    for name, of_broker in itertools.groupby(runs, key=lambda run: run.broker):
        _write_broker(list(of_broker), out / name / "index.html")
    proofs = [path for folder in folders for path in sorted([folder, *folder.glob("*")]) if _proof(path).is_file()]
    for proof in proofs[-1:]:
        _copy(_proof(proof), _proof(out))
    for name, title in WRITTEN.items():
        body = html.markdown(paths.fixtures() / name / "README.md")
        _render("document.html.j2", out / f"{name}.html", title=title, body=body)
    catalogue = claims.load()
    tried = sorted({claim for run in runs for claim in run.words if run.tried(claim)})
    rows = {row.claim: row for run in runs for row in run.report.verdicts}
    _render("claims.html.j2", out / "claims.html", runs=runs, rows=[rows[name] for name in tried], catalogue=catalogue)
    written = WRITTEN | ({PROOF: "The suite on trial"} if proofs else {})
    return _render("site.html.j2", out / "index.html", runs=runs, causes=list(questions.MODELS), written=written)


def _render(template: str, path: pathlib.Path, **values: Any) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    model.write(html.environment().get_template(template).render(values), path)
    return path


def _write_broker(runs: Sequence[RunView], path: pathlib.Path) -> None:
    """Write the page of a broker: the answer first, then each of its runs."""
    found = sorted(
        (loss for run in reversed(runs) for loss in losses.losses(run)),
        key=lambda loss: (not loss.seen, loss.setting != losses.STOCK),
    )
    named = {part.partition("=")[0] for loss in found for part in loss.setting.split(", ")}
    meanings = losses.settings_of(runs[-1].report.run.adapter)
    _render(
        "broker.html.j2",
        path,
        title=runs[-1].report.run.title or runs[-1].report.run.adapter,
        runs=runs,
        losses=found,
        answers=losses.answers(found),
        sentences=[questions.sentence(run.report.judgement) for run in reversed(runs)],
        settings={name: meanings[name] for name in sorted(named & meanings.keys())},
        stock=losses.STOCK,
        problems=questions.known_problems,
        causes=list(questions.MODELS),
        asked=list(questions.QUESTIONS),
        histories=histories(runs),
    )


def _reports(folder: pathlib.Path) -> Iterable[pathlib.Path]:
    """Find the reports of a run, of runs in one folder, or of a site: a copy in a site comes before its original."""
    own = folder / "report.json"
    return (
        [own] if own.is_file() else [*sorted(folder.glob("*/*/*/report.json")), *sorted(folder.glob("*/report.json"))]
    )


def _proof(folder: pathlib.Path) -> pathlib.Path:
    return folder / f"{PROOF}.html"


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    if source.resolve() != target.resolve():
        shutil.copyfile(source, target)


def _write_run(run: RunView, folder: pathlib.Path) -> None:
    """Write the data, page and badges of one run; the page is that of this version of the suite."""
    folder.mkdir(parents=True, exist_ok=True)
    _copy(run.path, folder / "report.json")
    catalogue, report = claims.load(), run.report
    scripts, home = scenario.load(catalogue), f"../../index.html#{run.part}"
    html.write_html(report.judgement, catalogue, scripts, folder / "report.html", report.expectations, home)
    colour = _COLOURS.get(run.worst, _OTHER_COLOUR)
    endpoint = {"schemaVersion": 1, "label": "acknowledgements", "message": run.badge, "color": colour}
    model.write(json.dumps(endpoint) + "\n", folder / "badge.json")
    _render("badge.svg.j2", folder / "badge.svg", label="acknowledgements", message=run.badge, colour=colour)
