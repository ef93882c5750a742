"""Queues: order, consumers, limits and the time to live; transactions: what one holds. No protocol, disk or clock."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from conformance.reference.core.duplicates import Identities
from conformance.reference.core.sections import Parsed
from conformance.reference.core.selector import Selector
from conformance.reference.core.settlement import COUNTED, SettlementEvent, State, step
from conformance.reference.settings import QueueOptions

_SLACK = 64
"""Entries without a message any more that a heap may have, beside one for each message that it has."""

USUAL_RANK = -4
"""The rank of a message that says no priority: 4 is the usual one (AMQP 1.0 section 3.2.1)."""

_ARRIVING, _READY = State.ARRIVING, State.READY
"""Python 3.11 takes 0.1 us to find a member of an enum by its name: these are needed for every message."""


class Message:
    """One message of one queue; `number` is its place there, from 1, and never changes while it is in that queue.

    `failures` is the delivery-count; `acquired` says that some link may have had it; `refused_by` are the
    subscriptions to which it must not go again (AMQP 1.0 section 3.4.5, undeliverable-here). `expires_ms` is the end
    of its time, in milliseconds since the epoch, 0 for none; before `due_ms` it is not offered. Of two that are ready
    the one of the lower `rank` is delivered first, and of one rank the older one. `turned`: it stands before all of its
    rank (a liar's doing).
    """

    __slots__ = (
        "acquired",
        "bare",
        "due_ms",
        "durable",
        "expires_ms",
        "failures",
        "id",
        "number",
        "queue",
        "rank",
        "refused_by",
        "rest",
        "state",
        "turned",
    )

    def __init__(
        self, id: int, queue: Queue, number: int, durable: bool, rest: bytes, bare: bytes, expires_ms: int = 0
    ) -> None:
        self.id = id
        self.queue = queue
        self.number = number
        self.durable = durable
        self.rest = rest
        self.bare = bare
        self.expires_ms = expires_ms
        self.due_ms = 0
        self.rank = USUAL_RANK
        self.turned = False
        self.failures = 0
        self.acquired = False
        self.refused_by: frozenset[Subscription] = _NO_SUBSCRIPTIONS
        self.state = _ARRIVING

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among those of its queue that are ready."""
        return (self.rank, -self.number if self.turned else self.number, self.number)

    def advance(self, event: SettlementEvent) -> None:
        self.state = step(self.state, event)
        if event in COUNTED:
            self.failures += 1

    @property
    def kept(self) -> bool:
        """Whether the journal has it, or is to have it."""
        return self.durable and self.queue.kept


class Subscription:
    """One link's wish for the messages of one queue.

    `credit` says how many more it may be sent now; `deliver` sends one, under the tag that is its key in `held`.
    `committed`: a transaction with outcomes of it was committed.
    `held` has what was sent and has no outcome yet, in the order it was sent. `ended` is called, once, where the
    queue is deleted: the subscription holds nothing any more, and is not `open`. `lazy` outcomes are answered before
    they are stored. `owner` is the connection that it is of. With a `selector` it gets only messages that match it,
    each looked for from the front of the queue: many that do not match make it slow. `in_order`: it gets nothing past a
    message that is not offered.
    """

    in_order = False

    def __init__(
        self,
        queue: Queue,
        settled: bool,
        credit: Callable[[], int],
        deliver: Callable[[int, Message], None],
        ended: Callable[[], None] = lambda: None,
        *,
        lazy: bool = False,
        owner: object = None,
        selector: Selector | None = None,
    ) -> None:
        self.queue = queue
        self.owner = owner
        self.selector = selector
        self.settled = settled
        self.lazy = lazy
        self.credit = credit
        self.deliver = deliver
        self.ended = ended
        self.open = True
        self.committed = False
        self.held: dict[int, Message] = {}
        self.sent = 0

    def hold_again(self, tag: int, message: Message) -> None:
        """An outcome did not come to be: the delivery is at its place among the others again."""
        self.held[tag] = message
        self.held = dict(sorted(self.held.items()))


_NO_SUBSCRIPTIONS: frozenset[Subscription] = frozenset()


class Queue:
    """Of one priority first in, first out, with several subscriptions served in turn; higher priorities come before.

    `durable` queues are known after a restart, and `kept` says that their durable messages are too. `bytes` are those
    of its messages without their headers, of what is `arriving` too: that was let in and is not stored yet. `counts`
    says how often what has happened to its messages since the start, `refused` and `duplicates` what never became one.
    A `topic` holds no message: what is sent to it goes to the queues of its subscriptions.
    `owner` is the connection that has it for itself, and `auto_delete` says that it goes with its last consumer: both
    are of AMQP 0-9-1, and kept by its channels.
    """

    def __init__(
        self,
        name: str,
        next_number: int = 1,
        options: QueueOptions | None = None,
        *,
        durable: bool = True,
        persistence: bool = True,
        topic: bool = False,
    ) -> None:
        self.name = name
        self.topic = topic
        self.next_number = next_number
        self.options = options or QueueOptions()
        self.durable = durable
        self.kept = durable and persistence
        self.deleted = False
        self.owner: object = None
        self.auto_delete = False
        self.limited = bool(self.options.max_length or self.options.max_bytes)
        self.identities = Identities(self.options.duplicate_ids) if self.options.duplicate_ids else None
        self.unacknowledged = 0
        self.arriving = 0
        self.bytes = 0
        self.refused = 0
        self.duplicates = 0
        self.counts = dict.fromkeys(SettlementEvent, 0)
        self._stored: dict[int, Message] = {}
        self._ready: list[tuple[int, int, int]] = []
        self._hidden: list[tuple[int, int, int]] = []
        self._subscriptions: deque[Subscription] = deque()
        self._first_sender: object = None

    def first_sender(self, sender: object) -> object:
        """Return who was the first to send here; it is this one if there was none."""
        if self._first_sender is None:
            self._first_sender = sender
        return self._first_sender

    @property
    def depth(self) -> int:
        """Stored messages, those delivered and not acknowledged included."""
        return len(self._stored)

    @property
    def consumers(self) -> int:
        return len(self._subscriptions)

    def full(self, size: int) -> str | None:
        """Why one more message of so many bytes is too much; None if it is not."""
        options = self.options
        if options.max_length and len(self._stored) + self.arriving >= options.max_length:
            return f"the queue {self.name} is full: max_length={options.max_length}"
        if options.max_bytes and self.bytes + size > options.max_bytes:
            return f"the queue {self.name} is full: max_bytes={options.max_bytes}"
        return None

    def reserve(self, size: int) -> None:
        """A message of so many bytes is let in: from now on it takes its place, so that no burst goes past a limit."""
        self.arriving += 1
        self.bytes += size

    def release(self, size: int) -> None:
        self.arriving -= 1
        self.bytes -= size

    def number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def add(self, message: Message, *, hidden: bool = False) -> None:
        """A stored message takes the place that it has reserved; a `hidden` one is never offered (a liar's doing)."""
        self.keep(message)
        heapq.heappush(self._hidden if hidden else self._ready, message.place)

    def keep(self, message: Message) -> None:
        """A stored message takes the place that it has reserved, and waits there until it is offered."""
        self.arriving -= 1
        self._stored[message.number] = message

    def offer(self, message: Message) -> None:
        """The message is ready, at its original place: before all that came after it."""
        heapq.heappush(self._ready, message.place)

    def discard(self, message: Message) -> None:
        """The message leaves the queue; what a deleted queue had has left it before."""
        if self._stored.pop(message.number, None) is not None:
            self.bytes -= len(message.bare)

    def passed_over(self) -> None:
        """A message that was ready left, and not to a subscription: its place goes when such places are many."""
        if len(self._ready) > 2 * len(self._stored) + _SLACK:
            self._ready = [place for place in self._ready if self._is_ready(place[-1])]
            heapq.heapify(self._ready)

    def browse(self) -> Iterator[Message]:
        """What is stored now, in order; what leaves the queue before its turn is left out."""
        for number in sorted(self._stored):
            message = self._stored.get(number)
            if message is not None:
                yield message

    def close(self) -> list[Subscription]:
        """Deleted: its messages are gone; who was subscribed."""
        self.deleted = True
        subscriptions = list(self._subscriptions)
        self._subscriptions.clear()
        self._stored.clear()
        self._ready.clear()
        return subscriptions

    def subscribe(self, subscription: Subscription) -> None:
        self._subscriptions.append(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.remove(subscription)

    def holding(self, owner: object) -> list[Subscription]:
        """The subscriptions of a connection that hold a delivery."""
        return [each for each in self._subscriptions if each.owner is owner and each.held]

    def beside(self, subscription: Subscription) -> Subscription | None:
        """Another subscription that has credit; None where there is none."""
        others = (other for other in self._subscriptions if other is not subscription)
        return next((other for other in others if other.credit() > 0), None)

    def dispatch(
        self,
        send: Callable[[Subscription, Message], None],
        now_ms: int = 0,
        expire: Callable[[Message], None] | None = None,
        unselected: Callable[[Message], None] | None = None,
    ) -> None:
        """Sends ready messages in order, each to the next subscription that has credit and may have it.

        One whose time was over at `now_ms` is not sent but given to `expire`; one that a selector passes over stays,
        unless it is given to `unselected`.
        """
        idle = 0
        while self._ready and idle < len(self._subscriptions):
            subscription = self._subscriptions[0]
            self._subscriptions.rotate(-1)
            message = self._take(subscription, now_ms, expire, unselected) if subscription.credit() > 0 else None
            if message is None:
                idle += 1
                continue
            idle = 0
            send(subscription, message)

    def _take(
        self,
        subscription: Subscription,
        now_ms: int,
        expire: Callable[[Message], None] | None,
        unselected: Callable[[Message], None] | None,
    ) -> Message | None:
        """The first ready message that this subscription has not refused, and that its selector matches."""
        if subscription.in_order and self._hidden and self._ready and self._hidden[0] < self._ready[0]:
            return None
        selector = subscription.selector
        passed = []
        found = None
        while self._ready and found is None:
            message = self._stored.get(heapq.heappop(self._ready)[-1])
            if message is None or message.state is not _READY:
                continue
            if expire is not None and 0 < message.expires_ms <= now_ms:
                expire(message)
            elif subscription in message.refused_by:
                passed.append(message.place)
            elif selector is not None and not selector.matches(message.bare):
                if unselected is None:
                    passed.append(message.place)
                else:
                    unselected(message)
            else:
                found = message
        for place in passed:
            heapq.heappush(self._ready, place)
        return found

    def _is_ready(self, number: int) -> bool:
        message = self._stored.get(number)
        return message is not None and message.state is _READY


class Expiries:
    """The messages that have an end, by that end; the caller passes the time.

    It grows with the messages that are held, not with those that passed. Counter-example to a heap alone: a million
    messages with a day to live pass in a minute, and stay for the day.
    """

    def __init__(self) -> None:
        self._known: dict[int, Message] = {}
        self._heap: list[tuple[int, int]] = []
        self._overdue: set[int] = set()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, message: Message) -> None:
        """A message with an end waits for a consumer, for the first time or again.

        If its time ended in a consumer's hands it is over now; else its entry still stands.
        """
        if message.id in self._overdue:
            self._overdue.discard(message.id)
        elif message.id in self._known:
            return
        self._known[message.id] = message
        heapq.heappush(self._heap, (message.expires_ms, message.id))

    def forget(self, message: Message) -> None:
        if self._known.pop(message.id, None) is None:
            return
        self._overdue.discard(message.id)
        if len(self._heap) > 2 * len(self._known) + _SLACK:
            self._heap = [entry for entry in self._heap if entry[1] in self._known]
            heapq.heapify(self._heap)

    def due(self, now_ms: int, most: int) -> list[Message]:
        """At most so many messages that wait for a consumer and whose time is over, the earliest first."""
        found: list[Message] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < most:
            id = heapq.heappop(self._heap)[1]
            message = self._known.get(id)
            if message is None:
                continue
            if message.state is _READY:
                found.append(message)
            else:
                self._overdue.add(id)
        return found

    def next_ms(self) -> int | None:
        """When the next is due, in milliseconds since the epoch; None if nothing is."""
        while self._heap and self._heap[0][1] not in self._known:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class Delays:
    """The messages that may not be delivered yet, by their time; the caller passes the time.

    What has left its queue before its time, or was deleted with it, is passed over when the time has come.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Message]] = []

    def add(self, message: Message) -> None:
        heapq.heappush(self._heap, (message.due_ms, message.id, message))

    def due(self, now_ms: int) -> Iterator[Message]:
        while self._heap and self._heap[0][0] <= now_ms:
            message = heapq.heappop(self._heap)[-1]
            if message.state is _READY and not message.queue.deleted:
                yield message

    def next_ms(self) -> int | None:
        """When the next is due, in milliseconds since the epoch; None if nothing is."""
        return self._heap[0][0] if self._heap else None


class Send(NamedTuple):
    """A message that is not offered before the commit, which gives it its number in the queue.

    It takes up room in the queue already. `identity` is its id for the detection of duplicates.
    """

    queue: Queue
    parsed: Parsed
    identity: bytes | None


class Transaction:
    """What was sent and settled in one transaction, in order; `number` is its own since the start of the broker.

    `outcomes` has of each delivery the first that a consumer gave, and whether it may be delivered here again.
    It owns nothing: a delivery stays with its link, and an outcome counts only if that link still holds the delivery
    when the transaction is committed.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.sends: list[Send] = []
        self.outcomes: dict[tuple[Subscription, int], tuple[SettlementEvent, bool]] = {}
        self._watchers: dict[tuple[Subscription, int], Callable[[bool], None]] = {}

    def when_over(self, subscription: Subscription, tag: int, watcher: Callable[[bool], None]) -> None:
        """Calls back once, after the effects and before the answer: true for committed, false for rolled back."""
        self._watchers[subscription, tag] = watcher

    def leave_out(self, subscription: Subscription, tag: int) -> None:
        """The delivery has an outcome in another transaction now."""
        self.outcomes.pop((subscription, tag), None)
        self._watchers.pop((subscription, tag), None)

    def over(self, *, committed: bool) -> None:
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers.values():
            watcher(committed)
