"""Two brokers that are a pair, each in a process of its own, and the lines of their logs as events."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

from blackbox.server import PATIENCE, QUEUE, ROOT, Server

ACTIVE, IN_STEP, OUT_OF_STEP = "member {} is active", "member {} is in step", "member {} is out of step"
READY = r"ready (?P<places>amqp=.*)"


class Member(Server):
    """One member, started: a broker once `serves` has returned. Its log is read in a thread; `await_line` waits for it."""

    queue = QUEUE

    def __init__(self, number: int, data: Path, *words: str) -> None:
        self.number, self.data, self.places = number, data, {}
        self.errors = data.with_name(f"{data.name}.log")
        self.lines: list[str] = []
        self._heard = threading.Condition()
        self._over = False
        self._next = 0
        ports = ["--amqp-port=0", "--stomp-port=0", "--http-port=0"]
        command = [sys.executable, "-m", "conformance.reference", *ports, f"--data={data}", f"--queue={QUEUE}", *words]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, pattern: str) -> re.Match[str]:
        """The next line that matches as a whole, behind the one that the last call has found."""
        found: list[re.Match[str]] = []

        def has_come() -> bool:
            while not found and self._next < len(self.lines):
                found.extend(filter(None, [re.fullmatch(pattern, self.lines[self._next])]))
                self._next += 1
            return bool(found) or self._over

        with self._heard:
            assert self._heard.wait_for(has_come, PATIENCE), f"no line {pattern!r} in {self.lines}"
        assert found, f"member {self.number} ended without a line {pattern!r}: {self.lines}"
        return found[0]

    def serves(self) -> Member:
        """Wait until it is active and its ports are open."""
        self.await_line(ACTIVE.format(self.number))
        places = self.await_line(READY)["places"].split()
        self.places = dict(place.split("=", 1) for place in places)
        self.amqp, self.stomp, self.http = (self.places[name] for name in ("amqp", "stomp", "http"))
        return self

    def follows(self) -> Member:
        """Wait until it is a standby in step."""
        self.await_line(IN_STEP.format(self.number))
        return self

    def kill(self) -> None:
        """SIGKILL, and wait for its end; a second call does nothing."""
        self.process.kill()
        self.ends()

    def ends(self) -> int:
        """Wait for its end, and for the last line of its log; the exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.errors.open("a") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                with self._heard:
                    self.lines.append(line.rstrip("\n"))
                    self._heard.notify_all()
        with self._heard:
            self._over = True
            self._heard.notify_all()


class Pair:
    """The two members below `folder`. `words` are for both."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self._words = words
        self._ports = {1: free_port(), 2: free_port()}
        self._started: list[Member] = []

    def start(self, number: int, *words: str) -> Member:
        options = {"pair": self.folder / "pair", "member": number, "replication-s": PATIENCE}
        options |= {name: f"127.0.0.1:{self._ports[which]}" for name, which in self._links(number)}
        typed = [f"--{name}={value}" for name, value in options.items()]
        self._started.append(Member(number, self.folder / f"data-{number}", *typed, *self._words, *words))
        return self._started[-1]

    def both(self) -> tuple[Member, Member]:
        """Member 1, which serves, and member 2, which is in step."""
        one = self.start(1).serves()
        return one, self.start(2).follows()

    @property
    def in_sync(self) -> str:
        return (self.folder / "pair" / "in-sync").read_text()

    def end(self) -> None:
        for member in self._started:
            member.kill()

    @staticmethod
    def _links(number: int) -> list[tuple[str, int]]:
        return [("replication", number), ("peer", 3 - number)]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
