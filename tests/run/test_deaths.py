"""Deaths of the harness at random moments: never a pass, nothing left after the next start, no completed history lost.

A chain of deaths goes on with one run by `--resume` until that is finished, and then begins another. The `full` form
plays `CONFORMANCE_DEATHS` of each kind; `CONFORMANCE_DEATHS_SEED` repeats their moments.
"""

import collections
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from conformance import mounts, records
from conformance.errors import ExitCode, HistoryError
from conformance.faults.power import image
from conformance.processes import started_with
from conformance.records import RunFile, TrialRecord
from conformance.report import model
from conformance.run.trial.described import INTERRUPTED

pytestmark = pytest.mark.spark
MANY = int(os.environ.get("CONFORMANCE_DEATHS", "25"))  # of each victim: a hundred in all
SEED = int(os.environ.get("CONFORMANCE_DEATHS_SEED", "0")) or random.randrange(1 << 31)
LATEST_S = 30.0
"""The last moment of a death. A run that ended before it was not killed, and is played again."""

SHORT = "broker-killed-soon-after-first-send"
MOUNTS = SHORT if image.cannot() else f"{SHORT},power-lost-while-dead-lettering"
SEVERAL = ("--claims", "SOLCD-ACK-01,EXPECT-SYNC-01", "--scenario", MOUNTS, "--seed", "7")
ONE = ("--claims", "SOLCD-ACK-01", "--scenario", SHORT, "--seed", "7")
NOTHING = ("--claims", "SOLCD-TX-02", "--scenario", SHORT)
"""A run without a trial: the shortest start that releases what an earlier one left."""

VICTIMS = {"runner": "", "worker": "conformance.clients.workers.worker", "jvm": "SparkSubmit", "disk": ""}
"""What dies, and the word in its command line if it is a child of the runner."""

DISK = 64 << 20
"""Bytes of the disk that is filled. A run of one scenario writes some 10 MB."""


class Home:
    """The folders and processes of one chain. The mark of its processes is the state folder, which is its own."""

    def __init__(self, place):
        self.place, self.said = place, place / "said"
        self.temporary, self.state = place / "tmp", place / "state"
        self.temporary.mkdir()

    def start(self, *words):
        command = [sys.executable, "-m", "conformance.frontend.cli", "run", "--adapter", "reference", *map(str, words)]
        own = {"XDG_STATE_HOME": str(self.state), "TMPDIR": str(self.temporary)}
        with self.said.open("ab") as said:
            return subprocess.Popen(
                command, cwd=self.place, env={**os.environ, **own}, stdout=said, stderr=said, start_new_session=True
            )

    def processes(self, word=""):
        found = []
        for identity in started_with(f"XDG_STATE_HOME={self.state}"):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(identity.pid)
                if word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def left(self):
        """No port is open without a process, and no temporary folder of ours has another place."""
        deadline = time.monotonic() + 30
        while (devices := self._devices()) and time.monotonic() < deadline:  # a copy of a mount, in another namespace
            time.sleep(0.05)
        below = f" {self.place}/"
        mounted = [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if below in line]
        entries = [*self.temporary.iterdir(), *self.state.glob("live/*.json"), *self.state.glob("scratch/*")]
        return [*self.processes(), *devices, *(line for line in mounted if " tmpfs " not in line), *entries]

    def _devices(self):
        files = pathlib.Path("/sys/block").glob("loop*/loop/backing_file")
        return [path for path in files if path.exists() and str(self.place) in path.read_text()]


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path)
    yield found
    for process in found.processes():
        process.kill()


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0 or not mounts.succeeds("unshare", "--mount", "true"):
        pytest.skip("a full disk needs a mount, and that needs root (CAP_SYS_ADMIN)")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "conformance", place], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def tell(capfd):
    """Print a line that the command under test does not take for its own output."""

    def line(words):
        with capfd.disabled():
            print(f"{time.strftime('%T')} {words}", flush=True)

    return line


