"""Literal histories: every word below is one event or two, and the order of a list is the order of the clock."""

import itertools
import pathlib

import msgspec

from conformance import records
from conformance.history import DELAYED, SHUT, WAITS, Ended, Event, Op, Phase, Recorder, bare_header, close_history
from conformance.records import RunFile, RunRecord, TrialRecord

MS = 1_000_000
LINK_091 = 91
"""The link of this number carries AMQP 0-9-1, every other one AMQP 1.0."""

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


def case(applies, offends, *parts):
    """A history, how many messages an anomaly applies to in it, and how many offend."""
    return list(itertools.chain(*parts)), applies, offends


def exposure(counts, *parts):
    """A history, and how many of its messages an exposure counts."""
    return list(itertools.chain(*parts)), counts


def of(process, op, phase, message=None, **fields):
    """One event, as the process and the fields of it."""
    return [(process, {"op": op, "phase": phase, "queue": "q", "epoch": 1, "message": message, **fields})]


def _id(n):
    return n if isinstance(n, str) else f"p1:{n}"


def pause(ms):
    """Nothing happens for so long."""
    return [("", ms)]


def sent(*numbers, durable=True, tx=None, detail=None, epoch=1):
    about = {"durable": durable, "transaction": tx, "detail": detail, "epoch": epoch}
    return [e for n in numbers for e in of("publisher-1", Op.SEND, Phase.INVOKE, _id(n), **about)]


def confirmed(*numbers, tx=None, epoch=1):
    """Answered; inside a transaction that is provisional."""
    about = {"transaction": tx, "detail": "accepted", "epoch": epoch}
    return [e for n in numbers for e in of("publisher-1", Op.SEND, Phase.OK, _id(n), **about)]


def ranged(*numbers, phase=Phase.OK):
    """Answered together, by an answer that names the last."""
    about = {"first": numbers[0], "last": numbers[-1]}
    return [e for n in numbers for e in of("publisher-1", Op.SEND, phase, _id(n), **about)]


def immediate(*numbers):
    """Sent with Ack Immediately."""
    return sent(*numbers, detail="ack immediately")


def waited(n, unanswered):
    """The publish of this message has to wait for its window."""
    return of("publisher-1", Op.CONFIRM, Phase.INFO, _id(n), count=unanswered, detail=WAITS)


def shut(n, unanswered):
    """It has waited for the liveness bound although there was room."""
    return of("publisher-1", Op.CONFIRM, Phase.INFO, _id(n), count=unanswered, detail=SHUT)


def round_trip(ms=1, n="p9:1"):
    """A commit that is answered so long after it was asked for, less the millisecond of the event itself."""
    asked, answer = discharge(Op.COMMIT, "t1", by="publisher-9")
    put_in = [("publisher-9", event) for _, event in sent(n, tx="t1")]
    return [*put_in, asked, *pause(ms - 1), answer]


def offered(setting="ack_threshold=1", phase=Phase.FAIL):
    """The broker refuses to start with a setting, or takes it."""
    return [("orchestrator", {"op": Op.BROKER, "phase": phase, "epoch": 2, "detail": f"offered {setting}"})]


def ack_refused(n):
    return of("consumer-1", Op.ACK, Phase.FAIL, _id(n), detail="rejected")


def unasked(*numbers, durable=True):
    """Sent without asking for an answer."""
    return sent(*numbers, durable=durable, detail="no answer asked for")


def refused(n, word="rejected", tx=None):
    return of("publisher-1", Op.SEND, Phase.FAIL, _id(n), detail=word, transaction=tx)


def untrue(n):
    """A receipt that answers nothing, put down to the last send answered."""
    return of("publisher-1", Op.CONFIRM, Phase.FAIL, _id(n), detail="receipt twice")


def no_answer(n, why="disconnected"):
    return of("publisher-1", Op.SEND, Phase.INFO, _id(n), detail=why)


def kept(*numbers, durable=True):
    """Sent and confirmed."""
    return [*sent(*numbers, durable=durable), *confirmed(*numbers)]


