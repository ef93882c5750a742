"""Play one trial: run its steps against a running broker, and close its histories.

An error of the suite voids the trial and says why; it never counts against the broker.
"""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from conformance import history, records
from conformance.adapters.interface import Node, Processes
from conformance.clients.job import NO_CREDIT, UNANSWERED, Job, JobResult, Tolerances
from conformance.clients.workers.pool import WorkerPool
from conformance.errors import (
    BlockedError,
    BrokerError,
    ClientError,
    ConformanceError,
    DroppedError,
    FaultError,
    Interrupted,
    LaunchError,
)
from conformance.faults import process
from conformance.history import OF_ANOTHER, Ended, Event, Header, Op, Phase, Recorder, close_history
from conformance.records import NOT_FIRED, TrialRecord
from conformance.run.broker_pool import RunningBroker
from conformance.run.planning import Planned
from conformance.run.trial.clients import Abort, ClientRunner, check_alive, unserved
from conformance.run.trial.company import ENDED, Company
from conformance.run.trial.damage import Damaged
from conformance.run.trial.described import INTERRUPTED, describe
from conformance.run.trial.drains import Drains
from conformance.run.trial.evidence import EvidenceKeeper
from conformance.run.trial.jobs import Address, JobMaker, unarmed
from conformance.run.trial.offers import offered
from conformance.run.trial.restart import NotReady, RestartAttempt, oom_kills, own_end
from conformance.run.trial.traced import TracedRun, over_link, slow_network, watch_link
from conformance.scenario.needs import CLEAN_RESTART, FRESH, JOURNAL_WATCHED
from conformance.scenario.script import (
    Ask,
    ClientFault,
    Consume,
    ConsumerCrash,
    Drain,
    Fault,
    Kill,
    KillNodes,
    LinkFault,
    Offer,
    Pause,
    PowerLoss,
    Publish,
    Recovery,
    Restart,
    Shortage,
    Step,
    Together,
    TogetherFault,
    TracedFault,
    fixed_number,
    largest,
)

_LOOK_AGAIN_S = 1.0


