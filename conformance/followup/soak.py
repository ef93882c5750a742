"""Run a soak: record segment after segment, judge each while the next is recorded, and the whole at the end.

`soak.json` is written after each judged segment, so that a soak that was killed goes on with the next one.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import pathlib
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import pyarrow.parquet as pq

from conformance import adapters, campaign, judge, locks, records
from conformance.adapters import BrokerRequest
from conformance.campaign import Campaign, Options
from conformance.clients.workers import job as jobs
from conformance.errors import ExitCode, HistoryError, Interrupted, JudgeError, UsageError
from conformance.judge.exits import OF_BROKER
from conformance.judge.input.packing import FILE as PACKED
from conformance.judge.input.packing import SOURCES, Packed, compact
from conformance.judge.rows import Verdict
from conformance.judge.soak import plan, ruling
from conformance.judge.soak.plan import SoakCounts
from conformance.judge.soak.ruling import ControlSoak, SoakEvidence
from conformance.judge.spark import StartingSession
from conformance.ledger import Ledger, release_leftovers
from conformance.processes import boot_id
from conformance.protocols import WIRES
from conformance.records import RunRecord, TrialRecord
from conformance.run.planning import REFERENCE, Planned
from conformance.run.soak.memory import MemorySampler
from conformance.run.soak.recorder import SEGMENTS, SoakRecorder, segment_folder, take_over
from conformance.run.soak.script import DrawnFault, SoakOptions, drawn_fault, planned
from conformance.run.trial import INTERRUPTED
from conformance.scenario.reading import singles
from conformance.scenario.script import Publish

FILE = "soak.json"
LIARS = {"treats-persistent-as-non-persistent": "lost", "brings-acknowledged-back": "duplicated"}
"""The controls of every soak: liars of the bundled broker, and what each must be convicted of."""

_CONTROL_FAULTS, _CONTROL_S, _CONTROL_RATE = 3, 1.95, 200
"""The time is none at which a batch of acknowledgements has just been answered, so that something is unacknowledged."""
_MOST_VOID = 3
"""After so many void segments in a row the soak ends: the suite cannot play it here."""

DRAINED, CUT_OFF = "drained", "cut off"


class SoakSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One judged segment, and what `ended_by` names: its fault, the drain of the queue, or the end of the suite.

    `void` says why the suite could not play it whole; it is empty if the soak was killed or stopped. `memory` has the
    most bytes that each kind of process used.
    """

    number: int
    ended_by: str
    seconds: float
    events: int
    history_bytes: int
    void: str
    memory: dict[str, int]
    counts: SoakCounts

    @property
    def fault(self) -> str:
        """The name of its fault if that took effect and met messages at risk; else empty."""
        return "" if self.ended_by in (DRAINED, CUT_OFF) or not self.counts.exposed else self.ended_by


class SoakReport(msgspec.Struct, frozen=True, kw_only=True):
    """`soak.json`. `boot` is the boot of the machine: the clocks of two boots cannot be compared.

    `counts` of the last segment are the sum of all segments; `whole` counts all of them at once. It is None, and there
    is no verdict, until the soak has ended.
    """

    options: SoakOptions
    run: RunRecord
    boot: str
    segments: tuple[SoakSegment, ...] = ()
    controls: tuple[ControlSoak, ...] = ()
    whole: SoakCounts | None = None
    verdict: Verdict | None = None
    reason: str = ""
    faults: dict[str, int] = {}
    whole_seconds: float = 0.0

    @property
    def exit_code(self) -> ExitCode:
        return OF_BROKER.get(self.verdict, ExitCode.CONFORMANT) if self.verdict else ExitCode.INTERRUPTED

    @property
    def word(self) -> str:
        """The verdict with its strength: `HOLDS (12 kills)`."""
        held = self.verdict is Verdict.HOLDS
        return f"{self.verdict} ({ruling.strength(self.faults)})" if held else str(self.verdict)

    @property
    def recorded_s(self) -> float:
        return sum(segment.seconds for segment in self.segments)


