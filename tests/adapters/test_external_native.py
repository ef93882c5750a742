"""A real broker that the test has started is one that runs already: nothing but its address is given."""

import re

import pytest

from conformance import adapters, history, paths
from conformance.adapters import installed, launchers
from conformance.cli import cli
from conformance.errors import UsageError
from conformance.history import Op, Phase, bare_header
from conformance.ledger import Ledger
from conformance.run.plan import Planned
from conformance.run.record import Recording
from conformance.scenario import Check, Drain, Publish, Scenario

STEPS = (Publish(20, window=5), Drain(), Drain())
TEXTS = ("README.md", "docs/external-brokers.md", "docker-compose.yml")
LINES = sorted(
    {
        words
        for name in TEXTS
        for words in re.findall(r"--adapter ([a-z0-9@.]+:external=[a-z]+://[^\s`]+)", (paths.root() / name).read_text())
    }
)
"""The words of every line of these texts that gives an address and nothing else."""

LACKS = installed.missing(adapters.find("rabbitmq").file)


def _messages(folder, op):
    found = [event for path in folder.glob("*.jsonl") for event in history.read(path).events]
    return {event.message for event in found if (event.op, event.phase) == (op, Phase.OK) and event.message}


@pytest.fixture
def tried(tmp_path):
    """Start a broker natively, and play a trial at the addresses that the words then name."""

    def run(name, spec, protocol="amqp"):
        adapter = adapters.find(name)
        with (
            Ledger(tmp_path / "theirs", "theirs") as ledger,
            adapter.prepare(tmp_path / "broker", adapter.effective(), ["unused"], ledger) as broker,
            Ledger(tmp_path / "run", "run-1") as ours,
        ):
            broker.start()
            outside = adapters.find(spec(broker))
            script = Scenario("odd", "", "async_ack", STEPS, {"SOLCD-ACK-02": Check("lost", "confirmed")})
            trial = Planned("odd.1", script, "subject", "", 1, 1, outside, outside.effective(), protocol)
            recording = Recording(tmp_path / "run", bare_header(""), ours)
            try:
                (record,) = recording.record([trial])
            finally:
                recording.close()
        folder = tmp_path / "run" / "trials" / "odd.1"
        assert "" == record.void
        assert {f"p1:{n}" for n in range(1, 21)} == _messages(folder, Op.SEND) == _messages(folder, Op.DRAIN)

    return run


def _at(broker, name, *protocols):
    places = [f"{protocol}://127.0.0.1:{broker.endpoint(protocol)[1]}" for protocol in protocols]
    return f"{name}:external={','.join(places)}" + (f",http://127.0.0.1:{broker.http_port}" if broker.http_port else "")


@pytest.mark.artemis
@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("artemis")])
def test_a_line_of_the_documentation_runs(tried, line):
    """Its addresses are those of the broker of the test."""
    name, _, urls = line.partition(":external=")

    def moved(broker):
        found = [url.partition("://")[0] for url in urls.split(",")]
        return _at(broker, name, *found)

    tried(name, moved)


def test_the_lines_are_those_that_are_run():
    """One that names another broker needs a case of its own; that of EMS needs a client that is not here."""
    assert {line.partition(":")[0].partition("@")[0] for line in LINES} == {"artemis", "ems"}
    assert len(LINES) >= 4


def test_the_bundled_broker_needs_its_management(tried):
    """Without it the next step is said."""
    tried("reference", lambda broker: _at(broker, "reference", "amqp"))


@pytest.mark.activemq
def test_classic_needs_nothing_else(tried):
    tried("activemq", lambda broker: _at(broker, "activemq", "amqp"))


@pytest.mark.qpid
def test_broker_j_is_asked_by_its_management(tried):
    tried("qpid", lambda broker: _at(broker, "qpid", "amqp"))


@pytest.mark.skipif(bool(LACKS), reason=LACKS)
def test_rabbitmq_is_asked_by_its_management(tried):
    tried("rabbitmq", lambda broker: _at(broker, "rabbitmq", "amqp"))


def test_a_management_stands_at_its_usual_port():
    """Of a product that has one; an address that is given goes before."""
    usual = adapters.find("rabbitmq:external=amqp://broker.example:5672").place.rules.urls
    given = adapters.find("qpid:external=amqp://broker.example:5672,http://other:1").place.rules.urls

    assert "http://broker.example:15672" == usual["http"]
    assert "http://other:1" == given["http"]
    assert {"amqp"} == adapters.find("artemis:external=amqp://broker.example:5672").place.rules.urls.keys()


def test_a_management_that_is_missing_is_asked_for(tmp_path):
    """The error says what is missing and the words that have it."""
    adapter = adapters.find("reference:external=amqp://broker.example:5672")
    with (
        Ledger(tmp_path / "run", "run-1") as ledger,
        pytest.raises(
            UsageError,
            match=r"the address of the management is missing: .+ Give it as well: --adapter "
            r"reference:external=amqp://broker\.example:5672,http://HOST:PORT",
        ),
    ):
        adapter.prepare(tmp_path / "broker", adapter.effective(), ["q"], ledger)


@pytest.mark.parametrize(
    ("name", "urls", "said"),
    [
        ("artemis", "amqp://127.0.0.1:5672,stomp://127.0.0.1:61613", "creates_queues = true"),
        ("rabbitmq", "amqp://127.0.0.1:5672", 'http = "http://127.0.0.1:15672"'),
        ("reference", "amqp://[::1]:5672,http://[::1]:80", "creates_queues = true"),
    ],
)
def test_a_first_file_is_written_and_can_be_read(tmp_path, capsys, name, urls, said):
    """It is one that `--adapter NAME:external=FILE` takes, and no file is overwritten."""
    out = tmp_path / "mine.toml"
    cli.main(["init", "external", name, urls, "--out", str(out)], standalone_mode=False)

    assert said in out.read_text()
    assert launchers.EXTERNAL == adapters.find(f"{name}:external={out}").launcher
    assert f"next: conformance adapters check {name}:external={out}" in capsys.readouterr().out
    with pytest.raises(UsageError, match="it exists"):
        cli.main(["init", "external", name, urls, "--out", str(out)], standalone_mode=False)
