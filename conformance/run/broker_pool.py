"""The pool of brokers that trials use: each is kept while it is needed, on a disk of its own if its power is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import pathlib
import threading
from collections.abc import Callable, Sequence

from conformance.adapters import Broker
from conformance.errors import FaultError, LaunchError
from conformance.faults.power.image import LossyDisk
from conformance.ledger import Ledger
from conformance.run.planning.plan import Planned
from conformance.run.readiness_probe import ask_depth, drain_queue, exchange, prove_ready

KEPT = 3
"""Brokers that wait for a later part of the run; each Java broker has a heap."""


@dataclasses.dataclass(frozen=True)
class RunningBroker:
    """A broker with its disk; `disk` is None where it stores on this machine's own. `queues` are those that it has.

    `another` prepares one more broker like it, with a folder and ports of its own; it may raise `LaunchError`.
    `protocols` are those that it speaks. `exchange` sends a message to a queue of such a broker and takes all that
    comes until that one is back, or raises `ClientError`.
    """

    broker: Broker
    ledger: Ledger
    another: Callable[[], Broker]
    exchange: Callable[[Broker, str], None]
    protocols: Sequence[str] = ()
    queues: frozenset[str] = frozenset()
    disk: LossyDisk | None = None

    def power(self) -> contextlib.AbstractContextManager[int]:
        """A descriptor by which its power can be cut; `FaultError` where it has no disk of its own."""
        return self._own().handle()

    def after_loss(self) -> None:
        """Prove that the disk is gone, and mount it again; `FaultError` where it is not."""
        self._own().after_loss()

    def close(self) -> None:
        """End the broker, and give its disk back."""
        try:
            self.broker.close()
        finally:
            if self.disk is not None:
                self.disk.release()

    def _own(self) -> LossyDisk:
        if self.disk is None:
            raise FaultError("a power loss needs a disk of its own, and this broker has none")
        return self.disk


class BrokerPool:
    """The brokers of one run below `folder`, started once per instance as far as that goes.

    `expected` are all trials that may ever be asked for: a broker gets the queues of all of them at its first start,
    and is kept for the next part of a run that records scenario by scenario. Lanes may share it.
    """

    def __init__(self, folder: pathlib.Path, ledger: Ledger, expected: Sequence[Planned], *, offline: bool) -> None:
        self._folder, self._ledger, self._offline = folder, ledger, offline
        self._left: dict[tuple[object, ...], set[str]] = {}
        for trial in expected:
            self._left.setdefault(trial.instance, set()).add(trial.queue)
        self._options = {trial.queue: trial.script.queue for trial in expected}
        self._kept: dict[tuple[object, ...], RunningBroker] = {}
        self._brokers = 0
        self._lock = threading.Lock()

    def take(self, group: Sequence[Planned]) -> tuple[RunningBroker, float]:
        """A running broker for these trials of one instance, and the seconds that its start took; 0 if it was there.

        Raises:
            LaunchError: It did not start, or its disk could not be made; nothing of it is left.
        """
        wanted = {planned.queue for planned in group}
        with self._lock:
            self._options |= {planned.queue: planned.script.queue for planned in group}
            left = self._left.setdefault(group[0].instance, set())
            declared = wanted | left
            left -= wanted
            kept = self._kept.pop(group[0].instance, None)
        if kept is not None and wanted <= kept.queues:
            return kept, 0.0
        if kept is not None:
            kept.close()
        made = self._make(group[0], sorted(declared))
        return made, made.broker.start_seconds[-1]

    def give(self, instance: tuple[object, ...], stand: RunningBroker) -> None:
        """The trials are over: it is kept where more of its instance may come, and ended where not."""
        with self._lock:
            ended = [] if self._left.get(instance) else [stand]
            if not ended:
                self._kept[instance] = stand
                while len(self._kept) > KEPT:
                    ended.append(self._kept.pop(next(iter(self._kept))))
        for each in ended:
            each.close()

    def close(self) -> None:
        """End every broker that was kept."""
        with contextlib.ExitStack() as stack:
            for stand in self._kept.values():
                stack.callback(stand.close)
            self._kept.clear()

    def _make(self, first: Planned, queues: Sequence[str]) -> RunningBroker:
        with self._lock:
            self._brokers += 1
            name = "-".join(filter(None, [f"{self._brokers:02d}", first.adapter.name, first.liar]))
        numbers = itertools.count(2)

        def another() -> Broker:
            return self._prepare(first, queues, f"{name}-again-{next(numbers)}")

        def uses(broker: Broker, queue: str) -> None:
            exchange(first.adapter, broker, _wire(first), broker.queue_of(queue))

        broker = self._prepare(first, queues, name)
        stand = RunningBroker(
            broker, self._ledger, another, uses, tuple(first.adapter.file.protocols), frozenset(queues)
        )
        try:
            if first.own_disk:
                image = broker.folder / "disk.img"
                stand = dataclasses.replace(stand, disk=LossyDisk.make(self._ledger, image, broker.data))
            broker.start()
            if stand.disk is not None:
                stand.disk.settle()
        except FaultError as error:
            stand.close()
            raise LaunchError(f"{first.adapter.file.title} has no disk to lose: {error}") from error
        except BaseException:
            stand.close()
            raise
        return stand

    def _prepare(self, first: Planned, queues: Sequence[str], name: str) -> Broker:
        broker = first.adapter.prepare(
            self._folder / name,
            first.settings,
            queues,
            self._ledger,
            first.liar,
            offline=self._offline,
            options={queue: self._options[queue] for queue in queues},
        )
        wire = _wire(first)
        broker.prove_ready, broker.ask_depth = prove_ready(first.adapter, broker, wire), ask_depth(broker)
        broker.drain_queue = drain_queue(first.adapter, broker, wire)
        return broker


def _wire(planned: Planned) -> str:
    """The protocol of the suite's own clients: whether a broker is ready does not depend on who asks."""
    return "amqp" if planned.client else planned.protocol
