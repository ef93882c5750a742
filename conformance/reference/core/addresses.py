"""Addresses: which queues there are, by what rules each goes, and where its dead and its expired messages go."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from conformance.errors import UsageError
from conformance.reference.core.admission import LIMIT, Refusal
from conformance.reference.core.duplicates import Identities
from conformance.reference.core.queues import Queue
from conformance.reference.settings import QueueOptions, Settings
from conformance.reference.store.commit import GroupCommit, do_nothing
from conformance.reference.store.records import QueueDeclared, QueueDeleted


class Addresses:
    """All queues of one broker by their names; `options` are the rules of those that have rules of their own."""

    def __init__(self, settings: Settings, options: Mapping[str, QueueOptions], commit: GroupCommit) -> None:
        self._settings = settings
        self._options = options
        self._commit = commit
        self._queues: dict[str, Queue] = {}
        everyone = (settings, *options.values())
        self._dead = frozenset(each.dead_letter for each in everyone)
        self._expired = frozenset(each.expiry_queue for each in everyone) - {""}

    def restore(self, name: str, next_number: int, identities: list[bytes]) -> None:
        """A queue that the journal has; raises `UsageError` where it was asked for as one that is not durable."""
        if name in self._options and not self._options[name].durable:
            raise UsageError(
                f"queue {name}: durable=false, and the data directory has it as a durable one; "
                "leave the option out, or choose another name or --data"
            )
        queue = self._queues[name] = self._made(name, next_number, durable=True)
        if queue.identities is not None:
            queue.identities = Identities(queue.options.duplicate_ids, identities)

    def queue(self, name: str) -> Queue:
        """The queue of this name, declared now if it is unknown."""
        if name not in self._queues:
            durable = self._options.get(name, self._settings).durable
            self._queues[name] = self._made(name, 1, durable=durable)
            if durable:
                self._commit.add(QueueDeclared(name, 1), do_nothing)
        return self._queues[name]

    def refused(self, name: str) -> Refusal | None:
        """Why no queue of this name can be declared; None where it can be, or is there."""
        if name in self._queues or len(self._queues) < self._settings.max_queues:
            return None
        return Refusal(LIMIT, f"the broker has {len(self._queues):,} queues (max_queues)")

    def known(self, name: str) -> Queue | None:
        """The queue of this name, None if there is none."""
        return self._queues.get(name)

    def names(self) -> Iterator[str]:
        """All queues, in the order of their declaration."""
        return iter(self._queues)

    def temporary(self) -> Queue:
        """A new queue in memory only, with a name that no other has had, before a restart or after it."""
        name = f"temporary-{os.urandom(12).hex()}"
        queue = self._queues[name] = self._made(name, 1, durable=False)
        return queue

    def delete(self, queue: Queue) -> None:
        """Takes the name away, durably."""
        del self._queues[queue.name]
        if queue.durable:
            self._commit.add(QueueDeleted(queue.name), do_nothing)

    def dead_letters(self, queue: Queue) -> Queue | None:
        """Where the dead messages of a queue go; None for a dead-letter queue, in which they stay."""
        return None if queue.name in self._dead else self.queue(queue.options.dead_letter)

    def keeps_expired(self, queue: Queue) -> bool:
        """Whether this is the expiry queue of any queue: no message expires there."""
        return queue.name in self._expired

    def expired(self, queue: Queue) -> Queue | None:
        """Where the expired messages of a queue go; None for nowhere."""
        return self.queue(queue.options.expiry_queue) if queue.options.expiry_queue else None

    def _made(self, name: str, next_number: int, *, durable: bool) -> Queue:
        options = self._options.get(name, self._settings)
        return Queue(name, next_number, options, durable=durable, persistence=self._settings.persistence)
