"""Sample the memory of a soak: of the recorder, the clients, the judge's JVM and the broker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator

import psutil

KINDS = ("recorder", "clients", "judge", "broker")
_EVERY_S = 2.0
_CLIENT, _JUDGE = "conformance.clients.workers.worker", "org.apache.spark.deploy.SparkSubmit"


class MemorySampler:
    """Samples resident memory in a thread. `most` are the bytes of each kind since it was last asked."""

    def __init__(self, broker: Callable[[], Collection[int]]) -> None:
        self._broker = broker
        self._most: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def most(self) -> dict[str, int]:
        """Return the most that each kind used since the last call, and begin anew."""
        self._sample()
        with self._lock:
            found, self._most = self._most, {}
        return found

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        now: dict[str, int] = {}
        for kind, used in self._used():
            now[kind] = now.get(kind, 0) + used
        with self._lock:
            for kind, used in now.items():
                self._most[kind] = max(used, self._most.get(kind, 0))

    def _used(self) -> Iterator[tuple[str, int]]:
        here = psutil.Process()
        yield "recorder", here.memory_info().rss
        brokers = set(self._broker())
        for process in here.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                kind = "broker" if process.pid in brokers else _kind(process, here.pid)
                if kind:
                    yield kind, process.memory_info().rss


def _kind(process: psutil.Process, recorder: int) -> str:
    """Return the kind of a process that is none of the broker; empty for others.

    A JVM that starts a command is there twice for a moment, with all its memory: only the child of the recorder counts.
    """
    words = process.cmdline()
    if _JUDGE in words:
        return "judge" if process.ppid() == recorder else ""
    return "clients" if _CLIENT in words else ""
