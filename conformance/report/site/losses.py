"""Which setting loses messages on a broker, and what to set instead.

Three sources answer it, and none of them is about one product: what was violated as the broker was configured; what is
known of its version (`fixtures/findings`, `fixtures/bugs`); and the controls of the run, which are the same product
with a setting that gives a promise up. Settings that a promise needs, and that no control has changed, come last.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Iterable, Iterator, Sequence

from conformance import claims, paths, scenario
from conformance.judge.rows import Verdict, VerdictRow
from conformance.report import phrases, questions
from conformance.report.questions import Problem
from conformance.report.site.runs import RunView

STOCK = "as configured"

_SEEN = "Seen to lose messages"
_KNOWN = "Known to lose messages, and not seen here"
_NEEDED = "Not tried here, and its promises need another value"


@dataclasses.dataclass(frozen=True)
class Loss:
    """One way in which a broker loses messages: with which setting, what was seen, the sentence, and what to set.

    `problems` are the findings and bugs that explain it, `command` plays it again. `seen` is empty if no run tried it.
    """

    run: RunView
    setting: str
    seen: str
    says: str
    remedy: str
    problems: tuple[Problem, ...] = ()
    command: str = ""


def losses(run: RunView) -> list[Loss]:
    """Return what loses messages on the broker of a run, the losses of the broker as it was configured first."""
    found = list(_violated(run))
    shown = [problem for loss in found for problem in loss.problems]
    found += _known(run, shown)
    found += _weakened(run)
    return [*found, *_untried(run, [loss.setting for loss in found])]


def answers(found: Iterable[Loss]) -> dict[str, list[str]]:
    """Return the settings that lose messages, by how sure that is: each under the first heading that it has."""
    groups: dict[str, list[str]] = {_SEEN: [], _KNOWN: [], _NEEDED: []}
    for loss in found:
        heading = _SEEN if loss.seen else _KNOWN if loss.problems else _NEEDED
        stock = f"{STOCK} ({loss.run.over}): {loss.seen or loss.says}"
        words = stock if loss.setting == STOCK else questions.listed(loss.setting.split(", "))
        if not any(words in group for group in groups.values()):
            groups[heading].append(words)
    return {heading: group for heading, group in groups.items() if group}


def settings_of(adapter: str) -> dict[str, str]:
    """Return what each setting means: in the words of the broker's own file if the suite has one, else of all."""
    return claims.load().settings | _own_settings(adapter)


@functools.cache
def _own_settings(adapter: str) -> dict[str, str]:
    file = paths.fixtures() / "brokers" / adapter / "broker.toml"
    tables = tomllib.loads(file.read_text("utf-8")).get("settings", {}) if file.is_file() else {}
    return {name: table["description"] for name, table in tables.items() if "description" in table}


def _violated(run: RunView) -> Iterator[Loss]:
    """Yield for each kind of fault the losses of the broker as it was configured, also those that it may have.

    They are counted among all faults in which the run looked for lost messages, as in the answer to the first question.
    """
    asked = [row for row in run.report.verdicts if _is_lost_or_gone(row.anomaly)]
    bad = [row for row in asked if row.verdict is Verdict.VIOLATED or row.failed_unpromised or _is_lost(row)]
    for fault in dict.fromkeys(row.fault for row in bad):
        rows = sorted((row for row in bad if row.fault == fault), key=_own_first)
        known = tuple(one for one in questions.known_problems(run.report.run) if any(map(one.is_shown_by, rows)))
        violated = any(row.verdict is Verdict.VIOLATED for row in rows)
        among = [row for row in asked if row.fault == fault and (violated or questions.is_unpromised(row))]
        seen = f"{_verb(rows)} in {questions.cell(among, questions.FIRST).seen}"
        yield Loss(
            run=run,
            setting=STOCK,
            seen=seen if violated else f"not promised: {rows[0].failed_unpromised or seen}",
            says=rows[0].says,
            remedy=_remedies(known),
            problems=known,
            command=phrases.command_to_repeat(rows[0], run.report.run),
        )


def _is_lost(row: VerdictRow) -> bool:
    return questions.is_unpromised(row) and questions.is_failed(row)


