"""A faulty disk, in the minimal script: the broker runs under strace, which answers for the kernel."""

from __future__ import annotations

from conformance.faults.disk.injection import FILLED, SYNCS
from conformance.followup.bundle.body import Body, CannotError, cannot
from conformance.scenario import DiskFull, FailedSync, HeldSync, Restart, Watched


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
    calls, done = _done(fault)
    traced, injected = _set([*SYNCS, *FILLED]), f"{_set(calls)}:{done}"
    body.words |= {"traced": traced, "injected": injected, "files": repr(body.files), "fails": body.failing}
    if body.held:
        body.words["held"] = body.held


def _done(fault: HeldSync | FailedSync | DiskFull) -> tuple[list[str], str]:
    """The calls that are hurt, and how, in strace's words."""
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
