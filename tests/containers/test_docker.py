"""The launcher of containers, all of it but the engine: scripts, gates, ports, processes, readiness."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import types

import pytest
from starts import starts_process

from conformance import adapters, paths
from conformance.adapters.container import docker
from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.container.images import Recipe
from conformance.adapters.file import model
from conformance.adapters.file.launch_tables import QueuesTable, Template, TemplateFile
from conformance.adapters.interface import READY_QUEUE
from conformance.adapters.launch.plan import BrokerSetup, BrokerSource
from conformance.adapters.system import BrokerUnderTest
from conformance.errors import ClientError, LaunchError, UsageError
from conformance.faults import possible
from conformance.faults.disk import injection
from conformance.faults.disk.access import JournalAccess
from conformance.faults.process import kill_in_recovery
from conformance.scenario.faults import FAULTS
from conformance.scenario.needs import Means
from conformance.scenario.script import HeldSync

REFERENCE = adapters.find("reference").file
COMMAND = tuple(sys.executable if part == "{python}" else part for part in REFERENCE.start.command)
START = REFERENCE.start.model_copy(update={"command": COMMAND, "environment": {"PYTHONPATH": str(paths.root())}})
TABLE = model.ContainerTable(images=(model.VendorImage(since="0", name="vendor/broker:{version}"),))
CONTAINED = REFERENCE.model_copy(update={"container": TABLE, "start": START})
"""The pretended container has this machine's Python, and this very package."""


@pytest.fixture
@starts_process
def broker(pretend, ledger, tmp_path):
    """The bundled broker, in a pretended container."""
    with prepared(ledger, tmp_path) as made:
        yield made


def prepared(ledger, tmp_path, file=CONTAINED, here=None, client=None):
    here = here or tmp_path / "here"
    here.mkdir(exist_ok=True)
    (here / "Dockerfile").write_text("FROM ${BASE_IMAGE}\n")
    recipe = Recipe(BrokerSource(file, here, "1.0", pathlib.Path("/opt/broker")), lambda: here)
    settings = adapters.find("reference").effective()
    folder = ledger.path.parent / "brokers" / "01"
    return docker.prepare(recipe, BrokerSetup(folder, settings, ["orders"], ledger, client=client))


def kill(broker):
    with broker.target.armed("kill") as descriptors:
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

    clients = {broker.endpoint(protocol)[1] for protocol in ("amqp", "amqp091", "stomp", "mqtt")}
    assert clients | {broker.service.endpoint("http")[1]} == {*spec.ports.values()}
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


@pytest.mark.skipif(bool(injection.cannot()), reason=injection.cannot() or "-")
def test_a_tracer_stands_before_the_command_of_its_start_only(broker, tmp_path):
    """Where a tracer's file has a blank in its name, too."""
    trace = tmp_path / "a trace"
    broker.start(wrap=["strace", "-f", "--seccomp-bpf", "-o", str(trace), "-e", "trace=fdatasync"])
    tree = [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in broker.processes()]
    injection.end(broker)
    broker.start()

    assert "strace" == tree[0]
    assert 2 == len(tree)
    assert trace.read_text()
    assert "strace" not in (broker.folder / "start.sh").read_text()


def test_the_command_waits_until_its_pid_is_known(broker, monkeypatch):
    """A fault during a start has the pids before the broker's process exists."""
    seen = []

    class Watched(docker.ContainerTree):
        def __init__(self, container, pid, **more):
            super().__init__(container, pid, **more)
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
    said = kill_in_recovery(broker, broker.launch, broker.journal, 2)

    assert said.startswith("at access ")
    assert broker.gone()


@pytest.mark.process
def test_a_broker_that_does_not_start_is_an_error_with_its_log(pretend, ledger, tmp_path):
    start = START.model_copy(update={"command": ("/bin/sh", "-c", "echo no room for me; exit 7")})
    with prepared(ledger, tmp_path, CONTAINED.model_copy(update={"start": start})) as made:
        with pytest.raises(LaunchError, match="ended with status 7") as caught:
            made.start()

        assert "no room for me" == caught.value.log_tail[0]
        assert made.gone()


def test_a_product_that_makes_no_instance_in_its_image_says_why(pretend, ledger, tmp_path, monkeypatch):
    """Before the lines that follow it."""
    said = "ERROR no such option" + "\n  usage" * 100
    monkeypatch.setattr(type(pretend), "run", lambda *_: (2, said))
    template = Template(command=("/opt/broker/create", "{instance}"))
    with pytest.raises(LaunchError, match=r"`/opt/broker/create` in .+ ended with 2") as caught:
        prepared(ledger, tmp_path, CONTAINED.model_copy(update={"template": template}))

    assert ("ERROR no such option",) == caught.value.log_lines


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
@starts_process
def child(monkeypatch):
    monkeypatch.setattr(docker, "belongs", lambda pid, container: True)
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("word", "expected"),
    [(Word(0), 0), (Word(3), 3), (Word(137), -9), (Word(128), 128), (Word(error=LaunchError("no such container")), -9)],
)
def test_how_the_first_process_ended(child, word, expected):
    """A container that was removed by force was killed."""
    first = docker.Init(word, child.pid)
    before = first.poll()
    child.kill()

    assert (None, expected, expected) == (before, first.wait(), first.poll())


