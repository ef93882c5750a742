"""The publisher role: send with a bounded number unanswered, one by one or in transactions, and read every answer."""

from __future__ import annotations

import itertools
import math
import time

from conformance.clients.roles import window
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.operations import Operations, next_received, pump, seen, trial_of
from conformance.clients.session import Disconnected, Refused, SendOutcome, Session
from conformance.clients.workers.job import LIVENESS_FACTOR, Job, JobResult
from conformance.clients.workers.trigger import ArmedFault
from conformance.errors import ClientError
from conformance.history import Op, Phase, Recorder, make_body, message_id, parse_message
from conformance.scenario.script import Publish

_PEEK_CREDIT = 1000
_IN_FLIGHT = 5
"""How many sends a fault at a confirm is to meet at least."""


def publish(job: Job, step: Publish, session: Session, recorder: Recorder, armed: ArmedFault) -> JobResult:
    """Send until `count` are sent and answered, the fault has ended the broker, or the connection is lost."""
    if step.unasked_every and not hasattr(session, "send_unanswered"):
        raise ClientError("a send without an answer needs the raw client")
    publisher = (_Transacted if step.batch else _Publisher)(job, step, session, recorder, armed)
    session.attach_sender(job.queue)
    recorder.record(Op.CONNECT, Phase.OK, queue=job.queue, epoch=job.epoch, count=step.window)
    try:
        return publisher.run()
    except (Disconnected, Refused) as error:
        armed.lost()
        answered = error.answers if isinstance(error, Refused) and job.may_be_refused else ()
        if isinstance(error, Refused) and not (answered or armed.broker_is_ending or job.broker_may_end):
            raise
        session.outcomes.extend(one for one in answered if isinstance(one, SendOutcome))
        return publisher.disconnected("refused" if answered else "disconnected")
    finally:
        armed.heal_if_due(now=True)


