"""What a client process does, over any protocol: publish, consume, drain. Here events are recorded.

The order of every step is the meaning of the history: `invoke` is recorded before the session is told, the session
flushes the recorder before bytes leave, and an answer is recorded when it was read.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Sequence

from conformance.clients.job import LIVENESS_FACTOR, Job, Result, Trigger
from conformance.clients.modes import MODES, Covers, When
from conformance.clients.session import Received, Session
from conformance.clients.wire import Disconnected
from conformance.errors import ClientError
from conformance.history import Op, Phase, Recorder, is_intact, make_body, message_id


class Armed:
    """Counts the events of this process; at the k-th the fault is due, and this process fires it."""

    def __init__(self, trigger: Trigger | None, recorder: Recorder, pidfds: Sequence[int], epoch: int) -> None:
        self._trigger, self._recorder, self._pidfds, self._epoch = trigger, recorder, pidfds, epoch
        self._count = 0
        self.due = False
        self.fired = False
        if trigger is not None:
            recorder.record(Op.FAULT, Phase.ARMED, fault=trigger.fault, epoch=epoch, count=trigger.k)

    def count(self, event: str) -> None:
        """One more `event`."""
        if self._trigger is not None and self._trigger.event == event:
            self._count += 1
            self.due = self._count >= self._trigger.k

    def fire_if_due(self) -> None:
        """Fire, once."""
        trigger = self._trigger
        if trigger is None or not self.due or self.fired:
            return
        self.fired = True
        if trigger.fault == "consumer_crash":
            self._recorder.record(Op.FAULT, Phase.FIRED, fault=trigger.fault, epoch=self._epoch)
            self._recorder.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        started = time.monotonic_ns()
        for descriptor in self._pidfds:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        took_us = (time.monotonic_ns() - started) // 1000
        self._recorder.record(
            Op.FAULT, Phase.FIRED, fault=trigger.fault, epoch=self._epoch, detail=f"{took_us} us for the signals"
        )


def publish(job: Job, session: Session, recorder: Recorder, armed: Armed) -> Result:
    """Keep at most `window` sends unanswered until `count` are sent, the fault has fired, or the broker is gone."""
    publisher = _Publisher(job, session, recorder, armed)
    session.attach_sender(job.queue)
    try:
        return publisher.run()
    except Disconnected:
        return publisher.disconnected()


class _Publisher:
    def __init__(self, job: Job, session: Session, recorder: Recorder, armed: Armed) -> None:
        self.job, self.session, self.recorder, self.armed = job, session, recorder, armed
        self.pending: dict[str, int] = {}
        self.answered = 0
        self.sent = 0
        self.slowest_ns = 0

    def run(self) -> Result:
        job, session = self.job, self.session
        while not self.armed.fired and (self.sent < job.count or self.pending):
            self._send_what_fits()
            session.pump(1.0)
            self._take_outcomes()
            if self.armed.due:
                self._fire_with_sends_in_flight()
            if self._overdue():
                waited = (time.monotonic_ns() - min(self.pending.values())) / 1e9
                self._give_up("unanswered")
                return self._result("finished", waited)
        while self.armed.fired:  # the answers that the broker had sent before it died: read until the stream ends
            session.pump(5.0)
            self._take_outcomes()
        self._late_outcomes()
        return self._result("finished")

    def _fire_with_sends_in_flight(self) -> None:
        """Fill the window before the fault: a broker that answers a whole window at once would have nothing in flight.

        With a window of 100 and answers in groups of 100, a kill at the 100th confirm would meet an idle broker.
        """
        self._send_what_fits()
        self.session.pump(0)
        self.armed.fire_if_due()
        self._take_outcomes()

    def _late_outcomes(self) -> None:
        """A broker that changes an outcome does it after the first one: look once more before leaving."""
        quiet = time.monotonic() + self.job.silence_s
        while (left := quiet - time.monotonic()) > 0:
            self.session.pump(left)
            self._take_outcomes()

    def disconnected(self) -> Result:
        self._take_outcomes()
        self._give_up("disconnected")
        return self._result("disconnected")

    def _send_what_fits(self) -> None:
        job, session, record = self.job, self.session, self.recorder.record
        room = min(job.window - len(self.pending), session.sendable(), job.count - self.sent)
        for _ in range(room):
            self.sent += 1
            message = message_id(job.producer, self.sent)
            self.pending[message] = record(
                Op.SEND, Phase.INVOKE, queue=job.queue, message=message, durable=job.durable, epoch=job.epoch
            )
            session.send(message, make_body(message, job.size), durable=job.durable)

    def _take_outcomes(self) -> None:
        outcomes, queue, epoch = self.session.outcomes, self.job.queue, self.job.epoch
        while outcomes:
            outcome = outcomes.popleft()
            at_ns = self.recorder.record(
                Op.SEND, outcome.phase, queue=queue, message=outcome.message, epoch=epoch, detail=outcome.detail
            )
            invoked = self.pending.pop(outcome.message, None)
            if invoked is not None:
                self.answered += 1
                self.slowest_ns = max(self.slowest_ns, at_ns - invoked)
            if outcome.phase is Phase.OK:
                self.armed.count("confirm")

    def _overdue(self) -> bool:
        if not self.pending:
            return False
        bound_ns = max(self.job.liveness_s * 1e9, LIVENESS_FACTOR * self.slowest_ns)
        return time.monotonic_ns() - min(self.pending.values()) > bound_ns

    def _give_up(self, detail: str) -> None:
        for message in self.pending:
            self.recorder.record(
                Op.SEND, Phase.INFO, queue=self.job.queue, message=message, epoch=self.job.epoch, detail=detail
            )
        self.pending.clear()

    def _result(self, ended: str, waited_s: float = 0.0) -> Result:
        return Result(ended=ended, count=self.answered, fired=self.armed.fired, waited_s=waited_s)


def consume(job: Job, session: Session, recorder: Recorder, armed: Armed) -> Result:
    """Receive, process and acknowledge in one mode until `stop` deliveries, the fault, or the loss of the broker."""
    consumer = _Consumer(job, session, recorder, armed)
    session.attach_receiver(job.queue, job.prefetch)
    try:
        return consumer.run()
    except Disconnected:
        return Result(ended="disconnected", count=consumer.delivered, fired=armed.fired)


class _Consumer:
    def __init__(self, job: Job, session: Session, recorder: Recorder, armed: Armed) -> None:
        self.job, self.session, self.recorder, self.armed = job, session, recorder, armed
        self.mode = MODES[job.mode]
        self.delivered = 0
        self.open: deque[Received] = deque()

    def run(self) -> Result:
        job, session = self.job, self.session
        while job.stop is None or self.delivered < job.stop:
            deadline = time.monotonic() + job.liveness_s
            while not session.incoming:
                left = deadline - time.monotonic()
                if left <= 0:
                    return Result(ended="stuck", count=self.delivered, waited_s=job.liveness_s)
                session.pump(left)
            self._take(session.incoming.popleft())
            session.pump(0)
            while self.armed.fired:
                session.pump(5.0)
        return Result(ended="finished", count=self.delivered)

    def _take(self, received: Received) -> None:
        self.delivered += 1
        self.open.append(received)
        self._record(Op.DELIVER, Phase.OK, received, full=True)
        early = self.job.liar == "acknowledges-on-receipt"
        if early:
            self._acknowledge([received])
        self._record(Op.PROCESS, Phase.INVOKE, received)
        self.armed.count("process")
        self.armed.fire_if_due()
        self._record(Op.PROCESS, Phase.OK, received)
        if self.mode.when is When.AFTER_PROCESSING:
            if not early:
                self._acknowledge([received])
        elif self.delivered % self.job.acknowledge == 0:
            self._acknowledge(self._covered(received))

    def _covered(self, received: Received) -> list[Received]:
        if self.mode.covers is Covers.THIS:
            return [received]
        if self.job.liar == "acknowledges-prefetched":
            return [*self.open, *self.session.incoming]
        return list(self.open)

    def _acknowledge(self, covered: list[Received]) -> None:
        for received in covered:
            self._record(Op.ACK, Phase.INVOKE, received)
        for received in covered:
            if self.mode.confirmed:
                self._confirm(received)
            else:
                self.session.acknowledge(received)
        handled = {received.delivery for received in covered}
        self.open = deque(received for received in self.open if received.delivery not in handled)
        self.session.replenish(len(covered))

    def _confirm(self, received: Received) -> None:
        session = self.session
        session.acknowledge_confirmed(received)
        deadline = time.monotonic() + self.job.liveness_s
        while not session.confirmed:
            left = deadline - time.monotonic()
            if left <= 0:
                self._record(Op.ACK, Phase.INFO, received, detail="unanswered")
                return
            session.pump(left)
        session.confirmed.popleft()
        self._record(Op.ACK, Phase.OK, received)
        self.armed.count("ack")
        self.armed.fire_if_due()

    def _record(
        self, op: Op, phase: Phase, received: Received, *, full: bool = False, detail: str | None = None
    ) -> None:
        extra = _seen(received, self.job) if full else {}
        self.recorder.record(
            op, phase, queue=self.job.queue, message=received.message, epoch=self.job.epoch, detail=detail, **extra
        )


def _seen(received: Received, job: Job) -> dict[str, object]:
    """What the message said of itself, and on which link: each process of a trial has one receiving link."""
    return {
        "link": job.header.process,
        "delivery": received.delivery,
        "count": received.count,
        "first_acquirer": received.first_acquirer,
        "redelivered": received.redelivered,
        "intact": is_intact(received.message, received.body),
    }


def drain(job: Job, session: Session, recorder: Recorder, armed: Armed) -> Result:
    """Receive and accept everything until silence, and until the broker itself says that nothing is left.

    One drain is never trusted: an AMQP drain may be answered before the queue is empty, so silence ends nothing
    while the broker's own depth is above 0, until it stayed so for the liveness bound.
    """
    del armed
    recorder.record(Op.DRAIN, Phase.INVOKE, queue=job.queue, epoch=job.epoch)
    session.attach_receiver(job.queue, job.prefetch)
    started = last = time.monotonic()
    received, working, silence = 0, 0.0, job.silence_s
    while True:
        session.pump(max(last + silence - time.monotonic(), 0))
        got = _take_drained(job, session, recorder)
        now = time.monotonic()
        if got:
            received, last, silence, working = received + got, now, job.silence_s, now - started
        elif now - last >= silence:
            depth = session.depth(job.queue)
            recorder.record(Op.DEPTH, Phase.OK, queue=job.queue, epoch=job.epoch, count=depth)
            if not depth or time.monotonic() - last > job.liveness_s:
                break
            silence = min(silence * 2, 2.0) + (now - last)
    ended = "stuck" if depth else "finished"
    phase, detail = (Phase.INFO, "stuck") if depth else (Phase.OK, "silent")
    recorder.record(Op.DRAIN, phase, queue=job.queue, epoch=job.epoch, count=received, detail=detail)
    return Result(ended=ended, count=received, depth=depth, waited_s=time.monotonic() - started - working)


def _take_drained(job: Job, session: Session, recorder: Recorder) -> int:
    got = 0
    while session.incoming:
        received = session.incoming.popleft()
        recorder.record(
            Op.DRAIN, Phase.OK, queue=job.queue, message=received.message, epoch=job.epoch, **_seen(received, job)
        )
        session.acknowledge(received)
        got += 1
    if got:
        session.replenish(got)
    return got


ROLES = {"publish": publish, "consume": consume, "drain": drain}


def play(job: Job, session: Session, recorder: Recorder, pidfds: Sequence[int]) -> Result:
    """Play the role of the job; raises `ClientError` for an unknown one."""
    if job.role not in ROLES:
        raise ClientError(f"unknown role {job.role!r}")
    if job.protocol:
        recorder.record(Op.CONNECT, Phase.OK, epoch=job.epoch)
    return ROLES[job.role](job, session, recorder, Armed(job.trigger, recorder, pidfds, job.epoch))
