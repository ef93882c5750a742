"""Run the client processes of one trial: their histories, and how they ended."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from conformance import history, limits
from conformance.adapters import Broker
from conformance.adapters.interface import Node
from conformance.clients.job import BROKE_PROTOCOL, NO_CREDIT, UNANSWERED, Job, JobResult, Work
from conformance.clients.management import DepthClient
from conformance.clients.session import Disconnected
from conformance.clients.workers.pool import Child, WorkerPool
from conformance.errors import (
    BlockedError,
    BrokerError,
    ClientError,
    DroppedError,
    FaultError,
    Interrupted,
    LaunchError,
)
from conformance.history import Ended, Header, Op, Phase, close_history
from conformance.processes import readable
from conformance.run.trial.jobs import reachable
from conformance.scenario.script import Ask, Consume, Drain, Publish, Shortage

_PROCESS = {Publish: "publisher", Consume: "consumer", Drain: "drain", Ask: "asker"}
_GOING_S = 5.0

Running = dict[Child, Job]
"""Clients that run, each with its job."""


class Ends(Protocol):
    """What ends when the user stops the run."""

    def end(self) -> None: ...


@dataclasses.dataclass
class Abort:
    """Set when the user stopped the run: running clients are ended, and no step begins."""

    requested: bool = False
    children: set[Ends] = dataclasses.field(default_factory=set)

    def now(self) -> None:
        self.requested = True
        for child in list(self.children):
            child.end()

    def watch(self, child: Ends) -> None:
        """End this child with the others, at once if they have already been ended."""
        self.children.add(child)
        if self.requested:
            child.end()

    def check(self) -> None:
        if self.requested:
            raise Interrupted("stopped by the user")


class ClientRunner:
    """Starts the clients of a trial, and closes the history of each.

    `waited_s` is the time that clients waited for silence, or for answers that never came. `in_vain`: one of them was
    given nothing for the liveness bound. `learn` gets each result.
    """

    def __init__(
        self,
        broker: Broker,
        worker_pool: WorkerPool,
        folder: pathlib.Path,
        header: Header,
        abort: Abort,
        learn: Callable[[Work, JobResult], object] = lambda _work, _result: None,
    ) -> None:
        self.broker, self.worker_pool, self.folder, self.abort = broker, worker_pool, folder, abort
        self.waited_s = 0.0
        self.in_vain = False
        self.may_fail = False  # the data of the broker were damaged: a client that fails has written all that it saw
        self.counts: dict[str, int] = {}
        self._template, self._learn = header, learn
        self._ends = time.monotonic() + limits.TRIAL_S

    def header(self, name: str) -> Header:
        return msgspec.structs.replace(self._template, process=name)

    def play(self, job: Job, descriptors: Sequence[int] = ()) -> JobResult:
        """Run one client to its end.

        Raises `ClientError` if it failed, or `LaunchError` if it failed because the broker ended by itself.
        """
        return self._finish(*self._spawn(job, descriptors))

    def play_together(self, groups: Sequence[Iterable[Job]], descriptors: Sequence[int] = ()) -> list[JobResult]:
        """Run these clients in parallel to their ends; a group begins when every client before it is attached.

        The client with a fault is in the last group, and gets the `descriptors`. Raises what `play` raises, after it
        has ended the other clients.
        """
        with self.attached(groups[:-1]) as running:
            for job in groups[-1]:
                self._beside(running, job, descriptors if job.fault else ())
            return self.finish(running)

    @contextlib.contextmanager
    def attached(self, groups: Iterable[Iterable[Job]]) -> Iterator[Running]:
        """Start clients, each group when those before it are attached, and end those that are left at the end."""
        running: Running = {}
        try:
            for group in groups:
                self._begin_attached(running, group)
            yield running
        finally:
            self.end(running, Ended.INTERRUPTED, "another client failed")

    def begin(self, jobs: Iterable[Job]) -> Running:
        """Start clients that are to reach a broker that is about to start; then `finish` or `leave`, and `end` them."""
        running: Running = {}
        for job in jobs:
            self._beside(running, job)
        return running

    def finish(self, running: Running) -> list[JobResult]:
        """Wait for the ends of these clients, and return their results in the order in which they began."""
        order = list(running)
        results: dict[Child, JobResult] = {}
        while running:
            by_descriptor = {child.fileno(): child for child in running}
            ready = [by_descriptor[each] for each in readable(by_descriptor, limits.CLIENT_S)]
            for child in ready or list(running)[:1]:
                results[child] = self._finish(child, running.pop(child))
        return [results[child] for child in order]

    def leave(self, running: Running) -> None:
        """End clients whose broker did not start. One that had reached it has lost it, and ends by itself."""
        for child, job in list(running.items()):
            if pathlib.Path(job.history).read_bytes().count(b"\n") > 1:
                self._finish(child, running.pop(child))
        self.end(running, Ended.FINISHED, "the broker did not start")

    def end(self, running: Running, ended: Ended, why: str) -> None:
        """End the clients that are left."""
        while running:
            child, job = running.popitem()
            child.end()
            child.close()
            self.abort.children.discard(child)
            _close(job, ended, why)

    def _begin_attached(self, running: Running, jobs: Iterable[Job]) -> None:
        """Start these clients, and wait until each is attached or has ended."""
        attachments: list[int] = []
        try:
            for job in jobs:
                attached, tells = os.pipe()
                attachments.append(attached)
                try:
                    self._beside(running, msgspec.structs.replace(job, tells_attached=True), [tells])
                finally:
                    os.close(tells)
            for attached in attachments:
                readable([attached], limits.CLIENT_S)
        finally:
            for attached in attachments:
                os.close(attached)

    def _beside(self, running: Running, job: Job, descriptors: Sequence[int] = ()) -> None:
        child, job = self._spawn(job, descriptors)
        running[child] = job
        self.abort.watch(child)

    def _finish(self, child: Child, job: Job) -> JobResult:
        path = pathlib.Path(job.history)
        result = self._wait(child)
        if result is None or result.error:
            try:
                check_alive(self.broker.node)
            except LaunchError:
                # The broker ended, and a client that reports this has written all that it saw.
                _close(job, Ended.FINISHED if result else Ended.DIED)
                raise
            if result and result.ended == BROKE_PROTOCOL:
                _close(job, Ended.FINISHED)
                raise DroppedError(result.error)
            ended = Ended.FINISHED if result and self.may_fail else Ended.DIED
            _close(job, ended, result.error if result else "died without a result")
            if result is None:
                raise ClientError(f"{path.stem} died: {_last_line(child.log)}")
            raise (BrokerError if result.of_broker else ClientError)(result.error)
        _close(job, Ended.FINISHED)
        if not isinstance(job.fault, Shortage):  # who was short of something has to let it go on afterwards
            self._check_blocked(result)
        self.waited_s += result.waited_s
        self._learn(job.work, result)
        return result

    def _check_blocked(self, result: JobResult) -> None:
        """Raise `BlockedError` if the broker did not let a publisher go on, or announces why it did not answer it."""
        if result.ended == NO_CREDIT:
            why = f"the broker gave a publisher no credit for {result.waited_s:.0f} s"
            needs = "If its management can tell why, say so in [alarms] of its file"
            raise blocked_error(self.broker, why) or BlockedError(f"{why}. {needs}")
        if result.ended == UNANSWERED and (
            error := blocked_error(self.broker, f"the broker did not answer a publisher for {result.waited_s:.0f} s")
        ):
            raise error

    def is_confirmed(self, since: Phase | None = None) -> bool:
        """Whether the newest publisher had a send confirmed, since its fault was in that phase."""
        events = history.read(self.folder / f"publisher-{self.counts['publisher']}.jsonl").events
        after = max((each.at_ns for each in events if each.op is Op.FAULT and each.phase is since), default=0)
        return any((each.op, each.phase) == (Op.SEND, Phase.OK) and each.at_ns > after for each in events)

    def crash(self, job: Job) -> None:
        """Run one client that kills itself; raises `FaultError` if it ends in any other way."""
        child, job = self._spawn(job, ())
        result = self._wait(child)
        path = pathlib.Path(job.history)
        if result is not None:
            _close(job, Ended.FINISHED)
            error = FaultError(f"the client was not killed: {result.error or result.ended} after {result.count}")
            error.of_broker = result.of_broker or result.ended in ("stuck", "disconnected")
            raise error
        lines = path.read_bytes().splitlines() if path.exists() else []
        fired = bool(lines) and b'"phase":"fired"' in lines[-1]
        _close(job, Ended.KILLED_BY_FAULT if fired else Ended.DIED)
        if not fired:
            raise FaultError(f"the client died, but not of its fault: it had written {len(lines) - 1} events")

    def next_number(self, process: str) -> int:
        """Count one more process of that name, and return its number in the trial."""
        number = self.counts[process] = self.counts.get(process, 0) + 1
        return number

    def _spawn(self, job: Job, descriptors: Sequence[int]) -> tuple[Child, Job]:
        process = "collector" if job.work.collects else _PROCESS[type(job.work.step)]
        name = f"{process}-{self.next_number(process)}"
        path = self.folder / f"{name}.jsonl"
        others = range(1, job.work.step.receivers) if isinstance(job.work.step, Consume) else ()
        beside = tuple(f"{process}-{self.next_number(process)}" for _ in others)
        job = msgspec.structs.replace(job, header=self.header(name), history=str(path), beside=beside)
        return self.worker_pool.spawn(job, self.folder / f"{name}.log", descriptors), job

    def _wait(self, child: Child) -> JobResult | None:
        self.abort.watch(child)
        try:
            result = child.wait(min(limits.CLIENT_S, max(self._ends - time.monotonic(), 1.0)))
            self.abort.check()
        except (Interrupted, KeyboardInterrupt):
            child.end()
            _close(child.job, Ended.INTERRUPTED)
            raise
        finally:
            child.close()
            self.abort.children.discard(child)
            with contextlib.suppress(OSError):
                if child.log.stat().st_size == 0:
                    child.log.unlink()
        self.in_vain |= result is not None and result.ended == "stuck"
        return result


def _close(job: Job, ended: Ended, detail: str = "") -> None:
    """Close every history of a client that has ended."""
    path = pathlib.Path(job.history)
    for name in (path.stem, *job.beside):
        close_history(path.with_name(f"{name}.jsonl"), ended, detail)


def announced_alarms(broker: Broker, given_back: str = "") -> str:
    """Return the alarms that the broker announces, as `an alarm (memory)`; empty if it announces none.

    One of a resource that was `given_back` is left out: it is no excuse any more.
    """
    found = []
    for name, probe in broker.service.alarm_probes().items():
        if name == given_back:
            continue
        asked = DepthClient(reachable(broker, probe), "alarms")
        try:
            found += [name] if re.search(probe.pattern, asked.text(of_error=True)) else []
        except (ClientError, Disconnected):
            continue
        finally:
            asked.close()
    return f"an alarm ({', '.join(found)})" if found else ""


def blocked_error(broker: Broker, seen: str, given_back: str = "") -> BlockedError | None:
    """Return the error for a broker that blocks its producers by an alarm; None if it announces none.

    Counter-example to holding the missing answer against it: RabbitMQ stops reading from a producer while an alarm is
    on, and has not received its sends.
    """
    alarms = announced_alarms(broker, given_back)
    what = f"{seen}, and announces {alarms}, which blocks producers"
    return BlockedError(f"{what}. Free memory or disk, or raise the limit of the broker") if alarms else None


def unserved(broker: Broker, node: Node, result: JobResult, given_back: str) -> tuple[BlockedError | None, bool]:
    """Return the error for a node that served no publisher after a shortage, and whether that is held against it.

    Another node may serve now, and its publisher have stayed at the old one: that is no error. An alarm of another
    resource than the one that was `given_back` says why, and is held against no broker.
    """
    if broker.find_serving() is not node:
        return None, True
    seen = f"the broker let no publisher go on for {result.waited_s:.0f} s: {result.ended}"
    blocked = blocked_error(broker, seen, given_back)
    return blocked or BlockedError(seen), blocked is None


def _last_line(path: pathlib.Path) -> str:
    lines: Iterator[str] = iter([])
    with contextlib.suppress(OSError):
        lines = reversed(path.read_text(errors="replace").splitlines())
    return next(lines, "its log is empty")


def check_alive(node: Node) -> None:
    """Raise `LaunchError` if a broker has ended by itself, or is ending: it loses its connections first."""
    if not node.facts.by_command:
        node.target.wait_gone(_GOING_S)
    node.target.alive_check()
