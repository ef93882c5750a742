"""Run the client processes of one trial: their jobs, their histories, and how they ended."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from conformance import limits
from conformance.adapters import Adapter, Broker, DepthProbe, EffectiveSettings, vendor_clients
from conformance.adapters.file.launch_tables import Topic
from conformance.clients.management import DepthClient
from conformance.clients.session import Disconnected
from conformance.clients.workers import job as jobs
from conformance.clients.workers.job import Job, JobResult, SentTransaction, Vendor
from conformance.clients.workers.pool import Child, WorkerPool
from conformance.errors import BlockedError, BrokerError, ClientError, FaultError, Interrupted, LaunchError
from conformance.history import Ended, Header, close_history
from conformance.protocols import describe, protocol_of_depth
from conformance.run.planning import Planned
from conformance.scenario.needs import RESENDS, TURNED_AWAY
from conformance.scenario.reading import singles
from conformance.scenario.script import Ask, ClientStep, Consume, Drain, Publish

Address = tuple[str, int]
"""Host and port."""

_PROCESS = {Publish: "publisher", Consume: "consumer", Drain: "drain", Ask: "asker"}
_GOING_S = 5.0
_CONSUMERS = 1_000
"""A trial has fewer publishers."""

Running = dict[Child, Job]
"""Clients that run, each with its job."""


@dataclasses.dataclass
class Abort:
    """Set when the user stopped the run: running clients are ended, and no step begins."""

    requested: bool = False
    children: set[Child] = dataclasses.field(default_factory=set)

    def now(self) -> None:
        self.requested = True
        for child in list(self.children):
            child.end()

    def watch(self, child: Child) -> None:
        """End this child with the others, at once if they have already been ended."""
        self.children.add(child)
        if self.requested:
            child.end()

    def check(self) -> None:
        if self.requested:
            raise Interrupted("stopped by the user")


class ClientRunner:
    """Starts the clients of a trial, and closes the history of each.

    `queue` is the name of its queue at the broker, and `more_queues` are those of its others. `waited_s` is the time
    that clients waited for silence, or for answers that never came. `slowest_s` is the longest time that the broker
    took for an answer: a drain waits ten times as long before it calls a message stuck, and at least the liveness
    bound.
    """

    def __init__(
        self,
        planned: Planned,
        broker: Broker,
        worker_pool: WorkerPool,
        folder: pathlib.Path,
        header: Header,
        abort: Abort,
    ) -> None:
        self.planned, self.broker, self.worker_pool, self.folder, self.abort = (
            planned,
            broker,
            worker_pool,
            folder,
            abort,
        )
        self.queue, *self.more_queues = planned.queues
        self._template = header
        self.waited_s = 0.0
        self.slowest_s = 0.0
        self.counts: dict[str, int] = {}
        self.asked: list[SentTransaction] = []
        self.network: Callable[[Address], Address] = lambda broker: broker
        self._ends = time.monotonic() + limits.TRIAL_S

    def header(self, name: str) -> Header:
        return msgspec.structs.replace(self._template, process=name)

    def job(self, step: ClientStep, **fields: Any) -> Job:
        """Return the job of the client that does this step; the client connects to the broker itself."""
        broker, planned = self.broker, self.planned
        host, port = self.network(broker.service.endpoint(planned.protocol))
        speaks = planned.adapter.file.protocols[planned.protocol]
        if isinstance(step, Drain) and not fields.get("collects"):
            least = fields.get("liveness_s", jobs.LIVENESS_S)
            fields["liveness_s"] = max(least, jobs.LIVENESS_FACTOR * self.slowest_s)
        step, asks = self._asked(step)
        sends = {**speaks.send, **(speaks.copied_send if planned.script.copied else {})}
        publishers = [each for each in singles(planned.script.steps) if isinstance(each, Publish)]
        limited = not describe(planned.protocol).traits.refusal_names_send and "max_length" in dict(
            planned.script.queue
        )
        job = Job(
            step=step,
            asks=asks,
            header=self._template,
            history="",
            host=host,
            port=port,
            protocol=planned.protocol,
            queue=self.queue,
            epoch=broker.epoch,
            client=planned.script.client,
            producer=self._producer(step),
            empty=tuple(number for number, each in enumerate(publishers, 1) if not each.size),
            correlated=tuple(number for number, each in enumerate(publishers, 1) if each.correlates),
            ack_confirm=speaks.ack_confirm or jobs.NEVER,
            depth=depth_probe(broker, self.queue),
            more_queues=self._more_queues(step),
            destination=speaks.destination,
            copied=speaks.copied.replace("{address}", self.queue) if planned.script.copied else "",
            outcomes=speaks.outcomes,
            answers_at_commit=speaks.transacted_sends == "at_commit",
            singly=singly(planned.adapter, planned.protocol),
            stomp=jobs.StompHeaders(
                send=sends,
                subscribe=dict(speaks.subscribe),
                virtual_host=speaks.virtual_host,
                time_to_live=dict(speaks.time_to_live),
            ),
            access=broker.service.access(planned.protocol),
            resends=self._to_send_again(step),
            duplicate_id=speaks.duplicate_id if RESENDS in planned.script.of_client else "",
            may_be_refused=bool(planned.script.queue or getattr(step, "may_be_refused", False)),
            may_be_absent=not (planned.script.declared or planned.script.subscribed),
            may_be_cut_off=TURNED_AWAY in planned.script.of_client or limited,
            **fields,
        )
        if planned.script.subscribed and not job.collects and speaks.topic is not None:
            job = self._subscribing(job, speaks.topic)
        return msgspec.structs.replace(job, vendor=self._vendor(job)) if planned.client else job

    def _subscribing(self, job: Job, topic: Topic) -> Job:
        """Return the job whose queues are durable subscriptions of a topic that has the name of the first."""

        def filled(headers: Mapping[str, str]) -> dict[str, str]:
            return {name: value.replace("{topic}", self.queue) for name, value in headers.items()}

        at = topic.address.replace("{topic}", self.queue)
        connect = {} if isinstance(job.step, Publish) else filled(topic.connect)  # two connections of one id: refused
        return msgspec.structs.replace(
            job,
            destination=at,
            copied=at,
            subscriber=self.queue,
            depth=depth_probe(self.broker, self.queue, self.queue),
            more_queues={queue: depth_probe(self.broker, queue, self.queue) for queue in job.more_queues},
            stomp=msgspec.structs.replace(
                job.stomp, send=filled(topic.send), subscribe=filled(topic.subscribe), connect=connect
            ),
        )

    def _producer(self, step: ClientStep) -> int:
        """Return the number under which a client sends: consumers that send have their own, beside publishers."""
        if isinstance(step, Consume):
            return _CONSUMERS + self.counts.get(_PROCESS[Consume], 0) + 1
        return self.counts.get(_PROCESS[Publish], 0) + 1

    def _more_queues(self, step: ClientStep) -> dict[str, DepthProbe]:
        """Return the queues that the step uses beside the first, each with how a client asks for its depth."""
        used = len(self.more_queues) if isinstance(step, Drain) else getattr(step, "queues", 1) - 1
        return {queue: depth_probe(self.broker, queue) for queue in self.more_queues[:used]}

    def _to_send_again(self, step: ClientStep) -> tuple[SentTransaction, ...]:
        """Return, once, what the step is to send again: the last transaction of each publisher since such a step."""
        if not (isinstance(step, Publish) and step.resends):
            return ()
        found, self.asked = tuple(self.asked), []
        return found

    def _asked(self, step: ClientStep) -> tuple[ClientStep, jobs.Asks]:
        """Return the step without requests that this broker does not know, and those that depend on it."""
        if isinstance(step, Publish):
            capabilities = self.planned.adapter.capabilities(self.planned.protocol)
            if "ack_immediately" not in capabilities:
                step = msgspec.structs.replace(step, immediate_every=0)
            windows = "ranged_confirms" in capabilities
            return step, jobs.Asks(window=step.window, event_mode=step.ack_event_mode) if windows else jobs.Asks()
        mode = self.planned.adapter.file.ack_modes.get(step.mode, "") if isinstance(step, Consume) else ""
        return step, jobs.Asks(mode=mode)

    def _vendor(self, job: Job) -> jobs.Vendor:
        planned, step = self.planned, job.step
        several = isinstance(step, Publish) and step.window > 1 and not step.batch
        return vendor_of(
            planned.adapter, planned.protocol, planned.settings, planned.client, job.prefetch, asynchronous=several
        )

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
        running: Running = {}
        try:
            for group in groups[:-1]:
                self._begin_attached(running, group)
            for job in groups[-1]:
                self._beside(running, job, descriptors if job.fault else ())
            return self.finish(running)
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
            for child in select.select(list(running), [], [], limits.CLIENT_S)[0] or list(running)[:1]:
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
                select.select([attached], [], [], limits.CLIENT_S)
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
                check_alive(self.broker)
            except LaunchError:
                # The broker ended, and a client that reports this has written all that it saw.
                _close(job, Ended.FINISHED if result else Ended.DIED)
                raise
            _close(job, Ended.DIED, result.error if result else "died without a result")
            if result is None:
                raise ClientError(f"{path.stem} died: {_last_line(child.log)}")
            raise (BrokerError if result.of_broker else ClientError)(result.error)
        _close(job, Ended.FINISHED)
        self._check_blocked(result)
        self.waited_s += result.waited_s
        self.slowest_s = max(self.slowest_s, result.slowest_s)
        self.asked += [result.asked] if result.asked else []
        return result

    def _check_blocked(self, result: JobResult) -> None:
        """Raise `BlockedError` if the broker did not let a publisher go on, or announces why it did not answer it."""
        if result.ended == jobs.NO_CREDIT:
            why = f"the broker gave a publisher no credit for {result.waited_s:.0f} s"
            needs = "If its management can tell why, say so in [alarms] of its file"
            raise blocked_error(self.broker, why) or BlockedError(f"{why}. {needs}")
        if result.ended == jobs.UNANSWERED and (
            error := blocked_error(self.broker, f"the broker did not answer a publisher for {result.waited_s:.0f} s")
        ):
            raise error

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
        process = "collector" if job.collects else _PROCESS[type(job.step)]
        name = f"{process}-{self.next_number(process)}"
        path = self.folder / f"{name}.jsonl"
        others = range(1, job.step.receivers) if isinstance(job.step, Consume) else ()
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
        return result


def _close(job: Job, ended: Ended, detail: str = "") -> None:
    """Close every history of a client that has ended."""
    path = pathlib.Path(job.history)
    for name in (path.stem, *job.beside):
        close_history(path.with_name(f"{name}.jsonl"), ended, detail)


def vendor_of(
    adapter: Adapter,
    protocol: str,
    settings: EffectiveSettings,
    client: str,
    prefetch: int,
    *,
    asynchronous: bool = False,
) -> Vendor:
    """Describe the vendor's client of that name, whose jars are installed, for a worker process.

    It has no transactions if the broker has none: RabbitMQ 3.10.8 never answers a client that asks for one.
    """
    file = vendor_clients.find(client)
    without = set() if "transactions" in adapter.capabilities(protocol) else {"transacted"}
    asynchronous = asynchronous and file.asynchronous is not False
    return Vendor(
        name=file.name,
        api=file.api,
        factory=file.factory,
        url=file.url(prefetch, vendor_clients.address_parameters(adapter.file, settings), asynchronous=asynchronous),
        jars=tuple(map(str, file.install(offline=True))),
        modes={mode: number for mode, number in file.modes.items() if mode not in without},
        lost=file.lost,
        asynchronous=asynchronous,
        properties=dict(file.properties),
        java=file.java,
        setter=file.setter,
        individual=file.individual,
    )


def singly(adapter: Adapter, protocol: str) -> bool:
    """Whether one acknowledgement can cover one message only."""
    return "individual_ack" in adapter.capabilities(protocol)


def depth_probe(broker: Broker, queue: str, topic: str = "") -> DepthProbe:
    """Describe how a client asks for a depth, which may need another protocol than its own.

    With a `topic`, the queue is a durable subscription of it.
    """
    return reachable(broker, broker.service.depth_probe(queue, topic))


def reachable(broker: Broker, probe: DepthProbe) -> DepthProbe:
    """Return the probe with the address and the credentials for it."""
    if probe.method == "command":
        return probe
    if probe.method == "http":
        return msgspec.structs.replace(probe, access=broker.service.access("http"))
    asked = protocol_of_depth(probe.method)
    host, port = broker.service.endpoint(asked)
    return msgspec.structs.replace(probe, host=host, port=port, access=broker.service.access(asked))


def announced_alarms(broker: Broker) -> str:
    """Return the alarms that the broker announces, as `an alarm (memory)`; empty if it announces none."""
    found = []
    for name, probe in broker.service.alarm_probes().items():
        asked = DepthClient(reachable(broker, probe), "alarms")
        try:
            found += [name] if re.search(probe.pattern, asked.text(of_error=True)) else []
        except (ClientError, Disconnected):
            continue
        finally:
            asked.close()
    return f"an alarm ({', '.join(found)})" if found else ""


def blocked_error(broker: Broker, seen: str) -> BlockedError | None:
    """Return the error for a broker that blocks its producers by an alarm; None if it announces none.

    Counter-example to holding the missing answer against it: RabbitMQ stops reading from a producer while an alarm is
    on, and has not received its sends.
    """
    alarms = announced_alarms(broker)
    what = f"{seen}, and announces {alarms}, which blocks producers"
    return BlockedError(f"{what}. Free memory or disk, or raise the limit of the broker") if alarms else None


def _last_line(path: pathlib.Path) -> str:
    lines: Iterator[str] = iter([])
    with contextlib.suppress(OSError):
        lines = reversed(path.read_text(errors="replace").splitlines())
    return next(lines, "its log is empty")


def check_alive(broker: Broker) -> None:
    """Raise `LaunchError` if a broker has ended by itself, or is ending: it loses its connections first."""
    if not broker.facts.by_command:
        broker.target.wait_gone(_GOING_S)
    broker.target.alive_check()
