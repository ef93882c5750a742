"""A broker that is killed while it reads its journal: a stand-in that reads one file a line at a time."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from conformance.adapters.launch.process_tree import Tree
from conformance.errors import FaultError
from conformance.faults.process import kill_in_recovery

pytestmark = pytest.mark.process

READS = """
import pathlib, sys, time
for number in range(int(sys.argv[2])):
    pathlib.Path(sys.argv[1], f"{number}.journal").read_bytes()
print("ready", flush=True)
if sys.argv[3] == "stay":
    time.sleep(60)
"""


class Starting:
    """Reads so many files of its journal, says that it is ready, and stays or ends."""

    def __init__(self, journal, files, then="stay", before=()):
        self.journal, self.files, self.then, self.before = journal, files, then, before
        self.tree = None
        for number in range(files):
            (journal / f"{number}.journal").write_bytes(b"x")

    def launch(self):
        self.log = (self.journal.parent / "log").open("wb")
        command = [*self.before, sys.executable, "-c", READS, str(self.journal), str(self.files), self.then]
        leader = subprocess.Popen(command, stdout=self.log, start_new_session=True)
        self.tree = Tree(leader, forks=bool(self.before))

    @contextlib.contextmanager
    def armed(self, fault):
        with self.tree.handles() as found:
            (self.journal.parent / "seen").touch()
            yield found

    def wait_gone(self, timeout_s):
        return self.tree.wait_gone(timeout_s)

    @property
    def was_ready(self):
        return b"ready" in (self.journal.parent / "log").read_bytes()


@pytest.fixture
def starting(tmp_path):
    made = []

    def make(files, then="stay", before=()):
        (tmp_path / "journal").mkdir()
        made.append(Starting(tmp_path / "journal", files, then, before))
        return made[0]

    yield make
    for broker in made:
        if broker.tree is not None:
            assert broker.tree.kill()
            broker.log.close()


def test_it_dies_at_the_access_that_was_named(starting):
    """Before it is ready, and with every process gone."""
    broker = starting(4_000)
    said = kill_in_recovery(broker, broker.launch, broker.journal, 3)

    assert (-signal.SIGKILL, False) == (broker.tree.leader.wait(10), broker.was_ready)
    assert said.startswith("at access ")


@pytest.mark.parametrize("script", ['"$@"; exit 0', '"$@" & exit 0'], ids=["a child", "an orphan"])
def test_who_is_forked_later_dies_too(starting, tmp_path, script):
    """The leader is a shell, which stays or ends; it forks the reader of the journal after the first look for processes."""
    broker = starting(4_000, before=("sh", "-c", f'until [ -e "$0" ]; do :; done; {script}', str(tmp_path / "seen")))
    said = kill_in_recovery(broker, broker.launch, broker.journal, 3)

    assert ([], False) == (broker.tree.pids(), broker.was_ready)
    assert said.startswith("at access ")


def test_a_recovery_that_has_too_few_accesses(starting):
    """It ended by itself before: nothing was hurt, and it says how far it came."""
    with pytest.raises(FaultError, match=r"the kill did not fire: \d+ accesses to the journal of the 500"):
        broker = starting(2, "end")
        kill_in_recovery(broker, broker.launch, broker.journal, 500)


def test_a_kill_that_came_too_late_is_played_again(starting):
    """The broker of the first start has read its journal by then."""
    broker, counts = starting(4_000), [2, 4_000]

    def launch():
        broker.files = counts.pop(0)
        broker.then = "end" if counts else "stay"
        broker.launch()

    assert kill_in_recovery(broker, launch, broker.journal, 500).startswith("at access ")
    assert ([], False) == (counts, broker.was_ready)


def test_a_recovery_that_was_over(starting):
    """An access after it was ready is none of its recovery."""
    broker = starting(1)
    broker.launch()
    while not broker.was_ready:
        os.sched_yield()
    broker.launch = (broker.journal / "0.journal").read_bytes

    with pytest.raises(FaultError, match="the recovery was over before the kill at access 1"):
        kill_in_recovery(broker, broker.launch, broker.journal, 1)


def test_a_folder_that_cannot_be_watched(starting, tmp_path):
    """It is named."""
    broker = starting(1)
    broker.journal = tmp_path / "nowhere"

    with pytest.raises(FaultError, match="nowhere cannot be watched: No such file"):
        kill_in_recovery(broker, broker.launch, broker.journal, 1)
