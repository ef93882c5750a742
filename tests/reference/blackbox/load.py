"""What all clients of a series share: their notes, the names and the bodies of their messages."""

from __future__ import annotations

import itertools
import threading
import time
import zlib
from collections.abc import Iterator, Sequence

from .accounts import ANSWERS, Fact, What

SIZE = 300
PACE_S = 0.01
"""Between the operations of a calm client: longer than any record stays unstored."""
TOGETHER = 4
"""Messages of one transaction."""


def body(name: str) -> bytes:
    """What a message of this name must hold: a checksum and some bytes that no other has."""
    text = (name + " ").encode() * (SIZE // (len(name) + 1))
    return b"%08x " % zlib.crc32(text) + text


def name_of(content: bytes) -> str:
    """Whose body it is."""
    return content[9:].split(b" ", 1)[0].decode(errors="replace")


class Client:
    """One client of one life of a broker; `run` plays it in a thread of its own until the broker is gone.

    `ready` is set once it has a connection that works, `struck` when it has read as many answers as `strike` says.
    `calm`: one operation at a time, each `PACE_S` after the answer to the last. `facts` and `errors` are read after the
    thread has ended.
    """

    def __init__(self, name: str, port: int, quota: int, *, calm: bool = False, strike: int = 0) -> None:
        self.name, self.port, self.quota, self.calm, self.strike = name, port, quota, calm, strike
        self.ready, self.struck = threading.Event(), threading.Event()
        self.facts: list[Fact] = []
        self.errors: list[str] = []
        self._numbers = itertools.count(1)
        self._thread = threading.Thread(target=self._play, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.errors.append(f"{self.name} does not end although its broker is gone")

    def run(self) -> None:
        raise NotImplementedError

    def _play(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.errors.append(f"{self.name}: {type(error).__name__}: {error}")
        finally:
            self.ready.set()
            self.struck.set()

    def note(self, what: What, stores: Sequence[str] = (), removes: Sequence[str] = (), transaction: str = "") -> None:
        """Keep a fact, with the time of now."""
        self.facts.append(Fact(time.monotonic_ns(), what, tuple(stores), tuple(removes), transaction))
        if what in ANSWERS:
            self.strike -= 1
            if self.strike == 0:
                self.struck.set()

    def fresh(self, count: int) -> list[str]:
        """Names that no message had before."""
        return [f"{self.name}-{number}" for number in itertools.islice(self._numbers, count)]

    def received(self, content: bytes) -> str:
        """Keep a delivery; the name of the message. A body that is not its name's is an error."""
        name = name_of(content)
        self.note(What.DELIVERED, [name])
        if content != body(name):
            self.errors.append(f"{self.name}: {name} came with {content[:60]!r}")
        return name


def transactions(name: str) -> Iterator[tuple[str, bool]]:
    """Names for transactions, and whether each is to be committed: every fifth is not."""
    return ((f"{name}-t{number}", number % 5 != 0) for number in itertools.count(1))
