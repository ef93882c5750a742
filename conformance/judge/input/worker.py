"""A process that packs some trials beside others: `packing` starts it, and checks the files that it made.

`python -m conformance.judge.input.worker DESCRIPTOR` reads the trials from its input. It ends when the process that
started it closes its end of the pipe, or is killed.
"""

from __future__ import annotations

import gc
import os
import pathlib
import sys
import threading

import msgspec

from conformance.judge.input import packing
from conformance.records import TrialRecord


def main(waits: int) -> None:
    threading.Thread(target=_ends_with, args=(waits,), daemon=True).start()
    gc.disable()
    for folder, record in msgspec.json.decode(sys.stdin.buffer.read(), type=list[tuple[bytes, TrialRecord]]):
        packing.compact(pathlib.Path(os.fsdecode(folder)), record)


def _ends_with(pipe: int) -> None:
    os.read(pipe, 1)  # nothing is written to it
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
