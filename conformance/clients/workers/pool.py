"""The harness's side of its worker processes: start one for a job, wait for its result, end it.

Every worker holds one end of a socket to the harness and ends when that hangs up: no client outlives a harness, however
it died.
"""

from __future__ import annotations

import contextlib
import pathlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import msgspec

from conformance import limits, processes
from conformance.clients.job import Job, JobResult, Vendor
from conformance.errors import ClientError
from conformance.ledger import Ledger, python_environment

_GOING_S = 5.0


class Child:
    """One worker process with one job. `ended` is called by `close` with whether the process can do another job."""

    def __init__(
        self,
        job: Job,
        pid: int,
        control: socket.socket,
        log: pathlib.Path,
        ended: Callable[[bool], object] = bool,
    ) -> None:
        self.job, self.pid, self.log = job, pid, log
        self._control, self._ended = control, ended
        self._reusable = False

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is a result, or the process has ended."""
        return self._control.fileno()

    def wait(self, timeout_s: float) -> JobResult | None:
        """Return its result; None if it died without one.

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
            process = self.job.header.process
            why = f"a client has {limits.CLIENT_S:.0f} s, the clients of a trial {limits.TRIAL_S:.0f} s"
            raise ClientError(f"{process} gave no result within {timeout_s:.0f} s: {why}") from error
        except ConnectionError:
            data = b""  # it was killed
        try:
            result = msgspec.json.decode(data, type=JobResult) if data else None
        except msgspec.DecodeError:
            result = None  # it was killed while it wrote
        self._reusable = result is not None and result.reusable
        return result

    def end(self) -> None:
        """Hang up, which ends the process, and wait until it is gone; kill it if it stays."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for the result, as close would not
        with contextlib.suppress(ProcessLookupError), processes.open_pidfd(self.pid) as handle:
            if not processes.wait_ended([handle], _GOING_S):
                processes.send(handle, signal.SIGKILL)
                processes.wait_ended([handle], _GOING_S)

    def close(self) -> None:
        """Release the socket, after `wait`."""
        self._control.close()
        self._ended(self._reusable)


class _Worker:
    """A process that takes jobs over a socket: one that forks a child for each, or one with a JVM for one vendor."""

    def __init__(self, ledger: Ledger, what: str, *vendor: Vendor) -> None:
        self._ledger = ledger
        self.control, theirs = socket.socketpair()
        with theirs:
            words = [str(theirs.fileno()), *(msgspec.json.encode(each).decode() for each in vendor)]
            command = [sys.executable, "-m", "conformance.clients.workers.worker", *words]
            self.process, self._ticket = ledger.spawn(
                what, command, env=python_environment(), pass_fds=[theirs.fileno()]
            )

    def send(self, job: Job, descriptors: Sequence[int]) -> None:
        """Send a job, which is one line, and its descriptors. Raises OSError if the process is gone."""
        line = job.encoded() + b"\n"
        sent = socket.send_fds(self.control, [line], descriptors)
        if sent < len(line):  # no empty send: after the whole line the process may have failed and ended
            self.control.sendall(line[sent:])

    def end(self) -> None:
        """Hang up, and wait until it is gone; kill it if it stays."""
        self.control.close()
        try:
            self.process.wait(_GOING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._ledger.released(self._ticket)


class JvmPool:
    """The worker processes with a JVM: one for each client that works at the same time, and no more."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._idle: dict[str, list[_Worker]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def spawn(self, job: Job, vendor: Vendor, log: pathlib.Path, descriptors: Sequence[int]) -> Child:
        """Give the job to an idle process, or to a new one."""
        worker = self._taken(vendor)
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as undo:
            undo.callback(worker.end)  # after an interrupt it may have the job: it is not used again
            undo.callback(ours.close)
            with theirs, log.open("ab") as stream:
                passed = [theirs.fileno(), stream.fileno(), *descriptors]
                try:
                    worker.send(job, passed)
                except OSError as error:
                    raise ClientError(f"the client process with a JVM is gone: {error}") from error
            undo.pop_all()

        def ended(reusable: bool) -> None:
            with self._lock:
                again = reusable and not self._closed
                if again:
                    self._idle.setdefault(vendor.name, []).append(worker)
            if not again:
                worker.end()

        return Child(job, worker.process.pid, ours, log, ended)

    def close(self) -> None:
        """End the idle processes; one that works ends with its job."""
        with self._lock:
            self._closed = True
            idle = [worker for each in self._idle.values() for worker in each]
            self._idle.clear()
        for worker in idle:
            worker.end()

    def _taken(self, vendor: Vendor) -> _Worker:
        with self._lock:
            idle = self._idle.get(vendor.name, [])
            while idle:
                worker = idle.pop()
                if worker.process.poll() is None:
                    return worker
                worker.end()
        return _Worker(self._ledger, "client with a JVM", vendor)


class WorkerPool:
    """Starts a worker process for each job. `spawn` returns at once; `ClientError` if the parent process has died."""

    def __init__(self, ledger: Ledger) -> None:
        self._jvms = JvmPool(ledger)
        self._lock = threading.Lock()
        self._parent = _Worker(ledger, "client pool")
        self.process = self._parent.process

    def spawn(self, job: Job, log: pathlib.Path, handles: Sequence[int] = ()) -> Child:
        """Start a client for this job; `handles` are of the processes that its trigger may kill."""
        if job.connection.vendor is not None:
            return self._jvms.spawn(job, job.connection.vendor, log, handles)
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as undo:
            undo.callback(ours.close)  # at an interrupt the client may exist already: it ends with this socket
            with theirs, log.open("ab") as stream:
                pid = self._fork(job, [theirs.fileno(), stream.fileno(), *handles])
            undo.pop_all()
        return Child(job, pid, ours, log)

    def _fork(self, job: Job, descriptors: Sequence[int]) -> int:
        try:
            with self._lock:
                self._parent.send(job, descriptors)
                answer = self._parent.control.recv(64)
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
        self._jvms.close()
        self._parent.end()
