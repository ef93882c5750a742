"""Sessions of pytest as users start them, each in a process of its own; what they record is read by many tests."""

import concurrent.futures
import functools
import json
import os
import subprocess
import sys

import pytest

from conformance import paths

WORDS = ["--adapter=reference", "--claims", "SOLCD-TX-02,EMS-CLIENT-03", "--trials", "1", "--seed", "7"]
WEAK = [
    word
    for setting in ("sync_non_transactional=false", "sync_transactional=false", "journal_buffer_ms=60000")
    for word in ("--set", setting)
]
MINE = '''
"""Mine."""

from conformance.scenario import Check, scenario
from conformance.scenario.script import SETTLE, Consume, ConsumerCrash, Nth, Publish


@scenario
class MineHoldsMany:
    """A consumer of mine takes many messages and dies."""

    mode = "client"
    steps = (
        Publish(1_300, window=100),
        Consume("client", prefetch=1_250, acknowledge=5_000, until=ConsumerCrash(Nth("process", 1_200))),
        *SETTLE,
    )
    decides = {"EMS-CLIENT-03": Check("many_unacknowledged", exposure="delivered_unacknowledged")}
'''
KNOWN = """
[[known]]
claim = "SOLCD-ACK-01"
scenario = "broker-killed-while-publishing"
adapter = "reference"
reason = "syncs are off"
link = "https://example.org/1"
expires = 9999-12-31
"""


@pytest.fixture(scope="session")
def suites():
    """The folder of our scenarios."""
    return paths.suites()


@pytest.fixture(scope="session")
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
def run_pytest(run_python):
    """Run pytest to the end, without its cache unless `cache_dir` is set; returns the completed process."""

    def run(*words, **where):
        cached = any("cache_dir" in str(word) for word in words)
        return run_python("pytest", *([] if cached else ["-p", "no:cacheprovider"]), *words, **where)

    return run


@pytest.fixture(scope="session")
def place(tmp_path_factory, suites):
    """A folder for what is recorded: a scenario and known failures of a user's own, and a broker that cannot start."""
    folder = tmp_path_factory.mktemp("fronts")
    (folder / "mine.py").write_text(MINE)
    (folder / "known.toml").write_text(KNOWN)
    text = (suites.parent / "fixtures" / "brokers" / "reference" / "broker.toml").read_text()
    before, rest = text.split("command = [", 1)
    command = json.dumps(["/bin/sh", "-c", "echo the disk is on fire; exit 7"])
    (folder / "odd.toml").write_text(f"{before}command = {command}{rest.split(']', 1)[1]}")
    return folder


@pytest.fixture(scope="session", autouse=True)
def recording(request, run_python, run_pytest, suites, place):
    """What the selected tests ask for, by the name of its fixture; two at a time, beside the tests that do not wait."""
    mine = [suites, place / "mine.py", *WORDS]
    one = ["--strict", "--alluredir", place / "allure-one", "--junitxml", place / "one.xml"]
    two = ["-n2", "--strict-verdicts", "--baseline", place / "one" / "report.json", "--alluredir", place / "allure-two"]
    some = ["-k", "SOLCD-ACK and (OneByOne or WhilePublishing)", "--deselect"]
    some += [
        "suites/publishing/broker_killed.py::BrokerKilledWhilePublishing::SOLCD-ACK-02",
        "--trials",
        "1",
        "-x",
        "-rxfE",
    ]
    weak = ["--require", "SOLCD-ACK-01", *WEAK, "--known-failures", place / "known.toml"]
    cache = ["-o", f"cache_dir={place / 'cache'}"]
    stomp = ["--protocol=stomp", "-k", "STOMP-RCPT-02", "--trials", "1", "--require-tried", "STOMP-RCPT-0[23]"]
    words = {
        "one": [*mine, *one],
        "command": ["run", *WORDS],
        "stomp": [suites, "--adapter=reference", *stomp],
        "two": [*mine, *two],
        "weakened": [suites, "--adapter=reference", *weak, *some, *cache],
        "burning": [suites, f"--adapter={place / 'odd.toml'}", "--claims", "EMS-CLIENT-03", "--trials", "1"],
    }

    def record(name):
        if name == "two":
            started["one"].result()
        run = functools.partial(run_python, "conformance.frontend.cli") if name == "command" else run_pytest
        return run(*words[name], "--out", place / name, cwd=suites if name == "two" else place)

    asked = {name for item in request.session.items for name in item.fixturenames}
    started = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name in words:
            if name in asked:
                started[name] = pool.submit(record, name)
        yield started


@pytest.fixture(scope="session")
def one(recording):
    """One process that tries our suites and a file of the user's own, under pytest's strict mode."""
    return recording["one"].result()


@pytest.fixture(scope="session")
def command(recording):
    """`conformance run` of the same claims with the same seed."""
    return recording["command"].result()


@pytest.fixture(scope="session")
def two(one, recording):
    """The same tests in two workers, beside the report of the one process."""
    return recording["two"].result()


@pytest.fixture(scope="session")
def weakened(recording):
    """Syncs are off, which is required not to matter: known in one scenario, a failure in the next, then `-x`."""
    return recording["weakened"].result()


@pytest.fixture(scope="session")
def stomp(recording):
    """One claim over STOMP, and another that had to be tried too."""
    return recording["stomp"].result()


@pytest.fixture(scope="session")
def burning(recording):
    """A broker that does not start."""
    return recording["burning"].result()
