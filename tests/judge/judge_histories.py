"""Write literal histories (`judge_words`) as the folders of trials and of a run; find messages with the judge's plan."""

import pathlib

import msgspec
from judge_words import LINK_091, history

from conformance import records
from conformance.history import Ended, Event, Recorder, bare_header, close_history
from conformance.judge.anomalies.fates import SENT, TAKEN, Seen
from conformance.judge.input.packing import SPARK_SCHEMA, compact_all
from conformance.judge.plan import relations
from conformance.judge.spark import read_parquet, size_plans
from conformance.records import RunFile, RunRecord, TrialRecord

MS = 1_000_000

RUN = RunRecord(
    run="r",
    started="2026-11-21T10:00:00+00:00",
    command="conformance run --adapter reference --seed 7",
    seed=7,
    adapter="reference",
    version="1",
    launcher="native",
    protocol="amqp",
    client="proton",
    title="the reference broker",
    profiles=("artemis", "ems"),
    capabilities=(
        "ack_confirmed",
        "confirm_means_stored",
        "cumulative_ack",
        "durable_queues",
        "individual_ack",
        "queues",
        "send_confirmed",
    ),
    settings={
        "journal_buffer_ms": 3,
        "persistence": True,
        "sync_non_transactional": True,
        "sync_acknowledgements": True,
        "data_sync": True,
    },
    absent=(),
    changed={},
    deviations={},
    versions={},
    selected=(),
    required=(),
    finished=True,
)


CLEAN = "kept 1 2 3, sent 4, killed, no_answer 4, settled 1 2 3"
LOSSY = "kept 1 2 3, killed, settled 1"


def record(trial="t", scenario="s", arm="subject", control="", index=1, **fields):
    return TrialRecord(
        trial=trial,
        scenario=scenario,
        arm=arm,
        control=control,
        index=index,
        seed=1,
        k=None,
        adapter="reference",
        settings={},
        **fields,
    )


def write(folder: pathlib.Path, events, about: TrialRecord | None = None, ended=None, run=RUN.run):
    """Write a literal history, or its words, as the files of one trial of a run; `ended` is by process."""
    events = history(events) if isinstance(events, str) else events
    about = about or record()
    folder.mkdir(parents=True, exist_ok=True)
    by_process: dict[str, list] = {"orchestrator": []}
    clock = 0
    for process, fields in events:
        if process:
            clock += MS
            by_process.setdefault(process, []).append((clock, fields))
        else:
            clock += fields * MS
    for process, recorded in by_process.items():
        path = folder / f"{process}.jsonl"
        protocol = "amqp091" if process == f"link-{LINK_091}" else "amqp"
        header = bare_header(process, scenario=about.scenario, trial=about.trial, arm=about.arm)
        header = msgspec.structs.replace(header, run=run, seed=about.seed, protocol=protocol)
        recorder = Recorder(path, header)
        for sequence, (at_ns, fields) in enumerate(recorded):
            recorder.append(Event(sequence=sequence, at_ns=at_ns, **fields))
        recorder.close()
        close_history(path, (ended or {}).get(process, Ended.FINISHED))
    records.save(about, folder / "trial.json")
    return about


def close(folder: pathlib.Path, run: RunRecord = RUN):
    """Write the `run.json` of a run that recorded just what lies in the folder."""
    places = sorted((folder / "trials").glob("*"))
    whole = RunFile(
        **msgspec.structs.asdict(run),
        plan=tuple(records.read(place / "trial.json", TrialRecord).planned for place in places),
        checksums={
            place.name: {path.name: records.checksum(path) for path in records.evidence(place)} for place in places
        },
    )
    records.save(whole, folder / "run.json")


def fates_met(spark, folder, histories):
    """The rows of `SENT` and `TAKEN` and the observation of each message, by the name of its history and its id."""
    trials = []
    for place, (name, events) in enumerate(histories.items()):
        trials.append((folder / str(place), write(folder / str(place), events, record(trial=name, scenario="s"))))
    packed = compact_all(trials)
    size_plans(spark, sum(each.events for each in packed))
    events = read_parquet(spark, [str(each.parquet) for each in packed], SPARK_SCHEMA).repartition(2, "trial")
    more = ["sent_as", "taken_as", "fate_at"]
    rows = relations.messages_of(events, [("lost", "sends")], more, few=True).where("is_message")
    return {
        (row["trial"], f"p{row['producer']}:{row['n']}"): (
            SENT[row["sent_as"]],
            TAKEN[row["taken_as"]],
            Seen((row["fate_at"] - 1) % len(Seen)),
        )
        for row in rows.select("trial", "producer", "n", *more).collect()
    }


def offending(spark, trials, names):
    """Return `(anomaly, trial, producer, n)` of every message that shows one of these anomalies."""
    used = [(name, "received") for name in names]
    failing = relations._exploded(relations.checks(used)[0])["failing"]
    paths = [str(trial.parquet) for trial in trials]
    messages = relations.messages(spark, paths, sum(trial.events for trial in trials), used)
    shown = messages.selectExpr(f"{failing} AS failing", "trial", "producer", "n").where("failing <> ''")
    return [tuple(row) for row in shown.collect()]
