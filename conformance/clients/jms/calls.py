"""Make blocking calls one after the other in one thread: a JMS session belongs to one thread.

The thread that records never waits in a call: it must end a pause or fire a kill while `send()` does not return.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from conformance.errors import ClientError


class Calls:
    """A thread that makes calls in order. Calls put their results into `reports`, which another thread reads."""

    def __init__(self, name: str) -> None:
        self.reports: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether no call waits behind the one in progress."""
        return self._todo.empty()

    def later(self, call: Callable[[], None]) -> None:
        """Make this call after those before it."""
        self._todo.put(call)

    def now(self, call: Callable[[], Any], timeout_s: float, what: str) -> Any:
        """Return what the call returns, or raise what it raises; `ClientError` if it does neither in time."""
        done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def called() -> None:
            try:
                done.put((call(), None))
            except BaseException as error:
                done.put((None, error))

        self.later(called)
        try:
            found, error = done.get(timeout=timeout_s)
        except queue.Empty:
            raise ClientError(f"{what} did not return within {timeout_s:g} s") from None
        if error is not None:
            raise error
        return found

    def end(self, timeout_s: float) -> bool:
        """Make the calls that wait and no further one; return whether the thread ended in time."""
        self._todo.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (call := self._todo.get()) is not None:
            try:
                call()
            except Exception as error:
                self.reports.put(error)
