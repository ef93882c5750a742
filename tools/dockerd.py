"""Start a container engine if none answers: `python -m tools.dockerd [--data-root DIR] COMMAND...`, as root.

Where one answers, the command is run beside that. Else Debian's docker.io and iptables are installed where they are
missing, `dockerd` is started with folders of its own and a socket of its own, the command finds it in DOCKER_HOST, and
it ends with the command. It is in a ledger before it is started, by its pid; and the kernel ends it when this process
dies, however that happens (prctl(2), PR_SET_PDEATHSIG), so that it takes its containers and mounts along.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence

from conformance import mounts, paths
from conformance.adapters.broker_log import launch_error, text_of
from conformance.adapters.container import engine
from conformance.errors import ConformanceError, LaunchError, UsageError, visible
from conformance.ledger import Ledger, release_leftovers
from conformance.processes import open_pidfd, wait_ended

_READY_S = 60.0
_STOP_S = 30.0
_PING_S = 5.0
_TICK_S = 0.05
DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""Put before a command: SIGTERM when its parent dies, even of SIGKILL."""

LOCK = pathlib.Path("/run/conformance-dockerd.lock")
"""Only one such engine runs on a machine at a time."""

_PACKAGES = {"dockerd": "docker.io", "iptables": "iptables"}


@contextlib.contextmanager
def running(data_root: pathlib.Path, ledger: Ledger) -> Iterator[str]:
    """Start an engine with its data below `data_root`; yield the value for DOCKER_HOST.

    Waits until no other of ours runs: two engines share a bridge and its rules, and the second to start cuts the
    connections of the first's containers. Raises `LaunchError`: not root, no engine to be had, or it does not come up
    (with the end of its log).
    """
    install()
    data_root.mkdir(parents=True, exist_ok=True)
    # A socket's name has 107 bytes at most (unix(7)), and a data root may be anywhere.
    with _only_one(), tempfile.TemporaryDirectory(prefix="conformance-dockerd-") as folder:
        here = pathlib.Path(folder)
        host = f"unix://{here}/docker.sock"
        process, ticket = _spawn(data_root.resolve(), here, ledger)
        try:
            _wait_ready(process, here, data_root / "dockerd.log")
            _remove_stale(host)
            yield host
        finally:
            _end(process)
            ledger.released(ticket)


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    with LOCK.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def install() -> None:
    """Install `dockerd` and `iptables` if missing; raises `LaunchError` if that fails."""
    missing = [package for tool, package in _PACKAGES.items() if mounts.tool(tool) is None]
    if os.getuid() != 0:
        raise LaunchError("an engine of its own needs root: run it with sudo, or start Docker")
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise LaunchError(f"{', '.join(missing)} cannot be installed here: there is no apt-get; install Docker")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *words], env=environment, capture_output=True, text=True, check=False)  # noqa: S607
        if done.returncode != 0:
            raise launch_error(f"`apt-get {' '.join(words)}` ended with {done.returncode}", done.stdout + done.stderr)


def _spawn(data_root: pathlib.Path, folder: pathlib.Path, ledger: Ledger) -> tuple[subprocess.Popen[bytes], str]:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    command = [*DIES_WITH_US, "dockerd", "--data-root", str(data_root)]
    command += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    command += ["--host", f"unix://{folder}/docker.sock"]
    with (data_root / "dockerd.log").open("wb") as log:
        try:
            return ledger.spawn("dockerd", command, env={**os.environ, "PATH": path}, stdout=log, stderr=log)
        except OSError as error:
            raise LaunchError(f"dockerd cannot be started: {error.strerror}") from error


def _wait_ready(process: subprocess.Popen[bytes], folder: pathlib.Path, log: pathlib.Path) -> None:
    """Wait until it answers on its socket, or ends."""
    with open_pidfd(process.pid) as handle:
        for _ in range(int(_READY_S / _TICK_S)):
            if wait_ended([handle], _TICK_S):
                break
            if _answers(folder / "docker.sock"):
                return
    raise launch_error(f"dockerd did not come up; its log is {log}", text_of(log), log)


def _answers(path: pathlib.Path) -> bool:
    """Without the library: its client sends a request in its constructor."""
    with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
        line.settimeout(_PING_S)
        line.connect(str(path))
        line.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return b" 200 " in line.recv(64)
    return False


def _remove_stale(host: str) -> None:
    """Remove the containers of earlier runs: none is alive in an engine that has just started."""
    import docker

    client = docker.DockerClient(base_url=host)
    try:
        for container in client.containers.list(all=True, filters={"label": engine.LABEL}):
            container.remove(force=True, v=True)
    finally:
        client.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, which ends its containers too, and SIGKILL if it does not end in time."""
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answering() -> bool:
    try:
        engine.connect()
    except LaunchError:
        return False
    return True


def main(words: Sequence[str]) -> int:
    """Run a command beside an engine; return its exit status, or 3 with one line if no engine can start."""
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
        for line in getattr(error, "log_lines", ()):
            print(visible(f"    {line}"), file=sys.stderr)
        return int(error.exit_code)


def _parse(words: Sequence[str]) -> tuple[pathlib.Path, list[str]]:
    rest = list(words)
    data_root = paths.cache() / "dockerd"
    if rest[:1] == ["--data-root"] and len(rest) > 1:
        data_root, rest = pathlib.Path(rest[1]), rest[2:]
    rest = rest[1:] if rest[:1] == ["--"] else rest
    if not rest or rest[0].startswith("-"):
        raise UsageError("usage: python -m tools.dockerd [--data-root DIR] COMMAND...")
    return data_root, rest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
