"""Judge the folder of a run. This is the only decider, and the only module that collects."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from conformance import records
from conformance.claims import Catalogue
from conformance.errors import JudgeError
from conformance.history import Op, Phase, message_id, parse_message
from conformance.judge import applicable, rules
from conformance.judge.anomalies.fates import ACCOUNT, COUNTED
from conformance.judge.input import buckets, folder
from conformance.judge.input.packing import Compacted, compact_all
from conformance.judge.plan import course, exposures, facts, groups, relations, timeline
from conformance.judge.plan.facts import TrialFacts
from conformance.judge.rows import ANSWERS, Course, Judgement, Verdict, VerdictRow, Witness
from conformance.judge.spark import cause, size_plans
from conformance.judge.tally import ClaimEvidence
from conformance.records import Checksum
from conformance.scenario import Scenario
from conformance.scenario.faults import Corrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from conformance.judge.spark import JudgeSession, StartingSession

Result = TypeVar("Result")

_OPS, _PHASES = tuple(Op), tuple(Phase)


def judge(
    run_dir: pathlib.Path,
    catalogue: Catalogue,
    scenarios: Mapping[str, Scenario],
    session: JudgeSession | StartingSession,
    *,
    untried: Mapping[str, str] | None = None,
    remembered: Remembered | None = None,
) -> Judgement:
    """Judge everything that was recorded in the folder of a run.

    `untried` gives the reason for each claim that no scenario tries. To judge a growing run again, pass the same
    `remembered` each time. A trial with an incomplete history is returned with `void` set. Without a valid trial, Spark
    is not started. The run is returned as incomplete if its folder is not what it recorded (`judge.input.folder`).

    Raises:
        HistoryError: `run.json`, or the record of a trial of a finished run, cannot be read.
        CatalogueError: A scenario names an anomaly or exposure that the tables do not define.
        JudgeError: Spark could not run the plan.
    """
    remembered = remembered or Remembered()
    found = folder.read(run_dir, remembered.checksum)
    exposures.check_names(rules.names_used(scenarios.values()))
    compacted = compact_all(found.trials, found.runs, remembered.checksum)

    def collected(new: Sequence[Compacted]) -> dict[str, TrialFacts]:
        size_plans(session.spark, sum(trial.events for trial in new))
        return beside(
            lambda: _facts(session, new, scenarios),
            lambda: remembered.courses.update(collect_courses(session.spark, new)),
        )

    known = remembered.facts_of(compacted, collected)
    evidence = ClaimEvidence(found.run, [trial.record for trial in compacted], known)
    rows = rules.rows(catalogue, scenarios, evidence, untried or {})
    rows = _with_timelines(session, rows, compacted, evidence.facts)
    return Judgement(
        run=found.run,
        rows=tuple(row for row in rows if not rules.is_self_check(row)),
        self_checks=tuple(row for row in rows if rules.is_self_check(row)),
        trials=tuple(evidence.trials),
        account=_account(evidence, catalogue, scenarios),
        damage=_damage(evidence, scenarios),
        courses=tuple(filter(None, (remembered.courses.get(trial.record.trial) for trial in compacted))),
    )


def _account(evidence: ClaimEvidence, catalogue: Catalogue, scenarios: Mapping[str, Scenario]) -> dict[str, int]:
    """Sum up where the confirmed messages of the subject's valid trials ended."""
    found = dict.fromkeys(ACCOUNT, 0)
    for trial in evidence.trials:
        if trial.arm == "subject" and not trial.void and trial.trial in evidence.facts:
            counts, script = evidence.facts[trial.trial].counts, scenarios.get(trial.scenario)
            lost = script is not None and applicable.gives_up(script, catalogue, evidence.run)
            unexplained = "given_up" if lost else "unexplained"
            for name in COUNTED:
                found[unexplained if name == "unexplained" else name] += int(counts.get(f"all_{name}") or 0)
    return found


