"""A soak: faults at random times, segments that close, a kill of the suite in the middle, and the verdict."""

import json
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest
from planned_trials import REFERENCE

from conformance import records
from conformance.errors import LaunchError, UsageError
from conformance.followup import soak
from conformance.history import Ended, Op, Phase, Recorder, bare_header, read
from conformance.judge.input import packing
from conformance.records import TrialRecord
from conformance.run import broker_pool
from conformance.run.soak import recorder, script
from conformance.run.trial import INTERRUPTED
from conformance.scenario.script import SETTLE, After, Consume, Kill, Nth, Pause, Publish, Restart, Stop

OPTIONS = script.SoakOptions(
    adapter="reference", protocol="", settings=(), for_s=60, rate=1200, every_s=20, faults=("kill",), seed=7
)
TRIAL = script.planned(OPTIONS, REFERENCE, REFERENCE.effective(), "amqp")


def options(**changes):
    return msgspec.structs.replace(OPTIONS, **changes)


# the script


def test_faults_are_drawn_by_the_seed():
    """Of the words that were given, at any time of a segment but its beginning, and not after the end of the soak."""
    mixed = options(faults=script.FAULTS)
    drawn = [script.drawn_fault(mixed, number, 100.0) for number in range(1, 200)]
    kinds = {type(fault.step(400)) for fault in drawn}

    assert drawn == [script.drawn_fault(mixed, number, 100.0) for number in range(1, 200)]
    assert {Kill, Stop, Pause} == kinds
    assert {After, Nth} == {type(fault.step(400).at) for fault in drawn}
    assert all(2 <= fault.after_s <= 20 for fault in drawn)
    assert min(fault.after_s for fault in drawn) < 5 < 17 < max(fault.after_s for fault in drawn)
    assert 1.5 == script.drawn_fault(options(every_s=300), 1, 1.5).after_s


def test_a_segment_has_the_rate():
    """The clients of one side share it, and each can bear its part; the last step has the fault."""
    together, restart = script.steps(OPTIONS, script.DrawnFault("kill", 5.0, at_confirm=True))
    sends = [step for step in together.steps if isinstance(step, Publish)]
    takes = [step for step in together.steps if isinstance(step, Consume)]

    assert Restart() == restart
    assert (3, 3) == (len(sends), len(takes))
    assert 1200 == round(sum(1000 / step.every_ms for step in sends))
    assert [None, None, Kill(Nth("confirm", 2000))] == [step.until for step in sends]
    assert all(step.count > 5 * 400 for step in sends)
    assert script.steps(OPTIONS, None) == SETTLE


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"rate": 0}, "too-small"),
        ({"for_s": 0}, "too-small"),
        ({"every_s": 0}, "too-small"),
        ({"every_s": 900}, "too-large"),
        ({"faults": ("kil",)}, "unknown-fault"),
        ({"faults": ()}, "one-of"),
    ],
)
def test_options_that_no_segment_can_have(changes, code):
    with pytest.raises(UsageError) as error:
        options(**changes).check()

    assert code == error.value.code


def test_the_rate_of_the_documentation_fits():
    options(rate=2000, every_s=300, for_s=8 * 3600).check()


# a segment that was cut off


def recorded(path, events, ended=b"", torn=b""):
    header = msgspec.structs.replace(bare_header(path.stem, scenario="soak", trial=TRIAL.id), seed=TRIAL.seed)
    written = Recorder(path, header)
    for _ in range(events):
        written.record(Op.SEND, Phase.INVOKE, message="p1:1", queue="q")
    written.close()
    with path.open("ab") as stream:
        stream.write(ended + torn)


@pytest.fixture
def segment(tmp_path):
    folder = tmp_path / "00001"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("again", [1, 2])
def test_a_segment_that_was_cut_off_is_kept(segment, again):
    """What was torn is cut, an earlier footer is replaced, and a file without a header is removed; twice is as once."""
    recorded(segment / "orchestrator.jsonl", 1)
    recorded(segment / "publisher-1.jsonl", 3, torn=b'{"record":"event","sequ')
    recorded(segment / "consumer-1.jsonl", 2, ended=b'{"record":"footer","events":2,"ended":"interrupted"}\n')
    (segment / "consumer-2.jsonl").write_bytes(b'{"record":"hea')
    for _ in range(again):
        assert recorder.take_over(segment, TRIAL)

    found = {path.stem: read(path) for path in segment.glob("*.jsonl")}
    about = records.read(segment / "trial.json", TrialRecord)
    whole = packing.compact(segment, msgspec.structs.replace(about, void=""))

    assert {"orchestrator": 1, "publisher-1": 3, "consumer-1": 2} == {k: len(v.events) for k, v in found.items()}
    assert {Ended.KILLED_BY_FAULT} == {history.footer.ended for history in found.values()}
    assert (INTERRUPTED, 6) == (about.void, whole.events)
    assert soak.CUT_OFF == soak.ended_by(about)


def test_a_segment_without_an_event_is_removed(segment):
    (segment / "orchestrator.jsonl").touch()

    assert not recorder.take_over(segment, TRIAL)
    assert not segment.exists()


def test_a_whole_segment_is_left_alone(segment):
    recorded(segment / "orchestrator.jsonl", 1, ended=b'{"record":"footer","events":1,"ended":"finished"}\n')
    before = (segment / "orchestrator.jsonl").read_bytes()
    steps = script.steps(OPTIONS, script.DrawnFault("pause", 5.0, at_confirm=False))
    records.save(msgspec.structs.replace(recorder.describe(script.with_steps(TRIAL, steps))), segment / "trial.json")

    assert recorder.take_over(segment, TRIAL)
    assert before == (segment / "orchestrator.jsonl").read_bytes()
    assert "pause" == soak.ended_by(records.read(segment / "trial.json", TrialRecord))


