"""A session through a vendor's own client: Jakarta Messaging 3.1, or JMS 1.1, called in this process.

What a call of such a client returns is the client's word and not the broker's. `send()` that returns is recorded as
confirmed: that is what the application is told, and whether the broker knew of it is what the judge is asked.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from conformance.clients.jms import jvm
from conformance.clients.jms.calls import Calls
from conformance.clients.jms.questions import QUESTIONS, Application, QuestionResult
from conformance.clients.jms.receiving import Completions, JmsReceiver, Listening, Returned, Untrue
from conformance.clients.roles.modes import AckHeader
from conformance.clients.session import Disconnected, OperationAnswer, Received, SendOutcome
from conformance.clients.workers.job import Job, Vendor, address
from conformance.errors import ClientError
from conformance.history import Op, Phase

_PLENTY = 1 << 30
_LOSS_TOLD_S = 1.0
"""How long after an exception of a call the client may still say that its connection is lost."""

_CLOSING_S = 5.0
_ANSWER_S = 90.0
"""How long a question may take: it waits for messages, and for some that must not come."""

_PERSISTENT, _NON_PERSISTENT = 2, 1
_PRIORITY, _FOR_EVER = 4, 0
_LISTENS = ("auto", "dups_ok", "pre")
"""Modes that have a listener, unless a job wants `receive()`: its return is the end of the processing."""

_LIED = {
    "forgets-acknowledgements": "client",
    "acknowledges-unasked": "auto",
    "acknowledges-in-every-mode": "auto",
    "acknowledges-after-processing": "auto",
    "sets-the-multiple-flag": "client",
    "returns-before-processing": "auto",
}
"""In which mode a session that lies about its own is. One of DUPS_OK may acknowledge so late that no early return shows
(Artemis: 1 MiB later)."""

_RECEIVES = ("acknowledges-on-arrival", "sets-the-multiple-flag")
"""Lies that are told by `receive()`."""


class ConnectionLost:
    """The client has said that its connection is gone."""

    def __init__(self, text: str) -> None:
        self.text = text


class JmsSession:
    """See `Session`. A session of JMS for the sender, and another for the receiver, on one connection."""

    answers_refusals = False
    releases_after_rollback = False

    def __init__(self, job: Job, vendor: Vendor, before_write: Callable[[], None]) -> None:
        self.outcomes: deque[SendOutcome] = deque()
        self.incoming: deque[Received] = deque()
        self.answers: deque[OperationAnswer] = deque()
        self.returned: deque[str] = deque()
        self.anomalies: deque[str] = deque()
        self._job, self._vendor, self._before_write = job, vendor, before_write
        self._jpype = jvm.start(vendor.jars, vendor.java, vendor.properties)
        self._calls = Calls(f"{vendor.name} {job.header.process}")
        self._held: list[Callable[[], None]] = []
        self._lost = threading.Event()
        self._session: Any = None
        self._producer: Any = None
        self._first: Any = None
        self._receiving: JmsReceiver | Listening | None = None
        self._completions = Completions(self._calls, self._failed_later, job.liar)
        self._listener = self._proxy("CompletionListener", self._completions) if vendor.asynchronous else None
        self._connection = self._calls.now(self._connect, job.connect_s, "the connection")

    # what roles call

    def attach_sender(self, queue: str) -> None:
        """A session and a producer, in a transaction where the job sends in some."""
        self._now(lambda: self._open_sender(queue), "a producer")

    def attach_receiver(self, queue: str, credit: int, subscription: AckHeader) -> None:
        """A session in the job's mode and a consumer, with a listener where its mode acknowledges by itself."""
        self._now(lambda: self._open_receiver(queue), "a consumer")

    def sendable(self) -> int:
        """Whatever limits it is the client's own: a send that may not leave does not return."""
        return _PLENTY

    def send(
        self, message: str, body: bytes, *, durable: bool, transaction: str | None = None, immediate: bool = False
    ) -> None:
        """`send()` at the next `pump`; it blocks nobody here."""
        self._held.append(lambda: self._send(message, body, durable=durable))

    def acknowledge(
        self, covered: Sequence[Received], *, confirmed: bool = False, transaction: str | None = None
    ) -> None:
        """`acknowledge()` on the last of these, which in CLIENT mode covers all; on each of them in INDIVIDUAL.

        A listener returns. In a transaction the commit does it.
        """
        receiving = self._receiving
        if transaction is None and receiving is not None:
            self._held.append(lambda: receiving.acknowledge(covered, confirmed=confirmed))

    def refuse(self, received: Received, outcome: str) -> None:
        """JMS has no word for it."""
        raise ClientError(f"a client of JMS cannot give a delivery back as {outcome}")

    def begin(self, transaction: str) -> None:
        """A transacted session is always in a transaction."""
        self.answers.append(OperationAnswer(Op.BEGIN, transaction, Phase.OK))

    def commit(self, transaction: str) -> None:
        """`commit()` at the next `pump`."""
        self._held.append(lambda: self._discharge(Op.COMMIT, transaction))

    def rollback(self, transaction: str) -> None:
        """`rollback()` at the next `pump`."""
        self._held.append(lambda: self._discharge(Op.ROLLBACK, transaction))

    def replenish(self, credit: int) -> None:
        """The client does that."""

    def fetch(self) -> None:
        """`receive()`, where nobody listens and no delivery is here."""
        receiving = self._receiving
        if receiving is not None and not self.incoming and receiving.wants():
            self._held.append(receiving.fetch)

    def pump(self, timeout_s: float | None) -> None:
        """Let the calls go that were asked for, and take what others have found."""
        self._before_write()
        for call in self._held:
            self._calls.later(call)
        self._held.clear()
        try:
            found = self._calls.told.get(timeout=timeout_s) if timeout_s != 0 else self._calls.told.get_nowait()
            while True:
                self._take(found)
                found = self._calls.told.get_nowait()
        except queue.Empty:
            return

    def asked(self, question: str) -> list[QuestionResult]:
        """The answers to one of `QUESTIONS`. `Disconnected` where the connection was lost, `ClientError` otherwise."""
        application = Application(self._connection, self._vendor, self._job, self._jpype, self._is_loss)
        found: list[QuestionResult] = []
        self._now(lambda: found.extend(QUESTIONS[question](application)), "an answer", _ANSWER_S)
        return found

    def watch(self, descriptor: int) -> None:
        """Its process looks at that itself: see `warm_jvms`."""

    def close(self) -> None:
        """Close the connection; what it still holds goes back. Where that does not return, this process is spent.

        The history is whole all the same: a client may wait in it for an answer that never comes.

        What was asked for is done before, unless it does not return. Counter-example for closing at once: the last
        acknowledge() is overtaken, and a message that the history has as acknowledged comes again.
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
        """Of every Java object: it knows its listeners, these are this, and no collector sees the whole circle.

        Counter-example: a connection of Qpid JMS 2.10.0 has 2 MB, and after 120 jobs its process has no more.
        """
        self._connection = self._session = self._producer = self._listener = self._first = None
        if self._receiving is not None:
            self._receiving.let_go()
        self.incoming.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.told.get_nowait()

    # what the client's threads do

    def onException(self, error: Any) -> None:  # noqa: N802 - JMS calls it so
        """The connection is lost."""
        self._loses(jvm.text(error))

    def _failed_later(self, message: str, error: Any) -> None:
        """An asynchronous send has failed; whether that is a loss may be told in the thread that says so."""
        threading.Thread(target=self._unsent, args=(message, error), daemon=True).start()

    def _loses(self, text: str) -> None:
        if not self._lost.is_set():
            self._lost.set()
            self._calls.told.put(ConnectionLost(text))

    def _is_loss(self, error: Any) -> bool:
        """Whether an exception is about the connection: by its class, or since the client says so at the same time."""
        if any(name in self._vendor.lost for name in jvm.chain(error)) or self._lost.wait(_LOSS_TOLD_S):
            self._loses(jvm.text(error))
            return True
        return False

    def _unsent(self, message: str, error: Any) -> None:
        if not self._is_loss(error):
            self._calls.told.put(SendOutcome(message, Phase.FAIL, jvm.text(error)))

    # in the thread of calls

    def _connect(self) -> Any:
        vendor, job = self._vendor, self._job
        url = vendor.url.replace("{host}", job.host).replace("{port}", str(job.port))
        try:
            connection = self._jpype.JClass(vendor.factory)(url).createConnection()
            connection.setExceptionListener(self._proxy("ExceptionListener", self))
            connection.start()
        except self._jpype.JException as error:
            raise ClientError(f"no connection to {job.host}:{job.port} by {vendor.name}: {jvm.text(error)}") from error
        return connection

    def _open_sender(self, queue: str) -> None:
        mode = "transacted" if self._job.batch > 0 else "auto"
        self._session = self._connection.createSession(mode == "transacted", self._vendor.modes[mode])
        self._producer = self._session.createProducer(self._queue(self._session, queue))

    def _open_receiver(self, queue: str) -> None:
        job, mode = self._job, self._job.mode or "auto"
        number = self._vendor.modes.get(_LIED.get(job.liar, mode))
        if number is None:
            raise ClientError(f"{self._vendor.name} has no mode {mode}")
        session = self._session = self._connection.createSession(mode == "transacted", number)
        consumer = session.createConsumer(self._queue(session, queue))
        listens = mode in _LISTENS and job.role != "drain" and not job.receives and job.liar not in _RECEIVES
        kind = Listening if listens else JmsReceiver
        by = session if job.on_session or job.liar == "sets-the-multiple-flag" else None
        self._receiving = kind(consumer, mode, self._calls, self._jpype, self._fails, job.liar, by)
        if isinstance(self._receiving, Listening):
            consumer.setMessageListener(self._proxy("MessageListener", self._receiving))

    def _queue(self, session: Any, queue: str) -> Any:
        return session.createQueue(address(self._job.destination, queue))

    def _send(self, message: str, body: bytes, *, durable: bool) -> None:
        try:
            made = self._session.createBytesMessage()
            made.writeBytes(self._jpype.JArray(self._jpype.JByte)(body))
            made.setJMSCorrelationID(message)
            how = self._mode_of(message, durable=durable)
            if self._listener is not None:
                self._completions.expects(message)
                self._producer.send(made, *how, self._listener)
            else:
                self._producer.send(made, *how)
            if self._job.liar == "sends-its-first-message-again":
                self._first = self._first or made
                if message.endswith(f":{self._job.count}"):
                    self._producer.send(self._first, *how)
            if self._job.liar == "waits-for-each-send":
                self._session.createBrowser(
                    self._queue(self._session, self._job.queue)
                ).getEnumeration().hasMoreElements()
        except self._jpype.JException as error:
            if self._listener is not None:  # back it is, and nobody will hear of it
                self._completions.forget(message)
                self._calls.told.put(Returned(message))
            self._unsent(message, error)
        else:
            sent = SendOutcome(message, Phase.OK, None)
            self._calls.told.put(sent if self._listener is None else Returned(message))

    def _mode_of(self, message: str, *, durable: bool) -> tuple[int, ...]:
        """Words of `send()`: every second message has the mode of its producer, the others are given theirs.

        The producer of those has the opposite one (JMS 2.0, 7.7).
        """
        flag = {"never-sets-the-flag": False, "always-sets-the-flag": True}.get(self._job.liar, durable)
        given, other = (_PERSISTENT, _NON_PERSISTENT) if flag else (_NON_PERSISTENT, _PERSISTENT)
        by_producer = message.endswith(("1", "3", "5", "7", "9"))
        self._producer.setDeliveryMode(given if by_producer else other)
        if by_producer or self._job.liar == "ignores-the-mode-of-one-send":
            return ()
        return given, _PRIORITY, _FOR_EVER

    def _discharge(self, op: Op, transaction: str) -> None:
        early = self._job.liar == "returns-before-commit"
        if early:
            self._calls.told.put(OperationAnswer(op, transaction, Phase.OK))
        try:
            (self._session.commit if op is Op.COMMIT else self._session.rollback)()
        except self._jpype.JException as error:
            if self._is_loss(error):
                return
            rolled_back = f"{self._vendor.api}.TransactionRolledBackException" in jvm.chain(error)
            phase = Phase.FAIL if rolled_back else Phase.INFO
            self._calls.told.put(OperationAnswer(op, transaction, phase, jvm.text(error)))
        else:
            if not early:
                self._calls.told.put(OperationAnswer(op, transaction, Phase.OK))

    def _fails(self, error: Any, what: str) -> None:
        """A call that is no send has failed."""
        if not self._is_loss(error):
            self._calls.told.put(ClientError(f"{self._vendor.name}: {what}: {jvm.text(error)}"))

    # likewise

    def _now(self, call: Callable[[], None], what: str, within_s: float = 0.0) -> None:
        try:
            self._calls.now(call, within_s or self._job.connect_s, what)
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
                raise ClientError(f"nobody knows what to do with {found!r} at {time.monotonic():.3f}")