def test_a_container_that_ended_at_once(child):
    with pytest.raises(LaunchError, match="ended at once: sh: no such file"):
        docker.Init(Word(), 0)


def test_processes_that_are_another_machines(child, monkeypatch):
    """A pid of that number may well live here: it is another process."""
    monkeypatch.setattr(docker, "belongs", lambda pid, container: False)
    with pytest.raises(LaunchError, match="cannot be seen from here"):
        docker.Init(Word(), child.pid)


def test_a_process_belongs_to_the_container_in_the_name_of_its_control_group():
    group = pathlib.Path("/proc/self/cgroup").read_text().strip().splitlines()[-1]

    assert docker.belongs(os.getpid(), group)
    assert not docker.belongs(os.getpid(), "0123456789abcdef" * 4)


# the same rules as for every launcher: words, readiness, queues, proof


def told(**more):
    """The bundled broker whose `[start]` says more."""
    return CONTAINED.model_copy(update={"start": START.model_copy(update=more)})


def free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.process
def test_a_port_that_only_the_engine_answers_at(pretend, ledger, tmp_path, monkeypatch):
    """Its proxy takes connections for a broker that does not listen: the sockets inside decide."""
    file = told(ready_ports=("amqp", "odd")).model_copy(update={"ports": ("odd", *REFERENCE.ports)})
    with prepared(ledger, tmp_path, file) as made, socket.create_server(("127.0.0.1", made._ports["odd"])):
        made.launch()
        inside = set()
        monkeypatch.setattr(docker, "listening", lambda pid: inside)
        while (lacks := made._readiness.lacks(made.log)).startswith("start.ready_log"):
            made._tick()
        inside.add(("0.0.0.0", made._ports["odd"]))

        assert f"nothing listens on 127.0.0.1:{made._ports['odd']} (odd)" in lacks
        assert "" == made._readiness.lacks(made.log)


@pytest.mark.process
def test_a_broker_that_listens_on_another_port_gets_an_error_that_says_so(pretend, ledger, tmp_path, monkeypatch):
    """Inside 127.0.0.1 is the container's own."""
    number = free()
    table = TABLE.model_copy(update={"ports": {"amqp": number}})
    with prepared(ledger, tmp_path, CONTAINED.model_copy(update={"container": table})) as made:
        monkeypatch.setattr(docker, "listening", lambda pid: {("127.0.0.1", number), ("0.0.0.0", 61613)})
        made.launch()
        lacks = made._readiness.unreached()

    assert f"its processes listen on 61613; inside it listens on 127.0.0.1:{number}, out of reach: let it" in lacks


def test_what_listens_is_read_from_the_kernel():
    """Of both families, and an IPv4 address that a socket of IPv6 has is one."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_server((host, 0))) for host in ("127.0.0.1", "0.0.0.0")]
        for host in ("::1", "::ffff:127.0.0.1"):
            made.append(stack.enter_context(socket.socket(socket.AF_INET6)))
            made[-1].bind((host, 0))
            made[-1].listen()
        names = [one.getsockname()[:2] for one in made]
        found = docker.listening(os.getpid())
        with socket.create_connection(names[0]) as line:
            mine = line.getsockname()
            also = docker.listening(os.getpid())

    assert {*names[:3], ("127.0.0.1", names[3][1])} <= found
    assert mine not in also


@pytest.mark.process
def test_a_pid_file_holds_a_number_of_the_inside(pretend, ledger, tmp_path):
    """A start script that stays (RabbitMQ's): a clean stop is asked of the broker behind it."""
    inner = 'echo $$ >"$0"; exec "$@"'
    command = ("/bin/sh", "-c", f'/bin/sh -c \'{inner}\' "$0" "$@" & wait $!; exit $?', "{instance}/pid", *COMMAND)
    with prepared(ledger, tmp_path, told(command=command, pid_file="{instance}/pid")) as made:
        made.start()
        tree = made.processes()
        main = made._tree.main(wrapped=False)
        made.stop()

    assert 2 == len(tree)
    assert (tree[1], True) == (main, made.gone())
    assert os.getpid() == docker.number_inside(os.getpid())


@pytest.mark.process
def test_a_queue_that_a_command_declares(pretend, ledger, tmp_path):
    """It is run inside, in the broker's folder, with the ports and the environment that the broker has there."""
    command = ("/bin/sh", "-c", 'echo "$0 $1 $KEY $PWD" >>declared', "{queue}", "{amqp_port}")
    number = free()
    table = TABLE.model_copy(update={"ports": {"amqp": number}})
    more = {"queues": QueuesTable(method="command", command=command), "container": table}
    file = told(environment={**START.environment, "KEY": "{stomp_port}"}, ready_message=True).model_copy(update=more)
    with prepared(ledger, tmp_path, file) as made:
        made.launch()
        made.declare_queues()
        made.declare_queues()
        stomp, words = made.endpoint("stomp")[1], (made.folder / "declared").read_text().splitlines()

    assert [f"{name} {number} {stomp} {made.folder}" for name in ("orders", READY_QUEUE)] == words


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no such thing; exit 3", "/bin/sh ended with 3 for queue orders: no such thing"),
        ("exec sleep 60", "/bin/sh did not end within 0.5 s"),
    ],
)
def test_a_queue_that_cannot_be_declared(pretend, ledger, tmp_path, command, said):
    rules = QueuesTable(method="command", command=("/bin/sh", "-c", command), seconds=0.5)
    with prepared(ledger, tmp_path, CONTAINED.model_copy(update={"queues": rules})) as made:
        with pytest.raises(LaunchError, match=f"took no queue: queues.command: {said}"):
            made.start()

        assert made.gone()


