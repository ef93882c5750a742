"""The fault of a client process: it counts the events of its trigger, and fires the fault itself.

Signals go through handles (`processes`) that the harness opened and passed along. The fault takes effect when the
signal is sent (`ArmedFault`).

If the fault is a command of the broker's owner, only its effect counts (`ArmedCommand`). A kill is `fired` at the
moment at which this client loses its connection, and not when the command began. Until then the client goes on, so
that something is in flight whenever the broker dies. Smallest counter-example to a stop at the start of the command: a
`kubectl delete` takes two seconds, every answer comes within them, and then nothing is at risk any more. If the
connection is lost before the command began, or not within the time of the command, nothing is fired and the trial is
void. A pause is effective when its command has ended. An answer to a later request shows that the broker is not halted.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import statistics
import time
from collections.abc import Callable, Sequence

from conformance import processes
from conformance.errors import ClientError, FaultError
from conformance.faults import shortage
from conformance.faults.power import loss
from conformance.faults.process import STOPPED_S
from conformance.faults.watch import REMOVALS, FileWatch
from conformance.history import Op, Phase, Recorder
from conformance.processes import send_all
from conformance.scenario.script import (
    After,
    ClientFault,
    ConsumerCrash,
    FileRemoved,
    Kill,
    Nth,
    Part,
    PartNodes,
    Pause,
    PowerLoss,
    Shortage,
    fixed_number,
    largest,
    parts_of,
)

_LOOK_S = 0.001


class ArmedFault:
    """Counts the events of this process; when the trigger of the fault is due, this process fires it, once.

    Without a fault nothing is ever due. A power loss gets the descriptor of the disk before the handles; `seed` draws
    what it tears. `hears_broker`: an answer comes from the broker itself. The return of a call of a vendor's client
    does not, and shows nothing about a pause. `resumed_ns` is the end of a pause: the wait for an older request counts
    from there. `fired_ns` is when the fault was fired; 0 before. `journal` is the folder where a `FileRemoved` is seen,
    and `address` that of the broker, for a shortage.
    """

    def __init__(
        self,
        fault: ClientFault | None,
        recorder: Recorder,
        descriptors: Sequence[int],
        epoch: int,
        seed: int = 0,
        journal: str = "",
        address: tuple[str, int] = ("", 0),
    ) -> None:
        self._fault, self._recorder, self._epoch, self._seed = fault, recorder, epoch, seed
        self._disk, self._taken, self._handles = -1, None, descriptors
        if isinstance(fault, PowerLoss):
            self._disk, *self._handles = descriptors
        elif isinstance(fault, Shortage):
            self._taken, self._handles = shortage.taking(fault, descriptors, address)
        self._parts = parts_of(fault.at) if fault is not None else ()
        self._counts: dict[str, int] = {part.event: 0 for part in self._parts if isinstance(part, Nth)}
        self._due_s = max((part.number / 1000 for part in self._parts if isinstance(part, After)), default=0.0)
        removes = any(isinstance(part, FileRemoved) for part in self._parts)
        self._watch = FileWatch(pathlib.Path(journal), REMOVALS, below=True) if removes else None
        self._timed = removes or any(isinstance(part, After) for part in self._parts)
        self._began = time.monotonic()
        self._event_ns = self._ready_ns = 0
        self._answered_s: list[float] = []
        self._effective_ns = 0
        self._heal_at = 0.0
        self._killed = False
        self.fired = False
        self.fired_ns = 0
        self.hears_broker = True
        self.resumed_ns = 0
        if fault is not None:
            recorder.record(Op.FAULT, Phase.ARMED, fault=fault.name, epoch=epoch, count=largest(fault.at))

    @property
    def due(self) -> bool:
        """Whether every part of the trigger has happened."""
        return self._fault is not None and all(self._seen(part) >= part.number for part in self._parts)

    @property
    def broker_is_ending(self) -> bool:
        """Whether the fault that was fired ends the broker."""
        return self._killed or (self.fired and self._ends_at_once)

    @property
    def done(self) -> bool:
        """Whether everything of the fault was fired."""
        return self._killed if self._then_kill else self.fired

    @property
    def awaits_loss(self) -> bool:
        """Whether a command is ending the broker, and the connection is still there; a signal ends it at once."""
        return False

    @property
    def stands_still(self) -> bool:
        """Whether the client must send nothing more, although the connection is still there."""
        return False

    def lost(self) -> None: ...

    @property
    def seen(self) -> int:
        """The events counted for the part of the trigger that is the furthest from done."""
        behind = min(self._parts, key=lambda part: self._seen(part) / max(part.number, 1), default=None)
        return self._seen(behind) if behind else 0

    @property
    def paused(self) -> bool:
        """Whether the broker is halted now, or short of something."""
        return self._effective_ns > 0

    def count(self, event: str) -> None:
        if event in self._counts:
            self._counts[event] += 1
            self._event_ns = time.monotonic_ns()
            if not self.fired and self.due:
                _allow_preemption(False)

    def answered(self, event: str, invoked_ns: int) -> None:
        """Note how long the answer took that has just come, if the trigger counts such requests."""
        if event in self._counts:
            self._answered_s.append((time.monotonic_ns() - invoked_ns) / 1e9)

    def waits_for(self, event: str) -> bool:
        """Whether an `event` has just made the trigger due."""
        return event in self._counts and not self.fired and self.due

    def ready(self) -> None:
        """Note that the sends that the fault is to meet have left; the signal must follow soon."""
        self._ready_ns = time.monotonic_ns()

    def fire_if_due(self) -> None:
        """Fire, once. A crash does not return; a pause returns when every thread is stopped."""
        fault = self._fault
        if fault is None or self.fired or not self.due:
            return
        self.fired = True
        if self._watch:
            self._watch.close()
        if isinstance(fault, Kill):
            median_s = statistics.median(self._answered_s or [0.0])
            time.sleep(fixed_number(fault.delay_us) / 1e6 + fixed_number(fault.delay_percent) / 100 * median_s)
        started = self.fired_ns = time.monotonic_ns()
        if isinstance(fault, ConsumerCrash):
            self._note(Phase.FIRED, self._took(started).rstrip(", "))
            self._recorder.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if isinstance(fault, Shortage):
            self._note(Phase.FIRED, self._took(started).rstrip(", "))
            _allow_preemption(True)
            self._take_away(fault)
            return
        try:
            if isinstance(fault, PowerLoss):
                self._lose_power(fault)
            assert fault.signal is not None  # a crash has not returned
            send_all(self._handles, fault.signal)
            if not isinstance(fault, PowerLoss):
                # Before other processes may take this core: exposure is counted back from here.
                took = (time.monotonic_ns() - started) // 1000
                self._note(Phase.FIRED, f"{self._took(started)}{took} us for the signals")
        finally:
            _allow_preemption(True)
        if isinstance(fault, Pause):
            self._wait_stopped()
            took = (time.monotonic_ns() - started) // 1000
            self._last(f"every thread stopped after {took} us", fault.hold_s)

    def _take_away(self, fault: Shortage) -> None:
        assert self._taken is not None
        self._last(self._shown(self._taken.begin), fault.hold_s)

    def _shown(self, ask: Callable[[], str]) -> str:
        """Return what shows the effect of a shortage; raises `ClientError` if it has none."""
        assert self._fault is not None
        try:
            return ask()
        except FaultError as error:
            raise ClientError(f"the {self._fault.name} did not take effect: {error}") from error

    def _last(self, shown: str, hold_s: float) -> None:
        """Note that the fault is in effect, for so long from now."""
        self._effective_ns = self._note(Phase.EFFECTIVE, shown)
        self._heal_at = time.monotonic() + hold_s

    def phase_now(self, phase: Phase) -> Phase:
        """Return the phase of an answer that is read now: after a loss of power its outcome is unknown.

        The machine died with the command. Its processes live on for a moment, and answer, only because of the way in
        which the suite makes the loss.
        """
        lost = self.fired and self._disk >= 0
        return Phase.INFO if lost and phase is not Phase.INVOKE else phase

    def left_s(self, timeout_s: float) -> float:
        """Return how long a client may wait before it has to end a pause, to fire, or to look for a removal."""
        if self.paused:
            return min(timeout_s, max(self._heal_at - time.monotonic(), 0.0))
        if self._watch and not self.fired:
            return min(timeout_s, _LOOK_S)
        if self._timed and not self.fired:
            return min(timeout_s, max(self._began + self._due_s - time.monotonic(), 0.0) or timeout_s)
        return timeout_s

    def tick(self) -> None:
        """Fire the fault if it is due by the clock or by a removal, and end a pause whose time is over."""
        if self._timed:
            self.fire_if_due()
        self.heal_if_due()

    def heal_if_due(self, *, now: bool = False) -> None:
        """End the pause when its time is over, or `now`; a shortage lasts its time although its client is done."""
        if not self.paused or not (now or time.monotonic() >= self._heal_at):
            return
        shown = ""
        if self._taken:
            time.sleep(max(self._heal_at - time.monotonic(), 0.0))
            shown = self._shown(self._taken.missed)
        self._effective_ns, self.resumed_ns = 0, time.monotonic_ns()
        if self._then_kill and not now:
            self._killed = True
            assert self._fault is not None
            self._note(Phase.FIRED, shown or None, fault=self._fault.names[-1])
            self._recorder.flush()
            send_all(self._handles, signal.SIGKILL)
            return
        if self._taken:
            self._taken.end()
        else:
            send_all(self._handles, signal.SIGCONT)
        self._note(Phase.HEALED, shown or None)

    def all_returned(self) -> None:
        """End a pause that came at the return of a call: every call after it has returned too."""
        if "returned" in self._counts:
            self.heal_if_due(now=True)

    def check_answer(self, invoked_ns: int) -> None:
        """Raise `ClientError` if a halted broker answered a request that came after the pause.

        It cannot: so it was not halted, and the trial is void.
        """
        if self.hears_broker and self.paused and not self._taken and invoked_ns > self._effective_ns:
            raise ClientError("the pause did not take effect: what was asked after it was answered before its end")

    @property
    def _ends_at_once(self) -> bool:
        """Whether the fault ends the broker as soon as it is fired."""
        return self._fault is not None and self._fault.ends_broker and not self._then_kill

    @property
    def _then_kill(self) -> bool:
        return isinstance(self._fault, Pause | PartNodes) and self._fault.then_kill

    def _seen(self, part: Part) -> int:
        if isinstance(part, After):
            return int((time.monotonic() - self._began) * 1000)
        if isinstance(part, FileRemoved):
            assert self._watch is not None
            return self._watch.read()
        return self._counts[part.event]

    def _lose_power(self, fault: PowerLoss) -> None:
        """Write the loss down before it happens: an answer that is read later has an unknown outcome."""
        self._note(Phase.FIRED, self._took(time.monotonic_ns()).rstrip(", "))
        self._recorder.flush()
        lost = loss.lose(self._disk, torn=self._seed if fault.torn else None)
        self._note(Phase.INFO, f"{lost}, {fault.filesystem}")

    def _took(self, now_ns: int) -> str:
        """Describe how long after its event the fault is fired, and after the sends that it is to meet had left."""
        said = ""
        if self._event_ns:
            said = f"{(now_ns - self._event_ns) // 1000} us after its event, "
        if self._ready_ns:
            said += f"{(now_ns - self._ready_ns) // 1000} us after its sends had left, "
        return said

    def _wait_stopped(self) -> None:
        if not processes.wait_stopped(self._handles, STOPPED_S):
            self._effective_ns = 1
            self.heal_if_due(now=True)
            raise ClientError(f"the pause did not take effect within {STOPPED_S:.0f} s of SIGSTOP")

    def _note(self, phase: Phase, detail: str | None = None, fault: str = "") -> int:
        assert self._fault is not None
        name = fault or self._fault.name
        return self._recorder.record(Op.FAULT, phase, fault=name, epoch=self._epoch, detail=detail)


def _allow_preemption(yes: bool) -> None:
    """Let other processes take this process's core, or not (sched(7)); without the right, change nothing.

    From a trigger's event to its signal they may not. Counter-example: a send that leaves with the fault wakes the
    broker, the kernel gives it this core, and the signal comes 2.6 ms after its event.
    """
    if not hasattr(os, "sched_setscheduler"):
        return
    policy, priority = (os.SCHED_OTHER, 0) if yes else (os.SCHED_FIFO, 1)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))


_START = b"go\n"
_ENDED_LATER_S = 10.0
"""How long after the end of its command a pause or its end may be seen at the latest."""


class ArmedCommand(ArmedFault):
    """An `ArmedFault` whose fault is a command that must take effect within `within_s` seconds.

    For each command of the fault, the descriptors are the pipe that starts it and the handle of its process.
    """

    def __init__(
        self, fault: ClientFault, recorder: Recorder, descriptors: Sequence[int], epoch: int, within_s: float
    ) -> None:
        super().__init__(fault, recorder, descriptors, epoch)
        self._name, self._within_s = fault.name, within_s
        self._hold_s = fault.hold_s if isinstance(fault, Pause) else 0.0
        self._commands = list(zip(descriptors[::2], descriptors[1::2], strict=True))
        self._started_ns = 0
        self._lost = False

    @property
    def broker_is_ending(self) -> bool:
        """Whether the broker is known to be gone: not before this client has lost it."""
        return self._lost

    @property
    def done(self) -> bool:
        """Whether the fault was seen to take effect; of a pause, whether it was fired."""
        return self._lost if self._ends_at_once or self._then_kill else self.fired

    @property
    def awaits_loss(self) -> bool:
        return self._started_ns > 0 and not self._lost

    @property
    def stands_still(self) -> bool:
        """Whether the client must send nothing more: the fault is about the request that it does not send."""
        return self.awaits_loss and "before_commit" in self._counts

    def lost(self) -> None:
        """Note that the connection is gone: the fault is fired at this moment if its command has begun."""
        if self.awaits_loss:
            self._lost = True
            took = (time.monotonic_ns() - self._started_ns) / 1e6
            name = "kill" if self._then_kill else self._name
            self._write(Phase.FIRED, f"connection lost {took:.1f} ms after its command began", name)

    def fire_if_due(self) -> None:
        """Start the command, once; wait for its end if it is a pause."""
        if self.fired or not self.due:
            return
        self.fired = True
        started = self.fired_ns = time.monotonic_ns()
        self._start(0)
        detail = f"{self._took(started)}its command was started"
        if self._ends_at_once:
            self._started_ns = started
            self._write(Phase.INFO, detail)
            return
        self._write(Phase.FIRED, detail)
        self._wait_ended(0)
        took = (time.monotonic_ns() - started) / 1e6
        self._effective_ns = self._write(Phase.EFFECTIVE, f"its command had ended after {took:.1f} ms")
        self._heal_at = time.monotonic() + self._hold_s

    def tick(self) -> None:
        """Fire or heal what is due; raise `ClientError` if a command has not taken effect in its time."""
        super().tick()
        if self.awaits_loss and time.monotonic_ns() - self._started_ns > self._within_s * 1e9:
            raise ClientError(
                f"the {self._name} did not take effect: the connection was still there {self._within_s:g} s after its "
                f"command began (external.{self._name}.seconds)"
            )

    def heal_if_due(self, *, now: bool = False) -> None:
        """End the pause by its command when its time is over, or `now`; or kill the halted broker."""
        if not self.paused or not (now or time.monotonic() >= self._heal_at):
            return
        self._effective_ns, self.resumed_ns = 0, time.monotonic_ns()
        if self._then_kill:
            if now:
                return  # the process that armed it resumes the broker
            self._started_ns = time.monotonic_ns()
            self._start(1)
            self._write(Phase.INFO, "its command was started", "kill")
            return
        self._start(1)
        self._wait_ended(1)
        self._write(Phase.HEALED)

    def _start(self, command: int) -> None:
        os.write(self._commands[command][0], _START)

    def _wait_ended(self, command: int) -> None:
        if not processes.wait_ended([self._commands[command][1]], self._within_s + _ENDED_LATER_S):
            raise ClientError(f"the {self._name} did not take effect: its command did not end")

    def _write(self, phase: Phase, detail: str | None = None, fault: str = "") -> int:
        at_ns = self._note(phase, detail, fault)
        self._recorder.flush()
        return at_ns
