"""Faults at a process, in the minimal script: signals to the broker or to the client itself, and the loss of power."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.followup.bundle.body import Body, CannotError, call, cannot, trigger
from conformance.scenario import ConsumerCrash, Kill, Pause, PowerLoss, Recovery, Stop

EVENTS = {
    "publish": {"sent", "confirm", "ms"},
    "publish_in_transactions": {"before_commit", "commit_written", "committed", "ms"},
    "consume": {"process"},
}
"""The events that each function of the script counts for a trigger."""


def under_fault(function: str, words: Mapping[str, object], fault: object, body: Body) -> None:
    """The lines of a step that ends in such a fault; `CannotError` where the script has no words for it."""
    at = trigger(fault, EVENTS[function])
    if isinstance(fault, ConsumerCrash):
        body.needs.add("child")
        body.lines.append(f"fault = Fault(lambda: os.kill(os.getpid(), signal.SIGKILL), {at})")
        body.lines.append(f"notes.in_child(lambda: {call(function, words, more='fault=fault')})")
        return
    body.lines.append(f"fault = Fault({_done(fault, body)}, {at})")
    body.lines.append(call(function, words, more="fault=fault"))
    body.lines.append("broker.wait_gone()")


def _done(fault: object, body: Body) -> str:
    match fault:
        case Kill(delay_us=int(delay)) if delay:
            return f"lambda: (time.sleep({delay / 1e6}), broker.signal(signal.SIGKILL))"
        case Kill():
            return "lambda: broker.signal(signal.SIGKILL)"
        case Stop():
            return "lambda: broker.signal(signal.SIGTERM)"
        case Pause(then_kill=True, hold_s=seconds):
            body.needs.add("halt")
            return f"lambda: broker.halt({seconds})"
        case PowerLoss():
            body.needs.add("power")
            if fault.torn:
                body.missing.append("it tears no writes: everything that was not synced is gone")
            return "broker.cut_power, dark=True"
    raise cannot(fault)


def in_recovery(fault: Kill, body: Body) -> None:
    """The line of a start that is broken off by a second kill."""
    if not (isinstance(fault.at, Recovery) and isinstance(fault.at.k, int)):
        raise cannot(fault, " at this point")
    if "power" in body.needs:
        raise CannotError("a kill in the recovery after a loss of power is not in it")
    body.needs |= {"recovery", "journal"}
    body.lines.append(f"kill_in_recovery(words, broker, {fault.at.k})")
