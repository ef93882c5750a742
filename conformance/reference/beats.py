"""Heart-beats of a connection in both directions, for the protocols that leave them to the two ends."""

from __future__ import annotations

TOLERANCE = 2
"""How many intervals of silence are allowed: AMQP 0-9-1 says two. STOMP asks for a margin and gives no number."""


class Beats:
    """Both directions of one connection: `sends` and `hears` are intervals in seconds, 0 for none.

    The owner sets `said` and `heard` when bytes went out or came in; the time is that of the next question.
    """

    def __init__(self, sends: float, hears: float) -> None:
        self.said = self.heard = True
        self._sends = sends
        self._hears = hears
        self._said_at = self._heard_at = 0.0

    def silent(self, now: float, *, excused: bool) -> bool:
        """Whether the peer has been silent for too long; while `excused`, it could not be heard."""
        if self.heard or excused:
            self.heard = False
            self._heard_at = now
        return bool(self._hears) and now >= self._heard_at + TOLERANCE * self._hears

    def due(self, now: float) -> bool:
        """Whether a heart-beat is to be sent: after half of the interval, so that none is late."""
        if self.said:
            self.said = False
            self._said_at = now
        due = bool(self._sends) and now >= self._said_at + self._sends / 2
        self._said_at = now if due else self._said_at
        return due

    @property
    def deadline(self) -> float | None:
        """When the next of the two questions may be answered with yes, None for never."""
        times = [self._said_at + self._sends / 2] if self._sends else []
        times += [self._heard_at + TOLERANCE * self._hears] if self._hears else []
        return min(times, default=None)
