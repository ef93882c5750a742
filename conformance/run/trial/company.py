"""Trials that share a broker, and the faults that it meets.

Each is played by a thread of its own, with its own queues, clients and histories. What is done to the broker is done
once, when all of them are ready for it (`meet`). A fault has one owner, and the ownership goes round: at its trigger it
comes for the owner only, and for the others at some moment of their work.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from conformance.errors import Interrupted

Result = TypeVar("Result")


@dataclasses.dataclass
class _Turn:
    """One thing that is done to the broker: how many have come for it, and what became of it."""

    here: int = 0
    done: bool = False
    result: object = None
    error: BaseException | None = None


ENDED = -1
"""What an owner tells, instead of a time, that has not fired its fault and has ended the broker for the others."""


def owner(members: Sequence[str], fault: int, index: int) -> str:
    """Return the member whose trigger the fault of that number has, from 1; `index` is that of its trial."""
    return members[(fault + index) % len(members)]


class Company:
    """Trials that share a broker; `members` are their ids. A trial alone is a company of one."""

    def __init__(self, *members: str) -> None:
        self.members = list(members)
        self._changed = threading.Condition()
        self._turn = _Turn()
        self._ended = False
        self._faults = 0
        self._fired: dict[int, int] = {}
        self.alone = threading.Lock()
        """Held while one of them looks into why the broker ended."""

    def meet(self, act: Callable[[], Result]) -> Result:
        """Wait until every member is here; one of them acts, and all get its result, or its error.

        Raises `Interrupted` if the run ends meanwhile.
        """
        with self._changed:
            turn = self._turn
            turn.here += 1
            while not turn.done:
                if self._ended:
                    raise Interrupted("stopped by the user")
                if turn.here >= len(self.members):
                    self._act(turn, act)
                else:
                    self._changed.wait()
        if turn.error is not None:
            raise turn.error
        return cast(Result, turn.result)

    def _act(self, turn: _Turn, act: Callable[[], object]) -> None:
        try:
            turn.result = act()
        except BaseException as error:
            turn.error = error
        turn.done, self._turn = True, _Turn()
        self._changed.notify_all()

    def next_fault(self, index: int) -> tuple[int, str]:
        """Await the others before a fault; return its number in this company, and the member whose trigger it has.

        `index` is that of the trial: the others of a scenario begin with another owner.
        """

        def counted() -> tuple[int, str]:
            self._faults += 1
            return self._faults, owner(self.members, self._faults, index)

        return self.meet(counted)

    def tell_fired(self, fault: int, fired_ns: int) -> None:
        """Tell the others when the owner fired a fault (CLOCK_MONOTONIC); 0 if it did not, or `ENDED`."""
        with self._changed:
            self._fired[fault] = fired_ns
            self._changed.notify_all()

    def await_fired(self, fault: int) -> int:
        """Return what the owner of a fault tells; raises `Interrupted` if the run ends meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: fault in self._fired or self._ended)
            if fault not in self._fired:
                raise Interrupted("stopped by the user")
            return self._fired[fault]

    def leave(self, member: str) -> None:
        """Go on without this member, which has ended."""
        with self._changed:
            self.members.remove(member)
            self._changed.notify_all()

    def end(self) -> None:
        """End every wait: the run ends."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
