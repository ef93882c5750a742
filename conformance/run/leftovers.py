"""Release what killed runs left: processes, mounts, containers, and queues at external brokers."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from conformance import ledger
from conformance.adapters.external import queues
from conformance.clients import management


def open_ledger(folder: pathlib.Path, run_id: str) -> ledger.Ledger:
    """Open the ledger of a run; after an error it releases everything that the run made."""
    return ledger.Ledger(folder, run_id, _OTHERS)


def release_leftovers() -> list[str]:
    """Release everything that dead runs left; return a line for each thing. See `ledger.release_leftovers`."""
    return ledger.release_leftovers(_OTHERS)


def _release_queue(record: Mapping[str, Any]) -> str:
    return queues.release(record, management.remove)


_OTHERS = {queues.KIND: _release_queue}
