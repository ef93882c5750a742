"""Every front against a broker behind TLS and a login: a run with its bundle and replay, pytest, an upgrade, a check.

No secret is in anything that they keep.
"""

import os
import pathlib
import subprocess
import sys
import time
import zipfile

import pytest
from click.testing import CliRunner
from starts import starts_process

from conformance import adapters, campaign, claims, paths, report, scenario
from conformance.adapters.credentials import Access, ClientTls, Secret
from conformance.campaign import Options
from conformance.errors import LaunchError, UsageError
from conformance.followup import bundle, replay
from conformance.frontend.cli import cli
from conformance.judge.rows import Verdict
from conformance.judge.spark import Gateway
from conformance.ledger import Ledger
from conformance.report import model
from conformance.run import artifacts
from conformance.scenario.needs import FRAMES

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "clients"))
import certificates
from planned_trials import run_one

KILLED, CUT = "broker-killed-while-sending-one-by-one", "cut-in-transaction"
PLAIN = """"--amqp-port", "{amqp_port}", "--amqp091-port", "{amqp091_port}",
  "--stomp-port", "{stomp_port}","""
SECURED = """"--amqps-port", "{amqp_port}", "--amqps091-port", "{amqp091_port}", "--stomps-port", "{stomp_port}", "--amqp-port", "0", "--user", "alice",
  "--password-file", "{here}/password", "--tls-cert", "{here}/broker.pem", "--tls-key", "{here}/broker.key",
  "--tls-ca", "{here}/ca.pem","""


@pytest.fixture(scope="module")
@starts_process
def folder(tmp_path_factory):
    made = certificates.make(tmp_path_factory.mktemp("secured"))
    text = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    assert PLAIN in text
    (made / "broker.toml").write_text(
        text.replace(PLAIN, SECURED).replace("[start]\n", "[start]\nready_message = true\n")
    )
    return made


def prepared(folder, out, protocol, typed, claim):
    options = Options(
        str(folder / "broker.toml"), protocol=protocol, claims=(claim,), trials=1, seed=1, out=out, access=typed
    )
    return campaign.prepare(options)


def files_with(secret, root):
    """The files below `root` with this secret, also inside a zip."""
    found = []
    for path in root.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                data += b"".join(archive.read(name) for name in archive.namelist())
        if secret.encode() in data:
            found.append(path.name)
    return found


@pytest.mark.parametrize(
    ("protocol", "mine"),
    [
        pytest.param("amqp", {"certificate": "alice.pem", "key": "alice.key"}, id="amqps with EXTERNAL"),
        pytest.param("stomp", {}, id="stomp+ssl with login", marks=pytest.mark.full),
    ],
)
def test_a_run_behind_tls(spark_for_all, folder, tmp_path, monkeypatch, protocol, mine):
    """Run, bundle and replay use the credentials, and none of them stores the password."""
    monkeypatch.setenv("ALICE", certificates.PASSWORD)
    tls = ClientTls(ca=str(folder / "ca.pem"), **{name: str(folder / file) for name, file in mine.items()})
    typed = Access(tls=tls) if mine else Access(user="alice", password=Secret(env="ALICE"), tls=tls)
    made = prepared(folder, tmp_path / "run", protocol, typed, "SOLCD-ACK-01")
    judged = run_one(made, KILLED)
    catalogue = claims.load()
    report.write_all(judged, catalogue, scenario.load(catalogue), tmp_path / "run")
    zipped = bundle.make(f"{tmp_path}/run#{KILLED}.subject.1", tmp_path / "bug.zip", spark_for_all, trust=True)
    wanted = replay.ReplayRequest(tmp_path / "run", KILLED, "1", out=tmp_path / "again", trust=True)
    again = replay.prepare(wanted)

    (row,) = (row for row in judged.rows if row.trials and row.claim == "SOLCD-ACK-01")
    # It was played: one trial, no control.
    assert (row.scenario, row.verdict) == (KILLED, Verdict.INCONCLUSIVE), row.reason
    with zipfile.ZipFile(zipped.path) as members:
        bug, script = (members.read(name).decode() for name in ("bug.md", "reproduce.py"))
    assert f"python reproduce.py --address 127.0.0.1:{5671 if mine else 61614} --tls-ca CA.pem" in bug
    assert ("variable `ALICE`" in bug, "default='ALICE'" in script) == (not mine, not mine)
    assert ("--tls-cert CLIENT.pem" in bug, str(folder) in bug + script) == (bool(mine), False)
    assert again.campaign.options.access == typed
    assert ("--password-env ALICE" in campaign.command(made)) == (not mine)
    assert files_with(certificates.PASSWORD, tmp_path) == []


@pytest.fixture
def started(monkeypatch):
    found, begin = [], subprocess.Popen.__init__

    def noted(self, command, *args, **kwargs):
        found.append((" ".join(map(str, command)), dict(os.environ if kwargs.get("env") is None else kwargs["env"])))
        begin(self, command, *args, **kwargs)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return found


