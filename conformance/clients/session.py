"""The interface between a role and a protocol: roles record, sessions send and receive."""

from __future__ import annotations

import abc
import dataclasses
import select
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from conformance import limits
from conformance.clients.job import Job, Unfinished
from conformance.clients.roles.modes import AckHeader
from conformance.errors import BrokerError, ClientError, LoginError, UnansweredError
from conformance.history import Op, Phase

_UNLIMITED = 1 << 30

ANSWER_S = 30.0
"""How long a broker may take to answer a request that is neither a send nor an acknowledgement."""


class Disconnected(Exception):
    """The peer is gone: end of stream or reset."""


class Refused(BrokerError):
    """The broker closed a link, a session or the connection with an error of its own, or sent an ERROR frame.

    `answers` holds the answers to the operation that the broker refused, if it named one. A role that expects a refusal
    records them.
    """

    def __init__(self, text: str, answers: Sequence[SendOutcome | OperationAnswer] = ()) -> None:
        super().__init__(text)
        self.answers = answers


class LoginRefused(Refused, LoginError):
    """The refusal is about the login."""

    of_broker = False


@dataclasses.dataclass(slots=True)
class SendOutcome:
    """The answer to one send: `ok`, or `fail` with the name of the outcome.

    Inside a transaction it is provisional: only the answer to the commit confirms the send. If the publisher asked for
    a window, `first` and `last` are the ends of the range that the same answer covers; the answer names the last one.
    """

    message: str
    phase: Phase
    detail: str | None
    first: str | None = None
    last: str | None = None


def note_range(covered: Sequence[SendOutcome]) -> None:
    """Note the first and the last message in each of these outcomes, which one answer covers in this order."""
    for outcome in covered:
        outcome.first, outcome.last = covered[0].message, covered[-1].message


@dataclasses.dataclass(slots=True)
class OperationAnswer:
    """The answer to `ack`, `nack`, `begin`, `commit` or `rollback`; `subject` names the message or transaction.

    `delivery` is that of an acknowledged message: two receivers of a session may hold messages with the same id.
    """

    op: Op
    subject: str
    phase: Phase
    detail: str | None = None
    delivery: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(slots=True)
class Received:
    """One delivery; a field is None if the protocol does not say.

    `count` and `first_acquirer` are those of AMQP 1.0 section 3.2.1. `delivery` is unique in its session, and
    `receiver` is the place of its receiver there, from 0. `altered`: what stands beside the body is not what the
    publisher sent. Only the session reads `handle`.
    """

    message: str
    body: bytes
    count: int | None
    first_acquirer: bool | None
    redelivered: bool | None
    delivery: str
    handle: Any
    receiver: int = 0
    altered: bool = False


class QuestionResult(NamedTuple):
    """One call of a vendor's client or request to a broker, whether its result is as claimed, and the result."""

    call: str
    holds: bool
    result: str


