"""Record every planned trial against its broker, in parallel groups.

The main lane plays the trials of the broker on trial one after another, weakened ones among them. Beside it run the
liars, which are other brokers and prove only the check, in one lane; and each patient trial, which does nothing but
wait for the liveness bound, in a lane and with a broker of its own.

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
from conformance.run.planning.plan import Planned, instances
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
        """Add trials to the plan, before they are recorded."""
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


_LANES = 8


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a front may show: a trial that begins (`record` None) or has ended, of how many."""

    planned: Planned
    record: TrialRecord | None
    done: int
    total: int


class Recording:
    """Records trials into `folder`; reusable, so that trials can be added when a violation must be repeated.

    `expected` are the trials that may be asked for in later calls: their brokers are kept till then. `floor_seconds` is
    the time that the starts, restarts and waits took by themselves: no harness can be faster.
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
        self._nursery = WorkerPool(ledger)
        self._stands = BrokerPool(folder / "brokers", ledger, expected, offline=offline)
        self._lock = threading.Lock()
        self._done = self._total = 0

    def record(self, trials: Sequence[Planned]) -> list[TrialRecord]:
        """Record these trials; returns their records in no particular order.

        Raises:
            Interrupted: The user stopped it. Brokers and clients are gone, histories are closed as interrupted.
        """
        self._done, self._total = 0, len(trials)
        groups = instances(trials)
        lanes: dict[str, list[list[Planned]]] = {"": []}
        for group in groups:
            lanes.setdefault(group[0].lane, []).append(group)
        pool = concurrent.futures.ThreadPoolExecutor(_LANES)
        try:
            beside = [pool.submit(self._lane, lane) for name, lane in lanes.items() if name]
            for future in beside:
                future.add_done_callback(self._stop_all_on_error)
            played = [self._lane(lanes[""]), *(future.result() for future in beside)]
        except (KeyboardInterrupt, Interrupted):
            self._abort.now()
            if self._error is not None:
                raise self._error from None
            raise Interrupted("stopped by the user") from None
        except BaseException:
            self._abort.now()  # the other lane idles for half a minute: nobody should wait for it after an error
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        self.floor_seconds += max(floor for _, floor in played)
        return [record for records, _ in played for record in records]

    def close(self) -> None:
        """End the brokers that were kept, and the client pool."""
        try:
            self._stands.close()
        finally:
            self._nursery.close()

    def _stop_all_on_error(self, lane: concurrent.futures.Future[Any]) -> None:
        """An error of ours beside the main lane ends that too, instead of waiting for its last trial."""
        error = None if lane.cancelled() else lane.exception()
        if error is not None and not isinstance(error, Interrupted):
            self._error = self._error or error
            self._abort.now()

    def _lane(self, groups: Sequence[Sequence[Planned]]) -> tuple[list[TrialRecord], float]:
        """One broker after the other; the records, and the seconds that no harness could save."""
        played = [self._group(group) for group in groups]
        return [record for records, _ in played for record in records], sum(floor for _, floor in played)

    def _group(self, group: Sequence[Planned]) -> tuple[list[TrialRecord], float]:
        """The trials of one broker instance; the next trial gets a new one after a void one, or one that lost it."""
        found: list[TrialRecord] = []
        floor = 0.0
        stand: RunningBroker | None = None
        try:
            for number, planned in enumerate(group):
                self.on_progress(Progress(planned, None, self._done, self._total))
                if stand is None:
                    try:
                        stand, took = self._stands.take(group[number:])
                    except LaunchError as error:
                        found += [self._unstarted(each, error) for each in group[number:]]
                        break
                    floor += took
                    if planned.arm == "subject":
                        self.deviations = dict(stand.broker.deviations)
                record, usable = self._play(planned, stand)
                floor += record.floor_seconds
                found.append(record)
                if not usable:
                    stand.close()
                    stand = None
        except BaseException:
            if stand is not None:
                stand.close()
            raise
        if stand is not None:
            self._stands.give(group[0].instance, stand)
        return found, floor

    def _play(self, planned: Planned, stand: RunningBroker) -> tuple[TrialRecord, bool]:
        """The record of the trial, and whether its broker can be used for the next one."""
        if self._abort.requested:
            raise Interrupted("stopped by the user")
        header = _header(self.header, planned)
        folder = self.folder / "trials" / planned.id
        player = TrialPlayer(planned, stand, self._nursery, folder, header, self._abort)
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
