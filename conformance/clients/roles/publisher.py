"""The publisher role: send with a bounded number unanswered, one by one or in transactions, and read every answer."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable

import msgspec

from conformance import limits
from conformance.clients.job import (
    LIVENESS_FACTOR,
    NO_CREDIT,
    UNANSWERED,
    Job,
    JobResult,
    OpenPacket,
    SentTransaction,
    Unfinished,
)
from conformance.clients.roles.modes import AckHeader
from conformance.clients.roles.operations import (
    Note,
    Operations,
    delivery_fields,
    next_received,
    noting,
    pump,
    trial_of,
)
from conformance.clients.session import Disconnected, OperationAnswer, Refused, SendOutcome, Session
from conformance.clients.trigger import ArmedFault
from conformance.history import ONCE, SHUT, WAITS, Op, Phase, Recorder, make_body, message_id, parse_message
from conformance.scenario.script import Publish

_AGAIN = "its client may send it again"
_PEEK_CREDIT = 1000
_IN_FLIGHT = 5
"""A fault at a confirm meets at least so many sends in flight."""


def publish(
    job: Job,
    step: Publish,
    session: Session,
    recorder: Recorder,
    armed: ArmedFault,
    attached: Callable[[], object],
    liar: type[PublisherRole] | None,
) -> JobResult:
    """Send until `count` are sent and answered, the fault has ended the broker, or the connection is lost.

    `attached` is called once the publisher is attached. `liar` takes the place of an honest publisher that sends
    without transactions.
    """
    note = noting(job, recorder)
    publisher = (_Transacted if step.batch else liar or PublisherRole)(job, step, session, note, armed)
    try:
        for queue in job.work.queues[:1] if job.dialect.copied else job.work.queues:
            session.attach_sender(queue)
    except Refused as error:
        if not job.tolerances.absent:
            raise
        return publisher.turned_away(limits.quote(error))
    note(Op.CONNECT, Phase.OK, count=step.window, detail=session.found or None)
    attached()
    try:
        return publisher.run()
    except (Disconnected, Refused) as error:
        armed.lost()
        expected = job.tolerances.refused or job.tolerances.cut_off
        answered = error.answers if isinstance(error, Refused) and expected else ()
        refused = bool(answered) or job.tolerances.cut_off
        if isinstance(error, Refused) and not (refused or armed.broker_is_ending or job.tolerances.broker_may_end):
            raise
        session.outcomes.extend(one for one in answered if isinstance(one, SendOutcome))
        session.answers.extend(one for one in answered if isinstance(one, OperationAnswer))
        return publisher.disconnected("refused" if refused else "disconnected")
    finally:
        armed.heal_if_due(now=True)


def _messages(resumed: Iterable[Unfinished]) -> list[str]:
    found = [[each.message] if isinstance(each, OpenPacket) else _of_transaction(each) for each in resumed]
    return list(itertools.chain.from_iterable(found))


def _of_transaction(sent: SentTransaction) -> list[str]:
    return [message_id(sent.producer, number) for number in range(sent.first, sent.last + 1)]


class PublisherRole:
    """Sends without transactions. A session liar overrides the one method that it is wrong in."""

    def __init__(self, job: Job, step: Publish, session: Session, note: Note, armed: ArmedFault) -> None:
        self.job, self.step, self.session, self.note, self.armed = job, step, session, note, armed
        self.window = self._window_size()
        self.waiting = _WindowWait(job, step, note)
        self.asked_immediately: set[str] = set()
        self.again = _messages(job.work.resumes)
        self.resumed = {each.message: each for each in job.work.resumes if isinstance(each, OpenPacket)}
        self.pending: dict[str, int] = {}
        self.unasked: list[str] = []
        self.answered = 0
        self.sent = 0
        self.slowest_ns = self.uncredited_ns = 0
        self.last = ""
        self.began_ns = time.monotonic_ns()
        self.paced = step.every_ms > 0 and not step.batch
        self.transaction: str | None = None
        self.listens = job.connection.vendor is not None and job.connection.vendor.asynchronous
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
                return self._result(UNANSWERED, waited)
            if waited := self._uncredited_s():
                return self._result(NO_CREDIT, waited)
        self._read_to_the_end()
        self._late_outcomes()
        self._no_answer(self.unasked, "no answer was asked for")
        return self._result("finished")

    @property
    def count(self) -> float:
        """How many it sends; unlimited while a command is about to end the broker."""
        if self.step.resends:
            return len(self.again)
        return math.inf if self.armed.awaits_loss else self.step.count

    def turned_away(self, said: str) -> JobResult:
        """Record the first send as refused: the broker did not let its sender attach."""
        message = message_id(self.job.work.producer, 1)
        self.note(Op.SEND, Phase.INVOKE, message=message, durable=self.step.durable)
        self.note(Op.SEND, Phase.FAIL, message=message, detail=said)
        return self._result("refused")

    def disconnected(self, ended: str) -> JobResult:
        self._take_outcomes()
        self._give_up("disconnected")
        self._no_answer(self.unasked, "no answer was asked for")
        return self._result(ended)

    def _read_to_the_end(self) -> None:
        """Read the answers that the broker sent before its end."""
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
        for message in self.pending if self.step.goes_on else ():
            self.note(Op.SEND, Phase.INVOKE, message=message, durable=self.step.durable, detail=_AGAIN)

    def _late_outcomes(self) -> None:
        """Look once more: a broker that changes an outcome, or answers twice, does it after the first answer."""
        quiet = time.monotonic() + self.job.tolerances.silence_s
        while (left := quiet - time.monotonic()) > 0:
            self._pump(left)
            self._take_outcomes()

    def _pump(self, timeout_s: float) -> None:
        pump(self.session, self.armed, min(timeout_s, self._until_due_s(self.sent)) if self.paced else timeout_s)

    def _due_ns(self, number: int) -> int:
        """Return when the send, or transaction, of that index is due."""
        return self.began_ns + int(number * self.step.every_ms * 1_000_000)

    def _until_due_s(self, number: int) -> float:
        if self.sent >= self.count:
            return math.inf
        return max(self._due_ns(number) - time.monotonic_ns(), 0) / 1e9

    def _send_what_fits(self, most: float = math.inf) -> None:
        room = int(min(self.window - len(self.pending), self.session.sendable(), self.count - self.sent, most))
        if self.listens:  # a call of send() begins when the previous call has returned
            room = min(room, 1 - self.calling)
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
        message = self.again[self.sent - 1] if step.resends else message_id(job.work.producer, self.sent)
        asked = not step.unasked_every or self.sent % step.unasked_every != 0
        immediate = step.immediate_every > 0 and self.sent % step.immediate_every == 0
        at_ns = self.note(
            Op.SEND,
            Phase.INVOKE,
            message=message,
            durable=step.durable,
            transaction=self.transaction,
            due_ns=due_ns,
            count=step.lives_ms or None,
            delay_ms=step.delay_ms or None,
            priority=step.priority,
            detail="ack immediately" if immediate else self._says(message, asked),
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
            self.session.send_unanswered(message, body, durable=step.durable)

    def _says(self, message: str, asked: bool) -> str | None:
        if self.step.exactly_once:
            return self.resumed[message].again if message in self.resumed else ONCE
        return None if asked else "no answer asked for"

    def _window_size(self) -> int:
        return self.step.window

    def _heard(self, outcome: SendOutcome) -> SendOutcome:
        return outcome

    def _take_outcomes(self) -> None:
        outcomes = self.session.outcomes
        self._take_returned()
        while outcomes:
            outcome = outcomes.popleft()
            phase = self.armed.phase_now(outcome.phase)
            outcome = self._heard(outcome)
            at_ns = self.note(
                Op.SEND,
                phase,
                message=outcome.message,
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
                self.armed.answered("sent", invoked)
            if phase is Phase.OK:
                self._count(outcome)
        self._take_untrue_receipts()

    def _count(self, outcome: SendOutcome) -> None:
        """Count the answer for the trigger; a range counts once, at its end."""
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
        """Record the calls that have returned, if a listener gets the answers."""
        while self.session.returned:
            message = self.session.returned.popleft()
            self.calling -= 1
            self.note(Op.CALL, Phase.OK, message=message)
            self._count_returned()

    def _take_untrue_receipts(self) -> None:
        """Record answers that answer nothing, with the last send that was answered."""
        while self.session.anomalies:
            message = self.last or message_id(self.job.work.producer, 1)
            self.note(Op.CONFIRM, Phase.FAIL, message=message, detail=self.session.anomalies.popleft())

    def _overdue_s(self) -> float:
        """Return how long the oldest send has waited, without pauses; 0 within the liveness bound."""
        if not self.pending or self.armed.paused:
            return 0.0
        waited_ns = time.monotonic_ns() - max(min(self.pending.values()), self.armed.resumed_ns)
        return waited_ns / 1e9 if waited_ns > self._bound_ns() else 0.0

    def _shut_s(self) -> float:
        """Return how long a publish has waited although there was room for it; 0 within the liveness bound."""
        if self.armed.paused:
            return 0.0
        return self.waiting.overdue_s(self._bound_ns(), len(self.pending), self.session.sendable())

    def _uncredited_s(self) -> float:
        """Return how long it has had something to send, nothing in flight and no credit; 0 within the bound."""
        if self.armed.paused or self.pending or self.sent >= self.count or self.session.sendable() > 0:
            self.uncredited_ns = 0
            return 0.0
        self.uncredited_ns = self.uncredited_ns or time.monotonic_ns()
        waited_ns = time.monotonic_ns() - self.uncredited_ns
        return waited_ns / 1e9 if waited_ns > self._bound_ns() else 0.0

    def _bound_ns(self) -> float:
        return max(self.job.tolerances.liveness_s * 1e9, LIVENESS_FACTOR * self.slowest_ns)

    def _give_up(self, detail: str) -> None:
        self._no_answer(list(self.pending), detail)
        self.pending.clear()

    def _no_answer(self, messages: list[str], detail: str) -> None:
        for message in messages:
            self.note(Op.SEND, Phase.INFO, message=message, detail=detail)

    def _result(self, ended: str, waited_s: float = 0.0) -> JobResult:
        return JobResult(
            ended=ended,
            count=self.answered,
            fired=self.armed.done,
            fired_ns=self.armed.fired_ns,
            seen=self.armed.seen,
            waited_s=waited_s,
            slowest_s=self.slowest_ns / 1e9,
        )


class _Transacted(PublisherRole):
    """Sends in transactions of `batch`, each begun, filled, and discharged before the next."""

    def __init__(self, job: Job, step: Publish, session: Session, note: Note, armed: ArmedFault) -> None:
        super().__init__(job, step, session, note, armed)
        self.operations = Operations(job, session, note, armed)
        self.begun = ""
        self.waited_s = 0.0
        self.late = job.dialect.answers_at_commit or step.hurries
        self.first = 1
        self.asked: tuple[SentTransaction, ...] = ()

    def run(self) -> JobResult:
        job, step = self.job, self.step
        if step.peek:
            self.session.attach_receiver(job.work.queue, _PEEK_CREDIT, AckHeader.INDIVIDUAL)
        for number in itertools.count(1):
            if self.sent >= self.count or self.armed.broker_is_ending:
                break
            while step.every_ms and (left := self._until_due_s(number - 1)) > 0 and not self.armed.broker_is_ending:
                pump(self.session, self.armed, left)
            name = f"t{number}"
            back = step.rollback_every > 0 and number % step.rollback_every == 0
            filled = self._filled(name, f"t{number + 1}")
            if not (filled and self._discharged(Op.ROLLBACK if back else Op.COMMIT, name)):
                return self._result(UNANSWERED, job.tolerances.liveness_s)
        self._read_to_the_end()
        self._peek()
        return self._result("finished", self.waited_s)

    def disconnected(self, ended: str) -> JobResult:
        self.operations.disconnected()
        return super().disconnected(ended)

    def _result(self, ended: str, waited_s: float = 0.0) -> JobResult:
        return msgspec.structs.replace(super()._result(ended, waited_s), unfinished=self.asked)

    def _filled(self, name: str, following: str) -> bool:
        """Begin a transaction, write its sends and read their provisional answers; False if one was late.

        At most the window is unanswered, unless the broker answers only at the commit (RabbitMQ over STOMP; STOMP 1.2
        allows it). Then the next transaction is begun before the commit: its RECEIPT says that the broker received the
        sends.
        """
        if name != self.begun and not self.operations.run(Op.BEGIN, name):
            return False
        self.transaction = name
        self.first = self.sent + 1
        last = self.sent + int(min(self.step.batch, self.count - self.sent))
        if self.job.dialect.answers_at_commit:
            self._send_up_to(last, math.inf)
            self.begun = following
            if not self.operations.run(Op.BEGIN, following):
                self._give_up("unanswered")
                return False
        elif self.step.hurries:
            self._send_up_to(last, math.inf)
        while (self.sent < last or self.pending) and not self.late:
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
        if op is Op.COMMIT and not self.step.resends:
            self.asked = (SentTransaction(self.job.work.producer, self.first, self.sent),)
        if not self.late:
            answered = self.operations.run(op, name)
            self._take_outcomes()
            return answered
        answered = self.operations.run(op, name, self._unread if op is Op.COMMIT else lambda: False)
        self._take_outcomes()
        self._give_up("rolled back" if answered else "unanswered")
        return answered

    def _unread(self) -> bool:
        """Read what arrived, and return whether answers to its sends are missing."""
        self._take_outcomes()
        return bool(self.pending)

    def _peek(self) -> None:
        """Take deliveries until silence: before the commit, none of its transaction may arrive."""
        if not self.step.peek:
            return
        quiet = time.monotonic() + self.job.tolerances.silence_s
        while (left := quiet - time.monotonic()) > 0:
            self._pump(left)
            while self.session.incoming:
                received = next_received(self.session, self.job)
                self.note(Op.DELIVER, Phase.OK, message=received.message, **delivery_fields(received, self.job))
                self.note(Op.ACK, Phase.INVOKE, message=received.message)
                self.session.acknowledge([received])
                self.session.replenish(1)
                quiet = time.monotonic() + self.job.tolerances.silence_s
        self.waited_s += self.job.tolerances.silence_s


class _WindowWait:
    """The publish that waits for room in the window; recorded if the step asks for it.

    A wait is a CONFIRM of unknown outcome for the next message, with the number of unanswered sends in `count`. A
    second one says that there was room, and that the publish did not proceed within the liveness bound.
    """

    def __init__(self, job: Job, step: Publish, note: Note) -> None:
        self._job, self._step, self._note = job, step, note
        self._message = ""
        self._waits = False
        self._room_ns = 0

    @property
    def has_begun(self) -> bool:
        """Whether a publish had to wait once, with a step that asks for it."""
        return self._message != ""

    def begin(self, number: int, unanswered: int) -> None:
        """Note that the publish of that number has to wait."""
        message = message_id(self._job.work.producer, number)
        if self._step.tells_waits and message != self._message:
            self._message, self._waits, self._room_ns = message, True, 0
            self._note(Op.CONFIRM, Phase.INFO, message=message, count=unanswered, detail=WAITS)

    def end(self) -> None:
        self._waits = False

    def overdue_s(self, bound_ns: float, unanswered: int, credit: int) -> float:
        """Return how long there has been room for the publish that waits, if that is longer than the bound."""
        if not self._waits or unanswered >= self._step.window or credit <= 0:
            self._room_ns = 0
            return 0.0
        self._room_ns = self._room_ns or time.monotonic_ns()
        waited_ns = time.monotonic_ns() - self._room_ns
        if waited_ns <= bound_ns:
            return 0.0
        self._note(Op.CONFIRM, Phase.INFO, message=self._message, count=unanswered, detail=SHUT)
        return waited_ns / 1e9


def _number(message: str | None) -> int | None:
    parsed = parse_message(message)
    return parsed[1] if parsed else None
