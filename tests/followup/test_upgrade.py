"""An upgrade: the new version on the data that a fault left of the old one, and what is a regression of it."""

import datetime
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import zipfile

import pytest
import verdict_rows
from broker_ports import broker_port
from click.testing import CliRunner

from conformance import adapters, campaign, claims, paths, scenario
from conformance.adapters import BrokerRequest
from conformance.errors import ExitCode, FaultError, LaunchError, UsageError
from conformance.followup.upgrade import runs
from conformance.followup.upgrade.broker import FailedUpgradeStart, UpgradeAdapter, UpgradeRecord
from conformance.followup.upgrade.runs import UpgradeExpected, UpgradeRequest, hands_over
from conformance.frontend.cli import cli
from conformance.ledger import Ledger
from conformance.report import model
from conformance.report.expectations import read_report
from conformance.report.model import Standing
from conformance.run import artifacts, readiness_probe
from conformance.scenario.reading import singles, unroll
from conformance.scenario.script import After, Consume, FailedSync, Kill, Nth, Pause, Publish, Restart, Stop

TODAY = datetime.date(2026, 11, 21)
KILLED = Publish(9, window=1, until=Kill(Nth("confirm", 3)))
STANDING_TEXTS = (
    "--claims",
    "SOLCD-TX-02",
    "--scenario",
    "broker-killed-after-commit",
    "--trials",
    "3",
    "--seed",
    "7",
)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "run", f"upgrade-{tmp_path.name}") as book:
        yield book


def toml(folder, name="broker.toml", changes=()):
    """The bundled broker as a user's own file, with parts of its text replaced."""
    text = (paths.fixtures() / "brokers" / "reference" / "broker.toml").read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text)
    (folder / "start.sh").write_text(
        'ls "$1"/*.journal >/dev/null 2>&1 && echo unknown journal && exit 7\nshift\nexec "$@"\n'
    )
    return path


REFUSES = (
    '"{python}", "-m", "conformance.reference", "--amqp-port"',
    '"/bin/sh", "{here}/start.sh", "{data_dir}", "{python}", "-m", "conformance.reference", "--amqp-port"',
)
"""A version that starts on nothing but an empty folder."""


# which scenarios


@pytest.mark.parametrize(
    ("steps", "does"),
    [
        ((KILLED, Restart()), True),
        ((Publish(9, window=1, until=Stop(Nth("confirm", 3))), Restart()), True),
        ((Publish(9, window=1, until=Pause(After(5), then_kill=True)), Restart()), True),
        ((Publish(9, window=1, until=Pause(After(5))), Restart(clean=True)), False),
        ((KILLED, Restart(clean=True)), False),
        ((Restart(), KILLED), False),
        ((Restart(clean=True, under=FailedSync(3)), KILLED, Restart()), False),
    ],
)
def test_what_hands_over(steps, does):
    """A fault that ends the broker, and a start after it, of a disk that works."""
    assert does == hands_over(steps)


def test_every_scenario_that_kills_a_broker_is_an_upgrade():
    """None of them is forgotten, but those whose disk is faulty, and those that kill only a broker that has started."""
    scenarios = scenario.load(claims.load()).values()
    used = {
        item.id: [step for step in singles(item.steps) if isinstance(step, Publish | Consume)] for item in scenarios
    }
    kills = {name for name, steps in used.items() if any(isinstance(step.until, Kill | Stop) for step in steps)}

    assert kills - {item.id for item in scenarios if hands_over(unroll(item.steps, 1, control=False))} == set()


# words


def wanted(old, new, *, to_settings=(), scenarios=(), **more):
    options = campaign.Options(adapter=str(old), protocol="amqp", **more)
    return UpgradeRequest(options, str(new), to_settings, scenarios)


@pytest.mark.process
def test_each_trial_has_a_pair_of_its_own(tmp_path):
    """Data that the new version has taken over is no data of the old one; the liars beside stay what they are."""
    ready = runs.prepare(wanted("artemis@2.44.0", "artemis@2.56.0", out=tmp_path / "out", seed=7))
    trials = ready.after.trials
    upgraded = [trial for trial in trials if isinstance(trial.adapter, UpgradeAdapter)]
    others = {trial.adapter.name for trial in trials if trial not in upgraded}

    assert len(upgraded) == len({trial.instance for trial in upgraded}) > 0
    assert {"reference"} == others
    assert "2.44.0 to 2.56.0" == ready.after.adapter.version
    assert [trial.id for trial in ready.before.trials] == [trial.id for trial in ready.after.trials]
    assert [trial.seed for trial in ready.before.trials] == [trial.seed for trial in ready.after.trials]