def put(tx, *numbers):
    """Sent in a transaction, each with its provisional answer."""
    return [*discharge(Op.BEGIN, tx), *sent(*numbers, tx=tx), *confirmed(*numbers, tx=tx)]


def discharge(op, tx, answer=Phase.OK, by="publisher-1"):
    """Asked for, and answered unless `answer` is None: names a transaction and no message."""
    asked = of(by, op, Phase.INVOKE, transaction=tx)
    return [*asked, *of(by, op, answer, transaction=tx)] if answer else asked


def committed(tx, answer=Phase.OK, by="publisher-1"):
    return discharge(Op.COMMIT, tx, answer, by)


def rolled_back(tx, answer=Phase.OK, by="publisher-1"):
    return discharge(Op.ROLLBACK, tx, answer, by)


def answered(op, tx, by="publisher-1"):
    """The answer to a request to commit, or to roll back, that was recorded before."""
    return of(by, op, Phase.OK, transaction=tx)


def _stored(phase, about, *, fault=None, disk=1, epoch=1):
    """What was seen of one record at the disk, where queues have no names: of a message, or of a commit or rollback."""
    key = {"transaction": about} if str(about).startswith("t") else {"message": _id(about)}
    seen = {"op": Op.SYNC, "phase": phase, "epoch": epoch, "fault": fault, "detail": "pwrite64 journal"}
    return [(f"disk-{disk}", {**seen, **key})]


def wrote(*numbers, **where):
    """The record was written."""
    return [e for n in numbers for e in _stored(Phase.INVOKE, n, **where)]


def synced(*numbers, held=False, **where):
    """The first sync that covers it had returned; `held` by the fault before."""
    fault = "held_sync" if held else None
    return [e for n in numbers for e in _stored(Phase.OK, n, fault=fault, **where)]


def sync_failed(n, fault="failed_sync", **where):
    """The sync, or the write, of its record returned an error."""
    return _stored(Phase.FAIL, n, fault=fault, **where)


def hidden(how="io_uring"):
    """The broker uses something that the tracer cannot see."""
    return [("disk-1", {"op": Op.SYNC, "phase": Phase.INFO, "epoch": 1, "detail": how})]


def fired(fault, process="link-1"):
    """A fault that belongs to the link or the disk, fired and effective."""
    return [*of(process, Op.FAULT, Phase.FIRED, fault=fault), *of(process, Op.FAULT, Phase.EFFECTIVE, fault=fault)]


def halted(by="publisher-1"):
    """Every thread of the broker has stopped."""
    return fired("pause", by)


def resumed(by="publisher-1"):
    """The pause is over."""
    return of(by, Op.FAULT, Phase.HEALED, fault="pause")


def framed(link="to_broker"):
    """One frame that passed the link."""
    return [
        ("link-1", {"op": Op.FRAME, "phase": Phase.OK, "connection": 1, "link": link, "count": 300, "detail": "SEND"})
    ]


def limited(process, count):
    """Its publish window, or its prefetch limit."""
    return of(process, Op.CONNECT, Phase.OK, count=count)


def handed(n, *, consumer=1, **fields):
    seen = {"count": 0, "first_acquirer": True, "intact": True, **fields}
    return of(f"consumer-{consumer}", Op.DELIVER, Phase.OK, _id(n), **seen)


def began(n):
    return of("consumer-1", Op.PROCESS, Phase.INVOKE, _id(n))


def processed(n):
    return of("consumer-1", Op.PROCESS, Phase.OK, _id(n))


def ack_sent(*numbers, tx=None, consumer=1):
    return [e for n in numbers for e in of(f"consumer-{consumer}", Op.ACK, Phase.INVOKE, _id(n), transaction=tx)]


def acked_in(tx, *numbers):
    """Handed over, and acknowledged in a transaction: no acknowledgement of its own is answered."""
    return [*[e for n in numbers for e in handed(n)], *ack_sent(*numbers, tx=tx)]


