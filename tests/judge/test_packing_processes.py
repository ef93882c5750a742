"""Many histories are packed by several processes: they write what one writes, and none outlives the first."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from judge_histories import record, write

from conformance import ledger, records
from conformance.judge.input import packing
from conformance.judge.input.packing import FILE, SOURCES

HISTORY = "kept 1 2, took 1, killed consumer-1, settled 2"


@pytest.fixture
def several(tmp_path):
    """Write five trials, the third of which is torn, in a folder of this name."""

    def of(name):
        places = [tmp_path / name / trial for trial in "abcde"]
        trials = [(place, write(place, HISTORY, record(place.name))) for place in places]
        path = places[2] / "drain-1.jsonl"
        path.write_bytes(path.read_bytes()[:-20])
        return trials

    return of


@pytest.fixture
def started(monkeypatch):
    """Let two processes pack the smallest histories, and return those that were started, after `ended` of each."""
    monkeypatch.setattr(packing, "MUCH", 0)
    monkeypatch.setattr(packing.processes, "cores", lambda: 2)
    found = []

    class Started(subprocess.Popen):
        ended = staticmethod(lambda process: None)

        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            self.environment, self.session = options["env"], os.getsid(self.pid)
            found.append(self)
            self.ended(self)

    monkeypatch.setattr(packing.subprocess, "Popen", Started)
    return found


@pytest.fixture
def unequal(tmp_path):
    """Trials that are not packed yet: the fewest events are in `a`, the most in `e`; and a void one."""
    names = {"a": "1", "b": "1 2 3 4", "c": "1 2", "d": "1 2 3", "e": "1 2 3 4 5"}
    trials = [(tmp_path / name, write(tmp_path / name, f"kept {each}", record(name))) for name, each in names.items()]
    return [*trials, (tmp_path / "f", write(tmp_path / "f", HISTORY, record("f", void="the disk was full")))]


@pytest.fixture
def split(monkeypatch):
    """Return the names of the trials that each process would pack, if `much` is enough for several."""
    found = []

    def started(trials, _waits):
        found.append("".join(folder.name for folder, _ in trials))
        return subprocess.Popen(["true"])

    def of(trials, much=0, cores=2):
        found.clear()
        monkeypatch.setattr(packing, "MUCH", much)
        monkeypatch.setattr(packing.processes, "cores", lambda: cores)
        packing._pack_in_processes(trials, records.checksum)
        return list(found)

    monkeypatch.setattr(packing, "_started", started)
    return of


@pytest.fixture
def packed_here(monkeypatch):
    """The trials that this process has packed."""
    found, pack = [], packing._pack
    monkeypatch.setattr(packing, "_pack", lambda folder, *words: (found.append(folder.name), pack(folder, *words))[1])
    return found


def outcome(found):
    """What a call of `compact_all` returned and wrote, without the folder."""
    written = [each.parquet.with_name(name) for each in found if each.parquet for name in (FILE, SOURCES)]
    return [each.record for each in found], [path.read_bytes() for path in written]


@pytest.mark.process
def test_several_processes_pack_as_one_does(several, started, packed_here, monkeypatch):
    """They pack everything but a void trial, of which this process gives the reason. Packed trials start none.

    They have no secret of this process, and Ctrl-C does not reach them.
    """
    monkeypatch.setenv("PASSWORD", "secret")
    monkeypatch.setattr(ledger, "_SECRETS", {"PASSWORD"})
    trials = several("side by side")
    found = packing.compact_all(trials)
    one = [packing.compact(*trial) for trial in several("one by one")]

    assert outcome(one) == outcome(found)
    assert ["", "", "drain-1", "", ""] == [each.record.void[:7] for each in found]
    assert [0, 0] == [process.returncode for process in started]
    assert [False] * 2 == ["PASSWORD" in process.environment for process in started]
    assert os.getsid(0) not in {process.session for process in started}
    assert ["c", *"abcde"] == packed_here

    packing.compact_all([*trials[:2], *trials[3:]])
    assert 2 == len(started)


@pytest.mark.process
@pytest.mark.parametrize(
    ("cores", "count", "expected"),
    [(2, 6, ["eda", "bc"]), (9, 6, ["ea", "b", "d", "c"]), (9, 3, ["b", "c", "a"]), (9, 1, []), (1, 6, [])],
)
def test_each_process_starts_with_a_large_trial(split, unequal, cores, count, expected):
    """There are at most four processes, and none more than cores or trials."""
    assert expected == split(unequal[:count], cores=cores)


@pytest.mark.process
def test_a_little_is_packed_by_one_process(split, unequal):
    """What is packed already does not count."""
    total = sum(path.stat().st_size for folder, _ in unequal[:-1] for path in records.evidence(folder))

    assert ([], ["eda", "bc"]) == (split(unequal, total + 1), split(unequal, total))
    packing.compact(*unequal[4])
    assert ([], ["bc", "da"]) == (split(unequal, total), split(unequal))


def test_a_trial_whose_history_is_gone_needs_no_process(split, unequal):
    for folder, about in unequal[:-1]:
        packing.compact(folder, about)
        (folder / "publisher-1.jsonl").unlink()

    assert [] == split(unequal)


@pytest.mark.parametrize("collecting", [True, False])
def test_the_garbage_collector_is_as_it_was(several, collecting):
    """It is off while trials are packed."""
    seen = []

    def checksum(path):
        seen.append(gc.isenabled())
        return records.checksum(path)

    try:
        if not collecting:
            gc.disable()
        packing.compact_all(several("trials"), (), checksum)
        assert collecting == gc.isenabled()
    finally:
        gc.enable()
    assert {False} == set(seen)


@pytest.mark.process
def test_what_a_killed_process_left_is_packed_here(several, started, packed_here, monkeypatch):
    monkeypatch.setattr(packing.subprocess.Popen, "ended", staticmethod(subprocess.Popen.kill))
    found = packing.compact_all(several("side by side"))

    assert [-signal.SIGKILL] * 2 == [process.returncode for process in started]
    assert [*"abcde"] == packed_here
    assert outcome([packing.compact(*trial) for trial in several("one by one")]) == outcome(found)


@pytest.mark.process
@pytest.mark.parametrize("name", [FILE, packing.PART])
def test_an_error_of_another_process_is_raised_here(several, started, packed_here, capfd, name):
    """A folder that nothing can be written to, also by root: the name of a file is taken. It is shown once."""
    trials = several("trials")
    (trials[0][0] / name).mkdir()

    with pytest.raises(IsADirectoryError):
        packing.compact_all(trials)
    assert (2, ["a"]) == (len(started), packed_here)
    assert ("", "") == capfd.readouterr()


def test_without_processes_all_is_packed_here(several, started, packed_here, monkeypatch):
    def refused(*_words, **_options):
        raise BlockingIOError

    monkeypatch.setattr(packing.subprocess, "Popen", refused)
    assert 5 == len(packing.compact_all(several("trials")))
    assert [*"abcde"] == packed_here


@pytest.mark.parametrize(
    ("name", "value"),
    [("MUCH", packing.MUCH), ("processes.cores", lambda: 1)],
    ids=["little", "one core"],
)
def test_a_little_or_one_core_starts_no_process(several, started, monkeypatch, name, value):
    monkeypatch.setattr(f"conformance.judge.input.packing.{name}", value)
    packing.compact_all(several("trials"))

    assert [] == started


PACKS = """
import pathlib, sys
from conformance import records
from conformance.judge.input import packing
packing.MUCH, packing.processes.cores = 0, lambda: 2
packing.compact_all([(path, records.read(path / "trial.json", records.TrialRecord)) for path in map(pathlib.Path, sys.argv[1:])])
"""


def read_by(process, pipe):
    """Return the open end of a pipe as soon as a child of the process reads the other one."""
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):  # nothing reads it yet
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.process
def test_a_process_ends_with_the_pipe(tmp_path):
    """It is kept in the middle of a trial, by a history that is a pipe."""
    about = write(tmp_path, HISTORY)
    os.mkfifo(tmp_path / "publisher-9.jsonl")
    waits, holds = os.pipe()
    with packing._started([(tmp_path, about)], waits) as process, contextlib.ExitStack() as ends:
        ends.callback(process.kill)
        ends.callback(os.close, read_by(process, tmp_path / "publisher-9.jsonl"))
        os.close(waits)
        assert process.poll() is None
        os.close(holds)
        assert 1 == process.wait(timeout=10)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_started_it(tmp_path, number):
    """Each is kept in the middle of a trial, by a history that is a pipe."""
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        records.save(write(place, HISTORY, record(place.name)), place / "trial.json")
        os.mkfifo(place / "publisher-9.jsonl")
    packs = subprocess.Popen([sys.executable, "-c", PACKS, *places], stderr=subprocess.PIPE, start_new_session=True)
    with packs, contextlib.ExitStack() as pipes:
        for place in places:
            pipes.callback(os.close, read_by(packs, place / "publisher-9.jsonl"))
        workers, parts = psutil.Process(packs.pid).children(), list(tmp_path.rglob("*.part"))
        os.killpg(packs.pid, number)
        errors = packs.stderr.read().decode()
        left = psutil.wait_procs(workers, timeout=10)[1]

    assert (2, [], 2, -number) == (len(workers), left, len(parts), packs.returncode)
    if number == signal.SIGINT:
        assert [1, 1] == [errors.count(word) for word in ("Traceback", "KeyboardInterrupt")]
        assert [] == list(tmp_path.rglob("*.part"))