@pytest.mark.spark
def test_no_process_inherits_the_password(folder, tmp_path, monkeypatch, started):
    """A client that logs in gets the password with its job, and no command line has it: every user may read those."""
    monkeypatch.setenv("ALICE", certificates.PASSWORD)
    monkeypatch.setenv("ANOTHER", "kept")
    typed = Access(user="alice", password=Secret(env="ALICE"), tls=ClientTls(ca=str(folder / "ca.pem")))
    made = prepared(folder, tmp_path / "run", "stomp", typed, "SOLCD-ACK-01")
    judged = run_one(made, KILLED)
    gateway = Gateway()
    gateway.stop()

    assert [""] == [trial.void for trial in judged.trials]
    for word in ("conformance.reference", "conformance.clients.workers.worker", "SparkSubmit"):
        assert any(word in command for command, _ in started), word
    assert [] == [
        each for each in started if certificates.PASSWORD in each[1].values() or certificates.PASSWORD in each[0]
    ]
    assert {"kept"} == {environment.get("ANOTHER") for _, environment in started}


def test_what_reads_frames_is_not_tried_over_tls(folder, tmp_path):
    """And is over the plain port."""
    secured = prepared(folder, tmp_path / "a", "amqp", Access(tls=ClientTls(ca=str(folder / "ca.pem"))), "AMQP-TX-01")
    plain = prepared(folder, tmp_path / "b", "amqp", Access(), "AMQP-TX-01")

    assert CUT in {trial.script.id for trial in plain.trials}
    assert CUT not in {trial.script.id for trial in secured.trials}
    assert secured.trials
    assert "over TLS a link cannot read the frames" in secured.selection.unable[FRAMES.name]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (Access(user="alice"), "give --password-env or --password-file too"),
        (Access(user="alice", password=Secret(env="NOT_SET")), "NOT_SET is not set; export it before the run"),
        (Access(mechanism="EXTERNAL"), "give --tls-cert and --tls-key"),
    ],
)
def test_what_cannot_work_is_an_error_before_anything_starts(folder, tmp_path, typed, said):
    with pytest.raises(UsageError, match=said):
        prepared(folder, tmp_path / "run", "amqp", typed, "SOLCD-ACK-01")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tls-cert", "a.pem"], "--tls-cert and --tls-key: give both or neither"),
        (["--tls-ca", "none.pem"], "--tls-ca none.pem: there is no such file"),
        (["--password-env", "A", "--password-file", "b"], "--password-env and --password-file: give one of them"),
        (["--sasl", "scram-sha-255"], "did you mean 'SCRAM-SHA-256'"),
    ],
)
def test_what_is_typed_is_looked_at_first(words, said):
    done = CliRunner().invoke(cli, ["run", "--adapter", "reference", *words], standalone_mode=False)

    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


@pytest.fixture
def words(folder, monkeypatch):
    monkeypatch.setenv("ALICE", certificates.PASSWORD)

    def typed(*, wrong=False):
        secret = ["--password-file", folder / "wrong"] if wrong else ["--password-env", "ALICE"]
        return ["--user", "alice", *map(str, secret), "--tls-ca", str(folder / "ca.pem")]

    return typed


@pytest.mark.full
def test_a_broker_behind_tls_is_checked(folder, conformance, words):
    """Each step over each protocol, with one set of words; the line that it ends with has them too."""
    done, refused, unknown = (
        conformance("adapters", "check", folder / "broker.toml", *more)
        for more in (words(), words(wrong=True), words()[:-2])
    )

    assert (0, 3, 3) == (done.returncode, refused.returncode, unknown.returncode), done.stdout + done.stderr
    assert done.stdout.count(": found again") == 2
    assert f"{folder}/broker.toml --user alice --password-env ALICE --tls-ca" in done.stdout
    assert "the login of 'alice' was refused" in refused.stderr
    assert "TLS" in unknown.stderr
    assert certificates.PASSWORD not in done.stdout + refused.stderr


def test_a_refused_login_ends_a_run_of_an_external_broker_at_once(folder, tmp_path):
    """Before any trial, and once: the message has the user and the place of the password."""
    mine = {name: str(folder / f"alice.{end}") for name, end in (("certificate", "pem"), ("key", "key"))}
    owner = Access(tls=ClientTls(ca=str(folder / "ca.pem"), **mine))
    source = prepared(folder, tmp_path / "unused", "amqp", owner, "SOLCD-ACK-02").adapter
    with (
        Ledger(tmp_path / "theirs", "theirs") as ledger,
        source.prepare(tmp_path / "broker", source.effective(), [], ledger) as theirs,
    ):
        theirs.start()
        amqp, http = (theirs.service.endpoint(name)[1] for name in ("amqp", "http"))
        spec = f"{folder}/broker.toml:external=amqps://127.0.0.1:{amqp},http://127.0.0.1:{http}"
        wrong = Secret(file=str(folder / "wrong"))
        typed = Access(user="alice", password=wrong, tls=ClientTls(ca=str(folder / "ca.pem")))
        made = campaign.prepare(Options(spec, claims=("AMQP-ACC-01",), out=tmp_path / "run", access=typed))
        began = time.monotonic()
        with pytest.raises(LaunchError) as caught:
            campaign.execute(made, campaign.Watcher())

    assert made.trials
    assert "the login of 'alice' was refused" in str(caught.value)
    assert f"look at the user (--user, access.user) and at the file {folder}/wrong (--password-file" in str(
        caught.value
    )
    assert time.monotonic() - began < 30  # it was tried for a minute, and again for each broker
    assert not (tmp_path / "run" / "trials").exists()


