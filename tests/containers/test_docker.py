"""The launcher of containers, all of it but the engine: scripts, gates, ports, processes, readiness."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from conformance import adapters, paths
from conformance.adapters import docker, docker_able, docker_ready, docker_tree, model
from conformance.adapters.configure import Source
from conformance.adapters.images import Recipe
from conformance.errors import LaunchError, UsageError
from conformance.faults import able, disk
from conformance.faults.recovery import kill_in_recovery
from conformance.script import HeldSync

REFERENCE = adapters.find("reference").file
COMMAND = tuple(sys.executable if part == "{python}" else part for part in REFERENCE.start.command)
START = REFERENCE.start.model_copy(update={"command": COMMAND, "environment": {"PYTHONPATH": str(paths.root())}})
TABLE = model.Container(images=(model.VendorImage(since="0", name="vendor/broker:{version}"),))
CONTAINED = REFERENCE.model_copy(update={"container": TABLE, "start": START})
"""The pretended container has this machine's Python, and this very package."""


@pytest.fixture
def broker(pretend, ledger, tmp_path):
    """The bundled broker, in a pretended container."""
    with prepared(ledger, tmp_path) as made:
        yield made


def prepared(ledger, tmp_path, file=CONTAINED):
    here = tmp_path / "here"
    here.mkdir()
    (here / "Dockerfile").write_text("FROM ${BASE_IMAGE}\n")
    recipe = Recipe(Source(file, here, "1.0", pathlib.Path("/opt/broker")), lambda: here)
    settings = adapters.find("reference").effective()
    return docker.prepare(recipe, ledger.path.parent / "brokers" / "01", settings, ["orders"], ledger)


def kill(broker):
    with broker.pidfds() as descriptors:
        for descriptor in descriptors:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return len(descriptors)


def test_a_start_after_a_kill_is_a_start_of_the_same_container(broker, pretend):
    """And its ports, its folder and its data stay."""
    broker.start()
    before = broker.endpoint("amqp")
    killed = kill(broker)
    gone = broker.wait_gone(10)
    status = broker.exit_status
    broker.start()
    (container,) = pretend.containers

    assert (1, True, -9, 2) == (killed, gone, status, container.starts)
    assert before == broker.endpoint("amqp")
    assert ["start-1.log", "start-2.log"] == [path.name for path in broker.logs]


def test_a_stop_asks_the_broker_itself(broker):
    broker.start()
    broker.stop()

    assert (True, 0) == (broker.gone(), broker.exit_status)


def test_nothing_is_published_but_on_the_numbers_that_are_reserved(broker, pretend):
    broker.start()
    spec = pretend.containers[0].spec

    assert {broker.endpoint("amqp")[1], broker.endpoint("stomp")[1], broker.http_port} == set(spec.ports.values())
    assert "0.0.0.0" not in broker.depth_probe("orders").url


def test_inside_it_listens_at_ports_of_its_own(pretend, ledger, tmp_path):
    """Those that the file names; clients are told the one outside, and a port without a number has that inside too."""
    table = TABLE.model_copy(update={"ports": {"amqp": 5672}})
    with prepared(ledger, tmp_path, CONTAINED.model_copy(update={"container": table})) as made:
        host, outside = made.endpoint("amqp")
        stomp = made.endpoint("stomp")[1]
        command = made.plan.command

    assert "127.0.0.1" == host
    assert (outside, stomp) == (made._spec.ports[5672], made._spec.ports[stomp])
    assert ("5672", str(stomp)) == (
        command[command.index("--amqp-port") + 1],
        command[command.index("--stomp-port") + 1],
    )


def test_the_folder_of_the_run_is_bound_without_the_disks_below_it(broker, pretend, ledger):
    """Each container would else keep the disk of every other alive: no power loss could be shown."""
    broker.start()
    bound = {bind.folder: bind.recursive for bind in pretend.containers[0].spec.binds}

    assert {ledger.path.parent: False, broker.folder: True} == bound


def test_a_container_is_in_the_ledger_before_it_is_made_and_until_it_is_removed(broker, ledger):
    def states():
        lines = map(json.loads, ledger.path.read_text().splitlines())
        return [line["state"] for line in lines if line.get("kind") == "container" or line["state"] == "released"]

    before = states()
    broker.start()
    between = states()
    broker.close()
    broker.close()

    assert ([], ["intent"], ["intent", "released"]) == (before, between, states())


@pytest.mark.skipif(bool(disk.cannot()), reason=disk.cannot() or "-")
def test_a_tracer_stands_before_the_command_of_its_start_only(broker, tmp_path):
    """Where a tracer's file has a blank in its name, too."""
    trace = tmp_path / "a trace"
    broker.start(wrap=["strace", "-f", "--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync"])
    tree = [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in broker.processes()]
    disk.end(broker)
    broker.start()

    assert "strace" == tree[0]
    assert 2 == len(tree)
    assert trace.read_text()
    assert "strace" not in (broker.folder / "start.sh").read_text()


