"""One connection through the proxy: its two directions, its history, and the fault if it hits this connection.

`ProxyConfig` and `ProxyResult` are what the harness and the proxy send each other over the control socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import pathlib
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from conformance.faults.link.direction import LinkDirection, Pace
from conformance.history import Event, Header, Op, Phase, Recorder
from conformance.protocols import link_reading
from conformance.protocols import reader as frames
from conformance.protocols.reader import TO_BROKER, TO_CLIENT, LinkFrame
from conformance.scenario.script import Cut, Delay, Frame, HoldLink, LinkFault, Throttle, fixed_number

_IDLE_S = 0.1
_PROOF_S = 2.0
_LOOK_S = 0.002
_UNSENT = 0x894B  # SIOCOUTQNSD of linux/sockios.h
_TCP_INFO, _BYTES_ACKED_AT, _BYTES_ACKED = 128, 120, struct.Struct("=Q")  # tcp_info of linux/tcp.h, since Linux 4.1
_ESTABLISHED = "01"
_RESET = struct.pack("ii", 1, 0)


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Pass on every byte from and to `host`:`port`, write `history`, and carry out the fault, if there is one."""

    header: Header
    history: str
    host: str
    port: int
    protocol: str
    epoch: int
    fault: LinkFault | None = None


class ProxyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a proxy reports when it has ended in order.

    `seen` is how many frames of the trigger's kind came on the connection that had the most of them, `refused` how many
    clients the broker did not accept, `affected` how many bytes the fault withheld, swallowed or slowed, `unreadable`
    why a stream could not be read to its end.
    """

    fired: bool = False
    effective: bool = False
    healed: bool = False
    seen: int = 0
    connections: int = 0
    refused: int = 0
    frames: int = 0
    affected: int = 0
    unreadable: str = ""


class ArmedLinkFault:
    """The fault of this proxy, the history of its phases, and the result for the harness."""

    def __init__(self, fault: LinkFault | None, recorder: Recorder, epoch: int) -> None:
        self.fault, self.recorder, self.epoch = fault, recorder, epoch
        self.result = ProxyResult()
        self.tasks: set[asyncio.Task[None]] = set()
        self._flush_due = False
        self.taken = False  # whether a connection was chosen that it hits
        self.trigger = fault.at if isinstance(fault, Cut | HoldLink) else None
        if fault is not None:
            at = self.trigger
            words = "every connection" if at is None else f"{at.at} {at.kind} {fixed_number(at.k)} of a connection"
            # The added time of a round trip, in microseconds: the judge finds answers that came too soon by it.
            count = round(fault.rtt_ms * 1000) if isinstance(fault, Delay) else None
            self.note(Phase.ARMED, words, count=count if at is None else fixed_number(at.k))

    def pace(self) -> Pace | None:
        match self.fault:
            case Delay(rtt_ms=rtt_ms):
                return Pace(delay_s=rtt_ms / 2000)
            case Throttle(bytes_per_s=bytes_per_s):
                return Pace(bytes_per_s=bytes_per_s)
        return None

    def add(self, **changes: Any) -> None:
        self.result = msgspec.structs.replace(self.result, **changes)

    def note(self, phase: Phase, detail: str, **fields: Any) -> None:
        """Record a phase of the fault, and flush it before anything else happens."""
        assert self.fault is not None
        self.recorder.record(Op.FAULT, phase, fault=self.fault.name, epoch=self.epoch, detail=detail, **fields)
        self.recorder.flush()

    def fire(self, detail: str, connection: int) -> None:
        self.add(fired=True)
        self.note(Phase.FIRED, detail, connection=connection)

    def take_effect(self, detail: str, connection: int) -> None:
        """Record, once, that the fault was seen to take effect."""
        if not self.result.effective:
            self.add(effective=True)
            self.note(Phase.EFFECTIVE, detail, connection=connection)

    def record(self, event: Event) -> None:
        """Record one frame; it is flushed within a tenth of a second."""
        self.recorder.append(event)
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_later(_IDLE_S, self._flush)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that must end before the proxy does."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.result()  # an error here ends the proxy, by the loop's handler

    def _flush(self) -> None:
        self._flush_due = False
        self.recorder.flush()


class ProxyConnection:
    """Passes data between two connected sockets until both directions have ended, or the fault ends them."""

    def __init__(
        self,
        number: int,
        client: socket.socket,
        broker: socket.socket,
        protocol: str,
        armed: ArmedLinkFault,
        closed: Callable[[ProxyConnection], None],
    ) -> None:
        self.number = number
        self._client, self._broker, self._armed, self._closed = client, broker, armed, closed
        self._ports = [(end.getsockname()[1], end.getpeername()[1]) for end in (client, broker)]
        self._count = 0
        self._mine = False  # whether the fault hits this connection
        self._cut = False
        self._resets = False  # a reset is being passed on: every further end belongs to it
        self._affected = 0
        to_broker, to_client = link_reading(protocol).readers()
        pace = armed.pace
        self._directions = {
            TO_BROKER: LinkDirection(TO_BROKER, client, broker, to_broker, self, pace()),
            TO_CLIENT: LinkDirection(TO_CLIENT, broker, client, to_client, self, pace()),
        }

    def close(self) -> None:
        """End both directions at once, and record how much of its stream has reached the client."""
        for each in self._directions.values():
            each.stop()
        self._record_reached()
        self._client.close()
        self._broker.close()
        self._closed(self)

    async def cut(self) -> bool:
        """Reset both ends now; whether neither peer has an established connection afterwards."""
        self._cut = True
        await self._reset(self._broker, self._client)
        return await self._is_gone()

    # called by the directions

    def saw(self, direction: LinkDirection, seen: list[LinkFrame], at_ns: int) -> None:
        """Record each frame, and find the one that the trigger waits for."""
        armed = self._armed
        armed.add(frames=armed.result.frames + len(seen))
        for frame in seen:
            if armed.trigger is not None and _is_of(armed.trigger, frame, direction.name):
                self._counted(direction, frame)
            if frame.name == "unreadable":
                armed.add(unreadable=f"connection {self.number} {direction.name} byte {frame.start}: {frame.detail}")
            self._record(direction, frame, at_ns)
        if self._mine:
            armed.recorder.flush()

    def reached(self, direction: LinkDirection) -> None:
        """Inject the fault: all bytes that were to pass before it have passed."""
        armed = self._armed
        where, direction.gate = direction.gate, None
        armed.fire(f"{direction.name}: {where} bytes of the stream were passed on", self.number)
        if isinstance(armed.fault, Cut):
            self._cut = True
            {"rst": self._reset_both, "fin": self._close_both, "half_open": self._go_silent}[armed.fault.how]()
        elif isinstance(armed.fault, HoldLink):
            self._directions[armed.fault.direction].hold()
            asyncio.get_running_loop().call_later(armed.fault.hold_s, self._heal, armed.fault.direction)

    def affected(self, direction: LinkDirection, size: int) -> None:
        """Count bytes that the fault affected. The first of them proves that it took effect."""
        armed = self._armed
        self._affected += size
        armed.add(affected=armed.result.affected + size)
        match armed.fault:
            case Delay() | Throttle():
                if not armed.result.fired:
                    armed.fire(f"connection {self.number}", self.number)
                armed.take_effect(f"{size} bytes {direction.name} had to wait", self.number)
            case HoldLink():
                armed.take_effect(f"{size} bytes {direction.name} are withheld", self.number)
            case Cut(how="half_open"):
                armed.take_effect(f"{size} bytes {direction.name} were swallowed", self.number)

    def ended(self, direction: LinkDirection) -> None:
        """Pass on a reset; close the connection when both directions have ended.

        The kernel reports a socket's error once. If a write got it, the direction that reads from that socket reads the
        data before the reset and then an orderly end, which it must not pass on as one.
        """
        if self._cut and isinstance(self._armed.fault, Cut) and self._armed.fault.how == "half_open":
            return
        if self._resets:
            return
        if direction.took_reset:
            reading = self._directions[TO_BROKER if direction.name == TO_CLIENT else TO_CLIENT]
            reading.lost = reading.source
        if direction.lost is direction.source and not self._cut:
            self._resets = True
            self._armed.start(self._reset(direction.target))
        elif all(each.over for each in self._directions.values()):
            self.close()

    # history

    def _counted(self, direction: LinkDirection, frame: LinkFrame) -> None:
        armed, trigger = self._armed, self._armed.trigger
        assert trigger is not None
        self._count += 1
        armed.add(seen=max(armed.result.seen, self._count))
        if self._count == trigger.k and not armed.taken:
            self._mine = armed.taken = True
            direction.gate = {
                "before": frame.start,
                "middle": frame.start + frame.length // 2,
                "after": frame.end,
            }[trigger.at]

    def _record(self, direction: LinkDirection, frame: LinkFrame, at_ns: int) -> None:
        beyond = direction.gate is not None and frame.end > direction.gate and isinstance(self._armed.fault, Cut)
        lost = beyond or self._cut
        event = Event(
            self._armed.recorder.sequence,
            at_ns,
            Op.FRAME,
            Phase.FAIL if lost else Phase.OK,
            epoch=self._armed.epoch,
            message=frame.message,
            delivery=frame.delivery,
            transaction=frame.transaction,
            connection=self.number,
            link=direction.name,
            count=frame.length,
            first=frame.first,
            last=frame.last,
            detail=f"{frame.detail}, not passed on" if lost else frame.detail,
        )
        self._armed.record(event)

    def _record_reached(self) -> None:
        """Record how many bytes the client's kernel has acknowledged: that many have reached it.

        The number of bytes that were passed on is too high: they may lie in the kernel on this side, and be lost with
        the connection. Measured with a client that read nothing and was killed: the kernel had taken 4,194,976 bytes,
        and 100,000 had arrived.
        """
        if self._client.fileno() < 0 or (reached := _acknowledged(self._client)) is None:
            return
        recorder = self._armed.recorder
        recorder.record(
            Op.CONNECT,
            Phase.INFO,
            epoch=self._armed.epoch,
            connection=self.number,
            link=TO_CLIENT,
            count=reached,
            detail=frames.REACHED,
        )

    # faults

    def _heal(self, direction: str) -> None:
        self._armed.add(healed=True)
        self._armed.note(Phase.HEALED, f"{self._affected} bytes had been withheld", connection=self.number)
        self._directions[direction].resume()

    def _go_silent(self) -> None:
        for each in self._directions.values():
            each.start_swallowing()

    def _close_both(self) -> None:
        """Let both peers read an end of stream after the bytes passed on to them; swallow what they still send.

        Counter-example for closing at once: a close with unread bytes sends a reset, which is no orderly end.
        """
        self._go_silent()
        for end in (self._client, self._broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_WR)
        self._armed.start(self._prove())

    def _reset_both(self) -> None:
        for each in self._directions.values():
            each.stop()
        self._armed.start(self._reset_and_prove())

    async def _reset_and_prove(self) -> None:
        await self._reset(self._broker, self._client)
        await self._prove()

    async def _reset(self, *ends: socket.socket) -> None:
        """Send RST to these ends, once the kernel has sent the bytes passed on to them: a reset drops unsent bytes."""
        for each in self._directions.values():
            each.stop()
        deadline = time.monotonic() + _PROOF_S
        while any(_unsent(end) for end in ends) and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(_LOOK_S)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    async def _prove(self) -> None:
        if await self._is_gone():
            self._armed.take_effect("neither peer has an established connection", self.number)

    async def _is_gone(self) -> bool:
        """Wait until neither peer has an established connection; whether that is so in time."""
        deadline = time.monotonic() + _PROOF_S
        while (left := _established(self._ports)) and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(_LOOK_S)
        return not left


def cannot() -> str:
    """Return why no link can be broken or read here; empty if it can."""
    shown = hasattr(socket, "TCP_INFO") and pathlib.Path("/proc/net/tcp").exists()
    return "" if shown else "what becomes of a connection that is broken can be seen on Linux only (/proc/net/tcp)"


def _unsent(end: socket.socket) -> int:
    """Return the number of bytes that the kernel has taken and not sent."""
    answer = fcntl.ioctl(end, _UNSENT, bytes(4))
    return int.from_bytes(answer, "little")


def _acknowledged(end: socket.socket) -> int | None:
    """Return how many bytes the peer's kernel has acknowledged, also after its reset; None if this kernel cannot say.

    At least so many have arrived: a reset within the time of a delayed acknowledgement drops that acknowledgement (seen
    under load: 85,744 bytes at the client, 32,768 acknowledged). So the figure never accuses a client wrongly.
    """
    info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO)
    return _BYTES_ACKED.unpack_from(info, _BYTES_ACKED_AT)[0] if len(info) == _TCP_INFO else None


def _established(ports: list[tuple[int, int]]) -> int:
    """Return at how many of these connections, by our port and the peer's, the peer's socket is established.

    The socket of a Java broker is in the IPv6 table.
    """
    wanted = {(f":{peer:04X}", f":{ours:04X}") for ours, peer in ports}
    found = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):  # no IPv6 here
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                _, local, remote, state, *_ = line.split()
                found += state == _ESTABLISHED and (local[-5:], remote[-5:]) in wanted
    return found


def _is_of(trigger: Frame, frame: LinkFrame, direction: str) -> bool:
    """Whether the frame counts for the trigger: the first of a message, or the last one."""
    if not trigger.last:
        return frame.kind == trigger.kind
    words = frame.detail.split()
    ours = direction == (TO_BROKER if trigger.kind == frames.SEND else TO_CLIENT)
    return "more" not in words and (frame.kind == trigger.kind or (ours and "continued" in words))
