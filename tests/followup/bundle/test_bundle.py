"""A bundle stands by itself: complete, the same bytes each time, and without a word about this machine."""

import io
import json
import pathlib
import re
import shlex
import sys
import tarfile
import zipfile

import msgspec
import pytest
from reproductions import FIRST, NAME, change

from conformance import paths, records
from conformance.errors import UsageError
from conformance.followup import bundle
from conformance.followup.bundle import archive, source
from conformance.followup.bundle.source import gather
from conformance.frontend.cli import cli
from conformance.history import Ended, Op, Phase, Recorder, bare_header, close_history
from conformance.report import model
from conformance.run.trial.evidence import FILE
from conformance.run.trial.evidence import Kept as Record

WEAK = "--set sync_non_transactional=false --set sync_transactional=false --set journal_buffer_ms=60000"


def members(path):
    with zipfile.ZipFile(path) as found:
        return {name: found.read(name) for name in found.namelist()}


@pytest.fixture(scope="module")
def made(recorded, spark, tmp_path_factory):
    """The bundle of the first trial, and its members."""
    path = tmp_path_factory.mktemp("made") / "bug.zip"
    return bundle.make(f"{recorded}#{FIRST}", path, spark), members(path)


@pytest.mark.spark
def test_what_is_in_it(made, recorded):
    """Everything that the run kept of the trial, and the words of the claim that was violated."""
    report, found = made
    text = found["bug.md"].decode()
    trial = json.loads(found["history/trial.json"])

    wanted = {"README.md", "bug.md", "reproduce.py", "timeline.txt", "timeline.json", "versions.json", "broker.log"}
    wanted |= {"broker-trial.log", "configuration/settings.toml", "configuration/settings.diff"}
    wanted |= {"history/publisher-1.jsonl", "history/orchestrator.jsonl", "journal/journal-1.tar.gz"}
    assert wanted - set(found) == set()
    assert re.search(r"# Reference broker \S+: \d+ of \d+ confirmed messages lost", text)
    assert "the configuration does not promise the guarantee, and the user required" in text
    assert "> Once an acknowledgement for a message has been" in text
    assert "(SOLCD-ACK-01)" in text
    assert f"at the {trial['k']}" in text
    rows = model.read_json(recorded / "report.json").verdicts
    (row,) = [row for row in rows if row.claim == "SOLCD-ACK-01" and row.scenario == NAME]
    assert f"Seen in {row.offended} of 3 trials" in text  # a kill just after the journal was written loses nothing
    assert "`sync_non_transactional` = `false`" in text
    assert "-sync_transactional = true\n+sync_transactional = false" in found["configuration/settings.diff"].decode()
    assert "PN_TRACE_FRM=1" in text
    assert trial["trial"] == FIRST
    assert "missing: `wire.jsonl`" in "\n".join(report.lines)


@pytest.mark.spark
def test_timelines(made):
    """Of messages that were lost: sent, confirmed, and never delivered; the kill and the drains are among the events."""
    for timeline in json.loads(made[1]["timeline.json"]):
        done = {(event["op"], event["phase"]) for event in timeline["events"]}
        assert {("send", "invoke"), ("send", "ok"), ("fault", "fired"), ("fault", "effective"), ("drain", "ok")} <= done
        assert not {op for op, _ in done} & {"deliver"}
        assert timeline["message"] in made[1]["timeline.txt"].decode()


@pytest.mark.spark
def test_the_log_of_the_trial_is_a_part_of_the_whole(made, recorded):
    """The second start belongs to the first trial, the fourth to the next one."""
    whole, own = made[1]["broker.log"], made[1]["broker-trial.log"]

    start = rb"=== start-%d.log\n(data directory <run>/brokers/[^\n]+\n)?ready amqp="  # a journal without a clean end is named
    assert re.search(start % 2, own)
    assert b"start-4.log" not in own
    assert re.search(start % 4, whole)
    assert len(own) < len(whole)


@pytest.mark.spark
def test_only_what_was_written_during_the_trial(copy, spark, tmp_path):
    """From byte to byte, where another trial wrote into the same file."""
    path = copy / "trials" / FIRST / FILE
    kept = records.read(path, Record)
    log = msgspec.structs.replace(kept.logs[1], begin=6, end=10)
    records.save(msgspec.structs.replace(kept, logs=(log,)), path)
    bundle.make(f"{copy}#{FIRST}", tmp_path / "b.zip", spark)

    part = (copy / "brokers" / kept.broker / log.path).read_bytes()[6:10]
    assert b"=== start-2.log\n" + part == members(tmp_path / "b.zip")["broker-trial.log"]


