"""Session liars of JMS: sessions and clients that are wrong in one way (`roles.modes.SESSION_LIARS` says which).

None has a session in DUPS_OK: it may acknowledge so late that no early return shows (Artemis: 1 MiB later).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from conformance.clients.session import Received
from conformance.history import Op
from conformance.protocols.jms.sessions.questions import STANDARD, Application
from conformance.protocols.jms.sessions.receiving import Completions, JmsReceiver, Listening
from conformance.protocols.jms.sessions.session import JmsSession
from conformance.scenario.script import Publish

_AT = 50
"""The completion with this number is treated wrongly."""

_TOGETHER = 10


# the answers to its sends


class _Counted(Completions):
    """Knows the number of each completion, from 1."""

    number = 0

    @override
    def onCompletion(self, message: Any) -> None:
        self.number += 1
        self._hear(message)

    def _hear(self, message: Any) -> None:
        super().onCompletion(message)


class _LeavesOut(_Counted):
    @override
    def _hear(self, message: Any) -> None:
        if self.number != _AT:
            super()._hear(message)


class _TellsTwice(_Counted):
    @override
    def _hear(self, message: Any) -> None:
        super()._hear(message)
        if self.number == _AT:
            self._was_open(self._name(message))


class _ConfirmsRefused(Completions):
    @override
    def onException(self, message: Any, error: Any) -> None:
        self.onCompletion(message)


# sending


class _Keeps(JmsSession):
    """Keeps a message of its own."""

    _kept: Any = None

    @override
    def _let_go(self) -> None:
        super()._let_go()
        self._kept = None


class _SendsWithTheNextCall(_Keeps):
    @override
    def _put(self, message: str, made: Any, how: Sequence[int]) -> None:
        self._kept, before = (made, how), self._kept
        if before is not None:
            super()._put(message, *before)


class _SendsItsFirstMessageAgain(_Keeps):
    @override
    def _put(self, message: str, made: Any, how: Sequence[int]) -> None:
        super()._put(message, made, how)
        self._kept, step = self._kept or made, self._job.work.step
        if isinstance(step, Publish) and message.endswith(f":{step.count}"):
            self._producer.send(self._kept, *how)


class _WaitsForEachSend(JmsSession):
    @override
    def _put(self, message: str, made: Any, how: Sequence[int]) -> None:
        super()._put(message, made, how)
        browser = self._session.createBrowser(self._destination(self._session, self._job.work.queue))
        browser.getEnumeration().hasMoreElements()


class _NeverSetsTheFlag(JmsSession):
    @override
    def _mode_of(self, message: str, *, durable: bool) -> tuple[int, ...]:
        return super()._mode_of(message, durable=False)


class _AlwaysSetsTheFlag(JmsSession):
    @override
    def _mode_of(self, message: str, *, durable: bool) -> tuple[int, ...]:
        return super()._mode_of(message, durable=True)


class _IgnoresTheModeOfOneSend(JmsSession):
    @override
    def _mode_of(self, message: str, *, durable: bool) -> tuple[int, ...]:
        super()._mode_of(message, durable=durable)
        return ()


class _ReturnsBeforeCommit(JmsSession):
    @override
    def _discharge(self, op: Op, transaction: str) -> None:
        super()._discharged(op, transaction)
        super()._discharge(op, transaction)

    @override
    def _discharged(self, op: Op, transaction: str) -> None:
        """It was reported before."""


# receiving


class _OnArrival(JmsReceiver):
    """Hands a message over only when the next one has arrived."""

    _kept: Any = None

    @override
    def _arrived(self, message: Any) -> Any:
        if message is not None:
            message, self._kept = self._kept, message
        return message


class _Forgets(JmsReceiver):
    @override
    def acknowledge(self, covered: Sequence[Received], *, confirmed: bool) -> None:
        """Nothing is called."""


class _WithFlag(JmsReceiver):
    @override
    def _acknowledge(self, covered: Sequence[Received]) -> None:
        """Acknowledge every tenth message and all before it, by an internal call of Qpid's AMQP 0-9-1 client."""
        if self._number % _TOGETHER == 0:
            self._session.acknowledgeMessage(covered[-1].handle.getDeliveryTag(), True)


class _AfterProcessing(Listening):
    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._by_itself = False


class _BeforeProcessing(Listening):
    @override
    def onMessage(self, message: Any) -> None:
        self._reported(message)


# what it offers


class _RefusesAMode(Application):
    @override
    @contextlib.contextmanager
    def session(self, mode: str, number: int | None = None) -> Iterator[Any]:
        if mode == "dups_ok":
            raise self.jpype.JClass(f"{self.vendor.api}.JMSException")("refused")
        with super().session(mode, number) as made:
            yield made


class _AcceptsAnyMode(Application):
    @override
    def make_context(self, mode: str) -> None:
        super().make_context(mode if mode in STANDARD else "auto")


class _ReportsAnotherMode(Application):
    @override
    def reported(self, session: Any) -> int:
        return super().reported(session) + 1


class _Lacks(Application):
    @override
    def constant(self, name: str) -> Any:
        return super().constant(f"{name}_")


class _Commits(Application):
    @override
    def undo(self, session: Any) -> None:
        session.commit()


def _lying(**ways: object) -> type[JmsSession]:
    """A session that is honest but for these attributes of its class."""
    return type("LyingSession", (JmsSession,), ways)


LIARS: Mapping[str, type[JmsSession]] = {
    "accepts-any-mode": _lying(application=_AcceptsAnyMode),
    "acknowledges-after-processing": _lying(mode="auto", listener=_AfterProcessing),
    "acknowledges-in-every-mode": _lying(mode="auto"),
    "acknowledges-on-arrival": _lying(receiver=_OnArrival, listener=None),
    "acknowledges-unasked": _lying(mode="auto"),
    "always-sets-the-flag": _AlwaysSetsTheFlag,
    "commits-where-it-acknowledges": _lying(application=_Commits),
    "confirms-refused-sends": _lying(completions=_ConfirmsRefused),
    "forgets-acknowledgements": _lying(mode="client", receiver=_Forgets),
    "ignores-the-mode-of-one-send": _IgnoresTheModeOfOneSend,
    "lacks-what-is-asked-for": _lying(application=_Lacks),
    "leaves-out-a-listener": _lying(completions=_LeavesOut),
    "never-sets-the-flag": _NeverSetsTheFlag,
    "refuses-a-mode": _lying(application=_RefusesAMode),
    "reports-another-mode": _lying(application=_ReportsAnotherMode),
    "returns-before-commit": _ReturnsBeforeCommit,
    "returns-before-processing": _lying(mode="auto", listener=_BeforeProcessing),
    "sends-its-first-message-again": _SendsItsFirstMessageAgain,
    "sends-with-the-next-call": _SendsWithTheNextCall,
    "sets-the-multiple-flag": _lying(mode="client", receiver=_WithFlag, listener=None, on_session=True),
    "tells-a-listener-twice": _lying(completions=_TellsTwice),
    "waits-for-each-send": _WaitsForEachSend,
}
"""The session of a liar; one that is not here is honest over JMS, and its role lies."""