def _remedies(known: Iterable[Problem]) -> str:
    return " ".join(dict.fromkeys(one.remedy for one in known if one.remedy)) or "No setting is known that changes it."


def _known(run: RunView, shown: Iterable[Problem]) -> Iterator[Loss]:
    """Yield the losses that this version is known to have, and that the run has not shown: findings with their bugs."""
    scripts, shown = scenario.load(claims.load()), [*shown]
    together: dict[tuple[str, tuple[str, ...]], list[Problem]] = {}
    for problem in questions.known_problems(run.report.run):
        if problem not in shown and any(map(_is_lost_or_gone, problem.anomalies(scripts))):
            words = phrases.settings_words(problem.settings) or STOCK
            together.setdefault((words, problem.scenarios[:1]), []).append(problem)
    for (words, _), known in together.items():
        yield Loss(run, words, "", known[0].title, _remedies(known), tuple(known))


def _weakened(run: RunView) -> Iterator[Loss]:
    """Yield the settings that controls have changed, and in how many of their trials messages were lost."""
    rows: dict[str, list[VerdictRow]] = {}
    for row in run.report.verdicts:
        if row.control and row.control.failed and questions.is_loss(row.anomaly):
            rows.setdefault(row.control.label, []).append(row)
    for label in sorted(rows, key=lambda label: label.count(",")):
        names = [part.partition("=")[0] for part in label.split(", ")]
        if not {*names} <= run.report.run.settings.keys():
            continue  # a broker that lies, which has no such setting
        own = min(rows[label], key=_own_first)
        yield Loss(
            run=run,
            setting=label,
            seen=_lost(rows[label]),
            says=own.says,
            remedy=f"Keep {_values(run, names)}.",
            command=phrases.command_to_repeat(own, run.report.run, label.split(", ")),
        )


def _untried(run: RunView, tried: Iterable[str]) -> Iterator[Loss]:
    """Yield the settings that a promise about losses needs, and that no control of the run has changed."""
    known, own = claims.load().claims, run.report.run
    names = {part.partition("=")[0] for setting in tried for part in setting.split(", ")}
    rows = [
        row
        for row in run.report.verdicts
        if _is_lost_or_gone(row.anomaly) and row.verdict is not Verdict.NOT_APPLICABLE
    ]
    for row in sorted((row for row in rows if row.claim in known), key=_own_first):
        for name in known[row.claim].when:
            may = own.weakens is None or name in own.weakens
            if own.settings.get(name) is True and may and name not in names:
                names.add(name)
                yield Loss(run, f"{name}=false", "", row.says, f"Keep {_values(run, [name])}.")


def _is_lost_or_gone(anomaly: str) -> bool:
    return questions.noun_of(anomaly) in (questions.LOST, "gone")


def _own_first(row: VerdictRow) -> tuple[bool, bool, bool]:
    """Order rows: those that are judged, by a document, and that of the vendor."""
    return row.verdict is Verdict.NOT_APPLICABLE, row.document == claims.SUITE, row.scope != claims.Scope.PROFILE


def _values(run: RunView, names: Iterable[str]) -> str:
    return phrases.settings_words({name: run.report.run.settings[name] for name in names})


def _verb(rows: Iterable[VerdictRow]) -> str:
    stored = any(row.anomaly not in questions.NOT_STORED for row in rows)
    return "lost" if stored else "confirmed before they were stored"


def _lost(rows: Sequence[VerdictRow]) -> str:
    """`lost in 20 of 20 trials if the broker is killed`: each scenario has one control, however many its claims."""
    sums: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        if row.control:
            cause = next(cause for cause, faults in questions.MODELS.items() if (row.fault or "none") in faults)
            sums.setdefault(cause, {})[row.scenario] = (row.control.failed, row.control.trials)
    parts = [
        f"{sum(failed for failed, _ in each.values())} of {sum(every for _, every in each.values())} trials"
        f"{'' if cause == next(iter(questions.MODELS)) else f' if {cause}'}"
        for cause, each in sums.items()
    ]
    return f"{_verb(rows)} in {questions.listed(parts)}"