@dataclasses.dataclass(frozen=True)
class Soak:
    """A checked soak. `earlier` is what the part that was stopped or killed has left."""

    options: SoakOptions
    campaign: Campaign
    folder: pathlib.Path
    trial: Planned
    earlier: SoakReport | None = None

    @property
    def answered(self) -> bool:
        """Whether the broker answers acknowledgements."""
        return _answers(self.trial)


def _answers(trial: Planned) -> bool:
    answer = trial.adapter.file.protocols[trial.protocol].ack_confirm
    return (answer or jobs.NEVER) != jobs.NEVER


def prepare(options: SoakOptions, out: pathlib.Path | None) -> Soak:
    """Check every option; nothing is downloaded or started. Raises `UsageError`."""
    options.check()
    made = _campaign(options, out)
    return _soak(dataclasses.replace(made, again=command(options, made)), options, made.folder)


def resume(folder: pathlib.Path) -> Soak:
    """Return a soak that was killed, to go on with it. Raises `UsageError` if there is none, or if it has ended."""
    try:
        earlier = records.read(folder / FILE, SoakReport)
    except HistoryError as error:
        raise UsageError(f"--resume {folder}: it is not the folder of a soak: {error}", code="no-run") from error
    if earlier.verdict is not None:
        raise UsageError(f"--resume {folder}: the soak has ended: {earlier.word}", code="run-finished", folder=folder)
    if earlier.boot != boot_id():
        why = "this machine was started again since, and the clock of its histories with it; start a new soak"
        raise UsageError(f"--resume {folder}: {why}", code="another-boot", folder=folder)
    options = earlier.options
    made = dataclasses.replace(_campaign(options, None), folder=folder, again=earlier.run.command)
    return dataclasses.replace(_soak(made, options, folder), earlier=earlier)


def _campaign(options: SoakOptions, out: pathlib.Path | None) -> Campaign:
    return campaign.prepare(
        Options(
            adapter=options.adapter,
            protocol=options.protocol,
            settings=options.settings,
            seed=options.seed,
            out=out,
            offline=options.offline,
        )
    )


def _soak(made: Campaign, options: SoakOptions, folder: pathlib.Path) -> Soak:
    selection = made.selection
    if made.adapter.launcher != "native":
        why = (
            f"a soak keeps the store of a broker that the suite starts itself, and this one is {made.adapter.launcher}"
        )
        raise UsageError(why, code="not-native")
    if selection.no_client_reason or selection.client or selection.protocol not in WIRES:
        known = ", ".join(word for word in WIRES if word in made.adapter.file.protocols)
        why = selection.no_client_reason or f"a soak uses the suite's own clients; this broker speaks {known or 'none'}"
        raise UsageError(f"--protocol {selection.protocol}: {why}", code="no-client")
    if unable := [f"{name}: {made.selection.unable[name]}" for name in options.faults if name in selection.unable]:
        raise UsageError(f"--faults {unable[0]}", code="no-fault")
    trial = planned(options, made.adapter, selection.settings, selection.protocol)
    return Soak(options, made, folder, trial)


def command(options: SoakOptions, made: Campaign) -> str:
    """Return the command line that repeats the soak."""
    words = ["conformance", "soak", "--adapter", made.adapter.spec, "--protocol", made.selection.protocol]
    words += [word for setting in options.settings for word in ("--set", setting)]
    words += ["--for", f"{options.for_s}s", "--rate", str(options.rate), "--every", f"{options.every_s}s"]
    return shlex.join([*words, "--faults", ",".join(options.faults), "--seed", str(options.seed)])


@dataclasses.dataclass(frozen=True)
class SoakWatcher:
    """The callbacks of a front during a soak; `judged` comes from another thread."""

    note: Callable[[str], None] = lambda _: None
    judged: Callable[[SoakSegment], None] = lambda _: None


