"""A trigger whose fault is a command of the broker's owner: it takes its time, and what it does is not known from here.

A signal is at work when it was sent. Of a command only its effect counts: a kill is `fired` at the moment at which this
client has lost its connection, and not when its command began; until then the client goes on, so that something is in
flight whenever the broker dies. Smallest counter-example to stopping at the start: a `kubectl delete` that takes two
seconds, in which every answer comes, and then nothing is at risk any more. What is lost before the command began, or
not within its time, fires nothing, and the trial is void.

A pause is effective when its command has ended. Whether the broker is halted is shown as ever: what is asked after that
is not answered.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence

from conformance.clients.workers.job import Trigger
from conformance.clients.workers.trigger import ArmedTrigger
from conformance.errors import ClientError
from conformance.history import Phase, Recorder

_OPEN = b"go\n"
_ENDED_LATER_S = 10.0
"""How long after the end of its command a pause or its end may be seen at the latest."""


class CommandTrigger(ArmedTrigger):
    """As `ArmedTrigger`. The descriptors are, for each command of the fault, the pipe that starts it and a pidfd of it."""

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
                return  # whoever armed it lets it go on
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
