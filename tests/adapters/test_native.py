"""The native launcher, tried on a broker of twenty lines."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import urllib.request
from collections.abc import Iterator

import pytest

from conformance import adapters
from conformance.adapters import Broker
from conformance.adapters.launch.process_tree import is_alive
from conformance.errors import LaunchError, StartFailure, UsageError
from conformance.ledger import Ledger

_BROKER = """
import os, pathlib, signal, socket, subprocess, sys
words = sys.argv[1:]
port, data = int(words[0]), pathlib.Path(words[1])
print("words", *words[2:], flush=True)
if "limit=1" in words:
    sys.exit("too small")
if "limit=2" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "limit=3" in words:
    child = subprocess.Popen(["sleep", "600"])
    print("child", child.pid, flush=True)
if "limit=4" in words:
    signal.pause()
(data / "starts").open("a").write("x")
listener = socket.create_server(("127.0.0.1", port))
print("ready", flush=True)
while True:
    line, _ = listener.accept()
    line.sendall(b"AMQP" + bytes([3, 1, 0, 0]) if line.recv(8)[:4] == b"AMQP" else b"what?")
    line.close()
"""
_TOML = """
name = "fake"
title = "Fake"
vendor = "tests"
default_version = "1.0"
capabilities = []
ports = ["amqp", "http"]
[protocols.amqp]
port = "amqp"
[settings.limit]
type = "int"
default = 0
argument = ["--set", "{name}={value}"]
description = "what goes wrong"
[start]
command = ["{python}", "{here}/broker.py", "{amqp_port}", "{data_dir}"]
each_queue = ["--queue", "{queue}"]
ready_log = "^ready"
ready_port = "amqp"
ready_s = 5
stop_s = 0.3
[start.environment]
WHERE = "{instance}"
[depth]
method = "http"
url = "http://127.0.0.1:{http_port}/queues/{queue}"
field = "depth"
[data]
path = "{instance}/data"
[journal]
path = "{instance}/data"
"""


@pytest.fixture
def ledger(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Ledger(tmp_path / "run", f"native-{os.getpid()}") as book:
        yield book


def _made(tmp_path: pathlib.Path, ledger: Ledger, limit: int | None = None, toml: str = _TOML) -> Broker:
    (tmp_path / "broker.py").write_text(_BROKER)
    file = tmp_path / f"fake-{limit}.toml"
    file.write_text(toml)
    adapter = adapters.find(str(file))
    overrides: dict[str, bool | int] = {} if limit is None else {"limit": limit}
    return adapter.prepare(tmp_path / "broker", adapter.effective(overrides), ["q1", "q 2"], ledger)


@pytest.fixture
def broker(tmp_path: pathlib.Path, ledger: Ledger) -> Iterator[Broker]:
    with _made(tmp_path, ledger) as made:
        yield made


def _kill(broker: Broker) -> None:
    with broker.target.armed("kill") as descriptors:
        for descriptor in descriptors:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def test_a_started_broker_listens_and_is_timed(broker: Broker) -> None:
    seconds = broker.start()

    with socket.create_connection(broker.endpoint("amqp"), timeout=1):
        pass
    broker.alive_check()
    assert broker.epoch == 1
    assert seconds > 0
    assert len(broker.processes()) == 1


@pytest.mark.parametrize(("limit", "words"), [(None, []), (9, ["--set", "limit=9"])])
def test_queues_and_settings_that_are_set_are_on_the_command_line(
    tmp_path: pathlib.Path, ledger: Ledger, limit: int | None, words: list[str]
) -> None:
    with _made(tmp_path, ledger, limit=limit) as broker:
        command = broker.plan.command

    assert command[4:] == ("--queue", "q1", "--queue", "q 2", *words)


def test_a_killed_broker_starts_again_on_the_same_port_and_data(broker: Broker) -> None:
    broker.start()
    before = broker.endpoint("amqp")
    _kill(broker)

    assert broker.wait_gone(5)
    assert broker.gone()
    assert broker.exit_status == -signal.SIGKILL
    broker.start()
    assert broker.endpoint("amqp") == before
    assert (broker.data / "starts").read_text() == "xx"
    assert [path.name for path in broker.logs] == ["start-1.log", "start-2.log"]


def test_a_broker_that_dies_by_itself_is_noticed_with_the_end_of_its_log(broker: Broker) -> None:
    broker.start()
    os.kill(broker.processes()[0], signal.SIGABRT)
    assert broker.wait_gone(5)

    with pytest.raises(LaunchError, match=r"died by itself \(status -6\)") as caught:
        broker.alive_check()
    assert caught.value.log_tail[-1] == "ready"
    assert caught.value.log == str(broker.log)


def test_a_broker_that_is_never_ready_is_ended(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _made(tmp_path, ledger, limit=4, toml=_TOML.replace("ready_s = 5", "ready_s = 0.3")) as broker:
        with pytest.raises(LaunchError, match=r"was not ready within 0.3 s") as caught:
            broker.start()
        assert broker.gone()
        assert caught.value.failure is StartFailure.LATE
        with pytest.raises(LaunchError, match=r"was not ready within 0.6 s"):
            broker.start(ready_s=0.6)


def test_a_clean_stop_ends_it(broker: Broker) -> None:
    broker.start()
    broker.stop()

    assert broker.exit_status == -signal.SIGTERM
    assert broker.gone()
    broker.stop()


def test_the_tree_holds_children_also_when_their_parent_is_gone(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _made(tmp_path, ledger, limit=3) as broker:
        broker.start()
        leader, child = broker.processes()
        os.kill(leader, signal.SIGKILL)

        assert not broker.wait_gone(0.2)
        assert broker.processes() == [child]
    assert not is_alive(child)


def test_a_wrapped_broker_is_stopped_itself_and_not_its_wrapper(broker: Broker) -> None:
    shell = 'trap : TERM; "$@"; echo wrapper saw $?'
    broker.start(wrap=["/bin/sh", "-c", shell, "sh"])
    assert len(broker.processes()) == 2

    broker.stop()

    assert "wrapper saw 143" in broker.log.read_text()


def _pids(descriptors: list[int]) -> list[int]:
    texts = [pathlib.Path(f"/proc/self/fdinfo/{descriptor}").read_text() for descriptor in descriptors]
    return [int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("Pid:")]


def test_a_kill_is_for_the_whole_tree_and_a_stop_for_its_main_process(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    with _made(tmp_path, ledger, limit=3) as broker:
        broker.start()
        with broker.target.armed("kill") as everything, broker.target.armed("stop") as main:
            assert sorted(_pids(everything)) == sorted(broker.processes())
            assert _pids(main) == broker.processes()[:1]
        with pytest.raises(OSError, match="Bad file descriptor"):
            signal.pidfd_send_signal(main[0], 0)


def test_the_main_process_of_a_wrapped_broker_is_the_broker(broker: Broker) -> None:
    broker.start(wrap=["/bin/sh", "-c", '"$@"; :', "sh"])
    leader, child = broker.processes()
    with broker.target.armed("stop") as main:
        assert _pids(main) == [child]
        signal.pidfd_send_signal(main[0], signal.SIGTERM)

    assert broker.wait_gone(5)
    assert not is_alive(leader)


def test_a_broker_that_was_not_started_has_no_pidfds(broker: Broker) -> None:
    with broker.target.armed("stop") as main, broker.target.armed("kill") as everything:
        assert (main, everything) == ([], [])


def test_starting_twice_is_refused(broker: Broker) -> None:
    broker.start()

    with pytest.raises(LaunchError, match="is running already"):
        broker.start()
    broker.alive_check()


def test_closing_ends_everything_and_may_be_repeated(broker: Broker, ledger: Ledger) -> None:
    broker.start()
    pid = broker.processes()[0]
    broker.close()
    broker.close()

    assert not is_alive(pid)
    assert '"state":"released"' in ledger.path.read_text().splitlines()[-1]


def test_what_it_does_not_have_is_refused(tmp_path: pathlib.Path, ledger: Ledger, broker: Broker) -> None:
    file = tmp_path / "fake.toml"
    file.write_text(_TOML)
    adapter = adapters.find(str(file))

    with pytest.raises(UsageError, match="has no liars"):
        adapter.prepare(tmp_path / "liar", adapter.effective(), [], ledger, liar="early_confirm")
    with pytest.raises(UsageError, match="unknown protocol of fake 'stomp'"):
        broker.endpoint("stomp")


def test_the_reference_broker_starts_is_killed_and_starts_again(tmp_path: pathlib.Path, ledger: Ledger) -> None:
    adapter = adapters.find("reference")
    with adapter.prepare(tmp_path / "b", adapter.effective({"journal_buffer_ms": 50}), ["q1"], ledger) as broker:
        broker.start()
        _kill(broker)
        assert broker.wait_gone(5)
        broker.start()
        with urllib.request.urlopen(broker.depth_probe("q1").url, timeout=5) as answer:
            assert json.load(answer)["depth"] == 0
        broker.stop()
