"""Do one job in a client process: connect a session, play the role of the step, record.

The order of every step is the meaning of the history: `invoke` is recorded before the session gets the operation, the
session flushes the recorder before bytes leave, and an answer is recorded when it was read.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pathlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from conformance.adapters.credentials import give, redact_passwords
from conformance.clients.job import BROKE_PROTOCOL, LIVENESS_FACTOR, Job, JobResult
from conformance.clients.management import DepthClient
from conformance.clients.roles.consumer import consume
from conformance.clients.roles.liars import CONSUMERS, PUBLISHERS
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.operations import Note, delivery_fields, next_received, noting
from conformance.clients.roles.publisher import publish
from conformance.clients.session import ANSWER_S, Disconnected, Refused, Session
from conformance.clients.trigger import ArmedCommand, ArmedFault
from conformance.errors import BrokenProtocolError, ClientError, ConformanceError, UnansweredError
from conformance.history import DELAYED, Op, Phase, Recorder, message_id
from conformance.processes import readable
from conformance.protocols import WIRES, describe
from conformance.protocols.jms.sessions.liars import LIARS
from conformance.protocols.jms.sessions.session import JmsSession
from conformance.scenario.script import Ask, Consume, ConsumerCrash, Drain, Publish

AskDepth = Callable[[str], int]
_RETRY_S = 0.002
_ASKER = 9
"""The producer number of answers. No publisher of a script has it."""

_SESSIONS: dict[tuple[str, str], Callable[[Job, Callable[[], None]], Session]] = {
    (name, kind): make
    for name in WIRES
    for kind, make in importlib.import_module(f"conformance.protocols.{name}.sessions").SESSIONS.items()
}
"""The session class by protocol and client. A job with a vendor's client has a `JmsSession`.