class _Publisher:
    def __init__(self, job: Job, step: Publish, session: Session, recorder: Recorder, armed: ArmedFault) -> None:
        self.job, self.step, self.session, self.recorder, self.armed = job, step, session, recorder, armed
        self.window = window.size(step, job.liar)
        self.waiting = window.Wait(job, step, recorder)
        self.asked_immediately: set[str] = set()
        self.pending: dict[str, int] = {}
        self.unasked: list[str] = []
        self.answered = 0
        self.sent = 0
        self.slowest_ns = 0
        self.last = ""
        self.began_ns = time.monotonic_ns()
        self.paced = step.every_ms > 0 and not step.batch
        self.transaction: str | None = None
        self.listens = job.vendor is not None and job.vendor.asynchronous
        self.calling = 0

    def run(self) -> JobResult:
        while not self.armed.broker_is_ending and (self.sent < self.count or self.pending or self.armed.awaits_loss):
            self._send_what_fits()
            self._pump(1.0)
            self._take_outcomes()
            if self.listens and self.sent >= self.count and not self.calling:
                self.armed.all_returned()
            if self.armed.due and not self.armed.fired:
                self._fire_with_sends_in_flight()
            waited = self._overdue_s() or self._shut_s()
            if waited:
                self._give_up("unanswered")
                return self._result("finished", waited)
        self._read_to_the_end()
        self._late_outcomes()
        self._no_answer(self.unasked, "no answer was asked for")
        return self._result("finished")

    @property
    def count(self) -> float:
        """How many it sends; without end while a command is about to end the broker."""
        return math.inf if self.armed.awaits_loss else self.step.count

    def disconnected(self, ended: str) -> JobResult:
        self._take_outcomes()
        self._give_up("disconnected")
        self._no_answer(self.unasked, "no answer was asked for")
        return self._result(ended)

    def _read_to_the_end(self) -> None:
        """The answers that the broker had sent before its end: read until the stream ends."""
        while self.armed.broker_is_ending:
            self.session.pump(5.0)
            self._take_outcomes()

    def _fire_with_sends_in_flight(self) -> None:
        """Fire at a confirm, at once, and with a few sends in flight.

        Few, because a window of a hundred takes 4 ms and more to fill again: a broker that confirms 5 ms too early has
        stored by then what it had confirmed. But some, because a broker that answers whole windows would meet the fault
        idle: with a window of 100 and answers in groups of 100 nothing is in flight at the 100th confirm.
        """
        self._send_what_fits(most=_IN_FLIGHT - len(self.pending))
        self.session.pump(0)
        self.armed.ready()
        self.armed.fire_if_due()
        self._take_outcomes()

    def _late_outcomes(self) -> None:
        """A broker that changes an outcome, or answers twice, does it after the first: look once more."""
        quiet = time.monotonic() + self.job.silence_s
        while (left := quiet - time.monotonic()) > 0:
            self._pump(left)
            self._take_outcomes()

    def _pump(self, timeout_s: float) -> None:
        pump(self.session, self.armed, min(timeout_s, self._until_due_s(self.sent)) if self.paced else timeout_s)

    def _due_ns(self, number: int) -> int:
        """When the send, or transaction, after so many others is due."""
        return self.began_ns + number * self.step.every_ms * 1_000_000

    def _until_due_s(self, number: int) -> float:
        if self.sent >= self.count:
            return math.inf
        return max(self._due_ns(number) - time.monotonic_ns(), 0) / 1e9

    def _send_what_fits(self, most: float = math.inf) -> None:
        if self.waiting.refuses:
            return
        room = int(min(self.window - len(self.pending), self.session.sendable(), self.count - self.sent, most))
        room = min(room, 1 - self.calling) if self.listens else room  # it calls send() when the one before is back
        for _ in range(room):
            if self.paced and self._until_due_s(self.sent) > 0:
                return
            self._send()
            self.armed.count("sent")
            if self.armed.waits_for("sent"):
                self.session.pump(0)  # the send has to be written, and not yet answered
                self.armed.fire_if_due()
                return
        if self.sent < self.count and len(self.pending) >= self.window:
            self.waiting.begin(self.sent + 1, len(self.pending))

    def _send(self) -> None:
        job, step = self.job, self.step
        self.waiting.end()
        due_ns = self._due_ns(self.sent) if self.paced else None
        self.sent += 1
        message = message_id(job.producer, self.sent)
        asked = not step.unasked_every or self.sent % step.unasked_every != 0
        immediate = step.immediate_every > 0 and self.sent % step.immediate_every == 0
        at_ns = self.recorder.record(
            Op.SEND,
            Phase.INVOKE,
            queue=job.queue,
            message=message,
            durable=step.durable,
            epoch=job.epoch,
            transaction=self.transaction,
            due_ns=due_ns,
            detail="ack immediately" if immediate else None if asked else "no answer asked for",
        )
        body = make_body(message, step.size, trial_of(job.header))
        if asked:
            self.pending[message] = at_ns
            self.calling += self.listens
            if immediate:
                self.asked_immediately.add(message)
            self.session.send(message, body, durable=step.durable, transaction=self.transaction, immediate=immediate)
        else:
            self.unasked.append(message)
            self.session.send_unanswered(message, body, durable=step.durable)  # type: ignore[attr-defined]

    def _take_outcomes(self) -> None:
        outcomes, job = self.session.outcomes, self.job
        self._take_returned()
        while outcomes:
            outcome = outcomes.popleft()
            phase = self.armed.phase_now(outcome.phase)
            at_ns = self.recorder.record(
                Op.SEND,
                phase,
                queue=job.queue,
                message=outcome.message,
                epoch=job.epoch,
                transaction=self.transaction,
                first=_number(outcome.first),
                last=_number(outcome.last),
                detail=outcome.detail,
            )
            self.last = outcome.message
            invoked = self.pending.pop(outcome.message, None)
            if invoked is not None:
                self.answered += 1
                self.slowest_ns = max(self.slowest_ns, at_ns - max(invoked, self.armed.resumed_ns))
                self.armed.check_answer(invoked)
            if phase is Phase.OK:
                self._count(outcome)
        self._take_untrue_receipts()

    def _count(self, outcome: SendOutcome) -> None:
        """What the answer is to a trigger; a range counts once, at its end."""
        self.armed.count("confirm")
        if not self.listens:
            self._count_returned()
        if outcome.message in self.asked_immediately:
            self.armed.count("confirm_immediate")
        if outcome.first != outcome.last == outcome.message:
            self.armed.count("confirm_range")

    def _count_returned(self) -> None:
        self.armed.count("returned")
        if self.armed.waits_for("returned"):
            self.armed.fire_if_due()

    def _take_returned(self) -> None:
        """Calls that have returned, where a listener hears of the answers."""
        returned = getattr(self.session, "returned", None)
        while returned:
            message = returned.popleft()
            self.calling -= 1
            self.recorder.record(Op.CALL, Phase.OK, queue=self.job.queue, message=message, epoch=self.job.epoch)
            self._count_returned()

    def _take_untrue_receipts(self) -> None:
        """What the raw client says about answers that answer nothing; it is put down to the last send answered."""
        untrue = getattr(self.session, "anomalies", None)
        while untrue:
            self.recorder.record(
                Op.CONFIRM,
                Phase.FAIL,
                queue=self.job.queue,
                message=self.last or message_id(self.job.producer, 1),
                epoch=self.job.epoch,
                detail=untrue.popleft(),
            )

    def _overdue_s(self) -> float:
        """How long the oldest send has waited, where that is more than the liveness bound; a pause is no wait."""
        if not self.pending or self.armed.paused:
            return 0.0
        waited_ns = time.monotonic_ns() - max(min(self.pending.values()), self.armed.resumed_ns)
        return waited_ns / 1e9 if waited_ns > self._bound_ns() else 0.0

    def _shut_s(self) -> float:
        """How long a publish has waited although there was room for it, beyond the same bound."""
        if self.armed.paused:
            return 0.0
        return self.waiting.overdue_s(self._bound_ns(), len(self.pending), self.session.sendable())

    def _bound_ns(self) -> float:
        return max(self.job.liveness_s * 1e9, LIVENESS_FACTOR * self.slowest_ns)

    def _give_up(self, detail: str) -> None:
        self._no_answer(list(self.pending), detail)
        self.pending.clear()

    def _no_answer(self, messages: list[str], detail: str) -> None:
        for message in messages:
            self.recorder.record(
                Op.SEND, Phase.INFO, queue=self.job.queue, message=message, epoch=self.job.epoch, detail=detail
            )

    def _result(self, ended: str, waited_s: float = 0.0) -> JobResult:
        return JobResult(
            ended=ended,
            count=self.answered,
            fired=self.armed.done,
            seen=self.armed.seen,
            waited_s=waited_s,
            slowest_s=self.slowest_ns / 1e9,
        )


