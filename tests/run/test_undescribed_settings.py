"""A broker whose file is silent about a setting or a promise."""

import pytest

from conformance import adapters
from conformance.followup import contract
from conformance.report import model

BROKER = """
name = "undescribed"
title = "Broker without settings"
vendor = "tests"
default_version = "1.0"
capabilities = ["ack_confirmed", "confirm_means_stored", "durable_queues", "individual_ack", "queues", "send_confirmed"]
ports = ["amqp", "http"]

[protocols.amqp]
port = "amqp"
ack_confirm = "disposition"

[start]
command = [
  "{python}", "-m", "conformance.reference", "--amqp-port", "{amqp_port}", "--http-port", "{http_port}",
  "--data", "{data_dir}", "--listen", "{listen}"LIAR,
]
environment = { PYTHONPATH = "{python_path}" }
each_queue = ["--queue", "{queue}"]
ready_log = "^ready amqp="

[depth]
method = "http"
url = "http://127.0.0.1:{http_port}/queues/{queue}"
field = "depth"

[data]
path = "{instance}/data"

[journal]
path = "{instance}/data"
"""
KILLED = "broker-killed-while-sending-one-by-one"
LIAR = ', "--liar", "treats-persistent-as-non-persistent"'
STORES_NOTHING = """
[settings.persistence]
type = "bool"
default = false
fixed = true
description = "it stores nothing."
"""


@pytest.fixture
def run(typed, spark_for_all, impatient, tmp_path):
    def play(toml):
        (tmp_path / "broker.toml").write_text(toml)
        words = ("--claims", "SOLCD-ACK-01", "--scenario", KILLED, "--trials", "1", "--seed", "5")
        done = typed("run", "--adapter", "./broker.toml", *words, "--out", tmp_path / "out")
        return done, model.read_json(tmp_path / "out" / "report.json")

    return play


@pytest.mark.spark
def test_a_broker_that_loses_everything_is_convicted(run):
    """Counter-example: NOT_APPLICABLE and exit 0, because the file has no setting `persistence`."""
    done, report = run(BROKER.replace("LIAR", LIAR))
    found = [row for row in report.verdicts if row.claim == "SOLCD-ACK-01" and row.verdict == "VIOLATED"]

    assert (1, True) == (done.returncode, bool(found)), done.stdout + done.stderr
    assert "does not describe persistence and sync_non_transactional" in found[0].reason


@pytest.mark.spark
def test_what_is_given_up_and_fails_is_on_the_first_screen(run, tmp_path):
    done, report = run(BROKER.replace("LIAR", LIAR) + STORES_NOTHING)
    said = "Not promised by this configuration, and seen to fail: "

    assert 5 == done.returncode, done.stdout + done.stderr
    assert "confirmed messages lost (SOLCD-ACK-01)" in done.stdout.partition(said)[2]
    assert said in report.summary.headline
    assert said in (tmp_path / "out" / "report.html").read_text().partition('<h2 id="doubts">')[0]


STOMP = """
[protocols.stomp]
port = "stomp"
[start]
"""


@pytest.mark.full
@pytest.mark.spark
def test_a_loss_without_a_declared_promise_is_on_the_first_screen(run):
    """Over STOMP no standard promises it. Counter-example: 625 of 825 messages lost, and no line said so."""
    words = {
        '[protocols.amqp]\nport = "amqp"\nack_confirm = "disposition"\n\n[start]': STOMP,
        "--amqp-port": "--stomp-port", "{amqp_port}": "{stomp_port}", "ready amqp=": "ready",
        '["amqp", "http"]': '["stomp", "http"]',
        '"confirm_means_stored", ': "", "LIAR": LIAR,
    }  # fmt: skip
    toml = BROKER
    for old, new in words.items():
        toml = toml.replace(old, new)
    done, report = run(toml)
    said = "Not promised by this configuration, and seen to fail: "

    assert 5 == done.returncode, done.stdout + done.stderr
    assert "confirmed messages lost (SOLCD-ACK-01)" in done.stdout.partition(said)[2]
    assert said in report.summary.headline
    assert "confirm_means_stored" in next(row.reason for row in report.verdicts if row.failed_unpromised)


def test_a_check_of_the_adapter_prints_what_is_assumed(tmp_path):
    path = tmp_path / "broker.toml"
    path.write_text(BROKER.replace("LIAR", ""))
    silent = contract.assumptions(adapters.find(str(path)))
    (tmp_path / "other.toml").write_text(BROKER.replace("LIAR", "") + STORES_NOTHING)

    found = {settings: ids.split(", ") for ids, settings in (line.split(": ") for line in silent)}

    assert {"SOLCD-ACK-01", "AMQP-DUR-01"} <= {*found["persistence, sync_non_transactional"]}
    assert [] == [one for ids in found.values() for one in ids if one.startswith("EXPECT-")]
    assert [] == contract.assumptions(adapters.find(str(tmp_path / "other.toml")))
    assert [] == contract.assumptions(adapters.find("reference"))


def test_a_confirm_over_amqp_means_stored_without_a_word_in_the_file(tmp_path):
    """STOMP promises nothing, so the check names the claims that do not apply."""
    path = tmp_path / "broker.toml"
    path.write_text(BROKER.replace("LIAR", "").replace('"confirm_means_stored", ', ""))
    amqp = adapters.find(str(path))
    other = tmp_path / "other.toml"
    other.write_text(path.read_text().replace("amqp", "stomp"))
    stomp = adapters.find(str(other))

    assert "confirm_means_stored" in amqp.capabilities("amqp")
    assert "confirm_means_stored" not in stomp.capabilities("stomp")
    assert [] == contract.unstored_claims(amqp)
    assert ["over stomp: SOLCD-ACK-01"] == [line.split(",")[0] for line in contract.unstored_claims(stomp)]
