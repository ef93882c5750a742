"""A series of failovers under load: the books of the series of crashes, with the other member in place of a restart.

`CONFORMANCE_CRASHES=full` plays 100.
"""

from __future__ import annotations

import contextlib
import os

import pytest
from blackbox.accounts import Fault, What
from blackbox.series import Series

from .pair_rig import Pair

FAILOVERS = 100 if os.environ.get("CONFORMANCE_CRASHES") == "full" else 8
SEED = 20_261_130


class Failovers(Series):
    """Each life is that of the active member. The one that was killed is its standby, in step, before the load begins."""

    def run(self):
        self.pair = Pair(self.folder, *self.words)
        self.number, self.active = 1, self.pair.start(1)
        try:
            return super().run()
        finally:
            self.pair.end()

    @contextlib.contextmanager
    def started(self, data):
        active = self.active.serves()
        self.number = 3 - self.number
        standby = self.pair.start(self.number).follows()
        yield active
        self.active = standby


@pytest.mark.process
def test_failovers_lose_nothing(tmp_path):
    """At random moments, with sends, acknowledgements and transactions of both protocols under way."""
    series = Failovers(tmp_path, FAILOVERS, SEED)
    series.run()
    counts = series.accounts.counts
    print(*series.lines(), sep="\n")

    assert series.accounts.faults == []
    assert series.done == FAILOVERS
    assert min(counts["owed"], counts["in doubt"]) > 0
    assert {What.SENT, What.ACKED, What.COMMITTED} <= {what for _, what in series.noted}


@pytest.mark.process
@pytest.mark.parametrize(
    ("liar", "faults"),
    [
        ("confirms-before-its-replica", {Fault.LOST, Fault.BACK, Fault.HALF}),
        ("forgets-acknowledgements-at-failover", {Fault.BACK}),
        ("replicates-half-a-transaction", {Fault.LOST, Fault.HALF}),
    ],
)
def test_failovers_find_a_liar(tmp_path, liar, faults):
    """Within a few."""
    series = Failovers(tmp_path, 10, SEED, words=(f"--liar={liar}",), until_fault=True)

    assert {fault for fault, _ in series.run().faults} & faults
