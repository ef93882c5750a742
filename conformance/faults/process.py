"""Kill, stop or pause a broker, or crash a client, by signals; also kill a broker in its recovery.

The signal is sent by the client process that owns the trigger, through handles (`processes`) that were opened for the
whole tree when the fault was armed. The harness proves here that the fault was fired and that no process is left. A
kill in the recovery has no client: the harness sends it, at an event of the kernel.
"""

from __future__ import annotations

import contextlib
import pathlib
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from conformance.errors import FaultError
from conformance.faults.watch import ACCESSES, FileWatch
from conformance.processes import send_all, wait_stopped
from conformance.records import NOT_FIRED

GONE_S = 20.0
"""How long a broker may take to end."""

STOPPED_S = 5.0
"""How long its threads may take to stop at SIGSTOP."""

_RECOVERY_S = 60.0
_TICK_MS = 20
_ATTEMPTS = 3


class Target(Protocol):
    """What a fault needs of a broker: its processes, or the commands that take their place."""

    def armed(self, *commands: str) -> contextlib.AbstractContextManager[list[int]]:
        """The descriptors by which the fault is fired: a handle of each process, or those of its commands."""

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether all of them have ended within that time."""


def prove_fired(fault: str, *, fired: bool, seen: int, wanted: int) -> None:
    """Raise `FaultError` unless the client that owns the trigger has fired; it had seen `seen` of `wanted` events."""
    if not fired:
        raise FaultError(f"the {fault} {NOT_FIRED}: {seen} events of the {wanted} that its trigger waits for")


def prove_gone(target: Target, fault: str) -> None:
    """Wait for the end of every process of the target; `FaultError` if some are left."""
    if not target.wait_gone(GONE_S):
        raise FaultError(f"the {fault} did not take effect: the broker was still there after {GONE_S:.0f} s")


@contextlib.contextmanager
def halted(target: Target) -> Iterator[None]:
    """Halt every process of a target until the end of the `with`; `FaultError` if one goes on, or there is none."""
    with target.armed("pause") as handles:
        if not handles:
            raise FaultError("the pause met nothing: the broker does not run")
        try:
            send_all(handles, signal.SIGSTOP)
            if not wait_stopped(handles, STOPPED_S):
                raise FaultError(f"the pause did not take effect within {STOPPED_S:.0f} s of SIGSTOP")
            yield
        finally:
            send_all(handles, signal.SIGCONT)


class StartingTarget(Target, Protocol):
    """A target that can be killed before it is ready."""

    @property
    def was_ready(self) -> bool:
        """Whether the broker has become ready; also after its end."""


def kill_in_recovery(target: StartingTarget, launch: Callable[[], None], journal: pathlib.Path, k: int) -> str:
    """Start the broker, and kill every process of it at the k-th access (open, read or write) to its journal's files.

    Return the access and the duration of the signals, for people. A busy machine may kill too late: no client has used
    that broker, and it is started and killed again, `_ATTEMPTS` times in all. Raises `FaultError` if every recovery was
    over before its kill, or if the broker is not gone.
    """
    missed = ""
    for _ in range(_ATTEMPTS):
        seen, took = _start_and_kill(target, launch, journal, k)
        if seen >= k and not target.was_ready:
            return f"at access {seen} to the journal, {took} us for the signals"
        missed = missed or (
            f"the kill {NOT_FIRED}: {seen} accesses to the journal of the {k} that its trigger waits for"
            if seen < k
            else f"the recovery was over before the kill at access {k} to the journal"
        )
    raise FaultError(missed)


def _start_and_kill(
    target: StartingTarget, launch: Callable[[], None], journal: pathlib.Path, k: int
) -> tuple[int, int]:
    """Return the accesses that were seen before the kill, and how many microseconds its signals took."""
    with contextlib.closing(FileWatch(journal, ACCESSES, below=True)) as watch:
        launch()
        with target.armed("kill") as descriptors:
            seen = _wait(target, watch, descriptors[0], k) if descriptors else 0
            event = time.monotonic_ns()
            send_all(descriptors, signal.SIGKILL)
            took = (time.monotonic_ns() - event) // 1000
        end_now(target)
    prove_gone(target, "kill")
    return seen, took


def kill_after(target: Target, ms: int) -> str:
    """Kill every process of a broker that no client uses, after so many milliseconds; say so, for people.

    Raises `FaultError` if the broker ended before, or is not gone.
    """
    if target.wait_gone(ms / 1000):
        raise FaultError("the broker ended by itself before the kill")
    end(target, "kill")
    return f"{ms} ms after it was ready, without use"


def end(target: Target, fault: str) -> None:
    """Kill every process of a target, and prove that all are gone; `FaultError` if some are left."""
    end_now(target)
    prove_gone(target, fault)


def end_now(target: Target) -> None:
    """Kill every process of a broker, and once more what was forked during this look at its tree.

    Smallest counter-example: RabbitMQ's leader is a shell, and the process that reads the journal is its child.
    """
    for _ in range(2):
        with target.armed("kill") as descriptors:
            send_all(descriptors, signal.SIGKILL)


def _wait(target: StartingTarget, watch: FileWatch, pidfd: int, k: int) -> int:
    """Return the accesses seen, once these are `k`, the broker is ready or gone, or the time is over."""
    poller = select.poll()
    poller.register(watch, select.POLLIN)
    poller.register(pidfd, select.POLLIN)
    seen, deadline = 0, time.monotonic() + _RECOVERY_S
    while seen < k and (left := deadline - time.monotonic()) > 0:
        found = {descriptor for descriptor, _ in poller.poll(min(left * 1000, _TICK_MS))}
        if watch.fileno() in found:
            seen = watch.read()
        elif target.was_ready:
            break
        elif pidfd in found:
            with target.armed("kill") as others:
                if not others:
                    break
            poller.unregister(pidfd)  # a leader that forks, and leaves the rest to the others
    return seen