class DeliveryBuffer(deque[Received]):
    """Deliveries that no role has taken yet, bounded so that a broker cannot fill this machine.

    `ended` are the receivers that have ended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        self.ended: set[int] = set()

    @override
    def append(self, received: Received) -> None:
        """Add one; raises `ClientError` if more than `limits.BACKLOG` bytes wait."""
        self.size += len(received.body) + limits.OVERHEAD
        if self.size > limits.BACKLOG:
            raise ClientError(limits.limit_sentence("deliveries that wait to be processed", limits.BACKLOG))
        super().append(received)

    @override
    def popleft(self) -> Received:
        received = super().popleft()
        self.size -= len(received.body) + limits.OVERHEAD
        return received

    def end(self, receiver: int) -> None:
        """Drop the deliveries of a receiver that ends; a session adds no more of it."""
        self.ended.add(receiver)
        for _ in range(len(self)):
            received = self.popleft()
            if received.receiver != receiver:
                self.append(received)


def pump_until(pump: Callable[[float], None], done: Callable[[], bool], timeout_s: float) -> bool:
    """Pump until `done()`; return False if `timeout_s` passed first."""
    deadline = time.monotonic() + timeout_s
    while not done():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        pump(left)
    return True


def await_answer(pump: Callable[[float], None], done: Callable[[], bool], what: str) -> None:
    """Pump until the answer to `what` has come. Raises `UnansweredError` if the broker gives none."""
    if not pump_until(pump, done, ANSWER_S):
        raise UnansweredError(f"the broker did not answer {what} within {ANSWER_S:.0f} s")


def wait_for_input(
    poll: select.poll, line: int, read: Callable[[], None], timeout_s: float | None, own: Collection[int] = ()
) -> None:
    """Wait at most `timeout_s` (None: no limit) for an event, and call `read` if the descriptor `line` has input.

    `own` are all descriptors of the connection if it has several. See `Session.watch` of any other.
    """
    for descriptor, events in poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000):
        if descriptor == line and events & ~select.POLLOUT:
            read()
        elif descriptor not in (line, *own) and events & (select.POLLHUP | select.POLLERR):
            raise SystemExit("the harness is gone")


class Session(abc.ABC):
    """One connection to the broker of a job, with one sender for each queue, and any number of receivers.

    A session connects when it is made. `pump` does the I/O and fills the queues below. Nothing is sent before the next
    `pump`, which first calls `before_write`: the recorder flushes there, so an `invoke` is older than its bytes.

    Attributes:
        outcomes: Answers to sends, in order.
        incoming: Deliveries, prefetched until a role takes them.
        answers: Answers to the other operations that asked for one.
        returned: Messages whose `send()` has returned, if a listener gets the answers (JMS).
        anomalies: Answers of the broker that answer nothing, each as a sentence.
        reached: Events between a send and its answer, or of an acknowledgement, as triggers call them (`triggers.Nth`).
        greeting: What the broker calls itself, with its version; known once it has opened a sender. May be empty.
        found: What a receiver found when it attached, if the history has to say it: its queue was gone. Else empty.

    Raises:
        ClientError: There is no connection, or the broker broke the protocol.
    """

    answers_refusals: ClassVar[bool] = False
    """Whether `refuse` gets an `OperationAnswer`."""
    releases_after_rollback: ClassVar[bool] = False
    """Whether deliveries that were acknowledged in a transaction stay with the consumer after its rollback."""

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        self._job, self._before_write = job, before_write
        self.outcomes: deque[SendOutcome] = deque()
        self.incoming = DeliveryBuffer()
        self.answers: deque[OperationAnswer] = deque()
        self.returned: deque[str] = deque()
        self.anomalies: deque[str] = deque()
        self.reached: deque[str] = deque()
        self.greeting = self.found = ""

    @abc.abstractmethod
    def attach_sender(self, queue: str) -> None:
        """Open a sender and wait until the broker has opened its end."""

    @abc.abstractmethod
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        """Open one more receiver, wait until the broker has opened its end, and give credit."""

    def end_receiver(self, receiver: int) -> None:
        """End a receiver, and wait for the broker's answer. What it holds goes back to its queue."""
        raise ClientError("this client ends a receiver only with its session")

    def sendable(self) -> int:
        """Return how many messages may be sent now; without credit in the protocol there is no limit."""
        return _UNLIMITED

    @abc.abstractmethod
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        """Queue one message; `immediate` asks for Ack Immediately."""

    def send_unanswered(self, message: str, body: bytes, *, durable: bool) -> None:
        """Queue one message without asking for an answer; `ClientError` if this client always asks."""
        raise ClientError("a send without an answer needs the raw client")

    @abc.abstractmethod
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        """Accept these deliveries, in the order of their arrival.

        `confirmed` asks for the broker's answer: one `OperationAnswer` for each of them. On a cumulative subscription
        `covered` holds every open delivery, and one frame acknowledges all those of a receiver.
        """

    @abc.abstractmethod
    def refuse(self, received: Received, outcome: str) -> None:
        """Give back one delivery: `released`, `failed`, `undeliverable` or `rejected`. Or all: `recovered`.

        A protocol with a single word for these uses that word.
        """

    @abc.abstractmethod
    def begin(self, transaction: str) -> None:
        """Ask for a transaction, by our name for it. Read its `OperationAnswer` before you use it."""

    @abc.abstractmethod
    def commit(self, transaction: str) -> None:
        """Ask to commit; the `OperationAnswer` says `ok` or `fail`."""

    @abc.abstractmethod
    def rollback(self, transaction: str) -> None:
        """Ask to roll back; the `OperationAnswer` says `ok` or `fail`."""

    def replenish(self, credit: int, receiver: int = 0) -> None:  # noqa: B027 - only a protocol with credit overrides it
        """Give this much credit back to a receiver, if the protocol has credit."""

    def fetch(self) -> None:  # noqa: B027 - most protocols send deliveries unasked
        """Ask for the next delivery, if the protocol sends none unasked. Call it before each `pump` that waits."""

    def unfinished(self) -> tuple[Unfinished, ...]:
        """Return what a later client of the same session goes on with, if the protocol has such."""
        return ()

    def depth(self, queue: str) -> int | None:
        """Return how many messages the queue of a receiver holds, at least; None: only the broker can tell."""
        return None

    def asked(self, question: str) -> Sequence[QuestionResult]:
        """Return the answers to one of `QUESTIONS` of the protocol; `ClientError` where it has none."""
        raise ClientError(f"this client cannot ask: {question}")

    @abc.abstractmethod
    def pump(self, timeout_s: float | None) -> None:
        """Do I/O for at most `timeout_s` (None: no limit).

        Raises:
            Refused: The broker closed a link, a session or the connection with an error, or sent an ERROR frame.
            Disconnected: The connection is lost. What the broker sent before was handled.
        """

    def watch(self, descriptor: int) -> None:  # noqa: B027 - the process of a JVM watches by itself
        """Raise `SystemExit` from `pump` when `descriptor` hangs up: the harness is gone."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close in order, as far as the peer still listens. A second call does nothing."""
