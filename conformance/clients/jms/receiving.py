"""How a JMS application receives messages, and the answers to its asynchronous sends.

Messages come by `receive()`, or by a listener whose return acknowledges. The completion listener of an asynchronous
send (JMS 2.0, 7.3) is called once for each message.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from conformance.clients.jms.calls import Calls
from conformance.clients.session import OperationAnswer, Received, SendOutcome
from conformance.errors import ClientError
from conformance.history import Op, Phase

_AT = 50
"""Of how many answered sends a liar leaves one out."""


@dataclasses.dataclass(frozen=True)
class Returned:
    """`send()` has returned; a listener hears of the answer to that message."""

    message: str


@dataclasses.dataclass(frozen=True)
class Untrue:
    """The listener was told of a message that waits for no answer."""

    text: str


class Completions:
    """A `CompletionListener`; the client calls it in threads of its own. `fails` is told of a send that failed."""

    def __init__(self, calls: Calls, fails: Callable[[str, Any], None], liar: str) -> None:
        self._calls, self._fails, self._liar = calls, fails, liar
        self._open: set[str] = set()
        self._answered = 0

    def expects(self, message: str) -> None:
        """`send()` is about to be called with it."""
        self._open.add(message)

    def forget(self, message: str) -> None:
        """`send()` has thrown: no answer to it will come."""
        self._open.discard(message)

    def onCompletion(self, message: Any) -> None:  # noqa: N802 - JMS 2.0 calls it so
        """A send was answered."""
        name = self._name(message)
        self._answered += 1
        if self._liar == "leaves-out-a-listener" and self._answered == _AT:
            return
        if self._was_open(name):
            self._calls.told.put(SendOutcome(name, Phase.OK, None))
        if self._liar == "tells-a-listener-twice" and self._answered == _AT:
            self._was_open(name)

    def onException(self, message: Any, error: Any) -> None:  # noqa: N802 - likewise
        """A send has failed."""
        name = self._name(message)
        if self._was_open(name):
            self._fails(name, error)

    def _name(self, message: Any) -> str:
        return str(message.getJMSCorrelationID())

    def _was_open(self, name: str) -> bool:
        """Whether that message waits for its answer; from now on it does not."""
        if name in self._open:
            self._open.discard(name)
            return True
        self._calls.told.put(Untrue(f"the listener was told of {name}, which waits for no answer"))
        return False


_SLICE_MS = 100
"""`receive()` cannot be called off: so long at most another call waits behind one that gets nothing."""

_ACKNOWLEDGED_S = 0.5
"""Where no delivery follows, so long after the listener returned its message counts as acknowledged."""

_TOGETHER = 10
_BY_MESSAGE = ("client", "individual")
Fails = Callable[[Any, str], None]


class _Deliveries:
    """What both have: a message of JMS in our own terms."""

    def __init__(
        self, consumer: Any, mode: str, calls: Calls, jpype: Any, fails: Fails, liar: str, session: Any = None
    ) -> None:
        self._consumer, self._mode, self._calls, self._jpype, self._fails = consumer, mode, calls, jpype, fails
        self._liar, self._session = liar, session
        self._stopped = False
        self._number = 0

    def let_go(self) -> None:
        """Of the consumer: nothing more is asked of it."""
        self._consumer = self._session = None

    def _received(self, message: Any) -> Received:
        self._number += 1
        return Received(
            message=str(message.getJMSCorrelationID() or message.getJMSMessageID()),
            body=self._body(message),
            count=self._count(message),
            first_acquirer=None,
            redelivered=bool(message.getJMSRedelivered()),
            delivery=str(self._number),
            handle=message,
        )

    def _body(self, message: Any) -> bytes:
        """The bytes of a BytesMessage; any other is none of ours."""
        try:
            size = int(message.getBodyLength())
        except AttributeError:
            return str(message).encode()
        data = self._jpype.JArray(self._jpype.JByte)(size)
        message.readBytes(data)
        return bytes(data)

    def _count(self, message: Any) -> int | None:
        """Deliveries before this one: JMSXDeliveryCount counts itself (Jakarta Messaging 3.1, section 3.5.11)."""
        try:
            return int(message.getIntProperty("JMSXDeliveryCount")) - 1
        except self._jpype.JException:  # NumberFormatException: it has none
            return None


class JmsReceiver(_Deliveries):
    """`receive()`, when it is asked for; `acknowledge()` as the mode has it."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._fetching = False
        self._kept: Any = None

    def wants(self) -> bool:
        """Whether `fetch` may be called: no other is under way."""
        wants = not self._fetching
        self._fetching = True
        return wants

    def fetch(self) -> None:
        """Wait for the next delivery, until something else is asked for."""
        found = None
        try:
            while found is None and self._calls.idle and not self._stopped:
                found = self._consumer.receive(_SLICE_MS)
                if self._liar == "acknowledges-on-arrival":  # it was, and is handed over when the next one is here
                    found, self._kept = (self._kept, found) if found is not None else (None, self._kept)
        except self._jpype.JException as error:
            self._fails(error, "receive()")
        finally:
            self._fetching = False
        if found is not None:
            self._calls.told.put(self._received(found))

    def acknowledge(self, covered: Sequence[Received], *, confirmed: bool) -> None:
        """Once on the last where that covers all, on each where it does not, and not at all in other modes."""
        if not covered or self._liar == "forgets-acknowledgements":
            return
        try:
            if self._liar == "sets-the-multiple-flag":
                self._with_flag(covered[-1].handle)
            elif self._mode in _BY_MESSAGE:
                for received in covered[-1:] if self._mode == "client" else covered:
                    (self._session or received.handle).acknowledge()
        except self._jpype.JException as error:
            self._fails(error, "acknowledge()")
            return
        for received in covered if confirmed else ():
            self._calls.told.put(OperationAnswer(Op.ACK, received.message, Phase.OK))

    def _with_flag(self, message: Any) -> None:
        """Every tenth, and with it all before it: a call of the client for AMQP 0-9-1 that no application makes."""
        if self._number % _TOGETHER == 0:
            self._session.acknowledgeMessage(message.getDeliveryTag(), True)

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._stopped = True


