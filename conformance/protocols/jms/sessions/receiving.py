"""Receive messages as a JMS application does, and take the answers to its asynchronous sends.

Messages arrive by `receive()`, or by a listener whose return acknowledges. The completion listener of an asynchronous
send (JMS 2.0, 7.3) is called once for each message.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conformance.clients.job import Work
from conformance.clients.session import OperationAnswer, Received, SendOutcome
from conformance.errors import ClientError
from conformance.history import CONFORMANCE_ID, Op, Phase
from conformance.protocols.jms.sessions.jvm import Calls
from conformance.scenario.options import as_text
from conformance.scenario.script import Drain


@dataclasses.dataclass(frozen=True)
class Returned:
    """`send()` has returned; a listener gets the answer to that message."""

    message: str


@dataclasses.dataclass(frozen=True)
class Untrue:
    """The listener was called for a message that waits for no answer."""

    text: str


class Completions:
    """A `CompletionListener`. The client calls it in threads of its own; `fails` is called for a failed send."""

    def __init__(self, calls: Calls, fails: Callable[[str, Any], None]) -> None:
        self._calls, self._fails = calls, fails
        self._open: set[str] = set()

    def expects(self, message: str) -> None:
        """Note a message before `send()` is called with it."""
        self._open.add(message)

    def forget(self, message: str) -> None:
        """Drop a message whose `send()` has thrown: no answer to it will come."""
        self._open.discard(message)

    def onCompletion(self, message: Any) -> None:  # noqa: N802 - JMS 2.0 calls it so
        name = self._name(message)
        if self._was_open(name):
            self._calls.reports.put(SendOutcome(name, Phase.OK, None))

    def onException(self, message: Any, error: Any) -> None:  # noqa: N802 - JMS 2.0 calls it so
        name = self._name(message)
        if self._was_open(name):
            self._fails(name, error)

    def _name(self, message: Any) -> str:
        return str(message.getJMSCorrelationID())

    def _was_open(self, name: str) -> bool:
        """Whether that message waited for its answer; it waits no longer."""
        if name in self._open:
            self._open.discard(name)
            return True
        self._calls.reports.put(Untrue(f"the listener was called for {name}, which waits for no answer"))
        return False


_SLICE_MS = 100
"""Time limit of one `receive()`. It cannot be interrupted, so another call waits at most this long."""

_ACKNOWLEDGED_S = 0.5
"""If no delivery follows, a message counts as acknowledged this long after its listener returned."""

Fails = Callable[[Any, str], None]


def _texts(message: Any, names: Iterable[str]) -> dict[str, object]:
    """Return the texts of these properties of a JMS message, without those that it has not."""
    came = {name: message.getStringProperty(name) for name in names}
    return {name: str(value) for name, value in came.items() if value is not None}


class _Deliveries:
    """Translate JMS messages into `Received`. `work` knows what a message of the trial must have."""

    def __init__(
        self,
        consumer: Any,
        mode: str,
        calls: Calls,
        jpype: Any,
        fails: Fails,
        session: Any = None,
        individual: str = "acknowledge",
    ) -> None:
        self._individual = individual
        self.work = Work(step=Drain(), queue="")
        self._consumer, self._mode, self._calls, self._jpype, self._fails = consumer, mode, calls, jpype, fails
        self._session = session
        self._stopped = False
        self._number = 0

    def let_go(self) -> None:
        self._consumer = self._session = None

    def _received(self, message: Any, receiver: int = 0) -> Received:
        self._number += 1
        body, named = self._body(message), str(message.getJMSCorrelationID() or message.getJMSMessageID())
        if self.work.crosses:
            named = self.work.known_by(_texts(message, [CONFORMANCE_ID]), body, named)
        sent = self.work.properties(named)  # JMS 2.0, 3.5.4: each value can be read as a String
        return Received(
            message=named,
            body=body,
            count=self._count(message),
            first_acquirer=None,
            redelivered=bool(message.getJMSRedelivered()),
            delivery=str(self._number),
            handle=message,
            receiver=receiver,
            altered=self.work.are_altered(named, _texts(message, sent), as_text),
        )

    def _body(self, message: Any) -> bytes:
        """Return the bytes of a BytesMessage; our publishers send no other kind.

        A client may deliver the same object again, read to its end: the one of OpenMQ does if a listener throws.
        """
        try:
            message.reset()
            size = int(message.getBodyLength())
        except AttributeError:
            return str(message).encode()
        data = self._jpype.JArray(self._jpype.JByte)(size)
        message.readBytes(data)
        return bytes(data)

    def _count(self, message: Any) -> int | None:
        """Return the deliveries before this one: JMSXDeliveryCount counts itself (Jakarta Messaging 3.1, 3.5.11)."""
        try:
            return int(message.getIntProperty("JMSXDeliveryCount")) - 1
        except self._jpype.JException:  # NumberFormatException: it has none
            return None


class JmsReceiver(_Deliveries):
    """Receives by `receive()`, and acknowledges as the mode requires."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._consumers = [self._consumer]
        self._fetching = False
        self._turn = 0

    def add(self, consumer: Any) -> None:
        """Receive from one more consumer of the same session."""
        self._consumers.append(consumer)

    def wants(self) -> bool:
        """Whether `fetch` may be called: no other call of it is in progress."""
        wants = not self._fetching
        self._fetching = True
        return wants

    def fetch(self) -> None:
        """Wait for the next delivery, until another call waits."""
        found, place = None, 0
        try:
            while found is None and self._calls.idle and not self._stopped:
                place = self._turn = (self._turn + 1) % len(self._consumers)
                found = self._arrived(self._consumers[place].receive(_SLICE_MS // len(self._consumers)))
        except self._jpype.JException as error:
            self._fails(error, "receive()")
        finally:
            self._fetching = False
        if found is not None:
            self._calls.reports.put(self._received(found, place))

    def _arrived(self, message: Any) -> Any:
        """Return what to hand over when this has arrived, or None has."""
        return message

    def let_go(self) -> None:
        super().let_go()
        self._consumers.clear()

    def acknowledge(self, covered: Sequence[Received], *, confirmed: bool) -> None:
        """Acknowledge: in CLIENT mode once, in INDIVIDUAL mode each message by its own method, in other modes never."""
        if not covered:
            return
        try:
            self._acknowledge(covered)
        except self._jpype.JException as error:
            self._fails(error, "acknowledge()")
            return
        for received in covered if confirmed else ():
            self._calls.reports.put(OperationAnswer(Op.ACK, received.message, Phase.OK, delivery=received.delivery))

    def _acknowledge(self, covered: Sequence[Received]) -> None:
        if self._mode == "client":
            (self._session or covered[-1].handle).acknowledge()
        elif self._mode == "individual":
            for received in covered:
                getattr(self._session or received.handle, self._individual)()

    def stop(self) -> None:
        self._stopped = True


class Listening(_Deliveries):
    """A listener that returns when its message was processed. The return acknowledges it (AUTO and DUPS_OK).

    In PRE mode the message was acknowledged before, and the listener returns when the application wants the next one.
    """

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._returns: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._next = threading.Event()
        self._next.set()
        self._by_itself = self._mode == "pre"
        self._inside = False

    def wants(self) -> bool:
        """Whether `fetch` must be called: only in PRE mode, to let the listener return."""
        wants, self._inside = self._by_itself and self._inside, False
        return wants

    def fetch(self) -> None:
        """Let the listener return."""
        self._returns.put(True)

    def onMessage(self, message: Any) -> None:  # noqa: N802 - JMS calls it so
        """Report the message, and return when it was acknowledged. Throw if the application has ended."""
        if not self._reported(message) or not self._returns.get():
            raise ClientError("this message was not processed")

    def _reported(self, message: Any) -> bool:
        """Whether the application, which has not ended, was given the message."""
        handed = self._inside = not self._stopped
        self._next.set()
        if handed:
            self._calls.reports.put(self._received(message))
        return handed

    def acknowledge(self, covered: Sequence[Received], *, confirmed: bool) -> None:
        """Let the listener return for each message. JMS gives no confirmation, so there is no answer."""
        for _ in () if self._by_itself else covered:
            self._next.clear()
            self._returns.put(True)

    def throw(self) -> None:
        """Let the listener throw instead of returning: its message was not processed."""
        self._next.clear()
        self._returns.put(False)

    def stop(self) -> None:
        """Make the listener throw from now on, once its last return was acknowledged.

        A client acknowledges between two calls of the listener, so wait for the next call. Counter-example for not
        waiting: Qpid's AMQP 0-9-1 client was closed while its listener returned, and the message came again (1 of 150).
        """
        self._next.wait(_ACKNOWLEDGED_S)
        self._stopped = True
        self._returns.put(False)
