"""Client processes: a nursery that has loaded everything, and one fork of it for each job.

A new Python with proton takes a quarter of a second to start; a run needs two hundred of them. The nursery loads once
and forks, which takes milliseconds. It is single-threaded and opens no connection, so that a fork inherits nothing
that could be in use. Every child holds one end of a socket to the harness and ends when that hangs up: no client
outlives a harness, however it died.
"""

from __future__ import annotations

import array
import contextlib
import os
import pathlib
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence

import msgspec

from conformance.adapters.access import redacted
from conformance.clients.connect import connect
from conformance.clients.job import Job, Result
from conformance.clients.roles import play
from conformance.clients.session import Disconnected
from conformance.errors import ClientError, ConformanceError
from conformance.history import Recorder
from conformance.ledger import Ledger

_MAX_JOB = 1 << 16
_MAX_FDS = 64
_GOING_S = 5.0


def run_job(job: Job, pidfds: Sequence[int], control: int | None = None) -> Result:
    """Do one job in this process and return its result; errors of ours become `Result.error`.

    The recorder writes through where the job's own process is the victim of its fault.
    """
    victim = job.trigger is not None and job.trigger.fault == "consumer_crash"
    recorder = Recorder(pathlib.Path(job.history), job.header, write_through=victim)
    try:
        session = connect(job, recorder.flush)
        if control is not None:
            session.watch(control)
        try:
            return play(job, session, recorder, pidfds)
        finally:
            recorder.flush()
            session.close()
    except (ConformanceError, Disconnected) as error:
        return Result(error=redacted(f"{job.header.process}: {error or type(error).__name__}", job.access))
    finally:
        recorder.close()


def _nursery(control: socket.socket) -> None:
    """Fork one child for each job that arrives; end when the harness hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's to handle: it closes our socket
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds, _, _ = socket.recv_fds(control, _MAX_JOB, _MAX_FDS)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _child(msgspec.json.decode(data, type=Job), socket.socket(fileno=fds[0]), fds[1], fds[2:])
        for descriptor in fds:
            os.close(descriptor)
        control.send(str(pid).encode())


def _child(job: Job, harness: socket.socket, log: int, pidfds: list[int]) -> None:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        result = run_job(job, pidfds, harness.fileno())
        harness.sendall(msgspec.json.encode(result))
        status = 0
    except BaseException:  # a fork must never return into the nursery's loop
        traceback.print_exc()
    finally:
        os._exit(status)


class Nursery:
    """The harness's end: `spawn` starts a client process and returns at once.

    Raises:
        ClientError: The nursery could not start, or has died.
    """

    def __init__(self, ledger: Ledger) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._ledger = ledger
        self._lock = threading.Lock()
        with theirs:
            command = [sys.executable, "-m", "conformance.clients.worker", str(theirs.fileno())]
            here = str(pathlib.Path(__file__).resolve().parents[2])  # also from a checkout that is not installed
            path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
            self.process, self._ticket = ledger.spawn(
                "client nursery", command, env={**os.environ, "PYTHONPATH": path}, pass_fds=[theirs.fileno()]
            )

    def spawn(self, job: Job, log: pathlib.Path, pidfds: Sequence[int] = ()) -> Child:
        """Fork a client for this job; `pidfds` are the processes that its trigger may kill."""
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as stream:
            descriptors = array.array("i", [theirs.fileno(), stream.fileno(), *pidfds])
            try:
                with self._lock:
                    socket.send_fds(self._control, [msgspec.json.encode(job)], descriptors.tolist())
                    answer = self._control.recv(64)
            except OSError as error:
                raise ClientError(f"the client nursery is gone: {error}") from error
        if not answer:
            raise ClientError("the client nursery is gone")
        return Child(job, int(answer), ours, log)

    def close(self) -> None:
        """End the nursery; children end when their own sockets hang up."""
        self._control.close()
        self.process.wait()
        self._ledger.released(self._ticket)


class Child:
    """One client process, seen from the harness."""

    def __init__(self, job: Job, pid: int, control: socket.socket, log: pathlib.Path) -> None:
        self.job, self.pid, self.log = job, pid, log
        self._control = control

    def wait(self, timeout_s: float) -> Result | None:
        """Its result when it has ended as it should, None when it died without one.

        Raises:
            ClientError: It did neither within `timeout_s`; it is killed then.
        """
        self._control.settimeout(timeout_s)
        data = b""
        try:
            while chunk := self._control.recv(1 << 16):
                data += chunk
        except TimeoutError as error:
            self.end()
            raise ClientError(f"{self.job.header.process} gave no result within {timeout_s:.0f} s") from error
        return msgspec.json.decode(data, type=Result) if data else None

    def end(self) -> None:
        """Hang up, which ends the child, and wait until it is gone; it is killed if it does not go."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for the result, as close would not
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                if not select.select([descriptor], [], [], _GOING_S)[0]:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    select.select([descriptor], [], [], _GOING_S)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Release the socket; after `wait`."""
        self._control.close()


if __name__ == "__main__":
    _nursery(socket.socket(fileno=int(sys.argv[1])))
