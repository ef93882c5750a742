"""A session through a vendor's own client: Jakarta Messaging 3.1, or JMS 1.1, called in this process.

The result of a call is the word of the client, not of the broker. A `send()` that returns is recorded as confirmed,
because that is what the application sees. Whether the broker had the message is the judge's question.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from conformance.clients.job import Job, address
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import (
    Disconnected,
    OperationAnswer,
    QuestionResult,
    Received,
    SendOutcome,
    Session,
)
from conformance.errors import ClientError
from conformance.history import Op, Phase
from conformance.protocols.jms.sessions import jvm
from conformance.protocols.jms.sessions.jvm import Calls
from conformance.protocols.jms.sessions.questions import QUESTIONS, Application
from conformance.protocols.jms.sessions.receiving import Completions, JmsReceiver, Listening, Returned, Untrue
from conformance.scenario.script import Consume, Drain, Publish

_LOSS_REPORTED_S = 1.0
"""How long after an exception of a call the client may still report that its connection is lost."""

_GOES_ON = "FAILOVER"
"""The code of the exception by which a client says that it has gone on at another node."""

_CLOSING_S = 5.0
_ANSWER_S = 90.0
"""Time limit of a question: it waits for messages, and for some that must not come."""

_PERSISTENT, _NON_PERSISTENT = 2, 1
_PRIORITY = 4
_SETTERS = {
    str: "setStringProperty",
    bool: "setBooleanProperty",
    int: "setLongProperty",
    float: "setDoubleProperty",
    type(None): "setObjectProperty",
}
_LISTENS = ("auto", "dups_ok", "pre")
"""Modes that use a listener, unless the job wants `receive()`. The return of the listener ends the processing."""


class ConnectionLost:
    """The client reported that its connection is gone."""

    def __init__(self, text: str) -> None:
        self.text = text


class JmsSession(Session):
    """See `Session`. One connection with a JMS session for the sender or the receivers.

    What a session liar does otherwise is said by these, and by the methods that it has of its own (`liars`). `mode` is
    that of its session of JMS, if it is not the one of the job; without a `listener` it uses `receive()`.
    """

    completions: ClassVar[type[Completions]] = Completions
    receiver: ClassVar[type[JmsReceiver]] = JmsReceiver
    listener: ClassVar[type[Listening] | None] = Listening
    application: ClassVar[type[Application]] = Application
    mode: ClassVar[str] = ""
    on_session: ClassVar[bool] = False

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        assert job.connection.vendor is not None  # the factory chooses this class for jobs with a vendor's client
        vendor = self._vendor = job.connection.vendor
        self._jpype = jvm.start(vendor.jars, vendor.java, vendor.properties)
        self._calls = Calls(f"{vendor.name} {job.header.process}")
        self._held: list[Callable[[], None]] = []
        self._lost = threading.Event()
        self._made_by: Any = None
        self._session: Any = None
        self._producer: Any = None
        self._receiving: JmsReceiver | Listening | None = None
        self._completions = self.completions(self._calls, self._failed_later)
        self._listener = self._proxy("CompletionListener", self._completions) if vendor.asynchronous else None
        self._connection = self._calls.now(self._connect, job.connection.connect_s, "the connection")

    # what roles call

    @override
    def attach_sender(self, queue: str) -> None:
        self._now(lambda: self._open_sender(queue), "a producer")

    @override
    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        self._now(lambda: self._open_receiver(queue), "a consumer")

    @override
    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        self._held.append(lambda: self._send(message, body, durable=durable))

    @override
    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        receiving = self._receiving
        if transaction is None and receiving is not None:  # in a transaction, the commit acknowledges
            self._held.append(lambda: receiving.acknowledge(covered, confirmed=confirmed))

    @override
    def refuse(self, received: Received, outcome: str) -> None:
        receiving = self._receiving
        if outcome != "thrown" or not isinstance(receiving, Listening):
            raise ClientError(f"a JMS client cannot give a delivery back as {outcome}")
        self._held.append(receiving.throw)

    @override
    def begin(self, transaction: str) -> None:
        self.answers.append(OperationAnswer(Op.BEGIN, transaction, Phase.OK))  # a transacted session always has one

    @override
    def commit(self, transaction: str) -> None:
        self._held.append(lambda: self._discharge(Op.COMMIT, transaction))

    @override
    def rollback(self, transaction: str) -> None:
        self._held.append(lambda: self._discharge(Op.ROLLBACK, transaction))

    @override
    def fetch(self) -> None:
        receiving = self._receiving
        if receiving is not None and not self.incoming and receiving.wants():
            self._held.append(receiving.fetch)

    @override
    def pump(self, timeout_s: float | None) -> None:
        self._before_write()
        for call in self._held:
            self._calls.later(call)
        self._held.clear()
        try:
            found = self._calls.reports.get(timeout=timeout_s) if timeout_s != 0 else self._calls.reports.get_nowait()
            while True:
                self._take(found)
                found = self._calls.reports.get_nowait()
        except queue.Empty:
            return

    @override
    def asked(self, question: str) -> list[QuestionResult]:
        """Return the answers to one of `QUESTIONS`.

        Raises:
            Disconnected: The connection was lost.
            ClientError: There is no answer.
        """
        about = (self._made_by, self._connection, self._vendor, self._job, self._jpype, self._is_loss)
        application = self.application(*about)
        found: list[QuestionResult] = []
        self._now(lambda: found.extend(QUESTIONS[question](application)), "an answer", _ANSWER_S)
        return found

    @override
    def close(self) -> None:
        """Make the calls that wait, then close the connection. If a call does not return, this process is spent.

        The history is complete all the same: the client may wait forever for an answer.

        Counter-example for closing at once: the close overtakes the last acknowledge(), and a message that the history
        has as acknowledged is delivered again.
        """
        if self._connection is None:
            return
        self._calls.end(_CLOSING_S)
        if self._receiving is not None:
            self._receiving.stop()
        done = threading.Event()

        def closed() -> None:
            try:
                self._connection.close()
            except self._jpype.JException:
                pass  # it was lost
            finally:
                done.set()

        threading.Thread(target=closed, daemon=True).start()
        if not done.wait(_CLOSING_S) or not self._calls.end(_CLOSING_S):
            jvm.SPENT.set()
        self._let_go()

    def _let_go(self) -> None:
        """Drop every Java object: Java holds our listeners, they hold Java objects, and no collector sees that circle.

        Counter-example: a connection of Qpid JMS 2.10.0 has 2 MB, and after 120 jobs its process has no memory left.
        """
        self._connection = self._made_by = self._session = self._producer = self._listener = None
        if self._receiving is not None:
            self._receiving.let_go()
        self.incoming.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.reports.get_nowait()

    # called in threads of the client

    def onException(self, error: Any) -> None:  # noqa: N802 - JMS calls it so
        if not (self._vendor.goes_on and str(error.getErrorCode()) == _GOES_ON):
            self._loses(jvm.text(error))

    def _failed_later(self, message: str, error: Any) -> None:
        """Handle a failed asynchronous send in a new thread: this one may be the thread that reports the loss."""
        threading.Thread(target=self._unsent, args=(message, error), daemon=True).start()

    def _loses(self, text: str) -> None:
        if not self._lost.is_set():
            self._lost.set()
            self._calls.reports.put(ConnectionLost(text))

    def _is_loss(self, error: Any) -> bool:
        """Whether an exception is about the end of the connection: by its class, or by the client's own report."""
        if self._in_doubt(error) or self._lost.wait(_LOSS_REPORTED_S):
            if self._vendor.goes_on and not self._lost.is_set():
                return False
            self._loses(jvm.text(error))
            return True
        return False

    def _in_doubt(self, error: Any) -> bool:
        """Whether an exception leaves open what became of the call: its class is about the connection."""
        return any(name in self._vendor.lost for name in jvm.chain(error))

    def _unsent(self, message: str, error: Any) -> None:
        if not self._is_loss(error):
            # Qpid JMS 2.10.0 throws the same exception for a send whose answer was lost and for one that never left.
            phase = Phase.INFO if self._vendor.goes_on or self._in_doubt(error) else Phase.FAIL
            self._calls.reports.put(SendOutcome(message, phase, jvm.text(error)))

    # called in the thread of `Calls`

    def _connect(self) -> Any:
        vendor, job = self._vendor, self._job
        try:
            self._made_by = self._factory(vendor.address(job.connection.addresses))
            connection = self._made_by.createConnection()
            if job.work.client_id:
                connection.setClientID(job.work.client_id)  # JMS 2.0, 6.1.2: before anything else is done with it
            connection.setExceptionListener(self._proxy("ExceptionListener", self))
            connection.start()
        except self._jpype.JException as error:
            raise ClientError(
                f"no connection to {job.connection.host}:{job.connection.port} by {vendor.name}: {jvm.text(error)}"
            ) from error
        return connection

    def _factory(self, url: str) -> Any:
        factory, setter = self._jpype.JClass(self._vendor.factory), self._vendor.setter
        if not setter:
            return factory(url)
        made = factory()
        for parameter in url.split("&"):
            getattr(made, setter)(*parameter.split("=", 1))
        return made

    def _open_sender(self, queue: str) -> None:
        step = self._job.work.step
        mode = "transacted" if isinstance(step, Publish) and step.batch else "auto"
        if self._session is None:  # a consumer that forwards sends in the session in which it receives
            self._session = self._connection.createSession(mode == "transacted", self._vendor.modes[mode])
        self._producer = self._session.createProducer(self._destination(self._session, queue))
        self._producer.setTimeToLive(self._job.work.lives_ms)

    def _open_receiver(self, queue: str) -> None:
        if isinstance(self._receiving, JmsReceiver):
            self._receiving.add(self._consumer(self._session, queue))
            return
        if self._receiving is not None:
            raise ClientError("a session of JMS with a listener has one consumer here")
        job = self._job
        drains = isinstance(job.work.step, Drain) and not job.work.collects
        step = job.work.step if isinstance(job.work.step, Consume) else Consume("auto", receives=drains)
        mode = step.mode
        number = self._vendor.modes.get(self.mode or mode)
        if number is None:
            raise ClientError(f"{self._vendor.name} has no mode {mode}")
        session = self._session = self._connection.createSession(mode == "transacted", number)
        consumer = self._consumer(session, queue)
        listens = mode in _LISTENS and not step.receives
        kind = (self.listener if listens else None) or self.receiver
        by = session if step.on_session or self.on_session else None
        own = self._vendor.individual
        self._receiving = kind(consumer, mode, self._calls, self._jpype, self._fails, by, own)
        self._receiving.work = job.work
        if isinstance(self._receiving, Listening):
            consumer.setMessageListener(self._proxy("MessageListener", self._receiving))

    def _consumer(self, session: Any, queue: str) -> Any:
        at = self._destination(session, queue)
        if self._job.work.subscriber:
            return session.createDurableSubscriber(at, queue)  # of JMS 1.1 too, unlike createDurableConsumer
        selector = (self._job.work.selector,) if self._job.work.selector else ()
        return session.createConsumer(at, *selector)

    def _destination(self, session: Any, queue: str) -> Any:
        at = address(self._job.dialect.destination, queue)
        return session.createTopic(at) if self._job.work.subscriber else session.createQueue(at)

    def _send(self, message: str, body: bytes, *, durable: bool) -> None:
        try:
            made = self._session.createBytesMessage()
            made.writeBytes(self._jpype.JArray(self._jpype.JByte)(body))
            made.setJMSCorrelationID(message)
            for name, value in self._job.work.properties(message).items():
                getattr(made, _SETTERS[type(value)])(name, value)
            self._put(message, made, self._mode_of(message, durable=durable))
        except self._jpype.JException as error:
            if self._listener is not None:  # the call has returned, and no completion will follow
                self._completions.forget(message)
                self._calls.reports.put(Returned(message))
            self._unsent(message, error)
        else:
            sent = SendOutcome(message, Phase.OK, None)
            self._calls.reports.put(sent if self._listener is None else Returned(message))

    def _put(self, message: str, made: Any, how: Sequence[int]) -> None:
        """Call `send()` with a message that was made, and these arguments."""
        if self._listener is not None:
            self._completions.expects(message)
            self._producer.send(made, *how, self._listener)
        else:
            self._producer.send(made, *how)

    def _mode_of(self, message: str, *, durable: bool) -> tuple[int, ...]:
        """Return the arguments of `send()`: odd messages use the mode of the producer, even ones an argument.

        For an even message the producer has the opposite mode (JMS 2.0, 7.7).
        """
        given, other = (_PERSISTENT, _NON_PERSISTENT) if durable else (_NON_PERSISTENT, _PERSISTENT)
        by_producer = message.endswith(("1", "3", "5", "7", "9"))
        self._producer.setDeliveryMode(given if by_producer else other)
        return () if by_producer else (given, _PRIORITY, self._job.work.lives_ms)

    def _discharge(self, op: Op, transaction: str) -> None:
        try:
            (self._session.commit if op is Op.COMMIT else self._session.rollback)()
        except self._jpype.JException as error:
            if self._is_loss(error):
                return
            rolled_back = f"{self._vendor.api}.TransactionRolledBackException" in jvm.chain(error)
            phase = Phase.FAIL if rolled_back else Phase.INFO
            self._calls.reports.put(OperationAnswer(op, transaction, phase, jvm.text(error)))
        else:
            self._discharged(op, transaction)

    def _discharged(self, op: Op, transaction: str) -> None:
        self._calls.reports.put(OperationAnswer(op, transaction, Phase.OK))

    def _fails(self, error: Any, what: str) -> None:
        """Report the failure of a call other than a send."""
        if not self._is_loss(error):
            self._calls.reports.put(ClientError(f"{self._vendor.name}: {what}: {jvm.text(error)}"))

    # helpers

    def _now(self, call: Callable[[], None], what: str, within_s: float = 0.0) -> None:
        try:
            self._calls.now(call, within_s or self._job.connection.connect_s, what)
        except self._jpype.JException as error:
            if self._is_loss(error):
                raise Disconnected(jvm.text(error)) from error
            raise ClientError(f"{self._vendor.name} gave no {what.removeprefix('a ')}: {jvm.text(error)}") from error

    def _proxy(self, interface: str, target: object) -> Any:
        return self._jpype.JProxy(f"{self._vendor.api}.{interface}", inst=target)

    def _take(self, found: object) -> None:
        match found:
            case SendOutcome():
                self.outcomes.append(found)
            case OperationAnswer():
                self.answers.append(found)
            case Received():
                self.incoming.append(found)
            case Returned():
                self.returned.append(found.message)
            case Untrue():
                self.anomalies.append(found.text)
            case ConnectionLost():
                raise Disconnected(found.text)
            case BaseException():
                raise found
            case _:
                raise ClientError(f"an unexpected report of the JMS client: {found!r}")