@pytest.mark.process
def test_a_setting_is_a_change(tmp_path):
    ready = runs.prepare(wanted("artemis", "artemis", to_settings=["journal_type=ASYNCIO"], out=tmp_path / "out"))

    assert "2.56.0 to 2.56.0 with journal_type=ASYNCIO" == ready.pair.version
    assert "NIO" == ready.after.selection.settings.values["journal_type"]
    assert "ASYNCIO" == ready.pair.of_new(ready.after.selection.settings).values["journal_type"]


@pytest.mark.process
def test_a_downgrade_is_allowed_and_said(tmp_path):
    down = runs.prepare(wanted("artemis@2.56.0", "artemis@2.44.0", out=tmp_path / "out"))
    up = runs.prepare(wanted("artemis@2.44.0", "artemis@2.56.0", out=tmp_path / "out"))

    assert ["2.44.0 is older than 2.56.0: this is a downgrade"] == [note.partition(",")[0] for note in down.notes]
    assert () == up.notes


JOURNAL = ('[journal]\npath = "{instance}/data"', '[journal]\npath = "{instance}/data/log"')
DATA = ('[data]\npath = "{instance}/data"', '[data]\npath = "{instance}"')
LIAR = {"to_settings": ["liar=loses-the-oldest"]}
ACK = ('ack_confirm = "disposition"\nduplicate_id', "duplicate_id")


@pytest.mark.process
@pytest.mark.parametrize(
    ("old", "new", "more", "code", "closest"),
    [
        (
            "reference",
            None,
            {**LIAR, "scenarios": ["broker-kiled-while-publishing"]},
            "unknown-scenario",
            "broker-killed-while-p",
        ),
        ("reference", None, {**LIAR, "scenarios": ["sync-held"]}, "unknown-scenario", ""),
        ("reference", None, {"to_settings": ["lier=x"]}, "unknown-setting", "liar"),
        ("reference", None, {**LIAR, "claims": ["AMQP-REL-01"]}, "nothing-to-upgrade", ""),
        ("reference", None, {}, "same-version", ""),
        ("artemis", "reference", {}, "two-brokers", ""),
        ("artemis@2.44.0", "artemis:docker", {}, "two-launchers", ""),
        ("reference", JOURNAL, {}, "two-layouts", ""),
        (DATA, None, {}, "data-beside-configuration", ""),
        ("reference", ACK, {}, "two-protocols", ""),
        ("reference:external=amqp://127.0.0.1:1,http://127.0.0.1:2", None, {}, "launcher-of-upgrade", ""),
    ],
)
def test_options_that_make_no_upgrade(tmp_path, old, new, more, code, closest):
    """Nothing is started; a change of a file is the bundled broker with another text."""
    old, new = (toml(tmp_path, changes=[spec]) if isinstance(spec, tuple) else spec for spec in (old, new))
    with pytest.raises(UsageError) as caught:
        runs.prepare(wanted(old, new or old, out=tmp_path / "out", **more))

    assert (code, True) == (caught.value.code, caught.value.fields.get("closest", "").startswith(closest))


@pytest.mark.process
def test_the_command_repeats_it(tmp_path):
    """Everything that matters is in it, the drawn seed too."""
    ready = runs.prepare(
        wanted("artemis@2.44.0", "artemis@2.56.0", settings=["data_sync=false"], trials=5, seed=7, out=tmp_path / "out")
    )

    assert ready.after.again == (
        "conformance upgrade --from artemis@2.44.0:native --to artemis@2.56.0:native --protocol amqp "
        "--set data_sync=false --trials 5 --seed 7"
    )


# two brokers that look like one


def killed(broker):
    with broker.target.armed("kill") as descriptors:
        for descriptor in descriptors:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert broker.target.wait_gone(20)


def prepared(tmp_path, ledger, new="reference", **to_set):
    old = adapters.find("reference")
    both = UpgradeAdapter(old, adapters.find(str(new)).chosen(to_set), to_set, trial="t.1")
    return both, both.prepare(tmp_path / "run" / "brokers" / "01", both.effective(), ["q"], ledger)


