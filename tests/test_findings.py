"""Findings are reproduced by their scripts, which use nothing of the suite."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from conformance import adapters, paths
from conformance.adapters import web
from conformance.adapters.distribution import installed
from conformance.adapters.file.placeholders import fill
from conformance.faults.disk import injection
from conformance.ledger import Ledger

RABBITMQ = adapters.find("rabbitmq")

SAID = {
    "artemis_acknowledgement_unanswered.py": [
        "rcv-settle-mode asked 1 (second), answered 0",
        "the acknowledgement was not answered within 3 s",
    ],
    "artemis_first_acquirer_absent.py": ["first delivery: first-acquirer False delivery-count 0"],
    "artemis_stomp_acknowledgement_in_transaction.py": ["after ABORT and a new connection: nothing within 3 s"],
    "artemis_stomp_auto_window.py": ["auto with a window: stops before the end", "auto with no window: all"],
}

THROUGH_ITS_CLIENT = {
    "artemis_confirmation_window_has_no_size.py": [
        "window of 1024 bytes: 320 of 320 sends of 65536 bytes acknowledged before the next was made",
        "window of 10485760 bytes: 320 of 320 sends of 65536 bytes acknowledged before the next was made",
    ],
    "artemis_redelivered_unmarked.py": ["marked as redelivered in each of 20 rounds: no"],
}
"""Scripts that call the vendor's client."""

ON_A_FULL_DISK = {
    "artemis_confirms_what_was_not_written.py": [
        "confirmed before the first ENOSPC; of those, there after a restart: all",
        "of what was in a write that returned ENOSPC, and in no other, confirmed: some",
        "of those, there after a restart: none",
    ],
}
"""Scripts that start the broker themselves, under a tracer."""

ON_RABBITMQ = {
    "rabbitmq_acknowledgement_ends_the_session.py": [
        "accepted with settled=false: disposition, settled True",
        "accepted with no settled, which means false: nothing",
    ],
    "rabbitmq_modified_ends_the_session.py": [
        "outcomes offered: amqp:accepted:list amqp:rejected:list amqp:released:list",
        "after modified: amqp:invalid-field Unrecognised state:",
    ],
    "rabbitmq_refused_message_ends_the_connection.py": [
        "message 1: 36",
        "message 2: 36",
        "message 3: 36",
        "message 4: Connection amqp://BROKER disconnected: Condition('amqp:connection:framing-error', 'connection aborted')",
    ],
    "rabbitmq_stomp_send_answered_at_commit.py": [
        "after SEND: nothing within 3 s",
        "after COMMIT: answer to COMMIT, answer to SEND",
        "after SEND: nothing within 3 s",
        "after ABORT: answer to ABORT, nothing within 3 s",
    ],
}
STARTED_THERE = {
    "rabbitmq_quorum_queue_forgotten.py": [
        "killed 0 s after the last confirm: 0 of 10 came back, and nothing for 30 s",
        "killed 3 s after the last confirm: 10 of 10 came back",
    ],
}
"""Scripts that start RabbitMQ themselves."""

FULL = '{"durable": true, "arguments": {"x-max-length": 3, "x-overflow": "reject-publish"}}'
"""A queue of RabbitMQ that refuses the fourth message."""

ON_QPID = {
    "qpid_first_acquirer_absent.py": ["first delivery: first-acquirer False delivery-count 0"],
    "qpid_full_queue_detaches.py": [
        "no outcomes named: accepted, detached, amqp:resource-limit-exceeded",
        "accepted and rejected named: rejected, rejected",
    ],
}

BY_CHANCE = [
    "activemq_waits_for_the_expiry_task.py",
    "artemis_stomp_message_stays_behind.py",
    "qpid_settled_deliveries_stay_counted.py",
]
"""Scripts that need many rounds, or minutes: nobody can wait for them here."""

EVERY = [*SAID, *THROUGH_ITS_CLIENT, *ON_A_FULL_DISK, *ON_RABBITMQ, *STARTED_THERE, *ON_QPID, *BY_CHANCE]


def test_every_script_has_its_words():
    """And its line in the README beside it."""
    folder = paths.fixtures() / "findings"

    assert sorted(EVERY) == sorted(path.name for path in folder.glob("*.py"))
    assert [name for name in EVERY if name not in (folder / "README.md").read_text()] == []


@pytest.mark.parametrize("name", EVERY)
def test_every_finding_says_what_is_known_upstream(name):
    """The issue that tells of it, or the day on which none was found; and whether the release is still supported."""
    text = (paths.fixtures() / "findings" / "README.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
    _, broker, _, _, upstream = (cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])

    assert re.match(r"[\w.-]+/[\w.-]+ #\d+|None found on \d{4}-\d\d-\d\d", upstream), upstream
    assert ("RabbitMQ 3.10" in broker) == ("3.10 is out of support" in broker), broker


