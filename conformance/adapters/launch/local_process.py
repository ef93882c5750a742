"""What is the same of every broker whose processes can be seen: it is signalled, and its queues are its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable


class LocalProcessMixin:
    """The part of `interface.Broker` that an external broker does in another way."""

    by_command = False
    ask_depth: Callable[[str], int] | None = None
    drain_queue: Callable[[str], None] | None = None
    no_copy = ""
    patience_s = 0.0

    def pidfds(self, *, main_only: bool = False) -> contextlib.AbstractContextManager[list[int]]:
        """See `interface.Broker`."""
        raise NotImplementedError

    def armed(self, fault: str) -> contextlib.AbstractContextManager[list[int]]:
        """The pidfds that the signals of a fault go to."""
        return self.pidfds(main_only=fault == "stop")

    def within_s(self, fault: str) -> float:
        """Nothing: a signal is answered by the kernel."""
        return 0.0

    def queue_of(self, queue: str) -> str:
        """Its own name."""
        return queue
