"""When a publisher's stored sends are confirmed, and how many by one confirm: a publish window (shared seed 001).

"By default, the event broker sends an acknowledgment for published messages when a threshold of either a third of the
Publish Window Size is reached or one second has elapsed. These are non-configurable thresholds on the event broker."
A message with Ack Immediately gets "an individual acknowledgment". Nothing here knows a protocol or a clock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Generic, TypeVar

from conformance.reference.honest import Honest

Key = TypeVar("Key")

SHARE = 3
"""A confirm is due when this part of the window is stored: the third of shared seed 001, rounded up."""

WAIT_S = 1.0
"""Seconds after which what is stored is confirmed, however little it is (shared seed 001)."""


class _SendState(enum.Enum):
    """A send that is not confirmed."""

    ARRIVED = "it waits for the disk"
    URGENT = "it waits for the disk, and then for nothing more"
    STORED = "it may be confirmed"
    DUE = "it is to be confirmed, and a range may only end behind it"


class Confirms(Generic[Key]):
    """The sends of one publisher that have no answer yet, in the order of their arrival.

    `confirm` is called with the keys of one confirm, in order; the last names it. With `ranged` the peer takes a
    confirm for one of everything before it, so it never stands behind a send that is not stored. Counter-example: 1
    waits for the disk, 2 is stored already and urgent; a confirm of 2 would be one of 1.
    `later` calls back once after so many seconds.
    """

    def __init__(
        self,
        window: int,
        confirm: Callable[[list[Key]], None],
        later: Callable[[float, Callable[[], None]], object],
        *,
        ranged: bool,
        behaviour: Honest | None = None,
    ) -> None:
        self._behaviour = behaviour or Honest()
        self._share = self._behaviour.confirm_share or -(-window // SHARE)
        self._confirm = confirm
        self._later = later
        self._ranged = ranged
        self._open: dict[Key, _SendState] = {}
        self._stored = 0
        self._due = 0
        self._timed = False
        self._overdue = False

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    @property
    def unanswered(self) -> int:
        """Sends that have no answer: what fills the window."""
        return len(self._open)

    def arrived(self, key: Key, *, immediate: bool = False) -> None:
        """A send has come, and is on its way to the disk. `immediate`: it asks for an answer of its own."""
        urgent = immediate and self._behaviour.confirms_at_once
        self._open[key] = _SendState.URGENT if urgent else _SendState.ARRIVED
        if not self._timed and self._behaviour.confirms_after_a_second:
            self._timed = True
            self._later(WAIT_S, self._second_over)

    def stored(self, key: Key) -> None:
        """The send is stored as its settings ask."""
        if key not in self._open:
            return  # a liar has confirmed it already
        urgent = self._open[key] is _SendState.URGENT
        if urgent and not self._ranged:
            self._leave([key])
            return
        self._open[key] = _SendState.DUE if urgent else _SendState.STORED
        self._stored += 1
        self._due += urgent
        self._leave_what_must()

    def refused(self, key: Key) -> None:
        """The send is answered by a refusal of its own: no confirm will cover it.

        What is stored before it is confirmed first, so that the peer has its answers in the order of its sends.
        """
        self._leave(self._front(key))
        self._open.pop(key, None)
        self._leave_what_must()

    def flush(self) -> None:
        """Confirms all that may be confirmed."""
        if self._behaviour.covers_unstored:
            self._leave(list(self._open))
        elif self._ranged:
            self._leave(self._front())
        else:
            self._leave([key for key, state in self._open.items() if state is _SendState.STORED])

    def _front(self, end: Key | None = None) -> list[Key]:
        """What is stored before `end`, up to the first that is not."""
        found: list[Key] = []
        for key, state in self._open.items():
            if key == end or state in (_SendState.ARRIVED, _SendState.URGENT):
                break
            found.append(key)
        return found

    def _leave_what_must(self) -> None:
        if self._due:
            self._leave_due()
        if self._stored >= self._share or self._overdue:
            self.flush()

    def _leave_due(self) -> None:
        """One confirm for each that asked for one of its own: no range stands for two of them."""
        keys: list[Key] = []
        for key in self._front():
            keys.append(key)
            if self._open[key] is _SendState.DUE:
                self._leave(keys)
                keys = []

    def _leave(self, keys: list[Key]) -> None:
        if not keys:
            return
        for key in keys:
            state = self._open.pop(key)
            self._stored -= state in (_SendState.STORED, _SendState.DUE)
            self._due -= state is _SendState.DUE
        self._confirm(keys)

    def _second_over(self) -> None:
        """Once a second while anything is unanswered: a send may wait less than a second for it, and never longer.

        What waits for the disk now is confirmed as soon as it is stored: its second is over before the next call.
        """
        self._timed = False
        self.flush()
        self._overdue = bool(self._open)
        if self._open:
            self._timed = True
            self._later(WAIT_S, self._second_over)
