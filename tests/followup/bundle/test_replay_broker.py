"""A broker of the user's own, or one at an address or in a folder: the run keeps what finds it again.

A replay says what is missing or has changed.
"""

import dataclasses
import json
import os
import pathlib
import shlex

import msgspec
import pytest
from reproductions import NAME, SCENARIOS, change

from conformance import adapters, campaign, paths, records
from conformance.adapters.credentials import Access, Secret
from conformance.errors import FaultError, UsageError
from conformance.followup import bundle, replay
from conformance.followup.bundle import source
from conformance.followup.replay import ReplayRequest
from conformance.records import BrokerRecord, RunRecord
from conformance.run import artifacts
from conformance.run.planning import drawn_for
from conformance.scenario.script import Restart


@pytest.fixture
def homemade(tmp_path):
    """A user's TOML file: the bundled broker by another name."""
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
    made = campaign.run_record(dataclasses.replace(prepared, folder=copy))
    monkeypatch.chdir(copy)
    change(copy / "run.json", adapter=made.adapter, version=made.version)
    for path in copy.glob("trials/*/trial.json"):
        change(path, adapter=made.adapter)
    return copy


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
def test_a_run_of_this_user_needs_no_trust(run, tmp_path, monkeypatch):
    """Only with the bytes that were recorded, and only on this machine, whose state folder no run folder can change."""
    prepared = replay.prepare(ReplayRequest(run, NAME, "1", out=tmp_path / "o"))
    assert ("homemade", False) == (prepared.campaign.adapter.name, "--trust" in prepared.campaign.again)
    artifacts.check_trust(run, replayed=False)

    def refused(**words):
        with pytest.raises(UsageError) as caught:
            artifacts.check_trust(run, **words)
        return caught.value.code

    recorded = (run / "broker.toml").read_bytes()
    (run / "broker.toml").write_bytes(recorded + b"\n")
    assert {"untrusted-folder"} == {refused(replayed=True), refused(replayed=False)}
    (run / "broker.toml").write_bytes(recorded)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    assert {"untrusted-folder"} == {refused(replayed=True), refused(replayed=False)}


@pytest.mark.spark
def test_a_bundle_of_a_changed_file_needs_trust(run, homemade):
    """It would load the copy in the folder of the run; a replay says what has changed."""
    homemade.write_text(homemade.read_text().replace("ready_s = 30", "ready_s = 31"))

    with pytest.raises(UsageError, match="add --trust"):
        artifacts.check_trust(run, replayed=False)
    with pytest.raises(UsageError, match=r"has changed since the run: start\.ready_s was 30"):
        replay.prepare(ReplayRequest(run, NAME, "1"))


def test_a_configuration_and_a_login_of_this_user(tmp_path):
    """Each file counts: one more in the folder of the configuration is not recorded."""
    artifacts.keep_access(tmp_path, Access(user="alice", password=Secret(env="ALICE")))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "broker.xml").write_text("<broker/>")
    artifacts.remember(tmp_path)
    artifacts.remember(tmp_path)
    artifacts.check_trust(tmp_path, replayed=True)
    assert 3 == len((paths.state() / "recorded").read_text().splitlines())

    (tmp_path / "config" / "login.config").write_text("")
    with pytest.raises(UsageError, match=r": config/, access\.json: these files"):
        artifacts.check_trust(tmp_path, replayed=True)


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
    """A comment: there is a note, and the trial is the same."""
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
    """Named by its file and class; every change of the file counts."""
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


@pytest.mark.process
def test_a_broker_of_this_package_keeps_nothing(tmp_path):
    """It is found by its name and version."""
    prepared = campaign.prepare(campaign.Options("reference", out=tmp_path / "run"))
    made = campaign.run_record(dataclasses.replace(prepared, folder=tmp_path))

    assert isinstance(made, RunRecord)
    assert [] == list(tmp_path.iterdir())


WEAK = "{ sync_non_transactional = false, sync_transactional = false, journal_buffer_ms = 500 }"
URLS = '{ amqp = "amqp://alice@127.0.0.1:1", http = "http://127.0.0.1:2" }'
COMMANDS = "".join(f'{name} = ["/bin/true"]\n' for name in ("kill", "start", "stop"))


def owners(folder, commands=COMMANDS):
    """The file of the owner of a broker that runs already."""
    file = folder / "mine.toml"
    file.write_text(f"urls = {URLS}\nsettings = {WEAK}\n{commands}")
    return file


