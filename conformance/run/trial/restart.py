"""Start a broker again after a fault: in place, and if that fails, from a copy of the same data.

The copy is made before the start, so it is the data as the fault left them. A second broker, on other ports, starts
from the copy: this rules out a port in use and a start that was slow once. A third broker, without data, shows that
this machine can start a broker at all. Then only the data explain the failure: the broker has not recovered.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable

from conformance.adapters import Broker, ports
from conformance.adapters.broker_log import reasons_in
from conformance.adapters.interface import Node
from conformance.errors import ClientError, DroppedError, LaunchError, StartFailure
from conformance.history import NOT_READY, NOT_RECOVERED, Phase
from conformance.ledger import child_environment
from conformance.run.broker_pool import RunningBroker
from conformance.run.trial.clients import check_alive

LONGEST = 10
"""A start may take so many times the slowest start before any fault, and always `AT_LEAST_S`."""
AT_LEAST_S = 60.0

FULL = 1 << 20
"""A disk with fewer free bytes counts as full: a log may not say so."""

COPY_BYTES = 1 << 30
"""More data than this is not copied."""

MACHINE = {
    "a port is taken": r"address (is )?already in use|\bEADDRINUSE\b|BindException|port \S+ is (already )?in use",
    "a disk is full": r"no space left on device|\bENOSPC\b|disk quota exceeded|disk is full",
    "there is too little memory": r"OutOfMemoryError|cannot allocate memory|\bENOMEM\b|insufficient memory|bad_alloc|"
    r"There is insufficient memory|Could not reserve enough space",
    "there are too many files or processes": r"too many open files|\bEMFILE\b|\bENFILE\b|"
    r"resource temporarily unavailable|unable to create (new )?native thread",
    "a file must not be read or written": r"permission denied|\bEACCES\b|read-only file system",
}
"""Causes in this machine why a start fails, and the patterns that show them in the log of the broker.

