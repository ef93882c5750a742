"""STOMP 1.2 through stomp.py: its connection, its receiver thread, its framing, escaping and parsing.

Our listeners only append: an exception in a listener would close the socket and look like a broker that went away. Its
`wait_on_receipt` has no time limit and is not used. It encodes frames, and we write them, many at once and only after
`before_write`.

A frame that it cannot read (a RECEIPT without receipt-id, a content-length of 5,000 digits) ends its receiver thread.
It has no limit for the length of a frame; our limits act where it reads from the socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from typing_extensions import override

from conformance import limits
from conformance.clients.job import Job
from conformance.errors import ClientError
from conformance.protocols.stomp.sessions.dialogue import End, ReceivedFrame, StompDialogue

os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")  # its import asks the name service otherwise

import stomp
from stomp.exception import ConnectFailedException

_JOIN_S = 5.0
_WAKES = 4096


class StompSession(StompDialogue):
    """See `StompDialogue`."""

    def __init__(self, job: Job, before_write: Callable[[], None]) -> None:
        super().__init__(job, before_write)
        self._thread: threading.Thread
        self._wake, self._wakes = os.pipe()
        self._woken = self._ended = False
        self._unframed = self._given = 0  # bytes since the last frame, and of all frames
        self._encoded = bytearray()
        self._connection = stomp.StompConnection12(
            [(job.connection.host, job.connection.port)],
            prefer_localhost=False,
            try_loopback_connect=False,
            reconnect_attempts_max=1,
            reconnect_sleep_initial=0,  # it would sleep after its only attempt too
            timeout=job.connection.connect_s,
            heartbeats=(0, 0),
            auto_decode=False,
        )
        transport = self._connection.transport
        transport.set_listener("conformance", _Listener(self._append))
        transport.override_threading(self._start)
        self._limit(transport)
        transport.send = self._encoded.extend
        if job.connection.access.tls is not None:
            self._dial_for(transport)
        try:
            transport.start()
        except ConnectFailedException as error:
            self._close_wake()
            raise ClientError(
                f"no connection to {self._login.where} within {job.connection.connect_s:.0f} s"
            ) from error
        self._open(self._wake)

    def _dial_for(self, transport: Any) -> None:
        """Give stomp.py our TLS line, which one thread may read while another writes: its own TLS also writes."""
        try:
            line = self._login.dial(self._job.connection.connect_s)
        except BaseException:
            self._close_wake()
            raise
        line.setblocking(True)
        transport.attempt_connection = lambda: setattr(transport, "socket", line)

    def _start(self, loop: Callable[[], None]) -> threading.Thread:
        """Start the receiver thread; keep a copy of the socket, because that thread may close the original any time."""
        self._socket = self._connection.transport.socket.dup()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._thread = threading.Thread(target=loop, name="stomp.py receiver", daemon=True)
        self._thread.start()
        return self._thread

    def _limit(self, transport: Any) -> None:
        """Let the library read no more than the largest frame, and report it when it gives up on what it has read."""
        receive, cleanup = transport.receive, transport.cleanup

        def bounded() -> bytes:
            data: bytes = b"" if self._ended else receive() or b""
            self._unframed += len(data)
            if self._unframed > limits.STOMP_HEAD + limits.MESSAGE:
                self._append(End(limits.limit_sentence("a frame", limits.MESSAGE), ClientError))
            return b"" if self._ended else data

        def given_up() -> None:
            if transport.running:  # the end of the stream and our own close have ended it before
                self._append(End("a frame that stomp.py cannot read; the log of this client says why", ClientError))
            cleanup()

        transport.receive, transport.cleanup = bounded, given_up

    def _append(self, item: ReceivedFrame | End) -> None:
        """Append in the receiver thread. One wake is enough until the other thread has cleared it, and then looked."""
        if self._ended:
            return
        if isinstance(item, ReceivedFrame):
            self._unframed = 0
            self._given += item.size
            if item.head > limits.STOMP_HEAD:
                item = End(limits.limit_sentence("headers", limits.STOMP_HEAD), ClientError)
            elif self._given - self._handled > limits.BACKLOG:
                item = End(limits.limit_sentence("frames that wait", limits.BACKLOG), ClientError)
        self._ended = isinstance(item, End)
        self._arrived.append(item)
        if not self._woken:
            self._woken = True
            os.write(self._wakes, b"!")

    @override
    def _read(self) -> None:
        os.read(self._wake, _WAKES)
        self._woken = False

    @override
    def _encode(self, frame: ReceivedFrame) -> bytes:
        self._encoded.clear()
        self._connection.send_frame(frame.command, dict(frame.headers), frame.body)
        return bytes(self._encoded)

    @override
    def _release(self) -> None:
        with contextlib.suppress(OSError):  # the peer may have been faster
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the receiver thread, as close would not
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            raise ClientError(f"the receiver thread of stomp.py did not end within {_JOIN_S:.0f} s")
        self._socket.close()
        self._close_wake()

    def _close_wake(self) -> None:
        os.close(self._wake)
        os.close(self._wakes)


class _Listener:
    """Called by stomp.py in the receiver thread."""

    def __init__(self, append: Callable[[ReceivedFrame | End], None]) -> None:
        self._append = append

    def on_message(self, frame: Any) -> None:
        self._append(ReceivedFrame(frame.cmd, frame.headers, frame.body))

    on_receipt = on_error = on_connected = on_message

    def on_disconnected(self) -> None:
        self._append(End("end of stream"))