def _damage(evidence: ClaimEvidence, scenarios: Mapping[str, Scenario]) -> dict[str, dict[str, int]]:
    """Count what the broker as configured did with each kind of damage, by `rows.ANSWERS`."""
    found: dict[str, dict[str, int]] = {}
    for trial in evidence.trials:
        script, facts = scenarios.get(trial.scenario), evidence.facts.get(trial.trial)
        how = next((fault.how for fault in script.faults if isinstance(fault, Corrupt)), "") if script else ""
        if how and facts and trial.arm == "subject" and not trial.void and facts.effective(Corrupt.name):
            answers = found.setdefault(how, dict.fromkeys(ANSWERS, 0))
            answers[facts.answer_to_damage] += 1
    return found


def beside(job: Callable[[], Result], other: Callable[[], object]) -> Result:
    """Return what the job returns. The other runs beside it: a plan of a few trials keeps one core busy."""
    pool = ThreadPoolExecutor(1)
    try:
        begun = pool.submit(other)
        done = job()
        begun.result()
        return done
    finally:
        pool.shutdown(wait=False)  # after Ctrl-C, the end of the JVM ends it


class Remembered:
    """The facts and courses of the trials that this process has judged, and the checksums of files.

    The facts of a trial depend on its own events only, so each trial is judged once; again if its events have changed.
    """

    def __init__(self) -> None:
        self.courses: dict[str, Course | None] = {}
        self._facts: dict[tuple[str, Checksum], TrialFacts | None] = {}
        self._checksums: dict[pathlib.Path, tuple[tuple[int, ...], Checksum]] = {}

    def facts_of(
        self, trials: Iterable[Compacted], collect: Callable[[list[Compacted]], Mapping[str, TrialFacts]]
    ) -> dict[str, TrialFacts]:
        """Return the facts of the trials that are not void, by id; `collect` returns those of the new ones."""
        keys = {each.record.trial: (each, self.checksum(each.parquet)) for each in trials if each.parquet is not None}
        if new := [each for name, (each, events) in keys.items() if (name, events) not in self._facts]:
            facts = collect(new)
            self._facts |= {(name := each.record.trial, keys[name][1]): facts.get(name) for each in new}
        known = {name: self._facts[name, events] for name, (_, events) in keys.items()}
        return {name: facts for name, facts in known.items() if facts is not None}

    def checksum(self, path: pathlib.Path) -> Checksum:
        """Return the checksum of a file, which is read again if its inode, size or time of change differs."""
        now = path.stat()
        key = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        if path not in self._checksums or self._checksums[path][0] != key:
            self._checksums[path] = (key, records.checksum(path))
        return self._checksums[path][1]


def _facts(
    session: JudgeSession | StartingSession, trials: Sequence[Compacted], scenarios: Mapping[str, Scenario]
) -> dict[str, TrialFacts]:
    """Return the facts of these trials; none of them is void."""
    whole: dict[str, list[Compacted]] = {}
    for trial in trials:
        whole.setdefault(trial.record.scenario, []).append(trial)
    used = {
        name: list(rules.names_used(item for item in scenarios.values() if item.id == name or item.standing))
        for name in whole
    }
    events = {name: sum(trial.events for trial in group) for name, group in whole.items()}
    found: dict[str, TrialFacts] = {}
    for group in groups.group(used, events):
        together = [trial for name in group.scenarios for trial in whole[name]]
        checks = [check for name in group.scenarios for check in used[name]]
        found |= collect_facts(session.spark, together, checks)
    return found


# No fast test can tell a change of the next two: they need Spark.
def collect_courses(
    spark: SparkSession, trials: Sequence[Compacted]
) -> dict[str, Course | None]:  # pragma: no mutate block
    """Return the course of every trial that is not void, by id, in one job; None if it has no message and no fault."""
    paths = {trial.record.trial: str(trial.parquet) for trial in trials if trial.parquet is not None}
    with buckets.fill_buckets(spark, trials, collect) as events:
        rows = collect(
            lambda: course.courses(spark, list(paths.values())) if events is None else course.courses_of(events)
        )
    found = course.from_rows(rows)
    return {trial: found.get(trial) for trial in paths}


