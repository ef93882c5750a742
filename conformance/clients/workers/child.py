"""Client processes as the harness sees them: one forked for its job, or one with a JVM that is kept."""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import msgspec

from conformance import limits
from conformance.clients.workers.job import Job, JobResult, Vendor
from conformance.errors import ClientError
from conformance.ledger import Ledger, inherited

_GOING_S = 5.0


def environment() -> dict[str, str]:
    """In which a client process finds this package, also from a checkout that is not installed."""
    here = str(pathlib.Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    return {**inherited(), "PYTHONPATH": path}


class Child:
    """One client process, seen from the harness."""

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
        self._good = False

    def wait(self, timeout_s: float) -> JobResult | None:
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
            process = self.job.header.process
            why = f"a client has {limits.CLIENT_S:.0f} s, the clients of a trial {limits.TRIAL_S:.0f} s"
            raise ClientError(f"{process} gave no result within {timeout_s:.0f} s: {why}") from error
        except ConnectionError:
            data = b""  # it was killed
        try:
            result = msgspec.json.decode(data, type=JobResult) if data else None
        except msgspec.DecodeError:
            result = None  # it was killed while it wrote
        self._good = result is not None and not (result.error or result.spent)
        return result

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
        """Release the socket; after `wait`, which has told whether the process is as good as new."""
        self._control.close()
        self._ended(self._good)


class _Warm:
    """One process with a JVM, and the socket by which it gets its jobs."""

    def __init__(self, ledger: Ledger, vendor: Vendor) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [str(theirs.fileno()), msgspec.json.encode(vendor).decode()]
            command = [sys.executable, "-m", "conformance.clients.workers.warm_jvms", *words]
            self.process, self.ticket = ledger.spawn(
                "client with a JVM", command, env=environment(), pass_fds=[theirs.fileno()]
            )

    def end(self, ledger: Ledger) -> None:
        """Hang up, and wait until it is gone; it is killed if it does not go."""
        self.control.close()
        try:
            self.process.wait(_GOING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        ledger.released(self.ticket)


class Pool:
    """The client processes with a JVM: one for each client that works at the same time, and no more."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._idle: dict[str, list[_Warm]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def spawn(self, job: Job, vendor: Vendor, log: pathlib.Path, descriptors: Sequence[int]) -> Child:
        """Give the job to one that is idle, or to a new one."""
        warm = self._taken(vendor)
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as undo:
            undo.callback(warm.end, self._ledger)  # where an interrupt comes it may have the job: nobody else uses it
            undo.callback(ours.close)
            with theirs, log.open("ab") as stream:
                passed = [theirs.fileno(), stream.fileno(), *descriptors]
                try:
                    socket.send_fds(warm.control, [job.encoded()], passed)
                except OSError as error:
                    raise ClientError(f"the client process with a JVM is gone: {error}") from error
            undo.pop_all()

        def ended(good: bool) -> None:
            with self._lock:
                again = good and not self._closed
                if again:
                    self._idle.setdefault(vendor.name, []).append(warm)
            if not again:
                warm.end(self._ledger)

        return Child(job, warm.process.pid, ours, log, ended)

    def close(self) -> None:
        """End those that are idle; one that works ends with its job."""
        with self._lock:
            self._closed = True
            idle = [warm for each in self._idle.values() for warm in each]
            self._idle.clear()
        for warm in idle:
            warm.end(self._ledger)

    def _taken(self, vendor: Vendor) -> _Warm:
        with self._lock:
            idle = self._idle.get(vendor.name, [])
            while idle:
                warm = idle.pop()
                if warm.process.poll() is None:
                    return warm
                warm.end(self._ledger)
        return _Warm(self._ledger, vendor)