Names of errors are whole words: `DirectMethodHandleAccessor`, in stack traces of Java 18 and later, has EACCES in it.
"""


_BY_SIGNAL = 128
"""A shell that waits for a broker adds this to the number of the signal that ended it."""

_BY_TIMEOUT = 124
"""The status of `timeout N COMMAND` (coreutils) when it has stopped the command: the file of the broker says so."""

_OWN_SIGNALS = frozenset(
    {
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
    }
)
"""Signals that a process gives itself, or gets for what it does."""


@dataclasses.dataclass(frozen=True)
class NotReady:
    """A broker that did not start again. `FAIL`: it has not recovered; `INFO`: the cause is unknown."""

    phase: Phase
    reason: str


class RestartAttempt:
    """One start after a fault, or one end after such a start, with a copy of the data from before it."""

    def __init__(self, running: RunningBroker) -> None:
        self._running = running
        facts = running.node.facts
        self._copy = facts.folder.parent / f"{facts.folder.name}-data"
        self._no_copy = facts.no_copy or copy_data(facts.data, self._copy)

    def start(self, traced: Callable[..., None] | None = None) -> NotReady | None:
        """Start the broker, by `traced` if a tracer is its parent; returns None if it is ready.

        Raises `LaunchError` if this machine caused the failure, or the cause is not clear. A traced start that fails
        does not count against the broker unless the data also fail without a tracer: the tracer slows the broker down,
        or fails its syncs, and a broker whose sync fails should end.
        """
        try:
            (traced or self._running.start)(ready_s=self.ready_s)
        except LaunchError as error:
            if not self._running.start_seconds:
                raise
            self._check_machine(error)
            found = self._without_copy(self._second(_only_of_broker(error)))
            if traced and found.phase is not Phase.FAIL:
                raise
            return found
        shutil.rmtree(self._copy, ignore_errors=True)
        return None

    def died(self, error: LaunchError, queue: str) -> NotReady:
        """Judge a broker that ended by itself after a start that followed a fault; `error` says how.

        The second broker starts from the data as they were at the end of the first, and a client receives the messages
        of its queue. If it ends too, the broker has not recovered, unless the client also ends a broker without data.
        Raises `LaunchError` like `start`.
        """
        self._check_machine(error)
        return self._without_copy(self._second(_only_of_broker(error), queue))

    def _check_machine(self, error: LaunchError) -> None:
        """Raise `LaunchError` if the disk of the data is full, or another process has a port of the broker.

        Counter-example to reading the log only: Broker-J writes nothing about its port to standard output.
        """
        if self._no_copy:
            return
        if shutil.disk_usage(self._running.node.facts.data).free < FULL:
            raise _of_machine(error, "a disk is full")
        for protocol in self._running.protocols:
            port = self._running.broker.service.endpoint(protocol)[1]
            if not ports.free(port):
                raise _of_machine(error, f"port {port} is taken")

    def _without_copy(self, found: NotReady) -> NotReady:
        """Remove the copy, unless it is evidence."""
        if found.phase is not Phase.FAIL:
            shutil.rmtree(self._copy, ignore_errors=True)
        return found

    @property
    def ready_s(self) -> float:
        """How long a start may take."""
        return max(AT_LEAST_S, LONGEST * max(self._running.start_seconds, default=0.0))

    def _second(self, first: LaunchError, queue: str = "") -> NotReady:
        """Try a second broker on a copy of the data; with a `queue`, a client uses that queue after the start."""
        if self._no_copy:
            return _unknown(first, f"no copy of its data could be tried: {self._no_copy}")
        second = self._try(self._copy, queue)
        if second is None:
            served = ", and a client used its queue" if queue else ""
            return _unknown(first, f"a second broker started from a copy of the same data, on other ports{served}")
        if second.failure is None:
            return _unknown(
                first, f"a second broker, on a copy of its data, failed in another way: {describe_failure(second)}"
            )
        _only_of_broker(second)
        if not self._shows_the_data(first, second, queue):
            return _unknown(first, "a copy of the data of a healthy broker does not start on other ports either")
        copied = f"a second broker, on a copy of the same data and on other ports: {describe_failure(second)}"
        return NotReady(Phase.FAIL, f"{NOT_RECOVERED}: {describe_failure(first)}; {copied}")

    def _shows_the_data(self, first: LaunchError, second: LaunchError, queue: str) -> bool:
        """Whether both failed because of the data: a broker without data starts, and so does one on a copy of its data.

        A copy proves nothing if the data name ports or hosts. But two starts whose logs end with the same line have the
        same cause. Raises `LaunchError` if a broker without data does not start.
        """
        with contextlib.closing(self._running.another()) as fresh:
            fresh.start()
            self._use(fresh, queue)
            if _ending(first) and _ending(first) == _ending(second):
                return True
            fresh.stop()
            return self._try(fresh.node.facts.data, queue) is None

    def _try(self, data: pathlib.Path, queue: str = "") -> LaunchError | None:
        """Start another broker on a copy of this data, use the `queue`, and end the broker.

        Returns why it was not ready, or how it ended by itself; None if it did neither.
        """
        with contextlib.closing(self._running.another()) as other:
            shutil.rmtree(other.node.facts.data, ignore_errors=True)
            if why := copy_data(data, other.node.facts.data):
                raise LaunchError(f"a second broker could not be given a copy of the data: {why}")
            try:
                other.start(ready_s=self.ready_s)
                self._use(other, queue)
            except LaunchError as error:
                return error
        return None

    def _use(self, broker: Broker, queue: str) -> None:
        """Send a message to the queue and receive until it comes; `LaunchError` if the broker ends meanwhile.

        Other errors are ignored: the broker is running.
        """
        try:
            if queue:
                self._running.exchange(broker, queue)
        except ClientError:
            check_alive(broker.node)


def describe_failure(error: LaunchError) -> str:
    """Return the failure and the line of the log that explains most, without paths of this machine."""
    what = str(error).partition("; its log ")[0]
    last = (error.log_reasons or (_last_line(error.log_tail),))[-1]
    return f"{what} (its log says: {_plain(last)[:200]})" if last else what


def oom_kills() -> int:
    """Return how many processes of this machine the kernel has killed because memory ran out; 0 if it cannot tell."""
    with contextlib.suppress(OSError):
        found = re.search(r"^oom_kill (\d+)$", pathlib.Path("/proc/vmstat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def own_end(node: Node, error: LaunchError | ClientError, *, oom: bool) -> str:
    """Return how a broker ended, dropped a connection or broke the protocol by itself; empty if another cause may be.

    Its end is its own with a status other than 0, or by a signal that a process gives itself. Counter-examples: the
    kernel kills it for want of memory (SIGKILL); a person, or its own file, stops it in order (status 0, or SIGTERM).
    """
    if oom or shutil.disk_usage(node.facts.data).free < FULL:
        return ""
    if isinstance(error, DroppedError):
        return str(error)
    if not isinstance(error, LaunchError) or error.failure is None or reason_of_machine(error):
        return ""
    status = node.target.exit_status
    if not status or status == _BY_TIMEOUT:
        return ""
    ended_by = -status if status < 0 else status - _BY_SIGNAL
    return "" if 0 < ended_by < signal.NSIG and ended_by not in _OWN_SIGNALS else describe_failure(error)


def reason_of_machine(error: LaunchError) -> str:
    """Return the cause of a failed start if it is this machine; else empty.

    >>> reason_of_machine(LaunchError("ended", log_tail=["bind: Address already in use"]))
    'a port is taken'
    >>> reason_of_machine(LaunchError("ended", log_tail=["record 7 is damaged, DirectMethodHandleAccessor.invoke"]))
    ''
    """
    text = "\n".join([str(error), *error.log_reasons, *error.log_tail])
    return next((why for why, words in MACHINE.items() if re.search(words, text, re.IGNORECASE)), "")


def _only_of_broker(error: LaunchError) -> LaunchError:
    """Return the error if only the broker explains it; else raise it, with the cause if that is known."""
    if error.failure is None or error.failure is StartFailure.SIGNALLED:
        raise error
    if why := reason_of_machine(error):
        raise _of_machine(error, why) from error
    return error


def _of_machine(error: LaunchError, why: str) -> LaunchError:
    what = f"{error}; {why}: this machine is the cause, not the broker"
    return LaunchError(what, log_tail=error.log_tail, log_reasons=error.log_reasons, log=error.log)


def _unknown(first: LaunchError, why: str) -> NotReady:
    return NotReady(Phase.INFO, f"{NOT_READY}: {describe_failure(first)}; {why}")


def _ending(error: LaunchError) -> str:
    """Return how the log of a broker that ended by itself ends, without paths and numbers, to compare two brokers.

    An error far before the end does not count: a broker may log it at each start and go on.
    """
    return re.sub(r"\d+", "#", _plain(_last_line(error.log_tail))) if error.failure is StartFailure.ENDED else ""


def _last_line(log: Iterable[str]) -> str:
    """Return the last line that names an error, or else the last line.

    Artemis logs its orderly end after the error, and Broker-J logs a stack trace after it.
    """
    lines = [line.strip() for line in log if line.strip()]
    return next(reversed(reasons_in("\n".join(lines))), lines[-1] if lines else "")


def _plain(line: str) -> str:
    return re.sub(r"(?<![\w.])/[^\s:]+", "...", line)


def copy_data(data: pathlib.Path, to: pathlib.Path) -> str:
    """Copy a data folder; return why that is not possible, or empty."""
    shutil.rmtree(to, ignore_errors=True)
    try:
        size = sum(path.lstat().st_blocks * 512 for path in data.rglob("*"))
        if size > COPY_BYTES:
            return f"it has {size >> 20:,} MB, and at most {COPY_BYTES >> 20:,} are copied"
        if (free := shutil.disk_usage(to.parent).free) < 2 * size:
            return f"it has {size >> 20:,} MB, and {free >> 20:,} MB are free"
        # cp, because it takes sockets and pipes as they are. Blocks of zeros become holes, so that a copy dirties few
        # pages before the start that is measured (2 a trial: reference 8.2 MB as it is, 0.3 MB so; Artemis 2.56.0 22.5
        # and 0.4 MB; in all about 1 % of a trial either way). A hard link, or a copy after a failed start, would not
        # do: brokers write their files in place, and a start that fails may have written before it does.
        command = ["cp", "--archive", "--reflink=auto", "--sparse=always", "--", str(data), str(to)]
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{error.strerror}"
    return " ".join(done.stderr.split())[:200] if done.returncode else ""
