"""Every broker under every launcher over every protocol, whole; and the tests of containers. Beside an engine.

A command (`just full`), not a test: it takes hours. Prints a table with the exit code and the seconds of each run. It exits
with 1 where a run could not be made (3, 4, 5) or a test failed: that a broker breaks its word is no fault of this project.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import time

from conformance import adapters
from conformance.errors import ExitCode
from conformance.run.spoken import PROTOCOLS

_FAULTS = {ExitCode.HARNESS, ExitCode.USAGE, ExitCode.NOTHING_RAN}


def runs() -> list[tuple[str, str]]:
    """Adapter and protocol of each."""
    found = []
    for name in adapters.names():
        file = adapters.find(name).file
        if file.is_external:
            continue
        launchers = ["native", *(["docker"] if file.container else [])]
        spoken = [word for word in PROTOCOLS if word in file.protocols]
        found += [(f"{name}:{launcher}", protocol) for launcher in launchers for protocol in spoken]
    return found


def main() -> int:
    """What was typed after the command goes to each run: `--quick`, `--trials 1`, `--out DIR` for the folder of all."""
    words = sys.argv[1:]
    out = pathlib.Path(tempfile.mkdtemp(prefix="conformance-full-"))
    if "--out" in words:
        out = pathlib.Path(words.pop(words.index("--out") + 1))
        words.remove("--out")
    lines, failed = [], False
    for spec, protocol in runs():
        began = time.monotonic()
        folder = out / f"{spec.replace(':', '-')}-{protocol}"
        command = ["conformance", "run", "--adapter", spec, "--protocol", protocol, "--out", str(folder), *words]
        status = subprocess.run(command, check=False).returncode
        failed |= status in _FAULTS or status < 0
        lines.append(f"{time.monotonic() - began:7.0f} s  exit {status:3}  {spec:20} {protocol:6} {folder}")
        print(lines[-1], flush=True)
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/containers"], check=False).returncode
    print("", *lines, sep="\n")
    return int(failed or tested != 0)


if __name__ == "__main__":
    sys.exit(main())
