"""The pool of brokers that trials use. It starts each broker, keeps it while trials need it, and ends it.

A broker whose trial takes its power away stores on a disk of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from conformance.adapters import Broker
from conformance.adapters.interface import Node, Options, Processes
from conformance.errors import FaultError, LaunchError
from conformance.faults import shortage
from conformance.faults.disk.access import JournalAccess
from conformance.faults.power.image import LossyDisk
from conformance.ledger import Ledger
from conformance.run.planning import Planned
from conformance.run.readiness_probe import ProbeClient, probe_client
from conformance.scenario.needs import FRESH, Means, declared_options
from conformance.scenario.script import ClientFault, KillNodes, LoseNode, PartNodes, PauseNodes, PowerLoss, Shortage

KEPT = 3
"""The number of brokers that are kept with one job for a later part of the run; each Java broker has a heap."""


@dataclasses.dataclass(frozen=True)
class RunningBroker:
    """A broker of the pool, with the client that proves it ready.

    `another` prepares one more broker like it, with a folder and ports of its own; it may raise `LaunchError`.
    `protocols` are those that it speaks, `queues` those that it has. `disk` is None if it stores on the disk of this
    machine. `start_seconds` has the time of each start that succeeded. `waited_in_vain` names the scenarios in which a
    drain has waited for missing messages, and none came. `reached` has how it was last seen to reach its journal.
    """

    broker: Broker
    client: ProbeClient
    ledger: Ledger
    another: Callable[[], Broker]
    protocols: Sequence[str] = ()
    queues: frozenset[str] = frozenset()
    disk: LossyDisk | None = None
    start_seconds: list[float] = dataclasses.field(default_factory=list)
    waited_in_vain: set[str] = dataclasses.field(default_factory=set)
    reached: list[JournalAccess] = dataclasses.field(default_factory=list)

    @property
    def node(self) -> Node:
        """The node that clients use now: faults act on it."""
        return self.broker.node

    def start(self, wrap: Sequence[str] = (), *, more: Sequence[str] = (), ready_s: float = 0.0) -> None:
        self.start_seconds.append(self.broker.start(wrap, more=more, ready_s=ready_s))

    def exchange(self, other: Broker, queue: str) -> None:
        """Send a message to a queue of `other`, and receive until it comes. Raises `ClientError`."""
        self.client.exchange(other, other.service.queue_of(queue))

    def met(self, fault: ClientFault) -> Processes:
        """The processes that a fault meets. Raises `FaultError` if there are none."""
        if isinstance(fault, KillNodes | PauseNodes):
            return self.broker.met(fault.which)
        return self.node.target

    @contextlib.contextmanager
    def without(self, fault: PowerLoss | Shortage) -> Iterator[list[int]]:
        """Yield the descriptors by which a client takes something from it; what it lacks for a time is back at the end.

        Raises `FaultError` if it has no disk of its own that could be taken.
        """
        with contextlib.ExitStack() as stack:
            disk = [stack.enter_context(self._lossy_disk().handle())] if fault.means is Means.POWER else []
            if isinstance(fault, PowerLoss):
                yield disk
            elif isinstance(fault, PartNodes):
                yield [stack.enter_context(self.broker.parting(fault.which, one_way=fault.one_way))]
            elif isinstance(fault, LoseNode):
                yield []
            elif isinstance(fault, PauseNodes):
                stack.enter_context(self.broker.halting(fault.which))
                yield []
            else:
                pids = self.node.target.processes()
                yield stack.enter_context(shortage.taken(fault, disk[0] if disk else None, pids))

    def flush(self) -> None:
        """Write all that is in the cache to its disk; raises `FaultError` if it has no disk of its own."""
        self._lossy_disk().settle()

    def after_loss(self) -> None:
        """Prove that the disk is gone, and mount it again; raises `FaultError` if it is not gone."""
        self._lossy_disk().after_loss()

    def close(self) -> None:
        try:
            self.broker.close()
        finally:
            if self.disk is not None:
                self.disk.release()

    def _lossy_disk(self) -> LossyDisk:
        if self.disk is None:
            raise FaultError("a power loss needs a disk of its own, and this broker has none")
        return self.disk


def _is_declared(trial: Planned) -> bool:
    """Whether the broker has the queue when it starts, and not only once the trial begins.

    Also if it cannot declare one later, as a control of a broker that can. Counter-example: the bundled broker over
    AMQP 0-9-1, where a send makes no queue, returns everything to the publisher.
    """
    return trial.script.declared or (FRESH in trial.script.needs and bool(trial.adapter.lacks(FRESH)))


def _options(trial: Planned) -> Options:
    return tuple(declared_options(dict(trial.script.queue), trial.queue).items())


class BrokerPool:
    """The brokers of one run, in folders below `folder`; each instance is started once a worker if possible.

    `expected` are all planned trials. A broker gets the queues of all that have not begun at its first start, and is
    kept for the next part of a run that records scenario by scenario. `jobs` workers share the pool with the liars.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        ledger: Ledger,
        expected: Iterable[Planned],
        *,
        offline: bool,
        jobs: int = 1,
    ) -> None:
        self._folder, self._ledger, self._offline = folder, ledger, offline
        self._most = KEPT + jobs - 1
        self._left: dict[tuple[object, ...], set[str]] = {}
        self._options: dict[str, Options] = {}
        self._kept: list[tuple[tuple[object, ...], RunningBroker]] = []
        self._brokers = len(list(folder.glob("[0-9]*")))  # of a run that goes on
        self._lock = threading.Lock()
        self.expect(expected)

    def expect(self, trials: Iterable[Planned]) -> None:
        """Give the queues of these trials to each broker that starts before they begin, and keep their brokers."""
        with self._lock:
            for trial in trials:
                self._left.setdefault(trial.instance, set()).update(trial.queues)
                if _is_declared(trial):
                    self._options |= dict.fromkeys(trial.queues, _options(trial))

    def acquire(self, planned: Planned) -> tuple[RunningBroker, float]:
        """Return a running broker with the queue of an expected trial, and the seconds of its start; 0 for a kept one.

        Raises:
            LaunchError: It did not start, or its disk could not be made; it is closed then.
        """
        with self._lock:
            found = next((place for place, (key, _) in enumerate(self._kept) if key == planned.instance), None)
            kept = None if found is None else self._kept.pop(found)[1]
            queues = sorted(self._left[planned.instance])
        if kept is not None and planned.queue in kept.queues:
            return kept, 0.0
        if kept is not None:
            kept.close()
        made = self._make(planned, queues)
        return made, made.start_seconds[-1]

    def begin(self, planned: Planned) -> None:
        """Note that no broker has to be started or kept for this trial any more."""
        with self._lock:
            self._left[planned.instance].difference_update(planned.queues)

    def release(self, instance: tuple[object, ...], running: RunningBroker) -> None:
        """Keep the broker if more trials of its instance are expected, else end it."""
        with self._lock:
            ended = [] if self._left[instance] else [running]
            if not ended:
                self._kept.append((instance, running))
                while len(self._kept) > self._most:
                    ended.append(self._kept.pop(0)[1])
        for each in ended:
            each.close()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for _, running in self._kept:
                stack.callback(running.close)
            self._kept.clear()

    def _make(self, first: Planned, queues: Sequence[str]) -> RunningBroker:
        with self._lock:
            self._brokers += 1
            name = "-".join(filter(None, [f"{self._brokers:02d}", first.adapter.name, first.liar]))
        numbers = itertools.count(2)
        client = probe_client(first.adapter, first.protocol, first.client)
        declared = [queue for queue in queues if queue in self._options]

        def prepare(name: str) -> Broker:
            return first.adapter.prepare(
                self._folder / name,
                first.settings,
                declared,
                self._ledger,
                first.liar,
                offline=self._offline,
                options={queue: self._options[queue] for queue in declared},
                client=client,
            )

        broker = prepare(name)
        running = RunningBroker(
            broker,
            client,
            self._ledger,
            another=lambda: prepare(f"{name}-again-{next(numbers)}"),
            protocols=tuple(first.adapter.file.protocols),
            queues=frozenset(queues),
        )
        try:
            if first.own_disk:
                facts = running.node.facts
                image, kind = facts.folder / "disk.img", first.own_disk
                disk = LossyDisk.make(self._ledger, image, facts.data, filesystem=kind)
                running = dataclasses.replace(running, disk=disk)
            running.start()
            if running.disk is not None:
                running.disk.settle()
        except FaultError as error:
            running.close()
            raise LaunchError(f"{first.adapter.file.title} has no disk to lose: {error}") from error
        except BaseException:
            running.close()
            raise
        return running