def test_the_command_waits_until_its_pid_is_known(broker, monkeypatch):
    """The gate: whoever wants to hurt a start has its pids before there is anything to hurt."""
    seen = []

    class Watched(docker_tree.ContainerTree):
        def __init__(self, container, pid):
            super().__init__(container, pid)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and not seen:
                with contextlib.suppress(OSError):
                    if pathlib.Path(f"/proc/{pid}/fd/0").readlink() == broker.folder / "gate":
                        seen.append(pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0])

    monkeypatch.setattr(docker, "ContainerTree", Watched)
    broker.start()

    assert ["/bin/sh"] == seen
    assert "sh" != pathlib.Path(f"/proc/{broker.processes()[0]}/comm").read_text().strip()


def test_a_kill_in_recovery(broker):
    """The accesses to the journal are seen here, and the broker dies of them."""
    broker.start()
    broker.stop()
    said = kill_in_recovery(broker, 2)

    assert said.startswith("at access ")
    assert broker.gone()


def test_a_broker_that_does_not_start_is_an_error_with_its_log(pretend, ledger, tmp_path):
    start = START.model_copy(update={"command": ("/bin/sh", "-c", "echo no room for me; exit 7")})
    with prepared(ledger, tmp_path, CONTAINED.model_copy(update={"start": start})) as made:
        with pytest.raises(LaunchError, match="ended with status 7") as caught:
            made.start()

        assert "no room for me" == caught.value.log_tail[0]
        assert made.gone()


def test_two_starts_at_once_are_refused(broker):
    broker.start()
    with pytest.raises(LaunchError, match="running already"):
        broker.launch()


class Word:
    """A container of which the engine says one thing."""

    name, id = "one", "id-of-one"

    def __init__(self, status=0, error=None):
        self.status, self.error = status, error

    def wait(self):
        if self.error:
            raise self.error
        return self.status

    def output(self):
        return "sh: no such file"


@pytest.fixture
def child(monkeypatch):
    monkeypatch.setattr(docker_tree, "belongs", lambda pid, container: True)
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("word", "expected"),
    [(Word(0), 0), (Word(3), 3), (Word(137), -9), (Word(128), 128), (Word(error=LaunchError("no such container")), -9)],
)
def test_how_the_first_process_ended(child, word, expected):
    """A container that was removed by force was killed."""
    first = docker_tree.Init(word, child.pid)
    before = first.poll()
    child.kill()

    assert (None, expected, expected) == (before, first.wait(), first.poll())


def test_a_container_that_ended_at_once(child):
    with pytest.raises(LaunchError, match="ended at once: sh: no such file"):
        docker_tree.Init(Word(), 0)


def test_processes_that_are_another_machines(child, monkeypatch):
    """A pid of that number may well live here: it is another process."""
    monkeypatch.setattr(docker_tree, "belongs", lambda pid, container: False)
    with pytest.raises(LaunchError, match="cannot be seen from here"):
        docker_tree.Init(Word(), child.pid)


def test_a_process_belongs_to_the_container_in_the_name_of_its_control_group():
    group = pathlib.Path("/proc/self/cgroup").read_text().strip().splitlines()[-1]

    assert docker_tree.belongs(os.getpid(), group)
    assert not docker_tree.belongs(os.getpid(), "0123456789abcdef" * 4)


# readiness


def listening(serve):
    """A server on a free port that does this to one connection after the other; the port."""
    server = socket.create_server(("127.0.0.1", 0))

    def loop():
        while True:
            line, _ = server.accept()
            serve(line)

    threading.Thread(target=loop, daemon=True).start()
    return server.getsockname()[1]


def says(*parts):
    def serve(line):
        line.recv(64)
        for part in parts:
            line.sendall(part)
        line.shutdown(socket.SHUT_WR)

    return serve


@pytest.mark.parametrize(
    ("protocol", "serve", "expected"),
    [
        ("amqp", says(b"AMQP\x03\x01\x00\x00"), True),
        ("amqp", says(b"AM", b"QP\x00\x01\x00\x00"), True),
        ("amqp", says(b"HTTP/1.1 400"), False),
        ("amqp", says(b"AM"), False),
        ("stomp", says(b"\n\nCONNECTED\n\n\0"), True),
        ("stomp", says(b"ERROR\n\n\0"), True),
        ("stomp", says(b"AMQP"), False),
        ("http", says(b"HTTP/1.0 404 "), True),
        ("amqp", says(), False),
        ("amqp", lambda line: line.close(), False),  # the engine's proxy, while the broker does not listen
    ],
)
def test_what_is_an_answer(protocol, serve, expected):
    assert expected == docker_ready.answers(protocol, "127.0.0.1", listening(serve))