def test_what_is_typed_for_a_check_is_looked_at_first(typed):
    done = typed("adapters", "check", "reference", "--user", "alice")

    assert (4, "give --password-env or --password-file too" in done.stderr) == (done.returncode, True)


@pytest.mark.spark
@pytest.mark.full
def test_pytest_behind_tls(folder, tmp_path, words):
    claim = ["--claims", "SOLCD-ACK-01", "-k", "WhilePublishing", "--trials", "1", "--seed", "1"]
    session = [paths.suites() / "publishing/broker_killed.py", f"--adapter={folder / 'broker.toml'}", *claim]
    done, refused = (
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, session), *more, "--out", tmp_path / out],
            cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=200, check=False,
        )
        for out, more in (("run", words()), ("refused", words(wrong=True)))
    )  # fmt: skip
    rows = [row for row in model.read_json(tmp_path / "run" / "report.json").verdicts if row.trials]

    assert (0, 1) == (done.returncode, refused.returncode), done.stdout + refused.stdout
    assert {(KILLED, 1)} == {(row.scenario, row.trials) for row in rows}
    assert "the login of 'alice' was refused" in refused.stdout
    assert files_with(certificates.PASSWORD, tmp_path) == []


@pytest.mark.spark
@pytest.mark.full
def test_an_upgrade_behind_tls(folder, tmp_path, conformance, words):
    broker = folder / "broker.toml"
    played = ["--claims", "SOLCD-ACK-01", "--scenario", KILLED, "--trials", "1", "--seed", "1"]
    done = conformance(
        "upgrade", "--from", broker, "--to", broker, "--to-set", "journal_buffer_ms=7", *played, *words(), "--out", "up"
    )
    report_ = model.read_json(tmp_path / "up" / "report.json")

    assert 0 == done.returncode, done.stdout + done.stderr
    assert [] == [trial.void for trial in report_.trials if trial.void]
    assert "--user alice --password-env ALICE --tls-ca" in report_.run.command
    assert files_with(certificates.PASSWORD, tmp_path) == []


def test_what_was_typed_is_found_in_each_part(tmp_path):
    typed = Access(user="alice", password=Secret(env="ALICE"), tls=ClientTls())
    (tmp_path / "workers/gw1").mkdir(parents=True)
    artifacts.keep_access(tmp_path / "workers/gw1", typed)

    assert typed == artifacts.kept_access(tmp_path)


def test_the_address_of_an_external_broker_is_looked_at_first(tmp_path):
    secured = "reference:external=amqps://alice@127.0.0.1:1,http://127.0.0.1:2"
    with pytest.raises(UsageError, match="give --password-env or --password-file too"):
        campaign.prepare(Options(secured, out=tmp_path / "run"))
    for scheme in ("amqps", "amqp"):
        spec = f"reference:external={scheme}://127.0.0.1:1,http://127.0.0.1:2"
        prepared = campaign.prepare(Options(spec, out=tmp_path / "run"))
        assert (scheme == "amqps") == (FRAMES.name in prepared.selection.unable)


@pytest.mark.process
def test_a_log_that_quotes_a_secret_is_shown_without_it(tmp_path):
    """The log tail goes into reports."""
    text = (paths.fixtures() / "brokers/reference/broker.toml").read_text()
    end = text.index("]", text.index("command = ["))
    quoting = "import sys; print('who says', open(sys.argv[1]).read())"
    command = f'command = ["{{python}}", "-c", "{quoting}", "{{here}}/password"'
    text = text[: text.index("command = [")] + command + text[end:]
    text = text.replace("[start]\n", '[access]\nuser = "alice"\npassword = { file = "{here}/password" }\n\n[start]\n')
    (tmp_path / "broker.toml").write_text(text)
    (tmp_path / "password").write_text(certificates.PASSWORD)
    adapter = adapters.find(str(tmp_path / "broker.toml"))
    with (
        Ledger(tmp_path / "run", "quoting") as ledger,
        adapter.prepare(tmp_path / "instance", adapter.effective(), ["q"], ledger) as broker,
        pytest.raises(LaunchError) as caught,
    ):
        broker.start()

    assert caught.value.log_tail == ("who says <redacted>",)
