"""Time to live: which message's time is over next. It has no clock: the caller passes the time."""

from __future__ import annotations

import heapq

from conformance.reference.core.queues import Message
from conformance.reference.core.settlement import State

_SLACK = 64
"""Entries of messages that are gone which may stand in the heap, beside one for each that is not."""


class Expiries:
    """The messages that have an end, by that end. It grows with those that are held, not with those that passed.

    Counter-example to a heap alone: a million messages with a day to live pass in a minute, and stay for the day.
    """

    def __init__(self) -> None:
        self._known: dict[int, Message] = {}
        self._heap: list[tuple[int, int]] = []
        self._overdue: set[int] = set()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def entries(self) -> int:
        """How many entries are held for them."""
        return len(self._heap) + len(self._overdue)

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
        """The message is gone, or has no end any more."""
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
            if message.state is State.READY:
                found.append(message)
            else:
                self._overdue.add(id)
        return found

    def next_ms(self) -> int | None:
        """When the next is due, in milliseconds since the epoch; None if nothing is."""
        while self._heap and self._heap[0][1] not in self._known:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