@pytest.mark.process
def test_the_new_one_follows_a_kill_and_finds_the_data(tmp_path, ledger):
    """A clean stop changes nothing; after a kill another broker, at another port, has the message."""
    both, broker = prepared(tmp_path, ledger)
    with broker:
        broker.start()
        before = broker.service.endpoint("amqp")
        message = readiness_probe.ProbeClient(both, "amqp").send(broker, "q")
        broker.stop()
        broker.start()
        stopped = broker.service.endpoint("amqp")
        killed(broker)
        broker.start()
        after = broker.service.endpoint("amqp")
        readiness_probe.ProbeClient(both, "amqp").receive(broker, "q", message)
        killed(broker)
        broker.start()
        last = broker.service.endpoint("amqp")
        data, start = broker.facts.data, both.log.starts["t.1"]
        assert list(data.iterdir())

    assert before == stopped
    assert after == last
    assert before != after
    assert (4, 3) == (broker.epoch, start.epoch)
    assert {"old", "new"} == {path.parent.name for path in broker.facts.logs}
    assert not data.exists()
    assert "data folder" in broker.facts.deviations


def test_the_new_one_alone_has_its_settings(tmp_path, ledger):
    """And the old one has not."""
    _, broker = prepared(tmp_path, ledger, journal_buffer_ms=7)
    with broker:
        found = [each.plan.settings.values["journal_buffer_ms"] for each in (broker.old, broker.new)]

    assert [3, 7] == found


@pytest.mark.process
def test_refused_data_is_kept_and_reported(tmp_path, ledger):
    """The new version says why, long before the end of its log, and where the data lies names no folder of this machine."""
    file = toml(tmp_path, changes=[REFUSES])
    script = tmp_path / "start.sh"
    script.write_text(script.read_text().replace("echo unknown journal", "echo ERROR unknown journal && seq 100"))
    both, broker = prepared(tmp_path, ledger, new=file)
    with broker:
        broker.start()
        readiness_probe.ProbeClient(both, "amqp").send(broker, "q")
        killed(broker)
        with pytest.raises(LaunchError, match="ended with status 7"):
            broker.start()
    refusal = both.log.refusals[0]

    assert ("t.1", ("ERROR unknown journal",)) == (refusal.trial, refusal.log_lines)
    assert "brokers/01/old/instance/data" == refusal.data
    assert list((tmp_path / "run" / refusal.data).glob("*.journal"))
    assert {} == both.log.starts


@pytest.mark.process
def test_an_old_one_that_does_not_start_is_no_refusal(tmp_path, ledger):
    """The new version was never asked."""
    broken = toml(tmp_path, changes=[('"{python}", "-m", "conformance.reference", "--amqp-port"', '"/bin/false"')])
    both = UpgradeAdapter(adapters.find(str(broken)), adapters.find("reference"), trial="t.1")
    with both.prepare(tmp_path / "run" / "b", both.effective(), ["q"], ledger) as broker, pytest.raises(LaunchError):
        broker.start()

    assert [] == both.log.refusals


# what follows


def row(verdict):
    return verdict_rows.row(verdict, version="1 to 2")


def trial(name, void=False, arm="subject"):
    return verdict_rows.trial(name, arm=arm, void="it failed" if void else "")


def record(*refused, starts=()):
    refusals = tuple(FailedUpgradeStart(trial=name, says="no", log="l", log_lines=(), data="d") for name in refused)
    return UpgradeRecord(
        adapter="artemis",
        old="1",
        new="2",
        launcher="native",
        downgrade=False,
        to_set={},
        starts=starts,
        refusals=refusals,
    )


@pytest.mark.parametrize(
    ("before", "after", "refused", "code", "standing"),
    [
        ("VIOLATED", "VIOLATED", (), ExitCode.CONFORMANT, Standing.NOT_NEW),
        ("HOLDS", "VIOLATED", (), ExitCode.VIOLATED, Standing.REGRESSION),
        ("INCONCLUSIVE", "INCONCLUSIVE", (), ExitCode.NOTHING_RAN, Standing.STILL_UNDECIDED),
        ("HOLDS", "HARNESS_ERROR", ("killed.1",), ExitCode.VIOLATED, Standing.REGRESSION),
        ("HARNESS_ERROR", "HARNESS_ERROR", ("killed.1",), ExitCode.HARNESS, None),  # the old one did not start either
        # errors of the suite beside the refusal: not everything could be tried
        ("HOLDS", "HARNESS_ERROR", ("killed.1", "stopped.1"), ExitCode.HARNESS, Standing.REGRESSION),
        ("HOLDS", "HARNESS_ERROR", ("killed.1", "killed.2"), ExitCode.HARNESS, Standing.REGRESSION),
    ],
)
def test_what_is_a_regression(before, after, refused, code, standing):
    """A violation or a failed start that the old version alone did not have; only the first trial refused the data."""
    alone = [trial("killed.1", void=before == "HARNESS_ERROR")]
    baseline = model.report(verdict_rows.judgement(row(before), trials=alone, version="1 to 2"))
    upgraded = verdict_rows.judgement(row(after), trials=[trial(name, void=True) for name in refused])
    found = UpgradeExpected(baseline=baseline, today=TODAY, record=record(*refused[:1])).of(upgraded)
    first = next(iter(found.expectations.items), None)

    assert (code, standing) == (found.exit_code, first and first.standing)
    if refused == ("killed.1",) and first:
        assert "The start of 2 on the data of 1 in killed: it did not start in 1 of 1 trials: no" == first.line
        assert "did not start" in found.expectations.means


