"""The consumer role: receive, process, and acknowledge in one mode of the table, refuse, or do neither."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conformance.clients.job import NEVER, Job, JobResult
from conformance.clients.roles.modes import When, mode_of
from conformance.clients.roles.operations import (
    Note,
    Operations,
    delivery_fields,
    next_answer,
    next_received,
    noting_receivers,
    pump,
    trial_of,
)
from conformance.clients.session import Disconnected, OperationAnswer, Received, Refused, Session
from conformance.clients.trigger import ArmedFault
from conformance.errors import ClientError
from conformance.history import RECEIVER_ENDED, Op, Phase, Recorder, make_body, message_id
from conformance.scenario.script import Consume

_FORWARDED = 256
"""The bytes of a message that a consumer sends."""

_SILENCES = 2
"""A consumer waits so many times the silence of a drain before it reports that nothing more arrives."""


def consume(
    job: Job,
    step: Consume,
    session: Session,
    recorder: Recorder,
    armed: ArmedFault,
    attached: Callable[[], object],
    liar: type[ConsumerRole] | None,
) -> JobResult:
    """Receive, process and acknowledge until `stop` deliveries, silence, the fault, or the loss of the broker.

    `attached` is called once the consumer is attached. `liar` takes the place of an honest consumer.
    """
    notes = noting_receivers(job, recorder)
    consumer = (liar or ConsumerRole)(job, step, session, notes, armed)
    for place in range(step.receivers):
        session.attach_receiver(
            job.work.queues[place % len(job.work.queues)], step.prefetch, consumer.mode.subscription
        )
    if step.forwards:
        session.attach_sender(job.work.queue)
    for note in notes:
        note(Op.CONNECT, Phase.OK, count=step.prefetch, detail=session.found or None)
    attached()
    try:
        return consumer.run()
    except (Disconnected, Refused) as error:
        armed.lost()
        answered = error.answers if isinstance(error, Refused) and job.tolerances.refused else ()
        if isinstance(error, Refused) and not (answered or armed.broker_is_ending or job.tolerances.broker_may_end):
            raise
        session.answers.extend(one for one in answered if isinstance(one, OperationAnswer))
        consumer.disconnected()
        return consumer.result("refused" if answered else "disconnected")
    finally:
        armed.heal_if_due(now=True)


class ConsumerRole:
    """Receives and acknowledges. A session liar overrides the one method that it is wrong in."""

    def __init__(self, job: Job, step: Consume, session: Session, notes: Sequence[Note], armed: ArmedFault) -> None:
        self.job, self.step, self.session, self.notes, self.armed = job, step, session, notes, armed
        self.note = notes[0]
        self.mode = mode_of(step.mode, job.liar)
        self.confirmed = (self.mode.confirmed or step.confirm) and job.dialect.ack_confirm != NEVER
        self.operations = Operations(job, session, self.note, armed)
        self.delivered = 0
        self.firsts = 0
        self.transactions = 0
        self.forwarded = self.unanswered = 0
        self.waited_s = 0.0
        self.known: set[str] = set()
        self.refused: set[str] = set()
        self.open: deque[Received] = deque()
        self.processed: list[tuple[int, Received]] = []
        self.waiting: list[Received] = []

    def run(self) -> JobResult:
        while self.step.stop is None or self.delivered < self.step.stop:
            if not self._arrived(self._patience_s()):
                return self._nothing_came()
            self._take(next_received(self.session, self.job))
            if self.delivered == self.step.ends:
                self._end_first()
            pump(self.session, self.armed, 0)
            while self.armed.broker_is_ending:
                self.session.pump(5.0)
        while self.armed.awaits_loss:
            pump(self.session, self.armed, 1.0)
        return self.result("finished")

    def disconnected(self) -> None:
        """Record open requests as unknown, and the answers that came with the end of the connection."""
        self._lacks_outcomes(f"t{self.transactions}")
        self.operations.disconnected()
        while self.waiting and self.session.answers:
            self._confirmed(self.session.answers.popleft())
        self._unconfirmed("disconnected")

    def _patience_s(self) -> float:
        return _SILENCES * self.job.tolerances.silence_s if self.step.until_silent else self.job.tolerances.liveness_s

    def _arrived(self, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while not self.session.incoming:
            left = deadline - time.monotonic()
            if left <= 0 and not self.armed.awaits_loss:
                self.waited_s += patience_s
                return False
            self.session.fetch()
            pump(self.session, self.armed, max(left, 0.01))
        return True

    def _nothing_came(self) -> JobResult:
        if self.step.until_silent:
            return self.result("finished")
        self.note(Op.DELIVER, Phase.INFO, detail="nothing came")
        return self.result("stuck")

    def result(self, ended: str) -> JobResult:
        return JobResult(
            ended=ended,
            count=self.delivered,
            fired=self.armed.done,
            fired_ns=self.armed.fired_ns,
            seen=self.armed.seen,
            waited_s=self.waited_s,
        )

    # one delivery

    def _take(self, received: Received) -> None:
        self._hand(received)
        if self._is_refused(received):
            self._refuse(received)
            return
        early = self.mode.when is When.BEFORE_PROCESSING
        if early:
            self._acknowledge([received])
            pump(self.session, self.armed, 0)  # it leaves before the processing begins: a session only writes here
        self._record(Op.PROCESS, Phase.INVOKE, received)
        self.armed.count("process")
        self.armed.fire_if_due()
        self._work()
        self._record(Op.PROCESS, Phase.OK, received)
        if self.step.hold and len(self.open) >= self.step.prefetch:
            self._see_whether_more_comes()
        if not early:
            self._after_processing(received)

    def _work(self) -> None:
        """Serve the connection while the processing takes its time."""
        done = time.monotonic() + self.step.work_ms / 1000
        while (left := done - time.monotonic()) > 0:
            pump(self.session, self.armed, left)

    def _hand(self, received: Received) -> None:
        self.delivered += 1
        self.open.append(received)
        detail = self.job.work.selection(received.message)
        self._record(Op.DELIVER, Phase.OK, received, detail=detail, **delivery_fields(received, self.job))

    def _after_processing(self, received: Received) -> None:
        if self.mode.when is When.NEVER:
            self.open.pop()
            if self.step.renews is None or self.delivered <= self.step.renews:
                self._replenish([received])
        elif self.mode.when is not When.BY_APPLICATION:
            self._acknowledge([received])
        elif self.step.backwards:
            self._collect(received)
        elif not self.mode.covers_all:
            if self.delivered % self.step.acknowledge == 0:
                self._acknowledge([received])
        elif len(self.open) >= self.step.acknowledge:
            if self.mode.transacted:
                self._transact(list(self.open))
            else:
                self._acknowledge(self._covered())

    def _collect(self, received: Received) -> None:
        """Once enough are processed, acknowledge each that is due by itself, the last one first."""
        self.processed.append((self.delivered, received))
        if len(self.processed) >= self.step.backwards:
            due = [each for place, each in self.processed if place % self.step.acknowledge == 0]
            self.processed.clear()
            for each in reversed(due):
                self._acknowledge([each])

    def _covered(self) -> list[Received]:
        return list(self.open)

    def _see_whether_more_comes(self) -> None:
        """Record what arrives although the prefetch is used up: each such delivery is one too many."""
        quiet = time.monotonic() + self.job.tolerances.silence_s
        while (left := quiet - time.monotonic()) > 0:
            pump(self.session, self.armed, left)
            while self.session.incoming:
                self._hand(next_received(self.session, self.job))
        self.waited_s += self.job.tolerances.silence_s

    # acknowledging

    def _acknowledge(self, covered: list[Received]) -> None:
        for received in covered:
            self._record(Op.ACK, Phase.INVOKE, received)
        self._send_acknowledgement(covered)
        self._written()
        if self.confirmed:
            self._wait_confirmed(covered)
        self._settled(covered)
        self._replenish(covered)

    def _send_acknowledgement(self, covered: Sequence[Received]) -> None:
        self.session.acknowledge(covered, confirmed=self.confirmed)

    def _replenish(self, settled: Iterable[Received]) -> None:
        for receiver, count in Counter(received.receiver for received in settled).items():
            self.session.replenish(count, receiver)

    def _end_first(self) -> None:
        """End the first receiver; what it holds unacknowledged is given back before that."""
        held = [received for received in self.open if not received.receiver]
        for received in held:
            self._record(Op.NACK, Phase.INVOKE, received, detail=RECEIVER_ENDED)
        self._settled(held)
        self.processed = [(place, each) for place, each in self.processed if each.receiver]
        self.session.end_receiver(0)

    def _written(self) -> None:
        """Count an acknowledgement or a refusal that was written, and fire the fault that waits for it."""
        self.armed.count("ack_written")
        if self.armed.waits_for("ack_written"):
            pump(self.session, self.armed, 0)
            self.armed.fire_if_due()

    def _settled(self, covered: list[Received]) -> None:
        handled = {received.delivery for received in covered}
        self.open = deque(received for received in self.open if received.delivery not in handled)

    def _wait_confirmed(self, covered: list[Received]) -> None:
        invoked = time.monotonic_ns()
        self.waiting = list(covered)
        deadline = time.monotonic() + self.job.tolerances.liveness_s
        while self.waiting and (answer := next_answer(self.session, self.armed, deadline)) is not None:
            self.armed.check_answer(invoked)
            self.armed.answered("ack_written", invoked)
            self._confirmed(answer)
        self._unconfirmed("unanswered")
        self.armed.fire_if_due()

    def _wait_taken(self, covered: list[Received]) -> None:
        """Wait for the answers inside a transaction: only a refusal is recorded, and only the commit confirms."""
        self.waiting = list(covered)
        deadline = time.monotonic() + self.job.tolerances.liveness_s
        while self.waiting and (answer := next_answer(self.session, self.armed, deadline)) is not None:
            if answer.phase is Phase.OK:
                self.waiting = [each for each in self.waiting if each.delivery != answer.delivery]
            else:
                self._confirmed(answer)
        self._unconfirmed("unanswered")

    def _unconfirmed(self, detail: str) -> None:
        for received in self.waiting:
            self._record(Op.ACK, Phase.INFO, received, detail=detail)
        self.waiting = []

    def _confirmed(self, answer: OperationAnswer) -> None:
        for received in self.waiting:
            if received.delivery == answer.delivery:
                self.waiting.remove(received)
                self._record(Op.ACK, self.armed.phase_now(answer.phase), received, detail=answer.detail)
                self.armed.count("ack")
                return
        raise ClientError(f"the broker answered an acknowledgement of {answer.subject}, which was not waiting for one")

    def _transact(self, covered: list[Received]) -> None:
        self.transactions += 1
        name = f"t{self.transactions}"
        back = self.step.rollback_every > 0 and self.transactions % self.step.rollback_every == 0
        if not self.operations.run(Op.BEGIN, name):
            return
        for received in covered:
            self._record(Op.ACK, Phase.INVOKE, received, transaction=name)
        self.session.acknowledge(covered, transaction=name, confirmed=self.step.confirm)
        if self.step.confirm:
            self._wait_taken(covered)
        if self.step.forwards:
            self._forward(len(covered), name)
        pump(self.session, self.armed, 0)
        self.armed.count("before_commit")
        self.armed.fire_if_due()
        while self.armed.stands_still:
            pump(self.session, self.armed, 1.0)
        if self.armed.broker_is_ending:
            return
        if back:
            self.operations.run(Op.ROLLBACK, name)
        else:
            self.operations.run(Op.COMMIT, name, lambda: self._lacks_outcomes(name))
        self.open.clear()
        if back:
            self._give_back(covered)
        else:
            self.session.replenish(len(covered))

    def _forward(self, count: int, name: str) -> None:
        """Send so many new messages in the transaction, and read their provisional answers."""
        for _ in range(count):
            self.forwarded += 1
            message = message_id(self.job.work.producer, self.forwarded)
            self.note(Op.SEND, Phase.INVOKE, message=message, durable=True, transaction=name)
            body = make_body(message, _FORWARDED, trial_of(self.job.header))
            self.session.send(message, body, durable=True, transaction=name)
        self.unanswered = count
        deadline = time.monotonic() + self.job.tolerances.liveness_s
        while not self.job.dialect.answers_at_commit and (left := deadline - time.monotonic()) > 0:
            if not self._lacks_outcomes(name):
                return
            pump(self.session, self.armed, left)
        self.unanswered = count if self.job.dialect.answers_at_commit else 0

    def _lacks_outcomes(self, name: str) -> bool:
        """Record the answers to sends of the transaction that have come, and return whether some are missing."""
        while self.session.outcomes:
            outcome = self.session.outcomes.popleft()
            phase = self.armed.phase_now(outcome.phase)
            self.note(Op.SEND, phase, message=outcome.message, transaction=name, detail=outcome.detail)
            self.unanswered -= 1
        return self.unanswered > 0

    def _give_back(self, covered: list[Received]) -> None:
        if self.session.releases_after_rollback:
            for received in covered:
                self._record(Op.NACK, Phase.INVOKE, received, detail="released")
                self.session.refuse(received, "released")
            self.session.replenish(len(covered))

    # refusing

    def _is_refused(self, received: Received) -> bool:
        """Whether it is every n-th message that is new to this consumer, or with `refuse_again` came again."""
        if not self.step.refuse or received.message in self.known:
            return self.step.refuse_again and received.message in self.refused
        self.known.add(received.message)
        self.firsts += 1
        return self.firsts % self.step.refuse_every == 0

    def _refuse(self, received: Received) -> None:
        outcome = self.step.refuse[self.firsts // self.step.refuse_every % len(self.step.refuse)]
        self.refused.add(received.message)
        # A listener that throws has failed to process its message, and who asks for a message again did not process it.
        said = "failed" if outcome in ("thrown", "recovered") else outcome
        self._record(Op.NACK, Phase.INVOKE, received, detail=said)
        self.session.refuse(received, outcome)
        self._written()
        self.open.remove(received)
        self._replenish([received])
        if self.session.answers_refusals:
            answer = next_answer(self.session, self.armed, time.monotonic() + self.job.tolerances.liveness_s)
            self._record(Op.NACK, answer.phase if answer else Phase.INFO, received, detail=outcome)

    def _record(self, op: Op, phase: Phase, received: Received, **fields: Any) -> None:
        self.notes[received.receiver](op, phase, message=received.message, **fields)