@pytest.mark.parametrize("name", EVERY)
def test_nothing_of_the_suite_is_used(name):
    """A broker's maintainer needs only proton, a socket, or the client itself."""
    assert "conformance" not in (paths.fixtures() / "findings" / name).read_text()


@pytest.mark.artemis
def test_reproduced(tmp_path):
    """On the version that the README names."""
    adapter = adapters.find("artemis@2.56.0")
    seen = {}
    with (
        Ledger(tmp_path, f"findings-{os.getpid()}") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), list("abcd"), ledger) as broker,
    ):
        broker.start()
        host, port = broker.endpoint("amqp")  # one port speaks both protocols
        for queue, name in zip("abcd", SAID, strict=True):
            words = [sys.executable, paths.fixtures() / "findings" / name, f"{host}:{port}", queue]
            seen[name] = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    assert SAID == seen


@pytest.mark.full
@pytest.mark.artemis
@pytest.mark.parametrize("name", THROUGH_ITS_CLIENT)
def test_reproduced_through_its_client(tmp_path, name):
    """On the version that the README names, whose distribution has the clients' jars."""
    pytest.importorskip("jpype", reason="needs JPype1: pip install 'ack-conformance[jms]'")
    adapter = adapters.find("artemis@2.56.0")
    with (
        Ledger(tmp_path, f"findings-{os.getpid()}") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), ["a"], ledger) as broker,
    ):
        broker.start()
        host, port = broker.endpoint("amqp")  # the core protocol as well
        jars = pathlib.Path(broker.plan.words["home"]) / "lib"
        words = [sys.executable, paths.fixtures() / "findings" / name, f"{host}:{port}", "a", jars]
        said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()

    assert said == THROUGH_ITS_CLIENT[name]


@pytest.mark.full
@pytest.mark.skipif(bool(installed.missing(RABBITMQ.file)), reason=installed.missing(RABBITMQ.file))
@pytest.mark.parametrize("name", STARTED_THERE)
def test_reproduced_on_a_rabbitmq_of_its_own(tmp_path, name):
    """On the version that the README names."""
    words = [sys.executable, paths.fixtures() / "findings" / name, tmp_path / "broker"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()

    assert said == STARTED_THERE[name]


@pytest.mark.full
@pytest.mark.skipif(bool(installed.missing(RABBITMQ.file)), reason=installed.missing(RABBITMQ.file))
def test_reproduced_on_rabbitmq(tmp_path):
    """On the version that the README names."""
    seen = {}
    with (
        Ledger(tmp_path, f"findings-{os.getpid()}") as ledger,
        RABBITMQ.prepare(tmp_path / "broker", RABBITMQ.effective(), list("abd"), ledger) as broker,
    ):
        broker.start()
        status, _ = web.ask(
            "PUT", f"http://guest:guest@127.0.0.1:{broker.service.endpoint('http')[1]}/api/queues/%2F/c", FULL
        )
        assert status == 201
        for queue, name in zip("abcd", ON_RABBITMQ, strict=True):
            host, port = broker.endpoint("stomp" if "stomp" in name else "amqp")
            words = [sys.executable, paths.fixtures() / "findings" / name, f"{host}:{port}", queue]
            told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            seen[name] = told.replace(f"{host}:{port}", "BROKER").splitlines()

    assert seen == ON_RABBITMQ


@pytest.mark.qpid
def test_reproduced_on_qpid(tmp_path):
    """On the version that the README names; each script also gets the address of its queue in the management."""
    adapter = adapters.find("qpid@10.1.0")
    seen = {}
    with (
        Ledger(tmp_path, f"findings-{os.getpid()}") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), list("ab"), ledger) as broker,
    ):
        broker.start()
        host, port = broker.endpoint("amqp")
        for queue, name in zip("ab", ON_QPID, strict=True):
            script, url = paths.fixtures() / "findings" / name, broker.depth_probe(queue).url
            words = [sys.executable, script, f"{host}:{port}", queue, url]
            seen[name] = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    assert seen == ON_QPID


@pytest.mark.full
@pytest.mark.artemis
@pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot())
@pytest.mark.parametrize("name", ON_A_FULL_DISK)
def test_reproduced_on_a_full_disk(tmp_path, name):
    """On the version that the README names. What the script starts bears the mark of the ledger, should it hang."""
    adapter = adapters.find("artemis@2.56.0")
    with (
        Ledger(tmp_path, f"findings-{os.getpid()}") as ledger,
        adapter.prepare(tmp_path / "broker", adapter.effective(), [], ledger) as broker,
    ):
        host, port = broker.endpoint("stomp")
        words = broker.plan.words
        wanted = {key: fill(text, words) for key, text in broker.plan.source.file.start.environment.items()}
        command = [sys.executable, paths.fixtures() / "findings" / name, words["instance"], f"{host}:{port}"]
        environment = {**os.environ, **wanted, **ledger.environment}
        script = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=180)

    assert script.stdout.splitlines() == ON_A_FULL_DISK[name], script.stderr
