"""Shared by the roles: waiting during a pause, operations with an answer, and the description of deliveries."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from conformance.clients.job import Job
from conformance.clients.session import OperationAnswer, Received, Session
from conformance.clients.trigger import ArmedFault
from conformance.history import Header, Op, Phase, Recorder, is_anothers, is_intact
from conformance.scenario.script import Publish

Note = Callable[..., int]


def noting(job: Job, recorder: Recorder) -> Note:
    """Return `Recorder.record` for events in the epoch of a job, and in its queue unless it sends to several.

    A send of which each queue gets a copy is recorded in every queue.
    """
    if not (job.work.more_queues and isinstance(job.work.step, Publish)):
        return functools.partial(recorder.record, queue=job.work.queue, epoch=job.epoch)

    def note(op: Op, phase: Phase, *, message: str | None = None, **fields: Any) -> int:
        queues = job.work.queues if job.dialect.copied and message else [job.work.queue_of(message or "")]
        times = [recorder.record(op, phase, message=message, queue=each, epoch=job.epoch, **fields) for each in queues]
        return times[0]

    return note


def noting_receivers(job: Job, recorder: Recorder) -> list[Note]:
    """Return `Recorder.record` for the events of each receiver: each has its own history, and the queues in turn."""
    return [
        functools.partial(each.record, queue=job.work.queues[place % len(job.work.queues)], epoch=job.epoch)
        for place, each in enumerate(recorder.histories)
    ]


def pump(session: Session, armed: ArmedFault, timeout_s: float) -> None:
    """Do one round of I/O, at most until the end of a pause, and count what it has reached."""
    armed.tick()
    session.pump(armed.left_s(timeout_s))
    while session.reached:
        armed.count(session.reached.popleft())
    armed.tick()


def trial_of(header: Header) -> str:
    """Return what the bodies of one trial have in common, in no other trial of this or an earlier run."""
    return f"{header.run} {header.trial}" if header.trial else ""


def next_received(session: Session, job: Job) -> Received:
    """Return the next delivery. A message of another trial gets an id that no producer of this trial has.

    Counter-example: a void trial leaves p1:17 in an existing queue of a user. The next trial sends a p1:17 of its own,
    gets both, and would accuse the broker of a duplicate.
    """
    received = session.incoming.popleft()
    if is_anothers(received.body, trial_of(job.header)):
        received.message = f"{received.message} of another trial"
    return received


def next_answer(session: Session, armed: ArmedFault, deadline: float) -> OperationAnswer | None:
    """Return the next answer to an operation other than a send; None after `deadline` (monotonic), without pauses."""
    while not session.answers:
        left = deadline - time.monotonic()
        if left <= 0 and not armed.paused:
            return None
        began, paused = time.monotonic(), armed.paused
        pump(session, armed, max(left, 0.01))
        if paused:
            deadline += time.monotonic() - began
    return session.answers.popleft()


class Operations:
    """Begin, commit and rollback: recorded before they leave, and again with their answer or its absence."""

    def __init__(self, job: Job, session: Session, note: Note, armed: ArmedFault) -> None:
        self._job, self._session, self._note, self._armed = job, session, note, armed
        self._open: tuple[Op, str] | None = None

    def run(self, op: Op, name: str, more: Callable[[], bool] = lambda: False) -> bool:
        """Ask, and wait for the answer within the liveness bound; return whether it came.

        A commit fires what is due when its request has left, and again when its answer was read. `more` says that
        answers to sends of this transaction are still missing: it counts as answered when they were read too.
        """
        invoked = self._record(op, Phase.INVOKE, name)
        self._open = (op, name)
        {Op.BEGIN: self._session.begin, Op.COMMIT: self._session.commit, Op.ROLLBACK: self._session.rollback}[op](name)
        if op is Op.COMMIT:
            self._armed.count("commit_written")
            if self._armed.due and not self._armed.fired:
                self._session.pump(0)
                self._armed.fire_if_due()
        deadline = time.monotonic() + self._job.tolerances.liveness_s
        answer = next_answer(self._session, self._armed, deadline)
        while answer is not None and more():
            left = deadline - time.monotonic()
            if left <= 0 and not self._armed.paused:
                answer = None
            else:
                pump(self._session, self._armed, max(left, 0.01))
        if answer is None:
            self._give_up("unanswered")
            return False
        self._armed.check_answer(invoked)
        self._record(op, self._armed.phase_now(answer.phase), name, answer.detail)
        self._open = None
        if op is Op.COMMIT:
            self._armed.answered("commit_written", invoked)
            self._armed.count("committed")
            self._armed.fire_if_due()
        return True

    def disconnected(self) -> None:
        """Record what was asked and not answered as unknown."""
        if self._open is not None and self._session.answers:
            answer = self._session.answers.popleft()
            self._record(self._open[0], self._armed.phase_now(answer.phase), self._open[1], answer.detail)
        elif self._open is not None:
            self._give_up("disconnected")
        self._open = None

    def _give_up(self, detail: str) -> None:
        assert self._open is not None
        self._record(self._open[0], Phase.INFO, self._open[1], detail)
        self._open = None

    def _record(self, op: Op, phase: Phase, name: str, detail: str | None = None) -> int:
        return self._note(op, phase, transaction=name, detail=detail)


def delivery_fields(received: Received, job: Job) -> dict[str, object]:
    """Return the fields of a delivery for the history."""
    sent_by = job.work.sent_by(received.message)
    empty = sent_by is not None and not sent_by.size
    return {
        "link": job.receivers[received.receiver],
        "delivery": received.delivery,
        "count": received.count,
        "first_acquirer": received.first_acquirer,
        "redelivered": received.redelivered,
        "intact": not received.altered and is_intact(received.message, received.body, empty=empty),
    }
