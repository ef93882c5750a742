"""Where the kernel is not Linux: the same claims by the faults that are left, and a reason for each of the others."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from conformance import paths
from conformance.faults import possible
from conformance.scenario.faults import Cut, Delay, HoldLink, Throttle
from conformance.scenario.needs import FRAMES, JOURNAL_WATCHED, KILL_WHILE_STARTING, ON_XFS

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "adapters"))
from owned_broker import COMMANDS, running, theirs  # noqa: F401 - fixtures

HERE = pathlib.Path(__file__).parents[1] / "elsewhere"
CLI = "import sys; from conformance.frontend.cli import main; sys.argv.insert(1, 'run'); main()"
PLAYED = "broker-killed-after-commit"
CUT = "cut-around-a-send"


@pytest.fixture
def without_linux(tmp_path):
    """The environment of a Python from which the parts of Linux are taken. Its runs must not be seen from here."""
    path = f"{HERE}{os.pathsep}{paths.root()}"
    return {**os.environ, "PYTHONPATH": path, "XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_broker_that_runs_elsewhere_is_tried(theirs, without_linux, tmp_path):  # noqa: F811
    """It is killed by its owner's command, and the bundled broker that is the control by a signal."""
    words = ["--adapter", theirs.spec(**COMMANDS), "--scenario", PLAYED, "--scenario", CUT]
    ran = subprocess.run(
        [sys.executable, "-c", CLI, *words, "--out", str(tmp_path / "run")],
        env=without_linux,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 2 == ran.returncode, ran.stdout + ran.stderr  # what only the disk can show is undecided
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    rows = {(row["claim"], row["scenario"]): row for row in report["verdicts"]}
    cut = {row["reason"] for (_, name), row in rows.items() if name == CUT and row["verdict"] == "NOT_TRIED"}

    assert "HOLDS" == rows["SOLCD-TX-02", PLAYED]["verdict"]
    assert cut
    assert all("on Linux only (/proc/net/tcp)" in reason for reason in cut)


@pytest.mark.process
def test_what_needs_linux_has_its_reason(without_linux):
    asked = """import json
from conformance import claims, scenario
from conformance.faults import possible
every = scenario.load(claims.load()).values()
print(json.dumps(possible.unable(wanted for one in every for wanted in one.wanted)))"""
    printed = subprocess.run(
        [sys.executable, "-c", asked], env=without_linux, capture_output=True, text=True, check=True
    )
    disk, link, watch = "strace is not on PATH", "/proc/net/tcp", "watched on Linux only"
    reasons = {
        **dict.fromkeys(("watched", "held_sync", "failed_sync", "disk_full"), disk),
        **dict.fromkeys(("cut", "hold_link", "delay", "throttle", FRAMES.name), link),
        **dict.fromkeys((KILL_WHILE_STARTING.name, JOURNAL_WATCHED.name), watch),
        **dict.fromkeys(("power_loss", "filled_disk", ON_XFS.name), "it needs Linux"),
    }
    found = json.loads(printed.stdout)

    assert reasons.keys() == found.keys()
    assert [] == [name for name, why in reasons.items() if why not in found[name]]
    assert {} == possible.unable(
        [Cut, HoldLink, Delay, Throttle, FRAMES, KILL_WHILE_STARTING, JOURNAL_WATCHED]
    )  # here they can be had