def test_a_trial_without_the_new_version_says_nothing():
    with pytest.raises(FaultError, match=r"killed\.1 was played without the new version"):
        runs.check_starts([trial("killed.1")], record())
    runs.check_starts([trial("killed.1", void="x"), trial("killed.2", arm="control")], record())


# as a user starts it


@pytest.fixture(scope="module")
def regression(spark_for_all, tmp_path_factory):
    """The bundled broker, whose next version forgets a message of the first transaction: the run and its folder."""
    folder = tmp_path_factory.mktemp("upgrade")
    words = ["--from", "reference", "--to", "reference", "--to-set", "liar=loses-the-oldest", *STANDING_TEXTS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("upgrade-state")))
        patch.setattr("conformance.run.trial.jobs.LIVENESS_S", 5.0)  # as `impatient`
        patch.chdir(folder)
        done = CliRunner().invoke(cli, ["upgrade", *words, "--out", "out"], standalone_mode=False)
    return done, folder / "out"


@pytest.mark.spark
def test_a_new_version_that_forgets(regression):
    """Exit 1; the old version alone holds, and both reports are there."""
    done, out = regression
    before, after = read_report(out / "before"), read_report(out)
    record = json.loads((out / "upgrade.json").read_text())

    assert (1, None) == (done.return_value, done.exception), done.output
    old, new = (
        [row for row in report.verdicts if row.claim == "SOLCD-TX-02" and row.trials] for report in (before, after)
    )
    assert ["HOLDS"] == [str(row.verdict) for row in old]
    assert ["VIOLATED"] == [str(row.verdict) for row in new]
    assert ["conformance replay ."] == [row.replay[:20] for row in new]
    assert (
        "new violations: SOLCD-TX-02 in broker-killed-after-commit: HOLDS in the baseline, VIOLATED now" in done.stdout
    )
    assert after.run.version.endswith(" with liar=loses-the-oldest")
    begun = {start["trial"].rpartition(".")[0] for start in record["starts"]}
    assert {"broker-killed-after-commit.subject", "broker-killed-after-commit.weakened"} == begun
    assert not (out / "alone").exists()


@pytest.mark.spark
@pytest.mark.full
def test_a_regression_is_replayed(regression, conformance, tmp_path):
    """By both versions on the same data, with the line under the violation; it is an upgrade that is replayed again."""
    _, out = regression
    words = ["--scenario", "broker-killed-after-commit", "--trial", "1"]
    done = conformance("replay", out, *words, "--out", tmp_path / "again")
    other = conformance("replay", out, *words, "--adapter", "reference")
    record = json.loads((tmp_path / "again" / "upgrade.json").read_text())

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "seen again in 1 of 1" in done.stdout
    assert ["broker-killed-after-commit.subject.1.again-1"] == [start["trial"] for start in record["starts"]]
    assert {"liar": "loses-the-oldest"} == record["to_set"]
    assert (4, True) == (other.returncode, "the run was an upgrade" in other.stderr), other.stderr


@pytest.mark.spark
@pytest.mark.full
def test_the_bundle_of_a_regression(regression, conformance, tmp_path):
    """Its script starts the new version after the fault: it sees the loss, and none where the next version is honest."""
    _, out = regression
    done = conformance("bundle", f"{out}#broker-killed-after-commit.subject.1", "--out", "bug.zip")
    assert 0 == done.returncode, done.stderr
    with zipfile.ZipFile(tmp_path / "bug.zip") as members:
        found = {name: members.read(name).decode(errors="replace") for name in members.namelist()}
    lying, honest = (
        upgraded(found["reproduce.py"], tmp_path / name, more)
        for name, more in (("lying", ["--liar", "loses-the-oldest"]), ("honest", []))
    )

    assert {"configuration/old/settings.toml", "configuration/new/settings.toml"} <= set(found)
    assert "--then 'python -m conformance.reference" in found["bug.md"]
    assert "=== old/start-1.log" in found["broker.log"]
    assert found["broker.log"].index("=== old/start-1.log") < found["broker.log"].index("=== new/start-1.log")
    assert 1 == lying.returncode, lying.stdout + lying.stderr
    assert 0 == honest.returncode, honest.stdout + honest.stderr


