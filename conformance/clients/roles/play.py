"""Play a role in a client process, over any protocol: publish, consume, drain. Events are recorded here and below.

The order of every step is the meaning of the history: `invoke` is recorded before the session is told, the session
flushes the recorder before bytes leave, and an answer is recorded when it was read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from conformance.clients.depth import DepthGauge
from conformance.clients.roles.consumer import consume
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.operations import next_received, seen
from conformance.clients.roles.publisher import publish
from conformance.clients.session import Session
from conformance.clients.workers.job import LIVENESS_FACTOR, Job, JobResult
from conformance.clients.workers.trigger import ArmedCommand, ArmedFault
from conformance.errors import ClientError
from conformance.history import DELAYED, Op, Phase, Recorder, message_id
from conformance.scenario.script import Ask, Consume, Drain, Publish

AskDepth = Callable[[str], int]
_ASKER = 9
"""The producer number of answers. No publisher of a script has it."""


def drain(job: Job, session: Session, recorder: Recorder, ask: AskDepth) -> JobResult:
    """Receive and accept everything until silence, and until the broker itself says that nothing is left.

    An AMQP drain may be answered before the queue is empty. So silence does not end a drain while the broker's own
    depth is above 0, until it stayed so for the liveness bound. That is the bound of the job, or ten times the longest
    wait for a message in this drain, if that is longer.
    """
    recorder.record(Op.DRAIN, Phase.INVOKE, queue=job.queue, epoch=job.epoch)
    session.attach_receiver(job.queue, job.prefetch, AckHeader.INDIVIDUAL)
    started = last = time.monotonic()
    received, working, silence, bound = 0, 0.0, job.silence_s, job.liveness_s
    while True:
        session.fetch()
        session.pump(max(last + silence - time.monotonic(), 0))
        got = _take_drained(job, session, recorder)
        now = time.monotonic()
        if got:
            bound = max(bound, LIVENESS_FACTOR * (now - last))
            received, last, silence, working = received + got, now, job.silence_s, now - started
        elif now - last >= silence:
            depth = ask(job.queue)
            recorder.record(Op.DEPTH, Phase.OK, queue=job.queue, epoch=job.epoch, count=depth)
            if not depth or time.monotonic() - last > bound:
                break
            silence = min(silence * 2, 2.0) + (now - last)
    left = DELAYED if job.delayed else "stuck"
    ended = left if depth else "finished"
    phase, detail = (Phase.INFO, left) if depth else (Phase.OK, "silent")
    recorder.record(Op.DRAIN, phase, queue=job.queue, epoch=job.epoch, count=received, detail=detail)
    return JobResult(ended=ended, count=received, depth=depth, waited_s=time.monotonic() - started - working)


def _take_drained(
    job: Job, session: Session, recorder: Recorder, phase: Phase = Phase.OK, detail: str | None = None
) -> int:
    got = 0
    while session.incoming:
        received = next_received(session, job)
        about = {"queue": job.queue, "message": received.message, "epoch": job.epoch, "detail": detail}
        recorder.record(Op.DRAIN, phase, **about, **seen(received, job))
        session.acknowledge([received])
        got += 1
    if got:
        session.replenish(got)
    return got


def collect(job: Job, session: Session, recorder: Recorder, ask: AskDepth) -> JobResult:
    """Empty the dead-letter or expiry queue `job.collects`; raise `ClientError` if messages stay in it.

    Each message is a DRAIN of unknown outcome in the queue of the trial: it was not delivered there, and is not lost.
    """
    session.attach_receiver(job.collects, job.prefetch, AckHeader.INDIVIDUAL)
    began = last = time.monotonic()
    found = 0
    while True:
        session.fetch()
        session.pump(max(last + job.silence_s - time.monotonic(), 0))
        got = _take_drained(job, session, recorder, Phase.INFO, f"in {job.collects}")
        found += got
        now = time.monotonic()
        if got:
            last = now
        elif now - last >= job.silence_s:
            depth = ask(job.collects)
            if not depth:
                return JobResult(count=found, waited_s=now - began)
            if now - last > job.liveness_s:
                raise ClientError(f"{job.collects} holds {depth} messages that a consumer was not given")


def inquire(job: Job, question: str, session: Session, recorder: Recorder) -> JobResult:
    """Ask a vendor's client a question; each part of its answer is an event of its own, numbered like a message."""
    recorder.record(Op.CONNECT, Phase.OK, queue=job.queue, epoch=job.epoch)
    answers = session.asked(question)  # type: ignore[attr-defined]
    for number, answer in enumerate(answers, 1):
        about = {"queue": job.queue, "message": message_id(_ASKER, number), "epoch": job.epoch}
        recorder.record(Op.ASK, Phase.INVOKE, **about, detail=answer.asked)
        recorder.record(Op.ASK, Phase.OK if answer.so else Phase.FAIL, **about, detail=answer.said)
    return JobResult(count=len(answers))


def play(job: Job, session: Session, recorder: Recorder, descriptors: Sequence[int]) -> JobResult:
    """Do the step of the job. Raises `ClientError` for a step that this client or broker cannot do."""
    match job.step:
        case Publish() as step:
            return publish(job, step, session, recorder, _armed(job, recorder, descriptors))
        case Consume() as step if job.tells_attached:
            attached = lambda: os.write(descriptors[0], b".")  # noqa: E731
            return consume(job, step, session, recorder, _armed(job, recorder, ()), attached)
        case Consume() as step:
            return consume(job, step, session, recorder, _armed(job, recorder, descriptors))
        case Ask(question):
            return inquire(job, question, session, recorder)
        case Drain():
            return _emptied(job, session, recorder)


def _emptied(job: Job, session: Session, recorder: Recorder) -> JobResult:
    if job.depth is None:
        raise ClientError(f"the adapter declares no way to ask for the depth of {job.queue}")
    gauge = DepthGauge(job.depth, f"{job.header.trial}-{job.header.process}-depth")
    try:
        return (collect if job.collects else drain)(job, session, recorder, gauge.ask)
    finally:
        gauge.close()


def _armed(job: Job, recorder: Recorder, descriptors: Sequence[int]) -> ArmedFault:
    armed: ArmedFault
    if job.fault is not None and job.within_s:
        armed = ArmedCommand(job.fault, recorder, descriptors, job.epoch, job.within_s)
    else:
        armed = ArmedFault(job.fault, recorder, descriptors, job.epoch, job.header.seed)
    armed.hears_broker = job.vendor is None
    return armed
