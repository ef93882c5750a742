"""One connection through the proxy: its two directions, its history, and the fault if it hits this connection."""

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

from conformance.faults.frames import pair
from conformance.faults.frames import reader as frames
from conformance.faults.frames.reader import TO_BROKER, TO_CLIENT, LinkFrame
from conformance.faults.link.direction import LinkDirection, Pace
from conformance.faults.link.messages import ProxyResult
from conformance.history import Event, Op, Phase, Recorder
from conformance.scenario.script import Cut, Delay, HoldLink, LinkFault, Throttle

_IDLE_S = 0.1
_PROOF_S = 2.0
_LOOK_S = 0.002
_UNSENT = 0x894B  # SIOCOUTQNSD of linux/sockios.h
_TCP_INFO, _BYTES_ACKED_AT, _BYTES_ACKED = 128, 120, struct.Struct("=Q")  # tcp_info of linux/tcp.h, since Linux 4.1
_ESTABLISHED = "01"
_RESET = struct.pack("ii", 1, 0)


class ArmedLinkFault:
    """The fault of this proxy, the history that says what came of it, and what the harness will be told."""

    def __init__(self, fault: LinkFault | None, recorder: Recorder, epoch: int) -> None:
        self.fault, self.recorder, self.epoch = fault, recorder, epoch
        self.told = ProxyResult()
        self.tasks: set[asyncio.Task[None]] = set()
        self._flush_due = False
        self.taken = False  # by the connection that it hits
        self.trigger = fault.at if isinstance(fault, Cut | HoldLink) else None
        if fault is not None:
            at = self.trigger
            words = "every connection" if at is None else f"{at.at} {at.kind} {at.k} of a connection"
            # How much longer a round trip takes, in microseconds: by it the judge knows what came too soon.
            count = round(fault.rtt_ms * 1000) if isinstance(fault, Delay) else None
            self.note(Phase.ARMED, words, count=count if at is None else at.k)

    def pace(self) -> Pace | None:
        """How a lane of a slow or narrow link passes on; None where it does so at once."""
        match self.fault:
            case Delay(rtt_ms=rtt_ms):
                return Pace(delay_s=rtt_ms / 2000)
            case Throttle(bytes_per_s=bytes_per_s):
                return Pace(bytes_per_s=bytes_per_s)
        return None

    def add(self, **changes: Any) -> None:
        """Change what will be told."""
        self.told = msgspec.structs.replace(self.told, **changes)

    def note(self, phase: Phase, detail: str, **fields: Any) -> None:
        """A phase of the fault; it is in the file before anything else happens."""
        assert self.fault is not None
        self.recorder.record(Op.FAULT, phase, fault=self.fault.name, epoch=self.epoch, detail=detail, **fields)
        self.recorder.flush()

    def fire(self, detail: str, connection: int) -> None:
        """The trigger was reached."""
        self.add(fired=True)
        self.note(Phase.FIRED, detail, connection=connection)

    def take_effect(self, detail: str, connection: int) -> None:
        """It was seen to do what it is for; only the first time is told."""
        if not self.told.effective:
            self.add(effective=True)
            self.note(Phase.EFFECTIVE, detail, connection=connection)

    def record(self, event: Event) -> None:
        """One frame; it reaches the file within a tenth of a second."""
        self.recorder.append(event)
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_later(_IDLE_S, self._flush)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that must be through before the proxy ends."""
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
    """Passes on between two connected sockets until both directions have ended, or the fault does it."""

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
        self._resets = False  # a reset is being passed on: what else ends is part of it
        self._affected = 0
        to_broker, to_client = pair(protocol)
        pace = armed.pace
        self._lanes = {
            TO_BROKER: LinkDirection(TO_BROKER, client, broker, to_broker, self, pace()),
            TO_CLIENT: LinkDirection(TO_CLIENT, broker, client, to_client, self, pace()),
        }

    def close(self) -> None:
        """End both directions at once, and say how much of its stream the client has got."""
        for lane in self._lanes.values():
            lane.stop()
        self._tell_reached()
        self._client.close()
        self._broker.close()
        self._closed(self)

    # what lanes tell

    def saw(self, lane: LinkDirection, seen: list[LinkFrame], at_ns: int) -> None:
        """Record each, and find the one that the trigger waits for."""
        armed = self._armed
        armed.add(frames=armed.told.frames + len(seen))
        kind = armed.trigger.kind if armed.trigger is not None else None
        for frame in seen:
            if frame.kind == kind:
                self._counted(lane, frame)
            if frame.name == "unreadable":
                armed.add(unreadable=f"connection {self.number} {lane.name} byte {frame.start}: {frame.detail}")
            self._record(lane, frame, at_ns)
        if self._mine:
            armed.recorder.flush()

    def reached(self, lane: LinkDirection) -> None:
        """The moment of the fault: what was to pass before it has passed."""
        armed = self._armed
        where, lane.gate = lane.gate, None
        armed.fire(f"{lane.name}: {where} bytes of the stream were passed on", self.number)
        if isinstance(armed.fault, Cut):
            self._cut = True
            {"rst": self._reset_both, "fin": self._close_both, "half_open": self._go_silent}[armed.fault.how]()
        elif isinstance(armed.fault, HoldLink):
            self._lanes[armed.fault.direction].hold()
            asyncio.get_running_loop().call_later(armed.fault.hold_s, self._heal, armed.fault.direction)

    def affected(self, lane: LinkDirection, size: int) -> None:
        """A fault that works on bytes is proven by the first of them."""
        armed = self._armed
        self._affected += size
        armed.add(affected=armed.told.affected + size)
        match armed.fault:
            case Delay() | Throttle():
                if not armed.told.fired:
                    armed.fire(f"connection {self.number}", self.number)
                armed.take_effect(f"{size} bytes {lane.name} had to wait", self.number)
            case HoldLink():
                armed.take_effect(f"{size} bytes {lane.name} are withheld", self.number)
            case Cut(how="half_open"):
                armed.take_effect(f"{size} bytes {lane.name} were swallowed", self.number)

    def ended(self, lane: LinkDirection) -> None:
        """An end of stream was passed on by the lane; a reset is here. Of two ended lanes nothing is left.

        The kernel tells a socket's error once. Where a write took it, the lane that reads there reads what had come
        before the reset and then an orderly end, which it must not pass on as one.
        """
        if self._cut and isinstance(self._armed.fault, Cut) and self._armed.fault.how == "half_open":
            return
        if self._resets:
            return
        if lane.took_reset:
            reading = self._lanes[TO_BROKER if lane.name == TO_CLIENT else TO_CLIENT]
            reading.lost = reading.source
        if lane.lost is lane.source and not self._cut:
            self._resets = True
            self._armed.start(self._reset(lane.target))
        elif all(each.over for each in self._lanes.values()):
            self.close()

    # history

    def _counted(self, lane: LinkDirection, frame: LinkFrame) -> None:
        armed, trigger = self._armed, self._armed.trigger
        assert trigger is not None
        self._count += 1
        armed.add(seen=max(armed.told.seen, self._count))
        if self._count == trigger.k and not armed.taken:
            self._mine = armed.taken = True
            lane.gate = {
                "before": frame.start,
                "middle": frame.start + frame.length // 2,
                "after": frame.end,
            }[trigger.at]

    def _record(self, lane: LinkDirection, frame: LinkFrame, at_ns: int) -> None:
        beyond = lane.gate is not None and frame.end > lane.gate and isinstance(self._armed.fault, Cut)
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
            link=lane.name,
            count=frame.length,
            first=frame.first,
            last=frame.last,
            detail=f"{frame.detail}, not passed on" if lost else frame.detail,
        )
        self._armed.record(event)

    def _tell_reached(self) -> None:
        """What the client's end has acknowledged of the bytes to it: that many of them reached it.

        What was passed on is too much: it may lie in a kernel on this side, and goes with the connection. Measured with
        a client that read nothing and was killed: of 4,194,976 bytes that the kernel had taken 100,000 were there.
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
        self._lanes[direction].go_on()

    def _go_silent(self) -> None:
        for lane in self._lanes.values():
            lane.vanish()

    def _close_both(self) -> None:
        """Both read an end of stream, after what was passed on to them; what they still send is swallowed.

        To close at once would be no orderly end: a close with unread bytes sends a reset.
        """
        self._go_silent()
        for end in (self._client, self._broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_WR)
        self._armed.start(self._prove())

    def _reset_both(self) -> None:
        for lane in self._lanes.values():
            lane.stop()
        self._armed.start(self._reset_and_prove())

    async def _reset_and_prove(self) -> None:
        await self._reset(self._broker, self._client)
        await self._prove()

    async def _reset(self, *ends: socket.socket) -> None:
        """RST to these, after what was passed on to them: it throws away what the kernel has not sent yet."""
        for lane in self._lanes.values():
            lane.stop()
        deadline = time.monotonic() + _PROOF_S
        while any(_unsent(end) for end in ends) and time.monotonic() < deadline:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(_LOOK_S)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    async def _prove(self) -> None:
        """No peer has an established connection any more, says the kernel."""
        deadline = time.monotonic() + _PROOF_S
        while (left := _established(self._ports)) and time.monotonic() < deadline:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(_LOOK_S)
        if not left:
            self._armed.take_effect("neither peer has an established connection", self.number)


def _unsent(end: socket.socket) -> int:
    """Bytes that the kernel has taken and not sent yet."""
    answer = fcntl.ioctl(end, _UNSENT, bytes(4))
    return int.from_bytes(answer, "little")


def _acknowledged(end: socket.socket) -> int | None:
    """Bytes of ours that the peer's kernel has acknowledged, also after its reset; None where this one cannot tell.

    At least so many came there: a reset within the time of a delayed acknowledgement takes that with it (seen under
    load: 85,744 bytes at the client, 32,768 acknowledged). Nobody is accused of a byte too few.
    """
    told = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO)
    return _BYTES_ACKED.unpack_from(told, _BYTES_ACKED_AT)[0] if len(told) == _TCP_INFO else None


def _established(ports: list[tuple[int, int]]) -> int:
    """At how many of these connections, by our port and the peer's, the peer's own socket is established.

    A Java broker's is in the table of IPv6.
    """
    wanted = {(f":{peer:04X}", f":{ours:04X}") for ours, peer in ports}
    found = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):  # no IPv6 here
            for line in pathlib.Path(table).read_text().splitlines()[1:]:
                _, local, remote, state, *_ = line.split()
                found += state == _ESTABLISHED and (local[-5:], remote[-5:]) in wanted
    return found