class _Transacted(_Publisher):
    """Sends in transactions of `batch`, each begun, filled, and discharged before the next."""

    def __init__(self, job: Job, step: Publish, session: Session, recorder: Recorder, armed: ArmedFault) -> None:
        super().__init__(job, step, session, recorder, armed)
        self.operations = Operations(job, session, recorder, armed)
        self.begun = ""
        self.waited_s = 0.0

    def run(self) -> JobResult:
        job, step = self.job, self.step
        if step.peek:
            self.session.attach_receiver(job.queue, _PEEK_CREDIT, AckHeader.INDIVIDUAL)
        for number in itertools.count(1):
            if self.sent >= self.count or self.armed.broker_is_ending:
                break
            while step.every_ms and (left := self._until_due_s(number - 1)) > 0 and not self.armed.broker_is_ending:
                pump(self.session, self.armed, left)
            name = f"t{number}"
            back = step.rollback_every > 0 and number % step.rollback_every == 0
            filled = self._filled(name, f"t{number + 1}")
            if not (filled and self._discharged(Op.ROLLBACK if back else Op.COMMIT, name)):
                return self._result("finished", job.liveness_s)
        self._read_to_the_end()
        self._peek()
        return self._result("finished", self.waited_s)

    def disconnected(self, ended: str) -> JobResult:
        self.operations.disconnected()
        return super().disconnected(ended)

    def _filled(self, name: str, following: str) -> bool:
        """A transaction with all its sends written and provisionally answered; False where one was not in time.

        No more than the window are unanswered, unless nothing is answered before the commit.

        Where only the commit brings their answers (RabbitMQ over STOMP; STOMP 1.2 allows it), the one after it is begun
        before: that RECEIPT says that what was sent before it was received.
        """
        if name != self.begun and not self.operations.run(Op.BEGIN, name):
            return False
        self.transaction = name
        last = self.sent + int(min(self.step.batch, self.count - self.sent))
        if self.job.answers_at_commit:
            self._send_up_to(last, math.inf)
            self.begun = following
            if not self.operations.run(Op.BEGIN, following):
                self._give_up("unanswered")
                return False
        while (self.sent < last or self.pending) and not self.job.answers_at_commit:
            self._send_up_to(last, self.window)
            self._pump(1.0)
            self._take_outcomes()
            if self._overdue_s():
                self._give_up("unanswered")
                return False
        self.armed.all_returned()
        self._peek()
        self.armed.count("before_commit")
        self.armed.fire_if_due()
        while self.armed.stands_still:
            self._pump(1.0)
        return True

    def _send_up_to(self, last: int, window: float) -> None:
        while self.sent < last and len(self.pending) < window:
            self._send()

    def _discharged(self, op: Op, name: str) -> bool:
        if self.armed.broker_is_ending:
            return True  # killed before the request: it must never leave
        if not self.job.answers_at_commit:
            answered = self.operations.run(op, name)
            self._take_outcomes()
            return answered
        answered = self.operations.run(op, name, self._unread if op is Op.COMMIT else lambda: False)
        self._take_outcomes()
        self._give_up("rolled back" if answered else "unanswered")
        return answered

    def _unread(self) -> bool:
        """Whether answers to its sends are still to come, with those that came taken."""
        self._take_outcomes()
        return bool(self.pending)

    def _peek(self) -> None:
        """Take what is available until silence; before a commit that must be nothing of its transaction."""
        if not self.step.peek:
            return
        quiet = time.monotonic() + self.job.silence_s
        while (left := quiet - time.monotonic()) > 0:
            self._pump(left)
            while self.session.incoming:
                received = next_received(self.session, self.job)
                about = {"queue": self.job.queue, "message": received.message, "epoch": self.job.epoch}
                self.recorder.record(Op.DELIVER, Phase.OK, **about, **seen(received, self.job))
                self.recorder.record(Op.ACK, Phase.INVOKE, **about)
                self.session.acknowledge([received])
                self.session.replenish(1)
                quiet = time.monotonic() + self.job.silence_s
        self.waited_s += self.job.silence_s


def _number(message: str | None) -> int | None:
    parsed = parse_message(message)
    return parsed[1] if parsed else None
