"""Whole runs as a user starts them: verdicts, interruptions, and what a killed harness leaves."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conformance.report import model

pytestmark = pytest.mark.spark
UNSYNCED = ("--set", "sync_non_transactional=false", "--set", "sync_transactional=false")
WEAK = (*UNSYNCED, "--set", "journal_buffer_ms=60000")


@pytest.fixture
def finished(typed, spark_for_all, tmp_path):
    """Run to the end, in this process; returns the exit code, the report, and what was printed."""

    def run(*words):
        done = typed("run", "--adapter", "reference", "--out", tmp_path / "out", "--seed", "7", *words)
        path = tmp_path / "out" / "report.json"
        return done, model.read_json(path) if path.is_file() else None

    return run


def verdicts(report, claim):
    return {(row.scenario, str(row.verdict)) for row in report.verdicts if row.claim == claim}


@pytest.mark.full
def test_honest_broker(finished, marked, tmp_path):
    """Exit 0: it holds, with a control that failed 3 of 3, and nothing is left running."""
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


def test_judging_the_folder_again_gives_the_same_rows(finished, conformance, tmp_path):
    """The folder is all that a verdict rests on."""
    done, report = finished("--claims", "AMQP-DUR-01")
    again = conformance("judge", tmp_path / "out")

    assert (done.returncode, report.verdicts) == (
        again.returncode,
        model.read_json(tmp_path / "out" / "report.json").verdicts,
    )


@pytest.mark.artemis
@pytest.mark.full
def test_weakened_artemis_is_not_accused(conformance, tmp_path):
    """Not promised by this configuration, and the sentence that permits the loss is witnessed beside it."""
    words = (
        "--claims",
        "SOLCD-TX-02,ARTEMIS-TX-03,ARTEMIS-TX-06",
        "--trials",
        "1",
        *UNSYNCED,
        "--set",
        "journal_buffer_ms=500",
    )
    done = conformance("run", "--adapter", "artemis", "--out", tmp_path / "out", *words)
    report = model.read_json(tmp_path / "out" / "report.json")

    assert {"NOT_APPLICABLE"} == {verdict for _, verdict in verdicts(report, "SOLCD-TX-02")}
    assert {"NOT_APPLICABLE"} == {verdict for _, verdict in verdicts(report, "ARTEMIS-TX-03")}
    assert "WITNESSED" in {verdict for _, verdict in verdicts(report, "ARTEMIS-TX-06")}
    assert 0 == done.returncode, done.stdout + done.stderr


def test_weakened_broker_violates_what_the_user_requires(finished):
    """3 of 3, exit 1, with the message and its timeline, and never counted against the vendor."""
    done, report = finished("--claims", "AMQP-DUR-01", "--require", "AMQP-DUR-01", *WEAK)
    rows = [row for row in report.verdicts if row.claim == "AMQP-DUR-01" and row.fault == "kill"]

    assert 1 == done.returncode, done.stdout + done.stderr
    assert {("VIOLATED", True, 3, 3)} == {(str(r.verdict), r.required, r.offended, r.trials) for r in rows}
    assert "3 of 3" in done.stdout
    assert all(row.witnesses[0].timeline for row in rows)


def start(tmp_path, *words):
    """A run in the background, in a session of its own as a terminal would give it."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "conformance.frontend.cli",
            "run",
            "--adapter",
            "reference",
            "--out",
            tmp_path / "out",
            *words,
        ],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def first_trial(process):
    """Wait until one trial is recorded: the next one is under way then."""
    for line in process.stderr:
        if "recorded in" in line:
            return
    raise AssertionError("the run ended before its first trial did")


def run_id(tmp_path):
    return json.loads((tmp_path / "out" / "run.json").read_text())["run"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_interrupted(tmp_path, conformance, marked, number):
    """Ctrl-C: brokers and clients are gone, what was recorded is kept, and nobody calls it a pass."""
    process = start(tmp_path, "--claims", "SOLCD-ACK-01")
    first_trial(process)
    os.kill(process.pid, number)
    process.communicate(timeout=300)
    judged = conformance("judge", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")

    assert 130 == process.returncode
    assert [] == marked(run_id(tmp_path))
    assert report.run.interrupted
    assert "HOLDS" not in {str(row.verdict) for row in report.verdicts}
    assert 0 != judged.returncode


def test_killed_harness(tmp_path, conformance, marked):
    """SIGKILL: its history is no pass, and the next run releases exactly what it left."""
    process = start(tmp_path, "--claims", "SOLCD-ACK-01")
    first_trial(process)
    process.kill()
    process.wait()
    left = marked(run_id(tmp_path))
    bystander = subprocess.Popen(["sleep", "300"])
    judged = conformance("judge", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")
    following = conformance(
        "run", "--adapter", "reference", "--claims", "AMQP-DUR-01", "--trials", "1", "--out", tmp_path / "next"
    )

    assert left, "the killed harness left nothing: this test shows nothing"
    assert "HOLDS" not in {str(row.verdict) for row in report.verdicts}
    assert 0 != judged.returncode
    assert "released what an earlier run left" in following.stderr
    assert [] == marked(run_id(tmp_path))
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def broker_file(tmp_path, command):
    """The bundled broker with another command."""
    from conformance import paths

    text = (paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text()
    before, rest = text.split("command = [", 1)
    path = tmp_path / "odd.toml"
    path.write_text(
        f"{before}command = {json.dumps(command)}{rest.split(']', 1)[1]}".replace("ready_s = 30", "ready_s = 3")
    )
    return path


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo the disk is on fire; exit 7", "the disk is on fire"),
        pytest.param("echo still thinking; exec sleep 60", "was not ready within", marks=pytest.mark.full),
    ],
)
def test_broker_that_does_not_start(typed, spark_for_all, tmp_path, script, why):
    """A harness error with the end of its log, and no verdict against the broker."""
    file = broker_file(tmp_path, ["/bin/sh", "-c", script])
    done = typed("run", "--adapter", file, "--claims", "AMQP-DUR-01", "--trials", "1", "--out", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")

    assert 3 == done.returncode, done.stdout + done.stderr
    assert {"HARNESS_ERROR"} == {verdict for _, verdict in verdicts(report, "AMQP-DUR-01")}
    assert why in done.stdout + done.stderr


def test_broker_that_dies_by_itself(typed, spark_for_all, tmp_path):
    """In the middle of publishing, without a fault of ours: void, never a loss."""
    python = sys.executable
    code = (
        "import os,signal,subprocess,sys,time;"
        f"p=subprocess.Popen([{python!r},'-m','conformance.reference',*sys.argv[1:]]);"
        "d=sys.argv[sys.argv.index('--data')+1];"
        "exec('while p.poll() is None and not any(f.is_file() and any(f.read_bytes()) for f in "
        '__import__("pathlib").Path(d).rglob("*")): time.sleep(0.01)\');'
        "p.kill();sys.exit(9)"
    )
    words = ["--amqp-port", "{amqp_port}", "--http-port", "{http_port}", "--data", "{data_dir}"]
    file = broker_file(tmp_path, [python, "-c", code, *words])
    done = typed("run", "--adapter", file, "--claims", "AMQP-DUR-01", "--trials", "1", "--out", tmp_path / "out")
    report = model.read_json(tmp_path / "out" / "report.json")

    assert 3 == done.returncode, done.stdout + done.stderr
    assert {"HARNESS_ERROR"} == {verdict for _, verdict in verdicts(report, "AMQP-DUR-01")}
