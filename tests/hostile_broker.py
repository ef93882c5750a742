"""A broker that sends what no client should have to read: in a thread, on 127.0.0.1, until its peer goes."""

import contextlib
import itertools
import random
import socket
import struct
import threading

ROOM = 1 << 24
"""Bytes that the kernel's buffers of both ends may hold beyond what the peer has read."""


RESET = object()


class Hostile:
    """Says each of `first`, each when it has heard the bytes beside it; and then `again` without end, if
    anything: bytes, or what makes them of a number. It makes `RESET` to reset the connection, and None to close it.

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
            data = self._again(number) if callable(self._again) else self._again
            if data is RESET:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if data is RESET or data is None:
                return
            if not data:
                break
            self._send(line, data)
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


def uint(number):
    return b"\x70" + struct.pack(">I", number)


SENDER = (
    b"\x00\x53\x12",
    frame(0x12, text("sender-q"), ZERO, TRUE, NULL, NULL, NULL, b"\x00\x53\x29\xc0\x04\x01" + text("q")),
)
"""The answer to the attach of a sender."""


class Fuzz:
    """What a hostile broker says once a client is attached, drawn from a seed: floods of at most `many` frames that the
    client may get, and then an end that it may not.
    """

    def __init__(self, seed, many):
        self.chance, self._many, self._message, self._delivery, self._part = random.Random(seed), many, 0, 0, False
        pieces = self._pieces()
        self.again = lambda _: next(pieces, None)

    def _pieces(self):
        for _ in range(self.chance.randrange(1, 20)):
            kinds = self.chance.sample(self.LEGAL, self.chance.randrange(1, len(self.LEGAL)))
            for _ in range(self.chance.randrange(1, self._many // 20)):
                yield b"".join(self.chance.choice(kinds)(self) for _ in range(20))
        match self.chance.randrange(8):
            case 0:
                yield from (bytes([byte]) for byte in self.LEGAL[0](self))  # a slow drip
            case 1:
                yield self.chance.randbytes(self.chance.randrange(1, 300))
            case 2:
                yield b""  # silence
            case 3 | 4:
                yield self._damaged(self.chance.choice(self.LEGAL)(self)) * 2
            case _:
                yield self.chance.choice(self.WRONG) * 2
        yield self.chance.choice((RESET, None))

    def _damaged(self, whole):
        """Some bytes changed, lost or doubled."""
        data = bytearray(whole)
        for _ in range(self.chance.randrange(1, 5)):
            at = self.chance.randrange(len(data))
            data[at : at + self.chance.randrange(3)] = self.chance.randbytes(1)
        return bytes(data)

    def message(self):
        """The number of a message; every other one came before."""
        self._message += self.chance.randrange(2)
        return self._message

    def transfer(self, payload, *, more=False):
        """A part of a delivery, with the delivery-id that the client expects."""
        whole = transfer(payload, self._delivery, more=more)
        self._delivery += not more
        return whole


def _encoded(fuzz):
    name = text(f"p1:{fuzz.message()}")
    return b"\x00\x53\x73\xc0" + bytes([len(name) + 1, 1]) + name + b"\x00\x53\x75\xa0\x01x"


class AmqpFuzz(Fuzz):
    LEGAL = (
        lambda fuzz: fuzz.transfer(_encoded(fuzz)),
        lambda fuzz: fuzz.transfer(b"\x00\x53\x75\xa0\x01", more=True) + fuzz.transfer(b"x"),
        lambda fuzz: fuzz.transfer(b"\x00\x53\x75\xb0" + struct.pack(">I", 30_000) + bytes(30_000)),
        lambda fuzz: frame(0x15, TRUE, uint(fuzz.chance.randrange(1 << 32)), NULL, TRUE, b"\x00\x53\x24\x45"),
        lambda fuzz: frame(0x15, FALSE, ZERO, uint(fuzz.chance.randrange(1 << 16)), TRUE, b"\x00\x53\x26\x45"),
        lambda fuzz: frame(0x13, ZERO, uint(1 << 30), ZERO, uint(1 << 30), ZERO, ZERO, uint(fuzz.chance.randrange(99))),
        lambda _: b"\x00\x00\x00\x08\x02\x00\x00\x00",
    )
    WRONG = (
        _SASL,
        _OPEN,
        frame(0x55),
        frame(0x12, text("own"), ZERO, TRUE),
        frame(0x14, uint(7), ZERO, b"\xa0\x01t"),
        frame(0x15, TRUE, uint(9), uint(3), TRUE, b"\x00\x53\x99\x45"),
        frame(0x16, uint(5), TRUE),
        frame(0x16, ZERO, TRUE),
        frame(0x17),
        frame(0x18),
        transfer(bytes(60_000), more=True) * 40,
        b"\x7f\xff\xff\xff\x02\x00\x00\x00",
        b"\x00\x00\x00\x09\x01\x00\x00\x00x",
        b"GET / HTTP/1.1\r\n\r\n",
    )


class StompFuzz(Fuzz):
    LEGAL = (
        lambda fuzz: _stomp(fuzz, b""),
        lambda fuzz: _stomp(fuzz, b"redelivered:true\ndelivery-count:%d\n" % fuzz.chance.randrange(1 << 40)),
        lambda fuzz: _stomp(fuzz, b"x" * fuzz.chance.randrange(1, 99) + b":" + b"y" * 2000 + b"\n"),
        lambda fuzz: b"RECEIPT\nreceipt-id:receipt-%d\n\n\0" % fuzz.chance.randrange(1 << 32),
        lambda _: b"\n",
    )
    WRONG = (
        b"ERROR\nmessage:no\n\nno\0",
        b"CONNECTED\nversion:1.2\n\n\0",
        b"RECEIPT\n\n\0",
        b"MESSAGE\n\n\0",
        b"MESSAGE\nack:a\\t\n\n\0",
        b"MESSAGE\nack\n\n\0",
        b"MESSAGE\ncontent-length:-1\n\n\0",
        b"MESSAGE\ncontent-length:3\n\nabcdef\0",
        b"MESSAGE\nack:1\n\n" + bytes(range(1, 256)) * (1 << 13),
        b"SEND\ndestination:q\n\n\0",
        b"\xff\xfe\n\n\0",
        b"\0" * 4096,
        b"AMQP\x00\x01\x00\x00",
    )


def _stomp(fuzz, more):
    number = fuzz.message()
    head = b"MESSAGE\nsubscription:1\nmessage-id:%d\ndestination:q\nack:%d\nconformance_id:p1:%d\n" % ((number,) * 3)
    return head + more + b"\nx\0"