def as_run(folder, spec):
    """As if the run in that folder had tried this broker."""
    run = records.read(folder / "run.json", RunRecord)
    adapter = adapters.find(spec)
    artifacts.keep(folder, adapter)
    changed = msgspec.structs.replace(run, launcher=adapter.launcher.word, version=adapter.version)
    records.save(changed, folder / "run.json")
    return adapter


@pytest.fixture
def external(copy, tmp_path, monkeypatch):
    """A run against a broker that runs already, as its owner's file says."""
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path / "theirs")
    owners(tmp_path / "theirs")
    as_run(copy, "reference:external=mine.toml")
    monkeypatch.setenv("ALICE", "secret")
    (copy / "access.json").write_text(json.dumps({"password": {"env": "ALICE"}}))
    monkeypatch.chdir(copy)
    return copy, tmp_path / "theirs/mine.toml"


def test_found_at_its_place_again(external, tmp_path):
    """From any folder; the file of its owner is copied, and is no part of a report."""
    run, file = external
    prepared = replay.prepare(ReplayRequest(run, NAME, "1", trust=True, out=tmp_path / "again"))
    record = records.read(run / "broker.json", BrokerRecord)

    assert ("external", f"external={file}") == (
        prepared.campaign.adapter.launcher.word,
        str(prepared.campaign.adapter.launcher),
    )
    assert () == prepared.notes
    assert ("reference", "") == (record.words, record.path)
    assert file.read_bytes() == (run / "external.toml").read_bytes()
    assert str(file) not in (run / "run.json").read_text()


def test_a_file_of_its_owner_that_has_changed(external):
    """The key, and what to type instead; a comment changes nothing."""
    run, file = external
    file.write_text(f"{file.read_text()}# one more remark\n")
    assert (f"{file} has changed since, in words that mean the same",) == replay.prepare(
        ReplayRequest(run, NAME, "1", trust=True)
    ).notes
    file.write_text(file.read_text().replace("127.0.0.1:2", "127.0.0.1:3"))
    with pytest.raises(UsageError) as caught:
        replay.prepare(ReplayRequest(run, NAME, "1", trust=True))

    assert f"{file} has changed since the run: urls.http was 'http://127.0.0.1:2', and is" in str(caught.value)
    assert f":external={file}" in str(caught.value)
    file.unlink()
    with pytest.raises(UsageError, match=f"put {run}/external.toml back"):
        replay.prepare(ReplayRequest(run, NAME, "1", trust=True))


def test_what_its_owner_has_no_command_for(copy, tmp_path):
    """The launcher decides, and not the machine, which could kill any process."""
    file = owners(tmp_path, 'stop = ["/bin/true"]\n')
    as_run(copy, f"reference:external={file}")
    (copy / "access.json").write_text(json.dumps({"password": {"file": str(file)}}))
    with pytest.raises(FaultError) as caught:
        replay.prepare(ReplayRequest(copy, NAME, "1", trust=True))

    assert "cannot take kill: there is no command for it. Give external.kill.command in" in str(caught.value)


def test_without_a_stop_the_script_is_the_one_that_was_played():
    """The last clean restart was left out then as well: that is no change of the scenario."""
    script = dataclasses.replace(SCENARIOS[NAME], varies=False)
    here = "amqp://127.0.0.1:1,http://127.0.0.1:2"
    played = drawn_for(script, 5, adapters.find(f"reference:external={here}"), "amqp")

    assert Restart(clean=True) in drawn_for(script, 5, adapters.find("reference"), "amqp").steps
    assert Restart(clean=True) not in played.steps
    assert script.drawn(5).steps[0] == played.steps[0]


def test_an_address_with_a_user_in_it(tmp_path):
    """Its `@` is none of a version."""
    adapter = adapters.find("reference:external=amqp://alice@127.0.0.1:1,http://127.0.0.1:2")
    artifacts.keep(tmp_path, adapter)
    record, _ = records.kept_broker(tmp_path)

    assert "reference" == record.words
    assert adapter.spec == record.spec(adapter.version, "external")


@pytest.mark.process
def test_a_folder_with_a_distribution(tmp_path, monkeypatch):
    """Another build than the one that would be fetched: it is named, absolute."""
    (tmp_path / "mine/bin").mkdir(parents=True)
    (tmp_path / "mine/bin/artemis").touch()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    prepared = campaign.prepare(campaign.Options("reference", out=tmp_path / "out"))
    adapter = adapters.find("artemis@9.9.9:native=mine")
    run = campaign.run_record(dataclasses.replace(prepared, adapter=adapter, folder=tmp_path / "run"))
    notes = []

    assert f"artemis@9.9.9:native={tmp_path}/mine" == artifacts.spec(tmp_path / "run", run, "9.9.9", notes)
    assert [] == notes
