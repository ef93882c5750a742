"""Gather everything about one trial for a bundle: the folder of the run, and the answer of the judge."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

import msgspec

from conformance import adapters, claims, judge, records, scenario
from conformance.adapters import Adapter, BrokerRequest
from conformance.claims import Catalogue, Value
from conformance.errors import ConformanceError, HistoryError, UsageError
from conformance.followup import replay
from conformance.followup.trial_anomalies import TrialAnomaly, offences
from conformance.followup.upgrade import runs
from conformance.history import Event, Op, read
from conformance.judge.anomalies import ANOMALIES
from conformance.judge.plan import timeline
from conformance.judge.rows import Judgement, Verdict, VerdictRow
from conformance.judge.spark import JudgeSession
from conformance.protocols import REPRODUCERS
from conformance.records import RunRecord, TrialRecord
from conformance.report import model
from conformance.run import artifacts
from conformance.run.trial.evidence import FILE, Kept
from conformance.scenario import Scenario

MESSAGES = 10
"""Messages of one anomaly that get a timeline."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One anomaly of the trial, and the rows of the claims that it decides."""

    seen: TrialAnomaly
    rows: tuple[VerdictRow, ...]

    @property
    def says(self) -> str:
        """The first sentence about the anomaly in the judge's table."""
        return " ".join(ANOMALIES[self.seen.anomaly].sentence.split("\n\n")[0].split())


@dataclasses.dataclass(frozen=True)
class BundleSource:
    """One trial.

    `script` has the recorded steps. It is None if this version of the suite has no scenario of that name, or if an
    earlier version recorded the trial without its steps as data. `evidence` and `broker`, the broker's folder, are None
    if they are gone. `adapter` is None if the broker is unknown here.
    """

    folder: pathlib.Path
    run: RunRecord
    record: TrialRecord
    catalogue: Catalogue
    script: Scenario | None
    adapter: Adapter | None
    events: tuple[tuple[str, Event], ...]
    findings: tuple[Finding, ...]
    evidence: Kept | None
    broker: pathlib.Path | None

    @property
    def place(self) -> pathlib.Path:
        return self.folder / "trials" / self.record.trial

    @property
    def queue(self) -> str:
        return next((event.queue for _, event in self.events if event.queue), "orders")

    def timeline(self, message: str) -> list[dict[str, object]]:
        """Return the events of a message and its transaction, and the faults, starts and drains of its trial."""
        transactions = {event.transaction for _, event in self.events if event.message == message} - {None}
        began = self.events[0][1].at_ns if self.events else 0
        return timeline.cut(
            [
                _event_fields(process, event, began)
                for process, event in self.events
                if event.message == message
                or event.op in (Op.FAULT, Op.BROKER)
                or (event.message is None and (event.op is Op.DRAIN or event.transaction in transactions))
            ]
        )


