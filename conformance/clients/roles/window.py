"""The publish window of a session: its size, and the record of a publish that waits for room in it."""

from __future__ import annotations

import time

from conformance.clients.workers.job import Job
from conformance.history import SHUT, WAITS, Op, Phase, Recorder, message_id
from conformance.scenario.script import Publish

_OVER = 10
"""How many sends the liar among the sessions has too many."""

_LIED = {"ignores-its-window": lambda size: size + _OVER, "blocks-at-half-its-window": lambda size: size // 2}


def size(step: Publish, liar: str) -> int:
    """Return how many sends may be unanswered; some session liars use another window."""
    lied = _LIED.get(liar)
    return lied(step.window) if lied else step.window


class Wait:
    """The publish that waits for room in the window; it is recorded if the step says so.

    A wait is a CONFIRM of unknown outcome for the message that would be next, with the number of unanswered sends in
    `count`; another where there is room, and that publish does not proceed within the liveness bound.
    """

    def __init__(self, job: Job, step: Publish, recorder: Recorder) -> None:
        self._job, self._step, self._recorder = job, step, recorder
        self._message = ""
        self._waits = False
        self._room_ns = 0

    @property
    def refuses(self) -> bool:
        """Whether the session liar that never reopens its window has waited once: it sends no more."""
        return self._job.liar == "never-reopens-its-window" and self._message != ""

    def begin(self, number: int, unanswered: int) -> None:
        """Note that the publish of that number has to wait."""
        message = message_id(self._job.producer, number)
        if self._step.tells_waits and message != self._message:
            self._message, self._waits, self._room_ns = message, True, 0
            self._note(WAITS, unanswered)

    def end(self) -> None:
        """Note that a send leaves: no publish waits any more."""
        self._waits = False

    def overdue_s(self, bound_ns: float, unanswered: int, credit: int) -> float:
        """Return how long there has been room for the publish that waits, if that is longer than the bound."""
        if not self._waits or unanswered >= self._step.window or credit <= 0:
            self._room_ns = 0
            return 0.0
        self._room_ns = self._room_ns or time.monotonic_ns()
        waited_ns = time.monotonic_ns() - self._room_ns
        if waited_ns <= bound_ns:
            return 0.0
        self._note(SHUT, unanswered)
        return waited_ns / 1e9

    def _note(self, detail: str, unanswered: int) -> None:
        job = self._job
        self._recorder.record(
            Op.CONFIRM,
            Phase.INFO,
            queue=job.queue,
            message=self._message,
            epoch=job.epoch,
            count=unanswered,
            detail=detail,
        )
