"""The pool of client processes: one process that has loaded everything, and one fork of it for each job.

A new Python with proton takes a quarter of a second to start; a run needs two hundred of them. The pool loads once
and forks, which takes milliseconds. It is single-threaded and opens no connection, so that a fork inherits nothing
that could be in use. Every child holds one end of a socket to the harness and ends when that hangs up: no client
outlives a harness, however it died.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence

import msgspec

from conformance.adapters.credentials import give, redacted
from conformance.clients.roles.play import play
from conformance.clients.session import Disconnected
from conformance.clients.session_factory import connect
from conformance.clients.workers.child import Child, Pool, environment
from conformance.clients.workers.job import Job, JobResult
from conformance.errors import ClientError, ConformanceError
from conformance.history import Recorder
from conformance.ledger import Ledger
from conformance.scenario.script import ConsumerCrash

_MAX_JOB = 1 << 16
_MAX_FDS = 64
_GOING_S = 5.0


def run_job(job: Job, pidfds: Sequence[int], control: int | None = None) -> JobResult:
    """Do one job in this process and return its result; errors of ours become `JobResult.error`.

    The recorder writes through if the fault kills this very process.
    """
    give(job.secrets)
    crashes = isinstance(job.fault, ConsumerCrash)
    recorder = Recorder(pathlib.Path(job.history), job.header, write_through=crashes)
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
        return JobResult(error=redacted(f"{job.header.process}: {error or type(error).__name__}", job.access))
    finally:
        recorder.close()


def _nursery(control: socket.socket) -> None:
    """Fork one child for each job that arrives; end when the harness hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the harness's to handle: it closes our socket
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds = _received(control)
        if not data:
            os._exit(0)  # there is nothing to tidy, and all that was loaded takes a second to be unloaded
        pid = os.fork()
        if pid == 0:
            control.close()
            _child(data, socket.socket(fileno=fds[0]), fds[1], fds[2:])
        for descriptor in fds:
            os.close(descriptor)
        with contextlib.suppress(BrokenPipeError):
            control.send(str(pid).encode())


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    """The next job; nothing where the harness has hung up, whatever it had not yet read."""
    try:
        data, descriptors, _, _ = socket.recv_fds(control, _MAX_JOB, _MAX_FDS)
    except ConnectionResetError:
        return b"", []
    return data, descriptors


def _child(data: bytes, harness: socket.socket, log: int, pidfds: list[int]) -> None:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(log, 1)
        os.dup2(log, 2)
        result = run_job(msgspec.json.decode(data, type=Job), pidfds, harness.fileno())
        harness.sendall(msgspec.json.encode(result))
        status = 0
    except BaseException:  # a fork must never return into the pool's loop
        traceback.print_exc()
    finally:
        os._exit(status)


class WorkerPool:
    """The harness's end: `spawn` starts a client process and returns at once.

    Raises:
        ClientError: The pool could not start, or has died.
    """

    def __init__(self, ledger: Ledger) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._warm = Pool(ledger)
        self._ledger = ledger
        self._lock = threading.Lock()
        with theirs:
            command = [sys.executable, "-m", "conformance.clients.workers.pool", str(theirs.fileno())]
            self.process, self._ticket = ledger.spawn(
                "client pool", command, env=environment(), pass_fds=[theirs.fileno()]
            )

    def spawn(self, job: Job, log: pathlib.Path, pidfds: Sequence[int] = ()) -> Child:
        """Fork a client for this job; `pidfds` are the processes that its trigger may kill.

        One with a JVM is no fork: a JVM does not survive that.
        """
        if job.vendor is not None:
            return self._warm.spawn(job, job.vendor, log, pidfds)
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as undo:
            undo.callback(ours.close)  # where an interrupt comes, the client may be there already: it ends with this
            with theirs, log.open("ab") as stream:
                pid = self._fork(job, [theirs.fileno(), stream.fileno(), *pidfds])
            undo.pop_all()
        return Child(job, pid, ours, log)

    def _fork(self, job: Job, descriptors: Sequence[int]) -> int:
        try:
            with self._lock:
                socket.send_fds(self._control, [job.encoded()], descriptors)
                answer = self._control.recv(64)
        except OSError:
            answer = b""
        if not answer:
            raise ClientError(
                f"the parent of the client processes (pid {self.process.pid}) was killed, perhaps because the machine "
                "ran out of memory: run it again"
            )
        return int(answer)

    def close(self) -> None:
        """End the pool; children end when their own sockets hang up."""
        self._warm.close()
        self._control.close()
        self.process.wait()
        self._ledger.released(self._ticket)


if __name__ == "__main__":
    _nursery(socket.socket(fileno=int(sys.argv[1])))
