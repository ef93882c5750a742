"""Record every planned trial against its broker, several side by side.

At most `jobs` brokers on trial run at once, as configured or weakened: a worker for each takes trials from one queue.
One more worker plays the liars: they are other brokers, and only prove the checks. Each trial that waits for the
liveness bound has a worker and a broker of its own. The trials that a busy machine could change (`Planned.alone`) come
last, one after another, when nothing else runs.

`RunWriter` keeps `run.json` while a run goes on: what was asked, what is planned, and the checksums of what was
recorded. A run that was interrupted can go on: `read_interrupted`, `check_same_run`, `not_recorded`.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from conformance import records
from conformance.clients.workers.pool import WorkerPool
from conformance.errors import BlockedError, HistoryError, Interrupted, LaunchError, LoginError, UsageError
from conformance.history import Header
from conformance.ledger import Ledger
from conformance.records import Checksum, RunFile, RunRecord, TrialRecord
from conformance.run.broker_pool import BrokerPool, RunningBroker
from conformance.run.planning import Planned, companies
from conformance.run.trial.clients import Abort
from conformance.run.trial.company import Company
from conformance.run.trial.described import INTERRUPTED, describe, record_unstarted
from conformance.run.trial.player import TrialPlayer


class RunWriter:
    """Writes `run.json` into the folder of a run, first when it is made.

    It says `finished` only while no recording is under way: if the harness is killed, the run is incomplete. The plan
    of an `earlier` part of the run stays.
    """

    def __init__(self, folder: pathlib.Path, run: RunRecord, earlier: RunFile | None = None) -> None:
        self.run = run
        self._folder = folder
        self._plan = {trial.trial: trial for trial in (earlier and earlier.plan) or ()}
        self._checksums: dict[str, dict[str, Checksum]] = {}
        self.save()

    @property
    def planned(self) -> int:
        """The number of trials in the plan so far."""
        return len(self._plan)

    def plan(self, trials: Iterable[Planned]) -> None:
        self._plan |= {trial.id: describe(trial) for trial in trials}
        self.save(finished=False)

    def close(self, **changes: Any) -> RunRecord:
        """Add the checksums of every recorded trial that has none yet, and say that the run is finished."""
        for name in self._plan.keys() - self._checksums.keys():
            found = {path.name: records.checksum(path) for path in records.evidence(self._folder / "trials" / name)}
            if found:
                self._checksums[name] = found
        return self.save(finished=True, **changes)

    def save(self, **changes: Any) -> RunRecord:
        """Write the file with these fields of the run changed; returns the run."""
        self.run = msgspec.structs.replace(self.run, **changes)
        whole = RunFile(
            **msgspec.structs.asdict(self.run), plan=tuple(self._plan.values()), checksums=dict(self._checksums)
        )
        records.save(whole.sealed, self._folder / "run.json")
        return self.run


Members = tuple[Planned, ...]
"""The trials of a company."""

_WAITING = 8
"""Trials that wait for the liveness bound at the same time."""


class TrialQueue:
    """The trials of some workers, each of which plays with one broker at a time. Safe for threads.

    A worker stays with the instance of its broker, and gets the longest company of it first (`planning.companies`), so
    that the last ones are short. Then it gets one of the instance that has most left to do among those without a
    worker. If each has one, it helps where a second broker is worth its start.
    """

    def __init__(self, trials: Iterable[Planned]) -> None:
        self._left: dict[tuple[object, ...], list[Members]] = {}
        for members in sorted(companies(trials), key=lambda each: -each[0].seconds):
            self._left.setdefault(members[0].instance, []).append(members)
        self._workers: collections.Counter[tuple[object, ...]] = collections.Counter()
        self._unhelped: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()

    def take(self, held: tuple[object, ...] = ()) -> Members | None:
        """Return the next trials of a worker that has a broker of the instance `held`; None if there are no more."""
        with self._lock:
            if not self._left.get(held):
                self._workers[held] -= 1
                held = self._next_instance()
                self._workers[held] += 1
            return self._left[held].pop(0) if held else None

    def give_back(self, members: Members) -> bool:
        """Leave trials to another worker that has a broker of their instance; return False if there is none."""
        instance = members[0].instance
        with self._lock:
            self._unhelped.add(instance)
            if self._workers[instance] < 2:
                return False
            self._workers[instance] -= 1
            self._left[instance].insert(0, members)
            return True

    def rest_of(self, instance: tuple[object, ...]) -> list[Planned]:
        """Take every trial of an instance."""
        with self._lock:
            return [trial for members in self._left.pop(instance, []) for trial in members]

    def _next_instance(self) -> tuple[object, ...]:
        left = {
            instance: sum(members[0].seconds for members in groups)
            for instance, groups in self._left.items()
            if groups and (not self._workers[instance] or instance not in self._unhelped)
        }
        free = [instance for instance in left if not self._workers[instance]]
        worth = [instance for instance in left if left[instance] > self._left[instance][0][0].start_seconds]
        return max(free or worth, key=left.__getitem__, default=())


@dataclasses.dataclass(frozen=True)
class Progress:
    """A trial that begins (`record` is None) or has ended, and how many of how many are done."""

    planned: Planned
    record: TrialRecord | None
    done: int
    total: int


class Recording:
    """Records trials into `folder`, also several times, since a violation may have to be repeated.

    `expected` are the trials of later calls: their brokers keep running until then. `jobs` is the number of brokers on
    trial at once. `floor_seconds` is the time of starts, restarts and waits alone, of the worker with most of them.
    `quiet` is held while trials play that a busy machine could change: what else uses the cores must hold it too.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        header: Header,
        ledger: Ledger,
        on_progress: Callable[[Progress], None] = lambda _: None,
        *,
        offline: bool = False,
        expected: Sequence[Planned] = (),
        jobs: int = 1,
    ) -> None:
        self.folder, self.header, self.on_progress, self.jobs = folder, header, on_progress, jobs
        self.floor_seconds = 0.0
        self.deviations: dict[str, str] = {}
        self.quiet = threading.Lock()
        self._abort = Abort()
        self._error: BaseException | None = None
        self._workers = WorkerPool(ledger)
        self._brokers = BrokerPool(folder / "brokers", ledger, expected, offline=offline, jobs=jobs)
        self._lock = threading.Lock()
        self._done = self._total = 0

    def record(self, trials: Sequence[Planned]) -> list[TrialRecord]:
        """Record these trials; returns their records in no particular order.

        Raises:
            Interrupted: The user stopped it. Brokers and clients are gone, histories are closed as interrupted.
        """
        self._done, self._total = 0, len(trials)
        self._brokers.expect(trials)
        waiting = [[TrialQueue([trial])] for trial in trials if trial.waits_for_liveness]
        beside = [trial for trial in trials if not (trial.alone or trial.waits_for_liveness)]
        liars = TrialQueue(trial for trial in beside if trial.parallel_group)
        main = [TrialQueue(trial for trial in beside if not trial.parallel_group), liars]
        pool = concurrent.futures.ThreadPoolExecutor(self.jobs + _WAITING)
        try:
            others = [pool.submit(self._work, queues) for queues in [[liars], *[main] * (self.jobs - 1), *waiting]]
            for future in others:
                future.add_done_callback(self._stop_all_on_error)
            played = [self._work(main), *(future.result() for future in others)]
            alone = self._play_alone([trial for trial in trials if trial.alone])
        except (KeyboardInterrupt, Interrupted):
            self._abort.now()
            if self._error is not None:
                raise self._error from None
            raise Interrupted("stopped by the user") from None
        except BaseException:
            self._abort.now()  # another worker may wait for half a minute: end it too
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.floor_seconds += max(floor for _, floor in played) + alone[1]
        return [record for records, _ in [*played, alone] for record in records]

    def close(self) -> None:
        try:
            self._brokers.close()
        finally:
            self._workers.close()

    def _stop_all_on_error(self, worker: concurrent.futures.Future[Any]) -> None:
        """End every worker after an error in one, instead of waiting for the last trial of this thread."""
        error = None if worker.cancelled() else worker.exception()
        if error is not None and not isinstance(error, Interrupted):
            self._error = self._error or error
            self._abort.now()

    def _work(self, queues: Iterable[TrialQueue]) -> tuple[list[TrialRecord], float]:
        """Play the trials of one queue after the other; return their records and the floor of their seconds."""
        played = [self._empty(queue) for queue in queues]
        return [record for records, _ in played for record in records], sum(floor for _, floor in played)

    def _play_alone(self, trials: Sequence[Planned]) -> tuple[list[TrialRecord], float]:
        with self.quiet if trials else contextlib.nullcontext():
            return self._work([TrialQueue(trials)])

    def _empty(self, queue: TrialQueue) -> tuple[list[TrialRecord], float]:
        """Play the trials that the queue gives; after a void trial or a lost broker the next one gets a new broker."""
        found: list[TrialRecord] = []
        floor = 0.0
        running: RunningBroker | None = None
        held: tuple[object, ...] = ()
        try:
            while (members := queue.take(held)) is not None:
                planned = members[0]
                if running is not None and held != planned.instance:
                    self._brokers.release(held, running)
                    running = None
                held = planned.instance
                for each in members:
                    self.on_progress(Progress(each, None, self._done, self._total))
                if running is None:
                    try:
                        running, took = self._brokers.acquire(planned)
                    except LaunchError as error:
                        # A second broker would refuse it too.
                        refused = isinstance(error.__cause__, LoginError | BlockedError)
                        if not refused and queue.give_back(members):
                            held = ()
                        else:
                            found += [self._unstarted(each, error) for each in [*members, *queue.rest_of(held)]]
                        continue
                    floor += took
                    if planned.arm == "subject":
                        self.deviations = dict(running.node.facts.deviations)
                played = self._play_company(members, running)
                floor += max(record.floor_seconds for record, _ in played)
                found += [record for record, _ in played]
                if not all(usable for _, usable in played):
                    running.close()
                    running = None
        except BaseException:
            if running is not None:
                running.close()
            raise
        if running is not None:
            self._brokers.release(held, running)
        return found, floor

    def _play_company(self, members: Members, running: RunningBroker) -> list[tuple[TrialRecord, bool]]:
        """Play trials that share a broker, each in a thread of its own."""
        company = Company(*(planned.id for planned in members))
        self._abort.watch(company)
        threads = concurrent.futures.ThreadPoolExecutor(len(members))
        try:
            others = [threads.submit(self._play, planned, running, company) for planned in members[1:]]
            return [self._play(members[0], running, company), *(other.result() for other in others)]
        except BaseException:
            self._abort.now()
            raise
        finally:
            threads.shutdown(wait=True)
            self._abort.children.discard(company)

    def _play(self, planned: Planned, running: RunningBroker, company: Company) -> tuple[TrialRecord, bool]:
        """Play one trial; return its record, and whether the next trial can use the broker."""
        if self._abort.requested:
            raise Interrupted("stopped by the user")
        self._brokers.begin(planned)
        header = header_of(self.header, planned)
        folder = self.folder / "trials" / planned.id
        try:
            player = TrialPlayer(planned, running, self._workers, folder, header, self._abort, company)
            record = player.play()
        finally:
            company.leave(planned.id)
        with self._lock:
            self._done += 1
        self.on_progress(Progress(planned, record, self._done, self._total))
        return record, not (record.void or player.broker_is_lost or player.damaged.done)

    def _unstarted(self, planned: Planned, error: LaunchError) -> TrialRecord:
        self._brokers.begin(planned)
        record = record_unstarted(planned, self.folder / "trials" / planned.id, error)
        with self._lock:
            self._done += 1
        self.on_progress(Progress(planned, record, self._done, self._total))
        return record


