"""One AMQP 1.0 connection: proton's engine on a socket, in one thread, with every write in our hands.

proton's own Container would do the same with less code, but it decides when bytes leave. A history is only worth
something if the `invoke` of an operation reached the kernel before the first byte of that operation did, so the write
is here, behind `before_write`. Bytes that arrive are given to the engine one frame at a time: two dispositions of one
delivery in one read would otherwise look like one.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

from proton import Collector, Connection, Transport, TransportException

from conformance.clients.session import Disconnected, pump_until
from conformance.errors import ClientError

_READ = 1 << 18


class Wire:
    """Connects on construction; `pump` does I/O and hands every event of the engine to `dispatch`.

    Args:
        host: Address of the broker.
        port: TCP port of the broker.
        container: AMQP container id of this client.
        dispatch: Called with each engine event, in order, after each frame.
        before_write: Called right before bytes may leave.
        after_frame: Called when all events of one frame were dispatched.
        connect_s: Seconds within which the TCP connection must stand.

    Raises:
        ClientError: No connection within `connect_s`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        container: str,
        *,
        dispatch: Callable[[Any], None],
        before_write: Callable[[], None],
        after_frame: Callable[[], None] = lambda: None,
        connect_s: float = 20.0,
    ) -> None:
        try:
            self.socket = socket.create_connection((host, port), timeout=connect_s)
        except OSError as error:
            raise ClientError(f"no connection to {host}:{port}: {error}") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._dispatch, self._before_write, self._after_frame = dispatch, before_write, after_frame
        self._collector = Collector()
        self._transport = Transport()
        self._transport.sasl().allowed_mechs("ANONYMOUS")
        self.connection = Connection()
        self.connection.container = container
        self.connection.hostname = host
        self.connection.collect(self._collector)
        self._transport.bind(self.connection)
        self.connection.open()
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self._input = bytearray()
        self.closed = False

    def watch(self, descriptor: int) -> None:
        """End the process when `descriptor` hangs up: the harness that gave the job is gone."""
        self._poll.register(descriptor, 0)  # POLLHUP is always reported

    def pump(self, timeout_s: float | None) -> None:
        """Write what is pending, wait at most `timeout_s` for input (None: no limit), read, dispatch.

        Raises:
            Disconnected: The peer closed or reset the connection. What it had sent before was dispatched.
        """
        self._drain_events()
        self._write()
        for descriptor, events in self._poll.poll(None if timeout_s is None else max(timeout_s, 0) * 1000):
            if descriptor != self.socket.fileno() and events & (select.POLLHUP | select.POLLERR):
                raise SystemExit("the harness is gone")
            if descriptor == self.socket.fileno() and events & ~select.POLLOUT:
                self._read()
        self._drain_events()
        self._write()

    def pump_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Pump until `done()`; False where `timeout_s` went by first."""
        return pump_until(self.pump, done, timeout_s)

    def close(self) -> None:
        """Close in order as far as the peer still listens, and release the socket."""
        if not self.closed:
            self.connection.close()
            with contextlib.suppress(Disconnected):
                self.pump_until(lambda: self.connection.state & self.connection.REMOTE_CLOSED != 0, 2.0)
        self.socket.close()
        self.closed = True

    def _write(self) -> None:
        transport = self._transport
        pending = transport.pending()
        if pending <= 0:
            return
        self._before_write()
        while pending > 0:
            try:
                sent = self.socket.send(transport.peek(min(pending, _READ)) or b"")
            except BlockingIOError:
                self._poll.modify(self.socket, select.POLLIN | select.POLLOUT)
                return
            except OSError as error:
                self._read_rest()
                raise Disconnected(str(error)) from error
            transport.pop(sent)
            pending = transport.pending()
        self._poll.modify(self.socket, select.POLLIN)

    def _read(self) -> None:
        try:
            data = self.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError as error:
            self.closed = True
            raise Disconnected(str(error)) from error
        if not data:
            self.closed = True
            raise Disconnected("end of stream")
        self._input += data
        self._push_frames()

    def _read_rest(self) -> None:
        """After a failed write: answers may still lie in the socket, and the broker did send them."""
        try:
            while not self.closed:
                self._read()
        except Disconnected:
            return

    def _push_frames(self) -> None:
        data, offset = self._input, 0
        while len(data) - offset >= 8:
            size = 8 if data[offset : offset + 4] == b"AMQP" else struct.unpack_from(">I", data, offset)[0]
            if len(data) - offset < size:
                break
            self._push(bytes(data[offset : offset + size]))
            offset += size
            self._drain_events()
            self._after_frame()
        del data[:offset]

    def _push(self, frame: bytes) -> None:
        start = 0
        try:
            while start < len(frame):
                capacity = self._transport.capacity()
                if capacity <= 0:
                    raise Disconnected("the engine takes no more input")
                self._transport.push(frame[start : start + capacity])
                start += capacity
        except TransportException as error:
            raise ClientError(f"the peer broke the protocol: {error}") from error

    def _drain_events(self) -> None:
        """Each event once, also where its dispatch raises: what was refused is not refused again by a close."""
        collector = self._collector
        while event := collector.peek():
            try:
                self._dispatch(event)
            finally:
                collector.pop()
