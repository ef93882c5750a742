"""Findings are reproduced by their scripts, which use nothing of the suite."""

import os
import subprocess
import sys

import pytest

from conformance import adapters, paths
from conformance.adapters.placeholders import fill
from conformance.faults import disk
from conformance.ledger import Ledger

SAID = {
    "artemis_acknowledgement_unanswered.py": [
        "rcv-settle-mode asked 1 (second), answered 0",
        "the acknowledgement was not answered within 3 s",
    ],
    "artemis_first_acquirer_absent.py": ["first delivery: first-acquirer False delivery-count 0"],
    "artemis_stomp_acknowledgement_in_transaction.py": ["after ABORT and a new connection: nothing within 3 s"],
    "artemis_stomp_auto_window.py": ["auto with a window: stops before the end", "auto with no window: all"],
}

ON_A_FULL_DISK = {
    "artemis_confirms_what_was_not_written.py": [
        "confirmed before the first ENOSPC; of those, there after a restart: all",
        "of what was in a write that returned ENOSPC, and in no other, confirmed: some",
        "of those, there after a restart: none",
    ],
}
"""Scripts that start the broker themselves, under a tracer."""

BY_CHANCE = ["artemis_stomp_message_stays_behind.py"]
"""Scripts that need many rounds and minutes: nobody can wait for them here."""


def test_every_script_has_its_words():
    """And its line in the README beside it."""
    folder = paths.fixtures() / "findings"

    assert sorted([*SAID, *ON_A_FULL_DISK, *BY_CHANCE]) == sorted(path.name for path in folder.glob("*.py"))
    assert [
        name for name in [*SAID, *ON_A_FULL_DISK, *BY_CHANCE] if name not in (folder / "README.md").read_text()
    ] == []


@pytest.mark.parametrize("name", [*SAID, *ON_A_FULL_DISK, *BY_CHANCE])
def test_nothing_of_the_suite_is_used(name):
    """A broker's maintainer needs only proton, or a socket."""
    assert "conformance" not in (paths.fixtures() / "findings" / name).read_text()


@pytest.mark.artemis
def test_reproduced(tmp_path):
    """On the version that the README names."""
    adapter = adapters.find("artemis@2.56.0")
    seen = {}
    with (
        Ledger(tmp_path, "findings") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), list("abcd"), ledger) as broker,
    ):
        broker.start()
        host, port = broker.endpoint("amqp")  # one port speaks both protocols
        for queue, name in zip("abcd", SAID, strict=True):
            words = [sys.executable, paths.fixtures() / "findings" / name, f"{host}:{port}", queue]
            seen[name] = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    assert SAID == seen


@pytest.mark.artemis
@pytest.mark.skipif(bool(disk.cannot()), reason=disk.cannot())
@pytest.mark.parametrize("name", ON_A_FULL_DISK)
def test_reproduced_on_a_full_disk(tmp_path, name):
    """On the version that the README names. What the script starts bears the mark of the ledger, should it hang."""
    adapter = adapters.find("artemis@2.56.0")
    with (
        Ledger(tmp_path, "findings") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), [], ledger) as broker,
    ):
        host, port = broker.endpoint("stomp")
        words = broker.plan.words
        wanted = {key: fill(text, words) for key, text in broker.plan.source.file.start.environment.items()}
        command = [sys.executable, paths.fixtures() / "findings" / name, words["instance"], f"{host}:{port}"]
        environment = {**os.environ, **wanted, **ledger.environment}
        script = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=180)

    assert script.stdout.splitlines() == ON_A_FULL_DISK[name], script.stderr
