"""What the protocols share whose frames this broker writes itself: what waits to leave for a peer, and heart-beats."""

from __future__ import annotations

import abc
from collections.abc import Callable

from conformance.reference.core.broker import ReferenceBroker

MAX_UNSENT = 256 * 1024
"""Bytes written for a peer and not yet given to its socket, beyond which it is sent no more messages."""

MAX_UNFINISHED = 1000
"""Frames of a peer that wait for the disk, beyond which it should not be read: what credit is to an AMQP link."""

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


class BufferedPeer(abc.ABC):
    """The frames that wait to leave for one peer. `wake` is called when `output` may have something."""

    def __init__(self, broker: ReferenceBroker, wake: Callable[[], None]) -> None:
        self._broker = broker
        self._wake = wake
        self._held = 0
        self._beats = Beats(0, 0)
        self._parts: list[bytes] = []
        self._unsent = 0
        self._paused = self._ended = False

    @abc.abstractmethod
    def _more_room(self) -> None:
        """Go on with what was held back."""

    @property
    def closed(self) -> bool:
        return self._ended and not self._parts

    def output(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        was_full, self._unsent = self._unsent >= MAX_UNSENT, 0
        if was_full:
            self._more_room()
        return data

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._more_room()

    def has_room(self) -> bool:
        return not self._paused and self._unsent < MAX_UNSENT

    def write(self, data: bytes) -> None:
        """Whole frames."""
        if not self._ended:
            self._parts.append(data)
            self._unsent += len(data)
            self._beats.said = True
            self._wake()

    def _hold(self, size: int) -> str:
        """Count the bytes of this peer that are kept until they are whole; return why all are too many, or nothing."""
        broker = self._broker
        broker.unfinished += size - self._held
        self._held = size
        if size and broker.unfinished > broker.settings.max_unfinished_bytes:
            return "too many bytes of messages have come in part (max_unfinished_bytes)"
        return ""


class FramedPeer(BufferedPeer):
    """One whose bytes are kept here until a frame is whole. `later` calls back after so many seconds."""

    def __init__(
        self,
        broker: ReferenceBroker,
        wake: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        super().__init__(broker, wake)
        self._later = later
        self._input = bytearray()
        self._reading = False

    @abc.abstractmethod
    def _read(self) -> None:
        """Take the whole frames from the input; what breaks the protocol ends the connection as it says."""

    def receive(self, data: bytes) -> None:
        """Bytes from the peer."""
        if self._ended:
            return
        self._beats.heard = True
        self._input += data
        if not self._reading:
            self._reading = True
            try:
                self._read()
            finally:
                self._reading = False
        self._wake()

    def _read_on(self) -> None:
        """What was held back is read in a turn of its own."""
        if self._input and not self._reading:
            self._later(0, lambda: self.receive(b""))
