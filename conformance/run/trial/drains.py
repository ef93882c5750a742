"""The drains of a trial: they empty its queue and those of its policies, and look again for what is owed."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import msgspec

from conformance import claims
from conformance.clients.job import Job, JobResult, Tolerances
from conformance.run.broker_pool import RunningBroker
from conformance.run.planning import Planned
from conformance.run.trial.evidence import undelivered_messages
from conformance.run.trial.jobs import JobMaker
from conformance.scenario.needs import in_mode
from conformance.scenario.reading import broker_acts, singles
from conformance.scenario.script import LONG_LIFE_MS, MOST_DRAINS, SETTLE, Drain, Publish


class Drains:
    """`run` plays a client that no fault meets; `damaged` says whether the data of the broker were changed.

    Attributes:
        count: How many were made.
        brought: How many messages the last one brought.
        seen_stuck: Whether the last one did not get what the broker reports.
    """

    def __init__(
        self,
        planned: Planned,
        running: RunningBroker,
        folder: pathlib.Path,
        jobs: JobMaker,
        run: Callable[[Job], JobResult],
        damaged: Callable[[], bool],
    ) -> None:
        self.planned, self.running, self.folder, self.jobs = planned, running, folder, jobs
        self._run, self._damaged = run, damaged
        self.count = self.brought = 0
        self.seen_stuck = False

    @property
    def brings(self) -> bool:
        """Whether the last one brought something, and another one may be made."""
        return self.brought > 0 and self.count < MOST_DRAINS

    @property
    def go_on(self) -> bool:
        """Whether the script ends with two drains: then it ends with one that brings nothing.

        Counter-example to two drains: the second brings one of three missing messages, and a third would bring the
        others.
        """
        return self.count >= 2 and self.planned.script.steps[-1] == Drain() and not self.jobs.keeps_messages

    @property
    def settles(self) -> bool:
        """Whether the script does nothing to its broker but a clean restart before its last drain, which can be made.

        Then a trial that ends early can still do that, also one that shares its broker: the others wait for it there.
        """
        steps = self.planned.script.steps
        return steps[-2:] == SETTLE[-2:] and broker_acts(steps) == broker_acts(SETTLE) and not self.seen_stuck

    def drain(self) -> None:
        """Empty the queue of the trial, and then those to which its policies move messages.

        The drain waits for delayed redeliveries, which the broker's depth may leave out. Their liveness bound is ten
        times the delay.
        """
        bounds = self.jobs.bounds()
        result = self._run(self.jobs.make(Drain(), bounds))
        self.seen_stuck = result.ended == "stuck"
        self.count, self.brought = self.count + 1, result.count
        self._collect()
        if result.ended == "finished" and self._looks_again:
            self._look_again(bounds)

    def _collect(self, *, owed: bool = False) -> None:
        """Empty the queues to which the policies of the queue move messages; those of an external broker are not ours.

        Before the broker is taken to owe what its queue did not bring. What lives longer than a trial may have been
        moved at its end only if it is `owed`.
        """
        settings = self.planned.settings.values
        if self.planned.adapter.launcher.owned:
            return
        moved = claims.set_aside(claims.load().exclusions, settings)
        lives = [step.lives_ms for step in singles(self.planned.script.steps) if isinstance(step, Publish)]
        if self.planned.script.gives_back or any(0 < each < LONG_LIFE_MS or (owed and each) for each in lives):
            moved = tuple(dict.fromkeys([*moved, *(str(settings.get(name, "")) for name in claims.DESTINATIONS)]))
        for queue in filter(None, moved):
            self._run(self.jobs.make(Drain(), collects=queue))

    @property
    def _looks_again(self) -> bool:
        """Whether an absence counts against the broker: not in a control, or in a script with one drain.

        What damage has taken stays away. A broker that sends settled messages owes none of those that were on their way
        when their consumer died, and nothing of a queue that does not outlast it.
        """
        script = self.planned.script
        promised = in_mode("no_ack") not in script.of_client and dict(script.queue).get("durable", True)
        if self.planned.arm != "subject" or script.steps[-2:] != SETTLE[-2:] or self.jobs.keeps_messages:
            return False
        if self._damaged():
            return False
        return bool(promised) and script.id not in self.running.waited_in_vain

    def _look_again(self, bounds: Tolerances) -> None:
        """After a silent drain, if messages are owed, drain until silence for the liveness bound.

        Smallest counter-example to a short silence: a broker is ready, reports a depth of 0, and loads the queue two
        seconds later. What it serves within the bound is neither lost nor late. If nothing comes, the broker is not
        slow but has lost them, and another such wait in this scenario would show nothing new.
        """
        if not undelivered_messages(self.folder):
            return
        job = self.jobs.make(Drain(), bounds)
        patient = msgspec.structs.replace(job.tolerances, silence_s=job.tolerances.liveness_s)
        result = self._run(msgspec.structs.replace(job, tolerances=patient))
        self.seen_stuck = result.ended == "stuck"
        self.brought += result.count
        if not result.count:
            self.running.waited_in_vain.add(self.planned.script.id)
            self._collect(owed=True)