def collect_facts(
    spark: SparkSession,
    trials: Sequence[Compacted],
    used: Iterable[relations.Check] = relations.EVERY,
    in_buckets_from: int = buckets.LARGE,
) -> dict[str, TrialFacts]:  # pragma: no mutate block
    """Return the facts of every trial that is not void, by id, in one job; `used` are the checks of its plan.

    So many events are read in buckets.
    """
    paths = [str(trial.parquet) for trial in trials if trial.parquet is not None]
    if not paths:
        return {}
    used, count = tuple(used), sum(trial.events for trial in trials)
    with buckets.fill_buckets(spark, trials, collect, in_buckets_from) as events:
        rows = collect(
            lambda: (
                relations.summary(spark, paths, count, used)
                if events is None
                else relations.count_anomalies(relations.messages_of(events, used, few=False), used)
            )
        )
    return facts.from_rows(rows)


def collect(plan: Callable[[], DataFrame]) -> list[dict[str, Any]]:
    """Return the rows of a plan; planning needs the JVM too, which may have died."""
    try:
        return [row.asDict() for row in plan().collect()]
    except Exception as error:
        raise JudgeError(
            f"Spark could not judge: {cause(error)}; `conformance judge RUN` judges the recording again"
        ) from error


def _with_timelines(
    session: JudgeSession | StartingSession,
    rows: Iterable[VerdictRow],
    trials: Sequence[Compacted],
    known: Mapping[str, TrialFacts],
) -> list[VerdictRow]:
    """Return the rows; each violated one has the timeline of its first witness."""
    found = list(rows)
    shown = {place: row.witnesses for place, row in enumerate(found) if row.verdict is Verdict.VIOLATED}
    firsts = {witnesses[0] for witnesses in shown.values() if witnesses}
    lines = _timelines(session.spark, firsts, trials, known) if firsts else {}
    for place, witnesses in shown.items():
        timelines = [tuple(lines.get((witness.trial, witness.message), ())) for witness in witnesses]
        pairs = zip(witnesses, timelines, strict=True)
        full = tuple(msgspec.structs.replace(witness, timeline=events) for witness, events in pairs)
        found[place] = msgspec.structs.replace(found[place], witnesses=full)
    return found


def _timelines(
    spark: SparkSession, firsts: Iterable[Witness], trials: Sequence[Compacted], known: Mapping[str, TrialFacts]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the timelines by trial and message; each has the faults and restarts of its trial."""
    wanted = [(first.trial, *key) for first in firsts if (key := parse_message(first.message))]
    paths = {trial.record.trial: str(trial.parquet) for trial in trials if trial.parquet is not None}
    chosen = sorted({paths[trial] for trial, _, _ in wanted})
    events = collect(lambda: relations.timeline(spark, chosen, wanted))
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for trial, producer, n in wanted:
        mine = [
            _event_to_dict(event, int(known[trial].counts["trial_started_at"]))
            for event in events
            if event["trial"] == trial and (event["n"] is None or (event["producer"], event["n"]) == (producer, n))
        ]
        found[trial, message_id(producer, n)] = timeline.cut(mine)
    return found


def _event_to_dict(event: Mapping[str, Any], started: int) -> dict[str, Any]:
    about = [event["fault"], event["detail"], f"count {event['count']}" if event["count"] is not None else None]
    return {
        "at_ms": round((event["at_ns"] - started) / 1e6, 3),
        "process": event["process"],
        "op": str(_OPS[event["op"]]),
        "phase": str(_PHASES[event["phase"]]),
        "epoch": event["epoch"],
        "detail": ", ".join(filter(None, about)),
    }
