"""Ask what a vendor's client offers: sessions in each mode, constants, interfaces.

Each question is a few calls of the client's public interface on a healthy connection. The answer is True if it is what
the claim says, and False if it is not. No answer, or an exception about a lost connection, is an error: it is no
violation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from conformance.clients.job import Job, Vendor, address
from conformance.clients.session import QuestionResult
from conformance.errors import ClientError
from conformance.protocols.jms.sessions import jvm

_TRANSACTED = "transacted"
_UNASKED = ("auto", "dups_ok", _TRANSACTED)
"""Modes of the standard in which an application need not acknowledge."""

STANDARD = ("client", *_UNASKED)

_WAIT_MS = 10_000
"""Time limit for a message that is in the queue."""


class Application:
    """A connection of the client under test, and its factory. `is_loss` recognises exceptions about the connection."""

    def __init__(
        self, factory: Any, connection: Any, vendor: Vendor, job: Job, jpype: Any, is_loss: Callable[[Any], bool]
    ) -> None:
        self.factory, self.connection, self.vendor, self.job = factory, connection, vendor, job
        self.jpype, self._is_loss = jpype, is_loss

    def refused(self, call: str, error: Exception) -> QuestionResult:
        """Return the result of an exception; raise `ClientError` if it is about the connection."""
        if not isinstance(error, self.jpype.JException):
            return QuestionResult(call, False, str(error))
        if self._is_loss(error):
            raise ClientError(f"{call}: the connection was lost: {jvm.text(error)}")
        return QuestionResult(call, False, jvm.text(error))

    @contextlib.contextmanager
    def session(self, mode: str, number: int | None = None) -> Iterator[Any]:
        number = self.vendor.modes[mode] if number is None else number
        made = self.connection.createSession(mode == _TRANSACTED, number)
        try:
            yield made
        finally:
            made.close()

    def offered(self, *modes: str) -> list[str]:
        return [mode for mode in modes if mode in self.vendor.modes]

    def message(self, session: Any) -> Any:
        """Return the next message of the queue, and its consumer; raise `ClientError` if none comes."""
        queue = address(self.job.dialect.destination, self.job.work.queue)
        consumer = session.createConsumer(session.createQueue(queue))
        message = consumer.receive(_WAIT_MS)
        if message is None:
            raise ClientError(f"no message came from {self.job.work.queue} within {_WAIT_MS // 1000} s")
        return message, consumer

    def constant(self, name: str) -> Any:
        """Return a class, or a static field of one, by its full name."""
        place, _, field = name.rpartition(".")
        return getattr(self.jpype.JClass(place), field) if field.isupper() else self.jpype.JClass(name)

    def reported(self, session: Any) -> int:
        """Return the mode that a session says it has."""
        return int(session.getAcknowledgeMode())

    def make_context(self, mode: str) -> None:
        """Make a context in this mode of the client, and close it."""
        self.factory.createContext(self.vendor.modes[mode]).close()

    def undo(self, session: Any) -> None:
        """Roll back what a session in a transaction has received."""
        session.rollback()


def _modes(app: Application) -> Iterator[QuestionResult]:
    """Create a session in each of the three modes of the standard without transactions (JMS 2.0, 6.2.10)."""
    for mode in ("client", "auto", "dups_ok"):
        try:
            with app.session(mode):
                pass
        except app.jpype.JException as error:
            yield app.refused(f"createSession({mode})", error)
        else:
            yield QuestionResult(f"createSession({mode})", True, "a session")


def _contexts(app: Application) -> Iterator[QuestionResult]:
    """Create a context in each mode that the client has for sessions (JMS 2.0, 2.8): it refuses the vendor's own."""
    for mode in app.vendor.modes:
        standard = mode in STANDARD
        try:
            app.make_context(mode)
        except app.jpype.JException as error:
            refused = app.refused(f"createContext({mode})", error)
            yield refused._replace(holds=not standard)
        else:
            yield QuestionResult(f"createContext({mode})", standard, "a context")


def _stays(app: Application) -> Iterator[QuestionResult]:
    """Ask for the mode of a new session, and again after a message was received and given back."""
    for mode in app.offered("client", *_UNASKED):
        number = app.vendor.modes[mode]
        with app.session(mode) as session:
            found = {app.reported(session)}
            app.message(session)
            (session.rollback if mode == _TRANSACTED else session.recover)()
            found.add(app.reported(session))
        yield QuestionResult(f"getAcknowledgeMode() of a session in {mode}", {number} == found, f"{sorted(found)}")


def _without_effect(app: Application) -> Iterator[QuestionResult]:
    """Call acknowledge() in each mode that needs none, and in a transaction that is then rolled back."""
    for mode in app.offered(*_UNASKED):
        with app.session(mode) as session:
            message, consumer = app.message(session)
            try:
                message.acknowledge()
            except app.jpype.JException as error:
                yield app.refused(f"acknowledge() in {mode}", error)
                continue
            if mode != _TRANSACTED:
                yield QuestionResult(f"acknowledge() in {mode}", True, "returned")
                continue
            app.undo(session)
            came = _comes_again(consumer, str(message.getJMSMessageID()))
            session.rollback()
            yield QuestionResult(
                f"acknowledge() in {mode}, rolled back", came, "came again" if came else "did not come again"
            )


def _comes_again(consumer: Any, message: str) -> bool:
    """Whether the message is received again; others that the client holds already may come first."""
    while (received := consumer.receive(_WAIT_MS)) is not None:
        if str(received.getJMSMessageID()) == message:
            return True
    return False


def _constant(mode: str, name: str) -> Callable[[Application], Iterator[QuestionResult]]:
    def ask(app: Application) -> Iterator[QuestionResult]:
        try:
            number = int(app.constant(name))
            with app.session(mode, number) as session:
                found = int(session.getAcknowledgeMode())
        except (app.jpype.JException, AttributeError, TypeError) as error:
            yield app.refused(f"createSession({name})", error)
        else:
            yield QuestionResult(f"createSession({name})", found == number, f"a session of mode {found}")

    return ask


_CORE = "org.apache.activemq.artemis.api.core.client"


def _handler(app: Application) -> Iterator[QuestionResult]:
    """Set a handler on a session of the core client (seed 004: ClientSession, SendAcknowledgementHandler)."""
    with app.session("auto") as session:
        try:
            app.constant(f"{_CORE}.SendAcknowledgementHandler")
            handler = app.jpype.JProxy(
                f"{_CORE}.SendAcknowledgementHandler", dict={"sendAcknowledged": lambda *_: None}
            )
            session.getCoreSession().setSendAcknowledgementHandler(handler)
        except (app.jpype.JException, AttributeError, TypeError) as error:
            yield app.refused("setSendAcknowledgementHandler()", error)
        else:
            yield QuestionResult("setSendAcknowledgementHandler()", True, "set")


QUESTIONS: Mapping[str, Callable[[Application], Iterator[QuestionResult]]] = {
    "has it a session in each mode of the standard": _modes,
    "does the simplified API take the modes of the standard alone": _contexts,
    "does a session keep its mode": _stays,
    "does acknowledge() do nothing in a mode without it": _without_effect,
    "is there PRE_ACKNOWLEDGE": _constant("pre", "org.apache.qpid.jms.Session.PRE_ACKNOWLEDGE"),
    "is there NO_ACKNOWLEDGE": _constant("no_ack", "org.apache.qpid.jms.Session.NO_ACKNOWLEDGE"),
    "is there SendAcknowledgementHandler": _handler,
}
"""The questions of the script step `Ask`."""
