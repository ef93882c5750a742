"""What tests share: the command line as users run it, and folders of their own for cache and state."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(pathlib.Path(__file__).parent))  # for `verdict_rows` and `skips`

import skips  # noqa: E402
import starts  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("skips")
    group.addoption("--complete", action="store_true", help="fail on a skip that tests/skips.toml gives no `ci` for")
    group.addoption("--skipped-to", metavar="FILE", help="write the ids of the skipped tests to FILE, a line each")


def pytest_configure(config):
    config.pluginmanager.register(starts.Starts(left_out="not process" in config.getoption("markexpr")))
    if not hasattr(config, "workerinput"):  # the reports of xdist's workers reach the main process
        known, complete = skips.known(), config.getoption("--complete")
        config.pluginmanager.register(skips.Skips(known, complete=complete, file=config.getoption("--skipped-to")))


@pytest.fixture(autouse=True)
def state_of_its_own(tmp_path_factory, monkeypatch):
    """No test sees, or releases, what a run of this user's has left."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
@starts.starts_spark
def spark_for_all():
    """The Spark of this process: a later session in it, of a test or of the suite, is its guest and starts no JVM."""
    from conformance.judge.spark import JudgeSession

    with JudgeSession.start() as session:
        yield session


@pytest.fixture
def impatient(monkeypatch):
    """Look for 5 s longer, not half a minute, for what is owed: by a broker that has lost it for good, or moved it away."""
    monkeypatch.setattr("conformance.run.trial.jobs.LIVENESS_S", 5.0)


@pytest.fixture
@starts.starts_process
def conformance(tmp_path):
    """Run the command; returns the completed process."""

    def run(*words, cwd=tmp_path, env=None, timeout=300):
        return subprocess.run(
            [sys.executable, "-m", "conformance.frontend.cli", *map(str, words)],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
@starts.starts_process
def run_python(tmp_path_factory):
    """Run a module to the end, with a state of its own; returns the completed process."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    state = str(tmp_path_factory.mktemp("state-of-sessions"))
    environment = {**os.environ, "XDG_STATE_HOME": state, "COLUMNS": "200"}

    def run(*words, cwd=elsewhere, timeout=300):
        command = [sys.executable, "-m", *map(str, words)]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


@pytest.fixture(scope="session")
def broken_broker():
    """Write the file of a broker that cannot start; returns its path."""

    def write(folder):
        text = (ROOT / "fixtures" / "brokers" / "reference" / "broker.toml").read_text()
        before, rest = text.split("command = [", 1)
        command = json.dumps(["/bin/sh", "-c", "echo the disk is on fire; exit 7"])
        (folder / "odd.toml").write_text(f"{before}command = {command}{rest.split(']', 1)[1]}")
        return folder / "odd.toml"

    return write


@pytest.fixture
def typed(tmp_path, monkeypatch, capfd):
    """Run the command in this process, which spares the start of Python; returns what `conformance` returns."""
    from conformance.frontend.cli import entry

    before = signal.getsignal(signal.SIGTERM)

    def run(*words):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["conformance", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            entry.main()
        out, err = capfd.readouterr()
        return types.SimpleNamespace(returncode=ended.value.code, stdout=out, stderr=err)

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def marked():
    """Return the pids of living processes that carry a run's mark in their environment."""
    from conformance import ledger

    return ledger.pids_of_run