def execute(soak: Soak, watcher: SoakWatcher) -> SoakReport:
    """Record and judge to the end, and return the report, which is also `soak.json`. Raises `Interrupted`."""
    with _only_one(soak.folder):
        for line in release_leftovers():
            watcher.note(f"released what an earlier run left: {line}")
        soak.campaign.adapter.install(offline=soak.options.offline)
        return _execute(soak, watcher)


@contextlib.contextmanager
def _only_one(folder: pathlib.Path) -> Iterator[None]:
    """Hold the lock of the folder; raises `UsageError` if another process soaks in it."""
    lock = folder / ".lock"
    descriptor = locks.acquire(lock)
    if descriptor is None:
        raise UsageError(f"{folder}: another process soaks in this folder; wait for its end, or stop it", code="in-use")
    try:
        yield
    finally:
        locks.release(lock, descriptor)


def _execute(soak: Soak, watcher: SoakWatcher) -> SoakReport:
    report = soak.earlier or SoakReport(options=soak.options, run=campaign.run_record(soak.campaign), boot=boot_id())
    starting = judge.start_in_background()
    try:
        with Ledger(soak.folder, report.run.run) as ledger:
            return _Session(soak, report, ledger, starting, watcher).run()
    except KeyboardInterrupt as error:
        raise Interrupted("stopped by the user") from error
    finally:
        starting.stop()