def gather(
    words: str,
    spark: JudgeSession | None = None,
    *,
    trust: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> BundleSource:
    """Read the trial that `RUN#TRIAL` names; `spark` is a session that is open already. `note` gets a line about it.

    Raises:
        UsageError: The words name no run, or no trial of it (with the closest), or the run names code of its own and
            is not trusted.
        HistoryError: The folder holds what no run writes, such as a link.
        JudgeError: Spark could not judge.
    """
    folder, record, run = _named(words)
    if not trust:
        artifacts.check_trust(folder, replayed=False)
    if run.vendor:
        raise UsageError(
            f"{words}: a bundle's script uses {' or '.join(REPRODUCERS).upper()} directly, and this trial used "
            f"{run.client}; `conformance replay` repeats it, and fixtures/findings has scripts for such clients",
            code="bundle-of-client",
        )
    catalogue = claims.load()
    scenarios = scenario.load(catalogue)
    script = scenarios.get(record.scenario)
    if run.protocol not in REPRODUCERS:
        raise HistoryError(
            f"{folder / 'run.json'}: protocol {run.protocol!r}: a bundle knows {' and '.join(REPRODUCERS)}"
        )
    note("reading the trial and judging it again; Spark takes most of the time")
    evidence, broker = _evidence(folder, record)
    return BundleSource(
        folder=folder,
        run=run,
        record=record,
        catalogue=catalogue,
        script=_recorded(script, record),
        adapter=_adapter(folder, run, record),
        events=tuple(_events(folder / "trials" / record.trial)),
        findings=_findings(folder, run, record, script, catalogue, spark) if script else (),
        evidence=evidence,
        broker=broker,
    )


def _recorded(script: Scenario | None, record: TrialRecord) -> Scenario | None:
    """Return the scenario with the script that was recorded; None if either is not known."""
    if script is None or record.steps is None:
        return None
    return dataclasses.replace(script, steps=record.steps, client=record.client, queue=tuple(record.queue.items()))


def _named(words: str) -> tuple[pathlib.Path, TrialRecord, RunRecord]:
    run_folder, mark, name = words.rpartition("#")
    if not mark:
        folder = pathlib.Path(words)
        found = replay.read_run(folder)[1] if (folder / "run.json").is_file() else []
        hint = f", such as {words}#{found[0].trial}" if found else ""
        raise UsageError(f"{words}: expected RUN#TRIAL{hint}", code="bad-trial", word=words)
    run, found = replay.read_run(pathlib.Path(run_folder))
    record = next((each for each in found if each.trial == name), None)
    if record is None:
        raise UsageError.unknown("trial", name, [each.trial for each in found], of=run_folder)
    return pathlib.Path(run_folder), record, run


def _adapter(folder: pathlib.Path, run: RunRecord, record: TrialRecord) -> Adapter | None:
    """Open the broker of this trial; a liar is always the reference broker. None if the broker is unknown here."""

    def opened(part: pathlib.Path, version: str, changed: Mapping[str, Value]) -> Adapter:
        spec = artifacts.spec_of_then(part, run, version)
        access = artifacts.kept_access(folder)
        return adapters.open_broker(BrokerRequest(spec, overrides=changed, access=access)).adapter

    try:
        if record.adapter == run.adapter:
            return runs.reopen(folder, run.version, record.settings, opened)
        if record.adapter in adapters.names():
            return adapters.open_broker(BrokerRequest(record.adapter, overrides=record.settings)).adapter
    except UsageError:
        pass
    return None


def _evidence(folder: pathlib.Path, record: TrialRecord) -> tuple[Kept | None, pathlib.Path | None]:
    """Read `evidence.json`, and find the broker's folder in the part of the run that recorded the trial."""
    try:
        kept = records.read(folder / "trials" / record.trial / FILE, Kept)
    except HistoryError:
        return None, None
    recorded = _run_of(folder / "trials" / record.trial)
    for part in records.parts(folder):
        broker = records.inside(part, f"brokers/{kept.broker}")
        if broker.is_dir() and (part == folder or _id_of(part) == recorded):
            return kept, broker
    return kept, None


def _run_of(place: pathlib.Path) -> str:
    for path in sorted(place.glob("*.jsonl")):
        with path.open("rb") as stream:
            return str(msgspec.json.decode(stream.readline()).get("run", ""))
    return ""


def _id_of(part: pathlib.Path) -> str:
    try:
        return records.read(part / "run.json", RunRecord).run
    except HistoryError:
        return ""


def _events(place: pathlib.Path) -> list[tuple[str, Event]]:
    """Return every event of the trial with its process, by time; an incomplete history is left out."""
    found = []
    for path in sorted(place.glob("*.jsonl")):
        try:
            found += [(path.stem, event) for event in read(path).events]
        except HistoryError:
            continue
    return sorted(found, key=lambda each: (each[1].at_ns, each[0], each[1].sequence))


def _event_fields(process: str, event: Event, began: int) -> dict[str, object]:
    about = [event.fault, event.detail, f"count {event.count}" if event.count is not None else None]
    return {
        "at_ms": round((event.at_ns - began) / 1e6, 3),
        "process": process,
        "op": str(event.op),
        "phase": str(event.phase),
        "epoch": event.epoch,
        "detail": ", ".join(filter(None, about)),
    }


def _findings(
    folder: pathlib.Path,
    run: RunRecord,
    record: TrialRecord,
    script: Scenario,
    catalogue: Catalogue,
    spark: JudgeSession | None,
) -> tuple[Finding, ...]:
    """Let the judge find the anomalies of the trial; rows come from the run's report if it has one."""
    rows = _reported(folder, run)
    if spark is None:
        starting = judge.start_in_background()
        try:
            return _findings(folder, run, record, script, catalogue, starting.result())
        finally:
            starting.stop()
    if rows is None:
        rows = _judged(folder, catalogue, spark).rows
    seen = offences(folder, [record], script, spark).get(record.trial, {})
    found = []
    for name, each in seen.items():
        deciding = tuple(
            row
            for row in rows
            if row.scenario == script.id
            and row.claim in script.decides
            and script.decides[row.claim].anomaly == name
            and catalogue.claims[row.claim].judged
            and row.verdict not in (Verdict.NOT_APPLICABLE, Verdict.NOT_TRIED)
        )
        if each.count and deciding and record.arm == "subject":
            found.append(Finding(each, deciding))
    return tuple(found)


def _reported(folder: pathlib.Path, run: RunRecord) -> tuple[VerdictRow, ...] | None:
    try:
        report = model.read_json(folder / "report.json")
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    return report.verdicts if report.run.run == run.run and report.run.seconds == run.seconds else None


def _judged(folder: pathlib.Path, catalogue: Catalogue, spark: JudgeSession) -> Judgement:
    try:
        return judge.judge(folder, catalogue, scenario.load(catalogue), spark, untried=catalogue.untried)
    except ConformanceError as error:
        raise HistoryError(f"{folder} cannot be judged: {error}") from error


def frames(source: BundleSource) -> list[dict[str, object]]:
    """Return the recorded frames, if the trial went through the link proxy."""
    began = source.events[0][1].at_ns if source.events else 0
    return [
        {
            **_event_fields(process, event, began),
            "connection": event.connection,
            "direction": event.link,
            "bytes": event.count,
            "delivery": event.delivery,
            "first": event.first,
            "last": event.last,
        }
        for process, event in source.events
        if event.op is Op.FRAME
    ]