class Listening(_Deliveries):
    """A listener that returns when its message was processed, and so acknowledges it (AUTO and DUPS_OK).

    In PRE mode its message was acknowledged before; it returns when the application wants the next one.
    """

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._returns: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._next = threading.Event()
        self._next.set()
        self._by_itself = self._mode == "pre" and self._liar != "acknowledges-after-processing"
        self._inside = False

    def wants(self) -> bool:
        """Deliveries come by themselves, when the listener has returned."""
        wants, self._inside = self._by_itself and self._inside, False
        return wants

    def fetch(self) -> None:
        """Return from the last one, where its acknowledgement was no reason to."""
        self._returns.put(True)

    def onMessage(self, message: Any) -> None:  # noqa: N802 - JMS calls it so
        """Hand it over, and return when it was acknowledged; what nobody processed any more is thrown back."""
        handed = self._inside = not self._stopped
        self._next.set()
        if handed:
            self._calls.told.put(self._received(message))
        if self._liar == "returns-before-processing":
            return
        if not handed or not self._returns.get():
            raise ClientError("the application ends: this message was not processed")

    def acknowledge(self, covered: Sequence[Received], *, confirmed: bool) -> None:
        """Let the listener return. That is all an application is told, so nobody asks whether it was confirmed."""
        for _ in () if self._by_itself else covered:
            self._next.clear()
            self._returns.put(True)

    def stop(self) -> None:
        """The listener throws from now on, after what it has returned from was acknowledged.

        That is so when it was called again: a client acknowledges between two calls. Counter-example for not waiting:
        Qpid's client for AMQP 0-9-1 was closed while its listener returned, and the message came again (1 of 150).
        """
        self._next.wait(_ACKNOWLEDGED_S)
        self._stopped = True
        self._returns.put(False)
