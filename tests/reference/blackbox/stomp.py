"""STOMP 1.2 on a bare socket, written for these tests alone: as little as a series needs."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from typing import NamedTuple

from .accounts import What
from .load import PACE_S, TOGETHER, Client, body, transactions
from .server import PATIENCE, QUEUE

BURST = 12
PREFETCH = 40


class Frame(NamedTuple):
    """What came: the names of this module need no escapes."""

    command: str
    headers: dict[str, str]
    body: bytes


def frame(command: str, content: bytes = b"", **headers: str) -> bytes:
    """The bytes of a frame; `content_length` and the like are written with a hyphen."""
    lines = [command, *(f"{name.replace('_', '-')}:{value}" for name, value in headers.items())]
    return "\n".join(lines).encode() + b"\n\n" + content + b"\0"


class Line:
    """A connected STOMP socket; `EOFError` where the peer is gone."""

    def __init__(self, port: int, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = bytearray()
        self._frames = self._parsed()
        self.say(frame("CONNECT", accept_version="1.2", host="localhost", **headers))
        answer = self.hear()
        assert answer.command == "CONNECTED", answer

    def say(self, *frames: bytes) -> None:
        """Write; what cannot be written any more is noticed by who reads."""
        try:
            self.socket.sendall(b"".join(frames))
        except OSError as error:
            raise EOFError(str(error)) from error

    def hear(self) -> Frame:
        try:
            return next(self._frames)
        except StopIteration:
            raise EOFError("the stream has ended before") from None

    def close(self) -> None:
        self.socket.close()

    def _parsed(self) -> Iterator[Frame]:
        while True:
            while self._input[:1] == b"\n":
                del self._input[:1]
            end = self._input.find(b"\n\n")
            if end < 0:
                self._more()
                continue
            command, *lines = self._input[:end].decode().split("\n")
            headers = dict(line.split(":", 1) for line in reversed(lines))
            stop = end + 2 + int(headers.get("content-length", -1))
            while True:
                if "content-length" not in headers:
                    stop = self._input.find(b"\0", end + 2)
                if 0 <= stop < len(self._input):
                    break
                self._more()
            content = bytes(self._input[end + 2 : stop])
            del self._input[: stop + 1]
            yield Frame(command, headers, content)

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 18)
        except OSError as error:
            raise EOFError(str(error)) from error
        if not data:
            raise EOFError("end of stream")
        self._input += data


def send(name: str, queue: str = QUEUE, *, more: bytes = b"", **headers: str) -> bytes:
    """A persistent SEND of the message of this name, with `more` behind its body."""
    content = body(name) + more
    words = {"destination": queue, "persistent": "true", "content-length": str(len(content))}
    return frame("SEND", content, **words, **headers)


class _Talk(Client):
    """A line whose end is the end of the broker."""

    def run(self) -> None:
        try:
            self.line = Line(self.port)
            self.ready.set()
            self.ids = transactions(self.name)
            self.talk()
        except EOFError:
            pass
        finally:
            if hasattr(self, "line"):
                self.line.close()

    def talk(self) -> None:
        raise NotImplementedError

    def heard(self) -> Frame:
        """The next frame; an ERROR is one of ours too, and the end."""
        said = self.line.hear()
        if said.command == "ERROR":
            raise AssertionError(f"{said.headers} {said.body!r}")
        return said


class Publisher(_Talk):
    """Bursts: plain sends, each with a receipt, and in the middle of them a transaction."""

    def talk(self) -> None:
        for turn in itertools.count():
            if self.quota <= 0:
                break
            if self.calm:
                time.sleep(PACE_S)  # a calm client is the load
            plain, both = (1 - turn % 2, turn % 2) if self.calm else (BURST, True)
            self._burst(self.fresh(plain), self.fresh(TOGETHER) if both else [])
        self.heard()  # what comes is the end

    def _burst(self, names: list[str], together: list[str]) -> None:
        self.quota -= len(names) + len(together)
        called, committing = next(self.ids) if together else ("", False)
        plain = [send(name, receipt=f"s.{name}") for name in names]
        for name in names:
            self.note(What.SEND, [name])
        if committing:
            self.note(What.COMMIT, together, transaction=called)
        half = len(plain) // 2
        self.line.say(*plain[:half], *_transaction(called, together, committing=committing), *plain[half:])
        for _ in range(len(names) + bool(together)):
            kind, _, name = self.heard().headers["receipt-id"].partition(".")
            if kind == "s":
                self.note(What.SENT, [name])
            elif committing:
                self.note(What.COMMITTED, transaction=name)


def _transaction(called: str, names: list[str], *, committing: bool) -> list[bytes]:
    if not names:
        return []
    end = frame("COMMIT" if committing else "ABORT", transaction=called, receipt=f"c.{called}")
    return [frame("BEGIN", transaction=called), *(send(name, transaction=called) for name in names), end]


class Consumer(_Talk):
    """ACKs with receipts one by one; every fourth message waits for a transaction, which also sends some.

    What was acknowledged in a transaction that is aborted stays with this consumer until its end.
    """

    def talk(self) -> None:
        words = {"destination": QUEUE, "ack": "client-individual", "prefetch-count": str(PREFETCH)}
        self.line.say(frame("SUBSCRIBE", id="1", **words))
        kept: list[tuple[str, str]] = []
        count = 0
        while True:
            said = self.heard()
            if said.command == "RECEIPT":
                self._answered(said.headers["receipt-id"])
                continue
            name, handle = self.received(said.body), said.headers["ack"]
            count += 1
            if count % 4 == 0:
                kept.append((name, handle))
            else:
                self.note(What.ACK, removes=[name])
                self.line.say(frame("ACK", id=handle, receipt=f"a.{name}"))
            if len(kept) == TOGETHER:
                self._together(kept)
                kept.clear()

    def _answered(self, receipt: str) -> None:
        kind, _, name = receipt.partition(".")
        if kind == "a":
            self.note(What.ACKED, removes=[name])
        elif kind == "c":
            self.note(What.COMMITTED, transaction=name)

    def _together(self, kept: list[tuple[str, str]]) -> None:
        called, committing = next(self.ids)
        sends = self.fresh(2)
        if committing:
            self.note(What.COMMIT, sends, [name for name, _ in kept], called)
        self.line.say(
            frame("BEGIN", transaction=called),
            *(send(name, transaction=called) for name in sends),
            *(frame("ACK", id=handle, transaction=called) for _, handle in kept),
            frame(
                "COMMIT" if committing else "ABORT",
                transaction=called,
                receipt=f"{'c' if committing else 'r'}.{called}",
            ),
        )
