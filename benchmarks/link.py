"""What the proxy of a link costs: a round trip and a bulk transfer, without it and with it, in turn."""

from __future__ import annotations

import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from conformance.faults.link.harness import LinkProxy
from conformance.history import bare_header
from conformance.ledger import Ledger

TRIPS = 2_000
ROUNDS = 5
FRAMES = 2_000
BULK = 64 * 1024
_HOST = "127.0.0.1"


def _frame(size: int) -> bytes:
    head = b"SEND\ndestination:q\ncontent-length:%05d\n\n"
    body = size - len(head % 0) - 1
    return head % body + b"x" * body + b"\0"


_PING, _CHUNK = _frame(64), _frame(BULK)


def bench() -> dict[str, float]:
    """Medians by name: microseconds a round trip of 64 bytes, and MB/s of 64 KiB frames."""
    with tempfile.TemporaryDirectory() as name, Ledger(pathlib.Path(name), "bench-link") as ledger:
        peer, ticket = ledger.spawn("echo", [sys.executable, "-m", __spec__.name], stdout=subprocess.PIPE)
        assert peer.stdout is not None
        upstream = (_HOST, int(peer.stdout.readline()))
        with LinkProxy(ledger, pathlib.Path(name), bare_header("bench"), upstream, "stomp") as link:
            found = _measure(upstream[1], link.port)
        peer.terminate()
        peer.wait()
        peer.stdout.close()
        ledger.released(ticket)
    return found


def _measure(direct: int, through: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for word, port in (("direct", direct), ("through the link", through)):
            with socket.create_connection((_HOST, port)) as end:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                taken.setdefault(f"round trip {word}, us", []).extend(_trips(end))
                taken.setdefault(f"bulk {word}, MB/s", []).append(_bulk(end))
    found = {what: statistics.median(figures) for what, figures in taken.items()}
    found["round trip added, us"] = found["round trip through the link, us"] - found["round trip direct, us"]
    return found


def _trips(end: socket.socket) -> list[float]:
    taken = []
    for _ in range(TRIPS):
        started = time.perf_counter_ns()
        end.sendall(_PING)
        left = len(_PING)
        while left:
            left -= len(end.recv(left))
        taken.append((time.perf_counter_ns() - started) / 1000)
    return taken


def _bulk(end: socket.socket) -> float:
    """Until the peer has read the last byte: only then does it close."""
    started = time.perf_counter()
    for _ in range(FRAMES):
        end.sendall(_CHUNK)
    end.shutdown(socket.SHUT_WR)
    while end.recv(1 << 16):
        pass
    return FRAMES * BULK / (time.perf_counter() - started) / 1e6


def echo() -> None:
    """Sends a short read back, swallows a long one; one connection after the other."""
    with socket.create_server((_HOST, 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        buffer = bytearray(1 << 18)
        view = memoryview(buffer)
        while True:
            peer, _ = listening.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while size := peer.recv_into(buffer):
                    if size == len(_PING):
                        peer.sendall(view[:size])


if __name__ == "__main__":
    echo()
