"""What a pytest session does before and around its tests: nothing unasked, one line for a wrong word, a clean end."""

import json
import os
import signal
import subprocess
import sys

import pytest

HEAVY = ("pyspark", "proton", "pyarrow", "pydantic", "pandas", "conformance.campaign")


def test_nothing_without_adapter(run_pytest, tmp_path):
    """A project with a `--seed` of its own and a file of scenarios is left alone, and nothing heavy is loaded."""
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--seed', type=int)\n")
    (tmp_path / "mine.py").write_text("from conformance.scenario import scenario\n\n@scenario\nclass Broken: pass\n")
    (tmp_path / "test_mine.py").write_text(
        f"import sys\n\ndef test(pytestconfig):\n    assert 5 == pytestconfig.getoption('--seed')\n"
        f"    assert not set({HEAVY!r}) & set(sys.modules)\n"
    )
    done = run_pytest(".", "--seed", "5", "--strict", cwd=tmp_path)

    assert (0, True) == (done.returncode, "1 passed" in done.stdout), done.stdout + done.stderr


TAKES = "def pytest_addoption(parser):\n    for name in {}: parser.addoption(name)\n"
SHOWS = (
    "def test_theirs(pytestconfig):\n"
    "    print('theirs', pytestconfig.getoption('--adapter'), pytestconfig.getoption('--seed'))\n"
    "    print('ours', pytestconfig.pluginmanager.hasplugin('conformance-front'))\n"
)


@pytest.mark.parametrize("place", ["conftest.py", "their_plugin.py"])
def test_options_of_another_plugin(run_pytest, tmp_path, place):
    """A short name that a plugin or a conftest.py has stays its own; the name in full is ours, and the header says so."""
    taken = ["--adapter", "--set", "--seed", "--out"]
    (tmp_path / place).write_text(TAKES.format(taken))
    (tmp_path / "test_theirs.py").write_text(SHOWS)
    more = ["-p", "their_plugin"] if place == "their_plugin.py" else []
    theirs = [*more, "-s", "--adapter", "x", "--seed", "5"]
    ours = ["--conformance-adapter=reference", "--conformance-seed=7", "--conformance-out=mine"]
    alone, both = (run_pytest(".", *theirs, *words, cwd=tmp_path) for words in ([], ours))

    assert (0, 0) == (alone.returncode, both.returncode), alone.stdout + alone.stderr + both.stdout + both.stderr
    assert "theirs x 5\nours False\n" in alone.stdout
    assert "conformance" not in alone.stdout.replace("ack-conformance", "")
    assert "theirs x 5\nours True\n" in both.stdout
    assert "over amqp, seed 7, into mine" in both.stdout
    assert f"conformance: {', '.join(taken)} of another plugin: here --conformance-NAME" in both.stdout


