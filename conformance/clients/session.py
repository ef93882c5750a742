"""What a role needs of a protocol: the seam between what is recorded and how it is said on the wire."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any, Protocol

from conformance.history import Phase


@dataclasses.dataclass(slots=True)
class Outcome:
    """The answer to one send: `ok`, or `fail` with the name of the outcome."""

    message: str
    phase: Phase
    detail: str | None


@dataclasses.dataclass(slots=True)
class Received:
    """One delivery as it came: `count` and `first_acquirer` as in AMQP 1.0 section 3.2.1; `handle` is the session's."""

    message: str
    body: bytes
    count: int
    first_acquirer: bool | None
    redelivered: bool | None
    delivery: str
    handle: Any


class Session(Protocol):
    """One connection with at most one sender and one receiver on one queue.

    `pump` does I/O; what it finds is in `outcomes` (answers to sends, in order), `incoming` (deliveries, prefetched
    until a role takes them) and `confirmed` (acknowledgements whose answer was read).
    """

    outcomes: deque[Outcome]
    incoming: deque[Received]
    confirmed: deque[str]

    def attach_sender(self, queue: str) -> None:
        """Open a sender and wait until the broker has opened its end."""

    def attach_receiver(self, queue: str, credit: int) -> None:
        """Open a receiver, wait until the broker has opened its end, and give credit."""

    def sendable(self) -> int:
        """How many messages may be sent now."""

    def send(self, message: str, body: bytes, *, durable: bool) -> None:
        """Put one message on its way; its bytes leave at the next `pump`."""

    def acknowledge(self, received: Received) -> None:
        """Accept and settle; no answer is asked for."""

    def acknowledge_confirmed(self, received: Received) -> None:
        """Accept and ask for the broker's answer, which arrives in `confirmed`."""

    def replenish(self, credit: int) -> None:
        """Give that much link credit back."""

    def pump(self, timeout_s: float | None) -> None:
        """Do I/O for at most that long; raises `Disconnected`."""

    def depth(self, queue: str) -> int:
        """The broker's own count of the messages in the queue."""

    def close(self) -> None:
        """Close in order."""
