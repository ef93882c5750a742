"""The judge on clusters of real processes: each gives the verdicts of this machine, also if an executor is killed."""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import msgspec
import psutil
import pyspark
import pytest
from judge_histories import LOSSY, RUN, close, record, write

from conformance import records
from conformance.adapters.launch.java import find_java
from conformance.judge import spark as session
from conformance.records import RunFile

pytestmark = pytest.mark.full
SPARK = pathlib.Path(pyspark.__path__[0])
START_S = 180  # a minute is too little for a busy machine
OURS = {"SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
"""Without the first a worker looks for the folders of a build; Spark's own shell scripts set it."""

LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of two trials, one of which shows a loss."""
    place = tmp_path_factory.mktemp("recorded") / "run"
    for index in (1, 2):
        trial = f"subject.{index}"
        write(place / "trials" / trial, LOSSY, record(trial, index=index), run=RUN.run)
    close(place, RUN)
    records.save(records.read(place / "run.json", RunFile).sealed, place / "run.json")
    return place


@pytest.fixture
def spark_home(tmp_path):
    """The installed Spark under another name: a local cluster writes into its own folder."""
    home = tmp_path / "spark"
    home.mkdir()
    (home / "jars").symlink_to(SPARK / "jars")
    return home


@pytest.fixture
def verdicts(recorded, tmp_path, spark_home, conformance):
    """Judge a copy of the run with these options, and return its exit code and verdicts.

    Its folder is relative, and has the name of a pattern: Spark's processes have other working folders.
    """

    def judged(*options, **env):
        run = shutil.copytree(recorded, tmp_path / f"run [{len(list(tmp_path.iterdir()))}]")
        done = conformance(
            "judge", run.name, "--again", *options, env={**OURS, **env, "SPARK_HOME": str(spark_home)}, timeout=600
        )
        assert (run / "report.json").exists(), done.stderr
        return done.returncode, msgspec.json.decode((run / "report.json").read_bytes())["verdicts"]

    return judged


@pytest.fixture
def spark(tmp_path, spark_home):
    """Start a process of Spark's own, and return a match of its log; all of them are ended by their pids."""
    with contextlib.ExitStack() as started:

        def start(name, pattern, *words):
            log = tmp_path / f"{name}.log"
            opens = [f"--add-opens={package}=ALL-UNNAMED" for package in session._OPENS]
            netty = "-Dio.netty.tryReflectionSetAccessible=true"
            command = [str(find_java(17).path), "-Xmx1g", *opens, netty, "-cp", f"{SPARK}/jars/*", *words]
            with log.open("wb") as out:
                environment = {**os.environ, **OURS, "SPARK_HOME": str(spark_home)}
                process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
            started.callback(end, process)
            return process, awaited(log, pattern)

        yield start


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def end(process):
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


def awaited(log, pattern):
    """Return the match of a pattern in a log that is being written."""
    until = time.monotonic() + START_S
    while not (found := re.search(pattern, log.read_text(errors="replace") if log.exists() else "")):
        assert time.monotonic() < until, f"{log.name} has no {pattern}"
        time.sleep(0.05)
    return found


@pytest.fixture
def master(spark, tmp_path):
    """Return the address of a standalone master with two workers, which have one core each."""
    _, found = spark("master", r"spark://127\.0\.0\.1:\d+", "org.apache.spark.deploy.master.Master", *LOOPBACK)
    for number in (1, 2):
        limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"worker-{number}"))
        worker = ("org.apache.spark.deploy.worker.Worker", *LOOPBACK, *limits, found[0])
        spark(f"worker-{number}", "Successfully registered with master", *worker)
    return found[0]


def test_a_local_cluster(verdicts):
    """Two executors with a process each."""
    assert verdicts() == verdicts("--spark-master", "local-cluster[2,1,1024]")


def test_a_standalone_cluster(verdicts, master):
    assert verdicts() == verdicts("--spark-master", master)


def test_an_executor_that_is_killed(verdicts, master, tmp_path):
    """While it runs a task: its worker starts another one, and the task is done again."""
    killed = []

    def kill():
        def logs():
            return [p for p in tmp_path.glob("worker-*/app-*/*/stderr") if b"Running task" in p.read_bytes()]

        until = time.monotonic() + START_S
        while not (found := logs()) and time.monotonic() < until:
            time.sleep(0.01)
        number = found[0].parent.name
        for each in psutil.process_iter(["cmdline"]):
            words = each.info["cmdline"] or []
            if (
                "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
                and number == words[words.index("--executor-id") + 1]
            ):
                each.kill()
                killed.append(each.pid)

    expected = verdicts()
    thread = threading.Thread(target=kill)
    thread.start()
    found = verdicts("--spark-master", master)
    thread.join()

    assert [expected, 1] == [found, len(killed)]


def test_a_connect_server(verdicts, spark, tmp_path):
    """The client needs packages that the suite does not install: pyspark[connect]."""
    more = tmp_path / "more"
    needs = ["pandas<3", "grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", more, *needs], check=True)
    words = ("org.apache.spark.deploy.SparkSubmit", "--master", "local[2]")
    port = free_port()
    conf = (
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
    )
    server = (
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--name",
        "connect",
        "spark-internal",
    )
    spark("connect", "Spark Connect server started at", *words, *conf, *server)

    assert verdicts() == verdicts(
        "--spark-remote",
        f"sc://127.0.0.1:{port}",
        PYTHONPATH=os.pathsep.join(filter(None, [str(more), os.environ.get("PYTHONPATH")])),
    )