All are imported when the worker starts, because it forks a process for each job.
"""


def run_job(job: Job, handles: Sequence[int], control: int | None = None) -> JobResult:
    """Do one job in this process and return its result; errors of ours become `JobResult.error`.

    The recorder writes through if the fault kills this very process. A client that is to reach a broker that is
    starting tries again while it has recorded nothing: then it was not attached.
    """
    give(job.connection.secrets)
    crashes = isinstance(job.fault, ConsumerCrash)
    path = pathlib.Path(job.history)
    recorder = Recorder(path, job.header, write_through=crashes)
    for name in job.beside:
        recorder.beside(path.with_name(f"{name}.jsonl"), msgspec.structs.replace(job.header, process=name))
    until = time.monotonic() + job.connection.reaches_s
    try:
        while True:
            try:
                return _connected(job, recorder, handles, control)
            except (ClientError, Disconnected):
                if recorder.sequence or time.monotonic() > until:
                    raise
            _await_port(job, control, until)
    except (ConformanceError, Disconnected) as error:
        of_broker = isinstance(error, Disconnected) or error.of_broker
        ended = BROKE_PROTOCOL if isinstance(error, BrokenProtocolError) else "finished"
        why = redact_passwords(f"{job.header.process}: {error or type(error).__name__}", job.connection.access)
        return JobResult(error=why, of_broker=of_broker, ended=ended)
    finally:
        recorder.close()


def _connected(job: Job, recorder: Recorder, handles: Sequence[int], control: int | None) -> JobResult:
    session = connect(job, recorder.flush)
    if control is not None:
        session.watch(control)
    try:
        result = play(job, session, recorder, handles)
        result = msgspec.structs.replace(result, unfinished=result.unfinished or session.unfinished())
        lost = result.ended == "disconnected"
        return msgspec.structs.replace(result, lost_ns=time.monotonic_ns()) if lost else result
    finally:
        recorder.flush()
        with contextlib.suppress(*([Refused] if job.tolerances.cut_off else [])):  # said again while it closes
            session.close()


def _await_port(job: Job, control: int | None, until: float) -> None:
    """Wait until the port of the broker takes a connection; raise `SystemExit` if the harness hangs up.

    The kernel reports no event for a port that another process opens, so this asks again and again.
    """
    while time.monotonic() < until:
        if readable([] if control is None else [control], _RETRY_S):
            raise SystemExit("the harness is gone")
        with socket.socket() as probe:
            if probe.connect_ex((job.connection.host, job.connection.port)) == 0:
                return


def connect(job: Job, before_write: Callable[[], None]) -> Session:
    """Return an open session for the job; raise `ClientError` if there is no connection."""
    if job.connection.vendor is not None:
        return LIARS.get(job.liar, JmsSession)(job, before_write)
    make = _SESSIONS.get((job.connection.protocol, job.connection.client))
    if make is None:
        raise ClientError(f"there is no {job.connection.client} client for {job.connection.protocol}")
    return make(job, before_write)


def play(job: Job, session: Session, recorder: Recorder, descriptors: Sequence[int]) -> JobResult:
    """Do the step of the job. Raises `ClientError` for a step that this client or broker cannot do."""
    attached: Callable[[], object] = bool
    if job.tells_attached:
        attached, descriptors = functools.partial(os.write, descriptors[0], b"."), ()
    match job.work.step:
        case Publish() as step:
            publisher = PUBLISHERS.get(job.liar)
            return publish(job, step, session, recorder, _armed(job, recorder, descriptors), attached, publisher)
        case Consume() as step:
            lies_itself = job.connection.vendor is not None and job.liar in LIARS
            consumer = None if lies_itself else CONSUMERS.get(job.liar)  # over JMS a session of that name lies
            return consume(job, step, session, recorder, _armed(job, recorder, descriptors), attached, consumer)
        case Ask(question):
            return inquire(job, question, session, recorder)
        case Drain():
            return _emptied(job, session, recorder)


def _armed(job: Job, recorder: Recorder, descriptors: Sequence[int]) -> ArmedFault:
    armed: ArmedFault
    if job.fault is not None and job.within_s:
        armed = ArmedCommand(job.fault, recorder, descriptors, job.epoch, job.within_s)
    else:
        address = job.connection.addresses[0]
        armed = ArmedFault(job.fault, recorder, descriptors, job.epoch, job.header.seed, job.journal, address)
    armed.hears_broker = job.connection.vendor is None
    return armed


def _emptied(job: Job, session: Session, recorder: Recorder) -> JobResult:
    with _asking(job, session) as ask:
        return (collect if job.work.collects else drain)(job, session, recorder, ask)


@contextlib.contextmanager
def _asking(job: Job, session: Session) -> Iterator[AskDepth]:
    """Yield how the depth of a queue is found out: by the session itself if it can, else by a request to the broker."""
    if describe(job.connection.protocol).traits.queues_by_client:
        yield lambda queue: session.depth(queue) or 0
        return
    if job.work.depth is None:
        raise ClientError(f"the adapter declares no way to ask for the depth of {job.work.queue}")
    depths = DepthClient(job.work.depth, f"{job.header.trial}-{job.header.process}-depth")
    try:
        yield depths.ask
    finally:
        depths.close()


def drain(job: Job, session: Session, recorder: Recorder, ask: AskDepth) -> JobResult:
    """Receive and accept everything until silence, and until the broker reports a depth of 0.

    The queues of the trial come one after the other. Silence alone ends no drain: AMQP lets a broker answer a drain
    before its queue is empty. The drain is stuck if the depth stays above 0 for the liveness bound: that of the job, or
    ten times the longest wait for a message in this drain.
    """
    note = noting(job, recorder)
    note(Op.DRAIN, Phase.INVOKE)
    try:
        results = [_drained(job, session, note, ask)]
    except Refused:
        # RabbitMQ 3.10 answers the attach, and then ends the session: there is no such queue.
        if not (job.tolerances.absent and _is_absent(job.work.queue, ask)):
            raise
        note(Op.DRAIN, Phase.OK, count=0, detail="no such queue")
        return JobResult(depth=0)
    if job.work.more_queues and job.work.subscriber:
        session.close()  # a client id has one connection at a time
    for queue, probe in job.work.more_queues.items():
        header = msgspec.structs.replace(job.header, process=f"{job.header.process}-{queue}")
        work = msgspec.structs.replace(job.work, queue=queue, depth=probe, more_queues={})
        other = msgspec.structs.replace(job, work=work, header=header)
        results.append(_drained_beside(other, recorder, note, sum(result.depth or 0 for result in results)))
    received, depth = sum(result.count for result in results), sum(result.depth or 0 for result in results)
    left = DELAYED if job.tolerances.delayed else "stuck"
    phase, detail = (Phase.INFO, left) if depth else (Phase.OK, "silent")
    note(Op.DRAIN, phase, count=received, detail=detail)
    waited = sum(result.waited_s for result in results)
    return JobResult(ended=left if depth else "finished", count=received, depth=depth, waited_s=waited)


def _drained_beside(job: Job, recorder: Recorder, note: Note, elsewhere: int) -> JobResult:
    """Empty another queue of the trial, over a connection of its own."""
    session = connect(job, recorder.flush)
    try:
        with _asking(job, session) as ask:
            return _drained(job, session, note, ask, elsewhere)
    finally:
        session.close()


def _drained(job: Job, session: Session, note: Note, ask: AskDepth, elsewhere: int = 0) -> JobResult:
    """Empty one queue. The depths that are recorded include what is left `elsewhere`, in the queues before it."""
    try:
        session.attach_receiver(job.work.queue, job.work.prefetch, AckHeader.INDIVIDUAL)
    except UnansweredError:
        # A quorum queue of RabbitMQ that has no leader after a kill has messages, and answers no Basic.Consume.
        # A broker that was slow before is given more time elsewhere, so it is not accused here.
        if not (depth := ask(job.work.queue)) or job.tolerances.liveness_s > ANSWER_S:
            raise
        note(Op.DEPTH, Phase.OK, count=elsewhere + depth)
        return JobResult(depth=depth, waited_s=ANSWER_S)
    started = last = time.monotonic()
    received, working, silence, bound = 0, 0.0, job.tolerances.silence_s, job.tolerances.liveness_s
    while True:
        session.fetch()
        session.pump(max(last + silence - time.monotonic(), 0))
        got = _take_drained(job, session, note)
        now = time.monotonic()
        if got:
            bound = max(bound, LIVENESS_FACTOR * (now - last))
            received, last, silence, working = received + got, now, job.tolerances.silence_s, now - started
        elif now - last >= silence:
            depth = ask(job.work.queue)
            note(Op.DEPTH, Phase.OK, count=elsewhere + depth, detail=session.found or None)
            if not depth or time.monotonic() - last > bound:
                break
            silence = min(silence * 2, 2.0) + (now - last)
    return JobResult(count=received, depth=depth, waited_s=time.monotonic() - started - working)


def _is_absent(queue: str, ask: AskDepth) -> bool:
    """Whether the broker counts no message in a queue to which no receiver can attach; or knows no such queue."""
    try:
        return ask(queue) == 0
    except ClientError:
        return True


def _take_drained(job: Job, session: Session, note: Note, phase: Phase = Phase.OK, detail: str | None = None) -> int:
    got = 0
    while session.incoming:
        received = next_received(session, job)
        about = delivery_fields(received, job)
        passed = detail or job.work.selection(received.message)
        note(Op.DRAIN, phase, message=received.message, queue=job.work.queue, detail=passed, **about)
        session.acknowledge([received])
        got += 1
    if got:
        session.replenish(got)
    return got


def collect(job: Job, session: Session, recorder: Recorder, ask: AskDepth) -> JobResult:
    """Empty the dead-letter or expiry queue `job.work.collects`; raise `ClientError` if messages stay in it.

    Each message is a DRAIN of unknown outcome in the queue of the trial: it was neither delivered there nor lost.
    """
    session.attach_receiver(job.work.collects, job.work.prefetch, AckHeader.INDIVIDUAL)
    began = last = time.monotonic()
    found = 0
    while True:
        session.fetch()
        session.pump(max(last + job.tolerances.silence_s - time.monotonic(), 0))
        got = _take_drained(job, session, noting(job, recorder), Phase.INFO, f"in {job.work.collects}")
        found += got
        now = time.monotonic()
        if got:
            last = now
        elif now - last >= job.tolerances.silence_s:
            depth = ask(job.work.collects)
            if not depth:
                return JobResult(count=found, waited_s=now - began)
            if now - last > job.tolerances.liveness_s:
                raise ClientError(f"{job.work.collects} holds {depth} messages that a consumer was not given")


def inquire(job: Job, question: str, session: Session, recorder: Recorder) -> JobResult:
    """Ask a question; each part of its answer is an event, numbered like a message."""
    note = noting(job, recorder)
    note(Op.CONNECT, Phase.OK)
    answers = session.asked(question)
    for number, answer in enumerate(answers, 1):
        message = message_id(_ASKER, number)
        note(Op.ASK, Phase.INVOKE, message=message, detail=answer.call)
        note(Op.ASK, Phase.OK if answer.holds else Phase.FAIL, message=message, detail=answer.result)
    return JobResult(count=len(answers))
