"""A broker and its faults for tests of a user's own clients: the fixtures, and the functions that they are made of."""

import os
import re
import signal
import socket
import subprocess
import sys

import pika
import pytest
from starts import starts_process

from conformance import paths
from conformance.errors import FaultError, UsageError
from conformance.ledger import pids_of_run
from conformance.testing import Cut, Delay, Frame, running_broker

PAGE = (paths.docs() / "how-to" / "test-your-client.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DURABLE = pika.BasicProperties(delivery_mode=2)

pytestmark = pytest.mark.process


def channel(port):
    opened = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
    opened.queue_declare("orders", durable=True)
    opened.confirm_delivery()
    return opened


def publish(port):
    channel(port).basic_publish("", "orders", b"one", DURABLE)


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.findall(r"def (test_\w+)", one)[0] for one in EXAMPLES])
def test_an_example_of_the_page(example, run_pytest, tmp_path):
    (tmp_path / "test_example.py").write_text(example)
    done = run_pytest(".", "-q", "--strict-markers", cwd=tmp_path)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_first_example_is_short():
    assert len([line for line in EXAMPLES[0].splitlines() if line]) <= 12


def test_a_confirmed_message_survives_a_kill(ack_broker):
    """On the same port, and from its own data."""
    before = ack_broker.port("amqp091"), ack_broker.url("amqp091")
    publish(ack_broker.port("amqp091"))
    ack_broker.kill()
    with pytest.raises(FaultError, match="the kill met nothing"):
        ack_broker.kill()
    ack_broker.start()

    assert (1, before) == (ack_broker.depth("orders"), (ack_broker.port("amqp091"), ack_broker.url("amqp091")))
    assert f"amqp://127.0.0.1:{before[0]}" == before[1]
    assert "mqtt://" == ack_broker.url("mqtt311")[:7]


def test_a_restart_starts_what_runs_and_what_does_not(ack_broker):
    publish(ack_broker.port("amqp091"))
    logs = {ack_broker.log}
    ack_broker.restart()
    logs.add(ack_broker.log)
    ack_broker.stop()
    ack_broker.restart()

    assert 3 == len({*logs, ack_broker.log})
    assert 1 == ack_broker.depth("orders")


def test_a_link_is_cut_on_request(ack_broker):
    """Every connection of it; a client may connect again."""
    with ack_broker.link("amqp091") as link:
        with pytest.raises(FaultError, match="the cut met nothing"):
            link.cut()
        first, second = channel(link.port), channel(link.port)
        assert 2 == link.cut()
        for each in (first, second):
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                each.basic_publish("", "orders", b"lost", DURABLE)
        publish(link.port)

    assert 1 == ack_broker.depth("orders")


@pytest.mark.parametrize(
    ("fault", "said"), [(Cut(Frame("send", 2)), "1 of the 2 send frames"), (Delay(rtt_ms=5), "no byte passed")]
)
def test_a_fault_that_met_nothing_fails_the_test(ack_broker, fault, said):
    """Unless the test fails by itself: its own error is the one to read."""
    with pytest.raises(FaultError, match=said), ack_broker.link("amqp091", fault) as link:
        if isinstance(fault, Cut):
            publish(link.port)
    with pytest.raises(ZeroDivisionError), ack_broker.link("amqp091", fault):
        raise ZeroDivisionError


def test_a_cut_of_a_link_whose_proxy_died(ack_broker):
    with pytest.raises(FaultError, match="the link proxy died"), ack_broker.link("amqp091") as link:
        publish(link.port)
        link._process.kill()
        link.cut()


def test_a_paused_broker_answers_after_the_pause(ack_broker):
    with socket.create_connection(("127.0.0.1", ack_broker.port("stomp")), timeout=0.3) as client:
        with ack_broker.paused():
            client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            with pytest.raises(TimeoutError):
                client.recv(100)
        client.settimeout(20)
        assert client.recv(100).startswith(b"CONNECTED")
    ack_broker.kill()

    with pytest.raises(FaultError, match="the pause met nothing"), ack_broker.paused():
        pass


class TestOfAnUnsyncedMessage:
    """The broker is set not to sync: a kill keeps what it confirmed, and a loss of power does not."""

    @pytest.fixture
    def ack_broker_options(self):
        return {"own_disk": True, "settings": ["sync_non_transactional=false", "journal_buffer_ms=60000"]}

    def test_a_loss_of_power_loses_it(self, ack_broker):
        publish(ack_broker.port("amqp091"))
        report = ack_broker.lose_power()
        with pytest.raises(FaultError, match="the power loss met nothing"):
            ack_broker.lose_power()
        ack_broker.start()

        assert (True, 0) == (report.shutdown_us > 0, ack_broker.depth("orders"))


def test_without_root_a_test_of_power_is_skipped(run_pytest, tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom conformance.faults.power import image\n\nimage.cannot = lambda: 'it needs root'\n\n"
        "@pytest.fixture\ndef ack_broker_options():\n    return {'own_disk': True}\n"
    )
    (tmp_path / "test_power.py").write_text("def test_power(ack_broker):\n    ack_broker.lose_power()\n")
    done = run_pytest(".", "-rs", cwd=tmp_path)

    assert (0, True) == (done.returncode, "it needs root" in done.stdout), done.stdout + done.stderr


def test_words_that_cannot_be(ack_broker):
    with pytest.raises(UsageError, match="give running_broker own_disk=True"):
        ack_broker.lose_power()
    for adapter in ("artemis:docker", "artemis:external=amqp://127.0.0.1:5672"):
        with pytest.raises(UsageError, match="only a broker that runs as processes"), running_broker(adapter):
            pass
    with pytest.raises(UsageError, match="several nodes"), running_broker(settings=["nodes=2"], own_disk=True):
        pass


STOPPED = """
import os, pathlib, time

def test_that_is_interrupted(ack_broker):
    pathlib.Path("pids").write_text(" ".join(map(str, ack_broker._broker.met("all").processes())))
    pathlib.Path("run").write_text(ack_broker._ledger.run_id)
    pathlib.Path("pids").rename("ready")
    time.sleep(300)
"""


@pytest.fixture
@starts_process
def session(tmp_path):
    """A session of pytest whose test has a broker, and waits."""
    (tmp_path / "test_stopped.py").write_text(STOPPED)
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_stopped.py"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=state, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while not (tmp_path / "ready").exists():
        assert process.poll() is None, process.stdout.read()
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_session_leaves_no_process(session, tmp_path, number):
    run = (tmp_path / "run").read_text()
    assert [] != pids_of_run(run)
    session.send_signal(number)
    printed, _ = session.communicate(timeout=60)

    assert (2, True) == (session.returncode, "KeyboardInterrupt" in printed), printed
    assert [] == pids_of_run(run)


def test_what_a_killed_session_left_is_ended_by_the_next(session, tmp_path, monkeypatch):
    run = (tmp_path / "run").read_text()
    session.kill()
    session.wait()
    assert [] != pids_of_run(run)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with running_broker() as broker:
        left, ours = pids_of_run(run), broker.folder

    assert ([], False) == (left, ours.exists())