def header_of(template: Header, planned: Planned) -> Header:
    """Return the header of every history of a trial; a process fills in its name."""
    return msgspec.structs.replace(
        template,
        scenario=planned.script.id,
        trial=planned.id,
        arm=planned.arm,
        seed=planned.seed,
        adapter=planned.adapter.name,
        version=planned.adapter.version,
        protocol=planned.protocol,
        mode=planned.script.mode,
        settings=dict(planned.settings.values),
        changed=dict(planned.settings.changed),
    )


def read_interrupted(folder: pathlib.Path) -> RunFile:
    """Return the record of a run that can go on; raises `UsageError` if there is none, or if it is finished."""
    try:
        found = records.read(folder / "run.json", RunFile)
    except HistoryError as error:
        raise UsageError(f"--resume {folder}: it is not the folder of a run: {error}", code="no-run") from error
    if found.finished:
        why = "the run is finished; `conformance judge` judges it again"
        raise UsageError(f"--resume {folder}: {why}", code="run-finished", folder=folder)
    return found


def check_same_run(folder: pathlib.Path, earlier: RunFile, command: str, trials: Iterable[Planned]) -> None:
    """Raise `UsageError` unless the run has the same options and scripts as the earlier part of it."""
    if command != earlier.command:
        wanted = f"give the options that it was started with, {earlier.command}"
        raise UsageError(f"--resume {folder}: this is another run; {wanted}", code="another-run", folder=folder)
    before = {trial.trial: (trial.seed, trial.k, trial.steps) for trial in earlier.plan or ()}
    for trial in trials:
        now = describe(trial)
        if (now.seed, now.k, now.steps) != before.get(trial.id, (now.seed, now.k, now.steps)):
            why = f"the script {trial.script.id} has changed since; start a new run"
            raise UsageError(f"--resume {folder}: {why}", code="script-changed", folder=folder)


def not_recorded(folder: pathlib.Path, trials: Sequence[Planned]) -> list[Planned]:
    """Return the trials that were not recorded to their end; what there is of them is removed.

    A trial that is void for another reason stays: to record it again would be to choose by the outcome.
    """
    found = []
    for trial in trials:
        place = folder / "trials" / trial.id
        if place.is_symlink():
            raise UsageError(f"{place} is a link; start a new run", code="linked-trial")
        try:
            recorded = records.read(place / "trial.json", TrialRecord).void != INTERRUPTED
        except HistoryError:
            recorded = False
        if not recorded:
            found.append(trial)
            shutil.rmtree(place, ignore_errors=True)
    return found
