"""What is taken away for a time: the space of a disk, the files that a process may open, and a node of several."""

import errno
import os
import resource
import signal
import socket
import subprocess
import sys

import pytest

from conformance import processes
from conformance.errors import FaultError
from conformance.faults import shortage
from conformance.faults.power.image import LossyDisk, cannot
from conformance.ledger import Ledger
from conformance.scenario.script import FilesUsedUp, FilledDisk, LoseNode, Nth, PauseNodes

pytestmark = pytest.mark.process

FILLED, USED_UP = FilledDisk(Nth("confirm", 1), hold_s=1), FilesUsedUp(Nth("confirm", 1), hold_s=1)
NOWHERE = ("127.0.0.1", 9)
SIZE = 64 << 20

OPENS = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    try:
        open("/dev/null").close()
        print("opened", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@pytest.fixture
def disk(tmp_path):
    if why := cannot():
        pytest.skip(why)
    with Ledger(tmp_path, "shortage") as ledger:
        image = LossyDisk.make(ledger, tmp_path / "disk.img", tmp_path / "disk", size=SIZE)
        with image, image.handle() as folder:
            yield image.mountpoint, folder


def test_every_block_is_taken_and_given_back(disk):
    mountpoint, folder = disk
    before = shortage._free(folder)
    with shortage.taken(FILLED, folder, []) as descriptors:
        short, _ = shortage.taking(FILLED, descriptors, NOWHERE)
        said = short.begin()
        with pytest.raises(OSError, match="No space left") as caught:
            (mountpoint / "one").write_bytes(b"x" * 4096)
        short.end()
        given_back = shortage._free(folder)
        (mountpoint / "two").write_bytes(b"x" * 4096)

    assert said.endswith(" bytes taken, 0 left")
    assert caught.value.errno == errno.ENOSPC
    assert before - given_back < 1 << 20
    assert sorted(path.name for path in mountpoint.iterdir()) == ["one", "two"]


def test_some_of_the_space_is_left(disk):
    mountpoint, folder = disk
    whole = os.fstatvfs(folder)
    tenth = whole.f_blocks * whole.f_frsize // 10
    nearly = FilledDisk(Nth("confirm", 1), hold_s=1, leaves_percent=10)
    with shortage.taken(nearly, folder, []) as descriptors:
        short, _ = shortage.taking(nearly, descriptors, NOWHERE)
        short.begin()
        assert tenth - 8192 <= shortage._free(folder) < tenth + 8192
        (mountpoint / "one").write_bytes(b"x" * 4096)


def test_the_space_is_back_when_the_client_died(disk):
    """It had filled the disk, and could not free it."""
    mountpoint, folder = disk
    with shortage.taken(FILLED, folder, []) as descriptors:
        shortage.taking(FILLED, descriptors, NOWHERE)[0].begin()

    (mountpoint / "one").write_bytes(b"x" * 4096)


@pytest.fixture
def victim():
    """A process that tries to open a file for each line that it reads; `ask` returns what came of it."""
    with subprocess.Popen([sys.executable, "-c", OPENS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"

        def ask():
            process.stdin.write(b"?\n")
            process.stdin.flush()
            return process.stdout.readline().decode().strip()

        with processes.opened_all([process.pid]) as opened:
            yield process.pid, list(opened.values()), ask
        process.kill()


def test_no_file_can_be_opened_until_the_end(victim):
    pid, handles, ask = victim
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as server, shortage.taken(USED_UP, None, [pid]) as descriptors:
        short, _ = shortage.taking(USED_UP, [*descriptors, *handles], server.getsockname())
        said = short.begin()
        knocked = server.accept()[0]
        during = ask()
        short.end()
        after = ask()
        assert knocked.recv(1) == b""

    assert said.endswith(" files are open, and no more can be")
    assert [str(errno.EMFILE), "opened"] == [during, after]
    assert before == resource.prlimit(pid, resource.RLIMIT_NOFILE)


def test_the_limit_is_back_when_the_client_died(victim):
    pid, handles, ask = victim
    with shortage.taken(USED_UP, None, [pid]) as descriptors:
        shortage.taking(USED_UP, [*descriptors, *handles], NOWHERE)[0].begin()
        assert str(errno.EMFILE) == ask()

    assert "opened" == ask()


def test_a_process_that_has_ended_is_no_effect(victim):
    pid, handles, _ = victim
    os.kill(pid, 9)
    assert processes.wait_ended(handles, 10)
    with pytest.raises(FaultError, match="no process of the broker"), shortage.taken(USED_UP, None, []) as descriptors:
        shortage.taking(USED_UP, [*descriptors, *handles], NOWHERE)[0].begin()


HALTED = PauseNodes(Nth("confirm", 1), 1, "serving")


@pytest.fixture
def node(victim):
    """The pid of a process that is a node, and how a client halts it."""
    pid, handles, _ = victim
    return pid, shortage.taking(HALTED, handles, NOWHERE)[0]


def test_a_node_is_halted_and_goes_on(node):
    pid, pause = node

    assert (pause.begin(), processes.is_stopped(pid)) == ("every thread of the node stopped", True)
    assert pause.missed() == ""
    pause.end()
    assert not processes.is_stopped(pid)


def test_the_node_of_a_client_is_dead(victim):
    """A second client finds none."""
    pid, handles, _ = victim
    dead = LoseNode(Nth("confirm", 1), 1)
    assert shortage.taking(dead, handles, NOWHERE)[0].begin() == "no process of the node is left"
    assert not processes.is_alive(pid)
    with pytest.raises(FaultError, match="or there is none"):
        shortage.taking(dead, [], NOWHERE)[0].begin()


def test_a_pause_without_an_effect_is_an_error(node):
    """There is no node, or it went on before the end."""
    pid, pause = node
    with pytest.raises(FaultError, match="or there is none"):
        shortage.taking(HALTED, [], NOWHERE)[0].begin()

    pause.begin()
    os.kill(pid, signal.SIGCONT)
    with pytest.raises(FaultError, match="the node did not stay halted"):
        pause.missed()


def test_a_node_that_died_while_it_was_halted_did_not_stay_halted(node):
    pid, pause = node
    pause.begin()
    os.kill(pid, signal.SIGKILL)
    with processes.open_pidfd(pid) as handle:
        assert processes.wait_ended([handle], 5)
    with pytest.raises(FaultError, match="a process of it has ended"):
        pause.missed()
