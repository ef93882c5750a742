"""Judge a run in batches while it is recorded, so that a violation is known long before the last trial."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from conformance.errors import ConformanceError

FIRST_S = 30.0
"""The seconds before the first batch, and the fewest between two."""
RESTS = 3
"""After a batch the judge rests this many times as long as the batch took: trials need the cores.

Not nine times: then up to four tenths of a run were left to the end, where nothing runs beside the judge.
"""


class BatchJudge:
    """Judges the folder of a run in a thread whenever trials were added, until the recording leaves the context.

    Args:
        folder: Of the run.
        prepare: Called once before the first batch: it waits until the judge can work.
        judge: Judges what is recorded, and shows what it found.
        quiet: Held by the recording while a trial plays that a busy machine could change.
        note: Shows why the judge gave up; then everything is judged at the end of the run.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        prepare: Callable[[], object],
        judge: Callable[[], None],
        quiet: AbstractContextManager[object],
        note: Callable[[str], None],
    ) -> None:
        self._folder, self._prepare, self._judge, self._quiet, self._note = folder, prepare, judge, quiet, note
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(1, "judge")
        self._work: Future[None] | None = None

    def __enter__(self) -> Self:
        self._work = self._pool.submit(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the batch under way; after Ctrl-C or an error, the end of the JVM ends it."""
        self._ended.set()
        self._pool.shutdown(wait=kind is None)
        if kind is None and self._work is not None:
            self._work.result()

    def _run(self) -> None:
        try:
            if not self._ended.wait(FIRST_S):
                self._prepare()
                self._judge_batches()
        except (ConformanceError, OSError) as error:
            if not self._ended.is_set():
                self._note(f"the run is judged at its end only: {error}")

    def _judge_batches(self) -> None:
        rest, judged = 0.0, 0
        while not self._ended.wait(rest):
            rest = FIRST_S
            recorded = len(list(self._folder.glob("trials/*/trial.json")))
            if recorded == judged:
                continue
            with self._quiet:
                began = time.monotonic()
                if not self._ended.is_set():
                    self._judge()
            judged, rest = recorded, max(FIRST_S, RESTS * (time.monotonic() - began))