@pytest.mark.process
def test_a_message_is_the_last_proof(pretend, ledger, tmp_path):
    asked = []

    def exchange(broker, queue):
        asked.append(queue)
        if len(asked) < 3:
            raise ClientError("still recovering")

    client = types.SimpleNamespace(exchange=exchange, make=lambda broker, queue: None)
    with prepared(ledger, tmp_path, told(ready_message=True), client=client) as made:
        made.start()

    assert [READY_QUEUE] * 3 == asked
    assert READY_QUEUE in made.plan.queues


def test_files_and_words_are_those_of_the_inside(pretend, ledger, tmp_path):
    """While clients, and what asks over HTTP from here, are told the ports outside."""
    (tmp_path / "conf").write_text("{listen}:{amqp_port} {python} {python_path}|")
    template = Template(files=(TemplateFile(file="conf", why="it says where"),))
    table = TABLE.model_copy(update={"ports": {"amqp": 5672, "http": 8080}})
    with prepared(
        ledger, tmp_path, CONTAINED.model_copy(update={"template": template, "container": table}), tmp_path
    ) as made:
        written = (made.folder / "instance" / "conf").read_text()
        deviations, url, http = made.deviations, made.depth_probe("orders").url, made.endpoint("http")[1]

    assert "0.0.0.0:5672 python3 |" == written
    assert "it says where" == deviations["conf"]
    assert f"http://127.0.0.1:{http}/queues/orders" == url


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
    assert reason == docker.reason_of(status, said, "i")


def test_a_fault_is_asked_of_the_container_and_its_disk_of_this_machine(monkeypatch):
    """The tracer is the container's: that this machine has none is nothing to it."""

    def no_tracer():
        return "no strace here"

    monkeypatch.setitem(possible.MEANS, Means.POWER, lambda: "no loop devices")
    monkeypatch.setitem(possible.MEANS, Means.TRACER, no_tracer)
    monkeypatch.setattr(docker.Able, "__call__", lambda able, fault: "no signals" if fault.name == "kill" else "")
    adapter = adapters.find("reference:docker")
    node = BrokerUnderTest(adapter, "amqp", adapter.effective())
    found = possible.unable((FAULTS[name] for name in ("kill", "held_sync", "power_loss", "cut")), node)

    assert {"kill": "no signals", "power_loss": "no loop devices"} == found
    assert {"held_sync": "no strace here", "power_loss": "no loop devices"} == possible.unable(
        FAULTS[name] for name in ("held_sync", "power_loss")
    )


def test_a_tracer_inside_is_looked_at_by_pids_from_outside(tmp_path, monkeypatch):
    """Its files are named by pids of the container, which mean other processes here; no tracer is needed."""
    monkeypatch.setattr(injection, "cannot", lambda: "no strace here")
    asked = []
    tracer = injection.Tracer(
        tmp_path / "t", tmp_path, HeldSync(0.1), files=("j",), contained=lambda: asked.append(1) or [os.getpid()]
    )
    (tmp_path / "t" / "trace.1").write_text("")
    looked = []
    monkeypatch.setattr(injection.access, "look", lambda pids, _: looked.extend(pids) or JournalAccess(libaio=True))
    tracer.look()

    assert ([1], [os.getpid()]) == (asked, looked)


# what users type


def test_a_broker_without_a_container(tmp_path):
    text = (paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text()
    before, _, after = text.partition("[container]")
    path = tmp_path / "own.toml"
    path.write_text(before + after[after.index("# What `--set") :])
    with pytest.raises(UsageError, match=r"reference has no \[container\]: it runs natively only"):
        adapters.find(f"{path}:docker")


def test_the_vendors_image_of_a_version():
    found = [adapters.find(f"artemis@{version}") for version in ("2.44.0", "2.56.0")]
    images = [DockerLauncher().recipe(adapter.source).official for adapter in found]

    assert ["apache/activemq-artemis:2.44.0", "apache/artemis:2.56.0"] == images


def test_the_adapter_says_so_in_its_own_words():
    adapter = adapters.find("artemis@2.56.0:docker")

    assert "artemis@2.56.0:docker" == adapter.spec
    assert adapter.able is not None
    assert adapters.find("artemis").able is None
