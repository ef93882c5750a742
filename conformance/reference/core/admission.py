"""Which queues there are and where their dead and expired messages go; which messages are taken, and why one is not."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from conformance.errors import UsageError
from conformance.reference.core.duplicates import PROPERTY, Identities, identity
from conformance.reference.core.queues import Queue, Send
from conformance.reference.core.sections import Parsed
from conformance.reference.honest import Honest
from conformance.reference.settings import MAX_NAME, QueueOptions, Settings
from conformance.reference.store.commit import Done, GroupCommit, do_nothing
from conformance.reference.store.records import NOTES, QueueDeclared, QueueDeleted

LIMIT = "amqp:resource-limit-exceeded"
"""The condition where something is full (AMQP 1.0 section 2.8.15)."""

INVALID = "amqp:invalid-field"
NOT_FOUND = "amqp:not-found"
"""Condition names of the same section."""


SIZE = "amqp:link:message-size-exceeded"
"""The condition where a message is larger than the broker takes (AMQP 1.0 section 2.8.17)."""

DELETED = "amqp:resource-deleted"
"""The condition where a queue was deleted while a link to it, or a transaction about it, was open (section 2.8.15)."""


SUBSCRIPTION = "subscription:"
"""How the names of the queues of durable subscriptions begin."""


def subscriber(client: str, name: str) -> str:
    """Return how the name of a durable subscription's queue begins: nothing else says which client it is of.

    >>> subscriber("client", "a:b")
    'subscription:client:a%3Ab:'
    """
    return f"{SUBSCRIPTION}{quote(client, '')}:{quote(name, '')}:"


class Refusal(NamedTuple):
    """What is refused is certainly not stored, and never will be; `condition` is a name of AMQP 1.0."""

    condition: str
    description: str


Refused = Callable[[Refusal], None]


def ignore_refusal(refusal: Refusal) -> None:
    """Ignore the refusal of an operation without an answer, as of a message that is sent settled."""


class Addresses:
    """All queues of one broker by their names; `options` are the rules of those that have rules of their own."""

    def __init__(self, settings: Settings, options: Mapping[str, QueueOptions], commit: GroupCommit) -> None:
        self._settings = settings
        self._options = options
        self._commit = commit
        self._queues: dict[str, Queue] = {}
        self._subscriptions: defaultdict[str, list[Queue]] = defaultdict(list)  # by the quoted names of their topics
        self.sessions: Callable[[str], Iterable[Queue]] = lambda _: ()
        """The queues of the sessions of MQTT that have subscribed to a topic."""

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

    def queue(self, name: str, *, durable: bool = True) -> Queue:
        if name not in self._queues:
            durable = durable and self._options.get(name, self._settings).durable
            self._queues[name] = self._made(name, 1, durable=durable)
            if durable:
                self._commit.add(QueueDeclared(name, 1), do_nothing)
        return self._queues[name]

    def refused(self, name: str) -> Refusal | None:
        """Why no queue of this name can be declared; None where it can be, or is there."""
        if name in self._queues:
            return None
        if name == NOTES:
            return Refusal(INVALID, "this name is the broker's own")
        if name.startswith(SUBSCRIPTION):
            return Refusal(NOT_FOUND, "there is no such durable subscription")
        if not self._settings.creates_queues:
            return Refusal(NOT_FOUND, "there is no such queue, and none is made (creates_queues)")
        return self._no_room()

    def known(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def named(self, name: str) -> Queue | None:
        """The queue of this name, if it is there; the settings declare dead-letter and expiry queues."""
        return self.queue(name) if name in self._queues or name in self._dead or name in self._expired else None

    def names(self) -> Iterator[str]:
        return iter(self._queues)

    def topic(self, name: str) -> Queue:
        """A node that keeps nothing: what is sent to it goes to the durable subscriptions of this topic."""
        return Queue(name, durable=False, topic=True)

    def subscription(self, topic: str, client: str, name: str) -> Queue | Refusal:
        """The queue of a durable subscription: the one that is there, or a new one for what is sent from now on."""
        begins = subscriber(client, name)
        queue = begins + quote(topic, "")
        if len(queue.encode()) > MAX_NAME:
            return Refusal(INVALID, f"topic, client and name of a subscription have at most {MAX_NAME} bytes together")
        if queue not in self._queues and any(each.startswith(begins) for each in self._queues):
            return Refusal(INVALID, "this client has a durable subscription of that name, of another topic")
        return (None if queue in self._queues else self._no_room()) or self.queue(queue)

    def targets(self, queue: Queue) -> list[Queue]:
        """The queues that get what is sent to this one: it and those with `copies_of`; of a topic its subscriptions."""
        if queue.topic:
            return list(
                dict.fromkeys((*self._subscriptions.get(quote(queue.name, ""), ()), *self.sessions(queue.name)))
            )
        named = [name for name, options in self._options.items() if options.copies_of == queue.name != name]
        return [queue, *map(self.queue, named)]

    def temporary(self) -> Queue:
        """A new queue in memory only, with a name that no other has had, before a restart or after it."""
        name = f"temporary-{os.urandom(12).hex()}"
        queue = self._queues[name] = self._made(name, 1, durable=False)
        return queue

    def delete(self, queue: Queue) -> None:
        """Takes the name away, durably."""
        del self._queues[queue.name]
        if queue.name.startswith(SUBSCRIPTION):
            self._subscriptions[queue.name.rpartition(":")[2]].remove(queue)
        if queue.durable:
            self._commit.add(QueueDeleted(queue.name), do_nothing)

    def dead_letters(self, queue: Queue) -> Queue | None:
        """Where the dead messages of a queue go; None for a dead-letter queue, in which they stay."""
        return None if queue.name in self._dead else self.queue(queue.options.dead_letter)

    def keeps_expired(self, queue: Queue) -> bool:
        """Whether this is the expiry queue of any queue: no message expires there."""
        return queue.name in self._expired

    def expired(self, queue: Queue) -> Queue | None:
        return self.queue(queue.options.expiry_queue) if queue.options.expiry_queue else None

    def _no_room(self) -> Refusal | None:
        if len(self._queues) < self._settings.max_queues:
            return None
        return Refusal(LIMIT, f"the broker has {len(self._queues):,} queues (max_queues)")

    def _made(self, name: str, next_number: int, *, durable: bool) -> Queue:
        options = self._options.get(name, self._settings)
        queue = Queue(name, next_number, options, durable=durable, persistence=self._settings.persistence)
        if name.startswith(SUBSCRIPTION):
            self._subscriptions[name.rpartition(":")[2]].append(queue)
        return queue


class Admission:
    """Judges what is sent to one broker, before anything of it is stored; `now_ms` is since the epoch."""

    def __init__(self, settings: Settings, behaviour: Honest, commit: GroupCommit, now_ms: Callable[[], int]) -> None:
        self._behaviour = behaviour
        self._most = settings.max_message_bytes
        self._commit = commit
        self._now_ms = now_ms

    def refusal(self, queue: Queue, parsed: Parsed) -> Refusal | None:
        size = len(parsed.bare)
        if size > self._most:
            return Refusal(SIZE, f"the message is too large: max_message_bytes={self._most}")
        full = queue.full(size) if queue.limited and not queue.deleted else None
        if full is None and queue.refused and self._behaviour.stays_full:
            full = f"the queue {queue.name} was full"
        if full is not None:
            return Refusal(LIMIT, full)
        return self._homeless(queue, parsed)

    def commit_refusal(self, sends: Sequence[Send]) -> Refusal | None:
        """Why a transaction cannot be committed; one that only acknowledges makes room on a full disk."""
        return next((found for send in sends if (found := self._homeless(send.queue, send.parsed)) is not None), None)

    def dated(self, queue: Queue, parsed: Parsed) -> Parsed:
        """The message with its end: its own, or from its own ttl, else from its queue's."""
        ends = parsed.expires_ms
        # The time is over at 0 as well, and a life of 0 would have no end.
        left = (ends - self._now_ms() or -1) if ends else parsed.ttl_ms or queue.options.ttl_ms
        lives = self._behaviour.lives_ms(left)
        if lives == left if ends else not lives:
            return parsed
        return parsed._replace(expires_ms=self._now_ms() + lives if lives else 0)

    @staticmethod
    def identity(queue: Queue, parsed: Parsed) -> bytes | None:
        """The id by which a duplicate of this message is known; None if it has none, or its queue keeps no ids."""
        if PROPERTY not in parsed.bare or queue.identities is None:
            return None
        return identity(parsed.bare)

    def is_repeated(self, queue: Queue, repeated: bytes, done: Done, refused: Refused) -> bool:
        """Whether this id is known; then it is answered in its turn, as the first copy is."""
        ids = queue.identities
        first = ids.arriving(repeated) if ids is not None else None
        if ids is None or (first is None and not ids.known(repeated)):
            return False
        queue.duplicates += 1

        def decided() -> None:
            if first is not None and first.failed:
                refused(Refusal(LIMIT, "the message that it repeats could not be stored"))
            else:
                done()

        self._commit.add(None, decided)
        return True

    @staticmethod
    def undecided(sends: Sequence[Send]) -> bool:
        """Whether a first copy of one of these is on its way to the disk."""
        pairs = [(send.queue.identities, send.identity) for send in sends]
        return any(ids is not None and id is not None and ids.arriving(id) is not None for ids, id in pairs)

    @staticmethod
    def unrepeated(sends: Sequence[Send]) -> list[Send]:
        """What is to be stored of a transaction's sends: no id that the queue knows, and each id only once."""
        found = []
        seen: set[tuple[Queue, bytes]] = set()
        for send in sends:
            queue, id = send.queue, send.identity
            if id is not None:
                if (queue.identities is not None and queue.identities.known(id)) or (queue, id) in seen:
                    queue.release(len(send.parsed.bare))
                    queue.duplicates += 1
                    continue
                seen.add((queue, id))
            found.append(send)
        return found

    def _homeless(self, queue: Queue, parsed: Parsed) -> Refusal | None:
        """Why there is no place for a message, wherever it is in its way in."""
        if queue.deleted:
            return Refusal(DELETED, f"the queue {queue.name} was deleted")
        if self._commit.full and parsed.durable and queue.kept:
            return Refusal(LIMIT, "the disk has no room for more messages")
        return None
