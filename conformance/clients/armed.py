"""A trigger in the process that owns its event: it counts, and at the k-th event it fires the fault itself.

Signals go through pidfds that the harness opened and passed along: a pid could have been reused, a pidfd cannot.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Sequence

from conformance.clients.job import Trigger
from conformance.errors import ClientError
from conformance.history import Op, Phase, Recorder

ENDS_BROKER = ("kill", "stop")
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGTERM, "pause": signal.SIGSTOP}
_STOPPED_S = 5.0


class Armed:
    """Counts the events of this process; at the k-th the fault is due, and this process fires it, once."""

    def __init__(self, trigger: Trigger | None, recorder: Recorder, pidfds: Sequence[int], epoch: int) -> None:
        self._trigger, self._recorder, self._pidfds, self._epoch = trigger, recorder, pidfds, epoch
        self._count = 0
        self._effective_ns = 0
        self._heal_at = 0.0
        self.due = False
        self.fired = False
        if trigger is not None:
            recorder.record(Op.FAULT, Phase.ARMED, fault=trigger.fault, epoch=epoch, count=trigger.k)

    @property
    def broker_is_ending(self) -> bool:
        """Whether the fault that was fired takes the broker away."""
        return self.fired and self._trigger is not None and self._trigger.fault in ENDS_BROKER

    @property
    def paused(self) -> bool:
        """Whether the broker is halted now."""
        return self._effective_ns > 0

    def count(self, event: str) -> None:
        """One more `event`."""
        if self._trigger is not None and self._trigger.event == event:
            self._count += 1
            self.due = self._count >= self._trigger.k

    def fire_if_due(self) -> None:
        """Fire, once. A crash does not return; a pause returns when every thread is stopped."""
        trigger = self._trigger
        if trigger is None or not self.due or self.fired:
            return
        self.fired = True
        if trigger.fault == "consumer_crash":
            self._note(Phase.FIRED)
            self._recorder.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        started = time.monotonic_ns()
        for descriptor in self._pidfds:
            signal.pidfd_send_signal(descriptor, _SIGNALS[trigger.fault])
        self._note(Phase.FIRED, f"{(time.monotonic_ns() - started) // 1000} us for the signals")
        if trigger.fault == "pause":
            self._wait_stopped()
            self._effective_ns = self._note(Phase.EFFECTIVE, f"{(time.monotonic_ns() - started) // 1000} us")
            self._heal_at = time.monotonic() + trigger.hold_s

    def left_s(self, timeout_s: float) -> float:
        """How long a client may wait before the pause has to end: `timeout_s` where none is under way."""
        return min(timeout_s, max(self._heal_at - time.monotonic(), 0.0)) if self.paused else timeout_s

    def heal_if_due(self, *, now: bool = False) -> None:
        """End the pause when its time is over, or `now`."""
        if self.paused and (now or time.monotonic() >= self._heal_at):
            for descriptor in self._pidfds:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            self._effective_ns = 0
            self._note(Phase.HEALED)

    def check_answer(self, invoked_ns: int) -> None:
        """Raise `ClientError` where a halted broker answered what was asked of it after it halted.

        It cannot: so it was not halted, and the trial is void.
        """
        if self.paused and invoked_ns > self._effective_ns:
            raise ClientError("the pause did not take effect: what was asked after it was answered before its end")

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

    def _note(self, phase: Phase, detail: str | None = None) -> int:
        assert self._trigger is not None
        return self._recorder.record(Op.FAULT, phase, fault=self._trigger.fault, epoch=self._epoch, detail=detail)


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
