"""Kill, stop or halt a process: SIGKILL, SIGTERM or SIGSTOP to the broker, or SIGKILL to the client itself.

The signal is sent by the client process that owns the trigger, through pidfds that were opened for the whole tree when
the fault was armed: a pid could have been reused, a pidfd cannot. Here is what stays with the harness: the opening,
and the proof that the tree is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from typing import Protocol

from conformance.adapters.external.broker import WitnessConnection
from conformance.errors import FaultError

_GONE_S = 20.0


class Target(Protocol):
    """What a fault needs of a broker."""

    def pidfds(self) -> contextlib.AbstractContextManager[list[int]]:
        """A pidfd for each process of the tree."""

    def wait_gone(self, timeout_s: float) -> bool:
        """Whether all of them are gone within that time."""


class CommandedBroker(Target, Protocol):
    """A broker whose faults are commands of its owner's."""

    def armed(self, fault: str) -> contextlib.AbstractContextManager[list[int]]:
        """For each command the end of a pipe, where a line starts it, and the pidfd of its process."""

    def within_s(self, fault: str) -> float:
        """The seconds that it has to take effect."""


def send(descriptors: Iterable[int], number: signal.Signals) -> None:
    """Send the signal by each of these pidfds; who is gone already is none the worse for it."""
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


def fire_by_command(broker: CommandedBroker, fault: str, address: tuple[str, int]) -> str:
    """Fire the owner's command of a fault that ends the broker, as a trigger does; returns what was seen of it.

    A connection to `address` that was open before must be lost in its time, else `FaultError`.
    """
    with broker.armed(fault) as (gate, _), WitnessConnection(address) as witness:
        began = time.monotonic()
        os.write(gate, b"go\n")
        if not witness.lost(broker.within_s(fault)):
            raise FaultError(
                f"the {fault} did not take effect: a connection was still there {broker.within_s(fault):g} s after its "
                f"command began (external.{fault}.seconds)"
            )
        took = time.monotonic() - began
    prove_gone(broker, fault)
    return f"a connection was lost {took * 1000:.0f} ms after its command began"


def prove_gone(target: Target, fault: str) -> None:
    """Wait for the end of every process of the target; `FaultError` where some are left."""
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
