"""Heart-beats of a STOMP connection, without a clock (STOMP 1.2, Heart-beating)."""

from __future__ import annotations

from conformance.reference.stomp.frames import ProtocolError

BEAT_MS = 100
"""The shortest interval that this side keeps, and asks for, in milliseconds."""

_TOLERANCE = 2
"""How many intervals of silence are allowed: the standard asks for an error margin and gives no number."""


class Beats:
    """Both directions of one connection: `sends` and `hears` are intervals in seconds, 0 for none.

    The owner sets `said` and `heard` when bytes went out or came in; the time is that of the next question.
    """

    def __init__(self, sends: float, hears: float) -> None:
        self.said = self.heard = True
        self._sends = sends
        self._hears = hears
        self._said_at = self._heard_at = 0.0

    @classmethod
    def agreed(cls, header: str) -> Beats:
        """What follows from the heart-beat header of CONNECT: what the peer can send, and would like to get, in ms."""
        can, comma, wants = header.partition(",")
        if not (comma and all(text.isascii() and text.isdigit() and len(text) < 10 for text in (can, wants))):
            raise ProtocolError(f"heart-beat {header[:40]!r} is not two numbers of milliseconds")
        return cls(*(max(int(text), BEAT_MS) / 1000 if int(text) else 0 for text in (wants, can)))

    def silent(self, now: float, *, excused: bool) -> bool:
        """Whether the peer has been silent for too long; while `excused`, it could not be heard."""
        if self.heard or excused:
            self.heard = False
            self._heard_at = now
        return bool(self._hears) and now >= self._heard_at + _TOLERANCE * self._hears

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
        times += [self._heard_at + _TOLERANCE * self._hears] if self._hears else []
        return min(times, default=None)