class _Session:
    """One part of a soak: from its start, or from where it was killed, to its end or until it is stopped."""

    def __init__(
        self, soak: Soak, report: SoakReport, ledger: Ledger, starting: StartingSession, watcher: SoakWatcher
    ) -> None:
        self.soak, self.report, self.watcher = soak, report, watcher
        self._ledger, self._starting = ledger, starting
        self._header = records.header(report.run)
        self._judging: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1)

    def run(self) -> SoakReport:
        self._save()
        try:
            self._play_controls()
            self._take_over()
            soak = self.soak
            with contextlib.ExitStack() as stack:
                recorder = SoakRecorder(soak.folder, self._header, self._ledger, soak.trial, soak.options)
                memory = stack.enter_context(MemorySampler(stack.enter_context(recorder).pids))
                recorder.start()
                self._record(recorder, memory)
                self._judged()
            self._conclude()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
        return self.report

    def _save(self, **changes: object) -> None:
        self.report = msgspec.structs.replace(self.report, **changes)
        records.save(self.report, self.soak.folder / FILE)

    # controls

    def _play_controls(self) -> None:
        """Soak each liar for some seconds, unless an earlier part has done so: the check must be seen to fail."""
        for liar, word in list(LIARS.items())[len(self.report.controls) :]:
            found = self._control(liar, word)
            self.watcher.note(f"control liar {liar}: {found.offences} {word}{f'; {found.void}' if found.void else ''}")
            self._save(controls=(*self.report.controls, found))

    def _control(self, liar: str, word: str) -> ControlSoak:
        folder = self.soak.folder / "controls" / liar
        shutil.rmtree(folder, ignore_errors=True)
        options = msgspec.structs.replace(self.soak.options, rate=min(self.soak.options.rate, _CONTROL_RATE))
        opened = adapters.open_broker(BrokerRequest(REFERENCE, self.soak.trial.protocol))
        trial = planned(options, opened.adapter, opened.adapter.effective({}), self.soak.trial.protocol, liar)
        fault = DrawnFault("kill", _CONTROL_S, at_confirm=True)
        with SoakRecorder(folder, self._header, self._ledger, trial, options) as recorder:
            recorder.start()
            faults = (*[fault] * _CONTROL_FAULTS, None)
            played = [recorder.play(number, each) for number, each in enumerate(faults, 1)]
        packed = [_packed(segment_folder(folder, number)) for number in range(1, len(played) + 1)]
        counts = plan.whole(self._starting.spark, packed, answered=_answers(trial))
        void = next((record.void for record in played if record.void), "")
        return ControlSoak(liar=liar, word=word, offences=getattr(counts, word), void=void)

    # segments

    def _take_over(self) -> None:
        """Judge what an earlier part has recorded and not judged; its last segment may have been cut off."""
        for folder in sorted((self.soak.folder / SEGMENTS).glob("*")):
            number = int(folder.name)
            if number > len(self.report.segments) and take_over(folder, self.soak.trial):
                self._judge(number, {})

    def _record(self, recorder: SoakRecorder, memory: MemorySampler) -> None:
        """Record segments until the time is over, then drain the queue; the one before is judged meanwhile.

        A wait for the judge is no time under load.
        """
        number, void, played_s = len(self.report.segments), 0, self.report.recorded_s
        while (left_s := self.soak.options.for_s - played_s) > 1 and void < _MOST_VOID:
            number += 1
            record = self._segment(recorder, memory, number, drawn_fault(self.soak.options, number, left_s))
            played_s += record.seconds
            void = void + 1 if record.void else 0
            if recorder.lost:
                return
        self._segment(recorder, memory, number + 1, None)

    def _segment(
        self, recorder: SoakRecorder, memory: MemorySampler, number: int, fault: DrawnFault | None
    ) -> TrialRecord:
        record = recorder.play(number, fault)
        self._judged()
        self._judging = self._pool.submit(self._judge, number, memory.most())
        return record

    def _judged(self) -> None:
        """Wait until the segment before is judged: at most one is behind."""
        if self._judging is not None:
            self._judging.result()

    def _judge(self, number: int, memory: dict[str, int]) -> None:
        """Judge one segment with what the one before carries, and write it into `soak.json`."""
        folder = segment_folder(self.soak.folder, number)
        record = records.read(folder / "trial.json", TrialRecord)
        before = segment_folder(self.soak.folder, number - 1) if number > 1 else None
        counts = plan.segment(self._starting.spark, _packed(folder), folder, before, answered=self.soak.answered)
        packed = records.read(folder / SOURCES, Packed)
        segment = SoakSegment(
            number=number,
            ended_by=ended_by(record),
            seconds=record.seconds,
            events=pq.read_metadata(folder / PACKED).num_rows,
            history_bytes=sum(source.size for source in packed.sources.values()),
            void="" if record.void == INTERRUPTED else record.void,
            memory=memory,
            counts=counts,
        )
        self._save(segments=(*self.report.segments, segment))
        self.watcher.judged(segment)

    # the end

    def _conclude(self) -> None:
        """Judge all segments at once, compare that with the sum of the segments, and decide."""
        self.watcher.note("judging the whole soak at once")
        segments = self.report.segments
        began = time.monotonic()
        packed = [segment_folder(self.soak.folder, each.number) / PACKED for each in segments]
        whole = plan.whole(self._starting.spark, packed, answered=self.soak.answered)
        faults = dict(collections.Counter(segment.fault for segment in segments if segment.fault))
        evidence = SoakEvidence(
            counts=segments[-1].counts,
            whole=whole,
            confirmed=sum(segment.counts.confirmed for segment in segments),
            faults=faults,
            void=[f"segment {segment.number}: {segment.void.rstrip('.')}" for segment in segments if segment.void],
            controls=self.report.controls,
            settings=self.report.run.settings,
            absent=self.report.run.absent,
        )
        verdict, reason = ruling.rule(evidence, self.soak.campaign.catalogue)
        took = round(time.monotonic() - began, 1)
        self._save(whole=whole, faults=faults, verdict=verdict, reason=reason, whole_seconds=took)


def ended_by(record: TrialRecord) -> str:
    """Return the name of the fault that ended a segment, `drained`, or `cut off` if the suite did not play it whole."""
    if record.void:
        return CUT_OFF
    steps = singles(record.steps or ())
    return next((step.until.name for step in steps if isinstance(step, Publish) and step.until), DRAINED)


def _packed(folder: pathlib.Path) -> pathlib.Path:
    """Pack a segment; one that the suite did not play whole was closed like one that was killed, and can be judged."""
    record = records.read(folder / "trial.json", TrialRecord)
    packed = compact(folder, msgspec.structs.replace(record, void=""))
    if packed.parquet is None:
        raise JudgeError(f"{folder} cannot be judged: {packed.record.void}")
    return packed.parquet
