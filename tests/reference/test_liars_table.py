"""The liars' labels: every anomaly exists, every fault is one, and the documentation has a line for each."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conformance import claims, scenario
from conformance.errors import UsageError
from conformance.judge.anomalies import ANOMALIES
from conformance.reference import liars
from conformance.reference.honest import Honest
from conformance.reference.liars import LIARS
from conformance.scenario import Liar

FAULTS = set(
    "none kill stop pause consumer_crash cut held_sync failed_sync disk_full power_loss kill_nodes part_nodes corrupt filled_disk"
    " files_used_up".split()
)
POINTS = {name for name in vars(Honest) if not name.startswith("__")}


@pytest.mark.parametrize("name", liars.names())
def test_labels(name):
    """Its anomalies are the judge's, its fault is a fault, and it replaces exactly one point of the honest broker."""
    lie = liars.rows()[name]
    replaced = {*lie.overrides, *(set(vars(lie.kind)) & set(POINTS) if lie.kind is not Honest else ())}

    assert set(lie.shows) - set(ANOMALIES) == set()
    assert lie.fault in FAULTS
    assert len(replaced) == 1
    assert replaced <= POINTS
    assert re.fullmatch("[a-z]+(-([a-z]+|N))+", name)


def test_a_control_shows_what_its_check_sees():
    """A liar that is the control of a check is labelled with the anomaly of that check."""
    missing = {
        (check.control.name, check.anomaly)
        for item in scenario.load(claims.load()).values()
        for check in item.checks
        if isinstance(check.control, Liar) and check.anomaly not in LIARS[check.control.name].shows
    }

    assert missing == set()


@pytest.mark.process
def test_the_names_are_listed():
    """`conformance broker --liars`: one a line, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "conformance.reference", "--liars"], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == liars.names()


@pytest.mark.parametrize("number", ["", "0", "-1", "03", "1.5", "ten", "1000000", "N"])
@pytest.mark.parametrize("family", liars.FAMILIES)
def test_a_wrong_number_is_a_usage_error(family, number):
    """The text names the family and the numbers that it takes."""
    with pytest.raises(UsageError) as raised:
        liars.find(family.replace("N", number))

    assert family == raised.value.fields["closest"]
    assert "N is a whole number from 1 to 999999" in str(raised.value)
