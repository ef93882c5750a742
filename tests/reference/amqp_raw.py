"""AMQP by hand: a socket and frames that no library would send."""

from __future__ import annotations

import socket
import struct

PATIENCE = 20
HEADER = b"AMQP\x00\x01\x00\x00"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)


def text(value, code=0xA1):
    """A string; code 0xa3 for a symbol, 0xa0 for a binary."""
    data = value.encode() if isinstance(value, str) else value
    if len(data) < 256:
        return bytes((code, len(data))) + data
    return bytes((code + 0x10,)) + struct.pack(">I", len(data)) + data


def uint(value):
    return b"\x70" + struct.pack(">I", value)


NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"


def described(code, *fields):
    items = b"".join(fields)
    return b"\x00\x53" + bytes((code,)) + b"\xd0" + struct.pack(">II", len(items) + 4, len(fields)) + items


def frame(code, *fields, channel=0, payload=b"", type=0):
    body = described(code, *fields) + payload
    return struct.pack(">IBBH", len(body) + 8, 2, type, channel) + body


def opening(container="raw", max_frame=1 << 20, **options):
    idle = uint(options["idle"]) if "idle" in options else NULL
    return HEADER + frame(OPEN, text(container), NULL, uint(max_frame), b"\x60\xff\xff", idle)


def beginning(channel=0, window=1 << 30):
    return frame(BEGIN, NULL, uint(0), uint(window), uint(1 << 30), uint(0xFFFF), channel=channel)


def attaching(name, handle, address="q", *, receives=False, channel=0, source=None, target=None):
    """Attach, a sender's or a receiver's."""
    source = source or described(0x28, text(address) if receives else NULL)
    target = target or described(0x29, NULL if receives else text(address))
    fields = [text(name), uint(handle), TRUE if receives else FALSE, NULL, NULL, source, target, NULL, NULL, uint(0)]
    return frame(ATTACH, *fields, channel=channel)


def transfer(handle, number, payload, *, more=False, tag=None, settled=False, channel=0):
    name = text(tag or str(number).encode(), 0xA0)
    flags = [TRUE if settled else FALSE, TRUE if more else FALSE]
    return frame(TRANSFER, uint(handle), uint(number), name, uint(0), *flags, channel=channel, payload=payload)


def flow(handle, credit, count=0, channel=0):
    window = [uint(0), uint(1 << 30)] * 2
    return frame(FLOW, *window, uint(handle), uint(count), uint(credit), channel=channel)


MESSAGE = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x01x"
"""A durable one."""


class Raw:
    """A socket; `heard` is what the broker has said, in frames: performative and the whole frame."""

    def __init__(self, running, data=b"", **options):
        host, port = running.amqp.split(":")
        self.socket = socket.socket()
        for name, value in options.items():
            self.socket.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        self.socket.settimeout(PATIENCE)
        self.socket.connect((host, int(port)))
        self.buffer = b""
        self.header = b""
        self.say(data)

    def say(self, data):
        """Bytes; that the broker has closed already is seen by reading."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def frame(self):
        """The next frame: its performative (None for an empty one) and its bytes; None at the end."""
        while True:
            if not self.header and len(self.buffer) >= 8:
                self.header, self.buffer = self.buffer[:8], self.buffer[8:]
            if self.header and len(self.buffer) >= 4:
                size = int.from_bytes(self.buffer[:4], "big")
                if len(self.buffer) >= size:
                    whole, self.buffer = self.buffer[:size], self.buffer[size:]
                    return (whole[10] if size > 8 else None), whole
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.buffer += data

    def until(self, code):
        while (got := self.frame()) is not None:
            if got[0] == code:
                return got[1]
        raise AssertionError(f"closed before a frame {code:#x}")

    def rest(self):
        frames = []
        while (got := self.frame()) is not None:
            frames.append(got)
        return frames

    def farewell(self):
        """The bytes of the broker's close, after which it has closed the socket."""
        frames = self.rest()
        assert frames, "closed without a word"
        assert frames[-1][0] == CLOSE, frames
        return frames[-1][1]

    def close(self):
        self.socket.close()