def upgraded(script, folder, more):
    """Run a script as a maintainer would, with a next version that is started with these words."""
    folder.mkdir()
    (folder / "reproduce.py").write_text(script)
    amqp, http = (str(broker_port()) for _ in range(2))
    start = [sys.executable, "-m", "conformance.reference", "--amqp-port", amqp, "--http-port", http]
    start += ["--data", str(folder / "data"), "--queue", "orders"]
    words = ["--address", f"127.0.0.1:{amqp}", "--queue", "orders", "--silence", "1"]
    return subprocess.run(
        [sys.executable, "reproduce.py", *words, "--start", shlex.join(start), "--then", shlex.join([*start, *more])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(paths.root())},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.process
def test_two_files_of_a_user_are_found_again(tmp_path):
    """Each in its part of the folder, with what may have changed since."""
    old, new = (
        toml(tmp_path, name, [("ready_s = 30", f"ready_s = {n}")]) for name, n in (("1.toml", 31), ("2.toml", 32))
    )
    ready = runs.prepare(wanted(old, new, out=tmp_path / "out", to_settings=["journal_buffer_ms=4"], seed=7))
    (tmp_path / "out").mkdir()
    runs.begin(ready.pair, tmp_path / "out")
    run = campaign.run_record(ready.after)

    def opened(part, version, changed):
        return adapters.open_broker(BrokerRequest(artifacts.spec(part, run, version, []), overrides=changed)).adapter

    again = runs.reopen(tmp_path / "out", runs.read(tmp_path / "out"), run.changed, opened)

    assert (old, new) == (again.old.path, again.new.path)
    assert {"journal_buffer_ms": 4} == again.to_set
    assert (31, 32) == (again.old.file.start.ready_s, again.new.file.start.ready_s)
    assert None is runs.read(tmp_path)


@pytest.mark.full
@pytest.mark.spark
def test_a_new_version_that_does_not(regression, conformance):
    """Exit 0, beside the old one's report, which need not be made again."""
    _, out = regression
    words = ["--from", "reference", "--to", "reference", "--to-set", "journal_buffer_ms=4", *STANDING_TEXTS]
    done = conformance("upgrade", *words, "--baseline", out / "before", "--out", "out")

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "SOLCD-TX-02  HOLDS" in done.stdout
    assert "started in 8 trials" in done.stdout


@pytest.mark.full
@pytest.mark.spark
def test_a_new_version_that_refuses_the_data(regression, conformance, tmp_path):
    """Exit 1 with its log, and the data is kept for who wants to look at it."""
    _, out = regression
    file = toml(tmp_path, changes=[REFUSES])
    done = conformance(
        "upgrade", "--from", "reference", "--to", file, *STANDING_TEXTS, "--baseline", out / "before", "--out", "o"
    )
    report = read_report(tmp_path / "o")

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "DID NOT START in 8 trials" in done.stdout
    assert "    | unknown journal" in done.stdout
    assert list((tmp_path / "o" / "brokers").glob("*/old/instance/data/*.journal"))
    assert Standing.REGRESSION is report.expectations.items[0].standing
    assert {"HARNESS_ERROR"} == {str(row.verdict) for row in report.verdicts if row.claim == "SOLCD-TX-02" and row.void}


@pytest.mark.spark
def test_a_baseline_of_another_version(regression, typed):
    """It says nothing of the old one."""
    _, out = regression
    words = ["--from", "artemis@2.44.0", "--to", "artemis", "--baseline", out / "before"]
    done = typed("upgrade", *words)

    assert (4, True) == (done.returncode, "the baseline is about reference over amqp" in done.stderr), done.stderr


@pytest.mark.process
def test_a_new_version_that_starts_nowhere(typed, tmp_path):
    """It is not said to refuse anybody's data; nothing was recorded."""
    file = toml(tmp_path, changes=[('"{python}", "-m", "conformance.reference", "--amqp-port"', '"/bin/false"')])
    done = typed("upgrade", "--from", "reference", "--to", file, *STANDING_TEXTS, "--out", "out")

    assert 3 == done.returncode, done.stdout + done.stderr
    assert "without any data of" in done.stderr
    assert not pathlib.Path(tmp_path / "out" / "before").exists()
