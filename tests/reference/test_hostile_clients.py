"""Hostile clients by seed against the bundled broker: it lives, its memory is bounded, and honest clients are served."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import struct
import threading
import time

import pytest
from blackbox import stomp
from hostile_broker import RESET, Fuzz

from tests.reference.amqp091_fuzz import Amqp091ClientFuzz
from tests.reference.amqp_raw import (
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FALSE,
    HEADER,
    MESSAGE,
    NULL,
    PATIENCE,
    TRANSFER,
    TRUE,
    attaching,
    beginning,
    described,
    flow,
    frame,
    opening,
    text,
    transfer,
    uint,
)
from tests.reference.conftest import Peer, Running

SEED = int(os.environ.get("CONFORMANCE_FUZZ_SEED", "0")) or random.randrange(1 << 31)
"""Of the first of the hostile clients; each has the next one."""

ATTACKERS, SILENT, KEPT = 3, 300, 30
"""Threads that play one hostile client after another; connections that never say a word; clients that fall silent."""

LIMITS = (
    *("max_queues=40", "max_length=500", "max_bytes=1000000", "max_message_bytes=1000000"),
    *("max_unfinished_bytes=4000000", "max_links=50", "max_transactions=20"),
)
GROWTH = 64 << 20
"""Bytes of resident memory that they may cost together. The limits allow 40 MB of messages in queues, and 4 MB that have
come in part; the rest is for links and for what is on its way."""

HONEST, BOUND_S = 200, 30
"""Messages of an honest client, and the seconds that they may take. Alone they take less than one."""

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
ACCEPTED, RELEASED, FAILED = described(0x24), described(0x26), described(0x27, TRUE)
CONTROL = attaching("c", 2, target=described(0x30, NULL))
DEEP = b"\x00" * 20_000 + b"\x40" * 20_001
ARRAY = b"\xf0\x00\x00\x00\x10\x7f\xff\xff\xff\x40"
"""An array that claims to have 2^31 - 1 elements in 16 bytes."""
STRING = b"\xb1\x7f\xff\xff\xff"


def _state(fuzz):
    identity = text(fuzz.chance.randbytes(7) + b"\x01", 0xA0)
    number = text(fuzz.chance.randrange(40).to_bytes(8, "big"), 0xA0)
    outcome = fuzz.chance.choice((ACCEPTED, RELEASED, FAILED))
    transacted = described(0x34, fuzz.chance.choice((identity, number, number)), outcome)
    return fuzz.chance.choice((outcome, NULL, transacted))


def _disposition(fuzz):
    first = fuzz.chance.choice((0, fuzz.chance.randrange(1000), fuzz.chance.randrange(1 << 32)))
    last = uint(min(first + fuzz.chance.randrange(1 << 16), 0xFFFF_FFFF))
    flags = (fuzz.chance.choice((TRUE, FALSE)), fuzz.chance.choice((TRUE, FALSE)))
    return frame(DISPOSITION, flags[0], uint(first), fuzz.chance.choice((NULL, last)), flags[1], _state(fuzz))


def _link(fuzz):
    """Attached, and mostly detached again."""
    handle, receives = fuzz.chance.randrange(3, 50), fuzz.chance.random() < 0.5
    address = f"q{fuzz.chance.randrange(60)}"
    attach = attaching(f"l{fuzz.message()}", handle, address, receives=receives)
    return attach + frame(DETACH, uint(handle), TRUE) * (fuzz.chance.random() < 0.99)


class AmqpClientFuzz(Fuzz):
    """`LEGAL` does no more than what a client may do, `WRONG` is what breaks the protocol or goes over a limit."""

    LEGAL = (
        lambda fuzz: fuzz.transfer(MESSAGE),
        lambda fuzz: fuzz.transfer(MESSAGE[:8], more=True) + fuzz.transfer(MESSAGE[8:]),
        lambda fuzz: fuzz.transfer(b"\x00\x53\x75\xb0" + struct.pack(">I", 30_000) + bytes(30_000)),
        lambda fuzz: flow(1, fuzz.chance.choice((0, 10, 1 << 20))),
        lambda fuzz: frame(0x13, uint(0), uint(1 << 30), uint(0), uint(1 << 30), uint(1), uint(0), uint(9), NULL, TRUE),
        _disposition,
        _link,
        lambda _: beginning(channel=1) + attaching("a", 0, channel=1) + frame(END, channel=1),
        lambda fuzz: transfer(2, fuzz.delivery(), b"\x00\x53\x77" + described(0x31, NULL)),
        lambda _: b"\x00\x00\x00\x08\x02\x00\x00\x00",
    )
    WRONG = (
        SASL_HEADER,
        opening(),
        beginning(),
        frame(TRANSFER, uint(99), uint(0), text("t", 0xA0), payload=MESSAGE),
        frame(DETACH, uint(77), TRUE),
        frame(END, channel=9),
        frame(CLOSE) + frame(BEGIN) * 100,
        frame(0x99),
        b"".join(attaching(f"m{n}", n) for n in range(3, 10_003)),
        b"".join(beginning(channel=n) for n in range(1, 300)),
        attaching("s", 9),
        frame(0x12, STRING, uint(9), FALSE),
        frame(0x12, text("a"), uint(9), FALSE, NULL, NULL, ARRAY, ARRAY),
        frame(0x12, text("a"), uint(9), FALSE, NULL, NULL, DEEP, DEEP),
        frame(DISPOSITION, TRUE, uint(0), uint(0xFFFF_FFFF), FALSE, described(0x34, ARRAY, ACCEPTED)),
        frame(DISPOSITION, TRUE, uint(0), uint(1 << 16), FALSE, described(0x34, DEEP)),
        transfer(0, 0, b"\x00\x53\x77" + DEEP),
        transfer(0, 0, b"\x00\x53\x77" + ARRAY),
        transfer(2, 0, b"\x00\x53\x77" + described(0x32, DEEP)),
        transfer(0, 0, bytes(60_000), more=True) * 40,
        b"\x7f\xff\xff\xff\x02\x00\x00\x00" + bytes(70_000),
        b"\x00\x00\x00\x09\x01\x00\x00\x00x",
        b"GET / HTTP/1.1\r\n\r\n",
    )

    def delivery(self):
        self._delivery += 1
        return self._delivery - 1

    def transfer(self, payload, *, more=False):
        return transfer(0, self._delivery if more else self.delivery(), payload, more=more)

    def beginning(self):
        """What comes first: mostly a session with a sender, a receiver and a coordinator."""
        receiver = attaching("r", 1, receives=True) + flow(1, self.chance.choice((1, 1000)))
        whole = opening() + beginning() + attaching("s", 0) + receiver + CONTROL
        huge = HEADER + frame(0x10, text("raw"), NULL, uint(0xFFFF_FFFF), b"\x60\xff\xff") + beginning()
        return self.chance.choice((*[whole] * 9, opening(), huge, HEADER, SASL_HEADER, b""))


def _send(fuzz, **headers):
    queue = "q" if fuzz.chance.random() < 0.9999 else f"q{fuzz.chance.randrange(60)}"
    return stomp.frame("SEND", b"x" * fuzz.chance.randrange(200), destination=queue, **headers)


def _subscribe(fuzz):
    """Mostly ended again: more than 50 are an error."""
    name = str(fuzz.chance.random())
    selector = {"selector": "colour = 'red'"} if fuzz.chance.random() < 0.3 else {}
    mode = fuzz.chance.choice(("auto", "client", "client-individual"))
    ends = stomp.frame("UNSUBSCRIBE", id=name) if fuzz.chance.random() < 0.99 else b""
    return stomp.frame("SUBSCRIBE", destination="q", id=name, ack=mode, **selector) + ends


class StompClientFuzz(Fuzz):
    LEGAL = (
        _send,
        lambda fuzz: _send(fuzz, receipt=str(fuzz.message()), persistent="true"),
        lambda fuzz: _send(fuzz, **{"x" * fuzz.chance.randrange(1, 99): "y" * 2000}),
        _subscribe,
        lambda fuzz: fuzz.transaction(),
        lambda _: b"\n" * 50,
    )
    WRONG = (
        b"SEND\ndestination:q\nx:" + b"x" * 300_000,
        b"SEND\ndestination:q\ncontent-length:999999\n\nx\0" + bytes(2000),
        b"SEND\ndestination:q\ncontent-length:1\n\nxyz\0",
        b"SEND\ndestination:q\ncontent-length:-1\n\n\0",
        b"SEND\ndestination:q\ncontent-length:" + b"9" * 5000 + b"\n\n\0",
        b"SEND\ndestination:q\n\n" + b"x" * 1_100_000,
        b"SEND\ndestination:/topic/unknown\n\nx\0",
        b"ACK\nid:7-7\n\n\0",
        b"NACK\nid:" + b"9" * 5000 + b"-" + b"9" * 5000 + b"\n\n\0",
        b"COMMIT\ntransaction:never\n\n\0",
        b"BEGIN\ntransaction:a\n\n\0" * 2,
        b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
        b"MESSAGE\n\n\0",
        b"RECEIPT\nreceipt-id:1\n\n\0",
        b"UNSUBSCRIBE\nid:none\n\n\0",
        b"".join(b"SUBSCRIBE\ndestination:q\nid:s%d\n\n\0" % n for n in range(10_000)),
        b"".join(b"BEGIN\ntransaction:b%d\n\n\0" % n for n in range(1000)),
        b"\0" * 70_000,
        b"\xff\xfe\n\n\0",
        b"DISCONNECT\nreceipt:1\n\n\0" * 100,
        HEADER,
    )

    def transaction(self):
        """Begun with a send, and mostly ended."""
        name = str(self.chance.random())
        ends = self.chance.choice(("COMMIT", "ABORT"))
        end = stomp.frame(ends, transaction=name) if self.chance.random() < 0.99 else b""
        return stomp.frame("BEGIN", transaction=name) + _send(self, transaction=name) + end

    def beginning(self):
        """What comes first: mostly a CONNECT, and a subscription that makes room in the queue."""
        connect = stomp.frame("CONNECT", accept_version="1.2", host="h")
        whole = connect + stomp.frame("SUBSCRIBE", id="first", destination="q", ack="auto")
        return self.chance.choice((*[whole] * 9, b"", connect[:-1], b"STOMP\n\n\0"))


KINDS = ((AmqpClientFuzz, "amqp"), (StompClientFuzz, "stomp"), (Amqp091ClientFuzz, "amqp091"))


class Attacker(threading.Thread):
    """Plays one hostile client after another until `over`; `frames` counts what it has said of the floods."""

    def __init__(self, server, seeds, many):
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.frames = 0
        self._server, self._seeds, self._many = server, seeds, many
        self._silent = []

    def run(self):
        while not self.over.is_set():
            seed = next(self._seeds)
            kind, protocol = KINDS[seed % len(KINDS)]
            line = dial(self._server, protocol)
            with contextlib.suppress(OSError):  # the broker has closed it, or reads no more
                if self._play(line, kind(seed, self._many)):
                    self._silent.append(line)
                    line = self._silent.pop(0) if len(self._silent) > KEPT // ATTACKERS else None
            if line is not None:
                line.close()
        for line in self._silent:
            line.close()

    def _play(self, line, fuzz):
        """Whether it has fallen silent."""
        reads = fuzz.chance.random() < 0.8
        line.sendall(fuzz.beginning())
        while (data := fuzz.again(self.frames)) and data is not RESET:
            line.sendall(data)
            self.frames += 20
            while reads:
                try:
                    reads = bool(line.recv(1 << 16, socket.MSG_DONTWAIT))
                except BlockingIOError:
                    break
        if data is RESET:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return data == b""


def dial(server, protocol):
    return socket.create_connection(("127.0.0.1", server.port(protocol)), timeout=1)


def assert_served(server):
    """An honest client over each protocol sends and receives, in order, within the bound."""
    began = time.monotonic()
    names = [str(number) for number in range(HONEST)]
    client = Peer(server, "honest-amqp")
    client.publish(HONEST)
    inbox = client.receive(HONEST)
    assert inbox.bodies == list(range(1, HONEST + 1))
    client.accept(delivery for _, delivery in inbox.got)
    client.close()
    line = stomp.Line(server.port("stomp"))
    line.say(*(stomp.send(name, "honest-stomp", receipt=name) for name in names))
    assert [line.hear().headers["receipt-id"] for _ in names] == names
    line.say(stomp.frame("SUBSCRIBE", id="1", destination="honest-stomp", ack="client"))
    got = [line.hear() for _ in names]
    assert [stomp.body(name) for name in names] == [said.body for said in got]
    line.say(stomp.frame("ACK", id=got[-1].headers["ack"], receipt="a"))
    assert line.hear().headers["receipt-id"] == "a"
    line.close()

    assert [server.depth(name) for name in ("honest-amqp", "honest-stomp")] == [0, 0]
    assert time.monotonic() - began < BOUND_S


@pytest.mark.process
@pytest.mark.parametrize(("frames", "many"), [(6_000, 100), pytest.param(600_000, 1_000, marks=pytest.mark.full)])
def test_honest_clients_beside_hostile_ones(tmp_path, frames, many):
    """And afterwards nothing is left of the hostile ones, and the broker stops in order."""
    queues = [f"--queue={name}" for name in ("honest-amqp", "honest-stomp")]
    with (
        Running(tmp_path / "data", *(f"--set={each}" for each in LIMITS), *queues, "--amqp091-port=0") as server,
        contextlib.ExitStack() as ends,
    ):
        assert_served(server)
        before, most = server.rss(), 0
        for _, protocol in KINDS * (SILENT // len(KINDS)):
            ends.enter_context(dial(server, protocol))
        seeds = itertools.count(SEED)
        attackers = [Attacker(server, seeds, many) for _ in range(ATTACKERS)]
        for attacker in attackers:
            attacker.start()
        try:
            while sum(attacker.frames for attacker in attackers) < frames:
                assert_served(server)
                most = max(most, server.rss())
        finally:
            for attacker in attackers:
                attacker.over.set()
            for attacker in attackers:
                attacker.join(PATIENCE)
        ends.close()
        until = time.monotonic() + PATIENCE
        while server.get("/")["connections"]:
            assert time.monotonic() < until, f"seeds {SEED} to {next(seeds)}"
        assert_served(server)

        assert [attacker.is_alive() for attacker in attackers] == [False] * ATTACKERS
        assert most - before < GROWTH, f"seeds {SEED} to {next(seeds)}"
        assert server.stop() == 0
        assert server.errors.read_text() == "", f"seeds {SEED} to {next(seeds)}"
