"""One direction of one connection: read bytes, record their frames, and pass them on in order.

The usual case is one `recv_into` a buffer that is used again, and one `send` from it. Only bytes that cannot be sent at
once are copied. While such bytes wait, nothing more is read: this is the back-pressure to the sender.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import socket
import time
from collections.abc import Callable
from typing import Protocol

from conformance.protocols.reader import LinkFrame, Splitter

_BUFFER = 1 << 18
_MOST_KEPT = 1 << 26
"""Bytes that a slow or held link keeps before it stops reading: a tenth of a second at 600 MB/s."""

_SLICE_S = 0.01
"""A throttled link reads the bytes that it can send in this time, and as many again ahead."""


class Pace:
    """Decide when a chunk may be sent: `delay_s` after it was read, and after the bytes ahead of it.

    A `bytes_per_s` of 0 means no limit.
    """

    def __init__(self, delay_s: float = 0.0, bytes_per_s: int = 0) -> None:
        self._delay_s, self._rate = delay_s, bytes_per_s
        self._free = 0.0
        self.chunk = max(int(bytes_per_s * _SLICE_S), 1) if bytes_per_s else _BUFFER
        self.most_kept = 2 * self.chunk if bytes_per_s else _MOST_KEPT

    def due(self, now: float, size: int) -> tuple[float, bool]:
        """Return the time at which these bytes may be sent, and whether they have to wait."""
        if not self._rate:
            return now + self._delay_s, True
        waits = self._free > now
        self._free = max(self._free, now) + size / self._rate
        return self._free, waits


class DirectionWatcher(Protocol):
    """The callbacks of a direction to its connection."""

    def saw(self, direction: LinkDirection, seen: list[LinkFrame], at_ns: int) -> None:
        """Handle frames that became known; none was passed on. May set the gate."""

    def reached(self, direction: LinkDirection) -> None:
        """Handle the gate: the kernel has every byte before it and none after it."""

    def affected(self, direction: LinkDirection, size: int) -> None:
        """Count bytes that were withheld, swallowed or sent late."""

    def ended(self, direction: LinkDirection) -> None:
        """Handle the end: no further byte will pass."""


class LinkDirection:
    """Reads `source` and writes `target`. Both sockets are non-blocking; the other direction uses them the other way.

    Attributes:
        gate: The offset in the stream where bytes stop; None if there is none.
        held: No byte passes; bytes that arrive are kept.
        swallow: Bytes that arrive are reported and dropped.
        over: No byte will pass any more.
        lost: The socket that failed, if the direction did not end by an end of stream.
        took_reset: Its write got the kernel's only report of a reset by the target's peer.
    """

    def __init__(
        self,
        name: str,
        source: socket.socket,
        target: socket.socket,
        splitter: Splitter,
        watcher: DirectionWatcher,
        pace: Pace | None,
    ) -> None:
        self.name, self.source, self.target = name, source, target
        self.gate: int | None = None
        self.held = self.swallow = self.over = self.took_reset = False
        self.lost: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._splitter, self._watcher, self._pace = splitter, watcher, pace
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._unknown = 0  # bytes at the front of the buffer whose frame is not known
        self._outbox: collections.deque[tuple[float, bool, memoryview]] = collections.deque()  # due, slowed, bytes
        self._kept = 0
        self._passed = 0
        self._eof = False
        self._reading = self._writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._update_callbacks()

    def stop(self) -> None:
        """Stop reading and writing; leave the sockets as they are."""
        self.over = True
        self._outbox.clear()
        self._kept = 0
        if self._timer is not None:
            self._timer.cancel()
        self._update_callbacks()

    def start_swallowing(self) -> None:
        """Drop the bytes that are kept and all that arrive."""
        self.swallow = True
        self._report_kept()
        self._outbox.clear()
        self._kept = 0
        self._update_callbacks()

    def hold(self) -> None:
        """Withhold the bytes that are kept and all that arrive."""
        self.held = True
        self._report_kept()
        self._update_callbacks()

    def resume(self) -> None:
        self.held = False
        self._pump()

    def _report_kept(self) -> None:
        if self._kept:
            self._watcher.affected(self, self._kept)

    # in

    def _on_readable(self) -> None:
        free = self._view[self._unknown :]
        try:
            size = self.source.recv_into(free if self._pace is None else free[: self._pace.chunk])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.lost = self.source
            size = 0
        if size == 0:
            self._end_of_stream()
            return
        at_ns = time.monotonic_ns()
        end = self._unknown + size
        seen = self._splitter.feed(self._buffer, self._unknown, end)
        if seen:
            self._watcher.saw(self, seen, at_ns)
        ready = end - (self._splitter.offset - self._splitter.passable)
        self._pass(ready)
        self._keep_unknown(ready, end)

    def _keep_unknown(self, ready: int, end: int) -> None:
        self._unknown = end - ready
        if self._unknown > len(self._buffer) // 2:  # a frame that does not declare its length
            larger = bytearray(2 * len(self._buffer))
            larger[: self._unknown] = self._view[ready:end]
            self._buffer, self._view = larger, memoryview(larger)
        elif ready and self._unknown:
            self._view[: self._unknown] = bytes(self._view[ready:end])

    def _end_of_stream(self) -> None:
        self._eof = True
        self._pass(self._unknown)  # pass on an incomplete head
        self._unknown = 0
        self._pump()

    # out

    def _pass(self, size: int) -> None:
        view = self._view[:size]
        if self.over or not size:
            return
        if self.swallow:
            self._watcher.affected(self, size)
            return
        plain = self.gate is None and not self.held and self._pace is None
        if plain and not self._outbox:
            sent = self._send(view)
            if sent == size or self.over:
                return
            view = view[sent:]
        due, slowed = (0.0, False) if self._pace is None else self._pace.due(self._loop.time(), len(view))
        self._outbox.append((due, slowed, memoryview(bytes(view))))
        self._kept += len(view)
        if self.held:
            self._watcher.affected(self, len(view))
        self._pump()

    def _send(self, view: memoryview) -> int:
        """Return how many bytes the kernel took; 0 if it can take none, or if the peer is gone."""
        sent = 0
        try:
            sent = self.target.send(view)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:  # EPIPE if the peer had ended its stream before: tcp_reset() of Linux
            self.lost, self.took_reset = self.target, isinstance(error, ConnectionResetError)
            self._finish()
        self._passed += sent
        return sent

    def _pump(self) -> None:
        while self._outbox and not (self.held or self.over or self._at_gate()):
            due, slowed, chunk = self._outbox[0]
            if not self._is_due(due):
                break
            room = len(chunk) if self.gate is None else min(len(chunk), self.gate - self._passed)
            sent = self._send(chunk[:room])
            if self.over:
                return
            self._kept -= sent
            if slowed and sent:
                self._watcher.affected(self, sent)
            if sent == len(chunk):
                self._outbox.popleft()
            else:
                self._outbox[0] = (due, slowed, chunk[sent:])
            if sent < room:
                break
        self._pumped()

    def _pumped(self) -> None:
        if self._at_gate() and not self.held:
            self._watcher.reached(self)
            if self.gate is None and not self.held:
                self._pump()
                return
        elif self._eof and not self._outbox and not self.held:
            self._finish()
        self._update_callbacks()

    def _at_gate(self) -> bool:
        return self.gate is not None and self._passed >= self.gate

    def _is_due(self, due: float) -> bool:
        if due <= self._loop.time():
            return True
        if self._timer is None or self._timer.when() != due:
            self._timer = self._loop.call_at(due, self._on_time)
        return False

    def _on_time(self) -> None:
        self._timer = None
        self._pump()

    def _finish(self) -> None:
        if self.over:
            return
        self.over = True
        self._update_callbacks()
        if self.lost is None and not self.swallow:
            with contextlib.suppress(OSError):  # the peer has closed before
                self.target.shutdown(socket.SHUT_WR)
        self._watcher.ended(self)

    # callbacks of the event loop

    def _update_callbacks(self) -> None:
        slow = self._pace is not None or self.held
        most = (self._pace.most_kept if self._pace is not None else _MOST_KEPT) if slow else 1
        reading = not (self.over or self._eof) and self._kept < most
        blocked = bool(self._outbox) and not (self.held or self.over or self._at_gate())
        writing = blocked and self._outbox[0][0] <= self._loop.time()
        self._reading = _switch(
            self._reading, reading, self.source, self._loop.add_reader, self._loop.remove_reader, self._on_readable
        )
        self._writing = _switch(
            self._writing, writing, self.target, self._loop.add_writer, self._loop.remove_writer, self._pump
        )


def _switch(
    now: bool,
    wanted: bool,
    end: socket.socket,
    on: Callable[..., None],
    off: Callable[[socket.socket], bool],
    callback: Callable[[], None],
) -> bool:
    if wanted and not now:
        on(end, callback)
    elif now and not wanted:
        off(end)
    return wanted