@pytest.mark.parametrize("typed", [["--adapter", "reference"], ["--adapter=reference"]])
def test_the_short_name_of_the_switch(run_pytest, tmp_path, typed):
    """Read from the command line and from addopts; the word after it is no path, so pytest finds its conftest.py."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = sub\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "conftest.py").write_text(TAKES.format(["--theirs"]))
    (tmp_path / "sub" / "test_it.py").write_text("def test_it(): pass\n")
    by_words = run_pytest(*typed, "--seed=7", "--theirs=x", cwd=tmp_path)
    by_file = run_pytest("-o", f"addopts={' '.join(typed)} --conformance-seed 7", cwd=tmp_path)

    for done in (by_words, by_file):
        assert 0 == done.returncode, done.stdout + done.stderr
        assert "over amqp, seed 7" in done.stdout
        assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--adapter=artmis"], "unknown adapter 'artmis': did you mean 'artemis'?"),
        (["--config=mine"], "--config mine: reference has no [config] in its broker.toml"),
        (["-n2", "--dist=loadgroup"], "--dist loadgroup: the tests of a scenario share its trials"),
    ],
)
def test_wrong_words(run_pytest, suites, words, said):
    """One line that names the closest, and exit code 4, before anything is started; see `test_cli` for other words."""
    done = run_pytest(suites, "--adapter=reference", *words)

    assert 4 == done.returncode, done.stdout + done.stderr
    assert said in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())


@pytest.mark.full
def test_required_where_nothing_is_tried(run_pytest, tmp_path):
    """A session without a scenario passes nothing that had to be tried; to collect is no failure."""
    (tmp_path / "test_other.py").write_text("def test(): pass\n")
    words = [".", "--adapter=reference", "--require-tried=AMQP-DUR-01"]
    done, listed = (run_pytest(*words, *more, cwd=tmp_path) for more in ([], ["--collect-only"]))

    assert (1, 0) == (done.returncode, listed.returncode), done.stdout + done.stderr
    assert "AMQP-DUR-01: this session has no test that tries anything." in done.stdout
    assert "conformance ===" not in listed.stdout


def collected(done):
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["-k", "SOLCD-ACK-02 and WhilePublishing"], 1),
        pytest.param(["-m", "permission", "-k", "OneByOne"], 3, marks=pytest.mark.full),
        pytest.param(["--claims", "AMQP-DUR-01"], 2, marks=pytest.mark.full),
        pytest.param(["--claims", "AMQP-DUR-01", "--claims", "EMS-CLIENT-03"], 3, marks=pytest.mark.full),
        (["--claims", "AMQP-DUR-01", "--require", "EMS-CLIENT-03"], 3),
    ],
)
def test_selection(run_pytest, suites, words, count):
    """By keyword, by the kind of claim, and by our own word; under pytest's strict mode."""
    done = run_pytest(suites / "publishing" / "broker_killed.py", suites / "consuming", "--adapter=reference", "-q", *words,
                      "--collect-only", "--strict")  # fmt: skip

    assert 0 == done.returncode, done.stdout + done.stderr
    assert count == len(collected(done))


def test_one_test_by_its_id(run_pytest, suites):
    """As pytest prints it, from the folder that holds `suites`."""
    name = "suites/publishing/broker_killed.py::BrokerKilledWhilePublishing::SOLCD-ACK-01"
    done = run_pytest(name, "--adapter=reference", "--collect-only", "-q", cwd=suites.parent)

    assert [name] == collected(done)


@pytest.mark.full
def test_timing_is_not_measured_beside_others(run_pytest, tmp_path):
    """A scenario that measures time refuses a second worker, and records nothing."""
    (tmp_path / "mine.py").write_text(
        "from conformance.scenario import Check, scenario\nfrom conformance.scenario.script import SETTLE, Publish\n\n\n@scenario\nclass MineIsTimed:\n"
        '    """Timed."""\n\n    mode = "client"\n    timing = True\n    steps = (Publish(10, window=1), *SETTLE)\n'
        '    checks = (Check("many_unacknowledged", exposure="delivered_unacknowledged"),)\n'
    )
    done = run_pytest("mine.py", "--adapter=reference", "-n2", "--out=out", cwd=tmp_path)

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "MineIsTimed measures time, which neighbours would spoil: run it without -n" in done.stdout
    assert not (tmp_path / "out" / "trials").exists()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("number", "workers"),
    [(signal.SIGTERM, []), pytest.param(signal.SIGINT, ["-n", "2"], marks=pytest.mark.full)],
)
def test_interrupted(suites, tmp_path, marked, number, workers):
    """SIGTERM, and Ctrl-C with workers: exit code 2, brokers and clients are gone, what was recorded is kept and marked, no report."""
    words = ["--adapter=reference", "--claims=SOLCD-ACK-01", "-v", "-p", "no:cacheprovider", "--out", tmp_path / "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", suites, *words, *workers],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    pattern = "workers/*/trials/*/trial.json" if workers else "trials/*/trial.json"
    while not list((tmp_path / "out").glob(pattern)):
        assert process.poll() is None, process.stdout.read()
    os.kill(process.pid, number)
    printed, _ = process.communicate(timeout=300)
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("**/run.json")]

    assert 2 == process.returncode, printed
    assert [] == [pid for run in runs for pid in marked(run["run"])]
    assert {(True, False)} == {(run["interrupted"], run["finished"]) for run in runs}
    assert "no report" in printed
    assert not (tmp_path / "out" / "report.json").exists()
