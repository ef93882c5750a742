"""Play the segments of a soak against one broker, and take over what a part that was killed has left.

A segment is a folder with the histories of a trial. Its clients have numbers that no client of another segment has:
a message is known by its publisher in the whole soak. A segment that was cut off stays: its clients were killed, and
what they had not recorded did not leave them.
"""

from __future__ import annotations

import pathlib
import re
import shutil

import msgspec

from conformance import records
from conformance.clients.workers.pool import WorkerPool
from conformance.errors import HistoryError
from conformance.history import Ended, Header, close_history
from conformance.ledger import Ledger
from conformance.records import TrialRecord
from conformance.run.broker_pool import BrokerPool, EarlierStore, RunningBroker
from conformance.run.clients import Abort
from conformance.run.planning import Planned
from conformance.run.record import header_of
from conformance.run.soak.script import DrawnFault, SoakOptions, steps, with_steps
from conformance.run.trial import INTERRUPTED, TrialPlayer, describe

SEGMENTS = "segments"
_NUMBERED = re.compile(r"(publisher|consumer|drain)-(\d+)")


class SoakRecorder:
    """Records segments into `folder/segments`, with one broker that stays. `lost`: the broker did not start again."""

    def __init__(
        self, folder: pathlib.Path, header: Header, ledger: Ledger, trial: Planned, options: SoakOptions
    ) -> None:
        self.folder, self.trial, self.options = folder, trial, options
        self._header = header_of(header, trial)
        self._abort = Abort()
        self._workers = WorkerPool(ledger)
        brokers = folder / "brokers"
        store = _earlier_store(brokers, trial.adapter.name)
        self._pool = BrokerPool(brokers, ledger, [trial], offline=options.offline, store=store)
        self._running: RunningBroker | None = None
        self.lost = False

    def __enter__(self) -> SoakRecorder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._abort.now()
        try:
            if self._running is not None:
                self._running.close()
        finally:
            self._workers.close()

    def start(self) -> None:
        """Start the broker, on the store of an earlier part if there is one; raises `LaunchError`."""
        self._running, _ = self._pool.acquire(self.trial)

    def pids(self) -> list[int]:
        return self._running.broker.target.processes() if self._running else []

    def play(self, number: int, fault: DrawnFault | None) -> TrialRecord:
        """Record one segment; without a fault, drain the queue to its end. Raises `Interrupted`.

        A segment that the suite could not play is cut off like one that was killed, and its record says why.
        """
        assert self._running is not None
        trial = with_steps(self.trial, steps(self.options, fault))
        folder = segment_folder(self.folder, number)
        before = _counts(self.folder)
        player = TrialPlayer(trial, self._running, self._workers, folder, self._header, self._abort)
        player.client_runner.counts.update(before)
        player.disturbed = True  # by the faults of earlier segments
        record = player.play()
        self.lost = player.broker_is_lost
        if record.void:
            cut_off(folder, record)
        return record


def segment_folder(soak: pathlib.Path, number: int) -> pathlib.Path:
    return soak / SEGMENTS / f"{number:05d}"


def _counts(soak: pathlib.Path) -> dict[str, int]:
    """Return the largest number of a client of each role in all segments so far."""
    found: dict[str, int] = {}
    for path in (soak / SEGMENTS).glob("*/*.jsonl"):
        if match := _NUMBERED.fullmatch(path.stem):
            found[match[1]] = max(found.get(match[1], 0), int(match[2]))
    return found


def take_over(folder: pathlib.Path, trial: Planned) -> bool:
    """Close a segment that was not recorded to its end, as `cut_off` does; return False if it has no event.

    Its folder is removed then: no message of it exists.
    """
    try:
        record = records.read(folder / "trial.json", TrialRecord)
    except HistoryError:
        record = msgspec.structs.replace(describe(trial), void=INTERRUPTED)
    if record.void and not cut_off(folder, record):
        shutil.rmtree(folder)
        return False
    return True


def cut_off(folder: pathlib.Path, record: TrialRecord) -> bool:
    """Close the histories of a segment as those of killed processes; return False if its orchestrator has none."""
    for path in folder.glob("*.jsonl"):
        if not _close(path, record.void):
            path.unlink()
    records.save(record, folder / "trial.json")
    return (folder / "orchestrator.jsonl").is_file()


def _close(path: pathlib.Path, why: str) -> bool:
    """Close a history as that of a killed process; return False if it has no header."""
    data = path.read_bytes() if path.is_file() else b""
    lines = data.splitlines(keepends=True)
    if not lines or not lines[0].endswith(b"\n"):
        return False
    if lines[-1].startswith(b'{"record":"footer"'):
        data = data[: -len(lines[-1])]
        path.write_bytes(data)
    close_history(path, Ended.KILLED_BY_FAULT, why)
    return True


def _earlier_store(brokers: pathlib.Path, name: str) -> EarlierStore | None:
    """Return the store of the newest broker that was started, and how often all were; None for a new soak."""
    own = re.compile(rf"\d+-{re.escape(name)}")
    logs = [log for log in brokers.glob("*/start-*.log") if own.fullmatch(log.parent.name)]
    if not logs:
        return None
    newest = max(log.parent for log in logs)
    return EarlierStore(newest, max(int(log.stem.partition("-")[2]) for log in logs))
