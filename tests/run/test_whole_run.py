"""Whole runs as a user starts them: verdicts, interruptions, and what a killed harness leaves."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conformance.report import model
from conformance.run.trial.described import INTERRUPTED

pytestmark = pytest.mark.spark
UNSYNCED = ("--set", "sync_non_transactional=false", "--set", "sync_transactional=false")
ONE = ("--claims", "SOLCD-ACK-01", "--scenario", "broker-killed-while-sending-one-by-one")
LEAST = ("--claims", "EMS-CLIENT-03", "--scenario", "consumer-holds-many-unacknowledged")
WEAK = (*UNSYNCED, "--set", "journal_buffer_ms=60000")


@pytest.fixture
def finished(typed, spark_for_all, tmp_path):
    def run(*words):
        done = typed("run", "--adapter", "reference", "--out", tmp_path / "out", "--seed", "7", *words)
        path = tmp_path / "out" / "report.json"
        return done, model.read_json(path) if path.is_file() else None

    return run


def verdicts(report, claim):
    return {(row.scenario, str(row.verdict)) for row in report.verdicts if row.claim == claim}


@pytest.mark.full
def test_honest_broker(finished, marked, tmp_path):
    done, report = finished("--claims", "AMQP-DUR-01,ARTEMIS-TX-04")
    row = next(row for row in report.verdicts if row.claim == "AMQP-DUR-01" and row.verdict == "HOLDS")

    assert 0 == done.returncode, done.stdout + done.stderr
    assert {"HOLDS"} == {verdict for _, verdict in verdicts(report, "AMQP-DUR-01")}
    assert {"NOT_APPLICABLE"} == {verdict for _, verdict in verdicts(report, "ARTEMIS-TX-04")}
    assert (3, 3, 3, True) == (row.trials, row.control.failed, row.control.trials, row.q <= 0.05)
    assert row.exposure.minimum > 0
    assert [] == marked(report.run.run)
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert (report.run.finished, report.run.interrupted) == (True, False)


@pytest.mark.full
def test_a_budget_is_spent_on_more_faults(finished):
    """The kills of the trials that it adds count, and those without a fault stay as they are."""
    started = time.monotonic()
    done, report = finished("--claims", "AMQP-TX-03,AMQP-REF-01", "--budget", "20s")
    rows = {row.claim: row for row in report.verdicts if row.verdict == "HOLDS"}

    assert 0 == done.returncode, done.stdout + done.stderr
    assert rows["AMQP-TX-03"].trials > 3 == rows["AMQP-REF-01"].trials
    assert time.monotonic() - started > 20
    assert "--budget 20s" in report.run.command


def test_judging_folders_again_gives_the_same_rows(finished, conformance, tmp_path):
    """On a Spark of another master too; the exit code is that of the worst."""
    done, report = finished(*ONE)
    shutil.copytree(tmp_path / "out", tmp_path / "short")
    shutil.rmtree(next((tmp_path / "short" / "trials").iterdir()))
    again = conformance("judge", tmp_path / "out", tmp_path / "short", "--spark-master", "local[1]", "--again")
    found, short = (model.read_json(tmp_path / name / "report.json") for name in ("out", "short"))

    assert (0, report.verdicts) == (done.returncode, found.verdicts)
    assert "HOLDS" not in {row.verdict for row in short.verdicts}
    assert again.returncode == short.summary.exit_code != 0, again.stdout + again.stderr


@pytest.mark.artemis
@pytest.mark.full
def test_weakened_artemis_is_not_accused(conformance, tmp_path):
    """The claim is not promised, and the permission to lose is witnessed."""
    chosen = ("--claims", "SOLCD-TX-02,ARTEMIS-TX-03,ARTEMIS-TX-06", "--trials", "1")
    words = (*chosen, *UNSYNCED, "--set", "journal_buffer_ms=500")
    done = conformance("run", "--adapter", "artemis", "--out", tmp_path / "out", *words)
    report = model.read_json(tmp_path / "out" / "report.json")

    assert {"NOT_APPLICABLE"} == {verdict for _, verdict in verdicts(report, "SOLCD-TX-02")}
    assert {"NOT_APPLICABLE"} == {verdict for _, verdict in verdicts(report, "ARTEMIS-TX-03")}
    assert "WITNESSED" in {verdict for _, verdict in verdicts(report, "ARTEMIS-TX-06")}
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.full
def test_weakened_broker_violates_what_the_user_requires(finished):
    done, report = finished("--claims", "AMQP-DUR-01", "--require", "AMQP-DUR-01", *WEAK)
    rows = [row for row in report.verdicts if row.claim == "AMQP-DUR-01" and row.fault == "kill"]

    assert 1 == done.returncode, done.stdout + done.stderr
    assert {("VIOLATED", True, 3, 3)} == {(str(r.verdict), r.required, r.offended, r.trials) for r in rows}
    assert rows[0].offended_faults > 20
    assert f"seen in {rows[0].offended_faults} of {rows[0].faults}" in done.stdout
    assert all(row.witnesses[0].timeline for row in rows)


def start(tmp_path, *words):
    """In a process session of its own, as a terminal would start it."""
    command = [sys.executable, "-m", "conformance.frontend.cli", "run", "--verbose", "--adapter", "reference"]
    return subprocess.Popen(
        [*command, "--out", tmp_path / "out", *words],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def first_trial(process):
    for line in process.stderr:
        if "recorded in" in line:
            return
    raise AssertionError("the run ended before its first trial did")


def run_id(tmp_path):
    return json.loads((tmp_path / "out" / "run.json").read_text())["run"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_interrupted(tmp_path, typed, spark_for_all, marked, number):
    """It holds nothing; resumed by the line that it printed, it keeps what it has, and holds."""
    process = start(tmp_path, *ONE)
    first_trial(process)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=300)
    judged = typed("judge", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")

    assert 130 == process.returncode
    assert [] == marked(run_id(tmp_path))
    assert report.run.interrupted
    assert "HOLDS" not in {str(row.verdict) for row in report.verdicts}
    assert 0 != judged.returncode

    before = recorded(tmp_path)
    resumed = typed(*shlex.split(said.partition("to go on: conformance ")[2]))
    again = model.read_json(tmp_path / "out" / "report.json")

    assert 0 == resumed.returncode, resumed.stdout + resumed.stderr
    assert "HOLDS" in {str(row.verdict) for row in again.verdicts if row.claim == "SOLCD-ACK-01"}
    assert (report.run.run, False) == (again.run.run, again.run.interrupted)
    assert before
    assert before == {name: when for name, when in recorded(tmp_path).items() if name in before}


def recorded(tmp_path):
    """The trials that were recorded to their end, and when."""
    found = {path.parent.name: path for path in tmp_path.glob("out/trials/*/trial.json")}
    return {name: path.stat().st_mtime_ns for name, path in found.items() if INTERRUPTED not in path.read_text()}


def test_killed_harness(tmp_path, typed, spark_for_all, marked):
    """The next run releases the resources of the killed one, and nothing else."""
    process = start(tmp_path, *ONE)
    first_trial(process)
    process.kill()
    process.wait()
    left = marked(run_id(tmp_path))
    bystander = subprocess.Popen(["sleep", "300"])
    judged = typed("judge", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")
    following = typed("run", "--adapter", "reference", *LEAST, "--trials", "1", "--out", tmp_path / "next")

    assert left, "the killed harness left nothing: this test shows nothing"
    assert "HOLDS" not in {str(row.verdict) for row in report.verdicts}
    assert 0 != judged.returncode
    assert "released what an earlier run left" in following.stderr
    assert [] == marked(run_id(tmp_path))
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def broker_file(tmp_path, command):
    from conformance import paths

    text = (paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text()
    before, rest = text.split("command = [", 1)
    path = tmp_path / "odd.toml"
    path.write_text(
        f"{before}command = {json.dumps(command)}{rest.split(']', 1)[1]}".replace("ready_s = 30", "ready_s = 3")
    )
    return path


ENDS_AT_THE_FIRST_RECORD = (
    "import os,signal,subprocess,sys,time;"
    f"p=subprocess.Popen([{sys.executable!r},'-m','conformance.reference',*sys.argv[1:]]);"
    "d=sys.argv[sys.argv.index('--data')+1];"
    "exec('while p.poll() is None and not any(f.is_file() and any(f.read_bytes()) for f in "
    '__import__("pathlib").Path(d).rglob("*")): time.sleep(0.01)\');'
    "p.kill();sys.exit(9)"
)
PORTS_AND_DATA = ["--amqp-port", "{amqp_port}", "--http-port", "{http_port}", "--data", "{data_dir}"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/bin/sh", "-c", "echo the disk is on fire; exit 7"], "the disk is on fire"),
        pytest.param(
            ["/bin/sh", "-c", "echo still thinking; exec sleep 60"], "was not ready within", marks=pytest.mark.full
        ),
        ([sys.executable, "-c", ENDS_AT_THE_FIRST_RECORD, *PORTS_AND_DATA], ""),
    ],
    ids=["ends at once", "is never ready", "ends while it receives messages"],
)
def test_a_broker_that_ends_by_itself_is_an_error_of_the_suite(typed, spark_for_all, tmp_path, command, why):
    """With the end of its log, and without a verdict against the broker. It has one node, so none of several was killed."""
    file = broker_file(tmp_path, command)
    done = typed("run", "--adapter", file, "--claims", "AMQP-DUR-01", "--trials", "1", "--out", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")

    assert 3 == done.returncode, done.stdout + done.stderr
    assert {"HARNESS_ERROR"} == {verdict for _, verdict in verdicts(report, "AMQP-DUR-01")} - {"NOT_TRIED"}
    assert why in done.stdout + done.stderr
