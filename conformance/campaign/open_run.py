"""An open run: `session` opens it, `OpenRun.record` records scenarios, and `OpenRun.judge` judges what is recorded.

A recording of the whole plan is judged in batches while it goes on. If a violation was seen in too few trials, its
scenario is repeated and judged again. Only the judge decides, and it reads only the folder.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from conformance import adapters, judge, records
from conformance.adapters import READY_QUEUE
from conformance.adapters.distribution.versions import greeted_version_differs
from conformance.campaign.batches import BatchJudge
from conformance.campaign.folders import judge_folder
from conformance.campaign.options import Campaign, run_record
from conformance.campaign.repeats import REPEATS, needs_repeats
from conformance.errors import Interrupted, LaunchError
from conformance.judge.rows import Judgement
from conformance.judge.rules import names_used, too_few
from conformance.judge.spark import JudgeSession
from conformance.judge.verdict import Remembered
from conformance.judge.warm_up import warm_up
from conformance.ledger import Ledger
from conformance.records import RunRecord, TrialRecord
from conformance.run import policies
from conformance.run.leftovers import open_ledger, release_leftovers
from conformance.run.planning import Planned, clients_of, more_faults, plan, subject_trials
from conformance.run.readiness_probe import probe_client
from conformance.run.record import Progress, Recording, RunWriter, not_recorded


@dataclasses.dataclass(frozen=True)
class Watcher:
    """The callbacks of a front during a run; every call may come from another thread.

    `judged` gets what is judged so far, while the recording goes on.
    """

    note: Callable[[str], None] = lambda _: None
    download: Callable[[int, int | None], None] | None = None
    progress: Callable[[Progress], None] = lambda _: None
    judged: Callable[[Judgement], None] = lambda _: None


@contextlib.contextmanager
def session(campaign: Campaign, watcher: Watcher) -> Iterator[OpenRun]:
    """Open a run: install the broker, make the folder, start Spark in the background. Nothing is recorded yet.

    Raises:
        Interrupted: The user stopped it; what was recorded is kept and marked.
        ConformanceError: A part of the suite failed before there was anything to judge.
    """
    for line in release_leftovers():
        watcher.note(f"released what an earlier run left: {line}")
    if not campaign.adapter.launcher.contained:
        campaign.adapter.install(watcher.download, offline=campaign.options.offline)
    if campaign.jobs < (campaign.options.jobs or 1):
        watcher.note(f"--jobs {campaign.options.jobs}: an external broker plays one trial at a time")
    if not campaign.chosen and (why := too_few(campaign.options.trials)):
        watcher.note(why)
    for client in clients_of(campaign.trials):
        client.install(watcher.download, offline=campaign.options.offline)
    campaign.folder.mkdir(parents=True, exist_ok=True)
    run = run_record(campaign)
    written = RunWriter(campaign.folder, run, campaign.earlier)
    with open_ledger(campaign.folder, run.run) as ledger:
        planned = campaign.trials
        if planned and campaign.adapter.launcher.owned:
            campaign = _reach(campaign, ledger, written, watcher)
            planned = campaign.trials
        starting = _spark(campaign, planned)
        try:
            recording = Recording(
                campaign.folder,
                records.header(run),
                ledger,
                watcher.progress,
                offline=campaign.options.offline,
                expected=planned,
                jobs=campaign.jobs,
            )
            running = OpenRun(campaign, written, recording, starting, watcher)
            try:
                yield running
                running.finish()
            finally:
                recording.close()
                for line in adapters.leftovers(campaign.folder):
                    watcher.note(line)
        except (KeyboardInterrupt, Interrupted) as error:
            written.save(interrupted=True, finished=False)
            raise Interrupted(f"stopped by the user; what was recorded is in {campaign.folder}") from error
        finally:
            starting.stop(watcher.note)


def _reach(campaign: Campaign, ledger: Ledger, written: RunWriter, watcher: Watcher) -> Campaign:
    """Start the external broker, or send it a message; return the run with the policies of its queues.

    Raises `LaunchError` once; otherwise every trial would be void for the same reason.
    """
    folder = campaign.folder / "brokers" / "reached"
    client = probe_client(campaign.adapter, campaign.selection.protocol, campaign.selection.client)
    with campaign.adapter.prepare(folder, campaign.selection.settings, [], ledger, client=client) as broker:
        broker.start()
        greeting = client.greeting(broker, broker.service.queue_of(READY_QUEUE))
        if why := greeted_version_differs(campaign.adapter.file, campaign.adapter.version, greeting):
            raise LaunchError(f"{campaign.adapter.spec} {why}")  # the report would name a version that did not run
        settings, unread = policies.read(broker, campaign.adapter.file, campaign.selection.settings)
    if unread:
        watcher.note(f"the policies of the queues could not be read: {unread}")
    written.save(settings=dict(settings.values), absent=tuple(sorted(settings.absent)), policies_unread=unread)
    return dataclasses.replace(campaign, selection=dataclasses.replace(campaign.selection, settings=settings))


def _spark(campaign: Campaign, planned: Sequence[Planned]) -> judge.StartingSession:
    """Start Spark and warm it up with the checks of the first of these trials, or only on demand if there are none."""
    first = next((campaign.scenarios[trial.script.id] for trial in planned), None)
    if first is None:
        return judge.StartingSession(later=True)
    return judge.start_in_background(functools.partial(warm_up, used=list(names_used([first]))))


_LEAST_S, _PARTS = 30.0, 4
"""A budget adds trials for a part of the time that is left, at least for 30 s: their seconds are an estimate. A broker
lives as long as the trials that are added at once."""


class OpenRun:
    """An open run: a front records scenarios and judges what is recorded, in any order.

    `run.json` says `finished` only while no recording is under way: if the harness is killed, the run is incomplete.
    """

    def __init__(
        self,
        campaign: Campaign,
        written: RunWriter,
        recording: Recording,
        starting: judge.StartingSession,
        watcher: Watcher,
    ) -> None:
        self.campaign, self.watcher = campaign, watcher
        self._written = written
        self._recording, self._starting = recording, starting
        self._started = time.monotonic()
        self._judged: Judgement | None = None
        self._remembered = Remembered()
        self._added: collections.Counter[str] = collections.Counter()
        self._repeated: collections.Counter[str] = collections.Counter()

    def record(self, scenarios: Collection[str] | None = None) -> None:
        """Record every planned trial of these scenarios, by id; None means all that are selected.

        Raises:
            Interrupted: The user stopped it. Brokers and clients are gone, histories are closed as interrupted.
        """
        if scenarios is None:
            folder, quiet, note = self.campaign.folder, self._recording.quiet, self.watcher.note
            with BatchJudge(folder, self._starting.result, self._judge_batch, quiet, note):
                self._record(self.campaign.trials)
                self._spend_budget()
            return
        wanted = {name: self.campaign.scenarios[name] for name in scenarios}
        self._record(self.campaign.adapt(plan(self.campaign.selection, wanted, self.campaign.catalogue)))

    def play(self, trials: Iterable[Planned]) -> list[TrialRecord]:
        """Record trials that no plan has, and return their records; raises what `record` raises."""
        return self._record(self.campaign.adapt(trials))

    def _spend_budget(self) -> None:
        """Record more trials until the time of `--budget` has passed."""
        campaign = self.campaign
        while (left := self._started + campaign.options.budget_s - time.monotonic()) > 0:
            seconds = min(left, max(_LEAST_S, left / _PARTS)) * campaign.jobs
            more = more_faults(campaign.selection, campaign.scenarios, self._added, seconds)
            if not more:
                return
            self._added.update(trial.script.id for trial in more)
            self._record(campaign.adapt(more))

    def judge(self) -> Judgement:
        """Judge everything recorded so far, after the repeats that it needs (`repeats`)."""
        if self._judged is not None:
            return self._judged
        self.watcher.note("judging")
        self.finish()
        judged = self.look()
        while repeats := self._repeats(judged):
            why = "an offence was not seen in every trial, or a fault met nothing at risk"
            self.watcher.note(f"{why}: {len(repeats)} more trials")
            self._record(repeats)
            self.finish()
            judged = self.look()
        found = judged.run
        run = msgspec.structs.replace(self.finish(), finished=found.finished, incomplete=found.incomplete)
        self._judged = msgspec.structs.replace(judged, run=run)
        return self._judged

    def _repeats(self, judged: Judgement) -> list[Planned]:
        """Return the trials to add; a replay adds none."""
        selection, repeats = self.campaign.selection, []
        for name in [] if self.campaign.chosen else needs_repeats(judged, self._repeated):
            first = selection.trials + 1 + self._added[name]
            self._repeated[name] += REPEATS
            self._added[name] += REPEATS
            repeats += subject_trials(selection, self.campaign.scenarios[name], range(first, first + REPEATS))
        return self.campaign.adapt(repeats)

    @property
    def run(self) -> RunRecord:
        return self._written.run

    @property
    def spark(self) -> JudgeSession:
        return self._starting.result()

    def finish(self) -> RunRecord:
        """Write that the recording is complete so far."""
        return self._written.close(
            deviations=self._recording.deviations,
            floor_seconds=round(self._recording.floor_seconds, 1),
            seconds=round(time.monotonic() - self._started, 1),
        )

    def _record(self, trials: Sequence[Planned]) -> list[TrialRecord]:
        self._judged = None
        self._written.plan(trials)
        if self.campaign.earlier:
            trials = not_recorded(self.campaign.folder, trials)
        return self._recording.record(trials)

    def look(self) -> Judgement:
        """Judge what is recorded so far, also while more is being recorded; nothing is repeated."""
        campaign = self.campaign
        return judge_folder(campaign.folder, campaign.catalogue, campaign.scenarios, self._starting, self._remembered)

    def _judge_batch(self) -> None:
        """Judge and show what is recorded so far; what comes later is added to it."""
        found = self.look()
        count = f"{len(found.trials)} of {self._written.planned} trials"
        why = f"when this was written it was still being recorded, and {count} were judged"
        self.watcher.judged(msgspec.structs.replace(found, run=msgspec.structs.replace(found.run, incomplete=why)))


def execute(campaign: Campaign, watcher: Watcher) -> Judgement:
    """Record everything and judge; the folder then holds all that a report needs. Raises what `session` raises."""
    with session(campaign, watcher) as running:
        running.record()
        return running.judge()
