"""What is judged while a run is recorded: when, and what a user sees of it."""

import dataclasses
import threading
import types

import pytest

from conformance import campaign
from conformance.campaign import batches, open_run
from conformance.campaign.batches import BatchJudge
from conformance.errors import JudgeError
from conformance.report import model

ENOUGH_S = 20
KILLED = "broker-killed-while-sending-one-by-one"
WEAK = ("sync_non_transactional=false", "sync_transactional=false", "journal_buffer_ms=60000")


class Batches:
    """A judge in batches of a folder, and what it was asked: each batch waits for `go`."""

    def __init__(self, folder):
        self.folder, self.quiet, self.notes, self.count = folder, threading.Lock(), [], 0
        self.begun, self.go, self.done = (threading.Semaphore(0) for _ in range(3))
        self.error = None

    def judge(self):
        self.begun.release()
        assert self.go.acquire(timeout=ENOUGH_S)
        if self.error:
            raise self.error
        self.count += 1
        self.done.release()

    def open(self, prepare=lambda: None):
        return BatchJudge(self.folder, prepare, self.judge, self.quiet, self.notes.append)

    def record(self, name):
        place = self.folder / "trials" / name
        place.mkdir(parents=True)
        (place / "trial.json").touch()

    def one(self):
        """Let one batch be judged."""
        assert self.begun.acquire(timeout=ENOUGH_S)
        self.go.release()
        assert self.done.acquire(timeout=ENOUGH_S)


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "FIRST_S", 0.01)
    return Batches(tmp_path)


def test_a_batch_is_judged_when_trials_were_added(made):
    made.record("a")
    with made.open():
        made.one()
        assert not made.begun.acquire(timeout=0.2)
        made.record("b")
        made.one()
    assert (2, []) == (made.count, made.notes)


def test_a_short_run_is_judged_at_its_end_only(made, monkeypatch):
    """And does not wait for Spark."""
    monkeypatch.setattr(batches, "FIRST_S", 600.0)
    made.record("a")
    with made.open(prepare=lambda: pytest.fail("the judge was asked for")):
        pass
    assert 0 == made.count


def test_nothing_is_judged_while_the_recording_needs_quiet(made):
    made.record("a")
    with made.open():
        with made.quiet:
            assert not made.begun.acquire(timeout=0.2)
        made.one()
    assert 1 == made.count


def test_the_recording_waits_for_a_batch_before_it_needs_quiet(made):
    made.record("a")
    with made.open():
        assert made.begun.acquire(timeout=ENOUGH_S)
        assert not made.quiet.acquire(timeout=0.1)
        made.go.release()
        assert made.quiet.acquire(timeout=ENOUGH_S)
        made.quiet.release()
    assert 1 == made.count


def test_the_judge_rests_longer_than_it_works(made, monkeypatch):
    """Three times as long as the batch took: the trials need the cores."""
    now = iter([0.0, 7.0])
    waits = []
    monkeypatch.setattr(batches, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    made.record("a")
    opened = made.open()
    opened._ended = types.SimpleNamespace(wait=lambda s: waits.append(s) or len(waits) > 2, is_set=lambda: False)
    made.go.release()
    opened._run()

    assert [0.01, 0.0, 21.0] == waits


@pytest.mark.parametrize("error", [JudgeError("the JVM has ended"), OSError(28, "No space left on device")])
def test_an_error_of_the_judge_leaves_all_to_the_end(made, error):
    """The recording goes on."""
    made.record("a")
    made.error = error
    with made.open() as opened:
        assert made.begun.acquire(timeout=ENOUGH_S)
        made.go.release()
        opened._work.result(ENOUGH_S)
    assert [f"the run is judged at its end only: {error}"] == made.notes


def test_an_error_of_the_suite_is_raised(made):
    made.record("a")
    made.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError), made.open():
        assert made.begun.acquire(timeout=ENOUGH_S)
        made.go.release()


