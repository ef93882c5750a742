"""Findings are reproduced by their scripts, which use nothing of the suite."""

import subprocess
import sys

import pytest

from conformance import adapters, paths
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

BY_CHANCE = ["artemis_stomp_message_stays_behind.py"]
"""Scripts that need many rounds and minutes: nobody can wait for them here."""


def test_every_script_has_its_words():
    """And its line in the README beside it."""
    folder = paths.fixtures() / "findings"

    assert sorted([*SAID, *BY_CHANCE]) == sorted(path.name for path in folder.glob("*.py"))
    assert [name for name in [*SAID, *BY_CHANCE] if name not in (folder / "README.md").read_text()] == []


@pytest.mark.parametrize("name", [*SAID, *BY_CHANCE])
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