def recorded(run):
    """Return the trials that were recorded to their end, and the checksums of their evidence by trial."""
    trials, sums = {}, {}
    for place in (run / "trials").glob("*"):
        with contextlib.suppress(HistoryError):
            about = records.read(place / "trial.json", TrialRecord)
            if about.void != INTERRUPTED:
                trials[place.name] = about
                sums[place.name] = {path.name: records.checksum(path) for path in records.evidence(place)}
    return trials, sums


def run_file(run):
    try:
        return records.read(run / "run.json", RunFile)
    except HistoryError:
        return None


def goes_on(run):
    return (file := run_file(run)) is not None and not file.finished


def is_whole(run):
    """Whether all that was planned was recorded, and none of it is void."""
    file, (trials, _) = run_file(run), recorded(run)
    return bool(file and file.finished and len(trials) == len(file.plan) and not any(t.void for t in trials.values()))


def fill(file):
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as stream:
        while stream.write(bytes(1 << 16)):
            pass


def killed(process, home, word, chance):
    """Kill the runner, or some child of it as soon as it has one; False if the run ends before that."""
    found = [process]
    while word and not (found := home.processes(word)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            return False
    with contextlib.suppress(psutil.NoSuchProcess):
        chance.choice(found).kill()
    return True


def die(home, run, victim, chance):
    """Start the run or go on with it until a random moment; return that, and the exit code after the death if any."""
    moment = chance.uniform(0, LATEST_S)
    words = SEVERAL if victim == "runner" else ONE
    process = home.start(*words, "--resume" if goes_on(run) else "--out", run)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
        return moment, None
    if victim == "disk":
        fill(run.parent / "filler")
    elif not killed(process, home, VICTIMS[victim], chance):
        return moment, None
    process.wait(300)
    (run.parent / "filler").unlink(missing_ok=True)
    return moment, process.returncode


def check_judged(judged, run, trials):
    """Never a pass; every trial that was recorded to its end, and not void then, is judged."""
    if run_file(run) is None:
        assert ExitCode.USAGE == judged.returncode
        return
    assert judged.returncode in ({0} if is_whole(run) else {2, 3, 130}), judged.stdout + judged.stderr
    report = model.read_json(run / "report.json")
    assert {trial.trial for trial in report.trials if not trial.void} == {
        t for t, about in trials.items() if not about.void
    }


@pytest.mark.parametrize(
    ("victim", "count"),
    [
        # Of a runner `test_whole_run` has one death already, and one of the JVM or of a disk takes a minute.
        pytest.param("worker", 1, id="worker-few"),
        *(pytest.param(victim, MANY, id=f"{victim}-many", marks=pytest.mark.full) for victim in VICTIMS),
    ],
)
def test_deaths(home, typed, spark_for_all, tell, request, victim, count):
    chance, codes, number = random.Random(f"{SEED} {victim}"), collections.Counter(), 0
    place = request.getfixturevalue("small_disk") if victim == "disk" else home.place
    run, kept = place / "run-0", {}
    while codes.total() < count:
        moment, code = die(home, run, victim, chance)
        trials, sums = recorded(run)
        codes.update([] if code is None else [code])
        tell(f"{victim}, seed {SEED}: at {moment:.2f} s, exit code {code}, {len(trials)} trials in {run.name}")
        assert code in (None, 2, 3, -signal.SIGKILL) or (code, is_whole(run)) == (0, True)
        assert kept.items() <= sums.items()
        assert ExitCode.NOTHING_RAN == home.start(*NOTHING, "--out", home.place / "next").wait(120)
        assert [] == home.left()
        (run / "report.json").unlink(missing_ok=True)
        check_judged(typed("judge", run), run, trials)
        kept = sums
        shutil.rmtree(home.place / "next")
        if not goes_on(run):
            shutil.rmtree(run, ignore_errors=True)
            number += 1
            run, kept = place / f"run-{number}", {}
    assert "Traceback" not in home.said.read_text()
    tell(f"seed {SEED}, {count} deaths of the {victim}: exit codes {dict(codes)}")
