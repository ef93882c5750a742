"""What a person sees of a long run: one live line on a terminal, plain lines in a log, nothing with --quiet."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bar

from conformance.campaign import Campaign, Watcher
from conformance.run.record import Progress


class Show:
    """Shows a campaign while it lasts; `watcher` is what the campaign calls, from any thread."""

    def __init__(self, campaign: Campaign, *, quiet: bool) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self.live = self.console.is_terminal and not quiet
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.campaign = campaign
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.live,
        )
        self.task: TaskID | None = None
        self.shown_log: tuple[str, ...] = ()
        self._download = _Download(self.say)
        self.watcher = Watcher(note=self.say, download=self._download.at, progress=self.at)

    def __enter__(self) -> Show:
        run = self.campaign
        self.say(
            f"{run.adapter.file.title} {run.adapter.version} ({run.adapter.launcher}) over {run.selection.protocol}, "
            f"seed {run.selection.seed}, into {run.folder}"
        )
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        """One line."""
        with self.lock:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def at(self, progress: Progress) -> None:
        """A trial begins or has ended."""
        planned, record = progress.planned, progress.record
        arm = "weakened" if "=" in planned.control else planned.control or "subject"
        name = f"{planned.script.id} {arm} #{planned.index}"
        if self.live:
            with self.lock:
                if self.task is None:
                    self.task = self.bar.add_task(name, total=progress.total)
                shown = {} if planned.patient else {"description": name}
                self.bar.update(self.task, completed=progress.done, total=progress.total, **shown)  # type: ignore[arg-type]
        if record is not None and (record.void or not self.live):
            outcome = f"VOID: {record.void}" if record.void else f"recorded in {record.seconds:.1f} s"
            elapsed = time.monotonic() - self.started
            self.say(f"{elapsed:6.1f} s  {progress.done:3}/{progress.total}  {name}: {outcome}")
            if record.void_log and record.void_log != self.shown_log:
                self.shown_log = record.void_log
                self.say("\n".join(f"    | {line}" for line in record.void_log))


class _Download:
    """A download in a log: a line each tenth, so that a terminal and a CI log both show that it moves."""

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
    """A progress bar of one download on a terminal, nothing elsewhere; yields what the download calls."""
    console = Console(file=sys.stderr)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
