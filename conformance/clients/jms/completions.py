"""What an application of JMS 2.0 hears of its asynchronous sends (JMS 2.0, 7.3): each one once, by its own message."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from conformance.clients.jms.calls import Calls
from conformance.clients.session import SendOutcome
from conformance.history import Phase

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
        """`send()` has thrown: nobody will be told of it."""
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
