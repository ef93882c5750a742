"""Judge trials of three messages at the start, so that the first real judgement finds warm code."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance import locks
from conformance.history import Ended, Op, Phase, Recorder, bare_header, close_history
from conformance.judge.input.packing import compact
from conformance.judge.plan.facts import TrialFacts
from conformance.judge.plan.relations import EVERY, FEW, Check
from conformance.judge.spark import size_plans
from conformance.judge.verdict import beside, collect_courses, collect_facts
from conformance.records import TrialRecord, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIAL = "warm-up"


def warm_up(spark: SparkSession, used: Sequence[Check] = EVERY) -> TrialFacts:
    """Run the plans of these checks and of courses on as many made-up trials as need an exchange.

    Return the facts of one trial.
    """
    with locks.scratch("warm") as place:
        folders = [place / str(number) for number in range(FEW + 1)]
        trials = [compact(folder, write(folder, 3, trial=f"{TRIAL}-{folder.name}")) for folder in folders]
        size_plans(spark, sum(trial.events for trial in trials))
        facts = beside(lambda: collect_facts(spark, trials, used), lambda: collect_courses(spark, trials))
        return facts[f"{TRIAL}-0"]


def write(
    folder: pathlib.Path, count: int, trial: str = TRIAL, scenario: str = TRIAL, arm: str = "subject"
) -> TrialRecord:
    """Write histories of `count` messages that a correct broker confirms, delivers and lets acknowledge."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {"queue": "q", "epoch": 1}
    publisher = _recorder(folder, trial, scenario, arm, "publisher-1")
    consumer = _recorder(folder, trial, scenario, arm, "consumer-1")
    for number in range(1, count + 1):
        about = {**plain, "message": f"p1:{number}"}
        publisher.record(Op.SEND, Phase.INVOKE, durable=True, **about)
        publisher.record(Op.SEND, Phase.OK, detail="accepted", **about)
        consumer.record(Op.DELIVER, Phase.OK, count=0, first_acquirer=True, intact=True, **about)
        consumer.record(Op.PROCESS, Phase.INVOKE, **about)
        consumer.record(Op.PROCESS, Phase.OK, **about)
        consumer.record(Op.ACK, Phase.INVOKE, **about)
        consumer.record(Op.ACK, Phase.OK, **about)
    consumer.record(Op.FAULT, Phase.FIRED, fault="kill", epoch=1)
    orchestrator = _recorder(folder, trial, scenario, arm, "orchestrator")
    orchestrator.record(Op.FAULT, Phase.EFFECTIVE, fault="kill", epoch=1)
    for epoch, process in ((2, "drain-1"), (3, "drain-2")):
        drain = _recorder(folder, trial, scenario, arm, process)
        drain.record(Op.DRAIN, Phase.INVOKE, queue="q", epoch=epoch)
        drain.record(Op.DEPTH, Phase.OK, queue="q", epoch=epoch, count=0)
        drain.record(Op.DRAIN, Phase.OK, queue="q", epoch=epoch, count=0, detail="silent")
        _close(drain, folder / f"{process}.jsonl")
    for recorder, process in ((publisher, "publisher-1"), (consumer, "consumer-1"), (orchestrator, "orchestrator")):
        _close(recorder, folder / f"{process}.jsonl")
    record = TrialRecord(
        trial=trial,
        scenario=scenario,
        arm=arm,
        control="" if arm == "subject" else "sync=false",
        index=1,
        seed=0,
        k=None,
        adapter="none",
        settings={},
    )
    save(record, folder / "trial.json")
    return record


def _recorder(folder: pathlib.Path, trial: str, scenario: str, arm: str, process: str) -> Recorder:
    header = bare_header(process, scenario=scenario, trial=trial, arm=arm)
    return Recorder(folder / f"{process}.jsonl", header)


def _close(recorder: Recorder, path: pathlib.Path) -> None:
    recorder.close()
    close_history(path, Ended.FINISHED)