def given_back(n, word="released"):
    """Refused by its consumer, as released, failed, undeliverable or rejected."""
    return of("consumer-1", Op.NACK, Phase.INVOKE, _id(n), detail=word)


def starved():
    """The consumer waited for the liveness bound in vain."""
    return of("consumer-1", Op.DELIVER, Phase.INFO, detail="nothing came")


def acked(*numbers):
    return [*ack_sent(*numbers), *[e for n in numbers for e in of("consumer-1", Op.ACK, Phase.OK, _id(n))]]


def took(n):
    """Handed over, processed, acknowledged and confirmed."""
    return [*handed(n), *processed(n), *acked(n)]


def killed(process="publisher-1"):
    return [*of(process, Op.FAULT, Phase.FIRED, fault="kill"), *took_effect("kill")]


def not_back(words="not recovered: it ended with status 1", phase=Phase.FAIL):
    """The start after a fault failed: the broker is to blame for it in `fail`, and maybe in `info`."""
    about = {"op": Op.BROKER, "epoch": 2}
    begun = {**about, "phase": Phase.INVOKE, "detail": "start"}
    return [("orchestrator", begun), ("orchestrator", {**about, "phase": phase, "detail": words})]


def unready():
    """It was not ready, and started from a copy of its data."""
    return not_back("not ready: it ended with status 1; a second broker started from a copy", Phase.INFO)


def crashed():
    return [*of("consumer-1", Op.FAULT, Phase.FIRED, fault="consumer_crash"), *took_effect("consumer_crash")]


def took_effect(fault):
    return of("orchestrator", Op.FAULT, Phase.EFFECTIVE, fault=fault)


def came(n, drain=1, *, epoch=2, **fields):
    seen = {"count": 1, "first_acquirer": False, "intact": True, **fields}
    return of(f"drain-{drain}", Op.DRAIN, Phase.OK, _id(n), epoch=epoch, **seen)


def silent(drain, *, epoch=2):
    return of(f"drain-{drain}", Op.DRAIN, Phase.OK, epoch=epoch, count=0, detail="silent")


def stuck(drain, *, depth=1, epoch=2):
    return [
        *of(f"drain-{drain}", Op.DEPTH, Phase.OK, epoch=epoch, count=depth),
        *of(f"drain-{drain}", Op.DRAIN, Phase.INFO, epoch=epoch, count=0, detail="stuck"),
    ]


def delayed(drain, *, epoch=2):
    """What is left waits for a redelivery delay that no drain waits for."""
    return of(f"drain-{drain}", Op.DRAIN, Phase.INFO, epoch=epoch, count=0, detail=DELAYED)


def set_aside(*numbers, queue="DLQ"):
    """Found in the dead-letter or expiry queue after a drain."""
    return [e for n in numbers for e in of("collector-1", Op.DRAIN, Phase.INFO, _id(n), epoch=2, detail=f"in {queue}")]


def settled(*numbers, epoch=2, **fields):
    """The first drain brings these, and both fall silent."""
    first = [e for n in numbers for e in came(n, epoch=epoch, **fields)]
    return [*first, *silent(1, epoch=epoch), *silent(2, epoch=epoch + 1)]


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


def write(folder: pathlib.Path, history, about: TrialRecord | None = None, ended=None, run=RUN.run):
    """Write a literal history as the files of one trial of a run; `ended` says it of single processes."""
    about = about or record()
    folder.mkdir(parents=True, exist_ok=True)
    by_process: dict[str, list] = {"orchestrator": []}
    clock = 0
    for process, fields in history:
        if process:
            clock += MS
            by_process.setdefault(process, []).append((clock, fields))
        else:
            clock += fields * MS
    for process, events in by_process.items():
        path = folder / f"{process}.jsonl"
        protocol = "amqp091" if process == f"link-{LINK_091}" else "amqp"
        header = bare_header(process, scenario=about.scenario, trial=about.trial, arm=about.arm)
        header = msgspec.structs.replace(header, run=run, seed=about.seed, protocol=protocol)
        recorder = Recorder(path, header)
        for sequence, (at_ns, fields) in enumerate(events):
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
