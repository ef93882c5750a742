"""The bundled broker as a process of its owner: with the owner's folder, and a script for each of his commands."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest
from starts import starts_process

from conformance import adapters, paths
from conformance.adapters import ports
from conformance.adapters.external.addresses import Place
from conformance.history import bare_header
from conformance.ledger import Ledger
from conformance.processes import is_alive
from conformance.records import TrialRecord
from conformance.run.planning import Planned
from conformance.run.record import Recording
from conformance.scenario import Check, Scenario
from conformance.scenario.script import Step

_SCRIPT = """#!/bin/sh
cd "$(dirname "$0")"
case $1 in
start) {python} -m conformance.reference --amqp-port {amqp} --stomp-port {stomp} --http-port {http} --data data \\
    --queue theirs --queue a --queue b --queue ready >>broker.log 2>&1 & echo $! >pid ;;
kill) kill -KILL $(cat pid) ;;
stop) kill -TERM $(cat pid) ;;
pause) kill -STOP $(cat pid) ;;
resume) kill -CONT $(cat pid) ;;
*) echo "$@" >>calls; echo "$1 of $CONFORMANCE_RUN_ID" ;;
esac
"""
COMMANDS = {name: ["./broker.sh", name] for name in ("kill", "start", "stop", "pause", "resume")}


@dataclasses.dataclass
class Theirs:
    """The bundled broker as a process of the test's, and its owner's folder."""

    folder: pathlib.Path
    numbers: Mapping[str, int]

    def spec(self, **keys: object) -> str:
        """Words that reach it, by a file that says this."""
        file = self.folder / "mine.toml"
        said = {"urls": self.urls, **keys}
        file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in said.items()))
        return f"reference:external={file}"

    @property
    def urls(self) -> dict[str, str]:
        """Its addresses by protocol."""
        return {name: f"{name}://127.0.0.1:{number}" for name, number in self.numbers.items()}

    @property
    def pid(self) -> int:
        """Of the broker that was started last; 0 if none was."""
        file = self.folder / "pid"
        return int(file.read_text()) if file.exists() else 0

    def up(self) -> None:
        """Start it where it is down, and wait until it answers."""
        places = [Place("amqp", "127.0.0.1", self.numbers["amqp"]), Place("http", "127.0.0.1", self.numbers["http"])]
        deadline = time.monotonic() + 60
        while not self.pid or any(place.wrong()[0] for place in places):
            if not self.pid or not is_alive(self.pid):
                environment = {**os.environ, "PYTHONPATH": str(paths.root())}
                subprocess.run([self.folder / "broker.sh", "start"], check=True, env=environment)
            assert time.monotonic() < deadline, (self.folder / "broker.log").read_text()
            time.sleep(0.05)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


@pytest.fixture(scope="module")
@starts_process
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    folder = tmp_path_factory.mktemp("theirs")
    reserved = ports.Ports(["amqp", "stomp", "http"])
    script = folder / "broker.sh"
    script.write_text(_SCRIPT.format(python=sys.executable, **reserved.by_name))
    script.chmod(0o755)
    yield Theirs(folder, reserved.by_name)
    if (folder / "pid").exists():
        subprocess.run([script, "kill"], check=False, stderr=subprocess.DEVNULL)
    reserved.close()


@pytest.fixture
@starts_process
def theirs(running: Theirs, monkeypatch: pytest.MonkeyPatch) -> Theirs:
    """It is up, and its owner's scripts find this very package."""
    monkeypatch.setenv("PYTHONPATH", str(paths.root()))
    running.up()
    return running


def recorded(
    folder: pathlib.Path, adapter: adapters.Adapter, *scripts: Sequence[Step], protocol: str = "amqp"
) -> list[TrialRecord]:
    """Record a trial for each of these scripts, one after the other, in a run in this folder: `odd.1`, `odd.2`, ..."""
    trials = []
    for number, steps in enumerate(scripts, 1):
        script = Scenario("odd", "", "async_ack", tuple(steps), {"SOLCD-ACK-02": Check("lost", "confirmed")})
        trials.append(Planned(f"odd.{number}", script, "subject", "", 1, 1, adapter, adapter.effective(), protocol))
    with Ledger(folder, "run-1") as ledger:
        recording = Recording(folder, bare_header(""), ledger, expected=trials)
        try:
            return [record for trial in trials for record in recording.record([trial])]
        finally:
            recording.close()
