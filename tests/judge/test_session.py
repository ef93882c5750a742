"""The session's JVM: where it comes from, and that it never outlives its Python."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from conformance.errors import JudgeError
from conformance.judge.session import Session

pytestmark = pytest.mark.spark

READY = """
import sys, time
from conformance import judge
starting = judge.start_in_background()
session = starting.result()
gateway = session._gateway
print(gateway._process.pid, gateway.folder, flush=True)
"""


@pytest.fixture
def python():
    """Run a program beside this one; returns the process."""
    started = []

    def run(code, **env):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ready(process):
    """The pid of its JVM, and the JVM's folder."""
    words = process.stdout.readline().split()
    assert words, process.stderr.read()
    return int(words[0]), pathlib.Path(words[1])


def gone(pid, seconds=10):
    """Whether the process ends in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_ends_with_a_killed_python(python):
    """SIGKILL: nobody can clean up, and the closing of its stdin ends the JVM."""
    process = python(READY + "time.sleep(60)")
    pid, folder = ready(process)
    process.kill()
    process.wait()

    assert gone(pid)
    shutil.rmtree(folder)  # what nobody was left to remove: the JVM's own files are gone, its log stays


def test_ctrl_c_reaches_python_first(python):
    """The JVM sits in a session of its own; Python ends it on its way out, and removes its folder."""
    process = python(READY + "time.sleep(60)")
    pid, folder = ready(process)
    apart = os.getsid(pid) != os.getsid(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)

    assert (True, True, False) == (apart, gone(pid), folder.exists())
    assert "KeyboardInterrupt" in errors


def test_stop_twice_and_start_again(python):
    """A process may judge, stop, and judge again; its own output stays its own."""
    again = "session.stop(); session.stop(); s = judge.Session.start(warm=False); print(s.spark.range(3).count())"
    process = python(READY + again + "; s.stop(); import os; print('PYSPARK_GATEWAY_PORT' in os.environ)")
    pid, folder = ready(process)
    output, errors = process.communicate(timeout=60)

    assert ("3\nFalse\n", "") == (output, errors)
    assert (True, False) == (gone(pid), folder.exists())


def test_stopped_while_it_starts(python):
    """Nothing is left, and nothing is printed."""
    process = python(
        "import time\nfrom conformance import judge\nfrom conformance.judge import session\n"
        "starting = judge.start_in_background()\n"
        "while not session._RUNNING: time.sleep(0.01)\n"
        "print(next(iter(session._RUNNING))._process.pid, '.', flush=True)\ntime.sleep(1.5)\n"
        "starting.stop()\nprint('stopped')"
    )
    pid, _ = ready(process)
    output, errors = process.communicate(timeout=30)

    assert ("stopped\n", "") == (output, errors)
    assert gone(pid)


def test_a_spark_home_of_the_user_is_never_overridden(python, tmp_path):
    """One without Spark in it is an error that says so, not a reason to take another."""
    process = python(
        "from conformance import judge\nfrom conformance.errors import JudgeError\n"
        "try: judge.Session.start()\nexcept JudgeError as error: print(error)",
        SPARK_HOME=str(tmp_path),
    )
    output, _ = process.communicate(timeout=30)

    assert "the JVM for Spark did not start" in output
    assert "SparkSubmit" in output


def test_no_java(monkeypatch):
    """The error of the search for Java is the error of the judge."""
    from conformance.adapters import java

    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    monkeypatch.setattr(Session, "_guest", classmethod(lambda cls: None))  # another test's session may live here
    with pytest.raises(JudgeError, match="no Java 17 or newer"):
        Session.start()


def test_importing_the_judge_imports_no_spark():
    """A report or a usage error must not pay for it."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, conformance.judge; print('pyspark' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "False\n" == done.stdout
