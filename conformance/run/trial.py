"""One trial: its steps played against a running broker, and its folder of histories closed.

Whatever goes wrong on our side voids the trial and says why; it is never held against the broker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Iterator

import msgspec

from conformance import records
from conformance.adapters import Broker
from conformance.clients import job as jobs
from conformance.clients.job import Job, Result, Trigger
from conformance.clients.worker import Child, Nursery
from conformance.errors import ClientError, ConformanceError, FaultError, Interrupted, LaunchError
from conformance.faults import process
from conformance.history import Ended, Header, Op, Phase, Recorder, close_history
from conformance.records import TrialRecord
from conformance.run.plan import Planned
from conformance.scenario import Consume, ConsumerCrash, Drain, Fault, Kill, Pause, Publish, Restart, Step, Stop

_PATIENCE_S = 600.0
_DRAIN_CREDIT = 1000
_PROCESS = {"publish": "publisher", "consume": "consumer", "drain": "drain"}


@dataclasses.dataclass
class Abort:
    """Set when the user stopped the run: running clients are told to end, and no step begins."""

    requested: bool = False
    children: set[Child] = dataclasses.field(default_factory=set)

    def now(self) -> None:
        """End every client at once."""
        self.requested = True
        for child in list(self.children):
            child.end()


class TrialPlayer:
    """Plays one planned trial; `play` returns its record and has written `trial.json`."""

    def __init__(
        self,
        planned: Planned,
        broker: Broker,
        nursery: Nursery,
        folder: pathlib.Path,
        header: Header,
        abort: Abort,
    ) -> None:
        self.planned, self.broker, self.nursery, self.folder, self.abort = planned, broker, nursery, folder, abort
        self.header = header
        self.floor_s = 0.0
        self.seen_stuck = False
        self.counts: dict[str, int] = {}
        folder.mkdir(parents=True)
        self.recorder = Recorder(folder / "orchestrator.jsonl", self._header("orchestrator"))

    def play(self) -> TrialRecord:
        """Every step in order; an error of ours becomes `TrialRecord.void`.

        Raises:
            Interrupted: The user stopped the run; the histories are closed as interrupted.
        """
        started, ended, void = time.monotonic(), Ended.FINISHED, ""
        log: tuple[str, ...] = ()
        try:
            for step in self.planned.script.steps:
                self._step(step)
                if self.seen_stuck and self.planned.arm == "control":
                    break  # seen to fail: only the subject's restart could still free what is stuck
        except (Interrupted, KeyboardInterrupt):
            ended, void = Ended.INTERRUPTED, "the run was interrupted"
            raise
        except LaunchError as error:
            ended, void, log = Ended.DIED, str(error), error.log_tail
        except ConformanceError as error:
            ended, void = Ended.DIED, str(error)
        finally:
            self.recorder.close()
            close_history(self.folder / "orchestrator.jsonl", ended, void)
            record = msgspec.structs.replace(
                describe(self.planned),
                void=void,
                void_log=log,
                floor_seconds=round(self.floor_s, 3),
                seconds=round(time.monotonic() - started, 3),
            )
            records.save(record, self.folder / "trial.json")
        return record

    # steps

    def _step(self, step: Step) -> None:
        self._go_on()
        if isinstance(step, Restart):
            self._restart(step)
        elif isinstance(step, Drain):
            result = self._client("drain", self._job("drain", prefetch=_DRAIN_CREDIT))
            self._alive(result)
            self.seen_stuck = result.ended == "stuck"
        else:
            self._drive(step)

    def _drive(self, step: Publish | Consume) -> None:
        fields = {name: value for name, value in vars(step).items() if name != "until"}
        role = "publish" if isinstance(step, Publish) else "consume"
        if isinstance(step, Publish):
            fields["producer"] = self.counts.get(role, 0) + 1
        job = self._job(role, trigger=_trigger(step.until), liar=self.planned.session_liar, **fields)
        match step.until:
            case ConsumerCrash():
                self._crash(job)
            case Kill() | Stop():
                self._end_broker(job, step.until)
            case Pause():
                self._pause(job)
            case None:
                self._alive(self._client(job.role, job))

    def _end_broker(self, job: Job, fault: Kill | Stop) -> None:
        with self.broker.pidfds(main_only=isinstance(fault, Stop)) as pidfds:
            result = self._client(job.role, job, pidfds)
        if not result.fired:
            self.broker.alive_check()
        assert job.trigger is not None
        process.prove_ended(self.broker, fault.name, fired=result.fired, seen=result.count, wanted=job.trigger.k)
        self._note(Op.FAULT, Phase.EFFECTIVE, fault=fault.name)
        self._note(Op.BROKER, Phase.OK, detail=fault.name)

    def _pause(self, job: Job) -> None:
        """The client that owns the trigger halts the broker, shows that every thread is stopped, and lets it go on."""
        with self.broker.pidfds() as pidfds:
            result = self._client(job.role, job, pidfds)
        self._alive(result)
        assert job.trigger is not None
        process.prove_paused(fired=result.fired, seen=result.count, wanted=job.trigger.k)
        self.floor_s += job.trigger.hold_s

    def _crash(self, job: Job) -> None:
        child, job = self._spawn(job.role, job, ())
        result = self._wait(child)
        path = pathlib.Path(job.history)
        if result is not None:
            close_history(path, Ended.FINISHED)
            raise FaultError(f"the client was not killed: {result.error or result.ended} after {result.count}")
        lines = path.read_bytes().splitlines()
        fired = bool(lines) and b'"phase":"fired"' in lines[-1]
        close_history(path, Ended.KILLED_BY_FAULT if fired else Ended.DIED)
        process.prove_crashed(last_event_fired=fired, seen=len(lines) - 1)
        self._note(Op.FAULT, Phase.EFFECTIVE, fault="consumer_crash")
        self.broker.alive_check()

    def _restart(self, step: Restart) -> None:
        started = time.monotonic()
        detail = "restart" if step.clean else "start"
        self._note(Op.BROKER, Phase.INVOKE, detail=detail)
        if step.clean:
            self.broker.stop()
        self.broker.start()
        self._note(Op.BROKER, Phase.OK, detail=detail)
        self.floor_s += time.monotonic() - started

    def _alive(self, result: Result) -> None:
        if result.ended == "disconnected":
            self.broker.alive_check()
            raise ClientError("the broker closed the connection of a client although no fault was at work")

    # clients

    def _job(self, role: str, **fields: object) -> Job:
        broker, planned = self.broker, self.planned
        host, port = broker.endpoint(planned.protocol)
        spoken = planned.adapter.file.protocols[planned.protocol]
        return Job(
            role=role,
            header=self.header,
            history="",
            host=host,
            port=port,
            protocol=planned.protocol,
            queue=planned.queue,
            epoch=broker.epoch,
            client=planned.script.client,
            ack_confirm=spoken.ack_confirm or "",
            depth=_probe(broker, planned.queue),
            stomp=jobs.StompWords(spoken.destination, dict(spoken.send), dict(spoken.subscribe)),
            **fields,  # type: ignore[arg-type]
        )

    def _client(self, role: str, job: Job, pidfds: list[int] | tuple[int, ...] = ()) -> Result:
        child, job = self._spawn(role, job, pidfds)
        path = pathlib.Path(job.history)
        result = self._wait(child)
        if result is None or result.error:
            close_history(path, Ended.DIED, result.error if result else "died without a result")
            self.broker.alive_check()
            raise ClientError(result.error if result else f"{path.stem} died: {_last_line(child.log)}")
        close_history(path, Ended.FINISHED)
        self.floor_s += result.waited_s
        return result

    def _spawn(self, role: str, job: Job, pidfds: list[int] | tuple[int, ...]) -> tuple[Child, Job]:
        number = self.counts[role] = self.counts.get(role, 0) + 1
        name = f"{_PROCESS[role]}-{number}"
        path = self.folder / f"{name}.jsonl"
        job = msgspec.structs.replace(job, header=self._header(name), history=str(path))
        return self.nursery.spawn(job, self.folder / f"{name}.log", pidfds), job

    def _wait(self, child: Child) -> Result | None:
        self.abort.children.add(child)
        try:
            result = child.wait(_PATIENCE_S)
            self._go_on()
        except (Interrupted, KeyboardInterrupt):
            child.end()
            close_history(pathlib.Path(child.job.history), Ended.INTERRUPTED)
            raise
        finally:
            child.close()
            self.abort.children.discard(child)
            with contextlib.suppress(OSError):
                if child.log.stat().st_size == 0:
                    child.log.unlink()
        return result

    def _go_on(self) -> None:
        if self.abort.requested:
            raise Interrupted("stopped by the user")

    def _header(self, name: str) -> Header:
        return msgspec.structs.replace(self.header, process=name)

    def _note(self, op: Op, phase: Phase, **fields: str) -> None:
        self.recorder.record(op, phase, epoch=self.broker.epoch, **fields)
        self.recorder.flush()


def describe(planned: Planned) -> TrialRecord:
    """The record of a trial of which nothing is known yet but the plan."""
    return TrialRecord(
        trial=planned.id,
        scenario=planned.script.id,
        arm=planned.arm,
        control=planned.control,
        index=planned.index,
        seed=planned.seed,
        k=planned.k,
        adapter=planned.adapter.name,
        settings=dict(planned.settings.values),
    )


def unstarted(planned: Planned, folder: pathlib.Path, error: LaunchError) -> TrialRecord:
    """The record, written, of a trial whose broker did not start: void, and without a history."""
    folder.mkdir(parents=True)
    record = msgspec.structs.replace(describe(planned), void=str(error), void_log=error.log_tail)
    records.save(record, folder / "trial.json")
    return record


def _trigger(fault: Fault | None) -> Trigger | None:
    if fault is None:
        return None
    assert isinstance(fault.at.k, int)
    return Trigger(fault.at.event, fault.at.k, fault.name, fault.hold_s if isinstance(fault, Pause) else 0.0)


def _probe(broker: Broker, queue: str) -> jobs.DepthProbe:
    """How a client asks for a depth; over AMQP at the broker's AMQP port, whatever it speaks itself."""
    probe = broker.depth_probe(queue)
    host, port = broker.endpoint("amqp") if probe.method == "amqp-management" else ("", 0)
    return jobs.DepthProbe(probe.method, probe.url, probe.field, probe.address, dict(probe.properties), host, port)


def _last_line(path: pathlib.Path) -> str:
    lines: Iterator[str] = iter([])
    with contextlib.suppress(OSError):
        lines = reversed(path.read_text(errors="replace").splitlines())
    return next(lines, "it left no word")
