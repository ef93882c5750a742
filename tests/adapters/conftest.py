"""What the tests of real brokers share, and this folder on the path."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest

from conformance.ledger import Ledger

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[Ledger]:
    """The ledger of a run of its own."""
    with Ledger(tmp_path / "run", f"adapters-{tmp_path.parent.name}-{tmp_path.name}") as book:
        yield book
