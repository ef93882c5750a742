"""What a killed process leaves outside itself, and what a living one keeps."""

import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
from starts import starts_process

from conformance import locks
from conformance.adapters import ports
from conformance.errors import LaunchError
from conformance.ledger import release_leftovers
from conformance.processes import identify

OWNER = """
import sys
from conformance import locks
with locks.scratch("spark") as one, locks.scratch("warm") as two:
    (one / "blockmgr").mkdir()
    print(one, two, flush=True)
    sys.stdin.read()
"""
PORT = """
import sys
from conformance.adapters.ports import Ports
ports = Ports(["amqp"])
print(ports["amqp"], flush=True)
sys.stdin.read()
"""
GATEWAY = """
import sys
from conformance.judge.spark import Gateway
gateway = Gateway()
print(gateway.folder, gateway._process.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
@starts_process
def started():
    """Start an owner; returns its process and what it printed."""
    made = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        made.append(process)
        return process, process.stdout.readline().split()

    yield start
    for process in made:
        process.kill()
        process.wait()


def test_what_a_killed_process_left_is_released(started):
    """While it lives nothing of it is touched; the next start after its death removes all of it."""
    process, folders = started(OWNER)
    left = [*map(pathlib.Path, folders), *locks.paths.state().glob("*/*.lock")]

    assert [] == release_leftovers()
    assert 4 == len(left)
    assert all(path.exists() for path in left)

    process.kill()
    process.wait()
    assert {f"removed {folder}" for folder in folders} == set(release_leftovers())
    assert not any(path.exists() for path in left)
    assert [] == release_leftovers()


def test_a_port_is_kept_from_another_file_system(started, monkeypatch, tmp_path):
    """Two that share a network share its ports, and need share no folder. A killed owner keeps none."""
    process, (kept,) = started(PORT)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(ports, "_LOWEST", int(kept))
    monkeypatch.setattr(ports, "_highest", lambda: int(kept) + 1)

    with pytest.raises(LaunchError, match="no free port"):
        ports.Ports(["amqp"])
    process.kill()
    process.wait()
    ports.Ports(["amqp"]).close()


@pytest.mark.spark
def test_the_folder_of_a_killed_judge_is_released(started):
    """Its JVM is ended first: it sees the end of its parent only when it has started, and makes its folder again."""
    process, (folder, jvm) = started(GATEWAY)
    process.kill()
    process.wait()

    assert pathlib.Path(folder).is_dir()
    assert [f"killed a child that used {folder} (pid {jvm})", f"removed {folder}"] == release_leftovers()
    assert (None, False) == (identify(int(jvm)), pathlib.Path(folder).exists())


def test_nothing_is_left_after_a_clean_end(tmp_path):
    """Neither a folder nor a lock."""
    with locks.scratch("warm") as folder:
        assert 1 == len(list(locks.paths.state().glob("*/*.lock")))

    assert not folder.exists()
    assert [] == list(locks.paths.state().glob("*/*.lock"))


def test_a_lock_is_held_once(tmp_path):
    """Also within one process."""
    first = locks.acquire(tmp_path / "a.lock")

    assert first is not None
    assert locks.acquire(tmp_path / "a.lock") is None
    locks.release(tmp_path / "a.lock", first)
    assert locks.acquire(tmp_path / "a.lock") is not None


def test_a_removed_lock_guards_nothing(tmp_path, monkeypatch):
    """Its owner removed it between its opening and its lock."""
    path = tmp_path / "a.lock"
    flock = fcntl.flock

    def removed(descriptor, how):
        path.unlink()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", removed)
    assert locks.acquire(path) is None


def test_a_lock_removes_only_our_own_folders(tmp_path):
    """With any text in it."""
    lock = locks.paths.state() / "scratch" / "x.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(str(tmp_path))

    assert [] == release_leftovers()
    assert tmp_path.is_dir()
    assert not lock.exists()


def test_a_folder_without_a_lock_goes_after_a_week(tmp_path, monkeypatch):
    """A version that made no locks left it. One that was used since, another name and a link stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new, other, linked = (tmp_path / name for name in ("spark-old", "spark-new", "conformance-x", "spark-link"))
    old, new, linked = (path.with_name(f"conformance-{path.name}") for path in (old, new, linked))
    for folder in (old, new, other):
        (folder / "blockmgr").mkdir(parents=True)
    linked.symlink_to(other)
    for folder in (old, other):
        os.utime(folder, (0, 0))

    assert [f"removed {old}"] == release_leftovers()
    assert {new, other, linked} == {*tmp_path.iterdir()}
