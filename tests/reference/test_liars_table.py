"""The liars' labels: every claim exists, every fault is one, and the documentation has a line for each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conformance import claims, paths, scenario
from conformance.reference.liars import registry
from conformance.reference.liars.registry import LIARS
from conformance.scenario import Liar

FAULTS = {
    "none",
    "kill",
    "stop",
    "pause",
    "consumer_crash",
    "cut",
    "held_sync",
    "failed_sync",
    "disk_full",
    "power_loss",
}


def test_names_come_from_classes():
    """An article or a number is a word of its own."""
    assert {"recovers-half-a-transaction", "never-answers-one-send"} <= set(LIARS)
    assert all(name == name.lower() and "--" not in name for name in LIARS)


@pytest.mark.parametrize("name", LIARS)
def test_labels(name):
    """Its claims are in the catalogue, its fault is a fault, and it overrides something of the honest broker."""
    liar = LIARS[name]
    own = {key for key in vars(liar) if not key.startswith("__")} - {"breaks", "fault", "needs"}

    assert set(liar.breaks) - set(claims.load().claims) == set()
    assert liar.fault in FAULTS
    assert len(own) == 1
    assert own - set(dir(liar.__mro__[1])) == set()


def test_a_control_breaks_its_claim():
    """A liar that is the control of a check is labelled with the claim that the check decides."""
    missing = {
        (check.control.name, claim)
        for item in scenario.load(claims.load()).values()
        for claim, check in item.decides.items()
        if isinstance(check.control, Liar) and claim not in LIARS[check.control.name].breaks
    }

    assert missing == set()


def test_the_table_is_in_the_documentation():
    """docs/reference-liars.md ends with the table; after a change: python -c 'print(registry.table())'."""
    assert (paths.root() / "docs/reference-liars.md").read_text().endswith(f"\n\n{registry.table()}\n")


def test_the_names_are_listed():
    """`conformance broker --liars`: one a line, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "conformance.reference", "--liars"], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == list(LIARS)
