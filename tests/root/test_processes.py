"""Handles of processes: pidfds, and what takes their place where the kernel has none (tests/elsewhere: a whole run)."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from starts import starts_process

from conformance import processes

PIDFD, COMPARED = "pidfd", "compared"
LESS = "p.cannot_hold = lambda: 'no pidfds'; p.identify = p._identify_elsewhere; "


@pytest.fixture(params=[PIDFD, COMPARED])
def way(request, monkeypatch):
    if request.param == COMPARED:
        monkeypatch.setattr(processes, "cannot_hold", lambda: "no pidfds")
        monkeypatch.setattr(processes, "identify", processes._identify_elsewhere)
    return request.param


@pytest.fixture
@starts_process
def sleeper(way):
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"], stdout=-1
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_a_handle_signals_one_process_and_shows_its_end(sleeper):
    with processes.open_pidfd(sleeper.pid) as handle:
        assert sleeper.pid == processes.pid_of(handle)
        assert not processes.wait_ended([handle], 0.05)
        processes.send(handle, signal.SIGSTOP)
        while not processes.is_stopped(sleeper.pid):
            os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
        processes.send(handle, signal.SIGCONT)
        processes.send(handle, signal.SIGTERM)

        assert processes.wait_ended([handle], 10)  # a zombie: its status was not read
        assert not processes.is_alive(sleeper.pid)
        assert -signal.SIGTERM == sleeper.wait()
        with pytest.raises(ProcessLookupError):
            processes.send(handle, signal.SIGKILL)
    with pytest.raises(ProcessLookupError), processes.open_pidfd(sleeper.pid):
        pass


def test_a_handle_is_passed_on(sleeper, way):
    with processes.open_pidfd(sleeper.pid) as handle:
        less = LESS if way == COMPARED else ""
        script = f"import signal; from conformance import processes as p; {less}p.send({handle}, signal.SIGKILL)"
        subprocess.run([sys.executable, "-c", script], check=True, pass_fds=[handle])

        assert -signal.SIGKILL == sleeper.wait(10)


def test_only_the_very_process_is_killed(sleeper):
    """Another start time is another process with a pid that was used again."""
    me = processes.identify(sleeper.pid)
    other = processes.Identity(me.pid, me.start + 5, me.boot)

    assert not processes.kill(other)
    assert sleeper.poll() is None
    assert processes.kill(me)
    assert not processes.kill(me)
    assert -signal.SIGKILL == sleeper.wait()


@pytest.mark.parametrize("way", [COMPARED], indirect=True)
def test_a_handle_does_not_reach_the_next_process_with_its_pid(sleeper):
    """A pidfd cannot name another process; numbers are compared."""
    with processes.open_pidfd(sleeper.pid) as handle:
        os.pwrite(handle, f"{sleeper.pid} 12345".encode().ljust(40), 0)

        assert processes.wait_ended([handle], 0)
        with pytest.raises(ProcessLookupError):
            processes.send(handle, signal.SIGKILL)
    assert sleeper.poll() is None


@pytest.mark.process
def test_the_environment_is_that_of_the_start(way):
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, "MARK": "of this test"})
    try:
        while pathlib.Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            os.sched_yield()
        assert b"MARK=of this test" in processes.environment(process.pid)
    finally:
        process.kill()
        process.wait()
    assert [] == processes.environment(process.pid)
