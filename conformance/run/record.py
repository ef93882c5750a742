"""Record every planned trial against its broker, in parallel groups.

The main group plays the trials of the broker on trial one after another, weakened ones among them. The liars run in a
second group: they are other brokers, and only prove the checks. Each trial that waits for the liveness bound is a group
of its own, with its own broker.

`RunWriter` keeps `run.json` while a run goes on: what was asked, what is planned, and the checksums of what was
recorded.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from conformance import records
from conformance.clients.workers.pool import WorkerPool
from conformance.errors import Interrupted, LaunchError
from conformance.history import Header
from conformance.ledger import Ledger
from conformance.records import Checksum, RunFile, RunRecord, TrialRecord
from conformance.run.broker_pool import BrokerPool, RunningBroker
from conformance.run.clients import Abort
from conformance.run.planning import Planned, instances
from conformance.run.trial import TrialPlayer, describe, unstarted


class RunWriter:
    """Writes `run.json` into the folder of a run, first when it is made.

    It says `finished` only while no recording is under way: if the harness is killed, the run is incomplete.
    """

    def __init__(self, folder: pathlib.Path, run: RunRecord) -> None:
        self.run = run
        self._folder = folder
        self._plan: dict[str, TrialRecord] = {}
        self._checksums: dict[str, dict[str, Checksum]] = {}
        self.save()

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


_GROUPS = 8


@dataclasses.dataclass(frozen=True)
class Progress:
    """A trial that begins (`record` is None) or has ended, and how many of how many are done."""

    planned: Planned
    record: TrialRecord | None
    done: int
    total: int


class Recording:
    """Records trials into `folder`, also several times, since a violation may have to be repeated.

    `expected` are the trials of later calls: their brokers keep running until then. `floor_seconds` is the time of the
    starts, restarts and waits alone: no harness can be faster.
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
    ) -> None:
        self.folder, self.header, self.on_progress = folder, header, on_progress
        self.floor_seconds = 0.0
        self.deviations: dict[str, str] = {}
        self._abort = Abort()
        self._error: BaseException | None = None
        self._workers = WorkerPool(ledger)
        self._brokers = BrokerPool(folder / "brokers", ledger, expected, offline=offline)
        self._lock = threading.Lock()
        self._done = self._total = 0

    def record(self, trials: Sequence[Planned]) -> list[TrialRecord]:
        """Record these trials; returns their records in no particular order.

        Raises:
            Interrupted: The user stopped it. Brokers and clients are gone, histories are closed as interrupted.
        """
        self._done, self._total = 0, len(trials)
        groups = instances(trials)
        parallel: dict[str, list[list[Planned]]] = {"": []}
        for group in groups:
            parallel.setdefault(group[0].parallel_group, []).append(group)
        pool = concurrent.futures.ThreadPoolExecutor(_GROUPS)
        try:
            others = [pool.submit(self._play_group, each) for name, each in parallel.items() if name]
            for future in others:
                future.add_done_callback(self._stop_all_on_error)
            played = [self._play_group(parallel[""]), *(future.result() for future in others)]
        except (KeyboardInterrupt, Interrupted):
            self._abort.now()
            if self._error is not None:
                raise self._error from None
            raise Interrupted("stopped by the user") from None
        except BaseException:
            self._abort.now()  # another group may wait for half a minute: end it too
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.floor_seconds += max(floor for _, floor in played)
        return [record for records, _ in played for record in records]

    def close(self) -> None:
        try:
            self._brokers.close()
        finally:
            self._workers.close()

    def _stop_all_on_error(self, group: concurrent.futures.Future[Any]) -> None:
        """End every group after an error in one, instead of waiting for the last trial of the main one."""
        error = None if group.cancelled() else group.exception()
        if error is not None and not isinstance(error, Interrupted):
            self._error = self._error or error
            self._abort.now()

    def _play_group(self, groups: Sequence[Sequence[Planned]]) -> tuple[list[TrialRecord], float]:
        """Use one broker after the other; return the records and the floor of their seconds."""
        played = [self._play_instance(group) for group in groups]
        return [record for records, _ in played for record in records], sum(floor for _, floor in played)

    def _play_instance(self, group: Sequence[Planned]) -> tuple[list[TrialRecord], float]:
        """Play the trials of one broker instance; after a void trial or a lost broker the next trial gets a new one."""
        found: list[TrialRecord] = []
        floor = 0.0
        running: RunningBroker | None = None
        try:
            for number, planned in enumerate(group):
                self.on_progress(Progress(planned, None, self._done, self._total))
                if running is None:
                    try:
                        running, took = self._brokers.acquire(group[number:])
                    except LaunchError as error:
                        found += [self._unstarted(each, error) for each in group[number:]]
                        break
                    floor += took
                    if planned.arm == "subject":
                        self.deviations = dict(running.broker.facts.deviations)
                record, usable = self._play(planned, running)
                floor += record.floor_seconds
                found.append(record)
                if not usable:
                    running.close()
                    running = None
        except BaseException:
            if running is not None:
                running.close()
            raise
        if running is not None:
            self._brokers.release(group[0].instance, running)
        return found, floor

    def _play(self, planned: Planned, running: RunningBroker) -> tuple[TrialRecord, bool]:
        """Play one trial; return its record, and whether the next trial can use the broker."""
        if self._abort.requested:
            raise Interrupted("stopped by the user")
        header = _header(self.header, planned)
        folder = self.folder / "trials" / planned.id
        player = TrialPlayer(planned, running, self._workers, folder, header, self._abort)
        record = player.play()
        with self._lock:
            self._done += 1
        self.on_progress(Progress(planned, record, self._done, self._total))
        return record, not (record.void or player.broker_is_lost)

    def _unstarted(self, planned: Planned, error: LaunchError) -> TrialRecord:
        record = unstarted(planned, self.folder / "trials" / planned.id, error)
        with self._lock:
            self._done += 1
        self.on_progress(Progress(planned, record, self._done, self._total))
        return record


def _header(template: Header, planned: Planned) -> Header:
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
