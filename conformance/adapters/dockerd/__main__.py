"""`python -m conformance.adapters.dockerd [--data-root DIR] COMMAND...`: the command, beside an engine."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence

from conformance import paths
from conformance.adapters import engine
from conformance.adapters.dockerd import DIES_WITH_US, running
from conformance.errors import ConformanceError, LaunchError, UsageError
from conformance.ledger import Ledger, release_leftovers
from conformance.quoting import visible


def _answering() -> bool:
    try:
        engine.connect()
    except LaunchError:
        return False
    return True


def main(words: Sequence[str]) -> int:
    """Run a command beside an engine; its exit status, or 3 with one line where there can be no engine."""
    try:
        data_root, command = _parse(words)
        if _answering():
            return subprocess.run(command, check=False).returncode
        for line in release_leftovers():
            print(visible(f"released what an earlier run left: {line}"), file=sys.stderr)
        data_root.mkdir(parents=True, exist_ok=True)
        with Ledger(data_root, f"dockerd-{uuid.uuid4().hex[:12]}") as ledger, running(data_root, ledger) as host:
            child = subprocess.Popen([*DIES_WITH_US, *command], env={**os.environ, "DOCKER_HOST": host})
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: child.send_signal(number))
            return child.wait()
    except ConformanceError as error:
        print(visible(f"conformance: {error}"), file=sys.stderr)
        for line in getattr(error, "log_tail", ()):
            print(visible(f"    {line}"), file=sys.stderr)
        return int(error.exit_code)


def _parse(words: Sequence[str]) -> tuple[pathlib.Path, list[str]]:
    rest = list(words)
    data_root = paths.cache() / "dockerd"
    if rest[:1] == ["--data-root"] and len(rest) > 1:
        data_root, rest = pathlib.Path(rest[1]), rest[2:]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest or rest[0].startswith("-"):
        raise UsageError("usage: python -m conformance.adapters.dockerd [--data-root DIR] COMMAND...")
    return data_root, rest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
