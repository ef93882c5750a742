"""A broker that runs already, behind TLS and a login: its run is replayed at the same place, and bundled."""

import os
import pathlib
import subprocess
import sys
import time
import zipfile

import pytest

from conformance import campaign, claims, paths, report, scenario
from conformance.adapters import ports
from conformance.adapters.credentials import Access, ClientTls, Secret
from conformance.adapters.launch.readiness import greeting_error
from conformance.campaign import Options, Watcher
from conformance.followup import bundle, replay

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "clients"))
import certificates
from planned_trials import run_one

KILLED = "broker-killed-while-sending-one-by-one"
SCRIPT = """#!/bin/sh
cd "$(dirname "$0")"
case $1 in
start) {python} -m conformance.reference --amqp-port 0 --amqps-port {amqp} --http-port {http} --data data \\
    --tls-cert broker.pem --tls-key broker.key --user alice --password-file password --set persistence=false \\
    >>broker.log 2>&1 & echo $! >pid ;;
kill) kill -KILL $(cat pid) ;;
stop) kill -TERM $(cat pid) ;;
esac
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(paths.root()))
    monkeypatch.setenv("ALICE", certificates.PASSWORD)
    (tmp_path / "theirs").mkdir()
    folder = certificates.make(tmp_path / "theirs")
    reserved = ports.Ports(["amqp", "http"])
    script = folder / "broker.sh"
    script.write_text(SCRIPT.format(python=sys.executable, **reserved.by_name))
    script.chmod(0o755)
    commands = "".join(f'{name} = ["./broker.sh", "{name}"]\n' for name in ("kill", "start", "stop"))
    amqp, http = (f"{scheme}://127.0.0.1:{reserved[name]}" for scheme, name in (("amqps", "amqp"), ("http", "http")))
    (folder / "mine.toml").write_text(
        f'urls = {{ amqp = "{amqp}", http = "{http}" }}\nsettings = {{ persistence = false }}\n{commands}'
    )
    subprocess.run([script, "start"], check=True, env=dict(os.environ))
    deadline = time.monotonic() + 60
    while greeting_error("amqp", "127.0.0.1", reserved["amqp"], tls=ClientTls())[0]:
        assert time.monotonic() < deadline, (folder / "broker.log").read_text()
        time.sleep(0.05)
    yield folder / "mine.toml"
    subprocess.run([script, "kill"], check=False, stderr=subprocess.DEVNULL)
    reserved.close()


@pytest.mark.full
@pytest.mark.spark
def test_a_violation_is_seen_again_at_its_place(theirs, spark_for_all, tmp_path):
    tls = ClientTls(ca=str(theirs.parent / "ca.pem"))
    claim = ("SOLCD-ACK-01",)
    options = Options(
        f"reference:external={theirs}", protocol="amqp", claims=claim, required=claim, trials=1, seed=3,
        out=tmp_path / "run", access=Access(user="alice", password=Secret(env="ALICE"), tls=tls),
    )  # fmt: skip
    made = campaign.prepare(options)
    judged = run_one(made, KILLED)
    catalogue = claims.load()
    report.write_all(judged, catalogue, scenario.load(catalogue), tmp_path / "run")
    zipped = bundle.make(f"{tmp_path}/run#{KILLED}.subject.1", tmp_path / "bug.zip", spark_for_all, trust=True)
    wanted = replay.ReplayRequest(tmp_path / "run", KILLED, "1", out=tmp_path / "again", trust=True)
    again = replay.prepare(wanted)
    outcome = replay.execute(again, Watcher())
    with zipfile.ZipFile(zipped.path) as members:
        said = b"".join(members.read(name) for name in members.namelist())
        bug, written = members.read("bug.md").decode(), "reproduce.py" in members.namelist()

    assert [""] == [trial.void for trial in judged.trials]
    assert () == outcome.void
    assert any("seen again in 1 of 1" in line for line in outcome.lines), outcome.lines
    assert str(again.campaign.adapter.launcher) == f"external={theirs}"
    assert written
    assert "--start 'COMMAND THAT RUNS THE BROKER'" in bug
    assert certificates.PASSWORD.encode() not in said
    assert str(theirs.parent).encode() not in said
