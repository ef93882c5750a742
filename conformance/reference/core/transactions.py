"""Local transactions: what one holds until it is committed. No protocol, no disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from conformance.reference.core.queues import Queue, Subscription
from conformance.reference.core.settlement import SettlementEvent
from conformance.reference.message.header import Parsed


class Send(NamedTuple):
    """A message that is offered to nobody before the commit; it gets its number in the queue there.

    It takes up room in the queue already. `identity` is its id for the detection of duplicates.
    """

    queue: Queue
    parsed: Parsed
    identity: bytes | None


class DeliveryOutcome(NamedTuple):
    """What a consumer said of a delivery; `here` is false for undeliverable-here."""

    subscription: Subscription
    tag: int
    event: SettlementEvent
    here: bool


class Transaction:
    """What was sent and settled in one transaction, in order; `number` is its own since the start of the broker.

    It owns nothing: a delivery stays with its link, and an outcome counts only if that link still holds the delivery
    when the transaction is committed.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.sends: list[Send] = []
        self.outcomes: list[DeliveryOutcome] = []
        self._watchers: list[Callable[[bool], None]] = []

    def when_over(self, watcher: Callable[[bool], None]) -> None:
        """Calls back once, after the effects and before the answer: true for committed, false for rolled back."""
        self._watchers.append(watcher)

    def over(self, *, committed: bool) -> None:
        """Tells the watchers, in the order they came."""
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher(committed)
