"""One recorded run for replays and bundles: the bundled broker without syncs, killed among publishers, three times."""

import concurrent.futures
import functools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest
from broker_ports import broker_port
from reproductions import NAME
from starts import starts_process

from conformance import campaign, claims, locks, report, scenario
from conformance.campaign import Options, Watcher

WEAK = ("sync_non_transactional=false", "sync_transactional=false", "journal_buffer_ms=500")


@pytest.fixture(scope="session")
def spark(spark_for_all):
    return spark_for_all


@pytest.fixture(scope="session")
def recorded(spark, tmp_path_factory, worker_id):
    """The folder of a run that violates what its user requires, reported as the command does.

    The first process of the tests that needs it records it for all of them. A test changes a `copy`.
    """
    alone = worker_id == "master"  # without workers of xdist the parent is of other runs too
    place = tmp_path_factory.mktemp("alone") if alone else tmp_path_factory.getbasetemp().parent
    folder, done = place / "recorded" / "run", place / "recorded" / "done"
    with locks.lock(place / "recorded"):
        if not done.exists():
            record(folder, tmp_path_factory.mktemp("state-of-recorded"))
            done.touch()
    return folder


def record(folder, state):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        patch.setattr("conformance.run.trial.jobs.LIVENESS_S", 5.0)  # as `impatient`
        options = Options(
            "reference",
            settings=WEAK,
            claims=("SOLCD-ACK-01",),
            required=("SOLCD-ACK-01",),
            scenarios=(NAME,),
            trials=3,
            jobs=1,
            seed=7,
            out=folder,
        )
        judgement = campaign.execute(campaign.prepare(options), Watcher())
    catalogue = claims.load()
    report.write_all(judgement, catalogue, scenario.load(catalogue), folder)


@pytest.fixture
def copy(recorded, tmp_path):
    """The run again, to be changed."""
    return pathlib.Path(shutil.copytree(recorded, tmp_path / "copy"))


@pytest.fixture(scope="session")
def python_path():
    """The environment of a script that starts the bundled broker from this checkout."""
    package = pathlib.Path(campaign.__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
@starts_process
def reproduce(tmp_path_factory, python_path):
    """Run a script as a maintainer would, once for each broker, side by side; returns the completed processes."""

    def run(text, protocol, *brokers):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(lambda words: maintainer(text, protocol, words), brokers))

    maintainer = maintained(tmp_path_factory, python_path)
    return run


@pytest.fixture(scope="session")
@starts_process
def tries(tmp_path_factory, python_path):
    """The same one by one: `submit(text, protocol, words, ...)` returns a future. Six at a time: most of it is wait."""
    tmp_path_factory.getbasetemp()  # is made at its first use, and here before two threads use it
    maintainer = maintained(tmp_path_factory, python_path)
    pool = concurrent.futures.ThreadPoolExecutor(6)
    yield functools.partial(pool.submit, maintainer)
    pool.shutdown(cancel_futures=True)


def maintained(tmp_path_factory, environment):
    """What a maintainer does: put the script into a folder, and run it against a bundled broker with these words."""

    def maintainer(text, protocol, words, silence="1", before=""):
        folder = tmp_path_factory.mktemp("maintainer")
        (folder / "reproduce.py").write_text(text)
        ports, start = broker_command(folder, words)
        address = ["--address", f"127.0.0.1:{ports[protocol]}", "--queue", "orders", "--silence", silence]
        address += ["--journal", folder / "data"] if "--journal" in text else []
        command = [sys.executable, "-I", folder / "reproduce.py", *address, "--start", before + start]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    return maintainer


@pytest.fixture(scope="session")
def started():
    """`broker_command`."""
    return broker_command


def broker_command(folder, words):
    """The ports, and a command line for the bundled broker on them."""
    ports = {name: broker_port() for name in ("amqp", "amqp091", "stomp", "mqtt", "http")}
    typed = [word for name, port in ports.items() for word in (f"--{name}-port", port)]
    line = [
        sys.executable,
        "-m",
        "conformance.reference",
        *typed,
        "--data",
        folder / "data",
        "--queue",
        "orders",
        *words,
    ]
    return {**ports, "mqtt311": ports["mqtt"]}, shlex.join(map(str, line))
