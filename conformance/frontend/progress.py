"""Show the progress of a run: on a terminal a bar, and a live line for each trial that runs; else a line a scenario.

`RunProgress` knows what runs, since when and for how long still, and prints nothing; `Show` prints. The remaining time
is only estimated after two trials of the same parallel group.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bar
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from conformance.campaign import Campaign, Watcher
from conformance.counting import plural
from conformance.errors import visible
from conformance.judge.rows import Verdict, VerdictRow, replay_in
from conformance.report.phrases import SIGNS, steps_in_words
from conformance.run.planning import Planned
from conformance.run.record import Progress

ENOUGH = 2
"""Trials of a group that must have ended before the rest is estimated."""
NARROW = 72
"""A terminal with fewer columns shows the scenario of a trial, and not its broker."""
_BAR = 24
"""Columns of the bar."""
_SILENT_S = 30.0
"""So long a log may have no line; then a trial has one."""


_ALONE = "alone"


@dataclasses.dataclass
class BrokerTrials:
    """The trials of a group; `running` has those that run by id, and since when; `began` is when the first one did.

    Several run side by side: on brokers of their own, and as those that share one. How many is what has been seen.
    """

    total: int
    began: float = 0.0
    running: dict[str, tuple[Planned, float]] = dataclasses.field(default_factory=dict)
    seconds: list[float] = dataclasses.field(default_factory=list)

    @property
    def done(self) -> int:
        return len(self.seconds)

    def left(self, now: float) -> float | None:
        """Estimate the seconds until its last trial ends; None if too few have ended."""
        left = self.total - self.done
        if left <= 0:
            return 0.0
        if self.done < ENOUGH:
            return None
        pace = statistics.fmean(self.seconds)
        spent = sum(min(now - since, pace) for _, since in self.running.values())
        worked = sum(self.seconds) + sum(now - since for _, since in self.running.values())
        beside = max(worked / max(now - self.began, 1.0), 1.0)
        return (pace * left - spent) / min(beside, left)


class RunProgress:
    """The state of a recording, fed with every `Progress` from any thread. Times come from `clock`, in seconds.

    Groups are those of the recording (`Planned.parallel_group`), and the trials that run alone after them. A trial that
    waits for the liveness bound is estimated by the others of its kind that have ended.
    """

    def __init__(self, plan: Sequence[Planned], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._plan = plan
        self.verdicts: dict[str, int] = {}
        self._void = 0
        self._begin(len(plan))

    def _begin(self, total: int) -> None:
        # Trials that are added to repeat a violation are a recording of their own, without controls.
        whole = total == len(self._plan)
        self._totals = collections.Counter(_group(trial) for trial in self._plan if whole)
        self.main = BrokerTrials(self._totals[""] if whole else total)
        self.alone = BrokerTrials(self._totals[_ALONE])
        self.others: dict[str, BrokerTrials] = {}
        self._waited: list[float] = []
        self.done, self.total = 0, total

    @property
    def _groups(self) -> list[BrokerTrials]:
        return [self.main, self.alone, *self.others.values()]

    def feed(self, progress: Progress) -> None:
        planned, record, now = progress.planned, progress.record, self._clock()
        with self._lock:
            if progress.done < self.done and not any(group.running for group in self._groups):
                self._begin(progress.total)
            self.done = max(self.done, progress.done)
            name = _group(planned)
            known = {"": self.main, _ALONE: self.alone}.get(name)
            group = known or self.others.setdefault(name, BrokerTrials(self._totals[name] or 1))
            if record is None:
                if not (group.running or group.seconds):
                    group.began = now
                group.running[planned.id] = planned, now
                return
            _, since = group.running.pop(planned.id, (planned, now))
            group.seconds.append(now - since)
            self._void += bool(record.void)
            if planned.waits_for_liveness:
                self._waited.append(group.seconds[-1])
            if known is None and group.done >= group.total:
                del self.others[name]

    def left(self) -> str:
        """Estimate the remaining time, in words; empty if it is unknown."""
        now = self._clock()
        with self._lock:
            main, alone = self.main.left(now), self._left_alone(now)
            waits = [wait for group in self.others.values() if (wait := self._left_of(group, now)) is not None]
            unknown = len(waits) < len(self.others)
        if main is None or alone is None:
            return ""
        longest = max([main, *waits]) + alone
        return left_words(longest, least=unknown) if longest > 0 else ""

    def _left_alone(self, now: float) -> float | None:
        """Estimate the trials that come after all others, at first by the pace of the main group."""
        left = self.alone.left(now)
        if left is not None or not self.main.seconds:
            return left
        return statistics.fmean(self.main.seconds) * (self.alone.total - self.alone.done)

    def _left_of(self, group: BrokerTrials, now: float) -> float | None:
        for planned, since in group.running.values():
            if planned.waits_for_liveness:
                return statistics.fmean(self._waited) - (now - since) if self._waited else None
        return group.left(now)

    def counts(self) -> str:
        """`67 of 305 trials, 2 void, 1 VIOLATED, 3 HOLDS, about 19 min left`."""
        parts = [f"{self.done} of {self.total} trials", f"{self._void} void" if self._void else ""]
        return ", ".join(filter(None, (*parts, verdict_words(self.verdicts), self.left())))

    def lines(self) -> list[tuple[str, ...]]:
        """Return for each trial that runs: its scenario, its broker, and the seconds since it began."""
        now = self._clock()
        with self._lock:
            return [
                (f"{planned.script.id} #{planned.index}", broker(planned), f"{now - since:.0f} s")
                for group in self._groups
                for planned, since in group.running.values()
            ]


def _group(planned: Planned) -> str:
    return _ALONE if planned.alone else planned.parallel_group


def broker(planned: Planned) -> str:
    """Name the broker of a trial, with the arm if it is a control."""
    arm = "" if planned.arm_label == "subject" else f" {planned.arm_label}"
    return f"{planned.adapter.name} {planned.adapter.version}{arm}"


def left_words(seconds: float, *, least: bool = False) -> str:
    """Round the estimate to what it is worth.

    >>> left_words(3), left_words(47), left_words(200, least=True), left_words(7300)
    ('about 5 s left', 'about 45 s left', 'at least 3 min left', 'about 2 h left')
    """
    if seconds < 90:
        shown = f"{max(5, round(seconds / 5) * 5)} s"
    else:
        shown = f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{round(seconds / 3600)} h"
    return f"{'at least' if least else 'about'} {shown} left"


def verdict_words(counts: Mapping[str, int]) -> str:
    """Counts of verdicts, the worst word first.

    >>> verdict_words({"HOLDS": 3, "VIOLATED": 1})
    '1 VIOLATED, 3 HOLDS'
    """
    return ", ".join(f"{counts[word]} {word.value}" for word in SIGNS if counts.get(word))


class Show:
    """Shows a run while it lasts; the run calls `watcher`, from any thread.

    `quiet` prints nothing, `verbose` also prints what every trial is about to do. A pipe gets plain lines, with any
    setting of colours in the environment.
    """

    def __init__(
        self, campaign: Campaign, *, quiet: bool = False, verbose: bool = False, console: Console | None = None
    ) -> None:
        terminal = None if sys.stderr.isatty() else False
        self.console = console or Console(stderr=True, quiet=quiet, force_terminal=terminal)
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal and not quiet
        self.campaign, self.verbose = campaign, verbose and not quiet
        self.course = RunProgress(campaign.trials)
        self._started, self._printing = time.monotonic(), threading.Lock()
        self._said_at = self._started
        self._seen: set[tuple[object, ...]] = set()
        self._shown_log: tuple[str, ...] = ()
        self._unfinished = collections.Counter(trial.script.id for trial in campaign.trials)
        self._recorded: dict[str, list[float]] = {}
        self._violated: set[tuple[str, str]] = set()
        self._live = Live(get_renderable=self._running, console=self.console, refresh_per_second=4, transient=True)
        self._download = _Download(self.say)
        self.watcher = Watcher(note=self.say, download=self._download.at, progress=self.at)

    def __enter__(self) -> Show:
        run = self.campaign
        vendor = run.selection.vendor
        through = f" through {vendor.title} {vendor.version}" if vendor else ""
        self.say(
            f"{run.adapter.file.title} {run.adapter.version} ({run.adapter.launcher.word}) over "
            f"{run.selection.protocol}{through}, seed {run.selection.seed}, into {run.folder}"
        )
        if self.live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self._live.stop()

    def say(self, text: str) -> None:
        """Print lines; text of a broker's log cannot control the terminal."""
        with self._printing:
            self.console.print(visible(text), highlight=False, markup=False, soft_wrap=True)

    def verdicts(self, words: Iterator[str] | Sequence[str]) -> None:
        self.course.verdicts = dict(collections.Counter(words))
        if self.course.verdicts:
            self.say(f"judged: {verdict_words(self.course.verdicts)}")

    def violations(self, rows: Iterable[VerdictRow]) -> None:
        """Print each violation that was not printed before, where to see it, and what plays its trial again."""
        found = {(row.claim, row.scenario): row for row in rows}
        self.course.verdicts = {Verdict.VIOLATED: len(found)}
        folder = self.campaign.folder
        for row in [row for key, row in found.items() if key not in self._violated]:
            self.say(
                f"VIOLATED {row.claim} in {row.scenario}: {row.says}\n    {row.reason}\n"
                f"    see {folder / 'report.html'}; again: {replay_in(row.replay, folder)}"
            )
        self._violated |= found.keys()

    def at(self, progress: Progress) -> None:
        self.course.feed(progress)
        planned, record = progress.planned, progress.record
        name = f"{planned.script.id} {planned.arm_label} #{planned.index}"
        if record is None:
            if self.verbose:
                self._announce(planned, name)
            return
        with self._printing:
            seconds = self._recorded.setdefault(planned.script.id, [])
            seconds.append(record.seconds)
            self._unfinished[planned.script.id] -= 1
            whole = self._unfinished[planned.script.id] <= 0  # also each trial that repeats a violation
        if record.void or self.verbose:
            outcome = f"VOID: {record.void}" if record.void else f"recorded in {record.seconds:.1f} s"
            floor = f", {record.floor_seconds:.1f} s of it restarts and waits" if self.verbose else ""
            self._say_at(progress, f"{name}: {outcome}{floor}")
        elif whole and not self.live:
            self._say_at(progress, f"{planned.script.id}: {plural(len(seconds), 'trial')} in {sum(seconds):.1f} s")
        elif not self.live and time.monotonic() - self._said_at > _SILENT_S:  # a log must be seen to move
            self._say_at(progress, f"{name}: recorded in {record.seconds:.1f} s")
        if record.void_log and record.void_log != self._shown_log:
            self._shown_log = record.void_log
            self.say("\n".join(f"    | {line}" for line in record.void_log))

    def _say_at(self, progress: Progress, text: str) -> None:
        self._said_at = time.monotonic()
        left = f"; {words}" if progress.done < progress.total and (words := self.course.left()) else ""
        self.say(f"{time.monotonic() - self._started:6.1f} s  {progress.done:3}/{progress.total}  {text}{left}")

    def _announce(self, planned: Planned, name: str) -> None:
        lines = []
        if planned.instance not in self._seen:
            self._seen.add(planned.instance)
            control = f": {planned.control}" if planned.control and planned.control != planned.arm_label else ""
            lines.append(f"broker {broker(planned)}{control}")
        drawn = f", drawn number {planned.k:,}" if planned.k is not None else ""
        lines.append(f"begin {name}: seed {planned.seed}{drawn}")
        self.say("\n".join([*lines, *(f"    {sentence}" for sentence in steps_in_words(planned.script.steps))]))

    def _running(self) -> Group:
        """A bar over all trials with its counts, and a line for each trial that runs."""
        bar = Table.grid(padding=(0, 2))
        counts = Text(self.course.counts(), no_wrap=True, overflow="ellipsis")
        bar.add_row(ProgressBar(max(self.course.total, 1), self.course.done, _BAR), counts)
        table = Table.grid(padding=(0, 2))
        shown = (0, 1, 2) if self.console.width >= NARROW else (0, 2)
        for line in self.course.lines():
            table.add_row(*(Text(visible(line[at]), no_wrap=True, overflow="ellipsis") for at in shown))
        return Group(bar, table)


class _Download:
    """Prints a line for each tenth of a download, so that a CI log also shows that it moves."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._tenths = say, -1

    def at(self, done: int, total: int | None) -> None:
        tenths = done * 10 // total if total else done >> 23
        if tenths != self._tenths:
            self._tenths = tenths
            of = f" of {total / 1e6:.1f} MB" if total else ""
            self._say(f"downloading: {done / 1e6:.1f} MB{of}")


@contextlib.contextmanager
def downloading(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar of one download, or a line for each tenth outside of a terminal; yields its callback."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _Download(lambda text: print(text, file=sys.stderr, flush=True)).at
        return
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