def test_the_newest_store_that_was_started(tmp_path):
    """A folder of a broker that was never started, a copy of the data and a second broker are none."""
    for name, starts in {
        "01-reference": [1, 2, 9],
        "02-reference": [10],
        "03-reference": [],
        "02-reference-again-2": [1],
        "02-reference-data": [11],
    }.items():
        (tmp_path / name / "data").mkdir(parents=True)
        for number in starts:
            (tmp_path / name / f"start-{number}.log").touch()

    assert broker_pool.EarlierStore(tmp_path / "02-reference", 10) == recorder._earlier_store(tmp_path, "reference")
    assert recorder._earlier_store(tmp_path / "none", "reference") is None
    with pytest.raises(LaunchError):
        broker_pool.EarlierStore(tmp_path, 1).move_to(object())


# refused before anything starts


def test_resume_needs_a_soak_that_has_not_ended(tmp_path, typed, monkeypatch):
    """The folder of a soak, of this boot, and without a verdict."""
    prepared = soak.prepare(options(faults=("kill",)), tmp_path / "made")
    prepared.folder.mkdir()
    report = soak.SoakReport(options=OPTIONS, run=soak.campaign.run_record(prepared.campaign), boot=soak.boot_id())
    codes = []
    for found in (report, msgspec.structs.replace(report, verdict=soak.Verdict.HOLDS)):
        records.save(found, prepared.folder / soak.FILE)
        for boot in (report.boot, "another"):
            monkeypatch.setattr(soak, "boot_id", lambda boot=boot: boot)
            try:
                codes.append(soak.resume(prepared.folder).earlier.boot)
            except UsageError as error:
                codes.append(error.code)
    missing = typed("soak", "--resume", tmp_path / "none")

    assert [report.boot, "another-boot", "run-finished", "run-finished"] == codes
    assert (4, True) == (missing.returncode, "it is not the folder of a soak" in missing.stderr)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--for", "1m"], "--adapter: it is missing"),
        (["--adapter", "reference"], "--for: it is missing"),
        (["--adapter", "reference", "--for", "ten"], "--for ten: give a whole number with s, m or h"),
        (["--adapter", "reference", "--for", "1m", "--every", "20m"], "--every 1200s: at most"),
        (["--adapter", "artemis", "--for", "1m", "--protocol", "jms"], "a soak uses the suite's own clients"),
        (["--resume", "x", "--for", "1m"], "the folder has the options of the soak"),
    ],
)
def test_words_that_do_not_go(typed, words, said):
    found = typed("soak", *words)

    assert 4 == found.returncode
    assert said in found.stderr


def test_one_soak_a_folder(tmp_path):
    prepared = soak.prepare(OPTIONS, tmp_path / "made")
    with soak._only_one(prepared.folder), pytest.raises(UsageError, match="another process soaks"):
        soak.execute(prepared, soak.SoakWatcher())


# whole soaks of the bundled broker


def started(folder, *words):
    command = [sys.executable, "-m", "conformance.frontend.cli", "soak", *map(str, words)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def load(folder):
    return json.loads((folder / soak.FILE).read_text())


def awaits(path, process, seconds=240):
    """Wait until a client has written its history for a moment; there is no event for that."""
    until = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size > 20_000):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.full
@pytest.mark.spark
def test_a_soak_that_was_killed_goes_on(tmp_path):
    """SIGKILL in the second segment: the first is not judged again, no message is lost to the count, and it holds."""
    folder = tmp_path / "soak"
    words = ["--for", "20s", "--rate", "200", "--every", "5s", "--seed", "165", "--out", folder]
    first = started(tmp_path, "--adapter", "reference", *words)
    awaits(folder / "segments" / "00002" / "publisher-2.jsonl", first)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    before = load(folder)
    judged = {path: path.stat().st_mtime_ns for path in folder.glob("segments/*/carry.json")}
    second = started(tmp_path, "--resume", folder)
    said, _ = second.communicate(timeout=400)
    found = load(folder)

    assert 0 == second.returncode, said
    assert "HOLDS" == found["verdict"]
    assert before["segments"] == found["segments"][: len(before["segments"])]
    assert judged == {path: path.stat().st_mtime_ns for path in judged}
    assert 1 == [segment["ended_by"] for segment in found["segments"]].count(soak.CUT_OFF)
    assert soak.DRAINED == found["segments"][-1]["ended_by"]
    assert found["faults"]["kill"] >= 3
    assert (found["whole"]["messages"], 0, 0) == (found["segments"][-1]["counts"]["messages"], 0, 0)
    assert all(segment["memory"].keys() >= {"recorder", "clients"} for segment in found["segments"][2:])
    assert "the sum of the segments and the whole, judged at once in" in said


@pytest.mark.spark
def test_a_liar_is_convicted(tmp_path):
    """A start that drops the newest ten of each queue: they are open until the drain, and then lost."""
    folder = tmp_path / "soak"
    liar = ["--adapter", "reference", "--set", "liar=loses-the-last-batch"]
    process = started(
        tmp_path, *liar, "--for", "10s", "--rate", "200", "--every", "4s", "--seed", "165", "--out", folder
    )
    said, _ = process.communicate(timeout=400)
    found = load(folder)
    last = found["segments"][-1]["counts"]

    assert 1 == process.returncode, said
    assert "VIOLATED" == found["verdict"]
    assert last["lost"] == found["whole"]["lost"] > 0
    assert "confirmed and unacknowledged messages are gone" in said
