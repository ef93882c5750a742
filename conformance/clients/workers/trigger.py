"""A trigger in the process that owns its events: it counts them, and fires the fault itself.

Signals go through pidfds that the harness opened and passed along: a pid could have been reused, a pidfd cannot.

A trigger whose fault is a command of the broker's owner: it takes its time, and what it does is not known from here.

A signal is at work when it was sent. Of a command only its effect counts: a kill is `fired` at the moment at which this
client has lost its connection, and not when its command began; until then the client goes on, so that something is in
flight whenever the broker dies. Smallest counter-example to stopping at the start: a `kubectl delete` that takes two
seconds, in which every answer comes, and then nothing is at risk any more. What is lost before the command began, or
not within its time, fires nothing, and the trial is void.

A pause is effective when its command has ended. Whether the broker is halted is shown as ever: what is asked after that
is not answered.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import select
import signal
import time
from collections.abc import Sequence

from conformance.clients.workers.job import Part, Trigger
from conformance.errors import ClientError
from conformance.faults.power import loss
from conformance.faults.process import send
from conformance.history import Op, Phase, Recorder

ENDS_BROKER = ("kill", "stop", "power_loss")
_SIGNALS = {
    "kill": signal.SIGKILL,
    "stop": signal.SIGTERM,
    "pause": signal.SIGSTOP,
    "power_loss": signal.SIGKILL,
}
_STOPPED_S = 5.0


class ArmedTrigger:
    """Counts the events of this process; when its trigger is due, this process fires the fault, once.

    `hears_broker`: an answer is the broker's own. The return of a call of a vendor's client is not, and shows nothing
    about a pause. `resumed_ns` is when a pause has ended: what was asked before that is waited for since then.
    """

    def __init__(self, trigger: Trigger | None, recorder: Recorder, descriptors: Sequence[int], epoch: int) -> None:
        self._trigger, self._recorder, self._epoch = trigger, recorder, epoch
        with_disk = trigger is not None and trigger.fault == "power_loss"
        self._disk = descriptors[0] if with_disk else -1
        self._pidfds = descriptors[1:] if with_disk else descriptors
        self._counts = dict.fromkeys((part.event for part in trigger.parts) if trigger is not None else (), 0)
        self._began = time.monotonic()
        self._timed = "time" in self._counts
        self._event_ns = self._ready_ns = 0
        self._effective_ns = 0
        self._heal_at = 0.0
        self._killed = False
        self.fired = False
        self.hears_broker = True
        self.resumed_ns = 0
        if trigger is not None:
            recorder.record(Op.FAULT, Phase.ARMED, fault=trigger.fault, epoch=epoch, count=trigger.k)

    @property
    def due(self) -> bool:
        """Whether every part of the trigger has come to pass."""
        return self._trigger is not None and all(self._reached(part) for part in self._trigger.parts)

    @property
    def broker_is_ending(self) -> bool:
        """Whether the fault that was fired takes the broker away."""
        ends = self._trigger is not None and self._trigger.fault in ENDS_BROKER
        return self._killed or (self.fired and ends)

    @property
    def done(self) -> bool:
        """Whether everything of the fault was fired."""
        ends_in_kill = self._trigger is not None and self._trigger.then_kill
        return self._killed if ends_in_kill else self.fired

    @property
    def awaits_loss(self) -> bool:
        """Whether the end of the broker is under way and was not seen yet; a signal ends it at once."""
        return False

    @property
    def stands_still(self) -> bool:
        """Whether nothing more may be asked, although the connection is still there."""
        return False

    def lost(self) -> None:
        """The connection is gone."""

    @property
    def seen(self) -> int:
        """How many events were counted of the part of the trigger that is the furthest from done."""
        parts = self._trigger.parts if self._trigger is not None else ()
        behind = min(parts, key=lambda part: self._seen(part) / max(part.k, 1), default=None)
        return self._seen(behind) if behind else 0

    @property
    def paused(self) -> bool:
        """Whether the broker is halted now."""
        return self._effective_ns > 0

    def count(self, event: str) -> None:
        """One more `event`."""
        if event in self._counts:
            self._counts[event] += 1
            self._event_ns = time.monotonic_ns()
            if not self.fired and self.due:
                _preempted(False)

    def waits_for(self, event: str) -> bool:
        """Whether an `event` has just made the trigger due."""
        return event in self._counts and not self.fired and self.due

    def ready(self) -> None:
        """What the fault is to meet is in place; from here to the signal it must not take long."""
        self._ready_ns = time.monotonic_ns()

    def fire_if_due(self) -> None:
        """Fire, once. A crash does not return; a pause returns when every thread is stopped."""
        trigger = self._trigger
        if trigger is None or self.fired or not self.due:
            return
        self.fired = True
        time.sleep(trigger.delay_us / 1e6)
        started = time.monotonic_ns()
        if trigger.fault == "consumer_crash":
            self._note(Phase.FIRED, self._took(started).rstrip(", "))
            self._recorder.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            if trigger.fault == "power_loss":
                self._lose_power(trigger)
            send(self._pidfds, _SIGNALS[trigger.fault])
            if trigger.fault != "power_loss":  # before others may take this core: exposure is counted back from here
                took = (time.monotonic_ns() - started) // 1000
                self._note(Phase.FIRED, f"{self._took(started)}{took} us for the signals")
        finally:
            _preempted(True)
        if trigger.fault == "pause":
            self._wait_stopped()
            took = (time.monotonic_ns() - started) // 1000
            self._effective_ns = self._note(Phase.EFFECTIVE, f"every thread stopped after {took} us")
            self._heal_at = time.monotonic() + trigger.hold_s

    def told(self, phase: Phase) -> Phase:
        """What an answer is worth that is read now: after a loss of power nothing is known any more.

        The machine died with the command. That its processes live on for a moment, and answer, is an accident of how
        the loss was made.
        """
        lost = self.fired and self._disk >= 0
        return Phase.INFO if lost and phase is not Phase.INVOKE else phase

    def left_s(self, timeout_s: float) -> float:
        """How long a client may wait before it has to end a pause, or to fire at a time."""
        if self.paused:
            return min(timeout_s, max(self._heal_at - time.monotonic(), 0.0))
        if self._timed and not self.fired:
            return min(timeout_s, max(self._due_at() - time.monotonic(), 0.0) or timeout_s)
        return timeout_s

    def tick(self) -> None:
        """Fire what is due by the clock, and end a pause whose time is over."""
        if self._timed:
            self.fire_if_due()
        self.heal_if_due()

    def heal_if_due(self, *, now: bool = False) -> None:
        """End the pause when its time is over, or `now`."""
        if not self.paused or not (now or time.monotonic() >= self._heal_at):
            return
        self._effective_ns, self.resumed_ns = 0, time.monotonic_ns()
        assert self._trigger is not None
        if self._trigger.then_kill and not now:
            self._killed = True
            self._recorder.record(Op.FAULT, Phase.FIRED, fault="kill", epoch=self._epoch)
            self._recorder.flush()
            send(self._pidfds, signal.SIGKILL)
            return
        send(self._pidfds, signal.SIGCONT)
        self._note(Phase.HEALED)

    def all_returned(self) -> None:
        """No call is out: a pause that came at a return, to meet the calls after it, has met them, and ends."""
        if self._trigger is not None and any(part.event == "returned" for part in self._trigger.parts):
            self.heal_if_due(now=True)

    def check_answer(self, invoked_ns: int) -> None:
        """Raise `ClientError` where a halted broker answered what was asked of it after it halted.

        It cannot: so it was not halted, and the trial is void.
        """
        if self.hears_broker and self.paused and invoked_ns > self._effective_ns:
            raise ClientError("the pause did not take effect: what was asked after it was answered before its end")

    def _reached(self, part: Part) -> bool:
        return self._seen(part) >= part.k

    def _seen(self, part: Part) -> int:
        if part.event == "time":
            return int((time.monotonic() - self._began) * 1000)
        return self._counts[part.event]

    def _due_at(self) -> float:
        assert self._trigger is not None  # the caller knows that it waits for a time
        return self._began + max(part.k for part in self._trigger.parts if part.event == "time") / 1000

    def _lose_power(self, trigger: Trigger) -> None:
        """The history knows of the loss before it happens: an answer that is read later counts for nothing."""
        self._note(Phase.FIRED, self._took(time.monotonic_ns()).rstrip(", "))
        self._recorder.flush()
        self._note(Phase.INFO, str(loss.lose(self._disk, torn=trigger.torn)))

    def _took(self, now_ns: int) -> str:
        """How long after its event, and after what it is to meet had left, the fault is fired."""
        said = ""
        if self._event_ns:
            said = f"{(now_ns - self._event_ns) // 1000} us after its event, "
        if self._ready_ns:
            said += f"{(now_ns - self._ready_ns) // 1000} us after its sends had left, "
        return said

    def _wait_stopped(self) -> None:
        """A stop is not instantaneous: only when every thread is in state T does nothing move any more."""
        pids = [_pid_of(descriptor) for descriptor in self._pidfds]
        deadline = time.monotonic() + _STOPPED_S
        while not all(_is_stopped(pid) for pid in pids):
            if time.monotonic() > deadline:
                self._effective_ns = 1
                self.heal_if_due(now=True)
                raise ClientError(f"the pause did not take effect within {_STOPPED_S:.0f} s of SIGSTOP")
            os.sched_yield()

    def _note(self, phase: Phase, detail: str | None = None, fault: str = "") -> int:
        assert self._trigger is not None
        name = fault or self._trigger.fault
        return self._recorder.record(Op.FAULT, phase, fault=name, epoch=self._epoch, detail=detail)


def _preempted(yes: bool) -> None:
    """Whether others may take this process's core from it (sched(7)); where the rights do not allow it, they may.

    From a trigger's event to its signal they may not. Counter-example: a send that leaves with the fault wakes the
    broker, the kernel gives it this core, and the signal comes 2.6 ms after its event.
    """
    policy, priority = (os.SCHED_OTHER, 0) if yes else (os.SCHED_FIFO, 1)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))


def _pid_of(descriptor: int) -> int:
    for line in pathlib.Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    raise ClientError(f"descriptor {descriptor} is no pidfd")


def _is_stopped(pid: int) -> bool:
    """Whether every thread is stopped, traced or gone."""
    states = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.append(path.read_text().rpartition(")")[2].split()[0])
    return all(state in "TtZX" for state in states)


_OPEN = b"go\n"
_ENDED_LATER_S = 10.0
"""How long after the end of its command a pause or its end may be seen at the latest."""


class CommandTrigger(ArmedTrigger):
    """As `ArmedTrigger`. For each command of the fault, the descriptors are the pipe that starts it and its pidfd."""

    def __init__(self, trigger: Trigger, recorder: Recorder, descriptors: Sequence[int], epoch: int) -> None:
        super().__init__(trigger, recorder, descriptors, epoch)
        self._fault = trigger
        self._within_s = trigger.within_s
        self._gates = list(zip(descriptors[::2], descriptors[1::2], strict=True))
        self._ends_broker = trigger.fault in ("kill", "stop")
        self._began_ns = 0
        self._lost = False

    @property
    def broker_is_ending(self) -> bool:
        """Whether it is known to be gone: not before this client has lost it."""
        return self._lost

    @property
    def done(self) -> bool:
        """Whether the fault was seen to take effect; a pause, to have been fired."""
        return self._lost if self._ends_broker or self._fault.then_kill else self.fired

    @property
    def awaits_loss(self) -> bool:
        """Whether a command that is to end the broker has begun, and the connection is still there."""
        return self._began_ns > 0 and not self._lost

    @property
    def stands_still(self) -> bool:
        """Whether a request must not leave any more: its absence is what the fault is about."""
        return self.awaits_loss and "before_commit" in self._counts

    def lost(self) -> None:
        """The connection is gone: this is the moment of the fault, if its command has begun."""
        if self.awaits_loss:
            self._lost = True
            name = "kill" if self._fault.then_kill else self._fault.fault
            took = (time.monotonic_ns() - self._began_ns) / 1e6
            self._tell(Phase.FIRED, f"connection lost {took:.1f} ms after its command began", name)

    def fire_if_due(self) -> None:
        """Start the command, once; of a pause, wait until it has ended."""
        if self.fired or not self.due:
            return
        self.fired = True
        started = time.monotonic_ns()
        os.write(self._gates[0][0], _OPEN)
        told = f"{self._took(started)}its command was started"
        if self._ends_broker:
            self._began_ns = started
            self._tell(Phase.INFO, told)
            return
        self._tell(Phase.FIRED, told)
        self._wait_ended(0)
        took = (time.monotonic_ns() - started) / 1e6
        self._effective_ns = self._tell(Phase.EFFECTIVE, f"its command had ended after {took:.1f} ms")
        self._heal_at = time.monotonic() + self._fault.hold_s

    def tick(self) -> None:
        """As ever; and raise `ClientError` where a command has not taken effect in its time."""
        super().tick()
        if self.awaits_loss and time.monotonic_ns() - self._began_ns > self._within_s * 1e9:
            fault = self._fault.fault
            raise ClientError(
                f"the {fault} did not take effect: the connection was still there {self._within_s:g} s after its "
                f"command began (external.{fault}.seconds)"
            )

    def heal_if_due(self, *, now: bool = False) -> None:
        """End the pause by its command when its time is over, or `now`; or kill what is halted."""
        if not self.paused or not (now or time.monotonic() >= self._heal_at):
            return
        self._effective_ns, self.resumed_ns = 0, time.monotonic_ns()
        if self._fault.then_kill:
            if now:
                return  # the process that armed it lets it go on
            self._began_ns = time.monotonic_ns()
            os.write(self._gates[1][0], _OPEN)
            self._tell(Phase.INFO, "its command was started", "kill")
            return
        os.write(self._gates[1][0], _OPEN)
        self._wait_ended(1)
        self._tell(Phase.HEALED, None)

    def _wait_ended(self, which: int) -> None:
        """Whether its command ended well is asked by who started it."""
        poller = select.poll()
        poller.register(self._gates[which][1], select.POLLIN)
        if not poller.poll((self._within_s + _ENDED_LATER_S) * 1000):
            raise ClientError(f"the {self._fault.fault} did not take effect: its command did not end")

    def _tell(self, phase: Phase, detail: str | None, fault: str = "") -> int:
        at_ns = self._note(phase, detail, fault)
        self._recorder.flush()
        return at_ns
