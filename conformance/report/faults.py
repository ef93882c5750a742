"""Describe faults and triggers in sentences."""

from __future__ import annotations

from conformance.scenario.script import (
    After,
    All,
    Between,
    ConsumerCrash,
    Cut,
    Delay,
    DiskFault,
    DiskFull,
    FailedSync,
    Fault,
    Frame,
    HeldSync,
    HoldLink,
    Kill,
    Nth,
    Pause,
    PowerLoss,
    Recovery,
    Restart,
    Stop,
    Throttle,
    Watched,
)

_EVENTS = {
    "sent": "send that was written",
    "confirm": "confirm",
    "returned": "send that has returned",
    "confirm_immediate": "confirm of a send with Ack Immediately",
    "confirm_range": "confirm of several sends",
    "process": "processing",
    "ack_written": "acknowledgement that was written",
    "ack": "confirmed acknowledgement",
    "before_commit": "transaction that lacks only its commit",
    "commit_written": "request to commit",
    "committed": "answered commit",
}
_FRAMES = {
    "send": "send",
    "answer": "answer of the broker",
    "deliver": "delivery",
    "acknowledge": "acknowledgement",
    "begin": "request to begin a transaction",
    "begin_answer": "answer to a begin",
    "commit": "request to commit",
    "commit_answer": "answer to a commit",
    "rollback": "request to roll back",
    "rollback_answer": "answer to a rollback",
}
_PLACES = {"before": "before", "middle": "in the middle of", "after": "right after"}
_CUTS = {"fin": "Close the connection cleanly", "rst": "Reset the connection", "half_open": "Silence the connection"}
_DIRECTIONS = {"to_client": "from the broker to the client", "to_broker": "from the client to the broker"}


def ordinal(number: int) -> str:
    """Return an ordinal number.

    >>> ordinal(1), ordinal(12), ordinal(1003)
    ('1st', '12th', '1,003rd')
    """
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


def restart_sentence(step: Restart) -> str:
    """Describe how the broker is started again."""
    how = "Stop the broker cleanly and start it again" if step.clean else "Start the broker again"
    text = f"{how} on the same data"
    if step.until is not None:
        text += f"; {_trigger(step.until.at)} every process of it is killed, and it is started once more"
    return f"{text}; {_disk(step.under)}." if step.under is not None else f"{text}."


def _disk(fault: DiskFault) -> str:
    match fault:
        case Watched():
            return "its writes and syncs of the journal are traced"
        case HeldSync():
            return f"every sync of its journal begins {fault.seconds:g} s late until it ends"
        case FailedSync():
            return f"from {_number(fault.k)} on, each sync of its journal by one thread fails with EIO"
        case DiskFull():
            return f"from {_number(fault.k)} on, each write to its journal by one thread fails with ENOSPC"


def fault_sentence(fault: Fault) -> str:
    """Describe what is done, and when."""
    match fault:
        case Kill():
            return f"SIGKILL to every process of the broker at {_trigger(fault.at)}{_later(fault.delay_us)}."
        case Stop():
            return f"SIGTERM to the broker at {_trigger(fault.at)}."
        case Pause():
            end = "SIGKILL" if fault.then_kill else "SIGCONT"
            at = _trigger(fault.at)
            return f"SIGSTOP to every process of the broker at {at}, and {end} {fault.hold_s:g} s later."
        case ConsumerCrash():
            return f"SIGKILL to the client process itself at {_trigger(fault.at)}."
        case PowerLoss():
            some = "; some pages that were not synced are written, and others are lost" if fault.torn else ""
            return f"Power loss at {_trigger(fault.at)}: data that was not synced is lost{some}."
        case Cut():
            return f"{_CUTS[fault.how]} {_trigger(fault.at)}."
        case HoldLink():
            way = _DIRECTIONS[fault.direction]
            return f"{_trigger(fault.at).capitalize()}, nothing passes {way} for {fault.hold_s:g} s."
        case Delay():
            return f"A round trip to the broker takes {fault.rtt_ms:g} ms more."
        case Throttle():
            return f"The link carries at most {fault.bytes_per_s:,} bytes a second each way."


def _trigger(at: Nth | After | All | Frame | Recovery) -> str:
    match at:
        case Nth():
            return _number(at.k, _EVENTS[at.event])
        case After():
            return f"{_milliseconds(at.ms)} after the client began"
        case All():
            return " and ".join(_trigger(part) for part in at.parts)
        case Frame():
            return f"{_PLACES[at.at]} {_number(at.k, _FRAMES[at.kind])}"
        case Recovery():
            return f"at {_number(at.k, 'access')} to its journal"


def _number(k: int | Between, what: str = "") -> str:
    if isinstance(k, Between):
        article = ("an " if what[0] in "aeiou" else "a ") if what else ""
        between = f"{'' if what else 'one '}between the {ordinal(k.low)} and the {ordinal(k.high)}"
        return f"{article}{what} {between}, drawn from the trial's seed".lstrip()
    return f"the {ordinal(k)} {what}".rstrip()


def _later(delay_us: int | Between) -> str:
    if isinstance(delay_us, Between):
        return f", {delay_us.low:,} to {delay_us.high:,} us after it, drawn from the trial's seed"
    return f", {delay_us:,} us after it" if delay_us else ""


def _milliseconds(k: int | Between) -> str:
    if isinstance(k, Between):
        return f"a time between {k.low:,} and {k.high:,} ms, drawn from the trial's seed,"
    return f"{k:,} ms"
