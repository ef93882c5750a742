"""A broker that a run reached by a place (external=, native=FOLDER): found there again, and asked what it can take."""

import dataclasses
import json
import pathlib

import msgspec
import pytest

from conformance import adapters, campaign, records, scenario
from conformance.claims import load as claims
from conformance.errors import FaultError, UsageError
from conformance.followup import replay
from conformance.followup.replay import ReplayRequest
from conformance.records import BrokerRecord, RunRecord
from conformance.run import artifacts
from conformance.run.planning.plan import drawn_for
from conformance.scenario.script import Restart

NAME = "broker-killed-while-publishing"
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
    changed = msgspec.structs.replace(run, launcher=adapter.launcher, version=adapter.version)
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
        prepared.campaign.adapter.launcher,
        str(prepared.campaign.adapter.place),
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
    """The launcher is asked, and not the machine, which could kill whatever it likes."""
    file = owners(tmp_path, 'stop = ["/bin/true"]\n')
    as_run(copy, f"reference:external={file}")
    (copy / "access.json").write_text(json.dumps({"password": {"file": str(file)}}))
    with pytest.raises(FaultError) as caught:
        replay.prepare(ReplayRequest(copy, NAME, "1", trust=True))

    assert "cannot take kill: there is no command for it. Give external.kill.command in" in str(caught.value)


def test_without_a_stop_the_script_is_the_one_that_was_played():
    """The last clean restart was left out then as well: that is no change of the scenario."""
    script = scenario.load(claims())[NAME]
    here = "amqp://127.0.0.1:1,http://127.0.0.1:2"
    played = drawn_for(script, 5, adapters.find(f"reference:external={here}"))

    assert Restart(clean=True) in drawn_for(script, 5, adapters.find("reference")).steps
    assert Restart(clean=True) not in played.steps
    assert script.drawn(5).steps[0] == played.steps[0]


def test_an_address_with_a_user_in_it(tmp_path):
    """Its `@` is none of a version."""
    adapter = adapters.find("reference:external=amqp://alice@127.0.0.1:1,http://127.0.0.1:2")
    artifacts.keep(tmp_path, adapter)
    record, _ = records.kept_broker(tmp_path)

    assert "reference" == record.words
    assert adapter.spec == record.spec(adapter.version, "external")


def test_a_folder_with_a_distribution(tmp_path, monkeypatch):
    """Another build than the one that would be fetched: it is named, absolute."""
    (tmp_path / "mine/bin").mkdir(parents=True)
    (tmp_path / "mine/bin/artemis").touch()
    monkeypatch.chdir(tmp_path)
    run = as_of(adapters.find("artemis@9.9.9:native=mine"), tmp_path / "run")
    told = []

    assert f"artemis@9.9.9:native={tmp_path}/mine" == artifacts.spec(tmp_path / "run", run, "9.9.9", told)
    assert [] == told


def as_of(adapter, folder):
    """The record of a run with that adapter, and what it keeps."""
    folder.mkdir()
    prepared = campaign.prepare(campaign.Options("reference", out=folder / "x"))
    return campaign._run_record(dataclasses.replace(prepared, adapter=adapter, folder=folder))


def test_a_broker_of_this_package_keeps_nothing(tmp_path):
    """Its name and version find it."""
    artifacts.keep(tmp_path, adapters.find("reference"))

    assert [] == list(pathlib.Path(tmp_path).iterdir())
