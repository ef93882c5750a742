"""What a shell sees of the broker: its ports, its words, its exit codes."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import subprocess
import sys
import urllib.error
from dataclasses import fields
from pathlib import Path

import pytest
from proton import ConnectionException, Delivery, Message
from proton.utils import ConnectionClosed

import conformance.errors
from conformance.reference import disk
from conformance.reference.command import main
from conformance.reference.liars import names
from conformance.reference.settings import HELP, Settings

ROOT = Path(conformance.errors.__file__).parents[1]


def test_help_names_every_setting_and_every_liar(capsys):
    """Nothing can be chosen that is not shown."""
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out

    assert all(name in shown for name in (*HELP, *names()))
    assert set(HELP) == {field.name for field in fields(Settings)}


def _ready(data, *words):
    command = [
        sys.executable,
        "-m",
        "conformance.reference",
        "--amqp-port=0",
        "--http-port=0",
        f"--data={data}",
        *words,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as broker:
        line = broker.stdout.readline()
        broker.terminate()
    return line


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], r"ready amqp=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+\n"),
        (["--listen=127.0.0.2"], r"ready amqp=127\.0\.0\.2:\d+ http=127\.0\.0\.2:\d+\n"),
        (["--stomp-port=0"], r"ready amqp=127\.0\.0\.1:\d+ stomp=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+\n"),
    ],
)
def test_stomp_is_spoken_where_it_was_asked_for(tmp_path, words, line):
    """The ready line names the ports that listen, and no other."""
    assert re.fullmatch(line, _ready(tmp_path, *words))


def test_one_socket_may_ask_twice(start):
    """HTTP/1.1 keeps the connection: a watcher of depths needs one."""
    connection = http.client.HTTPConnection(start().http, timeout=10)
    for path, status in [("/queues", 200), ("/queues/q", 200), ("/", 200), ("/else", 404)]:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, bool(json.load(answer))) == (status, True)
    connection.request("POST", "/queues/q", body=b"x")
    assert connection.getresponse().status == 405
    connection.close()


def test_a_queue_is_deleted_for_good(start):
    """Also after a restart; a queue that is not there is 404."""
    broker = start("--queue=gone")
    connection = http.client.HTTPConnection(broker.http, timeout=10)
    found = []
    for _ in range(2):
        connection.request("DELETE", "/queues/gone")
        answer = connection.getresponse()
        found.append((answer.status, json.load(answer)))
    connection.close()
    broker.process.terminate()
    broker.process.wait(10)

    assert [(202, {"deleted": "gone"}), (404, {"error": "no such queue"})] == found
    assert {"queues": ["q"]} == start().get("/queues")


def test_no_queue_is_deleted_where_clients_log_in(tmp_path, start):
    """This port asks for no login."""
    (tmp_path / "password").write_text("secret")
    connection = http.client.HTTPConnection(start("--user=u", f"--password-file={tmp_path}/password").http, timeout=10)
    connection.request("DELETE", "/queues/q")

    assert 405 == connection.getresponse().status
    connection.close()


def test_depth_of_an_unknown_queue_is_404(start):
    """404 and JSON."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        start().get("/queues/nothing")

    assert refused.value.code == 404
    assert json.load(refused.value) == {"error": "no such queue"}


def test_a_failed_write_stops_the_broker_before_any_confirm(tmp_path, start, peer):
    """A segment that cannot be written: one line, exit 74, and the send was never answered."""
    broker = start()
    limit = 4 * 1024 * 1024
    resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    client = peer(broker)
    delivery = client.sender().send(Message(body=b"x" * (limit + 1), durable=True))
    with pytest.raises((ConnectionClosed, ConnectionException)):
        client.wait(lambda: delivery.settled)

    assert broker.process.wait(10) == disk.DISK_ERROR
    assert broker.errors.read_text().startswith("stopped: the journal could not be written")
    assert delivery.remote_state != Delivery.ACCEPTED


def _refused(*words):
    command = [sys.executable, "-m", "conformance.reference", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, env={**os.environ})
    assert done.stderr.count("\n") == 1
    assert "ready" not in done.stdout
    return done.returncode, done.stderr


@pytest.fixture
def refused(monkeypatch):
    """Runs a command line that must fail with one line; its code and that line."""
    monkeypatch.chdir(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    return _refused


@pytest.mark.process
@pytest.mark.parametrize("option", ["--amqp-port", "--stomp-port", "--http-port", "--amqps-port"])
def test_a_number_that_is_no_port_is_4(refused, tmp_path, option):
    """It is told before anything is opened."""
    code, line = refused(option, "65536", "--data", str(tmp_path / "other"))

    assert (code, f"{option}: 65536 is no port: expected 0 to 65535" in line) == (4, True), line


def test_a_port_in_use_is_3(start, refused, tmp_path):
    """One line that says so."""
    port = start().amqp.split(":")[1]
    code, line = refused("--amqp-port", port, "--http-port", "0", "--data", str(tmp_path / "other"))

    assert (code, "in use" in line) == (3, True)


def test_a_stomp_port_in_use_is_3(start, refused, tmp_path):
    """As any other port."""
    port = start().amqp.split(":")[1]
    code, line = refused("--amqp-port=0", "--stomp-port", port, "--http-port=0", "--data", str(tmp_path / "other"))

    assert (code, "in use" in line) == (3, True)


def test_a_data_directory_in_use_is_3(start, refused, tmp_path):
    """Two brokers never share a journal."""
    start()
    code, line = refused("--amqp-port=0", "--http-port=0", "--data", str(tmp_path / "data"))

    assert (code, "in use by another broker" in line) == (3, True)


@pytest.mark.process
def test_an_unusable_data_directory_is_3(refused):
    """A file where a folder should be."""
    code, line = refused("--amqp-port=0", "--http-port=0", "--data=/dev/null/x")

    assert (code, "cannot be used" in line) == (3, True)


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--set=sync_non_transactoinal=false"], "did you mean 'sync_non_transactional'?"),
        (["--set=persistence=maybe"], "is not true or false"),
        (["--liar=counts-from-two"], "did you mean 'counts-from-one'?"),
        (["--bogus"], "--bogus"),
    ],
)
def test_an_unknown_word_is_4(refused, tmp_path, words, hint):
    """With the closest known word."""
    code, line = refused("--amqp-port=0", "--http-port=0", f"--data={tmp_path}", *words)

    assert (code, hint in line) == (4, True)
