"""Every broker, launcher, protocol and vendor's client, whole; and the tests of containers. Beside an engine.

A command (`just full`), not a test: it takes hours. Prints a table with the exit code and the seconds of each run. It exits
with 1 where a run could not be made (3, 4, 5) or a test failed: that a broker breaks its word is no fault of this project.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from conformance import adapters
from conformance.adapters import vendor_clients
from conformance.adapters.opening import PROTOCOLS
from conformance.errors import ExitCode

_FAULTS = {ExitCode.HARNESS, ExitCode.USAGE, ExitCode.NOTHING_RAN}


class Run(NamedTuple):
    """An adapter with its launcher, a protocol, and a vendor's client; none where the suite's own sessions speak."""

    spec: str
    protocol: str
    client: str = ""

    def __str__(self) -> str:
        return "-".join(word for word in (self.spec.replace(":", "-"), self.protocol, self.client) if word)

    @property
    def command(self) -> list[str]:
        client = ["--client", self.client] if self.client else []
        return ["conformance", "run", "--adapter", self.spec, "--protocol", self.protocol, *client]


def runs() -> list[Run]:
    """Each broker under each launcher; natively also through each vendor's client of JMS, which knows no launcher."""
    found = []
    for name in adapters.names():
        file = adapters.find(name).file
        if file.is_external:
            continue
        spoken = [word for word in PROTOCOLS if word in file.protocols]
        found += [Run(f"{name}:native", protocol) for protocol in spoken]
        found += [Run(f"{name}:native", "jms", client.name) for client in vendor_clients.speaking("jms", file)]
        found += [Run(f"{name}:docker", protocol) for protocol in spoken if file.container]
    return found


def play(run: Run, folder: pathlib.Path, words: list[str]) -> tuple[int, float]:
    """Its exit code and seconds. What is in the folder already is judged again, which takes seconds and not minutes."""
    began = time.monotonic()
    if (folder / "report.json").is_file():
        command = ["conformance", "judge", str(folder), "--again"]
    else:
        shutil.rmtree(folder, ignore_errors=True)  # what an interrupted one has left
        command = [*run.command, "--out", str(folder), *words]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".log").open("w") as log:
        status = subprocess.run(command, check=False, stdout=log, stderr=subprocess.STDOUT).returncode
    return status, time.monotonic() - began


def main() -> int:
    """`--out DIR` is the folder of all runs, in which an interrupted one goes on; `--jobs N` plays so many at a time.

    What else was typed goes to each run: `--quick`, `--trials 1`. Each has its log beside its folder.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=None)
    parser.add_argument("--jobs", type=int, default=1)
    asked, words = parser.parse_known_args()
    out = asked.out or pathlib.Path(tempfile.mkdtemp(prefix="conformance-full-"))
    lines, failed = [], False
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        made = {pool.submit(play, run, out / str(run), words): run for run in runs()}
        for each in concurrent.futures.as_completed(made):
            run, (status, seconds) = made[each], each.result()
            failed |= status in _FAULTS or status < 0
            lines.append(f"{seconds:7.0f} s  exit {status:3}  {out / str(run)}")
            print(lines[-1], flush=True)
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/containers"], check=False).returncode
    print("", *lines, sep="\n")
    return int(failed or tested != 0)


if __name__ == "__main__":
    sys.exit(main())