class TrialPlayer:
    """Plays one planned trial in its company; `play` writes `trial.json` and returns its record."""

    def __init__(
        self,
        planned: Planned,
        running: RunningBroker,
        worker_pool: WorkerPool,
        folder: pathlib.Path,
        header: Header,
        abort: Abort,
        company: Company | None = None,
    ) -> None:
        self.planned, self.running, self.folder, self.abort = planned, running, folder, abort
        self.company = company or Company(planned.id)
        self.broker = running.broker
        self.jobs = JobMaker(planned, running.broker, header)
        self.client_runner = ClientRunner(running.broker, worker_pool, folder, header, abort, self.jobs.learn)
        self.floor_s = 0.0
        self.broker_is_lost = self.recovered = self.short = self.was_short = False
        self.disturbed = self.unfired = self.withheld = False
        self.oom_kills = oom_kills()
        self.met: Processes = running.node.target
        self.current: Step | None = None
        self.traced: TracedRun | None = None
        folder.mkdir(parents=True)
        self.evidence = EvidenceKeeper(folder, running.broker)
        self.damaged = Damaged(running.broker, folder, planned)
        self.drains = Drains(planned, running, folder, self.jobs, self._run, lambda: self.damaged.done)
        self.recorder = Recorder(folder / "orchestrator.jsonl", self.client_runner.header("orchestrator"))

    def play(self) -> TrialRecord:
        """Play every step in order; an error of the suite becomes `TrialRecord.void`.

        A trial whose client waited in vain, and so never met its fault, shows no effect of one, and is not void.

        Raises `Interrupted` if the user stopped the run; the histories are closed as interrupted.
        """
        started, ended, void = time.monotonic(), Ended.FINISHED, ""
        log: tuple[str, ...] = ()
        of_broker = False
        self.evidence.begin()
        try:
            with self._network() as self.jobs.network:
                self._play_steps()
                self._untrace()
                self.damaged.report(self._note)
        except (Interrupted, KeyboardInterrupt):
            ended, void = Ended.INTERRUPTED, INTERRUPTED
            raise
        except LaunchError as error:
            ended, void, log, of_broker = Ended.DIED, str(error), error.log_lines, error.of_broker
        except ConformanceError as error:
            ended, void, of_broker = Ended.DIED, str(error), error.of_broker
        finally:
            self.recorder.close()
            close_history(self.folder / "orchestrator.jsonl", ended, void)
            self.evidence.end()
            self.damaged.end()
            record = msgspec.structs.replace(
                describe(self.planned),
                void=void,
                void_log=log,
                void_by_broker=(of_broker or self.withheld) and oom_kills() == self.oom_kills,
                floor_seconds=round(self.floor_s + self.client_runner.waited_s, 3),
                seconds=round(time.monotonic() - started, 3),
            )
            records.save(record, self.folder / "trial.json")
        return record

    @property
    def node(self) -> Node:
        """The node that clients use now."""
        return self.broker.node

    def _network(self) -> contextlib.AbstractContextManager[Callable[[Address], Address]]:
        if rtt_ms := self.planned.rtt_ms:
            return slow_network(self.running.ledger, self.client_runner, rtt_ms)
        return contextlib.nullcontext(self.jobs.network)

    # steps

    def _play_steps(self) -> None:
        try:
            self._prepare_broker()
            for step in self.planned.script.steps:
                if self.broker_is_lost:
                    return
                self.abort.check()
                self.current = step
                self._do(step)
                if self.drains.seen_stuck and self.planned.arm == "control":
                    return  # seen to fail: only the subject's restart could still free what is stuck
            if not self.broker_is_lost:
                self._drain_to_the_end()
        except FaultError:
            self._show_withheld()
            if not self.withheld:
                raise
        except (LaunchError, ClientError) as error:
            if isinstance(error, LaunchError) and self._after_recovery(error):
                with self.company.alone:
                    found = RestartAttempt(self.running).died(error, self.planned.queue)
                self._end_unready(found)
            elif self.damaged.done and isinstance(error, ClientError):
                self._end_unready(NotReady(Phase.INFO, f"{history.NOT_READY}: after the damage: {error}"))
            elif why := self._not_served(error):
                self._end_unready(NotReady(Phase.FAIL, f"{history.NOT_SERVED}: {why}"))
            elif why := self._own_end(error):
                self._end_unready(NotReady(Phase.FAIL, f"{history.NOT_ALIVE}: {why}"))
            else:
                raise

    def _show_withheld(self) -> None:
        """Drain what the broker gave to no client of this trial: then its fault was never due."""
        if self.withheld or not self.client_runner.in_vain or self.node.target.gone():
            return
        self.withheld = True
        self.drains.drain()
        while self.drains.brings:
            self.drains.drain()
        if self.drains.settles:
            self._do(Restart(clean=True))
            if not self.broker_is_lost:
                self.drains.drain()

    def _own_end(self, error: LaunchError | ClientError) -> str:
        """Return how the broker ended, dropped a connection or broke the protocol by itself; empty if unsure.

        No fault has reached the broker in this trial, and nothing of this machine explains it (`restart.own_end`). Its
        owner may stop an external broker, and a vendor's client may close a connection itself.
        """
        fault = getattr(self.current, "until", None)
        armed = getattr(fault, "signal", None) and not self.unfired
        others = self.planned.adapter.launcher.owned or (bool(self.planned.client) and isinstance(error, BrokerError))
        if self.disturbed or self.recovered or self.traced or armed or others:
            return ""
        return own_end(self.node, error, oom=oom_kills() > self.oom_kills)

    def _after_recovery(self, error: LaunchError) -> bool:
        """Whether the broker ended by itself after a start that followed a fault, so that only its data explain it.

        A fault in the same step, or a tracer, may also have ended the broker: then the cause is unknown and the trial
        is void. A later trial without a fault does not count: its own queue may be the cause.
        """
        fault = getattr(self.current, "until", None) or getattr(self.current, "under", None)
        return (
            self.recovered and error.failure is not None and not fault and not self.traced and self.node.target.gone()
        )

    def _end_unready(self, found: NotReady) -> None:
        self.broker_is_lost = True
        self._note(Op.BROKER, found.phase, detail=found.reason)

    def _prepare_broker(self) -> None:
        """Start a broker that the previous trial left ended, unless the first step starts it; then name the queue.

        In this order: only a running broker can say whether an existing queue is empty. The previous trial ended it by
        a fault, or by SIGKILL under a tracer: if it does not start, it has not recovered.
        """
        started = time.monotonic()
        if failed := self.company.meet(self._bring_up):
            self._note(Op.BROKER, Phase.INVOKE, detail="start")
            self._end_unready(failed)
            return
        self.floor_s += time.monotonic() - started
        names = [self.broker.service.queue_of(queue) for queue in self.planned.queues]
        self.jobs.queue, *self.jobs.more_queues = names
        if FRESH in self.planned.script.needs:
            for name in names:
                self.broker.declare(name)

    def _bring_up(self) -> NotReady | None:
        if self.node.target.gone() and not isinstance(self.planned.script.steps[0], Restart):
            return RestartAttempt(self.running).start()
        return None

    def _do(self, step: Step) -> None:
        """Do a step; again if the broker had ended before it, for want of something, and was started since."""
        try:
            self._step(step)
        except (LaunchError, ClientError):
            if not self.short or isinstance(step, Restart) or not self._started_after_shortage():
                raise
            self._step(step)

    def _step(self, step: Step) -> None:
        if isinstance(step, Restart):
            self._restart(step)
        elif isinstance(step, Offer):
            self._offer(step)
        elif isinstance(step, Ask):
            self._run(self._client(step))
        elif isinstance(step, Drain):
            self.drains.drain()
        elif isinstance(step, Together):
            self._together(step)
        elif isinstance(step, Publish | Consume):
            self._drive(step)

    def _drain_to_the_end(self) -> None:
        """Restart and drain until a drain brings nothing; a broker that the suite cannot restart is only drained."""
        while self.drains.go_on and self.drains.brings:
            self.abort.check()
            if not self.planned.adapter.lacks(CLEAN_RESTART):
                self._restart(Restart(clean=True))
                if self.broker_is_lost:
                    return
            self._step(Drain())

    def _together(self, step: Together) -> None:
        """Run clients beside each other."""
        fault = cast(TogetherFault | None, step.until)
        ends = fault is not None and fault.ends_broker
        groups = [[self._client(each, broker_may_end=ends) for each in group] for group in step.groups]
        if fault:
            self._meet(fault, groups)
            return
        for result in self.client_runner.play_together(groups):
            self._check_connected(result)

    def _meet(self, fault: TogetherFault, groups: Sequence[Sequence[Job]]) -> None:
        """Run clients beside each other until a fault that this trial fires, or another one of its company."""
        self.met = self.running.met(fault)
        number, owner = self.company.next_fault(self.planned.index)
        if owner == self.planned.id:
            self._fire(number, fault, groups)
        else:
            self._witness(number, fault, groups)

    def _fire(self, number: int, fault: TogetherFault, groups: Sequence[Sequence[Job]]) -> None:
        """Run these clients; the one with the fault is in the last group.

        A fault that ends the broker ends the connections of all. A connection that is lost before that voids the trial.
        """
        fires: JobResult | None = None
        try:
            self.company.meet(bool)  # the clients of the others are attached
            with self.met.armed(*fault.armed_by) as descriptors:
                *others, fires = self.client_runner.play_together(groups, descriptors)
            self._prove(fault, fires)
        finally:
            fired_ns = fires.fired_ns if fires and fires.fired else 0
            if fired_ns or len(self.company.members) == 1:
                self.company.tell_fired(number, fired_ns)
            else:
                self._end_for_the_others(number)
        for result in others:
            self._check_met(result, fires.fired_ns if fault.ends_broker else 0)

    def _end_for_the_others(self, fault: int) -> None:
        """End the broker, as the fault was not fired and the others wait for it; drain first what it has withheld."""
        ended = 0
        try:
            self._show_withheld()
        finally:
            if not self.node.target.gone():
                process.end_now(self.node.target)
                ended = ENDED
            self.company.tell_fired(fault, ended)

    def _witness(self, number: int, fault: TogetherFault, groups: Sequence[Sequence[Job]]) -> None:
        """Run these clients until the fault of another trial ends the broker.

        Raises `FaultError` if it did not come, and `BrokerError` if a connection was lost before it.
        """
        failed: ConformanceError | None = None
        results: list[JobResult] = []
        try:
            with self.client_runner.attached([[unarmed(job) for job in group] for group in groups]) as running:
                self.company.meet(bool)
                results = self.client_runner.finish(running)
        except (LaunchError, ClientError) as error:
            failed = error
        fired_ns = self.company.await_fired(number)
        if fired_ns <= 0:
            died = failed if not fired_ns else None
            raise died or FaultError(f"the {fault.name} of another trial of its company {NOT_FIRED}")
        if failed:
            raise ClientError(f"a client failed at the {fault.name} of another trial of its company: {failed}")
        for result in results:
            self._check_met(result, fired_ns)
        self.disturbed = True
        fired = Event(self.recorder.sequence, fired_ns, Op.FAULT, Phase.FIRED, self.broker.epoch)
        self.recorder.append(msgspec.structs.replace(fired, fault=fault.name, detail=OF_ANOTHER))
        self._prove_gone(fault, fault.name)

    def _check_met(self, result: JobResult, fired_ns: int) -> None:
        """Raise `BrokerError` if a client lost its connection before the fault that ended its broker, or without it."""
        if not fired_ns:
            self._check_connected(result)
        elif result.ended == "disconnected" and result.lost_ns < fired_ns:
            raise BrokerError("the broker closed the connection of a client before the fault of another")

    def _client(self, step: Publish | Consume | Ask, *, broker_may_end: bool = False) -> Job:
        honest = isinstance(step, Consume) and step.honest
        fault = None if isinstance(step, Ask) else step.until
        lasts = self.traced is not None and self.traced.may_end_broker
        may_end = broker_may_end or lasts or isinstance(fault, Shortage)
        return self.jobs.make(
            step,
            Tolerances(broker_may_end=may_end),
            liar="" if honest else self.planned.session_liar,
            within_s=self.node.target.within_s(fault.name) if isinstance(fault, ClientFault) else 0.0,
            journal=str(self.node.facts.journal_files.folder) if JOURNAL_WATCHED in self.planned.script.needs else "",
        )

    def _drive(self, step: Publish | Consume) -> None:
        job = self._client(step)
        if isinstance(step.until, LinkFault):
            self._over_link(job, step.until)
        elif step.linked:
            with watch_link(self.running.ledger, self.client_runner, job) as linked:
                self._play(linked, step.until)
        else:
            self._play(job, step.until)

    def _play(self, job: Job, fault: Fault | None) -> None:
        if isinstance(fault, ConsumerCrash):
            self.client_runner.crash(job)
            self._note(Op.FAULT, Phase.EFFECTIVE, fault=fault.name)
            self.node.target.alive_check()
        elif isinstance(fault, PowerLoss | Shortage) and fault.ends_broker:
            self._prove_ended(fault, self._play_without(job, fault), fault.names[-1])
        elif isinstance(fault, Shortage):
            self._be_short(job, fault)
        elif isinstance(fault, TogetherFault):
            self._meet(fault, [[job]])
        elif self.short and isinstance(job.work.step, Publish):
            self._publish_after_shortage(job, job.work.step)
        else:
            self._run(job)

    def _prove(self, fault: TogetherFault, result: JobResult) -> None:
        """Show that the client has fired its fault, and that the broker has ended, or was halted for a time."""
        self._note_fired(result)
        if isinstance(fault, Pause):
            self.floor_s += fault.hold_s
        if fault.ends_broker:
            self._prove_ended(fault, result, fault.names[-1])
            return
        self._check_connected(result)
        process.prove_fired(fault.name, fired=result.fired, seen=result.seen, wanted=largest(fault.at))
        if isinstance(fault, KillNodes):
            process.prove_gone(self.met, fault.name)
            self._note_ended(fault.name)

    def _note_fired(self, result: JobResult) -> None:
        """Note whether the fault of this step has reached the broker."""
        self.disturbed, self.unfired = self.disturbed or bool(result.fired_ns), not result.fired

    def _play_without(self, job: Job, fault: PowerLoss | Shortage) -> JobResult:
        """Let the client take the disk of the broker away for good, or a resource for a time."""
        self.met = self.running.met(fault)
        with self.running.without(fault) as first, self.met.armed(*fault.armed_by) as handles:
            result = self.client_runner.play(job, [*first, *handles])
        self._note_fired(result)
        return result

    def _be_short(self, job: Job, fault: Shortage) -> None:
        """Let the broker be short of something for a time; one that ended of it is started again."""
        result = self._play_without(job, fault)
        self.floor_s += fault.hold_s
        process.prove_fired(fault.name, fired=result.fired, seen=result.seen, wanted=largest(fault.at))
        self.short = self.was_short = self.client_runner.may_fail = fault.returns
        if result.ended == "disconnected":
            self._started_after_shortage()
        elif result.ended in (UNANSWERED, NO_CREDIT) and not self.client_runner.is_confirmed(Phase.HEALED):
            error, self.short = unserved(self.broker, self.node, result, given_back=fault.alarm)
            if error is not None:
                raise error

    def _started_after_shortage(self) -> bool:
        """Start the broker if it has ended for want of something; it may take a while to end."""
        self.short = not self.met.wait_gone(process.GONE_S)
        if not self.short:
            self._note(Op.BROKER, Phase.INFO, detail=history.ENDED_SHORT)
            self._restart(Restart())
        return not self.short

    def _publish_after_shortage(self, job: Job, step: Publish) -> None:
        """Run publishers until one is answered; raise `ClientError` if none is within the liveness bound.

        A broker looks at its disk only now and then, and refuses meanwhile.
        """
        ends = time.monotonic() + job.tolerances.liveness_s
        while True:
            error: ClientError = BlockedError("the broker did not confirm what a publisher sent")
            try:
                if self._run(job).ended != UNANSWERED and self.client_runner.is_confirmed():
                    return
            except ClientError as failed:
                error = failed
            if time.monotonic() > ends or self.met.wait_gone(_LOOK_AGAIN_S):
                raise error
            job = self._client(step)

    def _not_served(self, error: LaunchError | ClientError) -> str:
        """Return how a broker does not serve that runs, and has again what it was short of; empty if it is none."""
        return str(error) if self.short and isinstance(error, ClientError) and not self.node.target.gone() else ""

    def _prove_ended(self, fault: ClientFault, result: JobResult, name: str) -> None:
        if not result.fired_ns:
            self._check_connected(result)
            self.node.target.alive_check()
        process.prove_fired(name, fired=result.fired, seen=result.seen, wanted=largest(fault.at))
        self._prove_gone(fault, name)

    def _prove_gone(self, fault: ClientFault, name: str) -> None:
        process.prove_gone(self.met, name)
        if isinstance(fault, PowerLoss):
            self.running.after_loss()
        self._note_ended(name)
        self._note(Op.BROKER, Phase.OK, detail=name)

    def _note_ended(self, name: str) -> None:
        """Note that a fault took effect, and which of several nodes are down."""
        down = ", ".join(node.facts.folder.name for node in self.broker.nodes if node.target.gone())
        self._note(Op.FAULT, Phase.EFFECTIVE, fault=name, **({"detail": down} if len(self.broker.nodes) > 1 else {}))

    def _over_link(self, job: Job, fault: LinkFault) -> None:
        result = over_link(self.running.ledger, self.client_runner, job, fault)
        self.floor_s += getattr(fault, "hold_s", 0.0)
        self.node.target.alive_check()
        if result.ended == "disconnected" and fault.name != "cut":
            raise BrokerError(f"the broker closed the connection of a client under {fault.name}")

    def _restart(self, step: Restart) -> None:
        started = time.monotonic()
        under = step.under if isinstance(step.under, TracedFault) else None
        traced = TracedRun(self.client_runner, self.running, under) if under else None
        self._untrace()
        if not step.clean:
            self.evidence.share(self.company.meet(self.evidence.before_restart))
        self._note(Op.BROKER, Phase.INVOKE, detail=step.does)
        attempt = self.company.meet(lambda: self._before_start(step))
        self.short = False
        self.traced = traced
        beside = self.client_runner.begin([self._awaiting(each, attempt.ready_s) for each in step.beside])
        try:
            if failed := self.company.meet(lambda: attempt.start(self.traced.start if self.traced else None)):
                self.traced = None
                self.client_runner.leave(beside)
                self._end_unready(failed)
                return
            self.recovered = self.recovered or not step.clean or step.until is not None or self.damaged.done
            self._note(Op.BROKER, Phase.OK, detail=step.does)
            self.floor_s += time.monotonic() - started
            for result in self.client_runner.finish(beside):
                self._check_connected(result)
        finally:
            self.client_runner.end(beside, Ended.INTERRUPTED, "the broker, or another client, failed")

    def _before_start(self, step: Restart) -> RestartAttempt:
        """Do what a restart does before the broker starts."""
        if step.clean:
            self.broker.stop()
        elif self.was_short and not self.node.target.gone():
            process.end(self.node.target, "kill")
            self.was_short = False
        if step.flushed:
            self.running.flush()
        if step.until is not None:
            self._kill_start(step.until)
            self.evidence.before_restart()
        self.damaged.before_start(step, self._note)
        self.client_runner.may_fail = self.damaged.done
        return RestartAttempt(self.running)

    def _awaiting(self, step: Publish | Consume, reaches_s: float) -> Job:
        """Return the job of a client that begins before the broker is started."""
        job = self._client(step)
        connection = msgspec.structs.replace(job.connection, reaches_s=reaches_s)
        return msgspec.structs.replace(job, epoch=self.broker.epoch + 1, connection=connection)

    def _offer(self, step: Offer) -> None:
        """Start the broker with each setting alone, which it may refuse, and then with all that it accepted.

        Each start is a BROKER event `offered NAME=VALUE`: `fail` if the broker refused the setting, else `ok`.
        """
        started = time.monotonic()
        self.disturbed = True  # a setting that the suite makes up may end it
        self._untrace()
        self.broker.stop()
        taken: list[str] = []
        for setting, words in offered(self.running, self.planned.adapter, step.settings):
            taken += words or ()
            self._note(Op.BROKER, Phase.FAIL if words is None else Phase.OK, detail=f"offered {setting}")
        self.running.start(more=taken)
        self.floor_s += time.monotonic() - started

    def _kill_start(self, fault: Kill) -> None:
        """Start the broker, and kill it in its recovery or, without any use, so long after it was ready."""
        self._note(Op.FAULT, Phase.ARMED, fault=fault.name)
        target = self.node.target
        if isinstance(fault.at, Recovery):
            journal = self.node.facts.journal_files.folder
            fired = process.kill_in_recovery(target, self.node.launch, journal, fixed_number(fault.at.k))
        else:
            self.running.start()
            fired = process.kill_after(target, largest(fault.at))
        self._note(Op.FAULT, Phase.FIRED, fault=fault.name, detail=fired)
        self._note(Op.FAULT, Phase.EFFECTIVE, fault=fault.name)

    def _untrace(self) -> None:
        """End a traced run of the broker; its disk operations become a history."""
        if self.traced is not None:
            traced, self.traced = self.traced, None
            traced.finish()

    def _run(self, job: Job) -> JobResult:
        """Run a client that no fault meets."""
        result = self.client_runner.play(job)
        self._check_connected(result)
        return result

    def _check_connected(self, result: JobResult) -> None:
        if result.ended == "disconnected" and not (self.traced and self.traced.may_end_broker):
            check_alive(self.node)
            raise DroppedError("the broker closed the connection of a client although no fault was active")

    def _note(self, op: Op, phase: Phase, **fields: str) -> None:
        self.recorder.record(op, phase, epoch=self.broker.epoch, **fields)
        self.recorder.flush()
