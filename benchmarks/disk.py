"""What the tracer costs: messages a second to the bundled broker, alone and under it, in turn."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator

from conformance import adapters
from conformance.adapters import Broker
from conformance.faults.disk import injection
from conformance.history import make_body, message_id
from conformance.ledger import Ledger
from conformance.scenario.script import HeldSync, TracedFault, Watched

ROUNDS = 6
MESSAGES = {1: 500, 100: 10_000}
"""How many for each window: each a confirmed, persistent SEND of 256 bytes."""

_ARMS: dict[str, TracedFault | None] = {
    "alone": None,
    "watched": Watched(),
    "narrowed": HeldSync(0.0),  # `-P` and an injection that does nothing: what a fault costs besides the fault
}


def bench() -> dict[str, float]:
    """Medians by `ARM, window W` (messages a second) and `ARM, start` (seconds to ready); the arms take turns.

    `alone`: no tracer. `watched`: every file. `narrowed`: the journal's files only, as under a fault.
    """
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="conformance-bench-") as name:
        folder = pathlib.Path(name)
        for turn in range(ROUNDS):
            for arm, fault in _rotated(turn):
                with _running(folder / f"{arm}-{turn}", fault) as (broker, seconds):
                    taken.setdefault(f"{arm}, start", []).append(seconds)
                    for window, count in MESSAGES.items():
                        taken.setdefault(f"{arm}, window {window}", []).append(publish(broker, count, window))
    return {what: statistics.median(figures) for what, figures in taken.items()}


def _rotated(turn: int) -> list[tuple[str, TracedFault | None]]:
    """Return the arms, starting with another one in each round: the first one finds a colder machine."""
    arms = list(_ARMS.items())
    return [*arms[turn % len(arms) :], *arms[: turn % len(arms)]]


@contextlib.contextmanager
def _running(folder: pathlib.Path, fault: TracedFault | None) -> Iterator[tuple[Broker, float]]:
    reference = adapters.find("reference")
    with (
        Ledger(folder, f"bench-disk-{folder.name}") as ledger,
        reference.prepare(folder / "broker", reference.effective(), ["bench"], ledger) as broker,
    ):
        journal = broker.node.facts.journal_files
        tracer = fault and injection.Tracer(folder / "trace", journal.folder, fault, files=journal.names)
        yield broker, broker.start(wrap=tracer.wrap if tracer else ())
        broker.stop()


def publish(broker: Broker, count: int, window: int) -> float:
    """Messages a second over a bare STOMP connection with so many unanswered."""
    frames = [_send(message_id(1, number)) for number in range(count)]
    with socket.create_connection(broker.service.endpoint("stomp"), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        _answers(connection)
        started = time.perf_counter()
        sent = answered = 0
        while answered < count:
            batch = frames[sent : answered + window]
            connection.sendall(b"".join(batch))
            sent += len(batch)
            answered += _answers(connection)
        return count / (time.perf_counter() - started)


def _answers(connection: socket.socket) -> int:
    """Wait for frames, at least the end of one; how many ended."""
    while data := connection.recv(65536):
        if b"ERROR\n" in data:
            raise RuntimeError(f"the bench broker refused: {data[:200]!r}")
        if ended := data.count(b"\0"):
            return ended
    raise RuntimeError("the bench broker closed the connection")


def _send(message: str) -> bytes:
    receipt = message.replace(":", "-")  # a colon would have to be escaped
    head = f"SEND\ndestination:bench\npersistent:true\nreceipt:{receipt}\n\n"
    return head.encode() + make_body(message, 256) + b"\0"
