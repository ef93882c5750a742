"""The interface between a role and a protocol: roles record, sessions write to the wire."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from conformance import limits
from conformance.clients.roles.modes import AckHeader
from conformance.errors import ClientError
from conformance.history import Op, Phase


class Disconnected(Exception):
    """The peer is gone: end of stream or reset."""


class Refused(ClientError):
    """The broker closed a link, a session or the connection with an error of its own, or sent an ERROR frame.

    `answers` are those to the operation that it refused, where it said which: a role that expects a refusal takes them.
    """

    def __init__(self, text: str, answers: Sequence[SendOutcome | OperationAnswer] = ()) -> None:
        super().__init__(text)
        self.answers = answers


@dataclasses.dataclass(slots=True)
class SendOutcome:
    """The answer to one send: `ok`, or `fail` with the name of the outcome.

    Of a send inside a transaction it is provisional: only the answer to the commit confirms it. `first` and `last` are
    the messages at the ends of the range that the same answer covers, where a publisher asked for a window; the last
    one is named by it.
    """

    message: str
    phase: Phase
    detail: str | None
    first: str | None = None
    last: str | None = None


def ranged(covered: Sequence[SendOutcome]) -> None:
    """Note in each of these outcomes, which one answer covers in this order, where its range begins and ends."""
    for outcome in covered:
        outcome.first, outcome.last = covered[0].message, covered[-1].message


@dataclasses.dataclass(slots=True)
class OperationAnswer:
    """The answer to an operation that is no send.

    `op` is `ack`, `nack`, `begin`, `commit` or `rollback`; `subject` the message, or the transaction by our name.
    """

    op: Op
    subject: str
    phase: Phase
    detail: str | None = None


@dataclasses.dataclass(slots=True)
class Received:
    """One delivery as it came; None where the protocol does not say.

    `count` and `first_acquirer` as in AMQP 1.0 section 3.2.1; `handle` is the session's.
    """

    message: str
    body: bytes
    count: int | None
    first_acquirer: bool | None
    redelivered: bool | None
    delivery: str
    handle: Any


class DeliveryBuffer(deque[Received]):
    """Deliveries that a role has not taken yet; a broker that sends without end does not fill this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def append(self, received: Received) -> None:
        """Add one; raises `ClientError` where more than `limits.BACKLOG` bytes wait."""
        self.size += len(received.body) + limits.OVERHEAD
        if self.size > limits.BACKLOG:
            raise ClientError(limits.exceeded("deliveries that wait to be processed", limits.BACKLOG))
        super().append(received)

    def popleft(self) -> Received:
        """Take the oldest."""
        received = super().popleft()
        self.size -= len(received.body) + limits.OVERHEAD
        return received


def pump_until(pump: Callable[[float], None], done: Callable[[], bool], timeout_s: float) -> bool:
    """Pump until `done()`; False where `timeout_s` went by first."""
    deadline = time.monotonic() + timeout_s
    while not done():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        pump(left)
    return True


class Session(Protocol):
    """One connection with at most one sender and one receiver on one queue.

    `pump` does I/O; what it finds is in `outcomes` (answers to sends, in order), `incoming` (deliveries, prefetched
    until a role takes them) and `answers` (to everything else that asked for one). Nothing leaves before the next
    `pump`, which flushes the recorder first; that is why an `invoke` is always older than its bytes.
    """

    outcomes: deque[SendOutcome]
    incoming: deque[Received]
    answers: deque[OperationAnswer]
    answers_refusals: bool
    """Whether `refuse` gets an `OperationAnswer`."""
    releases_after_rollback: bool
    """Whether deliveries that were acknowledged in a transaction stay with the consumer after its rollback."""

    def attach_sender(self, queue: str) -> None:
        """Open a sender and wait until the broker has opened its end."""

    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        """Open a receiver, wait until the broker has opened its end, and give credit."""

    def sendable(self) -> int:
        """How many messages may be sent now."""

    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        """Put one message on its way; `immediate` asks for Ack Immediately."""

    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        """Accept these deliveries, in the order in which they came.

        `confirmed` asks for the broker's answer: one `OperationAnswer` for each of them. On a cumulative subscription
        `covered` is everything that is open, and one frame says so.
        """

    def refuse(self, received: Received, outcome: str) -> None:
        """Give back one delivery.

        `outcome` is `released`, `failed`, `undeliverable` or `rejected`; a protocol without these words says the only
        one that it has.
        """

    def begin(self, transaction: str) -> None:
        """Ask for a transaction, under our own name for it; its `OperationAnswer` must be read before it is used."""

    def commit(self, transaction: str) -> None:
        """Ask to commit; the `OperationAnswer` says `ok` or `fail`."""

    def rollback(self, transaction: str) -> None:
        """Ask to roll back; the `OperationAnswer` says `ok` or `fail`."""

    def replenish(self, credit: int) -> None:
        """Give that much credit back."""

    def fetch(self) -> None:
        """Ask for the next delivery, where they come only when they are asked for; before each `pump` that waits."""

    def pump(self, timeout_s: float | None) -> None:
        """Do I/O for at most that long; raises `Disconnected`, and `Refused` where the broker says why."""

    def watch(self, descriptor: int) -> None:
        """End the process (`SystemExit`) when `descriptor` hangs up: the harness that gave the job is gone."""

    def close(self) -> None:
        """Close in order as far as the peer still listens; a second call does nothing."""