def test_an_interrupt_does_not_wait_for_the_batch(made):
    """The end of the JVM ends it, and no note about that follows."""
    made.record("a")
    made.error = JudgeError("the JVM has ended")
    with pytest.raises(KeyboardInterrupt), made.open() as opened:
        assert made.begun.acquire(timeout=ENOUGH_S)
        raise KeyboardInterrupt
    assert not opened._work.done()
    made.go.release()
    opened._work.result(ENOUGH_S)
    assert [] == made.notes


def test_a_budget_plans_a_quarter_of_its_time_at_once(tmp_path, monkeypatch):
    """A broker lives as long as the trials that are planned at once, and their seconds are an estimate."""
    clock, asked = types.SimpleNamespace(now=0.0), []

    def more(_selection, _scenarios, _added, seconds):
        asked.append(seconds)
        return [types.SimpleNamespace(script=types.SimpleNamespace(id="a"))]

    def record(_trials):
        clock.now += asked[-1] / 2

    monkeypatch.setattr(open_run, "more_faults", more)
    monkeypatch.setattr(open_run, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    options = campaign.Options("reference", claims=("SOLCD-ACK-01",), budget_s=400, jobs=2, out=tmp_path / "out")
    written = types.SimpleNamespace(plan=lambda _: None)
    recording = types.SimpleNamespace(record=record)
    running = campaign.OpenRun(campaign.prepare(options), written, recording, None, campaign.Watcher())
    running._spend_budget()

    assert ([200.0, 150.0, 112.5], 60.0) == (asked[:3], asked[-2])
    assert 400 == pytest.approx(clock.now)


@pytest.mark.spark
def test_a_violation_is_printed_while_the_run_goes_on(typed, tmp_path, monkeypatch, spark_for_all, impatient):
    """In a report that says that the run goes on. The rows of its end are those of judging at once."""
    monkeypatch.setattr(batches, "FIRST_S", 0.05)
    monkeypatch.setattr(batches, "RESTS", 0)
    settings = [word for each in WEAK for word in ("--set", each)]
    chosen = ("--claims", "SOLCD-ACK-01", "--scenario", KILLED, "--require", "SOLCD-ACK-01", "--seed", "7")
    reports, judged, execute = [], [], campaign.execute

    def executed(prepared, watcher):
        """Let the last trial begin when a batch has shown the violation."""
        violated = threading.Event()

        def seen(found):
            watcher.judged(found)
            if any(row.verdict == "VIOLATED" for row in found.rows) and not violated.is_set():
                reports.append(model.read_json(tmp_path / "out" / "report.json"))
                violated.set()

        def begins(progress):
            watcher.progress(progress)
            if progress.record is None and progress.done == progress.total - 1:
                assert violated.wait(120)

        judged.append(execute(prepared, dataclasses.replace(watcher, judged=seen, progress=begins)))
        return judged[0]

    monkeypatch.setattr(campaign, "execute", executed)
    done = typed("run", "--adapter", "reference", "--jobs", "1", "--out", tmp_path / "out", *settings, *chosen)
    before, printed, _ = done.stderr.partition("VIOLATED SOLCD-ACK-01 in ")
    (whole,), (at_once,) = judged, campaign.judge_folders([tmp_path / "out"])
    first, last = *reports, model.read_json(tmp_path / "out" / "report.json")

    assert printed, done.stderr
    assert "judging" not in before
    assert f"again: conformance replay {tmp_path / 'out'} --scenario {KILLED} --trial " in done.stderr
    assert 1 == done.stderr.count("VIOLATED SOLCD-ACK-01 in ")
    assert {"VIOLATED"} == {row.verdict for row in first.verdicts if row.trials and row.claim == "SOLCD-ACK-01"}
    assert (False, True, True, "") == (first.run.finished, last.run.finished, whole.run.finished, whole.run.incomplete)
    assert f"of {len(whole.trials)} trials were judged" in first.run.incomplete
    assert len(first.trials) < len(whole.trials)
    assert (whole.rows, whole.self_checks, whole.courses) == (at_once.rows, at_once.self_checks, at_once.courses)
    assert whole.account == at_once.account
    assert 1 == done.returncode
