"""Brokers in real containers: what the other tests could only pretend. Skipped, with the reason, without an engine."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conformance import adapters, history
from conformance.adapters.container.docker import DockerLauncher
from conformance.adapters.container.engine import LABEL, Bind, Spec
from conformance.adapters.container.images import broker_image
from conformance.adapters.system import BrokerUnderTest
from conformance.errors import LaunchError
from conformance.faults import possible
from conformance.faults.power import image as powerloss
from conformance.history import Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.run.leftovers import release_leftovers
from conformance.run.planning import Planned
from conformance.run.record import Recording
from conformance.scenario import Check, Scenario
from conformance.scenario.faults import HeldSync
from conformance.scenario.script import SETTLE, Kill, Nth, PowerLoss, Publish, Recovery, Restart

pytestmark = pytest.mark.artemis
ADAPTER = adapters.find("artemis@2.56.0:docker")


def built(real, adapter, folder):
    """Built where it is not there; the tests are skipped where nothing can be had to build it on."""
    with pytest.MonkeyPatch.context() as patch, Ledger(folder, f"image-{os.getpid()}-{adapter.name}"):
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        try:
            return broker_image(real, DockerLauncher().recipe(adapter.source)).name
        except LaunchError as error:
            if "no image to build on" not in str(error):
                raise
            pytest.skip(str(error))


@pytest.fixture(scope="module")
def image(real, tmp_path_factory):
    """That of Artemis."""
    return built(real, ADAPTER, tmp_path_factory.mktemp("image"))


@pytest.fixture
def play(real, tmp_path, tmp_path_factory):
    """Record one trial of these steps; its record and its events by process."""

    def run(*steps, adapter=ADAPTER):
        built(real, adapter, tmp_path_factory.mktemp("image"))
        script = Scenario("odd", "", "async_ack", steps, {"SOLCD-ACK-02": Check("lost", "confirmed")}, "library")
        planned = Planned("odd.subject.1", script, "subject", "", 1, 1, adapter, adapter.effective(), "amqp")
        with Ledger(tmp_path, f"odd-{tmp_path.name}") as ledger:
            recording = Recording(tmp_path, bare_header(""), ledger)
            try:
                (record,) = recording.record([planned])
            finally:
                recording.close()
        folder = tmp_path / "trials" / "odd.subject.1"
        return record, {path.stem: history.read(path).events for path in folder.glob("*.jsonl")}

    return run


def messages(events, op, phase):
    return {event.message for event in events if (event.op, event.phase) == (op, phase)}


def containers(real, run):
    found = real._client.client.containers.list(all=True, filters={"label": f"{LABEL}={run}"})
    return [each.name for each in found]


@pytest.mark.parametrize("name", ["activemq", "artemis", "qpid", "reference"])
def test_a_kill_and_a_kill_in_recovery(play, real, tmp_path, name):
    """By signals to the pids that its processes have here; what was confirmed is there, and no container is left."""
    kill = Kill(Nth("confirm", 40))
    steps = Publish(200, window=20, until=kill), Restart(until=Kill(Recovery(3))), *SETTLE
    record, events = play(*steps, adapter=adapters.find(f"{name}:docker"))
    confirmed = messages(events["publisher-1"], Op.SEND, Phase.OK)
    (fired,) = [e for e in events["publisher-1"] if (e.op, e.phase) == (Op.FAULT, Phase.FIRED)]
    (again,) = [e for e in events["orchestrator"] if (e.op, e.phase) == (Op.FAULT, Phase.FIRED)]

    assert "" == record.void
    assert 40 <= len(confirmed)
    assert confirmed <= messages(events["drain-1"], Op.DRAIN, Phase.OK)
    assert "us for the signals" in fired.detail
    assert again.detail.startswith("at access ")
    assert [] == containers(real, f"odd-{tmp_path.name}")


def test_a_held_sync(play):
    """Through strace inside: each confirm waits for the sync that covers its message."""
    if reason := possible.unable([HeldSync], BrokerUnderTest(ADAPTER, "amqp", ADAPTER.effective())):
        pytest.skip(reason["held_sync"])
    record, events = play(Restart(clean=True, under=HeldSync(0.15)), Publish(3, window=1), Restart())
    synced = {e.message: e.at_ns for e in events["disk-1"] if (e.op, e.phase) == (Op.SYNC, Phase.OK) and e.message}
    confirmed = {e.message: e.at_ns for e in events["publisher-1"] if (e.op, e.phase) == (Op.SEND, Phase.OK)}

    assert "" == record.void
    assert [] == [e.detail for e in events["disk-1"] if (e.op, e.phase) == (Op.SYNC, Phase.INFO)]
    assert 3 == len(confirmed)
    assert all(confirmed[message] >= synced[message] for message in confirmed)


@pytest.mark.skipif(bool(powerloss.cannot()), reason=powerloss.cannot() or "-")
def test_a_power_loss(play, tmp_path):
    """The disk goes from under the container, and comes back; neither it nor its mount stays."""
    loss = PowerLoss(Nth("confirm", 80))
    record, events = play(Publish(5_000, window=20, until=loss), Restart(), *SETTLE)
    confirmed = messages(events["publisher-1"], Op.SEND, Phase.OK)

    assert "" == record.void
    assert 80 <= len(confirmed)
    assert confirmed <= messages(events["drain-1"], Op.DRAIN, Phase.OK)
    assert str(tmp_path) not in pathlib.Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout


HARNESS = """
import pathlib, sys
from conformance import adapters
from conformance.faults.power.image import Disk
from conformance.ledger import Ledger
folder = pathlib.Path(sys.argv[1])
book = Ledger(folder, "killed-" + sys.argv[2])
adapter = adapters.find("artemis@2.56.0:docker")
broker = adapter.prepare(folder / "brokers" / "01", adapter.effective(), ["q"], book)
disk = Disk.make(book, broker.folder / "disk.img", broker.data) if sys.argv[3] == "disk" else None
broker.start()
print(*broker.processes(), flush=True)
sys.stdin.read()
"""


def test_a_killed_harness_leaves_nothing(image, real, tmp_path):
    """Neither container nor process; nor, where there can be one, mount and loop device."""
    with_disk = "" if powerloss.cannot() else "disk"
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path / "run"), tmp_path.name, with_disk],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        pids = [int(word) for word in harness.stdout.readline().split()]
        before = containers(real, f"killed-{tmp_path.name}")
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.communicate()
    alive = [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]
    released = release_leftovers()
    mounted = pathlib.Path("/proc/self/mountinfo").read_text()
    loops = pathlib.Path("/sys/block").glob("loop*/loop/backing_file")

    assert (1, pids) == (len(before), alive)
    assert [] == containers(real, f"killed-{tmp_path.name}")
    assert [] == [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]
    assert any("removed container" in line for line in released)
    assert str(tmp_path) not in mounted
    assert [] == [path for path in loops if str(tmp_path) in path.read_text()]


def test_what_a_container_is_made_of(image, real, tmp_path):
    """Published on 127.0.0.1 and nowhere else, as this user, under the id of the run; and Ryuk is not there."""
    run = f"made-{tmp_path.name}"
    with Ledger(tmp_path, run) as book:
        spec = Spec(image, ("/bin/sleep", "60"), (Bind(tmp_path, recursive=False),), {61616: 10_240}, {"WORD": "one"})
        made = real.create(spec, run, book)
        about = made._made.attrs
        made.remove()
        made.remove()

    assert {"61616/tcp": [{"HostIp": "127.0.0.1", "HostPort": "10240"}]} == about["HostConfig"]["PortBindings"]
    assert f"{os.getuid()}:{os.getgid()}" == about["Config"]["User"]
    assert {"WORD=one", f"CONFORMANCE_RUN={run}"} <= set(about["Config"]["Env"])
    assert run == about["Config"]["Labels"][LABEL]
    assert [True] == [mount["BindOptions"]["NonRecursive"] for mount in about["HostConfig"]["Mounts"]]
    assert [] == [each for each in real._client.client.containers.list(all=True) if "ryuk" in str(each.image)]


def test_a_container_that_does_not_start_is_reported_in_one_line(image, real, tmp_path):
    """The engine's own words, and nothing left."""
    with Ledger(tmp_path, f"no-{tmp_path.name}") as book, pytest.raises(LaunchError, match="could not start container"):
        real.run(Spec(image, ("/no/such/command",)), f"no-{tmp_path.name}", book)
    lines = [json.loads(line)["state"] for line in (tmp_path / "resources.jsonl").read_text().splitlines()]

    assert ["intent", "made", "released"] == lines
    assert [] == containers(real, f"no-{tmp_path.name}")
