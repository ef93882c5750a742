"""Queues: order, who may have what, and how deep they are. No protocol, no disk."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from conformance.reference.core.settlement import COUNTED, Event, State, step


class Message:
    """One message of one queue; `number` is its place there, from 1, and never changes while it is in that queue.

    `failures` is the delivery-count; `acquired` says that some link may have had it; `refused_by` are the
    subscriptions to which it must not go again (AMQP 1.0 section 3.4.5, undeliverable-here).
    """

    __slots__ = ("acquired", "bare", "durable", "failures", "id", "number", "queue", "refused_by", "rest", "state")

    def __init__(self, id: int, queue: Queue, number: int, durable: bool, rest: bytes, bare: bytes) -> None:
        self.id = id
        self.queue = queue
        self.number = number
        self.durable = durable
        self.rest = rest
        self.bare = bare
        self.failures = 0
        self.acquired = False
        self.refused_by: frozenset[Subscription] = frozenset()
        self.state = State.ARRIVING

    def advance(self, event: Event) -> None:
        """Takes the step of the settlement table, and counts if the event counts."""
        self.state = step(self.state, event)
        if event in COUNTED:
            self.failures += 1


class Subscription:
    """One link's wish for the messages of one queue.

    `credit` says how many more it may be sent now; `deliver` sends one, under the tag that is its key in `held`.
    `held` has what was sent and has no outcome yet, in the order it was sent.
    """

    def __init__(
        self,
        queue: Queue,
        settled: bool,
        credit: Callable[[], int],
        deliver: Callable[[int, Message], None],
    ) -> None:
        self.queue = queue
        self.settled = settled
        self.credit = credit
        self.deliver = deliver
        self.held: dict[int, Message] = {}
        self.sent = 0


class Queue:
    """First in, first out, with several subscriptions served in turn."""

    def __init__(self, name: str, next_number: int = 1) -> None:
        self.name = name
        self.next_number = next_number
        self.unacknowledged = 0
        self._stored: dict[int, Message] = {}
        self._ready: list[int] = []
        self._subscriptions: deque[Subscription] = deque()

    @property
    def depth(self) -> int:
        """Stored messages, those delivered and not acknowledged included."""
        return len(self._stored)

    def number(self) -> int:
        """The next number."""
        self.next_number += 1
        return self.next_number - 1

    def add(self, message: Message, *, hidden: bool = False) -> None:
        """A stored message enters; a `hidden` one is counted and never offered (a liar's doing)."""
        self._stored[message.number] = message
        if not hidden:
            self.offer(message)

    def offer(self, message: Message) -> None:
        """The message is ready, at its original place: before all that came after it."""
        heapq.heappush(self._ready, message.number)

    def discard(self, message: Message) -> None:
        """The message leaves the queue."""
        del self._stored[message.number]

    def subscribe(self, subscription: Subscription) -> None:
        """The subscription takes its turn from now on."""
        self._subscriptions.append(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Nothing more is sent there."""
        self._subscriptions.remove(subscription)

    def dispatch(self, send: Callable[[Subscription, Message], None]) -> None:
        """Sends ready messages in order, each to the next subscription that has credit and has not refused it."""
        idle = 0
        while self._ready and idle < len(self._subscriptions):
            subscription = self._subscriptions[0]
            self._subscriptions.rotate(-1)
            message = self._take(subscription) if subscription.credit() > 0 else None
            if message is None:
                idle += 1
                continue
            idle = 0
            send(subscription, message)

    def _take(self, subscription: Subscription) -> Message | None:
        """The first ready message that this subscription has not refused."""
        refused = []
        found = None
        while self._ready and found is None:
            message = self._stored[heapq.heappop(self._ready)]
            if subscription in message.refused_by:
                refused.append(message.number)
            else:
                found = message
        for number in refused:
            heapq.heappush(self._ready, number)
        return found
