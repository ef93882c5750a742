"""The broker as its users start it: a process, its ports, its death. Nothing here looks inside."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request
from typing import Any, Self

import conformance.errors

ROOT = pathlib.Path(conformance.errors.__file__).parents[1]
PATIENCE = 60
QUEUE = "q"


CHANGED = """
import sys
from conformance.reference import command
from conformance.reference.stomp import connection
from conformance.reference.store import commit, files
{before}
sys.exit(command.main(sys.argv[1:]))
"""
"""A broker with its own start-up code."""


class Server:
    """A broker on `data` that is ready, with AMQP, STOMP and HTTP on free ports; `before` is start-up code of its own,
    `declares` whether the queue is declared at the start.

    Raises `AssertionError` with what it wrote on standard error if it ends before that.
    """

    def __init__(
        self,
        data: pathlib.Path,
        *words: str,
        errors: pathlib.Path | None = None,
        before: str = "",
        declares: bool = True,
    ) -> None:
        self.data = data
        self.errors = errors or data.with_name(data.name + ".err")
        program = ["-c", CHANGED.format(before=before)] if before else ["-m", "conformance.reference"]
        ports = ["--amqp-port=0", "--stomp-port=0", "--http-port=0"]
        with self.errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    *ports,
                    f"--data={data}",
                    *([f"--queue={QUEUE}"] if declares else []),
                    *words,
                ],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        assert self.process.stdout is not None
        word, *places = self.process.stdout.readline().split() or [""]
        if word != "ready":
            self.kill()
            raise AssertionError(f"the broker did not start: {self.errors.read_text()[-2000:]}")
        self.places = dict(place.split("=", 1) for place in places)
        self.amqp, self.stomp, self.http = (self.places[name] for name in ("amqp", "stomp", "http"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def port(self, protocol: str) -> int:
        return int(self.places[protocol].rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"amqp://{self.amqp}"

    def get(self, path: str) -> Any:
        """The JSON that the HTTP port answers."""
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def depth(self, queue: str = QUEUE) -> int:
        return int(self.get(f"/queues/{queue}")["depth"])

    def rss(self) -> int:
        """Bytes of its memory that are resident (proc(5), VmRSS)."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024

    def kill(self) -> None:
        """SIGKILL, and wait for its end; a second call does nothing."""
        self.process.kill()
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)
