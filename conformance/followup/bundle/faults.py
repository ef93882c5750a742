"""The faults of the minimal script: signals, power loss, a relay that cuts the connection, and a disk under strace."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.faults.disk.injection import FILLED, SYNCS
from conformance.faults.frames.reader import KINDS
from conformance.followup.bundle.body import Body, CannotError, call, cannot, trigger
from conformance.scenario.script import (
    ConsumerCrash,
    Cut,
    DiskFull,
    FailedSync,
    HeldSync,
    Kill,
    Pause,
    PowerLoss,
    Recovery,
    Restart,
    Stop,
    Watched,
)


def restart(step: Restart, body: Body) -> None:
    """The lines of a start of the broker, on the disk that the step gives it."""
    words = ["clean=True"] if step.clean else []
    hurt = body.held or body.failing
    body.held, body.failing = 0.0, False
    if not isinstance(step.under, Watched | None):
        _under(step.under, body)
        words.append("before=hurt_disk(words)")
    body.lines.append(f"broker.restart({', '.join(words)})")
    if hurt:
        body.lines.append("prove_disk_hurt(notes)")


def end(body: Body) -> None:
    """The lines after the last step: a broker whose disk is hurt still is stopped, for strace to write down the end."""
    if body.held or body.failing:
        body.held, body.failing = 0.0, False
        body.lines += ["broker.stop()", "prove_disk_hurt(notes)"]


def _under(fault: HeldSync | FailedSync | DiskFull, body: Body) -> None:
    if "strace" in body.needs:
        raise CannotError("a second fault at the disk is not in it")
    if not body.files:
        raise CannotError(f"a disk under {fault.name} is not in it: nothing says what the journal's files are called")
    body.needs |= {"strace", "journal"}
    body.held = getattr(fault, "seconds", 0.0)
    body.failing = not body.held
    calls, done = _injection(fault)
    traced, injected = _set([*SYNCS, *FILLED]), f"{_set(calls)}:{done}"
    body.words |= {"traced": traced, "injected": injected, "files": repr(body.files), "fails": body.failing}
    if body.held:
        body.words["held"] = body.held


def _injection(fault: HeldSync | FailedSync | DiskFull) -> tuple[list[str], str]:
    """The system calls that fail or wait, and how, as `strace -e inject` takes them."""
    match fault:
        case HeldSync(seconds):
            return SYNCS, f"delay_enter={round(seconds * 1e6)}"
        case FailedSync(int(k)):
            return SYNCS, f"error=EIO:when={k}+"
        case DiskFull(int(k)):
            return FILLED, f"error=ENOSPC:when={k}+"
    raise cannot(fault, " at this point")


def _set(names: list[str]) -> str:
    """Each with `?`: a machine may have no call of that name."""
    return ",".join(f"?{name}" for name in names)


LARGEST = 4096
"""A message of so many bytes fits into one frame; the relay would count each of several frames."""

HOW = ("fin", "rst")
"""Not `half_open`: a client never notices it, and would have to guess how long to wait."""


def over_relay(function: str, words: Mapping[str, object], fault: Cut, body: Body, size: int) -> None:
    """The lines of a step over the relay; `CannotError` if the script cannot express the cut.

    Args:
        function: Of the client.
        words: Its arguments.
        fault: The cut, its number drawn.
        body: Gets the lines.
        size: Of the largest message that crosses, bytes.
    """
    at = fault.at
    if "tls" in body.needs:
        raise CannotError("a cut of a connection in TLS is not in it: its relay counts frames, and can read none")
    if fault.how not in HOW:
        raise cannot(fault, f", {fault.how.replace('_', '-')},")
    if at.kind not in KINDS or not isinstance(at.k, int):
        raise cannot(fault, " at this point")
    if size > LARGEST:
        raise CannotError("a cut among messages that take several frames is not in it")
    body.needs.add("relay")
    body.lines.append(f"fault = Cut(words, {at.kind!r}, {at.k}, {at.at!r}, {fault.how!r})")
    more = "" if function == "consume" else "fault=fault"  # what is consumed counts nothing after the cut
    body.lines.append(f"until_cut(fault, lambda: {call(function, words, over='fault.words', more=more)})")


EVENTS = {
    "publish": {"sent", "confirm", "ms"},
    "publish_in_transactions": {"before_commit", "commit_written", "committed", "ms"},
    "consume": {"process"},
}
"""The events that each function of the script counts for a trigger."""


def under_fault(function: str, words: Mapping[str, object], fault: object, body: Body) -> None:
    """The lines of a step that ends in such a fault; `CannotError` if the script cannot express it."""
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