def test_places_of_the_machine(tmp_path):
    """One may lie in another: the longest goes first, and the run has its own word."""
    known = archive.places(tmp_path / "run")

    assert b"<run>/x" == archive.clean(f"{tmp_path}/run/x".encode(), known)
    assert [] == [place for place, word in known if word == b"<run>" and len(place) < len(str(tmp_path))]
    assert sorted(known, key=lambda pair: -len(pair[0])) == known


@pytest.mark.spark
def test_no_word_about_this_machine(made, recorded):
    """No folder of it in any text, nor in the names of the journal's files."""
    here = {
        str(recorded),
        str(recorded.parent),
        str(paths.root()),
        str(pathlib.Path.home()),
        sys.prefix,
        str(pathlib.Path.cwd()),
    }
    data = dict(made[1])
    for name in [name for name in data if name.endswith(".tar.gz")]:
        with tarfile.open(fileobj=io.BytesIO(data.pop(name))) as journal:
            assert all(not pathlib.Path(each).is_absolute() for each in journal.getnames())
    found_places = {
        (name, place)
        for name, text in data.items()
        for place in here
        if archive.clean(text, [(place.encode(), b"")]) != text
    }

    assert set() == found_places
    assert b"conformance.reference" in data["bug.md"]  # what stays is still of use


@pytest.mark.spark
def test_the_same_bytes_twice(made, recorded, spark, tmp_path, capsys):
    """Sorted, and without dates; the command prints what is missing, and where the file is. Steps go to standard error."""
    words = ["bundle", f"{recorded}#{FIRST}", "--out", str(tmp_path / "again.zip")]
    code = cli.main(words, standalone_mode=False)
    said = capsys.readouterr()

    assert (0, [*made[0].lines, str(tmp_path / "again.zip")]) == (code, said.out.splitlines())
    assert ["reading the trial and judging", f"writing {tmp_path / 'again.zip'}: "] == [
        step
        for line in said.err.splitlines()
        for step in ("reading the trial and judging", f"writing {tmp_path / 'again.zip'}: ")
        if line.startswith(step)
    ]
    assert made[0].path.read_bytes() == (tmp_path / "again.zip").read_bytes()


@pytest.mark.spark
def test_a_step_is_named_before_it_begins(recorded, spark, tmp_path, monkeypatch):
    """Spark takes most of a minute: what is silent until then looks as if it hangs."""
    done = []
    judge, write = source._evidence, bundle.archive.write
    monkeypatch.setattr(source, "_evidence", lambda *given: (done.append("judged"), judge(*given))[1])
    monkeypatch.setattr(bundle.archive, "write", lambda *given: (done.append("written"), write(*given))[1])
    path = tmp_path / "bug.zip"
    bundle.make(f"{recorded}#{FIRST}", path, spark, note=done.append)
    histories = [text for name, text in members(path).items() if re.fullmatch(r"history/.+\.jsonl", name)]
    events = sum(len(text.splitlines()) - 2 for text in histories)  # without header and footer

    assert [
        "reading the trial and judging it again; Spark takes most of the time",
        "judged",
        f"writing {path}: {events:,} events, logs and journals",
        "written",
    ] == done


@pytest.mark.spark
def test_a_maintainer_runs_the_script(made, reproduce):
    """Without this suite it sees the loss under the same settings, and none in the stock broker."""
    text = made[1]["reproduce.py"].decode()
    weak, stock = reproduce(text, "amqp", shlex.split(WEAK), [])

    assert "conformance" not in text.partition('"""\n\nimport')[2]
    assert 1 == weak.returncode, weak.stdout + weak.stderr
    assert re.search(r"LOST \d+ of \d+ confirmed messages: 1, 2, ", weak.stdout)
    assert 0 == stock.returncode, stock.stdout + stock.stderr
    assert re.search(r"no LOST among \d\d+ confirmed messages", stock.stdout)


