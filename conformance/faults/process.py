"""Kill, stop or pause a process: SIGKILL, SIGTERM or SIGSTOP to the broker, or SIGKILL to the client itself.

The signal is sent by the client process that owns the trigger, through pidfds that were opened for the whole tree when
the fault was armed: a pid could have been reused, a pidfd cannot. This module has what the harness does: it proves that
the fault was fired and that no process is left.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from typing import Protocol

from conformance.errors import FaultError

_GONE_S = 20.0


class Target(Protocol):
    """What a fault needs of a broker: its processes, or the commands that stand for them."""

    def armed(self, fault: str) -> contextlib.AbstractContextManager[list[int]]:
        """The descriptors by which the fault is fired: a pidfd for each process, or those of its commands."""

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether all of them have ended within that time."""


def send(descriptors: Iterable[int], number: signal.Signals) -> None:
    """Send the signal by each of these pidfds; a process that has ended is passed over."""
    for descriptor in descriptors:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)


def prove_ended(target: Target, fault: str, *, fired: bool, seen: int, wanted: int) -> None:
    """Raise `FaultError` unless the signal was sent and no process of the target is left.

    Args:
        target: The broker that was to end.
        fault: `kill` or `stop`, for the text.
        fired: Whether the client that owns the trigger says that it sent the signals.
        seen: How many of the trigger's events it had counted.
        wanted: At which of them it should have fired.
    """
    _prove_fired(fault, fired=fired, seen=seen, wanted=wanted)
    prove_gone(target, fault)


def prove_gone(target: Target, fault: str) -> None:
    """Wait for the end of every process of the target; `FaultError` if some are left."""
    if not target.wait_gone(_GONE_S):
        raise FaultError(f"the {fault} did not take effect: the broker was still there after {_GONE_S:.0f} s")


def prove_paused(*, fired: bool, seen: int, wanted: int) -> None:
    """Raise `FaultError` unless the pause was fired; that it took effect was shown by the client that fired it."""
    _prove_fired("pause", fired=fired, seen=seen, wanted=wanted)


def _prove_fired(fault: str, *, fired: bool, seen: int, wanted: int) -> None:
    if not fired:
        raise FaultError(f"the {fault} did not fire: {seen} events of the {wanted} that its trigger waits for")


def prove_crashed(*, last_event_fired: bool, seen: int) -> None:
    """Raise `FaultError` unless the last thing that the dead client wrote is that its crash was fired."""
    if not last_event_fired:
        raise FaultError(f"the client died, but not of its fault: it had written {seen} events")