def test_silence_is_no_answer():
    kept = []

    assert not docker_ready.answers("amqp", "127.0.0.1", listening(kept.append), timeout_s=0.2)


def test_a_closed_port_is_no_answer():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert not docker_ready.answers("amqp", "127.0.0.1", port)


@pytest.mark.parametrize("name", ["amqp", "stomp", "http"])
def test_the_bundled_broker_answers(broker, name):
    broker.start()
    port = broker.http_port if name == "http" else broker.endpoint(name)[1]

    assert docker_ready.answers(name, "127.0.0.1", port)


def test_a_broker_is_not_ready_because_its_port_is_open(broker, monkeypatch):
    """Its log says ready, and something takes connections: it is asked all the same."""
    broker.start()
    assert broker._is_ready()
    monkeypatch.setattr(docker_ready, "answers", lambda *_: False)

    assert (True, False) == (broker.was_ready, broker._is_ready())


def test_a_port_that_nobody_can_be_asked_at(pretend, ledger, tmp_path):
    start = START.model_copy(update={"ready_port": "odd"})
    odd = CONTAINED.model_copy(update={"ports": ("odd", *REFERENCE.ports), "start": start})
    with pytest.raises(UsageError, match="ready_port 'odd' speaks none of amqp, stomp, http"):
        prepared(ledger, tmp_path, odd)


# what it can take


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (0, "strace -- version 6.1\n", ""),
        (127, "sh: 1: strace: not found", "there is no strace in image i"),
        (0, "strace -- version 5.5", "version 5.5 of strace in image i is too old: 5.6 has what is needed"),
        (
            1,
            "strace -- version 6.1\nstrace: ptrace(PTRACE_SEIZE): Operation not permitted\nstrace: detach: waitpid(11)\n",
            "strace may not trace in a container here (its seccomp profile?): strace: ptrace(PTRACE_SEIZE): Operation not permitted",
        ),
    ],
)
def test_why_a_container_cannot_be_traced(status, said, reason):
    assert reason == docker_able.reason_of(status, said, "i")


def test_a_fault_is_asked_of_the_container_and_its_disk_of_this_machine(monkeypatch):
    """The tracer is the container's: that this machine has none is nothing to it."""

    def no_tracer():
        return "no strace here"

    monkeypatch.setitem(able._NEEDS, "power_loss", lambda: "no loop devices")
    monkeypatch.setitem(able._NEEDS, "held_sync", no_tracer)
    monkeypatch.setattr(disk, "cannot", no_tracer)
    found = able.unable(
        ["kill", "held_sync", "power_loss", "cut"], lambda fault: "no signals" if fault == "kill" else ""
    )

    assert {"kill": "no signals", "power_loss": "no loop devices"} == found
    assert {"held_sync": "no strace here", "power_loss": "no loop devices"} == able.unable(["held_sync", "power_loss"])


def test_a_tracer_inside_is_looked_at_by_pids_from_outside(tmp_path, monkeypatch):
    """The names of its files are pids of the container, and here somebody else's; nor is a tracer needed here."""
    monkeypatch.setattr(disk, "cannot", lambda: "no strace here")
    asked = []
    tracer = disk.Tracer(
        tmp_path / "t", tmp_path, HeldSync(0.1), files=("j",), contained=lambda: asked.append(1) or [os.getpid()]
    )
    (tmp_path / "t" / "trace.1").write_text("")
    seen = []
    monkeypatch.setattr(tracer, "_look_at_memory", seen.append)
    tracer.look()

    assert 1 == len(seen)
    assert [1] == asked
    assert "python" in seen[0]


# what users type


def test_a_broker_without_a_container():
    with pytest.raises(UsageError, match=r"reference has no \[container\]: it runs natively only"):
        adapters.find("reference:docker")


def test_a_launcher_that_is_none():
    with pytest.raises(UsageError, match=r"unknown launcher 'dokcer': did you mean 'docker'\?"):
        adapters.find("artemis:dokcer")


def test_the_vendors_image_of_a_version():
    images = [adapters.find(f"artemis@{version}:docker").recipe().official for version in ("2.44.0", "2.56.0")]

    assert ["apache/activemq-artemis:2.44.0", "apache/artemis:2.56.0"] == images


def test_a_port_inside_that_the_broker_has_not():
    data = CONTAINED.model_dump()
    data["container"]["ports"] = {"console": 8161}
    with pytest.raises(ValueError, match="no such port: console"):
        model.BrokerFile.model_validate(data)


def test_the_adapter_says_so_in_its_own_words():
    adapter = adapters.find("artemis@2.56.0:docker")

    assert "artemis@2.56.0:docker" == adapter.spec
    assert adapter.able is not None
    assert dataclasses.replace(adapter, launcher="native").able is None
