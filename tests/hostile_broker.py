"""A broker that sends what no client should have to read: in a thread, on 127.0.0.1, until its peer goes."""

import contextlib
import itertools
import socket
import struct
import threading

ROOM = 1 << 24
"""Bytes that the kernel's buffers of both ends may hold beyond what the peer has read."""


class Hostile:
    """Says each of `first`, each when it has heard the bytes beside it; and then `again` without end, if
    anything: bytes, or what makes them of a number.

    `sent` are the bytes that the kernel took: the peer has read at most so many.
    """

    def __init__(self, *first, again=b""):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.sent = 0
        self._line = self._listening  # of the peer that is served
        self._first, self._again = first, again
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                self._line, _ = self._listening.accept()
                with self._line, contextlib.suppress(OSError):
                    self._serve(self._line)

    def _serve(self, line):
        heard = line.recv(1 << 16)
        for awaited, said in self._first:
            while awaited not in heard:
                heard += line.recv(1 << 16)
            self._send(line, said)
        for number in itertools.count():
            if not self._again or self._over.is_set():
                break
            self._send(line, self._again(number) if callable(self._again) else self._again)
        while line.recv(1 << 16):  # until the peer goes
            pass

    def _send(self, line, data):
        line.sendall(data)
        self.sent += len(data)

    def close(self):
        self._over.set()
        for end in (self._line, self._listening):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(20)
        assert not self._thread.is_alive()


def frame(code, *fields, payload=b"", kind=0):
    """One AMQP frame on channel 0 with a performative of these encoded fields."""
    listed = b"".join(fields)
    body = b"\x00\x53" + bytes([code]) + b"\xd0" + struct.pack(">II", len(listed) + 4, len(fields)) + listed + payload
    return struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body


def text(word):
    """An AMQP string."""
    return b"\xa1" + bytes([len(word)]) + word.encode()


NULL, TRUE, FALSE, ZERO = b"\x40", b"\x41", b"\x42", b"\x43"
_MANY = b"\x70" + struct.pack(">I", 1 << 30)

_SASL = b"AMQP\x03\x01\x00\x00" + frame(0x40, b"\xa3\x09ANONYMOUS", kind=1) + frame(0x44, b"\x50\x00", kind=1)
_OPEN = b"AMQP\x00\x01\x00\x00" + frame(0x10, text("hostile")) + frame(0x11, b"\x60\x00\x00", ZERO, _MANY, _MANY)
LET_IN = ((b"", _SASL), (b"\x00\x53\x11", _OPEN))
"""What a broker says to a client of AMQP 1.0 until its first session is open."""

CREDIT = b"\x00\x53\x13"
"""How the flow of a client begins, which gives credit."""


def attached(name):
    """The answer to the attach of a receiver of that name."""
    return b"\x00\x53\x12", frame(0x12, text(name), ZERO, FALSE, NULL, NULL, frame_source(), NULL, NULL, NULL, ZERO)


def frame_source():
    """A source with an address."""
    return b"\x00\x53\x28\xc0\x04\x01" + text("q")


def transfer(payload, number=0, *, more=False):
    """A settled transfer on handle 0; `number` is its delivery-id."""
    return frame(
        0x14,
        ZERO,
        b"\x70" + struct.pack(">I", number),
        b"\xa0\x01t",
        ZERO,
        TRUE,
        TRUE if more else FALSE,
        payload=payload,
    )