@pytest.mark.spark
def test_a_trial_in_which_nothing_was_violated(copy, spark, tmp_path):
    """The bundle says so: the claim is not required here, so the settings permit the loss."""
    change(copy / "run.json", required=[])
    (copy / "report.json").unlink()
    report = bundle.make(f"{copy}#{FIRST}", tmp_path / "b.zip", spark)
    found = members(tmp_path / "b.zip")

    assert bundle.bug.NOTHING in report.lines
    assert bundle.bug.NOTHING in found["bug.md"].decode()
    assert b"LOST" in found["reproduce.py"]


@pytest.mark.spark
def test_a_run_that_kept_no_evidence(copy, spark, tmp_path):
    """The bundle and the command name what is missing."""
    (copy / "trials" / FIRST / FILE).unlink()
    report = bundle.make(f"{copy}#{FIRST}", tmp_path / "b.zip", spark)
    found = members(tmp_path / "b.zip")

    assert {"broker.log", "journal/journal-1.tar.gz"} & set(found) == set()
    for word in ("configuration", "`broker.log`", "`journal/`", "`wire.jsonl`"):
        assert word in found["bug.md"].decode().partition("## What is missing")[2], word
    assert 4 == sum(line.startswith("missing: ") for line in report.lines)


@pytest.mark.spark
def test_frames_of_the_link(copy, spark, tmp_path):
    """What the link recorded is there, a frame a line, and nothing says that it is missing."""
    path = copy / "trials" / FIRST / "link-1.jsonl"
    recorder = Recorder(path, bare_header("link-1", scenario=NAME, trial=FIRST))
    recorder.record(Op.FRAME, Phase.OK, link="to_broker", connection=1, count=312, detail="transfer")
    recorder.close()
    close_history(path, Ended.FINISHED)
    report = bundle.make(f"{copy}#{FIRST}", tmp_path / "b.zip", spark)
    (line,) = members(tmp_path / "b.zip")["wire.jsonl"].splitlines()

    assert ("to_broker", 312) == (json.loads(line)["direction"], json.loads(line)["bytes"])
    assert "wire" not in "\n".join(report.lines)


@pytest.mark.spark
def test_a_part_that_a_worker_recorded(copy, spark):
    """Its broker's folder stays with the part, and another part has a broker of the same name."""
    kept = records.read(copy / "trials" / FIRST / FILE, Record)
    for worker, run in (("gw0", "another"), ("gw1", json.loads((copy / "run.json").read_text())["run"])):
        part = copy / "workers" / worker
        (part / "brokers" / kept.broker).mkdir(parents=True)
        (part / "run.json").write_text(json.dumps({**json.loads((copy / "run.json").read_text()), "run": run}))
    (copy / "brokers").rename(copy / "gone")

    assert copy / "workers" / "gw1" / "brokers" / kept.broker == gather(f"{copy}#{FIRST}", spark).broker


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("{run}", "expected RUN#TRIAL, such as {run}#" + f"{NAME}.subject.1"),
        ("{run}#" + f"{NAME}.subject.9", f"did you mean '{NAME}.subject."),
        ("nowhere#x", "nowhere is not the folder of a run: it has no run.json"),
        ("{run}/trials#x", "its run is run, some folders up"),
    ],
)
@pytest.mark.spark
def test_words_that_name_no_trial(recorded, words, line):
    """What was expected, and what is closest."""
    with pytest.raises(UsageError) as caught:
        bundle.make(words.format(run=recorded))

    assert line.format(run=recorded) in str(caught.value)


def test_words_of_the_machine_and_secrets():
    """The longest place first; a folder whose name only begins the same is another; a secret is removed."""
    known = [(b"/home/me/runs/one", b"<run>"), (b"/home/me", b"<home>"), (b"/tmp", b"<tmp>")]
    text = (
        b"/home/me/runs/one/x /home/me/y /home/meg/z -L/home/me/l a/tmp/b /tmp/c\nadmin.password: abc\npasswords = x\n"
    )

    assert (
        b"<run>/x <home>/y /home/meg/z -L<home>/l a/tmp/b <tmp>/c\nadmin.password: <removed>\npasswords = <removed>\n"
    ) == archive.clean(text, known)


def test_out_that_is_a_folder(tmp_path):
    """Refused before anything is read."""
    with pytest.raises(UsageError, match="name a file"):
        bundle.make("nowhere#x", tmp_path)
