"""A broker of the user's own: the run keeps what finds it again, and a replay says what is missing or has changed."""

import dataclasses
import json
import os
import pathlib
import shlex

import pytest

from conformance import adapters, campaign, paths, records
from conformance.errors import UsageError
from conformance.followup import bundle, replay
from conformance.followup.bundle import source
from conformance.followup.replay import ReplayRequest
from conformance.judge.rows import Verdict
from conformance.records import BrokerRecord, RunRecord
from conformance.report import model

NAME = "broker-killed-while-publishing"


@pytest.fixture
def homemade(tmp_path):
    """A TOML file of somebody's: the bundled broker by another name."""
    text = (paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text()
    version = adapters.find("reference").version
    for was, is_ in (
        ('name = "reference"', 'name = "homemade"'),
        ('default_version = "bundled"', f'default_version = "{version}"'),
    ):
        assert 1 == text.count(was)
        text = text.replace(was, is_)
    (tmp_path / "theirs").mkdir()
    path = tmp_path / "theirs" / "mybroker.toml"
    path.write_text(text)
    return path


@pytest.fixture
def run(copy, homemade, monkeypatch):
    """A run that was given that file, from the folder in which it lies."""
    monkeypatch.chdir(homemade.parent)
    prepared = campaign.prepare(campaign.Options("./mybroker.toml", out=pathlib.Path("nowhere")))
    made = campaign._run_record(dataclasses.replace(prepared, folder=copy))
    monkeypatch.chdir(copy)
    change(copy / "run.json", adapter=made.adapter, version=made.version)
    for path in copy.glob("trials/*/trial.json"):
        change(path, adapter=made.adapter)
    return copy


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.spark
def test_found_again_without_a_word(run, homemade):
    """From any folder; what the run keeps beside its record is no part of a report."""
    prepared = replay.prepare(ReplayRequest(run, NAME, "1", trust=True))
    record = records.read(run / "broker.json", BrokerRecord)

    assert ("homemade", homemade) == (prepared.campaign.adapter.name, prepared.campaign.adapter.path)
    assert () == prepared.notes
    assert (str(homemade), str(homemade), "broker.toml") == (record.words, record.path, record.copy)
    assert homemade.read_bytes() == (run / "broker.toml").read_bytes()
    assert str(homemade.parent) not in (run / "run.json").read_text()
    assert "--adapter" not in shlex.split(prepared.campaign.again)


@pytest.mark.spark
def test_the_line_under_a_violation(run, homemade):
    """It names no broker, and finds it."""
    rows = [row for row in model.read_json(run / "report.json").verdicts if row.verdict is Verdict.VIOLATED]

    assert rows
    for row in rows:
        _, _, folder, *words = shlex.split(row.replay)
        options = dict(zip(words[::2], words[1::2], strict=True))
        found = replay.prepare(
            ReplayRequest(run / folder, options.pop("--scenario"), options.pop("--trial"), trust=True)
        )
        assert ({}, homemade) == (options, found.campaign.adapter.path)


@pytest.mark.spark
def test_a_part_that_a_worker_recorded(run):
    """Its record stays with the part."""
    part = run / "workers" / "gw0"
    part.mkdir(parents=True)
    for name in ("broker.json", "broker.toml"):
        (run / name).rename(part / name)

    assert "homemade" == replay.prepare(ReplayRequest(run, NAME, "1", trust=True)).campaign.adapter.name


@pytest.mark.spark
def test_a_file_that_is_gone(run, homemade, tmp_path):
    """What is missing, where it lay, and where the copy is; the copy can be named."""
    homemade.unlink()
    with pytest.raises(UsageError) as caught:
        replay.prepare(ReplayRequest(run, NAME, "1", trust=True))

    assert f"the broker of {homemade}, which cannot be read: No such file" in str(caught.value)
    assert str(run / "broker.toml") in str(caught.value)
    named = replay.prepare(ReplayRequest(run, NAME, "1", adapter=str(run / "broker.toml"), out=tmp_path / "o"))
    assert "homemade" == named.campaign.adapter.name


@pytest.mark.spark
@pytest.mark.parametrize(
    ("was", "is_", "line"),
    [
        ("ready_s = 30", "ready_s = 31", "start.ready_s was 30, and is 31"),
        ('title = "Reference broker"', 'title = "Mine"', "title was 'Reference broker', and is 'Mine'"),
        ("refused_status = 4", "", "start.refused_status was 4, and is nothing"),
        ('title = "Reference broker"', "title =", "it is no TOML any more"),
    ],
)
def test_a_file_that_has_changed(run, homemade, was, is_, line):
    """The first key that is another; nothing is recorded as if it were the same broker, unless the user says so."""
    homemade.write_text(homemade.read_text().replace(was, is_))
    with pytest.raises(UsageError) as caught:
        replay.prepare(ReplayRequest(run, NAME, "1", trust=True))

    assert f"{homemade} has changed since the run: {line}" in str(caught.value)
    assert f"by --adapter {homemade}" in str(caught.value)


@pytest.mark.spark
def test_a_change_that_changes_nothing(run, homemade):
    """A comment: it is told, and the trial is the same."""
    homemade.write_text(homemade.read_text() + "\n# one more remark\n")

    assert (f"{homemade} has changed since, in words that mean the same",) == replay.prepare(
        ReplayRequest(run, NAME, "1", trust=True)
    ).notes


@pytest.mark.spark
def test_the_bundle_of_a_broker_that_is_gone(run, homemade, spark, tmp_path):
    """The copy says how its queues are named, and goes along; no word about where the file lay."""
    change(run / "run.json", command=f"conformance run --adapter {homemade}")
    known = source.gather(f"{run}#{NAME}.subject.1", spark, trust=True)
    homemade.write_text(homemade.read_text().replace("ready_s = 30", "ready_s = 31"))
    other = source.gather(f"{run}#{NAME}.subject.1", spark, trust=True)
    made = bundle.make(f"{run}#{NAME}.subject.1", tmp_path / "b.zip", spark, trust=True)
    members = bundle.archive.zipfile.ZipFile(made.path)

    assert (homemade, 30) == (known.adapter.path, known.adapter.file.start.ready_s)
    assert (run / "broker.toml", 30) == (other.adapter.path, other.adapter.file.start.ready_s)
    assert b'name = "homemade"' in members.read("configuration/broker.toml")
    assert b"--adapter <broker>/mybroker.toml" in members.read("history/run.json")
    assert "reproduce.py" in members.namelist()
    for name in members.namelist():
        assert os.fsencode(homemade.parent) not in members.read(name), name


def test_a_class_in_a_python_file(tmp_path):
    """Named by its file and class; a change of it is a change, whatever it is."""
    path, run = tmp_path / "mine.py", tmp_path / "run"
    run.mkdir()
    path.write_text("class Mine: pass\n")
    records.keep_broker(run, "./mine.py:Mine", path)
    record, part = records.kept_broker(run)

    assert (f"{path}:Mine", "broker.py", run) == (record.words, record.copy, part)
    assert None is records.file_changed(record.files[0], part)
    path.write_text("class Mine: other = 1\n")
    assert "its code is another" == records.file_changed(record.files[0], part)


def test_a_broker_of_another_package(tmp_path):
    """Found by its name; there is no file to keep, and none that could change."""
    records.keep_broker(tmp_path, "theirs", tmp_path)

    assert (BrokerRecord(words="theirs"), tmp_path) == records.kept_broker(tmp_path)
    assert None is records.kept_broker(tmp_path / "other")


def test_a_broker_of_this_package_keeps_nothing(tmp_path):
    """It is found by its name and version."""
    prepared = campaign.prepare(campaign.Options("reference", out=tmp_path / "run"))
    made = campaign._run_record(dataclasses.replace(prepared, folder=tmp_path))

    assert isinstance(made, RunRecord)
    assert [] == list(tmp_path.iterdir())
